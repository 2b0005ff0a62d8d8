"""Slow truth: statistics of tests by plain loops, p-values over all partitions of a few rows."""

from __future__ import annotations

import itertools
import math

import numpy as np


def standardised_difference(values, is_second) -> float:
    """Second part less first part, in standard errors, for one column; NaN is left out."""
    parts = [
        [v for v, s in zip(values, is_second) if s == second and not math.isnan(v)]
        for second in (False, True)
    ]
    if not all(parts):
        return 0.0
    both = parts[0] + parts[1]
    mean = sum(both) / len(both)
    variance = sum((v - mean) ** 2 for v in both) / len(both)
    if variance == 0.0:
        return 0.0
    means = [sum(part) / len(part) for part in parts]
    error = math.sqrt(variance * (1.0 / len(parts[0]) + 1.0 / len(parts[1])))
    return (means[1] - means[0]) / error


def greatest_difference(values, is_second) -> float:
    return max(abs(standardised_difference(column, is_second)) for column in np.transpose(values))


def squared_discrepancy(gram, is_second) -> float:
    """The U-statistic of the maximum mean discrepancy, by double sums."""
    first, second = np.flatnonzero(~is_second), np.flatnonzero(is_second)

    def mean(pairs):
        pairs = list(pairs)
        return sum(gram[i, j] for i, j in pairs) / len(pairs)

    within = sum(mean(itertools.permutations(part, 2)) for part in (first, second))
    return within - 2.0 * mean(itertools.product(first, second))


def exact_pvalue(statistic, is_second, unit) -> float:
    """Share of the ways to deal the units whose statistic is at least that of the actual one."""
    units = sorted(set(unit))
    n_second = len({u for u, s in zip(unit, is_second) if s})
    observed, counts = statistic(np.asarray(is_second)), []
    for chosen in itertools.combinations(units, n_second):
        counts.append(statistic(np.isin(unit, chosen)) >= observed - 1e-9)
    return sum(counts) / len(counts)


def mixed_kernel(x, y, is_category, mean, sd, scale) -> float:
    """Gaussian in standardised numbers, exponential Hamming in categories."""
    distance = sum(
        float(a != b) if c else ((a - b) / s) ** 2 for a, b, c, s in zip(x, y, is_category, sd)
    )
    return math.exp(-distance / scale)
