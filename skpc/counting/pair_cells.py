"""Cells of pairs of columns of a node: how they are counted, and their information.

Rows mostly agree with the most frequent state of each column, so only the other states are
counted: each of them that occurs in a node has a *slot*, a row adds its weight to the pairs of
its slots, and whatever concerns the most frequent state is what is left of the margins. A pair
with a *wide* column, one of too many states for a table of all pairs of slots, is counted on
its own in a hash table of the cells that occur.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_log
from skpc._jit import inlined, internal_kernel, kernel
from skpc.counting.mutual_information import UNITS_PER_NAT, table_information


class Slots(NamedTuple):
    """Which states of a node's columns are counted, and where."""

    #: States of each column, int64 of shape (m,).
    n_states: Ints
    #: Where the states of each column begin in ``of_state``, missing first; int64, shape (m + 1,).
    state_ptr: Ints
    #: Slot of each state of each column; -1 for one that is not counted; int64.
    of_state: Ints
    #: The slots of column i are ``ptr[i] .. ptr[i + 1]``; int64 of shape (m + 1,).
    ptr: Ints
    #: State of each slot, -1 for missing; int64.
    state: Ints
    #: Most frequent state of each column; int64 of shape (m,).
    usual: Ints
    #: Whether each column is wide; bool of shape (m,).
    wide: NDArray[np.bool_]
    #: Whether a cell of each column is missing; bool of shape (m,).
    has_missing: NDArray[np.bool_]


class Counts(NamedTuple):
    """Rows, their weights and the weights of their pairs of slots."""

    codes: NDArray[np.int16]
    row: Ints
    weight: Floats
    #: Lower triangle of the pairs of slots, row by row with the diagonal.
    pairs: Floats
    #: Weight of all rows.
    total: float


class PairWorkspace(NamedTuple):
    """Arrays for the cells of one pair of columns and for counting them."""

    #: Row, column and weight of each cell listed.
    row: Ints
    column: Ints
    weight: Floats
    #: What the slots of a column have left for the usual state of another one.
    left: Floats
    #: Zeros.
    sums: Floats
    #: Hash table of cells: the key at each place, -1 where it is free, and the weight.
    key: Ints
    held: Floats


@kernel
def count_states(
    codes: NDArray[np.int16],
    weight: Floats,
    state_ptr: Ints,
    out: Floats,
) -> None:
    """Add the weight of each row to the state of each of its cells, missing first."""
    for r in range(codes.shape[0]):
        for v in range(codes.shape[1]):
            out[state_ptr[v] + codes[r, v] + 1] += weight[r]


@kernel
def count_pairs(
    codes: NDArray[np.int16],
    row: Ints,
    weight: Floats,
    state_ptr: Ints,
    of_state: Ints,
    out: Floats,
) -> None:
    """Add the weight of each row to all pairs of its slots."""
    m = codes.shape[1]
    in_row = np.empty(m, np.uint64)
    for r in range(len(row)):
        n_slots = 0
        cells = codes[row[r]]
        for v in range(m):
            found = of_state[state_ptr[v] + cells[v] + 1]
            in_row[n_slots] = np.uint64(found)
            n_slots += found >= 0
        for a in range(n_slots):
            start = in_row[a] * (in_row[a] + np.uint64(1)) >> np.uint64(1)
            for b in range(a + 1):
                out[start + in_row[b]] += weight[r]


@internal_kernel
def _narrow_cells(
    slots: Slots, counts: Counts, workspace: PairWorkspace, i: int, j: int
) -> np.int64:
    """List the cells of a pair of columns from the pairs of their slots."""
    left = workspace.left
    first_i, end_i = slots.ptr[i], slots.ptr[i + 1]
    first_j, end_j = slots.ptr[j], slots.ptr[j + 1]
    rest = counts.total
    for t in range(first_j, end_j):
        left[t - first_j] = counts.pairs[t * (t + 3) // 2]
    n = np.int64(0)  # a plain 0 would compile the callee once more
    for s in range(first_i, end_i):
        usual = counts.pairs[s * (s + 3) // 2]
        rest -= usual
        for t in range(first_j, end_j):
            low, high = min(s, t), max(s, t)
            both = counts.pairs[high * (high + 1) // 2 + low]
            usual -= both
            left[t - first_j] -= both
            n = _list_cell(workspace, n, slots.state[s], slots.state[t], both)
        n = _list_cell(workspace, n, slots.state[s], slots.usual[j], usual)
    for t in range(first_j, end_j):
        rest -= left[t - first_j]
        n = _list_cell(workspace, n, slots.usual[i], slots.state[t], left[t - first_j])
    return _list_cell(workspace, n, slots.usual[i], slots.usual[j], rest)


@internal_kernel
def _list_cell(
    workspace: PairWorkspace, n: np.int64, state_i: int, state_j: int, weight: float
) -> np.int64:
    """Append a cell to a list of n, unless it is empty or a state is missing."""
    if state_i < 0 or state_j < 0 or weight <= 0.0:
        return n
    workspace.row[n] = state_i
    workspace.column[n] = state_j
    workspace.weight[n] = weight
    return n + 1


@internal_kernel
def _wide_cells(slots: Slots, counts: Counts, workspace: PairWorkspace, i: int, j: int) -> np.int64:
    """List the cells of a pair of columns by hashing its rows."""
    n_columns = slots.n_states[j]
    last = len(workspace.key) - 1
    for r in range(len(counts.row)):
        state_i = np.int64(counts.codes[counts.row[r], i])
        state_j = np.int64(counts.codes[counts.row[r], j])
        if state_i < 0 or state_j < 0:
            continue
        key = state_i * n_columns + state_j
        place = (key * 0x9E3779B97F4A7C1 >> 20) & last
        while workspace.key[place] != key and workspace.key[place] >= 0:
            place = (place + 1) & last
        if workspace.key[place] < 0:
            workspace.key[place] = key
            workspace.held[place] = 0.0
        workspace.held[place] += counts.weight[r]
    n = np.int64(0)
    for place in range(last + 1):
        key = workspace.key[place]
        if key >= 0:
            n = _list_cell(workspace, n, key // n_columns, key % n_columns, workspace.held[place])
            workspace.key[place] = -1
    return n


@internal_kernel
def _cells(slots: Slots, counts: Counts, workspace: PairWorkspace, i: int, j: int) -> np.int64:
    """List the cells of a pair of columns, scaled up to the weight of all rows."""
    if slots.wide[i] or slots.wide[j]:
        n = _wide_cells(slots, counts, workspace, i, j)
    else:
        n = _narrow_cells(slots, counts, workspace, i, j)
    if n > 0 and (slots.has_missing[i] or slots.has_missing[j]):
        seen = 0.0
        for cell in range(n):
            seen += workspace.weight[cell]
        for cell in range(n):
            workspace.weight[cell] *= counts.total / seen
    return n


@kernel
def inform(
    slots: Slots,
    counts: Counts,
    workspace: PairWorkspace,
    columns: Ints,
    plain: NDArray[np.bool_],
    pseudo_count: Floats,
    units: Ints,
    entropy: Floats,
) -> None:
    """Fill in the information of all pairs but plain ones, and the entropies given a column."""
    for a in range(len(columns)):
        for b in range(a):
            if plain[a] and plain[b]:
                continue
            i, j = columns[a], columns[b]
            n = _cells(slots, counts, workspace, i, j)
            information, of_b, of_a = table_information(
                workspace.row,
                workspace.column,
                workspace.weight,
                n,
                slots.n_states[i],
                slots.n_states[j],
                pseudo_count[a, b],
                workspace.sums,
            )
            rounded = np.int64(information * counts.total * UNITS_PER_NAT + 0.5)
            units[a, b] = max(rounded, np.int64(0))
            units[b, a] = units[a, b]
            entropy[a] += of_b
            entropy[b] += of_a


@kernel
def inform_plain(
    slots: Slots,
    counts: Counts,
    columns: Ints,
    at: Ints,
    pseudo_count: float,
    units: Ints,
    entropy: Floats,
) -> None:
    """Do what ``inform`` does for the pairs of complete columns of two states.

    Here the margins of a column are the same in all its pairs, so what depends on them alone
    is worked out once: four logarithms are left for a pair.
    """
    m = len(at)
    smoothed_total = counts.total + 4.0 * pseudo_count
    slot = np.empty(m, np.int64)
    sides = np.zeros((m, 2))
    smoothed = np.empty((m, 2))
    margin, ones = np.empty(m), np.empty(m)
    own = np.zeros(m)
    for a in range(m):
        margin[a] = -0.5 * smoothed_total * math.log(smoothed_total)
        column = columns[at[a]]
        slot[a] = slots.ptr[column]
        if slots.ptr[column + 1] > slot[a]:
            sides[a, 1] = counts.pairs[slot[a] * (slot[a] + 3) // 2]
        else:
            slot[a] = -1
        sides[a, 0] = max(counts.total - sides[a, 1], 0.0)
        for side in range(2):
            smoothed[a, side] = sides[a, side] + 2.0 * pseudo_count
            margin[a] += smoothed[a, side] * math.log(smoothed[a, side])
            own[a] += sides[a, side] * math.log(smoothed[a, side])
            sides[a, side] /= smoothed[a, side]
        ones[a] = smoothed[a, 1] - 2.0 * pseudo_count
    both = np.empty(m)
    logs = np.empty((4, m))
    for a in range(m):
        for b in range(a):
            together = 0.0
            if slot[a] >= 0 and slot[b] >= 0:
                together = counts.pairs[slot[a] * (slot[a] + 1) // 2 + slot[b]]
            both[b] = together
        _cell_terms(ones[a], ones, both, a, counts.total, pseudo_count, logs)
        for b in range(a):
            p11, p10, p01, p00 = logs[0, b], logs[1, b], logs[2, b], logs[3, b]
            information = (p11 + p10 + p01 + p00 - margin[a] - margin[b]) / smoothed_total
            rounded = np.int64(information * counts.total * UNITS_PER_NAT + 0.5)
            units[at[a], at[b]] = max(rounded, np.int64(0))
            units[at[b], at[a]] = units[at[a], at[b]]
            entropy[at[a]] += own[a] - sides[a, 1] * (p11 + p10) - sides[a, 0] * (p01 + p00)
            entropy[at[b]] += own[b] - sides[b, 1] * (p11 + p01) - sides[b, 0] * (p10 + p00)


@inlined
def _cell_terms(
    ones_a: float,
    ones: Floats,
    both: Floats,
    n: int,
    total: float,
    pseudo_count: float,
    out: Floats,
) -> None:
    """x log x of the smoothed cells (1, 1), (1, 0), (0, 1), (0, 0) of n pairs of columns.

    A loop of its own, so that it vectorises.
    """
    for b in range(n):
        n11 = both[b] + pseudo_count
        n10 = max(ones_a - both[b], 0.0) + pseudo_count
        n01 = max(ones[b] - both[b], 0.0) + pseudo_count
        n00 = max(total - ones_a - ones[b] + both[b], 0.0) + pseudo_count
        out[0, b] = n11 * fast_log(n11)
        out[1, b] = n10 * fast_log(n10)
        out[2, b] = n01 * fast_log(n01)
        out[3, b] = n00 * fast_log(n00)


@kernel
def copy_edges(
    slots: Slots,
    counts: Counts,
    workspace: PairWorkspace,
    columns: Ints,
    parent: Ints,
    ptr: Ints,
    parent_state: Ints,
    state: Ints,
    weight: Floats,
) -> None:
    """Append the cells of the edges of a tree to those of its root."""
    for child in range(1, len(columns)):
        n = _cells(slots, counts, workspace, columns[parent[child]], columns[child])
        for cell in range(n):
            at = ptr[child] + cell
            parent_state[at] = workspace.row[cell]
            state[at] = workspace.column[cell]
            weight[at] = workspace.weight[cell]
        ptr[child + 1] = ptr[child] + n
