"""Slow truth: Gaussians of a few numbers, one row and one component at a time.

Marginals and conditionals are read off the covariance; no precision, no factor, no shared pattern.
"""

from __future__ import annotations

import math

import numpy as np


def log_normal(x, mean, covariance):
    """Log density (nats) of a complete point."""
    if len(x) == 0:
        return 0.0
    apart = x - mean
    square = apart @ np.linalg.inv(covariance) @ apart
    return -0.5 * (square + np.linalg.slogdet(2 * math.pi * covariance)[1])


def log_density(row, mean, covariance):
    """Log density of the observed cells."""
    seen = ~np.isnan(row)
    return log_normal(row[seen], mean[seen], covariance[np.ix_(seen, seen)])


def conditional(row, mean, covariance):
    """Mean and covariance of all cells given the observed ones, which have no variance."""
    seen = ~np.isnan(row)
    slopes = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    return mean + slopes @ (row - mean)[seen], covariance - slopes @ covariance[seen]


def statistics(scores, mean, covariance, weight):
    """Expected weighted count, sum of distances from the mean, and sum of their products."""
    count, total, square = 0.0, np.zeros(len(mean)), np.zeros((len(mean), len(mean)))
    for row, w in zip(scores, weight):
        expected, spread = conditional(row, mean, covariance)
        apart = expected - mean
        count += w
        total += w * apart
        square += w * (np.outer(apart, apart) + spread)
    return count, total, square


def without(row, column):
    """The row with one more cell missing."""
    return np.where(np.arange(len(row)) == column, np.nan, row)


def leave_one_out(row, mean, covariance):
    """Log density of each observed cell given the other observed ones, by the chain rule."""
    whole = log_density(row, mean, covariance)
    return np.array(
        [
            0.0 if np.isnan(row[v]) else whole - log_density(without(row, v), mean, covariance)
            for v in range(len(row))
        ]
    )
