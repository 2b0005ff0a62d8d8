import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression

from skpc import CircuitImputer, MultipleImputer, TableMixture
from skpc.imputation import energy_distance, energy_i_score
from tests.naive import imputation as naive


class HotDeck(BaseEstimator):
    """Draws observed cells of the same column."""

    def __init__(self, n_imputations=2, random_state=None):
        self.n_imputations = n_imputations
        self.random_state = random_state

    def fit_impute(self, X):
        tables = []
        for number in range(self.n_imputations):
            filled = X.copy()
            for name in X:
                rng = np.random.default_rng([number, len(name)])
                observed = X[name].dropna()
                lost = X[name].isna().to_numpy()
                cells = observed.iloc[rng.integers(len(observed), size=lost.sum())]
                filled.loc[lost, name] = cells.to_numpy()
            tables.append(filled)
        return tables


class Normal(TransformerMixin, BaseEstimator):
    """Regresses each column on all others, and draws with residuals of a wrong or right spread."""

    def __init__(self, spread=1.0, random_state=None):
        self.spread = spread
        self.random_state = random_state

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        rng = np.random.default_rng(self.random_state)
        filled = X.copy()
        for column in range(X.shape[1]):
            lost = np.isnan(X[:, column])
            if lost.any():
                others = np.delete(X, column, axis=1)
                line = LinearRegression().fit(others[~lost], X[~lost, column])
                residual = X[~lost, column] - line.predict(others[~lost])
                noise = self.spread * residual.std() * rng.normal(size=lost.sum())
                filled[lost, column] = line.predict(others[lost]) + noise
        return filled


def mixed_table(n_rows=60, rate=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    table = pd.DataFrame(
        {
            "x": x,
            "sum": 100.0 * x + 50.0 * rng.normal(size=n_rows),
            "kind": pd.Categorical(rng.choice(["red", "green", "blue"], n_rows)),
            "flag": pd.Categorical(np.where(x > 0.0, "yes", "no")),
        }
    )
    return table, table.mask(rng.random(table.shape) < rate)


def gaussian(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    X = np.column_stack([x, 0.8 * x + 0.6 * rng.normal(size=n_rows)])
    X[rng.random(n_rows) < 0.4, 1] = np.nan
    return X


@pytest.mark.parametrize("complete_columns", [[], ["x"], ["x", "kind"]])
def test_the_i_score_is_the_algorithm_written_out(complete_columns):
    table, incomplete = mixed_table()
    incomplete[complete_columns] = table[complete_columns]
    truth = naive.energy_i_score(
        incomplete, lambda part, n: HotDeck(n_imputations=n).fit_impute(part), 5
    )
    assert_allclose(energy_i_score(incomplete, HotDeck(), 5), truth, rtol=1e-10)


def test_the_distance_is_the_double_sum():
    table, incomplete = mixed_table()
    filled = HotDeck().fit_impute(incomplete)[0]
    spread = [table["x"].std(ddof=0), table["sum"].std(ddof=0), None, None]
    truth = naive.energy_distance(table.to_numpy().tolist(), filled.to_numpy().tolist(), spread)
    assert_allclose(energy_distance(table, filled), truth, rtol=1e-8)
    assert truth > 0.0
    assert energy_distance(table, table.iloc[::-1]) == pytest.approx(0.0, abs=1e-12)


def test_distances_in_chunks_are_those_at_once(monkeypatch):
    table, incomplete = mixed_table()
    filled = HotDeck().fit_impute(incomplete)[0]
    whole = energy_distance(table, filled)
    monkeypatch.setattr("skpc.imputation.scores._PAIRS", 100)
    assert_allclose(energy_distance(table, filled), whole, rtol=1e-8)


def test_draws_of_the_truth_have_a_better_i_score_than_means_and_than_wrong_spreads():
    X = gaussian()
    scores = {spread: energy_i_score(X, Normal(spread), 20, 0) for spread in (0.0, 0.3, 1.0, 3.0)}
    assert min(scores, key=scores.get) == 1.0
    # The continuous ranked probability score of a normal distribution that is true is
    # sd / sqrt(pi); twenty draws add a twentieth of it.
    sd = np.nanstd(X[:, 1])
    assert scores[1.0] == pytest.approx(0.6 / sd / np.sqrt(np.pi) * 1.05, rel=0.1)
    assert scores[0.0] == pytest.approx(0.6 / sd * np.sqrt(2.0 / np.pi), rel=0.1)


def test_draws_of_the_truth_are_nearer_than_means_and_than_wrong_spreads():
    X = gaussian()
    rng = np.random.default_rng(1)
    complete = X.copy()
    lost = np.isnan(X[:, 1])
    complete[lost, 1] = 0.8 * X[lost, 0] + 0.6 * rng.normal(size=lost.sum())
    distances = {
        spread: energy_distance(complete, Normal(spread, 0).fit_transform(X))
        for spread in (0.0, 1.0, 3.0)
    }
    assert min(distances, key=distances.get) == 1.0


@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e6])
def test_units_and_the_order_of_columns_do_not_matter(scale):
    table, incomplete = mixed_table()
    # Where no column is complete, the first of those that are equally often observed is taken.
    incomplete["x"] = table["x"]
    score = energy_i_score(incomplete, HotDeck(), 4)
    filled = HotDeck().fit_impute(incomplete)[0]
    distance = energy_distance(table, filled)
    order = ["flag", "sum", "x", "kind"]
    scaled = incomplete.assign(sum=scale * incomplete["sum"] + scale)[order]
    assert_allclose(energy_i_score(scaled, HotDeck(), 4), score, rtol=1e-8)
    first = table.assign(sum=scale * table["sum"] + scale)[order]
    second = filled.assign(sum=scale * filled["sum"] + scale)[order]
    assert_allclose(energy_distance(first, second), distance, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_column_that_is_constant_in_the_complete_table_has_no_unit(unit):
    complete = np.array([[1.0, 3.0], [2.0, 3.0], [4.0, 3.0]])
    imputed = complete + [[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]
    assert energy_distance(complete, complete * [1.0, unit] / [1.0, unit]) == 0.0
    assert_allclose(
        energy_distance(complete * [1.0, unit], imputed * [1.0, unit]),
        energy_distance(complete, imputed),
        rtol=1e-6,
    )


def test_imputers_of_this_package_and_of_others_are_judged():
    table, incomplete = mixed_table(80)
    rng = np.random.default_rng(0)
    numbers = np.column_stack([np.arange(200.0), np.arange(200.0) + rng.normal(size=200)])
    numbers[rng.random(200) < 0.3, 1] = np.nan
    density = TableMixture(n_components=1, random_state=0)
    imputers = [MultipleImputer(density), CircuitImputer(density, strategy="sample")]
    for imputer in imputers:
        assert 0.0 < energy_i_score(incomplete, imputer, 3, 0) < 1.0
        assert energy_i_score(incomplete, imputer, 3, 0) == energy_i_score(
            incomplete, imputer, 3, 0
        )
        assert not hasattr(imputer, "density_")
    for imputer in (KNNImputer(), IterativeImputer(sample_posterior=True), SimpleImputer()):
        assert 0.0 < energy_i_score(numbers, imputer, 3, 0) < 1.0
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    assert energy_i_score(frame, KNNImputer()) == energy_i_score(numbers, KNNImputer())


def test_means_between_two_numbers_are_judged_as_numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    X = np.column_stack([x, x > 0.0]).astype(float)
    X[rng.random(100) < 0.3, 1] = np.nan
    assert 0.0 < energy_i_score(X, KNNImputer()) < 0.5


def test_a_column_with_few_gaps_or_one_value_has_no_score():
    X = gaussian(100)
    score = energy_i_score(X, SimpleImputer())
    constant = np.where(np.arange(100) < 20, np.nan, 5.0)
    few = np.where(np.arange(100) < 9, np.nan, X[:, 0])
    # These are no predictors either, as they have gaps.
    assert energy_i_score(np.column_stack([X, constant, few]), SimpleImputer()) == score


@pytest.mark.parametrize(
    ("X", "imputer", "n_draws", "error", "message"),
    [
        (np.eye(20), KNNImputer(), 5, ValueError, "at least 10 missing cells"),
        (gaussian(30)[:, [1]], KNNImputer(), 5, ValueError, "beside another"),
        (gaussian(30), KNNImputer(), 0, ValueError, "n_draws must be at least 1, got 0"),
        (gaussian(30), LinearRegression(), 5, TypeError, "fit_impute, .*got LinearRegression"),
        (gaussian(30), SimpleImputer(add_indicator=True), 5, ValueError, r"found shape \(30, 3\)"),
        (gaussian(30), Normal(np.nan), 5, ValueError, "must fill all cells; found"),
    ],
)
def test_an_i_score_that_cannot_be_had_is_refused(X, imputer, n_draws, error, message):
    with pytest.raises(error, match=message):
        energy_i_score(X, imputer, n_draws)


def test_tables_that_do_not_match_are_refused():
    table, incomplete = mixed_table()
    with pytest.raises(ValueError, match="no missing cells; found"):
        energy_distance(table, incomplete)
    with pytest.raises(ValueError, match="feature names"):
        energy_distance(table, table.rename(columns={"x": "z"}))
    with pytest.raises(ValueError, match=r"same columns; found shapes \(3, 3\) and \(4, 4\)"):
        energy_distance(np.eye(3), np.eye(4))
    with (
        pytest.warns(UserWarning, match="feature names"),
        pytest.raises(TypeError, match="arrays throughout"),
    ):
        energy_distance(table, table.to_numpy())
