"""Weights of all spanning trees for many rows at a time.

Each row gives every edge of the complete graph a weight of its own, looked up by the states of its
two ends. The sum of the weights of all trees is a determinant, and its derivatives are entries of
an inverse (see :mod:`skpc.all_trees.laplacian`); both come from eliminating the vertices in turn.
Eight rows are eliminated side by side, as the innermost axis, so that every step is one of whole
vectors whatever the number of vertices; four vertices at a time, so that a pass over memory does
the work of four. With many vertices the rows no longer fit the cache together, and are taken one by
one (:mod:`skpc.all_trees.wide_rows`).

Vertices are eliminated without a subtraction: each pivot is summed from the weights that are left.
So neither weights that differ by many orders of magnitude nor a Laplacian that is singular to
working precision cost the sum of the weights any accuracy.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_log
from skpc._jit import LANES, add_products, inlined, kernel
from skpc._threads import in_threads, n_threads, slices
from skpc.all_trees.wide_rows import (
    OPERATIONS,
    add_wide_edges,
    log_weights_of_wide,
    probability,
)
from skpc.all_trees.workspace import Workspace

#: Vertices eliminated together.
PANEL = 4
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: With more vertices, a row at a time is faster by products of matrices: for likelihoods, and for
#: gradients of directed and of undirected trees.
_WIDEST, _WIDEST_GRADIENT = 200, (95, 140)
#: Entries of inverses that are worth a thread, and children whose edges are added together.
_ENTRIES, _TOGETHER = 3e5, 4
#: Numbers of inverses that are held together: memory that the system does not take back each time.
_HELD = 2**22


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
    old[n_panel:, low:] = 0.0
    new[n_panel:, low:] = 0.0
    for b in range(n_panel):
        k = start + b
        for j in range(low, n + 1):
            for lane in range(LANES):
                new[b, j, lane] = into[j, k, lane] if symmetric and k < j < n else into[k, j, lane]
        for j in range(low, n):
            for lane in range(LANES):
                old[b, j, lane] = new[b, j, lane] if symmetric else into[j, k, lane]


@inlined
def _start_block(start: int, n_panel: int, before: Floats, block: Floats) -> None:
    """The rows of a panel before elimination; see :func:`_reduce_panel`."""
    last, width = 2 * PANEL, before.shape[1]
    block[:] = 0.0
    for b in range(n_panel):
        for j in range(start + n_panel, width):
            for lane in range(LANES):
                block[b, last, lane] += before[b, j, lane]
        for lane in range(LANES):
            block[b, PANEL + b, lane] = 1.0
        for c in range(n_panel):
            for lane in range(LANES):
                block[b, c, lane] = before[b, start + c, lane]


@inlined
def _reduce_panel(n_panel: int, block: Floats, log_weight: Floats) -> None:
    """Eliminate the vertices of a panel from each other's rows, as far as the panel shows them.

    ``block`` has a row for each vertex: its entries within the panel, by how much the rows before
    go into it, and the sum of its entries to the right of the panel.
    """
    last = 2 * PANEL
    for b in range(n_panel):
        for lane in range(LANES):
            pivot = block[b, last, lane]
            for c in range(b + 1, n_panel):
                pivot += block[b, c, lane]
            pivot = max(pivot, _SMALLEST)
            log_weight[lane] += fast_log(pivot)
            block[b, b, lane] = 1.0
            for m in range(last + 1):
                block[b, m, lane] /= pivot
        for c in range(n_panel):
            if c == b:
                continue
            for lane in range(LANES):
                through = block[c, b, lane]
                block[c, b, lane] = 0.0
                for m in range(last + 1):
                    block[c, m, lane] += through * block[b, m, lane]


@inlined
def _finish_panel(
    start: int, n_panel: int, low: int, block: Floats, before: Floats, share: Floats, new: Floats
) -> None:
    """The rows of a panel after elimination."""
    width = before.shape[1]
    new[:, low:] = 0.0
    share[n_panel:] = 0.0
    for b in range(n_panel):
        for c in range(n_panel):
            for lane in range(LANES):
                share[c, b, lane] = block[b, PANEL + c, lane]
    for b in range(0, n_panel, 2):
        pair = 1 if b + 1 < n_panel else 0
        add_products(new, share, before, b, low, width - low, pair)
    for b in range(n_panel):
        for c in range(n_panel):
            for lane in range(LANES):
                new[b, start + c, lane] = block[b, c, lane]


@kernel
def eliminate_lanes(
    into: Floats, symmetric: bool, invert: bool, panel: Floats, log_weight: Floats
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
    panel : array of shape (4, 4, n + 1, LANES)
        Workspace for the vertices of a panel.
    log_weight : array of shape (LANES,)
        The log weight of all trees is added.
    """
    n = len(into)
    old, before, share, new = panel[0], panel[1], panel[2], panel[3]
    block = np.empty((PANEL, 2 * PANEL + 1, LANES))
    for start in range(0, n, PANEL):
        n_panel = min(PANEL, n - start)
        low = 0 if invert else start
        _load_panel(into, start, n_panel, low, symmetric, old, before)
        _start_block(start, n_panel, before, block)
        _reduce_panel(n_panel, block, log_weight)
        _finish_panel(start, n_panel, low, block, before, share, new)
        for i in range(low, n, 2):
            pair = 1 if i + 1 < n else 0
            if start <= i < start + n_panel:
                for b in range(i - start, i - start + pair + 1):
                    for j in range(low, n + 1):
                        for lane in range(LANES):
                            into[start + b, j, lane] = new[b, j, lane]
                continue
            for row in range(i, i + pair + 1):
                for k in range(start, start + n_panel):
                    for lane in range(LANES):
                        into[row, k, lane] = 0.0
            # A pair of rows share what is fetched; above the diagonal nothing is read.
            high = min(i + 2, n) if symmetric else n
            add_products(into, old, new, i, low, high - low, pair)
            add_products(into, old, new, i, n, 1, pair)


@kernel
def _add_edges(
    inverse: Floats,
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    children: Ints,
    expected: Floats,
) -> None:
    """Add the probabilities of the edges into some vertices, times the weights of the rows.

    ``inverse`` has shape (n_groups, n, n or n + 1, lanes), one row of ``index`` a lane. If
    symmetric, an edge counts at the state of its later vertex first.
    """
    n, n_lanes = inverse.shape[1], inverse.shape[3]
    for row in range(len(index)):
        of_group, lane, w = inverse[row // n_lanes], row % n_lanes, weight[row]
        root = index[row, n]
        for v in range(children[0], children[1]):
            to_v = of_group[v, v, lane]
            state = index[row, v]
            of_root = probability(factor[state, root], to_v)
            if symmetric:
                expected[root, state] += w * of_root
            else:
                expected[state, root] += w * of_root
            for u in range(v if symmetric else n):
                parent = index[row, u]
                if symmetric:
                    resistance = to_v + of_group[u, u, lane] - 2.0 * of_group[v, u, lane]
                else:
                    resistance = to_v - of_group[u, v, lane]
                expected[state, parent] += w * probability(factor[state, parent], resistance)


@kernel
def _eliminate_rows(
    factor: Floats,
    index: Ints,
    symmetric: bool,
    log_weight: Floats,
    inverse: Floats,
) -> None:
    """Eliminate all rows, a few side by side.

    Parameters
    ----------
    factor, index, symmetric
        See :func:`log_tree_weights`.
    log_weight : array of shape (n_rows,)
        Overwritten with the log weight of all trees of each row.
    inverse : array of shape (n_groups, n, n + 1, LANES)
        Overwritten with the inverses of the Laplacians whose rows are the weights into a vertex;
        without groups these are not worked out.
    """
    n_rows, n = len(index), index.shape[1] - 1
    invert = len(inverse) > 0
    workspace = np.empty((n, n + 1, LANES))
    panel = np.empty((4, PANEL, n + 1, LANES))
    total = np.empty(LANES)
    for first in range(0, n_rows, LANES):
        into = inverse[first // LANES] if invert else workspace
        total[:] = 0.0
        _gather(factor, index, first, into)
        eliminate_lanes(into, symmetric, invert, panel, total)
        for lane in range(min(LANES, n_rows - first)):
            log_weight[first + lane] = total[lane]


@kernel
def _expect_rows(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    log_weight: Floats,
    expected: Floats,
) -> None:
    """Log weights and edges of all rows; inverses of a few rows at a time stay in the cache."""
    n_rows, n = len(index), index.shape[1] - 1
    inverse = np.empty((1, n, n + 1, LANES))
    children = np.array([0, n])
    for first in range(0, n_rows, LANES):
        last = min(first + LANES, n_rows)
        few = index[first:last]
        _eliminate_rows(factor, few, symmetric, log_weight[first:last], inverse)
        _add_edges(inverse, factor, few, weight[first:last], symmetric, children, expected)


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
    n = index.shape[1] - 1
    if n > _WIDEST:
        return log_weights_of_wide(factor, index, symmetric)
    log_weight, none = np.empty(len(index)), np.empty((0, n, n + 1, LANES))

    def work(rows: slice) -> None:
        _eliminate_rows(factor, index[rows], symmetric, log_weight[rows], none)

    in_threads(work, _parts(len(index), n))
    return log_weight


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
    expected = np.zeros_like(factor)
    workspace = Workspace()
    return add_expected_edges(factor, index, weight, symmetric, expected, workspace), expected


def add_expected_edges(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    expected: Floats,
    workspace: Workspace,
) -> Floats:
    """What :func:`expected_edges` finds, the edges added to those that are there."""
    n = index.shape[1] - 1
    if n > _WIDEST_GRADIENT[symmetric]:
        return add_wide_edges(factor, index, weight, symmetric, expected, workspace)
    log_weight = np.empty(len(index))
    if n_threads() == 1 or len(_parts(len(index), n)) < 2:
        # The same sums in the same order, without a detour by memory.
        _expect_rows(factor, index, weight, symmetric, log_weight, expected)
        return log_weight
    for rows in slices(len(index), LANES * max(1, _HELD // (LANES * n * n))):
        inverse = _inverses(factor, index[rows], symmetric, log_weight[rows])
        _add_block(inverse, factor, index[rows], weight[rows], symmetric, expected)
    return log_weight


def _parts(n_rows: int, n: int) -> list[slice]:
    """Parts of the rows that are worth a thread each, of about the same size."""
    n_parts = max(1, round(n_rows * n**3 / OPERATIONS))
    return slices(n_rows, LANES * max(1, math.ceil(n_rows / (n_parts * LANES))))


def _inverses(factor: Floats, index: Ints, symmetric: bool, log_weight: Floats) -> Floats:
    """The inverse Laplacian of each row, which is a lane; fill in the log weights of all trees."""
    n_rows, n = len(index), index.shape[1] - 1
    inverse = np.empty((-(-n_rows // LANES), n, n + 1, LANES))

    def work(rows: slice) -> None:
        mine = inverse[rows.start // LANES : -(-rows.stop // LANES)]
        _eliminate_rows(factor, index[rows], symmetric, log_weight[rows], mine)

    in_threads(work, _parts(n_rows, n))
    return inverse


def _add_block(
    inverse: Floats, factor: Floats, index: Ints, weight: Floats, symmetric: bool, expected: Floats
) -> None:
    """Add the edges of some rows, a part of the children at a time, which shares no entry."""
    n = index.shape[1] - 1

    def work(children: slice) -> None:
        # The entries of a few children together fit the cache.
        for v in range(children.start, children.stop, _TOGETHER):
            span = np.array([v, min(v + _TOGETHER, children.stop)])
            _add_edges(inverse, factor, index, weight, symmetric, span, expected)

    in_threads(work, slices(n, max(_TOGETHER, round(_ENTRIES / (n * len(index) + 1)))))
