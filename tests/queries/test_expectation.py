"""Expected kernels against sums over all pairs of induced trees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder
from skpc.exceptions import IncompatibleError
from skpc.kernels import RBF, Delta, ExponentialHamming, ProductKernel, SumKernel
from skpc.queries import condition, expected_gram, expected_kernel, sample
from tests import zoo
from tests.naive import kernels as naive

KINDS = ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"]


def mixed_kernel(circuit) -> SumKernel:
    """A Gaussian kernel on numbers and a Hamming kernel on categories, plus another."""
    is_number = (circuit.n_states == 0) | (np.diff(circuit.axis_ptr) > 0)
    factors = [RBF(0.4) if number else ExponentialHamming(0.9) for number in is_number]
    return SumKernel([ProductKernel(factors), ExponentialHamming(0.3)], [1.0, 0.5])


def structured(seed: int, kinds: str = "mixed", vtree: int = 0, n_features: int = 3):
    return zoo.random_structured_circuit(seed, n_features, kinds, vtree=vtree)


def complete_rows(seed: int, circuit, n_rows: int) -> np.ndarray:
    return zoo.random_rows(seed, circuit, n_rows, missing=0.0)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("vtree", range(4))
def test_two_compatible_circuits_agree_with_all_pairs_of_trees(kinds, vtree):
    p, q = structured(1, kinds, vtree), structured(2, kinds, vtree)
    kernel = mixed_kernel(p)
    truth = naive.expected_kernel(p, q, kernel)
    assert_allclose(expected_kernel(p, q, kernel), truth, rtol=1e-10)
    assert_allclose(expected_kernel(q, p, kernel), truth, rtol=1e-10)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_any_circuit_and_points_agree_with_all_trees(kinds, seed):
    circuit = zoo.random_circuit(seed, n_features=3, kinds=kinds, depth=2)
    points = complete_rows(seed, circuit, 4)
    kernel = mixed_kernel(circuit)
    truth = [naive.expected_kernel(circuit, point, kernel) for point in points]
    assert_allclose(expected_kernel(circuit, points, kernel), truth, rtol=1e-10)


@pytest.mark.parametrize("kinds", KINDS)
def test_conditionals_and_points_agree_with_all_trees(kinds):
    circuit = zoo.random_circuit(5, n_features=3, kinds=kinds, depth=2)
    rows, points = zoo.random_rows(3, circuit, 5, 0.5), complete_rows(4, circuit, 3)
    kernel = mixed_kernel(circuit)
    truth = [[naive.expected_kernel(circuit, y, kernel, row=x) for y in points] for x in rows]
    found = expected_gram(circuit, rows, points, kernel)
    assert_allclose(found, truth, rtol=1e-9)
    assert_allclose(expected_gram(circuit, points, rows, kernel), found.T, rtol=1e-12)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("vtree", range(2))
def test_pairs_of_conditionals_agree_with_all_pairs_of_trees(kinds, vtree):
    circuit = structured(7, kinds, vtree)
    rows, others = zoo.random_rows(3, circuit, 4, 0.5), zoo.random_rows(4, circuit, 3, 0.5)
    others[0] = np.nan
    kernel = mixed_kernel(circuit)
    truth = [
        [naive.expected_kernel(circuit, circuit, kernel, row=x, other=y) for y in others]
        for x in rows
    ]
    assert_allclose(expected_gram(circuit, rows, others, kernel), truth, rtol=1e-9)


def test_decision_circuits_agree_with_all_pairs_of_trees():
    builder = CircuitBuilder(n_states=[3, 2, 0])
    rng = np.random.default_rng(0)
    lows = [builder.discrete(1, zoo.log_simplex(rng, 2)) for _ in range(2)]
    numbers = [builder.gaussian(2, mean, 0.5) for mean in (-1.0, 0.0, 2.0)]
    products = [
        builder.product([builder.indicator(0, state), lows[state % 2], numbers[state]])
        for state in range(3)
    ]
    builder.sum(products, zoo.log_simplex(rng, 3), 0, range(3))
    circuit = builder.build()
    rows = zoo.random_rows(0, circuit, 6, 0.5)
    kernel = mixed_kernel(circuit)
    truth = [
        [naive.expected_kernel(circuit, circuit, kernel, row=x, other=y) for y in rows]
        for x in rows
    ]
    assert_allclose(expected_gram(circuit, rows, None, kernel), truth, rtol=1e-10)


@pytest.mark.parametrize("vtree", range(2))
def test_kernels_of_a_users_own_and_products_of_sums_work_on_finite_states(vtree):
    p, q = structured(1, "discrete", vtree), structured(2, "discrete", vtree)
    sums = SumKernel([naive.Near(), Delta()], [0.5, 2.0])
    rows, points = zoo.random_rows(3, p, 4, 0.5), complete_rows(4, p, 3)
    for kernel in (naive.Near(), ProductKernel([sums, naive.Near(), sums])):
        truth = naive.expected_kernel(p, q, kernel)
        assert_allclose(expected_kernel(p, q, kernel), truth, rtol=1e-10)
        truth = [[naive.expected_kernel(p, y, kernel, row=x) for y in points] for x in rows]
        assert_allclose(expected_gram(p, rows, points, kernel), truth, rtol=1e-9)
        truth = [[naive.expected_kernel(p, p, kernel, row=x, other=y) for y in rows] for x in rows]
        assert_allclose(expected_gram(p, rows, None, kernel), truth, rtol=1e-9)
    with pytest.raises(TypeError, match="expectation of Near under .* have a density"):
        expected_kernel(structured(1, "gaussian"), structured(1, "gaussian"), naive.Near())


def test_gram_matrices_of_conditionals_are_symmetric_and_positive_semidefinite():
    circuit = structured(3, n_features=4)
    rows = zoo.random_rows(0, circuit, 300, 0.4)
    kernel = mixed_kernel(circuit)
    gram = expected_gram(circuit, rows, None, kernel)
    assert_array_equal(gram, gram.T)
    assert_allclose(gram, expected_gram(circuit, rows, rows.copy(), kernel), rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * len(rows)


def test_complete_rows_have_the_kernel_itself():
    circuit = structured(3)
    rows, kernel = complete_rows(0, circuit, 20), mixed_kernel(circuit)
    truth = kernel(naive.rows_on_scale(circuit, rows))
    assert_allclose(expected_gram(circuit, rows, None, kernel), truth, rtol=1e-12)
    holes = rows.copy()
    holes[0, 0] = np.nan
    found = expected_gram(circuit, holes, holes[:5], kernel)
    assert_allclose(found[1:, 1:], truth[1:, 1:5], rtol=1e-12)


def test_the_expectation_is_the_mean_over_draws():
    circuit = structured(11, n_features=4)
    kernel, points = mixed_kernel(circuit), complete_rows(0, circuit, 3)
    drawn, known = (
        naive.rows_on_scale(circuit, rows)
        for rows in (sample(circuit, 40_000, random_state=0), points)
    )
    values = kernel(drawn, known)
    found = expected_kernel(circuit, points, kernel)
    error = np.abs(values.mean(axis=0) - found)
    assert np.all(error < 4 * values.std(axis=0) / 200)


def test_conditioned_circuits_keep_the_cells_they_were_given():
    circuit, other = structured(1), structured(2)
    row = zoo.random_rows(0, circuit, 1, 0.0)[0]
    row[1] = np.nan
    kernel = mixed_kernel(circuit)
    given = condition(circuit, row)
    assert_allclose(
        expected_kernel(given, other, kernel),
        naive.expected_kernel(circuit, other, kernel, row=row),
        rtol=1e-10,
    )
    assert_allclose(
        expected_kernel(other, given, kernel), expected_kernel(given, other, kernel), rtol=1e-12
    )
    points = complete_rows(1, circuit, 3)
    assert_allclose(
        expected_kernel(given, points, kernel),
        expected_gram(circuit, row[np.newaxis], points, kernel)[0],
        rtol=1e-12,
    )


def test_a_single_leaf_and_a_sum_of_leaves_are_compatible():
    one, two = CircuitBuilder([3]), CircuitBuilder([3])
    one.discrete(0, np.log([0.2, 0.3, 0.5]))
    leaves = [two.indicator(0, state) for state in range(3)]
    two.product([two.sum(leaves, np.log([0.6, 0.3, 0.1]))])
    found = expected_kernel(one.build(), two.build(), Delta())
    assert_allclose(found, 0.2 * 0.6 + 0.3 * 0.3 + 0.5 * 0.1)


def factorised(n_states, splits) -> CircuitBuilder:
    builder = CircuitBuilder(n_states)
    uniform = [builder.discrete(var, np.full(k, -np.log(k))) for var, k in enumerate(n_states)]
    builder.product([uniform[p[0]] if len(p) == 1 else _joint(builder, p, uniform) for p in splits])
    return builder.build()


def _joint(builder, part, uniform):
    return builder.product([uniform[var] for var in part])


def test_incompatible_circuits_are_refused_with_both_products_and_their_parts():
    p, q = factorised([2, 2, 2], [[0], [1, 2]]), factorised([2, 2, 2], [[0, 1], [2]])
    with pytest.raises(IncompatibleError) as caught:
        expected_kernel(p, q, Delta())
    message = str(caught.value)
    assert "product 4 of the first splits {0, 1, 2} into {0} x {1, 2}" in message
    assert "product 4 of the second splits {0, 1, 2} into {0, 1} x {2}" in message


def test_what_is_no_kernel_is_refused_with_an_example():
    circuit = factorised([2, 2, 2], [[0], [1, 2]])
    for call in (
        lambda: expected_kernel(circuit, circuit, "rbf"),
        lambda: expected_kernel(circuit, [[0.0] * 3], "rbf"),
        lambda: expected_gram(circuit, [[0.0] * 3], None, "rbf"),
    ):
        with pytest.raises(TypeError, match=r"such as RBF\(0.5\), got 'rbf'"):
            call()


def test_a_circuit_that_is_not_structured_is_refused_for_pairs_only():
    circuit = zoo.random_circuit(1, n_features=4)
    assert not circuit.structured_decomposable
    rows = zoo.random_rows(0, circuit, 3, 0.5)
    with pytest.raises(IncompatibleError, match="splits"):
        expected_gram(circuit, rows, None, RBF(1.0))
    with pytest.raises(IncompatibleError, match="splits"):
        expected_kernel(circuit, circuit, RBF(1.0))


def test_circuits_over_other_variables_are_refused():
    p = factorised([2, 3], [[0], [1]])
    with pytest.raises(IncompatibleError, match="one over 2 and one over 3"):
        expected_kernel(p, factorised([2, 2, 2], [[0], [1], [2]]), Delta())
    with pytest.raises(IncompatibleError, match="variable 1 is categorical with 3 states in the"):
        expected_kernel(p, factorised([2, 2], [[0], [1]]), Delta())


def test_bad_points_and_impossible_rows_are_refused():
    circuit = factorised([2, 3], [[0], [1]])
    with pytest.raises(ValueError, match=r"X\[1, 1\] must be one of the states 0..2 .* got 3"):
        expected_kernel(circuit, [[0, 0], [1, 3]], Delta())
    with pytest.raises(ValueError, match=r"X\[0, 0\] .* got nan"):
        expected_kernel(circuit, [[np.nan, 0]], Delta())
    with pytest.raises(ValueError, match="a factor for each of 1 columns, but the rows have 2"):
        expected_kernel(circuit, [[0, 0]], ProductKernel([Delta()]))
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 0), builder.indicator(1, 0)])
    with pytest.raises(ValueError, match="row 1 of X has probability zero"):
        expected_gram(builder.build(), [[0, np.nan], [1, np.nan]], [[0, 0]], Delta())


def test_very_improbable_rows_are_conditioned_on_in_logs():
    builder = CircuitBuilder([0, 0])
    far = [builder.gaussian(0, 0.0, 1.0), builder.gaussian(0, 1.0, 1.0)]
    low, high = builder.gaussian(1, 0.0, 0.1), builder.gaussian(1, 5.0, 0.1)
    parts = [builder.product([far[0], low]), builder.product([far[1], high])]
    builder.sum(parts, np.log([0.5, 0.5]))
    found = expected_gram(builder.build(), [[500.0, np.nan]], [[500.0, 5.0]], RBF(1.0))
    assert_allclose(found, 1 / np.sqrt(1.02), rtol=1e-12)


@pytest.mark.parametrize("cell", [26.7, 26.9, 27.1])
def test_a_child_whose_value_has_no_reciprocal_does_no_harm(cell):
    builder = CircuitBuilder([0, 0, 0])
    near = builder.product([builder.gaussian(v, 27.0, 1.0) for v in range(2)])
    far = builder.product([builder.gaussian(v, 0.0, 1.0) for v in range(2)])
    mixed = builder.sum([far, near], np.log([0.5, 0.5]))
    builder.product([mixed, builder.gaussian(2, 5.0, 0.1)])
    row = [cell, cell, np.nan]
    found = expected_gram(builder.build(), [row], [[cell, cell, 5.0]], RBF(1.0))
    assert_allclose(found, 1 / np.sqrt(1.02), rtol=1e-12)
