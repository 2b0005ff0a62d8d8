"""Expectations of models over missing cells."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import skops.io
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

from skpc import CutsetNetworkBD, ExpectedPredictor, SoftLearnSPN, TableMixture
from tests.naive.expected import expectation
from tests.naive.shapley import shapley_values

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
    with pytest.raises(ValueError, match="must hold numbers.*'b'.*need a classifier"):
        ExpectedPredictor(Ridge(), NETWORK).fit(X, np.where(y > 1, "a", "b"))
    model = ExpectedPredictor(DecisionTreeClassifier(), NETWORK).fit(X, y > 1)
    with pytest.raises(ValueError, match="needs a regressor"):
        model.predict(X, return_std=True)


def test_the_columns_of_a_frozen_model_are_checked_when_the_density_learns():
    X, y = numbers()
    X = X[["x", "z"]]
    forest = FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X, y))
    with pytest.raises(ValueError, match=r"columns named \['x', 'z'\], but X has \['z', 'x'\]"):
        ExpectedPredictor(forest, NETWORK).fit(X[["z", "x"]])
    with pytest.raises(ValueError, match=r"named \['x', 'z'\], but X has \[\]"):
        ExpectedPredictor(forest, NETWORK).fit(X.to_numpy())
    forest = FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X.to_numpy(), y))
    with pytest.raises(ValueError, match="number of columns 2, but X has 1"):
        ExpectedPredictor(forest, NETWORK).fit(X[["x"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ExpectedPredictor(forest, NETWORK).fit(X)
        np.testing.assert_array_equal(model.predict(X), forest.predict(X.to_numpy()))


@pytest.mark.parametrize("estimator", [RandomForestRegressor(3, random_state=0), Ridge()])
def test_models_survive_files_of_skops(estimator):
    X, y = numbers()
    model = ExpectedPredictor(estimator, NETWORK, random_state=0).fit(X, y)
    saved = skops.io.dumps(model)
    loaded = skops.io.loads(saved, trusted=skops.io.get_untrusted_types(data=saved))
    holes = with_holes(X)
    np.testing.assert_array_equal(loaded.predict(holes), model.predict(holes))


def test_the_default_density_has_exact_ranges():
    X, y = (part[:80] for part in states())
    model = ExpectedPredictor(DecisionTreeRegressor(max_depth=3), random_state=0)
    model.fit(with_holes(X, 0.1), y.astype(float))
    assert isinstance(model.density_, CutsetNetworkBD | SoftLearnSPN)
    assert np.isfinite(model.predict(with_holes(X))).all()


def binary(n_features: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Dependent columns of two states, and three classes."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, n_features)) < 0.5).astype(float)
    X[:, 1:4] = np.where(rng.random((400, 3)) < 0.7, X[:, :1], X[:, 1:4])
    return X, (X[:, 0] + X[:, 2] * X[:, 5] + (rng.random(400) < 0.1)).astype(int) % 3


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (RandomForestClassifier(5, max_depth=5, random_state=0), "predict_proba"),
        (GradientBoostingRegressor(n_estimators=5, random_state=0), "predict"),
        (LogisticRegression(), "decision_function"),
    ],
    ids=["forest", "boosting", "linear"],
)
def test_shapley_values_are_sums_over_coalitions(estimator, method):
    X, y = binary()
    model = ExpectedPredictor(estimator, NETWORK, random_state=0).fit(X, y)
    worlds = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    density = np.exp(model.density_.score_samples(worlds))
    answers = getattr(model.estimator_, method)(model._inputs(worlds))
    rows = X[:3].copy()
    rows[2, [0, 4]] = np.nan
    answer = model.shapley_values(rows)
    for row, of_row in zip(rows, answer.values):
        known = np.flatnonzero(~np.isnan(row))

        def value(members):
            at = known[list(members)]  # noqa: B023
            weight = density * (worlds[:, at] == row[at]).all(axis=1)  # noqa: B023
            return weight @ answers / weight.sum()

        truth = shapley_values(value, len(known))
        np.testing.assert_allclose(of_row[known], truth, atol=1e-10)
        np.testing.assert_array_equal(of_row[np.isnan(row)], 0.0)
    assert not answer.se.any()
    total = answer.base_values + answer.values.sum(axis=1)
    np.testing.assert_allclose(total, getattr(model, method)(rows), atol=1e-9)


def test_shapley_values_of_many_columns_have_standard_errors():
    X, y = binary(12)
    forest = RandomForestRegressor(5, max_depth=5, random_state=0)
    model = ExpectedPredictor(forest, NETWORK, random_state=0).fit(X, y)
    rows = X[:4].copy()
    rows[3, :4] = np.nan
    some, more = model.shapley_values(rows), model.shapley_values(rows, n_permutations=1000)
    np.testing.assert_allclose(some.base_values + some.values.sum(axis=1), model.predict(rows))
    assert some.se[:3].any(axis=1).all()
    # The last row has few cells, whose values are exact.
    assert not some.se[3].any()
    z = (some.values - more.values)[:3] / np.maximum(np.hypot(some.se, more.se)[:3], 1e-9)
    assert np.abs(z).max() < 4.5
    assert np.abs((some.values - more.values)[3]).max() < 4.5 * more.se[3].max() + 1e-12
    with pytest.raises(ValueError, match="at least 2"):
        model.shapley_values(rows, n_permutations=1)


def test_a_column_that_tells_about_one_that_is_used_has_a_shapley_value():
    X, _ = binary()
    X[:, 7] = X[:, 6]
    stump = DecisionTreeRegressor(max_depth=1, random_state=0)
    model = ExpectedPredictor(stump, NETWORK).fit(X, X[:, 6])
    values = model.shapley_values(X[:1]).values[0]
    assert abs(values[7] - values[6]) < 0.1 * abs(values[6])
    assert np.abs(values[:6]).max() < 0.1 * abs(values[6])


def test_the_fall_of_the_variance_has_the_closed_form_of_gaussians():
    rng = np.random.default_rng(0)
    covariance = 0.6 * np.ones((4, 4)) + np.diag([0.4, 0.4, 0.9, 0.4])
    X = rng.multivariate_normal(np.zeros(4), covariance, 5000)
    coefficients = np.array([1.0, 0.0, 2.0, -1.0])
    model = ExpectedPredictor(
        FrozenEstimator(LinearRegression().fit(X, X @ coefficients)),
        TableMixture(n_components=1, random_state=0),
        n_draws=400,
        random_state=0,
    ).fit(X)
    covariance = np.cov(X.T)
    rows = X[:5].copy()
    rows[[0, 0, 1, 1, 1, 2, 2, 4], [0, 2, 0, 1, 3, 1, 2, 3]] = np.nan
    rows[3] = np.nan
    fall, se = model.variance_reduction(rows)
    np.testing.assert_array_equal(np.isnan(fall), ~np.isnan(rows))
    truth = np.full(rows.shape, np.nan)
    for row, of_row in zip(rows, truth):
        missing = np.flatnonzero(np.isnan(row))
        known = np.flatnonzero(~np.isnan(row))
        across = covariance[np.ix_(missing, known)]
        inner = np.linalg.solve(covariance[np.ix_(known, known)], across.T)
        given = covariance[np.ix_(missing, missing)] - across @ inner
        of_row[missing] = (given @ coefficients[missing]) ** 2 / np.diag(given)
    asked = ~np.isnan(truth)
    assert np.abs((fall - truth)[asked] / se[asked]).max() < 3.0


@pytest.mark.parametrize("estimator", [DecisionTreeRegressor(max_depth=4), KNeighborsRegressor()])
def test_the_fall_of_the_variance_is_that_over_the_states_of_a_cell(estimator):
    X, y = binary(6)
    model = ExpectedPredictor(estimator, NETWORK, n_draws=2000, random_state=0).fit(X, y * 1.0)
    worlds = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    density = np.exp(model.density_.score_samples(worlds))
    answers = model.estimator_.predict(model._inputs(worlds))
    rows = np.array([[np.nan] * 6, [1.0, np.nan, np.nan, 0.0, 1.0, np.nan], X[0]])
    fall, se = model.variance_reduction(rows)
    for row, of_row, error in zip(rows, fall, se):
        agrees = np.all(np.isnan(row) | (worlds == row), axis=1)
        for column in np.flatnonzero(np.isnan(row)):
            weight = [density * agrees * (worlds[:, column] == state) for state in (0, 1)]
            prob = np.array([each.sum() for each in weight]) / (density * agrees).sum()
            mean = np.array([each @ answers / each.sum() for each in weight])
            truth = prob @ (mean - prob @ mean) ** 2
            assert abs(of_row[column] - truth) < 4 * error[column] + 1e-12
    assert np.isnan(fall[2]).all()


def test_one_tree_has_exact_spreads():
    X, y = states()
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    model = ExpectedPredictor(tree, NETWORK).fit(X, 1e6 + y)
    holes = with_holes(X)[:12]
    mean, std = model.predict(holes, return_std=True)
    rows, circuit = model.domain_.encode(holes), model.density_.circuit_

    def square(row: np.ndarray) -> float:
        return (model.estimator_.predict(model._inputs(row[np.newaxis]))[0] - 1e6) ** 2

    squares = np.array([expectation(circuit, row, square) for row in rows])
    np.testing.assert_allclose(std**2, squares - (mean - 1e6) ** 2, atol=1e-8)
