"""Rates of errors, and which cells are not learned, against what they are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from skpc.pooling.error_tails import ErrorTail
from skpc.pooling.errors import (
    MEAN_RATE,
    Rates,
    doubtful_cells,
    far_away,
)

#: A column of which no two cells are alike.
NO_HITS = ErrorTail(None, 0.0, 1.0, np.empty(0), 0.0, 0.0)


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
    rates = Rates.fit(ratio, np.ones(800), [NO_HITS])
    # The column has a prior with the mean of all columns, which is its own here.
    assert rates.rate[0] == pytest.approx(best, rel=0.06)
    assert rates.draws[0] == pytest.approx(best, rel=0.06)
    assert rates.low[0] < 0.1 < rates.high[0] * 1.1


def test_columns_that_cannot_tell_have_the_rate_of_the_others_and_wide_intervals():
    ratio, _ = ratios(0.1, 2000)
    rates = Rates.fit(np.hstack([ratio, np.zeros((2000, 3))]), np.ones(2000), [NO_HITS] * 4)
    assert_allclose(rates.rate, rates.rate[0], rtol=0.12)
    assert rates.high[1] - rates.low[1] > 1.5 * (rates.high[0] - rates.low[0])
    nothing = Rates.fit(np.zeros((5000, 1)), np.ones(5000), [NO_HITS])
    assert nothing.rate[0] == pytest.approx(MEAN_RATE, rel=0.06)
    assert nothing.high[0] > 4.0 * nothing.low[0]


def test_draws_that_hit_the_true_value_are_no_errors():
    ratio, _ = ratios(0.1, 2000)
    whole = Rates.fit(ratio, np.ones(2000), [NO_HITS])
    half = Rates.fit(ratio, np.ones(2000), [NO_HITS._replace(repeats=0.6, hits=0.3)])
    # Two thirds of the errors that are counted are values of the column, a twentieth of those that
    # judge.
    assert_allclose(half.rate, whole.rate * 0.5)
    assert_allclose(half.draws, half.rate / (1.0 - 0.05 * 0.6 - 0.95 * 0.3))


def test_the_most_probable_errors_are_taken_away_up_to_a_mass():
    probability = np.array([[0.9, 0.0], [0.0, 0.6], [0.7, 0.5]])
    weight = np.array([1.0, 2.0, 1.0])
    assert np.argwhere(doubtful_cells(probability, weight, 9.0)).tolist() == [
        [0, 0],
        [1, 1],
        [2, 0],
    ]
    assert np.argwhere(doubtful_cells(probability, weight, 2.0)).tolist() == [[0, 0], [2, 0]]


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
