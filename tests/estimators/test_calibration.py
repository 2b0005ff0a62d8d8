"""Probabilities from margins on held-out rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import log_loss

from skpc import CutsetNetworkBD, ExpectedKernelSVC
from skpc.estimators.expected_kernel_svc import Sigmoid, Temperature
from tests.naive import calibration as naive

both = pytest.mark.parametrize("calibration", ["sigmoid", "temperature"])
# One network, where the choice of a density is not what is asked.
NETWORK = CutsetNetworkBD(structured=True, random_state=0)


def evidence(n_classes: int, n_rows: int = 80):
    """Margins that tell the class now and then, classes, and weights."""
    rng = np.random.default_rng(n_classes)
    code = rng.integers(0, n_classes, n_rows)
    found = 1.5 * (code[:, np.newaxis] == np.arange(n_classes)) + rng.normal(size=(n_rows, 1))
    found = found + rng.normal(size=found.shape)
    return found, code, rng.integers(1, 4, n_rows).astype(float)


def test_sigmoids_are_those_of_platt():
    for n_classes in (2, 3):
        found, code, weight = evidence(n_classes)
        margin = found[:, 1] - found[:, 0]
        columns = [margin] if n_classes == 2 else found.T
        truth = []
        for c, column in zip(range(n_classes - len(columns), n_classes), columns):
            a, b = naive.platt(column, code == c, weight)
            truth.append(1.0 / (1.0 + np.exp(a * column + b)))
        truth = np.column_stack(truth if n_classes == 3 else [1.0 - truth[0], truth[0]])
        truth = truth / truth.sum(axis=1, keepdims=True)
        if n_classes == 2:
            found = np.column_stack([-margin, margin]) / 2
        proba = Sigmoid.fit(found, code, weight).probabilities(found)
        assert_allclose(proba, truth, atol=1e-4)


def test_temperatures_have_the_least_log_loss():
    found, code, weight = evidence(3)
    three = Temperature.fit(found, code, weight)
    truth = naive.inverse_temperature(found, code, weight, 3)
    assert three.inverse == pytest.approx(truth, rel=0.01)
    margin = found[:, 1:2] - found[:, :1]
    logits = np.hstack([-margin, margin]) / 2
    two = Temperature.fit(logits, code % 2, weight)
    truth = naive.inverse_temperature(logits, code % 2, weight, 2)
    assert two.inverse == pytest.approx(truth, rel=0.01)
    odds = np.exp(two.inverse * margin[:, 0])
    assert_allclose(two.probabilities(logits)[:, 1], odds / (1.0 + odds))


def test_a_machine_without_mistakes_keeps_some_doubt():
    code = np.repeat([0, 1], 20)
    margin = np.where(code == 1, 1.0, -1.0)[:, np.newaxis] * [-0.5, 0.5]
    proba = Temperature.fit(margin, code, np.ones(40)).probabilities(margin)
    assert_allclose(proba[20:, 1], 21 / 22, atol=1e-4)


def with_missing_cells(X, proportion: float = 0.3, seed: int = 1):
    return np.where(np.random.default_rng(seed).random(X.shape) < proportion, np.nan, X)


@both
@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_probabilities_tell_more_than_the_shares_of_the_classes(data, calibration):
    X, y = data(return_X_y=True)
    train = np.random.default_rng(0).random(len(X)) < 0.6
    model = ExpectedKernelSVC(NETWORK, calibration=calibration, random_state=0).fit(
        X[train], y[train]
    )
    shares = np.bincount(y[train]) / train.sum()
    for proportion, part in ((0.0, 0.25), (0.3, 0.5), (0.6, 0.75)):
        proba = model.predict_proba(with_missing_cells(X[~train], proportion))
        assert_allclose(proba.sum(axis=1), 1.0)
        worst = log_loss(y[~train], np.tile(shares, (len(proba), 1)))
        assert log_loss(y[~train], proba) < part * worst


@both
def test_probabilities_follow_the_margin_of_two_classes(calibration):
    X, y = load_wine(return_X_y=True)
    X, y = X[y > 0], np.array(["a", "b", "c"])[y[y > 0]]
    rows = with_missing_cells(X, 0.5)
    model = ExpectedKernelSVC(NETWORK, calibration=calibration, random_state=0).fit(X, y)
    order = np.argsort(model.decision_function(rows))
    assert (np.diff(model.predict_proba(rows)[order, 1]) >= 0.0).all()
    if calibration == "temperature":
        likely = model.classes_[model.predict_proba(rows).argmax(axis=1)]
        assert_array_equal(likely, model.predict(rows))


def test_probabilities_need_a_calibration():
    X, y = load_iris(return_X_y=True)
    model = ExpectedKernelSVC(NETWORK, random_state=0).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as caught:
        model.predict_proba(X)
    assert "got calibration=None; fit with calibration='sigmoid'" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="'calibration' parameter"):
        ExpectedKernelSVC(NETWORK, calibration="isotonic").fit(X, y)


@both
def test_a_calibration_leaves_decisions_alone_and_a_seed_repeats_it(calibration):
    X, y = load_iris(return_X_y=True)
    plain = ExpectedKernelSVC(NETWORK, random_state=0).fit(X, y)
    a, b = (
        ExpectedKernelSVC(NETWORK, calibration=calibration, random_state=0).fit(X, y)
        for _ in range(2)
    )
    assert_array_equal(a.decision_function(X), plain.decision_function(X))
    assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@both
def test_small_classes_keep_a_probability(calibration):
    X, y = load_iris(return_X_y=True)
    some = np.r_[0:50, 50:53, 100]
    model = ExpectedKernelSVC(NETWORK, calibration=calibration, random_state=0).fit(
        X[some], y[some]
    )
    proba = model.predict_proba(with_missing_cells(X))
    assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba > 0.0).all()
    with pytest.raises(ValueError, match="two rows or more of some class, got one row of each of"):
        ExpectedKernelSVC(NETWORK, calibration=calibration).fit(X[::50], y[::50])


def test_columns_that_few_rows_show_do_not_disturb_the_calibration():
    X, y = load_iris(return_X_y=True)
    X[:, 0] = np.where(np.arange(150) % 75 < 1, X[:, 0], np.nan)
    for seed in range(3):
        model = ExpectedKernelSVC(NETWORK, calibration="sigmoid", random_state=seed).fit(
            X[::2], y[::2]
        )
        assert np.isfinite(model.predict_proba(X)).all()


@both
def test_weight_two_is_the_row_twice(calibration):
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    model = ExpectedKernelSVC(NETWORK, calibration=calibration, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    proba = model.fit(X, y, sample_weight=weight).predict_proba(X)
    model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(proba, model.predict_proba(X), atol=1e-9)
