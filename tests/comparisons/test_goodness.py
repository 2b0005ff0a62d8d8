import numpy as np
import pytest

from skpc import CutsetNetworkBD, SoftLearnSPN, TableMixture
from skpc.comparisons import goodness_of_fit_test
from skpc.comparisons.goodness import _pair_moments, _transformed, kolmogorov_distance
from skpc.factor_graphs import FactorGraph, compile
from skpc.queries import sample
from tests.comparisons.test_two_sample import table
from tests.naive import comparisons as naive


@pytest.fixture(scope="module")
def model():
    return CutsetNetworkBD(random_state=0).fit(table(800, seed=0, missing=0.2))


def with_holes(X, seed: int, share: float = 0.3):
    return X.mask(np.random.default_rng(seed).random(X.shape) < share)


def test_distances_and_moments_equal_plain_loops():
    rng = np.random.default_rng(0)
    reference = np.round(rng.normal(size=(30, 3)), 1)
    rows = np.round(rng.normal(size=(12, 3)), 1)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    margins = [np.sort(column) for column in reference.T]
    for column, margin in zip(rows.T, margins):
        expected = naive.kolmogorov_distance(column, margin)
        assert kolmogorov_distance(column, margin) == pytest.approx(expected)
    centre = _transformed(reference, margins).mean(axis=1, keepdims=True)
    moments = _pair_moments(_transformed(rows, margins) - centre)
    np.testing.assert_allclose(moments, naive.pair_moments(rows, reference), atol=1e-12)


def test_level_holds(model):
    pvalues = []
    for seed in range(100):
        X = with_holes(model.sample(60, random_state=seed), seed)
        pvalues.append(goodness_of_fit_test(model, X, n_draws=19, random_state=seed).pvalue)
    assert np.mean(np.array(pvalues) <= 0.1) <= 0.1 + 3.0 * np.sqrt(0.09 / 100)
    assert 0.4 < np.mean(pvalues) < 0.62


def test_a_missing_dependence_is_seen(model):
    X = table(300, seed=1)
    X["kind"] = X["kind"].to_numpy()[::-1]
    result = goodness_of_fit_test(model, with_holes(X, 0), n_draws=99, random_state=0)
    assert result.pvalue == 0.01
    assert set(result.columns.index[result.columns["pvalue"] <= 0.01]) == {"size", "kind"}
    # The columns by themselves are as they were.
    assert (result.columns["lower"] < 0.02).all()
    assert (result.columns["upper"] > result.columns["distance"]).all()


def test_a_changed_column_has_a_distance(model):
    X = table(400, seed=2)
    X["size"] += 1.0
    columns = goodness_of_fit_test(model, X, n_draws=39, random_state=0).columns
    assert columns["distance"].idxmax() == "size"
    assert columns.loc["size", "lower"] > 0.2


def test_one_component_does_not_fit_three():
    rng = np.random.default_rng(0)
    centre = np.array([[0.0, 0.0], [4.0, 4.0], [8.0, 0.0]])
    X = centre[rng.integers(3, size=1000)] + rng.normal(size=(1000, 2))
    one, three = (TableMixture(n_components=n, random_state=0).fit(X[:500]) for n in (1, 3))
    options = {"n_draws": 99, "random_state": 0}
    assert goodness_of_fit_test(one, X[500:], **options).pvalue == 0.01
    assert goodness_of_fit_test(three, X[500:], **options).pvalue > 0.05


def test_discrepancy_sees_a_coupling():
    weak, strong = (FactorGraph.ising_grid(2, 2, coupling=c) for c in (0.0, 0.5))
    rows = sample(compile(strong), 60, np.random.RandomState(0))
    rows[::4, 1] = np.nan
    options = {"statistic": "kdsd", "n_draws": 39, "random_state": 0}
    assert goodness_of_fit_test(weak, rows, **options).pvalue == 0.025
    assert goodness_of_fit_test(strong, rows, **options).pvalue > 0.05
    X = sample(compile(strong), 400, np.random.RandomState(1))
    density = CutsetNetworkBD(random_state=0).fit(X)
    assert goodness_of_fit_test(density, rows[1::4], **options).columns is None


def test_a_bootstrap_learns_anew():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    X = np.hstack([x, x**2 + 0.3 * rng.normal(size=(200, 1))])
    options = {"refit": True, "n_draws": 9, "random_state": 0}
    gaussian = TableMixture(n_components=1, random_state=0).fit(X)
    assert goodness_of_fit_test(gaussian, X, **options).pvalue == 0.1
    drawn = gaussian.sample(200, random_state=0)
    again = TableMixture(n_components=1, random_state=0).fit(drawn)
    assert goodness_of_fit_test(again, drawn, **options).pvalue > 0.1


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(TypeError, match="fitted density"):
        goodness_of_fit_test(SoftLearnSPN(), np.zeros((3, 1)))
    graph = FactorGraph.ising_grid(2, 2, coupling=0.1)
    with pytest.raises(TypeError, match="without refit"):
        goodness_of_fit_test(graph, np.zeros((3, 4)), statistic="kdsd", refit=True)


def test_a_column_without_a_value_is_at_no_distance(model):
    X = table(50, seed=3).assign(size=np.nan)
    columns = goodness_of_fit_test(model, X, n_draws=19, random_state=0).columns
    assert columns.loc["size", "distance"] == columns.loc["size", "lower"] == 0.0
    assert columns.loc["size", "upper"] == 1.0


def test_a_column_that_has_not_changed_does_not_count_for_another():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=900), np.ones(900), rng.integers(0, 2, 900)])
    model = CutsetNetworkBD(random_state=0).fit(X[:600])
    X[600:, 0] *= 3.0
    result = goodness_of_fit_test(model, X[600:], n_draws=99, random_state=0)
    assert result.columns["pvalue"].tolist()[0] == 0.01
    assert (result.columns["pvalue"][1:] > 0.05).all()
