from collections import Counter
from itertools import product

import numpy as np
import pytest

from skpc.all_trees import (
    TreeTables,
    log_evidence,
    sample_missing,
    sample_spanning_trees,
    tree_marginals,
)
from tests.naive import spanning_trees as naive


def random_tables(n_states, seed, zeros=0.0):
    """Tables that stand alone, and arranged."""
    rng = np.random.default_rng(seed)

    def rows(n, k):
        table = rng.dirichlet(np.ones(k), n) * (rng.random((n, k)) >= zeros)
        table[:, 0] += 1e-3
        return table / table.sum(axis=1, keepdims=True)

    root = [rows(1, k)[0] for k in n_states]
    pairs = [(u, v) for u in range(len(n_states)) for v in range(len(n_states)) if u != v]
    given = {(u, v): rows(n_states[u], n_states[v]) for u, v in pairs}
    return root, given, TreeTables.of(root, given)


def all_codes(n_states):
    """All rows, with and without missing cells."""
    return np.array(list(product(*[range(-1, k) for k in n_states])))


TREES = [
    ([2], [-1]),
    ([3, 2], [1, -1]),
    ([2, 5, 3], [1, -1, 1]),
    ([2, 3, 4, 2], [-1, 0, 1, 2]),
    ([4, 2, 3, 2], [-1, 0, -1, 2]),
    ([2, 2, 2, 2, 3], [4, 4, 1, 1, -1]),
]


@pytest.mark.parametrize(("n_states", "parent"), TREES)
def test_evidence_is_the_sum_over_all_completions(n_states, parent):
    root, given, tables = random_tables(n_states, seed=len(n_states))
    codes = all_codes(n_states)
    expected = [naive.tree_evidence(parent, code, root, given) for code in codes.tolist()]
    found = log_evidence(tables, [parent], codes)[:, 0]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-13)


@pytest.mark.parametrize(("n_states", "parent"), TREES)
def test_marginals_are_ratios_of_evidence(n_states, parent):
    root, given, tables = random_tables(n_states, seed=10 + len(n_states))
    codes = all_codes(n_states)
    found = tree_marginals(tables, [parent] * len(codes), codes)
    for row, code in enumerate(codes.tolist()):
        whole = naive.tree_evidence(parent, code, root, given)
        for v, k in enumerate(n_states):
            for state in range(k):
                changed = [*code[:v], state, *code[v + 1 :]]
                part = naive.tree_evidence(parent, changed, root, given)
                expected = part / whole if code[v] < 0 else float(code[v] == state)
                assert found[row, tables.ptr[v] + state] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(("n_states", "parent"), TREES)
def test_draws_come_as_often_as_their_conditional_probability(n_states, parent):
    root, given, tables = random_tables(n_states, seed=20 + len(n_states), zeros=0.3)
    n_draws = 20_000
    for code in ([-1] * len(n_states), [*([-1] * (len(n_states) - 1)), 0]):
        drawn = sample_missing(tables, [parent] * n_draws, [code] * n_draws, seed=3)
        found = Counter(map(tuple, drawn.tolist()))
        whole = naive.tree_evidence(parent, code, root, given)
        rows = naive.completions(code, n_states)
        expected = {r: naive.tree_probability(parent, r, root, given) / whole for r in rows}
        assert set(found) <= {row for row, p in expected.items() if p > 0}
        for row, p in expected.items():
            assert abs(found[row] - n_draws * p) <= 6 * np.sqrt(n_draws * p) + 6


def test_every_row_is_scored_in_every_tree():
    n_states = [2, 3, 2, 4, 5, 2, 3]
    _, _, tables = random_tables(n_states, 0)
    trees = sample_spanning_trees(np.ones((7, 7)), np.ones(7), n_trees=5, seed=1)
    codes = np.random.default_rng(0).integers(-1, n_states, (4, 7))
    found = log_evidence(tables, trees, codes)
    assert found.shape == (4, 5)
    for row in range(4):
        for tree in range(5):
            alone = log_evidence(tables, trees[[tree]], codes[[row]])
            assert alone[0, 0] == found[row, tree]


@pytest.mark.parametrize("shape", ["star", "chain", "forest"])
def test_a_row_of_many_unlikely_cells_does_not_underflow(shape):
    n = 500
    parents = {"star": [-1, *[0] * (n - 1)], "chain": [-1, *range(n - 1)], "forest": [-1] * n}
    tables = TreeTables.of([[1 - 1e-9, 1e-9]] * n, {})
    code = np.ones(n, np.int64)
    found = log_evidence(tables, [parents[shape]], [code])[0, 0]
    assert found == pytest.approx(n * np.log(1e-9), rel=1e-12)
    code[0] = -1
    found = log_evidence(tables, [parents[shape]], [code])[0, 0]
    assert found == pytest.approx((n - 1) * np.log(1e-9), rel=1e-12)
    marginals = tree_marginals(tables, [parents[shape]], [code])[0]
    np.testing.assert_allclose(marginals[:2], [1 - 1e-9, 1e-9], rtol=1e-9)


def test_impossible_cells_have_probability_zero_and_no_marginals():
    identity = TreeTables.of([[0.5, 0.5]] * 3, {(0, 1): np.eye(2), (1, 2): np.eye(2)})
    chain, codes = [[-1, 0, 1]], [[0, -1, 1]]
    assert log_evidence(identity, chain, codes)[0, 0] == -np.inf
    with pytest.raises(ValueError, match="observed cells of row 0 are impossible"):
        tree_marginals(identity, chain, codes)
    with pytest.raises(ValueError, match="observed cells of row 0 are impossible"):
        sample_missing(identity, chain, codes)
    np.testing.assert_array_equal(sample_missing(identity, chain, [[-1, -1, 1]]), [[1, 1, 1]])


def test_pairs_that_are_left_out_are_independent():
    tables = TreeTables.of([[0.25, 0.75], [0.5, 0.5]], {})
    assert np.exp(log_evidence(tables, [[1, -1]], [[1, 0]])[0, 0]) == pytest.approx(0.375)


@pytest.mark.parametrize(
    ("parents", "codes", "message"),
    [
        ([[-1, 0, 0]], [[0, 0]], r"parents must have shape \(n_trees, 2\); found \(1, 3\)"),
        ([[-1, 0]], [0, 0], r"codes must have shape \(n_rows, 2\); found \(2,\)"),
        ([[-1, 0]], [[0, 3]], r"codes\[0, 1\] must be a state in 0..2 or -1 .* found 3"),
        ([[-1, 2]], [[0, 0]], r"Parents must be in 0..1, or -1 for roots; found 2"),
        ([[-1, 1]], [[0, 0]], r"above vertex 1 of tree 0 must not form a cycle"),
        ([[1, 0]], [[0, 0]], r"above vertex 0 of tree 0 must not form a cycle"),
        ([[-1, 0]] * 2, [[0, 0]], "Every row needs one tree; found 2 trees, 1 rows"),
    ],
)
def test_what_is_no_tree_or_row_is_refused(parents, codes, message):
    tables = random_tables([2, 3], 0)[2]
    with pytest.raises(ValueError, match=message):
        tree_marginals(tables, parents, codes)


def test_tables_that_do_not_fit_are_refused():
    tables = random_tables([2, 3], 0)[2]
    with pytest.raises(ValueError, match=r"conditional must have shape \(5, 6\); found \(5, 5\)"):
        log_evidence(tables._replace(conditional=tables.conditional[:, :5]), [[-1, 0]], [[0, 0]])


def test_read_only_and_other_arrays_are_read_alike():
    tables = random_tables([2, 3], 0)[2]
    frozen = np.asfortranarray(tables.conditional)
    frozen.flags.writeable = False
    codes = np.array([[0, -1], [-1, 2]])
    expected = log_evidence(tables, [[-1, 0]], codes)
    other = tables._replace(conditional=frozen, ptr=tables.ptr.astype(np.int32))
    np.testing.assert_array_equal(log_evidence(other, [[-1, 0]], codes.astype(np.int16)), expected)
