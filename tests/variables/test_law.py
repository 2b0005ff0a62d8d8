"""Lattices, atoms, ranges and draws of numeric columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.variables import Law
from skpc.variables.atoms import distinct

RNG = np.random.default_rng(0)
N_ROWS = 400
COLUMNS = {
    "normal": RNG.normal(size=N_ROWS),
    "skew": np.exp(RNG.normal(size=N_ROWS)),
    "integers": np.round(RNG.normal(40.0, 12.0, N_ROWS)),
    "cents": np.round(np.exp(RNG.normal(3.0, 1.0, N_ROWS)), 2),
    "halves": RNG.integers(0, 60, N_ROWS) / 2.0,
    "quarters": RNG.integers(-9, 99, N_ROWS) / 4.0,
    "fives": 5.0 * RNG.integers(0, 50, N_ROWS),
    "odd": 2.0 * RNG.integers(0, 50, N_ROWS) + 1.0,
    "tens and three": 10.0 * RNG.integers(-20, 20, N_ROWS) + 3.0,
    "thirds": RNG.integers(0, 40, N_ROWS) / 3.0,
    "zeros": np.where(RNG.random(N_ROWS) < 0.5, 0.0, np.exp(RNG.normal(size=N_ROWS))),
    "negative": -np.exp(RNG.normal(size=N_ROWS)),
}
STEPS = {
    "normal": (0.0, 0.0),
    "skew": (0.0, 0.0),
    "integers": (1.0, 0.0),
    "cents": (0.01, 0.0),
    "halves": (0.5, 0.0),
    "quarters": (0.25, 0.0),
    "fives": (5.0, 0.0),
    "odd": (2.0, 1.0),
    "tens and three": (10.0, 3.0),
    "thirds": (1 / 3, 0.0),
    "zeros": (0.0, 0.0),
    "negative": (0.0, 0.0),
}
every_column = pytest.mark.parametrize("name", COLUMNS)


def fit(values, weight=None, **options) -> Law:
    values = np.asarray(values, dtype=float)
    return Law.fit(values, np.ones(len(values)) if weight is None else weight, **options)


@every_column
def test_the_lattice_of_a_column_is_found(name):
    number = fit(COLUMNS[name])
    assert_allclose((number.step, number.origin), STEPS[name], rtol=1e-12)


@every_column
def test_one_unusual_value_changes_nothing(name):
    plain = fit(COLUMNS[name])
    for unusual in (0.123456789, 17.31, -1234.5, 1e20, -1e30):
        changed = fit(np.append(COLUMNS[name], unusual))
        assert (changed.step, changed.origin) == (plain.step, plain.origin), unusual
        assert_array_equal(changed.atoms, plain.atoms)


def test_rounding_makes_no_new_values():
    noise = np.random.default_rng(1).choice([-1e-16, 0.0, 1e-16], N_ROWS)
    assert_array_equal(fit(COLUMNS["zeros"] + noise).atoms, fit(COLUMNS["zeros"] - 1e-16).atoms)
    assert len(fit(COLUMNS["zeros"] + noise).atoms) == 1
    assert fit(COLUMNS["zeros"] + noise).is_atom(noise).all()


@pytest.mark.parametrize(
    ("offset", "spread"), [(1e15, 2.0), (1e12, 2.0), (5.0, 1e-14), (0.0, 1e-300)]
)
def test_values_close_together_far_from_zero_are_told_apart(offset, spread):
    values = offset + spread * np.random.default_rng(0).normal(size=N_ROWS)
    number = fit(values)
    assert_array_equal(number.atoms, [])
    assert_array_equal(distinct(values, np.ones(N_ROWS))[0], np.unique(values))
    z = number.score.transform(values)
    assert_allclose(number.score.inverse(z), values, rtol=1e-15)
    assert 0.5 < z.std() < 2.0


def test_a_constant_with_errors_of_rounding_is_one_value():
    values = np.full(N_ROWS, 1e15)
    values[::3], values[1::3] = np.nextafter(values[::3], np.inf), values[1::3] - 0.25
    for factor in (1.0, 1e-12, -3.0):
        assert len(fit(factor * values).atoms) == 1
        assert fit(factor * values).is_atom(factor * values).all()


def test_values_that_are_close_together_are_no_lattice_of_whole_numbers():
    assert fit([1.0, 1.0000001]).step == pytest.approx(1e-7)
    assert fit(1.0 + 1e-8 * RNG.normal(size=60)).step == 0.0
    assert fit(1e-9 * RNG.normal(size=60)).step == 0.0
    assert_array_equal(fit([0.0, 5e-324]).atoms, [0.0])


@pytest.mark.parametrize("unit", [1e-12, 1.7e-27, 1e30, 3e150])
def test_lattices_are_found_in_any_unit(unit):
    rng = np.random.default_rng(0)
    for values, step in (
        (rng.integers(30, 900, N_ROWS), 1.0),
        (5.0 * rng.poisson(20.0, N_ROWS), 5.0),
        (np.repeat([3.0, 10.0, 40.0, 90.0, 200.0, 410.0, 900.0, 1500.0, 1501.0], 40), 1.0),
    ):
        plain, number = fit(values), fit(unit * values)
        assert plain.step == step
        # Many whole numbers that hardly repeat tell a lattice in decimal units only.
        if len(np.unique(values)) <= 0.5 * N_ROWS or unit in (1e-12, 1e30):
            assert number.step == pytest.approx(step * unit, rel=1e-9)
            assert_allclose(number.atoms, unit * plain.atoms, rtol=1e-9)
            drawn = np.array([0.3, 41.2, 701.4])
            assert_allclose(number.values(unit * drawn), unit * plain.values(drawn), rtol=1e-9)


def test_sums_of_decimals_are_on_the_lattice_of_these():
    sums = np.cumsum(np.full(200, 0.1))
    number = fit(sums)
    assert number.step == 0.1
    # Snapped values are the floats that the decimals are written as.
    assert_array_equal(number.values(sums), np.arange(1, 201) / 10)


def test_atoms_repeat_much_more_than_the_values_around_them():
    spread = np.sort(RNG.normal(size=200)) * 10.0
    assert_array_equal(fit(spread).atoms, [])
    # A value of a twentieth of the rows is an atom, and of a hundredth if there are eight of it.
    assert_array_equal(fit(np.append(spread, np.full(11, 1.5))).atoms, [1.5])
    assert_array_equal(fit(np.append(spread, np.full(8, 1.5))).atoms, [1.5])
    assert_array_equal(fit(np.append(spread, np.full(3, 1.5))).atoms, [])
    # On a lattice where neighbours repeat as much, none is.
    assert_array_equal(fit(np.repeat(np.arange(30.0), 20)).atoms, [])
    # Four times what its neighbours have is enough.
    peak = np.append(np.repeat(np.arange(30.0), 5), np.full(18, 7.0))
    assert_array_equal(fit(peak).atoms, [7.0])
    assert_array_equal(fit(peak[:-5]).atoms, [])


def test_points_of_a_lattice_that_do_not_occur_count_as_neighbours():
    # Values are where few points of their lattice are: all that repeat are atoms.
    sparse = np.repeat(1e-4 * np.array([3.0, 40.0, 777.0, 1234.0, 5001.0] * 6), 40)
    sparse = np.round(sparse + np.repeat(np.arange(6.0), 200), 4)
    number = fit(np.append(sparse, [0.0101, 2.0202]))
    assert number.step == pytest.approx(1e-4)
    assert_array_equal(number.atoms, np.unique(np.append(sparse, [0.0101, 2.0202])))
    # More values than ordered states have: those that repeat.
    others = 0.0001 * np.arange(7.0, 30_000.0, 1000.0)
    number = fit(np.concatenate([sparse, others]))
    assert_array_equal(number.atoms, np.unique(sparse))
    # One for every forty rows, but twenty at least.
    many = np.repeat(np.cumsum(np.arange(1.0, 61.0)), 8)
    rest = np.repeat(np.arange(2001.0, 2101.0), 8)
    assert len(fit(np.append(many, rest)).atoms) == 1280 // 40
    assert len(fit(np.append(many[:400], rest[:160])).atoms) == 20


def test_there_are_at_most_eight_atoms_without_a_lattice_the_most_frequent_ones():
    spread, count = np.sort(RNG.normal(size=600)), np.arange(30, 42)
    atoms = np.repeat(np.linspace(-2.0, 2.0, 12) + 1e-3, count)
    found = fit(np.append(spread, atoms)).atoms
    assert_allclose(found, (np.linspace(-2.0, 2.0, 12) + 1e-3)[-8:])


def test_declared_atoms_take_the_place_of_those_found():
    assert_array_equal(fit(COLUMNS["zeros"], atoms=[2.0, -1.0, 2.0]).atoms, [-1.0, 2.0])
    assert_array_equal(fit(COLUMNS["zeros"], atoms=[]).atoms, [])


def test_a_constant_is_an_atom():
    for value in (3.7, 5.0, 0.0, -1e8, 1e-9):
        number = fit(np.full(20, value))
        assert_array_equal(number.atoms, [value])
        assert_array_equal(number.values(np.array([value, np.nan])), [value, np.nan])
        assert number.ends == (value, value)


BRACKETS = np.repeat([0.19, 0.22, 0.27, 0.32, 0.42, 0.72], [80, 120, 20, 10, 30, 40])


@pytest.mark.parametrize("values", [BRACKETS, np.sqrt(BRACKETS)], ids=["lattice", "no lattice"])
def test_brackets_are_ordered_states_whether_they_lie_on_a_lattice_or_not(values):
    number = fit(values)
    assert number.is_ordered
    assert_array_equal(number.atoms, np.unique(values))
    drawn = np.array([0.0, values[0], 0.5, 9.0, np.nan])
    nearest = number.atoms[np.abs(drawn[2] - number.atoms).argmin()]
    expected = [number.low, values[0], nearest, number.high, np.nan]
    assert_array_equal(number.values(drawn), expected)


def test_many_values_or_few_rows_of_each_are_no_ordered_states():
    squares = np.arange(25.0) ** 2
    assert not fit(np.repeat(np.sqrt(squares + 2.0)[:21], 200)).is_ordered
    assert not fit(np.repeat(np.sqrt(squares + 2.0)[:10], 7)).is_ordered
    # On a lattice they may be more: none has anything next to it.
    assert fit(np.repeat(squares[:21], 200)).is_ordered
    # Fractions that are written with six digits are on a lattice that is nearly empty.
    fractions = np.round(np.arange(48.0) / 47.0, 6)
    assert fit(np.repeat(fractions, 8)).is_ordered
    assert not fit(np.repeat(fractions, 7)).is_ordered
    assert not fit(np.repeat(np.arange(48.0), 8)).is_ordered
    assert fit(np.repeat(squares[:10], 8)).is_ordered
    # Small whole numbers are so few that they are never other numbers.
    assert fit(np.arange(15.0)).is_ordered
    assert not fit(np.arange(-1.0, 14.0)).is_ordered
    assert not fit(BRACKETS, atoms=[]).is_ordered


def test_few_values_without_a_lattice_are_all_that_draws_can_have():
    values = np.sqrt(np.repeat(np.arange(30.0), np.arange(30) % 3 + 2))
    number = fit(values)
    assert number.step == 0.0
    assert_array_equal(number.seen, np.unique(values))
    drawn = np.array([0.01, 1.1, -5.0, 99.0, 3.99, np.nan])
    wanted = [0.0, 1.0, 0.0, number.high, 4.0, np.nan]
    assert_allclose(number.values(drawn), wanted)


def test_cells_of_values_end_where_draws_turn_to_the_next():
    rng = np.random.default_rng(0)
    values = np.append(np.sqrt(2.0) * rng.integers(0, 40, 300), np.full(60, 7.123))
    number = fit(values)
    assert_array_equal(number.atoms, [7.123])
    assert len(number.seen) == 40
    line = np.linspace(-1.0, 57.0, 5001)
    drawn = number.values(line)
    for q in np.append(number.seen, [0.5, 7.123, 20.0, 33.3]):
        # What is drawn up to the edge is not above the value, as a share of the line.
        edge = number.upper_edges(np.array([q]))[0]
        assert_array_equal(drawn <= q, line <= edge)
        # The atom belongs to what is up to there where it should.
        assert (edge >= 7.123) == (q >= 7.123)


def test_draws_of_round_numbers_are_as_frequent_as_in_the_rows():
    rng = np.random.default_rng(0)
    smooth = rng.gamma(3.0, 1000.0, (2, 20_000))
    is_round = rng.random(3000) < 0.7
    rows = np.where(
        is_round, np.sqrt(2.0) * np.rint(smooth[0, :3000] / 90.0) * 60.0, smooth[0, :3000]
    )
    number = fit(rows, atoms=[])
    smooth[1] = np.clip(smooth[1], number.low, number.high)
    drawn = number.values(smooth[1])
    values, counts = np.unique(rows, return_counts=True)
    assert np.isin(drawn, values).all()
    often = values[counts > 20]
    nearest = values[np.searchsorted(0.5 * (values[1:] + values[:-1]), smooth[1])]
    share, of_nearest, of_rows = (np.isin(x, often).mean() for x in (drawn, nearest, rows))
    assert share > 0.75 * of_rows > 2.0 * of_nearest
    # They stay near.
    assert np.abs(drawn - smooth[1]).max() < 0.5 * rows.std()
    assert np.abs(drawn - smooth[1]).mean() < 0.05 * rows.std()


def test_draws_next_to_each_other_on_a_lattice_are_rounded():
    counts = np.random.default_rng(0).geometric(0.1, 1000) - 20.0
    number = fit(counts, atoms=[])
    draws = np.linspace(-19.4, 0.4, 400)
    assert_array_equal(number.values(draws), np.rint(draws) + 0.0)


@every_column
def test_draws_become_values_that_the_column_could_have(name):
    number, values = fit(COLUMNS[name]), COLUMNS[name]
    low, high = number.ends
    assert low <= values.min()
    assert values.max() <= high
    size = np.ptp(values)
    draws = np.random.default_rng(1).uniform(values.min() - size, values.max() + size, 3000)
    drawn = number.values(draws)
    if number.step:
        multiples = (drawn - number.origin) / number.step
        assert_allclose(multiples, np.rint(multiples), atol=1e-9)
        inside = (low <= draws) & (draws <= high)
        assert np.abs(drawn - draws)[inside].max() <= number.step / 2 * (1 + 1e-9)
    elif len(number.seen):
        assert np.isin(drawn, np.union1d(number.seen, number.atoms)).all()
    assert drawn.min() >= low
    assert drawn.max() <= high
    # Values that crowd zero, or have it as an atom, stay on their side of it.
    if name in ("skew", "zeros", "halves", "cents", "thirds"):
        assert drawn.min() >= 0
    if name == "negative":
        assert drawn.max() <= 0
    # A value of the column stays what it is.
    assert_array_equal(number.values(values), values)


def test_draws_do_not_cross_a_bound():
    values = np.append(COLUMNS["normal"], [-4.0, 4.0])
    number = fit(values, bounds=(-4.02, 4.02))
    assert number.ends == (-4.02, 4.02)
    assert (number.score.lower, number.score.upper) == (-4.02, 4.02)
    assert number.score.soft == 0.0


@every_column
def test_a_weight_of_two_counts_like_two_rows(name):
    values = COLUMNS[name]
    weight = np.random.default_rng(2).integers(1, 4, N_ROWS)
    weighted = fit(values, weight.astype(float))
    repeated = fit(np.repeat(values, weight)[::-1])
    for one, two in zip(weighted, repeated):
        assert_allclose(one, two, rtol=1e-12)
    missing = fit(np.append(values, [np.nan] * 30), np.append(weight, np.ones(30)))
    for one, two in zip(weighted, missing):
        assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["normal", "skew", "zeros", "halves"])
@pytest.mark.parametrize(
    ("a", "b"), [(0.3048, 0.0), (1.8, 32.0), (1e9, 0.0), (1e-7, 0.0), (1.7e-27, 0.0), (1e30, 0.0)]
)
def test_other_units_have_the_same_scores(name, a, b):
    if b != 0.0 and name == "skew":
        pytest.skip("zero is an end of the column, and in the other unit it is not")
    values = COLUMNS[name]
    one, two = fit(values), fit(a * values + b)
    assert_allclose(two.atoms, a * one.atoms + b, rtol=1e-9)
    rest = ~one.is_atom(values)
    assert_allclose(
        two.scaled(a * values + b)[rest], one.scaled(values)[rest], rtol=1e-6, atol=1e-9
    )
    assert_allclose(two.ends, a * np.array(one.ends) + b, rtol=1e-6)


def test_the_end_of_a_cell_is_where_the_next_begins():
    number = fit(COLUMNS["odd"])
    at = np.array([1.0, 2.9, 3.0, 3.1, 0.99, -7.0])
    assert_allclose(number.upper_edges(at), [2.0, 2.0, 4.0, 4.0, -np.inf, -np.inf])
    cents = fit(COLUMNS["cents"])
    points = np.arange(3000) / 100
    assert_allclose(cents.upper_edges(points), points + 0.005, atol=1e-12)


@pytest.mark.parametrize("code", [-1.0, 999.0, 999999.0])
def test_a_code_far_from_all_other_values_is_an_atom(code):
    values = RNG.integers(20, 70, 2000).astype(float)
    values[RNG.random(2000) < 0.06] = code
    assert fit(values).atoms.tolist() == [code]


def test_dates_in_seconds_have_the_lattice_of_days():
    assert fit(86400.0 * RNG.integers(18000, 19000, 500)).step == 86400.0


def _samples():
    rng = np.random.default_rng(0)
    return {
        "uniform": (rng.uniform(0.0, 3000.0, 1000), (True, True)),
        "whole": (rng.integers(0, 60, 1000).astype(float), (True, True)),
        "arcsine": (np.sin(rng.uniform(-1.5, 1.5, 1000)), (True, True)),
        "normal": (rng.normal(size=1000), (False, False)),
        "exponential": (rng.exponential(size=1000), (True, False)),
        "minus exponential": (-rng.exponential(size=1000), (False, True)),
        "clusters": (rng.choice([-3.0, 3.0], 1000) + 0.3 * rng.normal(size=1000), (False, False)),
        "few rows": (rng.uniform(size=150), (False, False)),
        "far away": (1e12 + rng.uniform(size=1000), (False, False)),
        "tiny": (1e-12 * rng.uniform(size=1000), (True, True)),
        # Many rows of a skewed column are near its thin end; only zero is a natural one.
        "log-normal": (5.0 + rng.lognormal(sigma=0.8, size=1000), (False, False)),
        "log-normal in cents": (5.0 + rng.lognormal(sigma=0.8, size=1000).round(2), (False, False)),
        "log-normal from zero": (rng.lognormal(sigma=0.8, size=1000), (True, False)),
        "tenths": ((5.0 + 3.0 * rng.random(1000)).round(1), (True, True)),
        "half normal": (3.0 + np.abs(rng.normal(size=1000)), (True, False)),
    }


@pytest.mark.parametrize("name", _samples())
def test_a_column_ends_where_its_values_crowd(name):
    values, crowds = _samples()[name]
    number = Law.fit(values, np.ones(len(values)))
    assert number.bounds == (-np.inf, np.inf)
    assert tuple(np.isfinite(number.ends)) == crowds
    assert tuple(np.isfinite(number.score[:2])) == crowds
    assert (number.linear_score.soft > 0.0) == any(crowds)
    open_number = Law.fit(values, np.ones(len(values)), bounds=(-np.inf, np.inf))
    assert np.isinf(open_number.score[:2]).all()
    if all(crowds):
        # In the middle of the range, a column of no power is as it is.
        line = number.linear_score.transform(values)
        middle = np.abs(values - np.median(values)) < 0.3 * np.ptp(values)
        slope = np.polyfit(values[middle], line[middle], 1)
        assert_allclose(np.polyval(slope, values[middle]), line[middle], atol=0.02)


def test_no_answer_crosses_zero_or_a_bound():
    values = np.random.default_rng(0).exponential(size=300)
    for sign, ends in ((1.0, (0.0, np.inf)), (-1.0, (-np.inf, 0.0))):
        assert Law.fit(sign * values, np.ones(300)).ends == ends
    # Elsewhere the end is not far from the values.
    lower, upper = Law.fit(values - 1.0, np.ones(300)).ends
    assert lower == pytest.approx(values.min() - 1.0 - 0.01 * np.ptp(values))
    assert upper == np.inf
    bounded = Law.fit(values - 1.0, np.ones(300), bounds=(-1.0, np.inf))
    assert bounded.ends == (-1.0, np.inf)
    assert_array_equal(bounded.values(np.array([-3.0, np.nan, 0.5])), [-1.0, np.nan, 0.5])


def test_a_column_ends_at_an_atom_that_is_its_least_or_greatest_value():
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(500) < 0.4, 0.0, rng.gamma(2.0, size=500))
    assert fit(rain).ends == (0.0, np.inf)
    assert fit(-rain).ends == (-np.inf, 0.0)
    assert fit(np.minimum(rng.normal(size=500), 1.0)).ends == (-np.inf, 1.0)
    # There is nothing beside a constant.
    assert fit(np.full(30, 2.0)).ends == (2.0, 2.0)


def test_no_edge_lies_below_infinity_where_no_atom_follows():
    rng = np.random.default_rng(0)
    number = fit(np.append(np.sqrt(2.0) * rng.integers(1, 40, 300), np.full(60, 7.123)))
    edges = number._edges_of_cells(np.array([number.seen[-1], 1e300]))
    assert_array_equal(edges, [np.inf, np.inf])
