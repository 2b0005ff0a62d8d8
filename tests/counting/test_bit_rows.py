"""Rows counted as bits, against double loops."""

import numpy as np
import pytest

from skpc.counting import bit_rows
from skpc.counting.bit_rows import BitRows, fits_bits
from skpc.counting.trees import UNITS_PER_NAT, maximum_spanning_tree
from tests.naive import chow_liu

SHARE = np.array([0.5, 0.5])


@pytest.mark.parametrize("n", [1, 63, 64, 65, 300, 1000])
def test_pair_counts_of_bits_equal_a_double_loop(n):
    rng = np.random.default_rng(n)
    codes = (rng.random((n, 19)) < 0.4).astype(np.int16)
    rows = BitRows.pack(codes, np.ones(n), np.arange(19))
    for i in range(19):
        for j in range(i, 19):
            both = sum(int(a and b) for a, b in zip(codes[:, i], codes[:, j]))
            assert rows._pairs[i, j] == both


@pytest.mark.parametrize("n", [1, 64, 130, 700])
@pytest.mark.parametrize("density", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("most", [2, 64])
def test_selected_bits_are_the_rows_of_the_branch_in_order(n, density, most, monkeypatch):
    monkeypatch.setattr(bit_rows, "COLUMNS", most)
    rng = np.random.default_rng(n)
    codes = (rng.random((n, 5)) < 0.5).astype(np.int16)
    codes[:, 2] = rng.random(n) < density
    rows = BitRows.pack(codes, np.ones(n), np.arange(5))
    for state in range(2):
        chosen = np.delete(codes[codes[:, 2] == state], 2, axis=1)
        below = rows.branch(2, state, SHARE)
        again = BitRows.pack(chosen, np.ones(len(chosen)), np.array([0, 1, 3, 4]))
        np.testing.assert_array_equal(below.words, again.words)
        np.testing.assert_array_equal(below.variables, again.variables)


def test_bits_repeat_a_row_by_its_weight():
    codes = np.array([[0, 1], [1, 1], [1, 0]], dtype=np.int16)
    rows = BitRows.pack(codes, np.array([3.0, 100.0, 1.0]), np.arange(2))
    np.testing.assert_array_equal(rows._pairs[[0, 0, 1], [0, 1, 1]], [101, 100, 103])


@pytest.mark.parametrize(
    ("codes", "weight", "n_states", "expected"),
    [
        ([[0, 1]], [2.0], [2, 2], True),
        ([[0, -1]], [2.0], [2, 2], False),
        ([[0, 1]], [2.5], [2, 2], False),
        ([[0, 1]], [2.0], [2, 3], False),
        ([[0, 1]], [2.0**23], [2, 2], True),
        ([[0, 1]], [2.0**23 + 1], [2, 2], False),
        ([[0] * 1025], [2.0**21], [2] * 1025, False),
    ],
)
def test_only_complete_binary_rows_of_whole_weights_are_packed(codes, weight, n_states, expected):
    fits = fits_bits(np.array(codes, np.int16), np.array(weight), np.array(n_states))
    assert fits is expected


def test_packing_pads_to_whole_blocks_of_words():
    packed = [bit_rows.packed(np.ones((3, n), np.uint8)) for n in (0, 1, 256, 257)]
    assert [words.shape for words in packed] == [(0, 3), (4, 3), (4, 3), (8, 3)]


def edges_of(parent):
    return {(min(v, p), max(v, p)) for v, p in enumerate(parent) if p >= 0}


def binary_tree(codes, pseudo_count):
    """The tree and the sums of all columns of a binary array."""
    n, m = codes.shape
    pairs = (codes.T.astype(np.int64) @ codes).astype(np.uint32)
    ones = pairs.diagonal().copy()

    def plogp(x):
        return np.rint(x * np.log(x) * UNITS_PER_NAT).astype(np.int64)

    sides = np.array([n - ones.astype(float), ones]) + 2 * pseudo_count
    margin = plogp(sides).sum(axis=0) - plogp(n + 4 * pseudo_count) // 2
    parent = np.empty(m, np.int64)
    units, row_sums = np.empty((m, m), np.int64), np.zeros((2, m), np.int64)
    table = plogp(np.arange(n + 1) + pseudo_count)
    columns = np.arange(m, dtype=np.uint32)
    bit_rows._compare_pairs(pairs, ones, n, columns, table, margin, units, row_sums)
    maximum_spanning_tree(units, parent, chains=False)
    return parent.tolist(), row_sums


@pytest.mark.parametrize("pseudo_count", [0.025, 1.0])
@pytest.mark.parametrize("m", [1, 2, 9])
def test_the_binary_tree_equals_the_naive_one(m, pseudo_count):
    rng = np.random.default_rng(m)
    hidden = rng.random((300, 1))
    codes = (hidden + rng.random((300, m)) > rng.uniform(0.6, 1.6, m)).astype(np.int64)
    rows = [(row, 1.0) for row in codes.tolist()]

    def table(i, j):
        return chow_liu.pair_table(rows, i, j, [2] * m)

    def weight(pair):
        return chow_liu.mutual_information(chow_liu.smoothed(table(*pair), pseudo_count))

    parent, row_sums = binary_tree(codes, pseudo_count)
    assert edges_of(parent) == chow_liu.spanning_edges(list(range(m)), weight)
    for v in range(m):
        for state in range(2):
            cells = [c + pseudo_count for u in range(m) if u != v for c in table(v, u)[state]]
            expected = sum(c * np.log(c) for c in cells)
            assert row_sums[state, v] / UNITS_PER_NAT == pytest.approx(expected, abs=1e-5)


def test_of_equal_information_the_first_columns_win():
    assert binary_tree(np.zeros((10, 4), np.int64), 0.1)[0] == [-1, 0, 0, 0]
