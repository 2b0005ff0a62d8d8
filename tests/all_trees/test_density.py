"""Encoded rows under a mixture of all trees, against integrals and searches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from sklearn.exceptions import ConvergenceWarning

from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
from skpc.domain import Declared, Domain
from skpc.queries import log_likelihood

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
    domain = Domain.fit(rows, Declared(categorical_features=[0, 2]), n_bins=4)
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
    p = np.exp(density.log_density(with_numbers(row)))
    found = np.exp(density.log_density(row[np.newaxis]))
    assert_allclose(found, trapezoid(p, GRID), rtol=1e-3)
    means = density.means(row[np.newaxis])
    assert means[0, 1] == pytest.approx(trapezoid(p * GRID, GRID) / found[0], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_are_ratios_of_likelihoods(kind):
    density = random_density(kind)
    row = np.array([[NAN, 1.2, NAN]])
    whole = density.log_density(row)
    marginals = [cells.probabilities for cells in density.posteriors(row)]
    for state in range(3):
        joint = density.log_density(np.array([[state, 1.2, NAN]]))
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
        best = density.log_density(mode[np.newaxis])[0]
        assert density.log_density(with_numbers(mode)).max() <= best + 1e-9
        for state in range(2):
            other = np.array([[mode[0], mode[1], state]])
            assert density.log_density(other)[0] <= best + 1e-9


def test_draws_of_missing_cells_follow_the_density():
    density = random_density(DirectedParameters)
    rows = np.tile([NAN, NAN, 1.0], (4000, 1))
    drawn = density.draw_missing(rows, np.random.RandomState(0))
    cells, means = density.posteriors(rows[:1]), density.means(rows[:1])
    share = np.bincount(drawn[:, 0].astype(int), minlength=3) / 4000
    assert_allclose(share, cells[0].probabilities[0], atol=0.03)
    assert drawn[:, 1].mean() == pytest.approx(means[0, 1], abs=4 * drawn[:, 1].std() / 60)
    assert np.all(drawn[:, 2] == 1.0)


def test_samples_score_as_those_of_a_sampled_circuit():
    density = random_density(UndirectedParameters)
    rows = density.draw(3000, np.random.RandomState(0))
    circuit = density.sampled_circuit(3000, np.random.RandomState(1))
    gap = density.log_density(rows) - log_likelihood(circuit, rows)
    # The mean over all rows there may be is a divergence, and positive.
    assert -3 * gap.std() / np.sqrt(3000) <= gap.mean() < 0.01


def test_equal_rows_have_equal_answers_whatever_the_others():
    density = random_density(DirectedParameters)._replace(n_samples=1)
    rows = np.full((3, 3), NAN)
    rows[1] = [1.0, 2.0, 0.0]
    found = density.log_density(rows)
    assert found[0] == found[2]
    assert found[1] == density.log_density(rows[1:2])[0]
    assert_array_equal(density.effective_sample_size(rows[1:2]), [np.inf])


@pytest.mark.parametrize("kind", KINDS)
def test_conditionals_of_few_completions_are_exact_ratios(kind):
    density = random_density(kind)
    rows = np.array([[1.0, 1.2, 0.0], [1.0, NAN, 0.0], [NAN, 1.2, 1.0], [2.0, NAN, NAN]])
    for given in ([0], [1], [0, 2], []):
        known = np.full_like(rows, NAN)
        known[:, given] = rows[:, given]
        expected = density.log_density(rows) - density.log_density(known)
        found = density.log_density(rows, np.array(given, dtype=np.int64))
        assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_estimated_conditionals_of_categories_are_near_the_truth_and_never_positive(
    kind, monkeypatch
):
    density = random_density(kind)._replace(n_samples=400)
    rows = np.array([[1.0, 1.2, NAN], [0.0, -1.0, NAN], [NAN, 0.3, NAN], [2.0, 1.2, 1.0]])
    cases = [np.array([1]), np.array([1, 2]), np.array([2]), np.array([], dtype=np.int64)]
    truth = [density.log_density(rows, given) for given in cases]
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    for given, expected in zip(cases, truth):
        found = density.log_density(rows, given)
        assert_allclose(found, expected, atol=0.3)
        assert_array_equal(found[2:], density.log_density(rows[2:], given))
        if 1 in given:
            assert (found <= 0.0).all()
    assert density.log_density(rows, cases[-1])[3] == density.log_density(rows)[3]


def test_the_conditional_of_one_category_is_its_marginal(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    density = random_density(DirectedParameters)._replace(n_samples=20)
    marginals = density.posteriors(np.array([[NAN, 1.2, NAN]]))[0].probabilities[0]
    rows = np.array([[0.0, 1.2, NAN], [1.0, 1.2, NAN], [2.0, 1.2, NAN]])
    assert_allclose(np.exp(density.log_density(rows, np.array([1, 2]))), marginals)


def test_equal_rows_have_different_draws_from_shared_trees(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    density = random_density(DirectedParameters)
    rows = np.tile([[NAN, NAN, 1.0], [1.0, 1.2, 0.0], [NAN, 1.2, NAN]], (250, 1))
    drawn = density.draw_missing(rows, np.random.RandomState(0))
    assert_array_equal(drawn, density.draw_missing(rows, np.random.RandomState(0)))
    observed = ~np.isnan(rows)
    assert_array_equal(drawn[observed], rows[observed])
    for start, column in ((0, 0), (2, 0), (2, 2)):
        cells = density.posteriors(rows[start : start + 1], [column])
        marginals = cells[0].probabilities[0]
        share = np.bincount(drawn[start::3, column].astype(int), minlength=len(marginals)) / 250
        assert_allclose(share, marginals, atol=0.15)


def test_answers_that_hang_on_few_trees_come_with_one_warning(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._MOST_COMPLETIONS", 1)
    density = random_density(DirectedParameters)._replace(n_samples=5)
    rows = np.array([[NAN, 1.2, NAN], [1.0, 1.2, 0.0], [NAN, 1.2, NAN]])
    given = np.array([1])
    questions = [
        lambda: density.log_density(rows),
        lambda: density.posteriors(rows),
        lambda: density.means(rows),
        lambda: density.modes(rows),
        lambda: density.draw_missing(rows, np.random.RandomState(0)),
        lambda: density.log_density(np.where(rows > 1, rows, 0.0), given),
        lambda: density.log_cells(rows),
    ]
    for question in questions:
        with pytest.warns(ConvergenceWarning, match=r"answers for [23] of 3 rows") as caught:
            question()
        assert len(caught) == 1
    assert (density.effective_sample_size(rows)[[0, 2]] < 10.0).all()
