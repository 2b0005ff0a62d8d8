"""A predictive distribution by its density on a grid, and weights of a pool row by row."""

import math

import numpy as np


def integral(grid, values):
    """Trapezoids."""
    return float(((values[1:] + values[:-1]) / 2 * np.diff(grid)).sum())


def facts_of(log_density, grid, atoms=(), log_masses=()):
    """Total, mean and standard deviation of a distribution, and its distribution function.

    ``log_density`` are log densities on the grid, which has none of the atoms; ``log_masses`` are
    the log probabilities of these. The distribution function is a function of a number.
    """
    density = np.exp(log_density)
    masses = [math.exp(value) for value in log_masses]

    def average(of):
        points = sum(mass * of(atom) for atom, mass in zip(atoms, masses))
        return integral(grid, density * of(grid)) + points

    mean = average(lambda x: x)

    def below(x):
        part = grid <= x
        points = sum(mass for atom, mass in zip(atoms, masses) if atom <= x)
        return integral(grid[part], density[part]) + points

    return average(lambda x: x**0), mean, math.sqrt(average(lambda x: (x - mean) ** 2)), below


def noise_variance(residual, sd):
    """The variance that, added to known ones, makes normal residuals most likely; on a grid."""
    best, found = -math.inf, None
    for noise in np.exp(np.linspace(-8.0, 4.0, 4001)):
        total = 0.0
        for gap, known in zip(residual, sd):
            variance = known**2 + noise
            total -= 0.5 * (math.log(variance) + gap**2 / variance)
        if total > best:
            best, found = total, noise
    return found


def pool_score(coef, features, log_density, mean, target, weight):
    """Mean log density of a pool, plus that of a normal distribution around its mean.

    The latter is up to a constant: minus half the log of the mean squared error.
    """
    total, squared = 0.0, 0.0
    for r, row in enumerate(features):
        score = [math.exp(sum(x * c for x, c in zip(row, column))) for column in coef.T]
        share = [s / sum(score) for s in score]
        density = sum(s * math.exp(log_density[r, k]) for k, s in enumerate(share))
        pooled = sum(s * mean[r, k] for k, s in enumerate(share))
        total += weight[r] * math.log(density)
        squared += weight[r] * (pooled - target[r]) ** 2
    n_rows = sum(weight)
    return total / n_rows - 0.5 * math.log(squared / n_rows)
