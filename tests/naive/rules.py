"""Tables and densities under rules, in loops over lists of rows (None where a cell is missing)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def restored(row: dict[str, Any], rules: Sequence[tuple], usual: dict[Any, Any]) -> dict[str, Any]:
    """A row of what is learned with what rules compute, in their order.

    ``usual`` has the value that each one determines, for all rules of that kind.
    """
    row = dict(row)
    for a, kind, b, *more in rules:
        if kind == "determines":
            row[b] = usual[row[a]]
        elif "if" in more:
            row[a] = b if row[more[1]] == more[3] else row[a]
        elif kind == "==":
            row[a] = sum(row[name] for name in b[1:]) + sum(more[1:])
    return row


def law(
    density: Callable, states: dict[str, Sequence], rules: Sequence[tuple], usual: dict
) -> tuple[list[tuple[dict, float]], float]:
    """Whole rows with the sums of densities of what is learned, and the part of these that is kept.

    ``density`` takes lists of rows of the learned columns, the keys of ``states``.
    """
    learned = [list(cells) for cells in itertools.product(*states.values())]
    rows = [restored(dict(zip(states, cells)), rules, usual) for cells in learned]
    orders = [rule for rule in rules if rule[1] == "<="]
    is_kept = [all(row[a] <= row[b] for a, _, b in orders) for row in rows]
    mass = density(learned)
    kept = [(row, m) for row, m, fits in zip(rows, mass, is_kept) if fits]
    return kept, sum(m for _, m in kept) / sum(mass)


def matching(rows: list[tuple[dict, float]], cells: dict[str, Any]) -> list[tuple[dict, float]]:
    """The rows that have some cells."""
    return [
        (row, mass)
        for row, mass in rows
        if all(value is None or row[name] == value for name, value in cells.items())
    ]


def nearest_in_order(row: Sequence[float], is_known: Sequence[bool]) -> list[float]:
    """A chain of numbers, by raising those after a greater one, or lowering those before a less.

    Known ones stay; the others lie between these first.
    """
    inside = []
    for place, value in enumerate(row):
        below = [v for v, known in zip(row[:place], is_known[:place]) if known]
        above = [v for v, known in zip(row[place + 1 :], is_known[place + 1 :]) if known]
        value = max([value, *below]) if not is_known[place] else value
        inside.append(min([value, *above]) if not is_known[place] else value)
    up = [max(inside[: place + 1]) for place in range(len(row))]
    down = [min(inside[place:]) for place in range(len(row))]
    cost_up, cost_down = (sum(abs(a - b) for a, b in zip(one, row)) for one in (up, down))
    return up if cost_up <= cost_down else down


def nearest_pair(low: float, high: float, grid: np.ndarray) -> float:
    """The least change, in all, of two numbers on a grid that puts them in order."""
    return min(abs(x - low) + abs(y - high) for x in grid for y in grid if x <= y)


def sum_density(joint: Callable, total: float, low: float, high: float) -> float:
    """Density of a sum of two numbers, by a quadrature over the first of them."""
    first = np.linspace(low, high, 4001)
    values = joint(np.column_stack([first, total - first]))
    return float(np.trapezoid(values, first))
