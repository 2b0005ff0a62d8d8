"""Terms of a regression: products of columns, or the right side of a formula.

Both kinds are called with encoded rows, and return a number for each row and term.
"""

from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats
from skpc.domain import Domain


class ProductTerms(NamedTuple):
    """Terms that are products of columns: of numbers, and of indicators of categories.

    Parameters
    ----------
    products : tuple of tuple of int
        The columns of each term; a column that comes twice is squared.
    n_states : tuple of int
        Number of categories of each column, zero for numbers. The first category has no indicator.
    """

    products: tuple[tuple[int, ...], ...]
    n_states: tuple[int, ...]

    def __call__(self, rows: Floats) -> Floats:
        """The terms of encoded rows; shape (n_rows, n_terms)."""
        terms = []
        for columns in self.products:
            product = np.ones((len(rows), 1))
            for column in columns:
                factor = rows[:, [column]]
                if self.n_states[column]:
                    factor = (factor == np.arange(1.0, self.n_states[column])).astype(np.float64)
                # Each term so far times each of the column, shape (n_rows, n_terms * n_indicators).
                product = (product[:, :, np.newaxis] * factor[:, np.newaxis]).reshape(len(rows), -1)
            terms.append(product)
        return np.concatenate(terms, axis=1)


class FormulaTerms(NamedTuple):
    """The right side of a formula, as formulaic or patsy has read it.

    Parameters
    ----------
    right : str
        The right side of the formula.
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Complete encoded rows with which the formula was read.
    spec : formulaic.ModelSpec or patsy.DesignInfo
        The terms as the library has read them.
    """

    right: str
    domain: Domain
    rows: Floats
    spec: Any

    @classmethod
    def fit(cls, right: str, domain: Domain, rows: Floats) -> Self:
        """Read the right side of a formula."""
        table = domain.decode(rows)
        with suppress(ImportError):
            from formulaic import model_matrix

            return cls(right, domain, rows, model_matrix(right, table).model_spec)
        try:
            from patsy import dmatrix
        except ImportError as error:
            raise ImportError(
                "A formula needs formulaic or patsy; install one of them, or give the model as a "
                "pair of an outcome and a list of predictors."
            ) from error
        return cls(right, domain, rows, dmatrix(right, _arrays(table)).design_info)

    def __call__(self, rows: Floats) -> Floats:
        """The terms of encoded rows; shape (n_rows, n_terms)."""
        table = self.domain.decode(self.domain.within_ends(rows))
        if hasattr(self.spec, "get_model_matrix"):
            terms = self.spec.get_model_matrix(table)
        else:
            from patsy import build_design_matrices

            terms = build_design_matrices([self.spec], _arrays(table))[0]
        terms = np.asarray(terms, dtype=np.float64)
        if len(terms) != len(rows) or not np.isfinite(terms).all():
            raise ValueError(
                f"The formula must give finite terms for all cells that its columns can have; "
                f"'{self.right.strip()}' does not. Leave out columns that are empty or name the "
                "rows, and state the bounds of numbers in the domain, as bounds={'x': (0, None)}."
            )
        return terms

    def __reduce__(self) -> tuple[Any, ...]:
        # Terms read by patsy cannot be pickled, and are read again.
        return FormulaTerms.fit, (self.right, self.domain, self.rows)


def _arrays(table: Any) -> dict[Any, Any]:
    """The columns of a DataFrame of any library, as patsy reads them."""
    return {name: np.asarray(table[name]) for name in table.columns}


def read_formula(formula: str, domain: Domain, rows: Floats) -> tuple[str, FormulaTerms]:
    """The outcome of a formula, and its terms."""
    names = domain.feature_names
    if names is None:
        raise ValueError(f"A formula needs a table with names of columns; found {formula!r}.")
    outcome, separator, right = formula.partition("~")
    outcome = outcome.strip()
    if not separator or outcome not in names:
        raise ValueError(
            "The left side of the formula must be the name of a column, as in 'y ~ x'; found "
            f"{formula!r}."
        )
    try:
        terms = FormulaTerms.fit(right, domain, rows)
    # A missing library is no fault of the formula.
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"The formula {formula!r} cannot be read: {error}") from error
    return outcome, terms
