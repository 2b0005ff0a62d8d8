"""Deterministic circuits on complete rows: follow the one induced tree of each row.

Products are flattened away beforehand. What is left are the deciding sums and the leaves: at
each, the state of one variable gives a log value and the next ones to visit, so that a row costs
about one visit a variable, however many edges the circuit has.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from skpc._arrays import offsets, ranges
from skpc._jit import kernel
from skpc.circuit import GAUSSIAN, LEAF, PRODUCT, Circuit, Structure
from skpc.circuit.leaves import Columns, read_cell

__all__ = ["InducedPlan", "induced_plan", "induced_values", "walk"]


_HALF_LOG_2_PI = 0.9189385332046727


class InducedPlan(NamedTuple):
    """Stops of the walk and where each state leads.

    Stop ``s`` reads variable ``var[s]``; in state ``x`` it takes entry ``first[s] + x`` (a
    Gaussian has the one entry ``first[s]``). Its value is edge ``source``, or parameter
    ``source - n_edges``, or -1 for what is impossible; its next stops are
    ``stop[ptr[entry]:ptr[entry + 1]]``. The last entry lists the first stops.
    """

    var: np.ndarray
    first: np.ndarray
    source: np.ndarray
    ptr: np.ndarray
    stop: np.ndarray


_PLANS: WeakKeyDictionary[Structure, InducedPlan] = WeakKeyDictionary()


def induced_plan(structure: Structure) -> InducedPlan:
    """The plan of a deterministic structure, made at the first call."""
    found = _PLANS.get(structure)
    if found is None:
        found = _PLANS[structure] = _make_plan(structure)
    return found


def induced_values(circuit: Circuit) -> np.ndarray:
    """The log value of each entry; the mean where it is a Gaussian."""
    source = induced_plan(circuit.structure).source
    return np.concatenate([circuit.log_weight, circuit.param, [-np.inf]])[source]


def _make_plan(structure: Structure) -> InducedPlan:
    n_children = np.diff(structure.child_ptr)
    is_leaf = structure.kind == LEAF
    passes = (structure.kind == PRODUCT) | (~is_leaf & (n_children == 1))
    passes &= structure.decision_var < 0
    node = np.flatnonzero(~passes)
    number = np.full(structure.n_nodes, -1)
    number[node] = np.arange(len(node))
    var = np.where(is_leaf, structure.leaf_var, structure.decision_var)[node]
    is_gaussian = structure.leaf_family[node] == GAUSSIAN
    sizes = np.where(is_gaussian, 1, structure.n_states[var])
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
    return InducedPlan(var, first[:-1].copy(), source, ptr, stop)


def _entry_sources(
    structure: Structure, node: np.ndarray, first: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where each entry's value comes from, and the node below it (-1: none)."""
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
    child_ptr: np.ndarray,
    child: np.ndarray,
    number: np.ndarray,
    below: np.ndarray,
    skip: np.ndarray,
    leaf_var: np.ndarray,
    ptr: np.ndarray,
    stop: np.ndarray,
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
def _read_row(columns: Columns, rows: np.ndarray, r: int, codes: np.ndarray) -> tuple[int, float]:
    """States of one row and its base density; -2 for a missing cell, else -1 or a bad cell."""
    base = 0.0
    for var in range(rows.shape[1]):
        x = rows[r, var]
        if np.isnan(x):
            return -2, 0.0
        state, density = read_cell(columns, var, x)
        if state < 0:
            return r * rows.shape[1] + var, 0.0
        codes[var] = state
        base += density
    return -1, base


@kernel
def walk(
    plan: InducedPlan,
    value: np.ndarray,
    param: np.ndarray,
    n_edges: int,
    columns: Columns,
    rows: np.ndarray,
    out: np.ndarray,
) -> int:
    """Log-likelihood of the complete rows; NaN for the others. Returns a bad cell or -1."""
    n_features = rows.shape[1]
    codes = np.empty(n_features, np.int64)
    pending = np.empty(n_features + 1, np.int64)
    root = len(plan.ptr) - 2
    for r in range(len(rows)):
        bad, total = _read_row(columns, rows, r, codes)
        if bad >= 0:
            return bad
        if bad == -2:
            out[r] = np.nan
            continue
        depth = 0
        for s in range(plan.ptr[root], plan.ptr[root + 1]):
            pending[depth] = plan.stop[s]
            depth += 1
        while depth > 0:
            depth -= 1
            at = pending[depth]
            var = plan.var[at]
            entry = plan.first[at]
            if columns.n_states[var] == 0:
                sd = param[plan.source[entry] - n_edges + 1]
                z = (rows[r, var] - value[entry]) / sd
                total -= 0.5 * z * z + math.log(sd) + _HALF_LOG_2_PI + columns.log_peak[var]
                continue
            entry += codes[var]
            total += value[entry]
            for s in range(plan.ptr[entry], plan.ptr[entry + 1]):
                pending[depth] = plan.stop[s]
                depth += 1
        out[r] = total
    return -1
