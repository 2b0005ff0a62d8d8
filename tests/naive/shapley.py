"""Slow truth: Shapley values by their definition, over all sets of the other players."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np


def shapley_values(value: Callable[[tuple[int, ...]], np.ndarray], n_players: int) -> np.ndarray:
    """The value of each player; ``value`` takes the members of a coalition, in order."""
    out = []
    for player in range(n_players):
        others = [one for one in range(n_players) if one != player]
        total = 0.0
        for size in range(n_players):
            weight = math.factorial(size) * math.factorial(n_players - size - 1)
            for members in itertools.combinations(others, size):
                joined = tuple(sorted((*members, player)))
                total = total + weight * (value(joined) - value(members))
        out.append(total / math.factorial(n_players))
    return np.array(out)
