"""Leaves of one column of numbers: probabilities of its atoms, and a Gaussian of all other scores.

    p(x) = P(atom) for an atom x, else P(no atom) N(score of x) (slope of the score at x)

On a lattice the density of a value is the mass of its cell divided by the step: that of the
Gaussian between the scores of the edges of the cell. A cell that holds an atom has no score; the
Gaussian treats it as missing. A column without atoms and score has no states, and its numbers are
their own scores.

The parameters of a leaf are the log probabilities of the atoms and of all other values, then mean
and standard deviation of the scores. Its table has an entry for each state and one for a missing
cell, and then: mean, 1/sd, log density at the mean relative to the highest peak of the variable,
log value of a missing cell. Its statistics have the same layout; those of the Gaussian are, with d
the distance from the mean: count, sum of d and of d squared over the observed scores, and the count
of the others.

Leaves of several columns are in ``blocks.py``. Those of one column are evaluated inside circuits:
22x as fast as blocks on 20,000 rows of 10 numbers and 50 components. The plain twin is
``tests/naive/circuit.py``.
"""

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._jit import inlined
from skpc._random import Streams, normal, uniform
from skpc.variables.forms import Normals
from skpc.variables.gaussians import updated_moments
from skpc.variables.leaves import Cells, Leaf, Prior, add_states, edge_line
from skpc.variables.normal_cells import (
    HALF_LOG_2_PI,
    NARROW_EXPONENT_SQUARED,
    NARROW_WIDTH_SQUARED,
    log_cell,
    log_mass_between,
    log_narrow_cell,
)
from skpc.variables.score import ATOMS

N_PARAMS = 2
N_ENTRIES = 4
CELL = "a finite number"
NEEDED = "a finite mean and a positive sd"


@inlined
def _log_normal(mean: float, inverse_sd: float, peak: float, missing: float, z: float) -> float:
    """Log density of a score, ``missing`` for NaN; ``peak`` is that of the mean."""
    u = (z - mean) * inverse_sd
    # A comparison with itself finds NaN and vectorises.
    return peak - 0.5 * u * u if u == u else missing


@inlined
def log_gaussian(leaf: Leaf, table: Floats, cells: Cells, r: int) -> float:
    """Log density of a cell of row r relative to the highest peak of the variable."""
    # One entry for each state and one for a missing cell stand before those of the Gaussian.
    gaussian_entry = leaf.first_entry + leaf.n_states + 1
    line = leaf.line
    edges = edge_line(cells, line)
    mean = table[gaussian_entry]
    inverse_sd = table[gaussian_entry + 1]
    z = cells.values[line, r]
    # A cell that holds an atom has no score: the Gaussian takes it as missing.
    value = _log_normal(mean, inverse_sd, table[gaussian_entry + 2], table[gaussian_entry + 3], z)
    # On a lattice the mass of the cell counts, if there is a score.
    if z == z and cells.values[edges, 0] < np.inf:
        low = cells.values[edges, r]
        high = cells.values[edges + 1, r]
        width = (high - low) * inverse_sd
        value = table[gaussian_entry + 2] + cells.values[edges + 2, r]
        if width < np.inf:
            u = (0.5 * (low + high) - mean) * inverse_sd
            value += log_cell(u, width) - 0.5 * u * u
        else:
            # A half-infinite cell has no middle and no width: its log mass counts as it is.
            value += log_mass_between((low - mean) * inverse_sd, (high - mean) * inverse_sd)
            value += HALF_LOG_2_PI - math.log(inverse_sd)
    if leaf.n_states > 1:
        value += table[leaf.first_entry + cells.codes[line, r]]
    return value


@inlined
def log_gaussian_line(
    leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, out: int
) -> None:
    """Log densities on a batch of rows."""
    values = cells.values
    line = leaf.line
    gaussian_entry = leaf.first_entry + leaf.n_states + 1
    # Numbers are read before the loop: inside, the compiler could not know that writing a line
    # leaves the table alone.
    mean = table[gaussian_entry]
    inverse_sd = table[gaussian_entry + 1]
    peak = table[gaussian_entry + 2]
    missing = table[gaussian_entry + 3]
    edges = edge_line(cells, line)
    has_cells = values[edges, 0] < np.inf
    if has_cells:
        for r in range(n):
            low = values[edges, r]
            high = values[edges + 1, r]
            u = (0.5 * (low + high) - mean) * inverse_sd
            width = (high - low) * inverse_sd
            value = peak + values[edges + 2, r] - 0.5 * u * u + log_narrow_cell(u, width)
            lines[out, r] = value if values[line, r] == values[line, r] else missing
    else:
        for r in range(n):
            lines[out, r] = _log_normal(mean, inverse_sd, peak, missing, values[line, r])
    # A state alone has probability one: only atoms need a look-up, which does not vectorise.
    if leaf.n_states > 1:
        for r in range(n):
            lines[out, r] += table[leaf.first_entry + cells.codes[line, r]]
    # The few wide or far cells are computed once more: their special functions do not vectorise.
    for r in range(n if has_cells else 0):
        low = values[edges, r]
        high = values[edges + 1, r]
        width = (high - low) * inverse_sd
        exponent = (0.5 * (low + high) - mean) * inverse_sd * width
        is_narrow = exponent * exponent < NARROW_EXPONENT_SQUARED
        is_narrow &= width * width < NARROW_WIDTH_SQUARED
        if not is_narrow and values[line, r] == values[line, r]:
            # Equal values of a batch share the result of an earlier row.
            same_row = int(values[edges + 3, r])
            known = same_row < r
            lines[out, r] = lines[out, same_row] if known else log_gaussian(leaf, table, cells, r)


@inlined
def add_gaussian(
    leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, flow: int, statistic: Floats
) -> None:
    """Add the statistics of a line of flows."""
    # The count of a single state would be that of the Gaussian.
    if leaf.n_states > 1:
        add_states(leaf, cells, n, lines, flow, statistic)
    values = cells.values
    line = leaf.line
    gaussian_entry = leaf.first_entry + leaf.n_states + 1
    mean = table[gaussian_entry]
    # Four sums in registers: writes into the statistics would keep the loop from vectorising.
    count = 0.0
    total = 0.0
    square = 0.0
    missing = 0.0
    for r in range(n):
        d = values[line, r] - mean
        # NaN must not reach the sums, not even times zero.
        observed = lines[flow, r] if d == d else 0.0
        d = d if d == d else 0.0
        count += observed
        total += observed * d
        square += observed * d * d
        missing += lines[flow, r] - observed
    statistic[gaussian_entry] += count
    statistic[gaussian_entry + 1] += total
    statistic[gaussian_entry + 2] += square
    statistic[gaussian_entry + 3] += missing


@inlined
def draw_gaussian(
    leaf: Leaf, table: Floats, axis: Floats, axis_begin: int, streams: Streams, j: int
) -> tuple[float, bool]:
    """Draw a value from a leaf: an atom, or a score, which is normal; and whether it is a score."""
    n_states = leaf.n_states
    gaussian_entry = leaf.first_entry + n_states + 1
    # Without states numbers are their own scores: what is drawn is the value itself.
    if n_states == 0:
        return table[gaussian_entry] + normal(streams, j) / table[gaussian_entry + 1], False
    # The atoms share the interval with all other values, which come last.
    u = uniform(streams, j)
    for state in range(n_states - 1):
        # The tables of formulas stay logs in the linear domain too.
        u -= math.exp(table[leaf.first_entry + state])
        if u < 0.0:
            return axis[axis_begin + ATOMS + state], False
    return table[gaussian_entry] + normal(streams, j) / table[gaussian_entry + 1], True


def fits(mean: Floats, sd: Floats) -> Any:
    """Whether these are valid parameters; kernels need the reciprocal of the sd, too."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.reciprocal(sd, dtype=np.float64)
    return np.isfinite(mean) & np.isfinite(sd) & np.isfinite(inverse) & (np.asarray(sd) > 0)


def log_peak(mean: Floats, sd: Floats) -> Floats:
    """Log density at the mean."""
    return -np.log(sd) - HALF_LOG_2_PI


def entries(mean: Floats, sd: Floats, highest: Floats) -> Floats:
    """Tables of many leaves, shape (4, n_leaves); ``highest`` is the peak of their variable."""
    return np.array([mean, 1.0 / sd, log_peak(mean, sd) - highest, np.zeros(len(mean))])


def form(mean: Floats, sd: Floats) -> Normals:
    """The distributions of many leaves."""
    return Normals(mean, sd)


def updated(statistic: Floats, param: Floats, prior: Prior) -> Floats:
    """The M-step of many leaves of one column; see :func:`updated_moments`.

    ``statistic`` has shape (4, n_leaves).
    """
    mean, sd = param
    observed, total, square, missing = statistic
    # A leaf is a Gaussian of one dimension: numbers become matrices of shape (n_leaves, 1, 1).
    matrix = (slice(None), np.newaxis, np.newaxis)
    # A missing cell adds its variance, and nothing to the sum of distances from the mean.
    sums = (observed + missing, total[:, np.newaxis], (square + missing * sd**2)[matrix])
    prior = Prior(prior.weight, prior.mean[:, np.newaxis], prior.sd[:, np.newaxis])
    means, covariance = updated_moments(mean[:, np.newaxis], (sd**2)[matrix], sums, prior)
    return np.array([means[:, 0], np.sqrt(covariance[:, 0, 0])])


def log_prior(mean: Floats, sd: Floats, prior: Prior) -> Floats:
    """Mean log density (nats) of a leaf over cells distributed like its column."""
    square = prior.sd**2 + (prior.mean - mean) ** 2
    return log_peak(mean, sd) - 0.5 * square / sd**2
