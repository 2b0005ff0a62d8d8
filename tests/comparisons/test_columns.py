import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold

from skpc import CutsetNetworkBD, TableMixture
from skpc.comparisons import feature_importance_test, independence_test
from skpc.comparisons.columns import BOOSTING, multiplier_test
from skpc.domain import merge_rows
from tests.comparisons.test_two_sample import table
from tests.naive import comparisons as naive

GAUSSIAN = TableMixture(n_components=1, random_state=0)
CUTSETS = CutsetNetworkBD(random_state=0)


def siblings(n_rows: int, seed: int, dependence: float = 0.0) -> np.ndarray:
    """z, and two columns that have only z in common, unless they depend on each other."""
    rng = np.random.default_rng(seed)
    z, noise = rng.normal(size=n_rows), rng.normal(size=(2, n_rows))
    return np.column_stack([z, z + noise[0], z + noise[1] + dependence * noise[0]])


def test_statistics_equal_plain_loops():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 40))
    left[:3] = right[5:9] = np.nan
    statistic, draws = multiplier_test(
        np.column_stack([left * right, left]), 4000, np.random.RandomState(0)
    )
    assert statistic[0] == pytest.approx(naive.covariance_measure(left, right))
    # The greatest of the absolute values of two normal variables that hardly depend on each other.
    half = stats.halfnorm.cdf(1.5) ** 2
    assert np.mean(draws <= 1.5) == pytest.approx(half, abs=0.05)


def test_residuals_are_those_of_other_folds():
    X = siblings(60, seed=0)
    result = independence_test(X, 1, 2, 0, density=GAUSSIAN, cv=KFold(2), random_state=0)
    residuals = np.empty((60, 2))
    domain = GAUSSIAN.fit(X).domain_
    for train, test in KFold(2).split(X):
        model = TableMixture(n_components=1, random_state=0)
        model.fit_rows(domain, *merge_rows(X[train], np.ones(30)))
        left = X - model.complete(np.where([True, False, False], X, np.nan))
        for column in (1, 2):
            fits = [clone(BOOSTING).fit(X[train, :1], one[train, column]) for one in (left, X)]
            # The last loss in the rows that a step leaves out.
            best = int(np.argmin([fit.oob_scores_[-1] for fit in fits]))
            predicted = fits[best].predict(X[test, :1])
            residuals[test, column - 1] = (left, X)[best][test, column] - predicted
    expected = naive.covariance_measure(*residuals.T)
    assert result.statistic == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("n_repeats", "n_draws", "cv"), [(12, 39, 2), pytest.param(20, 99, 3, marks=pytest.mark.slow)]
)
def test_level_holds_where_columns_share_a_cause(n_repeats, n_draws, cv):
    pvalues = []
    for seed in range(n_repeats):
        X = siblings(200, seed)
        X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
        result = independence_test(
            X, 1, 2, 0, density=CUTSETS, n_draws=n_draws, cv=cv, random_state=seed
        )
        pvalues.append(result.pvalue)
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + 3.0 * np.sqrt(0.0475 / n_repeats)
    assert np.mean(pvalues) > 0.4


@pytest.mark.parametrize(
    ("n_repeats", "n_draws", "cv"), [(12, 39, 2), pytest.param(20, 99, 3, marks=pytest.mark.slow)]
)
def test_level_holds_where_the_density_misses_how_columns_depend_on_their_cause(
    n_repeats, n_draws, cv
):
    pvalues = []
    for seed in range(n_repeats):
        X = siblings(300, seed)
        X[:, 1:] += 2.0 * np.sin(2.0 * X[:, :1])
        result = independence_test(
            X, 1, 2, 0, density=GAUSSIAN, n_draws=n_draws, cv=cv, random_state=seed
        )
        pvalues.append(result.pvalue)
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + 3.0 * np.sqrt(0.0475 / n_repeats)


def test_a_dependence_beyond_the_given_columns_is_seen():
    X = siblings(400, seed=0, dependence=0.5)
    options = {"density": GAUSSIAN, "n_draws": 99, "random_state": 0}
    assert independence_test(X, 1, 2, 0, **options).pvalue == 0.01
    assert independence_test(siblings(400, seed=1), 1, 2, **options).pvalue == 0.01


def test_pairs_have_entries_and_categories_take_part():
    X = table(400, seed=0, missing=0.1)
    density = CutsetNetworkBD(random_state=0)
    result = independence_test(X, ["size", "other"], "kind", density=density, random_state=0)
    assert list(result.columns.index) == [("size", "kind"), ("other", "kind")]
    assert result.columns["pvalue"].iloc[0] == result.pvalue == 0.001
    assert result.columns["pvalue"].iloc[1] > 0.05


def test_a_column_cannot_be_in_two_sets():
    with pytest.raises(ValueError, match="no column in common"):
        independence_test(siblings(20, seed=0), [0, 1], 1)
    with pytest.raises(ValueError, match="others"):
        independence_test(siblings(20, seed=0), 0, "nothing")


def test_columns_that_matter_are_found():
    X = table(300, seed=1, missing=0.1)
    X["noise"] = np.random.default_rng(0).normal(size=300)
    y = np.where(X["kind"].eq("large") ^ (np.random.default_rng(1).random(300) < 0.1), "b", "a")
    X = X.astype({"kind": "category", "other": "category"})
    result = feature_importance_test(
        HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype"),
        X,
        y,
        density=CutsetNetworkBD(random_state=0),
        scoring="neg_log_loss",
        n_draws=39,
        cv=3,
        random_state=0,
    )
    columns = result.columns
    assert (columns["adjusted"] <= 0.1).tolist() == [False, True, False, False]
    assert columns["statistic"].idxmax() == "kind"
    expected = stats.false_discovery_control(columns["pvalue"])
    np.testing.assert_allclose(columns["adjusted"], expected)
    assert result.pvalue == columns["adjusted"].min()


def test_pvalues_of_a_column_without_effect_are_uniform():
    pvalues = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        y = X[:, 0] + rng.normal(size=60)
        result = feature_importance_test(
            Ridge(),
            X,
            y,
            density=CutsetNetworkBD(random_state=0),
            scoring="neg_mean_squared_error",
            n_draws=9,
            cv=2,
            random_state=seed,
        )
        pvalues.append(result.columns["pvalue"])
    important, useless = np.transpose(pvalues)
    assert np.mean(important == 0.1) > 0.9
    assert stats.kstest(useless, "uniform").pvalue > 0.01


def test_number_of_draws_lets_one_column_be_found():
    X, y = siblings(60, seed=0), np.arange(60) % 2
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["target"] = y + 0.01 * X[:, 0]
    result = feature_importance_test(
        LogisticRegression(),
        frame,
        y,
        density=CutsetNetworkBD(random_state=0),
        cv=2,
        random_state=0,
    )
    # One more than 20 * 4 draws.
    assert result.columns["pvalue"].min() == pytest.approx(1.0 / 81.0)
    assert (result.columns["adjusted"] <= 0.1).tolist() == [False, False, False, True]
