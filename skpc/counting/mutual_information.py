"""Mutual information of two variables from the table of their counts.

Trees compare information as whole numbers of a small unit rather than as floats: rounding
noise then cannot decide between pairs of equal information, so a tree depends neither on the
order in which counts were summed nor on the way they were counted.
"""

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, internal_kernel

#: Information times the weight of the rows is rounded to this many units per nat.
UNITS_PER_NAT = 2.0**24


@inlined
def _take_sums(
    work: Floats, at: Any, state: int, empty: float, none_gained: float
) -> tuple[float, float]:
    """What a row or a column adds to the margins, and its entropy; both once, at its first cell.

    ``empty`` and ``none_gained`` are the sums of a row or column without weight.
    """
    weight = work[at, state]
    if weight <= 0.0:
        return 0.0, 0.0
    smoothed = weight + empty
    log = math.log(smoothed)
    gained = work[at + 1, state] + none_gained
    work[at, state] = 0.0
    work[at + 1, state] = 0.0
    return smoothed * log - empty * math.log(empty), weight * (log - gained / smoothed)


@internal_kernel
def table_information(
    row: Ints,
    column: Ints,
    count: Floats,
    n_cells: int | np.int64,
    n_rows: int,
    n_columns: int,
    pseudo_count: float,
    work: Floats,
) -> tuple[float, float, float]:
    """Mutual information and conditional entropies of the cells of a table.

    Parameters
    ----------
    row, column, count : array of shape (>= n_cells,)
        Where the cells stand and their counts; cells that are not listed have count zero.
    n_cells : int
        Number of cells listed.
    n_rows, n_columns : int
        Size of the table.
    pseudo_count : float
        Added to every cell, listed or not; positive. Smoothed marginals are the sums of the
        smoothed cells.
    work : array of shape (4, >= max(n_rows, n_columns))
        Workspace for sums, all zero before and after.

    Returns
    -------
    information : float
        Smoothed mutual information in nats.
    of_columns, of_rows : float
        Smoothed entropy in nats of the column given the row, summed over the rows of the
        table with their counts as weights, and of the row given the column likewise.
    """
    empty = pseudo_count * math.log(pseudo_count)
    row_empty = n_columns * pseudo_count
    column_empty = n_rows * pseudo_count
    joint = n_rows * n_columns * empty
    total = n_rows * row_empty
    for i in range(n_cells):
        if count[i] > 0.0:
            smoothed = count[i] + pseudo_count
            gained = smoothed * math.log(smoothed) - empty
            joint += gained
            total += count[i]
            work[0, row[i]] += count[i]
            work[1, row[i]] += gained
            work[2, column[i]] += count[i]
            work[3, column[i]] += gained
    margins = n_rows * row_empty * math.log(row_empty)
    margins += n_columns * column_empty * math.log(column_empty)
    of_columns = 0.0
    of_rows = 0.0
    for i in range(n_cells):
        margin, entropy = _take_sums(work, np.int64(0), row[i], row_empty, n_columns * empty)
        margins += margin
        of_columns += entropy
        margin, entropy = _take_sums(work, np.int64(2), column[i], column_empty, n_rows * empty)
        margins += margin
        of_rows += entropy
    return (joint - margins) / total + math.log(total), of_columns, of_rows
