"""Forests beside sums over all completions, and what they choose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skpc.domain import Domain, merge_rows
from skpc.learning.forest import Layout
from skpc.learning.random_trees import BinnedRows, ForestOptions, fill, learn_generative_forest
from tests.naive import forest as naive

SMALL = ForestOptions(n_estimators=1, min_samples_leaf=4, max_features=None, bootstrap=False)


def table(n_rows=60, seed=0, missing=0.0):
    """Names, numbers of a few values with an atom, and classes."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n_rows)
    name = np.array(["a", "b", "c", "d"])[(code + rng.integers(0, 3, n_rows)) % 4]
    size = rng.choice([0.0, 0.5, 1.25, 3.75, 9.5], n_rows) + code * 0.25
    size[rng.random(n_rows) < 0.3] = 0.0
    other = rng.integers(0, 4, n_rows) + 0.125 * code
    X = np.column_stack([name.astype(object), size, other])
    X[rng.random(X.shape) < missing] = None
    return X, code


def learned(options, X, code, n_classes=3, seed=0, n_bins=3):
    domain = Domain.fit(X, n_bins=n_bins)
    rows, weight = merge_rows(np.column_stack([domain.encode(X), code]), np.ones(len(X)))
    rows, code = np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64)
    class_weight = weight[:, np.newaxis] * (code[:, np.newaxis] == np.arange(n_classes))
    forest = learn_generative_forest(
        domain, rows, class_weight, options, np.random.RandomState(seed)
    )
    return forest, rows, code, weight


def columns_of(forest):
    """Bins by their positions, for the slow truth."""
    layout, columns = forest.layout, []
    for first, last in zip(layout.first, layout.first[1:]):
        order = first + np.argsort(layout.position[first:last])
        pairs = zip(layout.place[order].tolist(), layout.share[order].tolist())
        columns.append(list(pairs))
    return columns


def positions_of(forest, rows):
    """Position of the bin of each cell, None where missing."""
    bins = forest.layout.of_codes(forest.bins.states(rows))
    return [
        tuple(None if cell < 0 else int(forest.layout.position[cell]) for cell in row)
        for row in bins
    ]


def tree_of(trees, node):
    if trees.column[node] < 0:
        return None
    branches = (tree_of(trees, below) for below in (trees.left[node], trees.right[node]))
    return (int(trees.column[node]), int(trees.cut[node]), *branches)


def of_bins(forest, rows):
    """Log probability of the bins of rows with each class, from the density of the numbers."""
    bins = forest.layout.of_codes(forest.bins.states(rows))
    share = np.where(bins < 0, 0.0, np.log(forest.layout.share)[bins]).sum(axis=1)
    within = forest.domain.axis_table.log_density(rows) - share
    return forest.log_density(rows) - within[:, np.newaxis]


@pytest.mark.parametrize("leaves", ["all", "class"])
def test_a_tree_is_the_sum_over_all_completions_of_its_tables(leaves):
    forest, rows, code, weight = learned(SMALL._replace(leaves=leaves), *table())
    columns, trees = columns_of(forest), forest.trees[0]
    assert len(trees.low) > 4
    assert any(len(column) > len({place for place, _ in column}) for column in columns)
    data = list(zip(positions_of(forest, rows), code.tolist(), weight.tolist()))
    leaves_of = naive.leaves_of(tree_of(trees, 0), columns, data, leaves == "class", 3)
    known = list(leaves_of)
    asked = rows[::4].copy()
    asked[np.random.default_rng(1).random(asked.shape) < 0.5] = np.nan
    asked[0] = np.nan
    expected = [
        [naive.joint(known, columns, cells, c) for c in range(3)]
        for cells in positions_of(forest, asked)
    ]
    assert_allclose(np.exp(of_bins(forest, asked)), expected, rtol=1e-10)
    assert_allclose(np.sum(expected[0]), 1.0, rtol=1e-10)
    posterior = expected / np.sum(expected, axis=1, keepdims=True)
    assert_allclose(forest.posterior(asked), posterior, rtol=1e-10)


@pytest.mark.parametrize("leaves", ["all", "class"])
def test_all_rows_of_bins_and_classes_have_probability_one(leaves):
    options = ForestOptions(n_estimators=5, leaves=leaves, min_samples_leaf=2)
    forest = learned(options, *table())[0]
    middles = [np.arange(4.0)]
    for first, last in zip(forest.bins.ptr[1:], forest.bins.ptr[2:]):
        edges = forest.bins.axis[first + 5 : first + 5 + (last - first - 9) // 5]
        middles.append(np.r_[edges[0] - 1.0, (edges[1:] + edges[:-1]) / 2, edges[-1] + 1.0])
    grid = np.stack(np.meshgrid(*middles), axis=-1).reshape(-1, 3)
    assert len(np.unique(positions_of(forest, grid), axis=0)) == len(forest_grid(forest))
    assert_allclose(np.exp(of_bins(forest, grid)).sum(), 1.0, rtol=1e-10)
    empty = np.full((1, 3), np.nan)
    shares = [np.exp(tree.log_joint).sum(axis=0) for tree in forest.trees]
    assert_allclose(np.exp(forest.log_density(empty))[0], np.mean(shares, axis=0), rtol=1e-10)


def forest_grid(forest):
    sizes = np.diff(forest.layout.first)
    return np.stack(np.meshgrid(*map(np.arange, sizes)), axis=-1).reshape(-1, len(sizes))


def test_the_forest_averages_probabilities_of_its_trees_and_mixes_their_densities():
    options = ForestOptions(n_estimators=4, leaves="class", min_samples_leaf=3)
    forest, rows, *_ = learned(options, *table())
    asked = rows.copy()
    asked[::2, 1] = np.nan
    joints = [forest._replace(trees=[tree]).log_density(asked) for tree in forest.trees]
    normed = [np.exp(j - logsumexp(j, axis=1, keepdims=True)) for j in joints]
    assert_allclose(forest.posterior(asked), np.mean(normed, axis=0), rtol=1e-10)
    mixed = logsumexp(joints, axis=0) - np.log(4.0)
    assert_allclose(forest.log_density(asked), mixed, rtol=1e-10)


def test_densities_of_numbers_integrate_to_one_whatever_else_is_known():
    forest, rows, *_ = learned(ForestOptions(5, "class", 2), *table())
    grid = np.repeat(rows[[3]], 400_001, axis=0)
    grid[:, 2] = np.linspace(-20.0, 25.0, len(grid))
    known = np.where(np.arange(3) == 2, np.nan, rows[[3]])
    total = np.exp(forest.log_density(grid)).sum(axis=0) * (grid[1, 2] - grid[0, 2])
    assert_allclose(total, np.exp(forest.log_density(known))[0], rtol=1e-3)


@pytest.mark.parametrize("leaves", ["all", "class"])
def test_draws_follow_the_density(leaves):
    forest = learned(ForestOptions(5, leaves, 3), *table(200))[0]
    drawn, code = forest.draw(60_000, np.random.RandomState(0))
    prior = np.exp(forest.log_density(np.full((1, 3), np.nan)))[0]
    assert_allclose(np.bincount(code) / 60_000, prior, atol=0.01)
    cells = np.array(positions_of(forest, drawn))
    # Draws from tails stay in the range of the values, so that they may leave their bin.
    cells[:, 1:] = np.clip(cells[:, 1:], 1, np.diff(forest.layout.first)[1:] - 2)
    for column in range(3):
        position, first = np.unique(cells[:, column], return_index=True)
        for c in range(3):
            n = (cells[code == c, column][:, np.newaxis] == position).sum(axis=0)
            one = np.full((len(first), 3), np.nan)
            one[:, column] = drawn[first, column]
            expected = np.exp(of_bins(forest, one)[:, c]) / prior[c]
            inner = (position > 1) & (position < cells[:, column].max()) | (column == 0)
            assert_allclose((n / (code == c).sum())[inner], expected[inner], atol=0.012)
    assert np.all(np.isfinite(forest.log_density(drawn)))


def test_complete_rows_are_judged_as_by_the_tree_of_scikit_learn():
    X, code = table(300)
    forest, rows, code, weight = learned(SMALL._replace(leaves="all"), X, code)
    cells = np.array(positions_of(forest, rows))
    (trees,) = forest.trees
    for row, posterior in zip(cells[::7], forest.posterior(rows[::7])):
        node = 0
        while trees.column[node] >= 0:
            right = row[trees.column[node]] > trees.cut[node]
            node = (trees.right if right else trees.left)[node]
        leaf = trees.left[node]
        assert_allclose(
            posterior, np.exp(trees.log_joint[leaf]) / np.exp(trees.log_joint[leaf]).sum()
        )
        inside = np.all((trees.low[leaf] <= cells) & (cells < trees.high[leaf]), axis=1)
        shares = np.bincount(code[inside], weight[inside], 3) / weight[inside].sum()
        assert weight[inside].sum() >= 4.0
        assert_allclose(posterior, shares, atol=0.1)


def test_missing_cells_of_training_rows_are_drawn_and_do_not_count():
    X, code = table(400, missing=0.3)
    forest, rows, code, weight = learned(ForestOptions(30), X, code)
    assert np.isnan(rows).any()
    complete, truth = table(400, seed=9)
    right = forest.posterior(forest.domain.encode(complete)).argmax(axis=1) == truth
    full, *_ = learned(ForestOptions(30), *table(400))
    best = full.posterior(full.domain.encode(complete)).argmax(axis=1) == truth
    assert right.mean() > best.mean() - 0.06
    # A root without cuts counts observed cells alone.
    stump, rows, code, weight = learned(
        ForestOptions(1, "all", 400, bootstrap=False), X, code=table(400, missing=0.3)[1]
    )
    assert len(stump.trees[0].low) == 1
    observed = ~np.isnan(rows[:, 0])
    count = np.bincount(rows[observed, 0].astype(int), weight[observed], 4)
    table_of_names = np.exp(stump.trees[0].log_table[0, 0, :4])
    prior = (count + 0.25) / (count.sum() + 1.0)
    assert_allclose(table_of_names, (count + 10.0 * prior) / (count.sum() + 10.0), rtol=1e-10)


def test_missing_cells_are_drawn_from_those_of_their_class_or_of_all_rows():
    rng = np.random.default_rng(0)
    first = np.array([0, 5, 9, 12])
    bins = first[:-1] + rng.integers(0, 3, (40, 3))
    code, weight = rng.integers(0, 3, 40), rng.integers(1, 5, 40).astype(float)
    bins[rng.random(bins.shape) < 0.4] = -1
    # No row of a class knows a column, and no row another one.
    bins[code == 1, 0] = bins[:, 2] = -1
    uniform = rng.random((bins < 0).sum())
    layout = Layout(first, *(np.zeros(12, dtype) for dtype in (int, int, float)))
    filled = fill(BinnedRows(layout, bins, code, weight, 3), uniform)
    assert_array_equal(filled, naive.fill(bins, code, weight, uniform, first[:-1]))


def test_names_are_cut_in_the_order_of_their_classes_and_numbers_in_their_own():
    rng = np.random.default_rng(0)
    name = rng.integers(0, 6, 600)
    code = (rng.random(600) < np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7])[name]).astype(int)
    # One row keeps names and numbers apart, which would be one variable.
    number = name.copy()
    number[0] = (name[0] + 1) % 6
    X = np.column_stack([np.array(list("abcdef"))[name].astype(object), number, rng.random(600)])
    forest = learned(SMALL, X, code, n_classes=2)[0]
    order = forest.layout.position[:6].tolist()
    assert order in ([0, 5, 1, 4, 2, 3], [5, 0, 4, 1, 3, 2])
    numbers = Domain.fit(X).encode(X)[:, 1:]
    forest = learned(SMALL, numbers, code, n_classes=2)[0]
    assert_array_equal(forest.layout.position[:6], np.arange(6))


def test_tables_of_classes_are_chosen_where_they_predict_better():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 2, 300)
    # Many columns, each of which knows a little.
    weak = (rng.random((300, 20)) < 0.3 + 0.4 * code[:, np.newaxis]).astype(float)
    assert learned(ForestOptions(), weak, code, 2)[0].choices[0] == "class"
    parity = rng.integers(0, 2, (300, 4)).astype(float)
    code = (parity[:, 0] != parity[:, 1]).astype(int)
    assert learned(ForestOptions(), parity, code, 2)[0].choices[0] == "all"


def test_noise_gets_larger_leaves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    noise = learned(ForestOptions(), X, rng.integers(0, 2, 400), 2)[0]
    clear = learned(ForestOptions(leaves="all"), X, (X[:, 0] * X[:, 1] > 0.0).astype(int), 2)[0]
    assert noise.choices == ("all", 8.0)
    assert clear.choices == ("all", 2.0)


def test_weights_need_not_be_whole_or_large():
    X, code = table(200)
    domain = Domain.fit(X, n_bins=3)
    rows = domain.encode(X)
    options = ForestOptions(5, "all", 1)
    for weight in (np.full(200, 1e-9), np.full(200, 1e9), np.r_[np.full(199, 1e-3), 1e6]):
        class_weight = weight[:, np.newaxis] * (code[:, np.newaxis] == np.arange(3))
        forest = learn_generative_forest(
            domain, rows, class_weight, options, np.random.RandomState(0)
        )
        assert np.all(np.isfinite(forest.log_density(rows)))
        assert_allclose(forest.posterior(rows).sum(axis=1), 1.0)
