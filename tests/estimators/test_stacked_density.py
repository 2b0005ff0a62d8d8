"""StackedDensity beside tables of all rows, and beside its members."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.svm import SVC

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.circuit import CircuitBuilder
from skpc.domain import merge_rows
from skpc.queries import log_likelihood
from tests.naive import stack as naive

STATES = (2, 3, 2)


def table(n_rows: int = 300, seed: int = 0) -> np.ndarray:
    """Categories that depend on each other."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows)
    noise = rng.random((n_rows, 2)) < 0.2
    return np.column_stack([kind ^ noise[:, 0], kind + rng.integers(0, 2, n_rows), kind]) * 1.0


def members():
    return [
        ("one", CutsetNetworkBD(max_depth=0)),
        ("two", SoftLearnSPN(root_test=None, random_state=0)),
    ]


def incomplete_rows() -> np.ndarray:
    nan = np.nan
    return np.array([[1, nan, nan], [nan, 2, 0], [0, nan, 1], [nan, nan, nan], [1, 1, nan]])


@pytest.fixture(scope="module")
def stack() -> StackedDensity:
    found = StackedDensity(members(), categorical_features=[0, 1, 2], random_state=0).fit(table())
    # Answers are to depend on both.
    found.weights_ = np.array([0.4, 0.6])
    return found


@pytest.fixture(scope="module")
def truth(stack):
    """All rows, and their probabilities under the stack."""
    complete = naive.all_rows(STATES)
    parts = [np.exp(member.score_samples(complete)) for member in stack.estimators_]
    return stack.weights_ @ parts, complete


def test_all_rows_together_have_probability_one(stack, truth):
    probability, complete = truth
    assert_allclose(probability.sum(), 1.0)
    assert_allclose(np.exp(stack.score_samples(complete)), probability)


def test_missing_cells_are_summed_out(stack, truth):
    rows = incomplete_rows()
    found = [np.log(naive.probability(*truth, row)) for row in rows]
    assert_allclose(stack.score_samples(rows), found, atol=1e-12)


def test_conditional_densities_are_quotients(stack, truth):
    probability, complete = truth
    given = complete.copy()
    given[:, 1:] = np.nan
    known = np.array([naive.probability(*truth, row) for row in given])
    assert_allclose(np.exp(stack.score_samples(complete, given=[0])), probability / known)


def test_marginals_weigh_members_by_the_observed_cells(stack, truth):
    rows = incomplete_rows()
    for column, (cells, n_states) in enumerate(zip(stack.marginals(rows), STATES, strict=True)):
        found = [naive.posterior(*truth, row, column, n_states) for row in rows]
        assert_allclose(cells.probabilities, found, atol=1e-12)


def test_scores_of_cells_are_conditional_on_the_rest_of_the_row(stack, truth):
    rows = truth[1]
    found = [[np.log(naive.cell(*truth, row, column)) for column in range(3)] for row in rows]
    assert_allclose(stack.score_cells(rows), found, atol=1e-12)


def test_categories_are_completed_by_their_most_probable_state(stack, truth):
    rows = incomplete_rows()
    for row, filled in zip(rows, stack.complete(rows), strict=True):
        for column in np.flatnonzero(np.isnan(row)):
            found = naive.posterior(*truth, row, column, STATES[column])
            assert found[int(filled[column])] == pytest.approx(found.max())


def test_conditional_draws_follow_the_posterior(stack, truth):
    row = np.array([np.nan, np.nan, 1.0])
    drawn = stack.complete(np.tile(row, (4000, 1)), strategy="sample", random_state=0)
    shares = [(drawn[:, 1] == state).mean() for state in range(3)]
    assert_allclose(shares, naive.posterior(*truth, row, 1, 3), atol=0.03)
    assert (drawn[:, 2] == 1.0).all()


def test_draws_follow_the_mixture(stack, truth):
    probability, complete = truth
    drawn = stack.sample(6000, random_state=0)
    shares = [(drawn == row).all(axis=1).mean() for row in complete]
    assert_allclose(shares, probability, atol=0.03)


def test_jointly_probable_cells_are_no_worse_than_those_of_any_member(stack):
    rows = incomplete_rows()
    best = stack.score_samples(stack.complete(rows, strategy="mpe"))
    for member in stack.estimators_:
        assert (best >= stack.score_samples(member.complete(rows, strategy="mpe"))).all()


def test_means_of_numbers_are_weighed_and_intervals_are_of_the_mixture():
    # Noise, so that a quantile is no step of a lattice.
    X = load_wine().data[:, :4] + 1e-3 * np.random.default_rng(0).normal(size=(178, 4))
    pair = [("soft", SoftLearnSPN(random_state=0)), ("mixture", TableMixture(random_state=0))]
    stack = StackedDensity(pair, cv=2, random_state=0).fit(X)
    rows = X[:5].copy()
    rows[:, 1] = np.nan
    log_part = [
        np.log(w) + m.score_samples(rows) for w, m in zip(stack.weights_, stack.estimators_)
    ]
    part = np.exp(log_part - np.logaddexp.reduce(log_part, axis=0))
    means = [member.complete(rows)[:, 1] for member in stack.estimators_]
    assert_allclose(stack.complete(rows)[:, 1], (part * means).sum(axis=0), rtol=1e-6)
    lower, upper = stack.interval(rows, level=0.8)
    within = [stack.marginals(rows)[1].cdf(bound[:, 1]) for bound in (lower, upper)]
    assert_allclose(within, [[0.1] * 5, [0.9] * 5], atol=1e-3)


def test_the_circuit_of_a_stack_is_the_stack(stack, truth):
    rows = np.vstack([truth[1], incomplete_rows()])
    circuit = stack.circuit_
    assert circuit.smooth
    assert circuit.decomposable
    found = log_likelihood(circuit, stack.domain_.encode(rows))
    assert_allclose(found, stack.score_samples(rows), atol=1e-12)


def test_a_stack_over_ordered_states_has_one_circuit():
    rng = np.random.default_rng(0)
    visits = rng.poisson(3.0, 200)
    X = np.column_stack([visits, visits + rng.integers(0, 5, 200), rng.choice([0, 50, 250], 200)])
    both = [*members(), ("three", TableMixture(random_state=0))]
    stack = StackedDensity(both, cv=2, random_state=0).fit(X)
    stack.weights_ = np.array([0.3, 0.4, 0.3])
    assert stack.domain_.is_ordered.all()
    rows, mass = stack.domain_.encode_with_mass(X)
    found = mass.with_rows(log_likelihood(stack.circuit_, rows))
    assert_allclose(found, stack.score_samples(X), atol=1e-9)


def test_a_stack_without_one_circuit_says_why():
    X = load_wine().data[:, :2]
    pair = [("cutset", CutsetNetworkBD()), ("soft", SoftLearnSPN(random_state=0))]
    stack = StackedDensity(pair, cv=2, random_state=0).fit(X)
    stack.weights_ = np.array([0.5, 0.5])
    assert not hasattr(stack, "circuit_")
    with pytest.raises(AttributeError, match="all in bins, or all by the same scores"):
        _ = stack.circuit_


def test_held_out_rows_are_not_worse_than_under_the_best_member(stack):
    stack = clone(stack).fit(table(seed=3))
    *of_members, together = stack.scores_
    assert together >= max(of_members) - 1e-9


def test_a_member_that_knows_nothing_weighs_nothing():
    X = np.repeat(table(400), 2, axis=1)
    pair = [("good", CutsetNetworkBD()), ("bad", CutsetNetworkBD(param_ess=1e6))]
    stack = StackedDensity(pair, random_state=0).fit(X, X_val=np.repeat(table(seed=1), 2, axis=1))
    assert_array_equal(stack.weights_ > 0, [True, False])
    assert_allclose(stack.score_samples(X), stack.estimators_[0].score_samples(X))


def test_validation_rows_weigh_the_members():
    X, fresh = table(), table(seed=5)
    stack = StackedDensity(members()).fit(X, X_val=fresh)
    alone = [clone(member).fit(X) for _, member in members()]
    told = np.column_stack([member.score_samples(fresh) for member in alone])
    together = np.log(np.exp(told) @ stack.weights_).mean()
    for weight in np.linspace(0.05, 0.95, 19):
        other = np.logaddexp.reduce(told + np.log([weight, 1 - weight]), axis=1).mean()
        assert together >= other - 1e-6


def test_a_stack_that_is_fitted_again_keeps_its_weights(stack):
    domain = stack.domain_
    rows, weight = merge_rows(domain.encode(table(seed=4)), np.ones(300))
    again = stack.refit(domain, rows, weight)
    assert_array_equal(again.weights_, stack.weights_)
    parts = [member.score_samples(rows) for member in again.estimators_]
    alone = [member.refit(domain, rows, weight) for member in stack.estimators_]
    assert_allclose(parts, [member.score_samples(rows) for member in alone])
    assert not np.allclose(again.score_samples(rows), stack.score_samples(rows))
    assert again.fit(table(seed=4)).weights_.sum() == pytest.approx(1.0)
    assert not np.array_equal(again.weights_, stack.weights_)


def test_the_circuit_is_that_of_the_last_fit():
    stack = StackedDensity(members(), cv=2, categorical_features=[0, 1, 2], random_state=0).fit(
        table()
    )
    before = stack.circuit_
    assert stack.circuit_ is before
    rows = stack.fit(table(seed=4)).domain_.encode(table(seed=4))
    assert_allclose(log_likelihood(stack.circuit_, rows), stack.score_samples(table(seed=4)))


def test_parameters_of_members_are_reached_by_their_names():
    stack = StackedDensity(members()).set_params(one__ess=0.5, two=SoftLearnSPN(beta=3.0))
    assert stack.get_params()["one__ess"] == 0.5
    assert stack.get_params()["two__beta"] == 3.0
    stack.fit(table())
    assert stack.named_estimators_.one.ess == 0.5
    assert stack.named_estimators_.two.beta == 3.0


def test_a_mixture_of_all_trees_can_be_a_member():
    pair = [
        ("trees", MixtureOfAllTrees(max_iter=20, random_state=0)),
        ("cutset", CutsetNetworkBD()),
    ]
    stack = StackedDensity(pair, cv=2, random_state=0).fit(table())
    assert_array_equal(np.isnan(stack.complete(incomplete_rows())), False)


def test_a_kernel_machine_predicts_by_a_stack():
    X = table()
    y = X @ [1.0, -0.5, 2.0]
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    small = StackedDensity(members(), cv=2, random_state=0)
    assert ExpectedKernelSVR(small).fit(X, y).score(holes, y) > 0.6


def test_a_stack_is_the_density_of_a_classifier_and_of_an_imputer():
    X = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    small = StackedDensity(members(), cv=2, random_state=0)
    classifier = DensityClassifier(small, joint=True, classifiers=None)
    assert classifier.fit(frame[["a", "b"]], X[:, 2]).score(frame[["a", "b"]], X[:, 2]) > 0.7
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    assert not np.isnan(CircuitImputer(small).fit_transform(holes)).any()


@pytest.mark.parametrize(
    ("estimators", "error", "message"),
    [
        (
            [("a", CutsetNetworkBD()), ("a", CutsetNetworkBD())],
            ValueError,
            "The names of estimators must differ",
        ),
        ([("a", SVC())], TypeError, "Give a density of skpc"),
        ([], ValueError, "pairs"),
    ],
)
def test_members_that_cannot_be_stacked_are_refused(estimators, error, message):
    with pytest.raises(error, match=message):
        StackedDensity(estimators).fit(table())


def test_rows_that_are_impossible_under_one_member_are_left_to_the_others():
    mixed = StackedDensity(members(), categorical_features=[0, 1, 2], random_state=0).fit(table())
    mixed.weights_ = np.array([0.4, 0.6])
    builder = CircuitBuilder(list(STATES))
    columns = [builder.discrete(0, [-np.inf, 0.0])]
    columns += [builder.discrete(v, -np.log(np.full(n, n))) for v, n in enumerate(STATES) if v]
    builder.product(columns)
    # The second member says that the first column is always one.
    mixed.estimators_[1].circuit_ = builder.build()
    complete = naive.all_rows(STATES)
    parts = [np.exp(member.score_samples(complete)) for member in mixed.estimators_]
    truth = mixed.weights_ @ parts, complete
    cells = [[np.log(naive.cell(*truth, row, v)) for v in range(3)] for row in complete]
    assert_allclose(mixed.score_cells(complete), cells, atol=1e-12)
    row = np.array([0.0, np.nan, np.nan])
    for column in (1, 2):
        found = mixed.marginals([row])[column].probabilities[0]
        assert_allclose(found, naive.posterior(*truth, row, column, STATES[column]), atol=1e-12)
    for strategy in ("mean", "mpe", "sample"):
        assert mixed.complete([row], strategy=strategy, random_state=0)[0, 0] == 0.0


def test_quantiles_are_those_of_the_members_that_count_beside_a_far_cell():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    X = np.hstack([x, x + rng.normal(size=(300, 1))])
    pair = [("net", CutsetNetworkBD(random_state=0)), ("mix", TableMixture(random_state=0))]
    found = StackedDensity(pair, random_state=0, cv=2).fit(X).interval([[np.nan, 1000.0]])
    assert np.isfinite(found[0][0]).all()


def test_parameters_of_members_are_checked():
    wrong = [("tree", HiddenChowLiuTree(n_hidden=0)), ("net", CutsetNetworkBD())]
    with pytest.raises(ValueError, match="n_hidden"):
        StackedDensity(wrong).fit(table(40))


def test_scores_of_incomplete_rows_come_without_a_warning(stack):
    found = stack.score_cells([[1.0, np.nan, 1.0]])
    assert np.isnan(found).tolist() == [[False, True, False]]


def test_dropped_members_are_left_out():
    found = StackedDensity(members(), cv=2).set_params(two="drop").fit(table(40))
    assert list(found.named_estimators_) == ["one"]
    with pytest.raises(ValueError, match="all 'drop'"):
        found.set_params(one="drop").fit(table(40))


def test_five_folds_are_the_default_as_in_scikit_learn():
    X = table(60)
    found = [StackedDensity(members(), cv=cv, random_state=0).fit(X).weights_ for cv in (None, 5)]
    assert_array_equal(*found)
    with pytest.raises(ValueError, match="at least one pair"):
        StackedDensity(members(), cv=[]).fit(X)


@pytest.mark.parametrize("name", ["a__b", "cv"])
def test_names_that_parameters_have_are_refused(name):
    with pytest.raises(ValueError, match="Estimator names"):
        StackedDensity([(name, CutsetNetworkBD())]).fit(table(40))


def test_a_kernel_machine_says_why_a_stack_has_no_circuit():
    X = load_wine().data[:60, :3]
    pair = [("net", CutsetNetworkBD(random_state=0)), ("mix", TableMixture(random_state=0))]
    with pytest.raises(ValueError, match="read numbers alike"):
        ExpectedKernelSVR(StackedDensity(pair, random_state=0, cv=2)).fit(X, X[:, 0])
