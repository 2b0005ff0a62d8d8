"""Random spanning trees, drawn with probability proportional to the product of their edge weights.

Two exact algorithms:

- Walks (Wilson): from each vertex in turn, walk from child to parent until the tree is met, and
  keep the walk without its loops. The expected number of steps, the sum over the vertices v of
  ``total weight into v * inverse Laplacian[v, v]``, is about 2 n for mild weights, but grows with
  the ratio of the weights: two vertices that hold each other fast are a trap.
- Splitting: after the elimination of the vertices (see :mod:`skpc.all_trees.laplacian`), which is
  done once for all trees, vertices return in reverse order. A tree of the graph without k becomes
  one of the graph with k: every edge either existed or went through k, and is split with the
  probability of that. The cost per tree is O(n^2) at worst, typically far less, for weights of any
  range.

That splitting is exact: let S be the children of k, A(u, k) the weights into k, d their sum, and x
the sum over those u that do not descend from S. In the graph without k each v in S has a parent
u(v) of its own, chosen with weight A(u(v), k) / d, such that no cycle arises. By Cayley's formula
for weighted trees these choices weigh x / d in all; times d, the weight that the elimination of k
took out of the graph, this is x: the weight of the parents of k, given S. Among the u(v) at least
one does not descend from S, and it is distributed as the parent of k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc._random import seed_streams, uniform
from skpc.all_trees.laplacian import (
    differentiate,
    edges_into,
    eliminate,
    refuse_unreachable,
    scale_rows,
)
from skpc.all_trees.tree_tables import check_integer

__all__ = [
    "Elimination",
    "draw_trees",
    "eliminate_graph",
    "sample_spanning_trees",
    "split_trees",
    "walk_trees",
]


#: Walks are taken up to this many steps per vertex; splitting costs as much as some ten of them.
_STEPS_PER_VERTEX = 10.0


class Elimination(NamedTuple):
    """What is left of a graph after the elimination of its vertices; n is the virtual root."""

    #: Weights of the edges into each vertex, shape (n, n + 1).
    into: Floats
    #: Weights when the first end was eliminated, as :func:`eliminate` leaves them.
    eliminated: Floats
    #: Weight into each vertex when it was eliminated, shape (n,).
    total: Floats
    #: Probability that u was then the parent of k, at ``[u, k]``; shape (n + 1, n).
    share: Floats
    #: Its sums over the parents up to u, at ``[k, u]``; shape (n, n + 1).
    cumulative: Floats

    @classmethod
    def of(cls, into: Floats) -> Elimination:
        """Eliminate the vertices of a graph, given by ``into`` with rows of largest weight one."""
        n = len(into)
        shapes = [(n, n + 1), (n,), (n + 1, n), (n, n + 1)]
        graph = cls(into, *(np.empty(shape) for shape in shapes))
        refuse_unreachable(eliminate_graph(graph))
        return graph

    @property
    def log_weight(self) -> float:
        """Log of the weight of all trees."""
        return float(np.log(self.total).sum())

    @property
    def expected_steps(self) -> float:
        """Expected number of steps of the walks that make a tree."""
        slope = np.empty_like(self.into)
        differentiate(self.eliminated, self.total, slope)
        return float(self.into.sum(axis=1) @ slope[:, -1])


@kernel
def eliminate_graph(graph: Elimination) -> int:
    """Fill in the rest from ``graph.into``; return the first vertex without a tree, else -1."""
    n = len(graph.total)
    for v in range(n):
        for u in range(n + 1):
            graph.eliminated[v, u] = graph.into[v, u]
    unreachable = eliminate(graph.eliminated, graph.total)
    for k in range(n):
        reached = 0.0
        for u in range(k + 1, n + 1):
            reached += graph.eliminated[k, u]
            graph.cumulative[k, u] = reached
            graph.share[u, k] = graph.eliminated[k, u]
    return unreachable


@inlined
def _split(v: int, u: int, graph: Elimination, streams: NDArray[np.uint64], tree: int) -> int:
    """Draw the last eliminated vertex through which the edge u -> v goes; -1 if through none.

    The edge is of the graph in which the first of its ends has just returned.
    """
    weight = graph.eliminated[v, u] if u < v else graph.share[u, v] * graph.total[v]
    left = uniform(streams, tree) * weight - graph.into[v, u]
    through = -1
    if left > 0.0:
        first_part, second_part = graph.share[u], graph.eliminated[v]
        for k in range(min(u, v)):
            term = first_part[k] * second_part[k]
            if term > 0.0:
                # Rounding may leave a sliver: the last possible vertex then takes it.
                through = k
                left -= term
                if left <= 0.0:
                    break
    return through


@inlined
def _first_reaching(cumulative: Floats, k: int, target: float) -> int:
    """The first parent of k whose cumulative probability is at least ``target``."""
    low, high = k + 1, cumulative.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[k, middle] >= target:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def split_trees(graph: Elimination, streams: NDArray[np.uint64], parents: Ints) -> None:
    """Draw trees by splitting, one for each stream.

    Parameters
    ----------
    graph : Elimination
    streams : array of shape (n_trees,)
    parents : array of shape (n_trees, n)
        Overwritten with the parents, -1 for roots.
    """
    n = len(graph.total)
    through = np.empty(n, np.int64)
    # Lists of the vertices whose edge goes through k: the first, and the one after each.
    first = np.empty(n, np.int64)
    after = np.empty(n, np.int64)
    for tree in range(len(streams)):
        parent = parents[tree]
        first[:] = -1
        for k in range(n - 1, -1, -1):
            # Which edge through k the search starts from must not depend on how they came about:
            # hence the greatest vertex, not the first of the list.
            top, v = -1, first[k]
            while v >= 0:
                top = max(top, v)
                v = after[v]
            if top < 0:
                target = uniform(streams, tree) * graph.cumulative[k, n]
                parent[k] = _first_reaching(graph.cumulative, k, target)
            else:
                v = parent[top]
                while v < n:
                    if through[v] == k:
                        top = v
                    v = parent[v]
                parent[k] = parent[top]
            after[k] = first[k]
            v = k
            while v >= 0:
                following = after[v]
                if v != k:
                    parent[v] = k
                j = _split(v, parent[v], graph, streams, tree)
                through[v] = j
                if j >= 0:
                    after[v] = first[j]
                    first[j] = v
                v = following
        for v in range(n):
            if parent[v] == n:
                parent[v] = -1


@kernel
def _alias_tables(into: Floats, threshold: Floats, alias: Ints) -> None:
    """Tables for draws of a parent in constant time (Walker, Vose).

    A uniform number picks a column u of row v and a height; below the threshold the parent is u,
    else the alias of u.
    """
    n = len(into)
    low, high = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    for v in range(n):
        scale = (n + 1) / into[v].sum()
        n_low, n_high, best = 0, 0, into[v].argmax()
        for u in range(n + 1):
            # What rounding leaves over must not become an edge of weight zero.
            alias[v, u] = best
            threshold[v, u] = into[v, u] * scale
            if threshold[v, u] < 1.0:
                low[n_low] = u
                n_low += 1
            else:
                high[n_high] = u
                n_high += 1
        while n_low > 0 and n_high > 0:
            n_low -= 1
            filled, giver = low[n_low], high[n_high - 1]
            alias[v, filled] = giver
            threshold[v, giver] -= 1.0 - threshold[v, filled]
            if threshold[v, giver] < 1.0:
                low[n_low] = giver
                n_low += 1
                n_high -= 1


@kernel
def walk_trees(into: Floats, streams: NDArray[np.uint64], parents: Ints) -> None:
    """Draw trees by random walks, one for each stream; arguments as of :func:`split_trees`."""
    n = len(into)
    threshold, alias = np.empty((n, n + 1)), np.empty((n, n + 1), np.int64)
    _alias_tables(into, threshold, alias)
    in_tree = np.empty(n + 1, np.bool_)
    for tree in range(len(streams)):
        parent = parents[tree]
        in_tree[:n] = False
        in_tree[n] = True
        for start in range(n):
            v = start
            while not in_tree[v]:
                height = uniform(streams, tree) * (n + 1)
                u = min(int(height), n)
                parent[v] = u if height - u < threshold[v, u] else alias[v, u]
                v = parent[v]
            # The last step from each vertex counts: this leaves out the loops.
            v = start
            while not in_tree[v]:
                in_tree[v] = True
                v = parent[v]
        for v in range(n):
            if parent[v] == n:
                parent[v] = -1


def draw_trees(into: Floats, n_trees: int, seed: np.uint64) -> tuple[Ints, float]:
    """Draw spanning trees by the faster algorithm.

    Parameters
    ----------
    into : ndarray of shape (n, n + 1)
        Weights into each vertex, those of the roots last. Overwritten: rows are scaled.
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
        If there is no spanning tree of positive weight.
    """
    log_scale = scale_rows(into)
    graph = Elimination.of(into)
    streams, parents = np.empty(n_trees, np.uint64), np.empty((n_trees, len(into)), np.int64)
    seed_streams(seed, 0, streams)
    # To compute the expected number of steps takes as long as to split some n / 3 trees.
    if n_trees > len(into) and graph.expected_steps < _STEPS_PER_VERTEX * len(into):
        walk_trees(into, streams, parents)
    else:
        split_trees(graph, streams, parents)
    return parents, log_scale + graph.log_weight


def sample_spanning_trees(
    weight: Any, root_weight: Any = None, n_trees: int = 1, seed: int = 0
) -> Ints:
    """Draw spanning trees with probability proportional to the product of their edge weights.

    With ``root_weight`` the trees are directed: each vertex has one parent or is a root, and weighs
    the edge from its parent or its weight as a root. All trees hang from a virtual root, so that a
    draw is a forest of one or more trees.

    Parameters
    ----------
    weight : array-like of shape (n, n)
        Weight of the edge from u to v, finite and not negative; symmetric if ``root_weight`` is
        None. The diagonal is ignored.
    root_weight : array-like of shape (n,) or None, default=None
        Weight of each vertex as a root; None for undirected trees.
    n_trees : int, default=1
        Number of trees.
    seed : int, default=0
        From 0 to 2 ** 64 - 1; the same seed gives the same trees.

    Returns
    -------
    ndarray of shape (n_trees, n), int64
        The parent of each vertex; -1 for roots. An undirected tree hangs from the vertex of the
        greatest weight.

    Raises
    ------
    ValueError
        If a shape is wrong, or a weight is negative, infinite or NaN; if undirected weights are
        not symmetric; if there is no spanning tree of positive weight.

    Notes
    -----
    Wilson's random walks are used where their expected number of steps, which is computed, is
    small; elsewhere trees are drawn in O(n^2) each after an elimination in O(n^3). Both are exact,
    for weights into a vertex that differ by up to 300 orders of magnitude.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees import sample_spanning_trees
    >>> chain = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    >>> sample_spanning_trees(chain)
    array([[ 1, -1,  1]])
    >>> forests = sample_spanning_trees(chain, np.ones(3), n_trees=10_000, seed=0)
    >>> float((forests == -1).sum(axis=1).mean().round(1))
    1.6
    """
    count = check_integer("n_trees", n_trees, 2**63)
    seed = check_integer("seed", seed, 2**64)
    return draw_trees(edges_into(weight, root_weight), count, np.uint64(seed))[0]
