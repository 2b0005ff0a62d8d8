"""Rows with missing cells under Gaussians: their distances from the means, and their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, internal_kernel, kernel
from skpc.variables.gaussian_lanes import (
    add_squares,
    complete_blocks,
    factorise_blocks,
    fill_lanes,
    invert_blocks,
    list_columns,
    load_blocks,
    load_cells,
    solve_blocks,
)

#: Rows that are held in the workspace at a time.
_ROWS = 1024


@kernel
def measure_rows(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    square: Floats,
    log_dets: Floats,
) -> None:
    """Squared distances of rows from means; see :func:`gaussians.squared_distances`."""
    n_patterns, d = seen.shape
    away, told = np.empty((_ROWS, d)), np.empty((_ROWS, d))
    line, group = np.empty(_ROWS, dtype=np.int64), np.empty(_ROWS, dtype=np.int64)
    columns, n_gone = np.empty((n_patterns, d), dtype=np.int64), np.empty(n_patterns, np.int64)
    list_columns(seen, columns, n_gone)
    root, solved = np.empty((d // 2 + 1) ** 2 * LANES), np.empty((d + 1) * LANES)
    for k in range(len(mean)):
        held = np.int64(0)
        for pattern in range(n_patterns):
            for r in range(ptr[pattern], ptr[pattern + 1]):
                if not wanted[k, r]:
                    continue
                line[held], group[held] = order[r], pattern
                for v in range(d):
                    away[held, v] = scores[r, v] - mean[k, v] if seen[pattern, v] else 0.0
                held += 1
                if held == _ROWS:
                    _measure(
                        covariance[k], precision[k], log_det[k], columns, n_gone, held, line,
                        group, away, told, root, solved, square[k], log_dets[k],
                    )  # fmt: skip
                    held = np.int64(0)
        _measure(
            covariance[k], precision[k], log_det[k], columns, n_gone, held, line, group, away, told,
            root, solved, square[k], log_dets[k],
        )  # fmt: skip


@kernel
def _measure(
    covariance: Floats,
    precision: Floats,
    log_det: float,
    columns: Ints,
    n_gone: Ints,
    held: Any,
    line: Ints,
    group: Ints,
    away: Floats,
    told: Floats,
    root: Floats,
    solved: Floats,
    square: Floats,
    log_dets: Floats,
) -> None:
    """Squared distances of the rows in the workspace, those of a pattern one after another."""
    np.dot(away[:held], precision, told[:held])
    of_block, shares = np.zeros(LANES), np.empty(LANES)
    lanes = np.empty((3, LANES), dtype=np.int64)
    begin, size, known = np.int64(0), np.int64(0), np.int64(-1)
    d = columns.shape[1]
    while begin < held:
        if n_gone[group[begin]] == 0:
            whole = 0.0
            for v in range(d):
                whole += away[begin, v] * told[begin, v]
            square[line[begin]], log_dets[line[begin]] = whole, log_det
            begin += 1
            continue
        by_missing = n_gone[group[begin]] <= d // 2
        end = fill_lanes(begin, held, group, d, n_gone, d // 2, lanes)
        if group[end - 1] != known or group[begin] != known:
            known = group[begin] if group[begin] == group[end - 1] else np.int64(-1)
            size = (lanes[2].max() + 1) // 2 * 2
            matrix = precision if by_missing else covariance
            load_blocks(matrix, columns, lanes, size, root)
            factorise_blocks(size, root, of_block)
        rows = told if by_missing else away
        load_cells(rows, begin, end, columns, lanes, size, solved)
        solve_blocks(size, root, solved)
        add_squares(size, solved, shares)
        for row in range(begin, end):
            here, lane = line[row], row - begin
            square[here], log_dets[here] = shares[lane], of_block[lane]
            if by_missing:
                whole = 0.0
                for v in range(d):
                    whole += away[row, v] * told[row, v]
                square[here], log_dets[here] = whole - shares[lane], log_det + of_block[lane]
        begin = end


@kernel
def add_rows(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    weight: Floats,
    spread_weight: Floats,
    total: Floats,
    square: Floats,
) -> None:
    """Expected sums over completed rows; see :func:`gaussians.statistics`.

    Those of products are complete on and below the diagonal.
    """
    n_patterns, d = seen.shape
    away, told = np.empty((_ROWS, d)), np.empty((_ROWS, d))
    line, group = np.empty(_ROWS, dtype=np.int64), np.empty(_ROWS, dtype=np.int64)
    columns, n_gone = np.empty((n_patterns, d), dtype=np.int64), np.empty(n_patterns, np.int64)
    list_columns(seen, columns, n_gone)
    # Patterns with most missing cells come first. Blocks have an even size.
    widest = (n_gone[0] + 1) // 2 * 2 if n_patterns > 0 else 0
    blocks, sums = np.empty((3, widest * widest * LANES)), np.empty((d, d))
    for k in range(len(mean)):
        held = np.int64(0)
        for pattern in range(n_patterns):
            for r in range(ptr[pattern], ptr[pattern + 1]):
                if weight[k, r] == 0.0:
                    continue
                line[held], group[held] = r, pattern
                for v in range(d):
                    away[held, v] = scores[r, v] - mean[k, v] if seen[pattern, v] else 0.0
                held += 1
                if held == _ROWS:
                    _complete(
                        precision[k], columns, n_gone, held, line, group, away, told, blocks,
                        spread_weight[k], square[k],
                    )  # fmt: skip
                    _add_products(weight[k], line, away, told, held, sums, total[k], square[k])
                    held = np.int64(0)
        _complete(
            precision[k], columns, n_gone, held, line, group, away, told, blocks, spread_weight[k],
            square[k],
        )  # fmt: skip
        _add_products(weight[k], line, away, told, held, sums, total[k], square[k])


@kernel
def _complete(
    precision: Floats,
    columns: Ints,
    n_gone: Ints,
    held: Any,
    line: Ints,
    group: Ints,
    away: Floats,
    told: Floats,
    blocks: Floats,
    spread_weight: Floats,
    square: Floats,
) -> None:
    """Fill in the rows in the workspace, and add lower triangles of conditional covariances."""
    if held == 0 or n_gone[group[0]] == 0:
        return
    np.dot(away[:held], precision, told[:held])
    d = columns.shape[1]
    lanes = np.empty((3, LANES), dtype=np.int64)
    of_block = np.empty(LANES)
    solved, filled = np.empty((d + 1) * LANES), np.empty((d + 1) * LANES)
    begin, size, known = np.int64(0), np.int64(0), np.int64(-1)
    while begin < held:
        p = group[begin]
        end = fill_lanes(begin, held, group, d, n_gone, d, lanes)
        if group[end - 1] != known or p != known:
            known = p if p == group[end - 1] else np.int64(-1)
            size = (lanes[2].max() + 1) // 2 * 2
            load_blocks(precision, columns, lanes, size, blocks[0])
            factorise_blocks(size, blocks[0], of_block)
            invert_blocks(size, blocks[0], blocks[1], blocks[2])
        load_cells(told, begin, end, columns, lanes, size, solved)
        solve_blocks(size, blocks[0], solved)
        complete_blocks(size, blocks[1], solved, filled)
        for row in range(begin, end):
            lane, q = row - begin, group[row]
            for i in range(n_gone[q]):
                v = columns[q, i]
                away[row, v] = filled[i * LANES + lane]
                for j in range(i + 1):
                    spread_here = blocks[2, (i * size + j) * LANES + lane]
                    square[v, columns[q, j]] -= spread_weight[line[row]] * spread_here
        begin = end


@internal_kernel
def _add_products(
    weight: Floats,
    line: Ints,
    away: Floats,
    weighted: Floats,
    held: Any,
    sums: Floats,
    total: Floats,
    square: Floats,
) -> None:
    """Add the rows in the workspace and their products."""
    for r in range(held):
        for v in range(len(total)):
            weighted[r, v] = weight[line[r]] * away[r, v]
            total[v] += weighted[r, v]
    np.dot(weighted[:held].T, away[:held], sums)
    for v in range(len(square)):
        for u in range(len(square)):
            square[v, u] += sums[v, u]
