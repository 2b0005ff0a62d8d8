"""Weights of pools are those of members that have never seen the rows they are weighed by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from skpc import DensityClassifier, DensityRegressor
from skpc.estimators import _pools
from skpc.pooling.pool import learn_pool
from tests.naive.pool import honest_pool

CLASSES = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}


def some_rows(load, n_rows: int, rate: float, n_columns: int | None = None):
    """Some rows of a table, with this share of the cells removed, and their targets."""
    X, y = load(return_X_y=True)
    X = X[:, :n_columns]
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:n_rows]
    return np.where(rng.random((len(rows), X.shape[1])) < rate, np.nan, X[rows]), y[rows]


def learned_and_honest(monkeypatch, model, X, y):
    """The pool that an estimator learns, and the one that is learned without each fold's rows."""
    calls = []

    def watched(data, members, weight, folds, n_jobs, random_state, verbose):
        state = np.random.RandomState()
        state.set_state(random_state.get_state())
        # The first of the seeds of each member.
        seeds = state.randint(2**31, size=(len(members), 3))[:, 0].tolist()
        calls.append((data, members, folds, seeds))
        return learn_pool(data, members, weight, folds, n_jobs, random_state, verbose)

    monkeypatch.setattr(_pools, "learn_pool", watched)
    model.fit(X, y)
    (call,) = calls
    return model, honest_pool(*call)


# The default members, on a small table; those of other tables and sizes are slow, and below.
def test_classifiers_weigh_members_that_do_not_know_the_rows(monkeypatch):
    X, y = some_rows(load_iris, 45, 0.1, 3)
    model, honest = learned_and_honest(monkeypatch, DensityClassifier(random_state=0), X, y)
    assert_allclose(model.weights_, honest.pool.weights, atol=0.02)
    assert_allclose(model.mixture_weights_, honest.mixture, atol=0.02)
    assert model.log_loss_ == pytest.approx(honest.log_loss, abs=1e-3)


def test_regressors_weigh_members_that_do_not_know_the_rows(monkeypatch):
    X, y = some_rows(load_diabetes, 50, 0.1, 3)
    model, honest = learned_and_honest(monkeypatch, DensityRegressor(random_state=0), X, y)
    assert_allclose(model.weights_, honest.weights, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
@pytest.mark.parametrize(("n_rows", "rate"), [(60, 0.0), (150, 0.3), (440, 0.0)])
def test_weights_are_honest_in_tables_of_many_sizes(monkeypatch, name, n_rows, rate):
    X, y = some_rows(CLASSES.get(name, load_diabetes), n_rows, rate)
    kind = DensityClassifier if name in CLASSES else DensityRegressor
    model, honest = learned_and_honest(monkeypatch, kind(random_state=0), X, y)
    weights = honest.pool.weights if name in CLASSES else honest.weights
    assert_allclose(model.weights_, weights, atol=0.02)
