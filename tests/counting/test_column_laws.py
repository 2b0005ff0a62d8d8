"""Rows like columns against their formulas, and what they do to a column that few rows show."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.counting.column_laws import _FACTORS, evidence_factors, rows_like_columns
from tests.naive import column_laws as naive


def tables_of(seed, spread):
    """Counts of three tables of a complete column, and of four of one with missing cells."""
    rng = np.random.default_rng(seed)
    complete = rng.gamma(1.0, 5.0, (3, 2))
    law = rng.dirichlet(np.full(4, 0.5), 4) * spread + (1.0 - spread) * rng.dirichlet(np.ones(4))
    return complete, 6.0 * rng.gamma(2.0, 1.0, (4, 1)) * law


@pytest.mark.parametrize("unit", [1.0, 0.3])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_pseudo_counts_are_those_of_the_formulas(spread, unit):
    complete, few = tables_of(0, spread)
    mass = np.concatenate([complete.sum(axis=1), [10.0, 30.0, 60.0, 20.0]])
    share = np.array([0.5, 0.5, 0.1, 0.2, 0.3, 0.4])
    count = np.concatenate([complete.ravel(), few.ravel()])
    table = np.concatenate([np.repeat([0, 1, 2], 2), np.repeat([3, 4, 5, 6], 4)])
    state = np.concatenate([np.tile([0, 1], 3), np.tile([2, 3, 4, 5], 4)])
    units = np.full(len(count), unit)
    found = rows_like_columns(count, table, state, mass, share, np.array([0, 2, 6]), units)
    expected = naive.like_column(
        few.tolist(), mass[3:].tolist(), share[2:], np.full((4, 4), unit), _FACTORS.tolist()
    )
    assert not found[:6].any()
    assert_allclose(found[6:].reshape(4, 4), np.tile(expected, (4, 1)), rtol=1e-5)


def test_tables_that_differ_keep_what_they_tell_and_others_are_drawn_together():
    table, column = np.repeat(np.arange(8), 3), np.repeat([0, 1], 12)
    alike, apart = np.tile([6.0, 3.0, 1.0], 4), 10.0 * np.eye(4, 3).ravel()
    apart[9:] = 3.0
    law = np.full(24, 1.0 / 3.0)
    found = evidence_factors(np.concatenate([alike, apart]), law, table, column)
    assert found.tolist() == [naive_best(alike), naive_best(apart)]
    assert found[0] > 10.0 > found[1]


def naive_best(counts):
    tables, third = counts.reshape(4, 3).tolist(), [[1.0 / 3.0] * 3] * 4
    return naive.best_factor(tables, third, [[1.0] * 3] * 4, _FACTORS.tolist())
