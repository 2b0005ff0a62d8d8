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

#: Edges that are less probable tell nothing.
_FAINT = 1e-4


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
    n_rows, n_variables = codes.shape
    n_lanes = graphs.shape[3]
    for row in range(n_rows):
        code = codes[row]
        heard = below[row]
        row_belief = belief[row]
        row_message = message[row]
        for child in range(n_variables):
            # One message serves all parents: it is read at their states.
            sent = row_message[child]
            sent[:] = 0.0
            child_begin, child_end = span(ptr, code, child)
            for state in range(child_begin, child_end):
                for parent in range(n_variables + 1):
                    begin, end = span(ptr, code, parent)
                    for parent_state in range(begin, end):
                        sent[parent_state] += heard[state] * conditional[state, parent_state]
            for parent in range(n_variables + 1):
                total = 0.0
                begin, end = span(ptr, code, parent)
                for parent_state in range(begin, end):
                    total += row_belief[parent_state] * sent[parent_state]
                average[row, child, parent] = total
    # Lanes beyond the last row repeat it.
    for lane in range(len(graphs) * n_lanes):
        row = min(lane, n_rows - 1)
        for child in range(n_variables):
            graph = graphs[lane // n_lanes, child]
            for parent in range(n_variables + 1):
                weight = 0.0
                if parent != child:
                    weight = into[child, parent] * average[row, child, parent]
                # A graph may have more vertices than variables; its root is always last.
                place = -1
                if parent < n_variables:
                    place = parent
                graph[place, lane % n_lanes] = weight


@internal_kernel
def _hear_children(
    ptr: Ints, variable: int, message: Floats, average: Floats, edge: Floats, heard: Floats
) -> None:
    """What every other variable tells a missing one, as far as it may be its child.

    ``heard`` of shape (n + 2, n_states + 1) is overwritten in the states of ``variable``; its last
    row has the product, up to a factor.
    """
    # The least that a child may say of a state, and the least room that others leave an edge.
    least = 1e-12
    n_variables = len(message)
    begin = ptr[variable]
    end = ptr[variable + 1]
    product = heard[n_variables + 1]
    root_heard = heard[n_variables]
    # The root says nothing: it has no cell.
    for state in range(begin, end):
        root_heard[state] = 1.0
        product[state] = 1.0
    for child in range(n_variables):
        child_heard = heard[child]
        for state in range(begin, end):
            child_heard[state] = 1.0
        # Who is the parent is not a child.
        room = max(1.0 - edge[variable, child], least)
        is_child = min(edge[child, variable] / room, 1.0)
        if child == variable or is_child < _FAINT:
            continue
        for state in range(begin, end):
            # One without the edge, the message with it, by the probability of the edge.
            likelihood = message[child, state] / average[child, variable]
            likelihood = 1.0 + is_child * (likelihood - 1.0)
            child_heard[state] = max(likelihood, least)
            product[state] *= child_heard[state]


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
    n_variables = codes.shape[1]
    n_lanes = inverse.shape[3]
    edge = np.empty((n_variables, n_variables + 1))
    heard = np.empty((n_variables + 2, ptr[n_variables] + 1))
    updated = np.empty(ptr[n_variables] + 1)
    for row in range(len(codes)):
        code = codes[row]
        old = belief[row]
        row_below = below[row]
        # Graphs stand side by side in groups, one a lane.
        place = row // n_lanes
        group = inverse[place]
        lane = row % n_lanes
        row_average = average[row]
        for variable in range(n_variables):
            edge_row = edge[variable]
            for parent in range(n_variables + 1):
                edge_row[parent] = 0.0
                if parent == variable:
                    continue
                # The probability of an edge over random trees is its weight times a resistance,
                # which the root does not lower.
                resistance = group[variable, variable, lane]
                if parent < n_variables:
                    resistance -= group[parent, variable, lane]
                weight = into[variable, parent] * row_average[variable, parent]
                edge_row[parent] = min(max(weight * resistance, 0.0), 1.0)
        # All beliefs hear the old ones: the order of the variables does not matter.
        updated[:] = old
        for variable in range(n_variables):
            if code[variable] >= 0:
                continue
            begin = ptr[variable]
            end = ptr[variable + 1]
            _hear_children(ptr, variable, message[row], row_average, edge, heard)
            total = 0.0
            for state in range(begin, end):
                from_children = heard[n_variables + 1, state]
                row_below[state] = from_children
                updated[state] = 0.0
                for parent in range(n_variables + 1):
                    # What comes from a parent does not count among the children.
                    if edge[variable, parent] >= _FAINT:
                        from_parent = 0.0
                        parent_begin, parent_end = span(ptr, code, parent)
                        for parent_state in range(parent_begin, parent_end):
                            from_parent += conditional[state, parent_state] * old[parent_state]
                        by_edge = edge[variable, parent] / row_average[variable, parent]
                        by_edge *= from_parent
                        updated[state] += by_edge * from_children / heard[parent, state]
                total += updated[state]
            # What cannot be normalised stays as it was.
            is_finite = 0.0 < total < np.inf
            for state in range(begin, end):
                updated[state] = updated[state] / total if is_finite else old[state]
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
    ptr = trees.ptr
    n_variables = codes.shape[1]
    n_states = int(ptr[-1])
    is_observed = codes >= 0
    # They start as those of roots; observed cells are what they are.
    root_belief = np.append(trees.conditional[:, -1], 1.0)
    belief = np.repeat(root_belief[np.newaxis], len(codes), 0)
    is_known = np.repeat(is_observed, np.diff(ptr)[:-1], axis=1)
    belief[:, :-1][is_known] = 0.0
    row, column = np.nonzero(is_observed)
    belief[row, ptr[column] + codes[row, column]] = 1.0
    # Few rows at a time, as a message has all states of all variables.
    n_rows = 8
    message = np.empty((n_rows, n_variables, n_states))
    average = np.empty((n_rows, n_variables, n_variables + 1))
    for rows in slices(len(codes), n_rows):
        part_codes = codes[rows]
        part_belief = belief[rows]
        n_part = len(part_codes)
        graphs = new_graphs(n_part, n_variables)
        below = np.ones_like(part_belief)
        # Three rounds of messages come close to the truth; see above.
        for _ in range(3):
            _messages_to_parents(trees, part_codes, part_belief, below, message, average, graphs)
            eliminate_graphs(graphs, n_part, False, True)
            _update_beliefs(trees, part_codes, message, average, graphs, part_belief, below)
    return belief
