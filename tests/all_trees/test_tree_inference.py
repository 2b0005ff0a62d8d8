from collections import Counter
from itertools import product

import numpy as np
import pytest

from skpc._arrays import offsets
from skpc._random import start_streams
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_inference import (
    TreeTables,
    draw_each,
    pass_down,
    pass_up,
    tree_order,
)
from tests.naive import spanning_trees as naive


def arranged(root, given):
    """Tables that stand alone, as all trees share them; pairs left out are independent."""
    ptr = offsets([*map(len, root), 1])
    alone = np.concatenate(root)
    conditional = np.repeat(alone[:, np.newaxis], len(alone) + 1, axis=1)
    for (u, v), table in given.items():
        conditional[ptr[v] : ptr[v + 1], ptr[u] : ptr[u + 1]] = np.transpose(table)
    return TreeTables(ptr, conditional, np.ones((len(root), len(root) + 1)))


def passed_up(tables, parent, code):
    """Arrays as the passes take them, and the log probability of the observed cells."""
    parent, code = np.array(parent), np.array(code)
    order, below = np.empty_like(parent), np.empty(tables.ptr[-1])
    tree_order(parent, order)
    return parent, order, code, below, pass_up(tables, parent, order, code, below)


def log_evidence(tables, parent, code):
    return passed_up(tables, parent, code)[-1]


def tree_marginals(tables, parent, code):
    parent, order, code, below, _ = passed_up(tables, parent, code)
    belief = np.empty_like(below)
    pass_down(tables, parent, order, code, below, belief)
    return belief[:-1]


def drawn(tables, parents, codes, seed=0):
    filled = np.array(codes)
    draw_each(tables, np.array(parents), start_streams(seed, len(filled)), filled)
    return filled


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
    return root, given, arranged(root, given)


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
    found = [log_evidence(tables, parent, code) for code in codes]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-13)


@pytest.mark.parametrize(("n_states", "parent"), TREES)
def test_marginals_are_ratios_of_evidence(n_states, parent):
    root, given, tables = random_tables(n_states, seed=10 + len(n_states))
    codes = all_codes(n_states)
    found = np.array([tree_marginals(tables, parent, code) for code in codes])
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
        draws = drawn(tables, [parent] * n_draws, [code] * n_draws, seed=3)
        found = Counter(map(tuple, draws.tolist()))
        whole = naive.tree_evidence(parent, code, root, given)
        rows = naive.completions(code, n_states)
        expected = {r: naive.tree_probability(parent, r, root, given) / whole for r in rows}
        assert set(found) <= {row for row, p in expected.items() if p > 0}
        for row, p in expected.items():
            assert abs(found[row] - n_draws * p) <= 6 * np.sqrt(n_draws * p) + 6


def test_what_memory_holds_by_chance_does_not_matter():
    n_states = [2, 3, 2, 4, 5, 2, 3]
    _, _, tables = random_tables(n_states, 0)
    trees, _ = draw_trees(np.ones((7, 8)), 5, np.uint64(1))
    codes = np.random.default_rng(0).integers(-1, n_states, (4, 7))
    order, below = np.empty(7, np.int64), np.full(tables.ptr[-1], np.nan)
    for parent in trees:
        tree_order(parent, order)
        for code in codes:
            found = pass_up(tables, parent, order, code, below)
            assert found == log_evidence(tables, parent, code)


@pytest.mark.parametrize("shape", ["star", "chain", "forest"])
def test_a_row_of_many_unlikely_cells_does_not_underflow(shape):
    n = 500
    parents = {"star": [-1, *[0] * (n - 1)], "chain": [-1, *range(n - 1)], "forest": [-1] * n}
    tables = arranged([[1 - 1e-9, 1e-9]] * n, {})
    code = np.ones(n, np.int64)
    found = log_evidence(tables, parents[shape], code)
    assert found == pytest.approx(n * np.log(1e-9), rel=1e-12)
    code[0] = -1
    found = log_evidence(tables, parents[shape], code)
    assert found == pytest.approx((n - 1) * np.log(1e-9), rel=1e-12)
    marginals = tree_marginals(tables, parents[shape], code)
    np.testing.assert_allclose(marginals[:2], [1 - 1e-9, 1e-9], rtol=1e-9)


def test_impossible_cells_have_probability_zero_and_are_never_drawn():
    identity = arranged([[0.5, 0.5]] * 3, {(0, 1): np.eye(2), (1, 2): np.eye(2)})
    assert log_evidence(identity, [-1, 0, 1], [0, -1, 1]) == -np.inf
    np.testing.assert_array_equal(drawn(identity, [[-1, 0, 1]], [[-1, -1, 1]]), [[1, 1, 1]])


def test_pairs_that_are_left_out_are_independent():
    tables = arranged([[0.25, 0.75], [0.5, 0.5]], {})
    assert np.exp(log_evidence(tables, [1, -1], [1, 0])) == pytest.approx(0.375)
