import math

import numpy as np
import pytest

from skpc.all_trees.laplacian import hang_undirected
from skpc.all_trees.spanning_trees import Elimination
from tests.naive import spanning_trees as naive


def log_weights(n, seed, spread=1.0):
    """Random logs of directed weights, of weights of roots, and of symmetric weights."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(-spread, spread, (n, n))
    return weight, rng.uniform(-spread, spread, n), (weight + weight.T) / 2


def edges_into(weight, roots=None):
    """Weights into each vertex; undirected trees hang from one of the vertices."""
    weight = np.array(weight, dtype=float)
    np.fill_diagonal(weight, 0.0)
    return hang_undirected(weight) if roots is None else np.column_stack([weight.T, roots])


def log_tree_weight(weight, roots=None):
    return Elimination.of(edges_into(weight, roots))[1]


def edge_probabilities(weight, roots=None):
    """Probability that u is the parent of v, or linked with it, and that a vertex is a root."""
    found = Elimination.of(edges_into(weight, roots))[0].edge_probabilities
    edge, root = found[:, :-1].T, found[:, -1]
    return (edge, root) if roots is not None else (edge + edge.T, np.zeros(len(edge)))


def expected_directed(n, seed, spread):
    weight, roots, _ = log_weights(n, seed, spread)
    forests = naive.directed_log_weights(weight.tolist(), roots.tolist())
    edge, root = np.zeros((n, n)), np.zeros(n)
    for parents, probability in naive.probabilities(forests).items():
        for v, u in enumerate(parents):
            if u < 0:
                root[v] += probability
            else:
                edge[u, v] += probability
    return np.exp(weight), np.exp(roots), naive.log_sum(forests.values()), edge, root


# Up to weights of 1e-130 to 1e130: of the Laplacian itself nothing would be left but noise.
@pytest.mark.parametrize("spread", [0.0, 1.0, 14.0, 300.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_directed_forests_are_those_that_enumeration_finds(n, spread):
    weight, roots, total, edge, root = expected_directed(n, n, spread)
    assert log_tree_weight(weight, roots) == pytest.approx(total, rel=1e-13, abs=1e-13)
    found_edge, found_root = edge_probabilities(weight, roots)
    np.testing.assert_allclose(found_edge, edge, atol=1e-13)
    np.testing.assert_allclose(found_root, root, atol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1.0, 14.0, 300.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_undirected_trees_are_those_that_enumeration_finds(n, spread):
    weight = log_weights(n, n, spread)[2]
    trees = naive.undirected_log_weights(weight.tolist())
    assert len(trees) == max(1, n ** (n - 2))
    expected = np.zeros((n, n))
    for edges, probability in naive.probabilities(trees).items():
        for u, v in edges:
            expected[u, v] += probability
            expected[v, u] += probability
    total = naive.log_sum(trees.values())
    assert log_tree_weight(np.exp(weight)) == pytest.approx(total, rel=1e-13, abs=1e-13)
    edge, root = edge_probabilities(np.exp(weight))
    np.testing.assert_allclose(edge, expected, atol=1e-13)
    assert not root.any()


@pytest.mark.parametrize("n", [2, 7, 40])
def test_the_log_weight_of_all_trees_is_the_log_determinant_of_the_laplacian(n):
    log_weight, log_root, _ = log_weights(n, 0)
    weight, roots = np.exp(log_weight), np.exp(log_root)
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=0) + roots) - weight
    assert log_tree_weight(weight, roots) == pytest.approx(np.linalg.slogdet(laplacian)[1])
    inverse = np.linalg.inv(laplacian)
    edge, root = edge_probabilities(weight, roots)
    np.testing.assert_allclose(edge, weight * (inverse.diagonal() - inverse.T), atol=1e-13)
    np.testing.assert_allclose(root, roots * inverse.diagonal(), atol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 20.0, 300.0])
def test_every_vertex_of_a_large_graph_has_one_parent_or_is_a_root(spread):
    log_weight, log_root, log_symmetric = log_weights(60, 0, spread)
    edge, root = edge_probabilities(np.exp(log_weight), np.exp(log_root))
    np.testing.assert_allclose(edge.sum(axis=0) + root, 1.0, atol=1e-12)
    edge, _ = edge_probabilities(np.exp(log_symmetric))
    assert edge.sum() / 2 == pytest.approx(59, abs=1e-10)


def test_edges_of_weight_zero_are_in_no_tree():
    path = np.diag(np.full(4, 2.0), 1)
    edge, _ = edge_probabilities(path + path.T)
    np.testing.assert_array_equal(edge, (path + path.T) / 2)
    edge, root = edge_probabilities(path, [3.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(edge, path / 2)
    np.testing.assert_array_equal(root, [1, 0, 0, 0, 0])
    assert log_tree_weight(path, [3.0, 0.0, 0.0, 0.0, 0.0]) == pytest.approx(math.log(48))


@pytest.mark.parametrize("roots", [None, np.zeros(3), [1.0, 0.0, 0.0]])
def test_a_graph_without_spanning_trees_is_refused(roots):
    weight = np.zeros((3, 3))
    weight[0, 1] = weight[1, 0] = 1.0
    with pytest.raises(ValueError, match="found none to vertex [012]"):
        Elimination.of(edges_into(weight, roots))


@pytest.mark.parametrize(
    ("weight", "roots", "found"),
    [
        (-np.ones((2, 2)), np.ones(2), "-1.0"),
        (np.full((2, 2), np.nan), np.ones(2), "nan"),
        (np.ones((2, 2)), [1.0, np.inf], "inf"),
    ],
)
def test_what_is_no_weight_is_refused(weight, roots, found):
    with pytest.raises(ValueError, match=f"must be finite and not negative; found {found}"):
        Elimination.of(edges_into(weight, roots))
