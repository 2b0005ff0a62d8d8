"""Counts of columns with any number of states, weighted rows and missing cells.

Rows mostly agree with the most frequent state of each column, so only the other states are
counted: each of them that occurs in a node has a *slot*, a row adds its weight to the pairs of
its slots, and whatever concerns the most frequent state is what is left of the margins. A pair
with a *wide* column, one of too many states for a table of all pairs of slots, is counted on
its own in a hash table of the cells that occur.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._jit import kernel
from skpc.learning._rows import ScoredTree
from skpc.learning.scores import Score
from skpc.trees import (
    UNITS_PER_NAT,
    ChowLiuTree,
    CountTables,
    maximum_spanning_tree,
    table_information,
)

__all__ = ["WeightedRows"]

#: Columns with more slots than this are wide.
_MAX_COLUMN_SLOTS = 128
#: Slots beyond which the table of all pairs of slots would take more than half a gigabyte.
_MAX_SLOTS = 11_000
_MISSING = -1


class _Layout(NamedTuple):
    """Which states of a node's columns are counted, and where."""

    #: States of each column, int64 of shape (m,).
    n_states: NDArray[np.int64]
    #: Where the states of each column begin in ``slot``, missing first; int64 of shape (m + 1,).
    state_ptr: NDArray[np.int64]
    #: Slot of each state of each column; -1 for one that is not counted; int64.
    slot: NDArray[np.int64]
    #: The slots of column i are ``slot_ptr[i] .. slot_ptr[i + 1]``; int64 of shape (m + 1,).
    slot_ptr: NDArray[np.int64]
    #: State of each slot, -1 for missing; int64.
    slot_state: NDArray[np.int64]
    #: Most frequent state of each column; int64 of shape (m,).
    usual: NDArray[np.int64]
    #: Whether each column is wide; bool of shape (m,).
    wide: NDArray[np.bool_]
    #: Whether a cell of each column is missing; bool of shape (m,).
    gaps: NDArray[np.bool_]


class _Counts(NamedTuple):
    """Rows, their weights and the weights of their pairs of slots."""

    codes: NDArray[np.int16]
    row: NDArray[np.int64]
    weight: NDArray[np.float64]
    #: Lower triangle of the pairs of slots, row by row with the diagonal.
    pairs: NDArray[np.float64]
    #: Weight of all rows.
    total: float


class _Room(NamedTuple):
    """Room for the cells of one pair of columns and for counting them."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    count: NDArray[np.float64]
    #: What the slots of a column have left for the usual state of another one.
    left: NDArray[np.float64]
    sums: NDArray[np.float64]
    #: Hash table: key of each place, -1 where it is free, and weight.
    key: NDArray[np.int64]
    weight: NDArray[np.float64]


class WeightedRows:
    """The rows of a node as codes with weights.

    Parameters
    ----------
    codes : array of shape (n, m)
        State of each cell, -1 where it is missing.
    weight : array of shape (n,)
        Positive weights.
    variables, n_states : array of shape (m,)
        Variable of each column and its number of states.
    """

    def __init__(
        self,
        codes: NDArray[np.int16],
        weight: NDArray[np.float64],
        variables: NDArray[np.int64],
        n_states: NDArray[np.int64],
    ):
        self.variables = variables
        self._codes = codes
        self._weight = weight
        self._n_states = n_states

    def state_counts(self, column: int) -> NDArray[np.float64]:
        """Weight of the rows in each state of a column, scaled up for the missing ones."""
        return _state_counts(self._layout, self._counts, column)

    def tree(self, score: Score) -> ScoredTree:
        """Chow-Liu tree of all columns."""
        columns = np.arange(len(self.variables))
        return _learn_tree(self._layout, self._counts, columns, self.variables, score)

    def branch_trees(
        self, column: int, score: Score, share: NDArray[np.float64]
    ) -> list[ScoredTree]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        columns = np.delete(np.arange(len(self.variables)), column)
        variables = self.variables[columns]
        selected = [self._select(column, state, share) for state in range(len(share))]
        largest = int(np.argmax([len(row) for row, _ in selected]))
        # The largest branch is not counted; it is what the others leave of the node.
        rest = self._counts.pairs.copy()
        trees: list[ScoredTree | None] = [None] * len(share)
        for state in [*range(largest), *range(largest + 1, len(share)), largest]:
            row, weight = selected[state]
            if state == largest:
                # Rounding must not leave less than nothing.
                pairs = np.maximum(rest, 0.0, out=rest)
            else:
                pairs = _count(self._layout, self._codes, row, weight, self._spare)
                rest -= pairs
            counts = _Counts(self._codes, row, weight, pairs, float(weight.sum()))
            trees[state] = _learn_tree(self._layout, counts, columns, variables, score)
        return trees

    def branch(self, column: int, state: int, share: NDArray[np.float64]) -> WeightedRows:
        """The rows in a state of a column, without that column."""
        row, weight = self._select(column, state, share)
        codes = np.delete(self._codes[row], column, axis=1)
        variables, n_states = np.delete(self.variables, column), np.delete(self._n_states, column)
        return WeightedRows(codes, weight, variables, n_states)

    def _select(
        self, column: int, state: int, share: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows of a branch and their weights there."""
        cells = self._codes[:, column]
        if not self._layout.gaps[column]:
            row = np.flatnonzero(cells == state)
            return row, self._weight[row]
        row = np.flatnonzero((cells == state) | (cells == _MISSING))
        return row, self._weight[row] * np.where(cells[row] == _MISSING, share[state], 1.0)

    @cached_property
    def _layout(self) -> _Layout:
        return _lay_out(self._codes, self._weight, self._n_states)

    @cached_property
    def _counts(self) -> _Counts:
        row = np.arange(len(self._codes))
        pairs = _count(self._layout, self._codes, row, self._weight, self._pairs_buffer())
        return _Counts(self._codes, row, self._weight, pairs, float(self._weight.sum()))

    @cached_property
    def _spare(self) -> NDArray[np.float64]:
        """Room for the counts of a branch, used for one branch after the other."""
        return self._pairs_buffer()

    def _pairs_buffer(self) -> NDArray[np.float64]:
        n_slots = len(self._layout.slot_state)
        return np.empty(n_slots * (n_slots + 1) // 2)


def _lay_out(
    codes: NDArray[np.int16], weight: NDArray[np.float64], n_states: NDArray[np.int64]
) -> _Layout:
    state_ptr = np.concatenate([[0], np.cumsum(n_states + 1)])
    in_state = np.zeros(state_ptr[-1])
    _count_states(codes, weight, state_ptr, in_state)
    column = np.repeat(np.arange(len(n_states)), n_states + 1)
    state = np.arange(state_ptr[-1]) - state_ptr[column] - 1
    # Of equally frequent states the first one is the usual one.
    by_count = np.lexsort((-in_state, column))
    usual = state[by_count[state_ptr[:-1]]]
    counted = (in_state > 0) & (state != usual[column])
    n_slots = np.bincount(column[counted], minlength=len(n_states))
    narrow_first = np.argsort(n_slots, kind="stable")
    wide = n_slots > _MAX_COLUMN_SLOTS
    wide[narrow_first[np.cumsum(n_slots[narrow_first]) > _MAX_SLOTS]] = True
    counted &= ~wide[column]
    slot = np.where(counted, np.cumsum(counted) - 1, -1)
    slot_ptr = np.concatenate([[0], np.cumsum(np.where(wide, 0, n_slots))])
    gaps = in_state[state_ptr[:-1]] > 0
    return _Layout(n_states, state_ptr, slot, slot_ptr, state[counted], usual, wide, gaps)


def _count(
    layout: _Layout,
    codes: NDArray[np.int16],
    row: NDArray[np.int64],
    weight: NDArray[np.float64],
    out: NDArray[np.float64],
) -> NDArray[np.float64]:
    out[:] = 0.0
    _count_pairs(codes, row, weight, layout.state_ptr, layout.slot, out)
    return out


def _state_counts(layout: _Layout, counts: _Counts, column: int) -> NDArray[np.float64]:
    in_state = np.zeros(layout.n_states[column] + 1)
    if layout.wide[column]:
        codes = counts.codes[counts.row, column]
        in_state += np.bincount(codes + 1, weights=counts.weight, minlength=len(in_state))
    else:
        slots = np.arange(layout.slot_ptr[column], layout.slot_ptr[column + 1])
        in_state[layout.slot_state[slots] + 1] = counts.pairs[slots * (slots + 3) // 2]
        in_state[layout.usual[column] + 1] = max(counts.total - in_state.sum(), 0.0)
    seen = in_state[1:]
    if layout.gaps[column] and seen.any():
        seen = seen * (counts.total / seen.sum())
    return seen


def _learn_tree(
    layout: _Layout,
    counts: _Counts,
    columns: NDArray[np.int64],
    variables: NDArray[np.int64],
    score: Score,
) -> ScoredTree:
    """Chow-Liu tree of some columns."""
    n_states = layout.n_states[columns]
    pseudo_count = score.pseudo_count(n_states[:, np.newaxis], n_states)
    units = np.zeros(pseudo_count.shape, np.int64)
    entropy = np.zeros(len(columns))
    room = _make_room(layout, counts)
    plain = (n_states == 2) & ~layout.gaps[columns] & ~layout.wide[columns]
    _inform(layout, counts, room, columns, plain, pseudo_count, UNITS_PER_NAT, units, entropy)
    at = np.flatnonzero(plain)
    cell = float(score.pseudo_count(2, 2))
    _inform_plain(layout, counts, columns, at, cell, UNITS_PER_NAT, units, entropy)
    parent = np.empty(len(columns), np.int64)
    maximum_spanning_tree(units, parent)
    tables = _edge_tables(layout, counts, room, columns, parent)
    return ScoredTree(ChowLiuTree(variables, parent, tables), score.of_tables(tables), entropy)


def _edge_tables(
    layout: _Layout,
    counts: _Counts,
    room: _Room,
    columns: NDArray[np.int64],
    parent: NDArray[np.int64],
) -> CountTables:
    """Tables of the states of each column given those of its tree parent."""
    root = _state_counts(layout, counts, int(columns[0]))
    width = np.diff(layout.slot_ptr)[columns] + 1
    size = np.where(
        layout.wide[columns] | layout.wide[columns[parent]], len(counts.row), width * width[parent]
    )
    size[0] = len(root)
    end = np.cumsum(size)
    parent_state, state = np.zeros((2, end[-1]), np.int64)
    count = np.empty(end[-1])
    state[: len(root)] = np.arange(len(root))
    count[: len(root)] = root
    ptr = np.zeros(len(columns) + 1, np.int64)
    ptr[1] = len(root)
    _copy_edges(layout, counts, room, columns, parent, ptr, parent_state, state, count)
    n_cells = ptr[-1]
    n_states = layout.n_states[columns]
    n_parent_states = n_states[parent]
    n_parent_states[0] = 1
    return CountTables(
        ptr, parent_state[:n_cells], state[:n_cells], count[:n_cells], n_parent_states, n_states
    )


def _make_room(layout: _Layout, counts: _Counts) -> _Room:
    n_rows = len(counts.row) if layout.wide.any() else 0
    width = int(np.diff(layout.slot_ptr).max()) + 1
    n_cells = max(n_rows, width * width)
    # At most half of the hash table is used, which keeps its chains short.
    n_places = 1 << (2 * n_rows).bit_length()
    return _Room(
        row=np.empty(n_cells, np.int64),
        column=np.empty(n_cells, np.int64),
        count=np.empty(n_cells),
        left=np.empty(width),
        sums=np.zeros((4, int(layout.n_states.max()))),
        key=np.full(n_places, -1, np.int64),
        weight=np.empty(n_places),
    )


@kernel
def _count_states(
    codes: NDArray[np.int16],
    weight: NDArray[np.float64],
    state_ptr: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Add the weight of each row to the state of each of its cells, missing first."""
    for r in range(codes.shape[0]):
        for v in range(codes.shape[1]):
            out[state_ptr[v] + codes[r, v] + 1] += weight[r]


@kernel
def _count_pairs(
    codes: NDArray[np.int16],
    row: NDArray[np.int64],
    weight: NDArray[np.float64],
    state_ptr: NDArray[np.int64],
    slot: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Add the weight of each row to all pairs of its slots."""
    m = codes.shape[1]
    slots = np.empty(m, np.uint64)
    for r in range(len(row)):
        n_slots = 0
        cells = codes[row[r]]
        for v in range(m):
            found = slot[state_ptr[v] + cells[v] + 1]
            slots[n_slots] = np.uint64(found)
            n_slots += found >= 0
        for a in range(n_slots):
            start = slots[a] * (slots[a] + np.uint64(1)) >> np.uint64(1)
            for b in range(a + 1):
                out[start + slots[b]] += weight[r]


@kernel
def _narrow_cells(layout: _Layout, counts: _Counts, room: _Room, i: int, j: int) -> int:
    """List the cells of a pair of columns from the pairs of their slots."""
    left = room.left
    first_i, end_i = layout.slot_ptr[i], layout.slot_ptr[i + 1]
    first_j, end_j = layout.slot_ptr[j], layout.slot_ptr[j + 1]
    rest = counts.total
    for t in range(first_j, end_j):
        left[t - first_j] = counts.pairs[t * (t + 3) // 2]
    n = 0
    for s in range(first_i, end_i):
        usual = counts.pairs[s * (s + 3) // 2]
        rest -= usual
        for t in range(first_j, end_j):
            low, high = min(s, t), max(s, t)
            both = counts.pairs[high * (high + 1) // 2 + low]
            usual -= both
            left[t - first_j] -= both
            n = _list_cell(room, n, layout.slot_state[s], layout.slot_state[t], both)
        n = _list_cell(room, n, layout.slot_state[s], layout.usual[j], usual)
    for t in range(first_j, end_j):
        rest -= left[t - first_j]
        n = _list_cell(room, n, layout.usual[i], layout.slot_state[t], left[t - first_j])
    return _list_cell(room, n, layout.usual[i], layout.usual[j], rest)


@kernel
def _list_cell(room: _Room, n: int, state_i: int, state_j: int, count: float) -> int:
    """Append a cell to a list of n, unless it is empty or a state is missing."""
    if state_i < 0 or state_j < 0 or count <= 0.0:
        return n
    room.row[n] = state_i
    room.column[n] = state_j
    room.count[n] = count
    return n + 1


@kernel
def _wide_cells(layout: _Layout, counts: _Counts, room: _Room, i: int, j: int) -> int:
    """List the cells of a pair of columns by hashing its rows."""
    n_columns = layout.n_states[j]
    last = len(room.key) - 1
    for r in range(len(counts.row)):
        state_i = np.int64(counts.codes[counts.row[r], i])
        state_j = np.int64(counts.codes[counts.row[r], j])
        if state_i < 0 or state_j < 0:
            continue
        key = state_i * n_columns + state_j
        place = (key * 0x9E3779B97F4A7C1 >> 20) & last
        while room.key[place] != key and room.key[place] >= 0:
            place = (place + 1) & last
        if room.key[place] < 0:
            room.key[place] = key
            room.weight[place] = 0.0
        room.weight[place] += counts.weight[r]
    n = 0
    for place in range(last + 1):
        key = room.key[place]
        if key >= 0:
            n = _list_cell(room, n, key // n_columns, key % n_columns, room.weight[place])
            room.key[place] = -1
    return n


@kernel
def _cells(layout: _Layout, counts: _Counts, room: _Room, i: int, j: int) -> int:
    """List the cells of a pair of columns, scaled up to the weight of all rows."""
    if layout.wide[i] or layout.wide[j]:
        n = _wide_cells(layout, counts, room, i, j)
    else:
        n = _narrow_cells(layout, counts, room, i, j)
    if n > 0 and (layout.gaps[i] or layout.gaps[j]):
        seen = 0.0
        for cell in range(n):
            seen += room.count[cell]
        for cell in range(n):
            room.count[cell] *= counts.total / seen
    return n


@kernel
def _inform(
    layout: _Layout,
    counts: _Counts,
    room: _Room,
    columns: NDArray[np.int64],
    plain: NDArray[np.bool_],
    pseudo_count: NDArray[np.float64],
    units_per_nat: float,
    units: NDArray[np.int64],
    entropy: NDArray[np.float64],
) -> None:
    """Fill in the information of all pairs but plain ones, and the entropies given a column."""
    for a in range(len(columns)):
        for b in range(a):
            if plain[a] and plain[b]:
                continue
            i, j = columns[a], columns[b]
            n = _cells(layout, counts, room, i, j)
            information, of_b, of_a = table_information(
                room.row,
                room.column,
                room.count,
                n,
                layout.n_states[i],
                layout.n_states[j],
                pseudo_count[a, b],
                room.sums,
            )
            rounded = np.int64(information * counts.total * units_per_nat + 0.5)
            units[a, b] = max(rounded, np.int64(0))
            units[b, a] = units[a, b]
            entropy[a] += of_b
            entropy[b] += of_a


@kernel
def _inform_plain(
    layout: _Layout,
    counts: _Counts,
    columns: NDArray[np.int64],
    at: NDArray[np.int64],
    pseudo_count: float,
    units_per_nat: float,
    units: NDArray[np.int64],
    entropy: NDArray[np.float64],
) -> None:
    """Do what ``_inform`` does for the pairs of complete columns of two states.

    Here the margins of a column are the same in all its pairs, so what depends on them alone
    is worked out once: four logarithms are left for a pair.
    """
    m = len(at)
    smoothed_total = counts.total + 4.0 * pseudo_count
    slot = np.empty(m, np.int64)
    sides = np.zeros((m, 2))
    smoothed = np.empty((m, 2))
    margin = np.full(m, -0.5 * smoothed_total * math.log(smoothed_total))
    own = np.zeros(m)
    for a in range(m):
        column = columns[at[a]]
        slot[a] = layout.slot_ptr[column]
        if layout.slot_ptr[column + 1] > slot[a]:
            sides[a, 1] = counts.pairs[slot[a] * (slot[a] + 3) // 2]
        else:
            slot[a] = -1
        sides[a, 0] = max(counts.total - sides[a, 1], 0.0)
        for side in range(2):
            smoothed[a, side] = sides[a, side] + 2.0 * pseudo_count
            margin[a] += smoothed[a, side] * math.log(smoothed[a, side])
            own[a] += sides[a, side] * math.log(smoothed[a, side])
            sides[a, side] /= smoothed[a, side]
    for a in range(m):
        ones_a = smoothed[a, 1] - 2.0 * pseudo_count
        for b in range(a):
            both = 0.0
            if slot[a] >= 0 and slot[b] >= 0:
                both = counts.pairs[slot[a] * (slot[a] + 1) // 2 + slot[b]]
            ones_b = smoothed[b, 1] - 2.0 * pseudo_count
            n11 = both + pseudo_count
            n10 = max(ones_a - both, 0.0) + pseudo_count
            n01 = max(ones_b - both, 0.0) + pseudo_count
            n00 = max(counts.total - ones_a - ones_b + both, 0.0) + pseudo_count
            p11 = n11 * math.log(n11)
            p10 = n10 * math.log(n10)
            p01 = n01 * math.log(n01)
            p00 = n00 * math.log(n00)
            information = (p11 + p10 + p01 + p00 - margin[a] - margin[b]) / smoothed_total
            rounded = np.int64(information * counts.total * units_per_nat + 0.5)
            units[at[a], at[b]] = max(rounded, np.int64(0))
            units[at[b], at[a]] = units[at[a], at[b]]
            entropy[at[a]] += own[a] - sides[a, 1] * (p11 + p10) - sides[a, 0] * (p01 + p00)
            entropy[at[b]] += own[b] - sides[b, 1] * (p11 + p01) - sides[b, 0] * (p10 + p00)


@kernel
def _copy_edges(
    layout: _Layout,
    counts: _Counts,
    room: _Room,
    columns: NDArray[np.int64],
    parent: NDArray[np.int64],
    ptr: NDArray[np.int64],
    parent_state: NDArray[np.int64],
    state: NDArray[np.int64],
    count: NDArray[np.float64],
) -> None:
    """Append the cells of the edges of a tree to those of its root."""
    for child in range(1, len(columns)):
        n = _cells(layout, counts, room, columns[parent[child]], columns[child])
        for cell in range(n):
            at = ptr[child] + cell
            parent_state[at] = room.row[cell]
            state[at] = room.column[cell]
            count[at] = room.count[cell]
        ptr[child + 1] = ptr[child] + n
