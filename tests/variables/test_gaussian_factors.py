"""Gaussians of few factors against formulas that read everything off their covariances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._threads import threads
from skpc.variables.gaussian_factors import FactoredGaussians
from skpc.variables.gaussians import Gaussians, log_densities, squared_distances, statistics
from skpc.variables.patterns import Patterns
from tests.naive import gaussians as naive

#: Numbers of rows, columns and factors, and the share of missing cells.
CASES = [(30, 3, 1, 0.4), (40, 8, 3, 0.0), (40, 8, 3, 0.3), (60, 6, 5, 0.8), (30, 90, 2, 0.3)]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture
def factors_only(monkeypatch):
    """Take the way of factors, even where covariances are less work."""
    monkeypatch.setattr(FactoredGaussians, "_is_dearer", lambda *_: False)


def model_of(case, n_components=3):
    """Random Gaussians, scores with missing cells (rows of none and of all), their patterns."""
    n_rows, d, n_factors, share = case
    rng = np.random.default_rng(n_rows + d)
    loadings, noise = rng.normal(size=(n_components, d, n_factors)), rng.uniform(0.1, 2.0, (3, d))
    scores = 2.0 * rng.normal(size=(n_rows, d))
    scores[rng.random(scores.shape) < share] = np.nan
    scores[5] = scores[6]
    if share:
        scores[0], scores[1] = np.nan, 1.0
    mean = rng.normal(size=(n_components, d))
    found = FactoredGaussians.of_factors(mean, loadings, noise[:n_components])
    return found, scores, Patterns.of(scores)


@every_case
def test_covariances_precisions_and_determinants_are_those_of_the_factors(case):
    factored = model_of(case)[0]
    for k, loadings in enumerate(factored.loadings):
        covariance = loadings @ loadings.T + np.diag(factored.noise[k])
        assert_allclose(factored.covariance[k], covariance)
        assert_allclose(factored.precision[k] @ covariance, np.eye(case[1]), atol=1e-10)
        assert_allclose(factored.log_det[k], np.linalg.slogdet(covariance)[1])


@every_case
def test_log_densities_are_those_of_the_observed_cells(case, factors_only):
    factored, scores, patterns = model_of(case)
    components = list(zip(factored.mean, factored.covariance))
    truth = [[naive.log_density(row, *each) for row in scores] for each in components]
    assert_allclose(log_densities(factored, scores, patterns), truth, rtol=1e-9, atol=1e-9)


@every_case
def test_statistics_are_the_expected_sums_of_the_filled_rows(case, factors_only):
    factored, scores, patterns = model_of(case)
    rng = np.random.default_rng(5)
    weight, spread_weight = rng.exponential(size=(2, 3, len(scores)))
    weight[:, ::3] = spread_weight[:, ::3] = 0.0
    found = statistics(factored, scores, patterns, weight)
    spread = statistics(factored, scores, patterns, weight, weight + spread_weight)[2] - found[2]
    for k, each in enumerate(zip(factored.mean, factored.covariance)):
        truth = naive.statistics(scores, *each, weight[k])
        for part, true_part in zip(found, truth):
            assert_allclose(part[k], true_part, rtol=1e-9, atol=1e-9)
        apart = zip(spread_weight[k], scores)
        conditional = [w * naive.conditional(row, *each)[1] for w, row in apart]
        assert_allclose(spread[k], sum(conditional), rtol=1e-8, atol=1e-8)


def test_rows_that_are_not_wanted_are_infinitely_far(factors_only):
    factored, scores, patterns = model_of((40, 8, 3, 0.3))
    wanted = np.random.default_rng(0).random((3, 40)) < 0.5
    told = squared_distances(factored, scores, patterns)
    found = squared_distances(factored, scores, patterns, wanted)
    assert_allclose(found[0], np.where(wanted, told[0], np.inf))
    assert_allclose(found[1], np.where(wanted, told[1], 0.0))


def test_the_cheaper_way_gives_the_same():
    for case in ((2100, 90, 2, 0.3), (50, 20, 15, 0.1)):
        factored, scores, patterns = model_of(case)
        weight = np.ones((3, len(scores)))
        found, truth = (
            [*squared_distances(one, scores, patterns), *statistics(one, scores, patterns, weight)]
            for one in (factored, Gaussians(*factored))
        )
        for one, two in zip(found, truth):
            assert_allclose(one, two, rtol=1e-9, atol=1e-9 * np.abs(two).max())


def test_wide_rows_take_factors_and_narrow_rows_do_not():
    wide, _, patterns = model_of((30, 400, 2, 0.3))
    assert not wide._is_dearer(patterns)
    narrow, _, patterns = model_of((30, 16, 2, 0.3))
    assert narrow._is_dearer(patterns)


def test_sums_do_not_depend_on_the_number_of_threads():
    factored, scores, patterns = model_of((5000, 300, 2, 0.2), 1)
    told = []
    for n_jobs in (1, 2):
        with threads(n_jobs):
            told.append(statistics(factored, scores, patterns, np.ones((1, 5000))))
    for one, two in zip(*told):
        assert_array_equal(one, two)
