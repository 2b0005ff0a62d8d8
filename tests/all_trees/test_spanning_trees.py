"""Weights of all spanning trees, and random ones, against enumerations of all trees."""

from collections import Counter

import numpy as np
import pytest

from skpc.all_trees.determinants import expected_edges
from skpc.all_trees.spanning_trees import draw_trees, eliminate
from tests.naive import spanning_trees as naive

N_DRAWS = 100_000


def log_weights(n, seed, spread=1.0):
    """Random logs of directed weights, of weights of roots, and of symmetric weights."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(-spread, spread, (n, n))
    return weight, rng.uniform(-spread, spread, n), (weight + weight.T) / 2


def edges_into(weight, roots=None):
    """Weights into each vertex; undirected trees hang from the first vertex."""
    weight = np.array(weight, dtype=float)
    np.fill_diagonal(weight, 0.0)
    if roots is None:
        weight[:, 0], roots = 0.0, np.arange(len(weight)) == 0
    return np.column_stack([weight.T, roots])


def log_tree_weight(weight, roots=None):
    return eliminate(edges_into(weight, roots))[1]


def edge_probabilities(weight, roots=None):
    """Probability that u is the parent of v, or linked with it, and that a vertex is a root."""
    into = edges_into(weight, roots)
    factor = np.vstack([into, np.zeros_like(into[0])])
    expected = expected_edges(factor, np.arange(len(factor))[np.newaxis], np.ones(1), False)[1]
    edge, root = expected[:-1, :-1].T, expected[:-1, -1]
    return (edge, root) if roots is not None else (edge + edge.T, np.zeros(len(edge)))


# Up to weights of 1e-130 to 1e130: of the Laplacian itself nothing would be left but noise.
@pytest.mark.parametrize("spread", [0.0, 1.0, 14.0, 300.0])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_the_weight_of_all_trees_is_that_of_an_enumeration(n, spread):
    weight, roots, symmetric = log_weights(n, n, spread)
    forests = naive.directed_log_weights(weight.tolist(), roots.tolist())
    total = naive.log_sum(forests.values())
    assert log_tree_weight(np.exp(weight), np.exp(roots)) == pytest.approx(total, rel=1e-13)
    trees = naive.undirected_log_weights(symmetric.tolist())
    assert len(trees) == max(1, n ** (n - 2))
    total = naive.log_sum(trees.values())
    assert log_tree_weight(np.exp(symmetric)) == pytest.approx(total, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("n", [2, 7, 40])
def test_the_log_weight_of_all_trees_is_the_log_determinant_of_the_laplacian(n):
    log_weight, log_root, _ = log_weights(n, 0)
    weight, roots = np.exp(log_weight), np.exp(log_root)
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=0) + roots) - weight
    assert log_tree_weight(weight, roots) == pytest.approx(np.linalg.slogdet(laplacian)[1])


@pytest.mark.parametrize("roots", [None, np.zeros(3), [1.0, 0.0, 0.0]])
def test_a_graph_without_spanning_trees_is_refused(roots):
    weight = np.zeros((3, 3))
    weight[0, 1] = weight[1, 0] = 1.0
    with pytest.raises(ValueError, match="found none to one of them"):
        draw_trees(edges_into(weight, roots), 1, np.uint64(0))


def draw(weight, root_weight=None, n_trees=1, seed=0):
    return draw_trees(edges_into(weight, root_weight), n_trees, np.uint64(seed))[0]


def assert_frequencies(found, expected, n_draws):
    """Six standard deviations of each count, and room for the skew of small ones."""
    assert set(found) <= set(expected)
    for key, probability in expected.items():
        error = abs(found.get(key, 0) - n_draws * probability)
        assert error <= 6 * np.sqrt(n_draws * probability) + 6 * (probability > 0), key


@pytest.mark.parametrize(("n", "spread"), [(1, 1), (3, 3), (4, 4), (5, 2)])
def test_directed_forests_come_as_often_as_enumeration_says(n, spread):
    log_weight, log_root, _ = log_weights(n, 10 + n, spread)
    expected = naive.probabilities(naive.directed_log_weights(log_weight, log_root))
    parents = draw(np.exp(log_weight), np.exp(log_root), N_DRAWS, seed=n)
    assert_frequencies(Counter(map(tuple, parents.tolist())), expected, N_DRAWS)


@pytest.mark.parametrize(("n", "spread"), [(1, 1), (4, 4), (6, 2)])
def test_undirected_trees_come_as_often_as_enumeration_says(n, spread):
    log_weight = log_weights(n, 20 + n, spread)[2]
    expected = naive.probabilities(naive.undirected_log_weights(log_weight))
    parents = draw(np.exp(log_weight), None, N_DRAWS, seed=n)
    found = Counter(naive.edges_of(tree) for tree in parents.tolist())
    assert_frequencies(found, expected, N_DRAWS)


@pytest.mark.parametrize("spread", [0.5, 14.0])
@pytest.mark.parametrize("directed", [True, False])
def test_edges_of_large_trees_come_as_often_as_their_probabilities(directed, spread):
    n, n_draws = 40, 20_000
    log_weight, log_root, log_symmetric = log_weights(n, 3, spread)
    graph = (np.exp(log_weight), np.exp(log_root)) if directed else (np.exp(log_symmetric),)
    edge, root = edge_probabilities(*graph)
    parents = draw(*graph, n_trees=n_draws, seed=1)
    assert all(naive.is_forest(tree) for tree in parents[:200].tolist())
    trees, children = np.nonzero(parents >= 0)
    found = np.zeros((n, n))
    np.add.at(found, (parents[trees, children], children), 1.0)
    if directed:
        found_root = dict(enumerate((parents == -1).sum(axis=0).tolist()))
        assert_frequencies(found_root, dict(enumerate(root.tolist())), n_draws)
    else:
        assert ((parents == -1).sum(axis=1) == 1).all()
        found += found.T
    pairs = dict(np.ndenumerate(edge))
    assert_frequencies(dict(np.ndenumerate(found)), pairs, n_draws)


def test_each_tree_has_a_stream_of_its_own():
    log_weight, log_root, _ = log_weights(12, 0)
    many = draw(np.exp(log_weight), np.exp(log_root), 50, seed=4)
    few = draw(np.exp(log_weight), np.exp(log_root), 20, seed=4)
    np.testing.assert_array_equal(many[:20], few)
    other = draw(np.exp(log_weight), np.exp(log_root), 50, seed=5)
    assert (many != other).any()


def test_edges_of_weight_zero_are_never_drawn():
    rng = np.random.default_rng(0)
    weight = np.exp(rng.uniform(-30, 30, (30, 30))) * (rng.random((30, 30)) < 0.2)
    root_weight = np.zeros(30)
    root_weight[[0, 7]] = [1e-12, 1.0]
    for parents in draw(weight, root_weight, 1000, seed=0):
        assert naive.is_forest(parents.tolist())
        assert set(np.flatnonzero(parents == -1)) <= {0, 7}
        inner = np.flatnonzero(parents >= 0)
        assert (weight[parents[inner], inner] > 0).all()


def test_a_pair_that_holds_fast_does_not_trap_the_sampler():
    weight = np.ones((50, 50))
    weight[3, 4] = weight[4, 3] = 1e200
    parents = draw(weight, np.ones(50), n_trees=2000)
    assert ((parents[:, 3] == 4) | (parents[:, 4] == 3)).all()
    assert ((parents[:, 3] == 4) & (parents[:, 4] == 3)).sum() == 0


def test_no_trees_are_drawn_where_none_are_asked_for():
    assert draw(np.ones((3, 3)), n_trees=0).shape == (0, 3)
