"""Exact inference in given trees: a pass up, and a pass down, of O(n k^2) per row and tree.

As in :mod:`skpc.all_trees.spanning_trees` a forest is a tree that hangs from a virtual root: here a
variable of one state, always observed.
"""

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc._random import Streams, draw_index, uniform


class TreeTables(NamedTuple):
    """The trees over n variables: their weights, and a table for each two variables.

    The states of all variables are numbered through, that of the virtual root last.

    Parameters
    ----------
    ptr : array of shape (n + 2,), int64
        The states of variable v are ``ptr[v] .. ptr[v + 1]``, that of the root ``ptr[n]``.
    conditional : array of shape (n_states, n_states + 1), float64, C-contiguous
        Probability of a state (first axis) of a variable given a state of its parent (second), in
        the last column as a root. Blocks on the diagonal are not read.
    into : array of shape (n, n + 1), float64
        Weights of the edges into each variable, those from the virtual root last.
    """

    ptr: Ints
    conditional: Floats
    into: Floats


@kernel(new_arrays=True)
def tree_order(parent: Ints, order: Ints) -> None:
    """List the vertices such that children come before their parents."""
    n_left = np.zeros(len(parent), np.int64)
    for vertex in range(len(parent)):
        above = parent[vertex]
        if above >= 0:
            n_left[above] += 1
    size = 0
    for start in range(len(parent)):
        # A vertex follows the last of its children.
        vertex = start
        while vertex >= 0 and n_left[vertex] == 0:
            order[size] = vertex
            size += 1
            n_left[vertex] = -1
            vertex = parent[vertex]
            if vertex >= 0:
                n_left[vertex] -= 1


@inlined
def span(ptr: Ints, code: Ints, variable: int) -> tuple[int, int]:
    """The states that a variable may be in: all if it is missing, else the one observed."""
    begin = ptr[variable]
    if variable == len(code) or code[variable] < 0:
        return begin, ptr[variable + 1]
    state = begin + code[variable]
    return state, state + 1


@inlined
def _scaled_up(values: Floats, begin: int, end: int) -> float:
    """Scale values whose largest is small; return the log of the scale, -inf if all are zero."""
    largest = 0.0
    for state in range(begin, end):
        largest = max(largest, values[state])
    # Products of two messages of this size cannot vanish.
    if largest >= 1e-50:
        return 0.0
    # A smaller probability is taken as zero: its inverse may overflow.
    if largest < 1e-300:
        return -math.inf
    for state in range(begin, end):
        values[state] = values[state] / largest
    return math.log(largest)


@inlined
def _send(
    conditional: Floats,
    below: Floats,
    begin: int,
    end: int,
    parent_begin: int,
    parent_end: int,
    message: Floats,
) -> None:
    """The message of a variable in the states ``begin .. end`` to its parent."""
    message[parent_begin:parent_end] = 0.0
    for state in range(begin, end):
        for parent_state in range(parent_begin, parent_end):
            message[parent_state] += conditional[state, parent_state] * below[state]


@kernel(new_arrays=True)
def pass_up(tables: TreeTables, parent: Ints, order: Ints, code: Ints, below: Floats) -> float:
    """Log probability of the observed cells of a row.

    Parameters
    ----------
    tables : TreeTables
    parent : array of shape (n,)
        The tree, -1 for roots.
    order : array of shape (n,)
        Its vertices, children before their parents.
    code : array of shape (n,)
        States, -1 where missing.
    below : array of shape (n_states + 1,)
        Overwritten with the likelihood of what is observed below a variable given its state, up to
        a factor for each variable; states that the cell itself rules out are left alone.

    Returns
    -------
    float
        In nats; -inf where the observed cells are impossible.
    """
    ptr, conditional, _ = tables
    n_variables = len(parent)
    message = np.empty_like(below)
    below[:] = 1.0
    log_scale = 0.0
    # Children before parents: what is below a vertex is complete when its turn comes.
    for variable in order:
        above = parent[variable]
        # The parent -1 stands for the virtual root.
        if above < 0:
            above = n_variables
        begin, end = span(ptr, code, variable)
        parent_begin, parent_end = span(ptr, code, above)
        _send(conditional, below, begin, end, parent_begin, parent_end, message)
        for parent_state in range(parent_begin, parent_end):
            below[parent_state] *= message[parent_state]
        log_scale += _scaled_up(below, parent_begin, parent_end)
        # The cells exclude each other on this tree: nothing above can help.
        if log_scale == -math.inf:
            return log_scale
    return log_scale + math.log(below[ptr[n_variables]])


@kernel(new_arrays=True)
def pass_down(
    tables: TreeTables, parent: Ints, order: Ints, code: Ints, below: Floats, belief: Floats
) -> None:
    """Probabilities of all states given the observed cells, after :func:`pass_up`.

    ``belief`` of shape (n_states + 1,) is overwritten with them. The observed cells must be
    possible.
    """
    ptr, conditional, _ = tables
    n_variables = len(parent)
    message = np.empty_like(below)
    # States that an observed cell rules out have a probability of zero.
    belief[:] = 0.0
    belief[ptr[n_variables]] = 1.0
    # Parents before children: the belief of a parent is complete when its children need it.
    for variable in order[::-1]:
        if code[variable] >= 0:
            belief[ptr[variable] + code[variable]] = 1.0
            continue
        above = parent[variable]
        # The parent -1 stands for the virtual root.
        if above < 0:
            above = n_variables
        begin = ptr[variable]
        end = ptr[variable + 1]
        parent_begin, parent_end = span(ptr, code, above)
        _send(conditional, below, begin, end, parent_begin, parent_end, message)
        for parent_state in range(parent_begin, parent_end):
            # What the parent believes without this child, who must not hear itself.
            sent = message[parent_state]
            message[parent_state] = 0.0
            if sent > 0.0:
                message[parent_state] = belief[parent_state] / sent
        for state in range(begin, end):
            expected = 0.0
            for parent_state in range(parent_begin, parent_end):
                expected += conditional[state, parent_state] * message[parent_state]
            belief[state] = expected * below[state]


@kernel(new_arrays=True)
def pass_trees(
    tables: TreeTables, parents: Ints, code: Ints, log_evidence: Floats, marginals: Floats
) -> None:
    """Log probability of the observed cells of a row in each tree, and marginals given them.

    ``log_evidence`` of shape (n_trees,) and ``marginals`` of shape (n_trees, n_states) are
    overwritten; marginals of shape (n_trees, 0) are left out.
    """
    order = np.empty(len(code), np.int64)
    workspace = np.empty((2, tables.ptr[-1]))
    below = workspace[0]
    belief = workspace[1]
    for tree in range(len(parents)):
        parent = parents[tree]
        tree_order(parent, order)
        log_evidence[tree] = pass_up(tables, parent, order, code, below)
        n_states = marginals.shape[1]
        if n_states > 0:
            pass_down(tables, parent, order, code, below, belief)
            for state in range(n_states):
                marginals[tree, state] = belief[state]


@kernel(new_arrays=True)
def draw_each(tables: TreeTables, parents: Ints, streams: Streams, codes: Ints) -> None:
    """Fill the missing cells of each row by a joint draw, each row in a tree of its own.

    Parameters
    ----------
    tables : TreeTables
    parents : array of shape (n_rows, n)
        The tree of each row, -1 for roots.
    streams : array of shape (n_rows,)
        Random numbers for each row.
    codes : array of shape (n_rows, n)
        States, -1 where missing; the observed cells must be possible. Overwritten.
    """
    ptr, conditional, _ = tables
    n_variables = parents.shape[1]
    order = np.empty(n_variables, np.int64)
    below = np.empty(ptr[-1])
    score = np.empty(ptr[-1])
    for row in range(len(codes)):
        parent = parents[row]
        code = codes[row]
        tree_order(parent, order)
        below[:] = 1.0
        # Of a row that is drawn whole nothing is observed: this takes half the time.
        is_empty = True
        for state in code:
            is_empty &= state < 0
        if not is_empty:
            pass_up(tables, parent, order, code, below)
        # Parents before children: a child is drawn given the state of its parent.
        for variable in order[::-1]:
            if code[variable] >= 0:
                continue
            # The parent has its state already: the virtual root has one only.
            above = ptr[n_variables]
            parent_variable = parent[variable]
            if parent_variable >= 0:
                above = ptr[parent_variable] + code[parent_variable]
            begin = ptr[variable]
            end = ptr[variable + 1]
            total = 0.0
            for state in range(begin, end):
                score[state] = conditional[state, above] * below[state]
                total += score[state]
            height = uniform(streams, row) * total
            code[variable] = draw_index(score, begin, end - begin, height)
