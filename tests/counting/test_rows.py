"""Rows counted with weights, against a look at every cell of every pair, and against bits."""

import numpy as np
import pytest

import skpc.counting.pairs as counting_pairs
from skpc.counting.bit_rows import BitRows
from skpc.counting.rows import WeightedRows, count_state_pairs
from skpc.counting.tables import BayesDirichlet, Bic
from skpc.counting.trees import UNITS_PER_NAT
from tests.naive import chow_liu

#: One column has one state; the last one shows one state only, and another never its first.
N_STATES = np.array([3, 1, 12, 2, 5, 7])
EVEN = np.array([0.5, 0.5])


def codes_of(n_rows, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.4, (n_rows, len(N_STATES))), N_STATES) - 1
    codes[:, 4] = np.maximum(codes[:, 2] // 3, 1)
    codes[:, 5] = 6
    codes[rng.random(codes.shape) < missing] = -1
    return codes.astype(np.int16)


def pairs_of(codes, weight, n_states):
    """Tables of all pairs of columns, scaled up to the weight of all rows."""
    as_rows = list(zip(codes.tolist(), weight.tolist()))
    m = len(n_states)
    return {
        (i, j): chow_liu.pair_table(as_rows, i, j, n_states.tolist())
        for i in range(m)
        for j in range(m)
        if i != j
    }


@pytest.mark.parametrize("score", [BayesDirichlet(0.1), Bic(0.01, 300.0)])
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("at_once", [1, 40, 2**22])
@pytest.mark.parametrize("is_whole", [False, True])
def test_information_and_entropies_equal_their_definitions(
    score, missing, at_once, is_whole, monkeypatch
):
    monkeypatch.setattr("skpc.counting.information._MAX_COUNTS", at_once)
    # Many complete rows that weigh one each are counted as bits, here in several turns.
    monkeypatch.setattr(counting_pairs, "LEAST_PAIRS", 0)
    monkeypatch.setattr(counting_pairs, "_CACHED_WORDS", 1)
    n_rows = 600 if is_whole else 120
    codes = codes_of(n_rows, missing)
    weight = np.ones(n_rows) if is_whole else np.random.default_rng(1).random(n_rows)
    node = WeightedRows(codes, weight, np.arange(6), N_STATES)
    units, entropy = node.information(score)
    rows, expected = list(zip(codes.tolist(), weight.tolist())), np.zeros(6)
    for (i, j), table in pairs_of(codes, weight, N_STATES).items():
        pseudo_count = float(score.pseudo_count(N_STATES[i], N_STATES[j]))
        smoothed = chow_liu.smoothed(table, pseudo_count)
        information = weight.sum() * chow_liu.mutual_information(smoothed)
        if missing:
            information = chow_liu.information(rows, i, j, N_STATES.tolist(), pseudo_count, 6)
            information = max(information, 0.0)
        assert units[i, j] / UNITS_PER_NAT == pytest.approx(information, abs=1e-6)
        expected[i] += chow_liu.conditional_entropy(table, pseudo_count)
    np.testing.assert_allclose(entropy, expected, rtol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("at_once", [1, 2**22])
def test_tables_of_edges_equal_a_double_loop(missing, at_once, monkeypatch):
    monkeypatch.setattr("skpc.counting.information._MAX_COUNTS", at_once)
    codes, weight = codes_of(60, missing), np.random.default_rng(1).random(60)
    node = WeightedRows(codes, weight, np.arange(6), N_STATES)
    parent, is_told = np.array([-1, 4, 0, 2, 2, 0]), np.array([0, 1, 1, 1, 0, 1]) > 0
    tree = node.tree_along(parent, is_told)
    pairs = pairs_of(codes, weight, N_STATES)
    start = np.cumsum(np.where(is_told, N_STATES[parent], 1) * N_STATES)[:-1]
    dense = np.split(tree.tables.dense(), start)
    np.testing.assert_allclose(dense[0], node.state_counts(0), atol=1e-12)
    for v in range(1, 6):
        expected = node.state_counts(v)
        if is_told[v]:
            expected = np.ravel(pairs[int(parent[v]), v])
        np.testing.assert_allclose(dense[v], expected, atol=1e-12)


def test_a_column_that_few_rows_show_tells_others_nothing_by_chance():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (400, 4)).astype(np.int16)
    codes[:, 1] = (codes[:, 0] + (rng.random(400) < 0.3)) % 6
    codes[rng.random(400) < 0.9, 3] = -1
    node = WeightedRows(codes, np.ones(400), np.arange(4), np.full(4, 6))
    tables = node.tree(BayesDirichlet(0.1)).trees[0].tables
    assert tables.n_parent_states.tolist() == [1, 6, 6, 1]
    # Where it follows from another one, few rows are enough to tell.
    codes[:, 3] = np.where(codes[:, 3] < 0, -1, codes[:, 2])
    node = WeightedRows(codes, np.ones(400), np.arange(4), np.full(4, 6))
    tree = node.tree(BayesDirichlet(0.1)).trees[0]
    assert tree.parent[3] == 2
    assert tree.tables.n_parent_states.tolist() == [1, 6, 6, 6]


def test_columns_that_are_never_observed_together_have_no_information():
    codes = np.array([[0, -1], [1, -1], [-1, 0], [-1, 1]], np.int16)
    node = WeightedRows(codes, np.ones(4), np.arange(2), np.array([2, 2]))
    units, entropy = node.information(BayesDirichlet(0.1))
    assert not units.any()
    assert not entropy.any()
    assert np.isfinite(node.tree(BayesDirichlet(0.1)).score)


def test_state_counts_are_scaled_up_for_missing_cells():
    codes = np.array([[0, 0], [0, 1], [2, 0], [-1, 1]], dtype=np.int16)
    node = WeightedRows(codes, np.array([1.0, 0.5, 0.5, 2.0]), np.arange(2), np.array([3, 2]))
    np.testing.assert_allclose(node.state_counts(0), [3.0, 0.0, 1.0])
    np.testing.assert_allclose(node.state_counts(1), [1.5, 2.5])


def test_a_row_with_the_cut_missing_is_in_every_branch_with_its_share():
    codes = np.array([[0, 0], [1, 1], [-1, 1]], dtype=np.int16)
    node = WeightedRows(codes, np.array([1.0, 2.0, 4.0]), np.arange(2), np.array([2, 2]))
    share = np.array([0.25, 0.75])
    counts = [node.branch(0, state, share).state_counts(0).tolist() for state in range(2)]
    assert counts == [[1.0, 1.0], [0.0, 5.0]]


def test_what_the_counted_states_leave_is_never_negative():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (50, 6)).astype(np.int16)
    codes[:, 1] = codes[:, 0]
    node = WeightedRows(codes, rng.random(50) / 3, np.arange(6), np.full(6, 2))
    for tree in [node.tree(BayesDirichlet(0.1)), *node.branch_trees(0, BayesDirichlet(0.1), EVEN)]:
        assert (tree.trees[0].tables.weight >= 0).all()
        assert np.isfinite(tree.score)


def test_branches_without_rows_share_one_tree():
    node = WeightedRows(codes_of(100), np.ones(100), np.arange(6), N_STATES)
    trees = node.branch_trees(5, BayesDirichlet(0.1), np.full(7, 1 / 7))
    assert len({id(tree) for tree in trees}) == 2
    assert trees[0] is trees[5]


def test_a_row_of_weight_two_is_the_row_twice():
    codes, weight = codes_of(200), np.random.default_rng(1).integers(1, 4, 200)
    apart = np.repeat(codes, weight, axis=0)[::-1].copy()
    merged = WeightedRows(codes, weight.astype(float), np.arange(6), N_STATES)
    twice = WeightedRows(apart, np.ones(len(apart)), np.arange(6), N_STATES)
    one, other = merged.tree(BayesDirichlet(0.1)), twice.tree(BayesDirichlet(0.1))
    assert one.score == other.score
    np.testing.assert_array_equal(one.entropy, other.entropy)


def test_bits_and_weights_learn_the_same_trees():
    rng = np.random.default_rng(3)
    codes = (rng.random((200, 12)) < rng.random(12)).astype(np.int16)
    weight = rng.integers(1, 5, 200).astype(float)
    variables, score = np.arange(12), BayesDirichlet(0.1)
    bits = BitRows.pack(codes, weight, variables)
    weighted = WeightedRows(codes, weight, variables, np.full(12, 2))
    pairs = [(bits.tree(score), weighted.tree(score))]
    pairs += zip(bits.branch_trees(4, score, EVEN), weighted.branch_trees(4, score, EVEN))
    for one, other in pairs:
        np.testing.assert_array_equal(one.trees[0].parent, other.trees[0].parent)
        assert one.score == pytest.approx(other.score, rel=1e-12)
        # Both ways round the information: a millionth of a nat is far above what that does.
        np.testing.assert_allclose(one.entropy, other.entropy, atol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("n_states", [(2, 2, 2), (3, 1, 2, 5)])
def test_all_pairs_of_states_are_those_of_a_double_loop(n_states, missing):
    rng = np.random.default_rng(len(n_states))
    codes = rng.integers(0, n_states, (50, len(n_states)))
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.random(50)
    pairs = count_state_pairs(codes, weight, np.array(n_states))
    ptr = np.concatenate([[0], np.cumsum(n_states)])
    for i in range(len(n_states)):
        for j in range(len(n_states)):
            table = np.zeros((n_states[i], n_states[j]))
            for row, w in zip(codes, weight):
                if row[i] >= 0 and row[j] >= 0:
                    table[row[i], row[j]] += w
            part = pairs[ptr[i] : ptr[i + 1], ptr[j] : ptr[j + 1]]
            np.testing.assert_allclose(part, table, atol=1e-12)
    assert (pairs >= 0.0).all()
    np.testing.assert_array_equal(pairs, pairs.T)
