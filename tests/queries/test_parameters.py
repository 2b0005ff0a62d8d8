"""flows and fit_parameters."""

import sys

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from skpc._fitting import Rows, Stop
from skpc.circuit import SUM, CircuitBuilder, mixture
from skpc.queries import (
    condition,
    fit_parameters,
    flows,
    log_likelihood,
    sample,
    uniform_pseudo_counts,
)
from skpc.queries.flows import PseudoCounts, _statistics_of_all_edges, expected_statistics
from skpc.queries.parameters import ParametrisedCircuit, fit_to_rows
from skpc.queries.passes import induced
from tests.naive import circuit as naive
from tests.queries.test_log_likelihood import wide_mixture
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

MAKERS = [random_circuit, random_deterministic_circuit]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", ["discrete", "atoms", "scored", "mixed"])
def test_flows_equal_weighted_posterior_shares(make, kinds):
    for seed in range(8):
        circuit = make(seed, n_features=4, kinds=kinds)
        rows = random_rows(seed, circuit, 7, 0.4)
        weight = np.random.default_rng(seed).uniform(0.1, 3.0, 7)
        expected = sum(w * naive.node_flows(circuit, row) for w, row in zip(weight, rows))
        assert_allclose(flows(circuit, rows, weight), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_rows_that_are_walked_count_as_in_a_pass_over_all_edges(n_parts, missing, monkeypatch):
    monkeypatch.setattr(sys.modules["skpc.queries.flows"], "LEAST_EDGES_FOR_COUNTS", 0)
    for seed, kinds in enumerate(["discrete", "histogram", "atoms", "discrete"]):
        circuit = random_deterministic_circuit(seed, n_features=5, kinds=kinds)
        rows = random_rows(seed, circuit, 40, missing)
        weight = np.random.default_rng(seed).gamma(1.0, 1.0, 40)
        if n_parts > 1:
            circuit = mixture([circuit, fit_parameters(circuit, rows, max_iter=1)], [0.3, 0.7])
        assert induced.walk_plan(circuit).n_components == n_parts
        walked = expected_statistics(circuit, rows, weight)
        passed = _statistics_of_all_edges(circuit, rows, weight, np.ones(40, dtype=bool))
        assert_allclose(walked.edge_flow, passed.edge_flow, rtol=1e-10, atol=1e-12)
        assert_allclose(walked.leaf_statistic, passed.leaf_statistic, rtol=1e-10, atol=1e-12)
        assert walked.log_likelihood == pytest.approx(passed.log_likelihood, rel=1e-12)


def test_flows_of_rows_below_the_smallest_float_add_up():
    circuit = wide_mixture(200, 5.0)
    rows = np.random.default_rng(0).normal(size=(30, 200))
    found = flows(circuit, rows)
    assert found[-2:].sum() == pytest.approx(30.0)
    share = expit(-10.0 * rows.sum(axis=1) - np.log(3.0))
    assert found[-2] == pytest.approx(share.sum(), abs=1e-9)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"])
@pytest.mark.parametrize("pseudo_count", [0.0, 0.1, 2.0])
def test_the_penalised_objective_never_falls(make, kinds, pseudo_count):
    for seed in range(4):
        circuit = make(seed, n_features=4, kinds=kinds)
        rows = random_rows(seed, circuit, 60, 0.3)
        weight = np.random.default_rng(seed).uniform(0.0, 2.0, 60)
        objectives = objectives_of(circuit, rows, weight, pseudo_count)
        assert np.diff(objectives).min() > -1e-8


def objectives_of(circuit, rows, weight, pseudo_count, n_steps=12):
    """The penalised log-likelihoods of a circuit and of those that steps of EM make of it."""
    model, objectives = ParametrisedCircuit.from_rows(circuit, rows, weight, pseudo_count), []
    for _ in range(n_steps):
        statistics = model.expected(rows, weight)
        objectives.append(statistics.log_likelihood + model.log_prior)
        model = model.m_step(statistics)
    return objectives


@pytest.mark.parametrize("kinds", ["mixed", "scored"])
def test_statistics_of_two_parts_add_up_to_those_of_the_whole(kinds):
    for seed, make in enumerate(MAKERS):
        circuit = make(seed, n_features=4, kinds=kinds)
        rows = random_rows(seed, circuit, 60, 0.3)
        weight = np.random.default_rng(seed).uniform(0.5, 2.0, 60)
        model = ParametrisedCircuit.from_rows(circuit, rows, weight, 0.1)
        whole = vars(model.expected(rows, weight))
        parts = model.expected(rows[:23], weight[:23]) + model.expected(rows[23:], weight[23:])
        for name, total in vars(parts).items():
            assert_allclose(total, whole[name], rtol=1e-10, atol=1e-10)


def test_maximum_likelihood_of_a_deterministic_circuit_is_counting():
    circuit = random_deterministic_circuit(1, n_features=4, kinds="discrete")
    rows = random_rows(1, circuit, 500, 0.0)
    fitted = fit_parameters(circuit, rows, pseudo_count=0.0)
    count = flows(circuit, rows)
    parent = circuit.edge_parent
    total = np.bincount(parent, count, circuit.n_nodes)[parent]
    of_sum = (circuit.kind[parent] == SUM) & (count > 0)
    assert_allclose(np.exp(fitted.log_weight[of_sum]), count[of_sum] / total[of_sum])


def test_pseudo_counts_keep_every_parameter_positive():
    circuit = random_deterministic_circuit(2, n_features=3, kinds="discrete")
    possible = circuit.param > -np.inf
    fitted = fit_parameters(circuit, np.zeros((20, 3)), pseudo_count=0.5)
    assert np.all(np.isfinite(fitted.log_weight))
    assert_array_equal(fitted.param > -np.inf, possible)
    pure = fit_parameters(circuit, np.zeros((20, 3)), pseudo_count=0.0)
    assert np.isneginf(pure.log_weight).any()


def test_a_single_gaussian_takes_the_moments_of_the_rows_and_the_prior():
    builder = CircuitBuilder([0])
    builder.gaussian(0, 50.0, 3.0)
    x = np.array([1.0, 2.0, 4.0, np.nan])
    fitted = fit_parameters(builder.build(), x[:, None], pseudo_count=2.0, tol=0.0)
    assert fitted.param[0] == pytest.approx(np.nanmean(x), rel=1e-6)
    assert fitted.param[1] == pytest.approx(np.nanstd(x), rel=1e-6)


def test_weights_two_equal_rows_twice():
    circuit = random_circuit(3, n_features=4, kinds="mixed")
    rows = random_rows(3, circuit, 40, 0.2)
    weight = np.random.default_rng(0).integers(0, 3, 40)
    a = fit_parameters(circuit, rows, weight, max_iter=5)
    b = fit_parameters(circuit, np.repeat(rows, weight, axis=0), max_iter=5)
    assert_allclose(a.log_weight, b.log_weight, rtol=1e-9)
    assert_allclose(a.param, b.param, rtol=1e-9)


def test_validation_rows_choose_the_best_iterate():
    circuit = random_circuit(4, n_features=5, kinds="discrete")
    truth = random_circuit(5, n_features=5, kinds="discrete")
    truth_rows = np.minimum(sample(truth, 260, 0), circuit.n_states - 1.0)
    train, valid = truth_rows[:30], truth_rows[30:]
    options = {"pseudo_count": 1e-3, "max_iter": 60, "tol": 0.0}
    chosen = fit_parameters(circuit, train, X_val=valid, **options)
    last = fit_parameters(circuit, train, **options)
    assert log_likelihood(chosen, valid).mean() > log_likelihood(last, valid).mean()
    assert log_likelihood(chosen, valid).mean() >= log_likelihood(circuit, valid).mean()


def test_em_stops_after_four_rises_of_the_validation_likelihood_below_tol():
    circuit = random_circuit(4, n_features=5, kinds="discrete")
    rows = np.minimum(sample(random_circuit(5, n_features=5, kinds="discrete"), 400, 0), 1.0)
    train, valid = rows[:200], rows[200:]
    found, scores = circuit, [log_likelihood(circuit, valid).mean()]
    for _ in range(8):
        found = fit_parameters(found, train, max_iter=1, tol=0.0)
        scores.append(log_likelihood(found, valid).mean())
    rises = np.diff(scores)
    tol = (rises[2] + rises[3]) / 2
    assert np.all(rises[:3] > tol)
    assert np.all((rises[3:] > 0) & (rises[3:] < tol))
    data, held_out = Rows(train, np.ones(200)), Rows(valid, np.ones(200))
    assert fit_to_rows(circuit, data, 0.1, Stop(100, tol), held_out).n_iter == 7
    assert fit_to_rows(circuit, data, 0.1, Stop(100, tol)).n_iter > 7


def test_validation_rows_judge_the_last_step_without_its_objective(monkeypatch):
    circuit = random_circuit(8, n_features=4, kinds="mixed")
    rows, passes = random_rows(8, circuit, 200, 0.2), []
    every = [circuit]
    for _ in range(3):
        every.append(fit_parameters(every[-1], rows, max_iter=1, tol=0.0))
    best = max(every, key=lambda found: log_likelihood(found, rows).mean())
    expected = ParametrisedCircuit.expected
    monkeypatch.setattr(
        ParametrisedCircuit, "expected", lambda *args: passes.append(None) or expected(*args)
    )
    found = fit_parameters(circuit, rows, X_val=rows, max_iter=3, tol=0.0)
    assert_array_equal(found.param, best.param)
    assert len(passes) == 3


def test_fitting_does_not_depend_on_threads():
    circuit = random_circuit(6, n_features=4, kinds="mixed")
    rows = random_rows(6, circuit, 20_000, 0.2)
    alone = fit_parameters(circuit, rows, max_iter=2)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = fit_parameters(circuit, rows, max_iter=2)
    assert_array_equal(alone.param, together.param)
    assert_array_equal(alone.log_weight, together.log_weight)


def test_pseudo_counts_can_differ_between_parameters():
    builder = CircuitBuilder([2])
    builder.sum([builder.indicator(0, 0), builder.indicator(0, 1)], np.log([0.5, 0.5]), 0, [0, 1])
    circuit = builder.build()
    counts = PseudoCounts(np.array([3.0, 1.0]), np.zeros(4))
    fitted = fit_parameters(circuit, [[0.0], [1.0]], pseudo_count=counts)
    assert_allclose(np.exp(fitted.log_weight), [4 / 6, 2 / 6])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1.0]}, r"sample_weight needs .* shape \(2,\)"),
        ({"sample_weight": [0.0, 0.0]}, "one row needs a positive weight"),
        ({"sample_weight": [1.0, -1.0]}, "must not be negative; found -1.0 in row 1"),
        ({"pseudo_count": -1.0}, "pseudo_count must not be negative, got -1.0"),
        ({"max_iter": 0}, "max_iter must be 1 or more"),
        ({"tol": -1.0}, "tol 0 or more"),
        ({"pseudo_count": PseudoCounts(np.zeros(2), np.zeros(1))}, r"pseudo_count.edge must"),
    ],
)
def test_bad_options_are_refused(options, message):
    circuit = random_circuit(0, n_features=2, kinds="binary")
    with pytest.raises(ValueError, match=message):
        fit_parameters(circuit, np.zeros((2, 2)), **options)


def test_a_conditional_circuit_cannot_be_fitted():
    circuit = random_circuit(0, n_features=2, kinds="binary")
    given = condition(circuit, [1.0, np.nan])
    with pytest.raises(ValueError, match="before a circuit is conditioned"):
        fit_parameters(given, np.zeros((2, 2)))


def test_flows_refuse_weights_of_another_length():
    circuit = random_circuit(0, n_features=2, kinds="binary")
    with pytest.raises(
        ValueError, match=r"sample_weight needs .* shape \(3,\); found shape \(2,\)"
    ):
        flows(circuit, np.zeros((3, 2)), [1.0, 1.0])


def test_uniform_pseudo_counts_are_those_of_the_nested_prior():
    builder = CircuitBuilder([2, 3, 2])
    branches = []
    for state in (0, 1):
        rows = [builder.discrete(2, np.log([0.3, 0.7])) for _ in range(3)]
        parts = [builder.product([builder.indicator(1, s), rows[s]]) for s in range(3)]
        tree = builder.sum(parts, np.log([0.2, 0.3, 0.5]), 1, range(3))
        branches.append(builder.product([builder.indicator(0, state), tree]))
    builder.sum(branches, np.log([0.4, 0.6]), 0, [0, 1])
    circuit = builder.build()
    counts = uniform_pseudo_counts(circuit, 12.0)
    of_sum = circuit.kind[circuit.edge_parent] == SUM
    assert_allclose(counts.edge[of_sum], [2.0] * 3 + [2.0] * 3 + [6.0] * 2)
    last = np.flatnonzero(circuit.leaf_var == 2)
    for node in last:
        part = slice(circuit.param_ptr[node], circuit.param_ptr[node + 1])
        assert_allclose(counts.param[part], [1.0, 1.0])


def test_no_rows_cannot_be_fitted():
    with pytest.raises(ValueError, match="at least one row"):
        fit_parameters(random_circuit(0, n_features=2), np.empty((0, 2)))


def test_the_number_of_iterations_is_told():
    circuit = random_circuit(4, n_features=5, kinds="discrete")
    rows = sample(circuit, 50, 0)
    data = Rows(rows, np.ones(50))
    assert fit_to_rows(circuit, data, 0.1, Stop(3, 0.0)).n_iter == 3
    fit = fit_to_rows(circuit, data, 0.1, Stop(500, 1e-4))
    assert fit.converged
    assert 3 < fit.n_iter < 500
    again = fit_parameters(circuit, rows, max_iter=fit.n_iter, tol=0.0)
    assert_allclose(again.param, fit.model.circuit.param)
