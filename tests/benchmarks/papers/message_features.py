"""How well random features approximate kernels on messages (kernel EP, appendices B.3 and B.6)."""

from __future__ import annotations

import numpy as np

from skpc import KernelEPOperator
from skpc.messages import (
    MessageFeatures,
    Moments,
    inner_length_scale_sq,
    outer_length_scale_sq,
)
from tests.benchmarks.kernel_ep import inner_features as draw_inner
from tests.benchmarks.papers.ledger import Figures
from tests.benchmarks.papers.timing import cpu_seconds, slope_of_seconds

#: Numbers of random features.
SIZES = (100, 300, 1000, 3000)
GRID = (100, 300, 1000)
#: Random feature maps whose updates are timed.
OUTER = (250, 500, 1000, 2000)


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


def cost_of_messages() -> Figures:
    """CPU seconds of an update and of a prediction, by outer features and by messages so far."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=6000), rng.uniform(0.5, 2.0, 6000)])
    targets = np.column_stack([np.tanh(rows[:, 0]), np.log(rows[:, 1])])

    def fitted(n_outer: int, n_rows: int = 400) -> KernelEPOperator:
        options = {"n_inner": 100, "n_outer": n_outer, "random_state": 0}
        model = KernelEPOperator(input_distributions=("normal",), **options)
        return model.fit(rows[:n_rows], targets[:n_rows])

    models = {n: fitted(n) for n in OUTER}
    row = rows[:1], targets[:1]
    by_rows = {n: fitted(OUTER[1], n) for n in (500, 5000)}
    return {
        "update": slope_of_seconds(OUTER, lambda n: models[n].partial_fit(*row)),
        "updates": [cpu_seconds(lambda n: by_rows[n].partial_fit(*row), n) for n in by_rows],
        "predictions": [cpu_seconds(lambda n: by_rows[n].predict(rows[:100]), n) for n in by_rows],
    }
