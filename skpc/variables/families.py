"""Leaf families: which there are, and what kernels need of a leaf.

Whoever adds a family writes its file (as ``poisson.py``), adds it to the registry and to the
choices between families here, and adds a method to :class:`skpc.circuit.CircuitBuilder`. A file
of a family with a formula states the size of its table and fills it, evaluates a cell and a batch
of rows, adds up statistics, updates its parameters, and gives its form and its draws.

The kernels take the few facts of a leaf one by one: passing the arrays of all leaves would cost
more than the work on a single cell. The plain twin is ``tests/naive/circuit.py``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._fast_math import fast_exp
from skpc._jit import inlined
from skpc._random import Streams, draw_index, uniform
from skpc.variables import gaussian, poisson
from skpc.variables.axis import draw_in_state, state_and_log_density
from skpc.variables.leaves import add_states, state_line

#: Numbers of the families, which files have too. A block has several variables, all others one.
CATEGORICAL, GAUSSIAN, HISTOGRAM, POISSON, SCORED, BLOCK = 0, 1, 2, 3, 4, 5


class Family(NamedTuple):
    """A family: its name, what its variables have, and the file of its formula, if it has one."""

    name: str
    variable: str
    formula: Any = None


FAMILIES = {
    CATEGORICAL: Family("categorical", "states and no axis"),
    GAUSSIAN: Family("gaussian", "no states", gaussian),
    HISTOGRAM: Family("histogram", "a histogram axis"),
    POISSON: Family("poisson", "no states", poisson),
    SCORED: Family("scored", "atoms and a score", gaussian),
    BLOCK: Family("block", "atoms and a score"),
}
#: The formulas of leaves of one variable, and the families that have states and nothing more.
FORMULAS = {number: family.formula for number, family in FAMILIES.items() if family.formula}
WITH_STATES_ALONE = [CATEGORICAL, HISTOGRAM]


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
    """Values of a leaf on a batch of rows; their logs from a log table.

    ========  ================  ============================================================
    family    int               number of the family
    first     int               where the table of the leaf begins
    n_states  int               number of its states
    line      int               the line that it reads: that of its variable; a block reads
                                its log density, which is computed before
    table     (n_entries,)      tables of all leaves
    codes     (n_lines, size)   states of cells
    values    (n_lines, size)   numbers or scores of cells, NaN without one
    n         int               number of rows
    in_logs   bool              whether the values wanted are logs
    lines     (n_values, size)  values of nodes
    out       int               the line that is written
    ========  ================  ============================================================
    """
    # The most frequent families come first.
    if family in (GAUSSIAN, SCORED):
        gaussian.log_gaussian_line(first, n_states, table, line, codes, values, n, lines, out)
    elif family == POISSON:
        poisson.log_poisson_line(first + 1, table, line, values, n, lines, out)
    elif family == BLOCK:
        for r in range(n):
            lines[out, r] = values[line, r]
    else:
        state_line(first, n_states, table, line, codes, n, lines, out)
    # A loop of its own vectorises; the exponential of the C library would not.
    if family != CATEGORICAL and family != HISTOGRAM and not in_logs:
        for r in range(n):
            lines[out, r] = fast_exp(lines[out, r])


@inlined
def cell_value(
    family: int, first: int, n_states: int, table: Floats, code: Any, x: float, in_logs: bool
) -> float:
    """Value of a leaf on one cell, or its log with a log table."""
    if family in (GAUSSIAN, SCORED):
        value = gaussian.log_gaussian(first, n_states, table, code, x)
    elif family == POISSON:
        value = poisson.log_poisson(table[first + 1], table[first + 2], table[first + 3], x)
    elif family == BLOCK:
        value = x
    else:
        # These tables are logs or not, as the caller wants them.
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
    """Add the sufficient statistics of a leaf, weighted by a line of flows.

    =========  ================  ===========================================================
    family     int               number of the family
    first      int               where the table of the leaf begins
    n_states   int               number of its states
    line       int               the line that it reads; a block has the next one for the
                                 flow that reaches it
    table      (n_entries,)      log tables of all leaves
    codes      (n_lines, size)   states of cells
    values     (n_lines, size)   numbers or scores of cells, NaN without one
    n          int               number of rows
    lines      (n_values, size)  flows
    flow       int               the line of the flow that reaches the leaf
    statistic  (n_entries,)      statistics of all leaves, added to
    =========  ================  ===========================================================
    """
    if family in (GAUSSIAN, SCORED):
        gaussian.add_gaussian(
            first, n_states, table, line, codes, values, n, lines, flow, statistic
        )
    elif family == POISSON:
        poisson.add_poisson(first + 1, line, values, n, lines, flow, statistic)
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
    """Draw a value from a leaf, with random stream ``j``.

    ==========  =============  =========================================================
    family      int            number of the family
    first       int            where the table of the leaf begins
    n_states    int            number of its states
    table       (n_entries,)   tables of all leaves
    axis        (n_numbers,)   what the leaves of variables have in common
    axis_begin  int            where that of its variable begins
    axis_end    int            where it ends
    streams     (n_streams,)   random streams
    j           int            the stream to draw from
    ==========  =============  =========================================================
    """
    if family in (GAUSSIAN, SCORED):
        return gaussian.draw_gaussian(first, n_states, table, axis, axis_begin, streams, j)
    if family == POISSON:
        return poisson.draw_poisson(table[first + 2], streams, j)
    # The tables of leaves that have only states are in the linear domain here.
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
    # NaN fails the comparison too.
    if not abs(x) < np.inf:
        return -1, x, 0.0
    if family == SCORED:
        return gaussian.read_scored(axis, first, last, log_peak, x)
    if last > first:
        state, density = state_and_log_density(axis, first, last, x)
        return state, x, density
    # A category: the comparison comes before the cast, which is undefined for large numbers.
    if n_states > 0:
        if not (x >= 0 and x < n_states):
            return -1, x, 0.0
        state = int(x)
        return (state if state == x else -1), x, 0.0
    # Counts and plain numbers have no states: every cell has code 0.
    if family == POISSON:
        return (0 if x >= 0 and x == math.floor(x) else -1), x, poisson.log_base(x)
    return 0, x, log_peak
