import numpy as np
import pytest

from skpc.counting import BayesDirichlet
from skpc.counting import bit_counts as _bit_counts
from skpc.counting import weighted_counts as _weighted_counts
from skpc.counting.bit_counts import BitRows, fits_bits
from skpc.counting.pair_cells import _cells
from skpc.counting.weighted_counts import WeightedRows
from tests.naive import chow_liu

SHARE = np.array([0.5, 0.5])


def naive_rows(codes, weight):
    return list(zip(codes.tolist(), weight.tolist()))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 300, 1000])
def test_pair_counts_of_bits_equal_a_double_loop(n):
    rng = np.random.default_rng(n)
    codes = (rng.random((n, 19)) < 0.4).astype(np.int16)
    rows = BitRows.pack(codes, np.ones(n), np.arange(19))
    for i in range(19):
        for j in range(19):
            both = sum(int(a and b) for a, b in zip(codes[:, i], codes[:, j]))
            assert rows._pairs[i, j] == both


@pytest.mark.parametrize("n", [1, 64, 130, 700])
@pytest.mark.parametrize("density", [0.02, 0.5, 0.97])
def test_selected_bits_are_the_rows_of_the_branch_in_order(n, density):
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


@pytest.mark.parametrize("at_once", [1, 2**26])
def test_bits_repeat_a_row_by_its_weight(at_once, monkeypatch):
    monkeypatch.setattr(_bit_counts, "_PACKED_AT_ONCE", at_once)
    codes = np.array([[0, 1], [1, 1], [1, 0]], dtype=np.int16)
    rows = BitRows.pack(codes, np.array([3.0, 100.0, 1.0]), np.arange(2))
    np.testing.assert_array_equal(rows._pairs, [[101, 100], [100, 103]])


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
    found = fits_bits(np.array(codes, np.int16), np.array(weight), np.array(n_states))
    assert found is expected


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("wide", [False, True])
def test_cells_of_weighted_rows_equal_a_double_loop(missing, wide, monkeypatch):
    if wide:
        monkeypatch.setattr(_weighted_counts, "_MAX_COLUMN_SLOTS", 1)
    rng = np.random.default_rng(0)
    n_states = np.array([2, 5, 3, 4, 2])
    codes = np.column_stack([np.minimum(rng.geometric(0.5, 60), k) - 1 for k in n_states])
    codes = codes.astype(np.int16)
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.random(60)
    rows = WeightedRows(codes, weight, np.arange(5), n_states)
    workspace = _weighted_counts._make_workspace(rows._slots, 60)
    assert rows._slots.wide.any() == wide
    for i in range(5):
        for j in set(range(5)) - {i}:
            table = np.zeros((n_states[i], n_states[j]))
            n = _cells(rows._slots, rows._counts, workspace, i, j)
            row, column, held = workspace[:3]
            table[row[:n], column[:n]] = held[:n]
            expected = chow_liu.pair_table(naive_rows(codes, weight), i, j, n_states.tolist())
            np.testing.assert_allclose(table, expected, atol=1e-12)


def test_state_counts_are_scaled_up_for_missing_cells():
    codes = np.array([[0, 0], [0, 1], [2, 0], [-1, 1]], dtype=np.int16)
    rows = WeightedRows(codes, np.array([1.0, 0.5, 0.5, 2.0]), np.arange(2), np.array([3, 2]))
    np.testing.assert_allclose(rows.state_counts(0), [3.0, 0.0, 1.0])
    np.testing.assert_allclose(rows.state_counts(1), [1.5, 2.5])


def test_a_row_with_the_cut_missing_is_in_every_branch_with_its_share():
    codes = np.array([[0, 0], [1, 1], [-1, 1]], dtype=np.int16)
    rows = WeightedRows(codes, np.array([1.0, 2.0, 4.0]), np.arange(2), np.array([2, 2]))
    share = np.array([0.25, 0.75])
    counts = [rows.branch(0, state, share).state_counts(0).tolist() for state in range(2)]
    assert counts == [[1.0, 1.0], [0.0, 5.0]]


def test_subtracted_counts_are_never_negative():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (50, 6)).astype(np.int16)
    codes[:, 1] = codes[:, 0]
    rows = WeightedRows(codes, rng.random(50) / 3, np.arange(6), np.full(6, 2))
    for tree in rows.branch_trees(0, BayesDirichlet(0.1), SHARE):
        assert (tree.tree.tables.weight >= 0).all()
        assert np.isfinite(tree.score)


@pytest.mark.parametrize("wide", [False, True])
def test_both_ways_of_counting_learn_the_same_trees(wide, monkeypatch):
    if wide:
        monkeypatch.setattr(_weighted_counts, "_MAX_SLOTS", 6)
    rng = np.random.default_rng(3)
    codes = (rng.random((200, 12)) < rng.random(12)).astype(np.int16)
    weight = rng.integers(1, 5, 200).astype(float)
    variables, score = np.arange(12), BayesDirichlet(0.1)
    bits = BitRows.pack(codes, weight, variables)
    weighted = WeightedRows(codes, weight, variables, np.full(12, 2))
    pairs = [(bits.tree(score), weighted.tree(score))]
    pairs += zip(bits.branch_trees(4, score, SHARE), weighted.branch_trees(4, score, SHARE))
    for one, other in pairs:
        np.testing.assert_array_equal(one.tree.parent, other.tree.parent)
        assert one.score == pytest.approx(other.score, rel=1e-12)
        # Both ways round the information: a millionth of a nat is far above what that does.
        np.testing.assert_allclose(one.entropy, other.entropy, atol=1e-5)


def test_packing_pads_to_whole_blocks_of_words():
    assert [_bit_counts._padded_words(n) for n in (0, 1, 256, 257)] == [0, 4, 4, 8]
