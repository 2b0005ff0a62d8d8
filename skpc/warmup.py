"""Compile what the estimators need, once: ``python -m skpc.warmup``.

Compiled functions are cached on disk, so that later processes load them. Run it in the recipe of a
container, or before a cluster starts many workers at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from skpc import estimators as models
from skpc._jit import KERNELS
from skpc.circuit import CircuitBuilder
from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler
from skpc.kernels import RBF
from skpc.queries import KernelExpansion, expected_gram
from skpc.variables import ScoredColumn
from skpc.variables.score import Score

__all__ = ["warmup"]


def warmup() -> None:
    """Fit every estimator to small tables, and call each of its methods once.

    Examples
    --------
    >>> from skpc.warmup import warmup
    >>> warmup()  # doctest: +SKIP
    """
    for X in _tables():
        incomplete = X.copy()
        incomplete[::2, 0] = incomplete[1::3, -1] = np.nan
        # Too many completions to be summed: trees are sampled.
        incomplete[1, 1:] = np.nan
        for density in _densities():
            fitted = density.fit(X)
            for rows in (X, incomplete):
                fitted.score_samples(rows)
            fitted.sample(3, random_state=0)
            fitted.marginals(incomplete)
            for strategy in ("mean", "mpe", "sample"):
                fitted.complete(incomplete, strategy=strategy, random_state=0)
            if hasattr(fitted, "circuit_"):
                fitted.score_samples(incomplete, given=[0])
                fitted.score_cells(incomplete)
                fitted.interval(incomplete)
            else:
                fitted.to_mixture(2, random_state=0)
        _fits_with_missing_cells(X, incomplete)
        _machines(X, incomplete)
    messages, labels = _tables()[1], np.arange(60) % 2
    models.KernelEPOperator(n_inner=10, n_outer=10).fit(messages, labels + 0.0).predict(messages)
    models.LogisticEPClassifier().fit(messages, labels).predict_proba(messages)
    _samplers()
    _blocks()
    _many_columns()
    _many_states()


def _tables() -> list[np.ndarray]:
    """Binary, mixed, and of three states each, whose names are not their numbers."""
    rng = np.random.default_rng(0)
    binary = rng.integers(0, 2, (60, 8)).astype(np.float64)
    mixed = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=(60, 7))])
    return [binary, mixed, rng.integers(1, 4, (60, 8)).astype(np.float64)]


def _densities() -> list[Any]:
    trees = partial(models.MixtureOfAllTrees, max_iter=1, n_inference_samples=100, random_state=0)
    return [
        models.CutsetNetworkBD(),
        models.CutsetNetworkBD(criterion="bic"),
        models.CutsetNetworkBD(n_components=2, random_state=0),
        models.CutsetNetworkBD(structured=True),
        models.SoftLearnSPN(random_state=0),
        models.SoftLearnSPN(clusterer="em", random_state=0),
        models.TableMixture(random_state=0),
        models.HiddenChowLiuTree(random_state=0),
        trees(),
        trees(orientation="undirected"),
        trees(orientation="undirected", inference="collapsed"),
    ]


def _fits_with_missing_cells(X: np.ndarray, incomplete: np.ndarray) -> None:
    models.CutsetNetworkBD(random_state=0).fit(incomplete)
    models.CutsetNetworkBD(n_components=2, random_state=0).fit(incomplete)
    models.SoftLearnSPN(random_state=0).fit(incomplete)
    models.TableMixture(random_state=0).fit(incomplete).predict_proba(incomplete)
    models.MixtureOfAllTrees(max_iter=1, random_state=0).fit(incomplete)
    density = models.CutsetNetworkBD()
    models.CircuitImputer(density).fit(X).transform(incomplete)
    # What it is made of by default has been compiled by now.
    classifier = models.DensityClassifier(density, classifiers=None)
    classifier.fit(X, X[:, 0] > X[0, 0]).predict_proba(incomplete)


def _machines(X: np.ndarray, incomplete: np.ndarray) -> None:
    density = models.CutsetNetworkBD()
    regressor = models.ExpectedKernelSVR(density=density).fit(X, X[:, 1])
    regressor.predict(incomplete, return_std=True)
    models.ExpectedKernelSVR(density=density).fit(incomplete, X[:, 1]).predict(incomplete)
    classifier = models.ExpectedKernelSVC(density=density)
    classifier.fit(X, np.arange(len(X)) % 2).predict(incomplete)


def _blocks() -> None:
    """Expected kernels under a leaf of several numbers with atoms: at points, and of pairs."""
    column, states = ScoredColumn(Score(), np.zeros(1)), np.log([0.5, 0.5])
    builder = CircuitBuilder([2, 2], [column, column])
    builder.block([0, 1], [states, states], np.zeros(2), np.eye(2))
    rows, points = np.array([[1.0, np.nan], [np.nan, np.nan]]), np.ones((1, 2))
    for other in (None, points):
        expected_gram(builder.build(), rows, other, RBF(1.0))
    expansion = KernelExpansion(builder.build(), points, np.ones((1, 1)), RBF(1.0))
    expansion.variance(rows)


def _samplers() -> None:
    graph = FactorGraph.ising_grid(2, 2, coupling=0.2, field=0.1)
    samples = GibbsSampler(graph, burn_in=10, thinning=4, random_state=0).sample(20)
    BlackBoxImportanceSampler(graph, collapse=0.5, random_state=0).fit(samples).marginals()


def _many_columns() -> None:
    """Trees over many columns are eliminated another way."""
    X = np.random.default_rng(0).integers(0, 2, (20, 201))
    models.MixtureOfAllTrees(max_iter=1, random_state=0).fit(X)


def _many_states() -> None:
    """Rows of circuits with many edges a column are counted along their induced trees."""
    X = np.repeat(np.arange(20.0), 10)[:, np.newaxis] + np.zeros(2)
    models.CutsetNetworkBD(categorical_features=[0, 1]).fit(X).partial_fit(X)


def _main() -> None:
    description = """
        Compile what skpc needs, once, by using every estimator on small tables. Later processes
        load the machine code from where numba keeps it: next to the modules of skpc, or in the
        directory that the environment variable NUMBA_CACHE_DIR names.
    """
    argparse.ArgumentParser("python -m skpc.warmup", description=description).parse_args()
    start = time.perf_counter()
    warmup()
    misses = sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)
    seconds = time.perf_counter() - start
    sys.stdout.write(
        f"skpc is warm after {seconds:.0f} s: {misses} functions compiled, the others were on disk "
        "already.\n"
    )


if __name__ == "__main__":
    _main()
