"""Circuits over counts: every query answers for Poisson leaves as the slow truths do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skpc.circuit import CircuitBuilder, load_circuit, save_circuit
from skpc.exceptions import StructureError
from skpc.kernels import RBF, ExponentialHamming
from skpc.queries import (
    condition,
    expected_gram,
    fit_parameters,
    log_likelihood,
    moments,
    mpe,
    posteriors,
    sample,
    sample_missing,
    score_cells,
)
from skpc.variables import POISSON
from tests.naive import circuit as naive
from tests.naive import kernels as naive_kernels
from tests.zoo import (
    random_circuit,
    random_deterministic_circuit,
    random_rows,
    random_structured_circuit,
)

makes = pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])


def cases(make, n_rows: int = 6, missing: float = 0.4):
    for seed in range(4):
        circuit = make(seed, n_features=4, kinds="counts")
        yield circuit, random_rows(seed, circuit, n_rows, missing)


@makes
def test_likelihoods_means_and_scores_of_cells_agree_with_the_slow_truth(make):
    for circuit, rows in cases(make):
        assert POISSON in circuit.leaf_family
        truth = [naive.density(circuit, row) for row in rows]
        assert_allclose(np.exp(log_likelihood(circuit, rows)), truth, rtol=1e-9)
        complete = random_rows(9, circuit, 6, 0.0)
        truth = [naive.density(circuit, row) for row in complete]
        assert_allclose(np.exp(log_likelihood(circuit, complete)), truth, rtol=1e-9)
        mean, variance = moments(circuit, rows)
        scores = score_cells(circuit, rows)
        for r, var in np.ndindex(rows.shape):
            if np.isnan(rows[r, var]):
                first = naive.posterior_expectation(circuit, rows[r], var, lambda x: x)
                second = naive.posterior_expectation(circuit, rows[r], var, lambda x: x * x)
                assert mean[r, var] == pytest.approx(first, rel=1e-8, abs=1e-9)
                assert variance[r, var] == pytest.approx(second - first**2, rel=1e-6, abs=1e-8)
            else:
                truth = naive.score_cells(circuit, rows[r], var)
                assert scores[r, var] == pytest.approx(truth, rel=1e-8, abs=1e-9)


@makes
def test_distribution_functions_and_quantiles_are_those_of_the_posterior(make):
    for circuit, rows in cases(make, n_rows=4):
        for var, cells in enumerate(posteriors(circuit, rows)):
            if POISSON not in circuit.leaf_family[circuit.leaf_var == var]:
                continue
            middle = cells.quantile(0.6)
            for r in np.flatnonzero(np.isnan(rows[:, var])):
                for x in (0.0, 2.0, 7.5):
                    truth = naive.share_below(circuit, rows[r], var, x)
                    assert cells.cdf(x)[r] == pytest.approx(truth, abs=1e-10)
                below = naive.share_below(circuit, rows[r], var, middle[r] - 1.0)
                assert below < 0.6 <= naive.share_below(circuit, rows[r], var, middle[r])


@makes
def test_most_probable_completions_follow_the_greatest_induced_tree(make):
    for circuit, rows in cases(make):
        for row, filled in zip(rows, mpe(circuit, rows)):
            greatest = naive.greatest_induced_tree(circuit, row)
            assert naive.greatest_induced_tree(circuit, filled) == pytest.approx(greatest)


@pytest.mark.parametrize("kernel", [RBF(0.2), ExponentialHamming(0.4)], ids=repr)
def test_expected_kernels_agree_with_sums_over_all_trees(kernel):
    circuit = random_structured_circuit(1, n_features=3, kinds="counts")
    assert POISSON in circuit.leaf_family
    rows = random_rows(0, circuit, 3, 0.5)
    found = expected_gram(circuit, rows, None, kernel)
    for r, s in np.ndindex(found.shape):
        truth = naive_kernels.expected_kernel(circuit, circuit, kernel, rows[r], rows[s])
        assert found[r, s] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("rate", [0.3, 4.0, 1300.0])
def test_draws_are_poisson(rate):
    builder = CircuitBuilder([0])
    builder.poisson(0, rate)
    drawn = sample(builder.build(), 4000, random_state=0)[:, 0]
    assert drawn.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate / 4000))
    assert drawn.var() == pytest.approx(rate, rel=0.1)
    counts = np.arange(drawn.max() + 1)
    below = (drawn <= counts[:, np.newaxis]).mean(axis=1)
    assert_allclose(below, stats.poisson.cdf(counts, rate), atol=0.03)


def test_draws_given_the_rest_have_the_posterior_mean():
    circuit = random_circuit(2, n_features=3, kinds="counts")
    rows = np.repeat(random_rows(3, circuit, 1, 0.6), 4000, axis=0)
    drawn = sample_missing(circuit, rows, random_state=0)
    mean, variance = moments(circuit, rows[:1])
    assert_allclose(drawn.mean(axis=0), mean[0], atol=4 * np.sqrt(variance.max() / 4000))


def test_em_never_falls_and_finds_the_rate():
    circuit = random_circuit(0, n_features=3, kinds="counts")
    rows = random_rows(1, circuit, 300, 0.2)
    scores = [log_likelihood(circuit, rows).sum()]
    for _ in range(5):
        circuit = fit_parameters(circuit, rows, pseudo_count=0.0, max_iter=1, tol=0.0)
        scores.append(log_likelihood(circuit, rows).sum())
    assert np.all(np.diff(scores) > -1e-9)
    builder = CircuitBuilder([0])
    builder.poisson(0, 50.0)
    x = np.array([[1.0], [2.0], [6.0], [np.nan]])
    fitted = fit_parameters(builder.build(), x, pseudo_count=2.0, tol=0.0)
    assert fitted.param[0] == pytest.approx(3.0, rel=1e-6)


def test_conditionals_files_and_far_counts(tmp_path):
    circuit = random_circuit(0, n_features=3, kinds="counts")
    save_circuit(circuit, tmp_path / "c.npz")
    rows = random_rows(5, circuit, 4, 0.0)
    assert_allclose(
        log_likelihood(load_circuit(tmp_path / "c.npz"), rows), log_likelihood(circuit, rows)
    )
    evidence = np.array([np.nan, rows[0, 1], np.nan])
    given = condition(circuit, evidence)
    known = np.where(np.arange(3) == 1, rows[:1], np.nan)
    rest = log_likelihood(circuit, rows[:1]) - log_likelihood(circuit, known)
    assert_allclose(log_likelihood(given, rows[:1]), rest)
    builder = CircuitBuilder([0])
    builder.poisson(0, 3.0)
    far = log_likelihood(builder.build(), [[0.0], [4000.0]])
    assert_allclose(far, stats.poisson.logpmf([0, 4000], 3.0))


def test_what_is_no_count_is_refused():
    builder = CircuitBuilder([0, 2])
    with pytest.raises(ValueError, match=r"rate in \(0, 1e\+06\], got 0"):
        builder.poisson(0, 0.0)
    with pytest.raises(ValueError, match="variable 1 has 2 states"):
        builder.poisson(1, 1.0)
    counts = CircuitBuilder([0])
    counts.poisson(0, 2.0)
    for bad in (0.5, -1.0, np.inf):
        with pytest.raises(ValueError, match=r"X\[0, 0\] must be a whole number, 0 or more,"):
            log_likelihood(counts.build(), [[bad]])
    mixed = CircuitBuilder([0])
    mixed.sum([mixed.poisson(0, 2.0), mixed.gaussian(0, 2.0, 1.0)], np.log([0.5, 0.5]))
    with pytest.raises(StructureError, match="leaves of variable 0 need one family"):
        mixed.build()
