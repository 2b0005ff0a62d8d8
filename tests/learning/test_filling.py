"""Draws of missing cells from a mixture of trees that is learned from the rows."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpc.domain import Declared, Domain
from skpc.learning import filling
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.filling import fill_missing


def fill(codes, n_states, n_components=1, seed=0):
    rows = np.where(codes < 0, np.nan, codes.astype(float))
    learn = partial(learn_cutset_network, n_states=np.array(n_states), options=TREE)
    states = [np.arange(float(count)) for count in n_states]
    domain = Domain.fit(rows, Declared(categories=states, merges_columns=False))
    random_state = np.random.RandomState(seed)
    return fill_missing(domain, rows, np.ones(len(codes)), learn, n_components, random_state)


@pytest.fixture(scope="module")
def classes():
    """A hidden class makes all columns depend on each other, beyond what one tree can say."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 3_000)
    likely = rng.random((4, 8)) < 0.5
    complete = (rng.random((3_000, 8)) < np.where(likely[kind], 0.95, 0.05)).astype(np.int16)
    return complete, np.where(rng.random(complete.shape) < 0.3, np.int16(-1), complete)


def test_filled_rows_depend_on_each_other_as_complete_rows_do(classes, monkeypatch):
    complete, codes = classes

    def worst():
        filled = fill(codes, [2] * 8)
        return np.abs(np.corrcoef(filled.T) - np.corrcoef(complete.T)).max()

    assert worst() < 0.05
    monkeypatch.setattr(filling, "_TREES", 1)
    assert worst() > 0.08


def test_observed_cells_stay_and_every_draw_is_a_state():
    n_states = [3, 1, 2, 5]
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, n_states, (300, 4)).astype(np.int16)
    codes[0] = -1
    filled = fill(codes, n_states)
    assert_array_equal(filled[codes >= 0], codes[codes >= 0])
    assert np.all((filled >= 0) & (filled < n_states) & (filled == np.floor(filled)))


def test_there_are_as_many_trees_as_components_at_least(monkeypatch):
    codes = np.array([[0, 1], [1, 0], [-1, 0]], np.int16).repeat(4, axis=0)
    mixtures = []
    made = filling.Shrunken
    monkeypatch.setattr(filling, "Shrunken", lambda trees: mixtures.append(trees) or made(trees))
    for n_components in (1, 2):
        fill(codes, [2, 2], n_components)
    assert [len(trees) for trees in mixtures] == [1, 2]


def test_draws_depend_on_the_seed_alone(classes):
    codes = classes[1][:200]
    one, two, three = (fill(codes, [2] * 8, seed=seed) for seed in (0, 0, 1))
    assert_array_equal(one, two)
    assert np.any(one != three)
