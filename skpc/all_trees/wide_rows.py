"""Weights of all spanning trees of single rows of many vertices.

The same elimination as in :mod:`skpc.all_trees.determinants`, again without a subtraction, but a
row at a time and more vertices at a time. What a panel of vertices adds to the others is a product
of matrices then. It is worked out in tiles, whose sums stay in registers; the factors are copied so
that each tile reads them from one end to the other.

Tables of states are far larger than the cache. They are read and written child by child, and state
by state of a child, so that each part is fetched once for all rows.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, TILE, add_tile, inlined, kernel
from skpc._threads import in_threads, slices
from skpc.all_trees.workspace import Workspace

#: Vertices eliminated together; a multiple of the sides of a tile.
_PANEL = 24
#: Width of the rows of a panel among themselves: entries, shares of each other, and a sum.
_WIDTH = 2 * _PANEL + LANES
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: Operations that are worth a thread, about a millisecond.
OPERATIONS = 1e7
#: Entries of inverses that are worth a thread.
_ENTRIES = 3e5
#: Numbers of inverses in memory at the same time: tables are read once for all of them.
_HELD = 2**24


def _shape(n_rows: int, n: int) -> tuple[int, int, int]:
    """Shape of the weights into ``n`` vertices for some rows: whole tiles."""
    height = -(-n // TILE) * TILE
    return n_rows, height, -(-max(n + 1, height) // LANES) * LANES


@kernel
def _look_up(
    factor: Floats, index: Ints, order: Ints, symmetric: bool, children: Ints, into: Floats
) -> None:
    """Look up the weights into some vertices, ``children[0] .. children[1]``, for all rows.

    If symmetric, only those of edges from earlier vertices, and from the root.
    """
    n = index.shape[1] - 1
    for v in range(children[0], children[1]):
        for row in order[v]:
            weight, states = into[row, v], index[row]
            of_state = factor[states[v]]
            for u in range(v if symmetric else n):
                weight[u] = of_state[np.uint64(states[u])]
            for u in range(v, n if symmetric else v + 1):
                weight[u] = 0.0
            weight[n] = of_state[states[n]]
            for u in range(n + 1, len(weight)):
                weight[u] = 0.0
    if children[1] == n:
        for row in range(len(index)):
            for v in range(n, into.shape[1]):
                for u in range(into.shape[2]):
                    into[row, v, u] = 0.0


@inlined
def _copy_panel(
    into: Floats,
    n: int,
    start: int,
    n_panel: int,
    low: int,
    symmetric: bool,
    old: Floats,
    before: Floats,
) -> None:
    """Copy the columns (``old``) and the rows (``before``) of a panel; clear the columns."""
    for b in range(n_panel):
        row = into[start + b]
        for tile in range(low // LANES, before.shape[0]):
            for lane in range(LANES):
                before[tile, b, lane] = row[tile * LANES + lane]
        if symmetric:
            for j in range(start + b + 1, n):
                before[j // LANES, b, j % LANES] = into[j, start + b]
    for group in range(low // TILE, old.shape[0]):
        for r in range(TILE):
            i = group * TILE + r
            row = into[i]
            for b in range(n_panel):
                if symmetric:
                    old[group, b, r] = before[i // LANES, b, i % LANES]
                else:
                    old[group, b, r] = row[start + b]
                row[start + b] = 0.0


@inlined
def _start_block(n: int, start: int, n_panel: int, before: Floats, block: Floats) -> None:
    """The rows of a panel before elimination; see :func:`_reduce_panel`."""
    for b in range(n_panel):
        for c in range(_WIDTH):
            block[b, c] = 0.0
        for c in range(n_panel):
            j = start + c
            block[b, c] = before[j // LANES, b, j % LANES]
        block[b, _PANEL + b] = 1.0
        total = 0.0
        for j in range(start + n_panel, n + 1):
            total += before[j // LANES, b, j % LANES]
        block[b, 2 * _PANEL] = total


@inlined
def _reduce_panel(n_panel: int, block: Floats, line: Floats, through: Floats) -> float:
    """Eliminate the vertices of a panel from each other's rows; return the log of the pivots.

    ``block`` has a row for each vertex: its entries within the panel, by how much the rows before
    go into it, and the sum of its entries to the right of the panel.
    """
    log_weight = 0.0
    for b in range(n_panel):
        pivot = block[b, 2 * _PANEL]
        for c in range(b + 1, n_panel):
            pivot += block[b, c]
        pivot = max(pivot, _SMALLEST)
        log_weight += math.log(pivot)
        block[b, b] = 1.0
        for c in range(_WIDTH):
            line[c] = block[b, c] / pivot
        for c in range(n_panel):
            through[c] = block[c, b]
            block[c, b] = 0.0
        for c in range(0, n_panel, TILE):
            for d in range(0, _WIDTH, LANES):
                add_tile(block, c * _WIDTH + d, through, c, line, d, 1)
        for c in range(_WIDTH):
            block[b, c] = line[c]
    return log_weight


@inlined
def _finish_panel(
    start: int, n_panel: int, low: int, block: Floats, before: Floats, share: Floats, new: Floats
) -> None:
    """The rows of a panel after elimination."""
    for b in range(_PANEL):
        for c in range(n_panel):
            share[b // TILE, c, b % TILE] = block[b, _PANEL + c] if b < n_panel else 0.0
    for tile in range(low // LANES, new.shape[0]):
        for b in range(_PANEL):
            for lane in range(LANES):
                new[tile, b, lane] = 0.0
        at = tile * _PANEL * LANES
        for b in range(0, n_panel, TILE):
            add_tile(new, at + b * LANES, share, b * _PANEL, before, at, n_panel)
    for b in range(n_panel):
        for c in range(n_panel):
            j = start + c
            new[j // LANES, b, j % LANES] = block[b, c]


@inlined
def _add_panel(
    into: Floats,
    start: int,
    n_panel: int,
    low: int,
    root: int,
    symmetric: bool,
    old: Floats,
    new: Floats,
) -> None:
    """Add to all rows what goes through a panel; write the rows of the panel itself."""
    width, n_tiles = into.shape[1], new.shape[0]
    for group in range(low // TILE, old.shape[0]):
        i = group * TILE
        if start <= i < start + n_panel:
            for b in range(i - start, min(i - start + TILE, n_panel)):
                row = into[start + b]
                for tile in range(low // LANES, n_tiles):
                    for lane in range(LANES):
                        row[tile * LANES + lane] = new[tile, b, lane]
            continue
        # Above the diagonal nothing is read, but for the root.
        high = min((i + TILE - 1) // LANES + 1, n_tiles) if symmetric else n_tiles
        at, left = i * width, i * _PANEL
        for tile in range(low // LANES, high):
            right = tile * _PANEL * LANES
            add_tile(into, at + tile * LANES, old, left, new, right, n_panel)
        if high <= root:
            right = root * _PANEL * LANES
            add_tile(into, at + root * LANES, old, left, new, right, n_panel)


@inlined
def _transpose(matrix: Floats, n: int) -> None:
    """Transpose the first rows and columns in place."""
    for first in range(0, n, LANES):
        for i in range(n - first):
            row = first + i
            for j in range(first, min(first + LANES, row)):
                matrix[row, j], matrix[j, row] = matrix[j, row], matrix[row, j]


@kernel
def _eliminate_graphs(
    graphs: Floats, n: int, symmetric: bool, invert: bool, log_weight: Floats
) -> None:
    """Eliminate all vertices of some rows, one row after the other.

    Parameters
    ----------
    graphs : array of the shape that :func:`_shape` gives
        Weights into each vertex, as :func:`_look_up` leaves them. With ``invert`` overwritten with
        the inverse of the Laplacian whose columns are the weights into a vertex (if symmetric,
        below the diagonal and on it); else with nothing of use.
    n : int
        Number of vertices; the root is column ``n``.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.
    log_weight : array of shape (n_rows,)
        Overwritten with the log weight of all trees.
    """
    n_groups, n_tiles = graphs.shape[1] // TILE, graphs.shape[2] // LANES
    old = np.empty((n_groups, _PANEL, TILE))
    before = np.zeros((n_tiles, _PANEL, LANES))
    new = np.empty((n_tiles, _PANEL, LANES))
    share = np.empty((_PANEL // TILE, _PANEL, TILE))
    block = np.zeros((_PANEL, _WIDTH))
    line, through = np.empty(_WIDTH), np.zeros(_PANEL)
    for row in range(len(graphs)):
        into, total = graphs[row], 0.0
        for start in range(0, n, _PANEL):
            n_panel = min(_PANEL, n - start)
            low = 0 if invert else start
            _copy_panel(into, n, start, n_panel, low, symmetric, old, before)
            _start_block(n, start, n_panel, before, block)
            total += _reduce_panel(n_panel, block, line, through)
            _finish_panel(start, n_panel, low, block, before, share, new)
            _add_panel(into, start, n_panel, low, n // LANES, symmetric, old, new)
        log_weight[row] = total
        if invert and not symmetric:
            _transpose(into, n)


@inlined
def probability(weight: float, resistance: float) -> float:
    """Probability of an edge, whatever rounding has left of its resistance."""
    return min(max(weight * resistance, 0.0), 1.0)


@kernel
def _add_edges_into(
    inverse: Floats,
    factor: Floats,
    index: Ints,
    order: Ints,
    weight: Floats,
    symmetric: bool,
    children: Ints,
    expected: Floats,
) -> None:
    """Add the probabilities of the edges into some vertices, times the weights of the rows.

    ``inverse`` is what :func:`_eliminate_graphs` leaves. If symmetric, an edge counts at the state
    of its later vertex first.
    """
    n_rows, n = len(index), index.shape[1] - 1
    diagonal = np.empty((n_rows, n))
    for row in range(n_rows):
        for v in range(n):
            diagonal[row, v] = inverse[row, v, v]
    for v in range(children[0], children[1]):
        for row in order[v]:
            states, to_u, w = index[row], diagonal[row], weight[row]
            state, root, to_v, entry = states[v], states[n], to_u[v], inverse[row, v]
            of_root = w * probability(factor[state, root], to_v)
            if symmetric:
                expected[root, state] += of_root
            else:
                expected[state, root] += of_root
            found, of_state = expected[state], factor[state]
            for u in range(v if symmetric else n):
                parent = np.uint64(states[u])
                resistance = to_v - entry[u]
                if symmetric:
                    resistance += to_u[u] - entry[u]
                found[parent] += w * probability(of_state[parent], resistance)


def log_weights_of_wide(factor: Floats, index: Ints, symmetric: bool) -> Floats:
    """What :func:`skpc.all_trees.determinants.log_tree_weights` finds."""
    log_weight, workspace = np.empty(len(index)), Workspace()
    for rows in slices(len(index), _rows_held(index)):
        few = index[rows]
        _eliminate(factor, few, _by_state(few), symmetric, False, log_weight[rows], workspace)
    return log_weight


def add_wide_edges(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    expected: Floats,
    workspace: Workspace,
) -> Floats:
    """What :func:`skpc.all_trees.determinants.add_expected_edges` does."""
    found = [
        _add_held(factor, index[rows], weight[rows], symmetric, expected, workspace)
        for rows in slices(len(index), _rows_held(index))
    ]
    return np.concatenate([np.empty(0), *found])


def _add_held(
    factor: Floats,
    index: Ints,
    weight: Floats,
    symmetric: bool,
    expected: Floats,
    workspace: Workspace,
) -> Floats:
    """The same for rows whose inverses are in memory together; children share no entry."""
    log_weight, order = np.empty(len(index)), _by_state(index)
    inverse = _eliminate(factor, index, order, symmetric, True, log_weight, workspace)

    def work(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _add_edges_into(inverse, factor, index, order, weight, symmetric, span, expected)

    in_threads(work, _children(index))
    return log_weight


def _eliminate(
    factor: Floats,
    index: Ints,
    order: Ints,
    symmetric: bool,
    invert: bool,
    log_weight: Floats,
    workspace: Workspace,
) -> Floats:
    """The inverse Laplacian of each row, if wanted; fill in the log weights of all trees."""
    n_rows, n = len(index), index.shape[1] - 1
    graphs = workspace.array("graphs", _shape(_rows_held(index), n))[:n_rows]

    def gather(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _look_up(factor, index, order, symmetric, span, graphs)

    def work(rows: slice) -> None:
        _eliminate_graphs(graphs[rows], n, symmetric, invert, log_weight[rows])

    in_threads(gather, _children(index))
    in_threads(work, slices(n_rows, max(1, round(OPERATIONS / n**3))))
    return graphs


def _by_state(index: Ints) -> Ints:
    """The rows in the order of the states of each vertex but the root, shape (n, n_rows)."""
    return np.ascontiguousarray(np.argsort(index[:, :-1], axis=0, kind="stable").T)


def _rows_held(index: Ints) -> int:
    """Rows whose inverses are in memory at the same time."""
    return max(4, _HELD // index.shape[1] ** 2)


def _children(index: Ints) -> list[slice]:
    """Children whose edges are worth a thread."""
    n_rows, n = len(index), index.shape[1] - 1
    return slices(n, max(1, round(_ENTRIES / (n * n_rows + 1))))
