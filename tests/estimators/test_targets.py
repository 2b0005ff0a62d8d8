"""Tests of the checks of what classifiers and regressors learn to predict."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

from skpc.estimators._targets import check_labels, check_target


@pytest.mark.parametrize(
    "dates",
    [
        pd.Series(pd.date_range("2020-01-01", periods=3)),
        pd.Series(pd.date_range("2020-01-01", periods=3, tz="UTC")),
        np.array([1, 2, 3], dtype="timedelta64[D]"),
        [date(2020, 1, day) for day in (1, 2, 3)],
    ],
)
def test_dates_are_no_targets_of_a_regressor(dates):
    with pytest.raises(TypeError, match="y must hold numbers; found .* in row 0. Turn dates into"):
        check_target(BaseEstimator(), dates, 3)


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b", np.nan],
        np.array(["a", "b", None], dtype=object),
        pd.Series(["a", "b", np.nan]),
        pd.Series(["a", "b", pd.NA], dtype="string"),
        pd.Series(["a", "b", np.nan], dtype="category"),
        pd.Series([True, False, pd.NA], dtype="boolean"),
        np.array([0.0, 1.0, np.nan]),
        pl.Series([0, 1, None]),
    ],
)
def test_a_target_that_lacks_a_value_is_refused_with_its_row(y):
    for check in (check_labels, check_target):
        with pytest.raises(ValueError, match="y contains NaN or None in row 2. Leave the rows"):
            check(BaseEstimator(), y, 3)
