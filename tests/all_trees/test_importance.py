"""Estimates from drawn completions and drawn trees, against sums over all trees."""

import numpy as np
import pytest

from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.beliefs import belief_propagation
from skpc.all_trees.completions import Estimates
from skpc.all_trees.importance import _draw_completions, estimate_rows, guide
from skpc.all_trees.tree_inference import TreeTables
from tests.all_trees.test_spanning_trees import edges_into, log_weights
from tests.all_trees.test_tree_inference import (
    arranged,
    log_evidence,
    random_tables,
    tree_marginals,
)
from tests.naive import spanning_trees as naive


def directed_model(tables, into):
    """The mixture of trees that share tables, with some weights of edges."""
    variable = np.repeat(np.arange(len(into) + 1), np.diff(tables.ptr))
    weight = np.zeros((len(into) + 1, len(into) + 1))
    weight[:-1] = into
    np.fill_diagonal(weight, 0.0)
    factor = np.zeros((len(variable), len(variable)))
    factor[:-1] = tables.conditional
    factor *= weight[np.ix_(variable, variable)]
    return AllTrees(tables.ptr, weight, factor, np.zeros(len(variable)), False)


def estimator(method):
    def estimates(tables, into, codes, seeds, n_samples=1000, marginals=True, n_draws=1):
        seeds, model = np.array(seeds, dtype=np.uint64), directed_model(tables, into)
        codes = np.array(codes)
        return estimate_rows(method, model, codes, seeds, n_samples, marginals, n_draws)

    return estimates


ALGORITHMS = [estimator(method) for method in ("auto", "collapsed", "importance")]
auto_estimates, collapsed_estimates, importance_estimates = ALGORITHMS
CODES = {
    (3, 2): [[-1, -1], [2, -1], [-1, 0], [1, 1]],
    (2, 5, 3): [[-1, -1, -1], [1, -1, -1], [-1, 4, 0], [0, 2, 1]],
    (2, 3, 4, 2): [[-1, 2, -1, 1], [0, -1, -1, -1]],
}


def random_mixture(n_states, seed):
    """Logs of the weights of all forests, tables, and the mixture as the estimates take it."""
    root, given, tables = random_tables(n_states, seed)
    log_weight, log_root, _ = log_weights(len(n_states), seed)
    forests = naive.directed_log_weights(log_weight, log_root)
    return forests, root, given, tables, edges_into(np.exp(log_weight), np.exp(log_root))


@pytest.mark.parametrize("estimates", ALGORITHMS)
@pytest.mark.parametrize("n_states", CODES)
def test_estimates_are_as_close_to_the_sum_over_all_trees_as_they_say(n_states, estimates):
    forests, root, given, tables, into = random_mixture(n_states, seed=1)
    codes = CODES[n_states]
    found = estimates(tables, into, codes, range(len(codes)), n_samples=20_000)
    for row, code in enumerate(codes):
        error = 6 / np.sqrt(found.effective_sample_size[row]) + 1e-12
        evidence = naive.mixture_evidence(forests, code, root, given)
        assert found.log_likelihood[row] == pytest.approx(np.log(evidence), abs=error)
        expected = naive.mixture_marginals(forests, code, root, given)
        np.testing.assert_allclose(found.marginals[row], expected, atol=error / 2)
        seen = np.array(code) >= 0
        np.testing.assert_array_equal(found.draws[row, 0][seen], np.array(code)[seen])
        assert ((found.draws[row] >= 0) & (found.draws[row] < n_states)).all()
    if estimates is not auto_estimates:
        assert (found.effective_sample_size <= 20_000 * (1 + 1e-12)).all()


def test_a_chain_of_trees_and_cells_visits_states_as_often_as_they_are_probable():
    n_states = 2, 5, 3
    forests, root, given, tables, into = random_mixture(n_states, seed=1)
    codes = CODES[n_states]
    n_draws = 200
    found = estimator("gibbs")(tables, into, codes, range(4), n_samples=4000, n_draws=n_draws)
    collapsed = collapsed_estimates(tables, into, codes, range(4), n_samples=4000)
    np.testing.assert_array_equal(found.log_likelihood, collapsed.log_likelihood)
    begins = tables.ptr[:-2]
    for row, code in enumerate(codes):
        expected = naive.mixture_marginals(forests, code, root, given)
        np.testing.assert_allclose(found.marginals[row], expected, atol=0.04)
        drawn = np.bincount((begins + found.draws[row]).ravel(), minlength=len(expected)) / n_draws
        np.testing.assert_allclose(drawn, expected, atol=5 * np.sqrt(0.25 / n_draws))


@pytest.mark.parametrize("n_states", CODES)
def test_importance_weights_undo_any_proposal_exactly(n_states):
    forests, root, given, tables, into = random_mixture(n_states, seed=2)
    n_all = tables.ptr[-1]
    log_total = naive.log_sum(forests.values())
    for code in CODES[n_states]:
        codes = np.array(code)
        belief = np.append(np.random.default_rng(0).random(n_all - 1), 1.0)
        factor = guide(tables._replace(into=into), codes, belief)
        proposal, total = into * factor, 0.0
        for parents in forests:
            weight = np.prod([proposal[v, u] / factor[v, u] for v, u in enumerate(parents)])
            total += weight * np.exp(log_evidence(tables, parents, code) - log_total)
        expected = naive.mixture_evidence(forests, code, root, given)
        assert total == pytest.approx(expected, rel=1e-12)


def test_undirected_mixtures_may_hang_from_any_vertex():
    rng = np.random.default_rng(3)
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    root = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    given = {}
    for u in range(3):
        for v in range(3):
            if u != v:
                pair = joint.sum(axis=3 - u - v)
                given[u, v] = (pair if u < v else pair.T) / root[u][:, np.newaxis]
    weight = np.exp(log_weights(3, 3)[2])
    tables, into = arranged(root, given), edges_into(weight)
    trees = naive.probabilities(naive.undirected_log_weights(np.log(weight)))
    code = [1, -1, 0]
    hung = {
        edges: next(p for p in naive.forests(3) if naive.edges_of(p) == edges and p.count(-1) == 1)
        for edges in trees
    }
    expected = sum(w * naive.tree_evidence(hung[t], code, root, given) for t, w in trees.items())
    found = collapsed_estimates(tables, into, [code], [0], n_samples=20_000)
    error = 6 / np.sqrt(20_000)
    assert found.log_likelihood[0] == pytest.approx(np.log(expected), abs=error)


def test_complete_and_empty_rows_are_exact():
    forests, root, given, tables, into = random_mixture((2, 5, 3), seed=4)
    codes = [[1, 3, 0], [0, 4, 2]]
    found = auto_estimates(tables, into, codes, [1, 2], n_samples=10)
    expected = [naive.mixture_evidence(forests, code, root, given) for code in codes]
    np.testing.assert_allclose(np.exp(found.log_likelihood), expected, rtol=1e-13)
    np.testing.assert_array_equal(found.draws[:, 0], codes)
    found = collapsed_estimates(tables, into, [[-1, -1, -1]], [3], n_samples=10)
    np.testing.assert_allclose(found.log_likelihood, 0.0, atol=1e-13)
    np.testing.assert_allclose(found.effective_sample_size, 10.0)


@pytest.mark.parametrize("estimates", ALGORITHMS)
def test_what_is_not_needed_changes_nothing_else(estimates):
    _, _, _, tables, into = random_mixture((2, 5, 3), seed=2)
    codes = np.array([[1, -1, -1], [-1, -1, 2]])
    full = estimates(tables, into, codes, [3, 4], 50)
    bare = estimates(tables, into, codes, [3, 4], 50, marginals=False, n_draws=0)
    assert bare.marginals.shape == (2, 0)
    assert bare.draws.shape == (2, 0, 3)
    np.testing.assert_array_equal(bare.log_likelihood, full.log_likelihood)
    np.testing.assert_array_equal(bare.effective_sample_size, full.effective_sample_size)


@pytest.mark.parametrize("estimates", ALGORITHMS)
def test_many_draws_of_a_row_follow_its_marginals(estimates):
    _, _, _, tables, into = random_mixture((3, 2, 4), seed=7)
    codes = [[-1, 1, -1], [0, -1, -1]]
    found = estimates(tables, into, codes, [1, 2], 20_000, n_draws=4000)
    assert found.draws.shape == (2, 4000, 3)
    assert (found.draws[0, :, 1] == 1).all()
    assert (found.draws[1, :, 0] == 0).all()
    for v, begin, k in ((0, 0, 3), (2, 5, 4)):
        share = np.bincount(found.draws[0, :, v], minlength=k) / 4000
        np.testing.assert_allclose(share, found.marginals[0, begin : begin + k], atol=0.04)


@pytest.mark.parametrize("estimates", ALGORITHMS)
def test_a_mixture_of_one_tree_is_that_tree(estimates):
    n_states = [2, 3, 5, 2]
    _, _, tables = random_tables(n_states, 5)
    parent = [2, -1, 1, 1]
    into = np.zeros((4, 5))
    into[range(4), parent] = 0.7
    code = [1, -1, -1, 0]
    found = estimates(tables, into, [code], [0], n_samples=4000)
    expected = log_evidence(tables, parent, code)
    error = 6 / np.sqrt(found.effective_sample_size[0]) if estimates is auto_estimates else 1e-12
    assert found.log_likelihood[0] == pytest.approx(expected, abs=error)
    marginals = tree_marginals(tables, parent, code)[np.newaxis]
    exact = estimates is collapsed_estimates
    np.testing.assert_allclose(found.marginals, marginals, atol=1e-13 if exact else 0.05)


@pytest.mark.parametrize("estimates", ALGORITHMS)
def test_a_row_has_the_same_estimates_alone_and_among_others(estimates):
    _, _, _, tables, into = random_mixture((2, 5, 3), seed=6)
    codes = np.array([[1, -1, -1], [-1, 4, 0], [-1, -1, 2]])
    seeds = np.array([5, 2**64 - 1, 9], np.uint64)
    whole = estimates(tables, into, codes, seeds, n_samples=50)
    part = estimates(tables, into, codes[[2, 1]], seeds[[2, 1]], n_samples=50)
    for together, alone in zip(whole, part):
        np.testing.assert_array_equal(together[[2, 1]], alone)
    other = estimates(tables, into, codes, seeds - np.uint64(1), n_samples=50)
    assert (other.marginals != whole.marginals).any()


@pytest.mark.parametrize("estimates", ALGORITHMS)
def test_draws_follow_the_distribution_of_the_missing_cells(estimates):
    forests, root, given, tables, into = random_mixture((3, 2, 4), seed=7)
    code, n_draws = [-1, 1, -1], 3000
    found = estimates(tables, into, [code] * n_draws, range(n_draws), n_samples=40)
    whole = naive.mixture_evidence(forests, code, root, given)
    for row in naive.completions(code, (3, 2, 4)):
        expected = naive.mixture_evidence(forests, row, root, given) / whole
        share = (found.draws[:, 0] == row).all(axis=1).mean()
        # Resampling from 40 trees is biased by the order of 1 / 40 of the probability.
        assert abs(share - expected) < 5 * np.sqrt(expected / n_draws) + expected / 20


def test_extreme_weights_and_many_columns_stay_finite():
    n, rng = 300, np.random.default_rng(8)
    log_weight, log_root, _ = log_weights(n, 8, 30.0)
    conditional = rng.beta(0.1, 0.1, (n, 1, 2 * n + 1)).clip(1e-9, 1 - 1e-9)
    conditional = np.concatenate([conditional, 1 - conditional], axis=1).reshape(2 * n, 2 * n + 1)
    into = edges_into(np.exp(log_weight), np.exp(log_root))
    tables = TreeTables(np.append(np.arange(0, 2 * n + 1, 2), 2 * n + 1), conditional, into)
    codes = rng.integers(-1, 2, (2, n))
    for estimates in ALGORITHMS:
        found = estimates(tables, into, codes, [0, 1], n_samples=20)
        assert np.isfinite(found.log_likelihood).all()
        assert (found.effective_sample_size >= 1 - 1e-9).all()
        totals = np.add.reduceat(found.marginals, tables.ptr[:-2], axis=1)
        np.testing.assert_allclose(totals, 1.0, atol=1e-10)


N_STATES = (2, 5, 3, 2, 3)
CODE = [1, -1, -1, 0, -1]


def test_the_likelihood_is_unbiased_and_has_the_error_that_is_told():
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    expected = naive.mixture_evidence(forests, CODE, root, given)
    found = auto_estimates(tables, into, [CODE] * 400, range(400))
    ratio = np.exp(found.log_likelihood) / expected
    told = np.sqrt((1 / found.effective_sample_size).mean())
    assert abs(ratio.mean() - 1) < 4 * told / np.sqrt(400)
    # Draws that are spread evenly do better than independent ones.
    assert 0.2 * told < ratio.std() < 1.2 * told


def drawn(tables, into, n_samples, belief):
    """Estimates from completions, and whether they were given up."""
    model, codes = directed_model(tables, into), np.array([CODE])
    found = Estimates.of_observed(codes, model.ptr, True, 1)
    seeds = np.zeros(1, np.uint64)
    poor = _draw_completions(model, codes, seeds, belief[np.newaxis], n_samples, found)
    return found, len(poor) == 1


def test_a_bad_proposal_changes_the_error_but_not_the_answer(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.importance._POOR", 0.0)
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    even = 1.0 / np.repeat([*N_STATES, 1], [*N_STATES, 1])
    found, _ = drawn(tables, into, 100_000, even)
    evidence = naive.mixture_evidence(forests, CODE, root, given)
    error = 6 / np.sqrt(found.effective_sample_size[0])
    assert found.log_likelihood[0] == pytest.approx(np.log(evidence), abs=error)
    expected = naive.mixture_marginals(forests, CODE, root, given)
    np.testing.assert_allclose(found.marginals[0], expected, atol=0.03)


def test_states_that_are_not_drawn_keep_a_probability():
    _, _, _, tables, into = random_mixture((40, 2, 3), seed=3)
    code = np.array([[-1, -1, 0]])
    found = auto_estimates(tables, into, code, [0], 20)
    assert (found.marginals[0, :42] > 0).all()
    assert np.isfinite(found.log_likelihood).all()


def test_poor_completions_give_way_to_trees():
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    trees = tables._replace(into=into)
    belief = belief_propagation(trees, np.array([CODE]))[0]
    wrong = np.full(len(belief), 1e-9)
    for begin, end in zip(tables.ptr, tables.ptr[1:]):
        wrong[begin + belief[begin:end].argmin()] = 1.0
    assert not drawn(tables, into, 2000, belief)[1]
    assert drawn(tables, into, 2000, wrong)[1]


def test_rows_of_many_columns_are_estimated_by_trees(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.importance._WIDEST", 4)
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    found = auto_estimates(tables, into, [CODE], [0], 4000)
    evidence = naive.mixture_evidence(forests, CODE, root, given)
    error = 6 / np.sqrt(found.effective_sample_size[0])
    assert found.log_likelihood[0] == pytest.approx(np.log(evidence), abs=error)
