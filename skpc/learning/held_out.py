"""The rule to hold rows out: for choices of parameters, early stopping, folds of pools."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from skpc._arrays import ROUNDING, Floats, Ints, group_sums

#: Weights of the rows to learn from, and to hold out.
HeldOutSplit = tuple[Floats, Floats]


def deal(
    weight: Floats, n_folds: float, random_state: np.random.RandomState, group: Ints | None = None
) -> Iterator[HeldOutSplit]:
    """Deal rows into folds that are held out in turn.

    A row of weight n is dealt as n rows of weight one, one fold after another, and the rows of a
    group after those of another. Where most weights are below one, their mean is the unit.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Positive.
    n_folds : float
        The first fold holds one row in so many; for several folds it is a whole number.
    random_state : RandomState
        Draws the order of the rows.
    group : ndarray of shape (n_rows,), int, default=None
        Groups that are spread evenly over the folds, such as classes. None is held out as a whole.

    Yields
    ------
    HeldOutSplit
        Weights of the rows to learn from, and to hold out; neither are all zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning.held_out import deal
    >>> for kept, held in deal(np.array([1.0, 5.0]), 3, np.random.RandomState(0)):
    ...     print(kept, held)
    [1. 3.] [0. 2.]
    [1. 3.] [0. 2.]
    [0. 4.] [1. 1.]
    """
    if group is None:
        group = np.zeros(len(weight), dtype=np.int64)
    order = random_state.permutation(len(weight))
    # A stable sort leaves the order within each group random.
    order = order[np.argsort(group[order], kind="stable")]
    unit = min(1.0, weight.mean())
    end = np.cumsum(weight[order]) / unit
    begin = np.append(0.0, end[:-1])
    for fold in range(int(n_folds)):
        # Rows lie end to end on a line of units, which go to the folds in turn.
        n_units = _units_of_fold(end, fold, n_folds) - _units_of_fold(begin, fold, n_folds)
        share = n_units / (end - begin)
        # Ends on the line are sums with rounding: whole rows must stay whole.
        share[share < ROUNDING] = 0.0
        share[share > 1.0 - ROUNDING] = 1.0
        held = np.empty(len(weight))
        held[order] = share * weight[order]
        left = group_sums(group, weight - held)
        held[left[group] == 0.0] = 0.0
        if held.any():
            yield weight - held, held


def _units_of_fold(total: Floats, fold: int, n_folds: float) -> Floats:
    """How many of the first ``total`` units a fold has, with its part of a unit that is cut."""
    whole = np.floor(total)
    # Units are dealt to the folds in turn: the first one to fold 0.
    n_units = np.floor((whole + n_folds - 1 - fold) / n_folds)
    n_units_with_next = np.floor((whole + 1.0 + n_folds - 1 - fold) / n_folds)
    return n_units + (total - whole) * (n_units_with_next - n_units)


def quarters(weight: Floats) -> Iterator[HeldOutSplit]:
    """Deal quarters of rows that are held out in turn, until a thousand rows have been held out.

    The draws are always the same, so that learning is deterministic. See :func:`deal`.
    """
    n_held = 0.0
    # Quarters are held out until there have been this many held-out rows.
    enough_rows = 1000
    for train_weight, held in deal(weight, 4, np.random.RandomState(0)):
        yield train_weight, held
        n_held += held.sum()
        if n_held >= enough_rows:
            break


def hold_out(
    rows: Any, weight: Floats, fraction: float, random_state: np.random.RandomState
) -> tuple[Any, ...]:
    """Rows and weights to learn from, then those held out, or twice None if there would be none.

    See :func:`deal`.
    """
    train_weight, held = next(deal(weight, 1.0 / fraction, random_state), (weight, None))
    if held is None:
        return rows, weight, None, None
    return rows[train_weight > 0], train_weight[train_weight > 0], rows[held > 0], held[held > 0]
