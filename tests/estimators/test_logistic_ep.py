"""LogisticEPClassifier: probabilities, operators that are shared, and what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpc import KernelEPOperator, LogisticEPClassifier
from skpc.messages import JustInTimeOperator, LogisticEP, LogisticFactor, QuadratureOracle


def table(n_rows=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = rng.random(n_rows) < expit(X @ [2.0, -1.0, 0.0] + 0.5)
    return X, np.where(y, "yes", "no")


def test_probabilities_are_averages_over_the_posterior():
    X, y = table()
    model = LogisticEPClassifier().fit(X, y)
    rng = np.random.default_rng(0)
    weights = rng.multivariate_normal(model.posterior_.mean, model.posterior_.covariance, 200_000)
    design = np.column_stack([X[:5], np.ones(5)])
    assert_allclose(
        model.predict_proba(X[:5])[:, 1], expit(design @ weights.T).mean(axis=1), atol=5e-3
    )
    assert_array_equal(model.classes_, ["no", "yes"])
    assert_array_equal(model.predict(X) == "yes", X @ model.coef_[0] + model.intercept_ > 0)


def test_log_odds_are_those_of_the_probabilities_and_finite_far_out():
    X, y = table()
    model = LogisticEPClassifier().fit(X, y)
    prob = model.predict_proba(X)
    assert_allclose(model.decision_function(X), np.log(prob[:, 1] / prob[:, 0]), rtol=1e-6)
    far = model.decision_function(X * 1e6)
    assert np.isfinite(far).all()
    assert_array_equal(far > 0, X @ model.coef_[0] > 0)


def test_without_an_intercept_a_row_of_zeros_is_undecided():
    X, y = table()
    model = LogisticEPClassifier(fit_intercept=False).fit(X, y)
    assert_allclose(model.predict_proba(np.zeros((1, 3))), 0.5)
    exact = QuadratureOracle(LogisticFactor(), 1)
    assert_allclose(model.posterior_.mean, LogisticEP(exact).run(X, y == "yes").mean)


def test_it_predicts_real_labels():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticEPClassifier())
    assert cross_val_score(model, X, y, cv=3).mean() > 0.96
    assert cross_val_score(model, X, y, cv=3, scoring="neg_log_loss").mean() > -0.1


def test_an_operator_learned_in_one_fit_serves_the_next():
    operator = JustInTimeOperator(
        KernelEPOperator(
            input_distributions=("beta", "normal"), noise_variance=1e-6, random_state=0
        ),
        QuadratureOracle(LogisticFactor(), 1),
        threshold=-12.0,
        n_initial=100,
    )
    calls = []
    for seed in range(3):
        X, y = table(seed=seed)
        before = operator.n_oracle_calls_
        model = LogisticEPClassifier(operator=operator).fit(X, y)
        calls.append(operator.n_oracle_calls_ - before)
        exact = LogisticEPClassifier().fit(X, y)
        assert exact.posterior_.kl(model.posterior_) < 0.02
    assert calls[0] >= 100
    assert calls[2] < 30
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.repeat(["a"], 150), "found one class, 'a'"),
        (np.zeros(150), "found one class, 0.0"),
        (np.arange(150) % 3, "Only binary classification is supported"),
    ],
)
def test_other_than_two_classes_are_refused(labels, message):
    X, y = table()
    model = LogisticEPClassifier().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels)
    assert_array_equal(model.predict_proba(X), before)


def test_an_operator_that_is_none_is_refused():
    with pytest.raises(ValueError, match="operator"):
        LogisticEPClassifier(operator="exact").fit(*table())


def test_columns_far_from_zero_are_learned_from_too():
    X, y = table()
    for centre in (0.0, 5.0, 30.0):
        assert LogisticEPClassifier().fit(X + centre, y).score(X + centre, y) > 0.8


def test_a_fit_that_has_not_converged_says_so():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="not converged: the last of 10 sweeps .* weight"):
        LogisticEPClassifier().fit(X * 1e6, y)


def test_numbers_too_large_to_square_are_refused_by_name():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = LogisticEPClassifier().fit(frame, y)
    for call in (model.predict, lambda huge: model.fit(huge, y)):
        with pytest.raises(ValueError, match="magnitudes up to 1e.70.*column 'a' reaches"):
            call(frame.assign(a=1e80))
