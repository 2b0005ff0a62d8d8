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


def together(log_learned: Callable, rows, rules, gaps: Sequence[float], log_seen: float):
    """Rows under several rules of columns by number; the learner sees gaps as far as rows had them.

    A missing cell at the greater end of an order is a missing gap.
    """
    answers = []
    for row in rows:
        seen, total, possible = list(row), 0.0, True
        for a, kind, b, *more in rules:
            if kind == "determines":
                possible &= row[b] == more[0][int(row[a])]
                seen[b] = 0.0
            elif kind == "<=":
                gap = row[b] - row[a]
                possible &= bool(np.isnan(gap)) or gap in gaps
                total += 0.0 if np.isnan(gap) else log_seen
                seen[b] = gap
            elif "if" in more:
                if row[more[1]] == more[3]:
                    possible &= row[a] == b
                    seen[a] = np.nan
            else:
                possible &= row[a] == sum(row[j] for j in b[1:]) + sum(more[1:])
                seen[a] = 0.0
        answers.append(total + log_learned([seen])[0] if possible else -np.inf)
    return np.array(answers)


def in_order(log_learned: Callable, numbers, others):
    """Rows of numbers that increase; the learner sees the first, the gaps and the others."""
    answers = []
    for row, more in zip(numbers, others):
        gaps = np.diff(row)
        is_ordered = (gaps >= 0).all()
        answers.append(log_learned([[row[0], *gaps, *more]])[0] if is_ordered else -np.inf)
    return np.array(answers)


def integral(density: Callable, low: float, high: float, kinks) -> float:
    """By many nodes between kinks, closer to each other towards both ends."""
    to_end = (high - low) * np.geomspace(1e-10, 0.1, 60)
    ends = [np.linspace(low, high, 400), low + to_end, high - to_end, kinks]
    ends = np.unique(np.clip(np.concatenate(ends), low, high))
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    nodes, weight = np.polynomial.legendre.leggauss(8)
    x = middle[:, np.newaxis] + half[:, np.newaxis] * nodes
    return float((density(x.ravel()) * (half[:, np.newaxis] * weight).ravel()).sum())
