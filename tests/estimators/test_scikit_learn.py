"""What estimators owe to the tools of scikit-learn around them."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from tests.estimators.cheap import EVERY, TABLES

WEIGHTED = {
    name: one for name, one in TABLES.items() if "imputer" not in name and name != "cell errors"
}
weighted = pytest.mark.parametrize("kind", WEIGHTED)


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes, and weights that leave out a half of each class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(float)
    weight = rng.permutation(np.arange(80) % 2).astype(float)
    return X, y, weight


@weighted
def test_weights_are_routed_through_a_pipeline(kind):
    estimator = WEIGHTED[kind]
    X, y, weight = table()
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            clone(estimator).set_fit_request(sample_weight=True),
        )
        routed.fit(X, y, sample_weight=weight)
    alone = clone(estimator).fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    ask = "score_samples" if hasattr(alone, "score_samples") else "predict"
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(getattr(routed[-1], ask)(scaled), getattr(alone, ask)(scaled))


@weighted
def test_weights_are_routed_through_a_grid_search(kind):
    estimator = WEIGHTED[kind]
    X, y, weight = table()
    with config_context(enable_metadata_routing=True):
        model = clone(estimator).set_fit_request(sample_weight=True)
        if hasattr(model, "set_score_request"):
            model.set_score_request(sample_weight=False)
        routed = cross_val_score(model, X, y, cv=2, params={"sample_weight": weight})
        unweighted = cross_val_score(clone(estimator), X, y, cv=2)
    assert np.isfinite(routed).all()
    assert not np.array_equal(routed, unweighted)


@pytest.mark.parametrize("kind", EVERY)
def test_estimators_have_a_page_of_html(kind):
    estimator, (X, y, _) = EVERY[kind], table()
    name = type(estimator).__name__
    assert name in estimator_html_repr(estimator)
    fitted = estimator_html_repr(clone(estimator).fit(X, y))
    assert name in fitted
    assert "fitted" in fitted


def test_parameters_of_nested_densities_are_searched():
    X, y, _ = table()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), clone(EVERY["classifier"])),
        {"densityclassifier__density__ess": [0.1, 1.0]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_.keys() == {"densityclassifier__density__ess"}
