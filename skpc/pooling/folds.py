"""Folds: rows that are held out of learning, as they are and with cells removed at random.

The members of a pool are learned once for each fold, from the other folds, and predict for the test
rows of the fold.
"""

from collections.abc import Sequence
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import check_cv

from skpc._arrays import Floats, Ints, copies, group_sums
from skpc.domain import Domain
from skpc.learning.held_out import HeldOutSplit, deal
from skpc.queries import Events

#: Number of folds where ``cv`` is None.
_DEFAULT_CV = 5


class Fold(NamedTuple):
    """Test rows that are held out together, and the weights of the rows to learn from.

    Attributes
    ----------
    train_weight : ndarray of shape (n_rows,)
        The weight with which each row is learned, zero where it is held out as a whole.
    test_index : ndarray of shape (n_test_rows,), int
        The row that each test row is a copy of: at each rate a row has as many copies as its weight
        held out, 20 at most.
    test_weight : ndarray of shape (n_test_rows,)
        Weights of the test rows; the copies of a row sum to its weight held out.
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
        train_weight, held_weight = split
        index = np.flatnonzero(held_weight)
        # A heavy row stands for several rows, which would not lack the same cells.
        max_copies = 20
        n_copies = np.minimum(copies(held_weight[index]), max_copies)
        test_weight = np.repeat(held_weight[index] / n_copies, n_copies) / len(rates)
        index = np.repeat(index, n_copies)
        test_rows = [remove_cells(rows[index], rate, random_state) for rate in rates]
        index = np.tile(index, len(rates))
        test_weight = np.tile(test_weight, len(rates))
        return cls(train_weight, index, test_weight, np.concatenate(test_rows))


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
        Groups, such as classes, that are spread evenly over the folds; where ``splits`` is a
        number, no group is held out as a whole.
    splits : int or list of HeldOutSplit
        A number of folds to deal the rows into (only one is returned where there are many rows), or
        pairs of weights to learn from and to hold out, see :func:`given_splits`.
    rates : sequence of float
        Proportions of cells to remove.
    random_state : RandomState instance

    Returns
    -------
    list of Fold
        Folds that hold out nothing, or leave nothing to learn from, are left out.
    """
    # With more distinct rows than this, one part of about this size is held out instead.
    max_rows_of_folds = 10_000
    part_size = 5_000
    if not isinstance(splits, list):
        if splits > max(weight.sum(), _DEFAULT_CV):
            raise ValueError(f"cv={splits} must be at most the number of rows, {weight.sum():g}.")
        are_many = len(rows) > max_rows_of_folds
        n_folds = max(splits, len(rows) // part_size) if are_many else splits
        dealt = deal(weight, n_folds, random_state, group)
        splits = list(islice(dealt, 1 if are_many else None))
    return [
        Fold.from_split(rows, (train_weight, held_weight), rates, random_state)
        for train_weight, held_weight in splits
        if train_weight.any() and held_weight.any()
    ]


def given_splits(
    cv: Any, X: Any, y: Any, sample_weight: Any, distinct: Ints, is_classifier: bool
) -> int | list[HeldOutSplit]:
    """The folds that a parameter ``cv`` asks for.

    Parameters
    ----------
    cv : int, splitter of scikit-learn, or iterable of (train, test) row numbers
    X, y : array-like of shape (n_samples, ...)
        Rows and targets as given to ``fit``.
    sample_weight : array-like of shape (n_samples,) or None
    distinct : ndarray of shape (n_present,), int
        For each row of positive weight, its number among the distinct rows.
    is_classifier : bool

    Returns
    -------
    int or list of HeldOutSplit
        A number of folds; or, for each pair of ``cv``, the weights of the distinct rows in its
        training part and in its test part.
    """
    if cv is None or isinstance(cv, Integral):
        return int(cv or _DEFAULT_CV)
    # Rows without weight are not among the distinct ones.
    distinct_row = np.full(len(X), -1)
    n_rows = len(distinct_row)
    weight = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
    distinct_row[weight > 0.0] = distinct

    def distinct_weight(part: Ints) -> Floats:
        part = np.asarray(part)[distinct_row[part] >= 0]
        return group_sums(distinct_row[part], weight[part], distinct.max() + 1)

    pairs = [*check_cv(cv, y, classifier=is_classifier).split(np.zeros((n_rows, 1)), y)]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(part for pair in pairs for part in pair)])
    if not pairs or not ((rows >= -n_rows) & (rows < n_rows)).all():
        raise ValueError(
            f"cv must have at least one pair (train, test) of numbers of the {n_rows} rows; "
            f"got {cv!r}."
        )
    return [(distinct_weight(train), distinct_weight(test)) for train, test in pairs]


def remove_cells(rows: Floats, rate: float, random_state: np.random.RandomState) -> Floats:
    """Remove each cell of the rows with this probability; missing cells stay missing."""
    if rate == 0.0:
        return rows
    return np.where(random_state.random_sample(rows.shape) < rate, np.nan, rows)


def observed_fraction(rows: Any, domain: Domain) -> Floats:
    """The proportion of the cells of each row that are known, as values, ranges or sets.

    Columns that are hidden from learners do not count.
    """
    is_stated = Events.of(rows).are_stated()
    is_visible = ~domain.is_hidden
    if not is_visible.any():
        return np.ones(len(is_stated))
    return is_stated[:, is_visible].mean(axis=1)
