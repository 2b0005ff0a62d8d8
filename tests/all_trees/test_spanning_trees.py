from collections import Counter

import numpy as np
import pytest

from skpc._random import start_streams
from skpc.all_trees.laplacian import scale_rows
from skpc.all_trees.spanning_trees import Elimination, draw_trees, split_trees, walk_trees
from tests.all_trees.test_laplacian import edge_probabilities, edges_into, log_weights
from tests.naive import spanning_trees as naive

N_DRAWS = 100_000


def draw(algorithm, weight, root_weight, n_trees, seed):
    graph, _ = Elimination.of(edges_into(weight, root_weight))
    streams, parents = start_streams(seed, n_trees), np.empty((n_trees, len(weight)), np.int64)
    algorithm(graph.into if algorithm is walk_trees else graph, streams, parents)
    return parents


def draw_by_the_faster(weight, root_weight=None, n_trees=1, seed=0):
    return draw_trees(edges_into(weight, root_weight), n_trees, np.uint64(seed))[0]


def assert_frequencies(found, expected, n_draws):
    """Six standard deviations of each count, and room for the skew of small ones."""
    assert set(found) <= set(expected)
    for key, probability in expected.items():
        error = abs(found.get(key, 0) - n_draws * probability)
        assert error <= 6 * np.sqrt(n_draws * probability) + 6 * (probability > 0), key


@pytest.mark.parametrize("algorithm", [walk_trees, split_trees])
@pytest.mark.parametrize(("n", "spread"), [(1, 1), (2, 1), (3, 3), (4, 1), (4, 4), (5, 2)])
def test_directed_forests_come_as_often_as_enumeration_says(algorithm, n, spread):
    log_weight, log_root, _ = log_weights(n, 10 + n, spread)
    expected = naive.probabilities(naive.directed_log_weights(log_weight, log_root))
    parents = draw(algorithm, np.exp(log_weight), np.exp(log_root), N_DRAWS, seed=n)
    assert_frequencies(Counter(map(tuple, parents.tolist())), expected, N_DRAWS)


@pytest.mark.parametrize("algorithm", [walk_trees, split_trees])
@pytest.mark.parametrize(("n", "spread"), [(1, 1), (2, 1), (4, 4), (5, 1), (6, 2)])
def test_undirected_trees_come_as_often_as_enumeration_says(algorithm, n, spread):
    log_weight = log_weights(n, 20 + n, spread)[2]
    expected = naive.probabilities(naive.undirected_log_weights(log_weight))
    parents = draw(algorithm, np.exp(log_weight), None, N_DRAWS, seed=n)
    found = Counter(naive.edges_of(tree) for tree in parents.tolist())
    assert_frequencies(found, expected, N_DRAWS)


@pytest.mark.parametrize("spread", [0.5, 14.0, 300.0])
@pytest.mark.parametrize("directed", [True, False])
def test_edges_of_large_trees_come_as_often_as_their_probabilities(directed, spread):
    n, n_draws = 40, 20_000
    log_weight, log_root, log_symmetric = log_weights(n, 3, spread)
    graph = (np.exp(log_weight), np.exp(log_root)) if directed else (np.exp(log_symmetric),)
    edge, root = edge_probabilities(*graph)
    parents = draw_by_the_faster(*graph, n_trees=n_draws, seed=1)
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


@pytest.mark.parametrize("algorithm", [walk_trees, split_trees])
def test_each_tree_has_a_stream_of_its_own(algorithm):
    log_weight, log_root, _ = log_weights(12, 0)
    many = draw(algorithm, np.exp(log_weight), np.exp(log_root), 50, seed=4)
    few = draw(algorithm, np.exp(log_weight), np.exp(log_root), 10, seed=4)
    np.testing.assert_array_equal(many[:10], few)
    other = draw(algorithm, np.exp(log_weight), np.exp(log_root), 50, seed=5)
    assert (many != other).any()


@pytest.mark.parametrize("algorithm", [walk_trees, split_trees])
def test_edges_of_weight_zero_are_never_drawn(algorithm):
    rng = np.random.default_rng(0)
    weight = np.exp(rng.uniform(-30, 30, (30, 30))) * (rng.random((30, 30)) < 0.2)
    root_weight = np.zeros(30)
    root_weight[[0, 7]] = [1e-12, 1.0]
    if algorithm is walk_trees:
        # Walks need mild weights to come to an end.
        weight = weight ** (1 / 30)
    for parents in draw(algorithm, weight, root_weight, 1000, seed=0):
        assert naive.is_forest(parents.tolist())
        assert set(np.flatnonzero(parents == -1)) <= {0, 7}
        inner = np.flatnonzero(parents >= 0)
        assert (weight[parents[inner], inner] > 0).all()


def test_a_pair_that_holds_fast_does_not_trap_the_sampler():
    weight = np.ones((50, 50))
    weight[3, 4] = weight[4, 3] = 1e200
    parents = draw_by_the_faster(weight, np.ones(50), n_trees=2000)
    assert ((parents[:, 3] == 4) | (parents[:, 4] == 3)).all()
    assert ((parents[:, 3] == 4) & (parents[:, 4] == 3)).sum() == 0


def test_expected_steps_are_those_of_the_inverse_laplacian():
    log_weight, log_root, _ = log_weights(20, 0)
    into = edges_into(np.exp(log_weight), np.exp(log_root))
    scale_rows(into)
    laplacian = np.diag(into.sum(axis=1)) - into[:, :-1].T
    expected = into.sum(axis=1) @ np.linalg.inv(laplacian).diagonal()
    assert Elimination.of(into)[0].expected_steps == pytest.approx(expected)


def test_no_trees_are_drawn_where_none_are_asked_for():
    assert draw_by_the_faster(np.ones((3, 3)), n_trees=0).shape == (0, 3)
