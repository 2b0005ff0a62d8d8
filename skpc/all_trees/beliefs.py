"""What the missing cells of a row may be, on average over all trees.

If the edges of a tree were known, messages along them would give the distribution of each missing
cell. Here a message counts by the probability of its edge given the row, and the edges depend on
the messages in turn: in the graph of the row, an edge between two states has as its factor the
probability of the child given the parent, averaged over the belief of the parent and over what the
missing child hears from below. Its inverse Laplacian gives the probabilities of the edges. The
cells that may be parent or child of a variable count as independent, except that none is both.

Three rounds come close to the truth where trees are many and missing cells few (a thousand trees
sampled for each row of a made table of 50 columns, a fifth of its cells missing, are no closer).
They are an approximation all the same: estimates take them as a proposal. Without them, completions
are worth little (:mod:`skpc.all_trees.incomplete`). The plain twin is tests/naive/beliefs.py.
"""

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import internal_kernel, kernel
from skpc._threads import slices
from skpc.all_trees.determinants import eliminate_graphs, new_graphs
from skpc.all_trees.tree_inference import TreeTables, span

#: Rounds of messages.
_ROUNDS = 3
#: Edges that are less probable tell nothing.
_FAINT = 1e-4
#: The least that a child may say of a state, and the least room that others leave an edge.
_LEAST = 1e-12
#: Rows whose messages are in memory together.
_ROWS = 8


@kernel
def _messages_to_parents(
    trees: TreeTables,
    codes: Ints,
    belief: Floats,
    below: Floats,
    message: Floats,
    average: Floats,
    graphs: Floats,
) -> None:
    """What each variable tells a parent, from its own state or from what it hears from below.

    Parameters
    ----------
    trees, codes
        The trees, and the rows.
    belief : array of shape (n_rows, n_states + 1)
        Beliefs of the states.
    below : array of shape (n_rows, n_states + 1)
        What missing variables hear from below in each state.
    message : array of shape (n_rows, n, n_states + 1)
        Overwritten in the states in which a parent may be.
    average : array of shape (n_rows, n, n + 1)
        Overwritten with its averages over the beliefs of parents.
    graphs : array of shape (n_groups, size, size + 1, n_lanes)
        Overwritten with the weights of the edges given the row, each row a lane.
    """
    ptr, conditional, into = trees
    n_rows, n = codes.shape
    n_lanes = graphs.shape[3]
    for row in range(n_rows):
        code = codes[row]
        for v in range(n):
            # One message serves all parents: it is read at their states.
            sent = message[row, v]
            sent[:] = 0.0
            begin, end = span(ptr, code, v)
            for b in range(begin, end):
                for u in range(n + 1):
                    first, last = span(ptr, code, u)
                    for a in range(first, last):
                        sent[a] += below[row, b] * conditional[b, a]
            for u in range(n + 1):
                total = 0.0
                first, last = span(ptr, code, u)
                for a in range(first, last):
                    total += belief[row, a] * sent[a]
                average[row, v, u] = total
    # Lanes beyond the last row repeat it.
    for lane in range(len(graphs) * n_lanes):
        row = min(lane, n_rows - 1)
        for v in range(n):
            for u in range(n + 1):
                weight = into[v, u] * average[row, v, u] if u != v else 0.0
                graphs[lane // n_lanes, v, u if u < n else -1, lane % n_lanes] = weight


@internal_kernel
def _hear_children(
    ptr: Ints, v: int, message: Floats, average: Floats, edge: Floats, heard: Floats
) -> None:
    """What every other variable tells a missing one, as far as it may be its child.

    ``heard`` of shape (n + 2, n_states + 1) is overwritten in the states of ``v``; its last row
    has the product, up to a factor.
    """
    n = len(message)
    begin = ptr[v]
    end = ptr[v + 1]
    for b in range(begin, end):
        heard[n, b] = 1.0
        heard[n + 1, b] = 1.0
    for c in range(n):
        for b in range(begin, end):
            heard[c, b] = 1.0
        # Who is the parent is not a child.
        is_child = min(edge[c, v] / max(1.0 - edge[v, c], _LEAST), 1.0)
        if c == v or is_child < _FAINT:
            continue
        for b in range(begin, end):
            heard[c, b] = max(1.0 + is_child * (message[c, b] / average[c, v] - 1.0), _LEAST)
            heard[n + 1, b] *= heard[c, b]


@kernel(new_arrays=True)
def _update_beliefs(
    trees: TreeTables,
    codes: Ints,
    message: Floats,
    average: Floats,
    inverse: Floats,
    belief: Floats,
    below: Floats,
) -> None:
    """The new beliefs of missing variables, from what they hear on all sides.

    ``inverse`` is what elimination leaves of the graphs; the rest as for
    :func:`_messages_to_parents`, ``belief`` and ``below`` overwritten.
    """
    ptr, conditional, into = trees
    n = codes.shape[1]
    n_lanes = inverse.shape[3]
    edge = np.empty((n, n + 1))
    heard = np.empty((n + 2, ptr[n] + 1))
    updated = np.empty(ptr[n] + 1)
    for row in range(len(codes)):
        code = codes[row]
        old = belief[row]
        group = inverse[row // n_lanes]
        lane = row % n_lanes
        for v in range(n):
            for u in range(n + 1):
                # The probability of an edge over random trees is its weight times a resistance.
                resistance = group[v, v, lane] - (group[u, v, lane] if u < n else 0.0)
                probability = into[v, u] * average[row, v, u] * resistance
                edge[v, u] = min(max(probability, 0.0), 1.0) if u != v else 0.0
        # All beliefs hear the old ones: the order of the variables does not matter.
        updated[:] = old
        for v in range(n):
            if code[v] >= 0:
                continue
            _hear_children(ptr, v, message[row], average[row], edge, heard)
            total = 0.0
            for b in range(ptr[v], ptr[v + 1]):
                below[row, b] = heard[n + 1, b]
                updated[b] = 0.0
                for u in range(n + 1):
                    # What comes from a parent does not count among the children.
                    if edge[v, u] >= _FAINT:
                        from_parent = 0.0
                        first, last = span(ptr, code, u)
                        for a in range(first, last):
                            from_parent += conditional[b, a] * old[a]
                        by_edge = edge[v, u] / average[row, v, u] * from_parent
                        updated[b] += by_edge * heard[n + 1, b] / heard[u, b]
                total += updated[b]
            for b in range(ptr[v], ptr[v + 1]):
                updated[b] = updated[b] / total if 0.0 < total < np.inf else old[b]
        old[:] = updated


def belief_propagation(trees: TreeTables, codes: Ints) -> Floats:
    """Approximate the probabilities of the states of all variables given the observed cells.

    Parameters
    ----------
    trees : TreeTables
        The trees of a mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.

    Returns
    -------
    ndarray of shape (n_rows, n_states + 1)
        The state of the root is last.
    """
    n = codes.shape[1]
    n_states = int(trees.ptr[-1])
    # They start as those of roots; observed cells are what they are.
    belief = np.repeat(np.append(trees.conditional[:, -1], 1.0)[np.newaxis], len(codes), 0)
    belief[:, :-1][np.repeat(codes >= 0, np.diff(trees.ptr)[:-1], axis=1)] = 0.0
    row, column = np.nonzero(codes >= 0)
    belief[row, trees.ptr[column] + codes[row, column]] = 1.0
    message = np.empty((_ROWS, n, n_states))
    average = np.empty((_ROWS, n, n + 1))
    for rows in slices(len(codes), _ROWS):
        few = codes[rows]
        of_rows = belief[rows]
        graphs = new_graphs(len(few), n)
        below = np.ones_like(of_rows)
        for _ in range(_ROUNDS):
            _messages_to_parents(trees, few, of_rows, below, message, average, graphs)
            eliminate_graphs(graphs, len(few), False, True)
            _update_beliefs(trees, few, message, average, graphs, of_rows, below)
    return belief
