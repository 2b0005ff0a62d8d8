"""Slow truth: circuits evaluated by recursion, one cell and one row at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np

from skpc.circuit import GAUSSIAN, HISTOGRAM, LEAF, PRODUCT, Circuit


def axis_of(circuit: Circuit, var: int):
    part = circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]]
    return (part[1:-1], part[0], part[-1]) if len(part) else None


def state_and_density(circuit: Circuit, var: int, x: float) -> tuple[int, float]:
    """State of a value on its axis, and the density of the value given the state."""
    edges, lower, upper = axis_of(circuit, var)
    if x < edges[0]:
        return 0, math.exp((x - edges[0]) / lower) / lower
    for bin_, (left, right) in enumerate(zip(edges[:-1], edges[1:])):
        if left <= x < right:
            return bin_ + 1, 1.0 / (right - left)
    return len(edges), math.exp((edges[-1] - x) / upper) / upper


def leaf_density(circuit: Circuit, node: int, x: float) -> float:
    if math.isnan(x) or not math.isnan(circuit.observed[node]):
        return 1.0
    param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    family = circuit.leaf_family[node]
    if family == GAUSSIAN:
        z = (x - param[0]) / param[1]
        return math.exp(-0.5 * z * z) / (param[1] * math.sqrt(2 * math.pi))
    if family == HISTOGRAM:
        state, density = state_and_density(circuit, int(circuit.leaf_var[node]), x)
        return math.exp(param[state]) * density
    return math.exp(param[int(x)])


def density(circuit: Circuit, row: np.ndarray, node: int | None = None) -> float:
    """Density of a row under a node (the root by default)."""
    node = circuit.n_nodes - 1 if node is None else node
    if circuit.kind[node] == LEAF:
        return leaf_density(circuit, node, row[circuit.leaf_var[node]])
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    values = [density(circuit, row, int(circuit.child[edge])) for edge in edges]
    if circuit.kind[node] == PRODUCT:
        return math.prod(values)
    return sum(math.exp(circuit.log_weight[e]) * value for e, value in zip(edges, values))


def all_rows(circuit: Circuit) -> np.ndarray:
    """Every complete row of a circuit over categories."""
    return np.array(list(itertools.product(*(range(k) for k in circuit.n_states))), dtype=float)
