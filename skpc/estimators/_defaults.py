"""The densities of estimators that get ``density=None``."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.domain import Domain, merge_rows
from skpc.estimators._circuit_density import CircuitDensity
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.moat import MixtureOfAllTrees
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import TableMixture
from skpc.pooling.folds import column_variances, explained_variance, fit_best, log_score

#: By how much another density has to be better than a cutset network, whose answers are faster: in
#: nats per removed cell, and as a proportion of the variance of removed cells.
_WORTH_NATS, _WORTH_VARIANCE = 0.02, 0.005
#: Trees with which the default mixture of all trees estimates a row with missing cells: a pool asks
#: many such rows, and learns how far to trust the answers.
_N_TREES = 50


def default_densities(random_state: np.random.RandomState) -> list[tuple[str, Any]]:
    """A cutset network, a sum-product network and a mixture of all trees, for a pool."""
    seed = int(random_state.randint(2**31))
    return [
        ("cutset", CutsetNetworkBD(random_state=seed)),
        ("soft", SoftLearnSPN(random_state=seed)),
        ("trees", MixtureOfAllTrees(n_inference_samples=_N_TREES, random_state=seed)),
    ]


def fit_for_cells(table: Any, weight: Floats, random_state: Any, verbose: int) -> CircuitDensity:
    """Fit what fills missing cells: a cutset network, or a TableMixture where there are numbers.

    Where there are two, their completions of removed cells of held-out rows are compared. The one
    that explains more learns from all rows.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
        The checked training rows.
    weight : ndarray of shape (n_rows,)
        Their positive weights.
    random_state : int, RandomState instance or None
        Seeds the densities, and what is held out and removed.
    verbose : int
        Whether the densities show progress.
    """
    shared = {"random_state": random_state, "verbose": verbose}
    candidates: list[CircuitDensity] = [CutsetNetworkBD(**shared)]
    domain, rows, weight = _encoded(candidates[0], table, weight)
    if not domain.is_categorical.all():
        candidates.append(TableMixture(**shared))
    score = explained_variance(column_variances(domain, rows, weight))
    return fit_best(candidates, domain, rows, weight, random_state, score, _WORTH_VARIANCE)


def fit_for_kernels(
    table: Any, weight: Floats, categorical_features: Any, random_state: Any, verbose: int
) -> CircuitDensity:
    """Fit the density of a kernel machine: a cutset network, SoftLearnSPN or TableMixture.

    What predicts removed cells of held-out rows best learns from all rows. TableMixture is tried
    where there are numbers. Rows with missing cells are left to the cutset network, which is
    structured: between such rows a machine needs a structured circuit.

    Parameters
    ----------
    table, weight, random_state, verbose
        As for :func:`fit_for_cells`.
    categorical_features : "auto", "from_dtype", None or array-like
        As of the densities.
    """
    shared = {"random_state": random_state, "verbose": verbose}
    shared["categorical_features"] = categorical_features
    candidates: list[CircuitDensity] = [CutsetNetworkBD(structured=True, **shared)]
    domain, rows, weight = _encoded(candidates[0], table, weight)
    if not np.isnan(rows).any():
        candidates.append(SoftLearnSPN(**shared))
        if not domain.is_categorical.all():
            candidates.append(TableMixture(**shared))
    return fit_best(candidates, domain, rows, weight, random_state, log_score, _WORTH_NATS)


def _encoded(density: CircuitDensity, table: Any, weight: Floats) -> tuple[Domain, Floats, Floats]:
    """The domain that a density declares, and distinct encoded rows with their weights."""
    declared = {"categorical_features": density.categorical_features, "n_bins": density._n_bins}
    domain = Domain.fit(table, sample_weight=weight, **declared)
    return domain, *merge_rows(domain.encode(table), weight)
