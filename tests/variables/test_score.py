"""Scores against plain formulas, numerical derivatives and quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm, skew, yeojohnson

from skpc import TableMixture
from skpc.domain import Declared, Domain
from skpc.variables import Law
from skpc.variables.score import Score
from tests.naive.circuit import NaiveScore

POWERS = [0.0, 0.5, 1.0, 1.75, 2.0]
BOUNDS = [(-np.inf, np.inf), (-3.0, np.inf), (-np.inf, 9.0), (-3.0, 9.0)]
KINDS = [(*bounds, soft) for bounds in BOUNDS for soft in (0.0, 0.4)]
every_score = pytest.mark.parametrize(
    "scores",
    [[Score(*ends, 0.3, 0.8, power, -1.5, 2.0, soft) for power in POWERS] for *ends, soft in KINDS],
    ids=[f"{lower} to {upper}, {soft}" for lower, upper, soft in KINDS],
)


def values_of(score: Score) -> np.ndarray:
    """Values within the bounds, many of them beyond the range of the power transform."""
    low, high = max(score.lower, -40.0), min(score.upper, 40.0)
    if score.soft > 0.0:
        # Nearer to a bound, float64 has no digits left.
        low, high = max(low, score.lower + 1e-3), min(high, score.upper - 1e-3)
    return np.linspace(low, high, 203)[1:-1]


@every_score
def test_scores_and_slopes_are_those_of_the_formula(scores):
    for score in scores:
        plain = NaiveScore(*score)
        x = values_of(score)
        assert_allclose(
            score.transform(x), [plain.of(value) for value in x], rtol=1e-10, atol=1e-12
        )
        assert_allclose(np.exp(score.log_slope(x)), [plain.slope(value) for value in x], rtol=1e-9)


@every_score
def test_a_score_increases_and_its_inverse_leads_back(scores):
    for score in scores:
        x = values_of(score)
        z = score.transform(x)
        assert np.all(np.diff(z) > 0)
        assert_allclose(score.inverse(z), x, rtol=1e-9, atol=1e-9)
        if np.isfinite([score.lower, score.upper]).any():
            continue
        far = np.array([-1e12, -1e3, 1e3, 1e12])
        assert_allclose(score.inverse(score.transform(far)), far, rtol=1e-9)


@every_score
def test_the_slope_is_the_derivative(scores):
    for score in scores:
        x = values_of(score)
        step = 1e-6 * np.minimum(1.0, np.minimum(x - score.lower, score.upper - x))
        slope = (score.transform(x + step) - score.transform(x - step)) / (2 * step)
        assert_allclose(np.exp(score.log_slope(x)), slope, rtol=1e-6)


def test_within_its_range_the_transform_is_that_of_yeo_and_johnson():
    x = np.linspace(-3.0, 3.0, 31)
    for power in POWERS:
        score = Score(power=power, low=-4.0, high=4.0)
        assert_allclose(score.transform(x), yeojohnson(x, power), rtol=1e-12, atol=1e-14)


def knots(score: Score) -> np.ndarray:
    """Scores between which the inverse of a score is smooth."""
    shape = Score(power=score.power, low=score.low, high=score.high)
    ends = shape.transform(np.array([score.low, score.high]))
    return np.sort([*ends, 0.0])


def moment(score: Score, mean: float, sd: float, centre: float, power: int) -> float:
    """E (x - centre)^power by quadrature between the knots of a score."""
    plain = NaiveScore(*score)

    def integrand(z):
        return (plain.value(z) - centre) ** power * norm.pdf(z, mean, sd)

    inner = np.clip(knots(score), mean - 9 * sd, mean + 9 * sd)
    ends = [mean - 9 * sd, *sorted(inner), mean + 9 * sd]
    parts = zip(ends[:-1], ends[1:])
    return sum(quad(integrand, a, b, epsabs=1e-13, limit=200)[0] for a, b in parts if a < b)


@every_score
def test_moments_agree_with_quadrature(scores):
    for score, mean, sd in zip(scores, (0.0, 1.0, 0.3, -1.5, 0.0), (1.0, 0.4, 2.0, 0.05, 4.0)):
        column = Law(score, np.empty(0))
        found = column.moments(np.array([mean]), np.array([sd]), 0.7)
        truth = [moment(score, mean, sd, 0.7, power) for power in (1, 2)]
        assert_allclose(np.ravel(found), truth, rtol=1e-6 if score.soft else 1e-7, atol=1e-9)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.75, 1.25, 2.0])
def test_moments_of_narrow_and_of_wide_normals_are_sums_over_a_fine_grid(power):
    score = Score(centre=0.3, spread=0.8, power=power, low=-4.0, high=25.0)
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(scale=2.0, size=40), np.geomspace(1e-3, 10.0, 40)
    node, weight = np.polynomial.legendre.leggauss(6)

    def expected(m, s):
        ends = np.unique(np.clip([m - 9 * s, *knots(score), m + 9 * s], m - 9 * s, m + 9 * s))
        edges = np.concatenate([np.linspace(a, b, 400) for a, b in zip(ends, ends[1:])])
        half = np.diff(edges)[:, np.newaxis] / 2
        z = edges[:-1, np.newaxis] + half * (node + 1.0)
        mass = half * weight * norm.pdf(z, m, s)
        values = score.inverse(z.ravel()).reshape(z.shape) - 0.7
        return (mass * values).sum(), (mass * values**2).sum()

    found = Law(score, np.empty(0)).moments(mean, sd, 0.7)
    wanted = np.transpose([expected(*one) for one in zip(mean, sd)])
    assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_beyond_its_range_a_column_with_one_bound_is_linear_on_the_other_side():
    above = Score(lower=0.0, centre=3.0, spread=1.3, power=0.5, low=-3.0, high=3.0)
    below = above._replace(lower=-np.inf, upper=0.0, centre=-3.0, power=1.5)
    last = np.exp(3.0 + 1.3 * 3.0)
    x = last * np.array([1.0, 2.0, 3.0, 1e6, 1e6 + 1.0])
    steps = np.diff(above.transform(x))
    assert_allclose(steps[[1, 3]], steps[0], rtol=1e-9)
    assert_allclose(below.transform(-x), -above.transform(x), rtol=1e-12)
    assert_allclose(above.inverse(above.transform(x)), x, rtol=1e-12)
    # Means exist that a logarithm would make infinite for all floats.
    for sign, score in ((1.0, above), (-1.0, below)):
        column = Law(score, np.empty(0))
        mean, square = column.moments(np.array([0.0]), np.array([300.0]), 0.0)
        assert 0.0 < sign * mean[0] < 1e3 * last
        assert square[0] < 1e6 * last**2


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1.0, 1e30])
def test_values_next_to_a_bound_are_told_apart_in_any_unit(unit):
    score = Score(0.0, centre=np.log(unit), spread=1.0, low=-9.0, high=3.0)
    x = unit * np.array([1e-9, 1e-6, 1.0])
    assert_allclose(score.transform(x), np.log([1e-9, 1e-6, 1.0]), atol=1e-9)
    assert_allclose(score.inverse(score.transform(x)), x, rtol=1e-9)


def test_cells_of_atoms_are_cut_out_of_the_line():
    column = Law(Score(), np.array([0.0, 1.0, 5.0]), 1.0, 0.499, gap=1.0)
    x = np.array([-2.0, -0.75, 1.75, 2.0, 4.0, 5.75, 7.0])
    wanted = [-2.0, -0.75, -0.25, 0.0, 2.0, 2.75, 4.0]
    assert_array_equal(column.place(x), wanted)
    assert_array_equal(column.at_place(column.place(x)), x)
    # A cell of an atom is at one place, whose ends are those of its neighbours' cells.
    assert_array_equal(column.place(np.array([-0.5, 0.0, 0.7, 1.5])), np.full(4, -0.5))
    places = np.linspace(-3.0, 5.0, 41)
    assert np.all(column.scores(column.at_place(places))[0] == 3)
    # Scores of atoms are between those of the values around them, in order.
    z = column.transform(np.array([-1.0, 0.0, 1.0, 2.0, 4.0, 5.0, 6.0]))
    assert np.all(np.diff(Law(Score(low=-9.0, high=9.0), *column[1:]).transform(x)) > 0)
    assert z[0] < z[3]


@every_score
def test_missing_values_stay(scores):
    for score in scores:
        nothing = np.array([np.nan])
        for method in (score.transform, score.inverse, score.log_slope):
            assert_array_equal(method(nothing), nothing)


def test_values_at_and_beyond_a_bound_have_finite_scores():
    score = Score(lower=0.0, upper=1.0, power=0.5, low=-2.0, high=2.0)
    x = np.array([-1.0, 0.0, 1e-300, 0.5, 1.0, 7.0])
    assert np.isfinite(score.transform(x)).all()
    assert np.isfinite(score.log_slope(x)).all()
    found = score.inverse(np.array([-1e6, -700.0, 700.0, 1e6]))
    assert np.all((found >= 0.0) & (found <= 1.0))


def test_the_power_makes_skew_columns_look_normal():
    rng = np.random.default_rng(0)
    for values, least, most in (
        (rng.normal(size=2000), 0.75, 1.25),
        (rng.lognormal(size=2000), 0.0, 0.25),
        (-rng.lognormal(size=2000), 1.75, 2.0),
    ):
        number = Law.fit(values, np.ones(2000), bounds=(-np.inf, np.inf))
        assert least <= number.score.power <= most
        # A logarithm of what has been shifted is not quite that of the log-normal column.
        assert abs(skew(number.score.transform(values))) < max(abs(skew(values)) / 3, 0.2)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.0, np.inf), (-np.inf, 1.0)])
def test_values_at_and_beyond_a_bound_are_not_dense_and_count_as_the_outermost_ones(bounds):
    score = Score(*bounds, spread=2.0, low=-4.0, high=3.0)
    is_lower = bounds[0] == 0.0
    at_and_beyond = np.array([0.0, -3.0]) if is_lower else np.array([1.0, 4.0])
    middle = score.log_slope(score.inverse(np.zeros(1)))
    assert_allclose(score.log_slope(at_and_beyond), middle + [0.0, np.log(1e-15)])
    # Low and high are the ends of the range, widened by a tenth of it: ten twelfths lie between.
    assert_allclose(
        score.transform(at_and_beyond), -4.0 + 7.0 / 12.0 if is_lower else 3.0 - 7.0 / 12.0
    )
    # Inside, the slope is the derivative.
    x = np.array([0.01, 0.5, 0.97])
    step = 1e-7
    slope = (score.transform(x + step) - score.transform(x - step)) / (2.0 * step)
    assert_allclose(score.log_slope(x), np.log(slope), rtol=1e-5, atol=1e-6)


def test_a_uniform_column_is_nowhere_denser_than_between_its_ends():
    x = np.random.default_rng(0).uniform(size=600)
    table = np.column_stack([x, x + np.random.default_rng(1).normal(size=600)])
    model = TableMixture(random_state=0).fit(table)
    asked = np.column_stack([[0.5, 1.1, 5.0, -3.0], np.full(4, np.nan)])
    inside, *outside = model.score_samples(asked)
    assert np.max(outside) < inside - 5.0


@pytest.mark.parametrize("widening", [0.0, 0.3])
def test_many_means_of_about_one_standard_deviation_are_as_each_by_itself(widening):
    score = Score(-0.5, np.inf, 3.0, 4.0, 0.5, -1.2, 3.0, 0.4)
    column = Law(score, np.array([0.0, 1.0, 5.0, 20.0]), 1.0, 0.499, gap=1.0)
    rng = np.random.default_rng(0)
    mean = rng.normal(size=4000)
    sd = np.repeat([0.4, 1.5], 2000) * (1.0 + widening * rng.random(4000))
    many = np.array(column.moments(mean, sd, 0.7))
    few = np.hstack(
        [column.moments(mean[part], sd[part], 0.7) for part in np.split(np.arange(4000), 40)]
    )
    spread = np.median(np.sqrt(few[1] - few[0] ** 2))
    error = np.abs(many - few).max(axis=1)
    assert error[0] < 1e-11 * spread
    assert error[1] < 1e-9 * spread**2


def test_scores_that_stand_for_no_finite_number_are_infinite():
    # The range reaches much farther on one side: its tangent on the other side is as steep.
    score = Score(power=0.0, low=-5e103, high=5e102, centre=-3e16, spread=1.5e16)
    top = score.powers_of_ends()[1]
    assert np.isfinite(score.inverse(np.array([top]))).all()
    assert_array_equal(score.inverse(np.array([top + 1e300])), np.inf)


def test_a_number_far_from_all_others_is_learned_without_a_warning():
    values = np.array([0.0] * 4 + [-7.33e119, 0.0] + [-1.0] * 19)
    weight = np.array([1.0] * 4 + [0.5] * 21)
    declared = Declared(categorical_features=None)
    axis = Domain.fit(values[:, np.newaxis], declared, n_bins=4, sample_weight=weight)[0].axis
    assert np.isfinite(axis.edges).all()
    assert_allclose(axis.edges[[0, -1]], [-7.33e119, 0.0], atol=0.02 * 7.33e119)
