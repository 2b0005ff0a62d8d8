"""Splits of circuits against what they mean for rows: each row passes one edge of every sum."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from skpc import Strudel
from skpc.circuit import SUM, CircuitBuilder
from skpc.exceptions import StructureError
from skpc.kernels import ExponentialHamming
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.strudel import StrudelNetwork
from skpc.queries import expected_kernel, log_likelihood
from skpc.queries.flows import expected_statistics, uniform_pseudo_counts
from skpc.queries.parameters import em_step


def grown(n_splits: int, n_states=(2, 3, 2, 2, 3), n_rows: int = 2000, seed: int = 0):
    """A network after some splits, and its rows."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    noise = rng.random((n_rows, len(n_states))) < 0.3
    drawn = np.column_stack([rng.integers(0, k, n_rows) for k in n_states])
    codes = np.where(noise, drawn, kind[:, None] % np.array(n_states)).astype(np.int16)
    states = np.array(n_states)
    weight = np.ones(n_rows)
    tree = learn_cutset_network(codes, weight, states, TREE).trees[0]
    network = StrudelNetwork(codes, weight, states, tree, [None] * len(n_states), 1.0)
    done = sum(network.split(5.0) for _ in range(n_splits))
    return network.circuit(), codes.astype(float), done


@pytest.mark.parametrize("n_splits", [0, 1, 2, 5, 12])
def test_a_split_circuit_is_a_deterministic_distribution_on_the_vtree(n_splits):
    circuit, rows, done = grown(n_splits)
    assert done == n_splits
    assert circuit.deterministic
    assert circuit.structured_decomposable
    fitted = em_step(circuit, rows, np.ones(len(rows)), uniform_pseudo_counts(circuit, 1.0))
    every = np.array(list(itertools.product(*map(range, circuit.n_states))), dtype=float)
    assert_allclose(np.exp(log_likelihood(fitted, every)).sum(), 1.0)
    # Circuits of one vtree are compatible, however they were split.
    first, _, _ = grown(0)
    assert 0.0 < expected_kernel(fitted, first, ExponentialHamming(0.3)) < 1.0


def test_splits_raise_the_likelihood_of_training_rows():
    likelihood = []
    for n_splits in (0, 1, 3, 9, 27):
        circuit, rows, _ = grown(n_splits)
        prior = uniform_pseudo_counts(circuit, 1e-3)
        fitted = em_step(circuit, rows, np.ones(len(rows)), prior)
        likelihood.append(float(log_likelihood(fitted, rows).mean()))
    # The split by a child of the root alone changes nothing: those that follow do.
    assert np.all(np.diff(likelihood) > -1e-9)
    assert likelihood[-1] > likelihood[0] + 0.1


def test_a_sum_may_decide_on_a_variable_that_its_children_fix_further_below():
    builder = CircuitBuilder([2, 2, 2])
    leaves = [[builder.indicator(v, s) for s in range(2)] for v in range(3)]
    free = builder.sum(leaves[2], np.log([0.5, 0.5]), 2, [0, 1])
    inner = [
        builder.sum(
            [builder.product([leaves[0][s], leaves[1][state]]) for s in range(2)],
            np.log([0.5, 0.5]),
            0,
            [0, 1],
        )
        for state in range(2)
    ]
    products = [builder.product([node, free]) for node in inner]
    builder.sum(products, np.log([0.3, 0.7]), 1, [0, 1])
    assert builder.build().deterministic


def test_a_sum_whose_children_do_not_fix_the_variable_is_refused():
    builder = CircuitBuilder([2, 2])
    leaves = [[builder.indicator(v, s) for s in range(2)] for v in range(2)]
    free = [builder.sum(leaves[1], np.log([0.5, 0.5]), 1, [0, 1]) for _ in range(2)]
    products = [builder.product([leaves[0][s], free[s]]) for s in range(2)]
    builder.sum(products, np.log([0.3, 0.7]), 1, [0, 1])
    with pytest.raises(StructureError, match="must contain an indicator of state"):
        builder.build()


def test_mixtures_share_the_structure_and_fit_better_than_one_circuit():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 1500)
    centres = rng.random((4, 8))
    table = (rng.random((1500, 8)) < centres[kind]).astype(int)
    one = Strudel(max_splits=5, random_state=0).fit(table[:1000])
    four = Strudel(n_components=4, max_splits=5, random_state=0).fit(table[:1000])
    assert four.circuit_.structured_decomposable
    assert four.score(table[1000:]) > one.score(table[1000:])
    again = Strudel(n_components=4, max_splits=5, random_state=0).fit(table[:1000])
    assert_allclose(again.score(table), four.score(table), rtol=1e-12)


def log_marginal(circuit, rows) -> float:
    """Log marginal likelihood of the sums under a prior of size one each."""
    flow = expected_statistics(circuit, rows, np.ones(len(rows))).edge_flow
    total = 0.0
    for node in np.flatnonzero(circuit.kind == SUM):
        counts = flow[circuit.edge_parent == node]
        pseudo_count = 1.0 / len(counts)
        total += (gammaln(counts + pseudo_count) - gammaln(pseudo_count)).sum()
        total -= gammaln(counts.sum() + 1.0)
    return total


def test_the_gain_of_a_split_is_what_it_adds_to_the_marginal_likelihood(monkeypatch):
    gains = []
    compute = StrudelNetwork._gains

    def recorded(network, *edge):
        gain = compute(network, *edge)
        gains.append(gain.max())
        return gain

    monkeypatch.setattr(StrudelNetwork, "_gains", recorded)
    before, rows, _ = grown(0)
    likelihood = log_marginal(before, rows)
    for n_splits in range(1, 6):
        gains.clear()
        after, _, _ = grown(n_splits)
        reached = log_marginal(after, rows)
        assert gains[-1] > 0.0
        assert_allclose(reached - likelihood, gains[-1], rtol=1e-6)
        likelihood = reached


@pytest.mark.parametrize("state", [0, 1])
def test_a_sum_fixes_a_state_only_if_all_its_children_do(state):
    builder = CircuitBuilder([2, 2])
    leaves = [[builder.indicator(v, s) for s in range(2)] for v in range(2)]
    inner = []
    for fixed in ((0, state), (1, 1)):
        parts = [builder.product([leaves[0][s], leaves[1][fixed[s]]]) for s in range(2)]
        inner.append(builder.sum(parts, np.log([0.5, 0.5]), 0, [0, 1]))
    builder.sum(inner, np.log([0.3, 0.7]), 1, [0, 1])
    if state == 0:
        assert builder.build().deterministic
        return
    with pytest.raises(StructureError, match="must contain an indicator of state 0"):
        builder.build()
