"""Sums over the joint completions of rows, against sums over all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._random import row_seeds
from skpc.all_trees import completions
from skpc.all_trees.completions import Estimates, enumerate_completions
from skpc.all_trees.incomplete import estimate_missing
from skpc.all_trees.parameters import DirectedParameters, UndirectedParameters
from tests.all_trees.test_incomplete import KINDS, N_STATES, random_mixture, truth


def rows_with_missing_cells(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, N_STATES, (n_rows, len(N_STATES)))
    rows[rng.random(rows.shape) < 0.6] = -1
    return rows


@pytest.fixture(params=["shared", "row by row", "in small parts"])
def way(request, monkeypatch):
    """Whether rows share their completions, or sum those of their own, a few at a time."""
    if request.param != "shared":
        monkeypatch.setattr(completions, "_MOST_STATES", 0)
    if request.param == "in small parts":
        monkeypatch.setattr(completions, "_CELLS", 30)


def summed(mixture, rows, height):
    """All answers for some rows, by a height for each draw."""
    found = Estimates.of_observed(rows, mixture.models[0].ptr, True, height.shape[1])
    enumerate_completions(mixture, rows, height, found)
    return found


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_over_all_rows(kind, n_components):
    mixture, rows = random_mixture(kind, n_components), rows_with_missing_cells(40)
    found = summed(mixture, rows, np.empty((40, 0)))
    for row, log_p, marginals in zip(rows, found.log_likelihood, found.marginals):
        log_truth, true_marginals = truth(mixture, row)
        assert log_p == pytest.approx(log_truth, abs=1e-12)
        assert_allclose(marginals, true_marginals, atol=1e-12)


def all_answers(rows):
    mixture = random_mixture(DirectedParameters, 2)
    return estimate_missing(mixture, rows, row_seeds(rows, 0), "collapsed", 1000, n_draws=2)


def test_rows_that_share_completions_have_the_answers_of_each_alone(monkeypatch):
    rows = rows_with_missing_cells(60)
    shared = all_answers(rows)
    monkeypatch.setattr(completions, "_MOST_STATES", 0)
    alone = all_answers(rows)
    monkeypatch.setattr(completions, "_CELLS", 30)
    in_parts = all_answers(rows)
    for one, other, third in zip(shared, alone, in_parts):
        assert_array_equal(one, other)
        assert_array_equal(one, third)


@pytest.mark.usefixtures("way")
def test_draws_have_the_probabilities_of_the_completions():
    mixture = random_mixture(UndirectedParameters, 1)
    row = np.array([[-1, 1, -1, 2]])
    found = summed(mixture, row, (np.arange(1000)[np.newaxis] + 0.5) / 1000)
    log_total = truth(mixture, row[0])[0]
    for a in range(2):
        for b in range(2):
            share = np.mean((found.draws[0, :, 0] == a) & (found.draws[0, :, 2] == b))
            probability = np.exp(truth(mixture, np.array([a, 1, b, 2]))[0] - log_total)
            assert share == pytest.approx(probability, abs=0.002)


def test_more_joint_states_than_a_float_can_hold_are_no_trouble():
    mixture = random_mixture(UndirectedParameters, 1, n_states=np.full(1100, 2))
    rows = np.zeros((2, 1100), dtype=np.int64)
    expected = mixture.log_likelihood(mixture.models[0].states_of(rows))
    rows_found = summed(mixture, rows, np.empty((2, 0)))
    assert_allclose(rows_found.log_likelihood, expected)
