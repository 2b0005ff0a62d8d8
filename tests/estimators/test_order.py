"""No order of columns or rows, and no unit, changes what a density is."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skpc import (
    CellErrorDetector,
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExtraCutsets,
    GenerativeForest,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    Strudel,
    TableMixture,
)

DENSITIES = {
    "cutset": CutsetNetworkBD(),
    "plain cutset": CutsetNetworkBD(margins="plain", n_bins=5),
    "cutset mixture": CutsetNetworkBD(n_components=2, max_iter=2),
    "soft": SoftLearnSPN(),
    "univariate soft": SoftLearnSPN(leaves="univariate"),
    "hidden": HiddenChowLiuTree(),
    "forest": HiddenForest(n_estimators=2, n_hidden=4),
    "random cuts": ExtraCutsets(4, min_samples_split=60),
    "mixture": TableMixture(),
    "one cluster": TableMixture(n_components=1),
    "stack": StackedDensity([("cutset", CutsetNetworkBD()), ("mixture", TableMixture())], cv=2),
    "strudel": Strudel(n_components=2, max_splits=4),
}
N_NUMBERS = 4


def mixed_rows(n_rows: int, seed: int) -> np.ndarray:
    """Four columns of numbers, then four of categories; a few cells are missing."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    first, second, third, fourth = rng.normal(size=(4, n_rows))
    first += 2.0 * kind
    numbers = [first, np.exp(second + 0.5 * kind), third + 0.8 * first, np.round(3 * fourth, 1)]
    u = rng.random((4, n_rows))
    states = [
        u[0] < 0.2 + 0.3 * kind,
        (kind + (u[1] < 0.5)) % 4,
        u[2] < 0.5,
        u[3] < 0.7 - 0.2 * kind,
    ]
    X = np.column_stack([*numbers, *states]).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def fitted(model, X: np.ndarray, columns: np.ndarray):
    """The model of a table whose columns have been put into another order."""
    is_category = np.arange(X.shape[1]) >= N_NUMBERS
    options = {"categorical_features": np.flatnonzero(is_category[columns])}
    for one in [member for _, member in getattr(model, "estimators", None) or [("", model)]]:
        one.set_params(random_state=0, **options)
    model.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X[:, columns])


def answers(model, X: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Log densities; and draws and completions with the columns in their first order."""
    table, places = X[:, columns], np.argsort(columns)
    tables = [model.complete(table, strategy, 1) for strategy in ("mean", "mpe", "sample")]
    tables += [model.sample(len(X), random_state=2)]
    return model.score_samples(table), [one[:, places] for one in tables]


@pytest.mark.parametrize("name", DENSITIES)
def test_a_density_does_not_change_with_orders_and_units(name):
    X, test = mixed_rows(150, 0), mixed_rows(20, 1)
    plain, rng = np.arange(X.shape[1]), np.random.default_rng(2)
    scores, tables = answers(fitted(DENSITIES[name], X, plain), test, plain)
    columns, rows = rng.permutation(plain), rng.permutation(len(X))
    same_scores, same_tables = answers(fitted(DENSITIES[name], X[rows], columns), test, columns)
    assert_allclose(same_scores, scores, atol=1e-9)
    assert_allclose(same_tables, tables, atol=1e-9)
    # Numbers keep all their bits in a unit that is a power of two.
    for unit, tolerance in ((4.0, 1e-9), (1000.0, 1e-5)):
        units = np.where(plain < N_NUMBERS, unit, 1.0)
        model = fitted(DENSITIES[name], X * units, plain)
        other, other_tables = answers(model, test * units, plain)
        shift = np.log(unit) * (~np.isnan(test[:, :N_NUMBERS])).sum(axis=1)
        assert_allclose(other + shift, scores, atol=tolerance)
        assert_allclose(other_tables / units, tables, atol=tolerance)


def test_a_forest_does_not_change_with_orders_and_units():
    X, test = mixed_rows(250, 0), mixed_rows(30, 1)
    plain, rng = np.arange(X.shape[1]), np.random.default_rng(6)
    columns, rows = rng.permutation(plain), rng.permutation(len(X))
    y, units = (X[:, 5] > 1).astype(int), np.where(plain < N_NUMBERS, 4.0, 1.0)

    def answers_of(order, rows, units):
        is_category = np.flatnonzero(order >= N_NUMBERS)
        forest = GenerativeForest(5, random_state=0, categorical_features=is_category)
        forest.fit((X * units)[rows][:, order], y[rows])
        drawn = forest.sample(20, random_state=1)[0][:, np.argsort(order)] / units
        return drawn, forest.predict_proba((test * units)[:, order])

    drawn, proba = answers_of(plain, np.arange(len(X)), np.ones(8))
    same_drawn, same_proba = answers_of(columns, rows, units)
    assert_allclose(same_drawn, drawn, atol=1e-9)
    assert_allclose(same_proba, proba, atol=1e-9)


@pytest.mark.parametrize("orientation", ["directed", "undirected"])
def test_a_mixture_of_all_trees_does_not_change_with_orders(orientation):
    X, test = mixed_rows(150, 0), mixed_rows(30, 1)
    test = test[~np.isnan(test).any(axis=1)]
    plain, columns = np.arange(8), np.random.default_rng(5).permutation(8)
    trees = MixtureOfAllTrees(orientation=orientation, n_components=2, max_iter=5, batch_size=999)
    first, other = (fitted(trees, X, order) for order in (plain, columns))
    scores = first.score_samples(test)
    assert_allclose(other.score_samples(test[:, columns]), scores, atol=1e-9)
    edges = first.edge_probabilities_[np.ix_(columns, columns)]
    assert_allclose(other.edge_probabilities_, edges, atol=1e-9)
    # Adam goes on from where it was, in the order of the table.
    scores = first.partial_fit(test).score_samples(test)
    same = other.partial_fit(test[:, columns]).score_samples(test[:, columns])
    assert_allclose(same, scores, atol=1e-7)


def test_attributes_keep_the_order_of_the_table():
    X = mixed_rows(250, 0)
    plain, columns = np.arange(8), np.random.default_rng(3).permutation(8)
    mixture = [fitted(TableMixture(n_components=2), X, order) for order in (plain, columns)]
    numbers = columns[columns < N_NUMBERS]
    assert_allclose(mixture[1].means_, mixture[0].means_[:, numbers])
    assert_allclose(mixture[1].covariances_, mixture[0].covariances_[:, numbers][:, :, numbers])
    tree = [fitted(HiddenChowLiuTree(n_hidden=2), X, order) for order in (plain, columns)]
    parent = np.append(columns, -1)[tree[1].parent_]
    assert parent.tolist() == tree[0].parent_[columns].tolist()
    for model in (mixture[0], tree[0]):
        again = pickle.loads(pickle.dumps(model))
        assert_allclose(again.score_samples(X[:9]), model.score_samples(X[:9]))


def test_a_network_of_words_does_not_hang_on_the_draw_of_ties():
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 4, 400)
    X = (rng.random((400, 60)) < 0.02 + 0.1 * (np.arange(60) % 4 == topic[:, None])).astype(float)
    model = CutsetNetworkBD(param_ess=None, categories=[[0, 1]] * 60)
    scores = []
    for _ in range(5):
        order = rng.permutation(60)
        scores.append(model.fit(X[:300][:, order]).score(X[300:][:, order]))
    assert np.ptp(scores) < 1e-9


@pytest.mark.parametrize("strategy", ["mean", "sample"])
def test_an_imputer_does_not_change_with_orders_and_units(strategy):
    X = mixed_rows(200, 0)
    plain, rng = np.arange(8), np.random.default_rng(4)
    columns, rows = rng.permutation(plain), rng.permutation(len(X))
    density = TableMixture(n_components=2, random_state=0)
    imputer = CircuitImputer(density, strategy=strategy, random_state=0)
    filled = imputer.fit(X).transform(X[:20])
    same = imputer.fit(X[rows][:, columns]).transform(X[:20][:, columns])
    assert_allclose(same[:, np.argsort(columns)], filled, atol=1e-9)
    units = np.where(plain < N_NUMBERS, 4.0, 1.0)
    other = imputer.fit(X * units).transform(X[:20] * units)
    assert_allclose(other / units, filled, atol=1e-9)


def test_the_rows_that_imputers_hold_out_do_not_change_with_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 1] += X[:, 0]
    X[rng.random(X.shape) < 0.2] = np.nan
    units = np.array([1.0, 4.0, 1024.0])

    def filled(imputer):
        return imputer.fit(X).transform(X), imputer.fit(X * units).transform(X * units) / units

    # Weights of members that are about as good are found to a few digits.
    assert_allclose(*filled(CircuitImputer(random_state=0)), atol=5e-3)
    for draws in ("regressions", "density"):
        imputer = MultipleImputer(n_imputations=2, draws=draws, random_state=0)
        tables = np.array(imputer.fit_impute(X))
        assert_allclose(np.array(imputer.fit_impute(X * units)) / units, tables, atol=1e-9)
    detector = CellErrorDetector(random_state=0)
    marks = detector.fit(X).predict_proba(X)
    assert_allclose(detector.fit(X * units).predict_proba(X * units), marks, atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_a_pool_of_classifiers_does_not_change_with_orders_and_units(joint):
    X, test = mixed_rows(200, 0), mixed_rows(20, 1)
    y = (np.nan_to_num(X[:, 0]) + X[:, 3] > 1.0).astype(int)
    rng = np.random.default_rng(2)
    columns, rows = rng.permutation(8), rng.permutation(len(X))

    def learned(X, y, categories):
        density = CutsetNetworkBD(categorical_features=categories, random_state=0)
        members = ["forest", "boosting", "logistic"]
        pool = DensityClassifier(density, joint=joint, classifiers=members, cv=2, random_state=0)
        return pool.fit(X, y)

    plain = learned(X, y, np.arange(N_NUMBERS, 8))
    other = learned(X[rows][:, columns], y[rows], np.flatnonzero(columns >= N_NUMBERS))
    expected = plain.predict_proba(test)
    assert_allclose(other.predict_proba(test[:, columns]), expected, atol=1e-9)
    assert_allclose(other.score_samples(test[:, columns]), plain.score_samples(test), atol=1e-9)
    drawn = [model.sample(9, random_state=3)[0] for model in (plain, other)]
    assert_allclose(drawn[1][:, np.argsort(columns)], drawn[0], atol=1e-9)
    units = np.where(np.arange(8) < N_NUMBERS, 4.0, 1.0)
    scaled = learned(X * units, y, np.arange(N_NUMBERS, 8))
    assert_allclose(scaled.predict_proba(test * units), expected, atol=1e-9)
    # Members take the columns of the table.
    name = "density joint" if joint else "density"
    member, same = plain.densities_[name][0], other.densities_[name][0]
    label = np.zeros((len(test), int(joint)))
    given, shuffled = (np.hstack([part, label]) for part in (test, test[:, columns]))
    assert_allclose(same.score_samples(shuffled), member.score_samples(given), atol=1e-9)


def test_a_pool_of_regressors_does_not_change_with_orders_and_units():
    X, test = mixed_rows(200, 0), mixed_rows(20, 1)
    y = np.nan_to_num(X[:, 0]) + np.random.default_rng(5).normal(size=len(X))
    rng = np.random.default_rng(2)
    columns, rows = rng.permutation(8), rng.permutation(len(X))

    def learned(X, y, categories):
        density = CutsetNetworkBD(categorical_features=categories, random_state=0)
        return DensityRegressor(density, cv=2, random_state=0).fit(X, y)

    plain = learned(X, y, np.arange(N_NUMBERS, 8))
    other = learned(X[rows][:, columns], y[rows], np.flatnonzero(columns >= N_NUMBERS))
    assert_allclose(other.predict(test[:, columns]), plain.predict(test), atol=1e-9)
    (member,), (same,) = plain.densities_.values(), other.densities_.values()
    given, shuffled = (np.hstack([p, np.ones((20, 1))]) for p in (test, test[:, columns]))
    assert_allclose(same.score_samples(shuffled), member.score_samples(given), atol=1e-9)
    units = np.where(np.arange(8) < N_NUMBERS, 4.0, 1.0)
    scaled = learned(X * units, y, np.arange(N_NUMBERS, 8))
    assert_allclose(scaled.predict(test * units), plain.predict(test), atol=1e-9)
