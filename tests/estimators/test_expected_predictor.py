"""Expectations of models over missing cells."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skpc import CutsetNetworkBD, ExpectedPredictor, HiddenChowLiuTree, SoftLearnSPN
from tests.naive.expected import expectation

NETWORK = CutsetNetworkBD(random_state=0)
MODELS = [
    (DecisionTreeClassifier(max_depth=4, random_state=0), "predict_proba"),
    (DecisionTreeRegressor(max_depth=4, random_state=0), "predict"),
    (RandomForestClassifier(5, max_depth=4, random_state=0), "predict_proba"),
    (ExtraTreesClassifier(5, max_depth=4, random_state=0), "predict_proba"),
    (RandomForestRegressor(5, random_state=0), "predict"),
    (GradientBoostingClassifier(n_estimators=4, random_state=0), "decision_function"),
    (GradientBoostingRegressor(n_estimators=4, init="zero", random_state=0), "predict"),
    (HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5), "decision_function"),
    (HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5), "predict"),
    (LinearRegression(), "predict"),
    (LogisticRegression(), "decision_function"),
]


def states(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Strings, and a number of three classes that depends on them."""
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=300)
    b = np.where(rng.random(300) < 0.7, a, rng.integers(3, size=300))
    c = rng.integers(2, size=300)
    d = np.where(rng.random(300) < 0.6, (a + c) % 4, 3)
    X = pd.DataFrame({"a": a, "b": b, "c": c, "d": d}).map("pqrs".__getitem__)
    return X, (a + 2 * c + (b == d)) % 3


def numbers(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A category and two numbers, one of which is rounded."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], 500)
    x = rng.normal(size=500) + 2 * (kind == "a")
    z = (2 * x + rng.normal(size=500)).round()
    X = pd.DataFrame({"kind": kind, "x": x, "z": z})
    return X, x + 2 * (kind == "b") + 0.3 * z**2


def with_holes(X: pd.DataFrame, rate: float = 0.5) -> pd.DataFrame:
    return X.mask(np.random.default_rng(1).random(X.shape) < rate)


@pytest.mark.parametrize(("estimator", "method"), MODELS, ids=lambda one: type(one).__name__)
def test_expectations_are_sums_over_all_completions(estimator, method):
    X, y = states()
    model = ExpectedPredictor(estimator, NETWORK).fit(X, y)
    assert model.is_exact_
    holes = with_holes(X)[:12]
    rows, circuit = model.domain_.encode(holes), model.density_.circuit_

    def answer(row: np.ndarray) -> np.ndarray:
        return getattr(model.estimator_, method)(model._inputs(row[np.newaxis]))[0]

    expected = [expectation(circuit, row, answer) for row in rows]
    np.testing.assert_allclose(getattr(model, method)(holes), expected, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(10, max_leaf_nodes=12, random_state=0),
        GradientBoostingRegressor(n_estimators=20, random_state=0),
        HistGradientBoostingRegressor(max_iter=20),
        Ridge(),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize(
    "density", [NETWORK, SoftLearnSPN(leaves="univariate", random_state=0)], ids=["bins", "normal"]
)
def test_expectations_with_numbers_are_means_of_draws(estimator, density):
    X, y = numbers()
    model = ExpectedPredictor(estimator, density, n_draws=4000, random_state=0).fit(X, y)
    holes = with_holes(X)[:40]
    holes = holes[holes.isna().any(axis=1)]
    mean, sd = model._drawn(model._encode(holes)[1], "predict")
    z = (model.predict(holes) - mean) / np.maximum(sd / np.sqrt(4000), 1e-9)
    assert np.abs(z).max() < 4.5
    assert 0.4 < np.mean(z**2) < 2.0


@pytest.mark.parametrize(("estimator", "method"), MODELS, ids=lambda one: type(one).__name__)
def test_complete_rows_have_the_answer_of_the_model(estimator, method):
    X, y = numbers()
    y = y if method == "predict" else np.digitize(y, [1.0, 3.0])
    model = ExpectedPredictor(estimator, NETWORK, random_state=0).fit(with_holes(X, 0.2), y)
    inputs = model._inputs(model.domain_.encode(X))
    for name in {method, "predict"}:
        mixed = pd.concat([X, with_holes(X)[:3]])
        answer = getattr(model, name)(mixed)[: len(X)]
        np.testing.assert_array_equal(answer, getattr(model.estimator_, name)(inputs))


def test_a_frozen_model_reads_tables():
    X, y = numbers()
    X = X[["x", "z"]]
    forest = RandomForestRegressor(5, max_leaf_nodes=8, random_state=0).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(forest), NETWORK, random_state=0).fit(with_holes(X))
    assert model.is_exact_
    np.testing.assert_array_equal(model.predict(X), forest.predict(X))
    mean, sd = model.set_params(n_draws=4000)._drawn(model._encode(with_holes(X))[1], "predict")
    assert np.abs(model.predict(with_holes(X)) - mean).max() < 5 * sd.max() / np.sqrt(4000)
    linear = LinearRegression().fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(linear), NETWORK).fit(X)
    completed = model.density_.complete(with_holes(X))
    np.testing.assert_allclose(model.predict(with_holes(X)), linear.predict(completed), atol=1.0)


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsRegressor(),
        PoissonRegressor(),
        make_pipeline(SimpleImputer(), Ridge()),
        HistGradientBoostingRegressor(loss="poisson", max_iter=5),
        GradientBoostingRegressor(init=Ridge(), n_estimators=5),
    ],
    ids=lambda one: type(one).__name__,
)
def test_other_models_are_means_of_draws(estimator):
    X, y = numbers()
    X = X[["x", "z"]]
    model = ExpectedPredictor(estimator, NETWORK, random_state=0).fit(with_holes(X, 0.1), y**2)
    assert not model.is_exact_
    mean, sd = model.predict(with_holes(X), return_std=True)
    is_complete = with_holes(X).notna().all(axis=1)
    assert (sd[is_complete] == 0.0).all()
    assert np.isfinite(mean).all()
    np.testing.assert_array_equal(mean, model.predict(with_holes(X)))


def test_effects_do_not_fade_where_training_cells_are_missing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    y = 2 * x + 0.1 * rng.normal(size=4000)
    X = np.where(rng.random(4000) < 0.5, np.nan, x)[:, np.newaxis]
    model = ExpectedPredictor(LinearRegression(), NETWORK, random_state=0).fit(X, y)
    assert abs(model.estimator_.coef_[0] - 2.0) < 0.1


def test_what_cannot_be_is_an_error():
    X, y = numbers()
    with pytest.raises(TypeError, match="needs a method predict"):
        ExpectedPredictor(SimpleImputer(), NETWORK).fit(X, y)
    with pytest.raises(TypeError, match="density"):
        ExpectedPredictor(Ridge(), Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="does not take weights"):
        ExpectedPredictor(KNeighborsRegressor(), NETWORK).fit(X, y, np.ones(len(y)))
    model = ExpectedPredictor(DecisionTreeClassifier(), NETWORK).fit(X, y > 1)
    with pytest.raises(ValueError, match="needs a regressor"):
        model.predict(X, return_std=True)


def test_the_default_density_has_exact_ranges():
    X, y = states()
    model = ExpectedPredictor(DecisionTreeRegressor(max_depth=3), random_state=0)
    model.fit(with_holes(X, 0.1), y.astype(float))
    assert isinstance(model.density_, CutsetNetworkBD | HiddenChowLiuTree | SoftLearnSPN)
    assert np.isfinite(model.predict(with_holes(X))).all()
