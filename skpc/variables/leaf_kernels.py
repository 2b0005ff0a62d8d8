"""What kernels need of a leaf: its values, its statistics, a draw, and how to read a cell.

The functions take the few facts of a leaf one by one: passing the arrays of all leaves would cost
more than the work on a single cell. ``line`` is the line of codes and values that a leaf reads:
that of its variable. A block reads its own log density, which is computed before, and has the next
line for the flow that reaches it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._fast_math import fast_exp
from skpc._jit import inlined
from skpc._random import Streams, draw_index, normal, uniform
from skpc.variables import gaussian, poisson, scored
from skpc.variables.axis import draw_in_state, state_and_log_density
from skpc.variables.leaves import BLOCK, CATEGORICAL, GAUSSIAN, HISTOGRAM, POISSON, SCORED
from skpc.variables.states import add_states, state_line


@inlined
def leaf_line(
    family: int,
    first: int,
    n_states: int,
    line: int,
    table: Floats,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    in_logs: bool,
    lines: Floats,
    out: int,
) -> None:
    """Values of a leaf on a batch of rows; their logs from a log table."""
    if family == GAUSSIAN:
        gaussian.log_gaussian_line(first, table, line, values, n, lines, out)
    elif family == POISSON:
        poisson.log_poisson_line(first, table, line, values, n, lines, out)
    elif family == SCORED:
        scored.log_scored_line(first, n_states, table, line, codes, values, n, lines, out)
    elif family == BLOCK:
        for r in range(n):
            lines[out, r] = values[line, r]
    else:
        state_line(first, n_states, table, line, codes, n, lines, out)
    if family != CATEGORICAL and family != HISTOGRAM and not in_logs:
        for r in range(n):
            lines[out, r] = fast_exp(lines[out, r])


@inlined
def cell_value(
    family: int, first: int, n_states: int, table: Floats, code: Any, x: float, in_logs: bool
) -> float:
    """Value of a leaf on one cell, or its log with a log table."""
    if family == GAUSSIAN:
        value = gaussian.log_gaussian(
            table[first], table[first + 1], table[first + 2], table[first + 3], x
        )
    elif family == POISSON:
        value = poisson.log_poisson(table[first], table[first + 1], table[first + 2], x)
    elif family == SCORED:
        value = scored.log_scored(first, n_states, table, code, x)
    elif family == BLOCK:
        value = x
    else:
        return table[first + code]
    return value if in_logs else fast_exp(value)


@inlined
def add_statistics(
    family: int,
    first: int,
    n_states: int,
    line: int,
    table: Floats,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    lines: Floats,
    flow: int,
    statistic: Floats,
) -> None:
    """Add the sufficient statistics of a leaf, weighted by a line of flows."""
    if family == GAUSSIAN:
        gaussian.add_gaussian(first, table, line, values, n, lines, flow, statistic)
    elif family == POISSON:
        poisson.add_poisson(first, line, values, n, lines, flow, statistic)
    elif family == SCORED:
        scored.add_scored(first, n_states, table, line, codes, values, n, lines, flow, statistic)
    elif family == BLOCK:
        # What the flows add up to needs whole rows: it is made of this line later.
        for r in range(n):
            values[line + 1, r] += lines[flow, r]
    else:
        add_states(first, n_states, line, codes, n, lines, flow, statistic)


@inlined
def draw(
    family: int,
    first: int,
    n_states: int,
    table: Floats,
    axis: Floats,
    axis_begin: int,
    axis_end: int,
    streams: Streams,
    j: int,
) -> float:
    """Draw a value from a leaf, with random stream ``j``."""
    if family == GAUSSIAN:
        return table[first] + normal(streams, j) / table[first + 1]
    if family == POISSON:
        return poisson.draw_poisson(table[first + 1], streams, j)
    if family == SCORED:
        return scored.draw_scored(first, n_states, table, axis, axis_begin, streams, j)
    state = draw_index(table, first, n_states, uniform(streams, j))
    if family == HISTOGRAM:
        return draw_in_state(axis, axis_begin, axis_end, state, uniform(streams, j))
    return float(state)


@inlined
def read_cell(
    n_states: int, family: int, log_peak: float, axis: Floats, first: int, last: int, x: float
) -> tuple[int, float, float]:
    """State (-1 if unreadable) of an observed cell, what leaves read, and its log base density.

    The facts are those of the :class:`Columns` of its variable, whose axis is ``axis[first:last]``.
    """
    if not abs(x) < np.inf:
        return -1, x, 0.0
    if family == SCORED:
        return scored.read_scored(axis, first, last, log_peak, x)
    if last > first:
        state, density = state_and_log_density(axis, first, last, x)
        return state, x, density
    if n_states > 0:
        if not (x >= 0 and x < n_states):
            return -1, x, 0.0
        state = int(x)
        return (state if state == x else -1), x, 0.0
    if family == POISSON:
        return (0 if x >= 0 and x == math.floor(x) else -1), x, poisson.log_base(x)
    return 0, x, log_peak
