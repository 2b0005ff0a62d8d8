"""The kernelised discrete Stein discrepancy against enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.circuit import CircuitBuilder
from skpc.discrepancies import kdsd, stein_gram
from skpc.exceptions import IncompatibleError, StructureError
from skpc.factor_graphs import FactorGraph, compile, load_asia
from skpc.kernels import ExponentialHamming, SumKernel
from skpc.queries import sample
from tests.naive import factor_graph, stein
from tests.zoo import random_factor_graph

CARDS = [(2, 3, 4), (3, 3, 3), (2, 2, 2, 2)]


def enumerated(q, p, kernel, n_states):
    table, states = stein.kernel_table(kernel, n_states), stein.all_states(n_states)
    return sum(
        q[x] * q[y] * stein.stein_kernel(p, table, x, y, n_states, "ratio")
        for x in states
        for y in states
    )


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_discrepancy_between_circuits_equals_enumeration(n_states, seed):
    graphs = [random_factor_graph(s, n_states, n_factors=4) for s in (seed, seed + 50)]
    chain = np.arange(-1, len(n_states) - 1)
    q, p = (compile(graph, chain) for graph in graphs)
    kernel = SumKernel([ExponentialHamming(0.5), ExponentialHamming(0.1)], [1.0, 2.0])
    expected = enumerated(*map(factor_graph.conditional, graphs), kernel, n_states)
    assert kdsd(q, p, kernel) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_discrepancy_of_a_circuit_to_itself_is_zero(n_states, seed):
    circuit = compile(random_factor_graph(seed, n_states, n_factors=4))
    assert kdsd(circuit, circuit) == pytest.approx(0.0, abs=1e-15 * len(n_states))


def test_the_first_circuit_need_not_be_deterministic():
    builder = CircuitBuilder([3, 2])
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(2):
        leaves = [
            builder.discrete(v, np.log(rng.dirichlet(np.ones(k)))) for v, k in ((0, 3), (1, 2))
        ]
        parts.append(builder.product(leaves))
    builder.sum(parts, np.log([0.3, 0.7]))
    q = builder.build()
    graph = random_factor_graph(0, (3, 2), n_factors=3)
    p, kernel = factor_graph.conditional(graph), ExponentialHamming(0.5)
    of_q = {x: float(np.exp(log)) for x, log in log_likelihoods(q, p)}
    expected = enumerated(of_q, p, kernel, (3, 2))
    assert kdsd(q, compile(graph), kernel) == pytest.approx(expected, rel=1e-11)
    with pytest.raises(StructureError, match="p must be deterministic"):
        kdsd(compile(graph), q, kernel)


def log_likelihoods(circuit, states):
    from skpc.queries import log_likelihood

    return zip(states, log_likelihood(circuit, list(states)))


def test_a_larger_grid_is_compared_without_enumeration():
    weak, strong = (FactorGraph.ising_grid(4, 4, coupling=c) for c in (0.10, 0.12))
    q, p = compile(weak), compile(strong)
    exact = kdsd(q, p)
    assert exact > 0
    draws = [kdsd(sample(q, 400, random_state=seed), strong) for seed in range(12)]
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    assert np.mean(draws) == pytest.approx(exact, abs=4 * error)


@pytest.mark.parametrize("operator", ["ratio", "barker"])
def test_statistics_are_means_of_the_stein_kernel(operator):
    graph = random_factor_graph(0, (2, 3, 4), n_factors=4)
    samples = sample(compile(graph), 50, random_state=0)
    gram = stein_gram(samples, graph, stein_operator=operator)
    found = kdsd(samples, graph, stein_operator=operator, unbiased=False)
    assert found == pytest.approx(gram.mean())
    off = gram[~np.eye(50, dtype=bool)]
    assert kdsd(samples, graph, stein_operator=operator) == pytest.approx(off.mean())


@pytest.mark.parametrize("operator", ["ratio", "barker"])
def test_the_unbiased_statistic_has_mean_zero_under_the_target(operator):
    graph = random_factor_graph(1, (3, 2, 3), n_factors=4)
    circuit = compile(graph)
    found = [
        kdsd(sample(circuit, 60, random_state=seed), graph, stein_operator=operator)
        for seed in range(200)
    ]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(len(found))
    assert min(found) < 0 < max(found)


def test_a_circuit_with_zeros_is_refused_with_one_of_them():
    asia = load_asia()
    circuit = compile(asia)
    with pytest.raises(
        ValueError, match="positive everywhere, but the state .* has probability"
    ) as e:
        kdsd(circuit, circuit)
    state = eval(str(e.value).split("the state ")[1].split(" has")[0])
    assert factor_graph.value(asia, tuple(state)) == 0.0


def test_circuits_that_do_not_fit_are_refused():
    graph = FactorGraph.ising_grid(1, 3, coupling=0.2)
    p = compile(graph, [-1, 0, 1])
    with pytest.raises(IncompatibleError, match="splits"):
        kdsd(compile(graph, [1, 2, -1]), p)
    with pytest.raises(TypeError, match="circuit q needs a circuit p, got FactorGraph"):
        kdsd(p, graph)
    with pytest.raises(ValueError, match="must be 'ratio', got 'barker'; draw samples"):
        kdsd(p, p, stein_operator="barker")
    builder = CircuitBuilder([0])
    builder.gaussian(0, 0.0, 1.0)
    numeric = builder.build()
    with pytest.raises(ValueError, match="variable 0 is numeric"):
        kdsd(p, numeric)
    with pytest.raises(ValueError, match="two or more rows, got 1"):
        kdsd([[0, 0, 0]], graph)
    assert_allclose(kdsd([[0, 0, 0]], graph, unbiased=False), stein_gram([[0, 0, 0]], graph)[0, 0])
