"""Structured-decomposable, deterministic circuits by splits of the edges of a Chow-Liu tree.

The tree is a circuit on its own vtree: a sum over the states of each variable, given its parent. A
split of an edge by a variable below it puts a sum over the states of that variable in the place of
the edge. Below, only what leads to the variable is copied (the minimal copy); the rest is shared.
The variable is the one that raises the marginal likelihood of the circuit most: each sum has a
Dirichlet prior, so that the rise is a sum over the sums that are copied, known before the copy.
So the vtree stays, and all circuits that begin from one tree are compatible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from skpc._arrays import Bools, Codes, Floats, Ints, group_sums, offsets
from skpc._fitting import best_of
from skpc._jit import kernel
from skpc.circuit import Circuit, CircuitBuilder, mixture
from skpc.counting.trees import ChowLiuTree, children_first
from skpc.queries.flows import PseudoCounts
from skpc.queries.parameters import em_step

#: Variables and a state of each.
_States = frozenset[tuple[int, int]]


@dataclass(eq=False)
class _Product:
    """A state of a variable, and the sums of the variables below it in the tree."""

    variable: int
    state: int
    children: list[_Sum | _Product]

    @property
    def place(self) -> int:
        """The variable of its scope in the tree."""
        return self.variable


@dataclass(eq=False)
class _Sum:
    """A sum over the states of a variable; ``place`` is the variable of its scope in the tree."""

    place: int
    variable: int
    #: The rows that pass it; each goes on to the child of its state.
    rows: Ints
    children: list[_Sum | _Product]
    #: Variables and states that the sums above have decided on.
    fixed: _States = frozenset()


class StrudelNetwork:
    """A circuit that grows by splits.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features), int16
        States of complete rows.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    n_states : ndarray of shape (n_features,)
        Number of states of each column.
    tree : ChowLiuTree
        The tree to begin with, over all columns.
    axes : list
        The axis of each column, None for categories.
    ess : float
        Equivalent sample size of the prior of each sum.
    """

    def __init__(
        self,
        codes: Codes,
        weight: Floats,
        n_states: Ints,
        tree: ChowLiuTree,
        axes: Any,
        ess: float,
    ):
        self._codes = np.require(codes, np.int16, ("C", "W"))
        self._ess = ess
        self._weight = weight
        self._n_states = n_states
        self._axes = axes
        # Marks the rows of an edge, or of a branch that is copied; none between splits.
        self._mark = np.zeros(len(codes), dtype=bool)
        n_features = len(n_states)
        parent = _parents(tree, n_features)
        # The variables below each one, where a split of its edges may look for another.
        self._scope: list[set[int]] = [{variable} for variable in range(n_features)]
        #: The variables just below each one in the tree.
        self._below: list[list[int]] = [[] for _ in range(n_features)]
        order = children_first(parent)
        for variable in order:
            above = int(parent[variable])
            if above >= 0:
                self._scope[above] |= self._scope[variable]
                self._below[above].append(variable)
        self._scope_array = [np.array(sorted(scope)) for scope in self._scope]
        # Where the states of each variable begin when they stand end to end.
        self._first_state = offsets(n_states)
        most_states = int(n_states.max())
        # Weight of the rows outside, inside an edge, and of all, to each child of a sum.
        self._flow = np.zeros((3, most_states))
        # Weight inside by the state of each variable; zero between sums.
        self._table = np.zeros((int(n_states.sum()), most_states))
        self._heap: list[tuple[float, int, _Sum, int]] = []
        # Numbers break ties in the heap, for sums cannot be compared.
        self._number = count()
        every = np.arange(len(codes))
        # The products of the tree, by variable and state.
        self._products: list[list[_Product]] = [[] for _ in range(n_features)]
        self._unreached_nodes: dict[tuple[int, _States], _Sum | _Product] = {}
        for variable in order:
            for state in range(n_states[variable]):
                at_state = np.flatnonzero(codes[:, variable] == state)
                below: list[_Sum | _Product] = [
                    self._first_sum(child, at_state) for child in self._below[variable]
                ]
                self._products[variable].append(_Product(variable, state, below))
        self._root = self._first_sum(order[-1], every)

    def _first_sum(self, variable: int, rows: Ints) -> _Sum:
        return self._listed(_Sum(variable, variable, rows, [*self._products[variable]]))

    def _listed(self, node: _Sum) -> _Sum:
        """Remember the edges of a sum as candidates for splits."""
        # A split is by a variable below that tells something of another one.
        if len(self._scope[node.place]) > 2:
            state = self._codes[node.rows, node.variable]
            flow = np.bincount(state, self._weight[node.rows], len(node.children))
            # Rows only ever leave an edge.
            for number in np.flatnonzero(flow):
                heappush(self._heap, (-flow[number], next(self._number), node, int(number)))
        return node

    def split(self, least: float) -> bool:
        """Split the edge of greatest flow where a split raises the marginal likelihood.

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
            rows = node.rows[self._codes[node.rows, node.variable] == number]
            now = -float(self._weight[rows].sum())
            if now > flow:
                # Rows have left since: others may come first.
                heappush(self._heap, (now, next(self._number), node, number))
                continue
            if -flow < least:
                return False
            gain = self._gains(node, number, rows)
            variable = int(gain.argmax())
            if gain[variable] > 0.0:
                self._split(node, number, rows, variable)
                return True
        return False

    def _gains(self, node: _Sum, number: int, rows: Ints) -> Floats:
        """Rise of the log marginal likelihood by a split of an edge, by variable."""
        codes = self._codes
        weight = self._weight
        states = self._first_state
        gain = np.full(len(self._n_states), -np.inf)
        # What a sum over the states of each variable costs, if it divides the rows.
        for variable in self._scope[node.place] - {node.place}:
            n_states = self._n_states[variable]
            counts = group_sums(codes[rows, variable], weight[rows], n_states)
            if np.count_nonzero(counts) > 1:
                gain[variable] = _evidence(counts, n_states, self._ess)
        self._mark[rows] = True
        waiting = [node.children[number]]
        visited = set()
        while waiting:
            part = waiting.pop()
            if id(part) in visited:
                continue
            visited.add(id(part))
            if isinstance(part, _Product):
                waiting += part.children
                continue
            _add_gains(
                codes,
                weight,
                part.rows,
                self._mark,
                part.variable,
                self._scope_array[part.place],
                states,
                self._ess,
                self._flow,
                self._table,
                gain,
            )
            waiting += [child for child, flow in zip(part.children, self._flow[1]) if flow > 0.0]
        self._mark[rows] = False
        return gain

    def _split(self, node: _Sum, number: int, rows: Ints, variable: int) -> None:
        state = self._codes[rows, variable]
        target = node.children[number]
        fixed = node.fixed | {(node.variable, number)}
        children = []
        for value in range(self._n_states[variable]):
            at_value = rows[state == value]
            self._mark[at_value] = True
            children.append(self._restricted(target, variable, value, {}))
            self._mark[at_value] = False
        node.children[number] = self._listed(_Sum(node.place, variable, rows, children, fixed))

    def _unreached(self, place: int, fixed: _States) -> _Sum | _Product:
        """A node that no row passes: as in the tree, but for the states that are fixed."""
        fixed = frozenset(pair for pair in fixed if pair[0] in self._scope[place])
        if (place, fixed) not in self._unreached_nodes:
            own_states = [state for variable, state in fixed if variable == place]
            nodes: list[_Sum | _Product] = []
            for state in own_states or range(self._n_states[place]):
                below = [
                    node
                    if self._scope[node.place].isdisjoint(dict(fixed))
                    else self._unreached(node.place, fixed)
                    for node in self._products[place][state].children
                ]
                nodes.append(_Product(place, state, below))
            no_rows = np.empty(0, np.int64)
            node = nodes[0] if own_states else _Sum(place, place, no_rows, nodes, fixed)
            self._unreached_nodes[place, fixed] = node
        return self._unreached_nodes[place, fixed]

    def _restricted(
        self, node: Any, variable: int, state: int, made: dict[int, _Sum | _Product]
    ) -> Any:
        """A copy of a node for the marked rows, in which a variable has one state."""
        # Whatever leads here has decided on the state, so that this can be shared.
        if isinstance(node, _Product) and node.variable == variable:
            return node
        if id(node) in made:
            return made[id(node)]
        if isinstance(node, _Product):
            children = [
                self._restricted(child, variable, state, made)
                if variable in self._scope[child.place]
                else child
                for child in node.children
            ]
            made[id(node)] = _Product(node.variable, node.state, children)
            return made[id(node)]
        is_reached = np.isin(range(len(node.children)), self._codes[node.rows, node.variable])
        inside = self._mark[node.rows]
        rows = node.rows[inside]
        node.rows = node.rows[~inside]
        # Its state is known: the branch replaces the sum, which the marked rows leave.
        if node.variable == variable:
            return node.children[state]
        fixed = node.fixed | {(variable, state)}
        # Without rows the parameters cannot be learned: a copy would only be large.
        children = [
            self._restricted(child, variable, state, made)
            if is_reached[number]
            else self._unreached(child.place, fixed | {(node.variable, number)})
            for number, child in enumerate(node.children)
        ]
        made[id(node)] = self._listed(_Sum(node.place, node.variable, rows, children, fixed))
        return made[id(node)]

    def circuit(self) -> Circuit:
        """The circuit, with equal weights."""
        builder = CircuitBuilder(self._n_states.tolist(), self._axes)
        leaves: dict[tuple[int, int], int] = {}
        made: dict[int, int] = {}
        waiting: list[Any] = [self._root]
        while waiting:
            node = waiting[-1]
            missing = [part for part in node.children if id(part) not in made]
            # A node waits for its children on a stack: recursion might go too deep.
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if id(node) in made:
                continue
            parts = [made[id(part)] for part in node.children]
            if isinstance(node, _Sum):
                log_weight = np.full(len(parts), -np.log(len(parts)))
                states = range(len(parts))
                made[id(node)] = builder.sum(parts, log_weight, node.variable, states)
                continue
            leaf = node.variable, node.state
            if leaf not in leaves:
                leaves[leaf] = builder.indicator(*leaf)
            made[id(node)] = builder.product([leaves[leaf], *parts]) if parts else leaves[leaf]
        return builder.build()


@kernel
def _evidence(counts: Floats, n_states: int, ess: float) -> float:
    """Log marginal likelihood (nats) of the counts of a sum; less than zero where any is not."""
    pseudo_count = ess / n_states
    log_likelihood = 0.0
    total = 0.0
    for state in range(n_states):
        if counts[state] > 0.0:
            log_likelihood += math.lgamma(counts[state] + pseudo_count) - math.lgamma(pseudo_count)
            total += counts[state]
    if total > 0.0:
        log_likelihood += math.lgamma(ess) - math.lgamma(total + ess)
    return log_likelihood


@kernel
def _add_gains(
    codes: Codes,
    weight: Floats,
    rows: Ints,
    is_inside: Bools,
    decided: int,
    scope: Ints,
    first_state: Ints,
    ess: float,
    flow: Floats,
    table: Floats,
    gain: Floats,
) -> None:
    """Add what is gained at one sum below an edge, by the variable that splits the edge.

    ==============  ================================================================
    codes, weight   states and weights of all rows
    rows            rows that pass the sum
    is_inside       (n_rows,): whether a row passes the edge
    decided         variable of the sum
    scope           variables of its scope
    first_state     (n_features + 1,): offsets of the states of the variables
    ess             equivalent sample size of the prior of a sum
    flow            (3, most states): weight outside, inside, and of all, by child
    table           (all states, most states): workspace of zeros
    gain            (n_features,): added to
    ==============  ================================================================
    """
    n_children = first_state[decided + 1] - first_state[decided]
    flow[:] = 0.0
    for row in rows:
        child = codes[row, decided]
        flow[2, child] += weight[row]
        if not is_inside[row]:
            flow[0, child] += weight[row]
            continue
        flow[1, child] += weight[row]
        for variable in scope:
            table[first_state[variable] + codes[row, variable], child] += weight[row]
    # The rows of the edge leave the sum.
    left = _evidence(flow[0], n_children, ess) - _evidence(flow[2], n_children, ess)
    for variable in scope:
        divided = left
        n_parts = 0
        for state in range(first_state[variable], first_state[variable + 1]):
            part = _evidence(table[state], n_children, ess)
            table[state] = 0.0
            n_parts += part < 0.0
            divided += part
        # A branch takes the place of a sum over the variable itself.
        if variable == decided:
            gain[variable] += left
        # Rows of one state do not need copies of their own.
        elif n_parts > 1:
            gain[variable] += divided


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
