"""Slow truth: the probability of ranges and sets, by recursion over nodes, one event at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.integrate import quad

from skpc.circuit import Circuit
from skpc.variables import CATEGORICAL, GAUSSIAN, POISSON, SCORED
from tests.naive import blocks
from tests.naive import circuit as naive


def leaf_probability(circuit: Circuit, leaf: int, low: float, high: float) -> float:
    """Probability of ``low < x <= high`` under a leaf of one variable."""
    var, family = int(circuit.leaf_var[leaf]), circuit.leaf_family[leaf]
    param = circuit.param[circuit.param_ptr[leaf] : circuit.param_ptr[leaf + 1]]
    if family == GAUSSIAN:
        return naive.normal_below(high, *param) - naive.normal_below(low, *param)
    if family in (CATEGORICAL, POISSON):
        states = range(circuit.n_states[var] or 200)
        held = [float(s) for s in states if low < s <= high]
        return sum(naive.leaf_density(circuit, leaf, s) for s in held)
    if family == SCORED:
        column = naive.scored_column(circuit, var)
        atoms = sum(math.exp(p) for p, atom in zip(param, column.atoms) if low < atom <= high)
        below = [naive.normal_below(column.end(x), *param[-2:]) for x in (low, high)]
        return atoms + math.exp(param[len(column.atoms)]) * (below[1] - below[0])
    return sum(
        math.exp(param[int(cell.state)]) * cell.share * cell_between(cell, low, high)
        for cell in naive.axis_of(circuit, var)
    )


def cell_between(cell: naive.Cell, low: float, high: float) -> float:
    if not math.isnan(cell.point):
        return float(low < cell.point <= high)
    return naive.cell_below(cell, high) - naive.cell_below(cell, low)


def probability(
    circuit: Circuit, row: np.ndarray, intervals: dict[int, list[tuple[float, float]]]
) -> float:
    """Probability of the intervals, times the density of the known cells of a row."""

    def value(leaf: int, x: float) -> float:
        var = int(circuit.leaf_var[leaf])
        if var not in intervals:
            return naive.leaf_density(circuit, leaf, x)
        return sum(leaf_probability(circuit, leaf, *ends) for ends in intervals[var])

    return naive.evaluate(circuit, row, value)


def block_probability(
    circuit: Circuit, row: np.ndarray, intervals: dict[int, list[tuple[float, float]]]
) -> float:
    """The same for a circuit with blocks: by worlds, and nested quadrature over normal scores."""
    return sum(
        weight * math.prod(_of_leaf(circuit, leaf, row, intervals) for leaf in leaves)
        for weight, leaves in blocks.trees(circuit)
    )


def _of_leaf(circuit: Circuit, leaf: int, row: np.ndarray, intervals) -> float:
    if circuit.leaf_family[leaf] == CATEGORICAL:
        var = int(circuit.leaf_var[leaf])
        if var in intervals:
            return sum(leaf_probability(circuit, leaf, *ends) for ends in intervals[var])
        return naive.leaf_density(circuit, leaf, row[var])
    parts, options = blocks.parts_of(circuit, leaf), []
    for var, prob in zip(parts.scope, parts.probs):
        column, x = naive.scored_column(circuit, var), row[var]
        if var in intervals:
            ends = intervals[var]
            held = [p for p, x in zip(prob, column.atoms) if any(a < x <= b for a, b in ends)]
            sides = [(column.end(a), column.end(b)) for a, b in ends]
            # Of an interval within the cell of an atom nothing is left.
            sides = [side for side in sides if side[0] < side[1]]
            options.append([(sum(held), None), *((prob[-1], side) for side in sides)])
        elif math.isnan(x):
            options.append([(1.0, None)])
        elif column.state(x) < len(column.atoms):
            options.append([(prob[column.state(x)] / (column.step or 1.0), None)])
        else:
            z = column.of(x)
            options.append([(prob[-1] * column.slope(x), (z, z))])
    total = 0.0
    for choice in itertools.product(*options):
        at = [i for i, (_, side) in enumerate(choice) if side is not None]
        known = [i for i in at if choice[i][1][0] == choice[i][1][1]]
        if len(known) == 1:
            # The only known score: its value has the density of its cell, and is taken in its
            # middle by the ranges.
            (alone,) = known
            column, x = naive.scored_column(circuit, parts.scope[alone]), row[parts.scope[alone]]
            variance = parts.covariance[alone, alone]
            ranges = [i for i in at if i != alone]
            gain = parts.covariance[ranges, alone] / variance
            mean = parts.mean[ranges] + gain * (column.of(x) - parts.mean[alone])
            left = parts.covariance[np.ix_(ranges, ranges)]
            left = left - np.outer(gain, parts.covariance[alone, ranges])
            others = math.prod(p for i, (p, _) in enumerate(choice) if i != alone)
            value = column.density(x, parts.mean[alone], math.sqrt(variance))
            sides = [choice[i][1] for i in ranges]
            total += others * parts.probs[alone][-1] * value * _box(mean, left, sides)
            continue
        sides = [choice[i][1] for i in at]
        box = _box(parts.mean[at], parts.covariance[np.ix_(at, at)], sides)
        total += math.prod(p for p, _ in choice) * box
    return total


def _box(mean: np.ndarray, covariance: np.ndarray, sides) -> float:
    """Density of known scores (equal ends) times the probability of the ranges of the others."""
    if not sides:
        return 1.0
    order = sorted(range(len(sides)), key=lambda i: sides[i][0] != sides[i][1])
    mean, covariance = mean[order], covariance[np.ix_(order, order)]
    (low, high), *rest = (sides[i] for i in order)
    sd = math.sqrt(covariance[0, 0])
    if low != high and not rest:
        return naive.normal_below(high, mean[0], sd) - naive.normal_below(low, mean[0], sd)
    gain = covariance[1:, 0] / covariance[0, 0]
    left = covariance[1:, 1:] - np.outer(gain, covariance[0, 1:])

    def joint(z: float) -> float:
        return naive.normal_density(z, mean[0], sd) * _box(
            mean[1:] + gain * (z - mean[0]), left, rest
        )

    if low == high:
        return joint(low)
    low, high = max(low, mean[0] - 9 * sd), min(high, mean[0] + 9 * sd)
    return quad(joint, low, high, epsabs=1e-11)[0] if low < high else 0.0


def truncated_moments(low: float, high: float) -> tuple[float, float, float]:
    """Log mass, mean and mean square of a standard normal in an interval, by 400 panels.

    Densities are relative to the greatest one in the interval, in steps from its place.
    """
    nearest = min(max(0.0, low), high)
    reach = math.sqrt(nearest**2 + 90.0) - abs(nearest) + 1e-12
    begin = max(low - nearest, -reach if nearest > 0.0 else -abs(reach))
    end = min(high - nearest, reach)

    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(begin, end, 401)
    half = 0.5 * np.diff(edges)[:, np.newaxis]
    t = edges[:-1, np.newaxis] + half * (nodes + 1.0)

    def part(power: int) -> float:
        return float((half * weights * t**power * np.exp(-t * (nearest + 0.5 * t))).sum())

    mass = part(0)
    # Odd moments of a symmetric interval are nothing but rounding.
    first = 0.0 if begin == -end else part(1) / mass
    second = part(2) / mass
    log_mass = math.log(mass) - 0.5 * nearest**2 - 0.5 * math.log(2.0 * math.pi)
    return log_mass, nearest + first, nearest**2 + 2.0 * nearest * first + second
