"""Expected kernels of nested sums and products against double sums."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc import SoftLearnSPN
from skpc.circuit import CircuitBuilder
from skpc.discrepancies import kdsd, mmd2, stein_gram
from skpc.exceptions import IncompatibleError
from skpc.factor_graphs import FactorGraph, compile
from skpc.kernels import RBF, Delta, ExponentialHamming, KernelCircuit, ProductKernel, SumKernel
from skpc.queries import KernelExpansion, expected_gram, expected_kernel, log_likelihood
from tests import zoo
from tests.naive import kernels as naive
from tests.naive.circuit import all_rows


def two_gaussians(first: float = 0.3, second: float = 1.0) -> SumKernel:
    return SumKernel([RBF(first), RBF(second)], [0.4, 0.6])


def chains(n_columns: int, n_parts: int, seed: int):
    """Two mixtures of binary chains that split off one column after the other."""
    rng = np.random.default_rng(seed)
    circuits = []
    for _ in range(2):
        builder = CircuitBuilder([2] * n_columns)
        below: list[int] = []
        for column in reversed(range(n_columns)):
            leaves = [builder.discrete(column, zoo.log_simplex(rng, 2)) for _ in range(n_parts)]
            if below:
                leaves = [builder.product(list(pair)) for pair in zip(leaves, below)]
            below = [builder.sum(leaves, zoo.log_simplex(rng, n_parts)) for _ in range(n_parts)]
        builder.sum(below, zoo.log_simplex(rng, n_parts))
        circuits.append(builder.build())
    return circuits


def double_sum(p, q, kernel) -> float:
    """The expectation as a sum over all pairs of states."""
    rows = all_rows(p)
    masses = [np.exp(log_likelihood(circuit, rows)) for circuit in (p, q)]
    return float(masses[0] @ kernel(rows, rows) @ masses[1])


def test_a_product_of_seven_sums_is_the_double_sum():
    p, q = chains(7, 3, seed=0)
    kernel = ProductKernel([two_gaussians(0.1 * v, 1.0 + v) for v in range(7)])
    assert expected_kernel(p, q, kernel) == pytest.approx(double_sum(p, q, kernel), rel=1e-10)


def test_a_product_of_fourteen_sums_is_not_multiplied_out():
    p, q = chains(14, 3, seed=0)
    kernel = ProductKernel([two_gaussians(0.1 * v, 1.0 + v) for v in range(14)])
    start = time.process_time()
    expectation = expected_kernel(p, q, kernel)
    assert time.process_time() - start < 1.0
    masses = [np.exp(log_likelihood(circuit, all_rows(p))) for circuit in (p, q)]
    averaged = masses[1].reshape((2,) * 14)
    states = np.array([[0.0], [1.0]])
    # The double sum, one column after the other: the kernel is a product of tables.
    for column in kernel.columns:
        averaged = np.moveaxis(np.tensordot(column(states), averaged, axes=(1, 0)), 0, -1)
    assert expectation == pytest.approx(masses[0] @ averaged.ravel(), rel=1e-10)


def test_forty_columns_take_seconds():
    p, q = chains(40, 4, seed=1)
    kernel = ProductKernel([two_gaussians() for _ in range(40)])
    start = time.process_time()
    assert 0.0 < expected_kernel(p, q, kernel) < 1.0
    assert time.process_time() - start < 5.0


def nested(shared_gamma: float = 0.7) -> SumKernel:
    """A kernel of four columns along the scopes {2, 3} and {1, 2, 3}, with shared parts."""
    shared = SumKernel(
        [ProductKernel([RBF(shared_gamma, scope=[2]), Delta(scope=[3])]), RBF(0.2, scope=[2, 3])]
    )
    middle = SumKernel(
        [ProductKernel([shared, RBF(0.1, scope=[1])]), ProductKernel([RBF(2.0, scope=[1]), shared])]
    )
    top = SumKernel([RBF(0.5, scope=[0]), Delta(scope=[0])], [0.3, 0.7])
    other = ProductKernel([ExponentialHamming(0.4, scope=[0, 1]), shared])
    return SumKernel([ProductKernel([top, middle]), other], [1.5, 0.5])


def test_a_nested_kernel_with_shared_parts_is_the_double_sum():
    p, q = chains(4, 3, seed=2)
    kernel = nested()
    assert expected_kernel(p, q, kernel) == pytest.approx(double_sum(p, q, kernel), rel=1e-10)
    naive_sum = naive.expected_kernel(p, q, kernel)
    assert expected_kernel(p, q, kernel) == pytest.approx(naive_sum, rel=1e-10)


def test_a_part_that_is_used_twice_is_one_node():
    root = KernelCircuit(nested(), 4).root
    nodes, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        nodes.add(node)
        waiting += node.parts
    # The sum of {2, 3} has one node, whatever the number of products that hold it.
    assert sum(node.scope == 0b1100 and bool(node.weights) for node in nodes) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_nested_kernel_with_points_and_conditionals_agrees_with_all_trees(seed):
    circuit, _ = chains(4, 2, seed=seed)
    kernel = nested()
    rows, points = zoo.random_rows(3, circuit, 6, 0.5), zoo.random_rows(4, circuit, 5, 0.0)
    truth = [[naive.expected_kernel(circuit, y, kernel, row=x) for y in points] for x in rows]
    assert_allclose(expected_gram(circuit, rows, points, kernel), truth, rtol=1e-9)
    truth = [
        [naive.expected_kernel(circuit, circuit, kernel, row=x, other=y) for y in rows]
        for x in rows
    ]
    assert_allclose(expected_gram(circuit, rows, None, kernel), truth, rtol=1e-9)
    expansion = KernelExpansion(circuit, points, np.eye(5), kernel)
    assert_allclose(expansion.mean(rows), expected_gram(circuit, rows, points, kernel), rtol=1e-9)


def test_products_of_a_circuit_are_taken_together_where_the_kernel_wants_them_whole():
    rng = np.random.default_rng(0)
    builder = CircuitBuilder([2] * 4)
    products = [
        builder.product([builder.discrete(v, zoo.log_simplex(rng, 2)) for v in range(4)])
        for _ in range(3)
    ]
    builder.sum(products, zoo.log_simplex(rng, 3))
    circuit = builder.build()
    for kernel in (nested(), nested(2.0)):
        truth = double_sum(circuit, circuit, kernel)
        assert expected_kernel(circuit, circuit, kernel) == pytest.approx(truth, rel=1e-10)


def test_columns_that_no_kernel_reads_count_one():
    p, q = chains(4, 2, seed=3)
    kernel = ProductKernel([RBF(0.3, scope=[1]), Delta(scope=[3])])
    assert expected_kernel(p, q, kernel) == pytest.approx(double_sum(p, q, kernel), rel=1e-10)


def test_leaves_of_several_variables_take_nested_kernels():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    density = SoftLearnSPN(leaves="block", random_state=0).fit(table)
    circuit = density.circuit_
    rows = density.domain_.encode(np.where(rng.random((5, 2)) < 0.5, np.nan, table[:5]))
    points = density.domain_.encode(table[:4])
    both = ProductKernel([two_gaussians(), two_gaussians(0.2, 2.0)])
    gram = expected_gram(circuit, rows, points, both)
    parts = [
        (u * v, ProductKernel([RBF(g), RBF(h)]))
        for u, g in zip((0.4, 0.6), (0.3, 1.0))
        for v, h in zip((0.4, 0.6), (0.2, 2.0))
    ]
    truth = sum(weight * expected_gram(circuit, rows, points, part) for weight, part in parts)
    assert_allclose(gram, truth, rtol=1e-12)


def test_discrepancies_take_nested_kernels():
    weak, strong = (compile(FactorGraph.ising_grid(2, 2, coupling=c)) for c in (0.1, 0.3))
    kernel = ProductKernel([SumKernel([ExponentialHamming(0.3), Delta()], [1, 2])] * 4)
    rows = all_rows(weak)
    masses = [np.exp(log_likelihood(circuit, rows)) for circuit in (weak, strong)]
    difference = masses[0] - masses[1]
    truth = difference @ kernel(rows, rows) @ difference
    assert mmd2(weak, strong, kernel) == pytest.approx(truth, rel=1e-10)
    gram = stein_gram(rows, strong, kernel)
    truth = masses[0] @ gram @ masses[0]
    assert kdsd(weak, strong, kernel) == pytest.approx(truth, rel=1e-10)


def test_scopes_that_do_not_fit_are_refused_with_the_node():
    p, q = chains(4, 2, seed=0)
    kernel = ProductKernel([two_factors(0, 2), two_factors(1, 3)])
    with pytest.raises(
        IncompatibleError, match=r"product \d+ of the circuit splits \{0, 1, 2, 3\}"
    ):
        expected_kernel(p, q, kernel)
    with pytest.raises(IncompatibleError, match=r"the kernel has a factor of \{0, 2\}"):
        expected_kernel(p, q, kernel)


def two_factors(first: int, second: int) -> SumKernel:
    """A kernel of two columns that is no product."""
    scope = [first, second]
    return SumKernel([RBF(1.0, scope=scope), Delta(scope=scope)])


def test_bad_scopes_are_refused_when_the_kernel_is_made():
    with pytest.raises(ValueError, match="different columns, numbered from 0, got"):
        RBF(1.0, scope=[0, 0])
    with pytest.raises(ValueError, match="need disjoint scopes, but column 1"):
        ProductKernel([RBF(1.0, scope=[0, 1]), Delta(scope=[1])])
    with pytest.raises(ValueError, match="of scope .* without a scope"):
        ProductKernel([RBF(1.0, scope=[0, 1]), Delta()])
    with pytest.raises(ValueError, match="need one scope"):
        SumKernel([RBF(1.0, scope=[0]), RBF(1.0, scope=[1])])
    with pytest.raises(ValueError, match="reads column 2, but the rows have 2 columns"):
        Delta(scope=[2])([[0.0, 1.0]])
