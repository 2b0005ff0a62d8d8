"""Rows of scores: which cells are atoms, and in which quarter of a column the others lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpc._arrays import Floats, Ints, weighted_quantiles
from skpc.variables import Number

#: Bins, of equal weight in each node, in which numbers are tested for independence; atoms of
#: numbers are states of their own there.
TEST_BINS = 4


def scores_of(rows: Floats, numbers: Sequence[Number | None]) -> tuple[Floats, list[Floats]]:
    """Encoded rows with scores in place of numbers, and the scores of the atoms of each column."""
    found, atoms = rows.copy(), [np.empty(0)] * rows.shape[1]
    for column, number in enumerate(numbers):
        if number is not None:
            atoms[column] = number.score.transform(number.atoms)
            state, score = number.scored_column(0.0).scores(rows[:, column])
            # A value that is an atom has exactly the score of the atom.
            extended = np.append(atoms[column], np.nan)
            is_atom = (state >= 0) & (state < len(number.atoms))
            found[:, column] = np.where(is_atom, extended[state], score)
    return found, atoms


def atom_states(cells: Floats, atoms: Floats) -> Ints:
    """Number of the atom that each score belongs to; one more than the last for all others."""
    if not len(atoms):
        return np.zeros(len(cells), dtype=np.int64)
    place = np.searchsorted(atoms, cells)
    is_atom = np.append(atoms, np.nan)[place] == cells
    return np.where(is_atom, place, len(atoms))


def without_atoms(rows: Floats, atoms: Sequence[Floats]) -> Floats:
    """Rows of scores with NaN for the atoms of their columns."""
    found = rows.copy()
    for column, own in enumerate(atoms):
        if len(own):
            found[atom_states(rows[:, column], own) < len(own), column] = np.nan
    return found


def quantile_bins(values: Floats, weight: Floats) -> Ints:
    """The quarter, by weight, in which each value lies; -1 where missing."""
    bins = np.full(len(values), -1)
    seen = np.flatnonzero(~np.isnan(values))
    if len(seen):
        order = seen[np.argsort(values[seen], kind="stable")]
        reached = np.cumsum(weight[order])
        edges = weighted_quantiles(values[order], reached, np.arange(1, TEST_BINS), TEST_BINS)
        bins[seen] = np.searchsorted(edges, values[seen], side="right")
    return bins
