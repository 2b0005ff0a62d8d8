"""The law of the values that a column of ordered states has not shown, one value at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def unseen_mass(values: Sequence[float], weight: Sequence[float]) -> float:
    """Probability that a new cell holds none of the values: (n_1 + 1/2) / (n + 1)."""
    total: dict[float, float] = {}
    for value, one in zip(values, weight):
        total[value] = total.get(value, 0.0) + one
    n_once = sum(one for one in total.values() if one <= 1.0)
    return (n_once + 0.5) / (sum(total.values()) + 1.0)


def probability_of_unseen(value: int, states: Sequence[int]) -> float:
    """Probability of a whole number among all that are no states.

    They lie between the states, below, or above: each of these has as much, if there is any.
    """
    low, high = min(states), max(states)
    between = [k for k in range(low, high + 1) if k not in states]
    part = 1.0 / (3.0 if between else 2.0)
    if low < value < high:
        return part / len(between)
    ratio = math.exp(-1.0 / max(0.25 * (high - low), 1.0))
    steps = low - value if value < low else value - high
    return part * (1.0 - ratio) * ratio ** (steps - 1)
