"""Weights of log pools and of linear pools, and heteroscedastic noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from skpc.domain import Declared, Domain
from skpc.pooling.weights import GatingFeatures, HeteroscedasticNoise, LogPool, fit_gate
from tests.naive.pool import penalised_loss, pooled_probabilities
from tests.naive.regressor import noise_variance, pool_score


def questions(seed: int = 0, n_rows: int = 40, n_members: int = 3, n_classes: int = 3):
    """Random evidence in which the first member knows the labels, more or less."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(size=(n_rows, n_members, n_classes))
    label = rng.integers(0, n_classes, n_rows)
    evidence[np.arange(n_rows), 0, label] += 2.0
    observed = rng.integers(0, 4, n_rows) / 3
    evidence[observed == 0.0] = 0.0
    weight = rng.integers(1, 4, n_rows).astype(float)
    return evidence, observed, label, weight, np.log([0.5, 0.3, 0.2])


def test_the_pool_is_a_product_of_powers_of_the_members():
    evidence, observed, _, _, log_prior = questions()
    pool = LogPool(np.array([[0.7, 0.0, 0.4], [0.1, 0.3, 0.9]]), np.array([0.3, -0.2, -0.1]))
    found = log_prior + pool.log_odds(evidence, observed)
    found = np.exp(found - logsumexp(found, axis=1, keepdims=True))
    for row, odds, share in zip(found, evidence, observed):
        expected = pooled_probabilities(odds, *pool, np.exp(log_prior), share)
        assert_allclose(row, expected, rtol=1e-12)


def test_no_weights_and_offsets_nearby_have_a_smaller_loss():
    data = questions()
    evidence, observed, label, weight, log_prior = data
    pool = LogPool.fit(*data)

    def loss(w, b):
        return penalised_loss(evidence, w, b, np.exp(log_prior), observed, label, weight)

    best, rng = loss(*pool), np.random.default_rng(1)
    assert pool.weights[1, 0] > 0.5
    for _ in range(50):
        w = np.maximum(pool.weights + 0.05 * rng.normal(size=(2, 3)), 0.0)
        assert loss(w, pool.offsets + 0.05 * rng.normal(size=3)) > best
    alone = [
        -np.log(pooled_probabilities(odds, *pool, np.exp(log_prior), share)[own])
        for odds, share, own in zip(evidence, observed, label)
    ]
    assert pool.log_loss(*data) == pytest.approx(np.average(alone, weights=weight))


def test_rows_of_a_class_that_members_have_not_seen_do_not_count():
    evidence, observed, label, weight, log_prior = questions()
    unknown = np.arange(40) < 20
    evidence[unknown, :, 2] = -np.inf
    kept = ~(unknown & (label == 2))
    everything = LogPool.fit(evidence, observed, label, weight, log_prior)
    known = LogPool.fit(evidence[kept], observed[kept], label[kept], weight[kept], log_prior)
    assert_allclose(everything.weights, known.weights, atol=1e-4)
    assert everything.log_loss(evidence, observed, label, weight, log_prior) < 1.5


def predictions(n_rows: int, seed: int = 0):
    """Two members of two components each: the first is right where the second feature is high."""
    rng = np.random.default_rng(seed)
    feature, target = rng.normal(size=n_rows), rng.normal(size=n_rows)
    gap = np.array([0.3, 1.0]) * np.exp(np.outer(-feature, [1.0, -1.0]))
    mean = np.repeat(target[:, np.newaxis] + gap * rng.normal(size=(n_rows, 2)), 2, axis=1)
    sd = np.repeat(gap, 2, axis=1) * [0.5, 1.0, 0.5, 1.0]
    u = (target[:, np.newaxis] - mean) / sd
    log_density = -0.5 * u * u - np.log(sd) - 0.5 * np.log(2 * np.pi)
    features = np.column_stack([np.ones(n_rows), feature])
    return log_density, mean, target, features, rng.random(n_rows) + 0.5


UNSCALED = np.array([False, True, False, True])


def test_weights_maximise_the_density_of_the_pool_and_that_around_its_mean():
    log_density, mean, target, features, weight = (one[:200] for one in predictions(4000))
    coef = fit_gate(log_density, mean, target, features, weight, UNSCALED)
    data = features, log_density, mean, target, weight
    best = pool_score(coef, *data)
    rng = np.random.default_rng(0)
    assert best > pool_score(np.zeros(coef.shape), *data) + 0.1
    for _ in range(20):
        assert pool_score(coef + 0.5 * rng.normal(size=coef.shape), *data) < best + 0.02
    coef = fit_gate(*predictions(4000), UNSCALED)
    high, low = softmax(np.array([[1.0, 2.0], [1.0, -2.0]]) @ coef, axis=1)
    assert high[:2].sum() > 0.9
    assert low[2:].sum() > 0.9
    assert (high[1] > high[0]) == (low[3] > low[2])


def test_few_rows_leave_members_as_they_are_with_equal_weights():
    log_density, mean, target, features, weight = predictions(3)
    coef = fit_gate(0.01 * log_density, mean, target + 100.0, features, weight, UNSCALED)
    weights = softmax(features @ coef, axis=1)
    assert_allclose(weights[:, :2].sum(axis=1), 0.5, atol=0.25)
    assert (weights[:, UNSCALED] > 3.0 * weights[:, ~UNSCALED]).all()


def test_rows_that_are_impossible_to_all_members_do_not_count():
    log_density, mean, target, features, weight = predictions(300)
    coef = fit_gate(log_density, mean, target, features, weight, UNSCALED)
    more = fit_gate(
        np.concatenate([log_density, np.full((1, 4), -np.inf)]),
        np.concatenate([mean, np.zeros((1, 4))]),
        np.append(target, 0.0),
        np.concatenate([features, [[1.0, 0.0]]]),
        np.append(weight, 1e-9),
        UNSCALED,
    )
    assert_allclose(more, coef, atol=0.05)


def test_gating_features_have_one_range_and_stay_within_it():
    rows = np.array([[0.0, 1.0], [1.0, np.nan], [np.nan, np.nan]])
    domain, variance = Domain.fit(rows[:, :2], Declared(margins="plain")), np.exp([1.0, 2.0, 5.0])
    gating = GatingFeatures.fit(domain, rows, variance, 1.0)
    features = np.column_stack([np.ones(3), [2.0, 0.0, -2.0], [-2.0, -1.0, 2.0]])
    assert_allclose(gating.transform(rows, variance), features, atol=1e-12)
    features[:, 2] = 2.0
    assert_allclose(gating.transform(rows, np.full(3, 1e9)), features, atol=1e-12)
    same = GatingFeatures.fit(domain, rows, np.full(3, 5.0), 1.0)
    assert len(np.unique(same.transform(rows, variance)[:, 2])) == 1


def test_noise_is_what_residuals_show_beyond_known_deviations():
    rng = np.random.default_rng(0)
    sd = rng.random(300)
    residual = np.sqrt(sd**2 + 0.4) * rng.normal(size=300)
    one = np.ones((300, 1))
    noise = HeteroscedasticNoise.fit(residual, sd, one, np.ones(300))
    assert np.exp(noise.coef[0]) == pytest.approx(noise_variance(residual, sd), rel=0.01)
    assert_allclose(noise.sds(sd, one), np.sqrt(sd**2 + np.exp(noise.coef[0])))


def test_the_spread_of_residuals_follows_the_features_and_wild_ones_do_not_count_much():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(4000), rng.normal(size=4000)])
    wild = np.where(rng.random(4000) < 0.05, 4.0, 1.0)
    residual = wild * np.exp(features @ [-1.0, 0.5]) * rng.normal(size=4000)
    noise = HeteroscedasticNoise.fit(residual, np.zeros(4000), features, np.ones(4000))
    assert noise.coef[1] == pytest.approx(1.0, abs=0.1)
    far = noise.sds(np.zeros(2), np.array([[1.0, -1.0], [1.0, 1.0]]))
    assert far[1] / far[0] == pytest.approx(np.e, rel=0.1)


def test_residuals_of_zero_have_a_spread_all_the_same():
    one = np.ones((5, 1))
    noise = HeteroscedasticNoise.fit(np.zeros(5), np.zeros(5), one, np.ones(5))
    assert (noise.sds(np.zeros(5), one) > 0.0).all()


def test_rounding_and_the_unit_of_the_target_do_not_move_weights():
    log_density, mean, target, features, weight = predictions(1500)
    coef = fit_gate(log_density, mean, target, features, weight, UNSCALED)
    # A unit of 1e140 takes as much off each log density, and changes the last digits.
    rounding = 1e-8 * np.random.default_rng(1).normal(size=log_density.shape)
    log_density = log_density - 140.0 * np.log(10.0) + rounding
    other = fit_gate(log_density, 1e140 * mean, 1e140 * target, features, weight, UNSCALED)
    assert_allclose(other, coef, atol=1e-6)
