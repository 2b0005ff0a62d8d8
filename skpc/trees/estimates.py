"""Estimates of rows with missing cells: what they are, and what every way to them needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._jit import inlined, kernel, seed_streams
from skpc.trees.laplacian import (
    check_weights,
    differentiate,
    eliminate,
    refuse_unreachable,
    scale_rows,
)
from skpc.trees.tree_inference import span
from skpc.trees.tree_tables import TreeTables, check_codes, check_tables

__all__ = ["Estimates", "Mixture", "adjust", "estimate_rows", "log_product", "stream_after"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Streams = NDArray[np.uint64]

#: Products of two weights or probabilities of this size do not vanish.
_SMALLEST = 1e-100


class Estimates(NamedTuple):
    """What is estimated of rows with missing cells.

    Parameters
    ----------
    log_likelihood : array of shape (n_rows,)
        Log probability of the observed cells in nats.
    marginals : array of shape (n_rows, n_states)
        Probabilities of the states of all variables, one after the other, given the observed cells.
    effective_sample_size : array of shape (n_rows,)
        Number of independent samples of the posterior that would be as good.
    draws : array of shape (n_rows, n), int64
        The rows, their missing cells filled by one joint draw.
    """

    log_likelihood: Floats
    marginals: Floats
    effective_sample_size: Floats
    draws: Ints


class Mixture(NamedTuple):
    """A mixture of all trees, and what all rows need of it."""

    tables: TreeTables
    into: Floats
    #: Probability of each edge, arranged as ``into``.
    edge: Floats
    log_total: float

    @classmethod
    def of(cls, tables: TreeTables, into: Any) -> Mixture:
        tables, n = check_tables(tables), tables.n_features
        weights = np.array(into, dtype=np.float64, order="C")
        if weights.shape != (n, n + 1):
            raise ValueError(f"into must have shape ({n}, {n + 1}); found {weights.shape}.")
        np.fill_diagonal(weights, 0.0)
        check_weights(weights, "into")
        variable = np.repeat(np.arange(n + 1), np.diff(tables.ptr))
        others = variable[:-1, np.newaxis] != variable
        smallest = tables.conditional.min(where=others, initial=1.0)
        if not smallest >= _SMALLEST:
            raise ValueError(
                f"Conditional probabilities must be at least {_SMALLEST:g}; found {smallest:g}."
            )
        scaled = weights.copy()
        log_scale = scale_rows(scaled)
        eliminated, total, slope = scaled.copy(), np.empty(n), np.empty_like(scaled)
        refuse_unreachable(eliminate(eliminated, total))
        differentiate(eliminated, total, slope)
        return cls(tables, weights, scaled * slope, float(log_scale + np.log(total).sum()))


@kernel
def adjust(
    tables: TreeTables, into: Floats, belief: Floats, code: Ints, factor: Floats, proposal: Floats
) -> None:
    """Factor of each edge given the observed cells, and the weights multiplied by it.

    It is the probability of the state of the child given that of the parent, averaged over
    ``belief`` where the parent is missing; one where the child is missing.
    """
    ptr, conditional = tables
    n = len(code)
    for v in range(n):
        for u in range(n + 1):
            expected = 1.0
            if code[v] >= 0:
                row = conditional[ptr[v] + code[v]]
                first, last = span(ptr, code, u)
                expected = 0.0
                for a in range(first, last):
                    expected += row[a] * belief[a]
            factor[v, u] = expected
            proposal[v, u] = into[v, u] * expected if u != v else 0.0


@inlined
def log_product(factor: Floats, parent: Ints) -> float:
    """Log of the product of the factors of the edges of a tree."""
    log_product, product = 0.0, 1.0
    for v in range(len(parent)):
        product *= factor[v, parent[v] if parent[v] >= 0 else len(parent)]
        # One logarithm for many factors, taken before they underflow.
        if product < 1e-100 or product > 1e100:
            log_product += math.log(product)
            product = 1.0
    return log_product + math.log(product)


def stream_after(seed: np.uint64, n_used: int) -> Streams:
    """The stream of random numbers that follows those of the trees."""
    stream = np.empty(1, np.uint64)
    seed_streams(seed, n_used, stream)
    return stream


EstimateRow = Callable[[Mixture, Ints, np.uint64, int, Floats, Ints], tuple[float, float]]


def estimate_rows(
    of_row: EstimateRow, tables: TreeTables, into: Any, codes: Any, seeds: Any, n_samples: int
) -> Estimates:
    """Check the arguments and estimate one row after the other, each from its own seed.

    ``of_row`` overwrites marginals and draw of a row, and returns its log-likelihood and effective
    sample size.
    """
    mixture, rows = Mixture.of(tables, into), check_codes(tables, codes)
    row_seeds = np.asarray(seeds, dtype=np.uint64)
    if row_seeds.shape != (len(rows),):
        raise ValueError(f"seeds must have shape ({len(rows)},); found {row_seeds.shape}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1; found {n_samples}.")
    found = np.empty((len(rows), 2))
    marginals, draws = np.empty((len(rows), len(tables.conditional))), np.empty_like(rows)
    for row, code in enumerate(rows):
        found[row] = of_row(mixture, code, row_seeds[row], n_samples, marginals[row], draws[row])
    return Estimates(found[:, 0], marginals, found[:, 1], draws)
