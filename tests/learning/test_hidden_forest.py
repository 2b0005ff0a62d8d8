"""Bags of hidden trees over fine bins beside sums over all hidden states."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import HiddenForest
from skpc._arrays import added, offsets
from skpc.learning.fine_bins import fine_axis, n_fine_bins
from skpc.learning.fine_trees import Batch, FineCounts, FineForest, FineTree, places
from skpc.learning.hidden_forest import TaughtForest, TreeSettings, learn_hidden_forest
from skpc.learning.state_laws import StateLaw, States
from skpc.queries import log_likelihood
from skpc.variables import Law
from tests.naive import hidden_tree as naive

PARENTS = ([-1], [-1, 0, 1], [1, -1, 1, 0], [3, 0, 0, -1])


def random_states(n_columns: int, seed: int) -> States:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, n_columns)
    share = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    is_line = np.arange(n_columns) % 2 == 0
    return States(offsets(sizes), is_line, is_line, share)


def random_tree(states: States, parent: list[int], n_hidden: int, seed: int) -> FineTree:
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.ones(size), n_hidden).T for size in np.diff(states.ptr)]
    return FineTree(
        np.array(parent),
        rng.dirichlet(np.ones(n_hidden)),
        rng.dirichlet(np.ones(n_hidden), (len(parent), n_hidden)),
        np.concatenate(tables),
    )


def random_codes(states: States, n_rows: int, seed: int, missing: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n_rows) for size in np.diff(states.ptr)])
    return np.where(rng.random(codes.shape) < missing, -1, codes)


def plain(states: States, tree: FineTree) -> tuple:
    """The tree as the slow truth takes it."""
    tables = [table.T for table in np.split(tree.emission, states.ptr[1:-1])]
    return tree.parent, tree.root_share, tree.transition, tables


def expected_of(tree: FineTree, batch: Batch) -> FineCounts:
    return tree.expected(batch, batch.weight)


@pytest.mark.parametrize("parent", PARENTS, ids=str)
def test_the_likelihood_sums_over_trees_and_hidden_states(parent):
    states = random_states(len(parent), seed=0)
    trees = [random_tree(states, parent, n_hidden, seed=n_hidden) for n_hidden in (1, 3)]
    forest = FineForest(states, np.array([0.25, 0.75]), trees, np.array([0, 2]))
    codes = random_codes(states, 20, seed=1)
    truth = [
        sum(w * naive.likelihood(*plain(states, tree), row) for w, tree in zip((0.25, 0.75), trees))
        for row in codes
    ]
    assert_allclose(forest.log_likelihood(codes), np.log(truth), rtol=1e-12, atol=1e-15)
    circuit = forest.circuit([None] * len(parent))
    rows = np.where(codes < 0, np.nan, codes)
    assert_allclose(log_likelihood(circuit, rows), np.log(truth), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("parent", PARENTS, ids=str)
def test_expected_counts_are_sums_over_hidden_states(parent):
    states = random_states(len(parent), seed=2)
    tree, codes = random_tree(states, parent, 3, seed=3), random_codes(states, 15, seed=4)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, 15)
    counts = expected_of(tree, Batch.from_codes(codes, weight, states.ptr, tree.parent))
    first, transition, emission = naive.expected_counts(*plain(states, tree), codes, weight)
    # Weights and indicators are float32.
    assert_allclose(counts.root, first, rtol=1e-5)
    assert_allclose(counts.transition, transition, rtol=1e-5, atol=1e-7)
    assert_allclose(counts.by_state, np.concatenate([t.T for t in emission]), rtol=1e-5, atol=1e-7)


def test_rows_that_share_patterns_count_as_if_they_did_not():
    states = random_states(4, seed=2)
    tree, codes = random_tree(states, [-1, 0, 1, 1], 3, seed=3), random_codes(states, 400, seed=4)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, 400)
    batch = Batch.from_codes(codes, weight, states.ptr, tree.parent)
    # The two leaves, and what lies above them, have far fewer patterns than rows.
    assert max(len(batch.place[v]) for v in (2, 3)) <= 5
    assert len(batch.place[1]) < 400
    counts = expected_of(tree, batch)
    first, transition, emission = naive.expected_counts(*plain(states, tree), codes, weight)
    assert_allclose(counts.root, first, rtol=1e-5)
    assert_allclose(counts.transition, transition, rtol=1e-5, atol=1e-6)
    assert_allclose(counts.by_state, np.concatenate([t.T for t in emission]), rtol=1e-5, atol=1e-6)
    truth = [np.log(naive.likelihood(*plain(states, tree), row)) for row in codes]
    assert_allclose(tree.pass_up(batch)[2], truth, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [4, 60])
def test_messages_of_many_columns_do_not_underflow(n_columns):
    ptr = offsets([2] * n_columns)
    # Cells are a million million times less probable in one hidden state than in the other, which
    # is the less probable one of the next column, and hidden states stay the same.
    emission = np.ones((2 * n_columns, 2))
    emission[0::4] = [1e-24, 1e-12]
    emission[2::4] = [1e-12, 1e-24]
    transition = np.tile(np.eye(2), (n_columns, 1, 1))
    tree = FineTree(np.arange(-1, n_columns - 1), np.full(2, 0.5), transition, emission)
    codes = np.zeros((1, n_columns), dtype=np.int64)
    log_likelihood = tree.pass_up(Batch.from_codes(codes, np.ones(1), ptr, tree.parent))[2]
    assert_allclose(log_likelihood, 1.5 * n_columns * np.log(1e-12), rtol=1e-12)


class Coded:
    """A domain whose encoded rows are states."""

    def codes(self, rows: np.ndarray) -> np.ndarray:
        return rows


def two_members(seed: int) -> FineForest:
    """A bag of two members, of two trees and of one."""
    states = random_states(3, seed)
    trees = [random_tree(states, [-1, 0, 1], 2, seed=k) for k in range(3)]
    return FineForest(states, np.array([0.2, 0.3, 0.5]), trees, np.array([0, 2, 3]))


def test_margins_are_sums_over_the_other_columns():
    forest = two_members(seed=21)
    ptr, tree = forest.states.ptr, forest.trees[0]
    alone = np.full((ptr[-1], 3), -1)
    for column in range(3):
        states = np.arange(ptr[column + 1] - ptr[column])
        alone[ptr[column] : ptr[column + 1], column] = states
    truth = [naive.likelihood(*plain(forest.states, tree), row) for row in alone]
    assert_allclose(tree.margin(forest.states), truth, rtol=1e-12)


def test_few_rows_teach_all_members_and_many_are_dealt():
    forest = two_members(seed=22)
    codes, weight = random_codes(forest.states, 61, seed=23), np.full(61, 2.0)
    for n_rows, n_taught in ((1e3, 2), (125_000.0, 2), (1e6, 1)):
        taught = TaughtForest.from_forest(forest, Coded(), n_rows)
        assert taught.n_taught == n_taught
        parts = taught.expected(codes, weight)
        mass = np.array([counts.root.sum() for counts in parts])
        by_member = np.array([mass[:2].sum(), mass[2]])
        assert_allclose(by_member.sum(), 122.0 * n_taught, rtol=1e-6)
        assert abs(by_member[0] - by_member[1]) <= 2.0 + 1e-3
    # A member of one tree counts as that tree does.
    taught = TaughtForest.from_forest(forest, Coded(), 61.0)
    batch = Batch.from_codes(codes, weight, forest.states.ptr, forest.trees[2].parent)
    truth = expected_of(forest.trees[2], batch)
    counts = taught.expected(codes, weight)
    assert_allclose(counts[2].transition, truth.transition, rtol=1e-6)
    # Rows belong to the cluster that is most probable by the margins.
    margins = [np.log(np.append(tree.margin(forest.states), 1.0)) for tree in forest.trees[:2]]
    joint = [
        np.log(share) + sum(margin[place] for place in places(codes, forest.states.ptr))
        for share, margin in zip((0.2, 0.3), margins)
    ]
    assert_allclose(counts[0].root.sum(), 2.0 * (joint[0] > joint[1]).sum(), rtol=1e-6)
    # Statistics of two parts of the rows add up.
    halves = [taught.expected(codes[part], weight[part]) for part in (slice(20), slice(20, None))]
    for found, expected in zip(added(*halves), counts):
        assert_allclose(found.by_state, expected.by_state, rtol=1e-4, atol=1e-5)
    learned = taught.m_step(counts).forest
    assert learned.weight.sum() == pytest.approx(1.0)
    assert learned.log_likelihood(codes).mean() > forest.log_likelihood(codes).mean()


def test_shares_of_draws_are_probabilities():
    states = random_states(3, seed=9)
    forest = FineForest(
        states, np.ones(1), [random_tree(states, [-1, 0, 1], 2, seed=10)], np.array([0, 1])
    )
    drawn = forest.draw(40_000, np.random.RandomState(0))
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    prob = np.exp(forest.log_likelihood(rows))
    assert prob.sum() == pytest.approx(1.0, abs=1e-9)
    assert (np.abs(counts / 40_000 - prob) < 5.0 * np.sqrt(prob / 40_000)).all()


def test_emissions_have_the_margin_of_the_rows_and_sum_to_one():
    rng = np.random.default_rng(11)
    ptr, n_hidden = np.array([0, 40, 43]), 4
    share = np.append(np.full(40, 1 / 40), [0.5, 0.3, 0.2])
    # Values with 2 % of the rows are free.
    share[:40] = np.append([0.6], np.full(39, 0.4 / 39))
    is_line = np.array([True, False])
    states = States(ptr, is_line, is_line, share)
    law = StateLaw.fit(states, share)
    assert_array_equal(np.flatnonzero(law.is_free), [0, 40, 41, 42])
    counts = (500.0 * share[:, np.newaxis] * rng.dirichlet(np.ones(n_hidden), 43)).astype(
        np.float32
    )
    table = law.m_step(counts)
    assert_allclose(np.add.reduceat(table, ptr[:-1]), 1.0, rtol=1e-5)
    hidden = np.add.reduceat(counts, ptr[:-1])[states.column]
    margin = (table * hidden).sum(axis=1)
    assert_allclose(margin[law.is_free], counts.sum(axis=1)[law.is_free], rtol=0.01)
    # All hidden states together hold what the rows do, up to the rows like the Gaussians.
    assert_allclose(margin[1:40], counts.sum(axis=1)[1:40], rtol=0.25)


def test_steps_raise_the_likelihood():
    rng = np.random.default_rng(12)
    kind = rng.integers(0, 3, 800)
    codes = np.column_stack([(kind + (rng.random(800) < 0.2)) % 3 for _ in range(4)])
    is_line = np.zeros(4, bool)
    states = States(offsets([3] * 4), is_line, is_line, np.full(12, 1 / 3))
    scores = []
    for n_epochs in (1, 10):
        forest = learn_hidden_forest(states, codes, np.ones(800), TreeSettings(1, 3, n_epochs), [0])
        scores.append(forest.exact().log_likelihood(codes).mean())
    assert scores[1] > scores[0]
    independent = 4 * np.log(1 / 3)
    assert scores[1] > independent + 0.5


def test_trees_know_the_order_of_ordered_columns():
    # Most months are as frequent as the others: groups of the rarest would hold unlike ones.
    rng = np.random.default_rng(15)
    month = rng.permutation(np.append(np.arange(4_800) % 48, np.arange(1_500) % 15))
    is_late = np.where(month < 15, rng.random(len(month)) < 0.5, month >= 32)
    shown = np.where(rng.random(len(month)) < 0.2, is_late, rng.random(len(month)) < 0.5)
    early = np.where(month < 8, 1, shown)
    codes = np.column_stack([month, is_late, early]).astype(np.int64)
    ptr = offsets([48, 2, 2])
    share = np.repeat([1 / 48, 1 / 2, 1 / 2], [48, 2, 2])
    states = States(ptr, np.zeros(3, bool), np.array([True, False, False]), share)
    tree = learn_hidden_forest(
        states, codes, np.ones(len(codes)), TreeSettings(1, 1, 1), [0]
    ).trees[0]
    edges = {frozenset(edge) for edge in enumerate(tree.parent.tolist()) if edge[1] >= 0}
    assert edges == {frozenset([0, 1]), frozenset([0, 2])}


def test_missing_cells_have_a_place_of_their_own():
    assert_array_equal(places(np.array([[0, -1], [2, 1]]), np.array([0, 3, 5])), [[0, 2], [5, 4]])


def test_repeated_values_have_bins_of_their_own_and_masses_sum_to_one():
    rng = np.random.default_rng(13)
    values = np.append(np.round(rng.normal(size=900), 3), np.full(100, 0.5))
    law = Law.fit(values, np.ones(1000))
    axis, mass = fine_axis(values, np.ones(1000), law, n_fine_bins(1000))
    assert mass.sum() == pytest.approx(1.0)
    assert len(mass) == axis.n_states
    state = axis.states_of(np.array([0.5]))[0]
    assert (axis.states_of(values) == state).sum() == (values == 0.5).sum()
    assert n_fine_bins(100) == 16
    assert n_fine_bins(1e6) == 512


def table(n_rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(14)
    factor = rng.normal(size=n_rows)
    return pd.DataFrame(
        {
            "size": np.exp(factor + 0.3 * rng.normal(size=n_rows)),
            "kind": np.where(factor + 0.3 * rng.normal(size=n_rows) > 0, "a", "b"),
            "zeros": np.where(factor > 0.5, 0.0, np.round(5 + factor, 2)),
        }
    )


def test_the_circuit_scores_as_the_trees_do_and_stays_after_more_rows():
    model = HiddenForest(n_estimators=2, n_hidden=4, random_state=0).fit(table())
    rows = table(50)
    fast, encoded = model.score_samples(rows), model.domain_.encode(rows)
    of_trees = model._density.log_density(encoded)
    assert_allclose(log_likelihood(model.circuit_, encoded), of_trees, rtol=1e-9)
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.score_samples(rows), fast)
    model.partial_fit(rows)
    # A step of EM towards these rows.
    assert model.score(rows) > fast.mean()


def test_few_rows_are_not_memorised():
    train, test = table(150), table(1000)
    model = HiddenForest(random_state=0).fit(train)
    simple = HiddenForest(n_hidden=1, random_state=0).fit(train)
    assert model.score(test) > simple.score(test)


def test_free_values_are_kept_where_rows_held_out_ask_for_them():
    """``day`` follows from ``date``, value by value; ``near`` follows along a line."""
    rng = np.random.default_rng(0)
    date = rng.integers(0, 100, 3000)
    normal = rng.normal(size=3000)
    model = HiddenForest(n_estimators=1, n_hidden=16, random_state=0)
    by_value = pd.DataFrame({"date": date, "day": date % 7, "normal": normal})
    model.fit(by_value)
    assert_array_equal(model._forest.states.is_line, [False, False, True])
    drawn = model.sample(2000, random_state=0)
    assert np.mean(drawn["day"] == drawn["date"] % 7) > 0.9
    near = date + rng.normal(0, 5, 3000)
    model.fit(pd.DataFrame({"date": date, "near": near, "normal": normal}))
    assert model._forest.states.is_line.all()
