"""Slow truth: a mixture of densities of categories, by tables of the probabilities of all rows."""

from __future__ import annotations

import itertools

import numpy as np


def all_rows(n_states):
    """Every complete row."""
    return np.array(list(itertools.product(*map(range, n_states))), dtype=float)


def agrees(complete, row):
    """Which complete rows have the observed cells of a row."""
    seen = ~np.isnan(row)
    return (complete[:, seen] == row[seen]).all(axis=1)


def probability(table, complete, row):
    """Probability of the observed cells of a row."""
    return table[agrees(complete, row)].sum()


def posterior(table, complete, row, column, n_states):
    """Probabilities of the states of a column given the observed cells of a row."""
    some = agrees(complete, row)
    found = [table[some & (complete[:, column] == state)].sum() for state in range(n_states)]
    return np.array(found) / table[some].sum()


def cell(table, complete, row, column):
    """Probability of a cell given the other observed cells of its row."""
    rest = row.copy()
    rest[column] = np.nan
    return probability(table, complete, row) / probability(table, complete, rest)
