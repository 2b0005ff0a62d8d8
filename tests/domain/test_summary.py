"""What a domain says of its columns, as text and as a DataFrame."""

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpc import CutsetNetworkBD, DensityRegressor
from skpc.domain import Declared, Domain

N_ROWS = 300


def table():
    rng = np.random.default_rng(0)
    rent = np.round(rng.gamma(2, 300, N_ROWS), 2)
    rent[:2] = 10.25, 4000.5
    gift = np.where(rng.random(N_ROWS) < 0.6, 0.0, 5.0 + rng.random(N_ROWS))
    grades = pd.Categorical(rng.choice(["lo", "hi"], N_ROWS), ["lo", "hi"])
    return pd.DataFrame(
        {
            "town": [*"abcdefghijk"] * 27 + [*"abc"],
            "vip": rng.random(N_ROWS) < 0.5,
            "grade": grades,
            "rooms": np.arange(N_ROWS) % 4,
            "rent": rent,
            "gift": gift,
            "year": 1900 + 10 * (np.arange(N_ROWS) % 50) + 3,
            "id": [f"r{i:03}" for i in range(N_ROWS)],
            "void": np.nan,
        }
    )


def fit(frame, **parameters):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some columns")
        return Domain.fit(frame, Declared(**parameters))


def test_every_column_has_a_line_of_what_it_is_and_why():
    domain = fit(table(), bounds={"rent": (0, None)})
    frame = domain.to_frame()
    assert frame.columns.tolist() == ["kind", "values", "atoms", "lattice", "why"]
    assert frame.index.name == "name"
    high = f"{domain.laws[5].high:.9g}"
    assert {name: tuple(line) for name, line in frame.iterrows()} == {
        "town": ("categories", "'a', 'b', 'c', 'd', 'e', 'f', ... (11 values)", "", "", "strings"),
        "vip": ("categories", "False, True", "", "", "bools"),
        "grade": ("categories", "'lo', 'hi'", "", "", "a dtype with categories"),
        "rooms": ("ordered states", "0 to 3", "0, 1, 2, 3", "1", "few values"),
        "rent": (
            "number",
            "10.25 to 4000.5 in [0, inf]",
            "",
            "0.01",
            "numbers",
        ),
        "gift": ("number", f"0 to {high}", "0", "", "numbers"),
        "year": ("number", "1903 to 2393", "", "10 from 3", "numbers"),
        "id": (
            "row names",
            "'r000', 'r001', 'r002', 'r003', 'r004', 'r005', ... (300 values)",
            "",
            "",
            "nearly every value is seen once",
        ),
        "void": ("empty", "", "", "", "no value in fit"),
    }


def test_brackets_and_dates_are_kinds_of_their_own():
    day = pd.date_range("2024-01-01", periods=400)
    frame = pd.DataFrame({"day": day, "wait": day - day[0], "age": np.repeat([1, 5, 30, 90], 100)})
    lines = fit(frame, bounds={"day": (pd.Timestamp("2024-01-01"), None)}).to_frame()
    assert lines["kind"].tolist() == ["dates", "durations", "ordered states"]
    assert lines.loc["day", "values"] == "2024-01-01 to 2025-02-03 in [2024-01-01, inf]"
    assert lines.loc["age"].tolist() == [
        "ordered states",
        "1 to 90",
        "1, 5, 30, 90",
        "1",
        "few values",
    ]


def test_the_text_has_the_cells_of_the_frame_below_each_other():
    domain = fit(table())
    head, *lines = str(domain).splitlines()
    frame = domain.to_frame()
    assert len(lines) == domain.n_features
    starts = [head.index(heading) for heading in ("name", *frame.columns)]
    cuts = list(zip(starts, [*starts[1:], None]))
    for line, (name, cells) in zip(lines, frame.iterrows()):
        assert [line[a:b].strip() for a, b in cuts] == [name, *cells]
    assert repr(domain) == "Domain(n_features=9, 5 categorical, 4 numeric)"


def test_the_text_needs_no_pandas(monkeypatch):
    domain = Domain.fit(np.array([["red", 0.5], ["blue", 1.5]], dtype=object))
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert str(domain).splitlines()[1].split() == ["0", "categories", "'blue',", "'red'", "strings"]
    with pytest.raises(ImportError):
        domain.to_frame()


@pytest.mark.parametrize(
    ("parameters", "column", "kind", "why"),
    [
        ({"categories": [["a", "b", "c"], None]}, 0, "categories", "declared in categories"),
        ({"categories": [["a", "b"], [0, 1, 2]]}, 1, "categories", "declared in categories"),
        ({"categorical_features": ["a", "n"]}, 1, "categories", "declared in categorical_features"),
        ({"categorical_features": [0]}, 1, "ordered states", "few values"),
        ({"categorical_features": [True, False]}, 1, "ordered states", "few values"),
        (
            {"margins": "plain", "categorical_features": ["a"]},
            1,
            "number",
            "numbers",
        ),
    ],
)
def test_what_is_declared_is_the_reason(parameters, column, kind, why):
    frame = pd.DataFrame({"a": ["a", "b"] * 20, "n": [0, 1, 2, 1] * 10})
    line = Domain.fit(frame, Declared(**parameters)).to_frame().iloc[column]
    assert line["kind"] == kind
    assert line["why"].startswith(why)


def test_words_for_all_columns_decide_too():
    frame = pd.DataFrame({"n": [0, 1, 2, 1] * 10})
    of_none = Domain.fit(frame, Declared(categorical_features=None)).to_frame()
    of_dtype = Domain.fit(frame, Declared(categorical_features="from_dtype")).to_frame()
    of_auto = Domain.fit(frame).to_frame()
    assert [*of_none["why"], *of_dtype["why"], *of_auto["why"]] == ["few values"] * 3
    frame["n"] //= 2
    assert [*Domain.fit(frame).to_frame()["why"]] == ["few whole numbers in 0..15"]
    assert [*Domain.fit(frame, Declared(categorical_features=None)).to_frame()["why"]] == [
        "few values"
    ]


def test_polars_and_arrays_and_saved_domains_say_the_same():
    frame = table()[["town", "rooms", "rent"]]
    expected = fit(frame)
    of_polars = fit(pl.DataFrame(frame.to_dict("list")))
    of_array = fit(frame.to_numpy(dtype=object))
    assert str(of_polars) == str(expected) == str(pickle.loads(pickle.dumps(expected)))
    assert of_array.to_frame().to_numpy().tolist() == expected.to_frame().to_numpy().tolist()
    assert of_array.to_frame().index.tolist() == [0, 1, 2]


def test_fitted_estimators_and_the_densities_within_say_what_their_columns_are():
    frame = table()[["town", "rent"]]
    model = CutsetNetworkBD().fit(frame)
    assert model.domain_[1].kind == model.domain_.to_frame().loc["rent", "kind"] == "number"
    regressor = DensityRegressor(CutsetNetworkBD(), regressors=None).fit(
        frame[["town"]], frame["rent"]
    )
    (density,) = regressor.densities_.values()
    assert density.domain_.to_frame()["kind"].tolist() == ["categories", "number"]
