from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc._fitting import Rows, Stop
from skpc.learning.cutset import learn_cutset_network
from skpc.learning.mixture import (
    Memberships,
    NetworkLearner,
    check_n_components,
    first_responsibilities,
    learn_mixture,
)
from skpc.learning.network import cutset_circuit
from tests.naive import mixture as naive

N_STATES = np.array([2, 3, 2, 2])


def two_kinds(missing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, weights and a start in which k-means cannot but find the kinds of the rows."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 80)
    columns = [np.where(rng.random(80) < 0.8, kind, rng.integers(0, k, 80)) for k in N_STATES]
    codes = np.column_stack(columns).astype(np.int16)
    codes[rng.random(codes.shape) < missing] = -1
    return codes, rng.gamma(2.0, 1.0, 80), 1000.0 * np.eye(2)[kind]


def learned(codes, weight, points, *, max_iter, tol=0.0, n_components=2, n_init=1, spread=True):
    learn = partial(learn_cutset_network, n_states=N_STATES)
    rows = np.where(codes < 0, np.nan, codes)
    learner = NetworkLearner(learn, cutset_circuit, n_components)
    check_n_components(n_components, weight)
    found = points, weight, n_components, np.random.RandomState(0)
    starts = first_responsibilities(*found, n_init=n_init, is_spread=spread)
    fit = learn_mixture(Rows(rows, weight), codes, learner, starts, Stop(max_iter, tol))
    return fit, rows, learn


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_iter", [1, 3])
@pytest.mark.parametrize("spread", [True, False])
def test_structural_em_does_what_one_loop_over_rows_and_components_does(missing, n_iter, spread):
    codes, weight, start = two_kinds(missing)
    mixture, rows, learn = learned(codes, weight, start, max_iter=n_iter, spread=spread)
    share = 0.7 * start / 1000.0 + 0.15 if spread else start / 1000.0
    iterates = naive.structural_em(rows, codes, weight, share, learn, cutset_circuit, n_iter)
    bound, weights = max(iterates)
    assert mixture.score == pytest.approx(bound, abs=1e-5)
    assert_allclose(np.sort(mixture.model.weights), np.sort(weights), atol=1e-5)
    assert mixture.n_iter == n_iter


def test_the_iterations_stop_once_they_gain_less_than_tol():
    codes, weight, start = two_kinds(0.0)
    mixture, *_ = learned(codes, weight, start, max_iter=50, tol=1e-3)
    assert mixture.converged
    assert 3 < mixture.n_iter < 50
    mixture, *_ = learned(codes, weight, start, max_iter=2, tol=1e-3)
    assert not mixture.converged


def test_of_several_starts_the_best_is_kept():
    codes, weight, _ = two_kinds(0.0)
    bounds = [
        learned(codes, weight, codes.astype(float), max_iter=3, n_components=4, n_init=n)[0]
        for n in (1, 6)
    ]
    assert bounds[1].score > bounds[0].score


def test_more_components_than_rows_are_refused():
    codes, weight, start = two_kinds(0.0)
    with pytest.raises(ValueError, match="n_components=3 must not exceed the number of rows"):
        learned(codes, np.full(80, 1 / 40), start, max_iter=1, n_components=3)


def test_memberships_of_two_parts_are_those_of_the_whole():
    codes, weight, start = two_kinds(0.0)
    mixture, rows, _ = learned(codes, weight, start, max_iter=2)
    whole = mixture.model.expected(rows, weight)
    parts = [
        mixture.model.expected(rows[part], weight[part]) for part in np.split(np.arange(80), [30])
    ]
    both = parts[0] + parts[1]
    assert isinstance(both, Memberships)
    assert_allclose(both.weight, whole.weight, rtol=1e-10)
    assert both.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    assert_allclose(both.responsibility.sum(axis=1), 1.0)
