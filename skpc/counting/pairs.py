"""Counts of the pairs of states that occur in the columns of a node.

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
