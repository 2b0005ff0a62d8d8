"""Slow truth: circuits with blocks, listed world by world.

A world chooses a child at each sum, a state of each missing category, and an atom (or none) of
each missing number. What remains are normal scores. The probability of a world counts all observed
cells.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from skpc.circuit import LEAF, SUM, Circuit
from skpc.kernels import RBF
from skpc.variables import BLOCK, CATEGORICAL
from tests.naive import circuit as naive
from tests.naive import kernels
from tests.naive.gaussians import conditional, log_normal


class World(NamedTuple):
    """Probability; the known cells; and for each group of other variables its normal scores."""

    prob: float
    known: dict[int, float]
    normals: list[tuple[list[int], np.ndarray, np.ndarray]]


class Parts(NamedTuple):
    """A leaf of numbers: probabilities of the states of each variable, and one Gaussian."""

    scope: list[int]
    probs: list[np.ndarray]
    mean: np.ndarray
    covariance: np.ndarray


def trees(circuit: Circuit, node: int | None = None) -> list[tuple[float, list[int]]]:
    """Every choice of one child at each sum: its weight and its leaves."""
    node = circuit.n_nodes - 1 if node is None else node
    if circuit.kind[node] == LEAF:
        return [(1.0, [node])]
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    below = [trees(circuit, int(circuit.child[e])) for e in edges]
    if circuit.kind[node] == SUM:
        weights = np.exp(circuit.log_weight[edges])
        return [(w * u, leaves) for w, part in zip(weights, below) for u, leaves in part]
    return [
        (math.prod(u for u, _ in choice), [leaf for _, part in choice for leaf in part])
        for choice in itertools.product(*below)
    ]


def parts_of(circuit: Circuit, leaf: int) -> Parts:
    """The parameters of a block, or of a scored leaf as a block of one variable."""
    scope = circuit.scope[circuit.scope_ptr[leaf] : circuit.scope_ptr[leaf + 1]].tolist()
    param = circuit.param[circuit.param_ptr[leaf] : circuit.param_ptr[leaf + 1]]
    probs, d = [], len(scope)
    for var in scope:
        probs.append(np.exp(param[: circuit.n_states[var]]))
        param = param[circuit.n_states[var] :]
    if circuit.leaf_family[leaf] == BLOCK:
        return Parts(scope, probs, param[:d], param[d:].reshape(d, d))
    return Parts(scope, probs, param[:1], param[1:].reshape(1, 1) ** 2)


def worlds(circuit: Circuit, row: np.ndarray) -> list[World]:
    """All worlds in which a row can be; their probabilities add up to its density."""
    return [world for tree in trees(circuit) for world in worlds_of_tree(circuit, tree, row)]


def worlds_of_tree(circuit: Circuit, tree: tuple[float, list[int]], row) -> list[World]:
    weight, leaves = tree
    found = []
    for choice in itertools.product(*(worlds_of_leaf(circuit, leaf, row) for leaf in leaves)):
        known = {var: x for world in choice for var, x in world.known.items()}
        normals = [normal for world in choice for normal in world.normals]
        found.append(World(weight * math.prod(world.prob for world in choice), known, normals))
    return found


def worlds_of_leaf(circuit: Circuit, leaf: int, row: np.ndarray) -> list[World]:
    if circuit.leaf_family[leaf] == CATEGORICAL:
        var = int(circuit.leaf_var[leaf])
        states = [row[var]] if not math.isnan(row[var]) else range(circuit.n_states[var])
        return [
            World(naive.leaf_density(circuit, leaf, float(s)), {var: float(s)}, []) for s in states
        ]
    parts = parts_of(circuit, leaf)
    columns = [naive.scored_column(circuit, var) for var in parts.scope]
    options = []
    for var, prob, column in zip(parts.scope, parts.probs, columns):
        if math.isnan(row[var]):
            values = [*column.atoms, math.nan]
            options.append([(p, x, math.nan) for p, x in zip(prob, values)])
            continue
        x, state = row[var], column.state(row[var])
        if state < len(column.atoms):
            options.append([(prob[state] / (column.step or 1.0), x, math.nan)])
        else:
            options.append([(prob[state], x, column.of(x))])
    return [_world(parts, columns, choice) for choice in itertools.product(*options)]


def density_of_scores(parts: Parts, columns, cells: dict[int, float]) -> float:
    """Density of cells that are no atoms, by their places; one alone has the mass of its cell."""
    seen = sorted(cells)
    if len(seen) == 1:
        (at,) = seen
        return columns[at].density(cells[at], parts.mean[at], math.sqrt(parts.covariance[at, at]))
    if not seen:
        return 1.0
    normal = multivariate_normal(parts.mean[seen], parts.covariance[np.ix_(seen, seen)])
    slopes = math.prod(columns[at].slope(cells[at]) for at in seen)
    return slopes * float(normal.pdf([columns[at].of(cells[at]) for at in seen]))


def _world(parts: Parts, columns, choice) -> World:
    """A state for each variable of a leaf: its probability, the cell or NaN, the score or NaN."""
    score = np.array([z for _, _, z in choice])
    cells = {at: choice[at][1] for at in np.flatnonzero(~np.isnan(score)).tolist()}
    prob = math.prod(p for p, _, _ in choice) * density_of_scores(parts, columns, cells)
    known = {var: float(x) for var, (_, x, _) in zip(parts.scope, choice) if not math.isnan(x)}
    free = [at for at, (_, x, _) in enumerate(choice) if math.isnan(x)]
    mean, covariance = conditional(score, parts.mean, parts.covariance)
    normals = [([parts.scope[at] for at in free], mean[free], covariance[np.ix_(free, free)])]
    return World(prob, known, normals if free else [])


def density(circuit: Circuit, row: np.ndarray) -> float:
    """Density of the observed cells of a row."""
    return math.fsum(world.prob for world in worlds(circuit, row))


def given_worlds(circuit: Circuit, row: np.ndarray) -> list[World]:
    """The worlds of a row with the probabilities that they have given the row."""
    found = worlds(circuit, row)
    total = math.fsum(world.prob for world in found)
    return [world._replace(prob=world.prob / total) for world in found]


def score_of_cell(circuit: Circuit, row: np.ndarray, var: int) -> float:
    """Log density of a cell given the others."""
    without = np.where(np.arange(len(row)) == var, np.nan, row)
    return math.log(density(circuit, row)) - math.log(density(circuit, without))


def normal_of(world: World, var: int) -> tuple[float, float] | None:
    """Mean and standard deviation of the score of a variable in a world; None if it is known."""
    for scope, mean, covariance in world.normals:
        if var in scope:
            at = scope.index(var)
            return float(mean[at]), math.sqrt(covariance[at, at])
    return None


def expectation(circuit: Circuit, row: np.ndarray, var: int, function) -> float:
    """E[function(x_var) | observed cells], by quadrature over each normal score."""
    column, total = naive.scored_column(circuit, var), 0.0
    score = column.score
    breaks = [naive.yeo_johnson(u, score.power) for u in (score.low, 0.0, score.high)]
    breaks += [column.end(atom) for atom in column.atoms if column.gap > 0.0]
    known: dict[tuple[float, float], float] = {}
    for world in given_worlds(circuit, row):
        normal = normal_of(world, var)
        if normal is None:
            total += world.prob * function(world.known[var])
            continue
        if normal not in known:
            known[normal] = naive.normal_expectation(
                lambda z: function(column.value_of(z)), *normal, breaks
            )
        total += world.prob * known[normal]
    return total


def share_below(circuit: Circuit, row: np.ndarray, var: int, x: float) -> float:
    """Posterior probability that a missing number is not above ``x``."""
    column, total = naive.scored_column(circuit, var), 0.0
    for world in given_worlds(circuit, row):
        normal = normal_of(world, var)
        if normal is None:
            total += world.prob * float(world.known[var] <= x)
        else:
            total += world.prob * naive.normal_below(column.end(x), *normal)
    return total


def share_at(circuit: Circuit, row: np.ndarray, var: int, x: float) -> float:
    """Posterior probability of a state of a category, or of an atom."""
    return sum(w.prob for w in given_worlds(circuit, row) if w.known.get(var) == x)


def greatest(circuit: Circuit, row: np.ndarray, filled: np.ndarray | None = None) -> float:
    """What the best tree and its best completion, or a given one, count.

    Missing categories count their probability, and so do missing numbers with atoms (or the rest of
    these); missing numbers without atoms have the density of their scores, jointly.
    """
    return max(
        weight * math.prod(_greatest_of_leaf(circuit, leaf, row, filled) for leaf in leaves)
        for weight, leaves in trees(circuit)
    )


def _greatest_of_leaf(circuit: Circuit, leaf: int, row, filled) -> float:
    if filled is None:
        return max(
            _counted(circuit, leaf, row, completion)
            for completion in _completions(circuit, leaf, row)
        )
    return _counted(circuit, leaf, row, filled)


def _completions(circuit: Circuit, leaf: int, row) -> list[np.ndarray]:
    """The completions of the scope of a leaf among which the best one is."""
    found = []
    for world in worlds_of_leaf(circuit, leaf, row):
        filled = row.copy()
        for var, x in world.known.items():
            filled[var] = x
        for scope, mean, _ in world.normals:
            for var, z in zip(scope, mean):
                filled[var] = naive.scored_column(circuit, var).value_of(z)
        found.append(filled)
    return found


def _counted(circuit: Circuit, leaf: int, row, filled) -> float:
    if circuit.leaf_family[leaf] == CATEGORICAL:
        return naive.leaf_density(circuit, leaf, filled[circuit.leaf_var[leaf]])
    parts, total = parts_of(circuit, leaf), 1.0
    seen, score = [], []
    for at, (var, prob) in enumerate(zip(parts.scope, parts.probs)):
        column = naive.scored_column(circuit, var)
        x, state, missing = filled[var], column.state(filled[var]), math.isnan(row[var])
        total *= prob[state]
        if not missing:
            total *= column.slope(x) if state == len(column.atoms) else 1 / (column.step or 1)
        if state == len(column.atoms) and not (missing and column.atoms):
            seen.append(at)
            score.append(column.of(x))
    if seen:
        normal = multivariate_normal(parts.mean[seen], parts.covariance[np.ix_(seen, seen)])
        total *= float(normal.pdf(score))
    return total


def bump(mean: np.ndarray, covariance: np.ndarray, gamma: np.ndarray) -> float:
    """E exp(-sum of gamma d^2) of a normal vector d: the density at 0 of the same and a kernel's.

    The kernel is that of a normal distribution of variance 1 / (2 gamma), but for its height.
    """
    counts = gamma > 0
    if not counts.any():
        return 1.0
    variance = 0.5 / gamma[counts]
    wider = covariance[np.ix_(counts, counts)] + np.diag(variance)
    height = math.sqrt(np.prod(2 * math.pi * variance))
    return height * math.exp(log_normal(mean[counts], np.zeros(counts.sum()), wider))


def expected_kernel(p: Circuit, q, kernel, row=None, other=None) -> float:
    """Expected kernel of two circuits given rows, or of a circuit and a point, over all worlds."""
    nothing = np.full(p.n_features, np.nan)
    left = given_worlds(p, nothing if row is None else row)
    if isinstance(q, Circuit):
        right = given_worlds(q, nothing if other is None else other)
    else:
        right, q = [World(1.0, dict(enumerate(q)), [])], p
    left, right = ([(w, *_moments(c, w)) for w in side] for c, side in ((p, left), (q, right)))
    total, known = 0.0, {}
    for weight, factors in kernels.factors_of(kernel, p.n_features):
        for one, two in itertools.product(left, right):
            total += weight * one[0].prob * two[0].prob * _between(one, two, factors, known)
    return total


def _between(left, right, factors, bumps: dict) -> float:
    """Expected product of column kernels between two worlds, given with their moments."""
    (world, m, v), (other, n, w) = left, right
    product, gamma = 1.0, np.zeros(len(factors))
    for var, factor in enumerate(factors):
        if var in world.known and var in other.known:
            product *= kernels.cell_value(factor, m[var], n[var])
        elif isinstance(factor, RBF):
            gamma[var] = factor.gamma
        else:
            product *= kernels.cell_value(factor, 0.0, 1.0)
    mean, covariance = np.where(gamma > 0, m - n, 0.0), v + w
    key = (mean.tobytes(), covariance.tobytes(), gamma.tobytes())
    if key not in bumps:
        bumps[key] = bump(mean, covariance, gamma)
    return product * bumps[key]


def _moments(circuit: Circuit, world: World) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all scores in a world; known ones have no variance."""
    mean, covariance = np.zeros(circuit.n_features), np.zeros((circuit.n_features,) * 2)
    for var, cell in world.known.items():
        mean[var] = kernels.on_scale(circuit, var, cell)
    for scope, m, v in world.normals:
        mean[scope], covariance[np.ix_(scope, scope)] = m, v
    return mean, covariance


def second_moment(circuit: Circuit, factors, row, x, y) -> float:
    """E k(z, x) k(z, y) given a row, for a product of column kernels."""
    total = 0.0
    for world in given_worlds(circuit, row):
        product, gamma, middle = world.prob, np.zeros(len(x)), np.zeros(len(x))
        for var, factor in enumerate(factors):
            a, b = (kernels.on_scale(circuit, var, cell) for cell in (x[var], y[var]))
            if var in world.known:
                z = kernels.on_scale(circuit, var, world.known[var])
                product *= kernels.cell_value(factor, z, a) * kernels.cell_value(factor, z, b)
            elif isinstance(factor, RBF):
                # The product of two bumps is a narrower one between them.
                product *= math.exp(-0.5 * factor.gamma * (a - b) ** 2)
                gamma[var], middle[var] = 2 * factor.gamma, (a + b) / 2
            else:
                product *= kernels.cell_value(factor, 0.0, 1.0) ** 2
        mean, covariance = _moments(circuit, world)
        total += product * bump(mean - middle, covariance, gamma)
    return total
