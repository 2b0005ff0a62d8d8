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


def kolmogorov_distance(values, reference) -> float:
    """Greatest difference of the shares of values that are at most some point."""
    values = [v for v in values if not math.isnan(v)]

    def below(sample, t):
        return sum(v <= t for v in sample) / len(sample)

    return max(abs(below(values, t) - below(reference, t)) for t in [*values, *reference])


def transform(value, reference) -> float:
    """Probability of less in a reference, and half of that of the value itself."""
    below = sum(r < value for r in reference) + 0.5 * sum(r == value for r in reference)
    return below / len(reference)


def pair_moments(rows, reference) -> list[float]:
    """Means of products of u - 1/2, or (u - 1/2)^2, less their means, of two columns."""
    n_columns = len(rows[0])

    def moment(row, k):
        column = k % n_columns
        u = transform(row[column], [r[column] for r in reference]) - 0.5
        return u if k < n_columns else u * u

    centre = [sum(moment(r, k) for r in reference) / len(reference) for k in range(2 * n_columns)]
    means = []
    for a, b in itertools.combinations(range(2 * n_columns), 2):
        if a % n_columns != b % n_columns:
            both = [r for r in rows if not np.isnan(r[[a % n_columns, b % n_columns]]).any()]
            products = [(moment(r, a) - centre[a]) * (moment(r, b) - centre[b]) for r in both]
            means.append(sum(products) / len(both))
    return means


def capital(pvalues, powers, dealt) -> float:
    """Capital of all ways to change the bet, each with its probability, from 1."""
    total, n_powers = 0.0, len(powers)
    for path in itertools.product(range(n_powers), repeat=len(pvalues) + 1):
        worth = 1.0 / n_powers
        for before, now, p in zip(path, path[1:], pvalues):
            worth *= (1.0 - dealt) * (before == now) + dealt / n_powers
            worth *= powers[now] * p ** (powers[now] - 1.0)
        total += worth
    return total


def covariance_measure(left, right) -> float:
    """Mean product of residuals in standard errors, over the rows that have both; absolute."""
    products = [a * b for a, b in zip(left, right) if not (math.isnan(a) or math.isnan(b))]
    mean = sum(products) / len(products)
    variance = sum((p - mean) ** 2 for p in products) / len(products)
    return math.sqrt(len(products)) * abs(mean) / math.sqrt(variance)


def pair_scores(codes, n_states):
    """What the other cells of a row say of each cell, by the counts of each pair of columns."""
    n_rows, n_columns = codes.shape
    scores = np.where(np.isnan(codes), np.nan, 0.0)
    for a, b in itertools.permutations(range(n_columns), 2):
        both = [row for row in codes if not np.isnan(row[[a, b]]).any()]
        count, expected, chi_square = {}, {}, 0.0
        for i, j in itertools.product(range(n_states[a]), range(n_states[b])):
            n = sum(row[a] == i and row[b] == j for row in both)
            e = sum(row[a] == i for row in both) * sum(row[b] == j for row in both) / len(both)
            count[i, j], expected[i, j] = n, e
            chi_square += (n - e) ** 2 / e if e > 0.0 else 0.0
        freedom = (n_states[a] - 1) * (n_states[b] - 1)
        weight = max(1.0 - freedom / chi_square, 0.0)
        for row, cells in zip(scores, codes):
            if not np.isnan(cells[[a, b]]).any():
                pair = cells[a], cells[b]
                row[a] += weight * np.log((count[pair] + 1.0) / (expected[pair] + 1.0))
    return scores
