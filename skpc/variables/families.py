"""Leaf families: their registry, and the kernels that choose between them.

Whoever adds a family writes its file (as ``poisson.py``), adds it to the registry and to the
choices between families here, and adds a method to :class:`skpc.circuit.CircuitBuilder`. A file
of a family with a formula states the size of its table and fills it, evaluates a cell and a batch
of rows, adds up statistics, updates its parameters, and gives its form and its draws.

The kernels take the few facts of one leaf, and of one column: passing the arrays of all would cost
more than the work on a single cell. The plain twin is ``tests/naive/circuit.py``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel
from skpc._random import Streams, draw_index, uniform
from skpc.variables import gaussian, poisson
from skpc.variables.histogram import state_and_log_density
from skpc.variables.leaves import Cells, Column, Leaf, add_states, state_line
from skpc.variables.reading import read_scored

#: Numbers of the families, also in files. A block has several variables, all others have one.
CATEGORICAL = 0
GAUSSIAN = 1
HISTOGRAM = 2
POISSON = 3
SCORED = 4
BLOCK = 5


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


@internal_kernel
def leaf_values(
    leaf: Leaf, table: Floats, cells: Cells, n: int, in_logs: bool, lines: Floats, out: int
) -> None:
    """Write the values of a leaf on a batch of n rows into a line; their logs from a log table.

    The log density of a block was computed before, and is read.
    """
    if leaf.family == CATEGORICAL or leaf.family == HISTOGRAM:
        # These tables are logs or not, as the caller wants them.
        state_line(leaf, table, cells, n, lines, out)
        return
    if leaf.family == POISSON:
        for r in range(n):
            lines[out, r] = poisson.log_poisson(leaf, table, cells.values[leaf.line, r])
    elif leaf.family == BLOCK:
        for r in range(n):
            lines[out, r] = cells.values[leaf.line, r]
    else:
        gaussian.log_gaussian_line(leaf, table, cells, n, lines, out)
    # A loop of its own vectorises; the exponential of the C library would not.
    if not in_logs:
        for r in range(n):
            lines[out, r] = fast_exp(lines[out, r])


@inlined
def log_sum(x: float, y: float) -> float:
    """Log of the sum of two numbers, from their logs."""
    # The greater one is taken out, so that the exponential cannot overflow.
    high = max(x, y)
    low = min(x, y)
    return high + (math.log1p(math.exp(low - high)) if low > -np.inf else 0.0)


@inlined
def cell_value(leaf: Leaf, table: Floats, cells: Cells, r: int, in_logs: bool) -> float:
    """Value of a leaf on the cell of row r, or its log with a log table."""
    if leaf.family == GAUSSIAN or leaf.family == SCORED:
        value = gaussian.log_gaussian(leaf, table, cells, r)
    elif leaf.family == POISSON:
        value = poisson.log_poisson(leaf, table, cells.values[leaf.line, r])
    elif leaf.family == BLOCK:
        value = cells.values[leaf.line, r]
    else:
        # These tables are logs or not, as the caller wants them.
        return table[leaf.first_entry + cells.codes[leaf.line, r]]
    return value if in_logs else fast_exp(value)


@internal_kernel
def add_statistics(
    leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, flow: int, statistic: Floats
) -> None:
    """Add the sufficient statistics of a leaf, weighted by a line of flows; its table has logs."""
    if leaf.family == BLOCK:
        # The statistics of a block need whole rows: its flows are kept, and added up later.
        for r in range(n):
            cells.values[leaf.line + 1, r] += lines[flow, r]
    elif leaf.family == CATEGORICAL or leaf.family == HISTOGRAM:
        add_states(leaf, cells, n, lines, flow, statistic)
    else:
        # Counts have the same statistics, around their rate.
        gaussian.add_gaussian(leaf, table, cells, n, lines, flow, statistic)


@inlined
def draw(
    leaf: Leaf, column: Column, table: Floats, axis: Floats, streams: Streams, j: int
) -> tuple[float, bool]:
    """Draw a value from a leaf of a variable, with random stream ``j``.

    Also returned is whether it is a score or the state of a histogram, which stand for values of
    the variable: see :func:`skpc.variables.leaf_forms.values_of_draws`.
    """
    if leaf.family == GAUSSIAN or leaf.family == SCORED:
        return gaussian.draw_gaussian(leaf, table, axis, column.axis_begin, streams, j)
    if leaf.family == POISSON:
        return poisson.draw_poisson(table[leaf.first_entry + 1], streams, j), False
    # The tables of leaves that have only states are in the linear domain here.
    state = draw_index(table, leaf.first_entry, leaf.n_states, uniform(streams, j))
    return float(state), leaf.family == HISTOGRAM


@inlined
def read_state(column: Column, axis: Floats, x: float) -> tuple[int, float]:
    """State (-1 if unreadable) of an observed cell of a column whose leaves are tables of states,
    and its log base density."""
    # NaN fails the comparison too.
    if not abs(x) < np.inf:
        return -1, 0.0
    if column.axis_end > column.axis_begin:
        return state_and_log_density(axis, column.axis_begin, column.axis_end, x)
    # A category: the comparison comes before the cast, which is undefined for large numbers.
    if not (x >= 0 and x < column.n_states):
        return -1, 0.0
    state = int(x)
    return (state if state == x else -1), 0.0


@inlined
def read_cell(column: Column, axis: Floats, x: float) -> tuple[int, float, float]:
    """State (-1 if unreadable) of an observed cell, what leaves read, and its log base density."""
    if not abs(x) < np.inf:
        return -1, x, 0.0
    if column.family == SCORED:
        return read_scored(column, axis, x)
    if column.n_states > 0:
        state, density = read_state(column, axis, x)
        return state, x, density
    # Counts and plain numbers have no states: every cell has code 0.
    if column.family == POISSON:
        return (0 if x >= 0 and x == math.floor(x) else -1), x, poisson.log_base(x)
    return 0, x, column.log_peak
