import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from skpc.counting.chow_liu import binary_spanning_tree, maximum_spanning_tree
from skpc.counting.mutual_information import UNITS_PER_NAT
from tests.naive import chow_liu


def prim(weight):
    parent = np.empty(len(weight), np.int64)
    maximum_spanning_tree(weight, parent)
    return parent.tolist()


def edges_of(parent):
    return {(min(v, p), max(v, p)) for v, p in enumerate(parent) if p >= 0}


def binary_tree(codes, pseudo_count):
    """Call the kernel on all columns of a binary array; return it all."""
    n, m = codes.shape
    pairs = (codes.T.astype(np.int64) @ codes).astype(np.uint32)
    ones = pairs.diagonal().copy()

    def plogp(x):
        return np.rint(x * np.log(x) * UNITS_PER_NAT).astype(np.int64)

    sides = np.array([n - ones.astype(float), ones]) + 2 * pseudo_count
    margin = plogp(sides).sum(axis=0) - plogp(n + 4 * pseudo_count) // 2
    parent = np.empty(m, np.int64)
    row_sums = np.empty((2, m), np.int64)
    table = plogp(np.arange(n + 1) + pseudo_count)
    columns = np.arange(m, dtype=np.uint32)
    binary_spanning_tree(pairs, ones, n, columns, table, margin, parent, row_sums)
    return parent.tolist(), row_sums


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
    assert prim(np.zeros((3, 3), np.int64)) == [-1, 0, 0]
    codes = np.zeros((10, 4), np.int64)
    assert binary_tree(codes, 0.1)[0] == [-1, 0, 0, 0]


@pytest.mark.parametrize("pseudo_count", [0.025, 1.0])
@pytest.mark.parametrize("m", [1, 2, 9])
def test_the_binary_tree_equals_the_naive_one(m, pseudo_count):
    rng = np.random.default_rng(m)
    hidden = rng.random((300, 1))
    codes = (hidden + rng.random((300, m)) > rng.uniform(0.6, 1.6, m)).astype(np.int64)
    rows = [(row, 1.0) for row in codes.tolist()]

    def table(i, j):
        return chow_liu.pair_table(rows, i, j, [2] * m)

    def weight(pair):
        return chow_liu.mutual_information(chow_liu.smoothed(table(*pair), pseudo_count))

    parent, row_sums = binary_tree(codes, pseudo_count)
    assert edges_of(parent) == chow_liu.spanning_edges(list(range(m)), weight)
    for v in range(m):
        for state in range(2):
            cells = [c + pseudo_count for u in range(m) if u != v for c in table(v, u)[state]]
            expected = sum(c * np.log(c) for c in cells)
            assert row_sums[state, v] / UNITS_PER_NAT == pytest.approx(expected, abs=1e-5)
