import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.circuit import CircuitBuilder
from skpc.queries import log_likelihood
from skpc.variables import Histogram, HistogramTable
from tests.zoo import AXIS

AXES = [Histogram(*AXIS), None]


def test_densities_within_bins_are_those_of_a_histogram_leaf():
    axes = HistogramTable.from_axes(AXES)
    numbers = np.array([-4.0, -1.0, -0.2, 0.3, 1.0, 2.0, 9.0])
    codes = np.searchsorted(AXIS[0], numbers, side="right")
    rows = np.column_stack([numbers, np.zeros(7)])
    np.testing.assert_array_equal(axes.states(rows)[:, 0], codes)
    builder = CircuitBuilder([5], [AXIS])
    prob = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    builder.discrete(0, np.log(prob))
    whole = log_likelihood(builder.build(), numbers[:, np.newaxis])
    assert_allclose(axes.log_density(rows) + np.log(prob[codes]), whole)


def test_draws_fall_into_their_bins_with_its_mean():
    axes = HistogramTable.from_axes(AXES)
    for state in range(5):
        codes = np.tile([state, 1], (4000, 1))
        rows = axes.draw(codes, np.full((4000, 2), np.nan), seed=0)
        found = np.searchsorted(AXIS[0], rows[:, 0], side="right")
        assert np.all(found == state)
        assert rows[:, 0].mean() == pytest.approx(Histogram(*AXIS).moments()[0][state], abs=0.08)
        assert np.all(rows[:, 1] == 1.0)
        assert np.searchsorted(AXIS[0], Histogram(*AXIS).modes()[state], side="right") == state


def test_known_cells_and_missing_numbers_are_left_alone():
    axes = HistogramTable.from_axes(AXES)
    rows = np.array([[0.3, np.nan]])
    assert_allclose(axes.draw(np.array([[2, 1]]), rows, seed=0), [[0.3, 1.0]])
    assert axes.log_density(np.array([[np.nan, 1.0]]))[0] == 0.0
