"""Draws of missing cells from trees that share their edges."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skpc.counting import BayesDirichlet, ChowLiuTree, count_rows
from skpc.learning import draw_states, filling, learn_shared_trees
from skpc.learning.filling import SharedTrees
from skpc.learning.filling_passes import draw_rows, with_told
from tests.naive import filling as naive

N_STATES = np.array([2, 3, 2, 1, 3, 2])
PARENT = np.array([-1, 4, 0, 1, 0, 1])


def tree_of(parent=PARENT):
    return ChowLiuTree(np.arange(len(parent)), np.array(parent), None)


def random_trees(n_components, seed=0, parent=PARENT, n_states=N_STATES):
    trees = SharedTrees.of(tree_of(parent), n_states, n_components)
    rng = np.random.default_rng(seed)
    for table in trees.tables(trees.prob):
        table[:] = rng.gamma(0.5, size=table.shape)
        table /= table.sum(axis=1, keepdims=True)
    return trees._replace(share=rng.dirichlet(np.full(n_components, 3.0)))


@pytest.mark.parametrize("n_components", [1, 3, 8, 19])
@pytest.mark.parametrize("hidden", [[0], [4], [0, 1], [0, 4], [1, 3, 4, 5], [0, 1, 2, 3, 4, 5]])
def test_completions_are_drawn_as_often_as_they_are_probable(n_components, hidden):
    trees = random_trees(n_components)
    cells = np.array([1, 2, 0, 0, 1, 0], np.int16)
    cells[hidden] = -1
    n = 40_000
    codes = np.tile(cells, (n, 1))
    drawn = draw_states(trees, codes, np.random.RandomState(0))
    probable = {}
    for (_, states), probability in naive.posterior(trees, cells).items():
        probable[states] = probable.get(states, 0.0) + probability
    drawn_rows, count = np.unique(drawn, axis=0, return_counts=True)
    found = dict(zip(map(tuple, drawn_rows.tolist()), count))
    assert set(found) <= set(probable)
    expected = n * np.array(list(probable.values()))
    seen = np.array([found.get(states, 0) for states in probable])
    assert np.abs(seen - expected).max() < 5.0 * np.sqrt(expected.max())
    assert (((seen - expected) ** 2 / np.maximum(expected, 1.0)).mean()) < 3.0


def share_drawn(trees, cells, n=20_000):
    """How often each component is drawn for a row."""
    cells = with_told(trees, np.tile(cells, (n, 1)).astype(np.int16))
    _, chosen = draw_rows(trees, cells, np.random.RandomState(0))
    return np.bincount(chosen, minlength=len(trees.share)) / n


@pytest.mark.parametrize("n_components", [1, 3, 8, 9, 19])
def test_components_are_drawn_as_often_as_they_are_probable(n_components):
    trees = random_trees(n_components, seed=1)
    cells = np.array([-1, 2, 0, 0, -1, 1], np.int16)
    expected = np.zeros(n_components)
    for (component, _), probability in naive.posterior(trees, cells).items():
        expected[component] += probability
    assert_allclose(share_drawn(trees, cells), expected, atol=0.015)
    logs = naive.log_weights(trees, cells)
    assert_allclose(np.exp(logs - logsumexp(logs)), expected)


def test_drawn_rows_are_counted_in_the_tables_of_their_components():
    trees = random_trees(3)
    rng = np.random.default_rng(0)
    filled = rng.integers(0, N_STATES, (50, 6)).astype(np.int16)
    weight, chosen = rng.random(50), rng.integers(0, 3, 50)
    counts = filling._counts(trees, filled.T.copy(), weight, chosen)
    for column, above, table in zip(trees.column, trees.above, trees.tables(counts), strict=True):
        truth = np.zeros_like(table)
        for row, amount, component in zip(filled, weight, chosen):
            truth[0 if above < 0 else row[above], row[column], component] += amount
        assert_allclose(table, truth)


@pytest.mark.parametrize("n_components", [1, 4])
def test_tables_are_counts_drawn_towards_those_of_all_rows(n_components):
    trees = SharedTrees.of(tree_of(), N_STATES, n_components)
    counts = np.random.default_rng(0).gamma(1.0, 5.0, len(trees.prob))
    learned = trees.with_counts(counts)
    for table, found in zip(trees.tables(counts), trees.tables(learned.prob), strict=True):
        truth = naive.smoothed(table, filling._ESS, filling._STRENGTH)
        assert_allclose(found.transpose(2, 0, 1).reshape(-1, found.shape[1]), truth)


def test_observed_cells_stay_and_columns_outside_the_tree_get_state_0():
    trees = SharedTrees.of(ChowLiuTree(np.array([1, 3]), np.array([-1, 0]), None), N_STATES, 2)
    trees = trees.with_counts(np.ones(len(trees.prob)))
    codes = np.random.default_rng(0).integers(-1, 2, (50, 6)).astype(np.int16)
    codes[:, 3] = np.minimum(codes[:, 3], 0)
    drawn = draw_states(trees, codes, np.random.RandomState(0))
    assert_array_equal(drawn[codes >= 0], codes[codes >= 0])
    assert np.all(drawn[:, [0, 2, 4, 5]] == np.maximum(codes[:, [0, 2, 4, 5]], 0))
    assert np.all((drawn >= 0) & (drawn < N_STATES.max()))


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_a_thousand_columns_are_not_too_many_factors_for_a_float(shape):
    """The observed half of a row leaves no doubt about its component, which tells the rest."""
    n = 1_000
    parent = np.arange(n) - 1 if shape == "chain" else np.where(np.arange(n) == 0, -1, 0)
    trees = random_trees(2, parent=parent, n_states=np.full(n, 2))
    for table in trees.tables(trees.prob):
        table[:, 0] = [0.01, 0.99]
        table[:, 1] = [0.99, 0.01]
    codes = np.repeat([[0], [1]], 20, axis=0).repeat(n, axis=1).astype(np.int16)
    hidden = np.random.default_rng(0).random(codes.shape) < 0.5
    hidden[:, 0] = True
    drawn = draw_states(trees, np.where(hidden, np.int16(-1), codes), np.random.RandomState(0))
    assert (drawn == codes)[hidden].mean() > 0.98


def tree_parents(shape, n):
    """Parents before children; each vertex of "random" has one of the five before it above."""
    if shape == "random":
        back = np.random.default_rng(0).integers(1, 6, n)
        return np.maximum(np.arange(n) - back, 0) - (np.arange(n) == 0)
    return np.arange(n) - 1 if shape == "chain" else np.where(np.arange(n) == 0, -1, 0)


@pytest.mark.parametrize("shape", ["chain", "star", "random"])
@pytest.mark.parametrize("n_hidden", [0, 1, 6])
def test_components_that_explain_other_halves_of_the_columns_keep_their_shares(shape, n_hidden):
    """One of two components is far ahead on any few columns, and neither on all of them."""
    n, n_components = 600, 19
    trees = random_trees(n_components, 0, tree_parents(shape, n), np.full(n, 2))
    expected = np.zeros(n_components)
    expected[[2, 13]] = [0.3, 0.7]
    for i, table in enumerate(trees.tables(trees.prob)):
        table[:, 0], table[:, 1] = 0.01, 0.99
        table[:, :, 2 if i < n // 2 else 13] = [0.999, 0.001]
        table[:, :, 13 if i < n // 2 else 2] = [0.001, 0.999]
    share = np.full(n_components, 0.001 / 17)
    share[[2, 13]] = 0.2997, 0.6993
    trees = trees._replace(share=share)
    cells = np.zeros(n, np.int16)
    cells[trees.column[:n_hidden]] = cells[trees.column[n - n_hidden :]] = -1
    assert_allclose(share_drawn(trees, cells, 2_000), expected, atol=0.05)


@pytest.mark.parametrize("shape", ["chain", "star", "random"])
@pytest.mark.parametrize("portion", [0.2, 0.6])
def test_components_of_many_columns_are_drawn_as_often_as_they_are_probable(shape, portion):
    """Tables that differ little leave doubt, though each row is far too improbable for a float."""
    n = 1_200
    rng = np.random.default_rng(0)
    n_states = rng.integers(2, 5, n)
    trees = random_trees(19, 0, tree_parents(shape, n), n_states)
    for table in trees.tables(trees.prob):
        table[:] = rng.random(table.shape[:2])[:, :, None] + 0.02 * rng.random(table.shape)
        table /= table.sum(axis=1, keepdims=True)
    cells = rng.integers(0, n_states).astype(np.int16)
    cells[rng.random(n) < portion] = -1
    cells[0] = -1
    logs = np.array(naive.log_weights(trees, cells))
    assert logs.max() < -300.0
    expected = np.exp(logs - logsumexp(logs))
    assert 0.05 < expected.max() < 0.95
    assert_allclose(share_drawn(trees, cells, 4_000), expected, atol=0.04)


def test_filled_rows_depend_on_each_other_as_complete_rows_do():
    """A hidden class makes all columns depend on each other, beyond what one tree can say."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 4_000)
    likely = rng.random((4, 8)) < 0.5
    complete = (rng.random((4_000, 8)) < np.where(likely[kind], 0.95, 0.05)).astype(np.int16)
    codes = np.where(rng.random(complete.shape) < 0.3, np.int16(-1), complete)
    weight, n_states = np.ones(4_000), np.full(8, 2)
    tree = count_rows(codes, weight, n_states, np.arange(8)).tree(BayesDirichlet(0.1)).tree
    start = rng.integers(0, 2, 4_000) + 2 * (kind > 1)
    random_state = np.random.RandomState(0)

    def worst(n_components):
        component = np.minimum(start, n_components - 1)
        trees = learn_shared_trees(tree, codes, weight, n_states, component, random_state)
        drawn = draw_states(trees, codes, random_state)
        return np.abs(np.corrcoef(drawn.T) - np.corrcoef(complete.T)).max()

    assert worst(4) < 0.05
    assert worst(1) > 0.08


def test_draws_depend_on_the_seed_alone():
    trees = random_trees(3)
    codes = np.full((30, 6), -1, np.int16)
    one, two, three = (draw_states(trees, codes, np.random.RandomState(s)) for s in (0, 0, 1))
    assert_array_equal(one, two)
    assert np.any(one != three)
