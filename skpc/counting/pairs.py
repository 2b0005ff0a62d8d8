"""Pairs of the states that occur in the columns of a node: their counts and their information.

Rows mostly agree with the most frequent state of each column, so only their other states are
counted in pairs; whatever concerns the most frequent state is what these leave. Complete rows of
few states are counted as bits, 64 at a time: 5.1x on 5,000 x 500 of ten states. The plain twin, a
look at every cell of every pair, is ``pair_table`` of ``tests/naive/chow_liu.py``.
"""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Codes, Floats, Ints, offsets, owners
from skpc._jit import kernel, popcount
from skpc._threads import slices
from skpc.counting.bit_rows import COLUMNS, Words, packed
from skpc.counting.tables import Score
from skpc.counting.trees import UNITS_PER_NAT

#: Counts of pairs of places that are held at a time, so that they stay in the cache: three times as
#: fast with 500 columns of ten states as with the whole table at once.
_MAX_COUNTS = 2**18
#: Fewer pairs of cells take .1 ms row by row, which is not worth compiling a kernel.
LEAST_PAIRS = 100_000
#: Words of 64 rows that stay in the cache while all places are counted in them.
_CACHED_WORDS = 2**15


class Places(NamedTuple):
    """The states that occur in each column, which are numbered through: they are its *places*.

    Parameters
    ----------
    n_states : array of shape (m,)
        Numbers of states of the columns.
    state_ptr : array of shape (m + 1,)
        Where the states of each column begin in ``counted``, missing first.
    state_place, counted : arrays of shape (n_all_states,)
        Place of each state, -1 for one that does not occur; in ``counted`` also for the most
        frequent one.
    place_ptr : array of shape (m + 1,)
        The places of column v are ``place_ptr[v] .. place_ptr[v + 1]``.
    observed : array of shape (m,)
        The first of these that is not the one of missing cells.
    usual : array of shape (m,)
        The place of the most frequent state of each column, -1 without rows.
    column, state, weight : arrays of shape (n_places,)
        Column and state of each place, and the weight of its rows.
    """

    n_states: Ints
    state_ptr: Ints
    state_place: Ints
    counted: Ints
    place_ptr: Ints
    observed: Ints
    usual: Ints
    column: Ints
    state: Ints
    weight: Floats

    @classmethod
    def from_codes(cls, codes: Codes, weight: Floats, n_states: Ints) -> Self:
        """The places of the columns of some rows."""
        state_ptr = offsets(n_states + 1)
        # Missing is the state before the others.
        cells = codes + (state_ptr[:-1] + 1)
        cell_weight = np.repeat(weight, len(n_states))
        in_state = np.bincount(cells.ravel(), cell_weight, state_ptr[-1]).astype(np.float64)
        occurs = in_state > 0.0
        column = owners(n_states + 1)
        state = np.arange(len(column)) - state_ptr[column] - 1
        # States that do not occur have no place, so that their cells cost nothing.
        place = np.where(occurs, np.cumsum(occurs) - 1, -1)
        # If several states are most frequent, the first one is the usual one.
        most_frequent = np.lexsort((-in_state, column))[state_ptr[:-1]]
        usual = place[most_frequent]
        counted = place.copy()
        counted[most_frequent] = -1
        place_ptr = offsets(occurs)[state_ptr]
        # The place of missing cells, if there are any, comes first.
        observed = place_ptr[:-1] + occurs[state_ptr[:-1]]
        return cls(
            n_states,
            state_ptr,
            place,
            counted,
            place_ptr,
            observed,
            usual,
            column[occurs],
            state[occurs],
            in_state[occurs],
        )

    @property
    def are_complete(self) -> bool:
        """Whether no cell is missing."""
        return np.array_equal(self.observed, self.place_ptr[:-1])


@kernel(new_arrays=True)
def _count_pairs(codes: Codes, weight: Floats, places: Places, begin: int, counts: Floats) -> None:
    """Add the weight of each row to the pairs of its places that are not the usual ones.

    ``counts[i, t]`` is the pair of place ``begin + i`` with place t.
    """
    state_ptr = places.state_ptr
    counted = places.counted
    n_columns = codes.shape[1]
    end = begin + len(counts)
    has_all = len(counts) == counts.shape[1]
    in_row = np.empty(n_columns, np.uint64)
    for row_number in range(len(codes)):
        # Every place is written and most are written over: a branch would often guess wrong.
        n_counted = 0
        for column in range(n_columns):
            place = counted[state_ptr[column] + codes[row_number, column] + 1]
            in_row[n_counted] = np.uint64(place)
            n_counted += place >= 0
        for a in range(n_counted):
            place = np.int64(in_row[a])
            if begin <= place < end:
                row = counts[place - begin]
                # Where all places are counted, each pair is counted once.
                for b in range(a if has_all else n_counted):
                    row[in_row[b]] += weight[row_number]
    for i in range(len(counts) if has_all else 0):
        for t in range(i):
            counts[t, i] = counts[i, t]


@kernel
def _count_bits(words: Words, begin: int, counts: Floats) -> None:
    """Count the rows of the pairs of places from their bits.

    ``counts[i, t]`` is the pair of place ``begin + i`` with place t.
    """
    n_cached = (_CACHED_WORDS // counts.shape[1] // 4 + 1) * 4
    for start in range(0, len(words), n_cached):
        for i in range(len(counts)):
            place = begin + i
            row = counts[i]
            # Four words at a time: the counts are read and written less often.
            for w in range(start, min(start + n_cached, len(words)), 4):
                words0 = words[w]
                words1 = words[w + 1]
                words2 = words[w + 2]
                words3 = words[w + 3]
                word0 = words0[place]
                word1 = words1[place]
                word2 = words2[place]
                word3 = words3[place]
                for t in range(len(row)):
                    count01 = popcount(word0 & words0[t]) + popcount(word1 & words1[t])
                    count23 = popcount(word2 & words2[t]) + popcount(word3 & words3[t])
                    row[t] += count01 + count23


def _restore_usual(places: Places, begin: int, counts: Floats) -> None:
    """Fill in the pairs of the most frequent states: what the other states leave of a place."""
    if not counts.size:
        return
    place_ptr = places.place_ptr
    usual = places.usual
    weight = places.weight
    end = begin + len(counts)
    starts = place_ptr[:-1]
    # Columns of the table: what the other states leave of each place.
    remainder = weight[begin:end, np.newaxis] - np.add.reduceat(counts, starts, axis=1)
    # Rounding must not leave less than nothing.
    counts[:, usual] = np.maximum(remainder, 0.0)
    # Rows of the table, of the columns whose places are counted here.
    columns = np.flatnonzero((starts >= begin) & (starts < end))
    rows = usual[columns] - begin
    counts[rows] = 0.0
    counted = np.add.reduceat(counts, starts[columns] - begin)
    remainder = weight - counted
    counts[rows] = np.maximum(remainder, 0.0)


def pack_states(codes: Codes, weight: Floats, places: Places) -> Words | None:
    """The rows as bits of their states, if they can be counted so, and sooner than one by one."""
    # Up to 16 states of a column, on average: with 500 columns of ten 5.1 times as fast as row by
    # row, with 40 states slower.
    is_sooner = len(places.weight) <= 16 * len(places.n_states)
    is_sooner &= codes.size * codes.shape[1] >= LEAST_PAIRS
    if is_sooner and places.are_complete and (weight == 1.0).all():
        cells = codes.T
        # A bit for each row and place.
        parts = slices(len(places.state), COLUMNS)
        states = ((places.column[part], places.state[part, np.newaxis]) for part in parts)
        return np.hstack([packed(cells[column] == state) for column, state in states])
    return None


def count_pairs(
    codes: Codes, weight: Floats, places: Places, begin: int, end: int, words: Words | None
) -> Floats:
    """Weight of the rows in the places of some columns, from ``begin`` to ``end``, and in each one.

    What is at two places of one column is of no use.
    """
    counts = np.zeros((end - begin, len(places.weight)))
    if words is not None:
        _count_bits(words, begin, counts)
    else:
        _count_pairs(codes, weight, places, begin, counts)
        _restore_usual(places, begin, counts)
    return counts


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
