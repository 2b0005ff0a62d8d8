"""Choosing among densities by how well they predict removed cells of rows that are held out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from operator import methodcaller
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, group_sums
from skpc._fitting import best_of
from skpc._threads import in_threads, slices
from skpc.densities import Density
from skpc.domain import Domain, canonical_order, column_moments
from skpc.learning.held_out import deal
from skpc.pooling.folds import Fold
from skpc.variables import Predictive

#: With fewer distinct rows than this densities are not compared.
FEWEST_ROWS = 20
#: Number of rows whose posteriors are held at a time.
_ROWS = 1024


def fit_best(
    candidates: Sequence[Any],
    domain: Domain,
    rows: Floats,
    weight: Floats,
    random_state: Any,
    worth: float,
) -> Any:
    """Fit the first candidate, unless the :func:`log_score` of another is better by ``worth``.

    All candidates learn from 80 % of the rows, and predict 30 % of the cells of the other rows
    from the remaining cells of each row. The best one then learns from all rows.

    Parameters
    ----------
    candidates : sequence of density estimators
    domain : Domain
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows.
    weight : ndarray of shape (n_rows,)
    random_state : int, RandomState instance or None
        Seeds which rows are held out, and which of their cells are removed.
    worth : float
        In nats a cell.
    """
    if len(candidates) == 1 or len(rows) < FEWEST_ROWS:
        return candidates[0].fit_rows(domain, rows, weight)
    order = canonical_order(rows, weight, domain.is_categorical)
    data = domain, *order.arranged(rows, weight)
    fitted, test_data = fit_to_parts(candidates, data, random_state, 1, 1)[0]
    # A density that is zero at a row and at its remaining cells has the score NaN.
    scores = np.nan_to_num(
        [log_score(member.row_density, *test_data) for member in fitted], nan=-np.inf
    )
    scores[0] += worth
    best = best_of(range(len(scores)), scores.__getitem__, np.inf)
    return fitted[best].refit(domain, rows, weight)


def fit_to_parts(
    candidates: Sequence[Any],
    data: tuple[Domain, Floats, Floats],
    random_state: Any,
    n_masks: int,
    n_parts: int,
) -> list[tuple[list[Any], tuple[Floats, Floats, Floats]]]:
    """Fit all candidates to 80 % of the rows, several times; see :func:`fit_best`.

    Parameters
    ----------
    candidates : sequence of density estimators
        A fitted candidate keeps its choices, such as a number of components; so do all of them
        after the first part.
    data : tuple
        A domain, rows and weights.
    random_state : int, RandomState instance or None
    n_masks : int
        Number of copies of each held-out row, each with other cells removed.
    n_parts : int
        Number of parts that are held out, one after another; at most five.

    Returns
    -------
    list of tuple
        For each part, the fitted candidates; and the held-out rows as they are, their weights, and
        the same rows with cells removed.
    """
    held_fraction = 0.2
    removed_fraction = 0.3
    domain, rows, weight = data
    random_state = check_random_state(random_state)
    # Columns that are hidden from learners do not count.
    visible_rows = np.where(domain.is_hidden, np.nan, rows)
    parts = []
    for split in islice(deal(weight, 1.0 / held_fraction, random_state), n_parts):
        fold = Fold.from_split(rows, split, [removed_fraction] * n_masks, random_state)
        train_weight = fold.train_weight
        # Bins that depend on held-out rows would favour densities with bins.
        train_data = domain.with_axes_of(rows, train_weight), rows, train_weight
        candidates = in_threads(methodcaller("refit", *train_data), candidates)
        test_data = visible_rows[fold.test_index], fold.test_weight, fold.test_rows
        parts.append((candidates, test_data))
    return parts


def log_score(density: Density, rows: Floats, weight: Floats, masked_rows: Floats) -> float:
    """Mean log density of a removed cell given the remaining cells of its row, in nats.

    ``masked_rows`` are ``rows`` (n_rows, n_features) with cells removed. Scores can be compared
    between densities with the same domain, which have the same base measure.
    """
    n_removed = weight @ (np.isnan(masked_rows) & ~np.isnan(rows)).sum(axis=1)
    if n_removed == 0.0:
        return 0.0
    # Where both densities of a row underflow to zero, the difference is NaN.
    with np.errstate(invalid="ignore"):
        gain = density.log_density(rows) - density.log_density(masked_rows)
    return float(weight @ gain / n_removed)


def prediction_errors(
    density: Density,
    rows: Floats,
    weight: Floats,
    masked_rows: Floats,
    variance: Floats,
    is_categorical: Bools,
) -> list[Floats]:
    """Errors with which a density predicts removed cells: of numbers, and of categories.

    A number is predicted by its posterior mean; a category has an error for each of its indicators,
    which are predicted by posterior probabilities. The errors are scaled: the squares of either
    kind sum to the proportion of variance that is not explained.

    ``masked_rows`` are ``rows`` (n_rows, n_features) with cells removed. ``variance`` (n_features,)
    is that of all rows (see :func:`column_variances`): where a few values are extreme, the variance
    of the held-out rows would be too small. Columns of variance zero are left out.
    """
    removed = np.isnan(masked_rows) & ~np.isnan(rows) & (variance > 0.0)
    columns = np.flatnonzero(removed.any(axis=0)).tolist()
    errors = [[np.empty(0)], [np.empty(0)]]
    # The root of the share of each row in the removed cells, of numbers and of categories.
    root_shares = [
        np.sqrt(weight / max(weight @ removed[:, is_kind].sum(axis=1), SMALLEST_NORMAL))
        for is_kind in (~is_categorical, is_categorical)
    ]
    for part in slices(len(rows), _ROWS):
        for column, cells in zip(columns, density.posteriors(masked_rows[part], columns)):
            is_removed = removed[part, column]
            # Only removed cells need means: all others count as known, which saves integrals.
            cells = replace(cells, known=np.where(is_removed, np.nan, 0.0))
            kind = int(is_categorical[column])
            scale = root_shares[kind][part] / np.sqrt(variance[column])
            error = _errors(cells, rows[part, column]) * scale[:, np.newaxis]
            errors[kind].append(error[is_removed].ravel())
    return [np.concatenate(parts) for parts in errors]


def _errors(cells: Predictive, truth: Floats) -> Floats:
    """Errors of the means of numbers, (n_rows, 1), or of probabilities, (n_rows, n_categories)."""
    if cells.labels is None:
        return (cells.mean() - truth)[:, np.newaxis]
    prob = cells.probabilities
    return prob - (truth[:, np.newaxis] == np.arange(prob.shape[1]))


def column_variances(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Variance of each number; for each category, the summed variances of its indicators."""
    varies = np.fmax.reduce(rows) > np.fmin.reduce(rows)
    variance = np.where(varies, column_moments(rows, weight)[1] ** 2, 0.0)
    for column in np.flatnonzero(varies & domain.is_categorical):
        known = ~np.isnan(rows[:, column])
        count = group_sums(rows[known, column].astype(np.int64), weight[known])
        variance[column] = 1.0 - ((count / count.sum()) ** 2).sum()
    return variance
