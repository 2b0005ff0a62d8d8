"""Rows whose cells may be wrong: sums over all sets of wrong cells, and over all true rows."""

import itertools
import math

import numpy as np

from tests.naive import circuit as naive


def density(circuit, row, right, wrong) -> float:
    """Density of a row: the sum over all sets of wrong cells.

    ``right`` has the probability of a cell to be as the model says, ``wrong`` that of a wrong cell
    times the density of what it holds.
    """
    observed = np.flatnonzero(~np.isnan(row)).tolist()
    total = 0.0
    for is_wrong in itertools.product([False, True], repeat=len(observed)):
        truth, factor = row.copy(), 1.0
        for var, this_is_wrong in zip(observed, is_wrong):
            factor *= wrong[var] if this_is_wrong else right[var]
            if this_is_wrong:
                truth[var] = np.nan
        total += factor * naive.density(circuit, truth)
    return total


def probabilities(circuit, row, right, wrong) -> list[float]:
    """P(the true value differs from that seen), for each cell of a row of categories.

    By enumeration of the sets of wrong cells and of the true rows.
    """
    truths = naive.all_rows(circuit)
    prob = [naive.density(circuit, truth) for truth in truths]
    differs, total = np.zeros(len(row)), 0.0
    observed = np.flatnonzero(~np.isnan(row)).tolist()
    for truth, p in zip(truths, prob):
        for is_wrong in itertools.product([False, True], repeat=len(observed)):
            joint = p * math.prod(
                wrong[var] if w else right[var] * (truth[var] == row[var])
                for var, w in zip(observed, is_wrong)
            )
            total += joint
            differs += joint * (truth != row)
    return [float(d / total) if var in observed else math.nan for var, d in enumerate(differs)]
