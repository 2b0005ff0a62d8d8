"""Scores of imputations: against double sums, and do they prefer the truth?"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer

from skpc.imputation import energy_distance, energy_i_score
from skpc.imputation.scores import _energy_scores, _evidence


class Draws(BaseEstimator):
    """Draws the second column of two normal ones, with a spread that may be wrong."""

    def __init__(self, spread=0.6, random_state=None):
        self.spread = spread
        self.random_state = random_state

    def fit_transform(self, X):
        random = np.random.RandomState(self.random_state)
        filled = X.copy()
        noise = self.spread * random.normal(size=len(X))
        drawn = {"x": 0.8 * X["y"] + noise, "y": 0.8 * X["x"] + noise}
        for column in X:
            filled[column] = X[column].fillna(drawn[column])
        return filled


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = 0.8 * x + 0.6 * rng.normal(size=400)
    y[rng.random(400) < 0.4] = np.nan
    return pd.DataFrame({"x": x, "y": y})


def slow_distance(a, b):
    def mean(p, q):
        return np.mean([np.sqrt(((u - v) ** 2).sum()) for u in p for v in q])

    return 2.0 * mean(a, b) - mean(a, a) - mean(b, b)


def test_energy_distances_are_the_double_sums_of_scaled_rows():
    rng = np.random.default_rng(0)
    complete = pd.DataFrame({"a": 5.0 * rng.normal(size=30), "b": rng.choice([*"xyz"], 30)})
    imputed = pd.DataFrame({"a": 3.0 * rng.normal(size=20), "b": rng.choice([*"xy"], 20)})
    points = [
        np.column_stack(
            [one["a"] / complete["a"].std(ddof=0)] + [1.0 * (one["b"] == k) for k in "xyz"]
        )
        for one in (complete, imputed)
    ]
    expected = slow_distance(*points)
    assert_allclose(energy_distance(complete, imputed), expected, rtol=1e-12)
    both = energy_distance(complete, [imputed, complete])
    assert_allclose(both, 0.5 * expected, rtol=1e-12)
    in_polars = energy_distance(pl.from_pandas(complete), pl.from_pandas(imputed))
    assert_allclose(in_polars, expected, rtol=1e-12)
    units = [one.assign(a=one["a"] * 1e-30) for one in (complete, imputed)]
    assert_allclose(energy_distance(*units), expected, rtol=1e-12)


def test_energy_scores_are_double_sums_over_draws():
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=(4, 2)), rng.normal(size=(5, 4, 2))
    for row, score in enumerate(_energy_scores(truth, draws)):
        of_row = draws[:, row]
        apart = np.mean([np.linalg.norm(u - v) for u in of_row for v in of_row])
        away = np.mean([np.linalg.norm(u - truth[row]) for u in of_row])
        assert_allclose(score, 0.5 * apart - away, rtol=1e-12)


def test_the_evidence_is_what_all_rows_have_or_what_most_have():
    observed = np.array([[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1]], dtype=bool)
    rows, sources = _evidence(observed, 1)
    assert rows.tolist() == [True, True, False]
    assert sources == [0]
    rows, sources = _evidence(observed[:, 1:], 0)
    assert rows.tolist() == [True, False, False]
    assert sources == [1]


def test_draws_of_the_truth_have_the_best_score(table):
    truth, narrow, wide = (
        energy_i_score(table, Draws(spread), n_draws=20, random_state=0)
        for spread in (0.6, 0.1, 2.0)
    )
    means = energy_i_score(table, SimpleImputer().set_output(transform="pandas"))
    assert truth > max(narrow, wide, means)
    assert truth < 0.0
    # The cells in y are in standard deviations of its observed ones: CRPS of a normal draw.
    spread = table["y"].std(ddof=0)
    assert_allclose(truth, -0.6 / np.sqrt(np.pi) / spread, rtol=0.1)


def test_scores_do_not_depend_on_units_nor_on_the_order_of_columns(table):
    plain = energy_i_score(table, SimpleImputer())
    assert_allclose(energy_i_score(table * 1e-20, SimpleImputer()), plain, rtol=1e-10)
    assert_allclose(energy_i_score(table[["y", "x"]], SimpleImputer()), plain, rtol=1e-10)
    assert_allclose(energy_i_score(table.to_numpy(), SimpleImputer()), plain, rtol=1e-10)


def test_categories_are_scored(table):
    kinds = table.assign(kind=np.where(table["x"] > 0, "up", "down"))
    kinds.loc[:100, "kind"] = None
    frequent = SimpleImputer(strategy="most_frequent").set_output(transform="pandas")
    score = energy_i_score(kinds[["x", "kind"]], frequent)
    share = kinds["kind"].value_counts(normalize=True).max()
    assert_allclose(score, -np.sqrt(2.0) * (1.0 - share), atol=0.15)


def test_bad_input_is_refused(table):
    with pytest.raises(ValueError, match="both missing and observed"):
        energy_i_score(table[["x"]], SimpleImputer())
    with pytest.raises(TypeError, match="fit_impute or fit_transform"):
        energy_i_score(table, BaseEstimator())
    with pytest.raises(ValueError, match="imputed must have no missing cells; found some in row"):
        energy_distance(table.fillna(0.0), table)
    with pytest.raises(ValueError, match="same columns"):
        energy_distance(table[["x"]], table[["y"]])
