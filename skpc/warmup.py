"""Compile what the estimators need, once: ``python -m skpc.warmup``.

Compiled functions are cached on disk, so that later processes load them. Worth a line in the
recipe of a container, or before a cluster starts many workers at once.
"""

from __future__ import annotations

import numpy as np

from skpc.estimators import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    SoftLearnSPN,
)

__all__ = ["warmup"]


def warmup() -> None:
    """Fit every estimator to small tables, and ask it everything once.

    Examples
    --------
    >>> from skpc.warmup import warmup
    >>> warmup()  # doctest: +SKIP
    """
    for X in _tables():
        for density in _densities():
            fitted = density.fit(X)
            holes = X.copy()
            holes[::2, 0] = holes[1::3, -1] = np.nan
            for rows in (X, holes):
                fitted.score_samples(rows)
            fitted.sample(3, random_state=0)
            fitted.marginals(holes)
            for strategy in ("mean", "mpe", "sample"):
                fitted.complete(holes, strategy=strategy, random_state=0)
            if hasattr(fitted, "circuit_"):
                fitted.surprise(holes)
                fitted.interval(holes)
        CutsetNetworkBD(random_state=0).fit(holes)
        SoftLearnSPN(random_state=0).fit(holes)
        CircuitImputer().fit(X).transform(holes)
        DensityClassifier().fit(X, X[:, 0] > 0).predict_proba(holes)
        _machines(X, holes)
    messages, labels = _tables()[1], np.arange(60) % 2
    KernelEPOperator(n_inner=10, n_outer=10).fit(messages, labels + 0.0).predict(messages)
    LogisticEPClassifier().fit(messages, labels).predict_proba(messages)


def _tables() -> list[np.ndarray]:
    """Binary, mixed, and of three states each."""
    rng = np.random.default_rng(0)
    binary = rng.integers(0, 2, (60, 4)).astype(np.float64)
    mixed = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=(60, 3))])
    return [binary, mixed, rng.integers(0, 3, (60, 4)).astype(np.float64)]


def _densities() -> list[CutsetNetworkBD | SoftLearnSPN | MixtureOfAllTrees]:
    return [
        CutsetNetworkBD(),
        CutsetNetworkBD(n_components=2, random_state=0),
        CutsetNetworkBD(structured=True),
        SoftLearnSPN(random_state=0),
        SoftLearnSPN(clusterer="em", random_state=0),
        MixtureOfAllTrees(max_iter=1, n_inference_samples=10, random_state=0),
        MixtureOfAllTrees(
            orientation="undirected", max_iter=1, n_inference_samples=10, random_state=0
        ),
    ]


def _machines(X: np.ndarray, holes: np.ndarray) -> None:
    regressor = ExpectedKernelSVR().fit(X, X[:, 1])
    regressor.predict(holes, return_std=True)
    ExpectedKernelSVR().fit(holes, X[:, 1]).predict(holes)
    ExpectedKernelSVC().fit(X, np.arange(len(X)) % 2).predict(holes)


if __name__ == "__main__":
    warmup()
