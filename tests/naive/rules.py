"""Densities of columns between which rules hold, by sums over all rows that there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np


def log_density(log_complete: Callable, states: Sequence[Sequence[float]], row) -> float:
    """Log of the sum over all completions of a row, by the log density of complete rows."""
    choices = [s if np.isnan(cell) else [cell] for s, cell in zip(states, row)]
    rows = np.array(list(itertools.product(*choices)))
    return float(np.logaddexp.reduce(log_complete(rows)))


def zero_if(log_learned: Callable, rows, value: float, state: float):
    """Rows of (b, a): where b is the state, a is the value; else they are as learned."""
    answers = []
    for b, a in rows:
        if b != state:
            answers.append(log_learned([[b, a]])[0])
        else:
            answers.append(log_learned([[b, np.nan]])[0] if a == value else -np.inf)
    return np.array(answers)


def determined(log_learned: Callable, rows, values: dict[float, float]):
    """Rows of (a, b), where a determines b; the learner sees no b."""
    return np.array([log_learned([[a, 0.0]])[0] if values[a] == b else -np.inf for a, b in rows])


def added(log_learned: Callable, rows):
    """Rows of (a, b, total); the learner sees no total."""
    return np.array(
        [log_learned([[a, b, 0.0]])[0] if a + b == total else -np.inf for a, b, total in rows]
    )


def in_order(log_learned: Callable, rows):
    """Rows of numbers that increase; the learner sees the first and the gaps."""
    answers = []
    for row in rows:
        gaps = np.diff(row)
        answers.append(log_learned([[row[0], *gaps]])[0] if (gaps >= 0).all() else -np.inf)
    return np.array(answers)
