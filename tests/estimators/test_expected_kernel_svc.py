"""Support vector classification under missing features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skpc import CutsetNetworkBD, ExpectedKernelSVC, SoftLearnSPN
from skpc.queries import log_likelihood

NETWORK = CutsetNetworkBD(structured=True, random_state=0)


def with_missing_cells(X: np.ndarray, proportion: float = 0.3) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(X.shape) < proportion, np.nan, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_complete_rows_equal_scikit_learn(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes][:, :2], y[y < n_classes]
    model = ExpectedKernelSVC(CutsetNetworkBD(structured=True), C=5.0, tol=1e-9).fit(X, y)
    plain = SVC(C=5.0, tol=1e-9, break_ties=n_classes > 2)
    plain = make_pipeline(StandardScaler(), plain).fit(X, y)
    assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-6)
    assert_array_equal(model.predict(X), plain.predict(X))
    assert model.dual_coef_.shape[0] == n_classes * (n_classes - 1) // 2


def test_margins_of_incomplete_rows_are_means_over_all_completions():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 200))
    X = np.column_stack([a, np.where(rng.random(200) < 0.7, a, b)]).astype(float)
    density = clone(NETWORK).set_params(categorical_features=[0, 1])
    model = ExpectedKernelSVC(density).fit(X, (a + b > 2).astype(int))
    states = np.array([[0.0, k] for k in range(3)] + [[1.0, k] for k in range(3)])
    for known in (0.0, 1.0):
        rows = states[states[:, 0] == known]
        weight = np.exp(log_likelihood(model.density_.circuit_, rows))
        truth = np.average(model.decision_function(rows), weights=weight)
        assert model.decision_function([[known, np.nan]])[0] == pytest.approx(truth, abs=1e-10)


def test_missing_features_leave_most_flowers_in_their_species():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for density in (None, SoftLearnSPN(random_state=0)):
        model = ExpectedKernelSVC(density).fit(X, names)
        assert model.score(with_missing_cells(X), names) > 0.85
        assert set(model.predict(with_missing_cells(X))) == set(names)


def test_training_rows_may_have_missing_cells():
    X, y = load_iris(return_X_y=True)
    model = ExpectedKernelSVC(NETWORK, random_state=0).fit(with_missing_cells(X, 0.2), y)
    assert np.isnan(model.support_vectors_).any()
    assert model.score(X, y) > 0.85


def test_a_single_class_is_refused():
    X, _ = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="two or more classes, got the one class 'a'"):
        ExpectedKernelSVC(NETWORK).fit(X, ["a"] * len(X))
