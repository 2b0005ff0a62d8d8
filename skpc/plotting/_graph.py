"""Any small circuit as a graph of sums, products and leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import SUM, Circuit
from skpc.plotting._layout import HALF_BOX, Block, draw_blocks
from skpc.plotting._names import Names
from skpc.variables.families import leaves_of

_GAPS = (1.0, 3.1)
_KEY = "+ sum, with the weights of its edges; × product; below, the leaves"
_MAX_WEIGHTS = 40
#: Variables of a leaf that are named.
_MAX_NAMES = 4


def draw_graph(circuit: Circuit, names: Names, ax: Any) -> Any:
    """Draw all nodes, root on top and leaves in one layer below, and return the axes."""
    n_nodes = circuit.n_nodes
    show_weights = (circuit.kind[circuit.edge_parent] == SUM).sum() <= _MAX_WEIGHTS
    height, labels = np.zeros(n_nodes, dtype=np.int64), _leaf_labels(circuit, names)
    blocks = []
    for node in range(n_nodes):
        edges = slice(circuit.child_ptr[node], circuit.child_ptr[node + 1])
        children = circuit.child[edges]
        height[node] = 1 + height[children].max(initial=-1)
        block = Block(-int(height[node]))
        block.below = (n_nodes - 1 - children).tolist()
        if not len(children):
            block.write(0.0, 0.5, labels[node], "upright")
        elif circuit.kind[node] == SUM:
            block.write(0.0, HALF_BOX, "+", "sum")
            weights = np.exp(circuit.log_weight[edges]) if show_weights else ()
            block.weights = [f"{weight:.2f}".lstrip("0") for weight in weights]
        else:
            block.write(0.0, HALF_BOX, "×", "product")
        blocks.append(block)
    for block in blocks:
        block.layer += int(height[-1])
    return draw_blocks(blocks[::-1], _GAPS, _KEY, ax)


def _leaf_labels(circuit: Circuit, names: Names) -> dict[int, str]:
    """What is written at each leaf: its states, the moments of a number, or several variables."""
    labels, leaves = {}, circuit.structure.leaves
    for variable, n_states in enumerate(circuit.n_states.tolist()):
        name, form = names.variable(variable), circuit.leaf_forms(variable)
        mean = form.means()
        sd = np.sqrt(form.mean_squares(mean))
        for leaf, node in enumerate(leaves.node[leaves_of(leaves, variable)].tolist()):
            scope = circuit.scope[circuit.scope_ptr[node] : circuit.scope_ptr[node + 1]]
            if len(scope) > 1:
                labels[node] = _joint_label(names, scope.tolist())
            elif n_states and form.prob is not None:
                labels[node] = _state_label(names, variable, np.asarray(form.prob)[leaf])
            else:
                labels[node] = f"{name}: mean {mean[leaf]:.3g}, sd {sd[leaf]:.3g}"
    return labels


def _joint_label(names: Names, scope: list[int]) -> str:
    shown = ", ".join(names.variable(variable) for variable in scope[:_MAX_NAMES])
    rest = len(scope) - _MAX_NAMES
    return f"{shown} and {rest} more: joint" if rest > 0 else f"{shown}: joint"


def _state_label(names: Names, variable: int, probability: Floats) -> str:
    name, possible = names.variable(variable), np.flatnonzero(probability)
    if len(possible) == 1:
        state = names.state(variable, int(possible[0]))
        return f"{name} {state}" if state[0] in "<≥" else f"{name} = {state}"
    if len(probability) <= 3:
        return f"{name}: " + ", ".join(f"{prob:.2f}" for prob in probability)
    return name
