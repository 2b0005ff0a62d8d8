"""Rows that stay where they are, such as in the blocks of a table: nodes know their counts only."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.counting.chow_liu import ScoredTree
from skpc.counting.pair_cells import Counts, Slots
from skpc.counting.scores import Score
from skpc.counting.weighted_counts import CountedColumns, slots_of

_NONE = np.empty((0, 0), np.int16), np.empty(0, np.int64), np.empty(0)


class CountedRows:
    """The complete rows of a node, each of weight one, by their counts.

    It answers like ``WeightedRows``, of cuts whose branches are in ``counted``. What a pass over
    the rows has to count for these, ``to_count`` and ``slots`` say.

    Parameters
    ----------
    slots : Slots
        Which states of the columns are counted.
    pairs : array
        Numbers of rows in the pairs of these.
    total : float
        Number of rows.
    columns : array
        The columns that are not decided above.
    variables : array
        The variables of all columns.
    """

    def __init__(
        self,
        slots: Slots,
        pairs: Floats,
        total: float,
        columns: Ints,
        variables: Ints,
    ):
        self.slots, self.total_weight = slots, total
        self._pairs, self._columns, self._all = pairs, columns, variables
        #: Pairs of slots in the states of a column, in the order of ``to_count``; by column.
        self.counted: dict[int, Floats] = {}

    @classmethod
    def of(cls, in_state: Floats, pairs: Floats, variables: Ints, n_states: Ints) -> CountedRows:
        """All rows, from those in each state of each column, missing first, and in each pair."""
        columns = np.arange(len(variables))
        total = float(in_state[: n_states[0] + 1].sum())
        return cls(complete_slots(in_state, n_states), pairs, total, columns, variables)

    @property
    def variables(self) -> Ints:
        """The variables of the columns that are not decided above."""
        return self._all[self._columns]

    def state_counts(self, column: int) -> Floats:
        """Number of rows in each state of a column."""
        return self._whole.state_counts(int(self._columns[column]))

    def tree(self, score: Score) -> ScoredTree:
        """Chow-Liu tree of all columns."""
        return self._whole.tree(self.variables, score)

    def to_count(self, column: int) -> tuple[int, Ints]:
        """Where a column stands in the codes, and its states whose rows are to be counted."""
        counts = self.state_counts(column)
        # The fullest state is what the others leave of the node.
        counts[counts.argmax()] = 0.0
        return int(self._columns[column]), np.flatnonzero(counts)

    def branch_trees(self, column: int, score: Score, proportion: Floats) -> list[ScoredTree]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        columns = np.delete(self._columns, column)
        variables, trees = self._all[columns], list[ScoredTree]()
        empty = None
        for state, total in enumerate(self.state_counts(column).tolist()):
            if total == 0.0 and empty is not None:
                # One tree serves all branches without rows: there may be thousands.
                trees.append(empty)
                continue
            counts = Counts(*_NONE, self._branch_pairs(column, state), total)
            trees.append(CountedColumns(self.slots, counts, columns).tree(variables, score))
            if total == 0.0:
                empty = trees[-1]
        return trees

    def branch(self, column: int, state: int, proportion: Floats) -> CountedRows:
        """The rows in a state of a column, without that column."""
        total = float(self.state_counts(column)[state])
        table = _square(self._branch_pairs(column, state), total)
        in_state = _in_state(self.slots, table)
        slots = complete_slots(in_state, self.slots.n_states)
        columns = np.delete(self._columns, column)
        return CountedRows(slots, _repacked(table, self.slots, slots), total, columns, self._all)

    def _branch_pairs(self, column: int, state: int) -> Floats:
        states, counted = self.to_count(column)[1].tolist(), self.counted[column]
        if state in states:
            return counted[states.index(state)]
        if self.state_counts(column)[state] == 0.0:
            return np.zeros_like(self._pairs)
        return self._pairs - counted.sum(axis=0)

    @cached_property
    def _whole(self) -> CountedColumns:
        counts = Counts(*_NONE, self._pairs, self.total_weight)
        return CountedColumns(self.slots, counts, self._columns)


def complete_slots(in_state: Floats, n_states: Ints) -> Slots:
    """The slots of complete columns; no column is wide."""
    return slots_of(in_state, n_states, may_be_wide=False)


def n_pairs(slots: Slots) -> int:
    """Number of pairs of slots."""
    n_slots = len(slots.state)
    return n_slots * (n_slots + 1) // 2


def _square(pairs: Floats, total: float) -> Floats:
    """Counts of pairs of slots as a symmetric table, all rows as one more slot at the end."""
    n = (int(np.sqrt(8 * len(pairs) + 1)) - 1) // 2
    table = np.zeros((n + 1, n + 1))
    table[np.tril_indices(n)] = pairs
    table[-1, :-1], table[-1, -1] = table.diagonal()[:-1], total
    return table + np.tril(table, -1).T


def _in_state(slots: Slots, table: Floats) -> Floats:
    """Number of rows in each state of each column, missing first."""
    found = np.zeros(slots.state_ptr[-1])
    column = np.repeat(np.arange(len(slots.n_states)), np.diff(slots.ptr))
    in_slot = table.diagonal()[:-1]
    found[slots.state_ptr[column] + slots.state + 1] = in_slot
    rest = table[-1, -1] - np.bincount(column, in_slot, len(slots.n_states))
    found[slots.state_ptr[:-1] + slots.usual + 1] = rest
    return found


def _repacked(table: Floats, slots: Slots, wanted: Slots) -> Floats:
    """Counts of the pairs of other slots of the same rows."""
    column = np.repeat(np.arange(len(wanted.n_states)), np.diff(wanted.ptr))
    place = slots.of_state[wanted.state_ptr[column] + wanted.state + 1]
    # What is the usual state there is what the slots of its column leave of all rows.
    for _ in range(2):
        found = table[place]
        for at in np.flatnonzero(place < 0):
            found[at] -= table[slots.ptr[column[at]] : slots.ptr[column[at] + 1]].sum(axis=0)
        table = found.T
    return np.ascontiguousarray(table[np.tril_indices(len(place))])
