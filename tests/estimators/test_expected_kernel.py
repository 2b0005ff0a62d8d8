"""Support vector regression under missing features."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.utils import get_tags

from skpc import (
    CutsetNetworkBD,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.queries import log_likelihood
from tests.estimators.cheap import NETWORK
from tests.naive import kernels as naive

#: Codes of categories are declared: in order they would be numbers.
OF_CATEGORIES = clone(NETWORK).set_params(categorical_features=[0, 1, 2])


def categories(n_rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three columns that depend on each other, and a target."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n_rows)
    b, c = (a + rng.integers(0, 2, n_rows)) % 3, rng.integers(0, 2, n_rows)
    return np.column_stack([a, b, c]).astype(float), a * 1.0 + c + 0.1 * rng.normal(size=n_rows)


def numbers(n_rows: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0, 0, 1]])
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def frame(n_rows: int = 150, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    size = kind + rng.normal(size=n_rows)
    table = pd.DataFrame(
        {"kind": pd.Categorical(np.array(["low", "mid", "top"])[kind]), "size": size}
    )
    return table, size + 2.0 * (kind == 2)


def with_missing_cells(X, proportion: float = 0.3, seed: int = 1):
    mask = np.random.default_rng(seed).random(X.shape) < proportion
    return X.mask(mask) if isinstance(X, pd.DataFrame) else np.where(mask, np.nan, X)


def all_completions(row: np.ndarray, n_states) -> np.ndarray:
    grid = np.array(np.meshgrid(*map(np.arange, n_states), indexing="ij")).reshape(3, -1).T
    return grid[np.all(np.isnan(row) | (grid == row), axis=1)].astype(float)


def test_predictions_of_incomplete_rows_are_means_over_all_completions():
    X, y = categories()
    model = ExpectedKernelSVR(OF_CATEGORIES, C=5.0).fit(X, y)
    incomplete = with_missing_cells(X[:25], 0.5)
    mean, sd = model.predict(incomplete, return_std=True)
    for row, found, std in zip(incomplete, mean, sd):
        rows = all_completions(row, [3, 3, 2])
        weight = np.exp(log_likelihood(model.density_.circuit_, rows))
        values = model.predict(rows)
        truth = np.average(values, weights=weight)
        assert found == pytest.approx(truth, abs=1e-10)
        variance = np.average((values - truth) ** 2, weights=weight)
        assert std == pytest.approx(np.sqrt(variance), abs=1e-6)


def test_predictions_and_spread_of_numbers_agree_with_quadrature():
    X, y = numbers(40)
    density = SoftLearnSPN(leaves="univariate", n_refine=3, random_state=0)
    model = ExpectedKernelSVR(density, C=2.0).fit(X, y)
    row = np.array([X[0, 0], np.nan, X[0, 2]])
    circuit, gamma = model.density_.circuit_, model.gamma_
    trees = naive.given_trees(circuit, row)
    mean = second = 0.0
    for weight, parts in trees:
        x, w = naive.points_of(naive.univariate(circuit, 1, parts[1]), 4 * gamma)[0]
        # Kernels compare scores, and predictions are asked for values.
        x = model.domain_.laws[1].inverse(x)
        values = model.predict(np.column_stack([np.full_like(x, row[0]), x, x * 0 + row[2]]))
        mean += weight * (w @ values)
        second += weight * (w @ values**2)
    found, sd = model.predict([row], return_std=True)
    assert found[0] == pytest.approx(mean, abs=1e-8)
    assert sd[0] == pytest.approx(np.sqrt(second - mean**2), rel=1e-5)


def test_complete_rows_equal_scikit_learn_on_one_hot_columns():
    X, y = categories()
    one_hot = OneHotEncoder(sparse_output=False).fit(X)
    for gamma in ("scale", 0.3):
        settings = {"gamma": gamma, "C": 3.0, "epsilon": 0.05, "tol": 1e-9}
        plain = SVR(**settings)
        for standardize_y, machine in (
            (False, plain),
            (True, TransformedTargetRegressor(plain, transformer=StandardScaler())),
        ):
            model = ExpectedKernelSVR(OF_CATEGORIES, standardize_y=standardize_y, **settings)
            expected = machine.fit(one_hot.transform(X), y).predict(one_hot.transform(X))
            assert_allclose(model.fit(X, y).predict(X), expected, atol=1e-6)


def test_complete_rows_equal_the_machine_itself(monkeypatch):
    fitted = []
    fit = SVR.fit
    monkeypatch.setattr(SVR, "fit", lambda self, *a, **k: fitted.append(fit(self, *a, **k)) or self)
    X, y = numbers()
    model = ExpectedKernelSVR(CutsetNetworkBD(structured=True), C=3.0).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    expected = y.mean() + y.std() * fitted[0].predict(scaled)
    assert_allclose(model.predict(X), expected, atol=1e-10)
    mean, sd = model.predict(X, return_std=True)
    assert_array_equal(mean, model.predict(X))
    assert_array_equal(sd, 0.0)


def test_scale_is_that_of_scikit_learn_and_skips_missing_cells():
    X, y = numbers()
    density = CutsetNetworkBD(structured=True, random_state=0)
    model = ExpectedKernelSVR(density, standardize=False)
    assert clone(model).fit(X, y).gamma_ == pytest.approx(1 / (3 * X.var()))
    incomplete = with_missing_cells(X)
    assert model.fit(incomplete, y).gamma_ == pytest.approx(1 / (3 * np.nanvar(incomplete)))
    model = ExpectedKernelSVR(density).fit(incomplete, y)
    assert_allclose(model.mean_, np.nanmean(incomplete, axis=0))
    assert_allclose(model.scale_, np.nanstd(incomplete, axis=0))
    assert model.gamma_ == pytest.approx(1 / 3)
    rows, target = categories()
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(rows)
    assert ExpectedKernelSVR(OF_CATEGORIES).fit(rows, target).gamma_ == pytest.approx(
        1 / (8 * one_hot.var())
    )


def mixed(n_rows: int = 150) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A category, numbers of very different scales, and a target; weights of the rows."""
    rng = np.random.default_rng(3)
    X, y = numbers(n_rows)
    kind = rng.integers(0, 3, n_rows)
    table = np.column_stack([kind, 1e3 * X[:, 0] - 5e4, 1e-4 * X[:, 1], np.full(n_rows, 17.25)])
    return table, y + kind, rng.integers(1, 3, n_rows).astype(float)


@pytest.mark.parametrize(
    ("density", "holes"),
    [
        (CutsetNetworkBD(structured=True, param_ess=None), 0.0),
        (SoftLearnSPN(n_clusters=1), 0.0),
        (SoftLearnSPN(n_clusters=1), 0.2),
    ],
)
def test_standardizing_equals_a_scaler_before_a_machine_that_does_not(density, holes):
    X, y, weight = mixed()
    # Without lattices, scores and chance densities know no units: both have the same.
    density.set_params(margins="plain", categorical_features=[0])
    X[:, 1:3] = with_missing_cells(X[:, 1:3], holes)
    scaled, scaler = X.copy(), StandardScaler()
    scaled[:, 1:] = scaler.fit_transform(X[:, 1:], sample_weight=weight)
    model = ExpectedKernelSVR(density, C=5.0, tol=1e-9)
    plain = clone(model).set_params(standardize=False).fit(scaled, y, weight)
    model.fit(X, y, weight)
    assert model.gamma_ == pytest.approx(plain.gamma_)
    assert model.scale_.tolist() == pytest.approx([1.0, *scaler.scale_])
    assert (model.mean_[0], model.scale_[3]) == (0.0, 1.0)
    assert_array_equal([plain.mean_, plain.scale_], [[0.0] * 4, [1.0] * 4])
    # The bin around a single number is as wide as this is large.
    hidden = np.random.default_rng(7).random(X.shape) < [0.4, 0.4, 0.4, 0.0]
    rows, scaled = np.where(hidden, np.nan, X), np.where(hidden, np.nan, scaled)
    assert_allclose(model.predict(rows), plain.predict(scaled), atol=1e-6)
    if not holes:
        for found, expected in zip(model.predict(rows, True), plain.predict(scaled, True)):
            assert_allclose(found, expected, atol=1e-5)


def test_columns_of_any_size_are_standardized():
    X, y = numbers(80)
    huge, tiny = np.column_stack([X * 1e140, X]), np.column_stack([X * 1e-200, X])
    for rows in (huge, tiny):
        model = ExpectedKernelSVR(CutsetNetworkBD(structured=True)).fit(rows, y)
        assert np.isfinite(model.predict(with_missing_cells(rows))).all()
    assert_allclose(model.scale_[:3], 1.0)


def test_a_row_without_any_cell_has_the_mean_prediction_of_the_density():
    X, y = categories()
    model = ExpectedKernelSVR(NETWORK).fit(X, y)
    drawn = model.predict(model.density_.sample(20_000, random_state=0))
    found, sd = model.predict([[np.nan] * 3], return_std=True)
    assert found[0] == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 141)
    assert sd[0] == pytest.approx(drawn.std(), rel=0.03)


def test_draws_of_predictions_have_the_mean_and_spread_that_predict_returns():
    table, y = frame()
    model = ExpectedKernelSVR(NETWORK, C=2.0).fit(table, y)
    incomplete = with_missing_cells(table)[:6]
    mean, sd = model.predict(incomplete, return_std=True)
    drawn = model.sample(incomplete, 4000, random_state=0)
    assert drawn.shape == (6, 4000)
    assert np.all(np.abs(drawn.mean(axis=1) - mean) <= 4 * sd / 63 + 1e-9)
    assert_allclose(drawn.std(axis=1), sd, rtol=0.1, atol=1e-9)
    assert_array_equal(
        model.sample(incomplete, 3, random_state=5), model.sample(incomplete, 3, random_state=5)
    )
    assert model.sample(incomplete, 0).shape == (6, 0)


def test_equal_support_vectors_are_merged():
    X, y = categories(200)
    model = ExpectedKernelSVR(NETWORK, epsilon=0.0).fit(X, y)
    assert len(np.unique(model.support_vectors_, axis=0)) == len(model.support_vectors_) <= 18
    assert model.dual_coef_.shape == (1, len(model.support_vectors_))
    assert model.dual_coef_.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("data", [categories, numbers, frame])
def test_training_rows_may_have_missing_cells(data):
    X, y = data()
    incomplete = with_missing_cells(X, 0.2)
    model = ExpectedKernelSVR(NETWORK, C=10.0, random_state=0).fit(incomplete, y)
    assert np.isnan(model.support_vectors_).any()
    assert model.score(incomplete, y) > 0.5
    assert model.score(X, y) > 0.5
    again = clone(model).fit(incomplete, y)
    assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="return_std needs complete support vectors"):
        model.predict(X, return_std=True)
    assert model.sample(incomplete[:2], 5, random_state=0).shape == (2, 5)


def test_predictions_with_incomplete_support_vectors_are_expectations_on_both_sides():
    X, y = categories(60)
    model = ExpectedKernelSVR(NETWORK, random_state=0).fit(with_missing_cells(X), y)
    row = np.array([np.nan, 1.0, 0.0])
    circuit, kernel = model.density_.circuit_, model._expansion._kernel
    truth = model.intercept_[0] + sum(
        a * naive.expected_kernel(circuit, circuit, kernel, row=row, other=s)
        for a, s in zip(model.dual_coef_[0], model.support_vectors_)
    )
    assert model.predict([row])[0] == pytest.approx(truth, abs=1e-9)


def test_missing_training_cells_need_a_structured_density():
    X, y = numbers()
    density = SoftLearnSPN(
        margins="plain",
        clusterer="kmeans",
        significance=0.2,
        root_test=None,
        n_refine=50,
        random_state=0,
    )
    model = ExpectedKernelSVR(density)
    assert model.fit(X, y).score(with_missing_cells(X), y) > 0.2
    with pytest.raises(ValueError, match=r"SoftLearnSPN is not; use CutsetNetworkBD\(struct"):
        model.fit(with_missing_cells(X), y)
    assert model.score(X, y) > 0.2


def test_a_density_without_a_circuit_is_refused():
    X, y = numbers()
    with pytest.raises(ValueError, match=r"MixtureOfAllTrees has none .*; use CutsetNetworkBD"):
        ExpectedKernelSVR(MixtureOfAllTrees(max_iter=1)).fit(X, y)
    with pytest.raises(
        TypeError, match=r"of ExpectedKernelSVR .*; Ridge\(\) has no categorical_features"
    ):
        ExpectedKernelSVR(Ridge()).fit(X, y)


@pytest.mark.parametrize("machine", [ExpectedKernelSVR, ExpectedKernelSVC])
@pytest.mark.parametrize(
    "density",
    [
        None,
        SoftLearnSPN(leaves="univariate"),
        SoftLearnSPN(leaves="block"),
        CutsetNetworkBD(structured=True),
    ],
    ids=["default", "univariate", "block", "cutset"],
)
@pytest.mark.parametrize("far", [1e20, 1e154, 1e308])
def test_rows_that_are_very_far_away_get_the_constant_of_the_machine(machine, density, far):
    X, y = numbers()
    y = y if machine is ExpectedKernelSVR else y > np.median(y)
    model = machine(density, random_state=0).fit(X, y)
    rows = np.zeros((4, X.shape[1]))
    rows[0], rows[1, 1], rows[2, 0], rows[3, :2] = far, far, -far, (far, -far)
    value = model.predict if machine is ExpectedKernelSVR else model.decision_function
    assert_allclose(value(rows), np.repeat(model.intercept_, 4))
    if machine is ExpectedKernelSVR:
        assert_allclose(model.sample(rows, 2), np.full((4, 2), model.intercept_))


def test_rows_that_are_very_far_away_are_far_from_incomplete_support_vectors_too():
    X, y = numbers()
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = ExpectedKernelSVR(CutsetNetworkBD(structured=True), C=0.1).fit(holes, y)
    assert np.isnan(model.support_vectors_).any()
    rows = np.full((3, X.shape[1]), [[1e20], [1e154], [-1e308]])
    assert_allclose(model.predict(rows), np.repeat(model.intercept_, 3))
    assert_allclose(model.sample(rows), np.repeat(model.intercept_, 3)[:, np.newaxis])


def test_categorical_features_are_handed_to_the_density():
    X, y = categories()
    model = ExpectedKernelSVR(NETWORK, categorical_features=[0, 2]).fit(X, y)
    assert model.density_.domain_.is_categorical.tolist() == [True, False, True]
    density = CutsetNetworkBD(structured=True, categorical_features=[1])
    model = ExpectedKernelSVR(density).fit(X, y)
    assert model.density_.domain_.is_categorical.tolist() == [False, True, False]
    assert ExpectedKernelSVR(density, categorical_features=[1]).fit(X, y)
    with pytest.raises(ValueError, match=r"\[0, 2\] disagrees with that of the density, \[1\]"):
        ExpectedKernelSVR(density, categorical_features=[0, 2]).fit(X, y)


def test_the_density_is_cloned():
    X, y = categories()
    density = CutsetNetworkBD(structured=True)
    model = ExpectedKernelSVR(density).fit(X, y)
    assert not hasattr(density, "circuit_")
    assert model.density_.circuit_.structured_decomposable


def test_weight_two_is_the_row_twice_and_weight_zero_its_absence():
    X, y = categories(60)
    for rows in (X, with_missing_cells(X)):
        weight = np.random.default_rng(0).integers(0, 4, 60)
        a = ExpectedKernelSVR(NETWORK, random_state=0).fit(rows, y, sample_weight=weight)
        many = np.repeat(rows, weight, axis=0), np.repeat(y, weight)
        b = ExpectedKernelSVR(NETWORK, random_state=0).fit(*many)
        assert_allclose(a.predict(rows), b.predict(rows), atol=1e-9)


def test_a_grid_search_over_a_pipeline_reaches_the_density():
    table, y = frame()
    incomplete = with_missing_cells(table, 0.2)
    columns = make_column_transformer(
        (StandardScaler(), ["size"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    model = ExpectedKernelSVR(CutsetNetworkBD(structured=True), random_state=0)
    search = GridSearchCV(
        make_pipeline(columns, model),
        {
            "expectedkernelsvr__C": [1.0, 10.0],
            "expectedkernelsvr__density__ess": [0.1, 1.0],
        },
        cv=3,
    ).fit(table, y)
    assert search.score(incomplete, y) > 0.3
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_expected_predictions_beat_those_at_the_mean_when_the_function_bends():
    X, y = numbers(500)
    plain = make_pipeline(SimpleImputer(), SVR(C=10.0)).fit(X, y)
    model = ExpectedKernelSVR(NETWORK, C=10.0).fit(X, y)
    rows, target = numbers(500, seed=1)
    incomplete = with_missing_cells(rows, 0.4)
    assert model.score(incomplete, target) > plain.score(incomplete, target) + 0.05


def test_strings_and_unknown_categories_are_read_as_by_the_density():
    table, y = frame()
    model = ExpectedKernelSVR(NETWORK).fit(table, y)
    other = table[:3].assign(kind=["zzz"] * 3)
    with pytest.warns(UserWarning, match="the first 'zzz' in column 'kind', row 0"):
        found = model.predict(other)
    assert_allclose(found, model.predict(table[:3].assign(kind=None)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["size", "kind"]])


def test_pickles_predict_alike():
    X, y = categories()
    model = ExpectedKernelSVR(NETWORK).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    incomplete = with_missing_cells(X)
    for found, expected in zip(again.predict(incomplete, True), model.predict(incomplete, True)):
        assert_array_equal(found, expected)


def test_targets_within_the_tube_leave_no_support_vector():
    X, y = categories()
    model = ExpectedKernelSVR(NETWORK, epsilon=10.0).fit(X, y)
    assert model.support_vectors_.shape == (0, 3)
    mean, sd = model.predict(with_missing_cells(X[:5]), return_std=True)
    assert_allclose(mean, model.intercept_[0])
    assert_array_equal(sd, 0.0)


def test_tags_tell_what_the_estimator_takes():
    tags = get_tags(ExpectedKernelSVR(NETWORK))
    assert tags.estimator_type == "regressor"
    assert tags.input_tags.allow_nan
    assert tags.input_tags.categorical


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        ([1.0, 2.0], "found 120 rows in X and 2 values in y"),
        (np.full(120, np.nan), "y contains NaN"),
    ],
)
def test_bad_targets_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        ExpectedKernelSVR(NETWORK).fit(categories()[0], y)


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    X, y = categories()
    model = ExpectedKernelSVR(NETWORK).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="column 3"):
        model.fit(np.column_stack([X, np.full(len(X), 1e200)]), y)
    assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="n_samples must be an integer of 0 or more, got 1.5"):
        model.sample(X, 1.5)


@pytest.mark.parametrize("unit", [1e140, 1e-140, 2.7e-27])
def test_units_of_rows_and_targets_change_no_prediction(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.3 * rng.normal(size=150)
    expected = ExpectedKernelSVR(random_state=0).fit(X, y).predict(X)
    predicted = ExpectedKernelSVR(random_state=0).fit(1e9 * X, y * unit).predict(1e9 * X)
    np.testing.assert_allclose(predicted / unit, expected, rtol=0.0, atol=1e-10 * y.std())
