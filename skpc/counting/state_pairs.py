"""Weights of all pairs of states of all columns, as one product of matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, check_memory, offsets
from skpc._jit import kernel

#: Entries of the matrix of indicators that are made at a time.
_INDICATORS = 4_000_000


def count_state_pairs(codes: NDArray[np.integer], weight: Floats, n_states: Ints) -> Floats:
    """Weight of the rows in every two states of all columns.

    Parameters
    ----------
    codes : array of shape (n_rows, n_columns)
        State of each cell, -1 where missing: a pair of columns is counted in the rows that show
        both.
    weight : array of shape (n_rows,)
        Weights of the rows.
    n_states : array of shape (n_columns,)
        Number of states of each column.

    Returns
    -------
    ndarray of shape (n_all_states, n_all_states)
        Symmetric; the states of all columns are numbered through.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting import count_state_pairs
    >>> codes = np.array([[0, 1], [1, 1], [0, -1]])
    >>> count_state_pairs(codes, np.array([1.0, 2.0, 4.0]), np.array([2, 2]))
    array([[5., 0., 0., 1.],
           [0., 2., 0., 2.],
           [0., 0., 0., 0.],
           [1., 2., 0., 3.]])
    """
    check_memory(
        2.0 * float(n_states.sum()) ** 2,
        f"The pairs of {n_states.sum():,} states of {len(n_states):,} columns",
        "Choose fewer columns, merge rare states or take fewer bins.",
    )
    # One count covers all states except 0 of each column, and whether its cells are there: one
    # column for all if no cell is missing.
    n_columns, first = len(n_states), offsets(n_states - 1)
    complete = bool((codes >= 0).all())
    shown = first[-1] + (np.zeros if complete else np.arange)(n_columns, dtype=np.int64)
    n_counted = int(first[-1]) + (1 if complete else n_columns)
    gram = np.zeros((n_counted, n_counted))
    size = max(1, _INDICATORS // n_counted)
    for start in range(0, len(codes), size):
        rows = codes[start : start + size]
        indicators = np.empty((len(rows), n_counted))
        if (n_states == 2).all():
            indicators[:, :n_columns] = rows == 1
        else:
            for column in range(n_columns):
                states = np.arange(1, n_states[column])
                indicators[:, first[column] : first[column + 1]] = rows[:, [column]] == states
        indicators[:, first[-1] :] = 1.0 if complete else rows >= 0
        gram += indicators.T @ (weight[start : start + size, np.newaxis] * indicators)
    ptr = offsets(n_states)
    pairs = np.empty((ptr[-1], ptr[-1]))
    _fill_pairs(gram, first, shown, ptr, pairs)
    return pairs


@kernel
def _fill_pairs(gram: Floats, first: Ints, shown: Ints, ptr: Ints, pairs: Floats) -> None:
    """Spell out the tables of all pairs; what concerns state 0 is what the other states leave."""
    for a in range(len(ptr) - 1):
        for b in range(a + 1):
            table = pairs[ptr[a] : ptr[a + 1], ptr[b] : ptr[b + 1]]
            table[0, 0] = gram[shown[a], shown[b]]
            for t in range(1, table.shape[1]):
                table[0, t] = gram[first[b] + t - 1, shown[a]]
                table[0, 0] -= table[0, t]
            for s in range(1, table.shape[0]):
                table[s, 0] = gram[first[a] + s - 1, shown[b]]
                table[0, 0] -= table[s, 0]
                for t in range(1, table.shape[1]):
                    both = gram[first[a] + s - 1, first[b] + t - 1]
                    table[s, t] = both
                    table[s, 0] -= both
                    table[0, t] -= both
                    table[0, 0] += both
            # Rounding must not leave less than nothing.
            for s in range(table.shape[0]):
                for t in range(table.shape[1]):
                    table[s, t] = max(table[s, t], 0.0)
                    pairs[ptr[b] + t, ptr[a] + s] = table[s, t]
