"""Rows that are held out of learning, and asked with cells removed: what models are compared on.

Members of a pool are learned once for each fold, from the weight of the other folds, and asked
about the rows of the fold: as they are, and with more of their cells removed at random. Default
densities are compared on one part that is held out, by how well they predict its removed cells
(:func:`fit_best`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, gen_batches

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, copies, group_sums
from skpc._fitting import best_of
from skpc._threads import in_threads
from skpc.densities import Density
from skpc.domain import Domain, canonical_order, column_moments
from skpc.learning.held_out import HeldOutSplit, deal
from skpc.queries import Events
from skpc.variables import Predictive

#: Number of folds, where nothing else is said; of fewer rows some remain empty.
_USUAL = 5
#: ... of about this many rows.
_HELD_OUT = 5_000
_REMOVED = 0.3
#: With fewer distinct rows than this densities are not compared.
FEWEST = 20
#: Rows that are asked about at a time.
_ROWS = 1024


class Fold(NamedTuple):
    """Some rows that are held out together, and what is left to learn from.

    Attributes
    ----------
    train_weight : ndarray of shape (n_rows,)
        The weight of each row that is left to learn from.
    test_index : ndarray of shape (n_test_rows,), int
        The numbers of the test rows: those held out, for each rate as often as their weight says,
        but 20 times at most.
    test_weight : ndarray of shape (n_test_rows,)
        Their weights; over all rates those of a row sum to what is held out of it.
    test_rows : ndarray of shape (n_test_rows, n_features)
        The rows with cells removed, those of one rate after those of another.
    """

    train_weight: Floats
    test_index: Ints
    test_weight: Floats
    test_rows: Floats

    @classmethod
    def from_split(
        cls,
        rows: Floats,
        split: HeldOutSplit,
        rates: Sequence[float],
        random_state: np.random.RandomState,
    ) -> Self:
        """Remove cells at each rate from the rows that are held out."""
        train_weight, held = split
        index = np.flatnonzero(held)
        # Greatest number of times that a row is asked at each rate.
        most_copies = 20
        # A heavy row stands for several, which would not lack the same cells.
        n_copies = np.minimum(copies(held[index]), most_copies)
        share = np.repeat(held[index] / n_copies, n_copies) / len(rates)
        index = np.repeat(index, n_copies)
        test_rows = [remove_cells(rows[index], rate, random_state) for rate in rates]
        index = np.tile(index, len(rates))
        share = np.tile(share, len(rates))
        return cls(train_weight, index, share, np.concatenate(test_rows))


def make_folds(
    rows: Floats,
    weight: Floats,
    group: Ints,
    splits: int | list[HeldOutSplit],
    rates: Sequence[float],
    random_state: np.random.RandomState,
) -> list[Fold]:
    """Deal rows into folds, and remove cells from those that are held out.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    group : ndarray of shape (n_rows,), int
        Groups that are spread evenly over the folds, such as classes; in rows that are dealt, no
        group is held out as a whole.
    splits : int or list of HeldOutSplit
        A number of folds to deal the rows into (of many rows one fold is returned), or weights to
        learn from and to hold out, see :func:`given_splits`.
    rates : sequence of float
        Proportions of cells to remove.
    random_state : RandomState instance

    Returns
    -------
    list of Fold
        Without folds that hold out nothing, or leave nothing to learn from.
    """
    # Where distinct rows are more than this, one part is held out instead of folds ...
    folds_until = 10_000
    if not isinstance(splits, list):
        if splits > max(weight.sum(), _USUAL):
            raise ValueError(f"cv={splits} must be at most the number of rows, {weight.sum():g}.")
        are_many = len(rows) > folds_until
        n_folds = max(splits, len(rows) // _HELD_OUT) if are_many else splits
        dealt = deal(weight, n_folds, random_state, group)
        splits = list(islice(dealt, 1 if are_many else None))
    return [
        Fold.from_split(rows, (train_weight, held), rates, random_state)
        for train_weight, held in splits
        if train_weight.any() and held.any()
    ]


def given_splits(
    cv: Any, X: Any, y: Any, sample_weight: Any, distinct: Ints, is_classifier: bool
) -> int | list[HeldOutSplit]:
    """The folds that a parameter ``cv`` asks for.

    Parameters
    ----------
    cv : int, splitter of scikit-learn, or iterable of (train, test) row numbers
    X, y : array-like of shape (n_samples, ...)
        Rows and targets as they came.
    sample_weight : array-like of shape (n_samples,) or None
    distinct : ndarray of shape (n_present,), int
        For each row of positive weight, its number among the distinct rows.
    is_classifier : bool

    Returns
    -------
    int or list of HeldOutSplit
        An int as it is; otherwise pairs of the weights of the distinct rows.
    """
    if cv is None or isinstance(cv, Integral):
        return int(cv or _USUAL)
    # Rows without weight are not among the distinct ones.
    number = np.full(len(X), -1)
    weight = np.ones(len(number)) if sample_weight is None else np.asarray(sample_weight, float)
    number[weight > 0.0] = distinct

    def total(chosen: Ints) -> Floats:
        chosen = np.asarray(chosen)[number[chosen] >= 0]
        return group_sums(number[chosen], weight[chosen], distinct.max() + 1)

    pairs = [*check_cv(cv, y, classifier=is_classifier).split(np.zeros((len(number), 1)), y)]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(part for pair in pairs for part in pair)])
    if not pairs or not ((rows >= -len(number)) & (rows < len(number))).all():
        raise ValueError(
            f"cv must have at least one pair (train, test) of numbers of the {len(number)} rows; "
            f"got {cv!r}."
        )
    return [(total(train), total(test)) for train, test in pairs]


def remove_cells(rows: Floats, rate: float, random_state: np.random.RandomState) -> Floats:
    """Remove each cell of the rows with this probability; missing cells stay missing."""
    if rate == 0.0:
        return rows
    return np.where(random_state.random_sample(rows.shape) < rate, np.nan, rows)


def observed_fraction(rows: Any, domain: Domain) -> Floats:
    """The proportion of cells of each row of which something is known, of columns learners see."""
    stated = Events.of(rows).are_stated()
    shown = ~domain.is_hidden
    if not shown.any():
        return np.ones(len(stated))
    return stated[:, shown].mean(axis=1)


def fit_best(
    candidates: Sequence[Any],
    domain: Domain,
    rows: Floats,
    weight: Floats,
    random_state: Any,
    worth: float,
) -> Any:
    """Fit the first candidate, unless the :func:`log_score` of another is better by ``worth``.

    All learn from 80 % of the rows; they are asked about 30 % of the cells of the other rows given
    the rest of their row. The best learns from all rows in the end.

    Parameters
    ----------
    candidates : sequence of density estimators
    domain : Domain
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows.
    weight : ndarray of shape (n_rows,)
    random_state : int, RandomState instance or None
        Seeds what is held out and removed.
    worth : float
    """
    if len(candidates) == 1 or len(rows) < FEWEST:
        return candidates[0].fit_rows(domain, rows, weight)
    order = canonical_order(rows, weight, domain.is_categorical)
    data = domain, *order.arranged(rows, weight)
    fitted, test_data = fit_to_parts(candidates, data, random_state, 1, 1)[0]
    # Nothing speaks for a density that vanishes.
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
        One that is fitted already keeps what it has chosen, as all do from the first part on.
    data : tuple
        A domain, rows and weights.
    random_state : int, RandomState instance or None
    n_masks : int
        How often the rows that are held out are there, each time with other cells removed.
    n_parts : int
        How many parts are held out one after another, at most five.

    Returns
    -------
    list of tuple
        For each part the fitted candidates, and the rows that are held out, their weights, and
        what is left of them.
    """
    # Fraction of the rows by which densities are compared, and of their cells that are removed.
    compared = 0.2
    domain, rows, weight = data
    random_state = check_random_state(random_state)
    # Columns that no learner sees do not count.
    shown = np.where(domain.is_hidden, np.nan, rows)
    parts = []
    for split in islice(deal(weight, 1.0 / compared, random_state), n_parts):
        fold = Fold.from_split(rows, split, [_REMOVED] * n_masks, random_state)
        train_weight = fold.train_weight
        # Axes that held-out rows have a part in would speak for densities with bins.
        train_data = domain.with_axes_of(rows, train_weight), rows, train_weight
        candidates = in_threads(_refitted, ((density, *train_data) for density in candidates))
        parts.append((candidates, (shown[fold.test_index], fold.test_weight, fold.test_rows)))
    return parts


def _refitted(task: tuple[Any, ...]) -> Any:
    """A density, learned from the rest of the task."""
    density, *train_data = task
    return density.refit(*train_data)


def log_score(density: Density, held: Floats, weight: Floats, left: Floats) -> float:
    """Mean log density of a removed cell given what is left of its row, in nats.

    Densities with one domain have one measure.
    """
    n_removed = weight @ (np.isnan(left) & ~np.isnan(held)).sum(axis=1)
    if n_removed == 0.0:
        return 0.0
    # A row so far away that its density vanishes: nothing is known of its cells.
    with np.errstate(invalid="ignore"):
        gain = density.log_density(held) - density.log_density(left)
    return float(weight @ gain / n_removed)


def cell_errors(
    density: Density,
    held: Floats,
    weight: Floats,
    left: Floats,
    variance: Floats,
    is_categorical: Bools,
) -> list[Floats]:
    """Errors of removed cells, of numbers and of categories.

    The squares of each kind sum to the proportion of variance that is not explained. Posterior
    means explain numbers, and posterior probabilities explain the indicators of categories, each of
    which has an error. The variances are those of all rows (see :func:`column_variances`): where a
    few values are extreme, those of the rows held out would be too small. Columns of variance zero
    are left out.
    """
    removed = np.isnan(left) & ~np.isnan(held) & (variance > 0.0)
    columns = np.flatnonzero(removed.any(axis=0)).tolist()
    errors = [[np.empty(0)], [np.empty(0)]]
    shares = [
        np.sqrt(weight / max(weight @ removed[:, of_kind].sum(axis=1), SMALLEST_NORMAL))
        for of_kind in (~is_categorical, is_categorical)
    ]
    for part in gen_batches(len(held), _ROWS):
        for column, cells in zip(columns, density.posteriors(left[part], columns)):
            is_removed = removed[part, column]
            # Cells that were missing before count as known: their means would be integrals too.
            cells = replace(cells, known=np.where(is_removed, np.nan, 0.0))
            kind = int(is_categorical[column])
            scale = shares[kind][part] / np.sqrt(variance[column])
            error = _errors(cells, held[part, column]) * scale[:, np.newaxis]
            errors[kind].append(error[is_removed].ravel())
    return [np.concatenate(parts) for parts in errors]


def column_variances(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Variance of each number; for each category, the summed variances of its indicators."""
    varies = np.fmax.reduce(rows) > np.fmin.reduce(rows)
    variance = np.where(varies, column_moments(rows, weight)[1] ** 2, 0.0)
    for column in np.flatnonzero(varies & domain.is_categorical):
        known = ~np.isnan(rows[:, column])
        count = group_sums(rows[known, column].astype(np.int64), weight[known])
        variance[column] = 1.0 - ((count / count.sum()) ** 2).sum()
    return variance


def _errors(cells: Predictive, truth: Floats) -> Floats:
    """Errors of means in one column, or of the probabilities of each category."""
    if cells.labels is None:
        return (cells.mean() - truth)[:, np.newaxis]
    prob = cells.probabilities
    return prob - (truth[:, np.newaxis] == np.arange(prob.shape[1]))
