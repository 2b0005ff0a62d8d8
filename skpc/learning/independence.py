"""Which columns depend on each other? Weighted chi-square tests of all pairs at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel

__all__ = ["independent_groups"]

#: A margin below this share of all weight is what subtraction has left of zero.
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
    indicators, first, shown = _indicators(codes, n_states)
    gram = indicators.T @ (weight[:, np.newaxis] * indicators)
    most = int(n_states.max()) if len(n_states) else 1
    critical = chi2.isf(significance, np.arange(1, (most - 1) ** 2 + 1))
    dependent = np.zeros((len(n_states), len(n_states)), dtype=np.bool_)
    _test_pairs(gram, first, shown, n_states, critical, dependent)
    return np.asarray(connected_components(dependent, directed=False)[1], dtype=np.int64)


def _indicators(codes: NDArray[np.int16], n_states: Ints) -> tuple[Floats, Ints, Ints]:
    """Indicators of what has to be counted together.

    Those of all states but 0 of each column, which begin at ``first``, and of its cells that are
    there, at ``shown``: one for all columns if no cell is missing.
    """
    first = offsets(n_states - 1)
    n_columns = len(n_states)
    complete = bool((codes >= 0).all())
    shown = first[-1] + (np.zeros if complete else np.arange)(n_columns, dtype=np.int64)
    indicators = np.empty((len(codes), int(first[-1]) + (1 if complete else n_columns)))
    if (n_states == 2).all():
        indicators[:, :n_columns] = codes == 1
    else:
        for column in range(n_columns):
            states = np.arange(1, n_states[column])
            indicators[:, first[column] : first[column + 1]] = codes[:, [column]] == states
    indicators[:, first[-1] :] = 1.0 if complete else codes >= 0
    return indicators, first, shown


@kernel
def _test_pairs(
    gram: Floats,
    first: Ints,
    shown: Ints,
    n_states: Ints,
    critical: Floats,
    out: NDArray[np.bool_],
) -> None:
    """Mark the pairs (a, b), b < a, whose statistic exceeds the critical value."""
    most = n_states.max()
    table = np.empty((most, most))
    for a in range(len(n_states)):
        for b in range(a):
            _fill_table(gram, first, shown, n_states, a, b, table)
            statistic, freedom = _chi_square(table, n_states[a], n_states[b])
            out[a, b] = freedom > 0 and statistic > critical[freedom - 1]


@kernel
def _fill_table(
    gram: Floats,
    first: Ints,
    shown: Ints,
    n_states: Ints,
    a: int,
    b: int,
    table: Floats,
) -> None:
    """The contingency table of a pair; what concerns state 0 is what the others leave."""
    table[0, 0] = gram[shown[a], shown[b]]
    for t in range(1, n_states[b]):
        table[0, t] = gram[first[b] + t - 1, shown[a]]
        table[0, 0] -= table[0, t]
    for s in range(1, n_states[a]):
        table[s, 0] = gram[first[a] + s - 1, shown[b]]
        table[0, 0] -= table[s, 0]
        for t in range(1, n_states[b]):
            both = gram[first[a] + s - 1, first[b] + t - 1]
            table[s, t] = both
            table[s, 0] -= both
            table[0, t] -= both
            table[0, 0] += both


@kernel
def _chi_square(table: Floats, n_rows: int, n_columns: int) -> tuple[float, int]:
    """Statistic and degrees of freedom; none if either column has but one state."""
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
