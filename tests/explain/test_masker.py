"""The masker for shap, against the package's own Shapley values."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from skpc import CutsetNetworkBD, ExpectedPredictor
from skpc.explain import ConditionalMasker

N_DRAWS = 400


def table():
    """Numbers and a category that depend on each other, and a target."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=600)
    x = rng.normal(size=600) + kind
    X = pd.DataFrame(
        {
            "x": x,
            "kind": pd.Categorical(np.array([*"abc"])[kind]),
            "whole": (x + rng.normal(size=600)).round().astype(np.int64),
            "z": rng.normal(size=600),
        }
    )
    return X, x + 2.0 * (kind == 1) + X["z"].to_numpy() * kind


def test_draws_keep_what_is_not_hidden_and_the_form_of_the_table():
    X, _ = table()
    density = CutsetNetworkBD(random_state=0).fit(X)
    masker = ConditionalMasker(density, n_draws=50, random_state=0)
    row = X.iloc[[7]].to_numpy()[0]
    (rows,) = masker(np.array([True, False, False, True]), row)
    joined = np.concatenate([rows, rows])
    assert len(rows) == 50
    pd.testing.assert_series_equal(joined.dtypes, X.dtypes)
    assert (joined[["x", "z"]] == X.loc[7, ["x", "z"]].astype(float)).all(axis=None)
    assert joined["kind"].nunique() > 1
    # Numbers of arrays stay an array.
    numbers = X[["x", "z"]].to_numpy()
    masker = ConditionalMasker(CutsetNetworkBD(random_state=0).fit(numbers), n_draws=5)
    (rows,) = masker(np.array([True, False]), numbers[3])
    assert rows.shape == masker.shape == (5, 2)
    assert (rows[:, 0] == numbers[3, 0]).all()


def test_draws_follow_the_conditional_distribution():
    X, _ = table()
    density = CutsetNetworkBD(random_state=0).fit(X)
    masker = ConditionalMasker(density, n_draws=4000, random_state=0)
    (rows,) = masker(np.array([True, False, True, True]), X.iloc[[0]].to_numpy()[0])
    share = np.concatenate([rows])["kind"].value_counts(normalize=True)
    hidden = X.iloc[[0]].assign(kind=pd.Categorical([None], categories=[*"abc"]))
    prob = density.marginals(hidden)["kind"].to_frame().iloc[0]
    np.testing.assert_allclose(share[prob.index], prob, atol=4 / np.sqrt(4 * 4000))


def test_what_cannot_draw_is_refused():
    X, y = table()
    with pytest.raises(TypeError, match="density of skpc"):
        ConditionalMasker(RandomForestRegressor(2).fit(X[["x"]], y))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        ConditionalMasker(CutsetNetworkBD(random_state=0).fit(X), n_draws=0)


def own_and_theirs(algorithm, **options):
    """Exact conditional Shapley values, and those of shap by draws."""
    shap = pytest.importorskip("shap", reason="shap is optional")
    X, y = table()
    X = X[["x", "whole", "z"]]
    density = CutsetNetworkBD(random_state=0)
    forest = RandomForestRegressor(10, max_leaf_nodes=12, random_state=0).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(forest), density).fit(X)
    answer = model.shapley_values(X[:3])
    masker = ConditionalMasker(model.density_, N_DRAWS, **options)
    explainer = shap.Explainer(forest.predict, masker, algorithm=algorithm)
    # The values of coalitions are means of draws, and a value is a mean of their differences.
    spread = y.std() / np.sqrt(N_DRAWS)
    return answer, explainer(X[:3]), spread


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("algorithm", ["exact", "permutation"])
def test_shap_finds_the_values_of_this_package(algorithm):
    own, theirs, spread = own_and_theirs(algorithm, random_state=np.random.RandomState(0))
    np.testing.assert_allclose(theirs.values, own.values, atol=3 * spread)
    assert np.sqrt(np.mean((theirs.values - own.values) ** 2)) < spread
    np.testing.assert_allclose(theirs.base_values, own.base_values, atol=3 * spread)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_partitions_add_up():
    shap = pytest.importorskip("shap", reason="shap is optional")
    X, _ = table()
    clustering = shap.utils.hclust(X[["x", "whole", "z"]].to_numpy())
    own, theirs, spread = own_and_theirs("partition", clustering=clustering, random_state=0)
    total = theirs.values.sum(axis=1) + theirs.base_values
    np.testing.assert_allclose(total, own.values.sum(axis=1) + own.base_values, atol=1e-9)


def test_models_of_categories_are_explained():
    shap = pytest.importorskip("shap", reason="shap is optional")
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is optional")
    X, y = table()
    booster = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), CutsetNetworkBD(random_state=0)).fit(X)
    assert model.is_exact_
    answer = model.shapley_values(X[:2])
    masker = ConditionalMasker(model.density_, N_DRAWS, random_state=0)
    theirs = shap.Explainer(booster.predict, masker, algorithm="permutation")(X[:2])
    spread = y.std() / np.sqrt(N_DRAWS)
    np.testing.assert_allclose(theirs.values, answer.values, atol=3 * spread)


def test_values_become_an_explanation():
    shap = pytest.importorskip("shap", reason="shap is optional")
    X, y = table()
    forest = RandomForestRegressor(5, max_leaf_nodes=6, random_state=0)
    model = ExpectedPredictor(forest, CutsetNetworkBD(random_state=0), random_state=0).fit(X, y)
    answer = model.shapley_values(X[:4])
    explanation = answer.to_shap()
    assert isinstance(explanation, shap.Explanation)
    np.testing.assert_array_equal(explanation.values, answer.values)
    np.testing.assert_array_equal(explanation.base_values, answer.base_values)
    assert explanation.feature_names == [*X]
    assert explanation.data.shape == (4, 4)
