"""Slow truth: kernels cell by cell, expectations by quadrature and by listing everything."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from skpc.circuit import LEAF, SUM, Circuit
from skpc.kernels import RBF, ColumnKernel, Delta, ExponentialHamming, SumKernel
from skpc.variables import GAUSSIAN, POISSON, SCORED, Bins, Histogram, Normals, Points
from tests.naive.circuit import atoms_of as atoms_of_variable
from tests.naive.circuit import cells_of, count_probability, leaf_density, scored_column

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


class Near(ColumnKernel):
    """A kernel of a user's own, without formulas."""

    def __repr__(self):
        return "Near()"

    def of_points(self, x, y):
        return 1.0 / (1.0 + np.abs(x - y))


def cell_value(kernel, x: float, y: float) -> float:
    """A column kernel between two cells."""
    if isinstance(kernel, RBF):
        return math.exp(-kernel.gamma * (x - y) ** 2)
    if isinstance(kernel, ExponentialHamming):
        return math.exp(-kernel.gamma * float(x != y))
    if isinstance(kernel, Delta):
        return float(x == y)
    assert isinstance(kernel, Near)
    return 1.0 / (1.0 + abs(x - y))


def terms(kernel, columns) -> list[tuple[float, dict[int, ColumnKernel]]]:
    """A kernel as a sum of products, multiplied out: a weight, and the kernels of some columns."""
    columns = kernel.scope or columns
    if isinstance(kernel, ColumnKernel):
        return [(1.0, dict.fromkeys(columns, kernel))]
    if isinstance(kernel, SumKernel):
        return [
            (weight * inner, factors)
            for weight, part in zip(kernel.weights, kernel.kernels)
            for inner, factors in terms(part, columns)
        ]
    places = [columns] * len(kernel.columns) if kernel.scope else [(c,) for c in columns]
    choices = itertools.product(*(terms(k, c) for k, c in zip(kernel.columns, places, strict=True)))
    return [
        (math.prod(w for w, _ in choice), {v: f for _, part in choice for v, f in part.items()})
        for choice in choices
    ]


def factors_of(kernel, n_features: int) -> list[tuple[float, list[ColumnKernel]]]:
    """The same with a kernel of every column: columns that are not compared count one."""
    return [
        (weight, [factors.get(column, RBF(0.0)) for column in range(n_features)])
        for weight, factors in terms(kernel, tuple(range(n_features)))
    ]


def row_value(kernel, x: np.ndarray, y: np.ndarray) -> float:
    """A kernel between two rows."""
    total = 0.0
    for weight, factors in factors_of(kernel, len(x)):
        total += weight * math.prod(cell_value(f, a, b) for f, a, b in zip(factors, x, y))
    return total


class Scored(NamedTuple):
    """A leaf with atoms on the scale of its score: probabilities of the atoms and of the rest."""

    atoms: list[float]
    prob: list[float]
    mean: float
    sd: float


#: Points, and weights of each member whose sums over the points are integrals of smooth functions.
Rule = tuple[np.ndarray, np.ndarray]


def points_of(distribution, gamma: float) -> list[Rule]:
    """Lists of points and of weights that integrate smooth functions under each member in turn.

    The members of Points and of Bins share their points: one list for all. ``gamma`` is that of
    the kernel to be integrated: panels are narrower than its bump.
    """
    if isinstance(distribution, Points):
        return [(distribution.value, distribution.prob)]
    if isinstance(distribution, Normals):
        return [_normal_points(m, s, gamma) for m, s in zip(distribution.mean, distribution.sd)]
    if isinstance(distribution, Scored):
        x, w = _normal_points(distribution.mean, distribution.sd, gamma)
        masses = np.array([distribution.prob[:-1]])
        return [(np.append(distribution.atoms, x), np.hstack([masses, distribution.prob[-1] * w]))]
    assert isinstance(distribution, Bins)
    return [_bin_points(distribution.prob, distribution.axis, gamma)]


def expectation(kernel, left, right) -> np.ndarray:
    """A column kernel under each pair of two lists of distributions, by quadrature."""
    if isinstance(kernel, Near):
        return _enumerated(kernel, left, right)
    if not isinstance(kernel, RBF):
        return _matching(kernel, left, right)
    gamma = kernel.gamma
    rights = points_of(right, gamma)
    return np.vstack(
        [
            np.hstack([_double_sum(kernel, points, others) for others in rights])
            for points in points_of(left, gamma)
        ]
    )


def _double_sum(kernel, left: Rule, right: Rule) -> np.ndarray:
    """The kernel between all pairs of points, weighted by those of each pair of members."""
    (x, u), (y, v) = left, right
    found = np.zeros((len(u), len(v)))
    for part in (slice(start, start + 240) for start in range(0, len(x), 240)):
        # What is left out is below exp(-60), and its weights sum to one.
        reach = math.sqrt(60 / kernel.gamma)
        near = (y > x[part].min() - reach) & (y < x[part].max() + reach)
        found += u[:, part] @ (
            np.exp(-kernel.gamma * (x[part, None] - y[near]) ** 2) @ v[:, near].T
        )
    return found


def _enumerated(kernel, left, right) -> np.ndarray:
    """A sum over all pairs of values."""
    return np.array(
        [
            [
                sum(p * q * cell_value(kernel, x, y) for x, p in a.items() for y, q in b.items())
                for b in masses_of(right)
            ]
            for a in masses_of(left)
        ]
    )


def _matching(kernel, left, right) -> np.ndarray:
    """Two numbers match if both have a probability and are equal; draws of a density never do."""
    found = np.empty((len(masses_of(left)), len(masses_of(right))))
    for i, of_left in enumerate(masses_of(left)):
        for j, of_right in enumerate(masses_of(right)):
            match = sum(p * of_right.get(x, 0.0) for x, p in of_left.items())
            found[i, j] = match * cell_value(kernel, 0.0, 0.0)
            found[i, j] += (1.0 - match) * cell_value(kernel, 0.0, 1.0)
    return found


def masses_of(distribution) -> list[dict[float, float]]:
    """Under each member the values that have a probability."""
    if isinstance(distribution, Points):
        return [dict(zip(distribution.value, prob)) for prob in distribution.prob]
    if isinstance(distribution, Normals):
        both = zip(distribution.mean, distribution.sd)
        return [{mean: 1.0} if sd == 0.0 else {} for mean, sd in both]
    if isinstance(distribution, Scored):
        return [dict(zip(distribution.atoms, distribution.prob))]
    cells = [cell for cell in _cells(distribution.axis) if not math.isnan(cell.point)]
    return [
        {cell.point: prob[int(cell.state)] * cell.share for cell in cells}
        for prob in distribution.prob
    ]


def _panels(low: float, high: float, widest: float) -> tuple[np.ndarray, np.ndarray]:
    edges = np.linspace(low, high, int((high - low) / widest) + 2)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (NODES + 1)).ravel()
    return x, (half * WEIGHTS).ravel()


def _normal_points(mean: float, sd: float, gamma: float) -> Rule:
    if sd == 0.0:
        return np.array([mean]), np.ones((1, 1))
    x, w = _panels(mean - 9 * sd, mean + 9 * sd, 2 * min(sd, 1 / math.sqrt(gamma)))
    w *= np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    return x, w[np.newaxis]


def _cells(axis: Histogram) -> list:
    """The cells of an axis, read from its fields; without these each cell is a state."""
    n_cells = len(axis.edges) + 1
    state = range(n_cells) if axis.state is None else axis.state
    share = [1.0] * n_cells if axis.share is None else axis.share
    point = [math.nan] * n_cells if axis.point is None else axis.point
    ends = axis.low, axis.high, axis.step
    return cells_of(axis.edges, axis.lower_scale, axis.upper_scale, state, share, point, *ends)


def _bin_points(prob: np.ndarray, axis: Histogram, gamma: float) -> Rule:
    bump = 1 / math.sqrt(gamma)
    points, weights = [], []
    for cell in _cells(axis):
        if not math.isnan(cell.point):
            x, w = np.array([cell.point]), np.ones(1)
        elif math.isnan(cell.scale):
            x, w = _panels(cell.low, cell.high, 2 * bump)
            w /= cell.high - cell.low
        else:
            z, w = _panels(0.0, 40.0, min(2.5, 2 * bump / cell.scale))
            w *= np.exp(-z)
            below = math.isinf(cell.low)
            x = cell.high - cell.scale * z if below else cell.low + cell.scale * z
        points.append(x)
        weights.append(np.outer(prob[:, int(cell.state)] * cell.share, w))
    return np.concatenate(points), np.hstack(weights)


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
        return Normals(np.array([on_scale(circuit, var, part[1])]), np.zeros(1))
    param = circuit.param[circuit.param_ptr[part] : circuit.param_ptr[part + 1]]
    if circuit.leaf_family[part] == GAUSSIAN:
        return Normals(param[:1], param[1:])
    if circuit.leaf_family[part] == POISSON:
        counts = np.arange(200.0)
        return Points(counts, np.array([[count_probability(param[0], k) for k in counts]]))
    if circuit.leaf_family[part] == SCORED:
        atoms = [on_scale(circuit, var, atom) for atom in atoms_of_variable(circuit, var)]
        return Scored(atoms, np.exp(param[:-2]).tolist(), *param[-2:])
    prob = np.exp(param)[np.newaxis]
    return Bins(Histogram.from_flat(axis), prob) if len(axis) else states(prob)


def on_scale(circuit, var: int, x: float) -> float:
    """A cell as kernels compare it: its score, where the variable has one."""
    start, end = circuit.axis_ptr[var], circuit.axis_ptr[var + 1]
    if start == end or circuit.axis[start] > 0.0:
        return float(x)
    return scored_column(circuit, var).on_scale(float(x))


def rows_on_scale(circuit, rows: np.ndarray) -> np.ndarray:
    """Rows as kernels compare them."""
    return np.array([[on_scale(circuit, v, x) for v, x in enumerate(row)] for row in rows])


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
    for weight, factors in factors_of(kernel, p.n_features):
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
