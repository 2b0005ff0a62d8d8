import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from skpc.synthesis import table_report
from tests.naive import synthesis as naive


def table(n_rows: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.normal(shift, 1.0, n_rows)
    frame = pd.DataFrame(
        {
            "a": a,
            "b": a + rng.exponential(size=n_rows),
            "c": rng.choice(["x", "y", "z"], n_rows, p=[0.3, 0.3, 0.4]),
            "d": np.where(a > 0, rng.choice(["u", "v"], n_rows), "v"),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, ["b", "c"]] = None
    return frame


def as_lists(frame: pd.DataFrame) -> dict[str, list]:
    return {k: [None if pd.isna(v) else v for v in frame[k].tolist()] for k in frame}


def test_measures_are_those_of_loops_over_rows():
    real, drawn = table(150, 0), table(120, 1, 0.4)
    report = table_report(real, drawn, random_state=0)
    of_real, of_drawn = as_lists(real), as_lists(drawn)
    for name in real:
        shape = naive.shape_of_numbers if name in "ab" else naive.shape_of_categories
        assert_allclose(report.columns.loc[name, "shape"], shape(of_real[name], of_drawn[name]))
    missing = 1 - abs(real["b"].isna().mean() - drawn["b"].isna().mean())
    assert_allclose(report.columns.loc["b", "missing"], missing)
    bins = [
        [naive.bin_of(value, of_real["a"]) for value in one["a"]] for one in (of_real, of_drawn)
    ]
    for name in ("c", "d"):
        pairs = (list(zip(of_bins, one[name])) for of_bins, one in zip(bins, (of_real, of_drawn)))
        assert_allclose(report.pairs.loc["a", name], naive.trend_with_category(*pairs))
    correlations = [frame[["a", "b"]].dropna().corr().iloc[0, 1] for frame in (real, drawn)]
    trend = 1 - abs(correlations[0] - correlations[1]) / 2
    assert_allclose(report.pairs.loc["b", "a"], trend)
    assert np.isnan(report.nearer)
    assert report.auc_learned == report.auc


def test_measures_agree_with_sdmetrics():
    single = pytest.importorskip("sdmetrics.single_column", reason="sdmetrics is not installed")
    pairs = pytest.importorskip("sdmetrics.column_pairs", reason="sdmetrics is not installed")
    real, drawn = table(300, 0).dropna(), table(250, 1, 0.4).dropna()
    report = table_report(real, drawn, random_state=0)
    for name, shape, coverage in [
        ("a", single.KSComplement, single.RangeCoverage),
        ("c", single.TVComplement, single.CategoryCoverage),
    ]:
        both = real[name], drawn[name]
        expected = [shape.compute(*both), coverage.compute(*both)]
        assert_allclose(report.columns.loc[name, ["shape", "coverage"]], expected, atol=1e-6)
    trend = pairs.CorrelationSimilarity.compute(real[["a", "b"]], drawn[["a", "b"]])
    assert_allclose(report.pairs.loc["a", "b"], trend, atol=1e-6)
    for first, bins in (("a", ["a"]), ("c", None)):
        both = [frame[[first, "d"]].copy() for frame in (real, drawn)]
        trend = pairs.ContingencySimilarity.compute(*both, continuous_column_names=bins)
        assert_allclose(report.pairs.loc[first, "d"], trend, atol=1e-6)


def test_rows_of_the_same_law_pass_and_rows_known_by_heart_are_shown():
    real, held, new = table(400, 0), table(400, 1), table(400, 2)
    fair = table_report(real, new, held, random_state=0)
    assert abs(fair.auc - 0.5) < 0.07
    assert fair.xgb_c2st == 2 * (1 - max(fair.auc, 0.5))
    assert abs(fair.auc_learned - 0.5) < 0.07
    # Three standard errors of a share of 400 draws.
    assert abs(fair.nearer - 0.5) < 0.075
    copied = table_report(real, real.sample(300, random_state=0), held, random_state=0)
    assert copied.nearer == 1.0


def test_distances_are_counted_row_by_row():
    real, held = np.arange(0.0, 60.0, 3.0), np.arange(1.0, 61.0, 3.0)
    # Rows that both tables have are ties.
    real[-5:] = held[-5:]
    drawn = np.concatenate([real[:9], held[:6], held[-5:]])
    report = table_report(*(np.column_stack([x, x]) for x in (real, drawn, held)), random_state=0)
    assert report.nearer == pytest.approx((9 + 0.5 * 5) / 20)


def test_gaps_alone_can_tell():
    real, held = table(400, 0), table(400, 1)
    for frame in (real, held):
        frame.loc[frame.index[::2], "b"] = np.nan
    whole = table(400, 2).assign(b=lambda frame: frame["b"].fillna(0.0))
    report = table_report(real, whole, held, random_state=0)
    assert report.auc_gaps > 0.7
    assert "gaps alone" in str(report)
    assert np.isnan(table_report(real.dropna(), whole.dropna(), random_state=0).auc_gaps)


def test_independent_columns_are_told_apart_and_break_rules():
    real, held = table(400, 0), table(400, 1)
    rng = np.random.default_rng(0)
    loose = real.copy()
    for name in loose:
        loose[name] = loose[name].to_numpy()[rng.permutation(len(loose))]
    report = table_report(real, loose, held, random_state=0)
    assert report.auc > 0.8
    assert report.columns["shape"].min() > 0.85
    kept = dict(zip(report.rules["rule"], report.rules["kept"]))
    assert 0.5 < kept["a", "<=", "b"] < 0.9
    assert report.trends < table_report(real, held, random_state=0).trends - 0.05
    assert "C2ST" in str(report)
    assert report.plot().get_title().startswith("pairs")


def test_tables_must_be_alike_and_of_some_rows():
    real = table(40, 0)
    with pytest.raises(
        ValueError, match="(?s)Table 2 of 2 does not have the columns .*feature names"
    ):
        table_report(real, real[["a", "b", "c"]])
    with pytest.raises(ValueError, match="at least 10 rows; found 5"):
        table_report(real, real.head(5))
    with pytest.raises(TypeError, match="one library"):
        table_report(real, pl.from_pandas(real))
