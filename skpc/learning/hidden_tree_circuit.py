"""Chow-Liu trees of hidden variables as circuits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting import children_first
from skpc.learning.hidden_tree import HiddenTree

#: A hidden state that is less probable than this, given the state of the parent, is left out.
_NEGLIGIBLE = 1e-6


def hidden_tree_circuit(tree: HiddenTree, axes: Sequence[Any] | None = None) -> Circuit:
    """Turn a tree of hidden variables into a smooth and decomposable circuit.

    Each hidden state of a column is a product of its leaf and, for each child, a sum over the
    hidden states of the child. Equal leaves and sums are shared.

    Parameters
    ----------
    tree : HiddenTree
    axes : sequence, default=None
        For each column None or its histogram axis.

    Returns
    -------
    Circuit
    """
    upwards = children_first(tree.parent)
    first = _without_negligible(tree.first[np.newaxis])[0]
    transition = {v: _without_negligible(tree.transition[v]) for v in upwards[:-1]}
    #: Hidden states that have a probability.
    reached = {upwards[-1]: first > 0.0}
    for v in upwards[-2::-1]:
        reached[v] = transition[v][reached[int(tree.parent[v])]].any(axis=0)
    builder = CircuitBuilder([table.shape[1] for table in tree.emission], axes)
    maker = _Maker(builder, tree.n_hidden)
    for v in upwards:
        maker.add_states(v, np.log(tree.emission[v]), reached[v])
        above = int(tree.parent[v])
        if above >= 0:
            maker.add_sums(v, above, transition[v], reached[above])
    maker.sum(upwards[-1], first)
    return builder.build()


class _Maker:
    def __init__(self, builder: CircuitBuilder, n_hidden: int):
        self.builder, self.n_hidden = builder, n_hidden
        #: The node of each hidden state of a column, -1 where it has no probability.
        self.states: dict[int, list[int]] = {}
        #: The nodes of the children, for each hidden state of a column.
        self.below: dict[int, list[list[int]]] = {}

    def add_states(self, v: int, log_emission: Floats, reached: Any) -> None:
        """Add the hidden states of a column."""
        below = self.below.get(v, [[] for _ in range(self.n_hidden)])
        shared: dict[Any, int] = {}
        self.states[v] = []
        for log_prob, nodes, is_reached in zip(log_emission, below, reached):
            key = (log_prob.tobytes(), *nodes)
            if is_reached and key not in shared:
                leaf = self.builder.discrete(v, log_prob)
                shared[key] = self.builder.product([leaf, *nodes]) if nodes else leaf
            self.states[v].append(shared[key] if is_reached else -1)

    def add_sums(self, v: int, above: int, transition: Floats, reached: Any) -> None:
        """Add the sums over the hidden states of a column, one for each of those of its parent."""
        below = self.below.setdefault(above, [[] for _ in range(self.n_hidden)])
        shared: dict[bytes, int] = {}
        for state in np.flatnonzero(reached).tolist():
            key = transition[state].tobytes()
            if key not in shared:
                shared[key] = self.sum(v, transition[state])
            below[state].append(shared[key])

    def sum(self, v: int, probability: Floats) -> int:
        """Add a sum over the hidden states of a column."""
        weight: dict[int, float] = {}
        for node, share in zip(self.states[v], probability.tolist()):
            if share > 0.0:
                weight[node] = weight.get(node, 0.0) + share
        if len(weight) == 1:
            return next(iter(weight))
        return self.builder.sum(list(weight), np.log(list(weight.values())))


def _without_negligible(table: Floats) -> Floats:
    kept = np.where(table < _NEGLIGIBLE, 0.0, table)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))
