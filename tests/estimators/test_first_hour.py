"""What a person meets in the first hour: errors, warnings and names."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
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
    MixtureOfAllTrees,
    MultipleImputer,
    StackedDensity,
    TableMixture,
)
from skpc._fitting import all_or_nothing
from skpc._threads import in_threads, threads
from skpc._warnings import collected, warn
from skpc.learning.filling import complete_points
from skpc.synthesis import RuledDensity, find_rules, table_report

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
def test_parameters_of_a_density_that_was_not_given_are_refused(estimator, table):
    with pytest.raises(
        ValueError,
        match=r"density__n_bins .* density is None.* such as density=CutsetNetworkBD\(\)",
    ):
        estimator.set_params(density__n_bins=3)
    estimator.set_params(density=CutsetNetworkBD(), density__n_bins=3)
    assert estimator.density.n_bins == 3
    # The estimator takes the example of the error.
    estimator.set_params(density=CutsetNetworkBD())
    target = [] if not hasattr(estimator, "predict") else [table["c"] > 0.0]
    clone(estimator).fit(table[["a", "b"]], *target)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (StackedDensity(), "estimators"),
        (StackedDensity([("of states", CutsetNetworkBD())]), "estimators"),
        (DensityClassifier([("of states", CutsetNetworkBD())]), "density"),
    ],
)
def test_parameters_of_a_list_of_densities_say_how_those_of_members_are_named(
    estimator, name, table
):
    with pytest.raises(
        ValueError, match=rf"{name}=\[\('a', CutsetNetworkBD\(\)\)\] has the parameter a__n_bins"
    ):
        estimator.set_params(**{f"{name}__n_bins": 3})
    estimator.set_params(**{name: [("a", CutsetNetworkBD())]}).set_params(a__n_bins=3)
    assert estimator.get_params()["a__n_bins"] == 3
    clone(estimator).fit(table[["a", "b"]], table["c"] > 0.0)


def test_parameters_of_other_things_than_densities_are_refused_as_by_sklearn():
    with pytest.raises(ValueError, match="Invalid parameter 'density'"):
        CutsetNetworkBD().set_params(density__n_bins=3)


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
    with pytest.raises(KeyError, match="its columns are numbers"):
        DENSITY.fit(table.to_numpy()).marginals(table.to_numpy()[:1])["a"]


def test_slices_of_marginals_keep_the_names(table):
    marginals = DENSITY.fit(table).marginals(table[:3])
    assert marginals[1:]["c"] is marginals[2]
    assert marginals[::-1]["a"] is marginals[0]
    assert DENSITY.distribution("b").name == "b"
    with pytest.raises(KeyError, match="no column 'a'; its columns are .'b', 'c'."):
        marginals[1:]["a"]


def test_names_that_no_column_has_are_answered_with_close_ones(table):
    table = table.set_axis(["height", "weight", "sex of a person"], axis=1)
    model = DENSITY.fit(table)
    close = r"close to it are .'height', 'weight'"
    with pytest.raises(KeyError, match=rf"no column 'heigth'; {close}"):
        model.marginals(table[:2])["heigth"]
    with pytest.raises(ValueError, match=rf"'heigth', which is not a column of X; {close}"):
        model.probability({"heigth": (0.0, 1.0)})


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
    robust = CircuitImputer(CutsetNetworkBD(param_ess=1.0), robust=True)
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


def test_rows_of_weight_zero_do_not_count_in_the_scale_of_weights(table):
    counts = np.where(np.arange(200) < 15, 1.5, 0.0)
    assert not said(lambda: DENSITY.fit(table, sample_weight=counts))
    found = said(lambda: CutsetNetworkBD().fit(table, sample_weight=counts / 150.0))
    assert len(found) == 1
    assert "Those of 15 rows sum to 0.15." in found[0]
    assert "multiply them by 100." in found[0]


def warned(n_warnings, mark):
    for _ in range(n_warnings):
        warn(f"There is a {mark}.")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_and_those_within_it_say_the_same_once(n_jobs):
    model = CutsetNetworkBD()

    def fit():
        with all_or_nothing(model), threads(n_jobs):
            warned(2, "pool")
            with all_or_nothing(clone(model)):
                in_threads(partial(warned, 2), ["pool", "member", "member", "other"])
            with collected():
                warned(1, "secret")
            warned(1, "member")

    once = ["There is a member.", "There is a other.", "There is a pool."]
    assert sorted(said(fit)) == once
    # The next fit says it again, and so does what is no fit.
    assert sorted(said(fit)) == once
    assert len(said(lambda: warned(2, "pool"))) == 2


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    "estimator",
    [
        CircuitImputer(CutsetNetworkBD(), robust=True),
        MultipleImputer(CutsetNetworkBD(), n_imputations=2, n_rounds=1),
        CellErrorDetector(CutsetNetworkBD()),
        StackedDensity([("a", CutsetNetworkBD()), ("b", CutsetNetworkBD(max_depth=0))], cv=2),
    ],
)
def test_no_fit_warns_twice_of_its_columns(estimator, n_jobs, table):
    odd = table.assign(d=["2024-01-02", "2024-02-03"] * 100, e=np.nan, f="7")
    weight = np.full(200, 1.0 / 12.0)
    found = said(lambda: estimator.set_params(n_jobs=n_jobs).fit(odd, sample_weight=weight))
    texts = ("look like dates", "no value", "look like numbers", "are counts")
    assert [sum(text in one for one in found) for text in texts] == [1] * 4


@pytest.mark.parametrize("dtype", [object, "boolean", "list"])
def test_bools_as_objects_are_two_classes(dtype, table):
    y = [True, False] * 100
    y = y if dtype == "list" else pd.Series(y, dtype=dtype)
    model = DensityClassifier(DENSITY, joint=True, classifiers=None).fit(table, y)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(table[:2]).dtype == bool


def test_classes_of_two_kinds_are_refused(table):
    with pytest.raises(TypeError, match="classes of one kind; found numbers and strings"):
        DensityClassifier(DENSITY, classifiers=None).fit(table, [1, "two"] * 100)


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


@pytest.mark.parametrize("repair", [None, "mean", "sample"])
def test_detectors_of_wrong_cells_keep_float32(repair, table):
    single = table.head(60).astype("float32")
    single.loc[0, "a"] = 1e4
    detector = CellErrorDetector(CutsetNetworkBD(), repair=repair, random_state=0)
    for X in (single, single.to_numpy()):
        repaired = detector.fit(X).transform(X)
        assert set(np.asarray(repaired.dtypes if X is single else [repaired.dtype])) == {
            np.dtype("float32")
        }
        # It is the repaired cell alone that differs.
        changed = np.argwhere(np.asarray(repaired) != np.asarray(X)).tolist()
        assert changed == [[0, 0]]
        framed = clone(detector).set_output(transform="pandas").fit_transform(X)
        assert (framed.dtypes == "float32").all()


@pytest.mark.parametrize("library", [None, "pandas", "polars"])
def test_transformers_of_tables_of_pyarrow_keep_float32(library, table):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    single = table.astype("float32")
    single.loc[0, "a"] = np.nan
    X = arrow.Table.from_pandas(single, preserve_index=False)
    detector, imputer = CellErrorDetector(CutsetNetworkBD()), CircuitImputer(CutsetNetworkBD())
    if library is None:
        assert detector.fit(X).transform(X).schema == X.schema
        assert detector.predict(X).column_names == X.column_names
        assert imputer.fit_transform(X).dtype == np.float32
        return
    pytest.importorskip(library, reason=f"{library} is optional")
    for transformer in (detector, imputer):
        framed = transformer.set_output(transform=library).fit_transform(X)
        assert type(framed).__module__.startswith(library)
        assert {str(dtype).lower() for dtype in framed.dtypes} == {"float32"}


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


@pytest.fixture
def brackets(table):
    """A column of four intervals, with a missing cell, and one of two."""
    cut = table.assign(a=pd.cut(table["a"], [-9, -1, 0, 1, 9]), b=pd.cut(table["b"], [-9, 0, 9]))
    cut.loc[3, "a"] = None
    return cut


DECLARATIONS = [{}, {"categorical_features": "from_dtype"}, {"margins": "plain"}]


@pytest.mark.parametrize("how", DECLARATIONS)
def test_intervals_are_asked_about_as_states(how, brackets):
    model = CutsetNetworkBD(**how).fit(brackets)
    kinds = model.domain_.to_frame()["kind"]
    assert kinds["b"] == "categories"
    assert kinds["a"] == ("categories" if how else "ordered categories")
    for column in ("a", "b"):
        states = brackets[column].cat.categories
        alone = [model.probability({column: state}) for state in states]
        number = list(brackets.columns).index(column)
        assert_allclose(sum(alone), np.exp(model.domain_.log_prob_seen[number]))
        shares = brackets[column].value_counts(normalize=True, sort=False)
        assert_allclose(alone, shares, atol=0.02)
        assert_allclose(model.probability({column: [*states[:2]]}), sum(alone[:2]))
        assert_allclose(
            model.probability({"c": (0.0, None)}, given={column: states[0]}),
            model.probability({"c": (0.0, None), column: states[0]}) / alone[0],
        )
        drawn = model.sample(20, random_state=0, given={column: states[1]})
        assert (drawn[column] == states[1]).all()
        assert drawn[column].dtype == brackets[column].dtype
        with pytest.raises(
            ValueError, match=r"Interval\(5, 6.*found Interval|found Interval\(5, 6"
        ):
            model.probability({column: pd.Interval(5, 6)})
    rows = brackets[["a", "b"]].iloc[:4]
    one_by_one = [
        model.probability({"c": (0.0, None)}, given=row.dropna().to_dict())
        for _, row in rows.iterrows()
    ]
    assert_allclose(model.probability({"c": (0.0, None)}, given=rows), one_by_one)
    assert str(brackets["b"].cat.categories[0]) in str(model.domain_)


@pytest.mark.parametrize("how", DECLARATIONS)
def test_intervals_are_completed_in_arrays_and_frames(how, brackets):
    for fill in (
        CircuitImputer(CutsetNetworkBD(**how)).fit_transform,
        CircuitImputer(CutsetNetworkBD(**how)).set_output(transform="pandas").fit_transform,
        CutsetNetworkBD(**how).fit(brackets).complete,
    ):
        filled = np.asarray(fill(brackets), dtype=object)
        known = brackets.notna().to_numpy()
        assert (filled[known] == brackets.to_numpy(dtype=object)[known]).all()
        assert filled[3, 0] in brackets["a"].cat.categories


def test_intervals_have_an_order_whatever_their_dtype_says(brackets):
    states = brackets["a"].cat.categories
    backwards = brackets["a"].cat.as_unordered().cat.reorder_categories(states[::-1])
    model = CutsetNetworkBD().fit(brackets.assign(a=backwards))
    assert [*model.domain_.calendars[0].labels] == [*states]


def test_intervals_without_a_dtype_of_states_are_refused_where_ranges_are(brackets):
    with pytest.raises(TypeError, match=r"column 'b' holds Interval\(-9, 0.*astype\('category'\)"):
        MixtureOfAllTrees().fit(brackets.astype({"b": object}))
    states = [*brackets["b"].cat.categories]
    declared = CutsetNetworkBD(categories=[None, states, None])
    assert declared.fit(brackets.astype({"b": object})).complete(brackets)["b"].isin(states).all()


@pytest.mark.parametrize("names", [None, list("wxyz")])
def test_rules_hold_ordered_categories_as_they_are_written(names, brackets):
    states = brackets["a"].cat.categories
    brackets["a"] = brackets["a"].cat.rename_categories(names or states)
    known = brackets.dropna().assign(e=lambda t: t["a"].astype(str))
    known["f"] = np.where(known["a"] == known["a"].cat.categories[0], "low", known["e"].shift(1))
    known = known.iloc[1:]
    rules = [one.rule for one in find_rules(known).rules]
    given = ("f", "==", "low", "if", "a", "==", known["a"].cat.categories[0])
    assert ("a", "determines", "e") in rules
    assert given in rules
    rules = [("a", "determines", "e"), given]
    drawn = RuledDensity(CutsetNetworkBD(), rules).fit(known).sample(50, 0)
    assert (drawn["e"] == drawn["a"].astype(str)).all()
    assert (drawn["f"][drawn["a"] == given[6]] == "low").all()
    report = table_report(known, known.assign(f="low")).rules
    assert (report.loc[[str(given) == str(rule) for rule in report["rule"]], "kept"] == 1.0).all()


@pytest.mark.parametrize("is_text", [True, False])
def test_equal_categories_make_a_rule(is_text, brackets):
    known = brackets.astype({"b": str} if is_text else {}).assign(e=lambda t: t["b"])
    drawn = RuledDensity(CutsetNetworkBD(), [("e", "==", "b")]).fit(known).sample(50, 0)
    assert (drawn["e"] == drawn["b"]).all()
    assert drawn["b"].nunique() == 2


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
    table = table.head(60)
    X = table[["a", "b"]].mask(np.random.default_rng(1).random((60, 2)) < 0.2)
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
