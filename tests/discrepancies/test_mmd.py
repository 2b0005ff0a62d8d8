"""Squared maximum mean discrepancy against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc import CutsetNetworkBD
from skpc.circuit import CircuitBuilder
from skpc.discrepancies import mmd2
from skpc.exceptions import IncompatibleError
from skpc.kernels import RBF, Delta, ExponentialHamming, ProductKernel
from skpc.queries import sample
from skpc.variables import SCORED
from tests import zoo
from tests.naive.circuit import all_rows, density
from tests.naive.kernels import row_value, rows_on_scale


def circuits(kinds: str = "discrete", vtree: int = 0):
    return [zoo.random_structured_circuit(seed, 3, kinds, vtree=vtree) for seed in (1, 2)]


def probabilities(circuit) -> np.ndarray:
    return np.array([density(circuit, row) for row in all_rows(circuit)])


def test_two_circuits_agree_with_the_sum_over_all_pairs_of_states():
    p, q = circuits()
    rows = all_rows(p)
    kernel = ExponentialHamming(0.8)
    gram = np.array([[row_value(kernel, x, y) for y in rows] for x in rows])
    difference = probabilities(p) - probabilities(q)
    assert_allclose(mmd2(p, q, kernel), difference @ gram @ difference, rtol=1e-12)


def test_a_circuit_and_a_sample_agree_with_the_sum_over_all_pairs():
    p, q = circuits()
    rows, drawn = all_rows(p), sample(q, 12, random_state=0)
    kernel = Delta()
    weight = probabilities(p)
    biased = weight @ kernel(rows) @ weight + kernel(drawn).mean()
    biased -= 2 * (weight @ kernel(rows, drawn)).mean()
    assert_allclose(mmd2(p, drawn, kernel, unbiased=False), biased, rtol=1e-12)
    assert_allclose(mmd2(drawn, p, kernel, unbiased=False), biased, rtol=1e-12)
    pairs = [row_value(kernel, x, y) for i, x in enumerate(drawn) for y in np.delete(drawn, i, 0)]
    assert_allclose(
        mmd2(p, drawn, kernel), biased - kernel(drawn).mean() + np.mean(pairs), rtol=1e-12
    )


def test_what_is_neither_a_circuit_nor_numbers_is_sent_to_where_they_are():
    p, _ = circuits()
    for side in (CutsetNetworkBD(), [["a", "b", "c"]]):
        with pytest.raises(ValueError, match=r"q must hold encoded rows .* has a circuit_"):
            mmd2(p, side, Delta())


def test_the_unbiased_estimate_is_right_on_average():
    p, q = circuits("mixed")
    assert SCORED in p.leaf_family
    is_number = (p.n_states == 0) | (np.diff(p.axis_ptr) > 0)
    kernel = ProductKernel([RBF(0.5) if number else Delta() for number in is_number])
    exact = mmd2(p, q, kernel)
    found = [mmd2(p, sample(q, 20, random_state=seed), kernel) for seed in range(400)]
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / 20

    def drawn(circuit, n_rows, seed):
        """Two samples have no circuit that would know the scores."""
        return rows_on_scale(circuit, sample(circuit, n_rows, random_state=seed))

    found = [mmd2(drawn(p, 15, seed), drawn(q, 20, 1000 + seed), kernel) for seed in range(400)]
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / 20


@pytest.mark.parametrize("kinds", ["discrete", "mixed"])
def test_equal_circuits_have_no_distance_and_others_have_one(kinds):
    p, q = circuits(kinds)
    assert abs(mmd2(p, p, RBF(0.3))) < 1e-15
    assert mmd2(p, q, RBF(0.3)) > 1e-6
    rows = sample(p, 30, random_state=0)
    assert abs(mmd2(rows, rows, RBF(0.3), unbiased=False)) < 1e-15


def test_circuits_that_score_a_number_in_other_ways_are_refused():
    found = []
    for column in zoo.SCORED_COLUMNS[2:4]:
        builder = CircuitBuilder([1], [column._replace(atoms=np.empty(0))])
        builder.scored(0, [0.0], 0.0, 1.0)
        found.append(builder.build())
    with pytest.raises(IncompatibleError, match="those of variable 0 differ"):
        mmd2(*found, RBF(0.3))


def test_a_circuit_that_is_not_structured_is_refused_also_beside_a_sample():
    circuit = zoo.random_circuit(1, n_features=4)
    rows = sample(circuit, 20, random_state=0)
    with pytest.raises(IncompatibleError, match="with itself needs a structured-decomp") as caught:
        mmd2(circuit, rows, Delta())
    assert "second" not in str(caught.value)
    assert np.isfinite(mmd2(sample(circuit, 30, random_state=1), rows, Delta()))


def test_one_row_has_no_unbiased_estimate():
    p = circuits()[0]
    with pytest.raises(ValueError, match="two or more rows, got 1"):
        mmd2(p, all_rows(p)[:1], Delta())
