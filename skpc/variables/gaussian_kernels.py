"""Kernels of Gaussians with missing cells; the formulas stand in :mod:`skpc.variables.gaussians`.

They say what the plain sums of ``tests/naive/gaussians.py`` say.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import internal_kernel, kernel


@internal_kernel
def factorise(matrix: Floats, index: Ints, root: Floats) -> float:
    """Cholesky factor of the block that an index selects, and its log determinant.

    Its diagonal holds reciprocals, since products are cheaper than quotients.
    """
    log_det = 0.0
    for i in range(len(index)):
        # Row by row: both factors of a product are neighbours in memory.
        for j in range(i):
            rest = matrix[index[i], index[j]]
            for s in range(j):
                rest -= root[i, s] * root[j, s]
            root[i, j] = rest * root[j, j]
        # Reciprocals on the diagonal: solving multiplies, which is faster than division.
        rest = matrix[index[i], index[i]]
        for s in range(i):
            rest -= root[i, s] * root[i, s]
        root[i, i] = 1.0 / math.sqrt(rest)
        log_det += math.log(rest)
    return log_det


@internal_kernel
def _solve(root: Floats, begin: Any, size: Any, vector: Floats) -> None:
    """Solve by a factor in place; the entries before ``begin`` are zero."""
    for i in range(begin, size):
        # Loops over slices begin at zero: numba looks for negative places in others, one by one.
        row, solved, rest = root[i, begin:i], vector[begin:i], vector[i]
        for j in range(len(row)):
            rest -= row[j] * solved[j]
        vector[i] = rest * root[i, i]


@kernel(new_arrays=True)
def measure(
    covariance: Floats,
    precision: Floats,
    columns: Ints,
    n_missing: Ints,
    pattern: Ints,
    distance: Floats,
    mapped: Floats,
    square: Floats,
    log_det: Floats,
) -> None:
    """Squared distances and log determinants of rows, those of a pattern one after another.

    ==========  ==================  ==========================================================
    covariance  (d, d)              of the component
    precision   (d, d)              its inverse
    columns     (n_patterns, d)     columns of each pattern, the missing ones first
    n_missing   (n_patterns,)       number of missing columns of each pattern
    pattern     (n_rows,)           the pattern of each row
    distance    (n_rows, d)         from the mean, zero where missing
    mapped      (n_rows, d)         the distances times the precision
    square      (n_rows,)           their products; changed to those of the observed cells alone
    log_det     (n_rows,)           of the covariance; changed to that of the observed cells
    ==========  ==================  ==========================================================
    """
    d = distance.shape[1]
    root, solved = np.empty((d // 2 + 1, d // 2 + 1)), np.empty(d + 1)
    factorised, of_block = np.int64(-1), 0.0
    for r in range(len(pattern)):
        p = pattern[r]
        m = n_missing[p]
        # The precision has answered for complete rows.
        if m == 0:
            continue
        # The smaller block: that of the missing cells, or that of the observed ones.
        by_missing = 2 * m <= d
        block = columns[p, :m] if by_missing else columns[p, m:]
        matrix = precision if by_missing else covariance
        # Rows of a pattern stand together, so that the last factor is all that is kept.
        # Rows of one pattern stand together, so that each factor is made once.
        if p != factorised:
            factorised, of_block = p, factorise(matrix, block, root)
        # The precision maps what is observed to the missing cells.
        rows = mapped if by_missing else distance
        for s in range(len(block)):
            solved[s] = rows[r, block[s]]
        _solve(root, 0, len(block), solved)
        total = 0.0
        for s in range(len(block)):
            total += solved[s] * solved[s]
        if by_missing:
            # The lemma on Schur complements: what missing cells would have added is taken away.
            square[r] -= total
            log_det[r] += of_block
        else:
            square[r], log_det[r] = total, of_block


@kernel(new_arrays=True)
def complete(
    covariance: Floats,
    precision: Floats,
    columns: Ints,
    n_missing: Ints,
    pattern: Ints,
    weight: Floats,
    mapped: Floats,
    distance: Floats,
    spread: Floats,
    variance: Floats,
) -> None:
    """Fill in the missing cells of rows, those of a pattern one after another.

    ==========  ==================  ==========================================================
    covariance  (d, d)              of the component
    precision   (d, d)              its inverse
    columns     (n_patterns, d)     columns of each pattern, the missing ones first
    n_missing   (n_patterns,)       number of missing columns of each pattern
    pattern     (n_rows,)           the pattern of each row
    weight      (n_rows,)           weight of the conditional covariance of each row
    mapped      (n_rows, d)         the distances times the precision
    distance    (n_rows, d)         from the mean; zeros of missing cells change to expectations
    spread      (d, d)              receives the weighted sum of conditional covariances, lower half
    variance    (n_rows or 0, d)    receives conditional variances, if it has rows
    ==========  ==================  ==========================================================
    """
    n_rows, d = distance.shape
    root, solved = np.empty((d // 2 + 1, d // 2 + 1)), np.empty(d + 1)
    half, begin = np.empty((d, d // 2 + 1)), 0
    while begin < n_rows:
        # What a pattern needs is found once for all of its rows.
        p, end, weights = pattern[begin], begin, 0.0
        # The spread of a pattern is the same for all its rows: it is added once, with their weight.
        while end < n_rows and pattern[end] == p:
            weights += weight[end]
            end += 1
        m = n_missing[p]
        if m > 0:
            by_missing = 2 * m <= d
            missing, observed = columns[p, :m], columns[p, m:]
            # The smaller block, as where distances are measured.
            block = missing if by_missing else observed
            factorise(precision if by_missing else covariance, block, root)
            _halve(covariance, missing, block, by_missing, root, half)
            rows = variance[begin:end]
            _add_spread(covariance, missing, len(block), by_missing, weights, half, spread, rows)
            for r in range(begin, end):
                # Half of the solution for the row; the other half is that of each missing cell.
                # Either block gives the same expectation, by other factors.
                for s in range(len(block)):
                    solved[s] = -mapped[r, block[s]] if by_missing else distance[r, block[s]]
                _solve(root, 0, len(block), solved)
                for i in range(m):
                    expected = 0.0
                    for s in range(len(block)):
                        expected += half[i, s] * solved[s]
                    distance[r, missing[i]] = expected
        begin = end


@internal_kernel
def _halve(
    covariance: Floats, missing: Ints, block: Ints, by_missing: Any, root: Floats, half: Floats
) -> None:
    """Solve for each missing cell: its column of the unit matrix, or of the covariance.

    Products of the solutions are the conditional covariance, or what it lacks.
    """
    for i in range(len(missing)):
        for s in range(len(block)):
            half[i, s] = 0.0 if by_missing else covariance[missing[i], block[s]]
        # The inverse of the block of the precision is the covariance of the missing cells.
        if by_missing:
            half[i, i] = 1.0
        # The first entries of a column of the unit matrix stay zero.
        _solve(root, i if by_missing else 0, len(block), half[i])


@internal_kernel
def _add_spread(
    covariance: Floats,
    missing: Ints,
    size: Any,
    by_missing: Any,
    weight: float,
    half: Floats,
    spread: Floats,
    variance: Floats,
) -> None:
    """Add the conditional covariance of a pattern; write its diagonal to rows of variances.

    ==========  ==============  ==================================================================
    covariance  (d, d)          of the component
    missing     (n_missing,)    the missing columns
    size        int             size of the block that has been factorised
    by_missing  bool            whether it is that of the missing cells
    weight      float           of all rows of the pattern
    half        (d, size)       solutions of the missing cells
    spread      (d, d)          receives the weighted covariance, its lower half
    variance    (n_rows, d)     receives the variances of the missing cells
    ==========  ==============  ==================================================================
    """
    if weight == 0.0 and len(variance) == 0:
        return
    for i in range(len(missing)):
        v, first = missing[i], i if by_missing else 0
        left = half[i, first:size]
        # Without a weight nobody asks for more than variances.
        for j in range(i if weight == 0.0 else 0, i + 1):
            right, total = half[j, first:size], 0.0
            for s in range(len(left)):
                total += left[s] * right[s]
            # What the observed cells explain is taken away.
            if not by_missing:
                total = covariance[v, missing[j]] - total
            # Half of the symmetric sum; the caller mirrors it once for all patterns.
            spread[v, missing[j]] += weight * total
            if i == j:
                for r in range(len(variance)):
                    variance[r, v] = total
