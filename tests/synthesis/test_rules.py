import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpc.synthesis import find_rules
from skpc.synthesis.cells import read_cells
from skpc.synthesis.ties import read_tie
from tests.naive import synthesis as naive


def shop(n_rows: int, seed: int) -> pd.DataFrame:
    """A table with rules of every kind."""
    rng = np.random.default_rng(seed)
    low, first_gap, second_gap = rng.exponential(size=(3, n_rows))
    work = rng.choice(["no", "part", "full"], n_rows)
    zip_code = rng.integers(0, 40, n_rows)
    a, b = rng.integers(0, 50, (2, n_rows))
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n_rows), "D")
    table = pd.DataFrame(
        {
            "low": low,
            "price": low + first_gap,
            "high": low + first_gap + second_gap,
            "work": work,
            "hours": np.where(work == "no", 0, rng.integers(1, 60, n_rows)),
            "zip": [f"z{code}" for code in zip_code],
            "city": [f"c{code // 3}" for code in zip_code],
            "a": a,
            "b": b.astype(float),
            "total": a + b,
            "due": low + a - 18.5,
            "start": start,
            "end": start + pd.to_timedelta(rng.integers(0, 40, n_rows), "D"),
        }
    )
    for column in ("b", "end", "zip"):
        table.loc[rng.random(n_rows) < 0.1, column] = None
    return table


RULES = {
    ("low", "<=", "price"),
    ("price", "<=", "high"),
    ("start", "<=", "end"),
    ("total", "==", ("sum", "a", "b")),
    ("due", "==", ("sum", "low", "a"), "+", -18.5),
    ("zip", "determines", "city"),
    ("hours", "==", 0.0, "if", "work", "==", "no"),
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_rules_of_a_table_are_proposed_with_their_support(library):
    table = shop(500, 0)
    found = find_rules(table if library == "pandas" else pl.from_pandas(table))
    rules = {one.rule: one for one in found.rules}
    assert set(rules) >= RULES
    # A chain shows its links alone.
    assert ("low", "<=", "high") not in rules
    assert rules["start", "<=", "end"].n_rows == table["end"].notna().sum()
    assert all(one.n_breaches == 0 and one.pvalue < 0.01 for one in found.rules)
    assert rules["low", "<=", "price"].max_share == pytest.approx(3 / 500, rel=0.01)
    assert "('low', '<=', 'price'): 500 rows, 0 breaches" in str(found)


def test_independent_columns_have_no_rules():
    rng = np.random.default_rng(0)
    n_found = 0
    for _ in range(20):
        numbers = np.column_stack([rng.normal(size=(60, 3)), rng.integers(0, 4, (60, 3))])
        n_found += len(find_rules(numbers).rules)
    assert n_found <= 1


def test_ranges_apart_are_trivial_and_keys_say_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"id": np.arange(80.0), "far": 1000 + rng.normal(size=80)})
    found = find_rules(X)
    assert not found.rules
    assert [one.rule for one in found.trivial] == [("id", "<=", "far")]


def test_a_few_rows_may_break_a_rule():
    table = shop(400, 1)
    table.loc[[3, 7], "price"] = -1.0
    rule = ("low", "<=", "price")
    assert rule not in [one.rule for one in find_rules(table).rules]
    found = {one.rule: one for one in find_rules(table, tolerance=0.01).rules}
    assert found[rule].n_breaches == 2
    assert found[rule].max_share > 0.01
    with pytest.raises(ValueError, match="tolerance"):
        find_rules(table, tolerance=1.0)


def test_equal_columns_are_said_once():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    found = find_rules(np.column_stack([x, x, rng.normal(size=100)]))
    assert [one.rule for one in found.rules] == [(0, "==", 1)]


def test_breaches_are_those_of_loops_over_rows():
    real, drawn = shop(300, 0), shop(200, 1)
    rng = np.random.default_rng(2)
    for column in drawn:
        drawn[column] = drawn[column].to_numpy()[rng.permutation(len(drawn))]
    cells, drawn_cells = read_cells([real, drawn], "auto")
    real_rows, rows = (
        [{k: None if pd.isna(v) else v for k, v in row.items()} for row in one.to_dict("records")]
        for one in (real, drawn)
    )
    for rule in [*RULES, ("a", "==", "total")]:
        expected = naive.breaks(rule, rows, real_rows)
        assert read_tie(rule, cells).broken(drawn_cells.values).tolist() == expected
        assert any(expected)


def test_an_order_that_follows_from_a_sum_is_trivial():
    parts = np.random.default_rng(0).exponential(size=(200, 2))
    found = find_rules(np.column_stack([parts, parts.sum(axis=1)]))
    assert [one.rule for one in found.rules] == [(2, "==", ("sum", 0, 1))]
    assert {(0, "<=", 2), (1, "<=", 2)} <= {one.rule for one in found.trivial}
    parts[:, 1] -= parts[:, 1].mean()
    found = find_rules(np.column_stack([parts, parts.sum(axis=1)]))
    assert (1, "<=", 2) in [one.rule for one in found.trivial]
    assert (0, "<=", 2) not in [one.rule for one in (*found.rules, *found.trivial)]


def test_a_constant_beside_a_sum_is_told_from_none_and_survives_rows_that_break_it():
    a, b = np.random.default_rng(0).integers(0, 30, (2, 200)).astype(float)
    found = find_rules(np.column_stack([a, a + 5, a - b, b])).rules
    rules = [one.rule for one in found]
    assert (1, "==", ("sum", 0), "+", 5.0) in rules
    assert (1, "==", ("sum", 2, 3), "+", 5.0) in rules
    assert (0, "==", ("sum", 2, 3)) in rules
    assert (0, "<=", 1) not in rules
    assert (0, "==", ("sum", 1), "+", -5.0) not in rules
    X = np.column_stack([a, b, a + b + 0.1])
    X[:3] = np.nan
    X[3:7, 2] += 1
    assert [one.rule for one in find_rules(X, 0.05).rules if one.rule[1] == "=="] == [
        (2, "==", ("sum", 0, 1), "+", 0.1)
    ]
    # One of 197 rows tells the constant.
    assert {one.n_rows for one in find_rules(X, 0.05).rules if "+" in one.rule} == {196}


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_what_rounding_hides_is_no_part_of_a_sum(unit):
    rng = np.random.default_rng(0)
    price = rng.exponential(size=300).round(2)
    table = pd.DataFrame({"trace": unit * 1e-12 * rng.exponential(size=300), "price": unit * price})
    table["copy"] = table["price"]
    assert [rule.rule for rule in find_rules(table).rules] == [("price", "==", "copy")]
