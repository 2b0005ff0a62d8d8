"""Any small circuit as a graph of sums, products and leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc.circuit import LEAF, SUM, Circuit
from skpc.plotting._canvas import (
    BLUE,
    GREY,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    ORANGE,
    Page,
    caption_width,
    text_width,
)
from skpc.plotting._names import Names

__all__ = ["draw_graph"]

# All in ems.
_LEAF_PITCH = 2.3
_NODE_PITCH = 3.0
_ROW_HEIGHT = 5.0
_MARGIN = 1.5
_KEY = "+ sum, with the weights of its edges; × product; below, the leaves"
_MAX_WEIGHTS = 40


def draw_graph(caller: str, circuit: Circuit, names: Names, ax: Any) -> Any:
    """Draw all nodes, root on top and leaves in one row below, and return the axes."""
    labels = {node: _leaf_label(circuit, names, node) for node in _leaves(circuit)}
    row = _rows(circuit)
    x = _positions(circuit, row)
    n_rows, longest = int(row.max()), max(text_width(label) for label in labels.values())
    width = max(float(x.max() - x.min()) + 2 * _NODE_PITCH, caption_width(_KEY)) + 2 * _MARGIN
    height = n_rows * _ROW_HEIGHT + longest + 6 * _MARGIN
    x += (width - x.max() - x.min()) / 2
    y = 2 * _MARGIN + (n_rows - row) * _ROW_HEIGHT
    page = Page.prepare(caller, ax, width, height)
    _draw_edges(page, circuit, x, y)
    for node in range(circuit.n_nodes):
        if node in labels:
            page.write(x[node], y[node] + 0.5, labels[node], rotation=90, va="top")
        elif circuit.kind[node] == SUM:
            page.box(x[node], y[node], "+", "circle,pad=0.3", BLUE, LIGHT_BLUE, "center")
        else:
            page.box(x[node], y[node], "×", "circle,pad=0.3", ORANGE, LIGHT_ORANGE, "center")
    page.write(width / 2, height - _MARGIN, _KEY, color=GREY)
    return page.ax


def _leaves(circuit: Circuit) -> list[int]:
    found: list[int] = np.flatnonzero(circuit.kind == LEAF).tolist()
    return found


def _leaf_label(circuit: Circuit, names: Names, node: int) -> str:
    variable = int(circuit.leaf_var[node])
    name = names.variable(variable)
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    if not circuit.n_states[variable]:
        return f"{name}: mean {param[0]:.3g}, sd {param[1]:.3g}"
    possible = np.flatnonzero(param > -np.inf)
    if len(possible) == 1:
        state = names.state(variable, int(possible[0]))
        return f"{name} {state}" if state[0] in "<≥" else f"{name} = {state}"
    if len(param) <= 3:
        return f"{name}: " + ", ".join(f"{prob:.2f}" for prob in np.exp(param))
    return name


def _rows(circuit: Circuit) -> np.ndarray:
    """Longest way from each node down to a leaf."""
    row = np.zeros(circuit.n_nodes, dtype=np.int64)
    for node in range(circuit.n_nodes):
        below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
        if len(below):
            row[node] = row[below].max() + 1
    return row


def _positions(circuit: Circuit, row: np.ndarray) -> np.ndarray:
    """Leaves in the order in which a walk from the root meets them, others above the middle."""
    x = np.zeros(circuit.n_nodes)
    met = _walk(circuit)
    leaves = [node for node in met if row[node] == 0]
    x[leaves] = _LEAF_PITCH * np.arange(len(leaves))
    for level in range(1, int(row.max()) + 1):
        nodes = np.flatnonzero(row == level)
        for node in nodes:
            below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
            x[node] = x[below].mean()
        order = nodes[np.argsort(x[nodes], kind="stable")]
        x[order] = _spread(x[order])
    return x


def _spread(x: np.ndarray) -> np.ndarray:
    """Push increasing positions apart to the smallest pitch, their mean kept."""
    steps = _NODE_PITCH * np.arange(len(x))
    pushed = np.maximum.accumulate(x - steps) + steps
    return np.asarray(pushed - pushed.mean() + x.mean())


def _walk(circuit: Circuit) -> list[int]:
    met: dict[int, None] = {}
    pending = [circuit.n_nodes - 1]
    while pending:
        node = pending.pop()
        if node not in met:
            met[node] = None
            below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
            pending += below[::-1].tolist()
    return list(met)


def _draw_edges(page: Page, circuit: Circuit, x: np.ndarray, y: np.ndarray) -> None:
    of_sum = circuit.kind[circuit.edge_parent] == SUM
    n_children = np.diff(circuit.child_ptr)
    show_weights = of_sum.sum() <= _MAX_WEIGHTS
    frame = {"boxstyle": "square,pad=0.1", "edgecolor": "none", "facecolor": "white"}
    for edge, (parent, child) in enumerate(zip(circuit.edge_parent, circuit.child)):
        page.edge([(x[parent], y[parent]), (x[child], y[child])], arrow=False)
        if of_sum[edge] and show_weights:
            # The edges of a sum must be apart where their weights stand.
            down = 0.5 if n_children[parent] <= 2 else 0.75
            at_x, at_y = (
                (1 - down) * x[parent] + down * x[child],
                (1 - down) * y[parent] + down * y[child],
            )
            weight = f"{np.exp(circuit.log_weight[edge]):.2f}".lstrip("0")
            page.write(at_x, at_y, weight, bbox=frame, fontsize=0.85 * page.font_size)
