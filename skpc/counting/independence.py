"""Statistics of the tests whether two columns are independent, from the cells that occur.

A cell without rows enters through the margins alone, so that columns of many states cost no more
than their rows. The plain twin is ``independence_p_value`` in ``tests/naive/soft_learn.py``.
"""

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Codes, Floats, Ints, check_memory
from skpc._jit import ZERO, internal_kernel, kernel
from skpc.counting.pairs import Places, count_pairs, pack_states


class PairStatistics(NamedTuple):
    """Statistics of each two columns (a, b), b < a, on the rows that show both; zero elsewhere.

    Attributes
    ----------
    pearson, ratio : ndarrays of shape (n_columns, n_columns)
        Pearson's statistic and that of the likelihood ratio.
    freedom : ndarray of shape (n_columns, n_columns), int
        Their degrees of freedom, which states without rows have no part in.
    """

    pearson: Floats
    ratio: Floats
    freedom: Ints


class _Cells(NamedTuple):
    """Room for the cells of two columns that occur: their states, weights, and the margins.

    ``weight[t]`` is that of the cell of the states ``row[t]`` and ``column[t]``.
    """

    row: Ints
    column: Ints
    weight: Floats
    row_total: Floats
    column_total: Floats


def pair_statistics(codes: Codes, weight: Floats, n_states: Ints, yates: bool) -> PairStatistics:
    """Test all pairs of columns for independence.

    Parameters
    ----------
    codes : array of shape (n_rows, n_columns), int16, C-contiguous
        State of each cell, -1 where missing.
    weight : array of shape (n_rows,)
        Positive weights of the rows.
    n_states : array of shape (n_columns,)
        Number of states of each column.
    yates : bool
        Whether Yates' correction takes 0.5 off each difference of observed and expected, but no
        more than the difference, where there is one degree of freedom.

    Returns
    -------
    PairStatistics

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting.independence import pair_statistics
    >>> codes = np.array([[0, 0], [0, 0], [1, 1], [1, 1]], dtype=np.int16)
    >>> tests = pair_statistics(codes, np.ones(4), np.array([2, 2]), False)
    >>> tests.pearson[1, 0], tests.freedom[1, 0]
    (np.float64(4.0), np.int64(1))
    """
    places = Places.from_codes(codes, weight, n_states)
    n_columns = len(n_states)
    n_places = len(places.weight)
    counts = np.empty((0, 0))
    # All places at once, unless most of their cells are sure to be empty.
    n_pairs = float(n_places) ** 2
    if n_pairs <= float(n_columns) ** 2 * len(codes):
        check_memory(n_pairs, f"The pairs of {n_columns:,} columns", "Choose fewer columns.")
        words = pack_states(codes, weight, places)
        counts = count_pairs(codes, weight, places, 0, n_places, words)
    pearson, ratio = np.zeros((2, n_columns, n_columns))
    freedom = np.zeros((n_columns, n_columns), np.int64)
    statistics = PairStatistics(pearson, ratio, freedom)
    _test_pairs(codes, weight, places, counts, yates, statistics)
    return statistics


@kernel(new_arrays=True)
def _test_pairs(
    codes: Codes,
    weight: Floats,
    places: Places,
    counts: Floats,
    yates: bool,
    statistics: PairStatistics,
) -> None:
    """Fill in the statistics of all pairs, from the counts of all places or else from the rows."""
    place_ptr = places.place_ptr
    observed = places.observed
    n_columns = len(observed)
    n_rows = len(codes)
    n_shown = place_ptr[1:] - observed
    widest = 1
    for n_states in n_shown:
        widest = max(widest, n_states)
    n_most = n_rows
    if len(counts):
        n_most = widest * widest
    cells = _Cells(
        np.empty(n_most, np.int64),
        np.empty(n_most, np.int64),
        np.empty(n_most),
        np.zeros(widest),
        np.zeros(widest),
    )
    cell_row = cells.row
    cell_column = cells.column
    cell_weight = cells.weight
    in_state = np.zeros(widest)
    order = np.empty(n_rows, np.int64)
    touched = np.empty(widest, np.int64)
    begin = np.zeros(widest + 1, np.int64)
    for a in range(n_columns):
        if len(counts) == 0:
            # Rows of one state of a stand together, and their states of b are counted at once.
            _sort_rows(codes[:, a], places, a, begin, order)
        for b in range(a):
            n_cells = ZERO
            for i in range(n_shown[a]):
                if len(counts):
                    row = counts[observed[a] + i]
                    for j in range(n_shown[b]):
                        count = row[observed[b] + j]
                        if count > 0.0:
                            cell_row[n_cells] = i
                            cell_column[n_cells] = j
                            cell_weight[n_cells] = count
                            n_cells += 1
                    continue
                n_touched = 0
                for row_number in order[begin[i] : begin[i + 1]]:
                    state = places.state_ptr[b] + codes[row_number, b] + 1
                    j = places.state_place[state] - observed[b]
                    if j >= 0:
                        if in_state[j] == 0.0:
                            touched[n_touched] = j
                            n_touched += 1
                        in_state[j] += weight[row_number]
                # Only what was written is set back: columns of many states stay cheap.
                for j in touched[:n_touched]:
                    cell_row[n_cells] = i
                    cell_column[n_cells] = j
                    cell_weight[n_cells] = in_state[j]
                    in_state[j] = 0.0
                    n_cells += 1
            _test_pair(cells, n_cells, n_shown[a], n_shown[b], yates, statistics, a, b)


@internal_kernel
def _sort_rows(column: Codes, places: Places, a: int, begin: Ints, order: Ints) -> None:
    """Order the rows by their places in column ``a``, without those that lack it."""
    state_ptr = places.state_ptr[a]
    observed = places.observed[a]
    begin[:] = 0
    for code in column:
        place = places.state_place[state_ptr + code + 1] - observed
        if place >= 0:
            begin[place + 1] += 1
    for i in range(len(begin) - 1):
        begin[i + 1] += begin[i]
    # Each begin moves on to the next one, and back at the end.
    for row in range(len(column)):
        place = places.state_place[state_ptr + column[row] + 1] - observed
        if place >= 0:
            order[begin[place]] = row
            begin[place] += 1
    for i in range(len(begin) - 1, 0, -1):
        begin[i] = begin[i - 1]
    begin[0] = 0


@internal_kernel
def _test_pair(
    cells: _Cells,
    n_cells: int,
    n_rows: int,
    n_columns: int,
    yates: bool,
    statistics: PairStatistics,
    a: int,
    b: int,
) -> None:
    """Fill in the statistics of the pair (a, b).

    Parameters
    ----------
    cells, n_cells : _Cells and int
        The cells that occur; margins are written over.
    n_rows, n_columns : int
        Numbers of states of a and of b.
    yates, statistics : bool and PairStatistics
        See :func:`pair_statistics`.
    a, b : int
        The columns.
    """
    row_total = cells.row_total
    column_total = cells.column_total
    weight = cells.weight
    total = 0.0
    row_total[:n_rows] = 0.0
    column_total[:n_columns] = 0.0
    for cell in range(n_cells):
        count = weight[cell]
        row_total[cells.row[cell]] += count
        column_total[cells.column[cell]] += count
        total += count
    # A margin below this is what subtraction has left of zero.
    nothing = 1e-9 * total
    n_occurring_rows = 0
    n_occurring_columns = 0
    for i in range(n_rows):
        n_occurring_rows += row_total[i] > nothing
    for j in range(n_columns):
        n_occurring_columns += column_total[j] > nothing
    freedom = max(n_occurring_rows - 1, 0) * max(n_occurring_columns - 1, 0)
    # In a table of two by two, all cells differ alike from what is expected.
    inverse = 0.0
    pearson = total
    ratio = 0.0
    for i in range(n_rows if freedom == 1 else 0):
        for j in range(n_columns):
            if min(row_total[i], column_total[j]) > nothing:
                inverse += total / (row_total[i] * column_total[j])
    for cell in range(n_cells):
        row_margin = row_total[cells.row[cell]]
        column_margin = column_total[cells.column[cell]]
        if min(row_margin, column_margin) > nothing:
            count = weight[cell]
            expected = row_margin * column_margin
            expected /= total
            difference = count - expected
            ratio += 2.0 * count * math.log(count / expected)
            if freedom == 1:
                pearson = max(abs(difference) - 0.5 * yates, 0.0) ** 2 * inverse
            else:
                # Cells without rows are worth what they are expected to have: the rest of all.
                pearson += difference**2 / expected - expected
    statistics.pearson[a, b] = max(pearson, 0.0)
    statistics.ratio[a, b] = max(ratio, 0.0)
    statistics.freedom[a, b] = freedom
