"""Rows with missing cells under several mixtures of all trees, against sums over completions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._random import row_seeds
from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.incomplete import draw_rows, estimate_missing, local_modes
from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
from skpc.domain import Declared, Domain
from skpc.queries import log_likelihood
from tests.naive.all_trees import all_rows

N_STATES = (2, 3, 2, 4)
ROWS = np.array([[0, -1, 1, -1], [-1, -1, -1, 2], [1, 2, -1, 3], [-1] * 4, [1, 0, 1, 2]])
KINDS = [DirectedParameters, UndirectedParameters]


def random_mixture(kind, n_components, seed=0, n_states=N_STATES):
    parameters = ComponentParameters(kind(np.concatenate([[0], np.cumsum(n_states)])), n_components)
    rng = np.random.default_rng(seed)
    n, k = len(n_states), sum(n_states)
    size = n * (n + 1) + k * (k + 1) if kind is DirectedParameters else n * (n - 1) // 2 + k + k * k
    return parameters.model(rng.normal(size=n_components * (size + 1)))


def of_rows(method):
    """The method of rows that are not summed."""
    return "auto" if method == "exact" else method


def truth(mixture, row):
    """Log probability of the observed cells, and marginals, by enumeration."""
    ptr = mixture.models[0].ptr
    every = np.array([x for x in all_rows(N_STATES) if np.all((row < 0) | (row == x))])
    joint = np.exp(mixture.log_likelihood(mixture.models[0].states_of(every)))
    marginals = np.zeros(sum(N_STATES))
    for x, p in zip(every, joint):
        marginals[ptr[:4] + x] += p / joint.sum()
    return np.log(joint.sum()), marginals


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_few_completions_are_exact(kind, n_components):
    mixture = random_mixture(kind, n_components)
    found = estimate_missing(mixture, ROWS, row_seeds(ROWS, 0), "collapsed", 1000)
    for row, log_p, marginals in zip(ROWS, found.log_likelihood, found.marginals):
        log_truth, true_marginals = truth(mixture, row)
        assert log_p == pytest.approx(log_truth, abs=1e-10)
        assert_allclose(marginals, true_marginals, atol=1e-12)
    assert np.all(np.isinf(found.effective_sample_size))
    assert found.log_likelihood[3] == 0.0


@pytest.mark.parametrize("method", ["auto", "collapsed"])
@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_many_completions_are_estimated(kind, n_components, method, monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    mixture = random_mixture(kind, n_components)
    rows = ROWS[:3]
    found = estimate_missing(mixture, rows, row_seeds(rows, 0), method, 3000)
    assert np.all(found.effective_sample_size > 100)
    if method != "auto":
        assert np.all(found.effective_sample_size < 3000 * n_components + 1)
    for row, log_p, marginals in zip(rows, found.log_likelihood, found.marginals):
        log_truth, true_marginals = truth(mixture, row)
        assert log_p == pytest.approx(log_truth, abs=0.15)
        assert_allclose(marginals, true_marginals, atol=0.08)


@pytest.mark.parametrize("method", ["exact", "auto", "collapsed"])
def test_many_draws_of_one_row_have_the_distribution_of_its_missing_cells(method, monkeypatch):
    if method != "exact":
        monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    mixture = random_mixture(DirectedParameters, 2)
    seeds = np.arange(3, dtype=np.uint64)
    found = estimate_missing(mixture, ROWS[:3], seeds, of_rows(method), 3000, n_draws=4000)
    assert found.draws.shape == (3, 4000, 4)
    _, marginals = truth(mixture, ROWS[0])
    ptr = mixture.models[0].ptr
    for column in (1, 3):
        share = np.bincount(found.draws[0, :, column], minlength=N_STATES[column]) / 4000
        assert_allclose(share, marginals[ptr[column] : ptr[column + 1]], atol=0.05)


@pytest.mark.parametrize("method", ["exact", "auto", "collapsed"])
def test_draws_have_the_distribution_of_the_missing_cells(method, monkeypatch):
    if method != "exact":
        monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    mixture = random_mixture(DirectedParameters, 2)
    rows = np.tile(ROWS[0], (4000, 1))
    seeds = np.arange(4000, dtype=np.uint64)
    found = estimate_missing(mixture, rows, seeds, of_rows(method), 30)
    _, marginals = truth(mixture, ROWS[0])
    ptr = mixture.models[0].ptr
    for column in (1, 3):
        share = np.bincount(found.draws[:, 0, column], minlength=N_STATES[column]) / 4000
        assert_allclose(share, marginals[ptr[column] : ptr[column + 1]], atol=0.04)
    assert_array_equal(found.draws[:, 0, [0, 2]], rows[:, [0, 2]])


@pytest.mark.parametrize("method", ["auto", "collapsed"])
def test_an_estimate_depends_on_the_row_and_the_seed_alone(method, monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    mixture = random_mixture(DirectedParameters, 1)
    seeds = row_seeds(ROWS, 3)
    together = estimate_missing(mixture, ROWS, seeds, method, 50)
    alone = estimate_missing(mixture, ROWS[1:2], row_seeds(ROWS[1:2], 3), method, 50)
    assert together.log_likelihood[1] == alone.log_likelihood[0]
    other = estimate_missing(mixture, ROWS[1:2], row_seeds(ROWS[1:2], 4), method, 50)
    assert other.log_likelihood[0] != alone.log_likelihood[0]
    assert len(set(row_seeds(np.array(all_rows((9, 9, 9))), 0).tolist())) == 729


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_exact_distribution(kind):
    mixture = random_mixture(kind, 2)
    rows = draw_rows(mixture, 20_000, np.random.RandomState(0))
    every = np.array(all_rows(N_STATES))
    probability = np.exp(mixture.log_likelihood(mixture.models[0].states_of(every)))
    radix = np.array([24, 8, 4, 1])
    share = np.bincount(rows @ radix, minlength=48) / 20_000
    assert_allclose(share[every @ radix], probability, atol=0.012)


def test_local_modes_cannot_be_improved_by_one_cell():
    mixture = random_mixture(DirectedParameters, 1)
    peaks = [np.linspace(0.0, 1.0, k) for k in N_STATES]
    codes = np.tile([-1, -1, 1, -1], (1, 1))
    found = local_modes(mixture, codes, np.zeros((1, 4), dtype=np.int64) + [0, 0, 1, 0], peaks)[0]

    def value(row):
        log_p = mixture.log_likelihood(mixture.models[0].states_of(np.array([row])))[0]
        return log_p + sum(peaks[v][row[v]] for v in (0, 1, 3))

    for column in (0, 1, 3):
        for state in range(N_STATES[column]):
            other = found.copy()
            other[column] = state
            assert value(other) <= value(found) + 1e-12
    assert found[2] == 1


def test_a_sampled_mixture_of_trees_approaches_the_mixture_of_all():
    mixture = random_mixture(DirectedParameters, 2)
    every = np.array(all_rows(N_STATES))
    truth = mixture.log_likelihood(mixture.models[0].states_of(every))
    domain = Domain.fit(every.astype(float), Declared(categorical_features=range(4)))
    density, gaps = AllTreesDensity(mixture, domain, 0, "auto", 100), []
    for n_trees in (1, 30, 3000):
        circuit = density.sampled_circuit(n_trees, np.random.RandomState(0))
        found = log_likelihood(circuit, every.astype(float))
        assert np.exp(found).sum() == pytest.approx(1.0)
        gaps.append(np.exp(truth) @ (truth - found))
    assert gaps[0] > gaps[1] > gaps[2]
    assert 0.0 <= gaps[2] < 0.01
