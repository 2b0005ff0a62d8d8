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

#: Messages are scaled up below this, so that products of two of them cannot vanish.
_SMALL = 1e-50
#: A smaller probability is taken as zero: its inverse may overflow.
_SMALLEST = 1e-300


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
    for v in range(len(parent)):
        if parent[v] >= 0:
            n_left[parent[v]] += 1
    size = 0
    for start in range(len(parent)):
        # A vertex follows the last of its children.
        v = start
        while v >= 0 and n_left[v] == 0:
            order[size] = v
            size += 1
            n_left[v] = -1
            v = parent[v]
            if v >= 0:
                n_left[v] -= 1


@inlined
def span(ptr: Ints, code: Ints, v: int) -> tuple[int, int]:
    """The states that a variable may be in: all if it is missing, else the one observed."""
    if v == len(code) or code[v] < 0:
        return ptr[v], ptr[v + 1]
    return ptr[v] + code[v], ptr[v] + code[v] + 1


@inlined
def _scaled_up(values: Floats, begin: int, end: int) -> float:
    """Scale values whose largest is small; return the log of the scale, -inf if all are zero."""
    largest = 0.0
    for s in range(begin, end):
        largest = max(largest, values[s])
    if largest >= _SMALL:
        return 0.0
    if largest < _SMALLEST:
        return -math.inf
    for s in range(begin, end):
        values[s] = values[s] / largest
    return math.log(largest)


@inlined
def _send(
    conditional: Floats, below: Floats, begin: int, end: int, first: int, last: int, message: Floats
) -> None:
    """The message of a variable in the states ``begin .. end`` to its parent."""
    message[first:last] = 0.0
    for b in range(begin, end):
        for a in range(first, last):
            message[a] += conditional[b, a] * below[b]


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
    n = len(parent)
    message = np.empty_like(below)
    below[:] = 1.0
    log_scale = 0.0
    # Children before parents: what is below a vertex is complete when its turn comes.
    for at in range(n):
        v = order[at]
        u = parent[v] if parent[v] >= 0 else n
        begin, end = span(ptr, code, v)
        first, last = span(ptr, code, u)
        _send(conditional, below, begin, end, first, last, message)
        for a in range(first, last):
            below[a] *= message[a]
        log_scale += _scaled_up(below, first, last)
        # The cells exclude each other on this tree: nothing above can help.
        if log_scale == -math.inf:
            return log_scale
    return log_scale + math.log(below[ptr[n]])


@kernel(new_arrays=True)
def pass_down(
    tables: TreeTables, parent: Ints, order: Ints, code: Ints, below: Floats, belief: Floats
) -> None:
    """Probabilities of all states given the observed cells, after :func:`pass_up`.

    ``belief`` of shape (n_states + 1,) is overwritten with them. The observed cells must be
    possible.
    """
    ptr, conditional, _ = tables
    n = len(parent)
    message = np.empty_like(below)
    belief[:] = 0.0
    belief[ptr[n]] = 1.0
    for at in range(n - 1, -1, -1):
        v = order[at]
        if code[v] >= 0:
            belief[ptr[v] + code[v]] = 1.0
            continue
        u = parent[v] if parent[v] >= 0 else n
        begin = ptr[v]
        end = ptr[v + 1]
        first, last = span(ptr, code, u)
        _send(conditional, below, begin, end, first, last, message)
        for a in range(first, last):
            # What the parent believes without this child.
            message[a] = belief[a] / message[a] if message[a] > 0.0 else 0.0
        for b in range(begin, end):
            expected = 0.0
            for a in range(first, last):
                expected += conditional[b, a] * message[a]
            belief[b] = expected * below[b]


@kernel(new_arrays=True)
def pass_trees(
    tables: TreeTables, parents: Ints, code: Ints, log_evidence: Floats, marginals: Floats
) -> None:
    """Log probability of the observed cells of a row in each tree, and marginals given them.

    ``log_evidence`` of shape (n_trees,) and ``marginals`` of shape (n_trees, n_states) are
    overwritten; marginals of shape (n_trees, 0) are left out.
    """
    order = np.empty(len(code), np.int64)
    of_states = np.empty((2, tables.ptr[-1]))
    below = of_states[0]
    belief = of_states[1]
    for tree in range(len(parents)):
        parent = parents[tree]
        tree_order(parent, order)
        log_evidence[tree] = pass_up(tables, parent, order, code, below)
        if marginals.shape[1] > 0:
            pass_down(tables, parent, order, code, below, belief)
            for s in range(marginals.shape[1]):
                marginals[tree, s] = belief[s]


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
    n = parents.shape[1]
    order = np.empty(n, np.int64)
    below = np.empty(ptr[-1])
    score = np.empty(ptr[-1])
    for row in range(len(codes)):
        parent = parents[row]
        code = codes[row]
        tree_order(parent, order)
        below[:] = 1.0
        # Of a row that is drawn whole nothing is observed: this takes half the time.
        if code.max() >= 0:
            pass_up(tables, parent, order, code, below)
        for at in range(n - 1, -1, -1):
            v = order[at]
            if code[v] >= 0:
                continue
            above = ptr[n] if parent[v] < 0 else ptr[parent[v]] + code[parent[v]]
            total = 0.0
            for b in range(ptr[v], ptr[v + 1]):
                score[b] = conditional[b, above] * below[b]
                total += score[b]
            height = uniform(streams, row) * total
            code[v] = draw_index(score, ptr[v], ptr[v + 1] - ptr[v], height)
