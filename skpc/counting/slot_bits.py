"""Rows that stay where they are, as a bit for each slot: 64 of them are counted at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel, popcount

#: Words that ``_count_pairs`` takes at a time; packed rows are padded to a multiple.
_WORD_BLOCK = 4


class SlotBits(NamedTuple):
    """Some rows as bits: ``words[w, s]`` tells which of rows ``64 w .. 64 w + 63`` are in slot s.

    States without a slot have their bits in more columns at the end, one for each column of the
    table: without any, each cell would take a branch, and with a single one, wait for the last.
    """

    words: NDArray[np.uint64]
    n_slots: int

    @classmethod
    def of(cls, codes: NDArray[np.int16], row: Ints, state_ptr: Ints, of_state: Ints) -> SlotBits:
        """Pack some rows of codes; the slots are those of :class:`~.pair_cells.Slots`."""
        n_words = -(-len(row) // (64 * _WORD_BLOCK)) * _WORD_BLOCK
        n_slots = int(of_state.max(initial=-1)) + 1
        words = np.zeros((n_words, n_slots + codes.shape[1]), np.uint64)
        column = np.repeat(np.arange(codes.shape[1]), np.diff(state_ptr))
        place = np.where(of_state < 0, n_slots + column, of_state)
        _pack(codes, row, state_ptr, place, words)
        return cls(words, n_slots)

    def pairs(self, chosen: NDArray[np.bool_]) -> Floats:
        """Numbers of the chosen rows in each pair of slots, the lower triangle row by row."""
        n_slots, octets = self.n_slots, np.zeros(len(self.words) * 8, np.uint8)
        packed = np.packbits(chosen, bitorder="little")
        octets[: len(packed)] = packed
        mask = octets.view("<u8").astype(np.uint64)
        found = np.empty(n_slots * (n_slots + 1) // 2)
        _count_pairs(self.words, mask, np.empty(n_slots, np.uint64), found)
        return found


@kernel
def _pack(
    codes: NDArray[np.int16],
    row: Ints,
    state_ptr: Ints,
    place: Ints,
    words: NDArray[np.uint64],
) -> None:
    """Set the bits of the places of each row, in words of zeros."""
    for i in range(len(row)):
        bit = np.uint64(1) << np.uint64(i & 63)
        cells, of_row = codes[row[i]], words[i >> 6]
        for v in range(codes.shape[1]):
            # Indices without a sign: a test for it would guess wrong for half of the cells.
            state = np.uint64(state_ptr[v] + cells[v] + 1)
            of_row[np.uint64(place[state])] |= bit


@kernel
def _count_pairs(
    words: NDArray[np.uint64], mask: NDArray[np.uint64], sums: NDArray[np.uint64], out: Floats
) -> None:
    """Count the rows of a mask in each pair of slots."""
    n_words, at = len(words), np.int64(0)
    for a in range(len(sums)):
        n_before = a + 1
        for b in range(n_before):
            sums[b] = 0
        for w in range(0, n_words, _WORD_BLOCK):
            words0, words1, words2, words3 = words[w], words[w + 1], words[w + 2], words[w + 3]
            of0, of1 = words0[a] & mask[w], words1[a] & mask[w + 1]
            of2, of3 = words2[a] & mask[w + 2], words3[a] & mask[w + 3]
            for b in range(n_before):
                sums[b] += (
                    popcount(of0 & words0[b])
                    + popcount(of1 & words1[b])
                    + popcount(of2 & words2[b])
                    + popcount(of3 & words3[b])
                )
        pairs = out[at : at + n_before]
        for b in range(n_before):
            pairs[b] = sums[b]
        at += n_before
