"""Pairs of slots, counted as bits."""

import numpy as np
import pytest

from skpc.counting.counted_rows import complete_slots
from skpc.counting.slot_bits import SlotBits


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 300])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_pairs_are_those_that_a_look_at_each_row_finds(n_rows, k):
    rng = np.random.default_rng(n_rows + k)
    codes = rng.integers(0, k, (400, 5)).astype(np.int16)
    row = np.sort(rng.choice(400, n_rows, replace=False))
    chosen = rng.random(n_rows) < 0.6
    in_state = np.array([[0, *np.bincount(column, minlength=k)] for column in codes.T], float)
    slots = complete_slots(in_state.reshape(-1), np.full(5, k))
    found = SlotBits.of(codes, row, slots.state_ptr, slots.of_state).pairs(chosen)
    n_slots = len(slots.state)
    expected = np.zeros((n_slots, n_slots))
    for one in codes[row[chosen]]:
        of_row = slots.of_state[slots.state_ptr[:-1] + one + 1]
        for a in of_row[of_row >= 0]:
            for b in of_row[of_row >= 0]:
                expected[a, b] += 1
    np.testing.assert_array_equal(found, expected[np.tril_indices(n_slots)])
