r"""Gaussians over several numbers of which some may be missing.

With the precision :math:`\Lambda`, the distance :math:`d` of the observed cells o from their means,
and missing cells m,

.. math::

    \log N(x_o) &= -\tfrac{|o|}{2} \log 2 \pi + \tfrac12 \log |\Lambda|
        - \tfrac12 \log |\Lambda_{mm}|
        - \tfrac12 \left(d_o^T \Lambda_{oo} d_o - |C^{-1} \Lambda_{mo} d_o|^2\right),
        \qquad C C^T = \Lambda_{mm}, \\
    E[d_m \mid x_o] &= -\Lambda_{mm}^{-1} \Lambda_{mo} d_o,
    \qquad \operatorname{Cov}[d_m \mid x_o] = \Lambda_{mm}^{-1},

so that only the missing block of the precision is factorised; where more cells are missing than
observed it is the observed block of the covariance instead. Eight rows are factorised side by side,
and rows of one missingness pattern share the factor. Where :math:`d` is zero at missing cells, one
product :math:`\Lambda d` for all rows has both :math:`\Lambda_{oo} d_o` and
:math:`\Lambda_{mo} d_o`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, kernel
from skpc.variables.gaussian_blocks import condition, fill, split_columns
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
from skpc.variables.patterns import Patterns

_LOG_2_PI = math.log(2.0 * math.pi)
#: Rows that are held in the workspace at a time.
_ROWS = 1024


class Gaussians(NamedTuple):
    """Multivariate normal distributions over the same d numbers.

    Parameters
    ----------
    mean : ndarray of shape (n_components, d)
    covariance, precision : ndarrays of shape (n_components, d, d)
        The one is the inverse of the other.
    log_det : ndarray of shape (n_components,)
        Log determinants of the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussians import Gaussians
    >>> both = Gaussians.of(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> both.log_det.round(3), both.precision.round(3)
    (array([1.099]), array([[[ 0.667, -0.333],
            [-0.333,  0.667]]]))
    """

    mean: Floats
    covariance: Floats
    precision: Floats
    log_det: Floats

    @classmethod
    def of(cls, mean: Floats, covariance: Floats) -> Gaussians:
        """Gaussians of given means and covariances.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        root = np.linalg.cholesky(covariance)
        log_det = 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        half = np.linalg.inv(root)
        precision = np.ascontiguousarray(half.transpose(0, 2, 1) @ half)
        mean, covariance = np.ascontiguousarray(mean), np.ascontiguousarray(covariance)
        return cls(mean, covariance, precision, log_det)


def log_densities(gaussians: Gaussians, scores: Floats, patterns: Patterns) -> Floats:
    """Log density (nats) of the observed cells of each row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.

    Returns
    -------
    ndarray of shape (n_components, n_rows)
        Zero for a row without observed cells.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussians import Gaussians, log_densities
    >>> from skpc.variables.patterns import Patterns
    >>> both = Gaussians.of(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> scores = np.array([[0.0, 0.0], [2.0, np.nan]])
    >>> log_densities(both, scores, Patterns.of(scores)).round(3)
    array([[-2.387, -2.266]])
    """
    square, log_det = squared_distances(gaussians, scores, patterns)
    square += log_det
    square += patterns.n_seen * _LOG_2_PI
    return np.multiply(square, -0.5, out=square)


def squared_distances(
    gaussians: Gaussians,
    scores: Floats,
    patterns: Patterns,
    wanted: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    """Squared Mahalanobis distances of the observed cells of each row from the means.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    wanted : bool ndarray of shape (n_components, n_rows), default=None
        Whether a row is to be measured under a component; None wants all.

    Returns
    -------
    square, log_det : ndarrays of shape (n_components, n_rows)
        The squared distances, and the log determinants of the covariances of the observed cells;
        zero for a row without any. Infinity and zero where they are not wanted.
    """
    if wanted is None:
        wanted = np.ones((len(gaussians.mean), len(scores)), dtype=bool)
    square, log_det = np.full(wanted.shape, np.inf), np.zeros(wanted.shape)
    some = np.ascontiguousarray(wanted[:, patterns.order])
    _squared_distances(*gaussians, scores[patterns.order], *patterns, some, square, log_det)
    return square, log_det


def statistics(
    gaussians: Gaussians,
    scores: Floats,
    patterns: Patterns,
    weight: Floats,
    spread_weight: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Expected weighted sums over the rows, whose missing cells are filled in by each component.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    weight : ndarray of shape (n_components, n_rows)
        Weight of each row in each component, not negative. Weights of zero cost nothing.
    spread_weight : ndarray of shape (n_components, n_rows), default=None
        Weights of the conditional covariances, zero where the weights are; None takes these.

    Returns
    -------
    count : ndarray of shape (n_components,)
        Sums of the weights.
    total : ndarray of shape (n_components, d)
        Sums of the distances from the mean of the component.
    square : ndarray of shape (n_components, d, d)
        Sums of the products of these distances, the conditional covariances of the missing cells
        included.
    """
    n_components, d = gaussians.mean.shape
    total, square = np.zeros((n_components, d)), np.zeros((n_components, d, d))
    ordered = np.ascontiguousarray(weight[:, patterns.order])
    spread = ordered
    if spread_weight is not None:
        spread = np.ascontiguousarray(spread_weight[:, patterns.order])
    _statistics(*gaussians, scores[patterns.order], *patterns, ordered, spread, total, square)
    return weight.sum(axis=1), total, square


def conditionals(
    gaussians: Gaussians, scores: Floats, patterns: Patterns, wanted: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Distribution of each missing cell given the observed cells of its row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    wanted : bool ndarray of shape (n_components, n_rows)
        Which components are asked about which rows.

    Returns
    -------
    mean, sd : ndarrays of shape (n_components, n_rows, d)
        An observed cell has itself as mean, and sd 0; zeros where they are not wanted.
    """
    shape = (len(gaussians.mean), *scores.shape)
    mean, variance = np.zeros(shape), np.zeros(shape)
    _conditionals(*gaussians, scores[patterns.order], *patterns, wanted, mean, variance)
    return mean, np.sqrt(variance)


def leave_one_out(gaussians: Gaussians, scores: Floats, patterns: Patterns) -> Floats:
    """Log density (nats) of each observed cell given the other observed cells of its row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.

    Returns
    -------
    ndarray of shape (n_components, n_rows, d)
        Zero where a cell is missing.
    """
    found = np.zeros((len(gaussians.mean), *scores.shape))
    _leave_one_out(*gaussians, scores[patterns.order], *patterns, found)
    return found


@kernel
def _squared_distances(
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
    unit, of_block, shares = np.ones(LANES), np.zeros(LANES), np.empty(LANES)
    lanes = np.empty((3, LANES), dtype=np.int64)
    begin, size, known = np.int64(0), np.int64(0), np.int64(-1)
    while begin < held:
        by_missing = 2 * n_gone[group[begin]] <= columns.shape[1]
        end = fill_lanes(begin, held, group, columns, n_gone, lanes)
        if group[end - 1] != known or group[begin] != known:
            known = group[begin] if group[begin] == group[end - 1] else np.int64(-1)
            size = lanes[2].max()
            matrix = precision if by_missing else covariance
            load_blocks(matrix, columns, lanes, size, root)
            factorise_blocks(size, unit, root, of_block)
        rows = told if by_missing else away
        load_cells(rows, begin, end, columns, lanes, size, solved)
        solve_blocks(size, root, solved)
        add_squares(size, solved, shares)
        for row in range(begin, end):
            here, lane = line[row], row - begin
            square[here], log_dets[here] = shares[lane], of_block[lane]
            if by_missing:
                whole = 0.0
                for v in range(away.shape[1]):
                    whole += away[row, v] * told[row, v]
                square[here], log_dets[here] = whole - shares[lane], log_det + of_block[lane]
        begin = end


@kernel
def _statistics(
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
    n_patterns, d = seen.shape
    away, told = np.empty((_ROWS, d)), np.empty((_ROWS, d))
    line, group = np.empty(_ROWS, dtype=np.int64), np.empty(_ROWS, dtype=np.int64)
    columns, n_gone = np.empty((n_patterns, d), dtype=np.int64), np.empty(n_patterns, np.int64)
    list_columns(seen, columns, n_gone)
    blocks, sums = np.empty((3, (d // 2 + 1) ** 2 * LANES)), np.empty((d, d))
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
                        covariance[k], precision[k], columns, n_gone, held, line, group, away,
                        told, blocks, spread_weight[k], square[k],
                    )  # fmt: skip
                    _add_products(weight[k], line, away, told, held, sums, total[k], square[k])
                    held = np.int64(0)
        _complete(
            covariance[k], precision[k], columns, n_gone, held, line, group, away, told, blocks,
            spread_weight[k], square[k],
        )  # fmt: skip
        _add_products(weight[k], line, away, told, held, sums, total[k], square[k])


@kernel
def _complete(
    covariance: Floats,
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
    """Fill in the rows in the workspace, and add their conditional covariances."""
    np.dot(away[:held], precision, told[:held])
    d = columns.shape[1]
    lanes = np.empty((3, LANES), dtype=np.int64)
    unit, of_block = np.ones(LANES), np.empty(LANES)
    solved, filled = np.empty((d + 1) * LANES), np.empty((d + 1) * LANES)
    inverse, spread, space = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    begin, size, known = np.int64(0), np.int64(0), np.int64(-1)
    while begin < held:
        p = group[begin]
        if 2 * n_gone[p] > d:
            gone, here = columns[p, : n_gone[p]], columns[p, n_gone[p] :]
            if p != known:
                condition(
                    covariance, precision, here, d - n_gone[p], gone, n_gone[p], inverse, spread
                )
                known = p
            fill(
                covariance, precision, here, d - n_gone[p], gone, n_gone[p], inverse, away[begin],
                space,
            )  # fmt: skip
            for i in range(n_gone[p]):
                for j in range(n_gone[p]):
                    square[gone[i], gone[j]] += spread_weight[line[begin]] * spread[i, j]
            begin += 1
            continue
        end = fill_lanes(begin, held, group, columns, n_gone, lanes)
        if group[end - 1] != known or p != known:
            known = p if p == group[end - 1] else np.int64(-1)
            size = lanes[2].max()
            load_blocks(precision, columns, lanes, size, blocks[0])
            factorise_blocks(size, unit, blocks[0], of_block)
            invert_blocks(size, unit, blocks[0], blocks[1], blocks[2])
        load_cells(told, begin, end, columns, lanes, size, solved)
        solve_blocks(size, blocks[0], solved)
        complete_blocks(size, unit, blocks[1], solved, filled)
        for row in range(begin, end):
            lane, q = row - begin, group[row]
            for i in range(n_gone[q]):
                v = columns[q, i]
                away[row, v] = filled[i * LANES + lane]
                for j in range(i + 1):
                    gained = -spread_weight[line[row]] * blocks[2, (i * size + j) * LANES + lane]
                    square[v, columns[q, j]] += gained
                    if j < i:
                        square[columns[q, j], v] += gained
        begin = end


@kernel
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


@kernel
def _conditionals(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    found: Floats,
    variance: Floats,
) -> None:
    d = scores.shape[1]
    here, gone = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    space, inverse, spread = np.empty(d), np.empty((d, d)), np.empty((d, d))
    away = np.empty(d)
    for pattern in range(len(ptr) - 1):
        n_here, n_gone = split_columns(seen, pattern, here, gone)
        for k in range(len(mean)):
            known = False
            for r in range(ptr[pattern], ptr[pattern + 1]):
                if not wanted[k, order[r]]:
                    continue
                if not known:
                    condition(
                        covariance[k], precision[k], here, n_here, gone, n_gone, inverse, spread
                    )
                    known = True
                for v in range(d):
                    away[v] = scores[r, v] - mean[k, v] if seen[pattern, v] else 0.0
                fill(covariance[k], precision[k], here, n_here, gone, n_gone, inverse, away, space)
                for v in range(d):
                    found[k, order[r], v] = mean[k, v] + away[v]
                for i in range(n_gone):
                    variance[k, order[r], gone[i]] = spread[i, i]


@kernel
def _leave_one_out(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    found: Floats,
) -> None:
    d = scores.shape[1]
    here, gone = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    inverse, observed = np.empty((d, d)), np.empty((d, d))
    for pattern in range(len(ptr) - 1):
        n_here, n_gone = split_columns(seen, pattern, here, gone)
        for k in range(len(mean)):
            # The precision is to the observed cells what the covariance is to the missing ones.
            condition(precision[k], covariance[k], gone, n_gone, here, n_here, inverse, observed)
            for r in range(ptr[pattern], ptr[pattern + 1]):
                for i in range(n_here):
                    rest = 0.0
                    for j in range(n_here):
                        rest += observed[i, j] * (scores[r, here[j]] - mean[k, here[j]])
                    strength = observed[i, i]
                    found[k, order[r], here[i]] = 0.5 * (
                        math.log(strength) - _LOG_2_PI - rest * rest / strength
                    )
