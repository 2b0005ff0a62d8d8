"""The parts of the covariance and precision of a Gaussian that a missingness pattern selects.

A pattern lists the columns that it observes (``here``) and those that are missing (``gone``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import internal_kernel, kernel


@internal_kernel
def split_columns(seen: NDArray[np.bool_], pattern: int, here: Ints, gone: Ints) -> tuple[int, int]:
    """List the observed and the missing columns of a pattern, and count them."""
    n_here, n_gone = 0, 0
    for v in range(seen.shape[1]):
        if seen[pattern, v]:
            here[n_here] = v
            n_here += 1
        else:
            gone[n_gone] = v
            n_gone += 1
    return n_here, n_gone


@internal_kernel
def condition(
    covariance: Floats,
    precision: Floats,
    here: Ints,
    n_here: int,
    gone: Ints,
    n_gone: int,
    inverse: Floats,
    spread: Floats,
) -> None:
    """Invert the smaller block of a pattern; the covariance of its missing given its other cells.

    The first ``n_gone`` rows and columns of ``spread`` receive the latter. The inverse is of the
    missing block of the precision or, where that is larger, of the observed one of the covariance.
    """
    if n_gone <= n_here:
        invert(precision, gone, n_gone, inverse)
        for i in range(n_gone):
            for j in range(n_gone):
                spread[i, j] = inverse[i, j]
        return
    invert(covariance, here, n_here, inverse)
    for i in range(n_gone):
        for j in range(n_gone):
            spread[i, j] = covariance[gone[i], gone[j]]
        for s in range(n_here):
            slope = 0.0
            for t in range(n_here):
                slope += inverse[s, t] * covariance[gone[i], here[t]]
            for j in range(n_gone):
                spread[i, j] -= slope * covariance[here[s], gone[j]]


@kernel
def fill(
    covariance: Floats,
    precision: Floats,
    here: Ints,
    n_here: int,
    gone: Ints,
    n_gone: int,
    inverse: Floats,
    away: Floats,
    space: Floats,
) -> None:
    """Fill in the expected distances of the missing cells of a row."""
    if n_gone <= n_here:
        for i in range(n_gone):
            rest = 0.0
            for v in range(len(away)):
                rest += precision[gone[i], v] * away[v]
            space[i] = rest
        for i in range(n_gone):
            rest = 0.0
            for j in range(n_gone):
                rest += inverse[i, j] * space[j]
            away[gone[i]] = -rest
        return
    for s in range(n_here):
        rest = 0.0
        for t in range(n_here):
            rest += inverse[s, t] * away[here[t]]
        space[s] = rest
    for i in range(n_gone):
        rest = 0.0
        for s in range(n_here):
            rest += covariance[gone[i], here[s]] * space[s]
        away[gone[i]] = rest


@kernel
def invert(matrix: Floats, index: Ints, size: int, inverse: Floats) -> None:
    """Inverse of a positive definite block, by elimination in place."""
    for i in range(size):
        for j in range(size):
            inverse[i, j] = matrix[index[i], index[j]]
    for p in range(size):
        reciprocal = 1.0 / inverse[p, p]
        inverse[p, p] = 1.0
        for j in range(size):
            inverse[p, j] *= reciprocal
        for i in range(size):
            if i != p:
                factor = inverse[i, p]
                inverse[i, p] = 0.0
                for j in range(size):
                    inverse[i, j] -= factor * inverse[p, j]
