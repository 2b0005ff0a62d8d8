"""Models trained on masked copies, and linear models of completed rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from skpc.domain import Declared, Domain
from skpc.pooling.folds import remove_cells
from skpc.pooling.masking import LinearOnCompletions, MaskingEnsemble

#: Seeds of three draws.
SEEDS = [0, 1, 2]


def state(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def two_classes(n_rows: int = 300):
    """Numbers that tell two classes apart."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, n_rows)
    rows = label[:, np.newaxis] + 0.7 * rng.normal(size=(n_rows, 3))
    return rows, label.astype(float), Domain.fit(rows)


def fitted(kind, rates, n_rows: int = 300) -> MaskingEnsemble:
    rows, label, domain = two_classes(n_rows)
    ones = np.ones(n_rows)
    return MaskingEnsemble.fit(kind, domain, rows, label, ones, rates, SEEDS)


@pytest.mark.parametrize("kind", ["classifier", "logistic"])
def test_classifiers_trained_on_masked_copies_keep_their_head_when_cells_are_missing(kind):
    rows, truth, _ = two_classes(600)
    test_rows = remove_cells(rows[300:], 0.5, state(1))
    loss = [
        log_loss(truth[300:], fitted(kind, rates).predict(test_rows, "predict_proba"))
        for rates in ((0.0, 0.3, 0.6), (0.0,))
    ]
    assert loss[0] < loss[1] + (0.02 if kind == "logistic" else 0.0)
    assert loss[0] < 0.45


@pytest.mark.parametrize("kind", ["regressor", "ridge"])
def test_numbers_follow_the_target(kind):
    rows, _, domain = two_classes()
    target = rows[:, 0] + 5.0
    ensemble = MaskingEnsemble.fit(kind, domain, rows, target, np.ones(300), (0.0, 0.5), SEEDS)
    assert np.mean((ensemble.predict(rows) - target) ** 2) < 0.1 * target.var()
    assert ensemble.predict(np.full((1, 3), np.nan)) == pytest.approx(target.mean(), abs=0.3)


def test_answers_are_means_over_the_draws_of_the_cells_to_remove():
    rows, _, _ = two_classes(40)
    ensemble = fitted("classifier", (0.0, 0.5), 40)
    assert len(ensemble.models) == 3
    mean = np.mean([model.predict_proba(rows) for model in ensemble.models], axis=0)
    assert_allclose(ensemble.predict(rows, "predict_proba"), mean)


def test_a_class_of_one_row_is_never_held_out():
    rows, label, domain = two_classes(40)
    label[:2] = 2.0, 3.0
    for seed in range(5):
        training_data = domain, rows, label, np.ones(40), (0.0,), [seed]
        first = MaskingEnsemble.fit("classifier", *training_data).models[0]
        assert_array_equal(first.classes_, [0.0, 1.0, 2.0, 3.0])


def test_any_model_that_takes_missing_cells_is_cloned_and_others_say_what_they_lack():
    rows, label, _ = two_classes()
    tree = DecisionTreeClassifier(max_depth=2)
    assert fitted(tree, (0.0, 0.3)).models[0].score(rows, label) > 0.7
    assert not hasattr(tree, "tree_")
    with pytest.raises(ValueError, match="NaN"):
        fitted(GaussianNB(), (0.0, 0.3))


def table(n_rows: int = 200):
    """A category, two numbers that depend on each other, a constant; a class, a number."""
    rng = np.random.default_rng(0)
    kind, size = rng.integers(0, 3, n_rows), rng.normal(size=n_rows)
    rows = np.column_stack([kind, size, size + 0.3 * rng.normal(size=n_rows), np.ones(n_rows)])
    value = kind + 2.0 * size + 0.1 * rng.normal(size=n_rows)
    domain = Domain.fit(rows, Declared(categorical_features=[0], margins="plain"))
    return domain.encode(rows), (value > 1.0).astype(float), value, domain


def features(rows: np.ndarray) -> np.ndarray:
    indicators = rows[:, :1] == np.arange(3)
    columns = np.column_stack([indicators, rows[:, 1:3]]).astype(float)
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def test_complete_rows_are_learned_as_by_scikit_learn():
    rows, label, value, domain = table()
    weight = np.random.default_rng(1).integers(1, 3, len(rows)).astype(float)
    twice = np.repeat(np.arange(len(rows)), weight.astype(int))
    ones, units = np.ones(len(twice)), features(rows[twice])
    logistic, ridge = LogisticRegression(C=2.0), Ridge(alpha=3.0)
    found = LinearOnCompletions(domain, logistic).fit(rows[twice], label[twice], ones)
    truth = logistic.fit(units, label[twice])
    assert_allclose(found.predict_proba(rows[twice]), truth.predict_proba(units), atol=1e-4)
    weighted = LinearOnCompletions(domain, logistic).fit(rows, label, weight)
    assert_allclose(weighted.predict_proba(rows), found.predict_proba(rows), atol=1e-4)
    found = LinearOnCompletions(domain, ridge).fit(rows[twice], value[twice], ones)
    assert_allclose(found.predict(rows[twice]), ridge.fit(units, value[twice]).predict(units))


def test_missing_numbers_count_by_what_the_others_tell():
    rows, _, value, domain = table()
    model = LinearOnCompletions(domain, Ridge()).fit(rows, value, np.ones(len(rows)))
    asked = rows.copy()
    asked[:, 1] = np.nan
    without = np.mean((model.predict(asked) - value) ** 2)
    asked[:, 2] = np.nan
    nothing = np.mean((model.predict(asked) - value) ** 2)
    assert without < 0.4 * nothing
    assert model.predict(np.full((1, 4), np.nan))[0] == pytest.approx(value.mean(), abs=1e-6)


def test_rows_that_are_all_alike_and_numbers_far_away_are_fine():
    rows, label, _, domain = table()
    ones = np.ones(len(rows))
    same = LinearOnCompletions(domain, LogisticRegression()).fit(
        np.tile(rows[:1], (len(rows), 1)), label, ones
    )
    assert_allclose(same.predict_proba(rows)[:, 1], label.mean(), atol=1e-3)
    model = LinearOnCompletions(domain, LogisticRegression()).fit(rows, label, ones)
    far = np.array([[0.0, 1e300, -1e300, 1.0], [1.0, np.nan, np.nan, np.nan]])
    assert np.isfinite(model.predict_proba(far)).all()
    assert_array_equal(model.classes_, [0.0, 1.0])


def test_leaves_are_more_until_held_out_rows_gain_nothing():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2))
    domain, ones = Domain.fit(rows), np.ones(600)
    # A sum needs no large trees, a product of signs does.
    leaves = [
        MaskingEnsemble.fit("regressor", domain, rows, target, ones, [0.0], [1]).models[0]
        for target in (rows.sum(axis=1), np.sign(np.prod(np.sin(3.0 * rows), axis=1)))
    ]
    assert leaves[0].max_leaf_nodes < leaves[1].max_leaf_nodes


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
@pytest.mark.filterwarnings("ignore:Some columns have no value")
def test_columns_without_a_value_tell_nothing(kind):
    rows, target, _ = two_classes()
    answers = []
    # Without a value from the start; and with one that the part held out or a mask may take away.
    for values in ([], [3.0]):
        column = np.full(len(rows), np.nan)
        column[: len(values)] = values
        table = np.column_stack([rows, column])
        domain = Domain.fit(table)
        ensemble = MaskingEnsemble.fit(kind, domain, table, target, np.ones(300), (0.0, 0.9), SEEDS)
        method = "predict_proba" if kind == "classifier" else "predict"
        answers.append(ensemble.predict(table, method))
    assert_allclose(*answers, atol=0.05)
