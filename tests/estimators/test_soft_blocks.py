"""SoftLearnSPN with blocks of numbers."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split

from skpc import SoftLearnSPN, TableMixture
from skpc.variables import BLOCK, SCORED


def families(model):
    return set(model.circuit_.leaf_family.tolist()) - {-1}


def correlated_numbers(n_rows, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(9).normal(size=(n_columns, n_columns))
    return rng.normal(size=(n_rows, n_columns)) @ mixing


def held_out(X, seed=0, **parameters):
    train, test = train_test_split(X, test_size=0.33, random_state=seed)
    return SoftLearnSPN(random_state=0, **parameters).fit(train).score(test)


def test_correlated_numbers_are_as_likely_as_under_the_gaussian_that_drew_them():
    train, test = correlated_numbers(1000, 20), correlated_numbers(1000, 20, seed=1)
    model = SoftLearnSPN(random_state=0).fit(train)
    assert model.score(test) > GaussianMixture(1).fit(train).score(test) - 0.1
    # One block beside the background.
    assert model.n_sums_ == 1
    assert families(model) == {BLOCK, SCORED}


@pytest.mark.parametrize(("load", "gain"), [(load_breast_cancer, 15.0), (load_wine, 0.5)])
def test_blocks_beat_independent_gaussians(load, gain):
    X = load().data
    univariate = held_out(X, leaves="univariate")
    assert held_out(X) > univariate + gain


def test_blocks_and_categories_share_a_network():
    frame = load_wine(as_frame=True).frame
    frame["target"] = frame["target"].astype("category")
    model = SoftLearnSPN(random_state=0).fit(frame)
    hidden = frame.copy()
    hidden["target"] = pd.Series([None] * len(frame), dtype=frame["target"].dtype)
    assert (model.complete(hidden)["target"] == frame["target"]).mean() > 0.9


def test_densities_of_two_numbers_integrate_to_one():
    rng = np.random.default_rng(0)
    X = correlated_numbers(200, 2) + 6.0 * rng.integers(0, 2, (200, 1))
    X[rng.random(X.shape) < 0.1] = np.nan
    model = SoftLearnSPN(random_state=0, margins="auto").fit(X)
    low, high = np.nanmin(X, axis=0) - 15.0, np.nanmax(X, axis=0) + 15.0
    grids = [np.linspace(*ends, 500) for ends in zip(low, high)]
    points = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, 2)
    area = np.prod([grid[1] - grid[0] for grid in grids])
    assert_allclose(np.exp(model.score_samples(points)).sum() * area, 1.0, atol=0.01)


def test_numbers_that_are_missing_atoms_constant_or_sums_of_others_are_learned():
    rng = np.random.default_rng(0)
    X = correlated_numbers(300)
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.full(300, 3.0), np.exp(X[:, 2])])
    X[rng.random(300) < 0.4, 0] = 0.0
    X[rng.random(X.shape) < 0.2] = np.nan
    X = np.column_stack([X, np.where(np.arange(300) < 3, 1.5, np.nan)])
    model = SoftLearnSPN(random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert not np.isnan(model.complete(X)).any()


def test_a_row_that_no_block_describes_keeps_some_density():
    X = correlated_numbers(500)
    far = X[:1] + 20.0 * X.std(axis=0)
    model = SoftLearnSPN(random_state=0).fit(X)
    block = GaussianMixture(1).fit(X)
    assert model.score(far) > block.score(far) + 100.0
    assert_allclose(model.score(X), block.score(X), atol=0.1)


def test_refinement_works_on_blocks():
    rng = np.random.default_rng(0)
    X = correlated_numbers(600) + 3.0 * rng.integers(0, 2, (600, 1))
    plain, refined = (
        SoftLearnSPN(n_refine=n, random_state=0).fit(X[:300], X_val=X[300:]) for n in (0, 10)
    )
    assert BLOCK in families(refined)
    assert refined.score(X[300:]) >= plain.score(X[300:])


@pytest.mark.parametrize("parameters", [{"leaves": "univariate"}, {"margins": "plain"}])
def test_there_are_no_blocks_where_none_are_wanted(parameters):
    X = correlated_numbers(300)
    assert BLOCK not in families(SoftLearnSPN(random_state=0, **parameters).fit(X))


def test_leaves_do_not_matter_to_categories():
    X = (correlated_numbers(300) > 0.0).astype(float)
    found = [
        SoftLearnSPN(leaves=leaves, random_state=0).fit(X).score_samples(X)
        for leaves in ("block", "univariate")
    ]
    assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("clusterer", ["kmeans", "em"])
@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_every_clusterer_makes_blocks(clusterer, assignment):
    rng = np.random.default_rng(0)
    X = correlated_numbers(300) + 8.0 * rng.integers(0, 2, (300, 1))
    model = SoftLearnSPN(clusterer=clusterer, assignment=assignment, random_state=0).fit(X)
    assert BLOCK in families(model)
    assert model.n_sums_ >= 2


@pytest.mark.parametrize(("density", "most"), [(SoftLearnSPN, 0.025), (TableMixture, 1e-3)])
def test_sums_of_columns_that_end_at_zero_are_sums_in_draws(density, most):
    names = ["rent", "food", "travel"]
    rng = np.random.default_rng(0)
    parts = rng.gamma([1.0, 0.7, 2.0], [10.0, 20.0, 8.0], size=(600, 3))
    table = pd.DataFrame(parts, columns=names)
    table["sum"] = table.sum(axis=1)
    drawn = density(random_state=0).fit(table).sample(600)
    assert drawn[names].to_numpy().min() >= 0.0
    # Blocks have a least standard deviation; mixtures have hardly any.
    error = np.abs(drawn["sum"] - drawn[names].sum(axis=1)) / table["sum"].std()
    assert np.median(error) < most
