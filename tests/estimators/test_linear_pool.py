"""Weights of linear pools, and laws of residuals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.estimators._linear_pool import Standardised, fit_weights, log_weights
from skpc.estimators._residuals import ResidualLaw
from tests.naive.regressor import noise_variance, pool_score


def answers(n_rows: int, seed: int = 0):
    """Two members with two copies each: the first is right where the second feature is high."""
    rng = np.random.default_rng(seed)
    feature, target = rng.normal(size=n_rows), rng.normal(size=n_rows)
    gap = np.array([0.3, 1.0]) * np.exp(np.outer(-feature, [1.0, -1.0]))
    mean = target[:, np.newaxis] + gap * rng.normal(size=(n_rows, 2))
    sd = gap[:, :, np.newaxis] * [0.5, 1.0]
    u = (target[:, np.newaxis] - mean)[:, :, np.newaxis] / sd
    log_density = -0.5 * u * u - np.log(sd) - 0.5 * np.log(2 * np.pi)
    features = np.column_stack([np.ones(n_rows), feature])
    return log_density, mean, target, features, rng.random(n_rows) + 0.5


OWN = np.array([[False, True], [False, True]])


def test_weights_maximise_the_density_of_the_pool_and_that_around_its_mean():
    log_density, mean, target, features, weight = answers(4000)
    coef = fit_weights(log_density, mean, target, features, weight, OWN)
    some = slice(0, 200)
    asked = features[some], log_density[some], mean[some], target[some], weight[some]
    coef_of_some = fit_weights(*(asked[i] for i in (1, 2, 3, 0, 4)), OWN)
    best = pool_score(coef_of_some, *asked)
    rng = np.random.default_rng(0)
    assert best > pool_score(np.zeros(coef.shape), *asked) + 0.1
    for _ in range(20):
        moved = coef_of_some + 0.5 * rng.normal(size=coef.shape)
        assert pool_score(moved, *asked) < best + 0.02
    high, low = np.exp(log_weights(np.array([[1.0, 2.0], [1.0, -2.0]]), coef))
    assert high[0].sum() > 0.9
    assert low[1].sum() > 0.9
    assert (high[0, 1] > high[0, 0]) == (low[1, 1] > low[1, 0])


def test_few_rows_leave_members_as_they_are_with_equal_weights():
    log_density, mean, target, features, weight = answers(3)
    coef = fit_weights(0.01 * log_density, mean, target + 100.0, features, weight, OWN)
    found = np.exp(log_weights(features, coef))
    assert_allclose(found.sum(axis=2), 0.5, atol=0.25)
    assert (found[:, :, 1] > 3.0 * found[:, :, 0]).all()


def test_rows_that_are_impossible_to_all_members_do_not_count():
    log_density, mean, target, features, weight = answers(300)
    coef = fit_weights(log_density, mean, target, features, weight, OWN)
    impossible = np.full((1, 2, 2), -np.inf)
    more = fit_weights(
        np.concatenate([log_density, impossible]),
        np.concatenate([mean, [[0.0, 0.0]]]),
        np.append(target, 0.0),
        np.concatenate([features, [[1.0, 0.0]]]),
        np.append(weight, 1e-9),
        OWN,
    )
    assert_allclose(more, coef, atol=0.05)


def test_features_are_standardised_and_stay_within_the_range_seen():
    raw = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    found = Standardised.fit(raw, np.array([1.0, 2.0, 1.0]))
    expected = np.sqrt(2.0) * np.array([-1.0, 0.0, 1.0])
    assert_allclose(found.of(raw), np.column_stack([np.ones(3), expected, np.zeros(3)]))
    assert_allclose(found.of(np.array([[9.0, 5.0]]))[0, 1], np.sqrt(2.0))


def test_noise_is_what_residuals_show_beyond_known_deviations():
    rng = np.random.default_rng(0)
    sd = rng.random(300)
    residual = np.sqrt(sd**2 + 0.4) * rng.normal(size=300)
    one = np.ones((300, 1))
    law = ResidualLaw.fit(residual, sd, one, np.ones(300), np.array([1.0]))
    assert np.exp(law.coef[0]) == pytest.approx(noise_variance(residual, sd), rel=0.01)
    assert_allclose(law.sds(sd, one), np.sqrt(sd**2 + np.exp(law.coef[0])))


def test_the_spread_of_residuals_follows_the_features_and_wild_ones_do_not_count_much():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(4000), rng.normal(size=4000)])
    wild = np.where(rng.random(4000) < 0.05, 4.0, 1.0)
    residual = wild * np.exp(features @ [-1.0, 0.5]) * rng.normal(size=4000)
    factors = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    law = ResidualLaw.fit(residual, np.zeros(4000), features, np.ones(4000), factors)
    assert law.coef[1] == pytest.approx(1.0, abs=0.1)
    far = law.sds(np.zeros(2), np.array([[1.0, -1.0], [1.0, 1.0]]))
    assert far[1] / far[0] == pytest.approx(np.e, rel=0.1)


def test_residuals_of_zero_have_a_spread_all_the_same():
    one = np.ones((5, 1))
    law = ResidualLaw.fit(np.zeros(5), np.zeros(5), one, np.ones(5), np.array([0.5, 1.0]))
    assert (law.sds(np.zeros(5), one) > 0.0).all()
