"""Parameters of beta and gamma messages with given expected sufficient statistics."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from skpc._arrays import Floats

#: Newton steps on the logarithms of the parameters, and the greatest length of a step.
_STEPS = 100
_LONGEST = 1.0
_CLOSE = 1e-13


def solve_gamma_shape(excess: Floats) -> Floats:
    """Shapes whose log less digamma is this positive number: log of the mean less mean log."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Right at either end of the range, and nowhere off by more than a factor of two.
        log_shape = -np.log(2.0 * excess) + np.log1p(excess / (excess + 3.0))
        for _ in range(_STEPS):
            shape = np.exp(log_shape)
            slope = 1.0 - shape * polygamma(1, shape)
            step = (np.log(shape) - digamma(shape) - excess) / slope
            log_shape = log_shape - np.clip(step, -_LONGEST, _LONGEST)
            if not np.any(np.abs(step) > _CLOSE):
                break
        return np.where(excess > 0.0, np.exp(log_shape), np.nan)


def solve_beta(statistics: Floats) -> Floats:
    """Both parameters, shape (..., 2), for given means of log(x) and log(1 - x)."""
    log_pair = np.zeros_like(statistics)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_STEPS):
            pair = np.exp(log_pair)
            total = pair.sum(axis=-1, keepdims=True)
            miss = digamma(pair) - digamma(total) - statistics
            own, shared = polygamma(1, pair), polygamma(1, total)[..., 0]
            # The inverse of a diagonal matrix less a constant.
            scaled = miss / own
            common = shared / (1.0 - shared * (1.0 / own).sum(axis=-1))
            step = (scaled + (common * scaled.sum(axis=-1))[..., np.newaxis] / own) / pair
            log_pair = log_pair - np.clip(step, -_LONGEST, _LONGEST)
            if not np.any(np.abs(step) > _CLOSE):
                break
        possible = np.exp(statistics).sum(axis=-1, keepdims=True) < 1.0
        return np.where(possible, np.exp(log_pair), np.nan)
