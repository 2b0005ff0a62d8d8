"""Events against recursion over nodes, and against the probabilities of all rows."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.queries import Events, condition, log_conditional, log_likelihood, posteriors, sample
from skpc.variables import Law
from skpc.variables.score import Score
from tests.naive import circuit as naive
from tests.naive import events as slow
from tests.zoo import (
    one_block,
    random_block_circuit,
    random_circuit,
    random_deterministic_circuit,
    random_rows,
)

KINDS = ["binary", "discrete", "gaussian", "histogram", "atoms", "scored", "mixed", "counts"]


def random_intervals(rng, circuit, var):
    """Disjoint intervals: ends at atoms, at states, or anywhere, some of them infinite."""
    if circuit.structure.is_categorical[var]:
        states = np.flatnonzero(rng.random(circuit.n_states[var]) < 0.5)
        return [(s - 0.5, s + 0.5) for s in states] or [(-0.5, 0.5)]
    places = [*naive.atoms_of(circuit, var), *rng.normal(0.0, 2.0, 4), -np.inf, np.inf]
    ends = np.sort(rng.choice(places, 2 + 2 * int(rng.integers(2)), replace=False))
    return [(float(a), float(b)) for a, b in zip(ends[::2], ends[1::2])]


def random_events(seed, circuit, n_events):
    """Events, and what they say of each row."""
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, circuit, n_events, 0.7)
    said, flat = [], []
    for event in range(n_events):
        said.append({})
        for var in np.flatnonzero(rng.random(circuit.n_features) < 0.5).tolist():
            rows[event, var] = np.nan
            said[-1][var] = random_intervals(rng, circuit, var)
            flat += [(event, var, *ends) for ends in said[-1][var]]
    flat = [flat[i] for i in rng.permutation(len(flat))]
    event, var, low, high = (np.array(part) for part in zip(*flat))
    return Events.from_intervals(rows, event, var, low.astype(float), high.astype(float)), said


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
def test_probabilities_of_events_equal_the_recursion_over_nodes(make, kinds):
    for seed in range(6):
        circuit = make(seed, n_features=1 + seed % 5, kinds=kinds)
        events, said = random_events(seed, circuit, 15)
        truth = [slow.probability(circuit, *pair) for pair in zip(events.rows, said)]
        assert_allclose(np.exp(log_likelihood(circuit, events)), truth, rtol=1e-12, atol=1e-12)


def test_sets_of_states_sum_the_rows_in_them():
    circuit = random_circuit(3, n_features=4, kinds="discrete")
    sets = [[s for s in range(k) if s != 1] for k in circuit.n_states]
    rows = np.array(list(itertools.product(*sets)), dtype=float)
    flat = [(0, var, s - 0.5, s + 0.5) for var, states in enumerate(sets) for s in states]
    parts = (np.array(part) for part in zip(*flat))
    events = Events.from_intervals(np.full((1, 4), np.nan), *parts)
    total = np.exp(log_likelihood(circuit, rows)).sum()
    assert_allclose(np.exp(log_likelihood(circuit, events)), total, rtol=1e-12)


@pytest.mark.parametrize("kinds", KINDS[2:])
def test_parts_of_a_range_add_up_to_the_whole(kinds):
    circuit = random_circuit(5, n_features=3, kinds=kinds)
    numbers = np.flatnonzero(~circuit.structure.is_categorical)
    cuts = np.array([-np.inf, -1.0, 0.0, 0.3, 2.0, np.inf])
    for var in numbers:
        rows = np.full((5, 3), np.nan)
        events = Events.from_intervals(rows, np.arange(5), np.full(5, var), cuts[:-1], cuts[1:])
        assert np.exp(log_likelihood(circuit, events)).sum() == pytest.approx(1.0, abs=1e-12)


def test_densities_of_known_cells_cancel_in_a_conditional():
    circuit = random_circuit(7, n_features=4, kinds="mixed")
    events, said = random_events(7, circuit, 30)
    given = Events.from_intervals(events.rows, *np.empty((2, 0), int), *np.empty((2, 0)))
    without = Events.from_intervals(np.full((30, 4), np.nan), events.event, *events[2:])
    truth = [
        slow.probability(circuit, row, intervals) / naive.density(circuit, row)
        for row, intervals in zip(events.rows, said)
    ]
    assert_allclose(np.exp(log_conditional(circuit, without, given)), truth, rtol=1e-11)


def test_two_statements_about_a_cell_hold_together():
    circuit = random_circuit(2, n_features=3, kinds="gaussian")
    nothing = np.full((3, 3), np.nan)
    at = np.arange(3), np.zeros(3, int)
    one = Events.from_intervals(nothing, *at, np.array([-1.0, -1.0, 0.5]), np.full(3, 1.0))
    two = Events.from_intervals(nothing, *at, np.full(3, -9.0), np.array([0.5, 2.0, 0.0]))
    both = one.joined(two)
    assert_allclose(both.low, [-1.0, -1.0, 0.5])
    assert_allclose(both.high, [0.5, 1.0, 0.5])
    assert np.isneginf(log_likelihood(circuit, both)[2])


def test_a_known_cell_is_in_an_event_or_makes_it_impossible():
    circuit = random_circuit(2, n_features=3, kinds="gaussian")
    rows = np.array([[0.3, np.nan, np.nan], [3.0, np.nan, np.nan]])
    at = np.arange(2), np.zeros(2, int), np.zeros(2), np.ones(2)
    events = Events.from_intervals(rows, *at)
    inside, outside = log_likelihood(circuit, events)
    assert inside == log_likelihood(circuit, rows)[0]
    assert np.isneginf(outside)
    conditional = condition(circuit, rows[0])
    nothing = np.full((2, 3), np.nan)
    assert_allclose(log_likelihood(conditional, Events.from_intervals(nothing, *at)), [0.0, 0.0])


def test_events_can_be_taken_and_restricted_to_columns():
    circuit = random_circuit(1, n_features=4, kinds="mixed")
    events, _ = random_events(1, circuit, 20)
    index = np.array([4, 4, 17, 0])
    value = log_likelihood(circuit, events)
    assert_allclose(log_likelihood(circuit, events.take(index)), value[index])
    kept = events.only(np.array([True, False, True, False]))
    assert set(kept.column.tolist()) <= {0, 2}
    assert np.isnan(kept.rows[:, [1, 3]]).all()


def test_the_far_ends_of_tails_keep_their_digits():
    circuit = random_circuit(4, n_features=1, kinds="gaussian")
    low, high = np.array([15.0]), np.array([np.inf])
    at = np.zeros(1, int), np.zeros(1, int)
    value = log_likelihood(circuit, Events.from_intervals(np.full((1, 1), np.nan), *at, low, high))
    at = np.zeros(1, int), np.zeros(1, int)
    parts = Events.from_intervals(np.full((1, 1), np.nan), *at, low, np.array([40.0]))
    assert -1000.0 < value[0] < -20.0
    assert_allclose(log_likelihood(circuit, parts), value, rtol=1e-9)


@pytest.mark.parametrize("n_ranges", [1, 2])
def test_ranges_on_blocks_equal_quadrature(n_ranges):
    """One range on a block is exact, two are within the stated error of one percent."""
    for seed in range(4):
        circuit, rng = random_block_circuit(seed, n_numbers=3), np.random.default_rng(seed)
        rows, flat, said = random_rows(seed, circuit, 6, 0.6), [], []
        for event in range(6):
            stated = [*rng.choice([0, 2, 3], n_ranges, replace=False).tolist(), 1]
            rows[event, stated] = np.nan
            said.append({var: random_intervals(rng, circuit, var) for var in stated})
            flat += [(event, var, *ends) for var, each in said[-1].items() for ends in each]
        event, var, low, high = (np.array(part) for part in zip(*flat))
        events = Events.from_intervals(rows, event, var, low, high)
        truth = [slow.block_probability(circuit, *pair) for pair in zip(rows, said)]
        rtol = 1e-9 if n_ranges == 1 else 0.01
        assert_allclose(np.exp(log_likelihood(circuit, events)), truth, rtol=rtol, atol=1e-12)


def test_too_many_ranges_on_a_block_are_an_error():
    circuit = one_block(0, [Law(Score(), np.empty(0))] * 9)
    at = np.zeros(9, int), np.arange(9), np.zeros(9), np.ones(9)
    with pytest.raises(ValueError, match="at most 8 columns of one block"):
        log_likelihood(circuit, Events.from_intervals(np.full((1, 9), np.nan), *at))


def event_of(circuit, said, row=None):
    """One event, from what it says of each variable."""
    rows = np.full((1, circuit.n_features), np.nan) if row is None else row[np.newaxis]
    flat = [(0, var, *ends) for var, each in said.items() for ends in each]
    return Events.from_intervals(rows, *(np.array(part) for part in zip(*flat)))


@pytest.mark.parametrize(
    "kinds", ["discrete", "gaussian", "histogram", "atoms", "scored", "blocks"]
)
def test_draws_are_in_their_event_and_distributed_like_the_rest_given_it(kinds):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        circuit = (
            random_block_circuit(seed) if kinds == "blocks" else random_circuit(seed, 4, kinds)
        )
        known = random_rows(seed, circuit, 1, 0.0)[0]
        known[:3] = np.nan
        event = event_of(circuit, {v: random_intervals(rng, circuit, v) for v in (0, 1)}, known)
        rows = sample(circuit, 4000, 0, event)
        assert event.take(np.zeros(4000, int)).hold(rows).all()
        assert (rows[:, 3] == known[3]).all()
        for var in (0, 1, 2):
            cut = float(np.median(rows[:, var]))
            low = event_of(circuit, {var: [(-np.inf, cut)]}).joined(event)
            share = np.exp(log_likelihood(circuit, low) - log_likelihood(circuit, event))[0]
            n_below = (rows[:, var] <= cut).sum()
            assert abs(n_below - 4000 * share) < 4.5 * np.sqrt(4000 * share * (1 - share)) + 1.0


def test_draws_from_several_ranges_of_a_block_are_in_all_of_them():
    columns = [Law(Score(), np.empty(0)), Law(Score(), np.array([0.0]))]
    circuit = one_block(1, columns)
    event = event_of(circuit, {0: [(0.0, 1.0)], 1: [(-1.0, 0.5)]})
    rows = sample(circuit, 500, 0, event)
    assert event.take(np.zeros(500, int)).hold(rows).all()


@pytest.mark.parametrize("kinds", KINDS)
def test_distributions_given_events_are_ratios_of_probabilities(kinds):
    circuit = random_circuit(8, n_features=4, kinds=kinds)
    events, _ = random_events(8, circuit, 12)
    for var in range(4):
        others = events.only(np.arange(4) != var)
        possible = np.flatnonzero(np.isfinite(log_likelihood(circuit, others)))
        others, n = others.take(possible), len(possible)
        (cells,) = posteriors(circuit, others, [var])
        for cut in (-0.5, 0.5, 1.5):
            at = np.arange(n), np.full(n, var), np.full(n, -np.inf), np.full(n, cut)
            below = Events.from_intervals(np.full((n, 4), np.nan), *at).joined(others)
            ratio = np.exp(log_likelihood(circuit, below) - log_likelihood(circuit, others))
            assert_allclose(cells.cdf(cut), ratio, rtol=1e-10, atol=1e-12)


def test_the_distribution_of_a_variable_with_a_range_is_refused():
    circuit = random_block_circuit(0)
    for var in (0, 2, 3):
        event = event_of(circuit, {var: [(-1.0, 1.0)]})
        with pytest.raises(ValueError, match=f"given a range of variable {var}"):
            posteriors(circuit, event, [var])
