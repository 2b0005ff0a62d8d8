"""Slow truth: the expectation of a model over missing cells, by all completions of a row."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from skpc.circuit import Circuit
from tests.naive import circuit as naive


def expectation(
    circuit: Circuit, row: np.ndarray, answer: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Expected answer for a row of states, given those that are known."""
    options = [
        range(n) if np.isnan(cell) else [cell] for n, cell in zip(circuit.n_states.tolist(), row)
    ]
    total, mass = 0.0, 0.0
    for completed in itertools.product(*options):
        cells = np.array(completed, dtype=np.float64)
        density = naive.evaluate(
            circuit, cells, lambda leaf, x: naive.leaf_density(circuit, leaf, x)
        )
        total, mass = total + density * answer(cells), mass + density
    return total / mass
