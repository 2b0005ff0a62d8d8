"""Gibbs sampling against exact marginals."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.factor_graphs import FactorGraph, GibbsSampler, load_asia
from tests.naive import factor_graph as naive
from tests.zoo import random_factor_graph


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("n_chains", [1, 3])
def test_states_are_visited_as_often_as_they_are_probable(scan, n_chains):
    graph = random_factor_graph(4, (2, 3, 4), n_factors=5)
    sampler = GibbsSampler(
        graph, scan=scan, burn_in=50, thinning=9, n_chains=n_chains, random_state=0
    )
    samples = sampler.sample(40_000).astype(int)
    expected = naive.conditional(graph)
    seen = [np.mean(np.all(samples == state, axis=1)) for state in expected]
    assert_allclose(seen, list(expected.values()), atol=0.012)


def test_consecutive_states_differ_in_the_variable_of_the_turn_only():
    graph = FactorGraph.ising_grid(2, 3, coupling=0.2)
    samples = GibbsSampler(graph, burn_in=0, thinning=1, random_state=1).sample(600)
    changed = samples[1:] != samples[:-1]
    turn = np.arange(599) % 6
    assert changed[np.arange(599), turn].mean() > 0.3
    changed[np.arange(599), turn] = False
    assert not changed.any()


def test_burn_in_and_thinning_skip_states_of_the_same_chain():
    graph = FactorGraph.ising_grid(2, 2, coupling=0.2)
    every = GibbsSampler(graph, burn_in=0, thinning=1, random_state=1).sample(100)
    some = GibbsSampler(graph, burn_in=7, thinning=5, random_state=1).sample(18)
    assert_array_equal(some, every[7 : 7 + 5 * 18 : 5])


def test_chains_follow_the_seed_on_any_number_of_threads():
    graph = FactorGraph.ising_grid(3, 3, coupling=0.2)
    sampler = GibbsSampler(graph, n_chains=4, burn_in=10, thinning=3, random_state=5)
    alone = sampler.sample(10)
    assert alone.shape == (10, 9)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(sampler.sample(10), alone)
    assert not np.array_equal(alone[::4], alone[1::4])


def test_collapsed_variables_are_summed_out():
    samples = GibbsSampler(
        load_asia(), collapsed=[5], burn_in=500, thinning=21, random_state=0
    ).sample(30_000)
    assert np.isnan(samples[:, 5]).all()
    exact = [found[1] for found in naive.marginals(load_asia())]
    assert_allclose(np.delete(samples, 5, 1).mean(axis=0), np.delete(exact, 5), atol=0.012)


def test_a_graph_without_a_possible_random_start_is_refused():
    impossible = FactorGraph([2, 2], [((0,), [0.0, -np.inf]), ((0,), [-np.inf, 0.0])])
    with pytest.raises(ValueError, match="all have probability zero.* collapsed"):
        GibbsSampler(impossible).sample(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan": "snake"}, "one of .'systematic', 'random'., got 'snake'"),
        ({"burn_in": -1}, "burn_in must be an integer of 0 or more, got -1"),
        ({"thinning": 0}, "thinning must be an integer of 1 or more, got 0"),
        ({"n_chains": 1.5}, "n_chains must be an integer of 1 or more, got 1.5"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GibbsSampler(FactorGraph([2], []), **options)


def test_sizes_at_the_edge_work():
    graph = FactorGraph([2, 1], [])
    assert GibbsSampler(graph).sample(0).shape == (0, 2)
    assert_array_equal(GibbsSampler(graph, collapsed=[0, 1]).sample(2), np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="n_samples must be an integer of 0 or more, got -1"):
        GibbsSampler(graph).sample(-1)
