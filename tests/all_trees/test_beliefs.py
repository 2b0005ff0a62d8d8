"""Beliefs of missing cells, against messages one by one and sums over all trees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.all_trees.beliefs import belief_propagation
from tests.all_trees.test_importance import random_mixture
from tests.all_trees.test_tree_inference import random_tables, tree_marginals
from tests.naive import beliefs as naive
from tests.naive import spanning_trees

ROWS = {
    (3, 2): [[-1, -1], [2, -1]],
    (2, 5, 3): [[1, -1, -1], [-1, 4, 0]],
    (2, 3, 4, 2, 3): [[-1, 2, -1, 1, 0], [0, -1, -1, -1, 2], [1, 1, 3, 0, -1]] * 4,
}


def believed(trees, codes):
    return belief_propagation(trees, np.array(codes))


@pytest.mark.parametrize("n_states", ROWS)
def test_beliefs_are_those_of_messages_one_by_one(n_states):
    _, _, _, tables, into = random_mixture(n_states, seed=3)
    trees, codes = tables._replace(into=into), ROWS[n_states]
    for found, code in zip(believed(trees, codes), codes):
        expected = np.concatenate(naive.beliefs(tables, into, code))
        assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("n_states", ROWS)
def test_beliefs_are_near_the_sum_over_all_trees(n_states):
    forests, root, given, tables, into = random_mixture(n_states, seed=1)
    codes = ROWS[n_states][:3]
    for found, code in zip(believed(tables._replace(into=into), codes), codes):
        expected = spanning_trees.mixture_marginals(forests, code, root, given)
        assert_allclose(found[:-1], expected, atol=0.08)


def test_in_a_single_tree_the_belief_of_a_cell_among_observed_ones_is_exact():
    _, _, tables = random_tables([2, 3, 5, 2], 5)
    parent, code = [2, -1, 1, 2], [1, 0, -1, 0]
    into = np.zeros((4, 5))
    into[range(4), parent] = 0.7
    found = believed(tables._replace(into=into), [code])[0, :-1]
    assert_allclose(found, tree_marginals(tables, parent, code), atol=1e-10)


def test_beliefs_do_not_depend_on_the_other_rows():
    _, _, _, tables, into = random_mixture((2, 3, 4, 2, 3), seed=3)
    trees, codes = tables._replace(into=into), ROWS[2, 3, 4, 2, 3]
    together = believed(trees, codes)
    for row, code in enumerate(codes):
        assert_array_equal(believed(trees, [code])[0], together[row])
