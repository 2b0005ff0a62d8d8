"""Weights of all spanning trees for many rows at a time.

Each row gives every edge of the complete graph a weight of its own, looked up by the states of its
two ends. The sum of the weights of all trees is a determinant, and its derivatives are entries of
an inverse (see :mod:`skpc.all_trees.laplacian`); both come from eliminating the vertices in turn.
Eight rows are eliminated side by side, as the innermost axis, so that every step is one of whole
vectors whatever the number of vertices; four vertices at a time, so that a pass over memory does
the work of four. Beyond a few hundred vertices the rows no longer fit the cache together; LAPACK
then takes them one by one.

Vertices are eliminated without a subtraction: each pivot is summed from the weights that are left.
So neither weights that differ by many orders of magnitude nor a Laplacian that is singular to
working precision cost the sum of the weights any accuracy.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, add_products, fast_log, inlined, kernel

#: Vertices eliminated together.
_PANEL = 4
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: With more vertices, a row at a time is faster by LAPACK.
_WIDEST = 220
#: LAPACK's answer is taken if no pivot has lost more than this share of its diagonal entry.
_LOST = 1e-10


@kernel
def _gather(factor: Floats, index: Ints, first: int, into: Floats) -> None:
    """Look up the weights into each vertex for the rows from ``first`` on, one row a lane.

    Lanes beyond the last row repeat it.
    """
    n_rows, n = len(index), len(into)
    for v in range(n):
        for u in range(n + 1):
            for lane in range(into.shape[2]):
                row = min(first + lane, n_rows - 1)
                into[v, u, lane] = factor[index[row, v], index[row, u]]
        for lane in range(into.shape[2]):
            into[v, v, lane] = 0.0


@inlined
def _load_panel(
    into: Floats, start: int, n_panel: int, low: int, symmetric: bool, old: Floats, new: Floats
) -> None:
    """Copy the columns (``old``) and the rows (``new``) of the vertices of a panel."""
    n = len(into)
    for b in range(_PANEL):
        for j in range(low, n + 1):
            for lane in range(LANES):
                old[b, j, lane] = 0.0
                new[b, j, lane] = 0.0
    for b in range(n_panel):
        k = start + b
        for j in range(low, n + 1):
            for lane in range(LANES):
                new[b, j, lane] = into[j, k, lane] if symmetric and k < j < n else into[k, j, lane]
        for j in range(low, n):
            for lane in range(LANES):
                old[b, j, lane] = new[b, j, lane] if symmetric else into[j, k, lane]


@inlined
def _eliminate_panel(start: int, n_panel: int, low: int, new: Floats, log_weight: Floats) -> None:
    """Eliminate the vertices of a panel from each other's rows."""
    width = new.shape[1]
    inverse = np.empty(LANES)
    through = np.empty(LANES)
    for b in range(n_panel):
        k = start + b
        for lane in range(LANES):
            inverse[lane] = 0.0
        for j in range(k + 1, width):
            for lane in range(LANES):
                inverse[lane] += new[b, j, lane]
        for lane in range(LANES):
            pivot = max(inverse[lane], _SMALLEST)
            log_weight[lane] += fast_log(pivot)
            inverse[lane] = 1.0 / pivot
            new[b, k, lane] = 1.0
        for j in range(low, width):
            for lane in range(LANES):
                new[b, j, lane] *= inverse[lane]
        for c in range(n_panel):
            if c == b:
                continue
            for lane in range(LANES):
                through[lane] = new[c, k, lane]
                new[c, k, lane] = 0.0
            for j in range(low, width):
                for lane in range(LANES):
                    new[c, j, lane] += through[lane] * new[b, j, lane]


@kernel
def _eliminate(
    into: Floats, symmetric: bool, invert: bool, old: Floats, new: Floats, log_weight: Floats
) -> None:
    """Eliminate all vertices.

    Parameters
    ----------
    into : array of shape (n, n + 1, LANES)
        Weights into each vertex; the last column is the root. If symmetric, only the columns below
        the diagonal and the last one are read. With ``invert`` overwritten with the inverse of
        the Laplacian whose rows are those of the weights; else with nothing of use.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.
    old, new : arrays of shape (4, n + 1, LANES)
        Workspace for the vertices of a panel, before and after.
    log_weight : array of shape (LANES,)
        The log weight of all trees is added.
    """
    n = len(into)
    step = (n + 1) * LANES
    for start in range(0, n, _PANEL):
        n_panel = min(_PANEL, n - start)
        low = 0 if invert else start
        _load_panel(into, start, n_panel, low, symmetric, old, new)
        _eliminate_panel(start, n_panel, low, new, log_weight)
        for i in range(low, n):
            high = i + 1 if symmetric else n
            if start <= i < start + n_panel:
                for j in range(low, n + 1):
                    for lane in range(LANES):
                        into[i, j, lane] = new[i - start, j, lane]
                continue
            for k in range(start, start + n_panel):
                for lane in range(LANES):
                    into[i, k, lane] = 0.0
            for j in range(low, high):
                at = (i * (n + 1) + j) * LANES
                add_products(into, at, old, i * LANES, new, j * LANES, step)
            add_products(into, (i * (n + 1) + n) * LANES, old, i * LANES, new, n * LANES, step)


@inlined
def _probability(weight: float, resistance: float) -> float:
    """Probability of an edge, whatever rounding has left of its resistance."""
    return min(max(weight * resistance, 0.0), 1.0)


@kernel
def _add_edges(
    inverse: Floats,
    factor: Floats,
    index: Ints,
    first: int,
    weight: Floats,
    symmetric: bool,
    expected: Floats,
) -> None:
    """Add the edge probabilities of the rows from ``first`` on, times the weights of the rows.

    If symmetric, an edge counts at the state of its later vertex first.
    """
    n = len(inverse)
    for lane in range(min(inverse.shape[2], len(index) - first)):
        row, w = first + lane, weight[first + lane]
        for v in range(n):
            to_v = inverse[v, v, lane]
            state, root = index[row, v], index[row, n]
            probability = _probability(factor[state, root], to_v)
            if symmetric:
                expected[root, state] += w * probability
            else:
                expected[state, root] += w * probability
            for u in range(v if symmetric else n):
                parent = index[row, u]
                if symmetric:
                    resistance = to_v + inverse[u, u, lane] - 2.0 * inverse[v, u, lane]
                else:
                    resistance = to_v - inverse[u, v, lane]
                expected[state, parent] += w * _probability(factor[state, parent], resistance)


@kernel
def _eliminate_rows(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    invert: bool,
    log_weight: Floats,
    expected: Floats,
) -> None:
    """Eliminate all rows, a few side by side; see :func:`expected_edges`."""
    n_rows, n = len(index), index.shape[1] - 1
    into = np.empty((n, n + 1, LANES))
    old = np.empty((_PANEL, n + 1, LANES))
    new = np.empty((_PANEL, n + 1, LANES))
    total = np.empty(LANES)
    for first in range(0, n_rows, LANES):
        total[:] = 0.0
        _gather(factor, index, first, into)
        _eliminate(into, symmetric, invert, old, new, total)
        for lane in range(min(LANES, n_rows - first)):
            log_weight[first + lane] = total[lane]
        if invert:
            _add_edges(into, factor, index, first, weight, symmetric, expected)


def log_tree_weights(factor: Floats, index: Ints, symmetric: bool) -> Floats:
    """Log of the sum over all spanning trees of the product of their edge weights, for each row.

    Parameters
    ----------
    factor : array of shape (n_states, n_states)
        Weight of an edge between two states: that of the child first, that of its parent second.
    index : array of shape (n_rows, n_vertices), int64
        State of each vertex; trees hang from the last one, the root.
    symmetric : bool
        Whether ``factor`` is. Then trees are undirected, and the root is a vertex like any other.

    Returns
    -------
    ndarray of shape (n_rows,)
        In nats.

    Examples
    --------
    Cayley's formula: there are 5 ** 3 trees on five vertices.

    >>> import numpy as np
    >>> from skpc.all_trees.determinants import log_tree_weights
    >>> np.exp(log_tree_weights(np.ones((5, 5)), np.arange(5)[np.newaxis], True)).round(6)
    array([125.])
    """
    return _eliminated(factor, index, np.empty(0), symmetric, False)[0]


def expected_edges(
    factor: Floats, index: Ints, weight: Floats, symmetric: bool
) -> tuple[Floats, Floats]:
    """The edges of random spanning trees, by the states of their ends.

    A tree of a row is drawn with probability proportional to the product of its edge weights.

    Parameters
    ----------
    factor, index, symmetric
        See :func:`log_tree_weights`.
    weight : array of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    log_weight : ndarray of shape (n_rows,)
        The log weight of all trees, in nats.
    expected : ndarray of shape (n_states, n_states)
        Expected weight of the rows whose tree has an edge between two states, which is ``factor``
        times the derivative of ``weight @ log_weight``. If symmetric, an edge counts at the state
        of its later vertex first, that of its earlier one second. Probabilities are differences
        of entries of an inverse: where weights differ by a factor of 1e6, their error is 1e-10.

    Examples
    --------
    Each of the three edges of a triangle is in two of its three trees.

    >>> import numpy as np
    >>> from skpc.all_trees.determinants import expected_edges
    >>> _, expected = expected_edges(np.ones((3, 3)), np.arange(3)[np.newaxis], np.ones(1), True)
    >>> expected.round(3)
    array([[0.   , 0.   , 0.   ],
           [0.667, 0.   , 0.   ],
           [0.667, 0.667, 0.   ]])
    """
    return _eliminated(factor, index, weight, symmetric, True)


def _eliminated(
    factor: Floats, index: Ints, weight: Floats, symmetric: bool, invert: bool
) -> tuple[Floats, Floats]:
    """What :func:`expected_edges` finds; without ``invert`` the log weights alone."""
    log_weight = np.empty(len(index))
    expected = np.zeros_like(factor) if invert else np.empty((0, 0))
    if index.shape[1] - 1 <= _WIDEST:
        _eliminate_rows(factor, index, weight, symmetric, invert, log_weight, expected)
        return log_weight, expected
    for row in range(len(index)):
        only = index[row : row + 1]
        log_weight[row], inverse = _eliminate_row(factor, only, symmetric, invert)
        if invert:
            part = weight[row : row + 1]
            _add_edges(inverse, factor, only, 0, part, symmetric, expected)
    return log_weight, expected


def _eliminate_row(
    factor: Floats, index: Ints, symmetric: bool, invert: bool
) -> tuple[float, Floats]:
    """The log weight of the trees of one row and the inverse of its Laplacian, as one lane."""
    n = index.shape[1] - 1
    into = np.empty((n, n + 1, 1))
    _gather(factor, index, 0, into)
    laplacian = -into[:, :n, 0]
    diagonal = into[:, :, 0].sum(axis=1)
    np.fill_diagonal(laplacian, diagonal)
    # LAPACK sees the transpose, in which each diagonal entry outweighs its column: no row moves.
    if symmetric:
        triangle, info = lapack.dpotrf(laplacian.T, overwrite_a=True)
        pivot = triangle.diagonal() ** 2
    elif invert:
        triangle, _, inverse, info = lapack.dgesv(laplacian.T, np.eye(n), True, True)
        pivot = triangle.diagonal()
    else:
        triangle, _, info = lapack.dgetrf(laplacian.T, overwrite_a=True)
        pivot = triangle.diagonal()
    if info != 0 or not np.all(pivot > _LOST * diagonal):
        return _eliminate_one_lane(into, symmetric, invert)
    if symmetric and invert:
        inverse, _ = lapack.dpotri(triangle, overwrite_c=True)
    log_weight = float(np.log(pivot).sum())
    return log_weight, inverse.T[:, :, np.newaxis] if invert else into


def _eliminate_one_lane(into: Floats, symmetric: bool, invert: bool) -> tuple[float, Floats]:
    """What :func:`_eliminate_row` finds, whatever the weights."""
    lanes = np.repeat(into, LANES, axis=2)
    workspace = np.empty((2, _PANEL, into.shape[1], LANES))
    log_weight = np.zeros(LANES)
    _eliminate(lanes, symmetric, invert, workspace[0], workspace[1], log_weight)
    return float(log_weight[0]), np.ascontiguousarray(lanes[:, :, :1])
