"""Columns that few rows show: completed by their most frequent value, unless other columns tell."""

import numpy as np
import pandas as pd
import pytest

from skpc import (
    CutsetNetworkBD,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)

DENSITIES = [
    CutsetNetworkBD(random_state=0),
    ExtraCutsets(10, random_state=0),
    HiddenChowLiuTree(random_state=0),
    HiddenForest(random_state=0),
    MixtureOfAllTrees(max_iter=20, random_state=0),
    SoftLearnSPN(random_state=0),
    TableMixture(random_state=0),
]


def table(told, at_random, seed=0, n=600):
    """Four related categories and one that 8 % of the rows know; all of its values.

    ``told`` is the share of rows in which the last follows from the first, and ``at_random`` says
    that it may depend on the second whether it is known.
    """
    rng = np.random.default_rng(seed)
    kind, columns = rng.integers(3, size=n), []
    for n_states in (4, 6, 5, 3):
        shares = rng.dirichlet(np.ones(n_states), 3)
        columns.append([rng.choice(n_states, p=shares[k]) for k in kind])
    values = rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1], size=n)
    values = np.where(rng.random(n) < told, columns[0], values)
    chance = np.where(np.array(columns[1]) < 2, 3.0, 0.4) if at_random else np.ones(n)
    known = rng.random(n) < 0.08 * chance / chance.mean()
    X = pd.DataFrame({f"c{v}": pd.Categorical(column) for v, column in enumerate(columns)})
    X["rare"] = pd.Categorical.from_codes(np.where(known, values, -1), range(5))
    return X, values, known


def share_right(model, X, values, known):
    completed = model.fit(X).complete(X)
    return np.mean(np.asarray(completed)[~known, -1].astype(int) == values[~known])


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("model", DENSITIES, ids=lambda model: type(model).__name__)
def test_what_few_rows_show_is_completed_as_well_as_by_the_most_frequent_value(model, at_random):
    X, values, known = table(0.0, at_random)
    most_frequent = np.bincount(values[~known]).max() / (~known).sum()
    assert share_right(model, X, values, known) >= most_frequent - 0.03


@pytest.mark.parametrize("model", DENSITIES, ids=lambda model: type(model).__name__)
def test_what_few_rows_show_is_told_by_a_column_that_it_follows_from(model):
    X, values, known = table(0.9, False)
    most_frequent = np.bincount(values[~known]).max() / (~known).sum()
    assert share_right(model, X, values, known) >= most_frequent + 0.03
