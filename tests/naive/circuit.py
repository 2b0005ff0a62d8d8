"""Slow truth: circuits evaluated by recursion, one cell and one row at a time."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

from skpc.circuit import LEAF, PRODUCT, Circuit
from skpc.variables import GAUSSIAN, HISTOGRAM
from skpc.variables.families import POISSON


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
    if family == POISSON:
        return count_probability(param[0], x)
    if family == HISTOGRAM:
        state, density = state_and_density(circuit, int(circuit.leaf_var[node]), x)
        return math.exp(param[state]) * density
    return math.exp(param[int(x)])


def count_probability(rate: float, x: float) -> float:
    return math.exp(x * math.log(rate) - rate - math.lgamma(x + 1.0))


def evaluate(circuit: Circuit, row: np.ndarray, leaf_value, node: int | None = None, add=sum):
    """Value of a row under a node (the root by default), with ``leaf_value(node, x)`` at leaves."""
    node = circuit.n_nodes - 1 if node is None else node
    if circuit.kind[node] == LEAF:
        return leaf_value(node, row[circuit.leaf_var[node]])
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    values = [evaluate(circuit, row, leaf_value, int(circuit.child[e]), add) for e in edges]
    if circuit.kind[node] == PRODUCT:
        return math.prod(values)
    return add(math.exp(circuit.log_weight[e]) * value for e, value in zip(edges, values))


def density(circuit: Circuit, row: np.ndarray, node: int | None = None) -> float:
    """Density of a row under a node (the root by default)."""
    return evaluate(circuit, row, lambda leaf, x: leaf_density(circuit, leaf, x), node)


def all_rows(circuit: Circuit) -> np.ndarray:
    """Every complete row of a circuit over categories."""
    return np.array(list(itertools.product(*(range(k) for k in circuit.n_states))), dtype=float)


def posterior_expectation(circuit: Circuit, row: np.ndarray, var: int, function) -> float:
    """E[function(x_var) | observed cells of the row], leaf expectations by quadrature."""

    def value(node: int, x: float) -> float:
        if circuit.leaf_var[node] == var:
            return leaf_expectation(circuit, node, function)
        return leaf_density(circuit, node, x)

    return evaluate(circuit, row, value) / density(circuit, row)


def leaf_expectation(circuit: Circuit, node: int, function) -> float:
    var = int(circuit.leaf_var[node])
    if circuit.leaf_family[node] in (GAUSSIAN, HISTOGRAM):
        total = 0.0
        for low, high in pairwise(break_points(circuit, node)):
            total += quad(
                lambda x: function(x) * leaf_density(circuit, node, x), low, high, epsabs=1e-13
            )[0]
        return total
    states = range(circuit.n_states[var] or 200)
    return sum(function(s) * leaf_density(circuit, node, float(s)) for s in states)


def break_points(circuit: Circuit, node: int) -> list[float]:
    if circuit.leaf_family[node] == HISTOGRAM:
        edges, lower, upper = axis_of(circuit, int(circuit.leaf_var[node]))
        return [edges[0] - 60 * lower, *edges, edges[-1] + 60 * upper]
    mean, sd = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
    return [mean + k * sd for k in (-20, -5, 0, 5, 20)]


def greatest_induced_tree(circuit: Circuit, row: np.ndarray) -> float:
    """Density with maxima in place of sums, missing leaves at their modes."""
    return evaluate(circuit, row, lambda leaf, x: leaf_mode_density(circuit, leaf, x), add=max)


def leaf_mode_density(circuit: Circuit, node: int, x: float) -> float:
    if not math.isnan(x):
        return leaf_density(circuit, node, x)
    var = int(circuit.leaf_var[node])
    if circuit.leaf_family[node] == GAUSSIAN:
        return leaf_density(circuit, node, circuit.param[circuit.param_ptr[node]])
    if circuit.leaf_family[node] == HISTOGRAM:
        edges = axis_of(circuit, var)[0]
        inside = [(a + b) / 2 for a, b in pairwise(edges)]
        points = [np.nextafter(edges[0], -np.inf), *inside, edges[-1]]
        return max(leaf_density(circuit, node, point) for point in points)
    states = range(circuit.n_states[var] or 200)
    return max(leaf_density(circuit, node, float(s)) for s in states)


def node_flows(circuit: Circuit, row: np.ndarray) -> np.ndarray:
    """Posterior share of a row that passes each edge, from the definition, top down."""
    value = [density(circuit, row, node) for node in range(circuit.n_nodes)]
    node_flow, edge_flow = np.zeros(circuit.n_nodes), np.zeros(circuit.n_edges)
    node_flow[-1] = 1.0
    for node in range(circuit.n_nodes - 1, -1, -1):
        for edge in range(circuit.child_ptr[node], circuit.child_ptr[node + 1]):
            child = circuit.child[edge]
            share = 1.0
            if circuit.kind[node] != PRODUCT:
                share = math.exp(circuit.log_weight[edge]) * value[child] / value[node]
            edge_flow[edge] = node_flow[node] * share
            node_flow[child] += edge_flow[edge]
    return edge_flow


def score_cells(circuit: Circuit, row: np.ndarray, var: int) -> float:
    """Log density of a cell given the others: that of the row with it over that without it."""
    without = row.copy()
    without[var] = np.nan
    with np.errstate(divide="ignore"):
        return float(np.log(density(circuit, row)) - np.log(density(circuit, without)))


def share_below(circuit: Circuit, row: np.ndarray, var: int, x: float) -> float:
    """Posterior probability that a missing number lies below ``x``."""

    def value(node: int, cell: float) -> float:
        if circuit.leaf_var[node] != var:
            return leaf_density(circuit, node, cell)
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        if circuit.leaf_family[node] == GAUSSIAN:
            return 0.5 * math.erfc((param[0] - x) / (param[1] * math.sqrt(2.0)))
        if circuit.leaf_family[node] == POISSON:
            return sum(count_probability(param[0], float(k)) for k in range(math.floor(x) + 1))
        return sum(math.exp(p) * share for p, share in zip(param, _shares_below(circuit, var, x)))

    return evaluate(circuit, row, value) / density(circuit, row)


def _shares_below(circuit: Circuit, var: int, x: float) -> list[float]:
    """Share of each bin and tail of an axis that lies below ``x``."""
    edges, lower, upper = axis_of(circuit, var)
    shares = [min(1.0, math.exp((x - edges[0]) / lower))]
    shares += [min(1.0, max(0.0, (x - a) / (b - a))) for a, b in pairwise(edges)]
    return [*shares, max(0.0, 1.0 - math.exp((edges[-1] - x) / upper))]
