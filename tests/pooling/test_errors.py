"""Odds of hypotheses about wrong cells, and rates of errors, against what they are made of."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.domain import Domain, Numbers
from skpc.pooling.error_tails import TAIL_SHARE, ErrorTail
from skpc.pooling.errors import (
    MEAN_RATE,
    CheckedCells,
    Consensus,
    Evidence,
    Rates,
    far_away,
)
from skpc.queries import log_likelihood, score_cells
from tests.naive import cell_errors as naive
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

#: A column of which no two cells are alike.
NO_HITS = ErrorTail(Numbers())


class Answers:
    """The two answers that a judge asks for."""

    def __init__(self, circuit):
        self.circuit = circuit

    def log_density(self, rows):
        return log_likelihood(self.circuit, rows)

    def log_cells(self, rows):
        return score_cells(self.circuit, rows)


def judged(circuits, rows, log_tail):
    nothing = np.full(rows.shape, np.nan)
    log_tail = np.where(np.isnan(rows), np.nan, log_tail)
    cells = CheckedCells(rows, log_tail, np.zeros(rows.shape), nothing)
    return cells.judge(Consensus([Answers(circuit) for circuit in circuits]))


def mean_log_density(circuits, row) -> float:
    return np.mean([log_likelihood(circuit, row[np.newaxis])[0] for circuit in circuits])


def log_margins(circuits, row):
    alone = np.where(np.eye(len(row), dtype=bool), row, np.nan)
    margins = np.array([mean_log_density(circuits, cell) for cell in alone])
    return np.where(np.isnan(row), np.nan, margins)


def log_errors(circuits, row, log_tail):
    """Log density of each cell as a wrong one: its margin, or a number far from all."""
    margins = np.exp(log_margins(circuits, row))
    return np.log((1 - TAIL_SHARE) * margins + TAIL_SHARE * np.exp(log_tail))


@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
@pytest.mark.parametrize("kinds", ["discrete", "gaussian", "mixed", "scored"])
def test_probabilities_and_densities_equal_loops_over_hypotheses(make, kinds):
    for seed in range(4):
        circuits = [make(seed + k, n_features=2 + seed, kinds=kinds) for k in (0, 10)]
        circuits = circuits[: 1 + (kinds == "gaussian")]
        rows = random_rows(seed, circuits[0], 6, 0.2)
        rate = np.random.default_rng(seed).uniform(0.05, 0.4, rows.shape[1])
        evidence = judged(circuits, rows, -2.0)
        draws, densities = evidence.replaced_probabilities(rate), evidence.log_density(rate)
        for row, of_cells, density in zip(rows, draws, densities):
            log_error = log_errors(circuits, row, -2.0)
            known = ~np.isnan(row)
            sure = np.flatnonzero(known & (log_margins(circuits, row) < -42.0)).tolist()
            listed = naive.hypotheses(partial(mean_log_density, circuits), row, log_error, sure)
            listed = {
                frozenset(np.flatnonzero(known).tolist().index(v) for v in wrong): value
                for wrong, value in listed.items()
            }
            expected, total = naive.judge(listed, rate[known])
            assert_allclose(of_cells[known], expected, atol=1e-10)
            assert (of_cells[~known] == 0.0).all()
            assert density == pytest.approx(total, abs=1e-9)


def test_two_cells_have_all_hypotheses_where_one_is_doubtful():
    for seed in range(5):
        circuit = random_circuit(seed, n_features=2, kinds="gaussian")
        rows = np.array([[40.0, -60.0], [9.0, 0.3]])
        evidence, rate = judged([circuit], rows, -3.0), np.array([0.1, 0.2])
        for row, of_cells in zip(rows, evidence.replaced_probabilities(rate)):
            log_error = log_errors([circuit], row, -3.0)
            listed = naive.all_sets(partial(mean_log_density, [circuit]), row, log_error)
            assert_allclose(of_cells, naive.judge(listed, rate)[0], atol=1e-9)


def evidence_of(ratio: np.ndarray) -> Evidence:
    """Rows of which each cell alone may be wrong, with these log ratios of densities."""
    n, d = ratio.shape
    log_joint = np.column_stack([ratio, np.zeros(n)])
    nothing, zeros = np.full((n, d), np.nan), np.zeros((n, d))
    known = np.ones((n, d), dtype=bool)
    return Evidence(known, np.arange(n), ~known, log_joint, nothing, zeros, zeros)


def ratios(rate: float, n_rows: int, seed: int = 0) -> np.ndarray:
    """Log ratios of cells from two normal distributions."""
    rng = np.random.default_rng(seed)
    wrong = rng.random((n_rows, 1)) < rate
    x = rng.normal(size=(n_rows, 1)) + 3.0 * wrong
    return 3.0 * x - 4.5


def test_rates_are_a_fixed_point_of_em_near_the_truth():
    rates = Rates.fit(evidence_of(ratios(0.1, 4000)), np.ones(4000), [NO_HITS])
    # Errors that look right are not counted.
    assert 0.075 < rates.rate[0] < 0.1
    assert rates.low[0] < rates.rate[0] < rates.high[0]
    probability = evidence_of(ratios(0.1, 4000)).replaced_probabilities(rates.replaced)
    odds = probability / (1.0 - probability)
    probability = probability[odds > 5.0 * rates.replaced / (1.0 - rates.replaced)]
    shared = (probability.sum() + 50 * MEAN_RATE) / 4050
    expected = (probability.sum() + 10 * shared) / 4010
    assert rates.replaced[0] == pytest.approx(expected, rel=1e-4)


def test_each_column_has_a_rate_of_its_own():
    ratio = np.hstack([ratios(0.1, 3000), ratios(0.0, 3000, 1)])
    rates = Rates.fit(evidence_of(ratio), np.ones(3000), [NO_HITS] * 2)
    assert 0.07 < rates.rate[0] < 0.1
    assert rates.rate[1] < 0.01


def test_draws_that_hit_the_true_value_are_no_errors():
    evidence = evidence_of(ratios(0.1, 2000))
    whole = Rates.fit(evidence, np.ones(2000), [NO_HITS])
    half = Rates.fit(evidence, np.ones(2000), [NO_HITS._replace(hit_probability=0.5)])
    assert_allclose(half.replaced, whole.replaced)
    assert_allclose(half.rate, whole.rate * 0.5)
    domain = Domain.fit(np.arange(60.0).reshape(20, 3))
    given = Rates.given([0.0, 0.1, 0.2], domain, [NO_HITS._replace(hit_probability=0.2)] * 3)
    assert_allclose(given.rate, [0.0, 0.1, 0.2])
    assert_allclose(given.replaced, [0.0, 0.125, 0.25], atol=1e-300)
    known_chance = evidence._replace(value_probability=np.full((2000, 1), 0.25))
    rate = np.array([0.1])
    assert_allclose(
        known_chance.error_probabilities(rate), 0.75 * evidence.replaced_probabilities(rate)
    )


def test_doubtful_cells_keep_a_part_of_their_weight():
    evidence = evidence_of(np.array([[2.0, -9.0], [-9.0, -9.0], [30.0, -9.0]]))
    rows, weight = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
    rate = np.full(2, 0.1)
    copies, part, source = evidence.trusted_rows(rate, rows, weight)
    assert_allclose(np.bincount(source, part), weight)
    taken = np.isnan(copies)
    lost = np.zeros((3, 2))
    np.add.at(lost, source, part[:, np.newaxis] * taken)
    expected = evidence.replaced_probabilities(rate) * weight[:, np.newaxis]
    # No more than a fifth of all cells is taken away.
    factor = min(1.0, 0.2 * 12 / expected.sum())
    assert factor < 1.0
    assert_allclose(lost[[0, 2], 0], expected[[0, 2], 0] * factor)
    assert (lost[:, 1] == 0.0).all()


def test_absurd_cells_are_wrong_and_impossible_rows_have_densities():
    circuit = random_circuit(0, n_features=3, kinds="gaussian")
    rows = np.array([[1e300, 0.0, 0.0], [0.0, 0.0, 0.0]])
    evidence = judged([circuit], rows, -800.0)
    rate = np.full(3, 0.01)
    assert evidence.replaced_probabilities(rate)[0, 0] == 1.0
    assert np.isneginf(evidence.log_aside[0, 0])
    assert np.isfinite(evidence.log_density(rate)).all()
    alone = judged([circuit], np.array([[np.nan, 0.0, 0.0]]), -800.0)
    assert_allclose(
        evidence.replaced_probabilities(rate)[0, 1:],
        alone.replaced_probabilities(rate)[0, 1:],
        atol=1e-12,
    )


def test_numbers_are_far_away_by_the_quartiles_if_they_are_few():
    rng = np.random.default_rng(0)
    values = rng.normal(5.0, 2.0, (1000, 5))
    values[:5, 0] = 1e4
    values[:50, 1] = 1e4
    values[:, 2] = np.where(np.arange(1000) < 10, 3.0, 0.0)
    values[::2, 3] = np.nan
    weight, is_categorical = np.ones(1000), np.array([False, False, False, False, True])
    middle, reach = far_away(values, weight, is_categorical)
    is_far = np.abs(values - middle) > reach
    assert is_far.sum(axis=0).tolist() == [5, 0, 0, 0, 0]
    # More than a few, most numbers equal, categories.
    assert np.isinf(reach).tolist() == [False, True, True, False, True]
    assert_allclose(middle[[0, 3]], 5.0, atol=0.2)
    assert_allclose(reach[[0, 3]], 16.0, rtol=0.15)
    doubled = far_away(np.repeat(values, 2, axis=0), np.ones(2000), is_categorical)
    assert_array_equal(far_away(values, np.full(1000, 2.0), is_categorical), doubled)
