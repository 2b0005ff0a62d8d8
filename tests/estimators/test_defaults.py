"""Defaults as they are constructed, and settings that take other paths: scikit-learn's checks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    ExpectedPredictor,
    ExtraCutsets,
    GenerativeForest,
    HiddenChowLiuTree,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from skpc.synthesis import RuledDensity, WithGaps
from tests.estimators.cheap import EVERY, NETWORK
from tests.scikit_checks import parametrize_with_checks

pytestmark = pytest.mark.slow

SETTINGS = [
    CutsetNetworkBD(criterion="bic"),
    CutsetNetworkBD(param_ess=1.0, max_depth=1, n_bins=4),
    NETWORK,
    SoftLearnSPN(assignment="hard", n_refine=0, random_state=0),
    SoftLearnSPN(clusterer="em", n_clusters=3, significance=0.01, random_state=0),
    TableMixture(n_components=4, random_state=0),
    HiddenChowLiuTree(n_hidden=4, n_bins=4, random_state=0),
    ExtraCutsets(5, max_features=0.5, bootstrap=True, param_ess=10.0, random_state=0),
    MixtureOfAllTrees(orientation="undirected", n_components=2, max_iter=20, random_state=0),
    MixtureOfAllTrees(solver="lbfgs", early_stopping=False, max_iter=20, random_state=0),
    CircuitImputer(strategy="mpe", add_indicator=True),
    CircuitImputer(CutsetNetworkBD(n_components=2), strategy="sample"),
    DensityClassifier(SoftLearnSPN(random_state=0), joint=False, classifiers=None),
    DensityClassifier(CutsetNetworkBD(), joint=True, classifiers=None),
    DensityRegressor(CutsetNetworkBD(), regressors=None),
    GenerativeForest(5, leaves="class", bootstrap=False, random_state=0),
    ExpectedKernelSVR(SoftLearnSPN(n_refine=5, random_state=0)),
    ExpectedKernelSVC(NETWORK, calibration="temperature", random_state=0),
    KernelEPOperator(noise_variance="evidence", prior_variance=100.0, random_state=0),
    LogisticEPClassifier(schedule="serial", fit_intercept=False),
]
#: What has no default: a predictor, a density, and its rules.
REQUIRED: dict[type, tuple] = {
    ExpectedPredictor: (Ridge(),),
    RuledDensity: (TableMixture(), []),
    WithGaps: (TableMixture(),),
}
DEFAULTS = [kind(*REQUIRED.get(kind, ())) for kind in dict.fromkeys(map(type, EVERY.values()))]


@parametrize_with_checks([*DEFAULTS, *SETTINGS])
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def test_the_default_pool_of_classes_has_two_densities_and_no_member_beats_it():
    X, y = load_iris(return_X_y=True)
    model = DensityClassifier(random_state=0).fit(X, y)
    densities = ["mixture joint", "hidden joint"]
    assert model.member_names_ == [*densities, "forest", "boosting", "logistic"]
    assert model.log_loss_ < model.member_log_losses_.min() + 0.005
    assert_allclose(model.predict_proba(np.full((1, 4), np.nan)), 1 / 3)
    assert set(model.densities_) <= set(densities)
    assert_array_equal(model.mixture_weights_[2:], 0.0)
    assert_array_equal(model.score_samples(np.full((1, 4), np.nan)), 0.0)
    two = DensityClassifier(cv=2, classifiers=None, random_state=0).fit(X[:100], y[:100])
    assert two.member_names_ == densities


@pytest.mark.parametrize(("few", "member"), [(150, "mixture"), (140, "soft")])
def test_the_default_pool_of_numbers_has_a_mixture_for_few_rows_and_a_network_for_many(
    monkeypatch, few, member
):
    X, _ = load_iris(return_X_y=True)
    monkeypatch.setattr("skpc.estimators.density_regressor.FEW_ROWS", few)
    model = DensityRegressor(cv=2, random_state=0).fit(X[:, :3], X[:, 3])
    assert model.member_names_ == ["hidden", member, "boosting", "ridge"]
    assert model.score(X[:, :3], X[:, 3]) > 0.9
