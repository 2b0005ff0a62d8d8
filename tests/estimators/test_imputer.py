"""CircuitImputer: a density as a transformer."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skpc import CircuitImputer, CutsetNetworkBD, HiddenChowLiuTree, MixtureOfAllTrees

#: A density that is learned alike at every fit.
DENSITY = CutsetNetworkBD(random_state=0)
STRATEGIES = ["mean", "mpe", "sample"]
CELLS = ["kind", "name", "flag", "maybe", "age", "size"]


def complete_table(n_rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """A table with a column of every dtype that pandas users meet."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    other = np.where(rng.random(n_rows) < 0.9, kind, rng.integers(0, 3, n_rows))
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(np.array(["low", "mid", "top"])[kind], ordered=True),
            "name": pd.Series(np.array(["a", "b", "c"])[other], dtype="string"),
            "flag": kind > 0,
            "maybe": pd.Series(other > 0, dtype="boolean"),
            "age": pd.Series(20 + 10 * kind + rng.integers(0, 9, n_rows), dtype="Int64"),
            "size": kind * 2.0 + rng.normal(size=n_rows),
            "whole": 100 + 7 * rng.integers(0, 30, n_rows),
        }
    )
    return frame.set_index("row " + frame.index.astype(str))


def with_missing_cells(frame: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """Three cells in ten removed, but for the last column, whose dtype cannot say "missing"."""
    mask = np.random.default_rng(seed).random(frame.shape) < 0.3
    mask[:, -1] = False
    return frame.astype({"flag": object}).mask(mask)


def polars_with_missing_cells() -> pl.DataFrame:
    incomplete = with_missing_cells(complete_table())
    columns = {
        name: [None if pd.isna(cell) else cell for cell in incomplete[name].tolist()]
        for name in incomplete
    }
    return pl.DataFrame(columns).with_columns(
        pl.col("kind").cast(pl.Enum(["low", "mid", "top"])),
        pl.col("name").cast(pl.Categorical),
        pl.col("age").cast(pl.Int32),
        pl.col("size").cast(pl.Float32),
    )


def numbers_with_missing_cells(n_rows: int = 300, seed: int = 0) -> np.ndarray:
    """Three columns that depend on each other, with missing cells in the last two."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n_rows)
    X = np.column_stack([base, base + 0.5 * rng.normal(size=n_rows), rng.normal(size=n_rows)])
    X[:, 1:][rng.random((n_rows, 2)) < 0.3] = np.nan
    return X


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_missing_cells_are_filled_as_complete_fills_them_and_observed_cells_stay(strategy):
    X = numbers_with_missing_cells()
    filled = CircuitImputer(DENSITY, strategy=strategy, random_state=3).fit(X).transform(X)
    density = clone(DENSITY).fit(X)
    assert_array_equal(filled, density.complete(X, strategy=strategy, random_state=3))
    assert filled.dtype == np.float64
    seen = ~np.isnan(X)
    assert_array_equal(filled[seen], X[seen])
    assert not np.isnan(filled).any()


def test_the_density_given_is_cloned_and_its_settings_are_used():
    X = numbers_with_missing_cells()
    density = CutsetNetworkBD(n_bins=3, random_state=5)
    imputer = CircuitImputer(density, random_state=1).fit(X)
    assert not hasattr(density, "circuit_")
    assert imputer.density_.random_state == 5
    assert_array_equal(imputer.transform(X), clone(density).fit(X).complete(X))


def test_the_same_seed_draws_alike_and_another_one_does_not():
    X = numbers_with_missing_cells()
    imputer = CircuitImputer(DENSITY, strategy="sample", random_state=0).fit(X)
    first = imputer.transform(X)
    assert_array_equal(imputer.transform(X), first)
    assert_array_equal(clone(imputer).fit_transform(X), first)
    assert not np.array_equal(imputer.set_params(random_state=1).transform(X), first)
    imputer.set_params(random_state=None)
    assert not np.array_equal(imputer.transform(X), imputer.transform(X))


def test_draws_keep_the_spread_that_means_lose():
    X = numbers_with_missing_cells(1500)
    lost = np.isnan(X[:, 2])
    mean, draw = (
        CircuitImputer(strategy=strategy, random_state=0).fit_transform(X)[lost, 2].std()
        for strategy in ("mean", "sample")
    )
    assert mean < 0.2
    assert draw == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("as_frame", [False, True])
def test_indicator_columns_and_names_agree_with_those_of_simple_imputer(as_frame):
    X = numbers_with_missing_cells()
    X = pd.DataFrame(X, columns=["a", "b", "c"]) if as_frame else X
    new = X.copy()
    if as_frame:
        new.iloc[:5, 0] = np.nan
    else:
        new[:5, 0] = np.nan
    ours = CircuitImputer(DENSITY, add_indicator=True).fit(X)
    theirs = SimpleImputer(add_indicator=True).fit(X)
    assert ours.transform(new).shape == theirs.transform(new).shape == (300, 5)
    assert_array_equal(ours.transform(new)[:, 3:], theirs.transform(new)[:, 3:])
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    framed = ours.set_output(transform="pandas").transform(new)
    theirs.set_output(transform="pandas")
    assert framed.columns.tolist() == theirs.transform(new).columns.tolist()
    assert_array_equal(framed.iloc[:, 3:], theirs.transform(new).iloc[:, 3:])


def test_names_out_are_names_in_and_other_names_are_refused():
    X = numbers_with_missing_cells()
    imputer = CircuitImputer(DENSITY).fit(X)
    assert imputer.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert imputer.get_feature_names_out(["a", "b", "c"]).tolist() == [*"abc"]
    imputer = CircuitImputer(DENSITY).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert imputer.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        imputer.get_feature_names_out(["a", "b", "d"])


def test_the_indicator_covers_no_rows_of_weight_zero():
    X = numbers_with_missing_cells()
    weight = (~np.isnan(X[:, 1])).astype(float)
    imputer = CircuitImputer(DENSITY, add_indicator=True).fit(X, sample_weight=weight)
    assert imputer.indicator_.features_.tolist() == [2]


def test_a_weight_of_two_equals_the_row_twice():
    X = numbers_with_missing_cells(80)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    a = CircuitImputer(DENSITY).fit(X, sample_weight=weight)
    b = CircuitImputer(DENSITY).fit(np.repeat(X, weight, axis=0))
    assert_allclose(a.transform(X), b.transform(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pandas_output_keeps_dtypes_index_and_observed_cells(strategy):
    frame = complete_table()
    incomplete = with_missing_cells(frame)
    # By default numbers and categories have a density each.
    density = None if strategy == "mean" else DENSITY
    imputer = CircuitImputer(density, strategy=strategy, random_state=0)
    imputer.set_output(transform="pandas")
    filled = imputer.fit(incomplete).transform(incomplete)
    assert filled.dtypes.equals(incomplete.dtypes)
    assert filled.index.equals(incomplete.index)
    assert not filled.isna().any().any()
    seen = incomplete.notna()
    assert filled.where(seen, None).astype(object).equals(frame.where(seen, None).astype(object))
    assert set(filled["flag"]) == {True, False}
    assert imputer.transform(frame).equals(frame)


def test_pandas_indicators_are_bools_behind_the_columns():
    incomplete = with_missing_cells(complete_table())
    imputer = CircuitImputer(add_indicator=True).set_output(transform="pandas")
    filled = imputer.fit_transform(incomplete)
    marks = filled.iloc[:, incomplete.shape[1] :]
    assert marks.columns.tolist() == [f"missingindicator_{name}" for name in CELLS]
    assert_array_equal(marks, incomplete[CELLS].isna())
    assert set(marks.dtypes) == {np.dtype(bool)}
    assert marks.index.equals(incomplete.index)


def test_polars_output_keeps_the_schema():
    incomplete = polars_with_missing_cells()
    imputer = CircuitImputer(DENSITY, add_indicator=True).set_output(transform="polars")
    filled = imputer.fit_transform(incomplete)
    assert filled.columns == imputer.get_feature_names_out().tolist()
    assert filled.select(incomplete.columns).schema == incomplete.schema
    assert sum(filled.null_count().row(0)) == 0
    for name in CELLS:
        assert filled[f"missingindicator_{name}"].equals(incomplete[name].is_null())
        seen = incomplete[name].is_not_null()
        assert filled[name].filter(seen).equals(incomplete[name].filter(seen))
    plain = CircuitImputer(DENSITY).set_output(transform="polars").fit(incomplete)
    assert plain.transform(incomplete).equals(filled.select(incomplete.columns))


@pytest.mark.parametrize(
    "incomplete", [with_missing_cells(complete_table()), polars_with_missing_cells()]
)
def test_arrays_come_out_of_frames_by_default(incomplete):
    mixed = CircuitImputer(DENSITY, add_indicator=True).fit_transform(incomplete)
    assert isinstance(mixed, np.ndarray)
    assert mixed.dtype == object
    assert mixed.shape == (120, 13)
    assert set(mixed[:, 0]) == {"low", "mid", "top"}
    numeric = incomplete[["flag", "maybe", "age", "size"]]
    filled = CircuitImputer(DENSITY).fit_transform(numeric)
    assert filled.dtype == np.float64
    assert set(filled[:, 0]) == {0.0, 1.0}
    assert not np.isnan(filled).any()


def test_the_global_configuration_of_scikit_learn_is_heard():
    incomplete = with_missing_cells(complete_table())
    with config_context(transform_output="pandas"):
        assert CircuitImputer(DENSITY).fit_transform(incomplete).dtypes.equals(incomplete.dtypes)


def test_a_frame_of_one_library_can_leave_as_one_of_the_other():
    pandas, polars = with_missing_cells(complete_table()), polars_with_missing_cells()
    imputer = CircuitImputer(DENSITY, add_indicator=True)
    a = imputer.set_output(transform="polars").fit_transform(pandas)
    b = imputer.set_output(transform="pandas").fit_transform(polars)
    assert isinstance(a, pl.DataFrame)
    assert isinstance(b, pd.DataFrame)
    assert a.columns == list(b.columns)
    assert a.select(CELLS).dtypes == [
        *(pl.String, pl.String, pl.Boolean, pl.Boolean, pl.Int64, pl.Float64)
    ]
    assert b[["flag", "maybe", "age", "size"]].dtypes.tolist() == [bool, bool, "int32", "float32"]
    assert a["kind"].to_list() == b["kind"].tolist()


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
@pytest.mark.parametrize("first", ["pandas", "polars"])
@pytest.mark.parametrize("second", ["pandas", "polars"])
def test_frames_of_either_library_are_filled_alike(first, second, output):
    kind, rng = ["low", "top"] * 40, np.random.default_rng(0)
    size = [None if number % 7 == 0 else float(number % 2) for number in range(80)]
    flag = rng.choice([True, False, None], 80).tolist()
    cells = {"kind": kind, "flag": flag, "size": size, "note": rng.choice(["a", "b"], 80).tolist()}
    frames = {"pandas": pd.DataFrame(cells), "polars": pl.DataFrame(cells)}
    imputer = CircuitImputer(CutsetNetworkBD(random_state=0)).set_output(transform=output)
    filled = imputer.fit(frames[first]).transform(frames[second])
    assert (
        type(filled)
        is {"default": np.ndarray, "pandas": pd.DataFrame, "polars": pl.DataFrame}[output]
    )
    filled = np.asarray(filled)
    assert filled[:, 0].tolist() == kind
    assert filled[:, 3].tolist() == cells["note"]
    assert [a for a, b in zip(filled[:, 2], size) if b is not None] == [
        b for b in size if b is not None
    ]
    expected = CircuitImputer(CutsetNetworkBD(random_state=0)).fit(frames["pandas"])
    assert_array_equal(filled, expected.transform(frames["pandas"]))


def test_arrays_of_objects_become_typed_columns_where_frames_are_asked_for():
    cells = with_missing_cells(complete_table())[["name", "maybe", "size"]].to_numpy(dtype=object)
    imputer = CircuitImputer(DENSITY).fit(cells)
    filled = imputer.transform(cells)
    assert filled.dtype == object
    assert imputer.set_output(transform="polars").transform(cells).schema == {
        "x0": pl.String,
        "x1": pl.Boolean,
        "x2": pl.Float64,
    }
    framed = imputer.set_output(transform="pandas").transform(cells)
    assert framed.columns.tolist() == ["x0", "x1", "x2"]
    assert framed.dtypes.tolist()[1:] == [bool, float]
    assert framed["x0"].tolist() == filled[:, 0].tolist()


def test_rows_without_any_cell_get_what_is_best_without_evidence():
    X = numbers_with_missing_cells(1000)
    imputer = CircuitImputer().fit(X)
    assert_allclose(imputer.transform(np.full((1, 3), np.nan))[0], np.nanmean(X, axis=0), atol=0.2)


def test_a_pipeline_predicts_rows_with_missing_cells_better_than_means_let_it():
    X, y = load_diabetes(return_X_y=True)
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    ours = make_pipeline(CircuitImputer(DENSITY), LinearRegression()).fit(X[:300], y[:300])
    means = make_pipeline(SimpleImputer(), LinearRegression()).fit(X[:300], y[:300])
    assert ours.score(X[300:], y[300:]) > means.score(X[300:], y[300:]) > 0.2


def test_grid_search_reaches_the_parameters_of_the_density():
    X = numbers_with_missing_cells(120)
    y = X[:, 0]
    pipeline = make_pipeline(CircuitImputer(DENSITY), LinearRegression())
    grid = {
        "circuitimputer__density__max_depth": [0, 1],
        "circuitimputer__strategy": ["mean", "mpe"],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    max_depth = search.best_params_["circuitimputer__density__max_depth"]
    assert search.best_estimator_[0].density_.max_depth == max_depth


def test_sample_weight_reaches_the_imputer_in_a_pipeline():
    X, weight = numbers_with_missing_cells(), np.random.default_rng(0).integers(1, 4, 300)
    pipeline = make_pipeline(CircuitImputer(DENSITY), LinearRegression())
    pipeline.fit(X, np.arange(300.0), circuitimputer__sample_weight=weight)
    alone = CircuitImputer(DENSITY).fit(X, sample_weight=weight)
    assert_array_equal(pipeline[0].transform(X), alone.transform(X))


def with_wrong_cells(n_rows: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows in which a number is often wrong, and a row that is asked about."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=n_rows)
    second, third = (first + 0.2 * rng.normal(size=n_rows) for _ in range(2))
    kind = np.where(first > 0.0, "high", "low")
    table = pd.DataFrame({"a": first, "b": second, "kind": kind, "d": third}).round(2)
    table.loc[rng.choice(n_rows, 20, replace=False), "b"] = 50.0
    table.loc[rng.choice(n_rows, 80, replace=False), "d"] = np.nan
    return table, pd.DataFrame({"a": [-1.0], "b": [50.0], "kind": ["low"], "d": [np.nan]})


@pytest.mark.parametrize("density", [HiddenChowLiuTree(random_state=0), None])
def test_a_robust_imputer_does_not_believe_wrong_cells_and_keeps_them(density):
    table, row = with_wrong_cells()
    imputer = CircuitImputer(density, robust=True, random_state=0)
    imputer.set_output(transform="pandas").fit(table)
    trusted = imputer.density_.complete(row.assign(b=np.nan))
    for strategy in STRATEGIES:
        filled = imputer.set_params(strategy=strategy).transform(row)
        assert filled["b"].item() == 50.0
        assert abs(filled["d"].item() - trusted["d"].item()) < (0.1 if strategy == "mean" else 1.5)
    filled = imputer.transform(table)
    assert_array_equal(filled.notna(), True)
    pd.testing.assert_frame_equal(filled.where(table.notna()), table)


@pytest.mark.parametrize("library", ["default", "polars"])
def test_a_robust_imputer_keeps_kinds_of_tables(library):
    table, row = with_wrong_cells()
    table, row = table.drop(columns="kind"), row.drop(columns="kind")
    if library == "polars":
        table, row = pl.from_pandas(table), pl.from_pandas(row)
    else:
        table, row = table.to_numpy(), row.to_numpy()
    imputer = CircuitImputer(HiddenChowLiuTree(random_state=0), robust=True, random_state=0)
    filled = imputer.set_output(transform=library).fit(table).transform(row)
    assert type(filled) is type(row)
    assert_allclose(np.asarray(filled)[0, :2], [-1.0, 50.0])
    assert np.asarray(filled)[0, 2] < 0.0


def test_a_robust_imputer_takes_any_density_that_completes():
    """Categories alone: a cell that contradicts the others is not believed."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 400)
    table = np.where(rng.random((400, 4)) < 0.05, rng.integers(0, 3, (400, 4)), kind[:, None])
    table = table.astype(float)
    states = {"categorical_features": [0, 1, 2, 3]}
    density = MixtureOfAllTrees(max_iter=20, random_state=0, **states)
    imputer = CircuitImputer(density, robust=True, strategy="mpe", random_state=0)
    filled = imputer.fit(table).transform([[1.0, 1.0, 2.0, np.nan]])
    assert_array_equal(filled, [[1.0, 1.0, 2.0, 1.0]])


def test_pickles_fill_alike():
    X = numbers_with_missing_cells()
    imputer = CircuitImputer(add_indicator=True, strategy="sample", random_state=0).fit(X)
    assert_array_equal(pickle.loads(pickle.dumps(imputer)).transform(X), imputer.transform(X))


@pytest.mark.parametrize("density", [GaussianMixture(), "mixture"])
def test_a_density_that_cannot_complete_is_refused(density):
    with pytest.raises(TypeError, match=r"needs a method complete; found .*ixture.*CutsetNetwork"):
        CircuitImputer(density).fit(numbers_with_missing_cells())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "median"}, "'strategy' parameter"),
        ({"add_indicator": "yes"}, "'add_indicator' parameter"),
        ({"random_state": "seed"}, "'random_state' parameter"),
        ({"density": CutsetNetworkBD(ess=-1.0)}, "'ess' parameter of CutsetNetworkBD"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CircuitImputer(**options).fit(numbers_with_missing_cells())


def test_a_column_without_any_value_is_warned_of_in_fit_and_filled_in_transform():
    frame = complete_table()
    empty = frame.assign(size=np.nan)
    with pytest.warns(UserWarning, match="no value.* Found column 'size'"):
        CircuitImputer().fit(empty)
    filled = CircuitImputer(DENSITY).set_output(transform="pandas").fit(frame).transform(empty)
    assert filled["size"].notna().all()


def test_columns_in_another_order_are_refused():
    frame = complete_table()
    with pytest.raises(ValueError, match="feature names"):
        CircuitImputer(DENSITY).fit(frame).transform(frame[frame.columns[::-1]])


def test_a_failed_fit_leaves_the_imputer_as_it_was():
    X = numbers_with_missing_cells()
    imputer = CircuitImputer(add_indicator=True).fit(X)
    before = imputer.transform(X)
    with pytest.raises(ValueError, match="column 3"):
        imputer.fit(np.column_stack([X, np.full(300, 1e200)]))
    assert_array_equal(imputer.transform(X), before)
    assert imputer.n_features_in_ == 3


def test_an_interrupted_fit_leaves_the_imputer_as_it_was(monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    X = numbers_with_missing_cells()
    imputer = CircuitImputer(DENSITY).fit(X)
    before = imputer.transform(X)
    monkeypatch.setattr("skpc.estimators.imputer.MissingIndicator", interrupt)
    with pytest.raises(KeyboardInterrupt):
        imputer.set_params(add_indicator=True).fit(X[:, :2])
    monkeypatch.undo()
    assert_array_equal(imputer.set_params(add_indicator=False).transform(X), before)
