"""Which columns depend on each other? Weighted chi-square tests of all pairs at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import internal_kernel, kernel
from skpc.counting import count_state_pairs

#: A margin below this part of all weight is what subtraction has left of zero.
_NOTHING = 1e-9
#: Columns that are looked at first for any dependent pair: nearly always there is one.
_FIRST_COLUMNS = 32


def independent_groups(
    codes: NDArray[np.int16],
    weight: Floats,
    n_states: Ints,
    significance: float,
    false_discoveries: bool = False,
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
    false_discoveries : bool, default=False
        Whether ``significance`` is the expected share of independent pairs among those that pass
        for dependent (Benjamini and Hochberg), rather than the level of each test.

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
    tests = _Tests.of(codes, weight, n_states, False)
    dependent = tests.beyond(significance)
    if false_discoveries:
        dependent = _without_chance(tests, significance, dependent)
    return np.asarray(connected_components(dependent, directed=False)[1], dtype=np.int64)


def any_dependence(
    codes: NDArray[np.int16], weight: Floats, n_states: Ints, significance: float
) -> bool:
    """Whether any two columns depend on each other, at a level for all pairs together.

    The level is divided by the number of pairs (Bonferroni). For that tail, Pearson's statistic is
    too large where a table expects next to nothing in a cell, and the likelihood ratio's where it
    expects about one; the smaller of the two is taken.

    Parameters
    ----------
    codes, weight, n_states
        As in :func:`independent_groups`.
    significance : float
        The probability to find dependence where all columns are independent, at most.

    Returns
    -------
    bool
    """
    n_columns = len(n_states)
    level = significance / max(n_columns * (n_columns - 1) / 2, 1.0)
    for some in dict.fromkeys((min(_FIRST_COLUMNS, n_columns), n_columns)):
        own = np.ascontiguousarray(codes[:, :some])
        if _Tests.of(own, weight, n_states[:some], True).beyond(level).any():
            return True
    return False


class _Tests(NamedTuple):
    """Chi-square tests of the pairs (a, b), b < a, of columns; matrices, zero elsewhere."""

    statistic: Floats
    #: Degrees of freedom; zero where there is nothing to test.
    freedom: Ints

    @classmethod
    def of(cls, codes: NDArray[np.int16], weight: Floats, n_states: Ints, cautious: bool) -> _Tests:
        """Test all pairs; a cautious test takes the smaller of two statistics."""
        pairs = count_state_pairs(codes, weight, n_states)
        shape = (len(n_states), len(n_states))
        tests = cls(np.zeros(shape), np.zeros(shape, dtype=np.int64))
        _test_pairs(pairs, offsets(n_states), cautious, tests.statistic, tests.freedom)
        return tests

    def beyond(self, level: float) -> NDArray[np.bool_]:
        """Pairs whose p-value is below a level."""
        most = int(self.freedom.max(initial=0))
        occurs = np.flatnonzero(np.bincount(self.freedom.ravel(), minlength=1)[1:]) + 1
        critical = np.full(most + 1, np.inf)
        critical[occurs] = chdtri(occurs, level)
        return np.asarray(self.statistic > critical[self.freedom])


def _without_chance(tests: _Tests, share: float, dependent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The dependent pairs that remain if no more than a share of them is due to chance.

    The level falls until it is that share of the proportion of pairs below it: Benjamini and
    Hochberg's, reached from above.
    """
    n_pairs, n_dependent = int((tests.freedom > 0).sum()), -1
    while n_dependent != dependent.sum() and dependent.any():
        n_dependent = dependent.sum()
        dependent = tests.beyond(share * n_dependent / n_pairs)
    return dependent


@kernel
def _test_pairs(pairs: Floats, ptr: Ints, cautious: bool, statistic: Floats, freedom: Ints) -> None:
    """Fill in the tests of the pairs (a, b), b < a."""
    for a in range(len(statistic)):
        for b in range(a):
            table = pairs[ptr[a] : ptr[a + 1], ptr[b] : ptr[b + 1]]
            statistic[a, b], freedom[a, b] = _chi_square(table)
            if cautious and freedom[a, b] > 0:
                statistic[a, b] = min(statistic[a, b], _likelihood_ratio(table))


@internal_kernel
def _chi_square(table: Floats) -> tuple[float, int]:
    """Statistic and degrees of freedom; zero if either column has only one state."""
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


@internal_kernel
def _likelihood_ratio(table: Floats) -> float:
    """Twice the log-likelihood ratio of dependence and independence."""
    row, column = np.zeros(table.shape[0]), np.zeros(table.shape[1])
    for s in range(len(row)):
        for t in range(len(column)):
            row[s] += table[s, t]
            column[t] += table[s, t]
    total, found = row.sum(), 0.0
    for s in range(len(row)):
        for t in range(len(column)):
            if table[s, t] > 0.0:
                found += table[s, t] * math.log(table[s, t] * total / (row[s] * column[t]))
    return 2.0 * found
