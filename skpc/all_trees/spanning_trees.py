"""Spanning trees of a graph: their weight, the probabilities of edges, and random ones.

A graph is given by the weights of the edges into each vertex, ``into[v, u]`` of the edge from the
parent u and ``into[v, n]`` of the edge from a virtual root; a tree hangs from the virtual root and
weighs the product of its edges. The sum over all trees is the determinant of the Laplacian M with
``M[v, v] = sum of into[v]`` and ``M[u, v] = -into[v, u]`` (the directed matrix-tree theorem).

Here vertices are eliminated one after the other, but unlike in an LU factorisation each diagonal is
summed anew from the weights that are left (Grassmann, Taksar and Heyman). Nothing is ever
subtracted, so that every number is accurate to rounding even where the weights differ by a hundred
orders of magnitude and the Laplacian is singular to working precision.

:mod:`skpc.all_trees.determinants` eliminates many graphs for their sums alone; draws of trees
need every step of the elimination of one.

Trees are drawn with probability proportional to the product of their weights, by splitting: after
the elimination of the vertices, which is done once for all trees, vertices return in reverse order.
A tree of the graph without k becomes one of the graph with k: every edge either existed or went
through k, and is split with the probability of that. The cost per tree is O(n^2) at worst,
typically far less, for weights of any range. (The random walks of Wilson are twice as fast for mild
weights, but two vertices that hold each other fast are a trap.) The plain twins are the
enumerations of tests/naive/spanning_trees.py.

That splitting is exact: let S be the children of k, A(u, k) the weights into k, d their sum, and x
the sum over those u that do not descend from S. In the graph without k each v in S has a parent
u(v) of its own, chosen with weight A(u(v), k) / d, such that no cycle arises. By Cayley's formula
for weighted trees these choices weigh x / d in all; times d, the weight that the elimination of k
took out of the graph, this is x: the weight of the parents of k, given S. Among the u(v) at least
one does not descend from S, and it is distributed as the parent of k.
"""

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc._random import Streams, draw_index, start_streams, uniform

#: A smaller sum of weights is taken as zero: its inverse may overflow.
_SMALLEST = 1e-300


class Elimination(NamedTuple):
    """What is left of a graph after the elimination of its vertices; n is the virtual root."""

    #: Weights of the edges into each vertex, the largest of each one; shape (n, n + 1).
    into: Floats
    #: For k < v, the weight of the edge k -> v when k was eliminated, at ``[v, k]``; for u > k, the
    #: probability that u was then the parent of k, at ``[k, u]``; shape (n, n + 1).
    eliminated: Floats
    #: Weight into each vertex when it was eliminated, shape (n,).
    total: Floats
    #: The probability that u was the parent of k, at ``[u, k]``; shape (n + 1, n).
    probability: Floats


def eliminate(into: Floats) -> tuple[Elimination, float]:
    """Eliminate the vertices in turn; return also the log of the weight of all trees.

    Eliminating k adds to each edge u -> v the weight of the way u -> k -> v, ``into[v, k]`` times
    the probability that the parent of k is u. The weight of all trees is zero where one of the
    vertices cannot be reached.

    Parameters
    ----------
    into : array of shape (n, n + 1)
        Weights into each vertex, those from the root last; zero on the diagonal.
    """
    n_vertices = len(into)
    # A tree has one edge into each vertex: a factor of all of them changes no probability.
    largest = np.maximum(into.max(axis=1, keepdims=True), _SMALLEST)
    log_weight = float(np.log(largest).sum())
    scaled = into / largest
    left = scaled.copy()
    total = np.ones(n_vertices)
    probability = np.zeros((n_vertices + 1, n_vertices))
    for k in range(n_vertices):
        # Vertices that follow k are its possible parents; they take over what went through it.
        following = slice(k + 1, None)
        parent = left[k, following]
        weight = parent.sum()
        if weight < _SMALLEST:
            return Elimination(scaled, left, total, probability), -math.inf
        total[k] = weight
        log_weight += math.log(weight)
        parent /= weight
        probability[following, k] = parent
        remaining = left[following, following]
        remaining += left[following, k, np.newaxis] * parent
        np.fill_diagonal(remaining, 0.0)
    return Elimination(scaled, left, total, probability), log_weight


@inlined
def _split(v: int, u: int, graph: Elimination, streams: Streams, tree: int) -> int:
    """Draw the last eliminated vertex through which the edge u -> v goes; -1 if there is none.

    The edge is of the graph in which the first of its ends has just returned. The terms are
    computed on the way: most draws end after a few of them.
    """
    if u < v:
        weight = graph.eliminated[v, u]
    else:
        weight = graph.probability[u, v] * graph.total[v]
    # What is left after the edge that existed before any vertex was eliminated.
    left = uniform(streams, tree) * weight - graph.into[v, u]
    through = -1
    if left > 0.0:
        first_part = graph.probability[u]
        second_part = graph.eliminated[v]
        for k in range(min(u, v)):
            term = first_part[k] * second_part[k]
            if term > 0.0:
                # Rounding may leave a sliver: the last possible vertex then takes it.
                through = k
                left -= term
                if left <= 0.0:
                    break
    return through


@kernel(new_arrays=True)
def split_trees(graph: Elimination, streams: Streams, parents: Ints) -> None:
    """Draw trees by splitting, one for each stream.

    Parameters
    ----------
    graph : Elimination
    streams : array of shape (n_trees,)
    parents : array of shape (n_trees, n)
        Overwritten with the parents, -1 for roots.
    """
    n_vertices = len(graph.total)
    through = np.empty(n_vertices, np.int64)
    # Lists of the vertices whose edge goes through k: the first, and the one after each.
    head = np.empty(n_vertices, np.int64)
    after = np.empty(n_vertices, np.int64)
    for tree in range(len(streams)):
        parent = parents[tree]
        head[:] = -1
        for k in range(n_vertices - 1, -1, -1):
            # Which edge through k the search starts from must not depend on how they came about:
            # hence the greatest vertex, not the first of the list.
            top = -1
            v = head[k]
            while v >= 0:
                top = max(top, v)
                v = after[v]
            # Without children, the parent has its probability at the time of elimination.
            if top < 0:
                height = uniform(streams, tree)
                parent[k] = k + 1 + draw_index(graph.eliminated[k], k + 1, n_vertices - k, height)
            else:
                # The last edge through k on the way up leads to the parent of k.
                v = parent[top]
                while v < n_vertices:
                    if through[v] == k:
                        top = v
                    v = parent[v]
                parent[k] = parent[top]
            # The edges of k and of its new children may go through vertices that return later.
            after[k] = head[k]
            v = k
            while v >= 0:
                following = after[v]
                if v != k:
                    parent[v] = k
                via = _split(v, parent[v], graph, streams, tree)
                through[v] = via
                if via >= 0:
                    after[v] = head[via]
                    head[via] = v
                v = following
        # The virtual root is no vertex of a tree that is returned.
        for v in range(n_vertices):
            if parent[v] == n_vertices:
                parent[v] = -1


def draw_trees(into: Floats, n_trees: int, seed: np.uint64) -> tuple[Ints, float]:
    """Draw spanning trees.

    Parameters
    ----------
    into : ndarray of shape (n, n + 1)
        Weights into each vertex, those of the roots last.
    n_trees : int
        Number of trees.
    seed : uint64
        Each tree has a stream of random numbers of its own.

    Returns
    -------
    parents : ndarray of shape (n_trees, n), int64
        -1 for roots.
    log_weight : float
        Log of the weight of all trees.

    Raises
    ------
    ValueError
        If no tree has a positive weight.
    """
    graph, log_weight = eliminate(into)
    if log_weight == -math.inf:
        raise ValueError(
            "A spanning tree needs a way of positive weight from a root to every vertex; found "
            "none to one of them. Give it an edge or a root weight (weights into one vertex may "
            "differ by 300 orders of magnitude)."
        )
    parents = np.empty((n_trees, len(into)), np.int64)
    split_trees(graph, start_streams(seed, n_trees), parents)
    return parents, log_weight
