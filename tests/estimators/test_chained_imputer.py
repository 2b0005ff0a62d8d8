"""Chained regressions on columns of every kind, in every kind of table."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from sklearn.base import clone

from skpc import MultipleImputer, TableMixture
from tests.naive.imputation import cox

STATES = ["none", "low", "mid", "high", "top"]
#: Columns whose missing cells are drawn among the values that the column has.
MATCHED = [
    "lattice",
    "bracket",
    "count",
    "date",
    "flag",
    "two",
    "five",
    "forty",
    "whole",
    "constant",
    "label",
    "real",
]
pytestmark = pytest.mark.filterwarnings("ignore:Some columns")


def zoo(n_rows=150, seed=0, missing=0.25):
    """A table with a column of each kind, with gaps in all of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    state = np.clip(np.round(x + 2.0 + 0.5 * rng.normal(size=n_rows)), 0, 4).astype(int)
    days = np.round(100.0 * x + 30.0 * rng.normal(size=n_rows))
    table = pd.DataFrame(
        {
            "lattice": np.round(2.0 * x + rng.normal(size=n_rows), 1),
            "bracket": pd.Categorical.from_codes(state, STATES, ordered=True),
            "count": rng.poisson(np.exp(0.5 * x)).astype(float),
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"),
            "flag": pd.array(x + rng.normal(size=n_rows) > 0.0, dtype="boolean"),
            "two": np.where(x + rng.normal(size=n_rows) > 0.0, "a", "b"),
            "five": rng.choice(list("vwxyz"), n_rows),
            "forty": [f"s{i:02d}" for i in rng.integers(0, 40, n_rows)],
            "whole": pd.array(rng.integers(0, 1000, n_rows), dtype="Int64"),
            "constant": 3.5,
            "label": "same",
            "name": [f"row {i}" for i in range(n_rows)],
            "real": np.exp(x + rng.normal(size=n_rows)),
        }
    )
    table = table.mask(rng.random(table.shape) < missing)
    table["empty"] = np.nan
    table["rare"] = np.where(np.arange(n_rows) < 12, x, np.nan)
    return table


def polars_zoo(table):
    """The same in polars."""
    columns = {}
    for name in table:
        cells = [None if pd.isna(cell) else cell for cell in table[name].tolist()]
        columns[name] = pl.Series(cells) if name != "empty" else pl.Series(cells, dtype=pl.Float64)
    return pl.DataFrame(columns).with_columns(
        pl.col("bracket").cast(pl.Enum(STATES)),
        pl.col("date").cast(pl.Date),
        pl.col("whole").cast(pl.Int32),
    )


def object_zoo(table):
    """The same as a plain array of objects; dates have no place there."""
    cells = table.drop(columns="date").astype(object)
    return cells.where(table.drop(columns="date").notna(), None).to_numpy()


def number_zoo(table):
    return table[["lattice", "count", "whole", "constant", "real", "rare"]].to_numpy(
        dtype=float, na_value=np.nan
    )


IMPUTER = MultipleImputer(
    TableMixture(n_components=2, random_state=0), n_imputations=3, n_rounds=2, random_state=0
)
FORMS = {"pandas": pd.DataFrame.copy, "polars": polars_zoo, "objects": object_zoo}
FORMS["numbers"] = number_zoo


def columns_of(table):
    """Cells of each column as a list, None where missing."""
    if isinstance(table, pl.DataFrame):
        return {name: table[name].to_list() for name in table.columns}
    frame = pd.DataFrame(table)
    return {
        name: [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame
    }


def same(one, other):
    if isinstance(one, np.ndarray):
        return all(columns_of(one)[name] == columns_of(other)[name] for name in columns_of(one))
    return one.equals(other)


@pytest.mark.parametrize("form", FORMS)
def test_imputed_cells_are_values_that_their_columns_have(form):
    X = FORMS[form](zoo())
    tables = clone(IMPUTER).fit_impute(X)
    before = columns_of(X)
    names = list(zoo().drop(columns="date")) if form == "objects" else list(before)
    if form == "numbers":
        names = ["lattice", "count", "whole", "constant", "real", "rare"]
    for table in tables:
        assert type(table) is type(X)
        if isinstance(X, pd.DataFrame):
            assert_array_equal(table.dtypes, X.dtypes)
            assert_array_equal(table.index, X.index)
        elif isinstance(X, pl.DataFrame):
            assert table.schema == X.schema
        for name, (cells, filled) in zip(
            names, zip(before.values(), columns_of(table).values(), strict=True), strict=True
        ):
            observed = [cell for cell in cells if cell is not None]
            assert [f for c, f in zip(cells, filled) if c is not None] == observed
            drawn = [f for c, f in zip(cells, filled) if c is None]
            if name in ("empty", "name"):
                # Nothing is known of these.
                assert {*drawn} == {None}
            elif name in MATCHED:
                assert {*drawn} <= {*observed}, name
            else:
                assert None not in drawn


@pytest.mark.parametrize("form", FORMS)
def test_calls_and_files_change_nothing(form):
    X = FORMS[form](zoo(100))
    imputer = clone(IMPUTER)
    first = imputer.fit_impute(X)
    for again in (imputer.impute(X), pickle.loads(pickle.dumps(imputer)).impute(X)):
        assert all(same(one, other) for one, other in zip(first, again))
    assert not all(same(one, first[0]) for one in first)


def test_threads_change_nothing_and_seeds_all():
    # Whatever the form of a table is, the chains see the same rows.
    X = zoo(100)
    first = clone(IMPUTER).fit_impute(X)
    again = clone(IMPUTER).set_params(n_jobs=2).fit_impute(X)
    assert all(same(one, other) for one, other in zip(first, again))
    other = clone(IMPUTER).set_params(random_state=1).fit_impute(X)
    assert not all(same(one, two) for one, two in zip(first, other))


@pytest.mark.parametrize("form", ["pandas", "polars", "numbers"])
def test_other_rows_are_filled_also_one_at_a_time(form):
    both = zoo(140).drop(columns="forty")
    X, others = both.iloc[:100], both.iloc[100:].reset_index(drop=True)
    imputer = clone(IMPUTER).fit(FORMS[form](X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables = imputer.impute(FORMS[form](others))
        one_row = [imputer.impute(FORMS[form](others.iloc[[row]])) for row in range(8)]
    assert len(tables[0]) == 40
    values = columns_of(FORMS[form](both))
    for row, filled in enumerate(one_row):
        for table in filled:
            assert len(table) == 1
            for name, cells in columns_of(table).items():
                cell, before = cells[0], columns_of(FORMS[form](others))[name][row]
                assert before is None or cell == before
                if name in MATCHED:
                    assert cell in values[name]


def test_a_gap_where_fit_had_none_is_drawn_from_the_density_with_one_warning():
    X = zoo(120).assign(real=lambda t: t["real"].fillna(1.0), five=lambda t: t["five"].fillna("v"))
    imputer = clone(IMPUTER).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        imputer.impute(X)
    other = X.assign(real=X["real"].mask(X.index < 10), five=X["five"].mask(X.index < 5))
    with pytest.warns(UserWarning, match="where none was in fit") as caught:
        tables = imputer.impute(other)
    assert len(caught) == 1
    assert "'real'" in str(caught[0].message)
    assert "'five'" in str(caught[0].message)
    for table in tables:
        assert table["real"].notna().all()
        assert table["five"].isin(list("vwxyz")).all()


def test_columns_that_had_gaps_and_no_regression_are_filled_without_a_warning():
    X = zoo(120)
    imputer = clone(IMPUTER).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = imputer.impute(X[-20:])[0]
    assert table["rare"].notna().all()
    assert (table["constant"] == 3.5).all()
    assert (table["label"] == "same").all()


def test_weights_that_count_rows_are_repeated_rows():
    X = zoo(90).drop(columns=["name", "empty", "rare", "forty"])
    weight = np.random.default_rng(0).integers(0, 3, 90)
    imputer = clone(IMPUTER)
    weighted = imputer.fit(X, sample_weight=weight).impute(X)
    repeated = imputer.fit(X.loc[np.repeat(X.index, weight)]).impute(X)
    for one, other in zip(weighted, repeated):
        assert_frame_equal(one, other)


def test_delta_moves_numbers_and_categories_of_chains():
    X = zoo(150)
    imputer = clone(IMPUTER).set_params(n_imputations=10).fit(X)
    plain = imputer.impute(X)
    delta = {"real": 0.5, "five": {"v": 1.5}, "flag": -1.0, "count": -0.3}
    with pytest.warns(UserWarning, match="beyond the ends"):
        moved = imputer.impute(X, delta)
    lost = X["real"].isna()
    for one, other in zip(plain, moved):
        rest = [name for name in X if name not in delta]
        assert_frame_equal(one[rest], other[rest])
        shift = other["real"] - one["real"]
        assert (shift[~lost] == 0.0).all()
        assert_allclose(shift[lost].median(), 0.5 * X["real"].std(ddof=0), rtol=1e-6)
        # Nobody leaves the category whose odds rise.
        assert (other["five"][one["five"] == "v"] == "v").all()
        assert (other["flag"] <= one["flag"]).all()
        # Numbers of few values stay among them.
        assert other["count"].isin(X["count"]).all()
    share = [np.mean([(t["five"] == "v").mean() for t in tables]) for tables in (plain, moved)]
    assert share[1] > share[0] + 0.03


def test_delta_of_a_covariate_of_the_analysis_reweighs_what_the_outcome_says():
    """Odds of a category given all cells of its row, the outcome too, are multiplied."""
    rng = np.random.default_rng(0)
    flag = rng.random(300) < 0.5
    X = pd.DataFrame({"y": 3.0 * flag + rng.normal(size=300), "z": rng.normal(size=300)})
    X["flag"] = pd.array(flag, dtype="boolean")
    X["flag"] = X["flag"].mask(rng.random(300) < 0.4)
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(
        density, n_imputations=40, model=("y", ["flag", "z"]), random_state=0
    ).fit(X)
    lost = X["flag"].isna()
    shares = [
        np.mean([table["flag"][lost].to_numpy(bool) for table in imputer.impute(X, delta)], axis=0)
        for delta in (None, {"flag": 1.0})
    ]
    # The logistic slope is 3 / sd^2; a log odds of 1 moves the even chance by a third.
    y = X["y"][lost].to_numpy()
    log_odds = 3.0 * (y - 1.5)
    for share, added in zip(shares, (0.0, 1.0)):
        truth = 1.0 / (1.0 + np.exp(-log_odds - added))
        assert_allclose(share.mean(), truth.mean(), atol=0.05)
        assert np.abs(share - truth).mean() < 0.08


def test_delta_leaves_out_what_is_computed():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    X["sum"] = X["a"] + X["b"]
    X.loc[:20, ["a", "sum"]] = np.nan
    imputer = clone(IMPUTER).set_params(passive={"sum": lambda t: t["a"] + t["b"]}).fit(X)
    with pytest.raises(ValueError, match="passive computes"):
        imputer.impute(X, delta={"sum": 1.0})


@pytest.mark.parametrize("kind", ["dict of numbers", "function of rows"])
def test_passive_columns_of_plain_arrays_and_polars(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    X[:30, [0, 2]] = np.nan
    if kind == "dict of numbers":
        imputer = clone(IMPUTER).set_params(passive={2: lambda t: t[:, 0] * t[:, 1]})
        for table in imputer.fit_impute(X):
            assert_array_equal(table[:30, 2], table[:30, 0] * table[:30, 1])
        return
    frame = pl.DataFrame(dict(zip("abc", X.T))).fill_nan(None)
    imputer = clone(IMPUTER).set_params(passive={"c": lambda t: t["a"] * t["b"]})
    for table in imputer.fit_impute(frame):
        assert_array_equal(table["c"][:30], table["a"][:30] * table["b"][:30])


def test_a_table_without_gaps_comes_back():
    X = zoo(60, missing=0.0).drop(columns=["empty", "rare"])
    for table in clone(IMPUTER).fit_impute(X):
        assert_frame_equal(table, X)


def test_a_single_column_is_drawn_from_its_law():
    """Rows without a cell teach no regression: they are drawn from the density."""
    X = np.r_[np.arange(30.0), np.full(10, np.nan)].reshape(-1, 1)
    for table in clone(IMPUTER).fit_impute(X):
        assert np.isfinite(table).all()
        assert_array_equal(table, np.round(table))


def test_columns_with_the_same_gaps_and_rows_without_a_cell():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[:, 1] += 3.0 * X[:, 0]
    X[:25, :2] = np.nan
    X[:10] = np.nan
    X[30:50, 2] = np.nan
    for table in clone(IMPUTER).fit_impute(X):
        assert np.isfinite(table).all()
        assert np.corrcoef(table[:, 0], table[:, 1])[0, 1] > 0.7


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_of_columns_change_no_distribution(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    X[:, 1] += X[:, 0]
    X[rng.random((100, 3)) < 0.25] = np.nan
    imputer = clone(IMPUTER).set_params(n_imputations=30)
    moments = []
    for factors in (np.ones(3), np.array([scale, 1.0, 4.0])):
        tables = np.array(imputer.fit_impute(X * factors)) / factors
        moments.append([[*t.mean(axis=0), *np.cov(t.T)[np.triu_indices(3)]] for t in tables])
    moments = np.array(moments)
    error = np.sqrt((moments.var(axis=1, ddof=1) / 30).sum(axis=0))
    assert (np.abs(moments[0].mean(axis=0) - moments[1].mean(axis=0)) < 4.0 * error).all()


def mean_and_variance(table):
    values = table["y"].to_numpy()
    return values.mean(), values.var(ddof=1) / len(values)


@pytest.mark.parametrize(
    ("n_repeats", "least"), [(20, 0.8), pytest.param(60, 0.86, marks=pytest.mark.slow)]
)
def test_intervals_of_a_mean_cover_with_half_of_its_cells_missing(n_repeats, least):
    covered, error = 0, []
    for seed in range(n_repeats):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=100)
        X = pd.DataFrame({"x": x, "y": x + rng.normal(size=100)})
        X["y"] = X["y"].mask(rng.random(100) < 0.5)
        imputer = MultipleImputer(
            TableMixture(n_components=1, random_state=0), n_imputations=5, random_state=seed
        )
        combined = imputer.fit(X).combine(X, mean_and_variance, df_complete=99)
        ends = combined.conf_int().loc[0]
        covered += ends["lower"] < 0.0 < ends["upper"]
        error.append(combined.table["estimate"][0])
    # Three standard errors below .95.
    assert covered / n_repeats > least
    assert abs(np.mean(error)) < 4.0 * np.std(error) / np.sqrt(n_repeats)


TRUE_HAZARDS = np.array([0.5, -0.7, 0.6])


def survival(n_rows, seed):
    """Proportional hazards, right censored, with a third of each covariate missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    z = 0.5 * x + 0.866 * rng.normal(size=n_rows)
    flag = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-x))
    time = rng.exponential(size=n_rows) / np.exp(np.column_stack([x, z, flag]) @ TRUE_HAZARDS)
    censored = rng.exponential(2.0, size=n_rows)
    table = pd.DataFrame({"x": x, "z": z, "flag": pd.array(flag, dtype="boolean")})
    table = table.mask(rng.random((n_rows, 3)) < 0.3)
    return table.assign(time=np.minimum(time, censored), event=time <= censored)


def hazards_of(table):
    covariates = table[["x", "z", "flag"]].to_numpy(dtype=float)
    return cox(table["time"].to_numpy(), table["event"].to_numpy(bool), covariates)


def coverage_of_hazards(n_rows, seeds, n_imputations):
    covered, errors = [], []
    for seed in seeds:
        X = survival(n_rows, seed)
        imputer = MultipleImputer(
            TableMixture(n_components=2, random_state=0),
            n_imputations=n_imputations,
            model=(("time", "event"), ["x", "z", "flag"]),
            random_state=seed,
        )
        combined = imputer.fit(X).combine(X, hazards_of)
        ends = combined.conf_int().to_numpy()
        covered.append((ends[:, 0] < TRUE_HAZARDS) & (ends[:, 1] > TRUE_HAZARDS))
        errors.append(combined.table["estimate"].to_numpy() - TRUE_HAZARDS)
    return np.mean(covered), np.mean(errors, axis=0), np.std(errors, axis=0)


def test_intervals_of_hazards_cover():
    coverage, bias, spread = coverage_of_hazards(150, range(8), 4)
    # Three standard errors of 8 repeats of three coefficients below .95.
    assert coverage > 0.95 - 3.0 * np.sqrt(0.95 * 0.05 / 24)
    assert (np.abs(bias) < 4.0 * spread / np.sqrt(8)).all()


@pytest.mark.slow
def test_intervals_of_hazards_cover_over_many_repeats():
    coverage, bias, spread = coverage_of_hazards(500, range(120), 10)
    assert 0.92 <= coverage <= 0.98
    assert (np.abs(bias) < 4.0 * spread / np.sqrt(120)).all()
