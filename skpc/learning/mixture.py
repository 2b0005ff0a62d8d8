"""Mixtures of cutset networks by structural expectation maximisation."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import softmax

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.counting.clustering import cluster_points
from skpc.learning.network import CutsetNetwork
from skpc.queries import log_likelihood

#: A row leaves a component to which it belongs with less than this probability: what it would
#: add to a count is less than rounding to print it.
_NEGLIGIBLE = 1e-6
#: Part of each row that is spread evenly over the components at the start. Networks learned from
#: k-means clusters alone are so sure of their rows that hardly any row moves. Of nine sets of the
#: Twenty Datasets, seven had a better validation likelihood with this than with 0.
_EVEN_PART = 0.3
#: Greatest number of iterations of k-means.
_CLUSTERING = 300
#: Structural EM stops once this many iterations together have improved by less than ``tol``.
_PATIENCE = 3

Codes = NDArray[np.int16]
Learn = Callable[[Codes, Floats], CutsetNetwork]
Build = Callable[[CutsetNetwork], Circuit]


class CutsetMixture(NamedTuple):
    """Networks and their weights, and how they were learned.

    ``responsibility`` is the posterior of the components in each training row, ``lower_bound`` the
    mean log-likelihood (nats per row).
    """

    networks: list[CutsetNetwork]
    weights: Floats
    responsibility: Floats
    lower_bound: float
    n_iter: int
    converged: bool


def learn_mixture(
    rows: Floats,
    codes: Codes,
    weight: Floats,
    start: Floats,
    learn: Learn,
    build: Build,
    *,
    n_components: int,
    max_iter: int,
    tol: float,
    n_init: int,
    n_jobs: int | None,
    random_state: np.random.RandomState,
    advance: Callable[[float], object],
    spread: bool = True,
    responsibility: Floats | None = None,
) -> CutsetMixture:
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
        three iterations together.
    n_jobs : int or None
        Networks learned at a time, by joblib.
    random_state : RandomState
        Source of the starts.
    advance : callable
        Called after each iteration, to show progress.
    spread : bool, default=True
        Whether a part of each row is spread evenly over the components at the start.
    responsibility : ndarray of shape (n_rows, n_components), default=None
        Where to begin instead of k-means; there is one start then.

    Returns
    -------
    CutsetMixture
        The iterate of greatest bound. Components that lose all rows are dropped.
    """
    check_n_components(n_components, weight)

    def continued(responsibility: Floats) -> CutsetMixture:
        """Alternate networks and responsibilities until EM converges; the best iterate."""
        best, bounds = None, list[float]()
        while True:
            total = weight @ responsibility
            responsibility, total = responsibility[:, total > 0], total[total > 0]
            weights = total / total.sum()
            if len(total) == 1:
                networks = [learn(codes, weight)]
            else:
                parts = ((codes[r > 0], (weight * r)[r > 0]) for r in responsibility.T)
                networks = list(Parallel(n_jobs=n_jobs)(delayed(learn)(*part) for part in parts))
            joint = np.column_stack([log_likelihood(build(network), rows) for network in networks])
            joint += np.log(weights)
            bound = float(np.average(np.logaddexp.reduce(joint, axis=1), weights=weight))
            responsibility = softmax(joint, axis=1)
            responsibility[responsibility < _NEGLIGIBLE] = 0.0
            advance(1)
            bounds.append(bound)
            if best is None or bound > best.lower_bound:
                best = CutsetMixture(networks, weights, responsibility, bound, 0, False)
            # The last few iterations together have improved the bound by less than ``tol``.
            settled = len(bounds) > _PATIENCE and max(bounds) - max(bounds[:-_PATIENCE]) < tol
            converged = len(best.networks) == 1 or settled
            if converged or len(bounds) == max_iter:
                return best._replace(n_iter=len(bounds), converged=converged)

    if responsibility is not None:
        return continued(responsibility)

    def one_start() -> CutsetMixture:
        clusters = cluster_points(start, weight, n_components, random_state, _CLUSTERING)
        part = _EVEN_PART if spread else 0.0
        return continued((1 - part) * clusters + part / clusters.shape[1])

    n_starts = n_init if n_components > 1 else 1
    return max((one_start() for _ in range(n_starts)), key=lambda learned: learned.lower_bound)


def check_n_components(n_components: int, weight: Floats) -> None:
    """Refuse more components than rows."""
    if n_components > max(weight.sum(), 1):
        raise ValueError(
            f"n_components={n_components} must not exceed the number of rows, found "
            f"{weight.sum():g} sample(s); choose fewer components"
        )
