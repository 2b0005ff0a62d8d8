"""Feed-forward passes over a block of rows: one line of values a node, children first."""

from __future__ import annotations

import math

import numpy as np

from skpc._jit import fast_exp, inlined, kernel
from skpc.circuit.leaves import Leaves, leaf_line, log_leaf_line
from skpc.queries.passes.plan import Plan, Tables

__all__ = ["leaf_values", "log_leaf_values", "upward", "upward_log"]


@inlined
def scale_line(lines: np.ndarray, out: int, source: int, factor: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = factor * lines[source, r]


@inlined
def add_scaled_line(lines: np.ndarray, out: int, source: int, factor: float, n: int) -> None:
    for r in range(n):
        lines[out, r] += factor * lines[source, r]


@inlined
def multiply_line(lines: np.ndarray, out: int, source: int, n: int) -> None:
    for r in range(n):
        lines[out, r] *= lines[source, r]


@inlined
def shift_line(lines: np.ndarray, out: int, source: int, shift: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = shift + lines[source, r]


@inlined
def add_line(lines: np.ndarray, out: int, source: int, n: int) -> None:
    for r in range(n):
        lines[out, r] += lines[source, r]


@inlined
def maximum_line(lines: np.ndarray, out: int, source: int, shift: float, n: int) -> None:
    for r in range(n):
        lines[out, r] = max(lines[out, r], shift + lines[source, r])


@kernel
def upward(
    plan: Plan,
    slot: np.ndarray,
    tables: Tables,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
) -> None:
    """Evaluate all inner nodes in the linear domain; the last of the lines is scratch."""
    is_sum, ptr, arg, leaves = plan.is_sum, plan.ptr, plan.arg, plan.leaves
    weight, table = tables.weight, tables.table
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
                leaf_values(leaves, ~child, table, codes, values, n, lines, source)
            if is_sum[i] == 0:
                if a > begin:
                    multiply_line(lines, out, source, n)
                elif source != out:
                    scale_line(lines, out, source, 1.0, n)
            elif a == begin:
                scale_line(lines, out, source, weight[a], n)
            else:
                add_scaled_line(lines, out, source, weight[a], n)


@kernel
def upward_log(
    plan: Plan,
    slot: np.ndarray,
    tables: Tables,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    maximise: bool,
) -> None:
    """Evaluate all inner nodes in the log domain; the last two lines are scratch.

    With ``maximise`` sums become maxima, as for the most probable completion.
    """
    is_sum, ptr, arg, leaves = plan.is_sum, plan.ptr, plan.arg, plan.leaves
    log_weight, log_table = tables.log_weight, tables.log_table
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
                log_leaf_values(leaves, ~child, log_table, codes, values, n, lines, source)
            if a == begin:
                shift_line(lines, out, source, log_weight[a], n)
            elif is_sum[i] == 0:
                add_line(lines, out, source, n)
            else:
                maximum_line(lines, out, source, log_weight[a], n)
        if is_sum[i] == 1 and not maximise:
            _log_of_sum(plan, slot, tables, codes, values, n, lines, i)


@kernel
def leaf_values(
    leaves: Leaves,
    leaf: int,
    table: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    out: int,
) -> None:
    """Values of a leaf on a block of rows."""
    family, first = leaves.family[leaf], leaves.first[leaf]
    n_states, var = leaves.n_states[leaf], leaves.var[leaf]
    leaf_line(family, first, n_states, var, table, codes, values, n, lines, out)


@kernel
def log_leaf_values(
    leaves: Leaves,
    leaf: int,
    log_table: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    out: int,
) -> None:
    """Log values of a leaf on a block of rows."""
    family, first = leaves.family[leaf], leaves.first[leaf]
    n_states, var = leaves.n_states[leaf], leaves.var[leaf]
    log_leaf_line(family, first, n_states, var, log_table, codes, values, n, lines, out)


@kernel
def _log_of_sum(
    plan: Plan,
    slot: np.ndarray,
    tables: Tables,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    i: int,
) -> None:
    """Turn the maximum over the children of sum ``i`` into the log of their sum."""
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
            log_leaf_values(plan.leaves, ~child, tables.log_table, codes, values, n, lines, source)
        shift = tables.log_weight[a]
        for r in range(n):
            if lines[out, r] > -np.inf:
                lines[total, r] += fast_exp(shift + lines[source, r] - lines[out, r])
    for r in range(n):
        if lines[out, r] > -np.inf:
            lines[out, r] += math.log(lines[total, r])
