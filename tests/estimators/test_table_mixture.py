"""TableMixture beside what its circuit and its attributes say."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from skpc import TableMixture
from skpc.domain import Domain, merge_rows
from skpc.queries import log_likelihood


def groups(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n_rows)
    return group, np.column_stack([8.0 * group, -6.0 * group]) + rng.normal(size=(n_rows, 2))


def mixed(n_rows=300, seed=0):
    """Numbers, one with zeros, and a category, with missing cells."""
    group, X = groups(n_rows, seed)
    rng = np.random.default_rng(seed + 1)
    amount = np.where(rng.random(n_rows) < 0.4, 0.0, np.exp(0.3 * X[:, 0]))
    kind = pd.Categorical(np.array(["low", "high"])[group ^ (rng.random(n_rows) < 0.1)])
    frame = pd.DataFrame({"x": X[:, 0], "kind": kind, "amount": amount, "y": X[:, 1]})
    return frame.mask(rng.random(frame.shape) < 0.15)


def test_one_component_is_the_gaussian_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3))
    rival = GaussianMixture(1).fit(X)
    model = TableMixture(n_components=1, random_state=0).fit(X)
    new = rng.normal(size=(2000, 3)) @ np.linalg.cholesky(rival.covariances_[0]).T
    assert_allclose(model.score(new), rival.score(new), atol=0.03)


def test_components_are_told_apart():
    group, X = groups()
    model = TableMixture(n_components=2, random_state=0).fit(X)
    found = model.predict(X)
    assert max((found == group).mean(), (found != group).mean()) > 0.99
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(proba.argmax(axis=1), found)
    assert_allclose(model.predict_proba([[np.nan, np.nan]])[0], model.weights_)
    assert_allclose(model.weights_.sum(), 1.0)


def test_means_and_covariances_are_those_of_scores():
    group, X = groups(2000)
    model = TableMixture(n_components=2, random_state=0).fit(X)
    scores = np.column_stack([n.scaled(x) for n, x in zip(model.domain_.laws, X.T)])
    first = model.predict(X[group == 0])[0]
    assert_allclose(model.means_[first], scores[group == 0].mean(axis=0), atol=0.02)
    truth = np.cov(scores[group == 0].T)
    assert_allclose(model.covariances_[first], truth, atol=0.3 * truth.max())
    assert model.means_.shape == (2, 2)
    assert model.covariances_.shape == (2, 2, 2)


def test_the_circuit_holds_the_mixture_and_the_scores_of_the_domain():
    frame = mixed()
    model = TableMixture(handle_unknown="missing", random_state=0).fit(frame)
    rows = model.domain_.encode(frame)
    assert_allclose(model.score_samples(frame), log_likelihood(model.circuit_, rows))
    columns, mixture, *_ = model._mixture
    log_density = columns.log_density(mixture, columns.cells(rows[:, model._order]))
    assert_allclose(log_density, model.score_samples(frame), atol=1e-8)
    assert model.n_components_ == len(model.weights_)
    n_children = np.diff(model.circuit_.structure.child_ptr)[-1]
    assert n_children == model.n_components_ + 1


def test_bic_and_aic_are_those_of_the_formulas():
    _, X = groups()
    model = TableMixture(n_components=1, random_state=0).fit(X)
    n_parameters = model._mixture.n_parameters
    assert n_parameters in (5, 8)
    truth = n_parameters * np.log(300) - 2.0 * model.score_samples(X).sum()
    assert_allclose(model.bic(X), truth)
    assert_allclose(model.aic(X), 2.0 * n_parameters - 2.0 * model.score_samples(X).sum())


def test_fit_predict_is_predict_after_fit():
    _, X = groups()
    model = TableMixture(n_components=2, random_state=0)
    assert_array_equal(model.fit_predict(X), clone(model).fit(X).predict(X))


def test_validation_rows_make_the_choices():
    _, X = groups(400)
    few = TableMixture(random_state=0).fit(X, X_val=groups(400, seed=3)[1])
    assert few.score(X) > TableMixture(n_components=1, random_state=0).fit(X).score(X)


def test_a_weight_of_two_equals_the_row_twice():
    frame = mixed(60)
    twice = pd.concat([frame, frame.iloc[:20]])
    weight = np.r_[np.full(20, 2.0), np.ones(40)]
    once = TableMixture(random_state=0).fit(frame, sample_weight=weight)
    both = TableMixture(random_state=0).fit(twice)
    assert_allclose(once.score_samples(frame), both.score_samples(frame), rtol=1e-6)


def test_outliers_do_not_make_a_row_impossible_nor_rule_a_component():
    _, X = groups()
    wild = np.vstack([X, [[1e6, -1e6]]])
    model = TableMixture(n_components=2, random_state=0).fit(wild)
    assert np.all(np.isfinite(model.score_samples(wild)))
    assert model.score(X) > TableMixture(n_components=2, random_state=0).fit(X).score(X) - 0.5


@pytest.mark.parametrize("n_rows", [1, 2, 5, 12])
def test_few_rows_are_enough(n_rows):
    frame = mixed(40).iloc[5 : 5 + n_rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableMixture(random_state=0).fit(frame)
    assert np.all(np.isfinite(model.score_samples(frame)))


def test_constant_and_empty_columns_are_taken_as_they_are():
    _, X = groups()
    X = np.column_stack([X, np.full(300, 7.5), np.full(300, np.nan)])
    with pytest.warns(UserWarning, match="Some columns have no value"):
        model = TableMixture(random_state=0).fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    drawn = model.sample(5, random_state=0)
    assert_array_equal(drawn[:, 2], 7.5)


@pytest.mark.parametrize("row", [[1e160, np.nan], [1e200, -1e200]])
def test_rows_whose_squares_overflow_are_impossible_and_never_nan(row):
    model = TableMixture(n_components=2, random_state=0).fit(groups()[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(model.score_samples([row]), [-np.inf])
        assert_allclose(model.predict_proba([row]), [model.weights_])
        for ask in (model.interval, model.score_cells):
            with pytest.raises(ValueError, match="too far away"):
                ask([row])


def test_rare_values_that_repeat_are_drawn_as_often_as_they_occur():
    """Of 1,000 customers about 2 % have no orders, and so have spent nothing."""
    rng = np.random.default_rng(0)
    orders = rng.poisson(rng.choice([3.0, 10.0, 20.0], 1000))
    spent = np.round(orders * np.exp(3 + 0.4 * rng.normal(size=1000)), 2)
    model = TableMixture(random_state=0).fit(np.column_stack([orders, spent]))
    draws = model.sample(20_000, random_state=0)[:, 1]
    assert 0.0 in model.domain_.laws[1].atoms
    assert abs(np.mean(draws == 0.0) - np.mean(spent == 0.0)) < 0.01


def test_the_law_over_a_lattice_sums_to_one_in_components_of_heavy_tails():
    """Without a floor of the narrowest Gaussian it would exceed one where rows crowd one point."""
    rng = np.random.default_rng(0)
    near = np.rint(40.0 + rng.standard_t(1.5, 1500) * 0.1)
    X = np.column_stack([np.clip(near, 0.0, 200.0), rng.normal(size=1500)])
    model = TableMixture(atoms={0: []}, n_components=2, random_state=0).fit(X)
    lattice = np.column_stack([np.arange(-50.0, 300.0), np.full(350, np.nan)])
    assert abs(np.exp(model.score_samples(lattice)).sum() - 1.0) < 0.03


@pytest.mark.parametrize(("n_groups", "gap"), [(3, 20.0), (5, 6.0), (5, 20.0)])
def test_groups_that_differ_in_one_column_are_found(n_groups, gap):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(n_groups), 80)
    X = np.column_stack([gap * group, np.zeros(len(group))]) + rng.normal(size=(len(group), 2))
    model = TableMixture(n_components=n_groups, random_state=0).fit(X)
    assert adjusted_rand_score(group, model.predict(X)) > 0.95


def test_more_components_than_rows_are_refused():
    with pytest.raises(ValueError, match="n_components=5 must not exceed the number of rows"):
        TableMixture(n_components=5).fit(groups(4)[1])


def test_a_mixture_that_was_fitted_with_given_choices_chooses_anew():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = TableMixture(random_state=0).fit(X)
    domain = Domain.fit(X)
    again = model.refit(domain, *merge_rows(domain.encode(X), np.ones(60)))
    assert_allclose(again.score_samples(X), model.score_samples(X))
    other = np.vstack([X + 20.0, X - 20.0])
    assert_allclose(again.fit(other).score_samples(X), clone(model).fit(other).score_samples(X))


def test_heavy_rows_are_dealt_into_no_more_parts_than_others():
    X, weight = np.random.default_rng(0).normal(size=(300, 2)), np.full(300, 1e6)
    model = TableMixture(n_components=1, random_state=0).fit(X, sample_weight=weight)
    assert_allclose(model.score(X), TableMixture(n_components=1).fit(X).score(X), atol=0.05)


def of_groups(n_rows, seed=0):
    """Numbers that depend on a category, and on each other."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows)
    x = 1.5 * kind + rng.normal(size=n_rows)
    return np.column_stack([x, kind, 2.0 * kind - x + rng.normal(size=n_rows)])


def test_a_component_for_each_combination_of_states_knows_how_numbers_and_categories_go_together():
    X = of_groups(1500)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    model = TableMixture(n_components="states", random_state=0).fit(X)
    assert model.n_components_ == 2
    # Each component has one category.
    assert_allclose(np.exp(model._mixture.model.log_table).max(axis=1), 1.0)
    other = TableMixture(n_components=1, random_state=0).fit(X)
    assert model.score(of_groups(1000, 2)) > other.score(of_groups(1000, 2)) + 0.05
    converged = model.reweighted(*merge_rows(model.domain_.encode(X), np.ones(len(X))))
    drawn = converged.sample(20_000, random_state=0)
    slopes = np.linalg.lstsq(
        np.column_stack([np.ones(len(drawn)), drawn[:, :2]]), drawn[:, 2], rcond=None
    )[0]
    assert_allclose(slopes, [0.0, -1.0, 2.0], atol=0.2)


def test_combinations_of_states_are_no_more_than_ten_rows_make_possible():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (60, 3)), rng.normal(size=60)])
    # Six of eight combinations would do; two columns have four.
    assert TableMixture(n_components="states", random_state=0).fit(X).n_components_ == 4
    assert TableMixture(n_components="states", random_state=0).fit(X[:, 3:]).n_components_ == 1


@pytest.mark.parametrize("step", [0.0, 0.01])
def test_a_row_beyond_an_end_is_completed_as_one_with_the_outermost_value(step):
    rng = np.random.default_rng(0)
    x = 5.0 + 3.0 * rng.random(600)
    y = x + 0.2 * rng.normal(size=600)
    z = 2.0 * x + 0.2 * rng.normal(size=600)
    table = np.column_stack([x, y, z])
    if step:
        table = step * np.round(table / step)
    model = TableMixture(random_state=0).fit(table)
    least, greatest = table[:, 0].min(), table[:, 0].max()
    outermost = np.array([[least, 5.2, np.nan], [greatest, 7.8, np.nan]])
    beyond = outermost + [[-0.8, 0.0, 0.0], [0.8, 0.0, 0.0]]
    assert_allclose(
        model.complete(beyond),
        np.where(np.isnan(outermost), model.complete(outermost), beyond),
        rtol=1e-6,
    )
    assert (model.score_samples(beyond) < model.score_samples(outermost) - 20.0).all()
