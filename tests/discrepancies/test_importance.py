"""Black-box importance sampling: the weights and what is made of them."""

import warnings
from functools import partial

import cvxopt.solvers
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from skpc import CutsetNetworkBD
from skpc.discrepancies import BlackBoxImportanceSampler, importance, kdsd, stein_gram
from skpc.discrepancies.importance import least_on_simplex
from skpc.factor_graphs import FactorGraph, GibbsSampler, compile, load_asia
from skpc.kernels import ExponentialHamming
from skpc.queries import marginals
from tests.naive import factor_graph, stein
from tests.zoo import random_factor_graph

OPERATORS = ["ratio", "barker"]


def random_gram(seed, n, rank):
    root = np.random.default_rng(seed).normal(size=(n, rank))
    return root @ root.T


def positive_gram(seed, n, rank):
    """No weights have the value zero, so that a matrix of any rank has one optimum."""
    rng = np.random.default_rng(seed)
    root = np.abs(rng.normal(size=(n, rank))) * 10.0 ** rng.uniform(-2, 0, size=(n, 1))
    return root @ root.T


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("rank", [3, 8, 20])
def test_weights_minimise_the_quadratic_form_on_the_simplex(scale, rank):
    gram = scale * (random_gram(rank, 8, rank) + 0.5)
    weights, value = least_on_simplex(gram)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0)
    assert value == pytest.approx(weights @ gram @ weights)
    slow = minimize(
        lambda w: w @ gram @ w / scale,
        np.full(8, 1 / 8),
        jac=lambda w: 2 * gram @ w / scale,
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert value / scale <= slow.fun * (1 + 1e-6) + 1e-12


def test_singular_matrices_whose_minimum_is_zero_converge():
    for gram in (np.zeros((4, 4)), random_gram(0, 30, 2), np.ones((3, 3)), np.zeros((1, 1))):
        weights, value = least_on_simplex(gram)
        assert weights.sum() == pytest.approx(1.0)
        assert value <= gram.mean() + 1e-12


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("n", "rank"), [(5, 9), (40, 60), (40, 8), (120, 150)])
def test_non_negative_least_squares_find_no_lower_value(n, rank, scale):
    gram = scale * (random_gram(n, n, rank) + 0.5)
    weights, value = least_on_simplex(gram)
    slow = stein.least_on_simplex(gram)
    assert_allclose(value, slow @ gram @ slow, rtol=1e-7)
    if rank > n:
        # The minimum is unique.
        assert_allclose(weights, slow, atol=1e-6)


def test_weights_of_a_stein_kernel_are_those_of_non_negative_least_squares():
    graph = FactorGraph.ising_grid(4, 4, random_state=0)
    samples = np.unique(np.random.default_rng(0).integers(0, 2, (150, 16)), axis=0)
    gram = stein_gram(samples.astype(float), graph)
    assert_allclose(least_on_simplex(gram)[0], stein.least_on_simplex(gram), atol=1e-6)


@pytest.mark.parametrize("rank", [5, 29])
def test_weights_of_singular_matrices_with_one_optimum_are_those_of_least_squares(rank):
    for seed in range(5):
        gram = positive_gram(seed, 30, rank)
        assert_allclose(least_on_simplex(gram)[0], stein.least_on_simplex(gram), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-150, 1e-12, 1e12, 1e150])
def test_units_do_not_change_the_weights(unit):
    for gram in (random_gram(0, 20, 40), positive_gram(1, 20, 3)):
        weights, value = least_on_simplex(gram)
        weights_in_unit, value_in_unit = least_on_simplex(unit * gram)
        assert_allclose(weights_in_unit, weights, atol=1e-7)
        assert value_in_unit / unit == pytest.approx(value, rel=1e-6)
    # Many weights have the value zero here, so that rounding may choose among them.
    singular = random_gram(2, 20, 5)
    _, value_in_unit = least_on_simplex(unit * singular)
    assert value_in_unit / unit <= 1e-10 * np.diag(singular).mean()


def test_options_of_the_solver_are_neither_read_nor_changed(monkeypatch):
    gram = random_gram(0, 20, 40)
    weights, _ = least_on_simplex(gram)
    monkeypatch.setitem(cvxopt.solvers.options, "maxiters", 1)
    before = dict(cvxopt.solvers.options)
    assert_array_equal(least_on_simplex(gram)[0], weights)
    assert cvxopt.solvers.options == before


def test_weights_that_miss_the_optimum_raise_a_warning(monkeypatch):
    monkeypatch.setattr(importance, "_solved", lambda gram: np.array([1.0, 0.0]))
    with pytest.warns(
        ConvergenceWarning, match="not optimal: w'Kw = 1 may be as much as 2 above .*wanted: 1e-06"
    ):
        least_on_simplex(np.diag([1.0, 7.0]))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("n_states", [(2, 3, 4), (3, 3, 3)])
def test_all_states_together_are_weighted_by_their_probabilities(n_states, operator):
    graph = random_factor_graph(2, n_states, n_factors=4)
    p = factor_graph.conditional(graph)
    sampler = BlackBoxImportanceSampler(graph, stein_operator=operator).fit(list(p))
    assert_allclose(sampler.weights_, list(p.values()), atol=1e-4)
    for found, expected in zip(sampler.marginals(), factor_graph.marginals(graph)):
        assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("collapse", [0.0, 0.5])
def test_the_discrepancy_is_that_of_the_weighted_samples(operator, collapse):
    graph = FactorGraph.ising_grid(3, 3, random_state=0)
    samples = np.random.default_rng(0).integers(0, 2, size=(40, 9))
    sampler = BlackBoxImportanceSampler(
        graph, stein_operator=operator, collapse=collapse, random_state=0
    ).fit(samples)
    gram = stein_gram(sampler.samples_, graph, stein_operator=operator)
    weights = sampler.weights_
    assert sampler.discrepancy_ == pytest.approx(weights @ gram @ weights, rel=1e-9)
    uniform = kdsd(sampler.samples_, graph, stein_operator=operator, unbiased=False)
    assert sampler.discrepancy_ < 0.5 * uniform
    assert_array_equal(np.isnan(sampler.samples_).sum(axis=1), int(9 * collapse))


def test_equal_samples_share_their_weight():
    graph = FactorGraph.ising_grid(2, 2, random_state=0)
    samples = np.random.default_rng(0).integers(0, 2, size=(8, 4)).astype(float)
    samples[:4] = samples[0]
    samples[2:4, 1] = np.nan
    once = BlackBoxImportanceSampler(graph).fit(samples[[0, 2, 4, 5, 6, 7]])
    twice = BlackBoxImportanceSampler(graph).fit(samples)
    assert twice.weights_[0] == twice.weights_[1]
    assert twice.weights_[2] == twice.weights_[3]
    assert_allclose(2 * twice.weights_[:4:2], once.weights_[:2], atol=1e-7)


def test_given_cells_stay_collapsed_and_others_are_drawn_for_each_sample():
    graph = load_asia()
    samples = GibbsSampler(graph, collapsed=[5], burn_in=50, thinning=9, random_state=0).sample(60)
    sampler = BlackBoxImportanceSampler(graph, collapse=0.5, random_state=1).fit(samples)
    holes = np.isnan(sampler.samples_)
    assert holes[:, 5].all()
    assert_array_equal(holes.sum(axis=1), 4)
    share = np.delete(holes, 5, axis=1).mean(axis=0)
    assert 0.15 < share.min() < share.max() < 0.75
    again = BlackBoxImportanceSampler(graph, collapse=0.5, random_state=1).fit(samples)
    assert_array_equal(again.weights_, sampler.weights_)
    assert_array_equal(again.samples_, sampler.samples_)
    none = BlackBoxImportanceSampler(graph).fit(samples)
    assert_array_equal(none.samples_, samples)


def weighted_completions(sampler, graph):
    """The distribution that the samples stand for, by enumeration."""
    p = factor_graph.conditional(graph)
    found = dict.fromkeys(p, 0.0)
    for row, weight in zip(sampler.samples_, sampler.weights_):
        known = tuple(None if np.isnan(s) else int(s) for s in row)
        for state, prob in stein.completions(p, known, graph.n_states).items():
            found[state] += weight * prob
    return found


@pytest.fixture(scope="module")
def fitted():
    graph = random_factor_graph(0, (2, 3, 2, 4), n_factors=5)
    samples = np.random.default_rng(0).integers(graph.n_states, size=(30, 4))
    return BlackBoxImportanceSampler(graph, collapse=0.5, random_state=0).fit(samples), graph


def test_marginals_are_those_of_the_weighted_completions(fitted):
    sampler, graph = fitted
    expected = [np.zeros(size) for size in graph.n_states]
    for state, prob in weighted_completions(sampler, graph).items():
        for variable, s in enumerate(state):
            expected[variable][s] += prob
    for found, column in zip(sampler.marginals(), expected):
        assert_allclose(found, column, atol=1e-12)


def test_expectations_are_those_of_the_weighted_completions(fitted):
    sampler, graph = fitted

    def pairs(rows):
        return np.stack([rows[:, 0] * rows[:, 3], rows[:, 1] == rows[:, 2]], axis=1)

    weighted = weighted_completions(sampler, graph)
    expected = sum(prob * pairs(np.array([state]))[0] for state, prob in weighted.items())
    assert_allclose(sampler.expectation(pairs), expected, atol=1e-12)
    drawn = sampler.expectation(pairs, n_draws=3000, random_state=0)
    assert_allclose(drawn, expected, atol=0.02)
    for n_draws in (1.5, 0):
        with pytest.raises((TypeError, ValueError), match="n_draws"):
            sampler.expectation(pairs, n_draws=n_draws)
    assert_allclose(sampler.expectation(lambda rows: rows[:, 0]), sampler.marginals()[0][1])


def test_samples_follow_the_weighted_completions(fitted):
    sampler, graph = fitted
    draws = sampler.sample(40_000, random_state=0).astype(int)
    weighted = weighted_completions(sampler, graph)
    seen = [np.mean(np.all(draws == state, axis=1)) for state in weighted]
    assert_allclose(seen, list(weighted.values()), atol=0.012)


def test_too_many_completions_are_refused_in_favour_of_draws():
    graph = FactorGraph.ising_grid(5, 5, coupling=0.1)
    samples = np.zeros((2, 25))
    sampler = BlackBoxImportanceSampler(graph, collapse=0.8, random_state=0).fit(samples)
    with pytest.raises(ValueError, match="sample 0 has 1048576 completions, .* give n_draws"):
        sampler.expectation(lambda rows: rows[:, 0])
    assert 0 < sampler.expectation(lambda rows: rows[:, 0], n_draws=100, random_state=0) < 1


def test_a_graph_too_dense_to_compile_is_sampled_all_the_same():
    n = 40
    rng = np.random.default_rng(0)
    pairs = [((a, b), 0.05 * rng.normal(size=(2, 2))) for a in range(n) for b in range(a)]
    graph = FactorGraph([2] * n, pairs)
    samples = GibbsSampler(graph, burn_in=200, thinning=40, random_state=0).sample(50)
    sampler = BlackBoxImportanceSampler(
        graph, collapse=0.1, stein_operator="barker", random_state=0
    )
    assert all(found.sum() == pytest.approx(1.0) for found in sampler.fit(samples).marginals())


def test_everything_collapsed_is_exact():
    graph = random_factor_graph(0, (2, 3, 4), n_factors=4)
    sampler = BlackBoxImportanceSampler(graph, collapse=1.0, random_state=0)
    sampler.fit([[0, 0, 0], [1, 1, 1]])
    assert_allclose(sampler.weights_, 0.5)
    for found, expected in zip(sampler.marginals(), factor_graph.marginals(graph)):
        assert_allclose(found, expected, atol=1e-12)


def test_barker_weights_are_better_than_equal_ones_where_ratios_are_large():
    graph = FactorGraph.ising_grid(3, 3, random_state=5)
    exact = factor_graph.marginals(graph)
    errors = {"equal": [], "barker": []}
    for seed in range(8):
        samples = GibbsSampler(graph, burn_in=500, thinning=50, random_state=seed).sample(100)
        sampler = BlackBoxImportanceSampler(graph, stein_operator="barker").fit(samples)
        mean = samples.mean(axis=0)
        errors["equal"].append(np.mean(np.abs(mean - [column[1] for column in exact])))
        found = [column[1] for column in sampler.marginals()]
        errors["barker"].append(np.mean(np.abs(np.subtract(found, [c[1] for c in exact]))))
    assert np.mean(errors["barker"]) < 0.8 * np.mean(errors["equal"])


@pytest.mark.parametrize("source", ["uniform", "learned"])
def test_samples_of_another_distribution_are_bent_towards_the_target(source):
    graph = FactorGraph.ising_grid(3, 3, coupling=0.2, field=0.4)
    rng = np.random.default_rng(0)
    samples = rng.integers(0, 2, size=(300, 9)).astype(float)
    if source == "learned":
        other = rng.random((500, 9)) < np.linspace(0.5, 0.9, 9)
        samples = CutsetNetworkBD().fit(other.astype(float)).sample(300, random_state=0)
    sampler = BlackBoxImportanceSampler(graph, collapse=0.3, random_state=0).fit(samples)
    exact = [column[1] for column in factor_graph.marginals(graph)]
    found = [column[1] for column in sampler.marginals()]
    before, after = (np.abs(np.subtract(m, exact)).mean() for m in (samples.mean(axis=0), found))
    assert after < 0.2 * before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": None}, TypeError, "target must be a FactorGraph or a Circuit .* got NoneType"),
        ({"n_samples": 0}, ValueError, "n_samples == 0, must be >= 1"),
        ({"stein_operator": "x"}, ValueError, "one of .'ratio', 'barker'., got 'x'"),
        ({"collapse": 1.5}, ValueError, "a proportion from 0 to 1, got 1.5"),
        ({"collapse": "half"}, ValueError, "a proportion from 0 to 1, got 'half'"),
        ({"kernel": 2}, TypeError, "kernel must be a Kernel"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    sampler = BlackBoxImportanceSampler(**{"target": FactorGraph([2], []), **options})
    with pytest.raises(error, match=message):
        sampler.fit()


def test_a_fit_without_samples_draws_them_and_its_score_is_minus_the_discrepancy():
    graph = FactorGraph.ising_grid(2, 2, coupling=0.3, field=0.2)
    circuit = compile(graph)
    exact = [column[0] for column in marginals(circuit, np.full((1, 4), np.nan))]
    for target in (graph, circuit):
        sampler = BlackBoxImportanceSampler(target, n_samples=200, random_state=0).fit()
        assert sampler.samples_.shape == (200, 4)
        assert_allclose(sampler.marginals(), exact, atol=0.01)
        gram = stein_gram(sampler.samples_, graph, stein_operator="barker")
        assert sampler.score() == pytest.approx(-sampler.weights_ @ gram @ sampler.weights_)
        drawn = sampler.sample(2000, random_state=0)
        assert_allclose(drawn.mean(axis=0), np.array(exact)[:, 1], atol=0.05)
        mean = sampler.expectation(lambda rows: rows)
        assert_allclose(mean, [column[1] for column in sampler.marginals()])


def test_a_sampler_is_cloned_and_told_as_an_estimator():
    circuit = compile(FactorGraph.ising_grid(2, 2, coupling=0.3))
    sampler = BlackBoxImportanceSampler(circuit, n_samples=50, random_state=1)
    again = clone(sampler).set_params(n_samples=60)
    assert again.get_params()["n_samples"] == 60
    assert not hasattr(again, "weights_")
    assert_allclose(again.fit().weights_, clone(again).fit().weights_)
    with pytest.raises(ValueError, match="collapse must be 0 if the target is a circuit, got 0.5"):
        sampler.set_params(collapse=0.5).fit()


def test_bad_samples_are_refused():
    graph = FactorGraph.ising_grid(2, 2, coupling=0.1)
    sampler = BlackBoxImportanceSampler(graph, kernel=ExponentialHamming(1.0))
    with pytest.raises(ValueError, match="one row or more, got none"):
        sampler.fit(np.empty((0, 4)))
    with pytest.raises(ValueError, match="states 0..1"):
        sampler.fit([[0, 0, 2, 0]])
    for query in (sampler.marginals, sampler.sample, partial(sampler.expectation, np.sum, 5)):
        with pytest.raises(NotFittedError, match="call fit first"):
            query()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.fit([[0, 0, 1, 0]])
