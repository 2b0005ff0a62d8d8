"""quantiles against posterior distribution functions, leaf by leaf."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.circuit import CircuitBuilder
from skpc.queries import quantiles
from tests.naive import circuit as naive
from tests.zoo import random_circuit, random_deterministic_circuit, random_rows

LEVELS = [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6]


@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
@pytest.mark.parametrize("kinds", ["gaussian", "histogram", "atoms", "scored", "mixed"])
def test_the_share_below_a_quantile_is_its_level(make, kinds):
    for seed in range(5):
        circuit = make(seed, n_features=3, kinds=kinds)
        rows = random_rows(seed + 3, circuit, 5, 0.5)
        found = quantiles(circuit, rows, LEVELS)
        assert found.shape == (5, 5, 3)
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


def test_many_rows_are_taken_a_part_at_a_time():
    circuit = random_circuit(2, n_features=3, kinds="mixed")
    rows = random_rows(0, circuit, 2500, 0.5)
    whole = quantiles(circuit, rows, [0.3])
    assert_allclose(whole[:, 2000:], quantiles(circuit, rows[2000:], [0.3]), rtol=1e-12)


@pytest.mark.parametrize("levels", [[0.0], [0.5, 1.0], [np.nan], 0.5])
def test_levels_that_are_no_probabilities_are_refused(levels):
    with pytest.raises(ValueError, match="levels must be"):
        quantiles(random_circuit(0, n_features=2), [[0.0, 0.0]], levels)
