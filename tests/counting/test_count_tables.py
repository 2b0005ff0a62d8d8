import numpy as np
import pytest

from skpc.counting import CountTables


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
    tables = CountTables.of_states(np.array([1.0, 0.0, 2.0]))
    (row,) = tables.log_probabilities(np.array([1.0]))
    np.testing.assert_allclose(np.exp(row), [[2 / 6, 1 / 6, 3 / 6]])
    assert tables.n_parameters == 2
