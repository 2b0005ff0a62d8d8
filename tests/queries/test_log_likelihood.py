"""log_likelihood against recursion over nodes, one row at a time."""

import sys

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder, mixture
from skpc.queries import condition, fit_parameters, log_likelihood
from skpc.queries.passes import induced
from skpc.queries.passes.upward import feed_forward
from tests.naive import circuit as naive
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

KINDS = ["binary", "discrete", "gaussian", "histogram", "atoms", "scored", "mixed"]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_log_likelihood_equals_the_recursion_over_nodes(make, kinds, missing):
    """And so does a pass over all edges where rows walk."""
    for seed in range(6):
        circuit = make(seed, n_features=1 + seed % 5, kinds=kinds)
        rows = random_rows(seed, circuit, 15, missing)
        expected = [naive.density(circuit, row) for row in rows]
        for answer in (log_likelihood(circuit, rows), feed_forward(circuit, rows)):
            assert_allclose(answer, np.log(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_rows_walk_each_deterministic_part_of_a_circuit(n_parts, missing, monkeypatch):
    """Complete rows do; the others take a pass over all edges."""
    monkeypatch.setattr(sys.modules["skpc.queries.log_likelihood"], "LEAST_EDGES_FOR_VALUES", 0)
    for seed, kinds in enumerate(["binary", "discrete", "histogram", "atoms"]):
        circuit = random_deterministic_circuit(seed, n_features=4, kinds=kinds)
        if n_parts > 1:
            evened = fit_parameters(circuit, random_rows(9, circuit, 10, 0.0), pseudo_count=5.0)
            circuit = mixture([circuit, evened], [0.3, 0.7])
        assert induced.walk_plan(circuit).n_components == n_parts
        rows = random_rows(seed, circuit, 20, missing)
        expected = np.log([naive.density(circuit, row) for row in rows])
        assert_allclose(log_likelihood(circuit, rows), expected, rtol=1e-10, atol=1e-10)


def test_other_circuits_are_not_walked():
    assert induced.walk_plan(random_circuit(3, n_features=5, kinds="binary")) is None
    assert induced.walk_plan(random_deterministic_circuit(3, kinds="gaussian")) is None
    circuit = random_deterministic_circuit(3, n_features=5, kinds="binary")
    evidence = random_rows(3, circuit, 1, 0.0)[0]
    evidence[1:] = np.nan
    assert induced.walk_plan(circuit) is not None
    assert induced.walk_plan(condition(circuit, evidence)) is None


@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
def test_probabilities_of_all_rows_sum_to_one(make):
    circuit = make(5, n_features=5, kinds="discrete")
    total = np.exp(log_likelihood(circuit, naive.all_rows(circuit))).sum()
    assert total == pytest.approx(1.0, abs=1e-12)


def test_a_row_with_every_cell_missing_has_log_likelihood_zero():
    circuit = random_circuit(1, kinds="mixed")
    assert_allclose(log_likelihood(circuit, np.full((3, 4), np.nan)), 0.0, atol=1e-12)


def wide_mixture(n_features: int, distance: float):
    """Two clusters of products so improbable that linear numbers underflow."""
    builder = CircuitBuilder([0] * n_features)
    parts = [
        builder.product([builder.gaussian(var, mean, 1.0) for var in range(n_features)])
        for mean in (-distance, distance)
    ]
    builder.sum(parts, np.log([0.25, 0.75]))
    return builder.build()


def test_rows_below_the_smallest_float_are_evaluated_in_logs():
    circuit = wide_mixture(200, 5.0)
    rows = np.random.default_rng(0).normal(size=(40, 200))
    log_density = log_likelihood(circuit, rows)
    squares = [((rows - mean) ** 2).sum(axis=1) for mean in (-5.0, 5.0)]
    terms = [np.log(w) - 0.5 * s for w, s in zip((0.25, 0.75), squares)]
    assert log_density.max() < -745
    assert_allclose(log_density, np.logaddexp(*terms) - 100 * np.log(2 * np.pi), rtol=1e-12)


def test_a_rare_category_far_below_the_smallest_float_keeps_its_value():
    builder = CircuitBuilder([2] * 300)
    leaves = [builder.discrete(var, [np.log(1e-4), np.log1p(-1e-4)]) for var in range(300)]
    builder.product(leaves)
    assert_allclose(log_likelihood(builder.build(), np.zeros((1, 300))), 300 * np.log(1e-4))


def test_an_impossible_row_has_minus_infinity():
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.5, 0.5]))])
    circuit = builder.build()
    assert_array_equal(log_likelihood(circuit, [[0.0, np.nan], [0.0, 1.0]]), [-np.inf, -np.inf])


def test_a_state_without_a_branch_is_impossible():
    builder = CircuitBuilder([3])
    builder.sum([builder.indicator(0, 0), builder.indicator(0, 2)], np.log([0.3, 0.7]), 0, [0, 2])
    assert_allclose(
        log_likelihood(builder.build(), [[0.0], [1.0], [2.0]]), [np.log(0.3), -np.inf, np.log(0.7)]
    )


@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
def test_threads_and_chunks_do_not_change_a_bit(make):
    circuit = make(3, n_features=5, kinds="discrete")
    rows = random_rows(0, circuit, 40_000, 0.1)
    alone = log_likelihood(circuit, rows)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(log_likelihood(circuit, rows), alone)
    assert_array_equal(log_likelihood(circuit, rows[12_345:12_400]), alone[12_345:12_400])


def test_read_only_and_strided_rows_are_read_alike():
    circuit = random_circuit(2, kinds="mixed")
    rows = random_rows(2, circuit, 50)
    expected = log_likelihood(circuit, rows)
    frozen = rows.copy()
    frozen.flags.writeable = False
    assert_array_equal(log_likelihood(circuit, frozen), expected)
    assert_array_equal(log_likelihood(circuit, np.asfortranarray(rows)), expected)


@pytest.mark.parametrize("bad", [2.0, -1.0, 0.5, np.inf])
@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
def test_a_cell_that_is_no_state_is_refused_by_row_and_variable(make, bad):
    circuit = make(0, n_features=3, kinds="binary")
    rows = np.zeros((9000, 3))
    rows[8500, 1] = bad
    with pytest.raises(ValueError, match=r"X\[8500, 1\] must be one of the states 0..1"):
        log_likelihood(circuit, rows)
    rows[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"X\[\d+, 1\] must be one of the states 0..1"):
        log_likelihood(circuit, rows)


@pytest.mark.parametrize("kinds", ["gaussian", "histogram", "atoms", "scored"])
def test_an_infinite_number_is_refused(kinds):
    circuit = random_circuit(0, n_features=2, kinds=kinds)
    with pytest.raises(ValueError, match=r"X\[0, 1\] must be .* got -inf"):
        log_likelihood(circuit, [[0.0, -np.inf]])


def test_rows_of_another_width_are_refused():
    circuit = random_circuit(0, n_features=3)
    with pytest.raises(ValueError, match=r"must have shape \(n_rows, 3\), got \(2, 2\)"):
        log_likelihood(circuit, np.zeros((2, 2)))


def test_no_rows_give_no_values():
    assert log_likelihood(random_circuit(0, n_features=3), np.empty((0, 3))).shape == (0,)


def test_a_deep_chain_needs_no_recursion():
    builder = CircuitBuilder([2] * 5000)
    node = builder.discrete(0, np.log([0.4, 0.6]))
    for var in range(1, 5000):
        node = builder.product([node, builder.discrete(var, np.log([0.4, 0.6]))])
    circuit = builder.build()
    assert circuit.deterministic
    rows = np.ones((2, 5000))
    rows[1, 7] = np.nan
    assert_allclose(log_likelihood(circuit, rows), np.array([5000, 4999]) * np.log(0.6))


def test_conditional_circuits_do_not_read_the_known_cells():
    circuit = random_deterministic_circuit(4, n_features=4, kinds="mixed")
    evidence = random_rows(4, circuit, 1, 0.0)[0]
    evidence[2:] = np.nan
    rows = random_rows(5, circuit, 6, 0.0)
    other = rows.copy()
    other[:, :2] = np.nan
    given = condition(circuit, evidence)
    assert_array_equal(log_likelihood(given, rows), log_likelihood(given, other))


def test_an_estimator_or_a_raw_table_is_refused_with_the_way_out():
    circuit = random_circuit(0, n_features=2, kinds="binary")
    with pytest.raises(TypeError, match="ask a Circuit, got str; .* circuit_"):
        log_likelihood("circuit", [[0.0, 1.0]])
    with pytest.raises(ValueError, match=r"encoded rows of numbers .*domain_.encode"):
        log_likelihood(circuit, [["red", 1.0]])


@pytest.mark.parametrize("kinds", ["binary", "mixed"])
def test_masked_cells_are_missing(kinds):
    circuit = random_circuit(0, n_features=4, kinds=kinds)
    rows = random_rows(1, circuit, 20, 0.3)
    masked = np.ma.array(np.where(np.isnan(rows), 1.0, rows), mask=np.isnan(rows))
    expected = log_likelihood(circuit, rows)
    assert_array_equal(log_likelihood(circuit, masked), expected)
    assert_array_equal(log_likelihood(circuit, list(masked)), expected)
    log_weight = condition(circuit, rows[0]).log_weight
    assert_array_equal(condition(circuit, masked[0]).log_weight, log_weight)
