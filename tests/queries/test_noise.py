"""Rows whose cells may be wrong, against sums over all sets of wrong cells."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder
from skpc.queries import NoisyCells, log_likelihood, log_margins, score_cells
from tests.naive import noise as naive
from tests.zoo import (
    random_block_circuit,
    random_circuit,
    random_deterministic_circuit,
    random_rows,
)

MAKERS = [random_circuit, random_deterministic_circuit]
KINDS = ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"]


def noisy_rows(seed: int, circuit, n_rows: int, missing: float = 0.3) -> NoisyCells:
    rng, rows = np.random.default_rng(seed), random_rows(seed, circuit, n_rows, missing)
    rate = rng.uniform(0.01, 0.4, rows.shape[1])
    return NoisyCells(rows, np.log1p(-rate), np.log(rate * rng.uniform(0.01, 1.0, rows.shape)))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", KINDS)
def test_the_density_sums_over_all_sets_of_wrong_cells(make, kinds):
    for seed in range(6):
        circuit = make(seed, n_features=1 + seed % 5, kinds=kinds)
        noisy = noisy_rows(seed, circuit, 5)
        of_rows, of_cells = log_likelihood(circuit, noisy), score_cells(circuit, noisy)
        right = np.exp(noisy.log_right)
        for row, wrong, log_density, cells in zip(
            noisy.rows, np.exp(noisy.log_wrong), of_rows, of_cells
        ):
            expected = naive.density(circuit, row, right, wrong)
            assert log_density == pytest.approx(np.log(expected), abs=1e-9)
            for var in np.flatnonzero(~np.isnan(row)):
                without = row.copy()
                without[var] = np.nan
                rest = naive.density(circuit, without, right, wrong)
                assert cells[var] == pytest.approx(np.log(expected / rest), abs=1e-9)


@pytest.mark.parametrize("make", MAKERS)
def test_probabilities_equal_those_by_enumeration_of_errors_and_true_rows(make):
    for seed in range(1):
        circuit = make(seed, n_features=8, kinds="binary")
        noisy = noisy_rows(seed, circuit, 2, missing=0.1)
        size = np.ones(noisy.rows.shape)
        result = noisy.probabilities(score_cells(circuit, noisy), size)
        right, wrong = np.exp(noisy.log_right), np.exp(noisy.log_wrong)
        expected = [
            naive.probabilities(circuit, *cells, w)
            for *cells, w in zip(noisy.rows, [right] * 2, wrong)
        ]
        assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_an_absurd_cell_costs_what_an_error_costs():
    builder = CircuitBuilder([0, 0])
    parts = [
        builder.product([builder.gaussian(0, m, 1.0), builder.gaussian(1, -m, 1.0)])
        for m in (-1.0, 1.0)
    ]
    builder.sum(parts, np.log([0.5, 0.5]))
    circuit = builder.build()
    noisy = NoisyCells(np.array([[1e300, 0.5]]), np.log([0.9, 0.9]), np.array([[-600.0, -8.0]]))
    without = noisy._replace(rows=np.array([[np.nan, 0.5]]))
    difference = log_likelihood(circuit, noisy) - log_likelihood(circuit, without)
    assert difference == pytest.approx(-600.0, abs=1e-9)
    of_cells, alone = score_cells(circuit, noisy)[0], score_cells(circuit, without)[0]
    assert of_cells[0] == pytest.approx(-600.0)
    assert of_cells[1] == pytest.approx(alone[1])
    assert noisy.probabilities(of_cells[np.newaxis], np.zeros((1, 2)))[0, 0] == 1.0


def test_rows_too_improbable_for_the_linear_domain_are_as_exact():
    n = 400
    builder = CircuitBuilder([0] * n)
    parts = [builder.product([builder.gaussian(v, m, 1.0) for v in range(n)]) for m in (0.0, 1.0)]
    builder.sum(parts, np.log([0.5, 0.5]))
    circuit = builder.build()
    rows = np.random.default_rng(0).normal(size=(3, n)) * 3.0
    noisy = NoisyCells(rows, np.full(n, np.log(0.9)), np.full(rows.shape, np.log(0.1) - 5.0))

    def leaf(x, mean):
        return np.logaddexp(
            np.log(0.9) - 0.5 * (x - mean) ** 2 - 0.5 * np.log(2 * np.pi), np.log(0.1) - 5.0
        )

    both = np.array([leaf(rows, m).sum(axis=1) for m in (0.0, 1.0)]) - np.log(2)
    assert both.max() < -800.0
    assert_allclose(log_likelihood(circuit, noisy), np.logaddexp(*both), rtol=1e-12)
    rest = np.logaddexp(*[b[:, np.newaxis] - leaf(rows, m) for b, m in zip(both, (0.0, 1.0))])
    expected = np.logaddexp(*both)[:, np.newaxis] - rest
    assert_allclose(score_cells(circuit, noisy), expected, atol=1e-9)


def test_threads_do_not_change_the_bits():
    circuit = random_circuit(3, n_features=5, kinds="mixed")
    noisy = noisy_rows(0, circuit, 3000)
    one = score_cells(circuit, noisy), log_likelihood(circuit, noisy)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        two = score_cells(circuit, noisy), log_likelihood(circuit, noisy)
    for a, b in zip(one, two):
        assert_array_equal(a, b)


def test_leaves_of_several_variables_are_refused():
    circuit = random_block_circuit(0)
    noisy = noisy_rows(0, circuit, 2)
    for query in (log_likelihood, score_cells):
        with pytest.raises(ValueError, match="leaves of one variable each"):
            query(circuit, noisy)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", KINDS)
def test_the_margin_of_a_cell_is_the_density_of_a_row_that_has_nothing_else(make, kinds):
    for seed in range(4):
        circuit = make(seed, n_features=1 + seed, kinds=kinds)
        rows = random_rows(seed, circuit, 5, 0.2)
        alone = np.full((*rows.shape, rows.shape[1]), np.nan)
        for var in range(rows.shape[1]):
            alone[:, var, var] = rows[:, var]
        expected = log_likelihood(circuit, alone.reshape(-1, rows.shape[1])).reshape(rows.shape)
        expected = np.where(np.isnan(rows), np.nan, expected)
        assert_allclose(log_margins(circuit, rows), expected, rtol=0, atol=1e-9)
