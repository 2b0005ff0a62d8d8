"""Factors of columns with missing cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.learning.factors import Factors, factored
from tests.naive import table_mixture as naive


def correlated(n_rows: int = 400, n_columns: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(2, n_columns))
    values = rng.normal(size=(n_rows, 2)) @ loadings + 0.4 * rng.normal(size=(n_rows, n_columns))
    return 5.0 * values - 3.0


def with_missing_cells(values: np.ndarray, rate: float) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(values.shape) < rate, np.nan, values)


def conditional_mean(model: Factors, row: np.ndarray) -> np.ndarray:
    """The row in units, missing cells by the formula for a normal distribution."""
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    units = (row - model.mean) / model.scale
    missing = np.isnan(row)
    across = covariance[np.ix_(missing, ~missing)]
    own = covariance[np.ix_(~missing, ~missing)]
    units[missing] = across @ np.linalg.inv(own) @ units[~missing]
    return units


@pytest.mark.parametrize("n_columns", [1, 6, 90])
def test_missing_cells_have_the_conditional_mean_of_the_normal_distribution(n_columns):
    values = with_missing_cells(correlated(n_columns=n_columns), 0.4)
    model = Factors.fit(values, np.ones(len(values)))
    found = model.completed(values)
    for row, units in zip(values[:20], found):
        assert_allclose(units, conditional_mean(model, row), atol=1e-9)


def test_complete_rows_give_their_moments_and_weights_count_as_rows():
    values, weight = correlated(), np.random.default_rng(2).integers(1, 4, 400).astype(float)
    model = Factors.fit(values, weight)
    twice = np.repeat(values, weight.astype(int), axis=0)
    assert_allclose(model.mean, twice.mean(axis=0))
    assert_allclose(model.scale, twice.std(axis=0))
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    assert_allclose(covariance, np.corrcoef(twice.T), atol=0.01)
    assert_allclose(model.completed(values), (values - model.mean) / model.scale)


def test_completions_of_correlated_columns_are_closer_than_means():
    learned, values = np.split(correlated(800), 2)
    asked = with_missing_cells(values, 0.3)
    model = Factors.fit(with_missing_cells(learned, 0.2), np.ones(400))
    missing = np.isnan(asked)
    away = model.completed(asked) - (values - model.mean) / model.scale
    assert (away[missing] ** 2).mean() < 0.35
    assert_allclose(model.completed(np.full((1, 6), np.nan)), 0.0)


def test_gaussians_of_factors_are_in_the_units_of_the_columns():
    values = correlated()
    model = Factors.fit(values, np.ones(len(values)))
    found = model.gaussians()
    assert_allclose(found.mean[0], values.mean(axis=0))
    expected = np.cov(values, rowvar=False, bias=True)
    for covariance in found.covariance:
        assert_allclose(covariance, expected, atol=0.02 * expected.max())


def test_few_factors_are_the_leading_ones():
    values = correlated()
    few = Factors.fit(values, np.ones(len(values)), 2)
    assert few.loadings.shape == (6, 2)
    whole = Factors.fit(values, np.ones(len(values)))
    assert_allclose(few.loadings, whole.loadings[:, -2:])


def test_factors_are_found_where_there_are_some():
    loadings = np.random.default_rng(0).normal(size=(8, 2))
    covariance = loadings @ loadings.T + np.diag(np.arange(1.0, 9.0))
    found, noise = factored(covariance[np.newaxis], 2)
    for _ in range(100):
        found, noise = factored(covariance[np.newaxis], 2, noise)
    assert_allclose(found[0] @ found[0].T + np.diag(noise[0]), covariance, atol=1e-3)
    assert_allclose(noise[0], np.arange(1.0, 9.0), rtol=1e-2)


@pytest.mark.parametrize(("d", "n_factors"), [(3, 2), (30, 4), (120, 12)])
def test_factors_from_a_subspace_are_as_likely_as_from_all_eigenvectors(d, n_factors):
    rng = np.random.default_rng(d)
    values = rng.normal(size=(400, n_factors)) @ rng.normal(size=(n_factors, d))
    covariance = np.cov(values + rng.normal(size=(400, d)) * rng.uniform(0.5, 2.0, d), rowvar=False)
    loadings, noise = factored(covariance[np.newaxis], n_factors)
    found = loadings[0] @ loadings[0].T + np.diag(noise[0])
    expected = naive.factored(covariance, n_factors, 30)
    reached, best = (_mean_log_density(covariance, c) for c in (found, expected))
    assert_allclose(reached, best, atol=1e-4)
    assert_allclose(found.diagonal(), covariance.diagonal(), rtol=1e-6)
    assert np.all(noise > 0.0)


def _mean_log_density(covariance, model):
    """That of rows of a covariance under a Gaussian, but for a constant."""
    distances = np.trace(np.linalg.solve(model, covariance))
    return -0.5 * (np.linalg.slogdet(model)[1] + distances)
