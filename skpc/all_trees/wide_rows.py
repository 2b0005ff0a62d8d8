"""Weights of all spanning trees of single rows of many vertices.

The same elimination as in :mod:`skpc.all_trees.determinants`, again without a subtraction, but a
row at a time and more vertices at a time. What a panel of vertices adds to the others is a product
of matrices then. It is worked out in tiles, whose sums stay in registers; the factors are copied so
that each tile reads them from one end to the other.

Training takes inverses of directed trees in single precision, which doubles the numbers of a tile
and halves the memory. That costs little because nothing is subtracted until the end, and nothing
large then: the vertex from which most edges come is a second root meanwhile (:func:`_ground`). Rows
whose error would be large are done in double precision: it is known from what is subtracted.

Tables of states are far larger than the cache. They are read and written child by child, and state
by state of a child, so that each part is fetched once for all rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, TILE, add_tile, inlined, kernel, lanes_of
from skpc._threads import in_threads, slices
from skpc.all_trees.workspace import Workspace

#: Vertices eliminated together; a multiple of the sides of a tile.
_PANEL = 24
#: Numbers of a row of a tile in single precision.
_MOST_LANES = 2 * LANES
#: Sizes of what is subtracted for a probability, beyond which single precision will not do: the
#: probabilities of the edges into a vertex are off by about 1e-3 together.
_LARGEST = 2e3
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: Sums are not scaled by more than this power of two, which has an inverse.
_LEAST_EXPONENT = -1000
#: Operations that are worth a thread, about a millisecond.
OPERATIONS = 1e7
#: Entries of inverses that are worth a thread.
_ENTRIES = 3e5
#: Numbers of inverses in memory at the same time: tables are read once for all of them.
_HELD = 2**24


def _shape(n_rows: int, n: int) -> tuple[int, int, int]:
    """Shape of the weights into ``n`` vertices for some rows: whole tiles."""
    height = -(-n // TILE) * TILE
    return n_rows, height, -(-max(n + 1, height) // _MOST_LANES) * _MOST_LANES


@kernel
def _look_up(
    factor: Floats,
    index: Ints,
    order: Ints,
    symmetric: bool,
    children: Ints,
    into: Floats,
    scale: Floats,
) -> None:
    """Look up the weights into some vertices, ``children[0] .. children[1]``, for all rows.

    If symmetric, only those of edges from earlier vertices, and from the root. Else those into a
    vertex are multiplied by a power of two, their ``scale``, after which their sum is about one:
    that changes no probability of a tree.
    """
    n = index.shape[1] - 1
    found = np.zeros(into.shape[2])
    for v in range(children[0], children[1]):
        for row in order[v]:
            weight, states = into[row, v], index[row]
            of_state, total = factor[states[v]], 0.0
            for u in range(v if symmetric else n):
                found[u] = of_state[np.uint64(states[u])]
            for u in range(v, n if symmetric else v + 1):
                found[u] = 0.0
            found[n] = of_state[states[n]]
            for u in range(n + 1):
                total += found[u]
            exponent = 0 if symmetric else max(math.frexp(total)[1], _LEAST_EXPONENT)
            scale[row, v] = times = math.ldexp(1.0, -exponent)
            for u in range(len(weight)):
                weight[u] = found[u] * times
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
    lanes = lanes_of(into)
    for b in range(n_panel):
        row = into[start + b]
        for tile in range(low // lanes, before.shape[0]):
            for lane in range(lanes):
                before[tile, b, lane] = row[tile * lanes + lane]
        if symmetric:
            for j in range(start + b + 1, n):
                before[j // lanes, b, j % lanes] = into[j, start + b]
    for group in range(low // TILE, old.shape[0]):
        for r in range(TILE):
            i = group * TILE + r
            row = into[i]
            for b in range(n_panel):
                if symmetric:
                    old[group, b, r] = before[i // lanes, b, i % lanes]
                else:
                    old[group, b, r] = row[start + b]
                row[start + b] = 0.0


@inlined
def _start_block(n: int, start: int, n_panel: int, before: Floats, block: Floats) -> None:
    """The rows of a panel before elimination; see :func:`_reduce_panel`."""
    lanes = lanes_of(before)
    width = 2 * _PANEL + lanes
    for b in range(n_panel):
        for c in range(width):
            block[b, c] = 0.0
        for c in range(n_panel):
            j = start + c
            block[b, c] = before[j // lanes, b, j % lanes]
        block[b, _PANEL + b] = 1.0
        total = 0.0
        for j in range(start + n_panel, n + 1):
            total += before[j // lanes, b, j % lanes]
        block[b, 2 * _PANEL] = total


@inlined
def _reduce_panel(n_panel: int, block: Floats, line: Floats, through: Floats) -> float:
    """Eliminate the vertices of a panel from each other's rows; return the log of the pivots.

    ``block`` has a row for each vertex: its entries within the panel, by how much the rows before
    go into it, and the sum of its entries to the right of the panel.
    """
    lanes = lanes_of(block)
    width = 2 * _PANEL + lanes
    log_weight = 0.0
    for b in range(n_panel):
        pivot = block[b, 2 * _PANEL]
        for c in range(b + 1, n_panel):
            pivot += block[b, c]
        pivot = max(pivot, _SMALLEST)
        log_weight += math.log(pivot)
        block[b, b] = 1.0
        for c in range(width):
            line[c] = block[b, c] / pivot
        for c in range(n_panel):
            through[c] = block[c, b]
            block[c, b] = 0.0
        for c in range(0, n_panel, TILE):
            for d in range(0, width, lanes):
                add_tile(block, c * width + d, through, c, line, d, 1)
        for c in range(width):
            block[b, c] = line[c]
    return log_weight


@inlined
def _finish_panel(
    start: int, n_panel: int, low: int, block: Floats, before: Floats, share: Floats, new: Floats
) -> None:
    """The rows of a panel after elimination."""
    lanes = lanes_of(new)
    for b in range(_PANEL):
        for c in range(n_panel):
            share[b // TILE, c, b % TILE] = block[b, _PANEL + c] if b < n_panel else 0.0
    for tile in range(low // lanes, new.shape[0]):
        for b in range(_PANEL):
            for lane in range(lanes):
                new[tile, b, lane] = 0.0
        at = tile * _PANEL * lanes
        for b in range(0, n_panel, TILE):
            add_tile(new, at + b * lanes, share, b * _PANEL, before, at, n_panel)
    for b in range(n_panel):
        for c in range(n_panel):
            j = start + c
            new[j // lanes, b, j % lanes] = block[b, c]


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
    lanes = lanes_of(into)
    width, n_tiles = into.shape[1], new.shape[0]
    for group in range(low // TILE, old.shape[0]):
        i = group * TILE
        if start <= i and i + TILE <= start + n_panel:
            continue
        # Above the diagonal nothing is read, but for the root.
        high = min((i + TILE - 1) // lanes + 1, n_tiles) if symmetric else n_tiles
        at, left = i * width, i * _PANEL
        for tile in range(low // lanes, high):
            right = tile * _PANEL * lanes
            add_tile(into, at + tile * lanes, old, left, new, right, n_panel)
        if high <= root:
            right = root * _PANEL * lanes
            add_tile(into, at + root * lanes, old, left, new, right, n_panel)
    for b in range(n_panel):
        row = into[start + b]
        for tile in range(low // lanes, n_tiles):
            for lane in range(lanes):
                row[tile * lanes + lane] = new[tile, b, lane]


@inlined
def _ground(into: Floats, n: int, line: Floats) -> tuple[float, float]:
    """Inverse of a Laplacian but for a number a column, when only the last vertex is left.

    Probabilities hang on differences within columns. If the root is weak all entries of a column
    are large and nearly equal. Here the last vertex g counts as a second root: with N the inverse
    then, q[u] the probability that the parents' parents of u lead to the root without g, and c the
    row of g in the inverse, the latter is ``N[u, v] + (1 - q[u]) * c[v]``. Left out is the one; the
    column n becomes that of the root, -c.

    Returns
    -------
    pivot : float
        Weight of the root for g.
    largest : float
        A bound for what is subtracted for the probabilities of the edges into a vertex.
    """
    g, largest = n - 1, 0.0
    pivot = max(float(into[g, n]), _SMALLEST)
    for v in range(g):
        line[v] = into[g, v] / pivot
        size = float(into[v, v]) + float(into[v, n]) * float(line[v])
        # Also where it is not a number.
        largest = largest if size <= largest else size
    line[g] = 1.0 / pivot
    for v in range(n):
        into[g, v] = 0.0
    for u in range(g):
        row, to_root = into[u], into[u, n]
        row[g] = 0.0
        for v in range(n):
            row[v] -= to_root * line[v]
    for v in range(n):
        into[v, n] = -line[v]
    return pivot, largest


@inlined
def _transpose(matrix: Floats, n: int) -> None:
    """Transpose the first rows and columns in place."""
    lanes = lanes_of(matrix)
    for first in range(0, n, lanes):
        for i in range(n - first):
            row = first + i
            for j in range(first, min(first + lanes, row)):
                matrix[row, j], matrix[j, row] = matrix[j, row], matrix[row, j]


@kernel
def _eliminate_graphs(
    graphs: Floats,
    n: int,
    symmetric: bool,
    invert: bool,
    scale: Floats,
    log_weight: Floats,
    largest: Floats,
) -> None:
    """Eliminate all vertices of some rows, one row after the other.

    Parameters
    ----------
    graphs : array of the shape that :func:`_shape` gives
        Weights into each vertex, as :func:`_look_up` leaves them. With ``invert`` overwritten with
        the inverse of the Laplacian whose columns are the weights into a vertex (if symmetric,
        below the diagonal and on it; if not, but for a number a row, and with the column of the
        root); else with nothing of use.
    n : int
        Number of vertices; the root is column ``n``.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.
    scale : array of shape (n_rows, n)
        What the weights into each vertex have been multiplied by.
    log_weight : array of shape (n_rows,)
        Overwritten with the log weight of all trees.
    largest : array of shape (n_rows,)
        Overwritten with what :func:`_ground` says, if that is called.
    """
    lanes = lanes_of(graphs)
    width = 2 * _PANEL + lanes
    n_groups, n_tiles = graphs.shape[1] // TILE, graphs.shape[2] // lanes
    old = np.empty((n_groups, _PANEL, TILE), dtype=graphs.dtype)
    before = np.zeros((n_tiles, _PANEL, lanes), dtype=graphs.dtype)
    new = np.empty((n_tiles, _PANEL, lanes), dtype=graphs.dtype)
    share = np.empty((_PANEL // TILE, _PANEL, TILE), dtype=graphs.dtype)
    block = np.zeros((_PANEL, width), dtype=graphs.dtype)
    line = np.empty(max(width, n), dtype=graphs.dtype)
    through = np.zeros(_PANEL, dtype=graphs.dtype)
    ground = invert and not symmetric
    last = n - 1 if ground else n
    for row in range(len(graphs)):
        into, total = graphs[row], 0.0
        for v in range(n):
            total -= math.log(scale[row, v])
        for start in range(0, last, _PANEL):
            n_panel = min(_PANEL, last - start)
            low = 0 if invert else start
            _copy_panel(into, n, start, n_panel, low, symmetric, old, before)
            _start_block(n, start, n_panel, before, block)
            total += _reduce_panel(n_panel, block, line, through)
            _finish_panel(start, n_panel, low, block, before, share, new)
            _add_panel(into, start, n_panel, low, n // lanes, symmetric, old, new)
        if ground:
            pivot, largest[row] = _ground(into, n, line)
            total += math.log(pivot)
            _transpose(into, n)
        log_weight[row] = total


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
    scale: Floats,
    symmetric: bool,
    children: Ints,
    expected: Floats,
) -> None:
    """Add the probabilities of the edges into some vertices, times the weights of the rows.

    ``inverse`` is what :func:`_eliminate_graphs` leaves. ``scale`` is that of each vertex, and the
    weight of the row at last. If symmetric, an edge counts at the state of its later vertex first.
    """
    n_rows, n = len(index), index.shape[1] - 1
    diagonal = np.empty((n_rows, n))
    for row in range(n_rows):
        for v in range(n):
            diagonal[row, v] = inverse[row, v, v]
    for v in range(children[0], children[1]):
        for row in order[v]:
            states, to_u, w, times = index[row], diagonal[row], scale[row, n], scale[row, v]
            if w == 0.0:
                continue
            state, root, to_v, entry = states[v], states[n], to_u[v], inverse[row, v]
            found, of_state = expected[state], factor[state]
            if symmetric:
                expected[root, state] += w * probability(of_state[root], to_v)
            else:
                found[root] += w * probability(of_state[root] * times, to_v - entry[n])
            for u in range(v if symmetric else n):
                parent = np.uint64(states[u])
                resistance = to_v - entry[u]
                if symmetric:
                    resistance += to_u[u] - entry[u]
                found[parent] += w * probability(of_state[parent] * times, resistance)


def log_weights_of_wide(factor: Floats, index: Ints, symmetric: bool) -> Floats:
    """What :func:`skpc.all_trees.determinants.log_tree_weights` finds."""
    log_weight, n = np.empty(len(index)), index.shape[1] - 1
    graphs = np.empty(_shape(min(len(index), _rows_held(index)), n))
    for rows in slices(len(index), _rows_held(index)):
        few = index[rows]
        found = _eliminate(factor, few, _by_state(few), symmetric, False, graphs[: len(few)])
        log_weight[rows] = found[0]
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
    precision: type[np.floating[Any]] = np.float64
    if len(index) and not symmetric:
        index, precision = _hub_last(factor, index), workspace.precision
    found = [
        _add_held(factor, index[rows], weight[rows], symmetric, expected, workspace, precision)
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
    precision: type[np.floating[Any]],
) -> Floats:
    """The same for rows whose inverses are in memory together; children share no entry."""
    shape = _shape(_rows_held(index), index.shape[1] - 1)
    inverse = workspace.array("graphs", shape, precision)[: len(index)]
    order = _by_state(index)
    log_weight, largest, scale = _eliminate(factor, index, order, symmetric, True, inverse)
    scale[:, -1] = weight
    if precision is np.float32 and not np.all(largest < _LARGEST):
        again = ~(largest < _LARGEST)
        scale[again, -1] = 0.0
        log_weight[again] = _add_held(
            factor, index[again], weight[again], symmetric, expected, workspace, np.float64
        )

    def work(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _add_edges_into(inverse, factor, index, order, scale, symmetric, span, expected)

    in_threads(work, _children(index))
    return log_weight


def _hub_last(factor: Floats, index: Ints) -> Ints:
    """Exchange the last vertex of directed rows with the one from which most edges come.

    It is known from the first row. As a second root it leaves little to subtract.
    """
    n, states = index.shape[1] - 1, index[0]
    into = factor[np.ix_(states[:-1], states)]
    np.fill_diagonal(into, 0.0)
    into /= np.maximum(into.sum(axis=1, keepdims=True), _SMALLEST)
    hub = into[:, :n].sum(axis=0).argmax()
    vertices = np.arange(n + 1)
    vertices[[hub, n - 1]] = n - 1, hub
    return np.take(index, vertices, axis=1)


def _eliminate(
    factor: Floats, index: Ints, order: Ints, symmetric: bool, invert: bool, graphs: Floats
) -> tuple[Floats, Floats, Floats]:
    """The inverse of each row in ``graphs``, if wanted.

    Returns ``log_weight``, ``largest`` and ``scale`` of :func:`_eliminate_graphs`; the last one has
    a column to spare.
    """
    n_rows, n = len(index), index.shape[1] - 1
    scale, found = np.empty((n_rows, n + 1)), np.zeros((2, n_rows))

    def gather(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _look_up(factor, index, order, symmetric, span, graphs, scale)

    def work(rows: slice) -> None:
        log_weight, largest = found[0, rows], found[1, rows]
        _eliminate_graphs(graphs[rows], n, symmetric, invert, scale[rows], log_weight, largest)

    in_threads(gather, _children(index))
    in_threads(work, slices(n_rows, max(1, round(OPERATIONS / n**3))))
    return found[0], found[1], scale


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
