"""What estimators do around learning: undo a fit that fails, hold out rows, keep quiet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats
from skpc.counting import as_numbers
from skpc.domain import Domain, column_moments


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put an estimator back to what it was if its ``fit`` fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


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


def with_some_cell(domain: Domain, rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Leave out the rows without any cell that a learner sees: nothing is learned from them."""
    shown = np.flatnonzero(~domain.unseen.is_hidden)
    if not len(shown):
        return rows, weight
    empty = np.flatnonzero(np.isnan(rows[:, shown[0]]))
    empty = empty[np.isnan(rows[np.ix_(empty, shown)]).all(axis=1)]
    if not len(empty):
        return rows, weight
    return np.delete(rows, empty, axis=0), np.delete(weight, empty)


def with_some_known_cell(domain: Domain, rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Leave out the rows without any cell that a learner sees, and refuse to have no row left."""
    rows, weight = with_some_cell(domain, rows, weight)
    if not len(rows):
        raise ValueError(
            "Every value of X is missing, or a category that fit has not seen; learning needs at "
            "least one known value."
        )
    return rows, weight


def complete_points(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Rows as points for k-means; a missing coordinate is the mean of the others."""
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    point, seen = as_numbers(rows, n_states, *column_moments(rows, weight))
    if seen is None:
        return point
    return point + (1.0 - seen) * (weight @ point / (weight @ seen))


@contextmanager
def without_warnings(quiet: bool = True) -> Iterator[None]:
    """Say nothing of estimates from few trees: a pool has learned how far to trust a member."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to the errors that come up meanwhile."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
