"""Of very many rows some tell the structure, and all of them the parameters."""

import numpy as np
import pytest

from skpc import SoftLearnSPN, TableMixture


def rows(n_rows, seed):
    """Two clusters of correlated numbers and a category."""
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 4)) + 4.0 * side[:, np.newaxis]
    X[:, 1] += np.where(side, 1.0, -1.0) * X[:, 0]
    X[:, 3] = (rng.random(n_rows) < 0.2 + 0.6 * side) * 1.0
    return X


@pytest.fixture
def few_tell_the_structure(monkeypatch):
    for learner in (SoftLearnSPN, TableMixture):
        monkeypatch.setattr(learner, "_most_rows", 300)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("learner", [TableMixture(n_components=2), SoftLearnSPN()], ids=str)
def test_parameters_of_all_rows_are_better_than_those_of_some(
    learner, missing, few_tell_the_structure, monkeypatch
):
    X, fresh = rows(4000, 0), rows(4000, 1)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    learner.set_params(random_state=0)
    reached = learner.fit(X).score(fresh)
    monkeypatch.setattr(type(learner), "_refit", lambda *data: None)
    assert reached > learner.fit(X).score(fresh)
    monkeypatch.undo()
    assert reached > learner.fit(X).score(fresh) - 0.1


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_parts_of_the_rows_give_the_parameters_of_all_rows(
    missing, few_tell_the_structure, monkeypatch
):
    X = rows(1000, 0)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    found = []
    for size in (170, 10_000):
        monkeypatch.setattr("skpc.estimators._learner._ROWS", size)
        found.append(TableMixture(n_components=2, random_state=0).fit(X).circuit_.param)
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-11)
