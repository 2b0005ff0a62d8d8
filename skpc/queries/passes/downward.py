"""Passes from the root down: what part of a row flows through each edge.

The flow of the root is one (or the weight of the row). A product gives its whole flow to every
child. A sum divides its flow among its children in proportion to weight times value. So the flow of
a leaf is the posterior probability that this leaf generated its part of the row.

The two passes below look alike and stay apart. With shared functions, which took the arrays of the
plan, the cells and the tables, an EM pass took twice as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel, kernel
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import Cells
from skpc.queries.passes.upward import leaf_values
from skpc.variables.families import add_statistics
from skpc.variables.leaves import LeafTable

#: Scratch lines behind those of the nodes, counted from the end.
FLOW, VALUE, QUOTIENT = 1, 2, 3
N_SCRATCH = 3


@inlined
def _divide_by_value(lines: Floats, flows: Floats, i: int, line: int, n: int) -> None:
    """Write flow over value of a sum, which all its children need, into QUOTIENT."""
    quotient = lines.shape[0] - QUOTIENT
    for r in range(n):
        value = lines[i, r]
        lines[quotient, r] = flows[line, r] / value if value > 0.0 else 0.0


@inlined
def _send(lines: Floats, source: int, factor: float, n: int) -> float:
    """Write QUOTIENT x factor x values of a child into FLOW and return its total."""
    flow, quotient = lines.shape[0] - FLOW, lines.shape[0] - QUOTIENT
    total = 0.0
    for r in range(n):
        sent = lines[quotient, r] * factor * lines[source, r]
        lines[flow, r] = sent
        total += sent
    return total


@inlined
def _send_in_logs(
    lines: Floats,
    flows: Floats,
    i: int,
    line: int,
    source: int,
    log_weight: float,
    n: int,
) -> float:
    """The same where the lines hold logs: flow x exp(log weight + child - sum)."""
    flow = lines.shape[0] - FLOW
    total = 0.0
    for r in range(n):
        sent = flows[line, r] * fast_exp(log_weight + lines[source, r] - lines[i, r])
        lines[flow, r] = sent
        total += sent
    return total


@inlined
def _copy_flow(lines: Floats, flows: Floats, line: int, n: int) -> None:
    flow = lines.shape[0] - FLOW
    for r in range(n):
        lines[flow, r] = flows[line, r]


@inlined
def _receive(lines: Floats, flows: Floats, out: int, is_first: bool, n: int) -> None:
    """Add the line FLOW to the flow of an inner child."""
    flow = lines.shape[0] - FLOW
    if is_first:
        for r in range(n):
            flows[out, r] = lines[flow, r]
    else:
        for r in range(n):
            flows[out, r] += lines[flow, r]


@inlined
def _add_features(
    lines: Floats,
    feature: Floats,
    begin: int,
    end: int,
    out: Floats,
    out_begin: int,
    n: int,
) -> None:
    """Add the features ``begin .. end - 1``, weighted by FLOW, to as many lines of ``out``."""
    flow = lines.shape[0] - FLOW
    for f in range(begin, end):
        factor, line = feature[f], out_begin + f - begin
        for r in range(n):
            out[line, r] += factor * lines[flow, r]


@kernel
def posterior_features(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    flows: Floats,
    in_logs: bool,
    feature_ptr: Ints,
    feature: Floats,
    out_first: Ints,
    out: Floats,
) -> None:
    """Average the features of the leaves of each missing cell, weighted by their flow.

    The features of leaf ``l`` are ``feature[feature_ptr[l]:feature_ptr[l + 1]]``; their average
    goes to the lines of ``out`` from ``out_first[l]`` on.
    """
    is_sum, ptr, arg, slot = plan.is_sum, plan.ptr, plan.arg, plan.slot
    last_use, leaves, leaf_line = plan.last_use, plan.leaves, plan.leaves.line
    weight, log_weight = tables.weight, tables.log_weight
    codes, values, incomplete = cells.codes, cells.values, cells.incomplete
    table = tables.log_table if in_logs else tables.table
    last = len(is_sum) - 1
    for r in range(n):
        flows[slot[last], r] = 1.0
    for i in range(last, -1, -1):
        if is_sum[i] == 0:
            _copy_flow(lines, flows, slot[i], n)
        elif not in_logs:
            _divide_by_value(lines, flows, i, slot[i], n)
        for a in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            child = arg[a]
            if child < 0 and incomplete[leaf_line[~child]] == 0:
                continue
            if is_sum[i] == 1:
                source = child
                if child < 0:
                    source = lines.shape[0] - VALUE
                    leaf_values(leaves, ~child, table, codes, values, n, in_logs, lines, source)
                if in_logs:
                    _send_in_logs(lines, flows, i, slot[i], source, log_weight[a], n)
                else:
                    _send(lines, source, weight[a], n)
            if child >= 0:
                # Going down, the last use is the first: nothing has flowed here yet.
                _receive(lines, flows, slot[child], last_use[a] == 1, n)
                continue
            begin, end = feature_ptr[~child], feature_ptr[~child + 1]
            _add_features(lines, feature, begin, end, out, out_first[~child], n)


@kernel
def collect_statistics(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    flows: Floats,
    in_logs: bool,
    edge_flow: Floats,
    statistic: Floats,
) -> None:
    """Add up the flows of all arguments, and the sufficient statistics of all leaves.

    The flow of the root has been set to the weights of the rows.
    """
    is_sum, ptr, arg, slot = plan.is_sum, plan.ptr, plan.arg, plan.slot
    last_use, leaves = plan.last_use, plan.leaves
    weight, log_weight, log_table = tables.weight, tables.log_weight, tables.log_table
    codes, values = cells.codes, cells.values
    table = log_table if in_logs else tables.table
    for i in range(len(is_sum) - 1, -1, -1):
        total = 0.0
        if is_sum[i] == 0:
            _copy_flow(lines, flows, slot[i], n)
            for r in range(n):
                total += flows[slot[i], r]
        elif not in_logs:
            _divide_by_value(lines, flows, i, slot[i], n)
        for a in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            child = arg[a]
            if is_sum[i] == 1:
                source = child
                if child < 0:
                    source = lines.shape[0] - VALUE
                    leaf_values(leaves, ~child, table, codes, values, n, in_logs, lines, source)
                if in_logs:
                    total = _send_in_logs(lines, flows, i, slot[i], source, log_weight[a], n)
                else:
                    total = _send(lines, source, weight[a], n)
            edge_flow[a] += total
            if child >= 0:
                _receive(lines, flows, slot[child], last_use[a] == 1, n)
            else:
                _add_leaf_statistics(leaves, ~child, log_table, codes, values, n, lines, statistic)


@internal_kernel
def _add_leaf_statistics(
    leaves: LeafTable,
    leaf: int,
    table: Floats,
    codes: NDArray[np.int16],
    values: Floats,
    n: int,
    lines: Floats,
    statistic: Floats,
) -> None:
    """Add the statistics of a leaf, weighted by FLOW."""
    flow = lines.shape[0] - FLOW
    family, first = leaves.family[leaf], leaves.first[leaf]
    n_states, line = leaves.n_states[leaf], leaves.line[leaf]
    add_statistics(family, first, n_states, line, table, codes, values, n, lines, flow, statistic)
