"""Encoded rows under a mixture of all trees, against integrals and searches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.domain import Domain
from skpc.queries import log_likelihood
from skpc.trees import (
    AllTreesDensity,
    ComponentParameters,
    DirectedParameters,
    UndirectedParameters,
)

NAN = np.nan
KINDS = [DirectedParameters, UndirectedParameters]
#: From far below to far above all training rows of the second column.
GRID = np.linspace(-15.0, 30.0, 45_001)


def random_density(kind, seed=0):
    """A category, a number and another category."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack(
        [rng.integers(0, 3, 200), rng.gamma(2.0, size=200), rng.integers(0, 2, 200)]
    )
    domain = Domain.fit(rows, categorical_features=[0, 2], n_bins=4)
    parameters = ComponentParameters(kind(np.concatenate([[0], np.cumsum(domain.n_states)])), 2)
    n_states, n = int(domain.n_states.sum()), 3
    size = n * (n + 1) + n_states * (n_states + 1)
    if kind is UndirectedParameters:
        size = n * (n - 1) // 2 + n_states + n_states**2
    vector = rng.normal(size=2 * (size + 1))
    return AllTreesDensity(parameters.model(vector), domain, 0, "collapsed", 100)


def with_numbers(row):
    rows = np.tile(row, (len(GRID), 1))
    rows[:, 1] = GRID
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_missing_numbers_are_integrated_out(kind):
    density = random_density(kind)
    row = np.array([1.0, NAN, 0.0])
    p = np.exp(density.log_likelihood(with_numbers(row)))
    found = np.exp(density.log_likelihood(row[np.newaxis]))
    assert_allclose(found, np.trapezoid(p, GRID), rtol=1e-3)
    means = density.expected(row[np.newaxis])
    assert means[0, 1] == pytest.approx(np.trapezoid(p * GRID, GRID) / found[0], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_are_ratios_of_likelihoods(kind):
    density = random_density(kind)
    row = np.array([[NAN, 1.2, NAN]])
    whole = density.log_likelihood(row)
    marginals = density.marginals(row)
    for state in range(3):
        joint = density.log_likelihood(np.array([[state, 1.2, NAN]]))
        assert_allclose(marginals[0][0, state], np.exp(joint - whole)[0], rtol=1e-10)
    assert marginals[1].sum() == pytest.approx(1.0)
    assert marginals[1].max() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_single_cell_improves_a_mode(kind):
    density = random_density(kind)
    rows = np.array([[NAN, NAN, NAN], [2.0, NAN, NAN]])
    found = density.modes(rows)
    assert found[1, 0] == 2.0
    for mode in found:
        best = density.log_likelihood(mode[np.newaxis])[0]
        assert density.log_likelihood(with_numbers(mode)).max() <= best + 1e-9
        for state in range(2):
            other = np.array([[mode[0], mode[1], state]])
            assert density.log_likelihood(other)[0] <= best + 1e-9


def test_draws_of_missing_cells_follow_the_density():
    density = random_density(DirectedParameters)
    rows = np.tile([NAN, NAN, 1.0], (4000, 1))
    drawn = density.draw_missing(rows, np.random.RandomState(0))
    marginals, means = density.marginals(rows[:1]), density.expected(rows[:1])
    share = np.bincount(drawn[:, 0].astype(int), minlength=3) / 4000
    assert_allclose(share, marginals[0][0], atol=0.03)
    assert drawn[:, 1].mean() == pytest.approx(means[0, 1], abs=4 * drawn[:, 1].std() / 60)
    assert np.all(drawn[:, 2] == 1.0)


def test_samples_score_as_those_of_a_sampled_circuit():
    density = random_density(UndirectedParameters)
    rows = density.draw(3000, np.random.RandomState(0))
    circuit = density.sampled_circuit(3000, np.random.RandomState(1))
    gap = density.log_likelihood(rows) - log_likelihood(circuit, rows)
    assert 0.0 <= gap.mean() < 0.01


def test_equal_rows_have_equal_answers_whatever_the_others():
    density = random_density(DirectedParameters)._replace(n_samples=1)
    rows = np.full((3, 3), NAN)
    rows[1] = [1.0, 2.0, 0.0]
    found = density.log_likelihood(rows)
    assert found[0] == found[2]
    assert found[1] == density.log_likelihood(rows[1:2])[0]
    assert_array_equal(density.effective_sample_size(rows[1:2]), [np.inf])
