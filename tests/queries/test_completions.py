"""sample, sample_missing and mpe."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare, kstest, norm

from skpc.circuit import CircuitBuilder
from skpc.queries import condition, log_likelihood, moments, mpe, sample, sample_missing
from tests.naive import circuit as naive
from tests.queries.test_log_likelihood import wide_mixture
from tests.zoo import AXIS, random_circuit, random_deterministic_circuit, random_rows

MAKERS = [random_circuit, random_deterministic_circuit]


def frequencies(rows: np.ndarray, every: np.ndarray) -> np.ndarray:
    number = {tuple(row): i for i, row in enumerate(every.tolist())}
    return np.bincount([number[tuple(row)] for row in rows.tolist()], minlength=len(every))


@pytest.mark.parametrize("make", MAKERS)
def test_free_samples_follow_the_joint_distribution(make):
    circuit = make(3, n_features=4, kinds="discrete")
    every = naive.all_rows(circuit)
    joint = np.array([naive.density(circuit, row) for row in every])
    counts = frequencies(sample(circuit, 50_000, random_state=1), every)
    assert chisquare(counts, 50_000 * joint / joint.sum()).pvalue > 1e-3


@pytest.mark.parametrize("make", MAKERS)
def test_completing_samples_follow_the_conditional_distribution(make):
    circuit = make(4, n_features=4, kinds="discrete")
    row = random_rows(4, circuit, 1, 0.0)[0]
    row[[1, 3]] = np.nan
    every = naive.all_rows(circuit)
    every = every[np.all(np.isnan(row) | (every == row), axis=1)]
    joint = np.array([naive.density(circuit, r) for r in every])
    drawn = sample_missing(circuit, np.tile(row, (30_000, 1)), random_state=0)
    assert chisquare(frequencies(drawn, every), 30_000 * joint / joint.sum()).pvalue > 1e-3


def test_gaussian_and_histogram_leaves_draw_from_their_densities():
    builder = CircuitBuilder([0, 5], [None, AXIS])
    log_prob = np.log([0.1, 0.3, 0.2, 0.25, 0.15])
    builder.product([builder.gaussian(0, 2.0, 3.0), builder.discrete(1, log_prob)])
    circuit = builder.build()
    rows = sample(circuit, 20_000, random_state=0)
    assert kstest(rows[:, 0], norm(2.0, 3.0).cdf).pvalue > 1e-3
    states = np.searchsorted(AXIS[0], rows[:, 1], "right")
    assert chisquare(np.bincount(states), 20_000 * np.exp(log_prob)).pvalue > 1e-3
    tail = rows[states == 4, 1] - AXIS[0][-1]
    assert kstest(tail, "expon", args=(0, AXIS[2])).pvalue > 1e-3
    below = AXIS[0][0] - rows[states == 0, 1]
    assert kstest(below, "expon", args=(0, AXIS[1])).pvalue > 1e-3
    inside = rows[states == 2, 1]
    assert kstest(inside, "uniform", args=(0.0, 0.5)).pvalue > 1e-3


@pytest.mark.parametrize("make", MAKERS)
def test_samples_depend_on_the_seed_alone(make):
    circuit = make(5, n_features=4, kinds="mixed")
    rows = random_rows(5, circuit, 20_000, 0.3)
    free, filled = sample(circuit, 20_000, 7), sample_missing(circuit, rows, 7)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(sample(circuit, 20_000, 7), free)
        assert_array_equal(sample_missing(circuit, rows, 7), filled)
    assert not np.array_equal(sample(circuit, 20_000, 8), free)
    assert_array_equal(sample(circuit, 10, np.random.RandomState(7)), free[:10])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("fill", [mpe, sample_missing])
def test_completions_keep_every_observed_cell(make, fill):
    circuit = make(6, n_features=5, kinds="mixed")
    rows = random_rows(6, circuit, 200, 0.4)
    filled = fill(circuit, rows)
    assert not np.isnan(filled).any()
    seen = ~np.isnan(rows)
    assert_array_equal(filled[seen], rows[seen])
    assert np.all(np.isfinite(log_likelihood(circuit, filled)))


def test_samples_of_rows_below_the_smallest_float_take_the_nearer_cluster():
    circuit = wide_mixture(200, 5.0)
    rows = np.random.default_rng(2).normal(size=(2, 200)) + np.array([[-1.0], [1.0]])
    rows[:, 0] = np.nan
    drawn = sample_missing(circuit, np.repeat(rows, 2000, axis=0), random_state=0)[:, 0]
    expected = np.repeat(moments(circuit, rows)[0][:, 0], 2000)
    assert_allclose((drawn - expected).reshape(2, -1).mean(axis=1), 0.0, atol=0.1)
    assert np.sign(expected[0]) == -1
    assert np.sign(expected[-1]) == 1


def test_mpe_of_a_deterministic_circuit_is_the_most_probable_completion():
    for seed in range(15):
        circuit = random_deterministic_circuit(seed, n_features=4, kinds="discrete")
        rows = random_rows(seed, circuit, 6, 0.5)
        every = naive.all_rows(circuit)
        joint = np.array([naive.density(circuit, row) for row in every])
        for row, found in zip(rows, mpe(circuit, rows)):
            agrees = np.all(np.isnan(row) | (every == row), axis=1)
            assert naive.density(circuit, found) == pytest.approx(joint[agrees].max())


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kinds", ["discrete", "gaussian", "histogram", "atoms", "scored", "mixed"])
def test_mpe_reaches_the_greatest_induced_tree(make, kinds):
    for seed in range(6):
        circuit = make(seed, n_features=4, kinds=kinds)
        rows = random_rows(seed, circuit, 5, 0.6)
        for row, found in zip(rows, mpe(circuit, rows)):
            best = naive.greatest_induced_tree(circuit, row)
            assert naive.greatest_induced_tree(circuit, row, found) == pytest.approx(best)


def test_conditional_circuits_sample_and_complete_with_their_evidence():
    circuit = random_circuit(7, n_features=4, kinds="mixed")
    evidence = random_rows(7, circuit, 1, 0.0)[0]
    evidence[2:] = np.nan
    given = condition(circuit, evidence)
    rows = sample(given, 50, random_state=0)
    assert_array_equal(rows[:, :2], np.tile(evidence[:2], (50, 1)))
    filled = mpe(given, np.full((1, 4), np.nan))
    assert_allclose(filled, mpe(circuit, evidence[np.newaxis]))


def test_impossible_rows_cannot_be_completed():
    builder = CircuitBuilder([2, 2])
    builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.5, 0.5]))])
    circuit = builder.build()
    for fill in (mpe, sample_missing):
        with pytest.raises(ValueError, match="row 0 of X has probability zero"):
            fill(circuit, [[0.0, np.nan]])


def test_a_negative_number_of_samples_is_refused_and_zero_is_empty():
    circuit = random_circuit(0, n_features=3)
    assert sample(circuit, 0).shape == (0, 3)
    for wrong in (-1, 2.5, "3"):
        with pytest.raises(ValueError, match=f"integer of 0 or more, got {wrong!r}"):
            sample(circuit, wrong)
