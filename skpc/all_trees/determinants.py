"""Weights of all spanning trees for many rows at a time.

Each row gives every edge of the complete graph a weight of its own, looked up by the states of its
two ends. The sum of the weights of all trees is a determinant, and its derivatives are entries of
an inverse (see :mod:`skpc.all_trees.spanning_trees`); both come from eliminating vertices.

Vertices are eliminated without a subtraction: each pivot is summed from the weights that are left.
So neither weights that differ by many orders of magnitude nor a Laplacian that is singular to
working precision cost the sum of the weights any accuracy. LAPACK loses all digits there.

Rows of up to 200 vertices are eliminated side by side, eight of them as the innermost axis, so that
every step is one of whole vectors: 5.0x as fast on 2,000 x 69 binary as by products of matrices.
Rows of more vertices are halved: the first half of the vertices is eliminated with the second as
part of its root, what goes through it is added to the second half, and so on (:func:`_invert`).
That is all products of matrices.
The plain twins of both are the enumerations of tests/naive/spanning_trees.py.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_log
from skpc._jit import LANES, add_products, inlined, kernel
from skpc._threads import in_threads, n_threads, slices

#: Vertices eliminated together.
_PANEL = 4
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: With more vertices, products of matrices are faster.
_WIDEST = 200
#: Halves of no more vertices are eliminated one by one.
_SMALL = 16
#: Entries of inverses that are worth a thread.
_ENTRIES = 3e5
#: Numbers of inverses that are held together: they fit the cache.
_HELD = 2**17


@kernel
def _gather(factor: Floats, index: Ints, graphs: Floats) -> None:
    """Look up the weights into each vertex.

    ``graphs`` has shape (n_groups, n, n + 1, n_lanes), one row of ``index`` a lane; lanes beyond
    the last row repeat it.
    """
    n_rows, n, n_lanes = len(index), graphs.shape[1], graphs.shape[3]
    # Tables are far larger than the cache: what one child needs is fetched once for all rows.
    for v in range(n):
        for group in range(len(graphs)):
            into = graphs[group, v]
            # Lanes beyond the last row repeat it: kernels have no case for fewer rows.
            for lane in range(n_lanes):
                states = index[min(group * n_lanes + lane, n_rows - 1)]
                of_state = factor[states[v]]
                for u in range(n + 1):
                    into[u, lane] = of_state[np.uint64(states[u])]
                into[v, lane] = 0.0


@inlined
def _load_panel(
    into: Floats, start: int, n_panel: int, low: int, symmetric: bool, old: Floats, new: Floats
) -> None:
    """Copy the columns (``old``) and the rows (``new``) of the vertices of a panel."""
    n = len(into)
    # A last panel of fewer columns is filled up with zeros, which change nothing.
    old[n_panel:, low:] = 0.0
    new[n_panel:, low:] = 0.0
    for b in range(n_panel):
        k = start + b
        for j in range(low, n + 1):
            for lane in range(LANES):
                # A symmetric matrix is kept below its diagonal only.
                new[b, j, lane] = into[j, k, lane] if symmetric and k < j < n else into[k, j, lane]
        for j in range(low, n):
            for lane in range(LANES):
                old[b, j, lane] = new[b, j, lane] if symmetric else into[j, k, lane]


@inlined
def _start_block(start: int, n_panel: int, before: Floats, block: Floats) -> None:
    """The rows of a panel before elimination; see :func:`_reduce_panel`."""
    last, width = 2 * _PANEL, before.shape[1]
    block[:] = 0.0
    for b in range(n_panel):
        for j in range(start + n_panel, width):
            for lane in range(LANES):
                # Of the edges out of the panel, its pivots need the sum alone.
                block[b, last, lane] += before[b, j, lane]
        # Beside the panel stands a unit matrix, which becomes its inverse.
        for lane in range(LANES):
            block[b, _PANEL + b, lane] = 1.0
        for c in range(n_panel):
            for lane in range(LANES):
                block[b, c, lane] = before[b, start + c, lane]


@inlined
def _reduce_panel(n_panel: int, block: Floats, log_weight: Floats) -> None:
    """Eliminate the vertices of a panel from each other's rows, as far as the panel shows them.

    ``block`` has a row for each vertex: its entries within the panel, by how much the rows before
    go into it, and the sum of its entries to the right of the panel.
    """
    last = 2 * _PANEL
    for b in range(n_panel):
        for lane in range(LANES):
            # Sums of weights in place of differences: nothing cancels, however small a weight.
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
                # What leads through the eliminated vertex leads on to where that led.
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
                share[c, b, lane] = block[b, _PANEL + c, lane]
    # Two rows at a time share what they fetch.
    for b in range(0, n_panel, 2):
        pair = 1 if b + 1 < n_panel else 0
        add_products(new, share, before, b, low, width - low, pair)
    for b in range(n_panel):
        for c in range(n_panel):
            for lane in range(LANES):
                new[b, start + c, lane] = block[b, c, lane]


@inlined(new_arrays=True)
def _eliminate_lanes(
    into: Floats, symmetric: bool, invert: bool, panel: Floats, log_weight: Floats
) -> None:
    """Eliminate all vertices of eight graphs.

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
    block = np.empty((_PANEL, 2 * _PANEL + 1, LANES))
    for start in range(0, n, _PANEL):
        n_panel = min(_PANEL, n - start)
        low = 0 if invert else start
        _load_panel(into, start, n_panel, low, symmetric, old, before)
        _start_block(start, n_panel, before, block)
        _reduce_panel(n_panel, block, log_weight)
        _finish_panel(start, n_panel, low, block, before, share, new)
        for i in range(low, n, 2):
            pair = 1 if i + 1 < n else 0
            # The rows of the panel itself are done: they are copied back.
            if start <= i < start + n_panel:
                for b in range(i - start, i - start + pair + 1):
                    for j in range(low, n + 1):
                        for lane in range(LANES):
                            into[start + b, j, lane] = new[b, j, lane]
                continue
            # The columns of the panel are eliminated from the other rows.
            for row in range(i, i + pair + 1):
                for k in range(start, start + n_panel):
                    for lane in range(LANES):
                        into[row, k, lane] = 0.0
            # A pair of rows share what is fetched; above the diagonal nothing is read.
            high = min(i + 2, n) if symmetric else n
            add_products(into, old, new, i, low, high - low, pair)
            add_products(into, old, new, i, n, 1, pair)


@kernel(new_arrays=True)
def _eliminate_groups(graphs: Floats, symmetric: bool, invert: bool, log_weight: Floats) -> None:
    """Eliminate all vertices of groups of eight graphs; see :func:`eliminate_graphs`."""
    n, total = graphs.shape[1], np.empty(LANES)
    panel = np.empty((4, _PANEL, n + 1, LANES))
    for group in range(len(graphs)):
        total[:] = 0.0
        _eliminate_lanes(graphs[group], symmetric, invert, panel, total)
        # Lanes that repeat the last row have no place in the result.
        for lane in range(min(LANES, len(log_weight) - group * LANES)):
            log_weight[group * LANES + lane] = total[lane]


@kernel
def _invert_small(weight: Floats, to_root: Floats, log_weight: Floats) -> None:
    """Invert the Laplacians of graphs of few vertices in place; see :func:`_invert`."""
    n = weight.shape[1]
    for graph in range(len(weight)):
        into, root, total = weight[graph], to_root[graph], 0.0
        for k in range(n):
            line, pivot = into[k], root[k]
            # What is left decides on the pivot: nothing is subtracted from the first sum.
            for u in range(k + 1, n):
                pivot += line[u]
            pivot = max(pivot, _SMALLEST)
            total += math.log(pivot)
            line[k] = 1.0
            for u in range(n):
                line[u] /= pivot
            root[k] /= pivot
            for v in range(n):
                if v != k:
                    row, through = into[v], into[v, k]
                    row[k] = 0.0
                    for u in range(n):
                        row[u] += through * line[u]
                    root[v] += through * root[k]
        log_weight[graph] = total


def _invert(
    weight: Floats, to_root: Floats, symmetric: bool, out: Floats | None = None
) -> tuple[Floats, Floats]:
    """Invert Laplacians by halves, and find the logs of their determinants.

    Parameters
    ----------
    weight : array of shape (n_graphs, n, n)
        Weights into each vertex; the diagonal is not read.
    to_root : array of shape (n_graphs, n)
        Those from the root.
    symmetric : bool
        Whether the weights are.
    out : array of shape (n_graphs, n, n) or None, default=None
        Where to write the inverses.

    Returns
    -------
    inverse : array of shape (n_graphs, n, n)
        Of the matrices whose rows are minus the weights into a vertex, their sum on the diagonal.
    log_weight : array of shape (n_graphs,)
    """
    n = weight.shape[1]
    inverse = np.empty(weight.shape) if out is None else out
    if n <= _SMALL:
        small, log_weight = weight.copy(), np.empty(len(weight))
        _invert_small(small, to_root.copy(), log_weight)
        inverse[:] = small
        return inverse, log_weight
    half = n // 2
    up, down = weight[:, :half, half:], weight[:, half:, :half]
    first, log_first = _invert(weight[:, :half, :half], to_root[:, :half] + up.sum(2), symmetric)
    through, rest, rest_to_root = _without_half(weight, to_root, first)
    last, log_last = _invert(rest, rest_to_root, symmetric, inverse[:, half:, half:])
    upper = np.matmul(through, last, out=inverse[:, :half, half:])
    back = through.swapaxes(1, 2) if symmetric else down @ first
    inverse[:, half:, :half] = upper.swapaxes(1, 2) if symmetric else last @ back
    inverse[:, :half, :half] = first + upper @ back
    return inverse, log_first + log_last


def _without_half(weight: Floats, to_root: Floats, first: Floats) -> tuple[Floats, Floats, Floats]:
    """Eliminate the first half of the vertices, whose inverse is given.

    Returns the ways from the second half through the first, and the graph of the second half.
    """
    half = first.shape[1]
    down = weight[:, half:, :half]
    through = first @ weight[:, :half, half:]
    rest = down @ through
    rest += weight[:, half:, half:]
    by_root = down @ (first @ to_root[:, :half, np.newaxis])
    return through, rest, to_root[:, half:] + by_root[:, :, 0]


def _log_determinants(weight: Floats, to_root: Floats, symmetric: bool) -> Floats:
    """The logs that :func:`_invert` finds, without the inverses."""
    half = weight.shape[1] // 2
    if weight.shape[1] <= _SMALL:
        return _invert(weight, to_root, symmetric)[1]
    first_root = to_root[:, :half] + weight[:, :half, half:].sum(2)
    first, log_first = _invert(weight[:, :half, :half], first_root, symmetric)
    _, rest, rest_to_root = _without_half(weight, to_root, first)
    return log_first + _log_determinants(rest, rest_to_root, symmetric)


def new_graphs(n_rows: int, n: int) -> Floats:
    """Memory for the graphs of some rows of ``n`` vertices, for :func:`eliminate_graphs`."""
    n_lanes = 1 if n > _WIDEST else LANES
    return np.empty((-(-n_rows // n_lanes), n, n + 1, n_lanes))


def eliminate_graphs(graphs: Floats, n_rows: int, symmetric: bool, invert: bool) -> Floats:
    """Eliminate all vertices of the graphs of some rows.

    Parameters
    ----------
    graphs : array of shape (n_groups, n, n + 1, n_lanes)
        Weights into each vertex, those from the root last; zero on the diagonal. A row is a lane
        of a group. With ``invert`` overwritten with the inverses of the Laplacians whose rows are
        the weights into a vertex; else with nothing of use. Where they are symmetric the inverses
        are read below the diagonal and on it.
    n_rows : int
        Number of rows.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log of the weight of all trees of each row.
    """
    n = graphs.shape[1]
    if graphs.shape[3] == LANES:
        log_weight = np.empty(n_rows)
        _eliminate_groups(graphs, symmetric, invert, log_weight)
        return log_weight
    weight, to_root = graphs[:, :, :n, 0], graphs[:, :, n, 0]
    if not invert:
        return _log_determinants(weight, to_root, symmetric)
    inverse, log_weight = _invert(weight, to_root, symmetric)
    weight[:] = inverse
    return log_weight


@inlined
def _probability(weight: float, resistance: float) -> float:
    """Probability of an edge, whatever rounding has left of its resistance."""
    # Rounding may leave it a little outside.
    return min(max(weight * resistance, 0.0), 1.0)


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

    ``inverse`` has shape (n_groups, n, n + 1, n_lanes), one row of ``index`` a lane. If symmetric,
    an edge counts at the state of its later vertex first.
    """
    n, n_lanes = inverse.shape[1], inverse.shape[3]
    for v in range(children[0], children[1]):
        for row in range(len(index)):
            of_group, lane, w = inverse[row // n_lanes], row % n_lanes, weight[row]
            to_v, states = of_group[v, v, lane], index[row]
            state, root = states[v], states[n]
            of_state, into = factor[state], expected[state]
            # The root is one more vertex, which has resistance zero.
            of_root = w * _probability(of_state[root], to_v)
            if symmetric:
                expected[root, state] += of_root
                for u in range(v):
                    parent = np.uint64(states[u])
                    resistance = to_v + of_group[u, u, lane] - 2.0 * of_group[v, u, lane]
                    into[parent] += w * _probability(of_state[parent], resistance)
                continue
            into[root] += of_root
            for u in range(n):
                parent = np.uint64(states[u])
                resistance = to_v - of_group[u, v, lane]
                into[parent] += w * _probability(of_state[parent], resistance)


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

    def work(rows: slice) -> Floats:
        return _eliminate_rows(factor, index[rows], symmetric, False)[0]

    parts = in_threads(work, _parts(len(index), index.shape[1] - 1))
    return np.concatenate([np.empty(0), *parts])


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
    return add_expected_edges(factor, index, weight, symmetric, expected), expected


def add_expected_edges(
    factor: Floats, index: Ints, weight: Floats, symmetric: bool, expected: Floats
) -> Floats:
    """What :func:`expected_edges` finds, the edges added to those that are there."""
    n, threads = index.shape[1] - 1, n_threads()
    parts = _parts(len(index), n)
    log_weights = [
        _add_parts(factor, index, weight, symmetric, expected, parts[first : first + threads])
        for first in range(0, len(parts), threads)
    ]
    return np.concatenate([np.empty(0), *log_weights])


def _add_parts(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    expected: Floats,
    parts: list[slice],
) -> Floats:
    """The same for some parts of the rows whose inverses are in memory together."""
    n, n_rows = index.shape[1] - 1, parts[-1].stop - parts[0].start

    def eliminate(rows: slice) -> tuple[Floats, Floats]:
        return _eliminate_rows(factor, index[rows], symmetric, True)

    eliminated = in_threads(eliminate, parts)

    def add(children: slice) -> None:
        span = np.array([children.start, children.stop])
        # The rows in their order, whatever the number of threads: no bit depends on it.
        for (_, inverse), rows in zip(eliminated, parts):
            _add_edges(inverse, factor, index[rows], weight[rows], symmetric, span, expected)

    in_threads(add, slices(n, max(1, round(_ENTRIES / (n * n_rows + 1)))))
    return np.concatenate([log_weight for log_weight, _ in eliminated])


def _eliminate_rows(
    factor: Floats, index: Ints, symmetric: bool, invert: bool
) -> tuple[Floats, Floats]:
    """Look up and eliminate the graphs of some rows; return log weights, and the graphs."""
    graphs = new_graphs(len(index), index.shape[1] - 1)
    _gather(factor, index, graphs)
    return eliminate_graphs(graphs, len(index), symmetric, invert), graphs


def _parts(n_rows: int, n: int) -> list[slice]:
    """Parts of the rows that fit the cache together, whole groups of lanes."""
    return slices(n_rows, max(1, _HELD // (LANES * n * n + 1)) * LANES)
