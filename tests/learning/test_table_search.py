"""Which mixtures are chosen, and how they are put together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from skpc._threads import threads
from skpc.domain import Domain, merge_rows
from skpc.learning import table_search
from skpc.learning.table_mixture import TableRows
from skpc.learning.table_search import (
    N_STAGES,
    HeldOutRows,
    explained_by_others,
    learn_table_mixture,
)
from skpc.queries import log_likelihood
from tests.naive.table_mixture import explained


def learned(X, n_components=None, n_jobs=None, advance=None, held_out=True):
    """A mixture chosen by half of the rows, the other half, and the domain."""
    domain = Domain.fit(X)
    rows, weight = merge_rows(domain.encode(X), np.ones(len(X)))
    half = np.random.default_rng(0).permutation(len(rows))[: len(rows) // 2]
    others = np.setdiff1d(np.arange(len(rows)), half)
    parts = [HeldOutRows(rows[half], weight[half], rows[others], weight[others])]
    numbers = domain.laws
    table = TableRows(rows, weight, domain.n_states, numbers, [None] * rows.shape[1])
    advance = advance or (lambda done: None)
    parts = parts if held_out else []
    with threads(n_jobs):
        return learn_table_mixture(table, parts, n_components, 0, advance), domain


def three_groups(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    centre = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]])[rng.integers(0, 3, n_rows)]
    return centre + rng.normal(size=(n_rows, 2))


def test_one_gaussian_is_found_where_the_rows_are_of_one():
    rng = np.random.default_rng(1)
    covariance = np.array([[2.0, 1.5], [1.5, 3.0]])
    X, new = (rng.multivariate_normal([1.0, -2.0], covariance, n) for n in (800, 2000))
    mixture, domain = learned(X)
    truth = multivariate_normal([1.0, -2.0], covariance).logpdf(new).mean()
    assert log_likelihood(mixture.circuit(2), domain.encode(new)).mean() > truth - 0.03


def test_groups_are_found_and_described():
    mixture, domain = learned(three_groups())
    new = three_groups(3000, seed=1)
    centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]])
    truth = np.mean([multivariate_normal(c).pdf(new) for c in centres], axis=0)
    assert (
        log_likelihood(mixture.circuit(2), domain.encode(new)).mean() > np.log(truth).mean() - 0.06
    )


def test_heavy_tails_are_chosen_where_they_are():
    X = np.random.default_rng(0).standard_t(2.5, size=(800, 3))
    mixture, _ = learned(X)
    assert any(len(candidate.params.widths) > 1 for candidate in mixture.choices.candidates)


def test_linear_scores_are_chosen_where_relations_are_linear():
    rng = np.random.default_rng(0)
    parts = rng.exponential(size=(400, 2))
    X = np.column_stack([parts, parts.sum(axis=1) + 0.01 * rng.normal(size=400)])
    mixture, _ = learned(X)
    assert {candidate.linear for candidate in mixture.choices.candidates} == {(0, 1, 2)}
    assert all(column.score.power == 1.0 for column in mixture.columns.scored)


def test_columns_that_have_no_linear_relation_keep_their_powers():
    rng = np.random.default_rng(0)
    parts = rng.exponential(size=(400, 2))
    X = np.column_stack([parts, parts.sum(axis=1), np.exp(2.0 * rng.normal(size=400))])
    X[:, 2] += 0.01 * rng.normal(size=400)
    X[rng.random(X.shape) < 0.1] = np.nan
    mixture, _ = learned(X)
    assert {candidate.linear for candidate in mixture.choices.candidates} == {(0, 1, 2)}
    # A logarithm of the distance from the end of the column, as by a power of zero.
    score = mixture.columns.scored[3].score
    assert (score.power, score.lower, score.soft) == (1.0, 0.0, 0.0)


def test_what_others_explain_of_a_column_is_that_of_a_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(300, 3))
    X = np.insert(X, 1, rng.integers(0, 3, 300), axis=1)
    domain = Domain.fit(X)
    table = TableRows(
        domain.encode(X), np.ones(300), domain.n_states, domain.laws, [None] * X.shape[1]
    )
    truth = [-np.inf if v == 1 else explained(X[:, [0, 2, 3]], v - (v > 0)) for v in range(4)]
    assert_allclose(explained_by_others(table), truth, atol=2e-3)


def test_factors_are_chosen_in_wide_tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 40)) + rng.normal(size=(200, 40))
    mixture, _ = learned(X)
    assert 2 in {candidate.params.n_factors for candidate in mixture.choices.candidates}


@pytest.mark.parametrize("n_components", [1, 4])
def test_a_given_number_of_components_is_that_of_one_mixture(n_components):
    mixture, _ = learned(three_groups(), n_components)
    assert len(mixture.choices.candidates) == 1
    assert len(mixture.model.weights) == n_components
    params = mixture.choices.candidates[0].params
    one = 2 + 3 + len(params.widths) - 1
    assert mixture.n_parameters == n_components * (one + 1) - 1


def test_nothing_is_chosen_without_held_out_rows():
    mixture, _ = learned(three_groups(), held_out=False)
    assert [tuple(candidate.params) for candidate in mixture.choices.candidates] == [
        (1, 0.5, 0.0, (1.0,), 0, 0.0, False, ())
    ]


def test_a_walk_ends_where_a_value_is_much_worse(monkeypatch):
    """Independence of ten columns that depend on each other loses many nats."""
    tried, test = [], table_search._Learner.test

    def noted(learner, cells, params):
        tried.append(params.to_diagonal)
        return test(learner, cells, params)

    monkeypatch.setattr(table_search._Learner, "test", noted)
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 10))
    learned(common + 0.01 * rng.normal(size=(200, 10)))
    assert set(tried) == {0.0, 0.1}


def test_the_result_does_not_depend_on_the_number_of_threads():
    one, two = (learned(three_groups(300), n_jobs=n)[0].model for n in (1, 2))
    for mine, other in zip((*one.gaussians, one.proportion), (*two.gaussians, two.proportion)):
        assert_allclose(mine, other, rtol=0.0, atol=0.0)


def test_all_stages_are_told():
    told = []
    learned(three_groups(200), advance=told.append)
    assert sum(told) == N_STAGES
