"""Ordered categories of pandas are ordered states, and come back as they were."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from skpc.domain import Declared, Domain

LEVELS = ["low", "mid", "high", "top", "never"]
DENSITIES = [
    CutsetNetworkBD(random_state=0),
    HiddenChowLiuTree(random_state=0),
    MixtureOfAllTrees(max_iter=5, random_state=0),
    SoftLearnSPN(random_state=0),
    TableMixture(n_components=2, random_state=0),
]


def table():
    """A level that follows a number; no row has the last one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    rank = np.clip(np.floor(x + 0.5 * rng.normal(size=400) + 1.5), 0, 3).astype(int)
    level = pd.Series(pd.Categorical.from_codes(rank, LEVELS, ordered=True))
    return pd.DataFrame({"x": x, "level": level.where(rng.random(400) > 0.1)})


@pytest.mark.parametrize("density", DENSITIES, ids=lambda d: type(d).__name__)
def test_whatever_is_drawn_completed_or_told_has_the_dtype_of_the_column(density):
    X = table()
    model = clone(density).fit(X)
    assert model.domain_.is_ordered.tolist() == [False, True]
    drawn = model.sample(5000, random_state=0)["level"]
    shares, of_draws = (v.value_counts(normalize=True) for v in (X["level"], drawn))
    assert drawn.dtype == X["level"].dtype
    assert (shares - of_draws).abs().max() < 0.03
    rows = pd.DataFrame({"x": [-3.0, 3.0], "level": X["level"].iloc[:0].reindex([0, 1])})
    lower, upper = model.interval(rows, 0.8)
    filled = model.complete(rows)
    for cells in (lower, upper, filled):
        assert cells["level"].dtype == X["level"].dtype
    assert (lower["level"] <= filled["level"]).all()
    assert (filled["level"] <= upper["level"]).all()
    assert filled["level"].cat.codes.is_monotonic_increasing
    cells = model.marginals(rows)[1]
    assert set(cells.quantile(0.5)) <= set(LEVELS[:-1])
    assert cells.cdf("low")[0] > cells.cdf("low")[1]
    shares = cells.to_frame()
    assert shares.columns.tolist() == LEVELS
    for level in LEVELS[:-1]:
        known = rows.assign(level=pd.Categorical([level] * 2, LEVELS, ordered=True))
        log_share = model.score_samples(known) - model.score_samples(rows)
        assert_allclose(shares[level], np.exp(log_share), rtol=1e-6)
        assert_allclose(model.marginals(known)[1].to_frame()[level], 1.0)
    given = model.sample(50, random_state=0, given={"level": "top"})
    assert (given["level"] == "top").all()
    assert given["x"].mean() > 0.5
    every = pd.DataFrame({"x": np.nan, "level": pd.Categorical(LEVELS, LEVELS, ordered=True)})
    assert_allclose(np.exp(model.score_samples(every)).sum(), 1.0)


def test_other_categories_are_missing_in_rows_and_refused_where_given():
    X = table()
    model = CutsetNetworkBD(random_state=0).fit(X)
    rows = pd.DataFrame({"x": [0.0], "level": ["ultra"]})
    with pytest.warns(UserWarning, match="found 'ultra'"):
        score = model.score_samples(rows)
    assert_allclose(score, model.score_samples(rows.assign(level=None)))
    with (
        pytest.warns(UserWarning, match="found 'ultra'"),
        pytest.raises(ValueError, match=r"\[low, never\] in column 'level', .* found 'ultra'"),
    ):
        model.sample(given={"level": "ultra"})
    with pytest.raises(ValueError, match="column 'level' must hold .* found 'ultra'"):
        CutsetNetworkBD(handle_unknown="error").fit(X).score_samples(rows)


@pytest.mark.parametrize(
    "parameters",
    [
        {"categorical_features": ["level"]},
        {"categorical_features": [False, True]},
        {"categorical_features": "from_dtype"},
        {"categories": [None, LEVELS]},
        {"margins": "plain"},
    ],
    ids=str,
)
def test_declared_columns_are_categories(parameters):
    assert Domain.fit(table(), Declared(**parameters)).is_categorical.tolist() == [False, True]


def test_two_ordered_categories_are_categories_and_other_columns_may_be_declared():
    X = table()
    X["side"] = pd.Categorical(np.where(X["x"] > 0, "r", "l"), ["l", "r"], ordered=True)
    assert Domain.fit(X).is_categorical.tolist() == [False, False, True]
    assert Domain.fit(X, Declared(categorical_features=["side"])).is_ordered.tolist() == [
        False,
        True,
        False,
    ]


def test_the_domain_says_what_they_are():
    line = Domain.fit(table()).to_frame().loc["level"].tolist()
    assert line == [
        "ordered categories",
        "low to top",
        "'low', 'mid', 'high', 'top', 'never'",
        "1",
        "ordered categories",
    ]


def test_imputers_classifiers_and_saved_densities_keep_them():
    X = table()
    filled = CircuitImputer(CutsetNetworkBD(), random_state=0).set_output(transform="pandas")
    filled = filled.fit_transform(X)
    assert filled["level"].dtype == X["level"].dtype
    assert filled["level"].notna().all()
    model = CutsetNetworkBD(random_state=0).fit(X)
    assert pickle.loads(pickle.dumps(model)).score(X) == model.score(X)
    classifier = DensityClassifier(CutsetNetworkBD(random_state=0)).fit(X[["level"]], X["x"] > 0)
    assert classifier.predict(X[["level"]])[X["level"] == "top"].all()
