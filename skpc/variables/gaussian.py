"""Gaussian leaves.

Table of a leaf: mean, 1/sd, log density at the mean relative to the highest peak of the variable,
log value of a missing cell. Statistics, with d the distance from the mean: count, sum of d and of
d squared over the observed cells, and the count of the missing cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._jit import inlined, internal_kernel
from skpc.variables.forms import Normals

N_PARAMS = 2
N_ENTRIES = 4
NEEDED = "a finite mean and a positive sd"


@inlined
def log_gaussian(
    mean: float, inverse_sd: float, relative: float, missing: float, x: float
) -> float:
    """Log density relative to the highest peak of the variable."""
    z = (x - mean) * inverse_sd
    return relative - 0.5 * z * z if z == z else missing


@inlined
def log_gaussian_line(
    first: int, table: Floats, var: int, values: Floats, n: int, lines: Floats, out: int
) -> None:
    """Log densities on a batch of rows."""
    # Read before the loop, where the lines might overlap the table for all the compiler knows.
    mean, inverse_sd = table[first], table[first + 1]
    relative, missing = table[first + 2], table[first + 3]
    for r in range(n):
        lines[out, r] = log_gaussian(mean, inverse_sd, relative, missing, values[var, r])


@internal_kernel
def add_gaussian(
    first: int,
    table: Floats,
    var: int,
    values: Floats,
    n: int,
    lines: Floats,
    flow: int,
    statistic: Floats,
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


def fits(mean: Floats, sd: Floats) -> Any:
    """Whether these are parameters; kernels need the reciprocal of the sd too."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.reciprocal(sd, dtype=np.float64)
    return np.isfinite(mean) & np.isfinite(sd) & np.isfinite(inverse) & (np.asarray(sd) > 0)


def log_peak(mean: Floats, sd: Floats) -> Floats:
    """Log density at the mean."""
    return -np.log(sd) - 0.5 * np.log(2 * np.pi)


def entries(mean: Floats, sd: Floats, highest: Floats) -> Floats:
    """Tables of many leaves, one a column; ``highest`` is the highest peak of the variable."""
    return np.array([mean, 1.0 / sd, log_peak(mean, sd) - highest, np.zeros(len(mean))])


def mode(table: Floats) -> tuple[Floats, Floats]:
    """Most probable value of each leaf, and its log density as the table counts it."""
    return table[0], table[2]


def moments(mean: Floats, sd: Floats, centre: Floats) -> tuple[Floats, Floats]:
    """Mean and mean square around a centre."""
    return mean - centre, (mean - centre) ** 2 + sd**2


def form(mean: Floats, sd: Floats) -> Normals:
    """What kernels and predictive values see."""
    return Normals(mean, sd)


def updated(
    statistic: Floats, param: Floats, pseudo_count: Floats, column_mean: Floats, column_sd: Floats
) -> Floats:
    """The M-step of many leaves, each with ``pseudo_count`` cells distributed like its column.

    ``statistic`` has shape (4, n_leaves). A leaf without any count stays as it is. The sd is kept
    above 1e-6 of the column's.
    """
    (mean, sd), (observed, total, square, missing) = param, statistic
    count = observed + missing + pseudo_count
    some = np.where(count > 0, count, 1.0)
    offset = column_mean - mean
    shift = (total + pseudo_count * offset) / some
    square = square + missing * sd**2 + pseudo_count * (column_sd**2 + offset**2)
    variance = np.maximum(square / some - shift**2, (1e-6 * column_sd) ** 2)
    return np.where(count > 0, [mean + shift, np.sqrt(variance)], param)


def log_prior(mean: Floats, sd: Floats, column_mean: Floats, column_sd: Floats) -> Floats:
    """Mean log density (nats) of a leaf over cells distributed like its column."""
    square = column_sd**2 + (column_mean - mean) ** 2
    return log_peak(mean, sd) - 0.5 * square / sd**2
