"""The pool of DensityClassifier: weights, members, and what becomes of them."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from skpc import CutsetNetworkBD, DensityClassifier, SoftLearnSPN
from skpc.pooling.classes import bounded_evidence
from tests.naive.pool import pooled_probabilities

CUTSET = CutsetNetworkBD(random_state=0)
SOFT = SoftLearnSPN(random_state=0)


def with_missing_cells(X: np.ndarray, rate: float, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(X.shape) < rate, np.nan, X)


def test_evidence_is_bounded_and_a_row_impossible_everywhere_tells_nothing():
    log_density = np.array([[-1.0, -2000.0, -3.0], [-np.inf, -np.inf, -np.inf]])
    found = bounded_evidence(log_density, np.array([4.0, 2.0, 0.0]))
    assert_array_equal(found, [[0.0, -300.0, -np.inf], [0.0, 0.0, -np.inf]])


def test_probabilities_follow_from_the_members_weights_and_offsets():
    X, y = load_iris(return_X_y=True)
    asked = with_missing_cells(X, 0.5)
    model = DensityClassifier(CUTSET, joint="auto", classifiers=None, random_state=0).fit(X, y)
    assert model.member_names_ == ["density", "density joint"]
    rows = model.domain_.encode(asked)
    apart = [d.score_samples(rows) for d in model.densities_["density"]]
    # A density of a class is mixed with that of all rows, which weighs as one row of 51.
    of_all = logsumexp(apart, axis=0) - np.log(3.0)
    mixed = [np.logaddexp(np.log(50 / 51) + one, of_all - np.log(51.0)) for one in apart]
    (joint,) = model.densities_["density joint"]
    whole = joint.marginals(np.column_stack([rows, np.full(len(rows), np.nan)]))[-1].probabilities
    alone = joint.score_samples(np.column_stack([np.full((3, 4), np.nan), [0, 1, 2]]))
    for k, (share, found) in enumerate(zip(1 - np.isnan(rows).mean(1), model.predict_proba(asked))):
        odds = [[one[k] for one in mixed], np.log(whole[k]) - alone]
        expected = pooled_probabilities(
            odds, model.weights_, model.offsets_, [1 / 3, 1 / 3, 1 / 3], share
        )
        assert_allclose(found, expected, rtol=1e-7)


def test_the_density_of_the_rows_is_the_mixture_of_those_of_the_members():
    X, y = load_iris(return_X_y=True)
    model = DensityClassifier(
        [("cutset", CUTSET), ("soft", SOFT)], joint=True, classifiers=None, random_state=0
    ).fit(X, y)
    assert model.mixture_weights_.sum() == pytest.approx(1.0)
    rows = np.column_stack([model.domain_.encode(X), np.full(len(X), np.nan)])
    of_members = [model.densities_[name][0].score_samples(rows) for name in model.member_names_]
    expected = logsumexp(np.transpose(of_members), b=model.mixture_weights_, axis=1)
    assert_allclose(model.score_samples(X), expected, atol=1e-3)
    drawn, _ = model.sample(3000, random_state=0)
    assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.15)


class Contrary(DecisionTreeClassifier):
    """A tree that says the opposite of what it has learned."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


def test_members_that_weigh_nothing_are_not_learned_again():
    X, y = load_iris(return_X_y=True)
    model = DensityClassifier(
        CUTSET, joint=True, classifiers=[("contrary", Contrary(max_depth=3))], random_state=0
    ).fit(X, y > 1)
    assert_array_equal(model.weights_[:, 1], 0.0)
    assert model._pool.fitted[1] is None
    assert list(model.densities_) == ["density joint"]


def test_the_pool_is_ahead_of_one_density_on_incomplete_rows_of_correlated_numbers():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    X, asked, y, truth = train_test_split(X, y, train_size=200, random_state=0, stratify=y)
    pool = DensityClassifier([("cutset", CUTSET), ("soft", SOFT)], cv=2, random_state=0).fit(X, y)
    alone = DensityClassifier(CUTSET, joint=False, classifiers=None).fit(X, y)
    asked = with_missing_cells(asked, 0.4)
    loss = log_loss(truth, pool.predict_proba(asked))
    assert loss < log_loss(truth, alone.predict_proba(asked))
    assert loss < 0.2


def test_a_single_density_with_joint_given_makes_no_pool():
    X, y = load_iris(return_X_y=True)
    model = DensityClassifier(CUTSET, joint=False, classifiers=None).fit(X, y)
    assert model.log_loss_ is None
    assert_array_equal(model.weights_, 1.0)
    assert_array_equal(model.offsets_, 0.0)


def test_classes_with_fewer_rows_than_folds_and_of_one_row_are_learned():
    X, y = load_iris(return_X_y=True)
    few = np.concatenate([np.arange(60), [100, 101, 149]])
    y = np.where(few == 149, 3, y[few])
    classifiers = [("tree", DecisionTreeClassifier(max_depth=3, random_state=0))]
    model = DensityClassifier(CUTSET, classifiers=classifiers, random_state=0).fit(X[few], y)
    found = model.predict_proba(with_missing_cells(X[few], 0.3))
    assert found.shape == (63, 4)
    assert (found > 0.0).all()
    assert np.isfinite(model.log_loss_)


def test_results_do_not_depend_on_n_jobs_and_the_seed_repeats_them():
    X, y = load_iris(return_X_y=True)
    classifier = DensityClassifier(
        CUTSET, joint=True, classifiers=["logistic"], cv=2, random_state=0
    )
    first = classifier.fit(X, y).predict_proba(X)
    with parallel_config("threading"):
        again = classifier.set_params(n_jobs=2).fit(X, y).predict_proba(X)
    assert_array_equal(again, first)
    other = classifier.set_params(random_state=1).fit(X, y).predict_proba(X)
    assert not np.array_equal(other, first)


def test_folds_of_scikit_learn_are_taken_too():
    X, y = load_iris(return_X_y=True)
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    classifier = DensityClassifier(CUTSET, classifiers=None, cv=splitter, random_state=0)
    first = classifier.fit(X, y).weights_
    again = classifier.set_params(cv=list(splitter.split(X, y))).fit(X, y).weights_
    assert_allclose(again, first)


def test_any_classifier_that_takes_missing_cells_is_a_member():
    X, y = load_iris(return_X_y=True)
    classifiers = [("tree", DecisionTreeClassifier(max_depth=3, random_state=0)), "logistic"]
    model = DensityClassifier(
        CUTSET, joint=True, classifiers=classifiers, cv=2, random_state=0
    ).fit(X, y)
    assert model.member_names_ == ["density joint", "tree", "logistic"]
    assert model.weights_[:, 1].any()
    assert model.score(X, y) > 0.9


def test_what_is_no_member_is_refused():
    X, y = load_iris(return_X_y=True)
    for classifiers, error, message in [
        (["boosted"], ValueError, "names among .*'boosting', 'logistic'.* got 'boosted'"),
        ([LogisticRegression()], ValueError, "pairs .name, estimator."),
        (DecisionTreeClassifier(), ValueError, "'classifiers' parameter .* must be an array-like"),
        ([("svc", SVC())], TypeError, "classifiers need predict_proba; 'svc'"),
        ([("density joint", DecisionTreeClassifier())], ValueError, "must differ"),
    ]:
        with pytest.raises(error, match=message):
            DensityClassifier(CUTSET, classifiers=classifiers).fit(X, y)
    for density, message in [
        ([], "pairs .name, estimator."),
        ([CUTSET], "pairs .name, estimator."),
        ([("a", CUTSET), ("a", SOFT)], "The names of density must differ"),
        (
            [("a", CUTSET), ("b", SoftLearnSPN(margins="plain"))],
            "margins is 'auto' of 'a' and 'plain' of 'b'",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            DensityClassifier(density).fit(X, y)
    for rates in ((), (0.0, 1.0), (-0.1,)):
        with pytest.raises(ValueError, match="missing_rates must be proportions"):
            DensityClassifier(CUTSET, missing_rates=rates).fit(X, y)


def test_boosting_knows_categories_and_unknown_ones_are_missing():
    rng = np.random.default_rng(0)
    kind = rng.choice(["red", "green", "blue"], 200)
    X = pd.DataFrame({"kind": kind, "size": rng.normal(size=200)})
    y = np.where(kind == "green", "yes", "no")
    model = DensityClassifier(CUTSET, joint=True, cv=2, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    with pytest.warns(UserWarning, match="not seen"):
        unknown = model.predict_proba(X.assign(kind="black"))
    assert_allclose(unknown, model.predict_proba(X.assign(kind=None)))


def test_missing_classes_and_priors_that_do_not_fit_are_refused_before_anything_is_learned():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", None], dtype=object)[y]
    with pytest.raises(ValueError, match="y contains NaN or None in row 100"):
        DensityClassifier(CUTSET).fit(X, names)
    with pytest.raises(ValueError, match="priors needs one probability for each of the 3"):
        DensityClassifier(CUTSET, priors=[0.5, 0.5]).fit(X, y)
