"""Axes that follow the margins of their columns: what they are states of, and their densities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.variables import Bins, Histogram, HistogramTable, Law, Predictive, fit_histogram
from skpc.variables.histogram import _bins
from skpc.variables.margins import _BANDWIDTHS, _smoothed
from tests.naive import domain as naive
from tests.variables.test_law import COLUMNS

COLUMNS = COLUMNS | {
    "counts": np.random.default_rng(1).poisson(3.0, 400).astype(float),
    "few": np.random.default_rng(1).choice([0.0, 5.0, 10.0, 200.0], 300),
    "two": np.random.default_rng(1).choice([0.3, 0.7], 100),
    "constant": np.full(50, 3.7),
    "whole constant": np.full(50, 5.0),
    "two humps": np.append(COLUMNS["normal"], 0.2 * COLUMNS["normal"] + 9.0),
    "tiny": np.array([1.0, 2.5, 7.25, 7.5]),
    "one row": np.array([1.5]),
    "great": 1e9 + COLUMNS["normal"],
    "censored": np.clip(COLUMNS["normal"], -1.0, 1.0),
}
every_column = pytest.mark.parametrize("name", COLUMNS)


def fit(values, weight=None, n_bins: int = 8, **options) -> tuple[Law, Histogram]:
    values = np.asarray(values, dtype=float)
    weight = np.ones(len(values)) if weight is None else weight
    number = Law.fit(values, weight, **options)
    margin = fit_histogram(values, weight, number)
    n_rows = float(np.sum(weight[~np.isnan(values)]))
    return number, margin.binned(min(n_bins, margin.enough_bins(n_rows)))


def density(axis: Histogram, prob: np.ndarray, values: np.ndarray) -> np.ndarray:
    rows = np.reshape(values, (-1, 1)).astype(float)
    table = HistogramTable.from_axes([axis])
    return np.exp(table.log_density(rows)) * prob[table.states(rows)[:, 0]]


def is_mass(number: Law) -> bool:
    return number.step == 0.0


@every_column
def test_densities_and_probabilities_of_an_axis_sum_to_one(name):
    number, axis = fit(COLUMNS[name])
    prob = np.random.default_rng(0).dirichlet(np.ones(axis.n_states))
    width = 1.0 if is_mass(number) else number.step
    total = density(axis, prob, number.atoms).sum() * width
    table = HistogramTable.from_axes([axis])
    if number.step > 0.0:
        # The density of a point of the lattice is the mean one of its cell.
        n_points = round(40 * max(axis.lower_scale, axis.upper_scale) / number.step)
        below = axis.edges[0] + number.step * (np.arange(-n_points, 0) + 0.5)
        above = axis.edges[-1] + number.step * (np.arange(n_points) + 0.5)
        beyond = np.append(below[below > axis.low], above[above < axis.high])
        total += density(axis, prob, beyond).sum() * number.step
        axis = axis._replace(low=axis.edges[0], high=axis.edges[-1])
    ends = [max(axis.edges[0] - 40 * axis.lower_scale, axis.low), *axis.edges]
    ends.append(min(axis.edges[-1] + 40 * axis.upper_scale, axis.high))
    nodes, weights = np.polynomial.legendre.leggauss(80)
    for low, high, point in zip(ends[:-1], ends[1:], axis.points):
        if np.isnan(point) and high > low:
            half = (high - low) / 2
            x = (low + half * (nodes + 1))[:, np.newaxis]
            states = table.states(x)[:, 0]
            assert len(set(states.tolist())) == 1
            total += half * weights @ (np.exp(table.log_density(x)) * prob[states])
    assert total == pytest.approx(1.0, abs=1e-6 if name != "great" else 1e-3)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("spread", "n_rows"), [(0.5, 20), (3.0, 40), (6.0, 90)])
def test_the_bandwidth_has_the_greatest_leave_one_out_likelihood(spread, n_rows, tied):
    rng = np.random.default_rng(n_rows)
    place = np.sort(np.clip(np.rint(rng.normal(9.0, spread, n_rows)), 0, 29).astype(int))
    mass = rng.integers(1, 3, n_rows) * rng.choice([0.5, 1.0], n_rows)
    bandwidths = _BANDWIDTHS[0 if tied else 1 : np.searchsorted(_BANDWIDTHS, 30)]
    wanted = naive.smoothed(place.tolist(), mass.tolist(), 30, bandwidths, tied)
    assert_allclose(_smoothed(place, mass, 30, tied), wanted, rtol=1e-9)


@every_column
def test_each_atom_is_a_state_and_the_others_are_bins_of_similar_mass(name):
    number, axis = fit(COLUMNS[name])
    values = COLUMNS[name]
    assert_array_equal(axis.atoms, number.atoms)
    assert_allclose(axis.mixing.sum(axis=1), 1.0)
    states = axis.states_of(values)
    at = number.is_atom(values)
    # Bins of ordered states have several of them, and others those that are not frequent.
    share = np.array([np.mean(values == atom) for atom in number.atoms])
    alone = np.isin(values, number.atoms[np.argsort(-share)[:8]]) & at
    alone &= np.isin(values, number.atoms[share >= 0.05])
    if len(number.atoms) > 1 and not number.is_ordered:
        assert np.unique(states[alone]).size == np.unique(values[alone]).size
    if not name.endswith("constant"):
        assert not set(states[alone]) & set(states[~at])
    n_rest = (~at).sum()
    most = max(1, round(n_rest / len(values) * np.sqrt(len(values) / 8)))
    assert axis.n_states <= min(8, most) + len(number.atoms)
    if n_rest >= 200 and number.step == 0.0:
        counts = np.bincount(states[~at])
        counts = counts[counts > 0]
        assert counts.max() <= 2.5 * counts.min() + 5


@every_column
def test_the_array_that_kernels_read_gives_the_axis_back(name):
    _, axis = fit(COLUMNS[name])
    for one, two in zip(Histogram.from_flat(axis.flat), axis):
        assert_array_equal(np.asarray(one), np.asarray(two))


@every_column
def test_far_values_that_have_not_been_seen_have_finite_densities(name):
    _, axis = fit(COLUMNS[name])
    prob = np.full(axis.n_states, 1.0 / axis.n_states)
    scale = np.ptp(COLUMNS[name]) or 1.0
    at = np.linspace(axis.edges[0] - 3 * scale, axis.edges[-1] + 3 * scale, 400)
    log_density = HistogramTable.from_axes([axis]).log_density(at[:, None])
    assert np.isfinite(log_density + np.log(prob[axis.states_of(at)])).all()
    far = HistogramTable.from_axes([axis]).log_density(np.array([[-1e15], [1e15]]))
    assert not np.isnan(far).any()


@every_column
def test_moments_of_a_column_are_near_those_of_its_rows(name):
    values = COLUMNS[name]
    _, axis = fit(values)
    share = np.bincount(axis.states_of(values), minlength=axis.n_states) / len(values)
    mean = share @ axis.moments()[0]
    assert abs(mean - values.mean()) <= 0.1 * values.std() + 1e-9 * abs(mean)


@every_column
def test_draws_become_values_that_the_column_could_have(name):
    values = COLUMNS[name]
    number, axis = fit(values)
    share = np.bincount(axis.states_of(values), minlength=axis.n_states) / len(values)
    states = np.random.default_rng(0).choice(axis.n_states, 4000, p=share)
    drawn = HistogramTable.from_axes([axis]).draw(
        states[:, None], np.full((4000, 1), np.nan), seed=1
    )
    assert_array_equal(axis.states_of(drawn[:, 0]), states)
    found = number.values(drawn[:, 0])
    assert found.min() >= number.ends[0]
    assert found.max() <= number.ends[1]
    wanted = number.is_atom(values).mean()
    assert number.is_atom(found).mean() == pytest.approx(wanted, abs=0.04)


@every_column
def test_a_weight_of_two_counts_like_two_rows(name):
    values = COLUMNS[name]
    weight = np.random.default_rng(2).integers(1, 4, len(values))
    _, one = fit(values, weight.astype(float))
    _, two = fit(np.repeat(values, weight)[::-1])
    assert_array_equal(one.states, two.states)
    assert_allclose(one.edges, two.edges, rtol=1e-12)
    assert_allclose(one.shares, two.shares, rtol=1e-6)
    assert_allclose(one.widths, two.widths, rtol=1e-6)


@pytest.mark.parametrize("name", ["normal", "skew", "zeros", "two humps", "negative"])
@pytest.mark.parametrize(("a", "b"), [(0.3048, 0.0), (1.8, 32.0), (1e6, 0.0)])
def test_other_units_leave_all_probabilities_unchanged(name, a, b):
    if b != 0.0 and name in ("skew", "negative"):
        pytest.skip("zero is an end of the column, and in the other unit it is not")
    values = COLUMNS[name]
    (number, one), (_, two) = fit(values), fit(a * values + b)
    prob = np.random.default_rng(0).dirichlet(np.ones(one.n_states))
    assert two.n_states == one.n_states
    at = np.quantile(values, [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
    below = Bins(one, prob[None].repeat(len(at), axis=0)).below(at)
    scaled = Bins(two, prob[None].repeat(len(at), axis=0)).below(a * at + b)
    assert_allclose(scaled, below, atol=1e-6)
    # Densities only change scale.
    change = density(two, prob, a * at[2] + b) * a / density(one, prob, at[2])
    if not number.is_atom(at[2:3])[0]:
        assert change == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("name", ["integers", "cents", "halves", "odd", "counts", "few"])
def test_on_a_lattice_the_cdf_is_a_step_function_and_the_quantile_its_inverse(name):
    values = COLUMNS[name]
    number, axis = fit(values)
    share = np.bincount(axis.states_of(values), minlength=axis.n_states) / len(values)
    cells = Predictive([Bins(axis, share[None])], np.array([np.nan]), law=number)
    points = np.unique(values)[:40]
    at = [cells.cdf(x)[0] for x in points]
    assert_allclose([cells.cdf(x + 0.6 * number.step)[0] for x in points], at, atol=1e-12)
    before = [cells.cdf(x - 1e-4 * number.step)[0] for x in points]
    assert np.all(np.array(before) < at)
    for level in np.linspace(0.03, 0.97, 21):
        found = cells.quantile(level)[0]
        assert number.values(np.array([found]))[0] == found
        assert cells.cdf(found)[0] >= level - 1e-9
        assert cells.cdf(found - number.step / 2)[0] <= level + 1e-9
    # The distribution function of a column is near that of its rows.
    empirical = np.array([np.mean(values <= x) for x in points])
    assert np.abs(empirical - at).max() < 0.06


def test_an_interval_may_be_one_point():
    values = COLUMNS["zeros"].copy()
    values[:200] = 0.0
    number, axis = fit(values)
    share = np.bincount(axis.states_of(values), minlength=axis.n_states) / len(values)
    cells = Predictive([Bins(axis, share[None])], np.array([np.nan]), law=number)
    assert (cells.quantile(0.1)[0], cells.quantile(0.6)[0]) == (0.0, 0.0)


def test_a_constant_is_a_point_mass_with_nothing_beside_it():
    number, axis = fit(np.full(50, 3.7))
    assert number.ends == (3.7, 3.7)
    log_density = HistogramTable.from_axes([axis]).log_density(np.array([[3.7], [3.8], [-1.0]]))
    assert abs(log_density[0]) < 1e-12
    # Another value is nearly impossible.
    assert np.all((log_density[1:] < -30.0) & np.isfinite(log_density[1:]))


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e100, 1e149])
def test_columns_of_any_magnitude_get_finite_densities(scale):
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=60), rng.integers(0, 2, 60), np.ones(9), COLUMNS["zeros"]):
        _, axis = fit(values * scale)
        assert np.isfinite(axis.flat[[0, 1]]).all()
        assert np.isfinite(axis.edges).all()
        assert np.all(np.diff(axis.edges) > 0)
        assert np.isfinite(
            HistogramTable.from_axes([axis]).log_density(values[:, None] * scale)
        ).all()


def test_bins_that_atoms_divide_are_no_states_of_atoms():
    # Three stretches with an atom between each two: more bins than were asked for.
    cells = np.array([1.0, 0.0, 1.0, 0.0, 1.0]) / 3.0
    is_atom = cells == 0.0
    no_gap = np.zeros(5, bool)
    for n_bins in (1, 2, 3):
        states = _bins(cells, is_atom, no_gap, n_bins, 60.0)
        assert len({*states[is_atom].tolist()}) == 2
        assert not {*states[is_atom].tolist()} & {*states[~is_atom].tolist()}
