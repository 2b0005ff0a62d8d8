"""Expected kernels under circuits with blocks against sums over all pairs of worlds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator

from skpc import ExpectedKernelSVR
from skpc.circuit import CircuitBuilder
from skpc.discrepancies import mmd2
from skpc.domain import Domain
from skpc.exceptions import IncompatibleError
from skpc.kernels import (
    RBF,
    ColumnKernel,
    Delta,
    ExponentialHamming,
    ProductKernel,
    SumKernel,
)
from skpc.queries import (
    KernelExpansion,
    condition,
    expected_gram,
    expected_kernel,
    log_likelihood,
    sample,
)
from skpc.queries import _conditionals as module
from skpc.variables import Law
from skpc.variables.score import Score
from tests import zoo
from tests.naive import blocks as naive
from tests.naive.kernels import factors_of, rows_on_scale
from tests.queries.test_blocks import decision_circuit

PLAIN = Law(Score(), np.empty(0))
any_circuit = pytest.mark.parametrize(
    "circuit",
    [
        *(zoo.random_block_circuit(seed) for seed in range(3)),
        zoo.one_block(0, zoo.SCORED_COLUMNS),
        decision_circuit(),
    ],
    ids=["0", "1", "2", "alone", "deciding"],
)


def gaussian_kernel(circuit) -> ProductKernel:
    """A Gaussian kernel with a length of its own for each number."""
    is_category = circuit.structure.is_categorical
    gammas = 0.3 + 0.2 * np.arange(circuit.n_features)
    return ProductKernel(
        [ExponentialHamming(0.9) if c else RBF(g) for c, g in zip(is_category, gammas)]
    )


def any_kernel(circuit) -> SumKernel:
    """Kernels of all kinds beside each other."""
    kinds = [RBF(0.5), ExponentialHamming(0.9), Delta(), RBF(0.0), ExponentialHamming(0.4)]
    some = ProductKernel(kinds[: circuit.n_features])
    return SumKernel([some, ExponentialHamming(0.3), gaussian_kernel(circuit)], [1.0, 0.5, 2.0])


def test_the_slow_truth_agrees_with_quadrature():
    mean, gamma = np.array([0.3, -0.4]), np.array([0.7, 2.0])
    covariance = np.array([[1.0, 0.6], [0.6, 0.5]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(nodes, nodes), axis=-1) @ np.linalg.cholesky(covariance).T + mean
    values = np.exp(-(z**2 @ gamma))
    found = weights @ values @ weights / (2 * np.pi)
    assert naive.bump(mean, covariance, gamma) == pytest.approx(found, rel=1e-8)
    alone = naive.bump(mean[:1], covariance[:1, :1], gamma[:1])
    assert naive.bump(mean, covariance, np.array([0.7, 0.0])) == pytest.approx(alone)


@any_circuit
@pytest.mark.parametrize("make", [gaussian_kernel, any_kernel])
def test_conditionals_and_points_agree_with_all_worlds(circuit, make):
    rows, points = zoo.random_rows(3, circuit, 6, 0.5), zoo.random_rows(4, circuit, 4, 0.0)
    rows[0], kernel = np.nan, make(circuit)
    truth = [[naive.expected_kernel(circuit, y, kernel, row=x) for y in points] for x in rows]
    found = expected_gram(circuit, rows, points, kernel)
    assert_allclose(found, truth, rtol=1e-9)
    assert_allclose(expected_gram(circuit, points, rows, kernel), found.T, rtol=1e-12)
    assert_allclose(expected_kernel(circuit, points, kernel), found[0], rtol=1e-12)


@pytest.mark.parametrize("vtree", [0, 4, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [gaussian_kernel, any_kernel])
def test_two_circuits_agree_with_all_pairs_of_worlds(vtree, make):
    p, q = (zoo.random_block_circuit(seed, vtree=vtree) for seed in (1, 2))
    kernel = make(p)
    truth = naive.expected_kernel(p, q, kernel)
    assert expected_kernel(p, q, kernel) == pytest.approx(truth, rel=1e-10)
    assert expected_kernel(q, p, kernel) == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("vtree", [0, 1, 2])
@pytest.mark.parametrize("make", [gaussian_kernel, any_kernel])
def test_pairs_of_conditionals_agree_with_all_pairs_of_worlds(vtree, make):
    circuit = zoo.random_block_circuit(1, vtree=vtree)
    rows, others = (zoo.random_rows(seed, circuit, 2, 0.5) for seed in (3, 4))
    kernel = make(circuit)
    truth = [
        [naive.expected_kernel(circuit, circuit, kernel, row=x, other=y) for y in others]
        for x in rows
    ]
    assert_allclose(expected_gram(circuit, rows, others, kernel), truth, rtol=1e-9)


@pytest.mark.parametrize("vtree", [0, 3])
def test_gram_matrices_are_symmetric_and_positive_semidefinite(vtree, monkeypatch):
    circuit = zoo.random_block_circuit(1, vtree=vtree)
    rows, kernel = zoo.random_rows(0, circuit, 120, 0.4), gaussian_kernel(circuit)
    gram = expected_gram(circuit, rows, None, kernel)
    assert_allclose(gram, gram.T, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * len(rows)
    points = zoo.random_rows(1, circuit, 30, 0.0)
    at_points = expected_gram(circuit, rows, points, kernel)
    # However few rows are held at a time.
    monkeypatch.setattr(module, "_MOST_BLOCKS", 70)
    assert_allclose(expected_gram(circuit, rows, None, kernel), gram, rtol=1e-12)
    assert_allclose(expected_gram(circuit, rows, rows.copy(), kernel), gram, rtol=1e-12)
    assert_allclose(expected_gram(circuit, rows, points, kernel), at_points, rtol=1e-12)


@any_circuit
def test_complete_rows_have_the_kernel_itself(circuit):
    rows, kernel = zoo.random_rows(0, circuit, 20, 0.0), gaussian_kernel(circuit)
    truth = kernel(rows_on_scale(circuit, rows))
    assert_allclose(expected_gram(circuit, rows, None, kernel), truth, rtol=1e-12)


def test_the_expectation_is_the_mean_over_draws():
    """Draws of a lattice leave out the cells of its atoms, and leaves do not."""
    columns = [column._replace(step=0.0, reach=0.0) for column in zoo.SCORED_COLUMNS]
    circuit = zoo.random_block_circuit(1, columns=columns)
    kernel, points = gaussian_kernel(circuit), zoo.random_rows(0, circuit, 3, 0.0)
    drawn, known = (rows_on_scale(circuit, rows) for rows in (sample(circuit, 40_000, 0), points))
    values = kernel(drawn, known)
    error = np.abs(values.mean(axis=0) - expected_kernel(circuit, points, kernel))
    assert np.all(error < 4 * values.std(axis=0) / 200)


def test_conditioned_circuits_keep_the_cells_they_were_given():
    circuit, other = (zoo.random_block_circuit(seed, vtree=0) for seed in (1, 2))
    row, kernel = zoo.random_rows(0, circuit, 1, 0.0)[0], gaussian_kernel(circuit)
    row[2] = np.nan
    given = condition(circuit, row)
    truth = naive.expected_kernel(circuit, other, kernel, row=row)
    assert expected_kernel(given, other, kernel) == pytest.approx(truth, rel=1e-10)
    assert expected_kernel(other, given, kernel) == pytest.approx(truth, rel=1e-10)
    points = zoo.random_rows(1, circuit, 3, 0.0)
    found = expected_gram(circuit, row[np.newaxis], points, kernel)[0]
    assert_allclose(expected_kernel(given, points, kernel), found, rtol=1e-10)


@any_circuit
def test_the_variance_of_an_expansion_agrees_with_all_worlds(circuit):
    rows, points = zoo.random_rows(3, circuit, 4, 0.6), zoo.random_rows(4, circuit, 3, 0.0)
    coefficients = np.random.default_rng(0).normal(size=(3, 2))
    for kernel in (gaussian_kernel(circuit), any_kernel(circuit).kernels[0]):
        ((_, factors),) = factors_of(kernel, circuit.n_features)
        expansion = KernelExpansion(circuit, points, coefficients, kernel)
        mean = expansion.mean(rows)
        assert_allclose(mean, expected_gram(circuit, rows, points, kernel) @ coefficients)
        truth = []
        for row in rows:
            moments = [
                [naive.second_moment(circuit, factors, row, x, y) for y in points] for x in points
            ]
            truth.append([a @ np.array(moments) @ a for a in coefficients.T])
        assert_allclose(expansion.variance(rows), np.array(truth) - mean**2, atol=1e-12)


def independent(n_columns: int, rest: float, *, as_block: bool):
    """Numbers with one atom each, independent of each other, as one block or as leaves alone."""
    rng = np.random.default_rng(0)
    columns = [Law(Score(), np.zeros(1))] * n_columns
    builder = CircuitBuilder([2] * n_columns, columns)
    with np.errstate(divide="ignore"):
        probs = np.log([[1 - rest, rest]] * n_columns)
    mean, sd = rng.normal(size=n_columns), rng.uniform(0.5, 2.0, n_columns)
    if as_block:
        builder.block(range(n_columns), probs, mean, np.diag(sd**2))
    else:
        leaves = [builder.scored(v, probs[v], mean[v], sd[v]) for v in range(n_columns)]
        builder.product(leaves)
    return builder.build()


@pytest.mark.parametrize(("n_columns", "rest"), [(8, 0.5), (24, 1e-7), (24, 1.0), (24, 0.999)])
def test_many_columns_with_atoms_are_summed_exactly(n_columns, rest):
    """Independent columns are the product of their own expectations."""
    block, alone = (independent(n_columns, rest, as_block=b) for b in (True, False))
    kernel, points = RBF(0.02), zoo.random_rows(0, block, 3, 0.0)
    truth = expected_kernel(alone, points, kernel)
    assert_allclose(expected_kernel(block, points, kernel), truth, atol=1e-12)
    if n_columns == 8:
        truth = expected_kernel(alone, alone, kernel)
        assert expected_kernel(block, block, kernel) == pytest.approx(truth, rel=1e-10)


def test_sums_over_too_many_columns_with_atoms_are_refused_with_advice():
    block = independent(24, 0.5, as_block=True)
    points = zoo.random_rows(0, block, 3, 0.0)
    with pytest.raises(ValueError, match=r"24 variables with atoms \[0, 1, .*sample_missing"):
        expected_kernel(block, points, RBF(0.02))
    with pytest.raises(ValueError, match="24 variables with atoms"):
        expected_kernel(block, block, RBF(0.02))
    # A kernel that does not look at the numbers has nothing to sum over.
    assert_allclose(expected_kernel(block, points, RBF(0.0)), 1.0)


def test_very_improbable_rows_are_conditioned_on_in_logs():
    builder = CircuitBuilder([1, 1], [PLAIN, PLAIN])
    far = [builder.block([0, 1], [[0.0]] * 2, mean, 0.01 * np.eye(2)) for mean in ([0, 0], [1, 5])]
    builder.sum(far, np.log([0.5, 0.5]))
    found = expected_gram(builder.build(), [[500.0, np.nan]], [[500.0, 5.0]], RBF(1.0))
    assert_allclose(found, 1 / np.sqrt(1.02), rtol=1e-12)


def test_two_circuits_that_split_a_scope_in_different_ways_are_refused():
    """A leaf of several variables is one way, a product another."""
    builder = CircuitBuilder([1, 1], [PLAIN, PLAIN])
    block = builder.block([0, 1], [[0.0]] * 2, [0.0, 0.0], np.eye(2))
    alone = builder.product([builder.scored(v, [0.0], 0.0, 1.0) for v in range(2)])
    builder.sum([block, alone], np.log([0.5, 0.5]))
    mixed = builder.build()
    assert not mixed.structured_decomposable
    message = (
        r"needs a structured-decomposable circuit.* product 3 splits \{0, 1\} into \{0\} x "
        r"\{1\} and leaf 0 takes \{0, 1\} as a whole; draw rows from a circuit"
    )
    with pytest.raises(IncompatibleError, match=message):
        expected_kernel(mixed, mixed, RBF(1.0))
    with pytest.raises(IncompatibleError, match="as a whole"):
        expected_gram(mixed, [[np.nan, 0.0]], None, RBF(1.0))
    # At points it does not matter.
    assert expected_kernel(mixed, [[0.0, 0.0]], RBF(1.0))[0] == pytest.approx(1 / 3)


def test_a_kernel_that_nobody_can_integrate_is_refused():
    class Triangle(ColumnKernel):
        def of_points(self, x, y):
            return np.maximum(1.0 - np.abs(x - y), 0.0)

    block = zoo.one_block(0, [PLAIN, PLAIN])
    with pytest.raises(TypeError, match="expectation of Triangle under .* is not known"):
        expected_kernel(block, [[0.0, 0.0]], Triangle())


@pytest.mark.parametrize("vtree", [0, 4])
def test_the_discrepancy_of_circuits_is_that_of_their_kernels(vtree):
    p, q = (zoo.random_block_circuit(seed, vtree=vtree) for seed in (1, 2))
    kernel = gaussian_kernel(p)
    parts = [naive.expected_kernel(a, b, kernel) for a, b in ((p, p), (q, q), (p, q))]
    found = mmd2(p, q, kernel)
    assert found == pytest.approx(parts[0] + parts[1] - 2 * parts[2], abs=1e-12)
    assert found > 1e-4
    assert mmd2(p, p, kernel) == pytest.approx(0.0, abs=1e-14)


class BlockLeaves(BaseEstimator):
    """A density with a mixture of two blocks, for machines that take any density."""

    def __init__(self, categorical_features="auto"):
        self.categorical_features = categorical_features

    def fit(self, X, y=None, sample_weight=None):
        self.domain_ = Domain.fit(X)
        rows = self.domain_.encode(X)
        d, builder = rows.shape[1], CircuitBuilder([1] * rows.shape[1], [PLAIN] * rows.shape[1])
        middle, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        matrix = np.diag(spread) @ (0.5 * np.eye(d) + 0.5) @ np.diag(spread)
        some = [
            builder.block(range(d), [[0.0]] * d, middle + s * spread, matrix) for s in (-0.3, 0.3)
        ]
        builder.sum(some, np.log([0.5, 0.5]))
        self.circuit_ = builder.build()
        return self


def test_support_vector_regression_takes_expectations_under_blocks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0, 0, 1]])
    y, holes = np.sin(X[:, 0]) + X[:, 1], X.copy()
    holes[rng.random(X.shape) < 0.3] = np.nan
    model = ExpectedKernelSVR(BlockLeaves()).fit(X, y)
    mean, std = model.predict(holes, return_std=True)
    draws = model.sample(holes, 4000, random_state=0)
    assert_array_equal(std[~np.isnan(holes).any(axis=1)], 0.0)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * std / np.sqrt(4000) + 1e-8)
    assert_allclose(draws.std(axis=1), std, rtol=0.1, atol=1e-8)
    again = ExpectedKernelSVR(BlockLeaves()).fit(holes, y)
    assert np.isnan(again.support_vectors_).any()
    assert again.score(X, y) > 0.7


def test_blocks_whose_variables_have_two_orders_are_one():
    mean = np.array([0.3, -0.4, 1.0])
    covariance = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.0], [0.2, 0.0, 1.0]])
    order, circuits = np.array([2, 0, 1]), []
    axes = [Law(Score(), np.array([float(v)])) for v in range(3)]
    probs = [np.log([0.1 * (v + 1), 1 - 0.1 * (v + 1)]) for v in range(3)]
    for places in (np.arange(3), order):
        builder = CircuitBuilder([2, 2, 2], [axes[v] for v in places])
        moments = mean[places], covariance[np.ix_(places, places)]
        builder.block([0, 1, 2], [probs[v] for v in places], *moments)
        circuits.append(builder.build().taken(np.argsort(places)))
    rows = np.array([[0.5, np.nan, 1.2], [np.nan, 1.0, 0.3], [np.nan, np.nan, np.nan]])
    first, other = circuits
    kernel = gaussian_kernel(first)
    assert_allclose(log_likelihood(other, rows), log_likelihood(first, rows))
    assert_allclose(expected_kernel(first, other, kernel), expected_kernel(first, first, kernel))
    assert_allclose(
        expected_gram(other, rows, None, kernel), expected_gram(first, rows, None, kernel)
    )
    points = np.nan_to_num(rows)
    assert_allclose(
        expected_gram(other, rows, points, kernel), expected_gram(first, rows, points, kernel)
    )
