"""Mixtures with a prior beside their formulas, and when rows are split."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import pearsonr

from skpc._fitting import Stop
from skpc.learning import gaussian_mixture
from skpc.learning.gaussian_mixture import MixtureParams, MixturePrior, MixtureRows
from skpc.learning.splits import correlated, fit_split, score_split
from skpc.variables.gaussians import log_densities
from skpc.variables.patterns import Patterns


def rows_of(numbers):
    background = -0.5 * np.nansum(numbers**2 / 9.0 + np.log(2.0 * np.pi * 9.0), axis=1)
    patterns, no_states = Patterns.from_scores(numbers), np.empty((len(numbers), 0))
    return MixtureRows(numbers, patterns, no_states, background, 0.0 * background)


def prior_of(target, half_step=0.0, smallest_sd=0.01):
    d = len(target)
    added, smallest = np.full(d, half_step**2 + 1e-8), np.full(d, max(smallest_sd, half_step))
    return MixturePrior(
        np.zeros(1, int), np.empty(0), np.zeros(d), target, lambda _: added, smallest
    )


def alone(numbers, target, strength, weight=None, max_iter=100, **prior):
    """One Gaussian fitted to rows."""
    weight = np.ones(len(numbers)) if weight is None else weight
    params, start = MixtureParams(1, prior_strength=strength), np.ones((1, len(numbers)))
    prior = prior_of(target, **prior)
    stop = Stop(max_iter, tol=1e-3)
    return fit_split(rows_of(numbers), weight, start, prior, params, stop).model.mixture.gaussians


def correlated_numbers(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_rows, 1))
    return factor * [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=(n_rows, 3))


def split_of(numbers, n_folds=4):
    """Score the split of rows by the sign of their first number."""
    start = np.array([numbers[:, 0] > 0.0, numbers[:, 0] <= 0.0], dtype=float)
    prior, draws = prior_of(np.eye(numbers.shape[1])), np.random.RandomState(0)
    stop = Stop(100, tol=1e-3)
    return score_split(
        rows_of(numbers), np.ones(len(numbers)), start, prior, 0.3, stop, n_folds, draws
    )


@pytest.mark.parametrize("strength", [0.01, 2.0])
def test_a_block_is_the_weighted_covariance_drawn_to_its_target(strength):
    numbers, rng = correlated_numbers(40), np.random.default_rng(1)
    weight, target = rng.uniform(0.5, 2.0, 40), np.diag([1.0, 2.0, 3.0])
    found = alone(numbers, target, strength, weight)
    mean = np.average(numbers, axis=0, weights=weight)
    scatter = (weight[:, np.newaxis] * (numbers - mean)).T @ (numbers - mean)
    expected = (scatter + 3 * strength * target) / (weight.sum() + 3 * strength)
    assert_allclose(found.mean[0], mean, rtol=1e-9)
    assert_allclose(found.covariance[0], expected, atol=1e-7)


def test_missing_cells_are_integrated_out():
    numbers = correlated_numbers(4000)
    shown = numbers.copy()
    # The second number is hidden where the first is large: means of what is there mislead.
    shown[numbers[:, 0] > 0.5, 1] = np.nan
    found = alone(shown, np.eye(3), 0.004, max_iter=500)
    assert_allclose(found.mean[0], numbers.mean(axis=0), atol=0.05)
    assert_allclose(found.covariance[0], np.cov(numbers.T), atol=0.08)


def test_early_ends_of_em_on_many_numbers_are_no_worse_on_other_rows(monkeypatch):
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(4, 60))
    numbers = rng.normal(size=(800, 4)) @ loadings + rng.normal(size=(800, 60))
    shown = numbers[:300].copy()
    shown[rng.random(shown.shape) < 0.2] = np.nan
    others, mean, n_steps, calls = numbers[300:], [], [], []
    learner = gaussian_mixture.ParametrisedMixture
    m_step = learner.m_step

    def counted(*args):
        calls.append(None)
        return m_step(*args)

    monkeypatch.setattr(learner, "m_step", counted)
    for n_numbers in (gaussian_mixture._MANY_NUMBERS, 1000):
        monkeypatch.setattr(gaussian_mixture, "_MANY_NUMBERS", n_numbers)
        calls.clear()
        found = alone(shown, np.eye(60), 0.3)
        n_steps.append(len(calls))
        mean.append(log_densities(found, others, Patterns.from_scores(others)).mean())
    assert n_steps[0] < 0.5 * n_steps[1]
    assert mean[0] > mean[1] - 0.1


def test_a_number_without_any_cell_has_the_covariance_of_the_target():
    numbers = correlated_numbers(30)
    numbers[:, 1] = np.nan
    found = alone(numbers, np.diag([1.0, 7.0, 1.0]), 0.5)
    assert_allclose(found.covariance[0][1], [0.0, 7.0, 0.0], atol=1e-9)
    assert found.mean[0, 1] == 0.0


def test_no_column_is_narrower_than_half_a_step_or_the_smallest_sd():
    numbers = np.full((50, 2), 0.25)
    for half_step, smallest in ((0.0, 0.01), (0.25, 0.25)):
        gaussians = alone(numbers, 1e-9 * np.eye(2), 0.004, half_step=half_step)
        covariance = gaussians.covariance[0]
        assert (np.diag(covariance) >= smallest**2 * (1 - 1e-12)).all()
        np.linalg.cholesky(covariance)


def test_columns_that_follow_from_each_other_leave_a_variance():
    numbers = correlated_numbers(200)
    numbers = np.column_stack([numbers, numbers.sum(axis=1)])
    found = alone(numbers, np.eye(4), 0.004)
    assert np.isfinite(found.log_det).all()


def test_two_clouds_are_worth_dividing_and_one_is_not():
    rng = np.random.default_rng(0)
    one = correlated_numbers(300)
    two = one + 4.0 * rng.choice([-1.0, 1.0], (300, 1))
    assert split_of(two).gain > 50.0
    assert split_of(one).gain < 0.0


def test_one_far_row_does_not_decide():
    rng = np.random.default_rng(0)
    narrow = np.where(rng.random((400, 1)) < 0.5, 1e-2, 1.0)
    numbers = narrow * rng.normal(size=(400, 3)) + 3.0 * np.sign(0.5 - narrow)
    numbers[0] = 15.0
    assert split_of(numbers).gain > 50.0


def test_sums_of_two_parts_add_up_to_those_of_the_whole():
    rng = np.random.default_rng(0)
    # Far from the prior, sums of squares would lose the digits of variances.
    numbers = correlated_numbers(60) + 1e6
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    weight, prior = rng.uniform(0.5, 2.0, 60), prior_of(np.eye(3))
    start = np.array([weight > 1.0, weight <= 1.0], dtype=float)
    fit = fit_split(rows_of(numbers), weight, start, prior, MixtureParams(2), Stop(3))
    part = np.arange(60) < 23
    whole = vars(fit.model.expected(rows_of(numbers), weight))
    parts = [fit.model.expected(rows_of(numbers[some]), weight[some]) for some in (part, ~part)]
    for name, total in vars(parts[0] + parts[1]).items():
        assert_allclose(
            total, whole[name], rtol=1e-10, atol=1e-10 * np.abs(whole[name]).max(initial=0.0)
        )


def test_strong_shrinkage_is_chosen_where_the_target_is_true():
    rng = np.random.default_rng(0)
    assert split_of(rng.normal(size=(40, 8))).single.prior_strength >= 2.0
    mixing = rng.normal(size=(8, 8))
    assert split_of(rng.normal(size=(400, 8)) @ mixing).single.prior_strength <= 0.1


def test_numbers_are_correlated_as_scipy_tests_their_pairs():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60, 4)) + 0.3 * rng.normal(size=(60, 1))
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    for level in (0.01, 0.05, 0.3):
        found = correlated(numbers, np.ones(60), np.ones(60), level)
        for a in range(4):
            for b in range(a):
                both = ~np.isnan(numbers[:, [a, b]]).any(axis=1)
                expected = pearsonr(numbers[both, a], numbers[both, b]).pvalue < level
                assert found[a, b] == expected


def test_a_row_of_weight_two_correlates_as_the_row_twice():
    numbers = np.random.default_rng(0).normal(size=(30, 5))
    weight = np.where(np.arange(30) < 12, 2.0, 1.0)
    twice = np.repeat(numbers, weight.astype(int), axis=0)
    for level in (0.05, 0.3, 0.6):
        expected = correlated(twice, *np.ones((2, len(twice))), level)
        assert_array_equal(correlated(numbers, weight, weight, level), expected)
