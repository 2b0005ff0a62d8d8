"""Rows held out, and cells removed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from skpc.domain import Domain
from skpc.pooling.folds import given_splits, make_folds, observed_fraction, remove_cells


def state(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def test_folds_ask_their_rows_at_each_rate_and_learn_from_the_others():
    rows = np.arange(60.0).reshape(20, 3)
    folds = make_folds(rows, np.ones(20), np.zeros(20, int), 4, (0.0, 0.5), state())
    assert len(folds) == 4
    for fold in folds:
        assert_array_equal(np.flatnonzero(fold.train_weight == 0.0), np.sort(fold.test_index[:5]))
        assert_array_equal(fold.test_index[:5], fold.test_index[5:])
        assert_array_equal(fold.test_weight, 0.5)
        complete, incomplete = np.split(fold.test_rows, 2)
        assert_array_equal(complete, rows[fold.test_index[:5]])
        assert np.isnan(incomplete).any()
        observed = ~np.isnan(incomplete)
        assert_array_equal(incomplete[observed], complete[observed])


def test_no_class_is_held_out_as_a_whole():
    code = np.array([0] * 23 + [1] * 3 + [2] + [3] * 2)
    weight = np.ones(len(code))
    weight[5], weight[-1] = 2.0, 7.5
    folds = make_folds(np.ones((29, 2)), weight, code, 5, (0.0,), state())
    for fold in folds:
        assert (np.bincount(code, fold.train_weight) > 0.0).all()
    held = sum(np.bincount(fold.test_index, fold.test_weight, 29) for fold in folds)
    assert_allclose(held[code != 2], weight[code != 2])
    assert held[code == 2] == 0.0


def test_one_row_cannot_be_held_out_and_of_many_rows_one_part_is():
    assert make_folds(np.ones((1, 2)), np.ones(1), np.zeros(1, int), 5, (0.0,), state()) == []
    rows = np.arange(12_000.0)[:, np.newaxis]
    (fold,) = make_folds(rows, np.ones(12_000), np.zeros(12_000, int), 5, (0.0,), state())
    assert len(fold.test_index) == 2_400


@pytest.mark.parametrize("cv", [KFold(2), [([3, 4], [0, 1, 2]), ([0, 1, 2], [3, 4])]])
def test_given_folds_are_weights_of_the_distinct_rows(cv):
    X, weight = np.zeros((5, 1)), np.array([1.0, 2.0, 0.0, 1.0, 4.0])
    distinct = np.array([0, 1, 1, 0])  # of the rows with weight
    first, second = given_splits(cv, X, np.zeros(5), weight, distinct, False)
    assert_array_equal(first, [[4.0, 1.0], [1.0, 2.0]])
    assert_array_equal(second, [[1.0, 2.0], [4.0, 1.0]])
    assert given_splits(3, X, np.zeros(5), weight, distinct, False) == 3


def test_removed_cells_are_the_wanted_share_and_columns_that_nobody_sees_do_not_count():
    rows = np.ones((4000, 3))
    assert np.isnan(remove_cells(rows, 0.3, state())).mean() == pytest.approx(0.3, abs=0.02)
    with pytest.warns(UserWarning, match="no value"):
        domain = Domain.fit(np.array([[1.0, np.nan], [2.0, np.nan], [0.5, np.nan]]))
    fraction = observed_fraction(np.array([[1.0, 0.0], [np.nan, 0.0]]), domain)
    assert_array_equal(fraction, [1.0, 0.0])
