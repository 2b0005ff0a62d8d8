"""How well random features approximate kernels on messages (kernel EP, appendices B.3 and B.6)."""

from __future__ import annotations

import numpy as np

from skpc.messages import (
    MessageFeatures,
    Moments,
    inner_length_scale_sq,
    outer_length_scale_sq,
)
from tests.benchmarks.kernel_ep import inner_features as draw_inner
from tests.benchmarks.papers.ledger import Figures

#: Numbers of random features.
SIZES = (100, 300, 1000, 3000)
GRID = (100, 300, 1000)


def inner_features() -> Figures:
    """Greatest error of an entry of the kernel matrix by number of inner features (B.3)."""
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0, 3, (100, 1)), rng.gamma(3.0, 4.0, (100, 1))
    moments, width = Moments(mean, variance), np.array([3.0])
    spread = variance + variance.T + width
    exact = np.sqrt(width / spread) * np.exp(-0.5 * (mean - mean.T) ** 2 / spread)
    found = []
    for n in SIZES:
        trials = []
        for seed in range(10):
            features = draw_inner(moments, width, n, np.random.RandomState(seed))
            trials.append(np.abs(features @ features.T - exact).max())
        found.append(float(np.mean(trials)))
    return {"errors": found}


def both_features() -> Figures:
    """Frobenius norm of the error of the kernel matrix by numbers of features (B.6)."""
    rng = np.random.default_rng(0)
    moments = Moments(rng.normal(0, 3, (300, 1)), rng.gamma(3.0, 4.0, (300, 1)))
    width = inner_length_scale_sq(moments)
    outer = outer_length_scale_sq(moments, width)
    spread = moments.variance + moments.variance.T + width
    inner = np.sqrt(width / spread) * np.exp(-0.5 * (moments.mean - moments.mean.T) ** 2 / spread)
    diagonal = np.diag(inner)
    exact = np.exp(-(diagonal[:, np.newaxis] + diagonal - 2.0 * inner) / (2.0 * outer))
    found: Figures = {}
    for n_inner in GRID:
        for n_outer in GRID:
            norms = []
            for seed in range(20):
                random_state = np.random.RandomState(seed)
                features = MessageFeatures.draw(width, outer, n_inner, n_outer, random_state)
                psi = features.transform(moments)
                norms.append(np.linalg.norm(psi @ psi.T - exact))
            found[f"{n_inner} {n_outer}"] = float(np.mean(norms))
    return found
