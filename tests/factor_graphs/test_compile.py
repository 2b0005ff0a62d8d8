"""Compilation and elimination against enumeration of all states."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.factor_graphs import (
    FactorGraph,
    compile,
    load_asia,
    log_partition,
    min_fill_vtree,
    sum_out,
)
from skpc.factor_graphs.elimination import eliminate, plan_elimination, table_marginals
from skpc.queries import condition, log_likelihood, marginals, mpe, sample
from tests.naive import factor_graph as naive
from tests.zoo import random_factor_graph

CARDS = [(2, 3, 4), (2, 2, 2, 2, 2), (3, 1, 2, 2), (2, 2, 3, 2, 2, 2)]


def random_evidence(seed, graph, share=0.4):
    rng = np.random.default_rng(seed)
    evidence = rng.integers(graph.n_states).astype(float)
    evidence[rng.random(graph.n_variables) > share] = np.nan
    return evidence


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(5))
def test_circuits_have_the_probabilities_of_all_states(n_states, seed):
    graph = random_factor_graph(seed, n_states, n_factors=len(n_states) + 2)
    circuit = compile(graph)
    expected = naive.conditional(graph)
    assert_allclose(np.exp(log_likelihood(circuit, list(expected))), list(expected.values()))
    assert circuit.smooth
    assert circuit.decomposable
    assert circuit.deterministic
    assert circuit.structured_decomposable


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_partition_function_and_the_marginals_equal_enumeration(n_states, seed):
    graph = random_factor_graph(seed, n_states, n_factors=6, zeros=0.1)
    for evidence in (None, random_evidence(seed, graph)):
        total = naive.partition(graph, evidence)
        if total == 0:
            assert log_partition(graph, evidence=evidence) == -np.inf
            continue
        assert log_partition(graph, evidence=evidence) == pytest.approx(np.log(total), abs=1e-12)
        found = marginals(compile(graph, evidence=evidence), np.full((1, len(n_states)), np.nan))
        for column, expected in zip(found, naive.marginals(graph, evidence)):
            assert_allclose(column[0], expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_most_probable_state_equals_enumeration(seed):
    graph = random_factor_graph(seed, (2, 3, 2, 2, 3), n_factors=7)
    states = naive.conditional(graph)
    found = mpe(compile(graph), np.full((1, 5), np.nan))[0]
    assert tuple(found.astype(int)) == max(states, key=states.__getitem__)


@pytest.mark.parametrize("seed", range(6))
def test_evidence_before_compiling_equals_conditioning_after(seed):
    graph = random_factor_graph(seed, (2, 3, 2, 2, 3), n_factors=6)
    evidence = random_evidence(seed, graph)
    before, after = compile(graph, evidence=evidence), condition(compile(graph), evidence)
    rows = np.array(naive.all_states(graph), dtype=float)
    assert_allclose(log_likelihood(before, rows), log_likelihood(after, rows), atol=1e-12)
    known = ~np.isnan(evidence)
    assert_array_equal(sample(before, 3, random_state=0)[:, known], [evidence[known]] * 3)


def splits(circuit):
    """How each scope of a product is split."""
    found = {}
    for node in np.flatnonzero(circuit.kind == 2):
        below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
        found[circuit.scopes[node]] = {circuit.scopes[c] for c in below}
    return found


def test_conditionals_compiled_on_one_vtree_split_their_scopes_alike():
    graph = FactorGraph.ising_grid(3, 4, random_state=0)
    vtree = min_fill_vtree(graph)
    whole = splits(compile(graph, vtree))
    for seed in range(10):
        circuit = compile(graph, vtree, random_evidence(seed, graph))
        assert circuit.structured_decomposable
        assert splits(circuit) == whole


def test_any_order_of_elimination_gives_the_same_distribution():
    graph = random_factor_graph(3, (2, 3, 2, 2), n_factors=5)
    rows = np.array(naive.all_states(graph), dtype=float)
    expected = log_likelihood(compile(graph), rows)
    for order in itertools.permutations(range(4)):
        chain = np.full(4, -1)
        chain[list(order[1:])] = order[:-1]
        assert_allclose(log_likelihood(compile(graph, chain), rows), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("vtree", "message"),
    [
        ([-1, 0, 0], "variables of a factor one above the other, but 1 and 2 of factor 1"),
        ([1, 0, -1], r"no cycle, but variables \[0, 1\]"),
        ([-1, 0], "the parent of each of the 3 variables"),
        ([-1, 0, 3], r"-1 \(a root\) to 2"),
        ([-1.0, 0.0, 1.0], "an integer of -1"),
    ],
)
def test_a_vtree_that_does_not_fit_is_refused(vtree, message):
    graph = FactorGraph.ising_grid(1, 3, coupling=1.0)
    with pytest.raises(ValueError, match=message):
        compile(graph, vtree)


def test_the_vtree_of_a_grid_is_as_narrow_as_its_side():
    for side in (3, 4, 5):
        graph = FactorGraph.ising_grid(side, side, coupling=1.0)
        known = np.zeros(side * side, dtype=bool)
        assert max(map(len, plan_elimination(graph, min_fill_vtree(graph), known).context)) == side


def pairs_graph(n, edges):
    return FactorGraph([2] * n, [(edge, np.zeros((2, 2))) for edge in edges])


@pytest.mark.parametrize(
    ("edges", "width"),
    [
        ([(v, (v * 7 + 3) % v) for v in range(1, 12)], 1),
        ([(v, (v + 1) % 12) for v in range(12)], 2),
        (list(itertools.combinations(range(12), 2)), 11),
        ([(a, b) for a in range(3) for b in range(3, 12)], 3),
    ],
    ids=["tree", "cycle", "clique", "bipartite"],
)
def test_min_fill_finds_the_width_of_plain_graphs(edges, width):
    graph = pairs_graph(12, edges)
    found = plan_elimination(graph, min_fill_vtree(graph), np.zeros(12, dtype=bool))
    assert max(map(len, found.context)) == width


def test_a_graph_too_dense_is_refused_with_its_width_and_size():
    graph = pairs_graph(60, itertools.combinations(range(60), 2))
    with pytest.raises(ValueError, match=r"induced width 59, .* 2.31e\+18 table entries .* GiB"):
        compile(graph)
    with pytest.raises(ValueError, match="induced width 59"):
        log_partition(graph)
    evidence = np.zeros(60)
    evidence[:5] = np.nan
    circuit = compile(graph, evidence=evidence)
    assert_allclose(log_likelihood(circuit, np.zeros((1, 60))), -5 * np.log(2))


def test_sizes_beyond_the_range_of_floats_are_refused_alike():
    star = pairs_graph(1500, [(1499, v) for v in range(1499)])
    centre_first = np.arange(-1, 1499)
    with pytest.raises(ValueError, match=r"induced width 1499, .* 7.01e\+451 table entries"):
        compile(star, centre_first)


@pytest.mark.parametrize("evidence", [[1], {0: 1}, [[np.nan] * 8]])
def test_evidence_of_another_shape_is_refused(evidence):
    for call in (compile, log_partition):
        with pytest.raises(ValueError, match=r"evidence needs .* shape \(8,\), got shape"):
            call(load_asia(), evidence=evidence)


def test_contradictory_evidence_is_refused():
    asia = load_asia()
    evidence = np.full(8, np.nan)
    evidence[[1, 5]] = 1, 0
    with pytest.raises(ValueError, match="no state .* variable 1 = 1, variable 5 = 0"):
        compile(asia, evidence=evidence)
    assert log_partition(asia, evidence=evidence) == -np.inf


def test_a_long_chain_needs_no_recursion():
    graph = FactorGraph.ising_grid(1, 3000, coupling=0.3)
    chain = np.arange(-1, 2999)
    assert log_partition(graph, chain) == pytest.approx(
        np.log(2) + 2999 * np.log(2 * np.cosh(0.3)), rel=1e-12
    )
    assert compile(graph, chain).n_features == 3000


def test_a_graph_without_factors_is_uniform():
    circuit = compile(FactorGraph([2, 5], []))
    assert_allclose(log_likelihood(circuit, [[1, 4]]), -np.log(10))


@pytest.mark.parametrize("seed", range(6))
def test_summing_out_keeps_the_distribution_of_the_others(seed):
    graph = random_factor_graph(seed, (2, 3, 2, 2, 3), n_factors=6, zeros=0.1)
    gone = [1, 3] if seed % 2 else [0, 2, 4]
    rest = sum_out(graph, gone)
    for state in naive.all_states(rest):
        evidence = np.array(state, dtype=float)
        evidence[gone] = np.nan
        expected = naive.partition(graph, evidence)
        assert np.exp(rest.log_score([state])[0]) == pytest.approx(expected, rel=1e-12)


def test_summing_out_refuses_what_is_not_there_or_too_large():
    with pytest.raises(ValueError, match=r"from 0 to 2, .* got \[7\]"):
        sum_out(random_factor_graph(0), [7])
    star = pairs_graph(60, [(0, v) for v in range(1, 60)])
    with pytest.raises(ValueError, match="too dense"):
        sum_out(star, [0])


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_of_evidence_gives_the_tables_of_each_row(seed):
    graph = random_factor_graph(seed, (2, 3, 2, 2, 3), n_factors=6)
    rng = np.random.default_rng(seed)
    evidence = rng.integers(graph.n_states, size=(7, 5)).astype(float)
    evidence[:, rng.random(5) < 0.5] = np.nan
    plan = plan_elimination(graph, min_fill_vtree(graph), ~np.isnan(evidence[0]))
    found = eliminate(graph, plan, evidence)
    columns = table_marginals(found, graph.n_states, evidence)
    for row, log_total, mine in zip(evidence, found.log_partition, columns):
        assert log_total == pytest.approx(np.log(naive.partition(graph, row)), abs=1e-12)
        assert_allclose(mine, np.concatenate(naive.marginals(graph, row)), atol=1e-12)
