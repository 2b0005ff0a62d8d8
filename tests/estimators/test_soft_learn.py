"""SoftLearnSPN as its users see it."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc import SoftLearnSPN
from skpc.learning import soft_learn
from skpc.variables import GAUSSIAN


def two_kinds(n_rows=600, seed=0):
    """Six binary columns that follow a hidden kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, (n_rows, 1))
    return (rng.random((n_rows, 6)) < np.where(kind, 0.8, 0.2)).astype(float)


def clouds(n_rows=4000):
    """Equation (3) of the paper: two clouds with centres (-0.5, -2) and (0.5, 2)."""
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], n_rows)
    noise = rng.normal(size=(n_rows, 2)) * [1.0, 0.2]
    return np.column_stack([0.5 * side, 2.0 * side]) + noise


def centres(X, assignment, weight):
    """Means of the two Gaussian pairs that are learned from one side of a cut, lower one first."""
    options = {"assignment": assignment, "n_refine": 0, "margins": "plain", "random_state": 0}
    options |= {"clusterer": "kmeans", "significance": 0.2}
    model = SoftLearnSPN(min_weight=0.4 * len(X), **options)
    circuit = model.fit(X, sample_weight=weight).circuit_
    leaves = np.flatnonzero(circuit.leaf_family == GAUSSIAN)
    mean, var = circuit.param[circuit.param_ptr[leaves]], circuit.leaf_var[leaves]
    pairs = np.column_stack([mean[var == 0], mean[var == 1]])
    return pairs[pairs[:, 1].argsort()]


def test_soft_learning_recovers_the_clouds_that_a_forced_cut_has_halved():
    X = clouds()
    distance = np.linalg.norm(X[:, np.newaxis] - [[-1.0, 0.0], [1.0, 0.0]], axis=2)
    distance /= distance.sum(axis=1, keepdims=True)
    for side in (0, 1):
        soft = 1.0 / (1.0 + np.exp(distance[:, side] - distance[:, 1 - side]))
        assert_allclose(centres(X, "soft", soft), [[-0.5, -2.0], [0.5, 2.0]], atol=0.12)
        hard = centres(X, "hard", (distance[:, side] < 0.5).astype(float))
        assert np.abs(hard[:, 0] - [-0.5, 0.5]).max() > 0.4
        assert_allclose(hard[:, 1], [-2.0, 2.0], atol=0.05)


def test_parts_with_numbers_are_the_same_in_any_number_of_threads():
    rng = np.random.default_rng(0)
    side = rng.integers(0, 3, (600, 1))
    X = np.hstack([side + rng.normal(scale=0.3, size=(600, 4)), side == rng.integers(0, 3)])
    X[rng.random(X.shape) < 0.1] = np.nan
    alone, together = (SoftLearnSPN(random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert alone.n_sums_ > 0
    assert np.array_equal(alone.circuit_.child, together.circuit_.child)
    assert np.array_equal(alone.circuit_.param, together.circuit_.param)


def test_refinement_raises_the_likelihood_of_the_rows_it_watches():
    train, valid = two_kinds(400, 0), two_kinds(400, 1)
    plain = SoftLearnSPN(n_refine=0, random_state=0).fit(train, X_val=valid)
    refined = SoftLearnSPN(random_state=0).fit(train, X_val=valid)
    assert np.array_equal(plain.circuit_.child, refined.circuit_.child)
    assert refined.score(valid) > plain.score(valid)
    assert plain.n_iter_ == 0
    assert refined.n_iter_ > 0


def test_rows_for_validation_are_not_learned_from():
    train, valid = two_kinds(300, 0), two_kinds(300, 1)
    a = SoftLearnSPN(n_refine=0, random_state=0).fit(train, X_val=valid)
    b = SoftLearnSPN(n_refine=0, random_state=0).fit(train)
    assert_allclose(a.score_samples(valid), b.score_samples(valid))


def test_a_tenth_is_held_out_for_refinement_only():
    X = two_kinds(300)
    plain, refined = (SoftLearnSPN(n_refine=n, random_state=0).fit(X) for n in (0, 1))
    assert not np.array_equal(plain.circuit_.param, refined.circuit_.param)
    one = SoftLearnSPN(random_state=0).fit(X[:1])
    assert np.isfinite(one.score(X[:1]))


def test_verbose_shows_the_cells_that_reached_the_leaves(capsys):
    SoftLearnSPN(verbose=1, random_state=0).fit(two_kinds(200), X_val=two_kinds(50, seed=1))
    shown = capsys.readouterr()
    assert re.search(r"\b1200\b", shown.out + shown.err)
    assert not re.search(r"\d\.\d+/", shown.out + shown.err)


def test_auto_is_for_categories_or_for_numbers():
    of_categories = {"clusterer": "kmeans", "significance": 0.2, "n_refine": 50}
    X = two_kinds(400)
    auto, explicit = (SoftLearnSPN(**k, random_state=0).fit(X) for k in ({}, of_categories))
    assert_allclose(auto.score_samples(X), explicit.score_samples(X), rtol=1e-12)
    assert auto.n_iter_ > 0
    mixed = np.column_stack([X[:, :3], clouds(400)[:, :1] + 2.0 * X[:, :1]])
    auto = SoftLearnSPN(random_state=0).fit(mixed)
    em = SoftLearnSPN(clusterer="em", n_refine=0, random_state=0).fit(mixed)
    assert_allclose(auto.score_samples(mixed), em.score_samples(mixed), rtol=1e-12)
    assert auto.n_iter_ == 0


@pytest.mark.parametrize("kind", ["binary", "numbers"])
def test_independent_columns_get_no_structure(kind):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(5000, 20))
        X = (X > 0.5).astype(float) if kind == "binary" else X
        model = SoftLearnSPN(random_state=seed).fit(X)
        assert (model.circuit_.n_edges, model.n_sums_, model.depth_) == (20, 0, 1)
    loose = {"significance": 0.2, "root_test": None, "n_refine": 0, "leaves": "univariate"}
    loose = SoftLearnSPN(**loose, random_state=0).fit(X)
    assert loose.circuit_.n_edges > 50


@pytest.mark.parametrize("bad", ["some", 0.0, 1.0])
def test_a_significance_that_is_no_level_is_refused(bad):
    with pytest.raises(ValueError, match="'significance' parameter"):
        SoftLearnSPN(significance=bad).fit(two_kinds(50))


def test_one_cluster_is_a_factorised_distribution():
    X = two_kinds(300)
    model = SoftLearnSPN(n_clusters=1, n_refine=0, alpha=1e-9).fit(X)
    frequency = X.mean(axis=0)
    expected = (X * np.log(frequency) + (1 - X) * np.log(1 - frequency)).sum(axis=1)
    assert_allclose(model.score_samples(X), expected, rtol=1e-6)
    assert (model.n_sums_, model.n_products_, model.depth_) == (0, 1, 1)


def test_a_chain_of_thousands_of_sums_is_no_matter(monkeypatch):
    """Deeper than Python can recurse: each clustering takes one row off the others."""

    def first_against_rest(numbers, *args):
        first = np.arange(len(numbers.point)) == 0
        return np.column_stack([first, ~first]).astype(float)

    monkeypatch.setattr(soft_learn, "cluster_rows", first_against_rest)
    monkeypatch.setattr(soft_learn, "independent_groups", lambda *args: np.zeros(2, dtype=int))
    X = np.random.default_rng(0).normal(size=(1500, 2))
    model = SoftLearnSPN(
        assignment="hard",
        clusterer="kmeans",
        min_weight=0.0,
        n_refine=2,
        leaves="univariate",
        root_test=None,
        random_state=0,
    ).fit(X)
    assert model.depth_ > 1000
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("bad", [np.zeros((3, 5)), np.full((3, 6), np.inf)])
def test_bad_validation_rows_are_refused_and_leave_nothing(bad):
    model = SoftLearnSPN(random_state=0)
    with pytest.raises(ValueError, match=r"features|infin"):
        model.fit(two_kinds(100), X_val=bad)
    assert not hasattr(model, "circuit_")


def test_numbers_too_large_to_square_are_refused_by_name():
    X = two_kinds() + np.random.default_rng(0).normal(size=two_kinds().shape)
    X[3, 1] = -1e200
    with pytest.raises(ValueError, match=r"magnitudes up to 1e.150.*column 1 reaches 1e.200"):
        SoftLearnSPN().fit(X)
