"""Mean and variance of kernel expansions against draws and sums over all pairs of points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.kernels import RBF, Delta, ExponentialHamming, ProductKernel, SumKernel
from skpc.queries import KernelExpansion, expected_gram
from skpc.queries import expectation as module
from tests import zoo
from tests.naive import kernels as naive


def parts(kinds: str = "mixed", n_points: int = 5, missing: float = 0.0):
    circuit = zoo.random_structured_circuit(1, 3, kinds)
    is_number = (circuit.n_states == 0) | (np.diff(circuit.axis_ptr) > 0)
    kernel = ProductKernel([RBF(0.4) if n else ExponentialHamming(0.9) for n in is_number])
    points = zoo.random_rows(2, circuit, n_points, missing)
    coefficients = np.random.default_rng(0).normal(size=(n_points, 2))
    return circuit, kernel, points, coefficients


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_mean_is_a_weighted_sum_of_expected_kernels(missing):
    circuit, kernel, points, coefficients = parts(missing=missing)
    rows = zoo.random_rows(3, circuit, 600, 0.5)
    found = KernelExpansion(circuit, points, coefficients, kernel).mean(rows)
    gram = expected_gram(circuit, rows, points, kernel)
    assert_allclose(found, gram @ coefficients, atol=1e-12)


def second_moment(circuit, kernel, row, x, y) -> float:
    """E k(z, x) k(z, y) given a row: over all trees, by quadrature in each variable."""
    ((_, factors),) = naive.factors_of(kernel, len(x))
    x, y = naive.rows_on_scale(circuit, np.array([x, y]))
    total = 0.0
    for weight, tree in naive.given_trees(circuit, row):
        for var, factor in enumerate(factors):
            leaf = naive.univariate(circuit, var, tree[var])
            z, (w,) = naive.points_of(leaf, 2 * getattr(factor, "gamma", 1.0))[0]
            weight *= w @ [
                naive.cell_value(factor, a, x[var]) * naive.cell_value(factor, a, y[var]) for a in z
            ]
        total += weight
    return total


KINDS = ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed", "own kernel"]


@pytest.mark.parametrize("kinds", KINDS)
def test_the_variance_agrees_with_quadrature_over_all_trees(kinds, monkeypatch):
    monkeypatch.setattr(module, "_PAIRS", 3)
    is_own = kinds == "own kernel"
    circuit, kernel, points, coefficients = parts("discrete" if is_own else kinds, n_points=3)
    kernel = naive.Near() if is_own else kernel
    rows = zoo.random_rows(3, circuit, 3, 0.6)
    expansion = KernelExpansion(circuit, points, coefficients, kernel)
    truth = []
    for row in rows:
        moments = [[second_moment(circuit, kernel, row, x, y) for y in points] for x in points]
        truth.append([a @ np.array(moments) @ a for a in coefficients.T])
    truth = np.array(truth) - expansion.mean(rows) ** 2
    assert_allclose(expansion.variance(rows), truth, atol=1e-10)


@pytest.mark.parametrize("factor", [ExponentialHamming(0.8), Delta()], ids=repr)
def test_kernels_that_compare_numbers_have_the_variance_of_never_matching(factor):
    circuit = zoo.random_structured_circuit(1, 2, "gaussian")
    point = np.array([[0.3, -0.2]])
    expansion = KernelExpansion(circuit, point, np.ones((1, 1)), ProductKernel([factor, RBF(0.5)]))
    plain = KernelExpansion(
        circuit, point, np.ones((1, 1)), ProductKernel([ExponentialHamming(0.0), RBF(0.5)])
    )
    other = factor.of_points(np.zeros(1), np.ones(1))[0]
    nothing = [[np.nan, np.nan]]
    assert_allclose(expansion.mean(nothing), other * plain.mean(nothing))
    assert_allclose(expansion.variance(nothing), other**2 * plain.variance(nothing), atol=1e-15)


def test_complete_rows_have_no_variance():
    circuit, kernel, points, coefficients = parts()
    rows = zoo.random_rows(3, circuit, 20, 0.0)
    expansion = KernelExpansion(circuit, points, coefficients, kernel)
    gram = kernel(*(naive.rows_on_scale(circuit, part) for part in (rows, points)))
    assert_allclose(expansion.mean(rows), gram @ coefficients, rtol=1e-10)
    assert_allclose(expansion.variance(rows), 0.0, atol=1e-13)


def test_what_has_no_closed_form_is_refused():
    circuit, kernel, points, coefficients = parts(missing=0.5)
    expansion = KernelExpansion(circuit, points, coefficients, kernel)
    with pytest.raises(ValueError, match="the variance needs complete points, but"):
        expansion.variance(points)
    both = SumKernel([kernel, kernel])
    complete = zoo.random_rows(2, circuit, 5, missing=0.0)
    expansion = KernelExpansion(circuit, complete, coefficients, both)
    with pytest.raises(ValueError, match="needs a kernel that is a product of column kernels"):
        expansion.variance(points)
    gram = expected_gram(circuit, points, complete, kernel)
    assert_allclose(expansion.mean(points), 2 * gram @ coefficients, atol=1e-12)
