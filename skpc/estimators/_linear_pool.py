"""Weights of a linear pool of predictions, which depend on the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats
from skpc.learning import mixture_weights

#: No log density counts as less than the best one of its row by more than this.
_WORST = 50.0
#: Strength of the penalty on squared coefficients, in nats, and of that on squared errors that
#: vanish, as a part of the variance of the target.
_PENALTY, _LEAST = 1.0, 1e-9
#: A copy of less weight than this is left out.
_SMALLEST = 0.01
#: How often weights of members and of copies are fitted in turn, the steps of EM in each turn, and
#: a part of the rows that lets the copies of a member without weight stay as they are.
_TURNS, _UPDATES, _PRIOR = 3, 10, 1e-6


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


class Stretches(NamedTuple):
    """Weights of members, and of copies of each member that are stretched around its mean.

    Attributes
    ----------
    coef : ndarray of shape (n_features, n_members)
        The weights of the members of a row are ``softmax(features @ coef)``.
    shares : ndarray of shape (n_members, n_factors)
        Those of the copies of each member; they sum to one.
    """

    coef: Floats
    shares: Floats

    @classmethod
    def fit(
        cls,
        log_density: Floats,
        mean: Floats,
        target: Floats,
        features: Floats,
        weight: Floats,
    ) -> Stretches:
        """Fit both in turn.

        Parameters
        ----------
        log_density : ndarray of shape (n_rows, n_members, n_factors)
            Of the targets of rows that no member has learned from, in nats.
        mean : ndarray of shape (n_rows, n_members)
            Means of the predictions, which stretching does not move.
        target : ndarray of shape (n_rows,)
        features : ndarray of shape (n_rows, n_features)
        weight : ndarray of shape (n_rows,)
            Not negative, some positive.
        """
        best = log_density.max(axis=(1, 2))
        counts = np.isfinite(best)
        log_density = log_density - np.where(counts, best, 0.0)[:, np.newaxis, np.newaxis]
        log_density = np.maximum(log_density, -_WORST)
        share = np.where(counts, weight, 0.0) / weight.sum()
        n_members = mean.shape[1]
        shares = np.array([mixture_weights(log_density[:, m], weight) for m in range(n_members)])
        found = cls(np.zeros((features.shape[1], n_members)), shares)
        for turn in range(_TURNS + 1):
            together = found.of_members(log_density)
            coef = _fitted_coef(found.coef, together, mean, target, features, weight, share)
            found = found._replace(coef=coef)
            for _ in range(_UPDATES if turn < _TURNS else 0):
                found = found._updated(log_density, features, share)
            if turn == _TURNS - 1:
                shares = np.where(found.shares < _SMALLEST, 0.0, found.shares)
                found = found._replace(shares=shares / shares.sum(axis=1, keepdims=True))
        return found

    def of_members(self, log_density: Floats) -> Floats:
        """Log densities of the members, shape (n_rows, n_members), from those of the copies."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp.reduce(log_density + np.log(self.shares), axis=2))

    def _updated(self, log_density: Floats, features: Floats, share: Floats) -> Stretches:
        """One step of EM for the copies."""
        with np.errstate(divide="ignore"):
            joint = log_density + np.log(self.shares)
        joint = joint + log_softmax(features @ self.coef)[:, :, np.newaxis]
        together = np.logaddexp.reduce(joint, axis=(1, 2), keepdims=True)
        count = np.tensordot(share, np.exp(joint - together), axes=1) + _PRIOR * self.shares
        return self._replace(shares=count / count.sum(axis=1, keepdims=True))


def _fitted_coef(
    start: Floats,
    log_density: Floats,
    mean: Floats,
    target: Floats,
    features: Floats,
    weight: Floats,
    log_share: Floats,
) -> Floats:
    """Coefficients of the weights of members.

    They maximise the mean log density of the pool plus that of a normal distribution around its
    mean, so that both the distribution and its mean count, less a small penalty.
    """
    n_members, share = log_density.shape[1], weight / weight.sum()
    square = max(float(share @ (target - share @ target) ** 2), np.finfo(np.float64).tiny)
    penalty = _PENALTY / weight.sum()

    def loss(flat: Floats) -> tuple[float, Floats]:
        log_weight = log_softmax(features @ flat.reshape(-1, n_members))
        row_weight, joint = np.exp(log_weight), log_density + log_weight
        together = np.logaddexp.reduce(joint, axis=1)
        pooled = (row_weight * mean).sum(axis=1)
        away, gap = mean - pooled[:, np.newaxis], pooled - target
        error = float(share @ gap**2) / square + _LEAST
        slope = log_share[:, np.newaxis] * (row_weight - np.exp(joint - together[:, np.newaxis]))
        slope += (share * gap)[:, np.newaxis] * row_weight * away / (square * error)
        value = -float(log_share @ together) + 0.5 * np.log(error) + penalty * float(flat @ flat)
        return value, (features.T @ slope).ravel() + 2.0 * penalty * flat

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x.reshape(-1, n_members))


def log_softmax(score: Floats) -> Floats:
    """Log of weights that sum to one in each row."""
    return np.asarray(score - np.logaddexp.reduce(score, axis=1, keepdims=True))
