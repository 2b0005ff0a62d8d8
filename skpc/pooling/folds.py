"""Rows that are held out of learning and asked with cells removed: what pools are fitted on.

Members of a pool are compared on rows that they have not learned from. Each member is learned once
for each fold, from the weight of the other folds, and asked about the rows of the fold: as they
are, and with more of their cells removed at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from skpc._arrays import Floats, Ints
from skpc.domain import Domain

#: Weights of the distinct rows to learn from, and to hold out.
Split = tuple[Floats, Floats]
#: Where distinct rows are more than this, one part is held out instead of folds ...
_FOLDS_UNTIL = 10_000
#: ... of about this many rows.
_HELD_OUT = 5_000
#: Greatest number of times that a row is asked at each rate.
_MOST_COPIES = 20


class HeldOut(NamedTuple):
    """Some rows that are held out together, and what is left to learn from.

    Attributes
    ----------
    kept : ndarray of shape (n_rows,)
        The weight of each row that is left to learn from.
    rows : ndarray of shape (n_asked,), int
        The numbers of the rows that are asked: those held out, for each rate as often as their
        weight says, but 20 times at most.
    weight : ndarray of shape (n_asked,)
        Their weights; over all rates those of a row sum to what is held out of it.
    asked : ndarray of shape (n_asked, n_features)
        The rows with cells removed, those of one rate after those of another.
    """

    kept: Floats
    rows: Ints
    weight: Floats
    asked: Floats


def hold_out_folds(
    rows: Floats,
    weight: Floats,
    group: Ints,
    splits: int | list[Split],
    rates: Sequence[float],
    random_state: np.random.RandomState,
) -> list[HeldOut]:
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
    splits : int or list of Split
        A number of folds to deal the rows into (of many rows one fold is returned), or weights to
        learn from and to hold out, see :func:`given_splits`.
    rates : sequence of float
        Proportions of cells to remove.
    random_state : RandomState instance

    Returns
    -------
    list of HeldOut
        Without folds that hold out nothing, or leave nothing to learn from.
    """
    if not isinstance(splits, list):
        many = len(rows) > _FOLDS_UNTIL
        n_folds = max(splits, len(rows) // _HELD_OUT) if many else splits
        held = deal(weight, group, n_folds, random_state)
        splits = [(weight - mine, mine) for mine in held[: 1 if many else n_folds]]
    found = []
    for kept, mine in splits:
        some = np.flatnonzero(mine)
        if len(some) and kept.any():
            # A heavy row stands for several, which would not lack the same cells.
            copies = np.minimum(np.ceil(mine[some]), _MOST_COPIES).astype(np.int64)
            some, share = np.repeat(some, copies), np.repeat(mine[some] / copies, copies)
            asked = [remove_cells(rows[some], rate, random_state) for rate in rates]
            numbers, share = np.tile(some, len(rates)), np.tile(share, len(rates))
            found.append(HeldOut(kept, numbers, share / len(rates), np.concatenate(asked)))
    return found


def given_splits(
    cv: Any, X: Any, y: Any, sample_weight: Any, distinct: Ints, is_classifier: bool
) -> int | list[Split]:
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
    int or list of Split
        An int as it is; otherwise pairs of the weights of the distinct rows.
    """
    if cv is None or isinstance(cv, Integral):
        return int(cv or 5)
    number = np.full(len(X), -1)
    weight = np.ones(len(number)) if sample_weight is None else np.asarray(sample_weight, float)
    number[weight > 0.0] = distinct

    def total(chosen: Ints) -> Floats:
        chosen = np.asarray(chosen)[number[chosen] >= 0]
        found = np.bincount(number[chosen], weight[chosen], distinct.max() + 1)
        return found.astype(np.float64)

    pairs = check_cv(cv, y, classifier=is_classifier).split(np.zeros((len(number), 1)), y)
    return [(total(train), total(test)) for train, test in pairs]


def deal(weight: Floats, group: Ints, n_folds: int, random_state: np.random.RandomState) -> Floats:
    """The weight of each row that each fold holds out, shape (n_folds, n_rows).

    A row of weight n is dealt as n rows of weight one, one fold after another, and the rows of a
    group after those of another. No group is held out as a whole. Where most weights are below one,
    their mean is the unit.
    """
    order = random_state.permutation(len(weight))
    order = order[np.argsort(group[order], kind="stable")]
    unit = min(1.0, float(weight.mean()))
    end = np.cumsum(weight[order]) / unit
    begin = np.append(0.0, end[:-1])
    held = np.empty((n_folds, len(weight)))
    for fold, mine in enumerate(held):
        dealt = _dealt(end, fold, n_folds) - _dealt(begin, fold, n_folds)
        # What is left of differences of sums of fractions is rounding.
        mine[order] = np.where(dealt > 1e-6 * (end - begin), dealt * unit, 0.0)
        np.minimum(mine, weight, out=mine)
        left = np.bincount(group, weight - mine)
        mine[left[group] == 0.0] = 0.0
    return held


def _dealt(total: Floats, fold: int, n_folds: int) -> Floats:
    """How much of the first units a fold has."""
    rounds, rest = np.divmod(total, n_folds)
    return np.asarray(rounds + np.clip(rest - fold, 0.0, 1.0))


def remove_cells(rows: Floats, rate: float, random_state: np.random.RandomState) -> Floats:
    """Remove each cell of the rows with this probability; missing cells stay missing."""
    if rate == 0.0:
        return rows
    return np.where(random_state.random_sample(rows.shape) < rate, np.nan, rows)


def share_seen(rows: Floats, domain: Domain) -> Floats:
    """The proportion of cells of each row that are there, of the columns that learners see."""
    shown = ~domain.unseen.is_hidden
    return (
        np.asarray((~np.isnan(rows[:, shown])).mean(axis=1)) if shown.any() else np.ones(len(rows))
    )


def hold_out(
    rows: Any, weight: Floats, fraction: float, random_state: np.random.RandomState
) -> tuple[Any, ...]:
    """Rows and weights for learning, and those held out: None where that would be all or nothing.

    A row of weight n is dealt with as n rows of weight one: a part of its weight is held out.
    """
    copies = np.ceil(weight)
    held = weight * (random_state.binomial(copies.astype(np.int64), fraction) / copies)
    kept = weight - held
    if not (held > 0).any() or not (kept > 0).any():
        return rows, weight, None, None
    return rows[kept > 0], kept[kept > 0], rows[held > 0], held[held > 0]
