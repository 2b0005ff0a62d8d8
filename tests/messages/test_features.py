"""Random features and length scales beside double sums."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.messages import (
    Beta,
    CholeskyFeatures,
    Gamma,
    MessageFeatures,
    MessageLayout,
    Moments,
    embedding_kernel,
    embedding_products,
    inner_length_scale_sq,
    message_moments,
    outer_length_scale_sq,
)
from tests.naive import messages as naive

LENGTH_SCALES_SQ = np.array([0.4, 1.5])
SCALES = {"inner_length_scale_sq": LENGTH_SCALES_SQ, "outer_length_scale_sq": 0.6}
KERNEL = partial(embedding_kernel, **SCALES)


def random_moments(n_rows=4, seed=0):
    rng = np.random.default_rng(seed)
    variance = rng.uniform(0.1, 2.0, (n_rows, 2))
    variance[0, 0] = 0.0
    return Moments(rng.normal(size=(n_rows, 2)), variance)


def test_inner_products_of_embeddings_are_double_sums():
    a, b = random_moments(3, 0), random_moments(2, 1)
    found = embedding_products(a, b, LENGTH_SCALES_SQ)
    for i in range(3):
        for j in range(2):
            truth = naive.embedding_product(
                a.mean[i], a.variance[i], b.mean[j], b.variance[j], LENGTH_SCALES_SQ
            )
            assert found[i, j] == pytest.approx(truth, rel=1e-6)


def test_features_are_those_of_the_algorithm_with_its_expectations_by_quadrature():
    moments = random_moments()
    features = MessageFeatures.draw(LENGTH_SCALES_SQ, 0.6, 7, 5, np.random.RandomState(0))
    for row, found in enumerate(features.transform(moments)):
        truth = naive.random_features(moments.mean[row], moments.variance[row], features)
        assert_allclose(found, truth, atol=1e-9)


def test_inner_products_of_many_features_are_the_exact_kernel():
    moments = random_moments(4)
    features = MessageFeatures.draw(LENGTH_SCALES_SQ, 0.6, 2000, 8000, np.random.RandomState(0))
    psi = features.transform(moments)
    truth = naive.embedding_kernel(moments.mean, moments.variance, LENGTH_SCALES_SQ, 0.6)
    assert_allclose(psi @ psi.T, truth, atol=0.05)


def test_the_gaussian_kernel_on_embeddings_is_that_of_double_sums():
    moments = random_moments(5)
    truth = naive.embedding_kernel(moments.mean, moments.variance, LENGTH_SCALES_SQ, 0.6)
    assert_allclose(KERNEL(moments, moments), truth, rtol=1e-6)
    assert_allclose(KERNEL(moments.take([1, 4]), moments), truth[[1, 4]], rtol=1e-6)


@pytest.mark.parametrize("n_features", [1, 3, 6])
def test_cholesky_features_explain_what_their_pivots_do(n_features):
    moments = random_moments(12)
    psi = CholeskyFeatures.choose(KERNEL, moments, n_features).transform(moments)
    truth = naive.incomplete_cholesky(KERNEL(moments, moments), n_features)
    assert psi.shape == (12, n_features)
    assert_allclose(psi @ psi.T, truth, atol=1e-9)


def test_cholesky_features_of_new_rows_are_exact_beside_pivots():
    moments, others = random_moments(6, 0), random_moments(4, 1)
    features = CholeskyFeatures.choose(KERNEL, moments, 6)
    found = features.transform(others) @ features.transform(moments).T
    assert_allclose(found, KERNEL(others, moments), atol=1e-9)


def test_repeated_messages_are_one_pivot():
    moments = random_moments(3).take([0, 1, 0, 2, 1])
    features = CholeskyFeatures.choose(KERNEL, moments, 5)
    psi = features.transform(moments)
    assert features.triangle.shape == (3, 3)
    assert_allclose(psi @ psi.T, KERNEL(moments, moments), atol=1e-9)


def test_features_of_a_row_do_not_depend_on_the_other_rows():
    moments = random_moments(5000)
    features = MessageFeatures.draw(LENGTH_SCALES_SQ, 0.6, 20, 30, np.random.RandomState(0))
    together = features.transform(moments)
    for row in (0, 2047, 2048, 4999):
        alone = features.transform(Moments(*(part[[row]] for part in moments)))
        assert_allclose(together[[row]], alone, rtol=0, atol=1e-12)


def test_the_outer_length_scale_is_the_median_of_the_squared_distances():
    moments = random_moments(6)
    distances = []
    for i in range(6):
        for j in range(6):
            p, q = [(moments.mean[k], moments.variance[k]) for k in (i, j)]
            distances.append(
                naive.embedding_product(*p, *p, LENGTH_SCALES_SQ)
                + naive.embedding_product(*q, *q, LENGTH_SCALES_SQ)
                - 2 * naive.embedding_product(*p, *q, LENGTH_SCALES_SQ)
            )
    assert outer_length_scale_sq(moments, LENGTH_SCALES_SQ) == pytest.approx(
        np.median(distances), rel=1e-6
    )


def test_inner_length_scales_are_mean_variances_and_spreads_of_points():
    moments = Moments(
        np.array([[1.0, 5.0, 7.3], [2.0, 9.0, 7.3]]), np.array([[3.0, 0, 0], [1.0, 0, 0]])
    )
    assert_allclose(inner_length_scale_sq(moments), [2.0, 4.0, 1.0])


def test_equal_rows_have_width_one():
    moments = Moments(np.full((3, 2), 0.1), np.zeros((3, 2)))
    assert_allclose(inner_length_scale_sq(moments), 1.0)
    assert outer_length_scale_sq(moments, np.ones(2)) == 1.0


def test_mostly_equal_rows_have_the_mean_distance_as_outer_length_scale():
    moments = Moments(np.array([[0.0]] * 9 + [[1.0]]), np.zeros((10, 1)))
    distance = 2 - 2 * np.exp(-0.5)
    assert outer_length_scale_sq(moments, np.ones(1)) == pytest.approx(0.18 * distance)


def test_messages_are_read_by_their_moments():
    rows = np.array([[2.0, 3.0, 0.5, 4.0, 2.0, 9.0, -1.0]])
    found = message_moments(rows, ["beta", "gamma", "normal", "point"])
    beta, gamma = Beta(2.0, 3.0), Gamma(0.5, 4.0)
    assert_allclose(found.mean, [[beta.mean, gamma.mean, 2.0, -1.0]])
    assert_allclose(found.variance, [[beta.variance, gamma.variance, 9.0, 0.0]])


def test_log_gamma_messages_are_read_by_the_moments_of_the_logarithm():
    found = message_moments(np.array([[3.0, 2.0]]), ["log-gamma"])
    log = np.log(naive.scipy_distribution("gamma", 3.0, 2.0).ppf((np.arange(10**5) + 0.5) / 10**5))
    assert found.mean[0, 0] == pytest.approx(log.mean(), rel=1e-4)
    assert found.variance[0, 0] == pytest.approx(log.var(), rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "distributions", "message"),
    [
        ([[0.0, 1.0], [0.0, -2.0]], ["normal"], r"variance .* -2\.0 in column 1, row 1"),
        ([[0.0, 1.0]], ["beta"], r"alpha .* 0\.0 in column 0, row 0"),
        ([[7.0, 1.0, -3.0]], ["point", "gamma"], r"rate .* -3\.0 in column 2, row 0"),
        ([[0.0, 1.0]], ["cauchy"], "'gamma', 'log-gamma', 'point'; found 'cauchy'"),
        ([[0.0, 1.0, 2.0]], ["normal"], "needs 2 columns .* found 3"),
    ],
)
def test_tables_that_are_no_messages_are_refused(rows, distributions, message):
    with pytest.raises(ValueError, match=message):
        message_moments(np.array(rows), distributions)


def test_a_layout_finds_the_message_of_its_target():
    layout = MessageLayout(("beta", "normal", "gamma"), target=2)
    rows = np.array([[1.0, 2.0, 0.0, 1.0, 3.0, 4.0]])
    assert layout.family is Gamma
    assert_allclose(layout.incoming(rows).parameters, [[3.0, 4.0]])
    assert_allclose(layout.message(rows, 0).parameters, [[1.0, 2.0]])
