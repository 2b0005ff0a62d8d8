"""Weights of a linear pool of predictions, which depend on the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skpc._arrays import Floats

#: No log density counts as less than the best one of its row by more than this.
_WORST = 50.0
#: The penalty on a squared coefficient in nats, and that on a constant as a part of it; the log
#: odds that copies of a member start with, next to the member as it is.
_PENALTY, _OF_CONSTANTS, _OTHERS = 1.0, 0.1, -3.0
#: What keeps the logarithm of the squared error finite, as a part of the variance of the target.
_LEAST = 1e-9
_MAX_ITER = 300


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


def fit_weights(
    log_density: Floats,
    mean: Floats,
    target: Floats,
    features: Floats,
    weight: Floats,
    is_own: NDArray[np.bool_],
) -> Floats:
    """Coefficients of the weights of members; each member comes in several copies.

    The weights of all copies of a row are ``softmax(features @ coef)``. They maximise the mean log
    density of the pool plus that of a normal distribution around its mean, so that both the
    distribution and its mean count, less a penalty on the squares of the coefficients.

    Parameters
    ----------
    log_density : ndarray of shape (n_rows, n_members, n_copies)
        Log density of the targets of rows that no member has learned from, in nats.
    mean : ndarray of shape (n_rows, n_members)
        Means of the predictions, which all copies have.
    target : ndarray of shape (n_rows,)
    features : ndarray of shape (n_rows, n_features)
        The first is constant one.
    weight : ndarray of shape (n_rows,)
        Not negative, some positive.
    is_own : ndarray of shape (n_members, n_copies)
        Which copies are the members as they are; others start with small weights.

    Returns
    -------
    ndarray of shape (n_features, n_members, n_copies)
    """
    n_rows, _, n_copies = log_density.shape
    best = log_density.max(axis=(1, 2))
    counts = np.isfinite(best)
    copies = log_density - np.where(counts, best, 0.0)[:, np.newaxis, np.newaxis]
    copies = np.maximum(copies, -_WORST).reshape(n_rows, -1)
    share = weight / weight.sum()
    log_share = np.where(counts, share, 0.0)
    square = max(float(share @ (target - share @ target) ** 2), np.finfo(np.float64).tiny)
    start = np.zeros((features.shape[1], copies.shape[1]))
    start[0] = np.where(is_own.ravel(), 0.0, _OTHERS)
    penalty = np.full(start.shape, _PENALTY) / weight.sum()
    penalty[0] *= _OF_CONSTANTS

    def loss(flat: Floats) -> tuple[float, Floats]:
        away = flat.reshape(start.shape)
        log_weight = log_softmax(features @ (start + away))
        of_copies, joint = np.exp(log_weight), copies + log_weight
        together = np.logaddexp.reduce(joint, axis=1)
        of_members = of_copies.reshape(*mean.shape, n_copies).sum(axis=2)
        pooled = (of_members * mean).sum(axis=1)
        gap = pooled - target
        error = float(share @ gap**2) / square + _LEAST
        push = (share * gap)[:, np.newaxis] * (mean - pooled[:, np.newaxis]) / (square * error)
        slope = log_share[:, np.newaxis] * (of_copies - np.exp(joint - together[:, np.newaxis]))
        slope += np.repeat(push, n_copies, axis=1) * of_copies
        value = 0.5 * np.log(error) - float(log_share @ together) + (penalty * away**2).sum()
        return value, (features.T @ slope + 2.0 * penalty * away).ravel()

    options = {"maxiter": _MAX_ITER}
    found = minimize(loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    return np.asarray((start + found.x.reshape(start.shape)).reshape(-1, *is_own.shape))


def log_weights(features: Floats, coef: Floats) -> Floats:
    """Log weights of all copies of members for each row, shape (n_rows, n_members, n_copies)."""
    found = log_softmax(features @ coef.reshape(len(coef), -1))
    return found.reshape(len(features), *coef.shape[1:])


def log_softmax(score: Floats) -> Floats:
    """Log of weights that sum to one in each row."""
    return np.asarray(score - np.logaddexp.reduce(score, axis=1, keepdims=True))
