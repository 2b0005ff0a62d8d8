"""Regressions of all columns on each other, from one Gaussian that knows missing cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import skpc.imputation.linear as linear
from skpc.domain import Declared, Domain, merge_rows
from skpc.imputation.linear import LinearCells
from skpc.queries import Events
from tests.naive import linear as naive
from tests.naive.gaussians import conditional


def mixed(n_rows: int = 60, seed: int = 0):
    """Two numbers, three states and two, which depend on each other, with missing cells."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    state = np.digitize(size + 0.5 * rng.normal(size=n_rows), [-0.5, 0.7])
    flag = size + rng.normal(size=n_rows) > 0.0
    other = 5.0 + 2.0 * size + state + rng.normal(size=n_rows)
    X = np.column_stack([size, state, other, flag])
    X[rng.random(X.shape) < 0.25] = np.nan
    X[np.isnan(X).all(axis=1), 0] = 0.5
    domain = Domain.fit(X, Declared(categorical_features=[1, 3]))
    rows, weight = merge_rows(domain.encode(X), rng.integers(1, 4, n_rows).astype(float))
    return domain, rows, weight


@pytest.mark.parametrize("strength", [0.03, 2.0])
@pytest.mark.parametrize("seed", range(2))
def test_cells_are_those_of_em_of_one_gaussian_row_by_row(monkeypatch, strength, seed):
    domain, rows, weight = mixed(seed=seed)
    monkeypatch.setattr(linear, "_TOL", -np.inf)
    monkeypatch.setattr(linear, "_MAX_ITER", 7)
    cells = LinearCells.fit(domain, rows, weight, strength)
    table = naive.indicators(rows, [0, 3, 0, 2])
    # The engine takes a step before those that it counts.
    mean, covariance = naive.one_gaussian(table, weight, strength, 8)
    assert_allclose(cells.gaussians.covariance[0], covariance, rtol=1e-9)
    truth = np.array([conditional(row, mean, covariance)[0] for row in table])
    size, state, other, flag = cells.posteriors(rows)
    assert_allclose(size.mean(), truth[:, 0], rtol=1e-9)
    assert_allclose(other.mean(), truth[:, 4], rtol=1e-9)
    for answer, part in ((state, truth[:, 1:4]), (flag, truth[:, 5:])):
        shares = np.clip(part, 1e-6, 1.0)
        assert_allclose(answer.probabilities, shares / shares.sum(axis=1, keepdims=True), atol=2e-6)
    left = conditional(table[0], mean, covariance)[1].diagonal()
    missing = np.isnan(rows[0, [0, 2]])
    spreads = np.array([cell.variance()[0] for cell in (size, other)])
    assert_allclose(spreads[missing], left[[0, 4]][missing], rtol=1e-9)


def test_em_ends_where_more_steps_change_little(monkeypatch):
    domain, rows, weight = mixed(200)
    means = LinearCells.fit(domain, rows, weight, 0.3).posteriors(rows)[2].mean()
    monkeypatch.setattr(linear, "_TOL", -np.inf)
    monkeypatch.setattr(linear, "_MAX_ITER", 500)
    truth = LinearCells.fit(domain, rows, weight, 0.3).posteriors(rows)[2].mean()
    assert np.sqrt(np.mean((means - truth) ** 2)) < 0.05 * truth.std()


def test_gaps_that_depend_on_another_column_bias_pairs_of_columns_but_not_em():
    rng = np.random.default_rng(0)
    first = rng.normal(size=2000)
    second = first + 0.5 * rng.normal(size=2000)
    third = first + second + 0.5 * rng.normal(size=2000)
    X = np.column_stack([first, second, third])
    X[first > 0.0, 1] = np.nan
    domain = Domain.fit(X)
    rows, weight = merge_rows(domain.encode(X), np.ones(2000))
    cells = LinearCells.fit(domain, rows, weight, 0.03)
    both = ~np.isnan(X[:, 1])
    slope = np.cov(first[both], X[both, 1])[0, 1] / first.var()
    asked = np.array([[2.0, np.nan, np.nan]])
    (answer,) = cells.posteriors(asked, [1])
    assert 2.0 * slope < 1.0
    assert answer.mean()[0] == pytest.approx(2.0, abs=0.15)


def test_units_and_the_order_of_columns_change_nothing():
    domain, rows, weight = mixed()
    truth = LinearCells.fit(domain, rows, weight, 0.3).posteriors(rows)
    order, unit = np.array([3, 2, 0, 1]), np.array([1.0, 1e6, 1e-6, 1.0])
    again = rows[:, order] * unit
    other = Domain.fit(again, Declared(categorical_features=[0, 3]))
    answers = LinearCells.fit(other, again, weight, 0.3).posteriors(again)
    for place, column in enumerate(order):
        if truth[column].labels is None:
            value = truth[column].mean() * unit[place]
            assert_allclose(answers[place].mean(), value, rtol=1e-6, atol=1e-6 * unit[place])
        else:
            prob = truth[column].probabilities
            assert_allclose(answers[place].probabilities, prob, atol=1e-6)


def test_a_column_of_one_value_and_a_state_without_rows_are_known():
    X = np.column_stack([np.full(40, 7.5), np.tile([0.0, 1.0], 20), np.arange(40.0)])
    domain = Domain.fit(
        X, Declared(categorical_features=[1], categories=[None, [0.0, 1.0, 2.0], None])
    )
    cells = LinearCells.fit(domain, *merge_rows(domain.encode(X), np.ones(40)), 0.3)
    constant, state = cells.posteriors(np.full((1, 3), np.nan), [0, 1])
    assert constant.mean() == pytest.approx(7.5)
    assert_allclose(state.probabilities, [[0.5, 0.5, 0.0]], atol=1e-5)


def test_ranges_count_as_missing_cells_and_no_row_is_impossible():
    domain, rows, weight = mixed()
    cells = LinearCells.fit(domain, rows, weight, 0.3)
    low, high = np.array([0.0]), np.array([1.0])
    hidden = rows[:1].copy()
    hidden[0, 0] = np.nan
    event = Events.from_intervals(hidden, np.array([0]), np.array([0]), low, high)
    for answer, plain in zip(cells.posteriors(event, [2]), cells.posteriors(hidden, [2])):
        assert_allclose(answer.mean(), plain.mean())
    assert cells.log_density(event).tolist() == cells.log_density(hidden).tolist() == [0.0]
