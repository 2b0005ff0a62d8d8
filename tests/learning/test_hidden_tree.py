"""Trees of hidden variables beside sums over all hidden states."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import HiddenChowLiuTree
from skpc._fitting import Rows
from skpc._threads import threads
from skpc.learning.hidden_tree import HiddenTree, hidden_tree_circuit
from skpc.learning.hidden_tree_search import (
    TreeRows,
    choose_hidden_tree,
    learn_hidden_tree,
    spread_rows,
)
from skpc.queries import log_likelihood
from tests.naive import hidden_tree as naive

PARENTS = ([-1], [-1, 0, 1], [1, -1, 1, 0], [3, 0, 0, -1])


def random_tree(parent, n_hidden, seed, n_states=None):
    """A tree, and columns of two to four states."""
    rng = np.random.default_rng(seed)
    n_states = rng.integers(2, 5, len(parent)) if n_states is None else n_states
    return HiddenTree(
        np.array(parent),
        rng.dirichlet(np.ones(n_hidden)),
        rng.dirichlet(np.ones(n_hidden), (len(parent), n_hidden)),
        [rng.dirichlet(np.ones(count), n_hidden) for count in n_states],
    )


def random_rows(tree, n_rows, seed, missing=0.3):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, table.shape[1], n_rows) for table in tree.emission]
    codes = np.column_stack(columns)
    return np.where(rng.random(codes.shape) < missing, -1, codes)


@pytest.mark.parametrize("parent", PARENTS, ids=str)
@pytest.mark.parametrize("n_hidden", [1, 3])
def test_the_likelihood_sums_over_all_hidden_states(parent, n_hidden):
    tree = random_tree(parent, n_hidden, seed=0)
    codes = random_rows(tree, 20, seed=1)
    truth = [np.log(naive.likelihood(*tree, row)) for row in codes]
    assert_allclose(tree.log_likelihood(codes), truth, rtol=1e-12)


@pytest.mark.parametrize("parent", PARENTS, ids=str)
def test_the_circuit_of_a_tree_has_its_likelihood(parent):
    tree = random_tree(parent, 3, seed=2)
    codes = random_rows(tree, 20, seed=3)
    circuit = hidden_tree_circuit(tree)
    rows = np.where(codes < 0, np.nan, codes)
    assert circuit.smooth
    assert circuit.decomposable
    assert_allclose(log_likelihood(circuit, rows), tree.log_likelihood(codes), rtol=1e-12)


@pytest.mark.parametrize("parent", PARENTS, ids=str)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_expected_counts_are_sums_over_all_hidden_states(parent, n_jobs, monkeypatch):
    tree = random_tree(parent, 3, seed=4)
    rows = Rows(random_rows(tree, 15, seed=5), np.random.default_rng(6).uniform(1, 3, 15))
    monkeypatch.setattr("skpc.learning.hidden_tree._PART_ROWS", 4)
    monkeypatch.setattr("skpc._threads._WORTH_IT", 0.0)
    with threads(n_jobs):
        found = tree.expected(rows.rows, rows.weight)
    first, transition, emission = naive.expected_counts(*tree, rows.rows, rows.weight)
    assert_allclose(found.root, first, rtol=1e-10)
    assert_allclose(found.transition, transition, rtol=1e-10, atol=1e-12)
    by_state = np.concatenate([np.transpose(table) for table in emission])
    assert_allclose(found.by_state, by_state, rtol=1e-10, atol=1e-12)


def test_an_em_step_raises_the_likelihood_of_its_rows():
    tree = random_tree([-1, 0, 1, 1], 3, seed=7)
    rows = Rows(random_rows(tree, 400, seed=8), np.ones(400))
    share = [np.full(table.shape[1], 1 / table.shape[1]) for table in tree.emission]
    before = tree.log_likelihood(rows.rows).mean()
    for _ in range(5):
        tree = tree.expected(rows.rows, rows.weight).tree(tree.parent, share)
        after = tree.log_likelihood(rows.rows).mean()
        assert after > before
        before = after


def sampled(tree, n_rows, seed):
    """Complete rows of a tree whose columns stand after their parents."""
    rng = np.random.default_rng(seed)
    hidden = np.empty((n_rows, len(tree.parent)), dtype=np.int64)
    codes = np.empty_like(hidden)
    for v, above in enumerate(tree.parent):
        table = tree.root_share[np.newaxis] if above < 0 else tree.transition[v]
        rows = table[np.zeros(n_rows, np.int64) if above < 0 else hidden[:, above]]
        for out, lines in ((hidden, rows), (codes, None)):
            lines = tree.emission[v][hidden[:, v]] if lines is None else lines
            out[:, v] = (rng.random(n_rows)[:, np.newaxis] > np.cumsum(lines, axis=1)).sum(axis=1)
    return codes


def table_of(codes, n_states):
    rows = Rows(codes, np.ones(len(codes)))
    return TreeRows.from_codes(rows, codes.astype(float), np.array(n_states))


def test_a_tree_of_hidden_variables_is_learned_nearly_as_good_as_the_true_one():
    true = random_tree([-1, 0, 1, 1, 3, 3], 4, seed=9, n_states=[4] * 6)
    codes, held_out, fresh = (
        sampled(true, n, seed) for n, seed in ((8000, 0), (1000, 1), (3000, 2))
    )
    table, watched = table_of(codes, [4] * 6), Rows(held_out, np.ones(1000))
    tree, choice = choose_hidden_tree(table, watched, None, 2, 0, lambda done: None)
    best = true.log_likelihood(fresh).mean()
    assert tree.log_likelihood(fresh).mean() > best - 0.03
    again = learn_hidden_tree(table, choice, 0)
    assert_array_equal(again.transition, tree.transition)


def test_columns_without_a_second_state_are_leaves_of_the_product():
    codes = np.column_stack([np.zeros(50, np.int64), np.arange(50) % 2, np.arange(50) % 2])
    table = table_of(codes, [1, 2, 2])
    tree, _ = choose_hidden_tree(table, table.rows, 2, 2, 0, lambda done: None)
    assert tree.parent.tolist() == [1, -1, 1]
    assert_allclose(
        log_likelihood(hidden_tree_circuit(tree), [[0.0, np.nan, np.nan]]), [0.0], atol=1e-15
    )


def test_hidden_states_that_are_never_reached_are_left_out():
    chain = [-1, 0, 1]
    tree = random_tree(chain, 3, seed=10)
    transition = tree.transition.copy()
    transition[1, :, 2] = 0.0
    transition /= transition.sum(axis=2, keepdims=True)
    tree = tree._replace(transition=transition)
    circuit, codes = hidden_tree_circuit(tree), random_rows(tree, 10, seed=11)
    assert len(circuit.kind) < len(hidden_tree_circuit(random_tree(chain, 3, seed=10)).kind)
    rows = np.where(codes < 0, np.nan, codes)
    assert_allclose(log_likelihood(circuit, rows), tree.log_likelihood(codes), rtol=1e-12)


def test_hidden_states_of_a_column_without_others_below_it_are_summed_out():
    star = hidden_tree_circuit(random_tree([-1, 0, 0], 3, seed=10))
    # A leaf of each column and a product for each hidden state of the root, and the sum above them.
    assert star.n_nodes == 3 * (3 + 1) + 1
    assert star.n_edges == 3 * 3 + 3


def test_batches_share_the_weight_of_heavy_rows():
    weight = np.append(np.ones(3000), [500.0, 40.0])
    order, pieces = spread_rows(weight, 20, np.random.RandomState(0))
    assert_allclose(np.bincount(order, pieces), weight)
    batches = [pieces[part].sum() for part in np.array_split(np.arange(len(order)), 20)]
    assert_allclose(batches, weight.sum() / 20, rtol=0.05)


def test_rows_of_equal_weight_stay_whole():
    order, pieces = spread_rows(np.full(300, 2.0), 4, np.random.RandomState(0))
    assert_array_equal(np.sort(order), np.arange(300))
    assert_array_equal(pieces, np.full(300, 2.0))


def test_a_column_of_many_categories_starts_with_as_many_hidden_states():
    """The start is chosen at the size that is kept, not at a smaller one."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 60, 1500)
    other = np.where(rng.random(1500) < 0.7, kind, rng.integers(0, 60, 1500))
    X = np.char.add("code ", np.column_stack([kind, other]).astype(str))
    chosen, given = (
        HiddenChowLiuTree(n_hidden=n, random_state=0).fit(X[:1000]) for n in ("auto", 64)
    )
    assert chosen.n_hidden_ == 64
    assert chosen.score(X[1000:]) >= given.score(X[1000:])
