"""The analysis that a table itself asks for: a number regressed on columns and products of them.

Chains of regressions learn products from the density, which knows them roughly. Where rows that
lack nothing say clearly that a number is a sum of columns, products and squares, the chains take
that regression for the analysis of the completed tables.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, group_sums, owners
from skpc.imputation.analysis import ProductTerms
from skpc.imputation.regressions import Standardised


class LeftOut(NamedTuple):
    """Least squares, judged by each row when it is left out.

    Parameters
    ----------
    is_clear : bool ndarray of shape (n_terms,)
        Which coefficients are two standard errors from zero.
    log_density : ndarray of shape (n_rows,)
        Normal log density of each value (nats) by the regression on the other rows.
    """

    is_clear: Bools
    log_density: Floats

    @classmethod
    def fit(cls, terms: Floats, values: Floats, weight: Floats) -> Self:
        """Regress values on a constant and terms; one row of a weight of two is left out."""
        standard = Standardised.fit(np.column_stack([np.ones(len(terms)), terms]), weight)
        design = standard.design
        inverse = standard.inverse(weight)
        # The ridge must not draw the mean of the values to zero.
        centred = values - np.average(values, weights=weight)
        coefficients = inverse @ (design.T @ (weight * centred))
        residual = centred - design @ coefficients
        # What is left of a row where its own part in its prediction is taken away.
        rest = 1.0 - ((design @ inverse) * design).sum(axis=1)
        squares = weight @ residual**2
        freedom = weight.sum() - design.shape[1]
        is_clear = coefficients**2 > 4.0 * inverse.diagonal() * squares / freedom
        # Where the relation is exact, the errors are rounding, whose squares may vanish.
        rounding = np.spacing(np.abs(values).max())
        least = max(freedom * rounding**2, SMALLEST_NORMAL)
        others = np.maximum(squares - residual**2 / rest, least)
        variance = others / (freedom - 1.0) / rest
        log_density = -0.5 * (np.log(2.0 * np.pi * variance) + (residual / rest) ** 2 / variance)
        return cls(is_clear[1:], log_density)


def find_model(
    density: Any, rows: Floats, weight: Floats, computed: Sequence[int]
) -> tuple[Any, list[Any]] | None:
    """Find the regression on products that complete rows speak for most, if for any.

    The products have to say more of a number than columns alone, by 1.5 standard errors, and no
    less than the density, by three. Numbers with atoms, whose errors are not normal, are no
    outcomes.

    Parameters
    ----------
    density : Density
        What is known of the rows.
    rows : ndarray of shape (n_rows, n_features)
        Encoded, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    computed : sequence of int
        Columns that are functions of others; they are left out.

    Returns
    -------
    tuple or None
        The outcome and the terms, as :func:`skpc.imputation.analysis.read_analysis` reads them.
    """
    # Terms at most, and rows for each of them at least.
    most_terms = 100
    rows_of_term = 5
    domain = density.domain
    columns = np.setdiff1d(np.flatnonzero(~domain.is_hidden), computed)
    is_complete = ~np.isnan(rows[:, columns]).any(axis=1)
    rows = rows[is_complete]
    weight = weight[is_complete]
    # Terms of each column: a number, or indicators of all categories but one.
    n_terms = np.where(domain.is_categorical, domain.n_states - 1, 1)
    names = range(len(n_terms)) if domain.feature_names is None else domain.feature_names
    best_gain = 0.0
    model = None
    for outcome in columns[~domain.is_categorical[columns]].tolist():
        others = columns[columns != outcome]
        n_alone = n_terms[others].sum()
        n_terms_in_all = n_alone * (n_alone + 3) / 2
        is_fit = 0 < n_terms_in_all <= min(most_terms, weight.sum() / rows_of_term)
        if is_fit and not len(domain[outcome].law.atoms):
            # To a density a row may be impossible: then all means are infinite, or no numbers.
            with np.errstate(invalid="ignore"):
                gain, terms = _with_products(density, rows, weight, outcome, others.tolist())
            if gain > best_gain:
                best_gain = gain
                model = names[outcome], [tuple(names[k] for k in columns) for columns in terms]
    return model


def _with_products(
    density: Any, rows: Floats, weight: Floats, outcome: int, others: list[int]
) -> tuple[float, list[tuple[int, ...]]]:
    """What clear products gain in the regression of an outcome, zero if too little; its terms."""
    domain = density.domain
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    alone: list[tuple[int, ...]] = [(column,) for column in others]
    # The square of an indicator is the indicator.
    products = [
        pair
        for pair in combinations_with_replacement(others, 2)
        if pair[0] != pair[1] or not domain.is_categorical[pair[0]]
    ]

    def regression(pairs: list[tuple[int, int]]) -> LeftOut:
        terms = ProductTerms((*alone, *pairs), tuple(n_states.tolist()))
        return LeftOut.fit(terms(rows), rows[:, outcome], weight)

    terms = [*alone, *products]
    term = owners([int(np.maximum(n_states[[*columns]] - 1, 1).prod()) for columns in terms])
    is_clear = group_sums(term, regression(products).is_clear)[len(alone) :] > 0.0
    clear = [pair for pair, is_kept in zip(products, is_clear) if is_kept]
    log_density = regression(clear).log_density
    gains = log_density - regression([]).log_density
    leads = log_density - density.log_density(rows, np.array(others))
    (gain, lead), (gain_error, lead_error) = _means(np.array([gains, leads]), weight)
    # By chance that is one sum of columns in two hundred, whether its errors are normal or have
    # long tails. The density has learned from the rows that judge: it may lead by a little more.
    is_better = gain > 1.5 * gain_error and lead > -3.0 * lead_error
    return float(gain) if is_better else 0.0, [*alone, *clear]


def _means(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Weighed means of lines of values, and their standard errors."""
    mean = np.average(values, axis=1, weights=weight)
    squares = (values - mean[:, np.newaxis]) ** 2
    return mean, np.sqrt(np.average(squares, axis=1, weights=weight) / weight.sum())
