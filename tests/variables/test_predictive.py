"""Forms and predictive values against sums and integrals of their densities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from skpc import CutsetNetworkBD, SoftLearnSPN
from skpc.variables import Bins, Histogram, Law, Normals, Points, Predictive
from tests.naive.circuit import axis_of, cell_below
from tests.zoo import AXIS, random_circuit

RNG = np.random.default_rng(0)
FORMS = {
    "points": Points(np.array([-1.0, 0.0, 2.5]), RNG.dirichlet(np.ones(3), size=4)),
    "normals": Normals(np.array([-1.0, 3.0]), np.array([0.5, 2.0]), RNG.dirichlet(np.ones(2), 4)),
    "bins": Bins(Histogram(*AXIS), RNG.dirichlet(np.ones(5), size=4)),
}
BINS = axis_of(random_circuit(0, n_features=1, kinds="histogram"), 0)
MISSING = np.full(4, np.nan)
every_form = pytest.mark.parametrize("name", FORMS)


def below(name: str, r: int, x: float) -> float:
    """Distribution function of one distribution, part by part."""
    form = FORMS[name]
    if name == "points":
        return sum(p for value, p in zip(form.value, form.prob[r]) if value <= x)
    if name == "normals":
        return sum(p * norm.cdf(x, m, s) for p, m, s in zip(form.prob[r], form.mean, form.sd))
    return sum(p * cell_below(cell, x) for p, cell in zip(form.prob[r], BINS))


def moment(name: str, r: int, power: int) -> float:
    """E[x^power], by integrating the distribution function by parts."""
    form = FORMS[name]
    if name == "points":
        return float(form.prob[r] @ form.value**power)
    upper = quad(lambda x: power * x ** (power - 1) * (1 - below(name, r, x)), 0, 60, limit=400)
    lower = quad(lambda x: power * x ** (power - 1) * below(name, r, x), -60, 0, limit=400)
    return upper[0] - lower[0]


@every_form
def test_distribution_functions_and_moments_are_those_of_the_parts(name):
    cells = Predictive([FORMS[name]], MISSING)
    for x in (-2.0, -0.3, 0.0, 1.1, 7.0):
        assert_allclose(cells.cdf(x), [below(name, r, x) for r in range(4)], atol=1e-12)
    first, second = ([moment(name, r, power) for r in range(4)] for power in (1, 2))
    assert_allclose(cells.mean(), first, rtol=1e-6)
    assert_allclose(cells.variance(), np.array(second) - np.array(first) ** 2, rtol=1e-5)


@every_form
@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.99])
def test_quantiles_invert_the_distribution_function(name, level):
    cells = Predictive([FORMS[name]], MISSING)
    found = cells.quantile(level)
    if name == "points":
        assert np.all(cells.cdf(found) >= level)
        assert np.all(cells.cdf(found - 1e-9) < level)
    else:
        assert_allclose(cells.cdf(found), level, rtol=1e-9)


@pytest.mark.parametrize("names", [("normals", "bins"), ("points", "normals"), ("bins", "bins")])
def test_a_mixture_mixes_distribution_functions_and_not_quantiles(names):
    members = [Predictive([FORMS[name]], MISSING) for name in names]
    weight = np.random.default_rng(1).dirichlet(np.ones(2), size=4)
    mixed = Predictive.mixture(members, weight)
    for x in (-1.5, 0.2, 3.0):
        parts = np.column_stack([member.cdf(x) for member in members])
        assert_allclose(mixed.cdf(x), (weight * parts).sum(axis=1), atol=1e-12)
    means = np.column_stack([member.mean() for member in members])
    assert_allclose(mixed.mean(), (weight * means).sum(axis=1))
    found = mixed.quantile(0.7)
    assert np.all(mixed.cdf(found) >= 0.7 - 1e-12)
    assert np.all(mixed.cdf(found - 1e-7) < 0.7 + 1e-6)
    one = Predictive.mixture(members[:1], np.ones(1))
    assert_allclose(one.quantile(0.3), members[0].quantile(0.3), atol=1e-9)


def test_mixtures_over_the_same_states_keep_their_probabilities():
    labels = np.array(["a", "b", "c"])
    members = [
        Predictive([Points(np.arange(3.0), prob)], MISSING, labels)
        for prob in np.random.default_rng(2).dirichlet(np.ones(3), size=(2, 4))
    ]
    mixed = Predictive.mixture(members, np.array([0.25, 0.75]))
    truth = 0.25 * members[0].probabilities + 0.75 * members[1].probabilities
    assert_allclose(mixed.probabilities, truth)
    assert_array_equal(mixed.to_frame().columns, labels)


def test_observed_cells_are_certain():
    known = np.array([0.2, np.nan, -5.0, np.nan])
    cells = Predictive([FORMS["bins"]], known)
    assert_array_equal(cells.mean()[[0, 2]], known[[0, 2]])
    assert_array_equal(cells.quantile(0.9)[[0, 2]], known[[0, 2]])
    assert_array_equal(cells.variance()[[0, 2]], 0.0)
    assert_array_equal(cells.cdf(0.0)[[0, 2]], [0.0, 1.0])
    assert_array_equal(cells.probabilities[[0, 2]].argmax(axis=1), [2, 0])
    assert_array_equal(cells.probabilities[[0, 2]].max(axis=1), 1.0)


def test_frames_name_the_intervals_of_bins_and_the_quantiles_of_other_numbers():
    frame = Predictive([FORMS["bins"]], MISSING).to_frame()
    assert frame.columns[1].left == AXIS[0][0]
    assert_allclose(frame.sum(axis=1), 1.0)
    frame = Predictive([FORMS["normals"]], MISSING).to_frame()
    assert list(frame.columns) == ["mean", "0.05", "0.5", "0.95"]


def test_what_cannot_be_told_is_refused():
    cells = Predictive([FORMS["normals"]], MISSING)
    assert cells.probabilities is None
    assert cells.edges is None
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            cells.quantile(level)
    categories = Predictive([Points(np.arange(3.0), FORMS["points"].prob)], MISSING, ["x"] * 3)
    with pytest.raises(ValueError, match="categories such as .* which are not numbers"):
        categories.quantile(0.5)
    assert repr(categories) == "Predictive(n_rows=4, 3 categories)"


def test_two_estimators_are_mixed_by_their_marginals():
    rng = np.random.default_rng(0)
    number = rng.normal(size=400)
    X = np.column_stack([number, number + rng.normal(size=400)])
    incomplete = np.array([[np.nan, 1.0], [0.5, np.nan]])
    members = [CutsetNetworkBD().fit(X), SoftLearnSPN(random_state=0).fit(X)]
    cells = [member.marginals(incomplete)[0] for member in members]
    mixed = Predictive.mixture(cells, np.array([0.5, 0.5]))
    assert mixed.mean()[0] == pytest.approx(np.mean([c.mean()[0] for c in cells]))
    lower, upper = members[1].interval(incomplete, level=0.8)
    assert cells[1].quantile(0.1)[0] == pytest.approx(lower[0, 0])
    assert cells[1].quantile(0.9)[0] == pytest.approx(upper[0, 0])
    assert mixed.cdf(mixed.quantile(0.25))[0] == pytest.approx(0.25, abs=1e-9)


def test_categories_that_are_numbers_are_counted_by_their_labels():
    prob = np.random.default_rng(3).dirichlet(np.ones(3), size=2)
    labels = np.array([15.0, 5.0, 10.0])
    cells = Predictive([Points(np.arange(3.0), prob)], np.array([np.nan, 1.0]), labels)
    assert_allclose(cells.mean(), [prob[0] @ labels, 5.0])
    assert_allclose(cells.variance(), [prob[0] @ labels**2 - (prob[0] @ labels) ** 2, 0.0])
    assert_allclose(cells.cdf(10.0), [prob[0, 1] + prob[0, 2], 1.0])
    assert cells.quantile(1e-9)[0] == 5.0
    assert cells.quantile(1.0 - 1e-12)[0] == 15.0


def test_a_mixture_refuses_other_cells_labels_and_weights():
    cells = Predictive([FORMS["normals"]], MISSING)
    other = Predictive([FORMS["normals"]], np.array([1.0, np.nan, np.nan, np.nan]))
    with pytest.raises(ValueError, match="members for the same rows"):
        Predictive.mixture([cells, other], np.array([0.5, 0.5]))
    named = [
        Predictive([Points(np.arange(3.0), FORMS["points"].prob)], MISSING, list(labels))
        for labels in ("abc", "abd")
    ]
    with pytest.raises(ValueError, match="members with the same categories"):
        Predictive.mixture(named, np.array([0.5, 0.5]))
    for weight in ([1.0, 1.0], [2.0, -1.0], [1.0]):
        with pytest.raises(ValueError, match=r"weight must have shape \(2,\) or \(4, 2\)"):
            Predictive.mixture([cells, cells], np.array(weight))
    with pytest.raises(ValueError, match="x must be one number or 4, one a row"):
        cells.cdf([1.0, 2.0])
    with pytest.raises(ValueError, match="strictly between 0 and 1, got"):
        cells.quantile([0.1, 0.9])


def test_the_mass_of_a_lattice_is_that_of_its_cells():
    number = Law.fit(np.arange(200.0) % 40, np.ones(200), bounds=(-np.inf, np.inf))
    part = Normals(np.array([0.0]), np.array([1.0]), np.ones((1, 1)))
    cells = Predictive([part], np.array([np.nan]), law=number)
    assert_allclose(cells.cdf(0.0), norm.cdf(0.5))
    assert_allclose(cells.cdf(-1.0), norm.cdf(-0.5))
    assert_array_equal(cells.quantile(0.01), [-2.0])
    assert_array_equal(cells.quantile(0.6), [0.0])


@pytest.mark.parametrize("form", ["normals", "bins"])
@pytest.mark.parametrize("width", [1e-3, 2.0, np.inf])
@pytest.mark.parametrize("distance", [5.0, 12.0, 25.0, 60.0, -8.0, -40.0])
def test_what_lies_within_far_ranges_keeps_its_digits(form, distance, width):
    # Near the mean, and where one minus the distribution function has no digit left.
    if distance < 0.0:
        low, high = distance - width, distance
    else:
        low, high = distance, distance + width
    cells = Predictive([FORMS[form]], MISSING)
    within = cells.within(np.full((4, 1), low), np.full((4, 1), high))
    near, sign = (high, -1.0) if distance < 0.0 else (low, 1.0)

    def density(r, step):
        # Relative to that at the near end: a truth of its own size, whatever the distance.
        x = np.full(4, near + sign * step)
        return np.exp(cells.terms[0].log_density(x)[r] - peak[r])

    peak = cells.terms[0].log_density(np.full(4, near + sign * 1e-9))
    end = min(width, 40.0)
    mean, median = within.mean(), within.quantile(0.5)
    for r in range(4):
        mass, share = (
            quad(lambda u, k=k, r=r: u**k * density(r, u), 0.0, end, limit=200, epsabs=0.0)[0]
            for k in (0, 1)
        )
        assert_allclose(sign * (mean[r] - near), share / mass, rtol=1e-6)
        reach = sign * (median[r] - near)
        assert_allclose(quad(lambda u, r=r: density(r, u), 0.0, reach)[0], 0.5 * mass, rtol=1e-6)
    assert ((low <= mean) & (mean <= high)).all()
    assert (within.variance() <= (high - low) ** 2).all()


def test_a_range_that_no_number_reaches_is_at_its_near_end():
    cells = Predictive([FORMS["normals"]], MISSING)
    within = cells.within(np.full((4, 1), 1e4), np.full((4, 1), 2e4))
    assert_allclose(within.mean(), 1e4)
    assert_allclose(within.quantile(0.1), 1e4)
    assert_allclose(within.variance(), 0.0, atol=1e-6)
