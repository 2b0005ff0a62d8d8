"""What users say of columns, as intervals of encoded cells."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpc.domain import Domain, read_events

RNG = np.random.default_rng(0)
N = 400
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "income": np.exp(RNG.normal(10.0, 0.5, N)),
        "region": RNG.choice(list("NSEW"), N),
        "rain": np.where(RNG.random(N) < 0.4, 0.0, RNG.gamma(2.0, 1.0, N)),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 200, N), unit="D"),
        "stars": RNG.integers(1, 6, N),
        "tenth": RNG.integers(0, 900, N) / 10.0,
    }
)
DOMAIN = Domain.fit(TABLE)


def said(event, known=False):
    return read_events(DOMAIN, event, "event", values_are_known=known)[0]


def held(name, statement):
    """Which rows of the table fulfil a statement."""
    events = said({name: statement})
    rows = DOMAIN.encode(TABLE)
    return events.take(np.zeros(N, int)).hold(rows).all(axis=1)


@pytest.mark.parametrize(
    ("name", "statement", "expected"),
    [
        ("age", (20, 30), TABLE.age.between(20, 30)),
        ("age", (19.5, 30.5), TABLE.age.between(20, 30)),
        ("age", (None, 30), TABLE.age <= 30),
        ("age", (30, np.inf), TABLE.age >= 30),
        ("age", 33, TABLE.age == 33),
        ("age", [33, 35, 33], TABLE.age.isin([33, 35])),
        ("age", pd.Interval(20, 30, closed="neither"), TABLE.age.between(21, 29)),
        ("age", pd.Interval(20, 30, closed="left"), TABLE.age.between(20, 29)),
        ("tenth", (0.3, 0.7), TABLE.tenth.between(0.25, 0.75)),
        ("tenth", pd.Interval(0.3, 0.7, closed="right"), TABLE.tenth.between(0.35, 0.75)),
        ("income", (20_000, 30_000), TABLE.income.between(20_000, 30_000)),
        ("region", "N", TABLE.region == "N"),
        ("region", {"S", "N"}, TABLE.region.isin(["S", "N"])),
        ("region", np.array(["S", "N"]), TABLE.region.isin(["S", "N"])),
        ("rain", 0, TABLE.rain == 0),
        ("rain", (0, 1), TABLE.rain <= 1),
        ("rain", pd.Interval(0, 1, closed="right"), TABLE.rain.between(0, 1) & (TABLE.rain > 0)),
        ("day", (pd.Timestamp("2024-02-01"), None), TABLE.day >= "2024-02-01"),
        ("day", [pd.Timestamp("2024-02-01")], TABLE.day == "2024-02-01"),
        ("stars", (2, 4), TABLE.stars.between(2, 4)),
        ("stars", frozenset([1, 5]), TABLE.stars.isin([1, 5])),
    ],
)
def test_rows_fulfil_a_statement_as_in_pandas(name, statement, expected):
    assert_array_equal(held(name, statement), expected.to_numpy())


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_statements_say_nothing(nothing):
    assert len(said({"age": nothing, "region": nothing}).column) == 0


def test_lists_of_dicts_and_tables_are_many_events():
    listed = [{"age": (20, 30), "region": ["N"]}, {"income": (None, 30_000.0)}, {}]
    one = said(listed)
    two = said(pd.DataFrame(listed, columns=["region", "income", "age"]))
    assert one.ptr.tolist() == [0, 2, 3, 3]
    for left, right in zip(one, two):
        assert_array_equal(left, right)


def test_columns_can_be_numbers():
    domain = Domain.fit(TABLE.drop(columns="day").to_numpy(dtype=object))
    events = read_events(domain, {0: (20, 30)}, "event", values_are_known=False)[0]
    assert events.column.tolist() == [0]


def test_known_values_are_cells_and_others_intervals():
    events, values = read_events(
        DOMAIN, {"income": 20_000.5, "age": (20, 30)}, "given", values_are_known=True
    )
    assert events.rows[0, 1] == values[0, 1] == 20_000.5
    assert events.column.tolist() == [0]


def test_a_number_without_a_lattice_has_no_probability():
    with pytest.warns(UserWarning, match=r"the tuple \(a, b\) for a range"):
        events = said({"income": 20_000.5})
    assert events.low == events.high


def test_a_number_beyond_the_ends_is_impossible_without_a_warning():
    events = said({"age": -3})
    assert events.low == events.high


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"income": [20_000.5, 2.0]}, r"the tuple \(a, b\) for a range"),
        ({"region": ("N", "S")}, r"sets such as .* in column 'region'; found \('N', 'S'\)"),
        ({"age": (1, 2, 3)}, "two ends"),
        ({"age": (30, 20)}, "from the smaller to the greater end"),
        ({"age": []}, "a value in a set"),
        ({"region": "Q"}, r"categories of \['E', 'N', 'S', 'W'\] .*found 'Q'"),
        ({"region": 3.0}, "categories of"),
        ({"age": "old"}, "numbers in column 'age'; found 'old'"),
        ({"age": ("20", "30")}, "numbers in column 'age'; found '20'"),
        ({"age": [None, 30, "old"]}, "numbers in column 'age'; found 'old'"),
        ({"age": pd.Timestamp("2024-02-01")}, "numbers in column 'age'; found Timestamp"),
        ({"age": slice(20, 30)}, "a tuple of two ends.*'age'; found slice"),
        ({"age": range(20, 30)}, "a list of values in column 'age'; found range"),
        ({"day": slice("2024-02-01", None)}, "a tuple of two ends.*'day'; found slice"),
        ({"region": pd.Series(["N", "S"])}, "sets such as .*column 'region'; found"),
        ({"colour": 1}, "is not a column of X"),
    ],
)
def test_statements_that_do_not_suit_a_column_are_errors(event, message):
    with pytest.raises(ValueError, match=message):
        said(event)


def test_slices_are_not_known_values():
    with pytest.raises(ValueError, match="given must have a tuple of two ends.*'age'"):
        read_events(DOMAIN, {"age": slice(20, 30)}, "given", values_are_known=True)


@pytest.mark.parametrize("day", ["2024-02-01", ("2024-02-01", None), ["2024-02-01"]])
@pytest.mark.parametrize("known", [False, True])
def test_strings_are_no_dates(day, known):
    message = "'day' must hold dates .*found '2024-02-01'. See pandas.to_datetime"
    with pytest.raises(TypeError, match=message):
        said({"day": day}, known)


def test_an_event_is_a_dict():
    with pytest.raises(TypeError, match="event must be a dict from columns"):
        said([1.0, 2.0])


def test_what_names_the_rows_has_no_statements():
    table = TABLE.assign(name=[f"row {i}" for i in range(N)])
    with pytest.warns(UserWarning, match="name"):
        domain = Domain.fit(table)
    with pytest.raises(ValueError, match="names the rows"):
        read_events(domain, {"name": "row 3"}, "event", values_are_known=False)
