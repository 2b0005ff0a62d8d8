"""Deterministic circuits: follow the one induced tree of each complete row.

Products are removed beforehand. Deciding sums and leaves are left: at each of them the state of one
variable gives a log value and the next nodes to visit. So a row costs about one visit a variable,
however many edges the circuit has. Where a variable is missing, all its states are followed, and
what the observed ones exclude is never seen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets, ranges
from skpc._jit import FALSE, TRUE, inlined, internal_kernel, kernel
from skpc.circuit import LEAF, PRODUCT, Circuit, Structure
from skpc.queries.passes.plan import remembered
from skpc.queries.passes.upward import TINY
from skpc.variables import Columns
from skpc.variables.families import cell_value, read_cell
from skpc.variables.leaf_queries import linear_tables, only_states
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


class Probabilities(NamedTuple):
    """What rows with missing cells read, in the linear domain.

    ``entry`` has the value of each entry, ``table`` those of the leaves. ``ended`` is the sum of
    the entries of a stop if none of them has a next stop, else -1.
    """

    entry: Floats
    table: Floats
    ended: Floats


def probabilities(circuit: Circuit, log_table: Floats) -> Probabilities:
    """The values of a circuit, given the log tables of its leaves."""
    plan = induced_plan(circuit.structure)
    entry, n_next = np.exp(induced_values(circuit)), np.diff(plan.ptr)
    # The last entry lists the first stops; it belongs to none.
    n_next[-1] = 0
    ends = (np.maximum.reduceat(n_next, plan.first) == 0) & (plan.leaf < 0)
    ended = np.where(ends, np.add.reduceat(entry, plan.first), -1.0)
    return Probabilities(entry, linear_tables(log_table, circuit.structure.leaves), ended)


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


@internal_kernel
def _read_row(
    columns: Columns, rows: Floats, r: int, codes: Ints, values: Floats
) -> tuple[int, float]:
    """Cells of one row and its base density; -2 for a missing cell, else -1 or a bad cell.

    The state of a missing cell is -1.
    """
    base, found = 0.0, -1
    n_states, family, log_peak = columns.n_states, columns.family, columns.log_peak
    axis, ptr = columns.axis, columns.axis_ptr
    for var in range(rows.shape[1]):
        x = rows[r, var]
        if np.isnan(x):
            codes[var], found = -1, -2
            continue
        first, last = ptr[var], ptr[var + 1]
        facts = (n_states[var], family[var], log_peak[var])
        state, value, density = read_cell(*facts, axis, first, last, x)
        if state < 0:
            return r * rows.shape[1] + var, 0.0
        codes[var], values[var] = state, value
        base += density
    return found, base


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


class Frames(NamedTuple):
    """The stops on the way to the one where a row is, the first stops being those of no stop.

    Of each: the stop, the entry that is followed and the one after the last, the next stop of the
    entry, the product of its value and those of its stops so far, and the sum of the entries before
    it.
    """

    stop: Ints
    entry: Ints
    end: Ints
    next: Ints
    product: Floats
    total: Floats


@inlined
def _enter(
    frames: Frames, depth: int, stop: int, entry: int, end: int, next: int, value: float
) -> None:
    frames.stop[depth] = stop
    frames.entry[depth], frames.end[depth], frames.next[depth] = entry, end, next
    frames.product[depth], frames.total[depth] = value, 0.0


@internal_kernel
def _add_up(
    plan: InducedPlan,
    given: Probabilities,
    leaves: LeafTable,
    n_states: Ints,
    codes: Ints,
    values: Floats,
    frames: Frames,
    known: tuple[Ints, Floats, Any, Any],
) -> float:
    """The probability of the observed cells of a row; NaN after more visits than are allowed.

    ``known`` tells for which row the value of each stop was found last, this value, the number of
    the row, and how many stops may be visited.
    """
    of_row, held, row, n_left = known
    ptr, root = plan.ptr, len(plan.ptr) - 2
    _enter(frames, 0, -1, root, root + 1, ptr[root], 1.0)
    depth = 1
    while depth > 0:
        top = depth - 1
        if frames.next[top] == ptr[frames.entry[top] + 1]:
            frames.total[top] += frames.product[top]
            frames.entry[top] += 1
            entry, stop = frames.entry[top], frames.stop[top]
            if entry < frames.end[top]:
                frames.next[top], frames.product[top] = ptr[entry], given.entry[entry]
                continue
            depth -= 1
            if depth > 0:
                of_row[stop], held[stop] = row, frames.total[top]
                frames.product[top - 1] *= held[stop]
            continue
        stop = plan.stop[frames.next[top]]
        frames.next[top] += 1
        var, leaf, entry = plan.var[stop], plan.leaf[stop], plan.first[stop]
        code = codes[var]
        if leaf >= 0:
            if code >= 0:
                facts = leaves.family[leaf], leaves.first[leaf], leaves.n_states[leaf]
                state = np.int16(code)
                frames.product[top] *= cell_value(*facts, given.table, state, values[var], FALSE)
        elif code < 0 and given.ended[stop] >= 0.0:
            frames.product[top] *= given.ended[stop]
        elif of_row[stop] == row:
            frames.product[top] *= held[stop]
        else:
            n_left -= 1
            if n_left < 0:
                return np.nan
            end = entry + n_states[var]
            if code >= 0:
                entry, end = entry + code, entry + code + 1
            _enter(frames, depth, stop, entry, end, ptr[entry], given.entry[entry])
            depth += 1
    return frames.total[0]


@kernel
def walk_observed(
    plan: InducedPlan,
    given: Probabilities,
    leaves: LeafTable,
    columns: Columns,
    rows: Floats,
    most_visits: int,
    out: Floats,
) -> None:
    """Log-likelihood of rows whose cells have been read before; NaN where that takes too many
    visits, or the linear domain is too small."""
    n_features, n_stops = rows.shape[1], len(plan.var)
    codes, values = np.empty(n_features, np.int64), np.empty(n_features)
    of_row, held = np.full(n_stops, -1), np.empty(n_stops)
    numbers, sums = np.empty((4, n_features + 1), np.int64), np.empty((2, n_features + 1))
    frames = Frames(numbers[0], numbers[1], numbers[2], numbers[3], sums[0], sums[1])
    for r in range(len(rows)):
        _, base = _read_row(columns, rows, r, codes, values)
        known = of_row, held, r, most_visits
        found = _add_up(plan, given, leaves, columns.n_states, codes, values, frames, known)
        out[r] = base + math.log(found) if found >= TINY else np.nan
