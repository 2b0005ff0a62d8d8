"""Count tables and their scores, against their definitions."""

import math

import numpy as np
import pytest

from skpc.counting.tables import BayesDirichlet, Bic, CountTables
from tests.naive import cutset


@pytest.fixture
def tables():
    """A root of three states and a variable of two whose parent has three."""
    return CountTables(
        ptr=np.array([0, 2, 5]),
        parent_state=np.array([0, 0, 0, 2, 2]),
        state=np.array([0, 2, 1, 0, 1]),
        weight=np.array([2.0, 6.0, 1.5, 0.25, 4.0]),
        n_parent_states=np.array([1, 3]),
        n_states=np.array([3, 2]),
    )


def test_probabilities_are_smoothed_counts_divided_by_their_row(tables):
    root, below = tables.log_probabilities(np.array([1.0, 0.5]))
    np.testing.assert_allclose(np.exp(root), [[3 / 11, 1 / 11, 7 / 11]])
    expected = [[0.5 / 2.5, 2 / 2.5], [0.5, 0.5], [0.75 / 5.25, 4.5 / 5.25]]
    np.testing.assert_allclose(np.exp(below), expected)


def test_a_row_of_k_states_has_k_minus_one_parameters(tables):
    assert tables.n_parameters == 2 + 3


def test_states_alone_make_a_table_of_one_row():
    tables = CountTables.from_states(np.array([1.0, 0.0, 2.0]))
    (row,) = tables.log_probabilities(np.array([1.0]))
    np.testing.assert_allclose(np.exp(row), [[2 / 6, 1 / 6, 3 / 6]])
    assert tables.n_parameters == 2


def random_tables(rng):
    """Two tables, some of whose cells are empty, flat and as lists."""
    dense = [np.round(rng.gamma(0.5, 4.0, shape), 2) for shape in ((1, 3), (3, 4))]
    cells = [np.nonzero(table) for table in dense]
    tables = CountTables(
        ptr=np.cumsum([0, *(len(row) for row, _ in cells)]),
        parent_state=np.concatenate([row for row, _ in cells]),
        state=np.concatenate([state for _, state in cells]),
        weight=np.concatenate([table[cell] for table, cell in zip(dense, cells)]),
        n_parent_states=np.array([1, 3]),
        n_states=np.array([3, 4]),
    )
    return tables, [table.tolist() for table in dense]


def test_bayes_dirichlet_predicts_a_coin_toss_by_toss():
    coin = CountTables.from_states(np.array([2.0, 1.0]))
    expected = math.log(1 / 2) + math.log(1.5 / 2) + math.log(0.5 / 3)
    assert BayesDirichlet(ess=1.0).of_tables(coin) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_scores_of_tables_equal_the_naive_ones(seed):
    tables, dense = random_tables(np.random.default_rng(seed))
    expected = sum(cutset.bd(table, 0.7 / len(table)) for table in dense)
    assert BayesDirichlet(0.7).of_tables(tables) == pytest.approx(expected, abs=1e-10)
    expected = sum(cutset.bic(table, 0.2, 50.0) for table in dense)
    assert Bic(0.2, 50.0).of_tables(tables) == pytest.approx(expected, abs=1e-10)


def test_a_cut_divides_the_equivalent_sample_size_among_its_branches():
    assert BayesDirichlet(0.6).after_cut(3) == BayesDirichlet(0.6 / 3)
    assert Bic(0.01, 10.0).after_cut(3) == Bic(0.01, 10.0)


def test_pseudo_counts_of_many_sizes_are_those_of_each():
    sizes = np.array([1, 2, 3]), np.array([4, 2, 2])
    for score in (BayesDirichlet(0.5), Bic(0.5, 10.0)):
        each = [float(score.pseudo_count(int(a), int(b))) for a, b in zip(*sizes)]
        assert score.pseudo_count(*sizes).tolist() == each
