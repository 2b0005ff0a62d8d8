"""Factor graphs: what they hold, and what they refuse."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.factor_graphs import FactorGraph, load_asia
from tests.naive import factor_graph as naive
from tests.zoo import random_factor_graph


def test_the_log_score_is_the_log_of_the_product_of_all_factors():
    for seed in range(5):
        graph = random_factor_graph(seed, n_factors=5)
        states = naive.all_states(graph)
        expected = [naive.value(graph, state) for state in states]
        assert_allclose(np.exp(graph.log_score(states)), expected, rtol=1e-12)


def test_a_graph_survives_pickling():
    graph = random_factor_graph(1)
    again = pickle.loads(pickle.dumps(graph))
    states = naive.all_states(graph)
    assert_array_equal(again.log_score(states), graph.log_score(states))


@pytest.mark.parametrize(
    ("n_states", "factors", "message"),
    [
        ([2, 0], [], r"1 or more for each variable, got \[2, 0\]"),
        ([2, 2.5], [], r"whole number .* got \[2.0, 2.5\]"),
        ([2, np.inf], [], "whole number .* inf"),
        ("ab", [], "whole number .* got ab"),
        (
            [2, 2],
            [((0, 2), np.zeros((2, 2)))],
            r"variables of factor 0 must be numbers from 0 to 1, .*; got \[0, 2\]",
        ),
        ([2, 2], [((0,), [0, 0]), ((1, 1), np.zeros((2, 2)))], "factor 1 needs distinct"),
        ([2, 3], [((1, 0), np.zeros((2, 3)))], r"must have shape \(3, 2\), .* got \(2, 3\)"),
        ([2], [((0,), [0.0, np.inf])], "must be finite or -inf, got inf"),
        ([2], [((0,), [0.0, np.nan])], "must be finite or -inf, got nan"),
    ],
)
def test_bad_factors_are_refused(n_states, factors, message):
    with pytest.raises(ValueError, match=message):
        FactorGraph(n_states, factors)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 3, 0]], r"X\[0, 1\] must be one of the states 0..2 .* got 3.0"),
        ([[0, 0, 0], [0.5, 0, 0]], r"X\[1, 0\] must be one of the states"),
        ([[0, np.inf, 0]], "got inf"),
        ([[0, 0]], r"shape \(n_rows, 3\), got \(1, 2\)"),
        ([["a", 0, 0]], "rows of numbers"),
        ([[0, np.nan, 0]], r"complete rows, but X\[0, 1\] is missing"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        random_factor_graph(0).log_score(rows)


def test_an_ising_grid_has_the_energy_of_its_spins():
    rng = np.random.default_rng(0)
    coupling, field = rng.normal(size=7), rng.normal(size=6)
    graph = FactorGraph.ising_grid(2, 3, coupling, field)
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    for state in naive.all_states(graph):
        spin = 2 * np.array(state) - 1
        expected = sum(c * spin[a] * spin[b] for c, (a, b) in zip(coupling, edges)) + field @ spin
        assert_allclose(graph.log_score([state]), expected, atol=1e-12)


def test_random_grids_have_tables_from_the_unit_interval_and_follow_the_seed():
    graph = FactorGraph.ising_grid(5, 4, random_state=3)
    tables = np.exp(graph.log_tables)
    assert tables.shape == (31, 2, 2)
    assert 0 < tables.min() < 0.1
    assert 0.9 < tables.max() < 1
    assert_array_equal(graph.log_tables, FactorGraph.ising_grid(5, 4, random_state=3).log_tables)


def test_couplings_of_the_wrong_number_are_refused():
    with pytest.raises(
        ValueError, match="coupling must be a finite number, or one for each of the 4 edges"
    ):
        FactorGraph.ising_grid(2, 2, coupling=[1.0, 2.0])
    with pytest.raises(ValueError, match="for each of the 4 sites; found nan"):
        FactorGraph.ising_grid(2, 2, coupling=1.0, field=np.nan)
    with pytest.raises(ValueError, match="1 or more, got 0 and 3"):
        FactorGraph.ising_grid(0, 3)


def test_a_bayesian_network_has_the_partition_function_one():
    asia = load_asia()
    assert naive.partition(asia) == pytest.approx(1.0, abs=1e-12)
    prob_yes = [found[1] for found in naive.marginals(asia)]
    published = [0.01, 0.0104, 0.5, 0.055, 0.45, 0.064828, 0.11029004, 0.4359706]
    assert_allclose(prob_yes, published, atol=1e-12)
    rain, wet = ((), [0.8, 0.2]), ((0,), [[0.9, 0.1, 0.0], [0.1, 0.2, 0.7]])
    graph = FactorGraph.from_bayesian_network([rain, wet])
    assert_allclose(naive.conditional(graph)[1, 2], 0.14)


@pytest.mark.parametrize(
    ("cpts", "message"),
    [
        ([((), [0.8, 0.3])], "variable 0 must be .* sum of 1.1"),
        ([((), [1.5, -0.5])], "least entry of -0.5"),
        ([((), 1.0)], "variable 0 needs an axis"),
        ([((1,), np.full((2, 2), 0.5)), ((0,), np.full((2, 2), 0.5))], r"no cycle, .*\[0, 1\]"),
    ],
)
def test_tables_that_are_no_bayesian_network_are_refused(cpts, message):
    with pytest.raises(ValueError, match=message):
        FactorGraph.from_bayesian_network(cpts)


def test_masked_cells_are_missing():
    graph = FactorGraph.ising_grid(1, 2, coupling=0.5)
    masked = np.ma.array([[0, 1], [1, 1]], mask=[[True, False], [False, False]])
    assert_array_equal(graph.check_rows(masked), [[np.nan, 1.0], [1.0, 1.0]])
