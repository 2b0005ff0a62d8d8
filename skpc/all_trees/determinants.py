"""Weights of all spanning trees for many rows at a time.

Each row gives every edge of the complete graph a weight of its own, looked up by the states of its
two ends. The sum of the weights of all trees is a determinant, and its derivatives are entries of
an inverse (see :mod:`skpc.all_trees.spanning_trees`); both come from eliminating vertices.

Vertices are eliminated without a subtraction: each pivot is summed from the weights that are left.
So neither weights that differ by many orders of magnitude nor a Laplacian that is singular to
working precision cost the sum of the weights any accuracy. LAPACK loses all digits there.

A panel of vertices is eliminated with all that follow as its root, and what goes through it is
added to the other rows. Rows of up to 200 vertices are eliminated side by side, eight of them as
the innermost axis, in panels of four, so that every step is one of whole vectors: 5.0x as fast on
2,000 x 69 binary as by products of matrices. Rows of more vertices are eliminated one by one, in
panels of 64, by products of matrices: where weights are symmetric, by those below the diagonal,
which take two thirds of the time. The plain twins of both are the enumerations of
tests/naive/spanning_trees.py.
"""

import math
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm, dsyrk

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_log
from skpc._jit import LANES, add_products, inlined, kernel
from skpc._threads import in_threads, n_threads, slices

#: Vertices eliminated together, of rows side by side and of single rows.
_PANEL = 4
_WIDE_PANEL = 64
#: A smaller pivot is taken as this: its inverse may overflow.
_SMALLEST = 1e-300
#: With more vertices, products of matrices are faster.
_WIDEST = 200
#: Entries of inverses that are worth a thread.
_ENTRIES = 3e5
#: Numbers of inverses that are held together: they fit the cache.
_HELD = 2**17


@kernel
def _gather(factor: Floats, index: Ints, graphs: Floats) -> None:
    """Look up the weights into each vertex.

    ``graphs`` is as :func:`new_graphs` makes it, one row of ``index`` a lane; lanes beyond the last
    row repeat it.
    """
    n_rows = len(index)
    n_vertices = index.shape[1] - 1
    n_lanes = graphs.shape[3]
    # Tables are far larger than the cache: what one child needs is fetched once for all rows.
    for vertex in range(n_vertices):
        for group in range(len(graphs)):
            into = graphs[group, vertex]
            # Lanes beyond the last row repeat it: kernels have no case for fewer rows.
            for lane in range(n_lanes):
                row = min(group * n_lanes + lane, n_rows - 1)
                states = index[row]
                state_factor = factor[states[vertex]]
                for parent in range(n_vertices):
                    into[parent, lane] = state_factor[np.uint64(states[parent])]
                into[vertex, lane] = 0.0
                into[-1, lane] = state_factor[states[n_vertices]]


@inlined
def _load_panel(
    into: Floats, start: int, low: int, symmetric: bool, columns: Floats, rows: Floats
) -> None:
    """Copy the columns and the rows of the vertices of a panel."""
    n_vertices = len(into)
    for b in range(_PANEL):
        k = start + b
        for j in range(low, n_vertices + 1):
            for lane in range(LANES):
                # A symmetric matrix is kept below its diagonal only.
                below = symmetric and k < j < n_vertices
                rows[b, j, lane] = into[j, k, lane] if below else into[k, j, lane]
        for j in range(low, n_vertices):
            for lane in range(LANES):
                columns[b, j, lane] = rows[b, j, lane] if symmetric else into[j, k, lane]


@inlined
def _invert_block(block: Floats, log_weight: Floats) -> None:
    """Invert the Laplacians of a panel in place, the last of ``block`` weights from their root."""
    for b in range(_PANEL):
        for lane in range(LANES):
            # Sums of weights in place of differences: nothing cancels, however small a weight.
            pivot = block[b, _PANEL, lane]
            following = b + 1
            for c in range(following, _PANEL):
                pivot += block[b, c, lane]
            pivot = max(pivot, _SMALLEST)
            log_weight[lane] += fast_log(pivot)
            block[b, b, lane] = 1.0
            for m in range(_PANEL + 1):
                block[b, m, lane] /= pivot
        for c in range(_PANEL):
            if c == b:
                continue
            for lane in range(LANES):
                # What leads through the eliminated vertex leads on to where that led.
                through = block[c, b, lane]
                block[c, b, lane] = 0.0
                for m in range(_PANEL + 1):
                    block[c, m, lane] += through * block[b, m, lane]


@inlined
def _eliminate_panel(
    start: int, low: int, panel: Floats, block: Floats, log_weight: Floats
) -> None:
    """Eliminate the vertices of a panel from its own rows, with all that follow as its root.

    ``panel`` has the rows before and after, and memory for the inverse.
    """
    before = panel[1]
    rows = panel[2]
    inverse = panel[3]
    block[:] = 0.0
    for b in range(_PANEL):
        for j in range(start, before.shape[1]):
            c = min(j - start, _PANEL)
            for lane in range(LANES):
                block[b, c, lane] += before[b, j, lane]
    _invert_block(block, log_weight)
    for b in range(_PANEL):
        for c in range(_PANEL):
            for lane in range(LANES):
                inverse[c, b, lane] = block[b, c, lane]
    rows[:, low:] = 0.0
    # Two rows at a time share what they fetch.
    for b in range(0, _PANEL, 2):
        add_products(rows, inverse, before, b, low, before.shape[1] - low)
    for b in range(_PANEL):
        for c in range(_PANEL):
            for lane in range(LANES):
                rows[b, start + c, lane] = inverse[c, b, lane]


@inlined(new_arrays=True)
def _eliminate_lanes(
    into: Floats, symmetric: bool, invert: bool, panel: Floats, log_weight: Floats
) -> None:
    """Eliminate all vertices of eight graphs.

    Parameters
    ----------
    into : array of shape (n, n + 1, LANES)
        Weights into each vertex, a multiple of four; the last column is the root. If symmetric,
        only the columns below the diagonal and the last one are read. With ``invert`` overwritten
        with the inverse of the Laplacian whose rows are those of the weights; else with nothing of
        use.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.
    panel : array of shape (4, 4, n + 1, LANES)
        Workspace for the vertices of a panel.
    log_weight : array of shape (LANES,)
        The log weight of all trees is added.
    """
    n_vertices = len(into)
    columns = panel[0]
    rows = panel[2]
    block = np.empty((_PANEL, _PANEL + 1, LANES))
    for start in range(0, n_vertices, _PANEL):
        low = start
        if invert:
            low = 0
        _load_panel(into, start, low, symmetric, columns, panel[1])
        _eliminate_panel(start, low, panel, block, log_weight)
        for i in range(low, n_vertices, 2):
            if start <= i < start + _PANEL:
                # The rows of the panel itself are done: they are copied back.
                for b in range(i - start, i - start + 2):
                    for j in range(low, n_vertices + 1):
                        for lane in range(LANES):
                            into[start + b, j, lane] = rows[b, j, lane]
                continue
            # The columns of the panel are eliminated from the other rows.
            for row in range(i, i + 2):
                for k in range(start, start + _PANEL):
                    for lane in range(LANES):
                        into[row, k, lane] = 0.0
            # Above the diagonal of a symmetric matrix nothing is read.
            high = n_vertices
            if symmetric:
                high = i + 2
            add_products(into, columns, rows, i, low, high - low)
            add_products(into, columns, rows, i, n_vertices, 1)


@kernel(new_arrays=True)
def _eliminate_groups(graphs: Floats, symmetric: bool, invert: bool, log_weight: Floats) -> None:
    """Eliminate all vertices of groups of eight graphs; see :func:`eliminate_graphs`."""
    n_vertices = graphs.shape[1]
    total = np.empty(LANES)
    panel = np.empty((4, _PANEL, n_vertices + 1, LANES))
    for group in range(len(graphs)):
        total[:] = 0.0
        _eliminate_lanes(graphs[group], symmetric, invert, panel, total)
        # Lanes that repeat the last row have no place in the result.
        for lane in range(min(LANES, len(log_weight) - group * LANES)):
            log_weight[group * LANES + lane] = total[lane]


@kernel
def _factor_panel(panel: Floats) -> float:
    """Factor the Laplacian of a panel in place; return the log weight of all its trees.

    Parameters
    ----------
    panel : array of shape (n, n + 1)
        Weights into each vertex, those from the root last. Left behind is the negative Laplacian
        as a product of two triangles: the pivots and what is below them times what is above them
        and minus one.
    """
    n_vertices = len(panel)
    log_weight = 0.0
    for k in range(n_vertices):
        line = panel[k]
        pivot = 0.0
        following = k + 1
        # What is left decides on the pivot: nothing is subtracted from the first sum.
        for u in range(following, n_vertices + 1):
            pivot += line[u]
        pivot = max(pivot, _SMALLEST)
        log_weight += math.log(pivot)
        line[k] = -pivot
        for u in range(following, n_vertices + 1):
            line[u] /= pivot
        for v in range(following, n_vertices):
            row = panel[v]
            through = row[k]
            for u in range(following, n_vertices + 1):
                row[u] += through * line[u]
    return log_weight


def _eliminate_directed(into: Floats, invert: bool) -> float:
    """Do for one graph of shape (n, n + 1) what :func:`_eliminate_lanes` does for eight."""
    start = 0
    log_weight = 0.0
    while start < len(into):
        stop = min(start + _WIDE_PANEL, len(into))
        vertices = slice(start, stop)
        # All that follows is the root of the panel.
        rows = into[vertices].copy()
        columns = into[:, vertices].copy()
        panel = np.column_stack([rows[:, vertices], rows[:, stop:].sum(axis=1)])
        log_weight += _factor_panel(panel)
        triangles = -panel[:, :-1]
        # No entry above a diagonal is positive: nothing cancels in what solves the triangles.
        left = solve_triangular(triangles, np.eye(stop - start), lower=True)
        inverse = solve_triangular(triangles, left, unit_diagonal=True)
        rows = inverse @ rows
        rows[:, vertices] = inverse
        if invert:
            into[:, vertices] = 0.0
        else:
            # What is eliminated is of no more use.
            into = into[stop:, stop:].copy()
            rows = rows[:, stop:]
            columns = columns[stop:]
        if len(into):
            # The transposes have the order of BLAS, which adds the products in place.
            dgemm(1.0, rows.T, columns.T, 1.0, into.T, overwrite_c=True)
        if invert:
            into[vertices] = rows
            start = stop
    return log_weight


def _eliminate_undirected(into: Floats, invert: bool) -> float:
    """Do the same for symmetric weights; above the diagonal nothing is read, or computed."""
    start = 0
    log_weight = 0.0
    weights = into[:, :-1].copy()
    from_root = into[:, -1].copy()
    while start < len(weights):
        stop = min(start + _WIDE_PANEL, len(weights))
        vertices = slice(start, stop)
        # Columns of a symmetric matrix, of which only what is below the diagonal is kept.
        within = np.tril(weights[vertices, vertices], -1)
        columns = np.concatenate(
            [weights[vertices, :start].T, within + within.T, weights[stop:, vertices]]
        )
        to_rest = columns[stop:].sum(axis=0) + from_root[vertices]
        panel = np.column_stack([columns[vertices], to_rest])
        log_weight += _factor_panel(panel)
        # The inverse of the panel's Laplacian is this times its transpose.
        factor = np.diag(1.0 / np.sqrt(-panel.diagonal()))
        factor = solve_triangular(-panel[:, :-1], factor, unit_diagonal=True)
        through = columns @ factor
        from_root += through @ (from_root[vertices] @ factor)
        through[vertices] = 0.0
        if not invert:
            weights = weights[stop:, stop:].copy()
            through = through[stop:]
            from_root = from_root[stop:]
        if len(weights):
            # The transpose has the order of BLAS: its upper triangle is the lower one here.
            dsyrk(1.0, through.T, 1.0, weights.T, trans=True, overwrite_c=True)
        if invert:
            through = through @ factor.T
            weights[vertices, :start] = through[:start].T
            weights[vertices, vertices] = factor @ factor.T
            weights[stop:, vertices] = through[stop:]
            start = stop
    if invert:
        into[:, :-1] = weights
    return log_weight


def new_graphs(n_rows: int, n_vertices: int) -> Floats:
    """Memory for the graphs of some rows, for :func:`eliminate_graphs`.

    It has shape (n_groups, size, size + 1, n_lanes). Vertices beyond ``n_vertices`` fill up a
    panel: they hang from the root, which is last.
    """
    n_lanes = 1
    size = n_vertices
    if n_vertices <= _WIDEST:
        n_lanes = LANES
        size = -(-n_vertices // _PANEL) * _PANEL
    graphs = np.empty((-(-n_rows // n_lanes), size, size + 1, n_lanes))
    graphs[:, :, n_vertices:-1] = 0.0
    graphs[:, n_vertices:] = 0.0
    graphs[:, n_vertices:, -1] = 1.0
    return graphs


def eliminate_graphs(graphs: Floats, n_rows: int, symmetric: bool, invert: bool) -> Floats:
    """Eliminate all vertices of the graphs of some rows.

    Parameters
    ----------
    graphs : array of shape (n_groups, size, size + 1, n_lanes)
        Weights into each vertex, those from the root last; zero on the diagonal. A row is a lane
        of a group (:func:`new_graphs`). With ``invert`` overwritten with the inverses of the
        Laplacians whose rows are the weights into a vertex; else with nothing of use. Where they
        are symmetric the inverses are read below the diagonal and on it.
    n_rows : int
        Number of rows.
    symmetric, invert : bool
        Whether the weights are, and whether the inverse is wanted.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log of the weight of all trees of each row.
    """
    if graphs.shape[3] == 1:
        eliminate = _eliminate_undirected if symmetric else _eliminate_directed
        return np.array([eliminate(graph, invert) for graph in graphs[..., 0]])
    log_weight = np.empty(n_rows)
    _eliminate_groups(graphs, symmetric, invert, log_weight)
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

    ``inverse`` is what elimination leaves of the graphs, one row of ``index`` a lane. If symmetric,
    an edge counts at the state of its later vertex first.
    """
    n_vertices = index.shape[1] - 1
    n_lanes = inverse.shape[3]
    for child in range(children[0], children[1]):
        for row in range(len(index)):
            group = row // n_lanes
            resistances = inverse[group]
            lane = row % n_lanes
            row_weight = weight[row]
            to_child = resistances[child, child, lane]
            states = index[row]
            state = states[child]
            root = states[n_vertices]
            state_factor = factor[state]
            into = expected[state]
            # The root is one more vertex, which has resistance zero.
            root_probability = row_weight * _probability(state_factor[root], to_child)
            if symmetric:
                expected[root, state] += root_probability
                for vertex in range(child):
                    parent = np.uint64(states[vertex])
                    resistance = to_child + resistances[vertex, vertex, lane]
                    resistance -= 2.0 * resistances[child, vertex, lane]
                    into[parent] += row_weight * _probability(state_factor[parent], resistance)
                continue
            into[root] += root_probability
            for vertex in range(n_vertices):
                parent = np.uint64(states[vertex])
                resistance = to_child - resistances[vertex, child, lane]
                into[parent] += row_weight * _probability(state_factor[parent], resistance)


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
    >>> np.exp(
    ...     log_tree_weights(np.ones((5, 5)), np.arange(5)[np.newaxis], True)
    ... ).round(6)
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
    >>> _, expected = expected_edges(
    ...     np.ones((3, 3)), np.arange(3)[np.newaxis], np.ones(1), True
    ... )
    >>> expected.round(3)
    array([[0.   , 0.   , 0.   ],
           [0.667, 0.   , 0.   ],
           [0.667, 0.667, 0.   ]])
    """
    n_vertices = index.shape[1] - 1
    expected = np.zeros_like(factor)
    parts = _parts(len(index), n_vertices)
    log_weights = [np.empty(0)]

    def eliminate(rows: slice) -> tuple[Floats, Floats]:
        return _eliminate_rows(factor, index[rows], symmetric, True)

    for part in slices(len(parts), n_threads()):
        # The inverses of a part for each thread are in memory together.
        held_rows = parts[part]
        eliminated = in_threads(eliminate, held_rows)
        log_weights += [log_weight for log_weight, _ in eliminated]

        def add(children: slice, held_rows: Any = held_rows, eliminated: Any = eliminated) -> None:
            span = np.array([children.start, children.stop])
            # The rows in their order, whatever the number of threads: no bit depends on it.
            for (_, inverse), rows in zip(eliminated, held_rows):
                _add_edges(inverse, factor, index[rows], weight[rows], symmetric, span, expected)

        # Threads share out the children, as each writes into rows of its own.
        n_entries = n_vertices * (held_rows[-1].stop - held_rows[0].start)
        n_children = max(1, round(_ENTRIES / (n_entries + 1)))
        in_threads(add, slices(n_vertices, n_children))
    return np.concatenate(log_weights), expected


def _eliminate_rows(
    factor: Floats, index: Ints, symmetric: bool, invert: bool
) -> tuple[Floats, Floats]:
    """Look up and eliminate the graphs of some rows; return log weights, and the graphs."""
    graphs = new_graphs(len(index), index.shape[1] - 1)
    _gather(factor, index, graphs)
    return eliminate_graphs(graphs, len(index), symmetric, invert), graphs


def _parts(n_rows: int, n_vertices: int) -> list[slice]:
    """Parts of the rows that fit the cache together, whole groups of lanes."""
    n_groups = max(1, _HELD // (LANES * n_vertices * n_vertices + 1))
    return slices(n_rows, n_groups * LANES)
