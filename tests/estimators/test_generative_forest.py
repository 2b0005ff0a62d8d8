"""GenerativeForest: a forest that answers with missing cells, and a density of rows and classes."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skpc import GenerativeForest
from tests.estimators.test_density_classifier import mixed, with_missing_cells

CHEAP = GenerativeForest(10, random_state=0)


def fitted(missing=False, **parameters):
    X, y = mixed(300)
    forest = GenerativeForest(10, **({"random_state": 0} | parameters))
    return forest.fit(with_missing_cells(X) if missing else X, y)


def answers(forest, X):
    drawn, y = forest.sample(50, random_state=0)
    return [forest.predict_proba(X), forest.score_samples(X), drawn, y]


def assert_same(one, other):
    for a, b in zip(one, other):
        assert_array_equal(a, b)


def test_missing_cells_are_summed_out_and_a_class_is_known_without_any():
    forest, (X, _) = fitted(), mixed(50, seed=3)
    names = pd.concat([X.assign(name=name) for name in "abc"])
    # Each row with each name has a share of the density that the row has without.
    density = np.exp(forest.score_samples(names)).reshape(3, -1)
    unseen = forest.domain_[0].unseen
    without = np.exp(forest.score_samples(X.assign(name=None)))
    assert_allclose(density.sum(axis=0), without * (1.0 - unseen), rtol=1e-10)
    empty = X[:2].mask(np.ones((2, 3), dtype=bool))
    assert_allclose(forest.score_samples(empty), 0.0, atol=1e-12)
    assert_allclose(forest.predict_proba(empty).sum(axis=1), 1.0)
    assert_allclose(np.exp(forest.predict_log_proba(X)), forest.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_complete_rows_are_predicted_as_well_as_by_a_random_forest_and_others_better(load):
    X, y = load(return_X_y=True)
    X, rows, y, truth = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    forest = GenerativeForest(random_state=0).fit(X, y)
    other = RandomForestClassifier(200, random_state=0).fit(X, y)
    assert log_loss(truth, forest.predict_proba(rows)) < log_loss(truth, other.predict_proba(rows))
    hidden = np.random.default_rng(0).random(rows.shape) < 0.5
    filled = np.where(hidden, X.mean(axis=0), rows)
    incomplete = np.where(hidden, np.nan, rows)
    loss = log_loss(truth, forest.predict_proba(incomplete))
    assert loss < 0.8 * log_loss(truth, other.predict_proba(filled))


def test_rows_unlike_the_training_rows_have_a_low_density():
    forest, (X, _) = fitted(), mixed(100, seed=3)
    odd = X.assign(size=-3.0 * X["size"] - 20.0)
    assert np.median(forest.score_samples(odd)) < np.median(forest.score_samples(X)) - 5.0


def test_draws_come_back_as_the_table_was_and_look_like_its_rows():
    X, y = mixed(600)
    forest = GenerativeForest(20, random_state=0).fit(X, y)
    drawn, classes = forest.sample(5000, random_state=1)
    assert drawn.dtypes.equals(X.dtypes)
    assert set(drawn["name"]) <= {"a", "b", "c"}
    assert_allclose(
        (classes[:, np.newaxis] == ["low", "mid", "top"]).mean(axis=0), 1 / 3, atol=0.06
    )
    for name in ("low", "mid", "top"):
        of_class = drawn["size"][classes == name]
        assert of_class.mean() == pytest.approx(X["size"][y == name].mean(), abs=0.25)
    again = forest.sample(5000, random_state=1)
    assert drawn.equals(again[0])
    assert_array_equal(classes, again[1])
    nothing, none = forest.sample(0)
    assert nothing.shape == (0, 3)
    assert none.shape == (0,)


@pytest.mark.parametrize("missing", [False, True])
def test_the_same_bits_come_from_one_thread_and_from_two(missing):
    X = with_missing_cells(mixed(100, seed=3)[0])
    one, two = (fitted(missing, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one.n_leaves_ == two.n_leaves_
    assert_same(answers(one, X), answers(two, X))
    many = pd.concat([X] * 500)
    expected = one.predict_proba(many)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(one.predict_proba(many), expected)


def test_weight_two_is_the_row_twice_and_weight_zero_its_absence():
    X, y = mixed(120)
    weight = np.random.default_rng(0).integers(0, 4, 120)
    a = CHEAP.fit(X, y, sample_weight=weight)
    expected = answers(a, X)
    twice = X.loc[np.repeat(X.index, weight)[::-1]].reset_index(drop=True)
    assert_same(answers(CHEAP.fit(twice, np.repeat(y, weight)[::-1]), X), expected)


def test_pickles_and_mapped_files_answer_alike(tmp_path):
    forest, X = fitted(), with_missing_cells(mixed(50, seed=3)[0])
    expected = answers(forest, X)
    assert_same(answers(pickle.loads(pickle.dumps(forest)), X), expected)
    joblib.dump(forest, tmp_path / "forest.joblib")
    assert_same(answers(joblib.load(tmp_path / "forest.joblib", mmap_mode="r"), X), expected)


def test_pandas_and_polars_give_the_same_answers_and_lists_do():
    X, y = mixed(200)
    rows = with_missing_cells(mixed(50, seed=3)[0])
    expected = CHEAP.fit(X, y).predict_proba(rows)
    frame = CHEAP.fit(pl.DataFrame(X.to_dict("list")), y.tolist())
    asked = pl.DataFrame(
        {name: [None if cell != cell else cell for cell in rows[name]] for name in rows}
    )
    assert_array_equal(frame.predict_proba(asked), expected)
    assert isinstance(frame.sample(3, random_state=0)[0], pl.DataFrame)


def test_unknown_categories_are_missing_or_refused():
    X, y = mixed(200)
    other, hidden = X[:5].assign(name="zzz"), X[:5].assign(name=None)
    lenient = CHEAP.fit(X, y)
    with pytest.warns(UserWarning, match="has not seen in 5 of 5 rows, the first 'zzz'"):
        assert_array_equal(lenient.predict_proba(other), lenient.predict_proba(hidden))
    strict = GenerativeForest(3, handle_unknown="error", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="zzz"):
        strict.predict_proba(other)


def test_columns_can_be_declared():
    X, y = np.column_stack([np.tile([2.0, 3.0], 50), np.arange(100.0)]), np.tile([0, 1], 50)
    declared = GenerativeForest(
        3, categorical_features=[0], categories=[[1, 2, 3], None], bounds={1: (0, None)}
    ).fit(X, y)
    assert declared.domain_[0].states.tolist() == [1.0, 2.0, 3.0]
    assert np.all(np.isfinite(declared.score_samples([[1.0, 3.0]])))
    assert declared.sample(500, random_state=0)[0][:, 1].min() >= 0.0
    assert GenerativeForest(3, n_bins=2).fit(X, y).domain_.n_states[1] <= 4


def test_a_single_class_is_predicted_always_and_constant_columns_are_fine():
    X, _ = mixed(60)
    forest = GenerativeForest(3, random_state=0).fit(X, np.ones(60))
    assert_array_equal(forest.predict_proba(X), 1.0)
    assert forest.leaves_ == "all"
    constant = X.assign(size=7.5, other=np.nan)
    with pytest.warns(UserWarning, match="no value"):
        forest = GenerativeForest(3, random_state=0).fit(constant, np.tile([0, 1], 30))
    assert np.all(np.isfinite(forest.score_samples(constant)))


def test_few_rows_and_columns_without_a_value_in_one_class_are_fine():
    two = GenerativeForest(3, random_state=0).fit([[0.0, 1.0], [3.0, 5.0]], ["a", "b"])
    assert_allclose(two.predict_proba([[0.0, np.nan]]).sum(), 1.0)
    X, y = mixed(100)
    X.loc[y == "low", "size"] = np.nan
    forest = GenerativeForest(5, random_state=0).fit(X, y)
    assert np.all(np.isfinite(forest.score_samples(mixed(50, seed=2)[0])))


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"leaves": "some"}, "leaves"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
        ({"max_features": 0.0}, "max_features"),
        ({"n_bins": 0}, "n_bins"),
        ({"bootstrap": "yes"}, "bootstrap"),
    ],
)
def test_wrong_parameters_are_named(parameters, match):
    with pytest.raises(ValueError, match=match):
        GenerativeForest(**parameters).fit(*mixed(20))


def test_given_leaves_sizes_and_all_rows_are_taken():
    X, y = mixed(200)
    forest = GenerativeForest(
        4, leaves="class", min_samples_leaf=30, bootstrap=False, max_features=None, random_state=0
    ).fit(X, y)
    assert (forest.leaves_, forest.min_samples_leaf_) == ("class", 30.0)
    assert forest.n_leaves_ <= 4 * 6
    # Trees that see all rows and columns are one tree.
    again = GenerativeForest(
        1, leaves="class", min_samples_leaf=30, bootstrap=False, max_features=None, random_state=1
    ).fit(X, y)
    assert_allclose(forest.predict_proba(X), again.predict_proba(X), rtol=1e-9)
