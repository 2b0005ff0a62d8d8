"""score_cells and log_conditional against densities of rows with and without cells."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder
from skpc.queries import condition, log_conditional, log_likelihood, sample, score_cells
from tests.naive import circuit as naive
from tests.queries.test_log_likelihood import wide_mixture
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

MAKERS = [random_circuit, random_deterministic_circuit]
KINDS = ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", KINDS)
def test_the_score_of_a_cell_is_the_row_with_the_cell_over_the_row_without_it(make, kinds):
    for seed in range(10):
        circuit = make(seed, n_features=1 + seed % 5, kinds=kinds)
        rows = random_rows(seed, circuit, 6, 0.3)
        found = score_cells(circuit, rows)
        assert_array_equal(np.isnan(found), np.isnan(rows))
        for r, row in enumerate(rows):
            for var in np.flatnonzero(~np.isnan(row)):
                expected = naive.score_cells(circuit, row, var)
                assert found[r, var] == pytest.approx(expected, abs=1e-9)


def test_rows_too_improbable_for_the_linear_domain_are_as_exact():
    circuit = wide_mixture(2000, 0.5)
    rows = sample(circuit, 3, random_state=0)
    rows[0, 5] = np.nan
    found = score_cells(circuit, rows)
    for r, var in [(0, 0), (1, 5), (2, 1999)]:
        without = rows[[r]].copy()
        without[0, var] = np.nan
        expected = log_likelihood(circuit, rows[[r]]) - log_likelihood(circuit, without)
        assert found[r, var] == pytest.approx(expected[0], abs=1e-9)
    assert np.isnan(found[0, 5])


def test_a_cell_far_out_leaves_the_others_their_digits():
    builder = CircuitBuilder([0, 0])
    parts = [
        builder.product([builder.gaussian(0, m, 1.0), builder.gaussian(1, -m, 1.0)])
        for m in (-1.0, 1.0)
    ]
    builder.sum(parts, np.log([0.5, 0.5]))
    circuit = builder.build()
    found = score_cells(circuit, [[1e4, 0.5]])
    alone = log_likelihood(circuit, [[np.nan, 0.5]])
    assert found[0, 0] == pytest.approx(-0.5 * 9999.0**2, rel=1e-7)
    # So far to one side, the first cell leaves no doubt which part the row is from.
    assert found[0, 1] == pytest.approx(-0.5 * 1.5**2 - 0.5 * np.log(2 * np.pi), abs=1e-6)
    assert alone > found[0, 1]


def test_an_impossible_cell_has_minus_infinity_and_impossible_others_are_refused():
    builder = CircuitBuilder([2, 2, 2])
    same = [builder.product([builder.indicator(v, s) for v in range(3)]) for s in (0, 1)]
    builder.sum(same, np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1])
    circuit = builder.build()
    assert_allclose(score_cells(circuit, [[0.0, np.nan, 0.0]]), [[0.0, np.nan, 0.0]])
    assert_array_equal(score_cells(circuit, [[np.nan, np.nan, 1.0]])[0, :2], [np.nan, np.nan])
    two = [[0.0, 0.0, 0.0], [0.0, np.nan, 1.0]]
    assert_array_equal(score_cells(circuit, two)[1], [-np.inf, np.nan, -np.inf])
    with pytest.raises(ValueError, match="row 1 .* probability zero"):
        score_cells(circuit, [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_cells_that_the_circuit_has_been_conditioned_on_have_no_score():
    circuit = random_circuit(4, n_features=3, kinds="discrete")
    given = condition(circuit, [np.nan, 1.0, np.nan])
    found = score_cells(given, [[0.0, 1.0, 1.0]])
    assert np.isnan(found[0, 1])
    assert_allclose(found[:, [0, 2]], score_cells(circuit, [[0.0, 1.0, 1.0]])[:, [0, 2]])


def test_threads_do_not_change_scores_of_cells():
    circuit = random_circuit(5, n_features=5, kinds="mixed")
    rows = random_rows(0, circuit, 5000, 0.2)
    alone = score_cells(circuit, rows)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(score_cells(circuit, rows), alone)


@pytest.mark.parametrize("kinds", KINDS)
def test_conditional_densities_obey_the_chain_rule(kinds):
    circuit = random_circuit(1, n_features=4, kinds=kinds)
    rows = random_rows(0, circuit, 50, 0.2)
    first = log_conditional(circuit, rows, [0, 2])
    known = rows.copy()
    known[:, [1, 3]] = np.nan
    assert_allclose(first + log_likelihood(circuit, known), log_likelihood(circuit, rows))
    assert_allclose(log_conditional(circuit, rows, []), log_likelihood(circuit, rows))
    assert_allclose(log_conditional(circuit, rows, [0, 1, 2, 3]), 0.0, atol=1e-12)


def test_impossible_evidence_is_refused_with_its_row():
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 0), builder.indicator(1, 0)])
    circuit = builder.build()
    assert_array_equal(log_conditional(circuit, [[0.0, 1.0]], [0]), [-np.inf])
    with pytest.raises(ValueError, match="row 1 .* probability zero"):
        log_conditional(circuit, [[0.0, 1.0], [1.0, 0.0]], [0])
