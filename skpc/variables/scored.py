"""Leaves of numbers with atoms: a probability for each, and a Gaussian of the other scores.

A leaf has the log probabilities of the atoms and of all other values (its last state), then the
mean and standard deviation of the scores of the other values. Its table and its statistics are the
table and statistics of its states followed by those of a Gaussian leaf.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._jit import inlined, internal_kernel, kernel
from skpc._random import Streams, normal, uniform
from skpc.variables.gaussian import add_gaussian, log_gaussian
from skpc.variables.score import score_of, value_of
from skpc.variables.scored_column import ATOMS, HEAD
from skpc.variables.states import add_states

#: Times that draws outside the range are redrawn before they are moved to its end.
REDRAWS = 100


@inlined
def read_scored(
    column: Floats, first: int, last: int, log_peak: float, x: float
) -> tuple[int, float, float]:
    """State of a value, its score (NaN for an atom), and its log base density."""
    step = column[first + 1]
    for at in range(first + ATOMS, last):
        if abs(x - column[at]) <= column[first + 2]:
            return at - first - ATOMS, np.nan, (-math.log(step) if step > 0.0 else 0.0)
    z, slope = score_of(column, first + HEAD, x)
    return last - first - ATOMS, z, log_peak + slope


@inlined
def log_scored(first: int, n_states: int, table: Floats, code: Any, z: float) -> float:
    """Log density of a cell relative to the highest peak of the variable."""
    at = first + n_states + 1
    rest = log_gaussian(table[at], table[at + 1], table[at + 2], table[at + 3], z)
    return table[first + code] + rest


@inlined
def log_scored_line(
    first: int,
    n_states: int,
    table: Floats,
    var: int,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    lines: Floats,
    out: int,
) -> None:
    """Log densities on a batch of rows."""
    at = first + n_states + 1
    mean, inverse_sd, relative = table[at], table[at + 1], table[at + 2]
    for r in range(n):
        rest = log_gaussian(mean, inverse_sd, relative, 0.0, values[var, r])
        lines[out, r] = table[first + codes[var, r]] + rest


@kernel
def add_scored(
    first: int,
    n_states: int,
    table: Floats,
    var: int,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    lines: Floats,
    flow: int,
    statistic: Floats,
) -> None:
    """Add the statistics of a line of flows."""
    add_states(first, n_states, var, codes, n, lines, flow, statistic)
    add_gaussian(first + n_states + 1, table, var, values, n, lines, flow, statistic)


@inlined
def is_atom(column: Floats, begin: int, n_states: int, x: float) -> bool:
    """Whether a value belongs to one of the atoms of a column of ``n_states`` states."""
    for at in range(begin + ATOMS, begin + ATOMS + n_states - 1):
        if abs(x - column[at]) <= column[begin + 2]:
            return True
    return False


@internal_kernel
def draw_scored(
    first: int,
    n_states: int,
    table: Floats,
    column: Floats,
    begin: int,
    streams: Streams,
    j: int,
) -> float:
    """Draw a value: an atom, or one whose score is normal; redrawn while out of the range."""
    u = uniform(streams, j)
    for state in range(n_states - 1):
        u -= math.exp(table[first + state])
        if u < 0.0:
            return column[begin + ATOMS + state]
    at = first + n_states + 1
    low, high = column[begin + 4], column[begin + 5]
    x = np.nan
    for _ in range(REDRAWS):
        x = value_of(column, begin + HEAD, table[at] + normal(streams, j) / table[at + 1])
        if low <= x <= high and not is_atom(column, begin, n_states, x):
            return x
    return min(max(x, low), high)
