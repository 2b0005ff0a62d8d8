"""Passes up over a batch of rows: one line of values for each node, children first."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import FALSE, TRUE, inlined, internal_kernel, kernel
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import Cells
from skpc.variables.families import leaf_line
from skpc.variables.leaves import LeafTable

#: Roots below are evaluated again in the log domain.
TINY = 1e-280


@inlined
def _scale_line(lines: Floats, out: int, source: int, factor: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = factor * lines[source, r]


@inlined
def _add_scaled_line(lines: Floats, out: int, source: int, factor: float, n: int) -> None:
    for r in range(n):
        lines[out, r] += factor * lines[source, r]


@inlined
def _multiply_line(lines: Floats, out: int, source: int, n: int) -> None:
    for r in range(n):
        lines[out, r] *= lines[source, r]


@inlined
def _shift_line(lines: Floats, out: int, source: int, shift: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = shift + lines[source, r]


@inlined
def _add_line(lines: Floats, out: int, source: int, n: int) -> None:
    for r in range(n):
        lines[out, r] += lines[source, r]


@inlined
def _maximum_line(lines: Floats, out: int, source: int, shift: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = max(lines[out, r], shift + lines[source, r])


@kernel
def upward(
    plan: Plan,
    slot: Ints,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
) -> None:
    """Evaluate all inner nodes in the linear domain; the last of the lines is scratch."""
    is_sum, ptr, arg, leaves = plan.is_sum, plan.ptr, plan.arg, plan.leaves
    weight, table, codes, values = tables.weight, tables.table, cells.codes, cells.values
    scratch = lines.shape[0] - 1
    for i in range(len(is_sum)):
        out = slot[i]
        begin = ptr[i]
        for a in range(begin, ptr[i + 1]):
            child = arg[a]
            if child >= 0:
                source = slot[child]
            else:
                source = out if a == begin else scratch
                leaf_values(leaves, ~child, table, codes, values, n, FALSE, lines, source)
            if is_sum[i] == 0:
                if a > begin:
                    _multiply_line(lines, out, source, n)
                elif source != out:
                    _scale_line(lines, out, source, 1.0, n)
            elif a == begin:
                _scale_line(lines, out, source, weight[a], n)
            else:
                _add_scaled_line(lines, out, source, weight[a], n)


@kernel
def upward_log(
    plan: Plan,
    slot: Ints,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    maximise: bool,
) -> None:
    """Evaluate all inner nodes in the log domain; the last two lines are scratch.

    With ``maximise`` sums become maxima, as for the most probable completion.
    """
    is_sum, ptr, arg, leaves = plan.is_sum, plan.ptr, plan.arg, plan.leaves
    log_weight, table = tables.log_weight, tables.log_table
    codes, values = cells.codes, cells.values
    scratch = lines.shape[0] - 1
    for i in range(len(is_sum)):
        out = slot[i]
        begin = ptr[i]
        for a in range(begin, ptr[i + 1]):
            child = arg[a]
            source = scratch
            if child >= 0:
                source = slot[child]
            else:
                leaf_values(leaves, ~child, table, codes, values, n, TRUE, lines, source)
            if a == begin:
                _shift_line(lines, out, source, log_weight[a], n)
            elif is_sum[i] == 0:
                _add_line(lines, out, source, n)
            else:
                _maximum_line(lines, out, source, log_weight[a], n)
        if is_sum[i] == 1 and not maximise:
            _log_of_sum(plan, slot, tables, cells, n, lines, i)


@kernel
def leaf_values(
    leaves: LeafTable,
    leaf: int,
    table: Floats,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    in_logs: bool,
    lines: Floats,
    out: int,
) -> None:
    """Values of a leaf on a batch of rows; their logs from a log table."""
    family, first = leaves.family[leaf], leaves.first[leaf]
    n_states, line = leaves.n_states[leaf], leaves.line[leaf]
    leaf_line(family, first, n_states, line, table, codes, values, n, in_logs, lines, out)


@internal_kernel
def _log_of_sum(
    plan: Plan,
    slot: Ints,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    i: int,
) -> None:
    """Turn the maximum over the children of sum ``i`` into the log of their sum."""
    table, codes, values = tables.log_table, cells.codes, cells.values
    scratch = lines.shape[0] - 1
    total = lines.shape[0] - 2
    out = slot[i]
    for r in range(n):
        lines[total, r] = 0.0
    for a in range(plan.ptr[i], plan.ptr[i + 1]):
        child = plan.arg[a]
        source = scratch
        if child >= 0:
            source = slot[child]
        else:
            leaf_values(plan.leaves, ~child, table, codes, values, n, TRUE, lines, source)
        shift = tables.log_weight[a]
        for r in range(n):
            if lines[out, r] > -np.inf:
                lines[total, r] += fast_exp(shift + lines[source, r] - lines[out, r])
    for r in range(n):
        if lines[out, r] > -np.inf:
            lines[out, r] += math.log(lines[total, r])
