"""Gaussian leaves.

Table of a leaf: mean, 1/sd, log density at the mean relative to the highest peak of the variable,
log value of a missing cell. Statistics, with d the distance from the mean: count, sum of d and of
d squared over the observed cells, and the count of the missing ones.
"""

from __future__ import annotations

import numpy as np

from skpc._jit import inlined, kernel

__all__ = [
    "N_ENTRIES",
    "add_gaussian",
    "log_gaussian",
    "log_gaussian_line",
    "log_peak",
    "updated_mean_and_sd",
]

N_ENTRIES = 4


@inlined
def log_gaussian(
    mean: float, inverse_sd: float, relative: float, missing: float, x: float
) -> float:
    """Log density relative to the highest peak of the variable."""
    z = (x - mean) * inverse_sd
    return relative - 0.5 * z * z if z == z else missing


@inlined
def log_gaussian_line(
    first: int,
    table: np.ndarray,
    var: int,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    out: int,
) -> None:
    """Log densities on a block of rows."""
    # Read before the loop, where the lines might overlap the table for all the compiler knows.
    mean, inverse_sd = table[first], table[first + 1]
    relative, missing = table[first + 2], table[first + 3]
    for r in range(n):
        lines[out, r] = log_gaussian(mean, inverse_sd, relative, missing, values[var, r])


@kernel
def add_gaussian(
    first: int,
    table: np.ndarray,
    var: int,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    flow: int,
    statistic: np.ndarray,
) -> None:
    """Add the statistics of a line of flows."""
    mean = table[first]
    count, total, square, missing = 0.0, 0.0, 0.0, 0.0
    for r in range(n):
        d = values[var, r] - mean
        seen = lines[flow, r] if d == d else 0.0
        d = d if d == d else 0.0
        count += seen
        total += seen * d
        square += seen * d * d
        missing += lines[flow, r] - seen
    statistic[first] += count
    statistic[first + 1] += total
    statistic[first + 2] += square
    statistic[first + 3] += missing


def log_peak(sd: np.ndarray) -> np.ndarray:
    """Log density at the mean."""
    return np.asarray(-np.log(sd) - 0.5 * np.log(2 * np.pi))


def updated_mean_and_sd(
    statistic: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    pseudo_count: np.ndarray,
    column_mean: np.ndarray,
    column_sd: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The M-step of many leaves, each with ``pseudo_count`` cells distributed like its column.

    ``statistic`` has shape (4, n_leaves). A leaf without any count stays as it is. The sd is kept
    above 1e-6 of the column's.
    """
    observed, total, square, missing = statistic
    count = observed + missing + pseudo_count
    some = np.where(count > 0, count, 1.0)
    offset = column_mean - mean
    shift = (total + pseudo_count * offset) / some
    square = square + missing * sd**2 + pseudo_count * (column_sd**2 + offset**2)
    variance = np.maximum(square / some - shift**2, (1e-6 * column_sd) ** 2)
    return np.where(count > 0, mean + shift, mean), np.where(count > 0, np.sqrt(variance), sd)


def log_prior(
    mean: np.ndarray, sd: np.ndarray, column_mean: np.ndarray, column_sd: np.ndarray
) -> np.ndarray:
    """Mean log density (nats) of a leaf over cells distributed like its column."""
    spread = column_sd**2 + (column_mean - mean) ** 2
    return np.asarray(log_peak(sd) - 0.5 * spread / sd**2)
