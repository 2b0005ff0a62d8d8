"""What a person meets in the first hour: errors, warnings and names."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from skpc import (
    CellErrorDetector,
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVR,
    ExpectedPredictor,
    MultipleImputer,
    TableMixture,
)
from skpc.estimators._learner import complete_points

DENSITY = TableMixture(n_components=2, random_state=0)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    return pd.DataFrame({"a": a, "b": b, "c": 2.0 * a + rng.normal(size=200)})


def said(work):
    """The texts of the warnings of some work."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    "estimator",
    [
        CircuitImputer(),
        MultipleImputer(),
        DensityClassifier(),
        DensityRegressor(),
        CellErrorDetector(),
    ],
)
def test_parameters_of_a_density_that_was_not_given_are_refused(estimator):
    name = type(estimator).__name__
    with pytest.raises(
        ValueError, match=rf"density__n_bins .* density is None.*{name}\(density=TableMixture\(\)\)"
    ):
        estimator.set_params(density__n_bins=3)
    estimator.set_params(density=CutsetNetworkBD(), density__n_bins=3)
    assert estimator.density.n_bins == 3


def test_a_grid_over_a_density_that_was_not_given_says_so(table):
    grid = GridSearchCV(DensityRegressor(), {"density__n_components": [1]}, error_score="raise")
    with pytest.raises(ValueError, match="Give an estimator first"):
        grid.fit(table[["a", "b"]], table["c"])


def test_marginals_are_found_by_name_too(table):
    marginals = DENSITY.fit(table).marginals(table[:3])
    assert marginals["b"] is marginals[1]
    assert [*marginals[1:]] == [marginals["b"], marginals["c"]]
    assert_allclose(pickle.loads(pickle.dumps(marginals))["c"].mean(), table["c"][:3])
    with pytest.raises(KeyError, match="no column 'd'; its columns are .'a', 'b', 'c'."):
        marginals["d"]
    with pytest.raises(KeyError, match="numbers, as the table has no names"):
        DENSITY.fit(table.to_numpy()).marginals(table.to_numpy()[:1])["a"]


def test_shapley_values_know_the_names_of_their_columns(table):
    X = table[["a", "b"]]
    model = ExpectedPredictor(LinearRegression(), density=DENSITY).fit(X, table["c"])
    shapley = model.shapley_values(X[:2])
    values, base, se = shapley
    assert values.shape == (2, 2)
    assert base.shape == (2,)
    assert se is shapley.se
    assert shapley.feature_names == ["a", "b"]
    assert pickle.loads(pickle.dumps(shapley)).feature_names == ["a", "b"]


def test_strings_that_are_numbers_get_one_warning_with_their_columns(table):
    texts = table.assign(
        d=table["a"].round(2).astype(str), e=table["b"].round(1).astype(str), f="x"
    )
    texts.loc[:10, "d"] = "none"
    robust = CircuitImputer(CutsetNetworkBD(), robust=True)
    for estimator in (DENSITY, CircuitImputer(DENSITY), robust):
        found = [text for text in said(lambda e=estimator: e.fit(texts)) if "numbers" in text]
        assert len(found) == 1
        assert "column 'd', column 'e', such as" in found[0]
        assert "pandas.to_numeric" in found[0]
    declared = TableMixture(n_components=2, categorical_features=["d", "e", "f"], random_state=0)
    assert not any("look like numbers" in text for text in said(lambda: declared.fit(texts)))
    mixed = texts.assign(d=["1", "x", "2", "y"] * 50)[["a", "d"]]
    assert not said(lambda: DENSITY.fit(mixed))


@pytest.mark.parametrize("estimator", [DensityRegressor(DENSITY), ExpectedKernelSVR()])
def test_targets_beyond_the_magnitude_of_tables_are_refused(estimator, table):
    with pytest.raises(ValueError, match=r"magnitudes up to 1e\+150; column 'y' reaches"):
        estimator.fit(table[["a", "b"]], table["c"] * 1e160)


def test_weights_that_are_no_counts_get_one_warning(table):
    one_component = TableMixture(n_components=1, random_state=0)
    for scale, factor in ((1.0 / 200.0, "200"), (10.5, "0.0952381")):
        weight = np.full(200, scale)
        for estimator in (one_component, CircuitImputer(one_component)):
            texts = said(lambda e=estimator, w=weight: e.fit(table, sample_weight=w))
            found = [text for text in texts if "are counts" in text]
            assert len(found) == 1
            assert f"multiply them by {factor}." in found[0]
    for weight in (np.full(200, 20.0), np.full(200, 0.2), np.arange(200.0)):
        assert not said(lambda w=weight: DENSITY.fit(table, sample_weight=w))


def test_bools_as_objects_are_two_classes(table):
    y = np.array([True, False] * 100, dtype=object)
    model = DensityClassifier(DENSITY).fit(table, y)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(table[:2]).dtype == bool


def test_tables_of_float32_stay_so(table):
    single = table.astype("float32")
    single.loc[0, "a"] = np.nan
    for X in (single, single.to_numpy()):
        assert CircuitImputer(DENSITY).fit_transform(X).dtype == np.float32
        indicated = CircuitImputer(DENSITY, add_indicator=True).fit_transform(X)
        assert indicated.dtype == np.float32
        framed = CircuitImputer(DENSITY).set_output(transform="pandas").fit_transform(X)
        assert (framed.dtypes == "float32").all()
    mixed = single.assign(b=table["b"])
    assert CircuitImputer(DENSITY).fit_transform(mixed).dtype == np.float64


def test_intervals_of_a_dtype_are_ordered_states(table):
    cut = table.assign(a=pd.cut(table["a"], [-9, -1, 0, 1, 9]))
    cut.loc[3, "a"] = None
    model = DENSITY.fit(cut)
    kinds = model.domain_.to_frame()
    assert kinds.loc["a", "kind"] == "ordered categories"
    filled = model.complete(cut)
    assert filled["a"].dtype == cut["a"].dtype
    assert filled["a"].notna().all()
    drawn = model.sample(50, random_state=0)
    assert set(drawn["a"]) <= set(cut["a"].dropna())


def test_a_coordinate_that_no_row_has_raises_no_warning(table):
    X = table.to_numpy().copy()
    X[:, 1] = np.nan
    domain = DENSITY.fit(table.to_numpy()).domain_
    points = complete_points(domain, X, np.ones(200))
    assert np.isfinite(points).all()
    assert (points[:, 1] == 0.0).all()


@pytest.mark.parametrize(("unit", "origin"), [(2.0**-20, 0.0), (2.0**20, 2.0**20), (1.0, -64.0)])
def test_regressions_by_expected_kernels_do_not_depend_on_the_unit_of_the_target(
    unit, origin, table
):
    X = table[["a", "b"]].mask(np.random.default_rng(1).random((200, 2)) < 0.2)
    complete = table[["a", "b"]]
    machine = ExpectedKernelSVR(CutsetNetworkBD(structured=True), tol=1e-10, random_state=0)
    plain = machine.fit(complete, table["c"]).predict(X, return_std=True)
    drawn = machine.sample(X[:3], 5, random_state=0)
    machine.fit(complete, table["c"] * unit + origin)
    mean, std = machine.predict(X, return_std=True)
    assert_allclose((mean - origin) / unit, plain[0], rtol=1e-5, atol=1e-5)
    assert_allclose(std / unit, plain[1], rtol=1e-4, atol=1e-5)
    again = machine.sample(X[:3], 5, random_state=0)
    assert_allclose((again - origin) / unit, drawn, rtol=1e-5, atol=1e-5)


def test_a_constant_target_is_predicted(table):
    machine = ExpectedKernelSVR(CutsetNetworkBD(structured=True), random_state=0)
    predicted = machine.fit(table[["a", "b"]], np.full(200, 1e-30)).predict(table[["a", "b"]])
    assert_allclose(predicted, 1e-30)
