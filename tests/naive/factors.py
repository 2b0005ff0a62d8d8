"""Slow truth: the expectation of a product of functions, by all choices of children at sums."""

from __future__ import annotations

import math

import numpy as np

from skpc.circuit import Circuit
from tests.naive import circuit as naive
from tests.naive.kernels import induced_trees


def expectation(circuit: Circuit, row: np.ndarray, expected) -> float:
    """E[product of functions]: densities of known cells, and what a leaf says of the others.

    ``expected[var](leaf)`` is the expectation of the function of a missing cell under a leaf.
    """
    total = 0.0
    for weight, tree in induced_trees(circuit):
        parts = [
            expected[var](leaf) if var in expected else naive.leaf_density(circuit, leaf, row[var])
            for var, leaf in tree.items()
        ]
        total += weight * math.prod(parts)
    return total
