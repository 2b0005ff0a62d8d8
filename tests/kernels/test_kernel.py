"""Kernels between complete rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from skpc.kernels import (
    RBF,
    Delta,
    ExponentialHamming,
    KernelCircuit,
    ProductKernel,
    SumKernel,
    product_terms,
)
from tests.naive.kernels import Near, row_value


def rows(seed: int, n_rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 3, (n_rows, 2)), rng.normal(size=(n_rows, 2))])


MIXED = ProductKernel([ExponentialHamming(1.0), Delta(), RBF(0.5), RBF(2.0)])
SUMS = SumKernel([RBF(1.0), Delta()], [0.5, 2.0]), SumKernel([Near(), RBF(0.1)])
KERNELS = [
    *(RBF(0.7), ExponentialHamming(0.4), Delta(), MIXED, SumKernel([MIXED, RBF(1.0)], [2, 3])),
    ProductKernel([SUMS[0], Delta(), SUMS[1], ProductKernel([RBF(2.0)])]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_matrices_hold_the_value_of_every_pair(kernel):
    X, Y = rows(0, 5), rows(1, 4)
    truth = [[row_value(kernel, x, y) for y in Y] for x in X]
    assert_allclose(kernel(X, Y), truth, rtol=1e-13)
    assert_allclose(kernel(X), kernel(X, X))


def test_the_gaussian_kernel_agrees_with_scikit_learn():
    X, Y = rows(0, 6), rows(1, 7)
    assert_allclose(RBF(0.3)(X, Y), rbf_kernel(X, Y, gamma=0.3), rtol=1e-12)


def test_hamming_on_states_is_the_gaussian_kernel_on_one_hot_columns():
    X = rows(0, 8)[:, :2]
    one_hot = (X[:, :, None] == np.arange(3)).reshape(8, 6).astype(float)
    assert_allclose(ExponentialHamming(2 * 0.3)(X), rbf_kernel(one_hot, gamma=0.3), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_matrices_are_positive_semidefinite(kernel):
    gram = kernel(rows(2, 20))
    assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


def test_a_product_of_sums_is_the_sum_of_all_products():
    kernel = ProductKernel(SUMS)
    X, Y = rows(0, 5)[:, 1:3], rows(1, 4)[:, 1:3]
    truth = SUMS[0](X[:, :1], Y[:, :1]) * SUMS[1](X[:, 1:], Y[:, 1:])
    assert_allclose(kernel(X, Y), truth, rtol=1e-13)
    root = KernelCircuit(kernel, 2).root
    assert [weight for weight, _ in product_terms(root, lambda node: not node.parts)] == [
        0.5,
        0.5,
        2.0,
        2.0,
    ]
    with pytest.raises(ValueError, match="each of 4 columns, but the rows have 1"):
        ProductKernel([MIXED])([[0.0]])
    with pytest.raises(ValueError, match="a ProductKernel needs one or more kernels, got none"):
        ProductKernel([])


def test_bad_parameters_are_refused_with_their_value():
    with pytest.raises(ValueError, match="gamma must be a finite number of 0 or more, got -1"):
        RBF(-1.0)
    with pytest.raises(ValueError, match="got nan"):
        ExponentialHamming(np.nan)
    with pytest.raises(TypeError, match="got 'rbf' for column 1"):
        ProductKernel([Delta(), "rbf"])
    with pytest.raises(ValueError, match=r"must be positive, got \(1.0, -2.0\)"):
        SumKernel([Delta(), Delta()], [1, -2])
    with pytest.raises(ValueError, match="got 0 kernels and 0 weights"):
        SumKernel([])


def test_bad_rows_are_refused_with_their_place():
    with pytest.raises(ValueError, match=r"got nan in row 1, column 0"):
        RBF(1.0)([[0.0], [np.nan]])
    with pytest.raises(ValueError, match=r"shape \(n_rows, n_features\), got \(2,\)"):
        RBF(1.0)([0.0, 1.0])
    with pytest.raises(ValueError, match="same number of columns, got 4 and 2"):
        RBF(1.0)(rows(0, 3), rows(0, 3)[:, :2])
    with pytest.raises(ValueError, match="each of 4 columns, but the rows have 2"):
        MIXED(rows(0, 3)[:, :2])
