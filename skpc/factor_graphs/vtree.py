"""Vtrees of factor graphs: the order of the variables, and what each variable depends on.

A vtree is given here by the parent of each variable: the variable that is decided before it. Two
variables in one factor must stand one above the other (a pseudo-tree). So the scope of a variable
and all below it splits into the variable itself and the scopes of its children, and circuits
compiled on one vtree are compatible with each other.
"""

from __future__ import annotations

import heapq
from itertools import combinations
from typing import Any

import numpy as np

from skpc._arrays import Ints
from skpc.counting import children_first
from skpc.factor_graphs.graph import FactorGraph


def min_fill_vtree(graph: FactorGraph) -> Ints:
    """A vtree by the min-fill heuristic.

    Variables are eliminated one by one. The next variable is always one whose neighbours need the
    fewest new links among each other (if there are several, one with the fewest neighbours); then
    its neighbours are linked. The parent of a variable is its first neighbour to be eliminated
    after it.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    int64 array of shape (n_variables,)
        The parent of each variable; -1 for the roots.

    Examples
    --------
    A chain is split in its middle or unrolled from its ends; either way its width is one.

    >>> from skpc.factor_graphs import FactorGraph, min_fill_vtree
    >>> min_fill_vtree(FactorGraph.ising_grid(1, 4, coupling=1.0))
    array([ 1,  2,  3, -1])
    """
    neighbours = _neighbours(graph)
    parent = np.full(graph.n_variables, -1)
    last_of: dict[int, set[int]] = {}
    position: dict[int, int] = {}
    heap = [(*_cost(neighbours, v), v) for v in range(graph.n_variables)]
    heapq.heapify(heap)
    while heap:
        *cost, variable = heapq.heappop(heap)
        if variable in position:
            continue
        if tuple(cost) != _cost(neighbours, variable):
            heapq.heappush(heap, (*_cost(neighbours, variable), variable))
            continue
        position[variable] = len(position)
        around = last_of[variable] = neighbours[variable]
        for v in around:
            neighbours[v].discard(variable)
        new_links = [(a, b) for a, b in combinations(around, 2) if b not in neighbours[a]]
        for a, b in new_links:
            neighbours[a].add(b)
            neighbours[b].add(a)
        # Costs can fall only near the new links; those that grew are found out when popped.
        near = set(around).union(*(neighbours[v] for v in around)) if around else set()
        for v in near:
            heapq.heappush(heap, (*_cost(neighbours, v), v))
    for variable, around in last_of.items():
        if around:
            parent[variable] = min(around, key=position.__getitem__)
    return parent


def _neighbours(graph: FactorGraph) -> list[set[int]]:
    """The variables that share a factor with each variable."""
    found: list[set[int]] = [set() for _ in range(graph.n_variables)]
    for scope in graph.scopes:
        for variable in scope:
            found[variable].update(other for other in scope if other != variable)
    return found


def _cost(neighbours: list[set[int]], variable: int) -> tuple[int, int]:
    """How many links are missing among the neighbours of a variable, and how many it has."""
    around = neighbours[variable]
    linked = sum(len(neighbours[v] & around) for v in around)
    return len(around) * (len(around) - 1) - linked, len(around)


def check_vtree(graph: FactorGraph, vtree: Any) -> Ints:
    """Check a vtree given by a user; None makes one by min-fill."""
    if vtree is None:
        return min_fill_vtree(graph)
    given = np.asarray(vtree)
    n = graph.n_variables
    if given.shape != (n,) or given.dtype.kind not in "iu" or np.any((given < -1) | (given >= n)):
        raise ValueError(
            f"vtree needs the parent of each of the {n} variables, an integer of -1 (a root) to "
            f"{n - 1}, got {given.tolist()}"
        )
    parent = given.astype(np.int64)
    order = children_first(parent)
    if len(order) < n:
        lost = sorted(set(range(n)) - set(order))
        raise ValueError(f"vtree must have no cycle, but variables {lost[:8]} lie on or below one")
    _refuse_apart(graph, parent, order)
    return parent


def _refuse_apart(graph: FactorGraph, parent: Ints, order: list[int]) -> None:
    """Refuse a vtree in which two variables of one factor lie in different branches."""
    depth, above = {-1: 0}, parent.tolist()
    for variable in reversed(order):
        depth[variable] = depth[above[variable]] + 1
    for number, scope in enumerate(graph.scopes):
        chain = sorted(scope, key=depth.__getitem__)
        for upper, lower in zip(chain, chain[1:]):
            variable = lower
            while depth[variable] > depth[upper]:
                variable = above[variable]
            if variable != upper:
                raise ValueError(
                    f"vtree must put the variables of a factor one above the other, but {upper} "
                    f"and {lower} of factor {number} lie in different branches"
                )
