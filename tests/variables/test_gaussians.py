"""Gaussians over several numbers against formulas that read everything off the covariance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._threads import threads
from skpc.variables.gaussians import (
    Gaussians,
    conditionals,
    leave_one_out,
    log_densities,
    statistics,
)
from skpc.variables.patterns import Patterns
from tests.naive import gaussians as naive

#: Numbers of rows and columns, and the share of missing cells: few and many rows of a pattern, and
#: more than fit into the workspace at a time.
CASES = [
    (40, 1, 0.4),
    (60, 3, 0.5),
    (50, 6, 0.0),
    (80, 6, 0.3),
    (30, 8, 0.8),
    (1100, 2, 0.3),
    (40, 45, 0.3),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def model_of(case, n_components=3):
    """Random Gaussians, scores with missing cells (rows of none and of all), their patterns."""
    n_rows, d, share = case
    rng = np.random.default_rng(n_rows + d)
    root = rng.normal(size=(n_components, d, d))
    covariance = root @ root.transpose(0, 2, 1) / d + 0.1 * np.eye(d)
    scores = 2.0 * rng.normal(size=(n_rows, d))
    scores[rng.random(scores.shape) < share] = np.nan
    if share:
        scores[0], scores[1] = np.nan, 1.0
    gaussians = Gaussians.from_covariance(rng.normal(size=(n_components, d)), covariance)
    return gaussians, scores, Patterns.from_scores(scores)


def components(gaussians):
    return list(zip(gaussians.mean, gaussians.covariance))


@every_case
def test_patterns_part_the_rows_by_their_missing_cells(case):
    _, scores, patterns = model_of(case)
    assert_array_equal(np.sort(patterns.order), np.arange(len(scores)))
    assert len(np.unique(patterns.observed, axis=0)) == len(patterns.observed)
    for first, end, seen in zip(patterns.ptr, patterns.ptr[1:], patterns.observed):
        assert end > first
        for row in patterns.order[first:end]:
            assert_array_equal(~np.isnan(scores[row]), seen)


@every_case
def test_log_densities_are_those_of_the_observed_cells(case):
    gaussians, scores, patterns = model_of(case)
    truth = [[naive.log_density(row, *each) for row in scores] for each in components(gaussians)]
    assert_allclose(log_densities(gaussians, scores, patterns), truth, rtol=1e-9, atol=1e-9)


@every_case
def test_statistics_are_the_expected_sums_of_the_filled_rows(case):
    gaussians, scores, patterns = model_of(case)
    weight = np.random.default_rng(5).exponential(size=(3, len(scores)))
    weight[:, ::3] = 0.0
    found = statistics(gaussians, scores, patterns, weight)
    for k, each in enumerate(components(gaussians)):
        truth = naive.statistics(scores, *each, weight[k])
        for part, true_part in zip(found, truth):
            assert_allclose(part[k], true_part, rtol=1e-8, atol=1e-8)


@every_case
def test_missing_cells_have_the_conditional_means_and_deviations(case):
    gaussians, scores, patterns = model_of(case)
    wanted = np.ones((3, len(scores)), dtype=bool)
    wanted[1, ::2] = False
    mean, sd = conditionals(gaussians, scores, patterns, wanted)
    assert not mean[1, ::2].any()
    assert not sd[1, ::2].any()
    for k, each in enumerate(components(gaussians)):
        for r in np.flatnonzero(wanted[k]):
            row = scores[r]
            center, spread = naive.conditional(row, *each)
            assert_allclose(mean[k, r], center, rtol=1e-8, atol=1e-9)
            gone = np.isnan(row)
            assert_allclose(sd[k, r, gone], np.sqrt(np.diag(spread)[gone]), rtol=1e-8)
            assert not sd[k, r, ~gone].any()


@every_case
def test_leaving_one_cell_out_follows_the_chain_rule(case):
    gaussians, scores, patterns = model_of(case)
    truth = [[naive.leave_one_out(row, *each) for row in scores] for each in components(gaussians)]
    assert_allclose(leave_one_out(gaussians, scores, patterns), truth, rtol=1e-7, atol=1e-8)


def test_precisions_and_determinants_are_those_of_the_covariances():
    gaussians = model_of((4, 5, 0.0))[0]
    unit = np.broadcast_to(np.eye(5), (3, 5, 5))
    assert_allclose(gaussians.precision @ gaussians.covariance, unit, atol=1e-10)
    assert_allclose(gaussians.log_det, np.linalg.slogdet(gaussians.covariance)[1])


def test_widths_of_many_columns_neither_overflow_nor_vanish():
    for scale in (1e-8, 1e8):
        gaussians = Gaussians.from_covariance(np.zeros((1, 90)), scale * np.eye(90)[np.newaxis])
        scores = np.full((2, 90), np.nan)
        scores[0, :50], scores[1, :40] = 0.0, 0.0
        found = log_densities(gaussians, scores, Patterns.from_scores(scores))
        assert_allclose(found[0] / [50, 40], -0.5 * np.log(2 * np.pi * scale))


def test_a_row_without_observed_cells_has_density_one():
    gaussians, scores, patterns = model_of((40, 1, 0.4))
    assert_array_equal(log_densities(gaussians, scores, patterns)[:, 0], 0.0)


def test_a_covariance_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        Gaussians.from_covariance(np.zeros((1, 2)), np.ones((1, 2, 2)))


def test_conditional_covariances_may_have_weights_of_their_own():
    gaussians, scores, patterns = model_of((60, 3, 0.5))
    weight = np.random.default_rng(6).exponential(size=(3, len(scores)))
    both = statistics(gaussians, scores, patterns, weight, 2.0 * weight)[2]
    once = statistics(gaussians, scores, patterns, weight)[2]
    for k, each in enumerate(components(gaussians)):
        spread = [w * naive.conditional(row, *each)[1] for row, w in zip(scores, weight[k])]
        assert_allclose(both[k] - once[k], sum(spread), rtol=1e-8, atol=1e-8)


def test_sums_do_not_depend_on_the_number_of_threads():
    gaussians, scores, patterns = model_of((2500, 60, 0.1))
    weight = np.ones((3, len(scores)))
    told = []
    for n_jobs in (1, 2):
        with threads(n_jobs):
            told.append(statistics(gaussians, scores, patterns, weight))
    for one, two in zip(*told):
        assert_array_equal(one, two)


def test_gaussians_of_factors_have_their_covariances_precisions_and_determinants():
    rng = np.random.default_rng(0)
    loadings, noise = rng.normal(size=(3, 8, 2)), rng.uniform(0.1, 2.0, (3, 8))
    gaussians = Gaussians.from_factors(np.zeros((3, 8)), loadings, noise)
    covariance = loadings @ loadings.transpose(0, 2, 1) + noise[:, :, np.newaxis] * np.eye(8)
    assert_allclose(gaussians.covariance, covariance)
    assert_allclose(gaussians.precision @ covariance, np.tile(np.eye(8), (3, 1, 1)), atol=1e-10)
    assert_allclose(gaussians.log_det, np.linalg.slogdet(covariance)[1])
