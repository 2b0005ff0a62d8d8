"""What densities answer: one protocol for circuits and for mixtures of all trees."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN, TableMixture
from skpc.densities import Density
from skpc.domain import Domain
from skpc.queries import log_likelihood

QUESTIONS = [name for name in vars(Density) if not name.startswith("_") and name != "domain"]


def rows_and_incomplete() -> tuple[np.ndarray, np.ndarray]:
    """Two categories around a number that depends on the first, and the same with cells missing."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    rows = np.column_stack([kind, kind + rng.normal(size=300), kind % 2])
    return rows, np.where(rng.random(rows.shape) < 0.3, np.nan, rows)


@pytest.fixture(
    scope="module",
    params=[
        CutsetNetworkBD(random_state=0),
        SoftLearnSPN(random_state=0),
        MixtureOfAllTrees(max_iter=5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def density(request) -> Density:
    return request.param.fit(rows_and_incomplete()[0])._density


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_take_what_the_protocol_says(density, question):
    needed = inspect.signature(getattr(Density, question)).parameters
    found = inspect.signature(getattr(type(density), question)).parameters
    assert list(found) == list(needed)
    assert isinstance(density.domain, Domain)


def test_filled_rows_keep_their_cells_and_lack_none(density):
    _, rows = rows_and_incomplete()
    seen = ~np.isnan(rows)
    random_state = np.random.RandomState(0)
    for filled in (
        density.means(rows),
        density.modes(rows),
        density.draw_missing(rows, random_state),
    ):
        assert_array_equal(filled[seen], rows[seen])
        assert not np.isnan(filled).any()
    assert density.draw(7, random_state).shape == (7, 3)


@pytest.mark.parametrize("columns", [[0], [1], [2, 1]])
def test_the_means_of_some_columns_are_those_among_all(density, columns):
    _, rows = rows_and_incomplete()
    some = density.means(rows, columns)
    assert_array_equal(some[:, columns], density.means(rows)[:, columns])
    seen = ~np.isnan(rows)
    assert_array_equal(some[seen], rows[seen])


def test_the_most_probable_states_are_those_of_the_marginals(density):
    _, rows = rows_and_incomplete()
    means, cells = density.means(rows), density.posteriors(rows)
    for column in np.flatnonzero(density.domain.is_categorical):
        assert_array_equal(means[:, column], cells[column].probabilities.argmax(axis=1))
    assert_allclose(means[:, 1], cells[1].mean())


def test_log_densities_follow_the_chain_rule(density):
    rows, _ = rows_and_incomplete()
    known = np.full_like(rows, np.nan)
    known[:, [0, 1]] = rows[:, [0, 1]]
    whole = density.log_density(rows)
    given = density.log_density(rows, np.array([0, 1]))
    assert_allclose(given + density.log_density(known), whole, atol=1e-9)
    assert_allclose(density.log_cells(rows)[:, 2], given, atol=1e-9)
    if hasattr(density, "circuit"):
        assert_array_equal(whole, log_likelihood(density.circuit, rows))


def test_medians_lie_where_half_of_the_draws_do(density):
    rows = np.tile([2.0, np.nan, 0.0], (2000, 1))
    median = density.posteriors(rows[:1], [1])[0].quantile(0.5)[0]
    drawn = density.draw_missing(rows, np.random.RandomState(0))[:, 1]
    assert (drawn < median).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("density", [MixtureOfAllTrees, TableMixture, CutsetNetworkBD])
def test_weights_that_differ_from_one_by_rounding_count_as_one(density):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 3)).astype(float)
    X[:, 1] = np.where(rng.random(200) < 0.8, X[:, 0], X[:, 1])
    if density is TableMixture:
        X[:, 2] = (X[:, 0] + rng.normal(size=200)).round(2)
    X[rng.random(X.shape) < 0.1] = np.nan
    once, nearly = (
        density(random_state=0).fit(X, sample_weight=weight).score_samples(X)
        for weight in (np.ones(200), 1.0 + 1e-9 * rng.uniform(-1.0, 1.0, 200))
    )
    assert_allclose(nearly, once, atol=1e-5)
