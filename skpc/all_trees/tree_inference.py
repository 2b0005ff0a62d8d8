"""Exact inference in given trees: a pass up, and a pass down, of O(n k^2) per row and tree.

As in :mod:`skpc.all_trees.laplacian` a forest is a tree that hangs from a virtual root: here a
variable of one state, always observed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc._random import seed_streams, uniform
from skpc.all_trees.tree_tables import (
    TreeTables,
    check_codes,
    check_integer,
    check_tables,
    check_trees,
)

__all__ = [
    "draw_down",
    "log_evidence",
    "pass_down",
    "pass_up",
    "sample_missing",
    "span",
    "tree_marginals",
    "tree_order",
]


#: Messages are scaled up below this, so that products of two of them cannot vanish.
_SMALL = 1e-50
#: A smaller probability is taken as zero: its inverse may overflow.
_SMALLEST = 1e-300


@kernel
def tree_order(parent: Ints, order: Ints, work: Ints) -> None:
    """List the vertices such that parents come before their children.

    ``order`` has shape (n,) and is overwritten, ``work`` (2, n + 1) is room for the children.
    """
    n = len(parent)
    child, sibling = work[0], work[1]
    child[:] = -1
    for v in range(n):
        u = parent[v] if parent[v] >= 0 else n
        sibling[v] = child[u]
        child[u] = v
    found = 0
    v = child[n]
    while v >= 0:
        order[found] = v
        found += 1
        v = sibling[v]
    # The list is its own queue.
    for at in range(n):
        v = child[order[at]]
        while v >= 0:
            order[found] = v
            found += 1
            v = sibling[v]


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
def _all_ones(values: Floats, begin: int, end: int) -> bool:
    ones = True
    for s in range(begin, end):
        ones = ones and values[s] == 1.0
    return ones


@kernel
def pass_up(
    tables: TreeTables, parent: Ints, order: Ints, code: Ints, below: Floats, message: Floats
) -> float:
    """Log probability of the observed cells of a row.

    Parameters
    ----------
    tables : TreeTables
    parent, order : arrays of shape (n,)
        The tree; parents come before their children in ``order``.
    code : array of shape (n,)
        States, -1 where missing.
    below : array of shape (n_states + 1,)
        Overwritten with the likelihood of what is observed below a variable given its state, up to
        a factor for each variable; states that are ruled out by the cell itself are left alone.
    message : array of shape (n_states + 1,)
        Room for one message.

    Returns
    -------
    float
        In nats.
    """
    ptr, conditional = tables
    n = len(parent)
    below[:] = 1.0
    log_scale = 0.0
    for at in range(n - 1, -1, -1):
        v = order[at]
        u = parent[v] if parent[v] >= 0 else n
        begin, end = span(ptr, code, v)
        first, last = span(ptr, code, u)
        if code[v] < 0 and _all_ones(below, begin, end):
            # Nothing is observed below: the message is one, whatever the state of the parent.
            continue
        message[first:last] = 0.0
        for b in range(begin, end):
            for a in range(first, last):
                message[a] += conditional[b, a] * below[b]
        log_scale += _scaled_up(message, first, last)
        for a in range(first, last):
            below[a] *= message[a]
        log_scale += _scaled_up(below, first, last)
        if log_scale == -math.inf:
            return log_scale
    return log_scale + math.log(below[ptr[n]])


@kernel
def pass_down(
    tables: TreeTables,
    parent: Ints,
    order: Ints,
    code: Ints,
    below: Floats,
    message: Floats,
    belief: Floats,
) -> None:
    """Probabilities of all states given the observed cells, after :func:`pass_up`.

    ``message`` and ``belief`` have shape (n_states + 1,) and are overwritten. The observed cells
    must be possible.
    """
    ptr, conditional = tables
    n = len(parent)
    belief[:] = 0.0
    belief[ptr[n]] = 1.0
    for at in range(n):
        v = order[at]
        if code[v] >= 0:
            belief[ptr[v] + code[v]] = 1.0
            continue
        u = parent[v] if parent[v] >= 0 else n
        begin, end = ptr[v], ptr[v + 1]
        first, last = span(ptr, code, u)
        if _all_ones(below, begin, end):
            message[first:last] = 1.0
        else:
            message[first:last] = 0.0
            for b in range(begin, end):
                for a in range(first, last):
                    message[a] += conditional[b, a] * below[b]
        for a in range(first, last):
            message[a] = belief[a] / message[a] if message[a] > 0.0 else 0.0
        for b in range(begin, end):
            share = 0.0
            for a in range(first, last):
                share += conditional[b, a] * message[a]
            belief[b] = share * below[b]


@kernel
def draw_down(
    tables: TreeTables,
    parent: Ints,
    order: Ints,
    below: Floats,
    streams: NDArray[np.uint64],
    stream: int,
    code: Ints,
) -> None:
    """Draw the missing cells of ``code`` jointly given the observed ones, after :func:`pass_up`."""
    ptr, conditional = tables
    n = len(parent)
    for at in range(n):
        v = order[at]
        if code[v] >= 0:
            continue
        above = ptr[n] if parent[v] < 0 else ptr[parent[v]] + code[parent[v]]
        total = 0.0
        for b in range(ptr[v], ptr[v + 1]):
            total += conditional[b, above] * below[b]
        left = uniform(streams, stream) * total
        for b in range(ptr[v], ptr[v + 1]):
            term = conditional[b, above] * below[b]
            if term > 0.0:
                # Rounding may leave a sliver: the last possible state then takes it.
                code[v] = b - ptr[v]
                left -= term
                if left <= 0.0:
                    break


@kernel
def _evidence_of_all(tables: TreeTables, parents: Ints, codes: Ints, out: Floats) -> None:
    n = parents.shape[1]
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, message = np.empty(tables.ptr[n + 1]), np.empty(tables.ptr[n + 1])
    for tree in range(len(parents)):
        tree_order(parents[tree], order, work)
        for row in range(len(codes)):
            out[row, tree] = pass_up(tables, parents[tree], order, codes[row], below, message)


@kernel
def _marginals_of_each(
    tables: TreeTables, parents: Ints, codes: Ints, log_evidence: Floats, out: Floats
) -> None:
    n = parents.shape[1]
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, message = np.empty(tables.ptr[n + 1]), np.empty(tables.ptr[n + 1])
    belief = np.empty(tables.ptr[n + 1])
    for row in range(len(codes)):
        parent, code = parents[row], codes[row]
        tree_order(parent, order, work)
        log_evidence[row] = pass_up(tables, parent, order, code, below, message)
        if log_evidence[row] > -math.inf:
            pass_down(tables, parent, order, code, below, message, belief)
            for s in range(tables.ptr[n]):
                out[row, s] = belief[s]


@kernel
def _fill_each(
    tables: TreeTables,
    parents: Ints,
    streams: NDArray[np.uint64],
    log_evidence: Floats,
    codes: Ints,
) -> None:
    n = parents.shape[1]
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, message = np.empty(tables.ptr[n + 1]), np.empty(tables.ptr[n + 1])
    for row in range(len(codes)):
        parent, code = parents[row], codes[row]
        tree_order(parent, order, work)
        log_evidence[row] = pass_up(tables, parent, order, code, below, message)
        if log_evidence[row] > -math.inf:
            draw_down(tables, parent, order, below, streams, row, code)


def log_evidence(tables: TreeTables, parents: Any, codes: Any) -> Floats:
    """Log probability of the observed cells of each row in each tree.

    Parameters
    ----------
    tables : TreeTables
        Distributions of n variables given their parents.
    parents : array-like of shape (n_trees, n)
        Trees, as :func:`sample_spanning_trees` draws them; -1 for roots.
    codes : array-like of shape (n_rows, n)
        States, -1 where missing.

    Returns
    -------
    ndarray of shape (n_rows, n_trees)
        In nats; -inf where the observed cells are impossible.

    Raises
    ------
    ValueError
        If a shape is wrong, or a state or a parent out of range.

    Examples
    --------
    >>> from skpc.all_trees import TreeTables, log_evidence
    >>> tables = TreeTables.of([[0.5, 0.5], [0.5, 0.5]], {(0, 1): [[0.9, 0.1], [0.2, 0.8]]})
    >>> log_evidence(tables, [[-1, 0]], [[0, 0], [-1, 0], [-1, -1]]).round(3)
    array([[-0.799],
           [-0.598],
           [ 0.   ]])
    """
    tables = check_tables(tables)
    trees, rows = check_trees(tables, parents), check_codes(tables, codes)
    out = np.empty((len(rows), len(trees)))
    _evidence_of_all(tables, trees, rows, out)
    return out


def tree_marginals(tables: TreeTables, parents: Any, codes: Any) -> Floats:
    """Probabilities of all states given the observed cells, each row in a tree of its own.

    Parameters
    ----------
    tables : TreeTables
        Distributions of n variables given their parents.
    parents : array-like of shape (n_rows, n)
        The tree of each row; -1 for roots.
    codes : array-like of shape (n_rows, n)
        States, -1 where missing.

    Returns
    -------
    ndarray of shape (n_rows, n_states)
        The states of all variables one after the other; those of an observed cell have the
        probabilities one and zero.

    Raises
    ------
    ValueError
        If a shape is wrong, a state or a parent out of range, or if the observed cells of a row are
        impossible in its tree.

    Examples
    --------
    >>> from skpc.all_trees import TreeTables, tree_marginals
    >>> tables = TreeTables.of([[0.5, 0.5], [0.5, 0.5]], {(0, 1): [[0.9, 0.1], [0.3, 0.7]]})
    >>> tree_marginals(tables, [[-1, 0]], [[-1, 0]])
    array([[0.75, 0.25, 1.  , 0.  ]])
    """
    tables = check_tables(tables)
    rows = check_codes(tables, codes)
    trees = _one_tree_a_row(tables, parents, rows)
    found, out = np.empty(len(rows)), np.empty((len(rows), len(tables.conditional)))
    _marginals_of_each(tables, trees, rows, found, out)
    _refuse_impossible(found)
    return out


def sample_missing(tables: TreeTables, parents: Any, codes: Any, seed: int = 0) -> Ints:
    """Fill the missing cells with one joint draw given the observed ones.

    Rows with nothing observed become samples of their trees.

    Parameters
    ----------
    tables : TreeTables
        Distributions of n variables given their parents.
    parents : array-like of shape (n_rows, n)
        The tree of each row; -1 for roots.
    codes : array-like of shape (n_rows, n)
        States, -1 where missing.
    seed : int, default=0
        From 0 to 2 ** 64 - 1; each row has a stream of random numbers of its own.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
        Complete rows.

    Raises
    ------
    ValueError
        If a shape is wrong, a state, a parent or the seed out of range, or if the observed cells of
        a row are impossible in its tree.

    Examples
    --------
    >>> from skpc.all_trees import TreeTables, sample_missing
    >>> tables = TreeTables.of([[0.5, 0.5], [0.5, 0.5]], {(0, 1): [[1.0, 0.0], [0.0, 1.0]]})
    >>> sample_missing(tables, [[-1, 0]], [[-1, 1]])
    array([[1, 1]])
    """
    tables = check_tables(tables)
    filled = check_codes(tables, codes).copy()
    trees = _one_tree_a_row(tables, parents, filled)
    found, streams = np.empty(len(filled)), np.empty(len(filled), np.uint64)
    seed_streams(np.uint64(check_integer("seed", seed, 2**64)), 0, streams)
    _fill_each(tables, trees, streams, found, filled)
    _refuse_impossible(found)
    return filled


def _one_tree_a_row(tables: TreeTables, parents: Any, rows: Ints) -> Ints:
    trees = check_trees(tables, parents)
    if len(trees) != len(rows):
        raise ValueError(f"Every row needs one tree; found {len(trees)} trees, {len(rows)} rows.")
    return trees


def _refuse_impossible(log_evidence: Floats) -> None:
    impossible = np.flatnonzero(np.isneginf(log_evidence))
    if len(impossible):
        raise ValueError(f"The observed cells of row {impossible[0]} are impossible in its tree.")
