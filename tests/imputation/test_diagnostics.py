"""Do chains settle, and are several tables one long one?"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skpc.imputation import combine_estimates, long_table
from skpc.imputation.chains import FALSE_ALARMS, drifting_columns


def test_settled_chains_raise_the_stated_rate_of_alarms(monkeypatch):
    monkeypatch.setattr("skpc.imputation.chains.FALSE_ALARMS", 0.1)
    rng = np.random.default_rng(0)
    n_alarms = sum(
        len(drifting_columns(rng.normal(size=(2, 5, 5, 4)), np.ones(4))) > 0 for _ in range(2000)
    )
    # Bonferroni's bound is nearly reached by independent columns.
    assert stats.binomtest(n_alarms, 2000, 0.1).proportion_ci(0.999).low < 0.1
    assert n_alarms > 120
    assert FALSE_ALARMS == 0.001


def test_a_drift_is_found_and_one_that_changes_nothing_is_not():
    rng = np.random.default_rng(0)
    trace = rng.normal(size=(2, 20, 5, 3))
    trace[0, :, :, 1] = 0.01 * trace[0, :, :, 1] + np.linspace(0.0, 1.0, 5)
    trace[1, :, :, 2] = 1e-4 * trace[1, :, :, 2] + np.linspace(0.0, 0.01, 5)
    trace[:, :, :, 0] = np.nan
    assert drifting_columns(trace, np.ones(3)).tolist() == [1]
    assert drifting_columns(1e30 * trace, np.full(3, 1e30)).tolist() == [1]
    assert drifting_columns(trace[:, :2], np.ones(3)).tolist() == []


@pytest.mark.parametrize("library", [pd, pl])
def test_a_long_table_has_the_numbers_of_tables_and_rows(library):
    tables = [library.DataFrame({"a": [1.0, number], "b": ["x", "y"]}) for number in (2.0, 3.0)]
    joined = long_table(tables)
    assert [*joined.columns] == [".imp", ".id", "a", "b"]
    assert joined[".imp"].to_list() == [1, 1, 2, 2]
    assert joined[".id"].to_list() == [0, 1, 0, 1]
    assert joined["a"].to_list() == [1.0, 2.0, 1.0, 3.0]
    assert joined["b"].to_list() == ["x", "y"] * 2
    original = library.DataFrame({"a": [1.0, None], "b": ["x", "y"]})
    with_original = long_table(tables, original)
    assert with_original[".imp"].to_list() == [0, 0, 1, 1, 2, 2]


def test_tables_of_other_rows_are_refused():
    with pytest.raises(ValueError, match=r"found tables of \[1, 2\] rows"):
        long_table([np.zeros((1, 2)), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="at least one"):
        long_table([])


def assert_same_test(found, expected):
    assert_allclose(found["df"], expected["df"], rtol=1e-10)
    for key in ("statistic", "pvalue"):
        assert_allclose(found[key], expected[key], rtol=1e-10)


def pooled():
    rng = np.random.default_rng(0)
    estimates = [1.0, -0.2, 0.1] + 0.1 * rng.normal(size=(8, 3))
    root = rng.normal(size=(8, 3, 3))
    covariances = 0.02 * np.eye(3) + 0.01 * root @ root.transpose(0, 2, 1)
    labels = ["a", "b", "c"]
    series = [pd.Series(row, labels) for row in estimates]
    frames = [pd.DataFrame(cov, labels, labels) for cov in covariances]
    return estimates, covariances, combine_estimates(series, frames, 50.0)


def test_the_test_of_some_estimates_is_the_joint_test_of_these_alone():
    estimates, covariances, combined = pooled()
    alone = combine_estimates(estimates[:, 1:], covariances[:, 1:, 1:], 50.0)
    assert_same_test(combined.wald_test(["b", "c"]), alone.joint)
    assert_same_test(combined.wald_test(), combined.joint)
    one = combined.wald_test(["a"])
    assert_same_test(combined.wald_test("a"), one)
    assert_allclose(one["statistic"], combined.table.loc["a", "statistic"] ** 2, rtol=1e-10)


def test_contrasts_are_sums_of_estimates():
    estimates, covariances, combined = pooled()
    weights = np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 1.0]])
    alone = combine_estimates(estimates @ weights.T, weights @ covariances @ weights.T, 50.0)
    assert_same_test(combined.wald_test(weights), alone.joint)


def test_contrasts_that_do_not_fit_are_refused():
    _, _, combined = pooled()
    with pytest.raises(ValueError, match=r"labels among \['a', 'b', 'c'\]; found \['d'\]"):
        combined.wald_test(["d"])
    for wrong in (np.ones((2, 3)), np.ones((1, 2))):
        with pytest.raises(ValueError, match="independent rows of 3 coefficients"):
            combined.wald_test(wrong)
    with pytest.raises(ValueError, match="needs covariances"):
        combine_estimates([1.0, 2.0], [0.1, 0.1]).wald_test()


def test_more_missing_information_needs_more_tables():
    few = combine_estimates([1.0, 1.01, 0.99], [0.1, 0.1, 0.1])
    many = combine_estimates([1.0, 2.0, 0.0], [0.1, 0.1, 0.1])
    assert few.n_tables_advised == 2
    fmi = float(many.table["fmi"].max())
    assert many.n_tables_advised == int(np.ceil(1.0 + 0.5 * (fmi / 0.05) ** 2))
