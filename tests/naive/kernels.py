"""Slow truth: kernels cell by cell, expectations by quadrature and by listing everything."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from skpc.circuit import LEAF, SUM, Circuit
from skpc.kernels import RBF, Delta, ExponentialHamming
from skpc.variables import GAUSSIAN, Axis, Bins, Normals, Points
from skpc.variables.families import POISSON
from tests.naive.circuit import count_probability, leaf_density

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def cell_value(kernel, x: float, y: float) -> float:
    """A column kernel between two cells."""
    if isinstance(kernel, RBF):
        return math.exp(-kernel.gamma * (x - y) ** 2)
    if isinstance(kernel, ExponentialHamming):
        return math.exp(-kernel.gamma * float(x != y))
    assert isinstance(kernel, Delta)
    return float(x == y)


def row_value(kernel, x: np.ndarray, y: np.ndarray) -> float:
    """A kernel between two rows."""
    total = 0.0
    for weight, factors in kernel.terms(len(x)):
        total += weight * math.prod(cell_value(f, a, b) for f, a, b in zip(factors, x, y))
    return total


def points_of(distribution, gamma: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points and weights whose sums are the integrals of smooth functions, a list a member.

    ``gamma`` is that of the kernel to be integrated: panels are narrower than its bump.
    """
    if isinstance(distribution, Points):
        return [(distribution.value, prob) for prob in distribution.prob]
    if isinstance(distribution, Normals):
        return [_normal_points(m, s, gamma) for m, s in zip(distribution.mean, distribution.sd)]
    assert isinstance(distribution, Bins)
    return [_bin_points(prob, distribution.axis.flat, gamma) for prob in distribution.prob]


def expectation(kernel, left, right) -> np.ndarray:
    """A column kernel under each pair of two lists of distributions, by quadrature."""
    gamma = getattr(kernel, "gamma", 1.0)
    points = isinstance(left, Points) or isinstance(right, Points)
    if not isinstance(kernel, RBF) and not points:
        return _matching(kernel, left, right)
    lefts, rights = points_of(left, gamma), points_of(right, gamma)
    found = np.empty((len(lefts), len(rights)))
    for i, (x, u) in enumerate(lefts):
        for j, (y, v) in enumerate(rights):
            found[i, j] = sum(u[part] @ (_values(kernel, x[part], y) @ v) for part in _parts(x))
    return found


def _matching(kernel, left, right) -> np.ndarray:
    """Two numbers match if both are known and equal; draws of a density never do."""
    found = np.full((len(left.means()), len(right.means())), cell_value(kernel, 0.0, 1.0))
    if isinstance(left, Normals) and isinstance(right, Normals):
        for i, x in enumerate(left.mean):
            for j, y in enumerate(right.mean):
                if left.sd[i] == right.sd[j] == 0.0:
                    found[i, j] = cell_value(kernel, x, y)
    return found


def _values(kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if isinstance(kernel, RBF):
        return np.exp(-kernel.gamma * (x[:, None] - y) ** 2)
    return np.array([[cell_value(kernel, a, b) for b in y] for a in x])


def _parts(x: np.ndarray):
    return (slice(start, start + 500) for start in range(0, len(x), 500))


def _panels(low: float, high: float, widest: float) -> tuple[np.ndarray, np.ndarray]:
    edges = np.linspace(low, high, int((high - low) / widest) + 2)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (NODES + 1)).ravel()
    return x, (half * WEIGHTS).ravel()


def _normal_points(mean: float, sd: float, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    if sd == 0.0:
        return np.array([mean]), np.ones(1)
    x, w = _panels(mean - 9 * sd, mean + 9 * sd, 2 * min(sd, 1 / math.sqrt(gamma)))
    return x, w * np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def _bin_points(prob: np.ndarray, axis: np.ndarray, gamma: float):
    edges, bump = axis[1:-1], 1 / math.sqrt(gamma)
    points, weights = [], []
    for scale, edge, sign, share in (
        (axis[0], edges[0], -1, prob[0]),
        (axis[-1], edges[-1], 1, prob[-1]),
    ):
        z, w = _panels(0.0, 40.0, min(2.5, 2 * bump / scale))
        points.append(edge + sign * scale * z)
        weights.append(share * w * np.exp(-z))
    for share, (low, high) in zip(prob[1:-1], pairwise(edges)):
        x, w = _panels(low, high, 2 * bump)
        points.append(x)
        weights.append(share * w / (high - low))
    return np.concatenate(points), np.concatenate(weights)


def induced_trees(circuit, node: int | None = None) -> list[tuple[float, dict[int, int]]]:
    """Every choice of one child at each sum: its weight, and the leaf it leads to per variable."""
    node = circuit.n_nodes - 1 if node is None else node
    if circuit.kind[node] == LEAF:
        return [(1.0, {int(circuit.leaf_var[node]): node})]
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    below = [induced_trees(circuit, int(circuit.child[e])) for e in edges]
    if circuit.kind[node] == SUM:
        return [
            (math.exp(circuit.log_weight[e]) * weight, tree)
            for e, trees in zip(edges, below)
            for weight, tree in trees
        ]
    found = [(1.0, {})]
    for trees in below:
        found = [(u * v, {**a, **b}) for u, a in found for v, b in trees]
    return found


def given_trees(circuit, row: np.ndarray) -> list[tuple[float, dict]]:
    """Trees weighted by how well they explain a row, with its known cells in place of leaves."""
    found: dict[tuple, float] = {}
    for weight, tree in induced_trees(circuit):
        parts: dict = dict(tree)
        for var, node in tree.items():
            if not math.isnan(row[var]):
                weight *= leaf_density(circuit, node, row[var])
                parts[var] = ("cell", row[var])
        # Many trees lead to the same leaves: the terms below are then the same too.
        key = tuple(sorted(parts.items()))
        found[key] = found.get(key, 0.0) + weight
    total = sum(found.values())
    return [(weight / total, dict(key)) for key, weight in found.items()]


def univariate(circuit, var: int, part):
    """A leaf, or a known cell, as a distribution."""
    axis = circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]]
    if isinstance(part, tuple):
        if circuit.n_states[var] and not len(axis):
            return states(np.eye(circuit.n_states[var])[[int(part[1])]])
        return Normals(np.array([part[1]]), np.zeros(1))
    param = circuit.param[circuit.param_ptr[part] : circuit.param_ptr[part + 1]]
    if circuit.leaf_family[part] == GAUSSIAN:
        return Normals(param[:1], param[1:])
    if circuit.leaf_family[part] == POISSON:
        counts = np.arange(200.0)
        return Points(counts, np.array([[count_probability(param[0], k) for k in counts]]))
    prob = np.exp(param)[np.newaxis]
    return Bins(Axis.of(axis), prob) if len(axis) else states(prob)


def states(prob: np.ndarray) -> Points:
    """Distributions over the states 0, 1, ... of a category."""
    return Points(np.arange(float(prob.shape[1])), prob)


def expected_kernel(p, q, kernel, row=None, other=None) -> float:
    """Expected kernel of two circuits, each perhaps given a row: a sum over all pairs of trees.

    ``q`` may be a circuit, or a point.
    """
    nothing = np.full(p.n_features, np.nan)
    left = given_trees(p, nothing if row is None else row)
    if isinstance(q, Circuit):
        right = given_trees(q, nothing if other is None else other)
    else:
        q, right = p, [(1.0, {var: ("cell", x) for var, x in enumerate(q)})]
    total, known = 0.0, {}
    for weight, factors in kernel.terms(p.n_features):
        for u, tree in left:
            for v, tree_of_q in right:
                product = weight * u * v
                for var, factor in enumerate(factors):
                    key = (factor, var, tree[var], tree_of_q[var])
                    if key not in known:
                        sides = univariate(p, var, key[2]), univariate(q, var, key[3])
                        known[key] = float(expectation(factor, *sides)[0, 0])
                    product *= known[key]
                total += product
    return total
