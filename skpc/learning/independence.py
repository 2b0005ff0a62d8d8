"""Which columns depend on each other? Weighted chi-square tests of all pairs at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.counting import count_state_pairs

#: A margin below this part of all weight is what subtraction has left of zero.
_NOTHING = 1e-9


def independent_groups(
    codes: NDArray[np.int16],
    weight: Floats,
    n_states: Ints,
    significance: float,
) -> Ints:
    """Group columns so that those of different groups pass for independent.

    Every pair is tested by Pearson's chi-square on its weighted contingency table, counted on the
    rows that show both; states without weight have no part in it. With one degree of freedom,
    Yates' correction takes 0.5 off each difference of observed and expected, but no more than the
    difference. Columns connected by dependent pairs are one group.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        States of the cells, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    n_states : ndarray of shape (n_columns,)
        Number of states of each column.
    significance : float
        Pairs with a smaller p-value are dependent.

    Returns
    -------
    ndarray of shape (n_columns,)
        Number of the group of each column, from zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning import independent_groups
    >>> codes = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]] * 5, dtype=np.int16)
    >>> independent_groups(codes, np.ones(20), np.array([2, 2, 2]), 0.01)
    array([0, 0, 1])
    """
    pairs = count_state_pairs(codes, weight, n_states)
    most = int(n_states.max()) if len(n_states) else 1
    critical = chi2.isf(significance, np.arange(1, (most - 1) ** 2 + 1))
    dependent = np.zeros((len(n_states), len(n_states)), dtype=np.bool_)
    _test_pairs(pairs, offsets(n_states), critical, dependent)
    return np.asarray(connected_components(dependent, directed=False)[1], dtype=np.int64)


@kernel
def _test_pairs(pairs: Floats, ptr: Ints, critical: Floats, out: NDArray[np.bool_]) -> None:
    """Mark the pairs (a, b), b < a, whose statistic exceeds the critical value."""
    for a in range(len(out)):
        for b in range(a):
            table = pairs[ptr[a] : ptr[a + 1], ptr[b] : ptr[b + 1]]
            statistic, freedom = _chi_square(table)
            out[a, b] = freedom > 0 and statistic > critical[freedom - 1]


@kernel
def _chi_square(table: Floats) -> tuple[float, int]:
    """Statistic and degrees of freedom; none if either column has but one state."""
    n_rows, n_columns = table.shape
    row, column = np.zeros(n_rows), np.zeros(n_columns)
    for s in range(n_rows):
        for t in range(n_columns):
            row[s] += table[s, t]
            column[t] += table[s, t]
    total = row.sum()
    nothing = _NOTHING * total
    freedom = ((row > nothing).sum() - 1) * ((column > nothing).sum() - 1)
    statistic = 0.0
    if freedom > 0:
        for s in range(n_rows):
            for t in range(n_columns):
                if row[s] > nothing and column[t] > nothing:
                    expected = row[s] * column[t] / total
                    off = abs(table[s, t] - expected)
                    if freedom == 1:
                        off = max(off - 0.5, 0.0)
                    statistic += off * off / expected
    return statistic, freedom
