"""Boxes of multivariate normals against plain integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from skpc.variables.block_ranges import _in_pair


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5, 0.97])
def test_two_ranges_have_the_integral_of_one_given_the_other(rho):
    low = np.array([[-np.inf, 0.5, -3.0, 2.0], [-np.inf, -1.0, 1.0, 2.5]])
    high = np.array([[0.3, 0.8, 4.0, np.inf], [1.0, np.inf, 1.2, 6.0]])
    mean = np.array([[0.1], [0.2], [-0.3], [0.4]])
    second = -mean
    variance, slope, rest = (np.array([x]) for x in (1.44, rho * 2.0 / 1.2, 4.0 * (1 - rho**2)))
    answer = _in_pair(mean, second, variance, slope, rest, low, high)[:, 0]
    for row, prob in enumerate(answer):
        own = norm(mean[row, 0], 1.2)
        ends = [np.clip(end[0, row], own.ppf(1e-16), own.isf(1e-16)) for end in (low, high)]

        def integrand(x, row=row, own=own):
            given = norm(second[row, 0] + slope[0] * (x - mean[row, 0]), np.sqrt(rest[0]))
            return own.pdf(x) * (given.cdf(high[1, row]) - given.cdf(low[1, row]))

        assert_allclose(prob, quad(integrand, *ends, limit=200, epsabs=1e-13)[0], rtol=1e-4)


def test_an_empty_range_of_a_pair_has_no_mass():
    one = np.ones(1)
    low, high = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    answer = _in_pair(np.zeros((2, 1)), np.zeros((2, 1)), one, 0.0 * one, one, low, high)
    assert_allclose(answer, 0.0)
