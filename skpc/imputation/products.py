"""Finding an analysis with products of columns, for chains whose user names no analysis.

Chains of regressions know products of columns only as well as their density does. Where complete
rows show clearly that a number is a sum of columns, products and squares, this regression is taken
as the analysis of the completed tables (:mod:`skpc.imputation.analysis`).
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, group_sums, owners
from skpc.imputation.regressions import Standardised
from skpc.imputation.terms import ProductTerms


class LeaveOneOut(NamedTuple):
    """A regression by least squares, and how well it predicts each row from the others.

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
        """Regress values on a constant and terms; of a row of weight two, one row is left out."""
        standard = Standardised.fit(np.column_stack([np.ones(len(terms)), terms]), weight)
        design = standard.design
        inverse = standard.inverse(weight)
        # The ridge of the inverse must not shrink the mean of the values.
        centred = values - np.average(values, weights=weight)
        coefficients = inverse @ (design.T @ (weight * centred))
        residual = centred - design @ coefficients
        # One minus the leverage of each row, (n_rows,).
        unexplained = 1.0 - ((design @ inverse) * design).sum(axis=1)
        squares = weight @ residual**2
        freedom = weight.sum() - design.shape[1]
        is_clear = coefficients**2 > 4.0 * inverse.diagonal() * squares / freedom
        # The errors of an exact relation are rounding errors, whose squares may underflow.
        rounding = np.spacing(np.abs(values).max())
        least_squares = max(freedom * rounding**2, SMALLEST_NORMAL)
        squares_without_row = np.maximum(squares - residual**2 / unexplained, least_squares)
        variance = squares_without_row / (freedom - 1.0) / unexplained
        error = residual / unexplained
        log_density = -0.5 * (np.log(2.0 * np.pi * variance) + error**2 / variance)
        return cls(is_clear[1:], log_density)


def find_model(
    density: Any, rows: Floats, weight: Floats, computed: Sequence[int]
) -> tuple[Any, list[Any]] | None:
    """Find the regression whose products predict complete rows best, if any predict them well.

    A regression with products has to predict a number better than without them, by 1.5 standard
    errors, and not worse than the density by more than three. Numbers with atoms, whose errors are
    not normal, are no outcomes.

    Parameters
    ----------
    density : Density
        A density that was learned from the rows.
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
    # The greatest number of terms, and the least number of rows for each of them.
    max_terms = 100
    rows_a_term = 5
    domain = density.domain
    columns = np.setdiff1d(np.flatnonzero(~domain.is_hidden), computed)
    is_complete = ~np.isnan(rows[:, columns]).any(axis=1)
    rows = rows[is_complete]
    weight = weight[is_complete]
    # Terms of each column: a number, or indicators of all categories but one.
    n_terms = np.where(domain.is_categorical, domain.n_states - 1, 1)
    names = domain.feature_names or range(len(n_terms))
    best_gain = 0.0
    model = None
    for outcome in columns[~domain.is_categorical[columns]].tolist():
        predictors = columns[columns != outcome]
        n_single = n_terms[predictors].sum()
        n_with_products = n_single * (n_single + 3) / 2
        has_enough_rows = 0 < n_with_products <= min(max_terms, weight.sum() / rows_a_term)
        if has_enough_rows and not len(domain[outcome].law.atoms):
            # Where a row is impossible under the density, the means are infinite or NaN.
            with np.errstate(invalid="ignore"):
                gain, terms = _with_products(density, rows, weight, outcome, predictors.tolist())
            if gain > best_gain:
                best_gain = gain
                model = names[outcome], [tuple(names[k] for k in columns) for columns in terms]
    return model


def _with_products(
    density: Any, rows: Floats, weight: Floats, outcome: int, predictors: list[int]
) -> tuple[float, list[tuple[int, ...]]]:
    """The gain of a regression by products, and its terms; the gain is zero where it is unclear.

    Of all products, those whose coefficients are clearly not zero are kept.
    """
    domain = density.domain
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    single: list[tuple[int, ...]] = [(column,) for column in predictors]
    # A category has no square: the square of an indicator is the indicator.
    products = [
        pair
        for pair in combinations_with_replacement(predictors, 2)
        if pair[0] != pair[1] or not domain.is_categorical[pair[0]]
    ]

    def regression(pairs: list[tuple[int, int]]) -> LeaveOneOut:
        terms = ProductTerms((*single, *pairs), tuple(n_states.tolist()))
        return LeaveOneOut.fit(terms(rows), rows[:, outcome], weight)

    terms = [*single, *products]
    # The number of the term that each column of the design belongs to: categories have several.
    term = owners([int(np.maximum(n_states[[*columns]] - 1, 1).prod()) for columns in terms])
    is_clear = group_sums(term, regression(products).is_clear)[len(single) :] > 0.0
    clear = [pair for pair, is_kept in zip(products, is_clear) if is_kept]
    log_density = regression(clear).log_density
    gains = log_density - regression([]).log_density
    leads = log_density - density.log_density(rows, np.array(predictors))
    (gain, lead), (gain_error, lead_error) = _means(np.array([gains, leads]), weight)
    # If there are no products, one table in two hundred passes both tests by chance, with normal
    # errors and with long tails. The second is lenient, as the density has learned from these rows.
    is_better = gain > 1.5 * gain_error and lead > -3.0 * lead_error
    return float(gain) if is_better else 0.0, [*single, *clear]


def _means(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Weighted means over rows, and their standard errors; values of shape (n_means, n_rows)."""
    mean = np.average(values, axis=1, weights=weight)
    squares = (values - mean[:, np.newaxis]) ** 2
    return mean, np.sqrt(np.average(squares, axis=1, weights=weight) / weight.sum())
