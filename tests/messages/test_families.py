"""Message families beside scipy's distributions and quadrature."""

import operator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.messages import Beta, Gamma, Normal
from tests.naive import messages as naive

PAIRS = [
    (Normal, (0.3, 2.0), (-1.0, 0.7)),
    (Beta, (1.5, 4.0), (2.0, 2.5)),
    (Gamma, (3.0, 0.5), (2.0, 1.5)),
]
every_family = pytest.mark.parametrize(("family", "p", "q"), PAIRS)


@every_family
def test_moments_densities_and_divergences_are_those_of_the_distribution(family, p, q):
    truth = naive.scipy_distribution(family.name, *p)
    message = family(*p)
    assert message.mean == pytest.approx(truth.mean())
    assert message.variance == pytest.approx(truth.var())
    x = truth.ppf([0.1, 0.5, 0.9])
    assert_allclose(message.log_density(x), truth.logpdf(x))
    assert message.kl(family(*q)) == pytest.approx(naive.kl(family.name, p, q), rel=1e-6)
    assert message.kl(message) == pytest.approx(0.0, abs=1e-13)


@every_family
def test_mean_parameters_are_the_slope_of_the_log_partition(family, p, q):
    natural = family(*p).natural
    for entry in range(2):
        step = np.zeros(2)
        step[entry] = 1e-6
        up = family.from_natural(natural + step)._log_partition()
        down = family.from_natural(natural - step)._log_partition()
        assert family(*p).mean_parameters[entry] == pytest.approx((up - down) / 2e-6, rel=1e-6)


@every_family
def test_expected_statistics_make_the_same_message_again(family, p, q):
    scale = np.geomspace(0.05, 1e4, 7)
    message = family([p[0], q[0]] + np.zeros((7, 2)), np.outer(scale, [p[1], q[1]]))
    again = family.from_mean_parameters(message.mean_parameters)
    assert_allclose(again.parameters, message.parameters, rtol=1e-7)
    x = naive.scipy_distribution(family.name, *p).rvs(200_000, random_state=0)
    assert_allclose(family.statistics(x).mean(axis=0), family(*p).mean_parameters, atol=0.03)


def test_expectations_of_no_distribution_make_an_improper_message():
    # The mean of the log is at most the log of the mean.
    assert not Gamma.from_mean_parameters([0.1, -1.0]).is_proper
    assert not Beta.from_mean_parameters([-0.1, -0.1]).is_proper


@every_family
def test_a_product_has_the_product_of_the_densities(family, p, q):
    a, b = family(*p), family(*q)
    x = naive.scipy_distribution(family.name, *p).ppf([0.2, 0.4, 0.8])
    both = a.log_density(x) + b.log_density(x)
    difference = (a * b).log_density(x) - both
    assert_allclose(difference, difference[0])
    assert_allclose((a * b / b).natural, a.natural)


@every_family
def test_parameters_and_moments_make_the_same_message_again(family, p, q):
    message = family([p[0], q[0]], [p[1], q[1]])
    assert_array_equal(family.from_parameters(message.parameters).natural, message.natural)
    again = family.from_moments(message.mean, message.variance)
    assert_allclose(again.natural, message.natural)
    assert len(message) == 2
    assert message.is_proper.all()
    assert_allclose(message[1].parameters, q)


@every_family
def test_draws_have_the_moments_of_the_message(family, p, q):
    draws = family(*p).sample(200_000, np.random.RandomState(0))
    assert draws.mean() == pytest.approx(family(*p).mean, abs=0.02)
    assert draws.var() == pytest.approx(family(*p).variance, rel=0.03)


@pytest.mark.parametrize(
    "message",
    [
        Normal(0.0, 1.0) / Normal(0.0, 0.5),
        Normal(1.0, np.inf),
        Normal(np.nan, 1.0),
        Normal(0.0, 0.0),
        Beta(0.0, 1.0),
        Beta.from_moments(0.5, 0.3),
        Beta.from_moments(np.nan, 0.1),
        Gamma(2.0, 1.0) / Gamma(1.0, 1.0),
        Gamma.from_moments(-1.0, 1.0),
    ],
    ids=repr,
)
def test_improper_messages_are_values_that_say_so(message):
    assert not message.is_proper


def test_small_divergences_of_normals_keep_their_digits():
    step = 1e-7
    assert Normal(step, 1.0).kl(Normal(0.0, 1.0)) == pytest.approx(step**2 / 2, rel=1e-6)
    assert Normal(0.0, 1.0 + step).kl(Normal(0.0, 1.0)) == pytest.approx(step**2 / 4, rel=1e-6)


def test_messages_of_different_families_have_no_product_and_no_ratio():
    for combine in (operator.mul, operator.truediv):
        with pytest.raises(TypeError, match="'Normal' and 'Beta'"):
            combine(Normal(0.0, 1.0), Beta(1.0, 1.0))


def test_the_variance_of_a_beta_is_finite_for_counts_of_any_size():
    assert Beta(1e150, 3e150).variance == pytest.approx(3.0 / 64e150, rel=1e-12)
