"""Slow truth: the probability of ranges and sets, by recursion over nodes, one event at a time."""

from __future__ import annotations

import math

import numpy as np

from skpc.circuit import Circuit
from skpc.variables import CATEGORICAL, GAUSSIAN, POISSON, SCORED
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
        ends = [score_of_end(column.score, x) for x in (low, high)]
        below = [naive.normal_below(z, *param[-2:]) for z in ends]
        return atoms + math.exp(param[len(column.atoms)]) * (below[1] - below[0])
    return sum(
        math.exp(param[int(cell.state)]) * cell.share * cell_between(cell, low, high)
        for cell in naive.axis_of(circuit, var)
    )


def score_of_end(score: naive.NaiveScore, x: float) -> float:
    if x <= score.lower or x >= score.upper:
        return math.copysign(math.inf, x - 0.5 * (max(score.lower, -1e9) + min(score.upper, 1e9)))
    return score.of(x)


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
