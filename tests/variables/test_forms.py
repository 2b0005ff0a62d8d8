"""Forms: their densities, their quantiles, and scale mixtures, which pools are made of."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.variables import (
    Bins,
    Histogram,
    Law,
    Normals,
    Points,
    Predictive,
    ScoredNormals,
)
from skpc.variables.forms import bisected
from skpc.variables.score import Score
from tests.naive.regressor import facts_of

GRID = np.linspace(-40.0, 60.0, 200_001)
SCORE = Score(centre=1.0, spread=2.0, power=0.5, low=-3.0, high=6.0)
PARTS = np.array([[0.3, 0.7], [0.9, 0.1]])
FORMS = {
    "normals": Normals(np.array([-1.0, 3.0]), np.array([1.0, 0.5]), PARTS),
    "bins": Bins(
        Histogram(np.array([-1.0, 0.5, 2.0]), 1.0, 0.7),
        np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.4, 0.1, 0.1]]),
    ),
    "scored": ScoredNormals(
        Law(SCORE, np.empty(0)),
        np.empty((2, 0)),
        Normals(np.array([-0.5, 1.0]), np.array([0.5, 1.0]), PARTS),
    ),
    "normals of each": Normals(np.array([[0.0], [3.0]]), np.array([[1.0], [2.0]]), np.ones((2, 1))),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def on_every_row(form, row):
    """One of the distributions, for each point of the grid."""
    n = len(GRID) - 1
    if isinstance(form, ScoredNormals):
        atom_prob = np.repeat(form.atom_prob[[row]], n, axis=0)
        return replace(form, atom_prob=atom_prob, rest=on_every_row(form.rest, row))
    of_row = {"prob": np.repeat(form.prob[[row]], n, axis=0)}
    if isinstance(form, Normals) and form.mean.ndim == 2:
        of_row |= {"mean": form.mean[[row]], "sd": form.sd[[row]]}
    return replace(form, **of_row)


def log_density_on_grid(form, row):
    """Log density of one of the distributions on the whole grid."""
    return on_every_row(form, row).log_density(GRID[:-1])


@every_form
@pytest.mark.parametrize("row", [0, 1])
def test_densities_integrate_to_the_other_answers(form, row):
    total, mean, sd, below = facts_of(log_density_on_grid(form, row), GRID[:-1])
    assert total == pytest.approx(1.0, abs=1e-3)
    assert form.total()[row] == pytest.approx(1.0)
    assert form.means()[row] == pytest.approx(mean, abs=1e-2)
    assert np.sqrt(form.mean_squares(form.means())[row]) == pytest.approx(sd, rel=1e-2)
    for level in (0.1, 0.5, 0.95):
        assert below(form.quantiles(level)[row]) == pytest.approx(level, abs=1e-3)
    x = np.array([0.4, 2.5])
    assert form.below(x)[row] == pytest.approx(below(x[row]), abs=1e-3)


def test_points_have_log_probabilities():
    coin = Points(np.array([0.0, 1.0]), np.array([[0.25, 0.75], [0.0, 1.0]]))
    assert_allclose(np.exp(coin.log_density(np.array([1.0, 0.0]))), [0.75, 0.0])


def test_what_is_left_without_atoms_has_the_rest_of_the_probability_and_no_atoms():
    column = Law(SCORE, np.array([0.0]), reach=1e-9)
    prob = np.array([[0.4, 0.6], [0.1, 0.9]])
    rest = Normals(np.array([-0.5, 1.0]), np.array([0.5, 1.0]), prob[:, 1])
    scored = ScoredNormals(column, prob[:, :1], rest).mixed(PARTS)
    axis = Histogram(
        np.array([-1.0, -0.0, np.nextafter(0.0, 1.0), 2.0]),
        1.0,
        1.0,
        np.array([0, 1, 2, 1, 3]),
        np.array([1.0, 0.4, 1.0, 0.6, 1.0]),
        np.array([np.nan, np.nan, 0.0, np.nan, np.nan]),
    )
    binned = Bins(axis, np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.4, 0.1, 0.1]]))
    x, zeros = np.array([0.7, 1.5]), np.zeros(2)
    for form in (scored, binned):
        rest = form.without_atoms()
        of_atom = np.exp(form.log_density(zeros))
        assert_allclose(rest.total() + of_atom, 1.0)
        assert_allclose(rest.total() * rest.means(), form.means(), atol=1e-12)
        assert_allclose(rest.log_density(x), form.log_density(x))
        assert_allclose(rest.below(x) + of_atom, form.below(x))


def test_a_distribution_of_atoms_alone_leaves_something_that_has_quantiles():
    column = Law(SCORE, np.array([0.0]))
    form = ScoredNormals(column, np.ones((1, 1)), Normals(np.zeros(1), np.ones(1), 0.0))
    rest = form.without_atoms()
    assert_allclose(rest.total(), 0.0, atol=1e-200)
    assert np.isfinite(rest.quantiles(0.3)).all()


def test_mixtures_of_all_kinds_have_quantiles_that_the_distribution_function_reaches():
    known = np.full(2, np.nan)
    members = [Predictive([form], known) for form in FORMS.values()]
    cells = Predictive.mixture(members, np.full(len(members), 1 / len(members)))
    for level in (0.01, 0.3, 0.5, 0.99):
        assert_allclose(cells.cdf(cells.quantile(level)), level, atol=1e-9)


def test_bisection_ends_at_the_least_number_at_which_a_condition_holds():
    least = np.array([0.1, -1e300, 0.0, 5e-324, -np.inf, 1e9])
    assert_array_equal(bisected(lambda x: x >= least, len(least))[:-2], least[:-2])
