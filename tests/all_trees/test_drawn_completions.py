"""Estimates from drawn completions, against sums over all trees."""

import numpy as np
import pytest

from skpc.all_trees.beliefs import believe_states
from skpc.all_trees.drawn_completions import completed_row
from skpc.all_trees.estimates import PreparedTrees, RowTask
from tests.all_trees.test_collapsed import auto_estimates, collapsed_estimates, random_mixture
from tests.naive import spanning_trees as naive

N_STATES = (2, 5, 3, 2, 3)
CODE = [1, -1, -1, 0, -1]


def completed(trees, code, seed, n_samples, belief=None):
    code = np.array(code)
    marginals, draws = np.empty(trees.tables.ptr[-1] - 1), np.empty((0, len(code)), np.int64)
    task = RowTask(code, code, np.uint64(seed), n_samples, marginals, draws)
    if belief is None:
        belief = np.empty((1, trees.tables.ptr[-1]))
        believe_states(trees, code[np.newaxis], belief)
        belief = belief[0]
    return completed_row(trees, task, belief), marginals


def test_the_likelihood_is_unbiased_and_has_the_error_that_is_told():
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    trees = PreparedTrees.of(tables, into)
    expected = naive.mixture_evidence(forests, CODE, root, given)
    found = np.array([completed(trees, CODE, seed, 1000)[0][:2] for seed in range(400)])
    ratio = np.exp(found[:, 0]) / expected
    told = np.sqrt((1 / found[:, 1]).mean())
    assert abs(ratio.mean() - 1) < 4 * told / np.sqrt(400)
    # Draws that are spread evenly do better than independent ones.
    assert 0.2 * told < ratio.std() < 1.2 * told


def test_a_bad_proposal_changes_the_error_but_not_the_answer():
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    trees = PreparedTrees.of(tables, into)
    even = 1.0 / np.repeat([*N_STATES, 1], [*N_STATES, 1])
    (log_likelihood, size, _), marginals = completed(trees, CODE, 0, 100_000, even)
    evidence = naive.mixture_evidence(forests, CODE, root, given)
    assert log_likelihood == pytest.approx(np.log(evidence), abs=6 / np.sqrt(size))
    expected = naive.mixture_marginals(forests, CODE, root, given)
    np.testing.assert_allclose(marginals, expected, atol=0.03)


def test_states_that_are_not_drawn_keep_a_probability():
    _, _, _, tables, into = random_mixture((40, 2, 3), seed=3)
    code = np.array([[-1, -1, 0]])
    found = auto_estimates(tables, into, code, [0], 20)
    assert (found.marginals[0, :42] > 0).all()
    assert np.isfinite(found.log_likelihood).all()


def test_poor_completions_give_way_to_trees():
    forests, root, given, tables, into = random_mixture(N_STATES, seed=3)
    trees = PreparedTrees.of(tables, into)
    marginals = np.append(naive.mixture_marginals(forests, CODE, root, given), 1.0)
    wrong = np.full(len(marginals), 1e-9)
    for begin, end in zip(tables.ptr, tables.ptr[1:]):
        wrong[begin + marginals[begin:end].argmin()] = 1.0
    assert completed(trees, CODE, 0, 2000)[0] is not None
    assert completed(trees, CODE, 0, 2000, wrong)[0] is None


def test_rows_of_many_columns_are_estimated_by_trees(monkeypatch):
    monkeypatch.setattr("skpc.all_trees.incomplete._WIDEST", 4)
    _, _, _, tables, into = random_mixture(N_STATES, seed=3)
    found = auto_estimates(tables, into, [CODE], [0])
    expected = collapsed_estimates(tables, into, [CODE], [0])
    np.testing.assert_array_equal(found.log_likelihood, expected.log_likelihood)
