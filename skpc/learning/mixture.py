"""Mixtures of cutset networks by structural expectation maximisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp, softmax
from sklearn.cluster import KMeans

from skpc.circuit import Circuit
from skpc.learning.network import CutsetNetwork
from skpc.queries import log_likelihood

__all__ = ["Mixture", "learn_mixture"]

#: A row leaves a component to which it belongs with less than this probability: what it would
#: add to a count is less than rounding to print it.
_NEGLIGIBLE = 1e-6
#: Iterations without an improvement of ``tol`` before structural EM stops.
_PATIENCE = 3

Learn = Callable[[np.ndarray, np.ndarray], CutsetNetwork]
Build = Callable[[CutsetNetwork], Circuit]


class Mixture(NamedTuple):
    """Networks with their weights, and how they were found.

    ``lower_bound`` is the mean log-likelihood (nats per row) of the training rows.
    """

    networks: list[CutsetNetwork]
    weights: np.ndarray
    lower_bound: float
    n_iter: int
    converged: bool


def learn_mixture(
    rows: np.ndarray,
    codes: np.ndarray,
    weight: np.ndarray,
    start: np.ndarray,
    learn: Learn,
    build: Build,
    *,
    n_components: int,
    max_iter: int,
    tol: float,
    n_init: int,
    n_jobs: int | None,
    random_state: np.random.RandomState,
) -> Mixture:
    """Learn a mixture by structural EM (section 6 of the paper), the best of several starts.

    Each iteration learns every network anew from rows weighted by their responsibilities, and
    then the responsibilities from the posterior predictive densities of the networks.

    Parameters
    ----------
    rows, codes : ndarrays of shape (n_rows, n_features)
        Distinct encoded rows, and their states.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    start : ndarray of shape (n_rows, n_numbers)
        Complete numbers in which k-means finds the first components.
    learn, build : callables
        Learn a network from codes and weights; turn it into a circuit.
    n_components, max_iter, n_init : int
        Number of components, of iterations, of starts.
    tol : float
        A start has converged when its bound has improved by less than this (nats per row) in
        each of three iterations.
    n_jobs : int or None
        Networks learned at a time, by joblib.
    random_state : RandomState
        Source of the starts.

    Returns
    -------
    Mixture
        The iterate of greatest bound. Components that lose all rows are dropped.
    """
    options = {"max_iter": max_iter, "tol": tol, "n_jobs": n_jobs}
    n_components = min(n_components, len(rows))
    best: Mixture | None = None
    for _ in range(n_init):
        label = np.zeros(len(rows), dtype=np.int64)
        if n_components > 1:
            means = KMeans(n_components, n_init=1, random_state=random_state)
            label = means.fit(start, sample_weight=weight).labels_
        share = np.eye(n_components)[label]
        found = _structural_em(rows, codes, weight, share, learn, build, **options)
        if best is None or found.lower_bound > best.lower_bound:
            best = found
    return best


def _structural_em(
    rows: np.ndarray,
    codes: np.ndarray,
    weight: np.ndarray,
    share: np.ndarray,
    learn: Learn,
    build: Build,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
) -> Mixture:
    """Alternate networks and responsibilities from given responsibilities on."""
    best: Mixture | None = None
    before, waited, converged = -np.inf, 0, False
    for n_iter in range(1, max_iter + 1):
        total = weight @ share
        share, total = share[:, total > 0], total[total > 0]
        weights = total / total.sum()
        networks = _learn_all(codes, weight, share, learn, n_jobs)
        density = np.column_stack([log_likelihood(build(n), rows) for n in networks])
        density += np.log(weights)
        bound = float(weight @ logsumexp(density, axis=1) / weight.sum())
        if best is None or bound > best.lower_bound:
            best = Mixture(networks, weights, bound, n_iter, False)
        waited = waited + 1 if bound - before < tol else 0
        before = max(before, bound)
        converged = waited >= _PATIENCE or len(weights) == 1
        if converged:
            break
        share = softmax(density, axis=1)
        share[share < _NEGLIGIBLE] = 0.0
    return best._replace(n_iter=n_iter, converged=converged)


def _learn_all(
    codes: np.ndarray, weight: np.ndarray, share: np.ndarray, learn: Learn, n_jobs: int | None
) -> list[CutsetNetwork]:
    def tasks() -> Any:
        for column in share.T:
            member = column > 0
            yield delayed(learn)(codes[member], weight[member] * column[member])

    return Parallel(n_jobs=n_jobs)(tasks())
