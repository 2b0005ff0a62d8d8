"""Densities of rows together with their gaps: which of their cells are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools, Floats
from skpc._cells import ScoredRows, missing_in, without_cells
from skpc._fitting import all_or_nothing
from skpc._validation import (
    HasMethods,
    check_n_samples,
    check_table,
    check_weight,
    fit_context,
    missing_cells,
)
from skpc.domain import merge_rows, present_rows, read_events
from skpc.domain.given import as_given_row, restore_given_numbers


class WithGaps(ScoredRows):
    """A density of rows together with their gaps: which of their cells are missing.

    Beside the values it learns an indicator for each column with gaps, a column of two states, so
    that draws have gaps where rows would have them.

    Parameters
    ----------
    density : density estimator
        The model of values and gaps, such as :class:`~skpc.SoftLearnSPN` or
        :class:`~skpc.HiddenForest`. It is cloned, and fitted by its ``prepare`` and ``fit_rows``.

    Attributes
    ----------
    density_ : density estimator
        The fitted density of encoded rows, with the columns of gaps at the end.
    domain_ : Domain
        What the columns of the table are.
    gaps_ : list of ndarray
        The columns of each group whose gaps are the same in all rows; there is one column of two
        states for each.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    RuledDensity : A density of rows that keep rules.
    table_report : Compares drawn tables with real ones.

    Notes
    -----
    The density is p(observed values, gaps): values under gaps are summed out in learning, so that
    what the gaps say of the observed values is learned. What value stands under a gap is not
    identified by data, and nothing here depends on it: draws do not have it, and ``complete`` is
    refused. Where a density is to fill gaps, take it alone.

    Examples
    --------
    Incomes above 2 are not told:

    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.synthesis import WithGaps
    >>> age, noise = np.random.default_rng(0).normal(size=(2, 1000))
    >>> income = age + 0.5 * noise
    >>> X = np.column_stack([age, np.where(income > 1.0, np.nan, income)])
    >>> model = WithGaps(CutsetNetworkBD()).fit(X)
    >>> drawn = model.sample(1000, random_state=0)
    >>> is_gap = np.isnan(drawn[:, 1])
    >>> bool(drawn[is_gap, 0].mean() > drawn[~is_gap, 0].mean() + 1.0)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "density": [HasMethods(["prepare", "fit_rows"])],
    }

    def __init__(self, density: Any):
        self.density = density

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to values and gaps.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks the gaps.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        WithGaps
            The fitted estimator.

        Raises
        ------
        ValueError
            As the density.
        """
        with all_or_nothing(self):
            table = check_table(self, X, reset=True)
            weight = check_weight(sample_weight, len(table))
            # Rows of weight zero must not add gaps.
            table, weight = present_rows(table, weight)
            density = clone(self.density)
            self.domain_ = density.prepare(table, weight)[0]
            is_gap = missing_in(table)
            # A column without any value has nothing to draw, with gaps or without.
            gap_columns = np.flatnonzero(is_gap.any(axis=0) & ~is_gap.all(axis=0))
            # Columns whose gaps are always the same share one indicator.
            patterns, group = np.unique(is_gap[:, gap_columns], axis=1, return_inverse=True)
            self.gaps_ = [gap_columns[group == number] for number in range(patterns.shape[1])]
            domain = self.domain_
            # Each indicator is one more column, a category of two states.
            for _ in self.gaps_:
                domain = domain.with_category(2)
            rows = self._with_gaps(self.domain_.encode(table), is_gap)
            # Equal rows are merged after their gaps have been added to them.
            self.density_ = density.fit_rows(domain, *merge_rows(rows, weight))
        return self

    def sample(
        self,
        n_samples: int = 1,
        random_state: Any = None,
        given: Any = None,
        missing: Any = (),
    ) -> Any:
        """Draw rows with their gaps.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows.
        given : dict, array-like, pandas Series or DataFrame of one row, default=None
            The known cells of the rows, as in :meth:`skpc.CutsetNetworkBD.sample`: values, ranges
            and sets. These cells are there.
        missing : array-like, set, int or str, default=()
            Columns whose cells are missing in all rows: a name, a number, several of them, or a
            boolean mask. All other gaps are drawn.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Rows in original units, with gaps.

        Raises
        ------
        ValueError
            If a column of ``missing`` had no gap in ``fit``, or is given; or as the density.
        """
        check_is_fitted(self)
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        if given is None:
            given = {}
        elif not isinstance(given, Mapping):
            given = dict(enumerate(as_given_row(self.domain_, given)[0]))
        events, row = read_events(self.domain_, given, "given", values_are_known=True)
        states = self._known_gaps(given, [*missing] if isinstance(missing, set) else missing)
        # The indicators follow the columns of the table.
        known = events.with_cells(np.hstack([events.rows, states]))
        density = self.density_.row_density
        # Impossible evidence is refused before anything is drawn.
        if np.isneginf(density.log_density(known)[0]):
            raise ValueError(
                f"given and missing must be possible together; found given={given!r} and "
                f"missing={missing!r}, which have probability zero."
            )
        # Draws without evidence are faster.
        is_asked = events.has_intervals or not np.isnan(known.rows).all()
        drawn = density.draw(n_samples, random_state, known if is_asked else None)
        n_features = self.n_features_in_
        is_gap = np.zeros((n_samples, n_features), dtype=bool)
        for number, columns in enumerate(self.gaps_):
            # Cells under gaps were drawn as well; they are taken out at the end.
            is_gap[:, columns] = drawn[:, [n_features + number]] == 1.0
        rows = restore_given_numbers(self.domain_, drawn[:, :n_features], row)
        table = self.domain_.decode(self.domain_.draw_row_names(rows, random_state, row))
        return without_cells(table, is_gap) if is_gap.any() else table

    def score_samples(self, X: Any) -> Floats:
        """Log density of the observed values of each row and of its gaps.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks the gaps.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the base measure of the density on the observed
            cells, and to counting gaps. A gap in a column that had none in ``fit``, or apart from
            those that came with it there, is summed out.
        """
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        rows, mass = self.domain_.encode_with_mass(table)
        # Missing cells are integrated out; the indicators count the gaps.
        rows = self._with_gaps(rows, missing_in(table))
        return mass.with_rows(self.density_.row_density.log_density(rows), None)

    @property
    def complete(self) -> NoReturn:
        """Refused: no data tell the values under gaps."""
        raise AttributeError(
            "WithGaps learns which cells are missing, and no data tell the values under them. Fit "
            "the density alone to complete rows: that is right where a gap does not depend on its "
            "value, given the observed cells."
        )

    def _with_gaps(self, rows: Floats, is_gap: Bools) -> Floats:
        """Encoded rows with their indicators, shape (n_rows, n_features + n_groups)."""
        # An indicator is missing where columns of its group differ, which they did not in fit.
        states = np.full((len(rows), len(self.gaps_)), np.nan)
        for number, columns in enumerate(self.gaps_):
            states[is_gap[:, columns].all(axis=1), number] = 1.0
            states[~is_gap[:, columns].any(axis=1), number] = 0.0
        return np.hstack([rows, states])

    def _known_gaps(self, given: Mapping[Any, Any], missing: Any) -> Floats:
        """The indicators that ``given`` and ``missing`` tell, the others NaN; (1, n_groups)."""
        states = np.full((1, len(self.gaps_)), np.nan)
        # A given cell may be NaN, which says nothing about its gap.
        is_stated = ~missing_cells(np.fromiter(given.values(), dtype=object, count=len(given)))
        stated = [column for column, has_statement in zip(given, is_stated) if has_statement]
        present = self.domain_.column_numbers_of(stated, "given")
        absent = self.domain_.column_numbers_of(missing, "missing")
        # Only gaps that fit has seen can be asked for.
        for column in absent.tolist():
            if not any(column in columns for columns in self.gaps_):
                where = self.domain_[column].where
                raise ValueError(f"missing must name columns that had gaps in fit; found {where}.")
        for number, columns in enumerate(self.gaps_):
            is_present = np.isin(columns, present).any()
            is_absent = np.isin(columns, absent).any()
            if is_present and is_absent:
                raise ValueError(
                    "missing and given must not be about the same cells, or about cells whose gaps "
                    f"were the same in fit; found both for {self.domain_[columns[0]].where}."
                )
            # Other groups stay NaN.
            if is_present or is_absent:
                states[0, number] = float(is_absent)
        return states
