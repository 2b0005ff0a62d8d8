"""The benchmark of imputers: what it removes, reads back, measures, and takes up again."""

import sys

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks import imputation


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    table["c"] = rng.choice(["x", "y", "z"], size=200).astype(object)
    return table


@pytest.mark.parametrize("mechanism", ["MCAR", "MAR", "MNAR"])
def test_the_rate_is_that_of_all_cells(table, mechanism):
    removed = [imputation.subsample(table, 200, mechanism, 0.3, k)[1] for k in range(20)]
    # 12,000 cells; their standard error is .004.
    assert abs(np.mean(removed) - 0.3) < 0.02
    assert np.any(removed, axis=(0, 1)).tolist() == [mechanism != "MAR", True, True]


def test_tables_come_back_from_scaled_numbers_and_indicators(table):
    lost = table.mask(np.random.default_rng(1).random(table.shape) < 0.3)
    filled = imputation.METHODS["means"].complete(lost, 1, 0)[0][0]
    assert np.allclose(filled["a"].where(lost["a"].notna()), lost["a"], equal_nan=True)
    assert (filled["c"] == lost["c"])[lost["c"].notna()].all()
    assert np.allclose(filled["b"][lost["b"].isna()], lost["b"].mean())
    assert set(filled["c"][lost["c"].isna()]) == {lost["c"].mode()[0]}


def test_errors_are_of_removed_cells_alone(table):
    removed = np.zeros(table.shape, dtype=bool)
    removed[:3] = True
    filled = table.copy()
    filled.loc[:, ["a", "b"]] += 2.0 * table[["a", "b"]].std(ddof=0)
    filled["c"] = "x"
    rmse, wrong = imputation.cell_errors(table, filled, removed)
    assert np.isclose(rmse, 2.0)
    assert np.isclose(wrong, (table["c"][:3] != "x").mean())


def test_differences_are_paired_and_marked_where_ours_is_behind():
    shared = np.random.default_rng(0).normal(size=6) * 100.0
    records = pd.DataFrame(
        {
            "table": "t",
            "mechanism": "MCAR",
            "rate": 0.3,
            "rows": 600,
            "repeat": np.tile(range(6), 3),
            "method": np.repeat(["MultipleImputer", "mice pmm", "mice rf"], 6),
            "I-score": np.concatenate(
                [shared, shared - [1, 2, 3, 1, 2, 3], shared + [1, -1, 2, -2, 3, -3]]
            ),
            "CPU seconds": 1.0,
            "wall seconds": 1.0,
            "energy distance": np.nan,
        }
    )
    scores = imputation.tables_of(records.assign(rmse=np.nan, wrong=np.nan))["I-score of draws"]
    # Standard error: the root of .8 / 6.
    assert scores.loc["mice pmm", "all"].endswith("(-2.000 ± 0.365) *")
    assert scores.loc["mice rf", "t"].endswith("(+0.000 ± 0.966)")


def test_a_run_takes_up_what_the_file_has(tmp_path, table, monkeypatch, capsys):
    file = tmp_path / "found.csv"
    monkeypatch.setattr(imputation, "whole_table", lambda name: table)
    arguments = ["imputation", "--tables", "t", "--rows", "50", "--write", str(file)]
    arguments += ["--mechanism", "MCAR", "--methods", "means", "ridge draws", "--draws", "2"]
    for repeats in (1, 2):
        monkeypatch.setattr(sys, "argv", [*arguments, "--repeats", str(repeats)])
        imputation.main()
        found = pd.read_csv(file)
        assert found["repeat"].tolist() == np.repeat(range(repeats), 2).tolist()
    first = found[["energy distance", "I-score", "rmse", "wrong"]].to_numpy()
    assert np.isnan(first).tolist() == [[True, True, False, False], [False, False, True, True]] * 2
    monkeypatch.setattr(sys, "argv", ["imputation", "--show", str(file), *arguments[1:5]])
    monkeypatch.setattr(imputation, "measure", None)
    imputation.main()
    assert "energy distance of draws" in capsys.readouterr().out
