"""What the missing cells of a row may be, on average over all trees.

If the edges of a tree were known, messages along them would give the distribution of each missing
cell. Here a message counts by the probability of its edge given the row, and the edges depend on
the messages in turn: in the graph of the row, an edge between two states has as its factor the
probability of the child given the parent, averaged over the belief of the parent and over what the
missing child hears from below. Its inverse Laplacian gives the probabilities of the edges. The
cells that may be parent or child of a variable count as independent, except that none is both.

Two rounds come close to the truth where trees are many and missing cells few (a thousand trees
sampled for each row of a made table of 50 columns, a fifth of its cells missing, are no closer).
They are an approximation all the same: estimates take them as a proposal.
"""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import FALSE, LANES, TRUE, kernel
from skpc.all_trees.determinants import PANEL, eliminate_lanes
from skpc.all_trees.estimates import PreparedTrees
from skpc.all_trees.tree_inference import span
from skpc.all_trees.tree_tables import TreeTables

#: Sweeps of the first guess, and rounds that improve it.
_SWEEPS, _ROUNDS = 2, 2
#: Edges that are less probable tell nothing.
_FAINT = 1e-4
#: The least that a child may say of a state, and the least room that others leave an edge.
_LEAST = 1e-12


@kernel
def guess_states(tables: TreeTables, edge: Floats, code: Ints, belief: Floats) -> None:
    """Guess the states of all variables: each hears its parents, on average over trees.

    ``edge`` are the probabilities of the edges, ``belief`` of shape (n_states + 1,) is overwritten.
    """
    ptr, conditional = tables
    n = len(code)
    belief[ptr[n]] = 1.0
    for v in range(n):
        for b in range(ptr[v], ptr[v + 1]):
            belief[b] = 0.0 if code[v] >= 0 else conditional[b, ptr[n]]
        if code[v] >= 0:
            belief[ptr[v] + code[v]] = 1.0
    heard = np.empty(ptr[n])
    for _ in range(_SWEEPS):
        for v in range(n):
            if code[v] >= 0:
                continue
            whole = 0.0
            for b in range(ptr[v], ptr[v + 1]):
                heard[b] = 0.0
                for u in range(n + 1):
                    if edge[v, u] > 0.0:
                        term = 0.0
                        first, last = span(ptr, code, u)
                        for a in range(first, last):
                            term += conditional[b, a] * belief[a]
                        heard[b] += edge[v, u] * term
                whole += heard[b]
            for b in range(ptr[v], ptr[v + 1]):
                belief[b] = heard[b] / whole


@kernel
def _tell_parents(
    tables: TreeTables, code: Ints, belief: Floats, below: Floats, told: Floats, average: Floats
) -> None:
    """What each variable tells a parent, from its own state or from what it hears from below.

    Parameters
    ----------
    tables, code
        The trees, and the row.
    belief : array of shape (n_states + 1,)
        Beliefs of the states.
    below : array of shape (n_states + 1,)
        What missing variables hear from below in each state.
    told : array of shape (n, n_states + 1)
        Overwritten in the states in which a parent may be.
    average : array of shape (n, n + 1)
        Overwritten with its averages over the beliefs of parents.
    """
    ptr, conditional = tables
    n = len(code)
    for v in range(n):
        mine = told[v]
        begin, end = span(ptr, code, v)
        mine[:] = 0.0
        for b in range(begin, end):
            for u in range(n + 1):
                first, last = span(ptr, code, u)
                for a in range(first, last):
                    mine[a] += below[b] * conditional[b, a]
        for u in range(n + 1):
            average[v, u] = 0.0
            first, last = span(ptr, code, u)
            for a in range(first, last):
                average[v, u] += belief[a] * mine[a]


@kernel
def _hear_children(
    tables: TreeTables,
    code: Ints,
    v: int,
    told: Floats,
    average: Floats,
    edge: Floats,
    child: Floats,
) -> None:
    """What every other variable tells a missing one, as far as it may be its child.

    ``child`` of shape (n + 2, n_states + 1) is overwritten in the states of ``v``; its last row
    has the product, up to a factor.
    """
    ptr = tables.ptr
    n = len(code)
    begin, end = ptr[v], ptr[v + 1]
    for b in range(begin, end):
        child[n, b], child[n + 1, b] = 1.0, 1.0
    for c in range(n):
        for b in range(begin, end):
            child[c, b] = 1.0
        # Who is the parent is not a child.
        is_child = min(edge[c, v] / max(1.0 - edge[v, c], _LEAST), 1.0)
        if c == v or is_child < _FAINT:
            continue
        largest = 0.0
        for b in range(begin, end):
            child[c, b] = max(1.0 + is_child * (told[c, b] / average[c, v] - 1.0), _LEAST)
            child[n + 1, b] *= child[c, b]
            largest = max(largest, child[n + 1, b])
        for b in range(begin, end):
            child[n + 1, b] = max(child[n + 1, b] / largest, _LEAST)


@kernel
def _hear_parents(
    tables: TreeTables,
    code: Ints,
    v: int,
    belief: Floats,
    average: Floats,
    edge: Floats,
    child: Floats,
    fresh: Floats,
) -> None:
    """The new belief of a missing variable, from what it hears on all sides."""
    ptr, conditional = tables
    n = len(code)
    whole = 0.0
    begin, end = ptr[v], ptr[v + 1]
    for b in range(begin, end):
        fresh[b] = 0.0
        for u in range(n + 1):
            if edge[v, u] < _FAINT:
                continue
            message = 0.0
            first, last = span(ptr, code, u)
            for a in range(first, last):
                message += conditional[b, a] * belief[a]
            fresh[b] += edge[v, u] / average[v, u] * message * child[n + 1, b] / child[u, b]
        whole += fresh[b]
    for b in range(begin, end):
        fresh[b] = fresh[b] / whole if 0.0 < whole < np.inf else belief[b]


@kernel
def _find_edges(into: Floats, average: Floats, inverse: Floats, lane: int, edge: Floats) -> None:
    """Probabilities of the edges of a row, from the inverse of its Laplacian."""
    n = len(into)
    for v in range(n):
        for u in range(n + 1):
            resistance = inverse[v, v, lane] - (inverse[u, v, lane] if u < n else 0.0)
            probability = into[v, u] * average[v, u] * resistance if u != v else 0.0
            edge[v, u] = min(max(probability, 0.0), 1.0)


@kernel
def believe_states(trees: PreparedTrees, codes: Ints, belief: Floats) -> None:
    """Approximate the probabilities of the states of all variables given the observed cells.

    Parameters
    ----------
    trees : PreparedTrees
        The trees of a mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    belief : array of shape (n_rows, n_states + 1)
        Overwritten; the state of the root is last.
    """
    tables, into = trees.tables, trees.into
    ptr = tables.ptr
    n_rows, n = codes.shape
    n_states = ptr[n] + 1
    below, fresh = np.empty((LANES, n_states)), np.empty(n_states)
    told, child = np.empty((LANES, n, n_states)), np.empty((n + 2, n_states))
    average, edge = np.empty((LANES, n, n + 1)), np.empty((n, n + 1))
    lanes = np.empty((n, n + 1, LANES))
    panel, log_weight = np.empty((4, PANEL, n + 1, LANES)), np.empty(LANES)
    for row in range(n_rows):
        guess_states(tables, trees.edge, codes[row], belief[row])
    for first in range(0, n_rows, LANES):
        few = codes[first : first + LANES]
        below[:] = 1.0
        for _ in range(_ROUNDS):
            for lane in range(LANES):
                # Lanes beyond the last row repeat it.
                i = min(lane, len(few) - 1)
                of_row = average[i]
                if i == lane:
                    _tell_parents(tables, few[i], belief[first + i], below[i], told[i], of_row)
                for v in range(n):
                    for u in range(n + 1):
                        lanes[v, u, lane] = into[v, u] * of_row[v, u] if u != v else 0.0
            eliminate_lanes(lanes, FALSE, TRUE, panel, log_weight)
            for i in range(len(few)):
                code, old, of_row = few[i], belief[first + i], average[i]
                _find_edges(into, of_row, lanes, i, edge)
                fresh[:] = old
                for v in range(n):
                    if code[v] >= 0:
                        continue
                    _hear_children(tables, code, v, told[i], of_row, edge, child)
                    _hear_parents(tables, code, v, old, of_row, edge, child, fresh)
                    for b in range(ptr[v], ptr[v + 1]):
                        below[i, b] = child[n + 1, b]
                old[:] = fresh
