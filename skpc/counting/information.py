"""Mutual information of the pairs of columns of a node, from the counts of their states."""

from typing import NamedTuple

import numpy as np

from skpc._arrays import Codes, Floats, Ints
from skpc.counting.pairs import Places, count_pairs, pack_states
from skpc.counting.tables import Score
from skpc.counting.trees import UNITS_PER_NAT

#: Counts of pairs of places that are held at a time, so that they stay in the cache: three times as
#: fast with 500 columns of ten states as with the whole table at once.
_MAX_COUNTS = 2**18


class Smoothing(NamedTuple):
    """What smooths the tables of two columns.

    Parameters
    ----------
    scale : array of shape (m, m)
        What brings the rows in which two columns are observed to the weight of all rows.
    cell, row : array of shape (m, m)
        Pseudo-counts of a cell, and of a state of the first column.
    empty_cells : array of shape (m, m)
        x log x of the states of the second column that do not occur, for one of the first.
    """

    scale: Floats
    cell: Floats
    row: Floats
    empty_cells: Floats


def _add_places(
    counts: Floats, begin: int, places: Places, smoothing: Smoothing, sums: Floats
) -> None:
    """Add the cells of the places from ``begin`` on to the sums over each pair of columns.

    ``counts``, those of whole columns, are written over. The sums are x log x of all smoothed
    cells; the same of the states of the first column; the entropy of the second column given the
    first, times the weight of the rows; where cells are missing, :func:`_evidence`.
    """
    starts = places.place_ptr[:-1]
    place = np.arange(begin, begin + len(counts))
    if not places.are_complete:
        is_observed = places.state >= 0
        # Missing cells are taken from the usual state, but are not cells of the table.
        counts *= is_observed
        missing = place[~is_observed[place]]
        place = place[is_observed[place]]
        # The weight of each place in the rows that show the first column.
        start = places.column[begin]
        n_counted = places.column[begin + len(counts) - 1] + 1 - start
        observed_weight = places.weight * is_observed
        shown = np.repeat(observed_weight[np.newaxis], n_counted, axis=0)
        shown[places.column[missing] - start] -= counts[missing - begin]
        counts = counts[place - begin]
        line = places.column[place] - start
        np.add.at(sums[3], line + start, _evidence(counts, shown, line, places))
    column = places.column[place]
    smoothed = _at_places(smoothing.cell, column, places)
    if not places.are_complete:
        counts *= _at_places(smoothing.scale, column, places)
    smoothed += counts
    terms = np.log(smoothed)
    terms *= smoothed
    if not places.are_complete:
        terms *= is_observed
    term = np.add.reduceat(terms, starts, axis=1)
    term += smoothing.empty_cells[column]
    weight = np.add.reduceat(counts, starts, axis=1)
    row_weight = weight + smoothing.row[column]
    log_weight = np.log(row_weight)
    np.add.at(sums[0], column, term)
    np.add.at(sums[1], column, row_weight * log_weight)
    np.add.at(sums[2], column, weight * (log_weight - term / row_weight))


def _at_places(square: Floats, column: Ints, places: Places) -> Floats:
    """Numbers of pairs of columns, for each of some first columns and each place of the second."""
    # Each first column is gathered once, as lines are copied sooner than gathered.
    lines, line = np.unique(column, return_inverse=True)
    return square[lines].take(places.column, axis=1)[line]


def _evidence(counts: Floats, shown: Floats, line: Ints, places: Places) -> Floats:
    """What each place tells of each column in the rows that show both: shape (n_counted, m).

    Each cell is predicted by the other rows of its table, and by one more that is like its column.
    ``shown`` has the weight of each place in the rows that show a first column, and ``line`` the
    row there of each place that is counted.
    """
    starts = places.place_ptr[:-1]
    total = np.add.reduceat(shown, starts, axis=1)[:, places.column]
    share = np.divide(shown, total, out=np.ones_like(shown), where=total > 0.0)
    # A smaller share is what subtraction has left of no rows.
    share = np.maximum(share, 1e-9)
    gain = np.maximum(counts - 1.0, 0.0)
    gain += share[line]
    np.log(gain, out=gain)
    gain -= np.log(share)[line]
    gain *= counts
    weight = np.add.reduceat(counts, starts, axis=1)
    log_others = np.log1p(np.maximum(weight - 1.0, 0.0))
    gains = np.add.reduceat(gain, starts, axis=1)
    return np.asarray(gains - weight * log_others)


def inform(
    codes: Codes, weight: Floats, places: Places, scale: Floats, score: Score
) -> tuple[Ints, Floats]:
    """Information of all pairs of columns in units, and the entropies of the others given each.

    Where cells are missing, the information is what rows that show both columns tell of each other.
    What few rows have in common by chance would be taken for more than others know.
    """
    n_states = places.n_states
    n_columns = len(scale)
    total = weight.sum()
    cell = score.pseudo_count(n_states[:, np.newaxis], n_states)
    row = cell * n_states
    # States without a place have empty cells only.
    n_empty = n_states + places.observed - places.place_ptr[1:]
    empty_cell = cell * np.log(cell)
    empty_row = row * np.log(row)
    smoothing = Smoothing(scale, cell, row, n_empty * empty_cell)
    n_empty_rows = n_empty[:, np.newaxis]
    sums = np.zeros((4, n_columns, n_columns))
    sums[0] = n_empty_rows * n_states * empty_cell
    sums[1] = n_empty_rows * empty_row
    # Tables are made for whole columns, as many at a time as there is room for their counts.
    group_of_column = places.place_ptr[:-1] * places.place_ptr[-1] // _MAX_COUNTS
    begins = places.place_ptr[np.unique(group_of_column, return_index=True)[1]].tolist()
    words = pack_states(codes, weight, places)
    for begin, end in zip(begins, [*begins[1:], len(places.weight)]):
        counts = count_pairs(codes, weight, places, begin, end, words)
        if end > begin:
            _add_places(counts, begin, places, smoothing, sums)
    joint, margin, entropy, evidence = sums
    smoothed = row * n_states[:, np.newaxis] + total
    information = (joint - margin - margin.T) / smoothed + np.log(smoothed)
    if not places.are_complete:
        # Of m columns, the one that tells most is chosen: log(m) is what chance may tell.
        evidence = (0.5 * (evidence + evidence.T) - np.log(n_columns)) * scale / total
        # It counts by the share of rows that lack one of the two.
        lacking = 1.0 - np.divide(
            1.0, scale, out=np.ones((n_columns, n_columns)), where=scale > 0.0
        )
        information = (1.0 - lacking) * information + lacking * evidence
    # Columns that are never observed together have no table.
    information[scale == 0.0] = 0.0
    # Rounded to whole units, so that equal information compares as equal.
    units = np.maximum(np.rint(information * total * UNITS_PER_NAT), 0.0).astype(np.int64)
    np.fill_diagonal(units, 0)
    np.fill_diagonal(entropy, 0.0)
    return units, entropy.sum(axis=1)
