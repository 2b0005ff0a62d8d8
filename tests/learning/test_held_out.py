"""Rows are dealt into folds, and held out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.learning.held_out import deal, hold_out, quarters


def dealt(weight: np.ndarray, n_folds: float, group: np.ndarray | None = None) -> np.ndarray:
    """The weight of each row that each fold holds out, after a check of what it leaves."""
    folds = list(deal(weight, n_folds, np.random.RandomState(0), group))
    for kept, held in folds:
        assert_allclose(kept + held, weight)
        assert np.all(kept >= 0)
        assert np.all(held >= 0)
        assert kept.any()
        assert held.any()
    return np.array([held for _, held in folds])


def test_every_row_is_held_out_once_and_classes_are_spread_evenly():
    group = np.repeat([0, 1, 2], [10, 3, 37])
    held = dealt(np.ones(50), 5, group)
    assert_array_equal(held.sum(axis=0), 1.0)
    assert_array_equal(np.sort(held, axis=0)[:-1], 0.0)
    for label, n_rows in ((0, 10), (1, 3), (2, 37)):
        of_folds = held[:, group == label].sum(axis=1)
        assert of_folds.sum() == n_rows
        assert of_folds.max() - of_folds.min() <= 1


def test_a_row_of_weight_n_is_dealt_as_n_rows():
    weight = np.array([1.0, 12.0, 3.0, 2.0])
    held = dealt(weight, 5)
    assert_allclose(held.sum(axis=0), weight)
    assert_allclose(held[:, 1], [2.0, 2.0, 3.0, 3.0, 2.0], atol=1.0)
    assert_allclose(held[:, 1], held[:, 1].round())
    assert_allclose(np.ptp(held.sum(axis=1)), 1.0)


def test_weights_that_are_not_whole_are_dealt_wholly():
    weight = np.array([1.0, 5.0, 0.3, 2.5, 40.0])
    assert_allclose(dealt(weight, 4).sum(axis=0), weight)


@pytest.mark.parametrize("scale", [1e-9, 0.013, 1 / 3])
def test_weights_that_are_shares_are_dealt_like_their_multiples(scale):
    held = dealt(np.full(20, scale), 4)
    assert_allclose(held.sum(axis=1), 5 * scale)
    assert_allclose(held.max(axis=0), scale)


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.45, 0.9])
def test_the_fraction_that_is_held_out_is_exact(fraction):
    rows, weight = np.arange(1000), np.ones(1000)
    kept, kept_weight, held, held_weight = hold_out(
        rows, weight, fraction, np.random.RandomState(0)
    )
    assert_array_equal(np.sort(np.append(kept, held)), rows)
    assert abs(len(held) - 1000 * fraction) < 1 + 1e-9
    assert_array_equal(np.append(kept_weight, held_weight), 1.0)


def test_a_single_row_cannot_be_held_out():
    assert len(dealt(np.ones(1), 4)) == 0
    rows, weight = np.zeros((1, 2)), np.ones(1)
    assert hold_out(rows, weight, 0.1, np.random.RandomState(0)) == (rows, weight, None, None)


@pytest.mark.parametrize(("n_rows", "n_quarters"), [(1, 0), (3, 3), (400, 4), (2100, 2), (5000, 1)])
def test_quarters_are_held_out_until_there_are_a_thousand_rows(n_rows, n_quarters):
    weight = np.ones(n_rows)
    held = [part for _, part in quarters(weight)]
    assert len(held) == n_quarters
    assert_array_equal(held, [part for _, part in quarters(weight)])
    assert all(abs(part.sum() - n_rows / 4) < 1 for part in held)
