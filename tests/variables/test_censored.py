"""Laws of columns with ranges against slow self-consistency and Kaplan and Meier."""

import numpy as np
from numpy.testing import assert_allclose

from skpc.variables.censored import PowerNormal, Ranges, filled_ranges, fit_support
from tests.naive import censored as slow


def random_cells(seed, n):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 6, n).astype(float)
    high = low + rng.integers(0, 3, n)
    closed = np.ones((2, n), dtype=bool)
    is_range = low < high
    closed[0, is_range] = rng.random(is_range.sum()) < 0.5
    closed[1, is_range] = rng.random(is_range.sum()) < 0.5
    # An open range between neighbours of a lattice would hold nothing.
    closed[1, high == low + 1.0] = True
    is_open = is_range & (rng.random(n) < 0.3)
    high[is_open] = np.inf
    closed[1, is_open] = False
    return Ranges(low, high, closed)


def test_self_consistency_has_the_greatest_likelihood_of_all_masses():
    for seed in range(8):
        cells = random_cells(seed, 25)
        weight = np.random.default_rng(seed).integers(1, 4, 25).astype(float)
        listed = list(zip(cells.low, cells.high, *cells.closed))
        support = fit_support(cells, weight)
        assert_allclose(support.mass.sum(), 1.0)
        below = np.append(0.0, np.cumsum(support.mass))
        held = below[support.last_part + 1] - below[support.first_part]
        best = slow.log_likelihood(slow.turnbull(listed, weight, 2000), listed, weight)
        assert_allclose(weight @ np.log(held), best, atol=1e-3)


def test_times_that_are_censored_have_the_curve_of_kaplan_and_meier():
    rng = np.random.default_rng(0)
    times, events = rng.integers(1, 30, 80).astype(float), rng.random(80) < 0.6
    closed = np.array([events, events])
    support = fit_support(Ranges(times, np.where(events, times, np.inf), closed), np.ones(80))
    for t, alive in slow.kaplan_meier(times, events).items():
        assert_allclose(1.0 - support.mass[support.high <= t].sum(), alive, atol=1e-4)


def test_draws_lie_in_their_ranges_and_have_the_law():
    for seed in range(6):
        cells = random_cells(seed, 200)
        filled = filled_ranges(cells, np.ones(200), np.random.RandomState(seed))
        with_low, with_high = cells.closed
        assert ((cells.low < filled) | ((cells.low == filled) & with_low)).all()
        assert ((filled < cells.high) | ((filled == cells.high) & with_high)).all()


def test_what_lies_below_a_limit_follows_the_power_of_the_rest():
    x = np.random.default_rng(0).lognormal(1.0, 0.8, 2000)
    limit = np.quantile(x, 0.4)
    is_known = x >= limit
    cells = Ranges(
        np.where(is_known, x, 0.0), np.where(is_known, x, limit), np.tile(is_known, (2, 1))
    )
    law = PowerNormal.fit(cells, np.ones(2000), is_positive=True)
    assert law.power == 0.0
    assert_allclose([law.mean, law.sd], [1.0, 0.8], atol=0.06)
    filled = filled_ranges(cells, np.ones(2000), np.random.RandomState(0))
    assert_allclose(filled[~is_known].mean(), x[~is_known].mean(), rtol=0.03)
