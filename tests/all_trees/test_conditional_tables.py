"""Factors of edges from logits, and their derivatives, against plain sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.all_trees import conditional_tables
from skpc.all_trees.conditional_tables import edge_factors, table_gradient

PTR = np.array([0, 2, 5, 6])
PARENT = np.array([0, 0, 1, 1, 1, 2, 3])


@pytest.mark.parametrize("entries", [1.0, 4e6])
def test_factors_and_derivatives_are_those_of_plain_sums(entries, monkeypatch):
    monkeypatch.setattr(conditional_tables, "_ENTRIES", entries)
    rng = np.random.default_rng(0)
    logit, edge = rng.normal(scale=20.0, size=(6, 7)), rng.random((6, 7))
    weight = rng.random((3, 4))
    weight[1, 0] = 0.0
    edge[2:5, :2] = 0.0
    factor, gradient = np.empty((6, 7)), np.empty((6, 7))
    edge_factors(logit, PTR, PARENT, weight, factor)
    of_parent = table_gradient(factor, PTR, PARENT, weight, edge, gradient)
    for v in range(3):
        block = slice(PTR[v], PTR[v + 1])
        for a, u in enumerate(PARENT):
            table = np.exp(logit[block, a]) / np.exp(logit[block, a]).sum()
            total = edge[block, a].sum()
            assert_allclose(factor[block, a], weight[v, u] * table, rtol=1e-10)
            assert_allclose(gradient[block, a], edge[block, a] - total * table, atol=1e-10)
            assert of_parent[v, a] == pytest.approx(total, abs=1e-12)
