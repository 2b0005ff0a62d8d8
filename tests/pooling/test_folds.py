"""Rows held out, cells removed, models trained on masked copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from skpc.domain import Domain
from skpc.estimators._masked_copies import fit_on_copies
from skpc.pooling.folds import deal, given_splits, hold_out_folds, remove_cells, share_seen


def state(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def test_every_row_is_held_out_once_and_classes_are_spread_evenly():
    group = np.repeat([0, 1, 2], [10, 3, 37])
    held = deal(np.ones(50), group, 5, state())
    assert_array_equal(held.sum(axis=0), 1.0)
    assert_array_equal(np.sort(held, axis=0)[:-1], 0.0)
    for label, n_rows in ((0, 10), (1, 3), (2, 37)):
        of_folds = held[:, group == label].sum(axis=1)
        assert of_folds.sum() == n_rows
        assert of_folds.max() - of_folds.min() <= 1


def test_a_row_of_weight_n_is_dealt_as_n_rows():
    weight = np.array([1.0, 12.0, 3.0, 2.0])
    held = deal(weight, np.zeros(4, int), 5, state())
    assert_array_equal(held.sum(axis=0), weight)
    assert set(held[:, 1]) == {2.0, 3.0}
    assert_array_equal(held.sum(axis=1).max() - held.sum(axis=1).min(), 1.0)


@pytest.mark.parametrize("scale", [1e-9, 0.013, 1 / 3])
def test_weights_that_are_shares_are_dealt_like_their_multiples(scale):
    held = deal(np.full(20, scale), np.zeros(20, int), 4, state())
    assert_allclose(held.sum(axis=1), 5 * scale)
    assert_allclose(held.max(axis=0), scale)


def test_folds_ask_their_rows_at_each_rate_and_learn_from_the_others():
    rows = np.arange(60.0).reshape(20, 3)
    folds = hold_out_folds(rows, np.ones(20), np.zeros(20, int), 4, (0.0, 0.5), state())
    assert len(folds) == 4
    for fold in folds:
        assert_array_equal(np.flatnonzero(fold.kept == 0.0), np.sort(fold.rows[:5]))
        assert_array_equal(fold.rows[:5], fold.rows[5:])
        assert_array_equal(fold.weight, 0.5)
        complete, incomplete = np.split(fold.asked, 2)
        assert_array_equal(complete, rows[fold.rows[:5]])
        assert np.isnan(incomplete).any()
        seen = ~np.isnan(incomplete)
        assert_array_equal(incomplete[seen], complete[seen])


def test_no_class_is_held_out_as_a_whole():
    code = np.array([0] * 23 + [1] * 3 + [2] + [3] * 2)
    weight = np.ones(len(code))
    weight[5], weight[-1] = 2.0, 7.5
    folds = hold_out_folds(np.ones((29, 2)), weight, code, 5, (0.0,), state())
    for fold in folds:
        assert (np.bincount(code, fold.kept) > 0.0).all()
    held = sum(np.bincount(fold.rows, fold.weight, 29) for fold in folds)
    assert_allclose(held[code != 2], weight[code != 2])
    assert held[code == 2] == 0.0


def test_one_row_cannot_be_held_out_and_of_many_rows_one_part_is():
    assert hold_out_folds(np.ones((1, 2)), np.ones(1), np.zeros(1, int), 5, (0.0,), state()) == []
    rows = np.arange(12_000.0)[:, np.newaxis]
    (fold,) = hold_out_folds(rows, np.ones(12_000), np.zeros(12_000, int), 5, (0.0,), state())
    assert len(fold.rows) == 2_400


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
    found = share_seen(np.array([[1.0, 0.0], [np.nan, 0.0]]), domain)
    assert_array_equal(found, [1.0, 0.0])


def told_apart(n_rows: int = 300):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, n_rows)
    rows = label[:, np.newaxis] + 0.7 * rng.normal(size=(n_rows, 3))
    return rows, label.astype(float), Domain.fit(rows)


def test_boosting_on_masked_copies_keeps_its_head_when_cells_are_missing():
    rows, label, domain = told_apart()
    ask, truth = told_apart(600)[0][300:], told_apart(600)[1][300:]
    ask = remove_cells(ask, 0.5, state(1))

    def loss(rates):
        model, *_ = fit_on_copies("classifier", domain, rows, label, np.ones(300), rates, state())
        return -np.log(model.predict_proba(ask)[np.arange(300), truth.astype(int)]).mean()

    assert loss((0.0, 0.3, 0.6)) < loss((0.0,))


def test_boosting_of_numbers_follows_the_target():
    rows, _, domain = told_apart()
    target = rows[:, 0] + 5.0
    model, *_ = fit_on_copies("regressor", domain, rows, target, np.ones(300), (0.0, 0.5), state())
    assert model.score(rows, target) > 0.9
    assert model.predict(np.full((1, 3), np.nan)) == pytest.approx(target.mean(), abs=0.3)


def test_a_class_of_one_row_is_never_held_out():
    rows, label, domain = told_apart(40)
    label[:2] = 2.0, 3.0
    for seed in range(10):
        model, *_ = fit_on_copies(
            "classifier", domain, rows, label, np.ones(40), (0.0,), state(seed)
        )
        assert_array_equal(model.classes_, [0.0, 1.0, 2.0, 3.0])


def test_any_model_that_takes_missing_cells_is_cloned_and_others_say_what_they_lack():
    rows, label, domain = told_apart()
    tree = DecisionTreeClassifier(max_depth=2)
    model, *_ = fit_on_copies(tree, domain, rows, label, np.ones(300), (0.0, 0.3), state())
    assert model.score(rows, label) > 0.7
    assert not hasattr(tree, "tree_")
    with pytest.raises(ValueError, match="NaN"):
        fit_on_copies(GaussianNB(), domain, rows, label, np.ones(300), (0.0, 0.3), state())
