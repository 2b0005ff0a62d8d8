"""quantiles against posterior distribution functions, leaf by leaf."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skpc.circuit import CircuitBuilder
from skpc.queries import quantiles
from skpc.variables import Normals
from tests.naive import circuit as naive
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

LEVELS = [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6]


@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
@pytest.mark.parametrize("kinds", ["gaussian", "histogram", "atoms", "scored", "mixed"])
def test_the_share_below_a_quantile_is_its_level(make, kinds):
    for seed in range(3):
        circuit = make(seed, n_features=3, kinds=kinds)
        rows = random_rows(seed + 3, circuit, 4, 0.5)
        found = quantiles(circuit, rows, LEVELS)
        assert found.shape == (5, 4, 3)
        for r, row in enumerate(rows):
            for var in range(3):
                if not np.isnan(row[var]):
                    assert_array_equal(found[:, r, var], row[var])
                elif not naive.is_number(circuit, var):
                    assert np.isnan(found[:, r, var]).all()
                else:
                    check_quantiles(circuit, row, var, found[:, r, var])


def check_quantiles(circuit, row, var, found):
    """The distribution function reaches each level at its quantile: there it may jump."""
    for level, x in zip(LEVELS, found):
        share = naive.share_below(circuit, row, var, x)
        if x in naive.atoms_of(circuit, var):
            assert naive.share_below(circuit, row, var, np.nextafter(x, -np.inf)) < level * (
                1 + 1e-9
            )
            assert share > level * (1 - 1e-9)
        else:
            assert share == pytest.approx(level, rel=1e-7)


def test_far_apart_parts_of_a_mixture_are_told_apart():
    builder = CircuitBuilder([0])
    parts = [builder.gaussian(0, mean, sd) for mean, sd in ((-1e6, 1e-3), (0.0, 1.0), (1e8, 1.0))]
    builder.sum(parts, np.log([0.3, 0.4, 0.3]))
    found = quantiles(builder.build(), [[np.nan]], [0.15, 0.5, 0.85])
    assert_allclose(found.ravel(), [-1e6, 0.0, 1e8], rtol=1e-12, atol=1e-7)


@pytest.mark.parametrize(
    ("offset", "sd"), [(1e15, 2.0), (-1e12, 1e-2), (0.0, 1e-300), (0.0, 1e140)]
)
def test_quantiles_are_as_exact_as_floats_at_any_offset_and_spread(offset, sd):
    builder, units = CircuitBuilder([0]), [(-2.0, 1.0), (0.0, 0.25), (3.0, 1.0)]
    parts = [builder.gaussian(0, offset + sd * mean, sd * width) for mean, width in units]
    builder.sum(parts, np.log([0.3, 0.4, 0.3]))
    found = quantiles(builder.build(), [[np.nan]], LEVELS).ravel()
    plain = CircuitBuilder([0])
    plain.sum([plain.gaussian(0, *unit) for unit in units], np.log([0.3, 0.4, 0.3]))
    expected = offset + sd * quantiles(plain.build(), [[np.nan]], LEVELS).ravel()
    assert_allclose(found, expected, rtol=0, atol=2.0 * np.spacing(abs(offset)) + 1e-9 * sd)


def test_a_narrow_part_far_from_the_others_is_found_to_its_own_precision():
    builder = CircuitBuilder([0])
    parts = [builder.gaussian(0, mean, sd) for mean, sd in ((0.0, 1e-9), (1e6, 1.0))]
    builder.sum(parts, np.log([0.5, 0.5]))
    found = quantiles(builder.build(), [[np.nan]], [0.05, 0.45])
    assert_allclose(found.ravel(), norm.ppf([0.1, 0.9]) * 1e-9, rtol=1e-9)


@pytest.mark.parametrize("widest", [0.0, 6.0])
def test_quantiles_of_mixtures_of_any_parts_reach_their_level(widest):
    rng = np.random.default_rng(0)
    for n_parts in (2, 5, 12, 25):
        mean, sd = 3.0 * rng.normal(size=n_parts), rng.uniform(0.1, 2.0, n_parts)
        sd *= 10.0 ** rng.uniform(-widest, widest, n_parts)
        prob = rng.dirichlet(np.ones(n_parts), 2000)
        for level in (1e-3, 0.05, 0.5, 0.95):
            found = Normals(mean, sd, prob).quantiles(level)
            near = 4.0 * np.spacing(np.maximum(np.abs(found), np.abs(mean).max()))
            low, high = (
                (prob * norm.cdf((x[:, np.newaxis] - mean) / sd)).sum(axis=1)
                for x in (found - near, found + near)
            )
            assert (low <= level * (1 + 1e-10)).all()
            assert (high >= level * (1 - 1e-10)).all()


def test_many_rows_are_taken_a_part_at_a_time():
    circuit = random_circuit(2, n_features=3, kinds="mixed")
    rows = random_rows(0, circuit, 2500, 0.5)
    whole = quantiles(circuit, rows, [0.3])
    assert_allclose(whole[:, 2000:], quantiles(circuit, rows[2000:], [0.3]), rtol=1e-12)


@pytest.mark.parametrize("levels", [[0.0], [0.5, 1.0], [np.nan], 0.5])
def test_levels_that_are_no_probabilities_are_refused(levels):
    with pytest.raises(ValueError, match="levels must be"):
        quantiles(random_circuit(0, n_features=2), [[0.0, 0.0]], levels)
