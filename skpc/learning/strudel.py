"""Structured-decomposable, deterministic circuits by splits of the edges of a Chow-Liu tree.

The tree is a circuit on its own vtree: a sum over the states of each variable, given its parent. A
split of an edge by a variable below it puts a sum over the states of that variable in the place of
the edge. Below, only what leads to the variable is copied (the minimal copy); the rest is shared.
So the vtree stays, and all circuits that begin from one tree are compatible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from scipy.special import xlogy

from skpc._arrays import Floats, Ints
from skpc._fitting import best_of
from skpc.circuit import Circuit, CircuitBuilder, mixture
from skpc.counting.rows import count_state_pairs, independent_pairs
from skpc.counting.trees import ChowLiuTree, children_first
from skpc.queries.flows import PseudoCounts
from skpc.queries.parameters import em_step


@dataclass(eq=False)
class _Product:
    """A state of a variable, and the sums of the variables below it in the tree."""

    variable: int
    state: int
    below: list[_Sum | _Product]

    @property
    def place(self) -> int:
        """The variable of its scope in the tree."""
        return self.variable


@dataclass(eq=False)
class _Edge:
    """A child of a sum: what it leads to, and the rows that pass it."""

    target: _Sum | _Product
    rows: Ints


@dataclass(eq=False)
class _Sum:
    """A sum over the states of a variable; ``place`` is the variable of its scope in the tree."""

    place: int
    variable: int
    edges: list[_Edge]


class StrudelNetwork:
    """A circuit that grows by splits.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        States of complete rows.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    n_states : ndarray of shape (n_features,)
        Number of states of each column.
    tree : ChowLiuTree
        The tree to begin with, over all columns.
    axes : list
        The axis of each column, None for categories.
    """

    def __init__(
        self, codes: np.ndarray, weight: Floats, n_states: Ints, tree: ChowLiuTree, axes: Any
    ):
        self._codes = codes
        self._weight = weight
        self._n_states = n_states
        self._axes = axes
        # Marks the rows of a branch while it is copied; none between splits.
        self._mark = np.zeros(len(codes), dtype=bool)
        n_features = len(n_states)
        parent = _parents(tree, n_features)
        # The variables below each one, where a split of its edges may look for another.
        self._scope: list[set[int]] = [{variable} for variable in range(n_features)]
        children: list[list[int]] = [[] for _ in range(n_features)]
        order = children_first(parent)
        for variable in order:
            above = int(parent[variable])
            if above >= 0:
                self._scope[above] |= self._scope[variable]
                children[above].append(variable)
        self._heap: list[tuple[float, int, _Sum, int]] = []
        # Numbers break ties in the heap, for sums cannot be compared.
        self._number = count()
        every = np.arange(len(codes))
        products: list[list[_Product]] = [[] for _ in range(n_features)]
        for variable in order:
            for state in range(n_states[variable]):
                at_state = np.flatnonzero(codes[:, variable] == state)
                below: list[_Sum | _Product] = [
                    self._first_sum(child, products[child], at_state)
                    for child in children[variable]
                ]
                products[variable].append(_Product(variable, state, below))
        self._root = self._first_sum(order[-1], products[order[-1]], every)

    def _first_sum(self, variable: int, products: list[_Product], rows: Ints) -> _Sum:
        state = self._codes[rows, variable]
        edges = [_Edge(product, rows[state == product.state]) for product in products]
        return self._listed(_Sum(variable, variable, edges))

    def _listed(self, node: _Sum) -> _Sum:
        """Remember the edges of a sum as candidates for splits."""
        # A split is by a variable below that tells something of another one.
        if len(self._scope[node.place]) > 2:
            for number, edge in enumerate(node.edges):
                flow = float(self._weight[edge.rows].sum())
                heappush(self._heap, (-flow, next(self._number), node, number))
        return node

    def split(self, least: float) -> bool:
        """Split the edge of greatest flow that a variable divides.

        Parameters
        ----------
        least : float
            Edges that rows of less weight pass are not split.

        Returns
        -------
        bool
            Whether there was such an edge.
        """
        while self._heap:
            flow, _, node, number = heappop(self._heap)
            edge = node.edges[number]
            now = -float(self._weight[edge.rows].sum())
            if now > flow:
                # Rows have left since: others may come first.
                heappush(self._heap, (now, next(self._number), node, number))
                continue
            if -flow < least:
                return False
            variable = self._most_informative(node.place, edge.rows)
            if variable >= 0:
                self._split(node, number, variable)
                return True
        return False

    def _most_informative(self, place: int, rows: Ints) -> int:
        """The variable below that tells most of the others, or -1."""
        scope = np.array(sorted(self._scope[place] - {place}))
        codes = np.ascontiguousarray(self._codes[np.ix_(rows, scope)])
        n_states = self._n_states[scope]
        counts = count_state_pairs(codes, self._weight[rows], n_states)
        expected, freedom, by_pair = independent_pairs(counts, n_states)
        ratio = np.divide(counts, expected, out=np.ones_like(counts), where=expected > 0.0)
        # Twice the information times the rows is as large as its degrees of freedom by chance.
        gain = by_pair(2.0 * xlogy(counts, ratio)) - freedom
        np.fill_diagonal(gain, 0.0)
        total = np.maximum(gain, 0.0).sum(axis=1)
        best = int(total.argmax())
        return int(scope[best]) if total[best] > 0.0 else -1

    def _split(self, node: _Sum, number: int, variable: int) -> None:
        edge = node.edges[number]
        state = self._codes[edge.rows, variable]
        edges = []
        for value in range(self._n_states[variable]):
            rows = edge.rows[state == value]
            self._mark[rows] = True
            edges.append(_Edge(self._restricted(edge.target, variable, value, {}), rows))
            self._mark[rows] = False
        edge.target = self._listed(_Sum(node.place, variable, edges))

    def _restricted(
        self, node: Any, variable: int, state: int, made: dict[int, _Sum | _Product]
    ) -> Any:
        """A copy of a node for the marked rows, in which a variable has one state."""
        # Its state is known: the branch replaces the sum, which the marked rows leave.
        if isinstance(node, _Sum) and node.variable == variable:
            edge = node.edges[state]
            edge.rows = edge.rows[~self._mark[edge.rows]]
            return edge.target
        # Whatever leads here has decided on the state, so that this can be shared.
        if isinstance(node, _Product) and node.variable == variable:
            return node
        if id(node) in made:
            return made[id(node)]
        if isinstance(node, _Product):
            below = [
                self._restricted(child, variable, state, made)
                if variable in self._scope[child.place]
                else child
                for child in node.below
            ]
            made[id(node)] = _Product(node.variable, node.state, below)
            return made[id(node)]
        edges = []
        for edge in node.edges:
            target = self._restricted(edge.target, variable, state, made)
            inside = self._mark[edge.rows]
            edges.append(_Edge(target, edge.rows[inside]))
            edge.rows = edge.rows[~inside]
        made[id(node)] = self._listed(_Sum(node.place, node.variable, edges))
        return made[id(node)]

    def circuit(self) -> Circuit:
        """The circuit, with equal weights."""
        builder = CircuitBuilder(self._n_states.tolist(), self._axes)
        leaves: dict[tuple[int, int], int] = {}
        made: dict[int, int] = {}
        waiting: list[Any] = [self._root]
        while waiting:
            node = waiting[-1]
            is_sum = isinstance(node, _Sum)
            below = [edge.target for edge in node.edges] if is_sum else node.below
            missing = [part for part in below if id(part) not in made]
            # A node waits for its children on a stack: recursion might go too deep.
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if id(node) in made:
                continue
            parts = [made[id(part)] for part in below]
            if is_sum:
                log_weight = np.full(len(parts), -np.log(len(parts)))
                states = range(len(parts))
                made[id(node)] = builder.sum(parts, log_weight, node.variable, states)
                continue
            leaf = node.variable, node.state
            if leaf not in leaves:
                leaves[leaf] = builder.indicator(*leaf)
            made[id(node)] = builder.product([leaves[leaf], *parts]) if parts else leaves[leaf]
        return builder.build()


def _parents(tree: ChowLiuTree, n_features: int) -> Ints:
    """The parent of each column; columns that the tree leaves out are below its root."""
    parent = np.full(n_features, -1)
    known = tree.parent >= 0
    parent[tree.variables[known]] = tree.variables[tree.parent[known]]
    root = int(tree.variables[0]) if len(tree.variables) else 0
    loose = np.flatnonzero(parent < 0)
    parent[loose[loose != root]] = root
    return parent


def best_split(
    network: StrudelNetwork,
    fitted: Callable[[Circuit], Circuit],
    score: Callable[[Circuit], float],
    *,
    max_splits: int,
    least: float,
) -> tuple[Circuit, int]:
    """Split edges for as long as held-out rows gain.

    Parameters
    ----------
    network : StrudelNetwork
        Where to begin; it grows.
    fitted : callable
        Learns the parameters of a circuit.
    score : callable
        What held-out rows say of a circuit; greater is better.
    max_splits : int
        Greatest number of splits.
    least : float
        Edges that rows of less weight pass are not split.

    Returns
    -------
    circuit : Circuit
        The best one, with its parameters.
    n_splits : int
        Its number of splits.
    """

    # Evaluations on held-out rows without a gain, before the search for splits ends.
    patience = 5
    # The number of splits grows by this factor from one evaluation to the next.
    growth = 1.2

    def attempts() -> Iterator[tuple[Circuit, int]]:
        n_splits = 0
        yield fitted(network.circuit()), n_splits
        while n_splits < max_splits:
            wanted = min(int(n_splits * growth) + 1, max_splits)
            done = sum(network.split(least) for _ in range(wanted - n_splits))
            if not done:
                return
            n_splits += done
            yield fitted(network.circuit()), n_splits

    return best_of(attempts(), lambda attempt: score(attempt[0]), patience)


def first_mixture(
    circuit: Circuit, rows: Floats, weight: Floats, clusters: Floats, prior: PseudoCounts
) -> Circuit:
    """A mixture to begin EM with: circuits of one structure, each learned from a cluster of rows.

    ``clusters`` are memberships of complete rows, shape (n_rows, n_components). A part of each row
    is spread evenly, so that rows can still move.
    """
    # Part of each row that is spread evenly over the components before EM.
    even_part = 0.3
    n_components = clusters.shape[1]
    memberships = (1.0 - even_part) * clusters + even_part / n_components
    parts = [em_step(circuit, rows, weight * part, prior) for part in memberships.T]
    total = weight @ memberships
    return mixture(parts, total / total.sum())
