"""The number of bins of numeric columns."""

from __future__ import annotations

from math import lgamma

import numpy as np
import pytest

from skpc.domain import Declared, Domain
from skpc.domain._bins import _ESS, _log_bayes_factor


def n_bins(X, weight=None, **options):
    domain = Domain.fit(X, Declared(**options), n_bins=20, sample_weight=weight)
    return [axis.n_states - len(axis.atoms) for axis in domain.axes]


def naive_log_evidence(counts):
    prior = _ESS / counts.size
    found = lgamma(_ESS) - lgamma(_ESS + counts.sum())
    return found + sum(lgamma(count + prior) - lgamma(prior) for count in counts.ravel())


def test_the_bayes_factor_is_that_of_dirichlet_tables():
    rng = np.random.default_rng(0)
    code, other = rng.integers(-1, 3, 60), rng.integers(-1, 4, 60)
    weight = rng.integers(1, 3, 60).astype(float)
    table = np.zeros((3, 4))
    for a, b, w in zip(code, other, weight):
        if a >= 0 and b >= 0:
            table[a, b] += w
    wanted = naive_log_evidence(table) - sum(
        naive_log_evidence(table.sum(axis=axis)) for axis in (0, 1)
    )
    codes = np.array([code, other], dtype=np.int16)
    assert _log_bayes_factor(codes, np.array([3, 4]), weight) == pytest.approx(wanted)


def test_columns_that_tell_each_other_exactly_get_more_bins_than_independent_ones():
    rng = np.random.default_rng(1)
    x, alone = rng.normal(size=3000), rng.normal(size=3000)
    bins = n_bins(np.column_stack([x, x + 0.01 * rng.normal(size=3000), alone]))
    assert min(bins[:2]) > 10
    assert bins[2] == 10


def test_small_tables_have_few_bins():
    rng = np.random.default_rng(2)
    assert n_bins(rng.normal(size=(40, 3))) == [2, 2, 2]


def test_every_bin_has_rows():
    values = np.tile([11.0, 12.0, 28.0, 30.0], 50)
    other = np.tile([0.5, 0.7, 3.25, 7.125], 50)
    # One row keeps the columns apart.
    other[0] = 0.7
    domain = Domain.fit(np.column_stack([values, other]), n_bins=20)
    counts = np.bincount(domain.axes[0].states_of(values), minlength=domain.axes[0].n_states)
    assert (counts > 0).all()
    assert domain.axes[0].n_states == 4


def test_a_weight_of_two_chooses_like_the_row_twice():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    X[:, 1] += X[:, 0]
    weight = rng.integers(1, 3, 300)
    assert n_bins(X, weight.astype(float)) == n_bins(np.repeat(X, weight, axis=0))


def test_missing_cells_take_no_part():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=400)
    holes = np.vstack([X, np.full((50, 2), np.nan)])
    assert n_bins(holes) == n_bins(X)


def test_a_bin_ends_at_an_atom():
    rng = np.random.default_rng(5)
    amount = rng.lognormal(2.0, 0.7, 2000)
    values = np.where(rng.random(2000) < 0.15, -amount, amount)
    values[rng.random(2000) < 0.3] = 0.0
    axis = Domain.fit(values[:, np.newaxis], n_bins=20).axes[0]
    assert axis.atoms.tolist() == [0.0]
    assert not set(axis.states_of(values[values < 0])) & set(axis.states_of(values[values > 0]))


def test_draws_of_skew_positive_columns_are_positive():
    values = np.random.default_rng(6).lognormal(0.0, 3.0, (2000, 1))
    axis = Domain.fit(values, n_bins=20).axes[0]
    assert 0.0 <= axis.edges[0] <= values.min()
    assert axis.edges[-1] > values.max()


@pytest.mark.parametrize("declared", [{"atoms": {0: [0.0]}}, {"bounds": {0: (0.0, None)}}])
def test_plain_columns_have_neither_atoms_nor_bounds(declared):
    with pytest.raises(ValueError, match="has neither atoms nor bounds"):
        Domain.fit(np.arange(40.0)[:, np.newaxis], Declared(margins="plain", **declared))


def test_a_column_is_declared_once():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"price": np.arange(40.0)})
    with pytest.raises(ValueError, match="names column 'price' twice"):
        Domain.fit(table, Declared(atoms={0: [1.0], "price": [2.0]}))


def test_atoms_that_are_no_numbers_are_refused_by_column():
    with pytest.raises(ValueError, match="atoms of column 0 must be a list of finite numbers"):
        Domain.fit(np.arange(40.0)[:, np.newaxis], Declared(atoms={0: ["x"]}))
