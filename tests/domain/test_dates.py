"""Tests of columns of dates and durations, from the calendar to the answers of estimators."""

import calendar as months_of_python
import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st

from skpc import CircuitImputer, CutsetNetworkBD, DensityRegressor, SoftLearnSPN, TableMixture
from skpc.domain import Domain
from skpc.variables.dates import Calendar, as_dates, read_dates

N = 300
RNG = np.random.default_rng(0)
MONTH_ENDS = pd.date_range("1990-01-31", periods=N, freq="ME")
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 400, N), unit="D")
SECONDS = pd.Timestamp("2023-03-20") + pd.to_timedelta(RNG.integers(0, 900_000, N), unit="s")
HOURS = pd.to_timedelta(RNG.integers(0, 90, N), unit="h")
X = np.arange(N) + RNG.normal(size=N)
COLUMNS = ["month", "day", "second", "local", "hours"]


def pandas_frame():
    frame = pd.DataFrame(
        {
            "month": MONTH_ENDS,
            "day": DAYS.astype("datetime64[ns]"),
            "second": SECONDS,
            "local": SECONDS.tz_localize("Europe/Berlin", nonexistent="shift_forward"),
            "hours": HOURS,
            "date": [moment.date() for moment in DAYS],
            "x": X,
        },
        index=np.arange(N) + 7,
    )
    return frame.mask(np.random.default_rng(1).random(frame.shape) < 0.05)


def polars_frame():
    frame = pl.from_pandas(pandas_frame().drop(columns="date"))
    return frame.with_columns(pl.col("day").cast(pl.Date), pl.col("second").cast(pl.Datetime("ms")))


def numpy_table():
    days = DAYS.to_numpy().astype("datetime64[D]")
    table = np.column_stack([MONTH_ENDS.to_numpy().astype("datetime64[D]"), days])
    table[3, 1] = "NaT"
    return table


TABLES = pytest.mark.parametrize(
    "table", [pandas_frame(), polars_frame(), numpy_table()], ids=["pandas", "polars", "numpy"]
)
FRAMES = pytest.mark.parametrize(
    "frame", [pandas_frame(), polars_frame()], ids=["pandas", "polars"]
)


def dtypes_of(table):
    return [table.dtype] if isinstance(table, np.ndarray) else list(table.dtypes)


def n_missing(table):
    if isinstance(table, np.ndarray):
        return np.isnat(table).sum()
    return (
        table.isna().sum().sum()
        if isinstance(table, pd.DataFrame)
        else sum(table.null_count().row(0))
    )


def is_month_end(moments):
    moments = pd.DatetimeIndex(np.asarray(moments))
    return bool((moments + pd.Timedelta(days=1)).day.unique().tolist() == [1])


# ---------------------------------------------------------------- calendars


def calendar_of(values, weight=None):
    return Calendar.fit(values, weight, "the column")


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("D", ["2020-01-01", "2020-01-03", "2021-05-17"]),
        ("h", ["2020-01-01T05", "2020-01-03", "2021-05-17"]),
        ("m", ["2020-01-01T05:01", "2020-01-03", "2021-05-17"]),
        ("s", ["2020-01-01T05:01:09", "2020-01-03", "2021-05-17"]),
        ("ms", ["2020-01-01T05:01:09.001", "2020-01-03", "2021-05-17"]),
        ("us", ["2020-01-01T05:01:09.000001", "2020-01-03", "2021-05-17"]),
        ("ns", ["2020-01-01T05:01:09.000000001", "2020-01-03", "2020-01-17"]),
    ],
)
def test_the_unit_is_the_greatest_of_which_all_dates_are_multiples(unit, text):
    moments = np.array(text, dtype="datetime64[ns]")
    calendar = calendar_of(moments)
    numbers = calendar.numbers_of(moments, "moments")
    assert calendar.unit == unit
    assert np.array_equal(numbers, np.rint(numbers))
    assert np.array_equal(np.diff(numbers), np.diff(moments) / np.timedelta64(1, unit))
    assert np.array_equal(calendar.dates(numbers), moments)


@pytest.mark.parametrize("day", [1, 15, 28, 29, 30, 31])
def test_dates_on_one_day_of_the_month_or_its_last_count_months(day):
    dates = []
    for month in range(480):
        year, of_year = 1950 + month // 12, 1 + month % 12
        last = months_of_python.monthrange(year, of_year)[1]
        dates.append(datetime.date(year, of_year, min(day, last)))
    calendar = calendar_of(dates[::7])
    assert (calendar.unit, calendar.day) == ("M", day)
    numbers = calendar.numbers_of(dates, "dates")
    assert np.array_equal(np.diff(numbers), np.ones(479))
    assert calendar.objects(numbers).tolist() == dates


def test_other_days_lie_between_the_months():
    calendar = calendar_of(MONTH_ENDS)
    numbers = calendar.numbers_of(pd.date_range("2000-01-31", "2000-03-31"), "days")
    assert (np.diff(numbers) > 0.0).all()
    assert numbers[0] + 1 == numbers[29] == numbers[-1] - 1
    assert calendar.numbers_of([datetime.date(2000, 2, 10)], "day")[0] == numbers[0] + 10 / 29


def test_few_months_or_days_of_several_months_count_days():
    for dates in (["2020-01-05", "2020-02-05"] * 9, ["2020-01-31", "2020-02-28", "2020-03-31"]):
        assert calendar_of(np.array(dates, "M8[D]")).unit == "D"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.datetimes(), min_size=1, max_size=8), st.sampled_from(["D", "h", "s", "us"]))
def test_numbers_increase_with_dates_and_give_them_back(moments, unit):
    dates = np.array(sorted(moments), dtype=f"M8[{unit}]")
    calendar = calendar_of(dates)
    numbers = calendar.numbers_of(dates, "dates")
    assert (np.diff(numbers) >= 0.0).all()
    assert (np.diff(numbers) > 0.0).sum() <= len(np.unique(dates)) - 1
    # Numbers beyond 2**53 are not whole.
    if np.abs(numbers).max() < 2.0**53:
        assert np.array_equal(calendar.dates(numbers), dates)


def test_one_unusual_row_of_many_does_not_change_the_unit():
    dates = DAYS.to_numpy().copy()
    dates[5] += np.timedelta64(12_345, "s")
    assert calendar_of(dates).unit == "D"
    assert calendar_of(dates[:20]).unit == "s"


def test_a_row_of_weight_zero_has_no_say():
    dates = np.array(["2020-01-01", "2020-01-09", "1900-01-01T00:00:01"], "M8[s]")
    assert calendar_of(dates, [1.0, 2.0, 0.0]) == calendar_of(dates[[0, 1, 1]])


def test_the_numbers_of_dates_lie_around_zero_and_those_of_durations_begin_there():
    numbers = calendar_of(DAYS).numbers_of(DAYS, "days")
    assert abs(numbers.min() + numbers.max()) <= 1.0
    assert np.array_equal(calendar_of(HOURS).numbers_of(HOURS, "h"), HOURS / pd.Timedelta(hours=1))


def test_durations_end_where_numbers_do_and_dates_do_not():
    hours = np.round(60.0 * np.exp(np.random.default_rng(0).normal(size=300)))
    table = pd.DataFrame({"h": hours, "t": pd.to_timedelta(hours, unit="m"), "d": hours})
    table["d"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(hours, unit="D")
    number, duration, date = Domain.fit(table)
    assert number.law.ends[0] == 0.0
    assert duration.law.ends == number.law.ends
    assert date.law.ends == (-np.inf, np.inf)


def test_dates_beyond_what_the_column_holds_are_refused():
    fine = calendar_of(DAYS.astype("datetime64[ns]"))
    with pytest.raises(
        ValueError, match="x must lie between 1677-.* and 2262-.*; found 3000-01-01"
    ):
        fine.numbers_of(np.array(["3000-01-01"], "M8[D]"), "x")
    with pytest.raises(ValueError, match="x must lie between 0001-01-01 and 9999-12-31"):
        calendar_of(DAYS.astype("datetime64[us]")).numbers_of(
            np.array(["20000-01-01"], "M8[D]"), "x"
        )
    with pytest.raises(ValueError, match="must lie between"):
        calendar_of(np.array(["2020-01-01"], "M8[D]")).numbers_of(
            np.array(["-5000-01-01"], "M8[s]"), "x"
        )


@pytest.mark.parametrize(
    "values",
    [DAYS.astype("datetime64[ns]"), SECONDS, MONTH_ENDS, HOURS, HOURS.astype("timedelta64[ns]")],
    ids=["ns", "s", "month", "h", "hours in ns"],
)
def test_no_number_stands_for_a_date_that_overflows(values):
    calendar = calendar_of(values)
    numbers = np.array([-np.inf, -1e300, -1e9, 0.0, 1e9, 1e300, np.inf, np.nan])
    dates = calendar.dates(numbers)
    assert (dates[1:-1] >= dates[:-2]).all()
    assert np.isnat(dates[-1])
    assert calendar.objects(numbers)[-1] is None
    if calendar.stored.startswith("M8"):
        years = dates[:-1].astype("M8[Y]").astype(int) + 1970
        assert years.min() >= 1
        assert years.max() <= 9999


def test_dates_of_all_kinds_are_read_alike():
    date, moment = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29)
    for values in (
        [date, None],
        [moment, np.nan],
        [pd.Timestamp(moment), pd.NaT],
        [np.datetime64(date), np.datetime64("NaT", "D")],
        pd.Series([moment, None]),
        pl.Series([date, None]),
        pl.Series([moment, None]),
        pd.Index([moment, pd.NaT]),
        np.array([date, "NaT"], "M8[s]"),
    ):
        moments, zone = read_dates(values, "x")
        assert zone is None
        assert np.array_equal(moments, np.array([date, "NaT"], "M8[D]"), equal_nan=True)
    for values in ([1.0, 2.0], ["2020-01-01"], [date, 1.0], [date, HOURS[0]], [None]):
        assert read_dates(values, "x") is None


# ---------------------------------------------------------------- answers


@TABLES
def test_dates_come_back_in_their_dtype_from_every_method(table):
    model = CutsetNetworkBD().fit(table)
    assert not model.domain_.is_categorical.any()
    drawn = model.sample(50, random_state=0)
    completed = [model.complete(table, strategy, 0) for strategy in ("mean", "mpe", "sample")]
    lower, upper = model.interval(table)
    for answer in (drawn, *completed, lower, upper):
        assert type(answer) is type(table)
        assert dtypes_of(answer) == dtypes_of(table)
        assert n_missing(answer) == 0
    assert n_missing(table) > 0
    assert is_month_end(drawn["month"] if hasattr(drawn, "columns") else drawn[:, 0])
    assert is_month_end(lower["month"] if hasattr(drawn, "columns") else lower[:, 0])
    assert np.isfinite(model.score_samples(drawn)).all()
    assert model.score_cells(table).shape == table.shape


@FRAMES
def test_observed_cells_stay_exactly_and_missing_ones_are_filled(frame):
    filled = CutsetNetworkBD().fit(frame).complete(frame)
    for name in frame.columns:
        before, after = frame[name].to_list(), filled[name].to_list()
        assert all(old == new for old, new in zip(before, after) if old == old and old is not None)


@pytest.mark.parametrize("density", [SoftLearnSPN(random_state=0), TableMixture(random_state=0)])
def test_densities_with_gaussians_draw_days_and_months(density):
    frame = pandas_frame()[["month", "day", "local", "x"]]
    drawn = density.fit(frame).sample(200, random_state=0)
    assert is_month_end(drawn["month"])
    assert (drawn["day"] == drawn["day"].dt.normalize()).all()
    assert drawn.dtypes.equals(frame.dtypes)
    # Draws go on where rows may, but hardly beyond these.
    size = 0.5 * (DAYS.max() - DAYS.min())
    near = drawn["day"].between(DAYS.min() - 0.1 * size, DAYS.max() + 0.1 * size)
    assert near.mean() > 0.9


def test_days_at_midnight_of_a_time_zone_stay_midnights_there():
    days = DAYS.tz_localize("America/New_York")
    frame = pd.DataFrame({"day": days, "x": (DAYS - DAYS[0]).days + RNG.normal(size=N)})
    drawn = CutsetNetworkBD().fit(frame).sample(100, random_state=0)["day"]
    assert drawn.dtype == frame["day"].dtype
    assert (drawn == drawn.dt.normalize()).all()


def test_an_hour_that_clocks_leave_out_is_the_one_after_it():
    hours = pd.date_range("2023-03-26 00:00", periods=8, freq="h")
    calendar = calendar_of(hours.tz_localize("UTC"))._replace(zone="Europe/Berlin")
    drawn = calendar.objects(
        calendar.numbers_of(hours.tz_localize("UTC").tz_convert(None)[:0], "h")
    )
    assert len(drawn) == 0
    local = calendar.objects(np.array([-2.0, -1.0, 0.0]))
    assert [moment.hour for moment in local] == [1, 3, 3]


def test_fixed_offsets_of_time_zones_are_kept():
    moments = pd.Series(SECONDS).dt.tz_localize("UTC").dt.tz_convert("+02:30")
    frame = pd.DataFrame({"a": moments, "x": X})
    drawn = CutsetNetworkBD().fit(frame).sample(5, random_state=0)
    assert drawn["a"].dtype == moments.dtype


def test_mixed_time_zones_are_refused():
    utc = pd.Timestamp("2020-01-01", tz="UTC")
    mixed = pd.DataFrame({"when": [utc, utc.tz_convert("Asia/Tokyo")]}, dtype=object)
    with pytest.raises(
        ValueError, match="dates of column 'when' must have one time zone; found Asia"
    ):
        CutsetNetworkBD().fit(mixed)
    model = CutsetNetworkBD().fit(pandas_frame())
    other = pandas_frame()
    other["local"] = other["local"].dt.tz_convert("UTC")
    with pytest.raises(
        TypeError, match="of the time zone Europe/Berlin as in fit; found Timestamp"
    ):
        model.score(other)
    other["local"] = SECONDS
    with pytest.raises(TypeError, match="'local' must hold dates of the time zone Europe/Berlin"):
        model.score(other)


def test_dates_numbers_and_strings_do_not_take_the_place_of_each_other():
    frame = pandas_frame()
    model = CutsetNetworkBD().fit(frame)
    for other in (X, HOURS, ["a"] * N):
        with pytest.raises(TypeError, match="'day' must hold dates without a time zone as in fit"):
            model.score(frame.assign(day=other))
    with pytest.raises(TypeError, match="of the same one as in fit; found Timestamp.*column 'x'"):
        model.score(frame.assign(x=DAYS))
    days = numpy_table()
    with pytest.raises(TypeError, match="column 0 must hold dates"):
        CutsetNetworkBD().fit(days).score(np.zeros((2, 2)))
    nothing = CutsetNetworkBD().fit(days).complete(np.full((1, 2), np.nan))
    assert nothing.dtype == days.dtype


def test_a_missing_column_may_have_any_dtype():
    frame = pandas_frame()
    model = CutsetNetworkBD().fit(frame)
    for empty in (None, np.nan, pd.NaT):
        filled = model.complete(frame.assign(day=empty, local=empty))
        assert not filled.isna().any().any()
        assert isinstance(filled["day"].iloc[0], pd.Timestamp | datetime.datetime)
        assert filled["local"].iloc[0].tzinfo is not None
    without = pl.DataFrame({"day": [None] * 3, "x": [0.0, 1.0, None]})
    wide = CutsetNetworkBD().fit(polars_frame()[["day", "x"]])
    assert wide.complete(without)["day"].to_list() != [None] * 3


def test_a_column_without_any_date_in_fit_stays_missing():
    frame = pd.DataFrame({"never": pd.Series([pd.NaT] * N, dtype="datetime64[us]"), "x": X})
    with pytest.warns(UserWarning, match="'never'"):
        model = CutsetNetworkBD().fit(frame)
    drawn = model.sample(5, random_state=0)
    assert drawn["never"].isna().all()
    assert drawn["never"].dtype == frame["never"].dtype


def test_given_takes_dates_of_any_kind():
    frame = pandas_frame()
    model = CutsetNetworkBD().fit(frame)
    early, late = ({"month": MONTH_ENDS[at]} for at in (5, -5))
    means = [model.sample(200, 0, given=month)["x"].mean() for month in (early, late)]
    assert means[0] < 100 < 200 < means[1]
    for date in (MONTH_ENDS[5].to_datetime64(), MONTH_ENDS[5].date(), MONTH_ENDS[5]):
        drawn = model.sample(20, 0, given={"month": date})
        pd.testing.assert_frame_equal(drawn, model.sample(20, 0, given=early))
        assert (drawn["month"] == MONTH_ENDS[5]).all()
    local = pd.Timestamp("2023-03-27 12:00:01", tz="Europe/Berlin")
    assert (model.sample(9, 0, given=pd.DataFrame({"local": [local]}))["local"] == local).all()
    with pytest.raises(TypeError, match="must hold dates.* as in fit; found 3.0"):
        model.sample(9, 0, given={"month": 3.0})
    with pytest.raises(TypeError, match=r"must hold dates of the time zone.*found datetime.date"):
        model.sample(9, 0, given={"local": datetime.date(2023, 3, 27)})
    rows = CutsetNetworkBD().fit(numpy_table()).sample(9, 0, given=[MONTH_ENDS[5], None])
    assert (rows[:, 0] == MONTH_ENDS[5].to_datetime64()).all()


def test_bounds_and_atoms_take_dates():
    frame = pandas_frame()[["day", "hours", "x"]]
    first, last = pd.Timestamp("2020-01-01"), datetime.date(2021, 2, 28)
    model = CutsetNetworkBD(
        bounds={"day": (first, last), "hours": (pd.Timedelta(0), None)},
        atoms={"day": [pd.Timestamp("2020-06-01"), np.datetime64("2020-07-01")]},
    ).fit(frame)
    drawn = model.sample(3000, random_state=0)["day"]
    assert drawn.min() >= first
    assert drawn.max() <= pd.Timestamp(last)
    calendar = model.domain_.calendars[0]
    atoms = calendar.dates(model.domain_.laws[0].atoms)
    assert atoms.astype("M8[D]").astype(str).tolist() == ["2020-06-01", "2020-07-01"]
    with pytest.raises(ValueError, match="bounds of column 'day' must increase and hold all"):
        CutsetNetworkBD(bounds={"day": (pd.Timestamp("2020-03-01"), None)}).fit(frame)
    bounded = CutsetNetworkBD(bounds={"day": (first, last)}).fit(frame)
    with pytest.raises(
        ValueError, match=r"in \[2020-01-01, 2021-02-28\] in column 'day'.*found Timestamp"
    ):
        bounded.sample(1, given={"day": pd.Timestamp("2022-01-01")})
    with pytest.raises(TypeError, match="The bounds of column 'day' must hold dates"):
        CutsetNetworkBD(bounds={"day": (0, 1)}).fit(frame)
    with pytest.raises(TypeError, match="The atoms of column 'hours' must hold durations"):
        CutsetNetworkBD(atoms={"hours": [first]}).fit(frame)


@FRAMES
def test_marginals_speak_of_dates(frame):
    model = CutsetNetworkBD().fit(frame)
    cells = dict(zip(frame.columns, model.marginals(frame[:40])))
    month, local, hours = cells["month"], cells["local"], cells["hours"]
    lower, upper = model.interval(frame[:40], level=0.8)
    for name in ("month", "local", "hours"):
        assert cells[name].quantile(0.1).tolist() == read_tolist(lower[name], cells[name])
        assert cells[name].quantile(0.9).tolist() == read_tolist(upper[name], cells[name])
    assert is_month_end(month.mean())
    assert all(moment.tzinfo is not None for moment in local.mean())
    assert hours.mean().dtype.kind == "m"
    assert month.edges.dtype.kind == "M"
    assert month.atoms.dtype.kind == "M"
    assert month.atom_probabilities().shape == (40, len(month.atoms))
    below = month.cdf(month.quantile(0.5))
    assert (below >= 0.5 - 1e-12).all()
    assert np.array_equal(month.cdf(MONTH_ENDS[30]), month.cdf([MONTH_ENDS[30]] * 40))
    assert (month.cdf(np.datetime64("1980-01-01")) <= month.cdf(np.datetime64("2030-01-01"))).all()
    assert month.to_frame().columns.tolist() == ["mean", "0.05", "0.5", "0.95"]
    with pytest.raises(TypeError, match="x must hold dates"):
        month.cdf(3.0)


def read_tolist(column, cells):
    """The cells of a column as the answers of marginals are."""
    return as_dates(cells.dates.numbers_of(column, "column"), cells.dates).tolist()


def test_categories_of_dates_keep_their_labels():
    frame = pd.DataFrame(
        {"term": pd.to_datetime(["2020-03-01", "2020-09-15"] * 50), "x": np.r_[:100]}
    )
    model = CutsetNetworkBD(categorical_features=["term"]).fit(frame)
    assert model.domain_.is_categorical.tolist() == [True, False]
    term = model.marginals(frame)[0]
    assert term.labels.astype("M8[D]").astype(str).tolist() == ["2020-03-01", "2020-09-15"]
    pd.testing.assert_series_equal(model.complete(frame)["term"], frame["term"])


@TABLES
def test_a_column_of_dates_is_predicted_from_the_others(table):
    model = CutsetNetworkBD().fit(table)
    predicted = model.predict_column(table, 1)
    assert predicted.dtype == dtypes_of(table)[1 if hasattr(table, "columns") else 0]


@TABLES
def test_the_imputer_fills_dates(table):
    imputer = CircuitImputer(CutsetNetworkBD()).fit(table)
    filled = imputer.transform(table)
    is_frame = hasattr(table, "columns")
    assert filled.dtype == (object if is_frame else table.dtype)
    assert not pd.isna(filled).any()
    if is_frame:
        library = "pandas" if isinstance(table, pd.DataFrame) else "polars"
        frame = imputer.set_output(transform=library).transform(table)
        assert dtypes_of(frame) == dtypes_of(table)
        assert frame["day"].to_list()[4] == table["day"].to_list()[4] == filled[4, 1]
    marked = CircuitImputer(CutsetNetworkBD(), add_indicator=True).fit(table).transform(table)
    assert marked.shape[1] > table.shape[1]
    assert marked[0, 0] == filled[0, 0]


def test_dates_in_arrays_of_objects_and_masked_arrays_come_back():
    table = np.empty((N, 3), dtype=object)
    table[:, 0], table[:, 1], table[:, 2] = [moment.date() for moment in DAYS], X, list(HOURS)
    table[5, :2] = None
    completed = CutsetNetworkBD().fit(table).complete(table)
    assert {type(cell) for cell in completed[:, 0]} == {datetime.date}
    assert isinstance(CutsetNetworkBD().fit(table).sample(3, 0)[0, 2], datetime.timedelta)
    durations = CutsetNetworkBD().fit(table[:, [0, 2]]).sample(3, 0)
    assert [type(cell) for cell in durations[0]] == [datetime.date, datetime.timedelta]
    masked = np.ma.masked_array(numpy_table(), mask=np.arange(2 * N).reshape(N, 2) % 9 == 0)
    filled = CutsetNetworkBD().fit(masked).complete(masked)
    assert filled.dtype == masked.dtype
    assert not np.isnat(filled).any()


def test_chunks_and_dask_keep_dates():
    frame = pandas_frame().drop(columns="date")
    whole = CutsetNetworkBD(random_state=0).fit(frame)
    chunks = CutsetNetworkBD(random_state=0).fit(iter([frame[:100], frame[100:]]))
    pd.testing.assert_frame_equal(chunks.sample(9, 0), whole.sample(9, 0))
    dataframe = pytest.importorskip("dask.dataframe", reason="dask is optional")
    collection = dataframe.from_pandas(frame, npartitions=2)
    filled = whole.complete(collection)
    assert filled.dtypes.equals(frame.dtypes)
    pd.testing.assert_frame_equal(filled.compute(), whole.complete(frame))


def test_saved_models_know_their_dates():
    frame = pandas_frame()
    model = CutsetNetworkBD().fit(frame)
    saved = skops.io.dumps(model)
    names = skops.io.get_untrusted_types(data=saved)
    assert all(name.startswith("skpc.") for name in names)
    for again in (pickle.loads(pickle.dumps(model)), skops.io.loads(saved, trusted=names)):
        pd.testing.assert_frame_equal(again.sample(9, 0), model.sample(9, 0))


def test_a_model_depends_on_the_dates_and_not_on_their_dtype():
    fine, coarse = DAYS.astype("datetime64[ns]"), DAYS.to_numpy().astype("datetime64[D]")
    drawn = [
        CutsetNetworkBD().fit(frame).sample(20, 0)["day"].to_list()
        for frame in (
            pd.DataFrame({"day": fine, "x": X}),
            pd.DataFrame({"day": DAYS, "x": X}),
            pl.DataFrame({"day": coarse, "x": X}),
        )
    ]
    assert drawn[0] == drawn[1] == [pd.Timestamp(date) for date in drawn[2]]


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(DAYS),
        pd.Series(DAYS.tz_localize("Asia/Tokyo")),
        pl.Series(HOURS.to_numpy()),
        DAYS.to_numpy().astype("M8[ns]"),
        [moment.date() for moment in DAYS],
    ],
    ids=["pandas", "zone", "polars durations", "numpy", "list"],
)
def test_targets_of_a_regressor_may_be_dates(y):
    calendar = calendar_of(y)
    numbers = calendar.numbers_of(y, "y")
    rows = np.column_stack([numbers + 3 * RNG.normal(size=N), RNG.normal(size=N)])
    model = DensityRegressor(CutsetNetworkBD(), regressors=None, random_state=0)
    plain = DensityRegressor(CutsetNetworkBD(), regressors=None, random_state=0)
    model.fit(rows, y)
    plain.fit(rows, numbers)
    mean, sd = model.predict(rows, return_std=True)
    expected, of_plain = plain.predict(rows, return_std=True)
    length = np.timedelta64(1, calendar.unit)
    assert np.array_equal(calendar.numbers_of(mean, "mean"), np.rint(expected))
    assert np.allclose(sd / length, of_plain, atol=1e-4)
    levels = [0.1, 0.5]
    quantiles = calendar.numbers_of(model.predict_quantiles(rows, levels), "quantiles")
    assert np.array_equal(quantiles, plain.predict_quantiles(rows, levels))
    assert np.array_equal(model.score_samples(rows, y), plain.score_samples(rows, numbers))
    assert model.sample(rows[:5], 4, random_state=0).shape == (5, 4)
    assert model.score(rows, y) == pytest.approx(plain.score(rows, numbers), abs=0.01)
    assert np.array_equal(model.predict(rows), mean)
    zone = getattr(getattr(y, "dt", None), "tz", None)
    assert (mean.dtype == object) == (zone is not None)
    with pytest.raises(TypeError, match="y must hold d"):
        model.score_samples(rows, numbers)


def test_a_target_of_dates_must_not_be_missing():
    y = pd.Series(DAYS)
    y[7] = pd.NaT
    with pytest.raises(ValueError, match="y contains NaN or None in row 7"):
        DensityRegressor(CutsetNetworkBD(), regressors=None).fit(X[:, np.newaxis], y)


# ---------------------------------------------------------------- drawings, strings, others


def test_drawings_name_dates():
    plt = pytest.importorskip("matplotlib.pyplot")
    from skpc.plotting import CircuitDisplay, MarginalsDisplay

    frame = pandas_frame()[["month", "x"]].dropna()
    model = CutsetNetworkBD(n_bins=3).fit(frame)
    display = MarginalsDisplay.from_estimator(model, frame.iloc[:1].assign(x=np.nan))
    # The missing number comes first.
    assert display.ax_[1].get_xlabel() == f"= {frame['month'].iloc[0]:%Y-%m}"
    row = frame.iloc[:1].astype({"month": object}).assign(month=None)
    display = MarginalsDisplay.from_estimator(model, row)
    ticks = [display.ax_[0].xaxis.get_major_formatter()(at, 0) for at in (0.0, 1.0)]
    dates = model.domain_.calendars[0].dates(np.array([0.0, 1.0]))
    assert ticks == dates.astype("M8[M]").astype(str).tolist()
    CircuitDisplay.from_estimator(model)
    plt.close("all")


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-01-31", "2020-02-29", None],
        ["2020/1/31 10:00", "2020/1/30 09:30:12"],
        ["31.1.2020", "1.12.1999"],
        ["1/31/20", "12/1/99"],
        ["2020-01-31T00:00:00Z"],
    ],
)
def test_strings_that_are_dates_get_a_warning_that_names_the_remedy(texts):
    with pytest.warns(UserWarning, match="column 'when', such as .* pandas.to_datetime"):
        Domain.fit(pd.DataFrame({"when": texts * 9, "x": np.arange(9.0 * len(texts))}))


@pytest.mark.parametrize(
    "texts", [["2020-01-31", "later"], ["1-2", "3-4"], ["1200-99-1-1"], ["10:30"]]
)
def test_other_strings_and_declared_ones_get_no_warning(texts):
    frame = pd.DataFrame({"when": texts * 9, "x": np.arange(9.0 * len(texts))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Domain.fit(frame)
        dates = frame.assign(when=pd.Categorical(["2020-01-31", "2021-01-31"] * 9)[: len(frame)])
        Domain.fit(dates)


def test_years_as_strings_look_like_numbers_not_like_dates():
    frame = pd.DataFrame({"when": ["2020", "2021"] * 9, "x": np.arange(18.0)})
    with pytest.warns(UserWarning, match="column 'when', such as '2020', look like numbers"):
        Domain.fit(frame)


def test_times_and_periods_are_refused_with_a_remedy():
    for cell in (datetime.time(10, 30), pd.Period("2020-01", "M")):
        with pytest.raises(TypeError, match="column 'when'. Turn times into durations, periods"):
            Domain.fit(pd.DataFrame({"when": [cell, cell]}))


def test_columns_as_skrub_cleans_them_are_learned():
    """Cleaner makes dates of strings, drops empty columns, and leaves categories as they are."""
    skrub = pytest.importorskip("skrub", reason="skrub is optional")
    from sklearn.pipeline import make_pipeline

    raw = pd.DataFrame(
        {
            "when": [f"{moment:%Y-%m-%d}" for moment in MONTH_ENDS],
            "kind": RNG.choice(["a", "b"], N),
            "x": X,
        }
    )
    pipe = make_pipeline(skrub.Cleaner(), CutsetNetworkBD()).fit(raw)
    drawn = pipe[-1].sample(50, random_state=0)
    assert is_month_end(drawn["when"])
    filled = make_pipeline(skrub.Cleaner(), CircuitImputer(CutsetNetworkBD())).fit_transform(raw)
    assert filled.shape == raw.shape


def test_an_empty_column_of_dates_may_stand_for_durations_and_the_other_way_round():
    days = np.random.default_rng(0).integers(0, 300, 200)
    since = pd.to_timedelta(days, unit="D")
    table = pd.DataFrame({"since": since, "day": pd.Timestamp("2024-01-01") + since})
    model = CutsetNetworkBD(random_state=0).fit(table)
    asked = pd.DataFrame({"since": [pd.NaT], "day": pd.to_timedelta([None])})
    filled = model.complete(asked)
    assert filled.dtypes.tolist() == table.dtypes.tolist()
    assert filled.notna().all(axis=None)
    nothing_known = table[:1].where(table[:1].isna())
    for side, expected in zip(model.interval(asked), model.interval(nothing_known)):
        assert side.to_numpy().tolist() == expected.to_numpy().tolist()
