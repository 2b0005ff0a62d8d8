"""Counts of columns with any number of states, weighted rows and missing cells."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc.counting.chow_liu import ChowLiuTree, ScoredTree, maximum_spanning_tree
from skpc.counting.count_tables import CountTables
from skpc.counting.pair_cells import (
    Counts,
    PairWorkspace,
    Slots,
    copy_edges,
    count_pairs,
    count_states,
    inform,
    inform_plain,
)
from skpc.counting.scores import Score

#: Columns with more slots than this are wide.
_MAX_COLUMN_SLOTS = 128
#: Slots beyond which the table of all pairs of slots would take more than half a gigabyte.
_MAX_SLOTS = 11_000
_MISSING = -1


class WeightedRows:
    """The rows of a node as codes with weights, any number of states, and missing cells.

    A row in which the column of a cut is missing is in every branch, with the proportion of its
    weight that ``proportion`` gives to the state.

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
        weight: Floats,
        variables: Ints,
        n_states: Ints,
    ):
        self.variables = variables
        self._codes = codes
        self._weight = weight
        self._n_states = n_states

    @property
    def total_weight(self) -> float:
        """Weight of all rows."""
        return float(self._weight.sum())

    def state_counts(self, column: int) -> Floats:
        """Weight of the rows in each state of a column, scaled up for the missing ones."""
        return self._whole.state_counts(column)

    def tree(self, score: Score) -> ScoredTree:
        """Chow-Liu tree of all columns."""
        return self._whole.tree(self.variables, score)

    def information(self, score: Score) -> tuple[Ints, Floats]:
        """Mutual information of all pairs times the weight of the rows, and the entropies.

        The information is in units, so that of several nodes can be added without rounding.
        """
        return self._whole.information(score)

    def tree_along(self, parent: Ints) -> ChowLiuTree:
        """The tree of a given structure, with the counts of these rows."""
        return ChowLiuTree(self.variables, parent, self._whole.edge_tables(parent))

    def branch_trees(self, column: int, score: Score, proportion: Floats) -> list[ScoredTree]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        columns = np.delete(np.arange(len(self.variables)), column)
        variables = self.variables[columns]
        # The fullest branch is not counted; it is what the others leave of the node.
        fullest = int(np.argmax(self.state_counts(column)))
        rest, spare = self._counts.pairs.copy(), np.empty_like(self._counts.pairs)
        trees = {}
        empty = None
        for state in sorted(range(len(proportion)), key=lambda state: state == fullest):
            row, weight = self._select(column, state, proportion)
            if len(row) == 0 and empty is not None:
                # One tree serves all branches without rows: there may be thousands.
                trees[state] = empty
                continue
            if state == fullest:
                # Rounding must not leave less than nothing.
                pairs = np.maximum(rest, 0.0, out=rest)
            else:
                pairs = self._count(row, weight, spare)
                rest -= pairs
            counts = Counts(self._codes, row, weight, pairs, float(weight.sum()))
            trees[state] = CountedColumns(self._slots, counts, columns).tree(variables, score)
            if len(row) == 0:
                empty = trees[state]
        return [trees[state] for state in range(len(proportion))]

    def branch(self, column: int, state: int, proportion: Floats) -> WeightedRows:
        """The rows in a state of a column, without that column."""
        row, weight = self._select(column, state, proportion)
        codes = np.delete(self._codes[row], column, axis=1)
        variables, n_states = np.delete(self.variables, column), np.delete(self._n_states, column)
        return WeightedRows(codes, weight, variables, n_states)

    def _select(self, column: int, state: int, proportion: Floats) -> tuple[Ints, Floats]:
        """Rows of a branch and their weights there."""
        cells = self._codes[:, column]
        if not self._slots.has_missing[column]:
            row = np.flatnonzero(cells == state)
            return row, self._weight[row]
        row = np.flatnonzero((cells == state) | (cells == _MISSING))
        return row, self._weight[row] * np.where(cells[row] == _MISSING, proportion[state], 1.0)

    @cached_property
    def _slots(self) -> Slots:
        return _make_slots(self._codes, self._weight, self._n_states)

    @cached_property
    def _whole(self) -> CountedColumns:
        return CountedColumns(self._slots, self._counts, np.arange(len(self.variables)))

    @cached_property
    def _counts(self) -> Counts:
        row = np.arange(len(self._codes))
        n_slots = len(self._slots.state)
        pairs = self._count(row, self._weight, np.empty(n_slots * (n_slots + 1) // 2))
        return Counts(self._codes, row, self._weight, pairs, float(self._weight.sum()))

    def _count(self, row: Ints, weight: Floats, out: Floats) -> Floats:
        out[:] = 0.0
        count_pairs(self._codes, row, weight, self._slots.state_ptr, self._slots.of_state, out)
        return out


def _make_slots(codes: NDArray[np.int16], weight: Floats, n_states: Ints) -> Slots:
    state_ptr = offsets(n_states + 1)
    in_state = np.zeros(state_ptr[-1])
    count_states(codes, weight, state_ptr, in_state)
    return slots_of(in_state, n_states)


def slots_of(in_state: Floats, n_states: Ints, may_be_wide: bool = True) -> Slots:
    """The slots of columns, from the weight of the rows in each of their states, missing first."""
    state_ptr = offsets(n_states + 1)
    column = np.repeat(np.arange(len(n_states)), n_states + 1)
    state = np.arange(state_ptr[-1]) - state_ptr[column] - 1
    # If several states are most frequent, the first one is the usual one.
    by_count = np.lexsort((-in_state, column))
    usual = state[by_count[state_ptr[:-1]]]
    counted = (in_state > 0) & (state != usual[column])
    n_slots = np.bincount(column[counted], minlength=len(n_states))
    narrow_first = np.argsort(n_slots, kind="stable")
    wide = n_slots > _MAX_COLUMN_SLOTS
    wide[narrow_first[np.cumsum(n_slots[narrow_first]) > _MAX_SLOTS]] = True
    wide &= may_be_wide
    counted &= ~wide[column]
    of_state = np.where(counted, np.cumsum(counted) - 1, -1)
    ptr = offsets(np.where(wide, 0, n_slots))
    has_missing = in_state[state_ptr[:-1]] > 0
    return Slots(n_states, state_ptr, of_state, ptr, state[counted], usual, wide, has_missing)


class CountedColumns:
    """Some columns of rows whose pairs of slots are counted."""

    def __init__(self, slots: Slots, counts: Counts, columns: Ints):
        self._slots, self._counts, self._columns = slots, counts, columns
        self._n_states = slots.n_states[columns]

    @cached_property
    def _workspace(self) -> PairWorkspace:
        return _make_workspace(self._slots, len(self._counts.row))

    def state_counts(self, column: int) -> Floats:
        """Weight of the rows in each state of a column, scaled up for the missing ones."""
        slots, counts = self._slots, self._counts
        in_state = np.zeros(slots.n_states[column] + 1)
        if slots.wide[column]:
            codes = counts.codes[counts.row, column]
            in_state += np.bincount(codes + 1, weights=counts.weight, minlength=len(in_state))
        else:
            slot = np.arange(slots.ptr[column], slots.ptr[column + 1])
            in_state[slots.state[slot] + 1] = counts.pairs[slot * (slot + 3) // 2]
            in_state[slots.usual[column] + 1] = max(counts.total - in_state.sum(), 0.0)
        seen = in_state[1:]
        if slots.has_missing[column] and seen.any():
            seen = seen * (counts.total / seen.sum())
        return seen

    def tree(self, variables: Ints, score: Score) -> ScoredTree:
        """Chow-Liu tree of the columns, which show these variables."""
        units, entropy = self.information(score)
        parent = np.empty(len(variables), np.int64)
        maximum_spanning_tree(units, parent)
        tables = self.edge_tables(parent)
        return ScoredTree(ChowLiuTree(variables, parent, tables), score.of_tables(tables), entropy)

    def information(self, score: Score) -> tuple[Ints, Floats]:
        """Mutual information (in units) of all pairs of columns, and what each leaves over."""
        slots, counts, columns, n_states = self._slots, self._counts, self._columns, self._n_states
        pseudo_count = score.pseudo_count(n_states[:, np.newaxis], n_states)
        units = np.zeros(pseudo_count.shape, np.int64)
        entropy = np.zeros(len(columns))
        plain = (n_states == 2) & ~slots.has_missing[columns] & ~slots.wide[columns]
        inform(slots, counts, self._workspace, columns, plain, pseudo_count, units, entropy)
        at, cell = np.flatnonzero(plain), float(score.pseudo_count(2, 2))
        # Without a pair there is nothing to do, for which nothing need be compiled.
        if len(at) > 1:
            inform_plain(slots, counts, columns, at, cell, units, entropy)
        return units, entropy

    def edge_tables(self, parent: Ints) -> CountTables:
        """Tables of the states of each column given those of its tree parent."""
        slots, columns, n_states = self._slots, self._columns, self._n_states
        root = self.state_counts(int(columns[0]))
        width = np.diff(slots.ptr)[columns] + 1
        wide = slots.wide[columns]
        size = np.where(wide | wide[parent], len(self._counts.row), width * width[parent])
        size[0] = len(root)
        n_most = int(size.sum())
        parent_state, state = np.zeros((2, n_most), np.int64)
        count = np.empty(n_most)
        state[: len(root)] = np.arange(len(root))
        count[: len(root)] = root
        ptr = np.zeros(len(columns) + 1, np.int64)
        ptr[1] = len(root)
        cells = parent_state, state, count
        copy_edges(slots, self._counts, self._workspace, columns, parent, ptr, *cells)
        n_cells, n_parent_states = ptr[-1], n_states[parent]
        n_parent_states[0] = 1
        parent_state, state = parent_state[:n_cells], state[:n_cells]
        return CountTables(ptr, parent_state, state, count[:n_cells], n_parent_states, n_states)


def _make_workspace(slots: Slots, n_rows: int) -> PairWorkspace:
    n_rows = n_rows if slots.wide.any() else 0
    width = int(np.diff(slots.ptr).max()) + 1
    n_cells = max(n_rows, width * width)
    # At most half of the hash table is used, which keeps its chains short.
    n_places = 1 << (2 * n_rows).bit_length()
    return PairWorkspace(
        row=np.empty(n_cells, np.int64),
        column=np.empty(n_cells, np.int64),
        weight=np.empty(n_cells),
        left=np.empty(width),
        sums=np.zeros((4, int(slots.n_states.max()))),
        key=np.full(n_places, -1, np.int64),
        held=np.empty(n_places),
    )
