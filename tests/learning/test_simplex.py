"""Weights of a mixture of given densities."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from skpc.learning.simplex import mixture_weights


def test_weights_are_those_of_the_greatest_likelihood():
    rng = np.random.default_rng(0)
    log_density, weight = rng.normal(size=(60, 3)), rng.integers(1, 4, 60).astype(float)

    def loss(free):
        share = np.exp(np.append(free, 0.0))
        return -weight @ np.log(np.exp(log_density) @ (share / share.sum()))

    best = np.exp(np.append(minimize(loss, np.zeros(2), tol=1e-12).x, 0.0))
    assert_allclose(mixture_weights(log_density, weight), best / best.sum(), atol=1e-4)


def test_useless_components_weigh_nothing_and_impossible_rows_do_not_count():
    log_density = np.array([[0.0, -9.0], [-1.0, -np.inf], [-np.inf, -np.inf], [5.0, -800.0]])
    assert_allclose(mixture_weights(log_density, np.ones(4)), [1.0, 0.0])
    assert_allclose(mixture_weights(log_density[2:3], np.ones(1)), [0.5, 0.5])


def test_a_weight_of_two_is_the_row_twice_and_constants_of_rows_do_not_matter():
    rng = np.random.default_rng(1)
    log_density, weight = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    found = mixture_weights(log_density, weight.astype(float))
    shifted = np.repeat(log_density + 1e3 * rng.normal(size=(30, 1)), weight, axis=0)
    assert_allclose(mixture_weights(shifted, np.ones(len(shifted))), found, atol=1e-9)


def test_a_component_that_is_a_little_too_bad_everywhere_weighs_nothing():
    rng = np.random.default_rng(0)
    first = np.log(rng.uniform(0.2, 0.4, 500))
    second = first + np.log(np.where(rng.random(500) < 0.5, 1.01, 0.985))
    assert_array_equal(mixture_weights(np.column_stack([first, second]), np.ones(500)), [1.0, 0.0])
