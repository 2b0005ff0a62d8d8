"""Parameters of mixtures drawn given rows, beside draws by definition."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import dirichlet, ks_2samp, kstest

from skpc._arrays import added
from skpc.learning.gaussian_mixture import (
    MixtureParams,
    Sums,
    expected_sums,
    fit_gaussian_mixture,
    m_step,
)
from skpc.learning.posterior import drawn_parameters, drawn_sums
from tests.learning.test_gaussian_mixture import correlated_numbers, prior_of, rows_of
from tests.naive import table_mixture as naive


def two_clouds(n_rows=200):
    """Rows of two components, one of them rarer, and the model that EM ends with."""
    numbers = correlated_numbers(n_rows)
    is_rare = np.arange(n_rows) < n_rows // 5
    rows, weight = rows_of(numbers + 2.0 * is_rare[:, np.newaxis]), np.ones(n_rows)
    prior, params = prior_of(np.eye(3)), MixtureParams(2)
    start = np.array([is_rare, ~is_rare], dtype=float)
    model = fit_gaussian_mixture(rows, weight, start, prior, params, 50, 1e-9).model
    return model, rows, weight, prior, params


def test_parameters_are_drawn_from_their_posterior():
    numbers = correlated_numbers(12)
    rows, weight, prior = rows_of(numbers), np.ones(12), prior_of(np.eye(3))
    params, draws = MixtureParams(1), np.random.RandomState(0)
    fit = fit_gaussian_mixture(rows, weight, np.ones((1, 12)), prior, params, 1, 0.0)
    sums, rng = expected_sums(fit.model, rows, weight, prior), np.random.default_rng(1)
    ours = []
    for _ in range(1000):
        drawn = drawn_parameters(fit.model, sums, prior, params, draws, fit.model).gaussians
        ours.append((drawn.mean[0], drawn.covariance[0]))
    theirs = [naive.drawn_moments(numbers, rng) for _ in range(1000)]
    for told in (
        lambda mean, _: mean[0],
        lambda mean, _: mean @ [1.0, 1.0, -1.0],
        lambda _, covariance: covariance[0, 0],
        lambda _, covariance: covariance[2, 1] / covariance[2, 2],
        lambda _, covariance: 1.0 / np.linalg.inv(covariance)[2, 2],
        lambda _, covariance: np.linalg.slogdet(covariance)[1],
    ):
        assert ks_2samp([told(*one) for one in ours], [told(*one) for one in theirs]).pvalue > 1e-3


def test_weights_of_components_have_a_dirichlet_distribution():
    model, rows, weight, prior, params = two_clouds()
    sums, draws = expected_sums(model, rows, weight, prior), np.random.RandomState(0)
    weights = [
        drawn_parameters(model, sums, prior, params, draws, model).weights[0] for _ in range(500)
    ]
    truth = dirichlet(sums.by_width[:, 0]).rvs(4000, random_state=1)[:, 0]
    assert ks_2samp(weights, truth).pvalue > 1e-3


def test_each_row_is_drawn_to_one_component_as_often_as_it_belongs_to_it():
    model, rows, weight, prior, _ = two_clouds(40)
    prior, draws = prior._replace(background_weight=0.2), np.random.RandomState(0)
    expected, n_draws = expected_sums(model, rows, weight, prior), 1000
    drawn = [drawn_sums(model, rows, weight, prior, draws) for _ in range(n_draws)]
    count = np.array([one.by_width.sum() for one in drawn])
    assert_array_equal(count, np.rint(count))
    assert_allclose(np.mean([one.by_width for one in drawn], axis=0), expected.by_width, atol=0.25)
    assert_allclose(np.mean([one.square for one in drawn], axis=0), expected.square, atol=1.0)


def test_components_of_few_rows_and_independent_numbers_are_drawn_too():
    model, rows, weight, prior, params = two_clouds(6)
    for one in (params, params._replace(factorised=True), params._replace(n_factors=1)):
        draws = np.random.RandomState(0)
        sums = drawn_sums(model, rows, weight, prior, draws)
        found = drawn_parameters(model, sums, prior, one, draws, model).gaussians
        assert np.isfinite(found.log_det).all()
        assert one.factorised == (found.covariance[0, 0, 1] == 0.0)
    params = params._replace(factorised=True)
    sums = expected_sums(model, rows, weight, prior)
    # Eight rows of each component are like it.
    like_model = Sums.from_model(model._replace(weights=np.ones(2)), 8.0)
    point = m_step(model, added(like_model, sums), prior, params)
    variances = [
        drawn_parameters(model, sums, prior, params, draws, model).gaussians.covariance[1, 2, 2]
        for _ in range(1000)
    ]
    count = sums.by_width[1].sum() + 8.0 + 1.5
    pivot = count * point.gaussians.covariance[1, 2, 2] / np.array(variances)
    assert kstest(pivot, "chi2", args=(count - 1.0,)).pvalue > 1e-3


def test_rows_like_a_component_are_added_about_another_model():
    model, _, _, prior, params = two_clouds(40)
    moved = model._replace(gaussians=model.gaussians._replace(mean=model.gaussians.mean + 3.0))
    nothing = Sums.from_model(moved, 0.0)
    draws = np.random.RandomState(0)
    means = [
        drawn_parameters(moved, nothing, prior, params, draws, model).gaussians.mean
        for _ in range(4000)
    ]
    # Only rows at the start tell where the components are.
    assert_allclose(np.mean(means, axis=0), model.gaussians.mean, atol=0.1)


def test_a_component_without_observed_cells_stays_where_it_was():
    start, rows, weight, prior, params = two_clouds(40)
    draws, model = np.random.RandomState(0), start
    variances = []
    for _ in range(60):
        # The eight rows of the rare component are drawn from it in each step.
        gaussians = model.gaussians
        cells = draws.multivariate_normal(gaussians.mean[0], gaussians.covariance[0], 8)
        filled = rows_of(np.concatenate([cells, rows.scores[8:]]))
        sums = drawn_sums(model, filled, weight, prior, draws)
        model = drawn_parameters(model, sums, prior, params, draws, start)
        variances.append(model.gaussians.covariance[0].diagonal())
    grown = np.array(variances) / start.gaussians.covariance[0].diagonal()
    assert grown.max() < 20.0
    assert 0.2 < np.median(grown) < 5.0
