"""Expectations of products of functions, all kinds in one row, against every choice of children."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.kernels import RBF, Delta
from skpc.queries import AtPoints, Events, Intervals, Weights, log_expectation, log_likelihood
from tests.naive import events, factors
from tests.naive import kernels as slow_kernels
from tests.queries.test_events import KINDS, random_intervals
from tests.zoo import random_block_circuit, random_circuit, random_rows


def intervals_of(rng, circuit, var, rows):
    said = {r: random_intervals(rng, circuit, var) for r in rows}
    flat = [(r, *ends) for r, intervals in said.items() for ends in intervals]
    row, low, high = (np.array(part) for part in zip(*flat))

    def slow(r, leaf):
        return sum(events.leaf_probability(circuit, leaf, *ends) for ends in said[r])

    return Intervals(row, low.astype(float), high.astype(float)), slow


def weights_of(rng, circuit, var, rows):
    weight = dict(zip(rows, rng.uniform(size=(len(rows), circuit.n_states[var]))))

    def slow(r, leaf):
        param = circuit.param[circuit.param_ptr[leaf] : circuit.param_ptr[leaf + 1]]
        return sum(w * p for w, p in zip(weight[r], np.exp(param)))

    return Weights(np.array(rows), np.array([*weight.values()])), slow


def kernel_of(rng, circuit, var, rows):
    kernel = Delta() if circuit.structure.is_categorical[var] else RBF(rng.uniform(0.1, 2.0))
    cell = random_rows(int(rng.integers(1000)), circuit, len(rows), 0.0)[:, var]

    def slow(r, leaf):
        point = slow_kernels.univariate(circuit, var, ("cell", cell[rows.index(r)]))
        distribution = slow_kernels.univariate(circuit, var, leaf)
        return float(slow_kernels.expectation(kernel, distribution, point)[0, 0])

    return AtPoints(np.array(rows), kernel, cell), slow


@pytest.mark.parametrize("kinds", [kind for kind in KINDS if kind != "counts"])
def test_products_of_all_kinds_of_functions_equal_the_sum_over_all_trees(kinds):
    makers = set()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        circuit = random_circuit(seed, n_features=4, kinds=kinds, depth=3)
        rows = random_rows(seed, circuit, 6, 0.8)
        asked, slow = {}, {}
        for var in range(4):
            # Some missing cells have no function.
            missing = [r for r in np.flatnonzero(np.isnan(rows[:, var])).tolist() if r != seed]
            makers_here = [intervals_of, kernel_of]
            if set(kinds_of_leaves(circuit, var)) <= {"states"}:
                makers_here.append(weights_of)
            if missing:
                make = makers_here[int(rng.integers(len(makers_here)))]
                makers.add(make)
                asked[var], slow[var] = make(rng, circuit, var, missing)
        truth = []
        for r, row in enumerate(rows):
            expected = {
                var: partial(of_row, r) for var, of_row in slow.items() if r in asked[var].row
            }
            truth.append(factors.expectation(circuit, row, expected))
        found = np.exp(log_expectation(circuit, rows, asked))
        assert_allclose(found, truth, rtol=1e-10, atol=1e-13)
    assert len(makers) >= 2


def kinds_of_leaves(circuit, var):
    """What the leaves of a variable have: states alone, or a formula."""
    n_states = circuit.n_states[var]
    sizes = np.diff(circuit.param_ptr)[circuit.leaf_var == var]
    return ["states" if n_states and size == n_states else "formula" for size in sizes]


def test_intervals_are_factors_beside_others_and_events():
    circuit = random_circuit(3, n_features=4, kinds="mixed")
    rows = np.full((5, 4), np.nan)
    column = np.zeros(5, dtype=int)
    low = np.full(5, -0.5)
    said = Events.from_intervals(rows, np.arange(5), column, low, low + np.arange(5.0))
    by_events = log_likelihood(circuit, said)
    by_factor = log_expectation(circuit, rows, {0: Intervals(said.event, said.low, said.high)})
    assert_allclose(by_factor, by_events, rtol=1e-13)
    # A function that is one everywhere adds nothing to events.
    everywhere = Intervals(np.arange(5), np.full(5, -np.inf), np.full(5, np.inf))
    assert_allclose(log_expectation(circuit, said, {1: everywhere}), by_events, rtol=1e-12)


def test_what_is_not_known_is_refused_with_what_to_do():
    circuit = random_circuit(0, n_features=2, kinds="gaussian")
    nothing = np.full((2, 2), np.nan)
    weights = Weights(np.array([0]), np.ones((1, 2)))
    with pytest.raises(TypeError, match="say intervals of such numbers"):
        log_expectation(circuit, nothing, {0: weights})
    interval = Intervals(np.array([1]), np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match=r"X\[1, 0\] is known or has intervals"):
        log_expectation(circuit, np.zeros((2, 2)), {0: interval})
    late = Intervals(np.array([2]), np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="must be 0 to 1"):
        log_expectation(circuit, nothing, {0: late})
    with pytest.raises(ValueError, match="the columns of factors must be numbers from 0 to 1"):
        log_expectation(circuit, nothing, {2: interval})
    states = random_circuit(0, n_features=2, kinds="binary")
    negative = Weights(np.array([0]), np.array([[1.0, -0.5]]))
    with pytest.raises(ValueError, match=r"must not be negative, got -0.5"):
        log_expectation(states, nothing, {0: negative})
    block = random_block_circuit(0, n_numbers=3)
    var = int(block.multivariate[0].variables[0])
    with pytest.raises(ValueError, match="block of numbers"):
        log_expectation(block, np.full((2, block.n_features), np.nan), {var: interval})
