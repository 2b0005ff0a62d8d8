"""Bayesian linear regression beside an exact Gaussian process."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.messages import (
    BayesianRegression,
    SeparateRegressions,
    noise_of_greatest_evidence,
    noise_of_least_error,
)
from tests.naive import messages as naive

PRIOR, NOISE = 1.7, 0.03


def rows(n_rows, n_features=6, n_outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_features)), rng.normal(size=(n_rows, n_outputs))


def prior(n_features=6, n_outputs=2):
    return BayesianRegression.prior(
        n_features, n_outputs, prior_variance=PRIOR, noise_variance=NOISE
    )


@pytest.mark.parametrize("n_rows", [1, 4, 30])
def test_predictions_and_evidence_are_those_of_the_gaussian_process(n_rows):
    features, targets = rows(n_rows)
    new, _ = rows(5, seed=1)
    posterior = prior().update(features, targets)
    mean, variance = posterior.predict(new)
    truth = naive.gaussian_process(
        PRIOR * features @ features.T,
        PRIOR * new @ features.T,
        PRIOR * (new**2).sum(axis=1),
        targets,
        NOISE,
    )
    assert_allclose(mean, truth[0], rtol=1e-8)
    assert_allclose(variance, truth[1], rtol=1e-8)
    assert posterior.log_evidence == pytest.approx(truth[2], rel=1e-8)


@pytest.mark.parametrize(("noise", "tolerance"), [(1e-4, 1e-8), (1e-8, 1e-5)])
def test_one_row_at_a_time_equals_all_rows_at_once(noise, tolerance):
    features, targets = rows(700, 40)
    features /= 40**0.5
    start = BayesianRegression.prior(40, 2, prior_variance=1.0, noise_variance=noise)
    one_by_one = start
    for i in range(700):
        one_by_one = one_by_one.update(features[i : i + 1], targets[i : i + 1])
    at_once = start.update(features, targets)
    new, _ = rows(20, 40, seed=1)
    for a, b in zip(one_by_one.predict(new), at_once.predict(new)):
        assert_allclose(a, b, rtol=0, atol=tolerance)
    assert one_by_one.n_rows == at_once.n_rows == 700
    assert one_by_one.log_evidence == pytest.approx(at_once.log_evidence, rel=1e-6)


def test_outputs_with_noise_of_their_own_are_gaussian_processes_of_their_own():
    features, targets = rows(30)
    new, _ = rows(5, seed=1)
    noises = [0.03, 2.0]
    start = SeparateRegressions.prior(6, prior_variance=PRIOR, noise_variance=noises)
    posterior = start.update(features[:11], targets[:11]).update(features[11:], targets[11:])
    mean, variance = posterior.predict(new)
    evidence = 0.0
    for output, noise in enumerate(noises):
        truth = naive.gaussian_process(
            PRIOR * features @ features.T,
            PRIOR * new @ features.T,
            PRIOR * (new**2).sum(axis=1),
            targets[:, [output]],
            noise,
        )
        assert_allclose(mean[:, [output]], truth[0], rtol=1e-8)
        assert_allclose(variance[:, output], truth[1], rtol=1e-8)
        evidence += truth[2]
    assert posterior.log_evidence == pytest.approx(evidence, rel=1e-8)
    assert posterior.n_rows == 30


@pytest.mark.parametrize("n_features", [6, 50])
def test_the_noise_of_greatest_evidence_is_that_of_the_gaussian_process(n_features):
    features, noise = rows(40, n_features)
    features /= 1.0 + np.arange(n_features)
    signal = features @ np.random.default_rng(2).normal(size=(n_features, 2))
    targets = signal + noise * [0.3, 2.0]
    blocks = [(features[:15], targets[:15]), (features[15:], targets[15:])]
    found = noise_of_greatest_evidence(blocks, PRIOR)
    truth = naive.likeliest_noise(PRIOR * features @ features.T, targets)
    assert_allclose(found, truth, rtol=0.06)


@pytest.mark.parametrize("n_features", [6, 50])
def test_no_other_noise_predicts_rows_left_out_better(n_features):
    features, noise = rows(40, n_features)
    features /= 1.0 + np.arange(n_features)
    signal = features @ np.random.default_rng(2).normal(size=(n_features, 2))
    targets = signal + noise * [0.3, 2.0]
    found = noise_of_least_error(features, targets, PRIOR)
    kernel = PRIOR * features @ features.T
    every = [
        naive.leave_one_out_error(kernel, targets, n)
        for n in np.geomspace(1e-6, (targets**2).mean(), 100)
    ]
    for output, chosen in enumerate(found):
        error = naive.leave_one_out_error(kernel, targets, chosen)[output]
        assert error <= 1.001 * np.min(every, axis=0)[output]


def test_the_noise_of_targets_without_any_is_the_least_that_is_allowed():
    features, _ = rows(40)
    targets = np.column_stack([features[:, 0], np.zeros(40)])
    assert_allclose(noise_of_greatest_evidence([(features, targets)], PRIOR), 1e-10 * PRIOR)
    zeros = targets[:, 1:]
    assert_allclose(noise_of_least_error(features, zeros, PRIOR), 1e-10 * PRIOR)


def test_an_update_leaves_the_old_posterior_alone():
    old = prior()
    features, targets = rows(3)
    old.update(features, targets)
    assert_allclose(old.weights, 0.0)
    assert_allclose(old.triangle, PRIOR * np.eye(6))
    assert old.n_rows == 0


def test_a_row_is_predicted_alike_alone_and_among_others_and_after_pickling():
    features, targets = rows(50)
    posterior = prior().update(features, targets)
    again = pickle.loads(pickle.dumps(posterior))
    together = posterior.predict(features)
    for part, alone in zip(together, again.predict(features[7:8])):
        assert_allclose(part[7:8], alone, rtol=1e-12)


def test_noise_that_rounding_swallows_is_refused():
    features = np.ones((200, 3))
    start = BayesianRegression.prior(3, 1, prior_variance=1.0, noise_variance=1e-20)
    with pytest.raises(ValueError, match="noise variance 1e-20 is too small"):
        start.update(features, np.ones((200, 1)))
