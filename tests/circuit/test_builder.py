"""The builder and the checks of a structure."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder
from skpc.exceptions import StructureError
from tests.zoo import AXIS, random_circuit, random_deterministic_circuit

HALF = np.log([0.5, 0.5])


def leaves(builder, n):
    return [builder.discrete(var, HALF) for var in range(n)]


def test_overlapping_children_of_a_product_are_caught_with_their_scopes():
    builder = CircuitBuilder([2, 2, 2])
    a, b, c = leaves(builder, 3)
    left, right = builder.product([a, b]), builder.product([b, c])
    builder.product([left, right])
    with pytest.raises(
        StructureError, match=r"product 5 .* child 4 .*node 3: \{0, 1\}; node 4: \{1, 2\}"
    ):
        builder.build()


def test_a_child_twice_in_a_product_is_caught():
    builder = CircuitBuilder([2])
    (a,) = leaves(builder, 1)
    builder.product([a, a])
    with pytest.raises(StructureError, match="product 1 needs children with disjoint scopes"):
        builder.build()


def test_a_sum_over_different_scopes_is_caught():
    builder = CircuitBuilder([2, 2])
    a, b = leaves(builder, 2)
    builder.sum([a, b], HALF)
    with pytest.raises(StructureError, match=r"sum 2 .* \{0, 1\}, but child 0 has scope \{0\}"):
        builder.build()


def test_a_variable_without_a_node_is_caught():
    builder = CircuitBuilder([2, 2, 2])
    builder.product(leaves(builder, 2))
    with pytest.raises(StructureError, match=r"root \(node 2\) .* lacks \{2\}"):
        builder.build()


def test_a_node_that_nothing_uses_is_caught():
    builder = CircuitBuilder([2, 2])
    a, b = leaves(builder, 2)
    builder.indicator(0, 1)
    builder.product([a, b])
    with pytest.raises(StructureError, match=r"leaf 2 with scope \{0\} is not a child"):
        builder.build()


def test_an_empty_circuit_is_refused():
    with pytest.raises(StructureError, match="at least one node"):
        CircuitBuilder([2]).build()


@pytest.mark.parametrize("children", [[], [5], [-1]])
def test_children_must_have_been_added_before(children):
    builder = CircuitBuilder([2])
    leaves(builder, 1)
    with pytest.raises(StructureError, match=r"product 1 needs .*got"):
        builder.product(children)


def test_weights_must_match_the_children_and_sum_to_one():
    builder = CircuitBuilder([2])
    a, b = builder.discrete(0, HALF), builder.discrete(0, HALF)
    with pytest.raises(ValueError, match=r"sum 2 needs one log weight for each of its 2"):
        builder.sum([a, b], [0.0])
    builder.sum([a, b], np.log([0.5, 1.0]))
    with pytest.raises(ValueError, match="sum 2 must add up to 1, got 1.5"):
        builder.build()


@pytest.mark.parametrize(
    ("children", "states", "message"),
    [
        (["zero", "free"], [0, 1], "child 1 of sum 2 must contain an indicator of state 1"),
        (["zero", "one"], [1, 0], "child 0 of sum 2 must contain an indicator of state 1"),
        (["zero", "zero"], [0, 0], r"distinct states, got \[0, 0\]"),
    ],
)
def test_a_deciding_sum_needs_indicators_of_distinct_states(children, states, message):
    builder = CircuitBuilder([2])
    make = {
        "zero": lambda: builder.indicator(0, 0),
        "one": lambda: builder.indicator(0, 1),
        "free": lambda: builder.discrete(0, HALF),
    }
    builder.sum([make[child]() for child in children], HALF, 0, states)
    with pytest.raises(StructureError, match=message):
        builder.build()


def test_a_deciding_sum_needs_a_variable_and_a_state_for_each_child():
    builder = CircuitBuilder([2, 2])
    zero, one = builder.indicator(0, 0), builder.indicator(0, 1)
    with pytest.raises(ValueError, match="one decision_state for each of its 2 children"):
        builder.sum([zero, one], HALF, 0)
    with pytest.raises(ValueError, match=r"variables are 0..1, got 7"):
        builder.sum([zero, one], HALF, 7, [0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.discrete(0, np.log([0.5, 0.4])), "must sum to 1, got 0.9"),
        (lambda b: b.discrete(0, [0.0]), r"needs 2 log probabilities, got shape \(1,\)"),
        (
            lambda b: b.discrete(1, [0.0]),
            "needs .* states and no axis, but variable 1 has no states",
        ),
        (lambda b: b.discrete(9, [0.0]), r"variables are 0..2, got 9"),
        (lambda b: b.indicator(0, 2), r"states 0..1, got state 2"),
        (
            lambda b: b.gaussian(0, 0.0, 1.0),
            "a gaussian leaf .*, but variable 0 has 2 states .* takes categorical leaves",
        ),
        (lambda b: b.gaussian(1, 0.0, 0.0), "positive sd, got 0.0 and 0.0"),
        (lambda b: b.gaussian(1, np.nan, 1.0), "finite mean"),
        (lambda b: b.gaussian(2, 0.0, 1.0), "variable 2 has a histogram axis"),
    ],
)
def test_bad_leaves_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(CircuitBuilder([2, 0, 5], [None, None, AXIS]))


@pytest.mark.parametrize(
    ("n_states", "axes", "message"),
    [
        ([-1], None, "variable 0 needs 0 or more states, got -1"),
        ([2], [None, None], "one entry for each of the 1 variables, got 2"),
        ([4], [AXIS], "axis of variable 0 does not fit its 4 states: it has 5"),
        ([3], [(np.array([1.0, 1.0]), 1.0, 1.0)], "edges of variable 0 must increase"),
        ([3], [(np.array([1.0, np.inf]), 1.0, 1.0)], "finite edge"),
        ([3], [(np.array([1.0, 2.0]), 0.0, 1.0)], "positive scales, got 0.0 and 1.0"),
    ],
)
def test_bad_variables_are_refused(n_states, axes, message):
    with pytest.raises(ValueError, match=message):
        CircuitBuilder(n_states, axes)


def test_random_circuits_are_smooth_and_decomposable():
    for seed in range(20):
        circuit = random_circuit(seed, n_features=5)
        assert circuit.smooth
        assert circuit.decomposable


def test_decision_circuits_are_deterministic_and_mixtures_are_not():
    assert random_deterministic_circuit(0).deterministic
    assert not random_circuit(0).deterministic


def chain(builder, order):
    node = builder.discrete(order[0], HALF)
    for var in order[1:]:
        node = builder.product([node, builder.discrete(var, HALF)])
    return node


def test_structured_decomposable_means_one_split_for_each_scope():
    builder = CircuitBuilder([2, 2, 2])
    builder.sum([chain(builder, [0, 1, 2]), chain(builder, [1, 0, 2])], HALF)
    assert builder.build().structured_decomposable
    builder = CircuitBuilder([2, 2, 2])
    builder.sum([chain(builder, [0, 1, 2]), chain(builder, [0, 2, 1])], HALF)
    assert not builder.build().structured_decomposable


def test_nodes_and_edges_are_laid_out_as_documented():
    builder = CircuitBuilder([2, 5, 0], [None, AXIS, None])
    a = builder.discrete(0, np.log([0.25, 0.75]))
    b = builder.discrete(1, np.log([0.2] * 5))
    c = builder.gaussian(2, 3.0, 2.0)
    builder.product([c, a, b])
    circuit = builder.build()
    assert (circuit.n_nodes, circuit.n_edges, circuit.n_features) == (4, 3, 3)
    assert_array_equal(circuit.child, [c, a, b])
    assert_array_equal(circuit.leaf_family, [0, 2, 1, -1])
    log_densities = -np.log([0.7, 1.0, 0.5, 1.5, 1.3])
    cells = [*range(5), *np.ones(5), *log_densities, *np.full(5, np.nan)]
    assert_allclose(circuit.axis, [AXIS[1], AXIS[2], -np.inf, np.inf, 0.0, *AXIS[0], *cells])
    assert_array_equal(circuit.param[-2:], [3.0, 2.0])
    assert_array_equal(np.exp(circuit.param[:2]), [0.25, 0.75])
