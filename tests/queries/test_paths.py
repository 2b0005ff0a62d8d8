"""Expectations of sums over paths, against the probabilities of their events one by one."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.circuit import CircuitBuilder
from skpc.queries import Events, Paths, expected_value
from skpc.variables import Law
from skpc.variables.score import Score
from tests.naive import events as slow
from tests.queries.test_events import KINDS, random_intervals
from tests.zoo import (
    one_block,
    random_circuit,
    random_deterministic_circuit,
    random_rows,
)


def random_paths(rng, circuit, n_paths):
    """Paths of a random number of random statements, and these as dicts of intervals."""
    said = [{}]
    for var in range(circuit.n_features):
        said += [{var: random_intervals(rng, circuit, var)} for _ in range(3)]
    column = np.array([0] + [next(iter(one)) for one in said[1:]])
    flat = [
        (number, var, *ends)
        for number, one in enumerate(said)
        for var, intervals in one.items()
        for ends in intervals
    ]
    event, var, low, high = (np.array(part) for part in zip(*flat))
    nothing = np.full((len(said), circuit.n_features), np.nan)
    events = Events.from_intervals(nothing, event, var, low.astype(float), high.astype(float))
    paths = [
        [0, *(1 + 3 * v + rng.integers(3) for v in range(circuit.n_features) if rng.random() < 0.6)]
        for _ in range(n_paths)
    ]
    ptr = np.cumsum([0, *map(len, paths)])
    value = rng.normal(size=(n_paths, 2))
    return Paths(events, column, ptr, np.concatenate(paths).astype(np.int64), value), said


def fulfils(row, statement):
    return all(
        any(low < row[var] <= high for low, high in intervals)
        for var, intervals in statement.items()
    )


def probabilities(circuit, row, said) -> Callable[[frozenset[int]], float]:
    """The slow probability of statements, by their numbers: many paths say the same."""

    def probability(numbers: frozenset[int]) -> float:
        statements = {var: ranges for n in numbers for var, ranges in said[n].items()}
        return slow.probability(circuit, row, statements)

    return cache(probability)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("make", [random_circuit, random_deterministic_circuit])
def test_expectations_are_sums_over_paths_of_probabilities(make, kinds):
    for seed in range(4):
        circuit = make(seed, n_features=1 + seed, kinds=kinds)
        rng = np.random.default_rng(seed)
        rows = random_rows(seed, circuit, 6, 0.5)
        paths, said = random_paths(rng, circuit, 300 if seed == 3 else 10)
        holds = np.array([[fulfils(row, one) for one in said] for row in rows])
        truth = np.zeros((len(rows), 2))
        for out, row in zip(truth, rows):
            probability = probabilities(circuit, row, said)
            whole = probability(frozenset())
            is_open = [any(np.isnan(row[var]) for var in one) for one in said]
            for begin, end, value in zip(paths.ptr, paths.ptr[1:], paths.value):
                numbers = paths.said[begin:end].tolist()
                if all(is_open[n] or fulfils(row, said[n]) for n in numbers):
                    open_ones = frozenset(n for n in numbers if is_open[n])
                    out += value * probability(open_ones) / whole
        assert_allclose(expected_value(circuit, rows, paths, holds), truth, atol=1e-11)


def test_what_cannot_be_is_an_error():
    builder = CircuitBuilder(n_states=[2, 2])
    builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.5, 0.5]))])
    circuit = builder.build()
    paths, said = random_paths(np.random.default_rng(0), circuit, 3)
    with pytest.raises(ValueError, match="probability zero"):
        expected_value(circuit, [[0.0, np.nan]], paths, np.ones((1, len(said)), dtype=bool))
    block = one_block(0, [Law(Score(), np.empty(0))] * 2)
    with pytest.raises(ValueError, match="one variable each"):
        expected_value(block, [[0.0, np.nan]], paths, np.ones((1, len(said)), dtype=bool))
