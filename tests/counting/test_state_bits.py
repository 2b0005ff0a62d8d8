"""Counts from bits of states against those row by row."""

import numpy as np
import pytest

from skpc._threads import threads
from skpc.counting import BayesDirichlet, Bic, WeightedRows, state_bits
from skpc.counting.state_bits import StateRows, fits_state_bits

#: The last column of states occurs in one of them only, and the first state of another nowhere.
N_STATES = np.array([3, 1, 12, 2, 5, 7])


def codes_of(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, N_STATES, (n_rows, len(N_STATES)))
    codes[:, 4] = np.maximum(codes[:, 2] // 3, 1)
    codes[:, 5] = 6
    return codes.astype(np.int16)


def both(codes, weight):
    variables = np.arange(len(N_STATES))
    one = WeightedRows(codes, weight, variables, N_STATES)
    return one, StateRows.of(codes, weight, variables, N_STATES)


def check_same(one, other):
    np.testing.assert_array_equal(one.tree.parent, other.tree.parent)
    np.testing.assert_array_equal(one.tree.variables, other.tree.variables)
    assert other.score == pytest.approx(one.score, rel=1e-10)
    np.testing.assert_allclose(other.entropy, one.entropy, rtol=1e-9, atol=1e-7)
    pseudo_count = np.ones(len(one.tree.parent))
    expected = one.tree.tables.log_probabilities(pseudo_count)
    for a, b in zip(expected, other.tree.tables.log_probabilities(pseudo_count), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-12)


@pytest.mark.parametrize("score", [BayesDirichlet(0.1), Bic(0.01, 300.0)])
@pytest.mark.parametrize("n_rows", [63, 300, 2000])
def test_trees_and_those_of_branches_are_those_of_rows_counted_one_by_one(score, n_rows):
    one, other = both(codes_of(n_rows), np.ones(n_rows))
    check_same(one.tree(score), other.tree(score))
    for column in (0, 2, 5):
        np.testing.assert_array_equal(one.state_counts(column), other.state_counts(column))
        even = np.full(N_STATES[column], 1.0 / N_STATES[column])
        below = score.after_cut(len(even))
        trees = one.branch_trees(column, below, even), other.branch_trees(column, below, even)
        for a, b in zip(*trees, strict=True):
            check_same(a, b)
        branches = one.branch(column, 0, even), other.branch(column, 0, even)
        if n_rows == 2000 and column < 5:
            check_same(*(branch.tree(below) for branch in branches))


@pytest.mark.parametrize("n_parts", [1, 3])
def test_logarithms_from_a_table_and_parts_of_the_columns_change_no_tree(monkeypatch, n_parts):
    n_states = np.tile([3, 1, 4, 2], 20)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_states, (150, 80)).astype(np.int16)
    codes[:, 4:] = np.where(rng.random((150, 76)) < 0.5, codes[:, 4:], codes[:, :-4])
    one, other = (
        kind(codes, np.ones(150), np.arange(80), n_states) for kind in (WeightedRows, StateRows.of)
    )
    tabulated = []
    fill = state_bits._tabulate
    monkeypatch.setattr(
        state_bits, "_tabulate", lambda t: tabulated.append(t.terms.size) or fill(t)
    )
    monkeypatch.setattr(state_bits, "_WORK_A_PART", 1e9 if n_parts == 1 else 1.0)
    monkeypatch.setattr(state_bits, "_MOST_PARTS", n_parts)
    with threads(2):
        check_same(one.tree(BayesDirichlet(0.1)), other.tree(BayesDirichlet(0.1)))
    assert min(tabulated) > 0


def test_a_row_of_weight_two_is_the_row_twice():
    codes, weight = codes_of(200), np.random.default_rng(1).integers(1, 4, 200)
    variables = np.arange(len(N_STATES))
    merged = StateRows.of(codes, weight.astype(float), variables, N_STATES)
    apart = np.repeat(codes, weight, axis=0)[::-1].copy()
    twice = StateRows.of(apart, np.ones(len(apart)), variables, N_STATES)
    one, other = merged.tree(BayesDirichlet(0.1)), twice.tree(BayesDirichlet(0.1))
    assert one.score == other.score
    np.testing.assert_array_equal(one.entropy, other.entropy)


def test_missing_cells_many_states_and_parts_of_rows_are_counted_otherwise():
    codes, weight = codes_of(100), np.ones(100)
    assert fits_state_bits(codes, weight, N_STATES)
    assert not fits_state_bits(codes, 0.5 * weight, N_STATES)
    assert not fits_state_bits(codes, weight, 10 * N_STATES)
    assert not fits_state_bits(codes[:, :2], weight, N_STATES[:2])
    codes[3, 0] = -1
    assert not fits_state_bits(codes, weight, N_STATES)
