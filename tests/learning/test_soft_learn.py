"""SoftLearn: its parts beside their slow truths, and what it learns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import LEAF, PRODUCT, SUM
from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.domain import merge_rows
from skpc.learning import soft_learn
from skpc.learning.smoothing import refinement_pseudo_counts
from skpc.learning.soft_learn import SoftLearner, SoftLearnOptions, leaf_moments
from skpc.learning.splits import any_dependence, independent_groups
from skpc.queries import log_likelihood
from skpc.variables import GAUSSIAN
from tests.naive import soft_learn as naive

OPTIONS = SoftLearnOptions(
    assignment="soft",
    clusterer="kmeans",
    n_clusters=2,
    beta=30.0,
    significance=0.05,
    false_discoveries=False,
    root_test=None,
    alpha=0.1,
    min_weight=8.0,
    prune=1e-2,
    max_iter=100,
    smallest_sd=1e-2,
    blocks=False,
    em_tol=1e-3,
    yates=True,
)
N_STATES = np.array([2, 3, 0, 0])


def mixed_rows(n_rows=60, missing=0.15, seed=0):
    """Two categories and two numbers that all follow a hidden kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows)
    rows = np.column_stack(
        [
            np.where(rng.random(n_rows) < 0.8, kind, 1 - kind),
            (kind + rng.integers(0, 2, n_rows)) % 3,
            4.0 * kind + rng.normal(size=n_rows),
            rng.normal(size=n_rows) - kind,
        ]
    )
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def learn(rows, weight=None, n_states=N_STATES, options=OPTIONS, seed=0):
    weight = np.ones(len(rows)) if weight is None else weight
    rows, weight = merge_rows(rows, weight)
    numbers, random_state = [None] * len(n_states), np.random.RandomState(seed)
    learner = SoftLearner(
        rows, weight, n_states, numbers, options, random_state, [None] * len(n_states)
    )
    return learner.learn(lambda done: None)


@pytest.mark.parametrize("yates", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_states", [(2, 2), (3, 2), (4, 3)])
def test_pairs_are_tested_as_scipy_tests_their_weighted_table(n_states, missing, yates):
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = rng.integers(0, n_states[0], 50)
        b = np.where(rng.random(50) < 0.3, a % n_states[1], rng.integers(0, n_states[1], 50))
        codes = np.column_stack([a, b]).astype(np.int16)
        codes[rng.random(codes.shape) < missing] = -1
        weight = rng.gamma(1.0, 1.0, 50)
        p_value = naive.independence_p_value(codes[:, 0], codes[:, 1], weight, yates)
        for significance in (p_value * (1 - 1e-6), min(p_value * (1 + 1e-6), 1 - 1e-9)):
            tested = codes, weight, np.array(n_states), significance
            group = independent_groups(*tested, yates=yates)
            assert (group.max() == 0) == (p_value < significance)


def test_a_weight_counts_like_repetitions():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (40, 6)).astype(np.int16)
    codes[:, 1] = codes[:, 0] ^ (rng.random(40) < 0.3)
    weight = rng.integers(1, 4, 40)
    for significance in (0.001, 0.05, 0.3):
        once = independent_groups(codes, weight.astype(float), np.full(6, 2), significance)
        repeated = np.repeat(codes, weight, axis=0)
        twice = independent_groups(repeated, np.ones(len(repeated)), np.full(6, 2), significance)
        assert_array_equal(once, twice)


def noisy_copies(n_columns, n_rows=200, flips=0.35, seed=0):
    """Binary columns, the odd ones noisy copies of those before them."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (n_rows, n_columns))
    codes[:, 1::2] = codes[:, : n_columns // 2 * 2 : 2] ^ (rng.random(n_rows) < flips)[:, None]
    return codes.astype(np.int16)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_false_discoveries_are_controlled_as_benjamini_and_hochberg_do(share):
    for seed in range(10):
        codes, weight = noisy_copies(6, flips=0.42, seed=seed), np.ones(200)
        codes[::7, 2] = -1
        pairs = [(a, b) for a in range(6) for b in range(a)]
        p_values = [naive.independence_p_value(codes[:, a], codes[:, b], weight) for a, b in pairs]
        edges = [pairs[i] for i in naive.discoveries(p_values, share)]
        found = independent_groups(codes, weight, np.full(6, 2), share, false_discoveries=True)
        assert_array_equal(found, naive.connected(6, edges))


@pytest.mark.parametrize("yates", [True, False])
@pytest.mark.parametrize("n_states", [(2, 2), (3, 2), (5, 4)])
def test_any_dependence_takes_the_smaller_statistic_at_a_level_for_all_pairs(n_states, yates):
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = rng.integers(0, n_states[0], 60)
        b = np.where(rng.random(60) < 0.3, a % n_states[1], rng.integers(0, n_states[1], 60))
        codes = np.column_stack([a, b, np.zeros(60)]).astype(np.int16)
        weight = rng.gamma(1.0, 1.0, 60)
        p_value = naive.cautious_p_value(a, b, weight, yates)
        for significance in (3 * p_value * (1 - 1e-6), 3 * p_value * (1 + 1e-6)):
            tested = codes, weight, np.array([*n_states, 2]), significance
            found = any_dependence(*tested, yates=yates)
            assert found == (p_value < significance / 3)


def test_one_dependent_pair_is_found_behind_many_independent_columns():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (500, 40)).astype(np.int16)
    assert not any_dependence(codes, np.ones(500), np.full(40, 2), 0.001)
    codes[:, 39] = codes[:, 38] ^ (rng.random(500) < 0.2)
    assert any_dependence(codes, np.ones(500), np.full(40, 2), 0.001)


def test_a_column_that_never_varies_is_independent_of_all():
    codes = np.zeros((30, 2), dtype=np.int16)
    codes[::2, 1] = 1
    assert_array_equal(independent_groups(codes, np.ones(30), np.array([2, 2]), 0.5), [0, 1])


def leaves_of(rows, weight=None, n_states=N_STATES, **options):
    """Parameters of the leaf of each column where the root is a product of leaves."""
    circuit = learn(rows, weight, n_states, OPTIONS._replace(n_clusters=1, **options))
    ptr, leaves = circuit.param_ptr, np.argsort(circuit.leaf_var)[-len(n_states) :]
    return [circuit.param[ptr[leaf] : ptr[leaf + 1]] for leaf in leaves]


def test_leaves_are_the_weighted_estimates_of_the_paper():
    rows, weight = mixed_rows(), np.random.default_rng(2).gamma(2.0, 1.0, 60)
    leaves = leaves_of(rows, weight)
    for j, n_states in ((0, 2), (1, 3)):
        expected = naive.categorical_leaf(rows[:, j], weight, n_states, 0.1)
        assert_allclose(np.exp(leaves[j]), expected)
    scores, divided = rows[:, 2:], np.random.default_rng(3).random(60) * weight
    for row_weight in (weight, np.ones(60)):
        mean, sd = leaf_moments(scores, divided, row_weight)
        for j in range(2):
            expected = naive.gaussian_leaf(scores[:, j], divided, row_weight)
            assert_allclose([mean[j], sd[j]], expected)


def test_a_row_of_weight_two_counts_as_two_in_a_gaussian_leaf():
    values, weight = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 2.0])
    repeated = np.repeat(values[:, 0], weight.astype(int))
    (leaf,) = leaves_of(values, weight, np.array([0]))
    assert_allclose(leaf, [repeated.mean(), repeated.std(ddof=1)])


def test_a_gaussian_leaf_is_never_narrower_than_a_hundredth_of_its_column():
    rows = np.column_stack([np.repeat([0.0, 1.0], 20), np.repeat([1.0, 5.0], 20)])
    circuit = learn(rows, n_states=np.array([2, 0]))
    gaussians = np.flatnonzero(circuit.leaf_family == GAUSSIAN)
    sds = [circuit.param[circuit.param_ptr[leaf] + 1] for leaf in gaussians]
    assert_allclose(sds, 0.01 * rows[:, 1].std())
    assert_allclose(leaf_moments(np.full((2, 1), np.nan), *np.ones((2, 2))), [[0.0], [1.0]])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_distances_count_a_different_category_as_one_and_skip_missing_cells(missing):
    rows = mixed_rows(missing=missing)
    numbers = as_numbers(rows, N_STATES, np.array([0, 0, 1.0, 0]), np.array([1, 1, 2.0, 1]))
    point = np.where(numbers.observed == 0, np.nan, numbers.point) if missing else numbers.point
    for a, b in ((0, 1), (2, 3), (4, 5)):
        expected = 0.0
        for j, count in enumerate(N_STATES):
            x, y = rows[a, j], rows[b, j]
            if not np.isnan(x) and not np.isnan(y):
                expected += float(x != y) if count else ((x - y) / (2.0 if j == 2 else 1.0)) ** 2
        found = naive.distance(np.where(np.isnan(point[b]), np.nan, point[a]), point[b])
        assert found**2 == pytest.approx(expected)


def test_k_means_ends_where_every_row_is_with_its_closest_centroid():
    rows, weight = mixed_rows(100), np.random.default_rng(0).gamma(2.0, 1.0, 100)
    numbers = as_numbers(rows, N_STATES, np.zeros(4), np.ones(4))
    found = cluster_rows(numbers, weight, 2, 100, np.random.RandomState(0))
    label = found.argmin(axis=1)
    point = np.where(numbers.observed == 0, np.nan, numbers.point)
    centroids = []
    for cluster in range(2):
        member = label == cluster
        share = weight[member, np.newaxis] * numbers.observed[member]
        centroids.append((share * numbers.point[member]).sum(axis=0) / share.sum(axis=0))
    expected = [[naive.distance(row, centroid) for centroid in centroids] for row in point]
    assert_allclose(found, expected, atol=1e-7)
    member = soft_memberships(found, 20.0)
    assert_allclose(member, [naive.memberships(row, centroids, 20.0) for row in point], atol=1e-6)


def test_distinct_rows_never_share_a_start():
    """Two kinds of rows of very different weight are told apart from any start."""
    rows = np.array([[0.0, 0.0], [1.0, 1.0]])
    numbers = as_numbers(rows, np.array([2, 2]), np.zeros(2), np.ones(2))
    for seed in range(20):
        found = cluster_rows(numbers, np.array([1.0, 1e6]), 2, 100, np.random.RandomState(seed))
        assert set(found.argmin(axis=1)) == {0, 1}


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_em_memberships_are_a_fixed_point_of_the_posterior(monkeypatch, missing):
    fits, fit_split = [], soft_learn.fit_split

    def noted(cells, *args):
        fit = fit_split(cells, *args)
        fits.append((fit.model, fit.model.responsibilities(cells)))
        return fit

    monkeypatch.setattr(soft_learn, "fit_split", noted)
    rows = mixed_rows(200, missing)
    options = OPTIONS._replace(clusterer="em", max_iter=10_000, min_weight=199.0, em_tol=1e-12)
    learn(rows, options=options)
    distinct, weight = merge_rows(rows, np.ones(200))
    share, sd = fits[0][1].T, np.nanstd(rows[:, 2:], axis=0)
    model = fits[0][0].mixture
    mean, tables = np.nanmean(rows[:, 2:], axis=0), np.exp(model.log_table)
    variance = np.diagonal(model.gaussians.covariance, axis1=1, axis2=2)
    leaves = [
        [table[:2], table[2:], *zip(mean + sd * centre, sd * np.sqrt(spread))]
        for table, centre, spread in zip(tables, model.gaussians.mean, variance)
    ]
    expected = naive.factorised_posteriors(distinct, N_STATES, leaves, model.weights)
    assert_allclose(share, expected, atol=1e-4)
    for c in range(2):
        if not missing:
            # Tables of columns with missing cells are drawn to the column.
            counts = naive.categorical_leaf(distinct[:, 1], weight * share[:, c], 3, 0.1)
            assert_allclose(tables[c, 2:], counts, atol=1e-4)
        observed = ~np.isnan(distinct[:, 2])
        average = np.average(distinct[observed, 2], weights=(weight * share[:, c])[observed])
        assert_allclose(leaves[c][2][0], average, atol=1e-3)


def test_memberships_of_zero_and_one_make_the_hard_learner():
    rows = mixed_rows(300, missing=0.0)
    hard = learn(rows, options=OPTIONS._replace(assignment="hard"))
    sharp = learn(rows, options=OPTIONS._replace(beta=1e6))
    for name, array in hard.structure.arrays().items():
        assert_array_equal(array, sharp.structure.arrays()[name])
    assert_allclose(hard.log_weight, sharp.log_weight)
    assert_allclose(hard.param, sharp.param)


def test_a_hard_learner_has_nothing_to_prune():
    rows = mixed_rows(300, missing=0.0)
    options = OPTIONS._replace(assignment="hard", clusterer="em", n_clusters=4)
    pruned, whole = learn(rows, options=options), learn(rows, options=options._replace(prune=0.0))
    assert (pruned.kind == SUM).sum() > 1
    assert_array_equal(pruned.child, whole.child)
    assert_allclose(pruned.param, whole.param)


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("clusterer", ["kmeans", "em"])
def test_the_root_is_a_sum_and_the_circuit_beats_a_factorised_one(assignment, clusterer):
    train, test = mixed_rows(500, 0.1, 0), mixed_rows(500, 0.1, 1)
    options = OPTIONS._replace(assignment=assignment, clusterer=clusterer)
    circuit = learn(train, options=options)
    assert circuit.kind[-1] == SUM
    flat = learn(train, options=options._replace(n_clusters=1))
    assert sorted(flat.kind) == [LEAF] * 4 + [PRODUCT]
    assert log_likelihood(circuit, test).mean() > log_likelihood(flat, test).mean() + 0.3


def independent_rows(n_rows, seed):
    """Ten columns of two, three, four, five and thirty categories, ten of numbers."""
    rng = np.random.default_rng(seed)
    categories = rng.integers(0, np.repeat([2, 3, 4, 5, 30], 2), (n_rows, 10))
    return np.column_stack([categories, rng.normal(size=(n_rows, 10))])


@pytest.mark.parametrize("n_rows", [500, 2000])
@pytest.mark.parametrize("clusterer", ["kmeans", "em"])
def test_independent_columns_are_a_product_of_leaves(clusterer, n_rows):
    n_states = np.repeat([2, 3, 4, 5, 30, 0], [2, 2, 2, 2, 2, 10])
    options = OPTIONS._replace(clusterer=clusterer, significance=0.2, root_test="any")
    for seed in range(3):
        rows = independent_rows(n_rows, seed)
        circuit = learn(rows, n_states=n_states, options=options)
        assert sorted(circuit.kind) == [LEAF] * 20 + [PRODUCT]


def test_rare_states_that_meet_by_chance_are_no_structure():
    """Pearson's statistic alone would be far beyond its limits."""
    options = OPTIONS._replace(root_test="any")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = (rng.random((500, 20)) < rng.uniform(0.004, 0.03, 20)).astype(float)
        assert learn(rows, n_states=np.full(20, 2), options=options).kind[-1] == PRODUCT


def test_the_root_falls_apart_if_its_pairs_are_tested():
    rows = np.column_stack([mixed_rows(500, 0.0, 0), mixed_rows(500, 0.0, 1)])
    n_states, options = np.tile(N_STATES, 2), OPTIONS._replace(significance=1e-4)
    for root_test, kind in ((None, SUM), ("any", SUM), ("pairs", PRODUCT)):
        circuit = learn(rows, n_states=n_states, options=options._replace(root_test=root_test))
        assert circuit.kind[-1] == kind
    assert circuit.child_ptr[-1] - circuit.child_ptr[-2] == 2


def test_weights_are_repetitions_of_rows():
    rows = mixed_rows(80)
    weight = np.random.default_rng(0).integers(1, 4, 80)
    a, b = learn(rows, weight.astype(float)), learn(np.repeat(rows, weight, axis=0))
    assert_allclose(log_likelihood(a, rows), log_likelihood(b, rows), atol=1e-12)


def test_pseudo_counts_follow_the_shares_of_each_column_and_the_leaf_as_learned():
    rows = np.array([[0.0, 1.5], [1.0, 2.5], [1.0, np.nan]])
    options = OPTIONS._replace(n_clusters=1, alpha=1.0)
    circuit = learn(rows, n_states=np.array([2, 0]), options=options)
    counts = refinement_pseudo_counts(
        circuit, rows, np.ones(3), per_edge=0.1, like_column=5.0, as_learned=10.0
    )
    assert_allclose(counts.edge, 0.1)
    for node in np.flatnonzero(circuit.kind == LEAF):
        part = counts.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        gaussian = circuit.leaf_family[node] == GAUSSIAN
        assert_allclose(part, [5.0, 5.0] if gaussian else [2.0 + 4.0, 3.0 + 6.0])
