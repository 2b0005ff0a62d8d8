"""marginals, moments and condition against expectations taken leaf by leaf."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from skpc.circuit import CircuitBuilder
from skpc.queries import condition, log_likelihood, marginals, moments
from skpc.queries.posteriors import expected_cells
from tests.naive import circuit as naive
from tests.queries.test_log_likelihood import wide_mixture
from tests.zoo import AXIS, random_circuit, random_deterministic_circuit, random_rows

MAKERS = [random_circuit, random_deterministic_circuit]


@pytest.mark.parametrize("make", MAKERS)
def test_marginals_equal_sums_over_all_rows(make):
    for seed in range(10):
        circuit = make(seed, n_features=1 + seed % 5, kinds="discrete")
        rows = random_rows(seed, circuit, 6, 0.5)
        every = naive.all_rows(circuit)
        joint = np.array([naive.density(circuit, row) for row in every])
        found = marginals(circuit, rows)
        for r, row in enumerate(rows):
            weight = joint * np.all(np.isnan(row) | (every == row), axis=1)
            for var in range(circuit.n_features):
                counts = np.bincount(every[:, var].astype(int), weight, circuit.n_states[var])
                assert_allclose(found[var][r], counts / weight.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", MAKERS)
def test_bin_marginals_equal_expectations_of_bin_indicators(make):
    circuit = make(3, n_features=3, kinds="histogram")
    rows = random_rows(1, circuit, 3, 0.6)
    found = marginals(circuit, rows)
    for r, row in enumerate(rows):
        for var in np.flatnonzero(np.isnan(row)):
            expected = [
                naive.posterior_expectation(
                    circuit, row, var, lambda x, s=s: np.searchsorted(AXIS[0], x, "right") == s
                )
                for s in range(5)
            ]
            assert_allclose(found[var][r], expected, atol=1e-7)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"])
def test_moments_equal_posterior_expectations_by_quadrature(make, kinds):
    for seed in range(3):
        circuit = make(seed, n_features=3, kinds=kinds)
        rows = random_rows(seed + 7, circuit, 3, 0.5)
        mean, variance = moments(circuit, rows)
        for r, row in enumerate(rows):
            for var in range(3):
                if not np.isnan(row[var]):
                    assert (mean[r, var], variance[r, var]) == (row[var], 0.0)
                    continue
                first = naive.posterior_expectation(circuit, row, var, float)
                second = naive.posterior_expectation(circuit, row, var, lambda x: x**2)
                assert mean[r, var] == pytest.approx(first, abs=1e-8)
                assert variance[r, var] == pytest.approx(second - first**2, abs=1e-7)


def test_variance_survives_a_mean_a_billion_times_larger():
    builder = CircuitBuilder([0])
    parts = [builder.gaussian(0, 1e9 + shift, 0.5) for shift in (-1.0, 1.0)]
    builder.sum(parts, np.log([0.5, 0.5]))
    mean, variance = moments(builder.build(), [[np.nan]])
    assert_allclose(mean, 1e9)
    assert_allclose(variance, 1.25)


def test_observed_cells_are_degenerate():
    circuit = random_circuit(6, n_features=3, kinds="histogram")
    found = marginals(circuit, [[-5.0, 0.2, 9.0]])
    states = [prob[0].argmax() for prob in found]
    assert states == [0, 2, 4]
    assert all(prob.max() == 1.0 for prob in found)


def test_categories_may_stand_before_an_axis():
    builder = CircuitBuilder([2, 5], [None, AXIS])
    builder.product([builder.discrete(0, np.log([0.5, 0.5])), builder.indicator(1, 2)])
    found = marginals(builder.build(), [[1.0, 0.2], [0.0, np.nan]])
    assert_array_equal(found[0], [[0, 1], [1, 0]])
    assert_array_equal(found[1], [[0, 0, 1, 0, 0]] * 2)


def test_numeric_variables_without_an_axis_have_no_states():
    circuit = random_circuit(6, n_features=2, kinds="gaussian")
    assert marginals(circuit, np.zeros((4, 2))) == [None, None]


def test_posteriors_of_rows_below_the_smallest_float_are_exact():
    circuit = wide_mixture(200, 5.0)
    rows = np.random.default_rng(1).normal(size=(3, 200)) + np.array([[-1.0], [0.0], [1.0]])
    rows[:, 0] = np.nan
    assert log_likelihood(circuit, rows).max() < -745
    exponent = -10.0 * rows[:, 1:].sum(axis=1)
    share = expit(exponent - np.log(3.0))
    mean, _ = moments(circuit, rows)
    assert_allclose(mean[:, 0], -5 * share + 5 * (1 - share), atol=1e-9)


@pytest.mark.parametrize("query", [marginals, moments])
def test_posteriors_do_not_depend_on_threads(query):
    circuit = random_circuit(8, n_features=5, kinds="mixed")
    rows = random_rows(8, circuit, 3000, 0.4)
    alone = query(circuit, rows)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        for a, b in zip(alone, query(circuit, rows)):
            assert_array_equal(a, b)


def test_nothing_follows_from_an_impossible_row():
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.5, 0.5]))])
    circuit = builder.build()
    rows = [[1.0, np.nan], [0.0, np.nan]]
    for query in (marginals, moments):
        with pytest.raises(ValueError, match="row 1 of X has probability zero"):
            query(circuit, rows)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", ["discrete", "atoms", "scored", "mixed"])
def test_conditional_times_marginal_is_the_joint(make, kinds):
    for seed in range(8):
        circuit = make(seed, n_features=4, kinds=kinds)
        evidence = random_rows(seed, circuit, 1, 0.5)[0]
        rows = random_rows(seed + 1, circuit, 6, 0.2)
        rows[:, ~np.isnan(evidence)] = evidence[~np.isnan(evidence)]
        given = condition(circuit, evidence)
        assert given.structure is circuit.structure
        assert_allclose(
            log_likelihood(given, rows) + log_likelihood(circuit, evidence[np.newaxis]),
            log_likelihood(circuit, rows),
            rtol=1e-10,
        )


def test_conditioning_twice_equals_conditioning_once():
    circuit = random_circuit(9, n_features=4, kinds="mixed")
    both = random_rows(9, circuit, 1, 0.0)[0]
    both[3] = np.nan
    first, second = both.copy(), both.copy()
    first[1:] = np.nan
    second[0] = np.nan
    twice, once = condition(condition(circuit, first), second), condition(circuit, both)
    assert_allclose(twice.log_weight, once.log_weight, atol=1e-12)
    assert_array_equal(twice.observed, once.observed)
    rows = np.full((1, 4), np.nan)
    assert_allclose(moments(twice, rows)[0], moments(circuit, [both])[0])


def test_conditional_circuits_are_normalised_and_remember_their_evidence():
    circuit = random_deterministic_circuit(2, n_features=4, kinds="discrete")
    given = condition(circuit, [1.0, np.nan, np.nan, np.nan])
    every = naive.all_rows(circuit)
    every = every[every[:, 0] == 1]
    assert np.exp(log_likelihood(given, every)).sum() == pytest.approx(1.0)
    assert_allclose(marginals(given, np.full((1, 4), np.nan))[0][0][1], 1.0)


def test_impossible_or_contradicting_evidence_is_refused():
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.5, 0.5]))])
    circuit = builder.build()
    with pytest.raises(ValueError, match="probability zero under the circuit: variable 0 = 0"):
        condition(circuit, [0.0, np.nan])
    given = condition(circuit, [np.nan, 1.0])
    with pytest.raises(ValueError, match="conditioned on variable 1 = 1, so that 0"):
        condition(given, [np.nan, 0.0])
    with pytest.raises(ValueError, match=r"evidence must have shape \(2,\)"):
        condition(circuit, [0.0])


@pytest.mark.parametrize("make", MAKERS)
def test_one_walk_fills_numbers_by_their_means_and_categories_by_their_modes(make):
    for seed in range(3):
        circuit = make(seed, n_features=5, kinds="mixed")
        rows = random_rows(seed, circuit, 12, 0.5)
        is_category = circuit.structure.is_categorical
        numbers, categories = np.flatnonzero(~is_category), np.flatnonzero(is_category)
        filled = expected_cells(circuit, rows, range(5))
        assert_allclose(filled[:, numbers], moments(circuit, rows)[0][:, numbers], rtol=1e-12)
        for var in categories:
            assert_array_equal(filled[:, var], marginals(circuit, rows)[var].argmax(axis=1))
        assert_array_equal(filled[~np.isnan(rows)], rows[~np.isnan(rows)])
        some = expected_cells(circuit, rows, numbers[:1])
        others = np.setdiff1d(np.arange(5), numbers[:1])
        assert_array_equal(some[:, others], rows[:, others])
