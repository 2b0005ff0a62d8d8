import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skpc.imputation import combine_estimates
from tests.naive import imputation as naive

RNG = np.random.default_rng(0)
ESTIMATES = RNG.normal(1.0, 0.3, size=(6, 2))
VARIANCES = RNG.uniform(0.1, 0.3, size=(6, 2))
COVARIANCES = np.stack([np.cov(RNG.normal(size=(2, 20))) for _ in range(6)])


@pytest.mark.parametrize("df", [None, 20.0, 200.0])
def test_the_rules_are_those_written_out(df):
    result = combine_estimates(ESTIMATES, VARIANCES, df)
    for column in range(2):
        row = result.table.iloc[column]
        truth = naive.combined(
            ESTIMATES[:, column].tolist(), VARIANCES[:, column].tolist(), df or math.inf
        )
        assert_allclose(row["estimate"], truth["estimate"], rtol=1e-10)
        assert_allclose(row["std_error"] ** 2, truth["variance"], rtol=1e-10)
        assert_allclose(row[["df", "fmi"]].tolist(), [truth["df"], truth["fmi"]], rtol=1e-10)
        statistic = truth["estimate"] / math.sqrt(truth["variance"])
        assert_allclose(row["pvalue"], 2 * stats.t.sf(abs(statistic), truth["df"]), rtol=1e-10)
        low, high = result.conf_int(0.9).iloc[column]
        assert_allclose(
            2 * stats.t.cdf((high - row["estimate"]) / row["std_error"], row["df"]), 1.9
        )
        assert_allclose(low + high, 2 * row["estimate"])
    assert result.joint is None


@pytest.mark.parametrize("df", [None, 60.0, 200.0])
def test_the_joint_test_is_the_one_written_out(df):
    result = combine_estimates(ESTIMATES, COVARIANCES, df)
    truth = naive.joint(ESTIMATES.tolist(), COVARIANCES.tolist(), df or math.inf)
    assert_allclose(result.joint["statistic"], truth[0], rtol=1e-10)
    assert_allclose(result.joint["df"], (2, truth[1]), rtol=1e-10)
    assert_allclose(result.joint["pvalue"], stats.f.sf(truth[0], 2, truth[1]), rtol=1e-10)
    assert "all zero: F(2, " in str(result)


def test_degrees_of_freedom_of_the_joint_test_grow_into_those_of_many_rows():
    few, many, endless = (
        combine_estimates(ESTIMATES, COVARIANCES, df).joint["df"][1] for df in (50.0, 1e9, None)
    )
    assert few < many == pytest.approx(endless, rel=1e-5)
    assert combine_estimates(ESTIMATES, COVARIANCES, 2.0).joint["df"][1] <= 2.0
    assert combine_estimates(ESTIMATES[:3], COVARIANCES[:3], 5.0).joint["df"][1] <= 5.0


def test_tables_that_agree_have_the_degrees_of_freedom_of_complete_ones():
    same = combine_estimates([[1.0, 2.0]] * 3, [np.eye(2)] * 3, 40.0)
    assert_allclose(same.table["df"], 41 / 43 * 40)
    assert same.joint["df"] == (2, 40.0)
    assert np.isinf(combine_estimates([1.0, 1.0], [1.0, 1.0]).table["df"][0])


@pytest.mark.parametrize(
    ("transform", "value", "forward", "back"),
    [
        ("fisher", [0.6, 0.7, 0.75], np.arctanh, np.tanh),
        ("logit", [0.1, 0.2, 0.15], lambda p: np.log(p / (1 - p)), lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_transforms_combine_on_their_scale_and_come_back(transform, value, forward, back):
    result = combine_estimates(value, [0.001] * 3, 50.0, transform)
    step, moved = 1e-6, np.array(value)
    slope = (forward(moved + step) - forward(moved - step)) / (2 * step)
    plain = combine_estimates(forward(moved), slope**2 * 0.001, 50.0)
    assert_allclose(result.table["estimate"], back(plain.table["estimate"]))
    assert_allclose(result.conf_int(), back(plain.conf_int()), rtol=1e-6)
    assert_allclose(result.table["pvalue"], plain.table["pvalue"], rtol=1e-5)


def test_names_of_series_are_kept():
    values = [pd.Series(row, index=["a", "b"]) for row in ESTIMATES]
    assert combine_estimates(values, VARIANCES).conf_int().index.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "at least two imputed tables"),
        (([1.0, 2.0], [1.0]), "shape of estimates"),
        (([1.0, np.nan], [1.0, 1.0]), "finite"),
        (([1.0, 2.0], [1.0, 0.0]), "positive, found 0"),
        (([1.0, 2.0], [1.0, 1.0], -1), "df_complete"),
        (([1.0, 2.0], [1.0, 1.0], None, "log"), "transform must be"),
        (([0.5, 1.5], [1.0, 1.0], None, "fisher"), "between -1 and 1, found 1.5"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        combine_estimates(*arguments)


def test_a_level_is_a_probability():
    with pytest.raises(ValueError, match="level"):
        combine_estimates([1.0, 2.0], [1.0, 1.0]).conf_int(95)


def test_labels_of_tables_are_the_same():
    one, two = pd.Series([1.0, 2.0], index=["a", "b"]), pd.Series([2.0, 1.0], index=["b", "a"])
    error = 0.1 * np.eye(2)
    assert combine_estimates([one, one], [error, error]).table.index.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"found \['a', 'b'\] and \['b', 'a'\]"):
        combine_estimates([one, two], [error, error])
    covariance = pd.DataFrame(error, index=two.index, columns=two.index)
    with pytest.raises(ValueError, match="same labels in the same order"):
        combine_estimates([one, one], [covariance, covariance])
