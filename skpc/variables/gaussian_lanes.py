"""Parts of a matrix that missingness patterns select, for several rows side by side.

Each row has a lane. The numbers of all lanes at one place of their parts are neighbours in
a flat array, so that one instruction treats eight rows. Parts have the same even size: smaller ones
are bordered by the identity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, inlined, internal_kernel, subtract_pairs, subtract_products

#: Products of pivots outside of these bounds are turned into logarithms.
_SMALL, _LARGE = 1e-100, 1e100


@internal_kernel
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


@internal_kernel
def fill_lanes(
    begin: Any, held: Any, group: Ints, n_columns: Any, n_gone: Ints, most: Any, lanes: Ints
) -> Any:
    """Take rows into lanes, from ``begin`` up to what is returned.

    A lane has the pattern of its row, where a block of it begins in the list of columns, and how
    many columns that has (rows of ``lanes``). Blocks are all of missing cells, of ``most`` at most,
    or all of observed ones; lanes beyond the last row repeat it.
    """
    by_missing, end = n_gone[group[begin]] <= most, begin
    for lane in range(LANES):
        if end == begin + lane and end < held and (n_gone[group[end]] <= most) == by_missing:
            end += 1
        p = group[end - 1]
        lanes[0, lane], lanes[1, lane] = p, 0 if by_missing else n_gone[p]
        lanes[2, lane] = n_gone[p] if by_missing else n_columns - n_gone[p]
    return end


@internal_kernel
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


@internal_kernel
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


@inlined
def _finish_tile(matrix: Floats, at: Any, root: Floats, diagonal: Any, stride: Any) -> None:
    """Divide a tile, of two rows and two columns, by the tile of the factors on the diagonal."""
    for row in range(2):
        begin = at + row * stride
        for lane in range(LANES):
            first = matrix[begin + lane] * root[diagonal + lane]
            rest = matrix[begin + LANES + lane] - first * root[diagonal + stride + lane]
            matrix[begin + lane] = first
            matrix[begin + LANES + lane] = rest * root[diagonal + stride + LANES + lane]


@internal_kernel
def factorise_blocks(size: Any, block: Floats, log_det: Floats) -> None:
    """Cholesky factors in place, with reciprocals on their diagonals; their log determinants.

    The size is even, for two rows and two columns are factorised together.
    """
    product, stride = np.ones(LANES), size * LANES
    log_det[:] = 0.0
    for i in range(0, size, 2):
        row = i * stride
        for j in range(0, i, 2):
            at, column = row + j * LANES, j * stride
            subtract_pairs(block, block, block, (at, row, column), stride, j)
            _finish_tile(block, at, block, column + j * LANES, stride)
        at = row + i * LANES
        subtract_pairs(block, block, block, (at, row, row), stride, i)
        below = at + stride
        for lane in range(LANES):
            block[at + lane] = 1.0 / math.sqrt(block[at + lane])
            block[below + lane] *= block[at + lane]
            rest = block[below + LANES + lane] - block[below + lane] * block[below + lane]
            block[below + LANES + lane] = 1.0 / math.sqrt(rest)
        for lane in range(LANES):
            product[lane] *= block[at + lane] * block[below + LANES + lane]
            if product[lane] < _SMALL or product[lane] > _LARGE:
                log_det[lane] -= 2.0 * math.log(product[lane])
                product[lane] = 1.0
    for lane in range(LANES):
        log_det[lane] -= 2.0 * math.log(product[lane])


@internal_kernel
def solve_blocks(size: Any, root: Floats, solved: Floats) -> None:
    """Solve by the factors in place."""
    for i in range(size):
        row, at = i * size * LANES, i * LANES
        subtract_products(solved, at, root, row, solved, 0, i)
        for lane in range(LANES):
            solved[at + lane] *= root[row + at + lane]


@internal_kernel
def add_squares(size: Any, solved: Floats, found: Floats) -> None:
    """Sums of squares."""
    found[:] = 0.0
    for i in range(size):
        for lane in range(LANES):
            found[lane] += solved[i * LANES + lane] * solved[i * LANES + lane]


@internal_kernel
def invert_blocks(size: Any, root: Floats, half: Floats, inverse: Floats) -> None:
    """Inverses of the factors C, transposed (``half``), and of CC', negative (``inverse``)."""
    stride = size * LANES
    for j in range(0, size, 2):
        row = j * stride
        begin = row + j * LANES
        for lane in range(LANES):
            top, bottom = root[begin + lane], root[begin + stride + LANES + lane]
            half[begin + lane], half[begin + stride + LANES + lane] = top, bottom
            half[begin + LANES + lane] = -top * root[begin + stride + lane] * bottom
            half[begin + stride + lane] = 0.0
        for i in range(j + 2, size, 2):
            at, of_root = row + i * LANES, i * stride
            _clear_tile(half, at, stride)
            places = at, begin, of_root + j * LANES
            subtract_pairs(half, half, root, places, stride, i - j)
            _finish_tile(half, at, root, of_root + i * LANES, stride)
    for i in range(0, size, 2):
        left = i * stride + i * LANES
        for j in range(0, i + 2, 2):
            at, right = i * stride + j * LANES, j * stride + i * LANES
            _clear_tile(inverse, at, stride)
            subtract_pairs(inverse, half, half, (at, left, right), stride, size - i)


@inlined
def _clear_tile(matrix: Floats, at: Any, stride: Any) -> None:
    for row in range(2):
        for lane in range(2 * LANES):
            matrix[at + row * stride + lane] = 0.0


@internal_kernel
def complete_blocks(size: Any, half: Floats, solved: Floats, found: Floats) -> None:
    """Minus the solutions by CC', from what the factors C have solved."""
    for i in range(size):
        for lane in range(LANES):
            found[i * LANES + lane] = 0.0
        left = (i * size + i) * LANES
        subtract_products(found, i * LANES, half, left, solved, i * LANES, size - i)
