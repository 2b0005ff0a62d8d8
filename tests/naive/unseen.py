"""Slow truths about categories that were not seen: one cell at a time."""

import math


def unseen_mass(cells, weight, states):
    """Weight of the cells that hold no state, and one for each state seen once, by that of all."""
    n_cells = sum(w for cell, w in zip(cells, weight) if cell is not None)
    n_unseen = 0.0
    for value in set(cells) - {None}:
        total = sum(w for cell, w in zip(cells, weight) if cell == value)
        if value not in states:
            n_unseen += total
        elif total <= 1.0:
            n_unseen += 1.0
    return min(max(n_unseen / n_cells, 1.0 / (2.0 * n_cells + 2.0)), 0.5)


def added(cell, states, mass, is_uniform=False):
    """What one cell adds to the log density of a row in which unseen categories are missing."""
    if cell is None:
        return 0.0
    if cell not in states:
        return math.log(mass)
    return math.log(1.0 - mass) - (math.log(len(states)) if is_uniform else 0.0)
