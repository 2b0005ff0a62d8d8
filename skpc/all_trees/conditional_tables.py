"""Conditional tables of all pairs of variables: from logits to weights of edges, and derivatives.

There is a number for every two states, which makes millions in wide tables: each is read and
written as few times as can be, and children are dealt out to threads.
"""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import inlined, kernel
from skpc._threads import in_threads, slices

#: Entries of tables that are worth a thread.
_ENTRIES = 5e5
#: States of parents that are taken together: their columns stay in the cache.
_SOME = 512


@inlined
def _weigh_some(
    logit: Floats, first: int, last: int, of_parent: Floats, some: Ints, factor: Floats
) -> None:
    """Weights of the edges into one vertex from some states of parents, times their tables."""
    largest, total = of_parent[1], of_parent[2]
    start, stop = np.uint64(some[0]), np.uint64(some[1])
    for a in range(start, stop):
        largest[a] = logit[first, a]
        total[a] = 0.0
    for s in range(first + 1, last):
        for a in range(start, stop):
            largest[a] = max(largest[a], logit[s, a])
    for s in range(first, last):
        for a in range(start, stop):
            factor[s, a] = fast_exp(logit[s, a] - largest[a])
            total[a] += factor[s, a]
    for a in range(start, stop):
        total[a] = of_parent[0, a] / total[a]
    for s in range(first, last):
        for a in range(start, stop):
            factor[s, a] *= total[a]


@kernel
def _weigh(
    logit: Floats, ptr: Ints, parent: Ints, weight: Floats, children: Ints, factor: Floats
) -> None:
    """Weights of the edges into some vertices times their tables; see :func:`edge_factors`."""
    n_columns = logit.shape[1]
    of_parent = np.empty((3, n_columns))
    some = np.empty(2, dtype=np.int64)
    for v in range(children[0], children[1]):
        for a in range(n_columns):
            of_parent[0, a] = weight[v, parent[a]]
        for start in range(0, n_columns, _SOME):
            some[0], some[1] = start, min(start + _SOME, n_columns)
            _weigh_some(logit, ptr[v], ptr[v + 1], of_parent, some, factor)


@kernel
def _differentiate(
    factor: Floats,
    ptr: Ints,
    parent: Ints,
    weight: Floats,
    edge: Floats,
    children: Ints,
    gradient: Floats,
    of_parent: Floats,
) -> None:
    """Derivatives by the logits of the tables of some vertices; see :func:`table_gradient`."""
    per_weight = np.empty(len(parent))
    for v in range(children[0], children[1]):
        total = of_parent[v]
        for a in range(len(total)):
            total[a] = 0.0
        for s in range(ptr[v], ptr[v + 1]):
            for a in range(len(total)):
                total[a] += edge[s, a]
        for a in range(len(total)):
            # Nothing is expected of an edge without weight.
            w = weight[v, parent[a]]
            per_weight[a] = total[a] / w if w > 0.0 else 0.0
        for s in range(ptr[v], ptr[v + 1]):
            for a in range(len(total)):
                gradient[s, a] = edge[s, a] - per_weight[a] * factor[s, a]


def _children(ptr: Ints, n_columns: int) -> list[slice]:
    """Vertices whose tables are worth a thread."""
    of_child = float(ptr[-1]) * n_columns / (len(ptr) - 1)
    return slices(len(ptr) - 1, max(1, round(_ENTRIES / of_child)))


def edge_factors(logit: Floats, ptr: Ints, parent: Ints, weight: Floats, factor: Floats) -> None:
    """Weights of edges times the conditional tables that some logits stand for.

    Parameters
    ----------
    logit : array of shape (n_states, n_parent_states)
        Logits of each state (first axis) of a vertex given each state of a parent.
    ptr : array of shape (n + 1,)
        The states of vertex v are ``ptr[v] .. ptr[v + 1]``.
    parent : array of shape (n_parent_states,)
        The vertex of each state of a parent.
    weight : array of shape (n, n_parents)
        Weight of the edge into the first vertex from the second.
    factor : array of shape (n_states or more, n_parent_states)
        Overwritten.
    """

    def work(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _weigh(logit, ptr, parent, weight, span, factor)

    in_threads(work, _children(ptr, logit.shape[1]))


def table_gradient(
    factor: Floats, ptr: Ints, parent: Ints, weight: Floats, edge: Floats, gradient: Floats
) -> Floats:
    """Derivatives of expected log tables by their logits.

    Parameters
    ----------
    factor, ptr, parent, weight
        See :func:`edge_factors`, which has filled in the factors.
    edge : array of shape (n_states or more, n_parent_states)
        Expected weight of the rows with an edge between two states.
    gradient : array of shape (n_states, n_parent_states)
        Overwritten with the derivatives.

    Returns
    -------
    ndarray of shape (n, n_parent_states)
        Expected weight of the rows with an edge into a vertex from a state of its parent.
    """
    of_parent = np.empty((len(ptr) - 1, len(parent)))

    def work(children: slice) -> None:
        span = np.array([children.start, children.stop])
        _differentiate(factor, ptr, parent, weight, edge, span, gradient, of_parent)

    in_threads(work, _children(ptr, len(parent)))
    return of_parent
