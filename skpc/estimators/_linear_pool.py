"""Weights of a linear pool of predictions, which depend on the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats

#: No log density counts as less than the best one of its row by more than this.
_WORST = 50.0
#: Strength of the squared coefficients' penalty, in nats.
_PENALTY = 1.0
_LEAST = 1e-9


class Standardised(NamedTuple):
    """Features of rows with mean zero and variance one, never beyond the range seen in training.

    Attributes
    ----------
    mean, sd, low, high : ndarray of shape (n_features,)
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, raw: Floats, weight: Floats) -> Standardised:
        """Learn it from rows of shape (n_rows, n_features)."""
        share = weight / weight.sum()
        mean = share @ raw
        sd = np.sqrt(share @ (raw - mean) ** 2)
        return cls(mean, np.where(sd > 0.0, sd, 1.0), raw.min(axis=0), raw.max(axis=0))

    def of(self, raw: Floats) -> Floats:
        """A constant one and the standardised features, shape (n_rows, n_features + 1)."""
        inside = np.clip(raw, self.low, self.high)
        return np.column_stack([np.ones(len(raw)), (inside - self.mean) / self.sd])


def fit_pool(
    log_density: Floats, mean: Floats, target: Floats, features: Floats, weight: Floats
) -> Floats:
    """Coefficients of the weights of a linear pool.

    The weights of a row are ``softmax(features @ coef)``. They maximise the mean log density of the
    pool plus that of a normal distribution around its mean, so that both the distribution and its
    mean count, less a small penalty.

    Parameters
    ----------
    log_density : ndarray of shape (n_rows, n_members)
        Of the targets of rows that no member has learned from, in nats.
    mean : ndarray of shape (n_rows, n_members)
        Means of the predictions.
    target : ndarray of shape (n_rows,)
    features : ndarray of shape (n_rows, n_features)
    weight : ndarray of shape (n_rows,)
        Not negative, some positive.

    Returns
    -------
    ndarray of shape (n_features, n_members)
    """
    n_members, share = log_density.shape[1], weight / weight.sum()
    best = log_density.max(axis=1, keepdims=True)
    counts = np.isfinite(best[:, 0])
    log_density = np.maximum(log_density - np.where(counts[:, np.newaxis], best, 0.0), -_WORST)
    log_share = np.where(counts, share, 0.0)
    square = max(float(share @ (target - share @ target) ** 2), np.finfo(np.float64).tiny)

    def loss(flat: Floats) -> tuple[float, Floats]:
        coef = flat.reshape(-1, n_members)
        log_weight = log_softmax(features @ coef)
        row_weight = np.exp(log_weight)
        joint = log_density + log_weight
        together = np.logaddexp.reduce(joint, axis=1)
        gap = (row_weight * mean).sum(axis=1)
        away = mean - gap[:, np.newaxis]
        gap = gap - target
        error = float(share @ gap**2) / square + _LEAST
        slope = log_share[:, np.newaxis] * (row_weight - np.exp(joint - together[:, np.newaxis]))
        slope += (share * gap)[:, np.newaxis] * row_weight * away / (square * error)
        penalty = _PENALTY / weight.sum()
        value = -float(log_share @ together) + 0.5 * np.log(error) + penalty * float(flat @ flat)
        return value, (features.T @ slope).ravel() + 2.0 * penalty * flat

    start = np.zeros(features.shape[1] * n_members)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x.reshape(-1, n_members))


def log_softmax(score: Floats) -> Floats:
    """Log of weights that sum to one in each row."""
    return np.asarray(score - np.logaddexp.reduce(score, axis=1, keepdims=True))
