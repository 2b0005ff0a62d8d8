import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc._threads import threads
from skpc.all_trees import determinants
from skpc.all_trees.determinants import expected_edges, log_tree_weights
from tests.naive.spanning_trees import directed_log_weights, log_sum, undirected_log_weights


def random_factors(n, n_states, symmetric, seed):
    """Weights between the states of n vertices and a root, and states of a few rows."""
    rng = np.random.default_rng(seed)
    factor = np.exp(rng.normal(size=(n_states * (n + 1),) * 2))
    index = n_states * np.arange(n + 1) + rng.integers(0, n_states, (11, n + 1))
    return (factor + factor.T if symmetric else factor), index


def enumerated(factor, states, symmetric):
    """Log weight of all trees of a row, and the probability of each edge (child, parent)."""
    log_into = np.log(factor[np.ix_(states, states)])
    n = len(log_into) - 1
    probability = np.zeros((n + 1, n + 1))
    if symmetric:
        trees = undirected_log_weights(log_into)
        edges = {tree: [(max(edge), min(edge)) for edge in tree] for tree in trees}
    else:
        trees = directed_log_weights(log_into[:n, :n].T, log_into[:n, n])
        edges = {tree: [(v, n if u < 0 else u) for v, u in enumerate(tree)] for tree in trees}
    log_total = log_sum(trees.values())
    for tree, log_weight in trees.items():
        for edge in edges[tree]:
            probability[edge] += np.exp(log_weight - log_total)
    return log_total, probability


def work_is_worth_threads(monkeypatch):
    monkeypatch.setattr(determinants, "_HELD", 1)
    monkeypatch.setattr(determinants, "_ENTRIES", 1.0)


def all_are_wide(monkeypatch):
    monkeypatch.setattr(determinants, "_WIDEST", 0)
    monkeypatch.setattr(determinants, "_WIDE_PANEL", 2)


@pytest.fixture(params=["side by side", "one by one", "side by side in threads"])
def way(request, monkeypatch):
    if request.param == "one by one":
        all_are_wide(monkeypatch)
    if "in threads" in request.param:
        work_is_worth_threads(monkeypatch)
    with threads(2 if "in threads" in request.param else None):
        yield


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_weights_and_edges_are_those_of_an_enumeration_of_all_trees(n, symmetric):
    factor, index = random_factors(n, 3, symmetric, seed=n)
    weight = np.linspace(0.5, 2.0, len(index))
    log_weight, expected = expected_edges(factor, index, weight, symmetric)
    truth = np.zeros_like(expected)
    for row, states in enumerate(index):
        log_total, probability = enumerated(factor, states, symmetric)
        assert log_weight[row] == pytest.approx(log_total, abs=1e-12)
        truth[np.ix_(states, states)] += weight[row] * probability
    assert_allclose(expected, truth, atol=1e-12)
    assert_allclose(log_tree_weights(factor, index, symmetric), log_weight, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n", [12, 21, 40, 55])
def test_larger_weights_are_determinants(n, symmetric):
    factor, index = random_factors(n, 2, symmetric, seed=n)
    found = log_tree_weights(factor, index, symmetric)
    for row, states in enumerate(index):
        into = factor[np.ix_(states[:-1], states)]
        np.fill_diagonal(into, 0.0)
        laplacian = np.diag(into.sum(axis=1)) - into[:, :-1]
        assert found[row] == pytest.approx(np.linalg.slogdet(laplacian)[1], abs=1e-10)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_vertex_but_the_root_has_one_parent(symmetric):
    factor, index = random_factors(23, 2, symmetric, seed=0)
    _, expected = expected_edges(factor, index, np.ones(len(index)), symmetric)
    assert expected.sum() == pytest.approx(23 * len(index))
    if not symmetric:
        into = expected.reshape(24, 2, 48).sum(axis=(1, 2))
        assert_allclose(into, np.append(np.full(23, len(index)), 0.0), atol=1e-9)


def two_tied_pairs(ratio):
    """Two pairs of vertices that are tied together more closely than to the rest and the root."""
    into = np.full((5, 5), ratio**-0.5)
    into[[0, 1, 2, 3], [1, 0, 3, 2]] = ratio**0.5
    return into


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_laplacian_that_is_singular_to_rounding_costs_no_accuracy(symmetric):
    into = two_tied_pairs(1e40)
    found, expected = expected_edges(into, np.arange(5)[np.newaxis], np.ones(1), symmetric)
    # All trees have both ties. Seen as one vertex each, the pairs have two edges to the root and
    # four between them, which makes 2 * 2 + 2 * 4 + 2 * 4 trees.
    assert found[0] == pytest.approx(np.log(20.0), abs=1e-12)
    assert np.all((expected >= 0.0) & (expected <= 1.0))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
def test_edge_probabilities_stand_weights_that_differ_by_ten_orders_of_magnitude(symmetric):
    into = two_tied_pairs(1e10)
    _, expected = expected_edges(into, np.arange(5)[np.newaxis], np.ones(1), symmetric)
    assert expected[1, 0] + expected[0, 1] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("symmetric", [False, True])
def test_vertices_out_of_reach_give_a_finite_number(symmetric):
    into = np.zeros((3, 3))
    found, expected = expected_edges(into, np.arange(3)[np.newaxis], np.ones(1), symmetric)
    assert found[0] < -1000
    assert np.all(np.isfinite(expected))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_threads_change_no_bit(symmetric, wide, monkeypatch):
    factor, index = random_factors(21, 2, symmetric, seed=3)
    index, weight = np.repeat(index, 3, axis=0), np.linspace(0.5, 2.0, 33)
    if wide:
        all_are_wide(monkeypatch)
    alone = expected_edges(factor, index, weight, symmetric)
    forward = log_tree_weights(factor, index, symmetric)
    work_is_worth_threads(monkeypatch)
    with threads(2):
        together = expected_edges(factor, index, weight, symmetric)
        assert np.array_equal(log_tree_weights(factor, index, symmetric), forward)
    assert np.array_equal(together[0], alone[0])
    assert np.array_equal(together[1], alone[1])


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_one_by_one_and_side_by_side_have_the_same_edges(symmetric, monkeypatch):
    factor, index = random_factors(61, 3, symmetric, seed=4)
    weight = np.linspace(0.5, 2.0, len(index))
    side_by_side = expected_edges(factor, index, weight, symmetric)
    all_are_wide(monkeypatch)
    one_by_one = expected_edges(factor, index, weight, symmetric)
    assert_allclose(one_by_one[0], side_by_side[0], rtol=1e-13)
    assert_allclose(one_by_one[1], side_by_side[1], rtol=1e-10, atol=1e-14)
