"""Rates of errors, rows without them, and calibration, against what they are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from skpc.domain import Domain
from skpc.pooling.error_tails import ErrorTail
from skpc.pooling.errors import (
    MEAN_RATE,
    Calibration,
    Judged,
    Rates,
    doubtful_cells,
    injected,
    without_errors,
)


def ratios(rate: float, n_rows: int, seed: int = 0):
    """Log ratios of cells from two normal distributions, and which are errors."""
    rng = np.random.default_rng(seed)
    wrong = rng.random((n_rows, 1)) < rate
    x = rng.normal(size=(n_rows, 1)) + 3.0 * wrong
    return 3.0 * x - 4.5, wrong


def test_rates_maximise_likelihood_times_prior():
    ratio, _ = ratios(0.1, 800)

    def negative(rate):
        prior = 50.0 * (MEAN_RATE * np.log(rate) + (1 - MEAN_RATE) * np.log1p(-rate))
        return -prior - np.log1p(rate * np.expm1(ratio)).sum()

    best = minimize_scalar(negative, bounds=(1e-4, 0.5), method="bounded").x
    rates = Rates.fit(ratio, np.ones(800))
    assert rates.rate[0] == pytest.approx(best, rel=0.06)
    assert rates.low[0] < 0.1 < rates.high[0] * 1.1
    assert_array_equal(rates.shared, rates.rate)


def test_a_column_that_cannot_tell_has_the_rate_of_the_prior_and_a_wide_interval():
    rates = Rates.fit(np.zeros((5000, 1)), np.ones(5000))
    assert rates.rate[0] == pytest.approx(MEAN_RATE, rel=0.06)
    assert rates.high[0] > 4.0 * rates.low[0]


def test_rows_count_without_their_doubtful_cells_by_the_probability_of_these():
    rows = np.arange(6.0).reshape(3, 2)
    probability = np.array([[0.9, 0.0], [0.0, 0.1], [np.nan, 0.5]])
    learned, weight = without_errors(rows, np.ones(3), probability, np.array([0.5, 0.5]))
    of_rows = {tuple(np.nan_to_num(row, nan=-1.0)): w for row, w in zip(learned, weight)}
    expected = {(0.0, 1.0): 0.1, (-1.0, 1.0): 0.9, (2.0, 3.0): 1.0, (4.0, 5.0): 0.5}
    assert of_rows == pytest.approx(expected | {(4.0, -1.0): 0.5})
    kept = doubtful_cells(probability, np.ones(3), 1.0)
    assert kept.tolist() == [[0.9, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_calibration_knows_how_sure_verdicts_are():
    ratio, wrong = ratios(0.05, 20_000)
    # Verdicts that are too sure by far.
    judged = Judged(np.zeros_like(ratio), 3.0 * ratio + 1.0)
    is_category, rate = np.zeros(1, dtype=bool), np.array([0.05])
    calibration = Calibration.fit(is_category, judged, wrong, np.ones(len(ratio)), rate)
    assert calibration.informative.all()
    probability = calibration.probabilities(is_category, judged, rate)
    odds = 0.05 / 0.95 * np.exp(ratio)
    assert_allclose(probability, odds / (1.0 + odds), atol=0.2)
    assert probability[wrong].mean() == pytest.approx((odds / (1.0 + odds))[wrong].mean(), abs=0.03)
    assert np.all(np.diff(probability[np.argsort(ratio[:, 0]), 0]) > 0.0)
    other = Judged(judged.probability, np.random.default_rng(0).normal(size=ratio.shape))
    assert not Calibration.fit(is_category, other, wrong, np.ones(len(ratio)), rate).informative[0]


def test_injected_errors_are_values_that_columns_can_have():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 3, 400), np.round(rng.normal(5, 2, 400), 1)])
    table[:40, 1] = np.nan
    domain = Domain.fit(table, categorical_features=[0])
    rows = domain.encode(table)
    tails = [ErrorTail.fit(domain, c, rows[:, c], np.ones(400)) for c in range(2)]
    wrong, is_error = injected(domain, tails, rows, np.full(2, 0.3), np.random.RandomState(0))
    assert_array_equal(is_error, (wrong != rows) & ~np.isnan(rows))
    assert_array_equal(np.isnan(wrong), np.isnan(rows))
    assert is_error[40:, 1].mean() == pytest.approx(0.3, abs=0.08)
    assert set(wrong[:, 0]) == {0.0, 1.0, 2.0}
    assert tails[1].can_be(wrong[40:, 1]).all()
