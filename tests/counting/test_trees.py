"""Spanning trees, and trees as nodes of a circuit."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from skpc.circuit import decision_circuit
from skpc.counting.trees import maximum_spanning_tree, tree_vertices
from tests.naive.cutset import evaluate


def random_tables(parent, n_states, rng):
    sizes = [(1 if p < 0 else n_states[p], k) for p, k in zip(parent, n_states)]
    return [np.log(rng.dirichlet(np.ones(k), rows)) for rows, k in sizes]


def tree_circuit(n_states, parent, log_prob):
    decisions = tree_vertices(np.arange(len(parent)), np.array(parent), log_prob)
    return decision_circuit(n_states, None, decisions)


@pytest.mark.parametrize(
    ("parent", "n_states"),
    [
        ([-1], [3]),
        ([-1, 0], [2, 3]),
        ([-1, 0, 1, 2], [2, 3, 2, 4]),
        ([-1, 0, 0, 0], [3, 2, 2, 2]),
        ([2, 2, -1, 1, 1], [2, 3, 2, 2, 3]),
        ([-1, 0, -1, 2], [2, 3, 2, 2]),
    ],
)
def test_the_circuit_multiplies_the_conditional_probabilities(parent, n_states):
    log_prob = random_tables(parent, n_states, np.random.default_rng(0))
    circuit = tree_circuit(n_states, parent, log_prob)
    assert circuit.smooth
    assert circuit.decomposable
    assert circuit.deterministic
    for x in product(*map(range, n_states)):
        expected = sum(log_prob[v][0 if p < 0 else x[p], x[v]] for v, p in enumerate(parent))
        assert np.log(evaluate(circuit, x)) == pytest.approx(expected, abs=1e-12)


def test_parent_states_with_the_same_probabilities_share_a_node():
    root = np.log(np.full((1, 50), 1 / 50))
    below = np.log(np.full((50, 2), 0.5))
    assert tree_circuit([50, 2], [-1, 0], [root, below]).n_nodes == 50 + 50 + 1 + 1


def test_a_long_chain_needs_no_recursion():
    m = 3000
    parent = [v - 1 for v in range(m)]
    log_prob = random_tables(parent, [2] * m, np.random.default_rng(0))
    assert tree_circuit([2] * m, parent, log_prob).n_nodes == 6 * (m - 1) + 1


def prim(weight, chains=False):
    parent = np.empty(len(weight), np.int64)
    maximum_spanning_tree(weight, parent, chains)
    return parent.tolist()


def edges_of(parent):
    return {(min(v, p), max(v, p)) for v, p in enumerate(parent) if p >= 0}


@pytest.mark.parametrize("m", [1, 2, 3, 10, 40])
def test_the_tree_weighs_as_much_as_the_one_of_scipy(m):
    weight = np.random.default_rng(m).integers(1, 10**9, (m, m))
    weight = weight + weight.T
    parent = prim(weight)
    assert len(edges_of(parent)) == m - 1
    np.fill_diagonal(weight, 0)
    best = -minimum_spanning_tree(-weight.astype(float)).sum()
    assert sum(weight[edge] for edge in edges_of(parent)) == best


def test_of_equal_weights_the_first_vertices_win():
    assert prim(np.full((5, 5), 7)) == [-1, 0, 0, 0, 0]
    assert prim(np.full((5, 5), 7), chains=True) == [-1, 0, 1, 2, 3]
    assert prim(np.zeros((3, 3), np.int64)) == [-1, 0, 0]
