"""Forms: their densities, their quantiles, and scale mixtures, which pools are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.variables import (
    Axis,
    Bins,
    Normals,
    Points,
    Predictive,
    ScoredColumn,
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
        Axis(np.array([-1.0, 0.5, 2.0]), 1.0, 0.7),
        np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.4, 0.1, 0.1]]),
    ),
    "scored": ScoredNormals(
        ScoredColumn(SCORE, np.empty(0)),
        np.ones((2, 1)),
        np.array([-0.5, 1.0]),
        np.array([0.5, 1.0]),
        PARTS,
    ),
    "normals of each": Normals(np.array([[0.0], [3.0]]), np.array([[1.0], [2.0]]), np.ones((2, 1))),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def log_density_on_grid(form, row):
    """Log density of one of the distributions on the whole grid."""
    of_row = {"prob": np.repeat(form.prob[[row]], len(GRID) - 1, axis=0)}
    if isinstance(form, Normals) and form.mean.ndim == 2:
        of_row |= {"mean": form.mean[[row]], "sd": form.sd[[row]]}
    return form._replace(**of_row).log_density(GRID[:-1])


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


def test_mixtures_of_all_kinds_have_quantiles_that_the_distribution_function_reaches():
    known = np.full(2, np.nan)
    members = [Predictive([form], known) for form in FORMS.values()]
    cells = Predictive.mixture(members, np.full(len(members), 1 / len(members)))
    for level in (0.01, 0.3, 0.5, 0.99):
        assert_allclose(cells.cdf(cells.quantile(level)), level, atol=1e-9)


def test_bisection_ends_at_the_least_number_at_which_a_condition_holds():
    found = bisected(lambda x: x >= np.array([0.1, 5.0]), np.zeros(2), np.ones(2))
    assert_allclose(found, [0.1, 1.0], rtol=1e-15)
