"""Slow truth: a tree of hidden variables, by sums over all their states.

``parent`` lists the parent of each column, -1 for the root; ``first``, ``transition`` and
``emission`` are tables of probabilities as nested sequences. A missing cell is -1.
"""

from __future__ import annotations

import itertools

import numpy as np


def joint(parent, first, transition, emission, row, hidden):
    """Probability of the observed cells of a row together with all hidden states."""
    found = 1.0
    for v, above in enumerate(parent):
        found *= first[hidden[v]] if above < 0 else transition[v][hidden[above]][hidden[v]]
        if row[v] >= 0:
            found *= emission[v][hidden[v]][row[v]]
    return found


def all_hidden(n_hidden, n_columns):
    """All hidden states of all columns."""
    return itertools.product(range(n_hidden), repeat=n_columns)


def likelihood(parent, first, transition, emission, row):
    """Probability of the observed cells of a row."""
    return sum(
        joint(parent, first, transition, emission, row, hidden)
        for hidden in all_hidden(len(first), len(parent))
    )


def expected_counts(parent, first, transition, emission, rows, weight):
    """Expected weights of hidden states, of these with their parents', and with cells."""
    of_first = np.zeros_like(first)
    of_transition = np.zeros_like(transition)
    of_emission = [np.zeros_like(table) for table in emission]
    for row, w in zip(rows, weight):
        total = likelihood(parent, first, transition, emission, row)
        for hidden in all_hidden(len(first), len(parent)):
            part = w * joint(parent, first, transition, emission, row, hidden) / total
            for v, above in enumerate(parent):
                if above < 0:
                    of_first[hidden[v]] += part
                else:
                    of_transition[v][hidden[above]][hidden[v]] += part
                if row[v] >= 0:
                    of_emission[v][hidden[v]][row[v]] += part
    return of_first, of_transition, of_emission
