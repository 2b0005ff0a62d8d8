"""Slow truth: calibration row by row, and scores of removed cells by listing completions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from scipy.optimize import minimize


def platt(evidence: np.ndarray, is_class: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and offset of Platt's sigmoid ``1 / (1 + exp(a f + b))``, of smoothed targets."""
    n_in, n_out = weight[is_class].sum(), weight[~is_class].sum()
    high, low = (n_in + 1.0) / (n_in + 2.0), 1.0 / (n_out + 2.0)

    def loss(params: np.ndarray) -> float:
        total = 0.0
        for f, mine, w in zip(evidence, is_class, weight):
            p = 1.0 / (1.0 + math.exp(params[0] * f + params[1]))
            t = high if mine else low
            total -= w * (t * math.log(p) + (1.0 - t) * math.log(1.0 - p))
        return total

    found = minimize(loss, np.array([-1.0, 0.0]), method="Nelder-Mead", options={"xatol": 1e-7})
    return found.x[0], found.x[1]


def inverse_temperature(
    evidence: np.ndarray, code: np.ndarray, weight: np.ndarray, n_classes: int
) -> float:
    """The factor of the logits of least log loss, of smoothed targets, on a grid."""
    count = [weight[code == c].sum() for c in range(n_classes)]

    def loss(factor: float) -> float:
        total = 0.0
        for logits, c, w in zip(evidence, code, weight):
            normaliser = math.log(sum(math.exp(factor * x) for x in logits))
            for k, x in enumerate(logits):
                target = ((count[c] + 1.0) if k == c else 1.0) / (count[c] + n_classes)
                total -= w * target * (factor * x - normaliser)
        return total

    return min((math.exp(0.01 * step) for step in range(-300, 300)), key=loss)


def score_of_removed(density, rows: np.ndarray, left: np.ndarray, weight: np.ndarray) -> float:
    """Mean log probability of a removed category given the rest of its row."""
    total, n_removed = 0.0, 0.0
    for row, rest, w in zip(rows, left, weight):
        completions, probabilities = _completions(density, rest)
        fits = ((completions == row) | np.isnan(row)).all(axis=1)
        total += w * math.log(probabilities[fits].sum())
        n_removed += w * (np.isnan(rest) & ~np.isnan(row)).sum()
    return total / n_removed


def explained_of_removed(density, rows: np.ndarray, left: np.ndarray, weight: np.ndarray) -> float:
    """Proportion of the variance of removed categories that is explained, a mean over cells."""
    total, n_removed = 0.0, 0.0
    for row, rest, w in zip(rows, left, weight):
        completions, probabilities = _completions(density, rest)
        for column in np.flatnonzero(np.isnan(rest) & ~np.isnan(row)):
            error = variance = 0.0
            for state in range(density.domain_.n_states[column]):
                known = ~np.isnan(rows[:, column])
                share = np.average(rows[known, column] == state, weights=weight[known])
                found = probabilities[completions[:, column] == state].sum()
                error += ((row[column] == state) - found) ** 2
                variance += share * (1.0 - share)
            total += w * (1.0 - error / variance)
            n_removed += w
    return total / n_removed


def _completions(density, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All completions of a row, and their probabilities given what is left of it."""
    missing = np.flatnonzero(np.isnan(rest))
    completions = []
    for states in product(*(range(density.domain_.n_states[column]) for column in missing)):
        completion = rest.copy()
        completion[missing] = states
        completions.append(completion)
    probabilities = np.exp(density.score_samples(np.array(completions)))
    return np.array(completions), probabilities / probabilities.sum()
