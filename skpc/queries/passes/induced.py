"""Deterministic circuits on complete rows: follow the one induced tree of each row.

Products are removed beforehand. Deciding sums and leaves are left: at each of them the state of one
variable gives a log value and the next nodes to visit. So a row costs about one visit a variable,
however many edges the circuit has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets, ranges
from skpc._jit import TRUE, kernel
from skpc.circuit import LEAF, PRODUCT, Circuit, Structure
from skpc.queries.passes.plan import remembered
from skpc.variables import Columns
from skpc.variables.families import only_states
from skpc.variables.leaf_kernels import cell_value, read_cell
from skpc.variables.leaves import LeafTable


class InducedPlan(NamedTuple):
    """Stops of the walk and where each state leads.

    Stop ``s`` reads variable ``var[s]``. If it is the formula of leaf ``leaf[s]``, the walk ends
    there. Otherwise (-1) it takes entry ``first[s] + x`` in state ``x``: its value is that of edge
    ``source``, or parameter ``source - n_edges``, or -1 for what is impossible; its next stops
    are ``stop[ptr[entry]:ptr[entry + 1]]``. The last entry lists the first stops.
    """

    var: Ints
    leaf: Ints
    first: Ints
    source: Ints
    ptr: Ints
    stop: Ints


@remembered
def induced_plan(structure: Structure) -> InducedPlan:
    """The plan of a deterministic structure, made at the first call."""
    n_children = np.diff(structure.child_ptr)
    is_leaf = structure.kind == LEAF
    passes = (structure.kind == PRODUCT) | (~is_leaf & (n_children == 1))
    passes &= structure.decision_var < 0
    node = np.flatnonzero(~passes)
    number = np.full(structure.n_nodes, -1)
    number[node] = np.arange(len(node))
    var = np.where(is_leaf, structure.leaf_var, structure.decision_var)[node]
    of_states, leaf = only_states(structure.leaves), np.full(structure.n_nodes, -1)
    formula = np.flatnonzero(~of_states)
    leaf[structure.leaves.node[formula]] = formula
    sizes = np.where(leaf[node] < 0, structure.n_states[var], 0)
    first = offsets(sizes)
    source, below = _entry_sources(structure, node, first, number)
    parts = (structure.child_ptr.copy(), structure.child.copy(), number, below)
    skip = np.append(np.repeat(np.where(is_leaf[node], -1, var), sizes), -1)
    ptr = np.zeros(len(below) + 1, dtype=np.int64)
    leaf_var = structure.leaf_var.copy()
    _next_stops(*parts, skip, leaf_var, ptr, np.empty(0, dtype=np.int64))
    ptr = offsets(ptr[:-1])
    stop = np.empty(ptr[-1], dtype=np.int64)
    _next_stops(*parts, skip, leaf_var, ptr, stop)
    return InducedPlan(var, leaf[node], first[:-1].copy(), source, ptr, stop)


def induced_values(circuit: Circuit) -> Floats:
    """The log value of each entry."""
    source = induced_plan(circuit.structure).source
    return np.concatenate([circuit.log_weight, circuit.param, [-np.inf]])[source]


def _entry_sources(
    structure: Structure, node: Ints, first: Ints, number: Ints
) -> tuple[Ints, Ints]:
    """Where each entry's value comes from, and the node below it (-1: no node)."""
    n_entries = int(first[-1])
    source, below = np.full(n_entries + 1, -1), np.full(n_entries + 1, -1)
    decided = structure.decision_var[structure.edge_parent] >= 0
    edge = np.flatnonzero(decided)
    entry = first[number[structure.edge_parent[edge]]] + structure.decision_state[edge]
    source[entry], below[entry] = edge, structure.child[edge]
    leaf = np.flatnonzero(structure.kind[node] == LEAF)
    size = np.diff(first)[leaf]
    entry = ranges(first[leaf], size)
    position = ranges(structure.param_ptr[node[leaf]], size)
    source[entry] = structure.n_edges + position
    below[-1] = structure.n_nodes - 1
    return source, below


@kernel
def _next_stops(
    child_ptr: Ints,
    child: Ints,
    number: Ints,
    below: Ints,
    skip: Ints,
    leaf_var: Ints,
    ptr: Ints,
    stop: Ints,
) -> None:
    """List the stops below each entry, or count them into ``ptr`` while ``stop`` is empty."""
    counting = len(stop) == 0
    pending = np.empty(len(number), np.int64)
    for entry in range(len(below)):
        if below[entry] < 0:
            continue
        at = 0 if counting else ptr[entry]
        pending[0] = below[entry]
        depth = 1
        while depth > 0:
            depth -= 1
            node = pending[depth]
            if number[node] < 0:
                for edge in range(child_ptr[node + 1] - 1, child_ptr[node] - 1, -1):
                    pending[depth] = child[edge]
                    depth += 1
            elif skip[entry] < 0 or leaf_var[node] != skip[entry]:
                # The indicator of the state that led here has nothing to add.
                if not counting:
                    stop[at] = number[node]
                at += 1
        if counting:
            ptr[entry] = at


@kernel
def _read_row(
    columns: Columns, rows: Floats, r: int, codes: Ints, values: Floats
) -> tuple[int, float]:
    """Cells of one row and its base density; -2 for a missing cell, else -1 or a bad cell."""
    base = 0.0
    n_states, family, log_peak = columns.n_states, columns.family, columns.log_peak
    axis, ptr = columns.axis, columns.axis_ptr
    for var in range(rows.shape[1]):
        x = rows[r, var]
        if np.isnan(x):
            return -2, 0.0
        first, last = ptr[var], ptr[var + 1]
        facts = (n_states[var], family[var], log_peak[var])
        state, value, density = read_cell(*facts, axis, first, last, x)
        if state < 0:
            return r * rows.shape[1] + var, 0.0
        codes[var], values[var] = state, value
        base += density
    return -1, base


@kernel
def walk(
    plan: InducedPlan,
    value: Floats,
    leaves: LeafTable,
    log_table: Floats,
    columns: Columns,
    rows: Floats,
    out: Floats,
) -> int:
    """Log-likelihood of the complete rows; NaN for the others. Returns a bad cell or -1."""
    n_features = rows.shape[1]
    codes, values = np.empty(n_features, np.int64), np.empty(n_features)
    pending = np.empty(n_features + 1, np.int64)
    root = len(plan.ptr) - 2
    stop_var, stop_leaf, first, ptr, stop = plan.var, plan.leaf, plan.first, plan.ptr, plan.stop
    leaf_family, leaf_first, leaf_states = leaves.family, leaves.first, leaves.n_states
    for r in range(len(rows)):
        bad, total = _read_row(columns, rows, r, codes, values)
        if bad >= 0:
            return bad
        if bad == -2:
            out[r] = np.nan
            continue
        depth = 0
        for s in range(ptr[root], ptr[root + 1]):
            pending[depth] = stop[s]
            depth += 1
        while depth > 0:
            depth -= 1
            at = pending[depth]
            var, leaf = stop_var[at], stop_leaf[at]
            if leaf >= 0:
                family, begin, n_states = leaf_family[leaf], leaf_first[leaf], leaf_states[leaf]
                code = np.int16(codes[var])
                total += cell_value(family, begin, n_states, log_table, code, values[var], TRUE)
                continue
            entry = first[at] + codes[var]
            total += value[entry]
            for s in range(ptr[entry], ptr[entry + 1]):
                pending[depth] = stop[s]
                depth += 1
        out[r] = total
    return -1
