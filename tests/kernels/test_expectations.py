"""Expectations of column kernels against quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.kernels import (
    RBF,
    Delta,
    ExponentialHamming,
    ProductKernel,
    leaf_expectations,
    leaf_second_moments,
)
from skpc.variables import Bins, Histogram, Normals
from tests.naive.kernels import Near, cell_value, expectation, masses_of, states

KERNELS = [RBF(0.3), RBF(4.0), ExponentialHamming(0.7), Delta()]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def members(rng: np.random.Generator, n_states: int) -> np.ndarray:
    """One member for each state that has all the mass, and a mixed one."""
    return np.vstack([np.eye(n_states), rng.dirichlet(np.ones(n_states))])


def bins(seed: int, edges, lower: float, upper: float) -> Bins:
    axis = Histogram(np.array(edges, dtype=float), lower, upper)
    return Bins(axis, members(np.random.default_rng(seed), len(edges) + 1))


def normals() -> Normals:
    return Normals(np.array([-1.0, 0.4, 30.0, 2.0]), np.array([0.6, 2.5, 0.01, 0.0]))


BINS = {
    "plain": bins(0, [-1.0, 0.0, 0.5, 2.0], 0.7, 1.3),
    "shifted": bins(1, [-0.4, 0.1, 3.0], 0.2, 0.65),
    "narrow": bins(2, [0.0, 1e-4, 1.1e-4, 0.5], 1e-4, 2.0),
    "wide": bins(3, [-5.0, 5.0, 12.0], 4.0, 4.01),
    "one edge": bins(4, [0.3], 1.0, 1.0),
    "far": bins(5, [40.0, 41.0], 0.5, 0.5),
}
every_axis = pytest.mark.parametrize("axis", BINS)


@pytest.mark.parametrize("kernel", [*KERNELS, Near()], ids=repr)
def test_expectations_of_categories_are_sums(kernel):
    rng = np.random.default_rng(0)
    left, right = states(members(rng, 4)), states(members(rng, 4))
    assert_allclose(
        leaf_expectations(kernel, left, right), expectation(kernel, left, right), atol=1e-14
    )


@pytest.mark.parametrize("gamma", [0.01, 1.0, 50.0])
def test_expectations_of_normals_agree_with_quadrature(gamma):
    kernel, left = RBF(gamma), normals()
    right = Normals(np.array([0.0, 3.0]), np.array([1.0, 0.2]))
    assert_allclose(
        leaf_expectations(kernel, left, right), expectation(kernel, left, right), atol=1e-12
    )


@every_axis
def test_expectations_of_bins_and_points_or_normals_agree_with_quadrature(axis):
    left, right = normals(), BINS[axis]
    for kernel in (RBF(0.05), RBF(1.0), RBF(40.0)):
        found = leaf_expectations(kernel, left, right)
        assert_allclose(found, expectation(kernel, left, right), atol=1e-12)
        assert_allclose(leaf_expectations(kernel, right, left), found.T, rtol=1e-14)


@every_axis
def test_expectations_of_two_lists_of_bins_agree_with_quadrature(axis):
    left = replace(BINS[axis], prob=BINS[axis].prob[:-1])
    for other in BINS.values():
        right = replace(other, prob=other.prob[:-1])
        for kernel in (RBF(0.05), RBF(10.0)):
            truth = expectation(kernel, left, right)
            assert_allclose(leaf_expectations(kernel, left, right), truth, atol=1e-12)


def test_mixed_members_of_bins_are_mixtures_of_their_states():
    kernel, left, right = RBF(0.8), BINS["plain"], BINS["wide"]
    found = leaf_expectations(kernel, left, right)
    assert_allclose(found[-1, -1], left.prob[-1] @ found[:-1, :-1] @ right.prob[-1], rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_expectations_of_bins_scale_with_the_axis(scale):
    left, right = BINS["plain"], BINS["narrow"]
    wide = []
    for edges, lower, upper, *_ in (side.axis for side in (left, right)):
        wide.append(Histogram(edges * scale, lower * scale, upper * scale))
    wide = [replace(side, axis=axis) for side, axis in zip((left, right), wide)]
    assert_allclose(
        leaf_expectations(RBF(0.5 / scale**2), *wide),
        leaf_expectations(RBF(0.5), left, right),
        atol=1e-12,
    )


@pytest.mark.parametrize("gamma", [0.0, 1e-14, 1e-6, 1e6, 1e14])
def test_extreme_bumps_give_numbers_between_zero_and_one(gamma):
    for left in [*BINS.values(), normals()]:
        for right in BINS.values():
            found = leaf_expectations(RBF(gamma), left, right)
            assert np.all((found >= -1e-15) & (found <= 1.0 + 1e-12))
            if gamma <= 1e-14:
                assert_allclose(found, 1.0, atol=1e-9)


@pytest.mark.parametrize("kernel", [ExponentialHamming(0.7), Delta()], ids=repr)
def test_draws_of_continuous_distributions_never_match(kernel):
    different = kernel.of_points(np.zeros(1), np.ones(1))[0]
    left = Normals(np.array([1.0, 1.0]), np.array([0.0, 0.5]))
    assert_allclose(leaf_expectations(kernel, left, left)[0], [1.0, different])
    assert_allclose(leaf_expectations(kernel, left, left)[1], different)
    for other in (BINS["plain"], replace(left, sd=np.ones(2))):
        assert_allclose(leaf_expectations(kernel, left, other), different)
        assert_allclose(leaf_expectations(kernel, other, BINS["far"]), different)


def test_points_are_normals_without_a_spread():
    points, right = states(np.eye(3)), normals()
    known = Normals(np.arange(3.0), np.zeros(3))
    for kernel in KERNELS:
        found = leaf_expectations(kernel, points, right)
        assert_allclose(found, leaf_expectations(kernel, known, right))
        assert_allclose(leaf_expectations(kernel, right, points), found.T)


def test_a_product_kernel_is_no_column_kernel():
    with pytest.raises(TypeError, match="needs a column kernel, got ProductKernel under Points"):
        leaf_expectations(ProductKernel([Delta()]), states(np.eye(2)), states(np.eye(2)))


def test_a_kernel_without_formulas_is_summed_over_values_and_refused_for_densities():
    known = Normals(np.array([0.5, 3.0]), np.zeros(2))
    axis = Histogram(
        np.array([0.0, 0.0, 2.0, 2.0]), 1.0, 1.0, point=[np.nan, 0.0, np.nan, 2.0, np.nan]
    )
    atoms = Bins(axis, np.array([[0.0, 0.3, 0.0, 0.7, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]))
    forms, cells = [known, atoms, states(np.eye(3))], np.array([0.0, 1.5])
    for left in forms:
        for right in forms:
            found = leaf_expectations(Near(), left, right)
            assert_allclose(found, expectation(Near(), left, right), atol=1e-14)
        truth = [
            sum(p * cell_value(Near(), x, 0.0) * cell_value(Near(), x, 1.5) for x, p in of.items())
            for of in masses_of(left)
        ]
        second = leaf_second_moments(Near(), left, cells, cells[::-1])
        assert_allclose(second, np.repeat(truth, 2).reshape(-1, 2))
    for form in (normals(), BINS["plain"]):
        with pytest.raises(TypeError, match="expectation of Near under .* have a density"):
            leaf_expectations(Near(), form, known)
        with pytest.raises(TypeError, match="expectation of Near under .* have a density"):
            leaf_second_moments(Near(), form, cells, cells)
