"""Parts of a matrix that missingness patterns select, for several rows side by side.

Each row has a lane. The numbers of all lanes at one place of their parts are neighbours in
a flat array, so that one instruction treats eight rows. A part that is smaller than others is
bordered by the identity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, kernel, subtract_products

#: Products of pivots outside of these bounds are turned into logarithms.
_SMALL, _LARGE = 1e-100, 1e100


@kernel
def list_columns(seen: NDArray[np.bool_], columns: Ints, n_gone: Ints) -> None:
    """List the missing columns of each pattern, then the observed ones, and count the former."""
    for p in range(len(seen)):
        at = 0
        for v in range(seen.shape[1]):
            if not seen[p, v]:
                columns[p, at] = v
                at += 1
        n_gone[p] = at
        for v in range(seen.shape[1]):
            if seen[p, v]:
                columns[p, at] = v
                at += 1


@kernel
def fill_lanes(begin: Any, held: Any, group: Ints, columns: Ints, n_gone: Ints, lanes: Ints) -> Any:
    """Take rows into lanes, from ``begin`` up to what is returned.

    A lane has the pattern of its row, where the smaller block of it begins in ``columns``, and how
    many columns that has (rows of ``lanes``). Blocks are all of missing or all of observed cells;
    lanes beyond the last row repeat it.
    """
    d = columns.shape[1]
    by_missing, end = 2 * n_gone[group[begin]] <= d, begin
    for lane in range(LANES):
        if end == begin + lane and end < held and (2 * n_gone[group[end]] <= d) == by_missing:
            end += 1
        p = group[end - 1]
        lanes[0, lane], lanes[1, lane] = p, 0 if by_missing else n_gone[p]
        lanes[2, lane] = n_gone[p] if by_missing else d - n_gone[p]
    return end


@kernel
def load_blocks(matrix: Floats, columns: Ints, lanes: Ints, size: Any, block: Floats) -> None:
    """Load the lower triangles of the blocks of the lanes, all of one size."""
    for lane in range(LANES):
        p, begin, n = lanes[0, lane], lanes[1, lane], lanes[2, lane]
        for i in range(n):
            v = columns[p, begin + i]
            for j in range(i + 1):
                block[(i * size + j) * LANES + lane] = matrix[v, columns[p, begin + j]]
        for i in range(n, size):
            for j in range(i):
                block[(i * size + j) * LANES + lane] = 0.0
            block[(i * size + i) * LANES + lane] = 1.0


@kernel
def load_cells(
    rows: Floats, begin: Any, end: Any, columns: Ints, lanes: Ints, size: Any, cells: Floats
) -> None:
    """Load the cells of rows that belong to the blocks of their lanes."""
    for lane in range(LANES):
        p, start, row = lanes[0, lane], lanes[1, lane], min(begin + lane, end - 1)
        for i in range(size):
            cells[i * LANES + lane] = (
                rows[row, columns[p, start + i]] if i < lanes[2, lane] else 0.0
            )


@kernel
def factorise_blocks(size: Any, block: Floats, log_det: Floats) -> None:
    """Cholesky factors in place, with reciprocals on their diagonals; their log determinants."""
    product = np.ones(LANES)
    log_det[:] = 0.0
    for i in range(size):
        row = i * size * LANES
        for j in range(i):
            at, diagonal = row + j * LANES, (j * size + j) * LANES
            subtract_products(block, at, block, row, block, j * size * LANES, j)
            for lane in range(LANES):
                block[at + lane] *= block[diagonal + lane]
        at = row + i * LANES
        subtract_products(block, at, block, row, block, row, i)
        for lane in range(LANES):
            block[at + lane] = 1.0 / math.sqrt(block[at + lane])
        for lane in range(LANES):
            product[lane] *= block[at + lane]
            if product[lane] < _SMALL or product[lane] > _LARGE:
                log_det[lane] -= 2.0 * math.log(product[lane])
                product[lane] = 1.0
    for lane in range(LANES):
        log_det[lane] -= 2.0 * math.log(product[lane])


@kernel
def solve_blocks(size: Any, root: Floats, solved: Floats) -> None:
    """Solve by the factors in place."""
    for i in range(size):
        row, at = i * size * LANES, i * LANES
        subtract_products(solved, at, root, row, solved, 0, i)
        for lane in range(LANES):
            solved[at + lane] *= root[row + at + lane]


@kernel
def add_squares(size: Any, solved: Floats, found: Floats) -> None:
    """Sums of squares."""
    found[:] = 0.0
    for i in range(size):
        for lane in range(LANES):
            found[lane] += solved[i * LANES + lane] * solved[i * LANES + lane]


@kernel
def invert_blocks(size: Any, root: Floats, half: Floats, inverse: Floats) -> None:
    """Inverses of the factors C, transposed (``half``), and of CC', negative (``inverse``)."""
    for j in range(size):
        row = j * size * LANES
        begin = row + j * LANES
        for lane in range(LANES):
            half[begin + lane] = root[begin + lane]
        for i in range(j + 1, size):
            at, diagonal = row + i * LANES, (i * size + i) * LANES
            for lane in range(LANES):
                half[at + lane] = 0.0
            subtract_products(half, at, root, (i * size + j) * LANES, half, begin, i - j)
            for lane in range(LANES):
                half[at + lane] *= root[diagonal + lane]
    for i in range(size):
        left = (i * size + i) * LANES
        for j in range(i + 1):
            at, right = (i * size + j) * LANES, (j * size + i) * LANES
            for lane in range(LANES):
                inverse[at + lane] = 0.0
            subtract_products(inverse, at, half, left, half, right, size - i)


@kernel
def complete_blocks(size: Any, half: Floats, solved: Floats, found: Floats) -> None:
    """Minus the solutions by CC', from what the factors C have solved."""
    for i in range(size):
        for lane in range(LANES):
            found[i * LANES + lane] = 0.0
        left = (i * size + i) * LANES
        subtract_products(found, i * LANES, half, left, solved, i * LANES, size - i)
