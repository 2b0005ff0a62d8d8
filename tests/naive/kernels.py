"""Slow truth: kernels cell by cell, expectations by quadrature and by listing everything."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from skpc.kernels import RBF, Bins, Delta, ExponentialHamming, Normals, States

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def cell_value(kernel, x: float, y: float) -> float:
    """A column kernel between two cells."""
    if isinstance(kernel, RBF):
        return math.exp(-kernel.gamma * (x - y) ** 2)
    if isinstance(kernel, ExponentialHamming):
        return math.exp(-kernel.gamma * float(x != y))
    assert isinstance(kernel, Delta)
    return float(x == y)


def row_value(kernel, x: np.ndarray, y: np.ndarray) -> float:
    """A kernel between two rows."""
    total = 0.0
    for weight, factors in kernel.terms(len(x)):
        total += weight * math.prod(cell_value(f, a, b) for f, a, b in zip(factors, x, y))
    return total


def points_of(distribution, gamma: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points and weights whose sums are the integrals of smooth functions, a list a member.

    ``gamma`` is that of the kernel to be integrated: panels are narrower than its bump.
    """
    if isinstance(distribution, States):
        return [(np.arange(len(prob), dtype=float), prob) for prob in distribution.prob]
    if isinstance(distribution, Normals):
        return [_normal_points(m, s, gamma) for m, s in zip(distribution.mean, distribution.sd)]
    assert isinstance(distribution, Bins)
    return [_bin_points(prob, distribution.axis, gamma) for prob in distribution.prob]


def expectation(kernel, left, right) -> np.ndarray:
    """A column kernel under each pair of two lists of distributions, by quadrature."""
    gamma = getattr(kernel, "gamma", 1.0)
    lefts, rights = points_of(left, gamma), points_of(right, gamma)
    found = np.empty((len(lefts), len(rights)))
    for i, (x, u) in enumerate(lefts):
        for j, (y, v) in enumerate(rights):
            found[i, j] = sum(u[part] @ (_values(kernel, x[part], y) @ v) for part in _parts(x))
    return found


def _values(kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if isinstance(kernel, RBF):
        return np.exp(-kernel.gamma * (x[:, None] - y) ** 2)
    return np.array([[cell_value(kernel, a, b) for b in y] for a in x])


def _parts(x: np.ndarray):
    return (slice(start, start + 500) for start in range(0, len(x), 500))


def _panels(low: float, high: float, widest: float) -> tuple[np.ndarray, np.ndarray]:
    edges = np.linspace(low, high, int((high - low) / widest) + 2)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (NODES + 1)).ravel()
    return x, (half * WEIGHTS).ravel()


def _normal_points(mean: float, sd: float, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    if sd == 0.0:
        return np.array([mean]), np.ones(1)
    x, w = _panels(mean - 9 * sd, mean + 9 * sd, min(sd, 1 / math.sqrt(gamma)))
    return x, w * np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def _bin_points(prob: np.ndarray, axis: np.ndarray, gamma: float):
    edges, bump = axis[1:-1], 1 / math.sqrt(gamma)
    points, weights = [], []
    for scale, edge, sign, share in (
        (axis[0], edges[0], -1, prob[0]),
        (axis[-1], edges[-1], 1, prob[-1]),
    ):
        z, w = _panels(0.0, 40.0, min(1.0, bump / scale))
        points.append(edge + sign * scale * z)
        weights.append(share * w * np.exp(-z))
    for share, (low, high) in zip(prob[1:-1], pairwise(edges)):
        x, w = _panels(low, high, bump)
        points.append(x)
        weights.append(share * w / (high - low))
    return np.concatenate(points), np.concatenate(weights)
