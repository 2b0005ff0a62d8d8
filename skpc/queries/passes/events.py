"""The leaves of a circuit under events: ranges and sets are other values of a leaf.

A leaf whose variable has statements reads a line of its own, as leaves of several variables do: the
log probability of what an event says of its cell. Nothing else in a pass knows of events.
"""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._jit import TRUE, kernel
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import MultivariateReader, new_cells, read_batch, refuse_cell
from skpc.variables.events import Events
from skpc.variables.families import leaf_values
from skpc.variables.leaf_queries import forms_of, with_lines
from skpc.variables.leaves import Cells, LeafTable, leaf_of


@kernel
def log_leaf_values(
    leaves: LeafTable, log_table: Floats, cells: Cells, n: int, chosen: Ints, out: Floats
) -> None:
    """Log value of each chosen leaf on the first n rows of a batch, in a line of ``out`` each."""
    for line in range(len(chosen)):
        leaf_values(leaf_of(leaves, chosen[line]), log_table, cells, n, TRUE, out, line)


class EventReader(MultivariateReader):
    """Evaluates leaves on the events that the rows of a pass stand for.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    events : Events
        Those of all rows; the known cells of the rows are theirs.
    plan : Plan
        The plan of the circuit, in which leaves read their variables.
    """

    def __init__(self, circuit: Circuit, events: Events, plan: Plan):
        super().__init__(circuit)
        self.events, self._leaf_table = events, plan.leaves
        self._log_table = circuit.leaf_table
        stated = np.bincount(events.column, minlength=circuit.n_features) > 0
        self._alone = [(var, leaf) for var, leaf in self.leaves.alone() if stated[var]]
        self._listed = np.concatenate([np.empty(0, np.int64), *(leaf for _, leaf in self._alone)])
        self._forms = [
            forms_of(self.leaves, circuit.param, self.columns, var, leaf)
            for var, leaf in self._alone
        ]
        first = self.n_features + 2 * self.n_leaves
        lines = with_lines(plan.leaves, self._listed, first)
        self.plan = plan._replace(leaves=lines)

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_leaves + len(self._listed)

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log values of these leaves on the events of some rows, shape (n_rows, n_lines).

        A known cell has its density relative to the peak of the column, an interval its
        probability.
        """
        n, reading = len(rows), np.empty((len(rows), 0))
        cells, out = new_cells(self.n_features, n), np.empty((len(self._listed), n))
        bad = read_batch(self.columns, rows, reading, 0, n, cells)
        refuse_cell(self.columns, rows, bad, start)
        log_leaf_values(self._leaf_table, self._log_table, cells, n, self._listed, out)
        part, line = slice(self.events.ptr[start], self.events.ptr[start + n]), 0
        event = np.repeat(np.arange(n), np.diff(self.events.ptr[start : start + n + 1]))
        column, *ends = (x[part] for x in self.events[2:])
        for (var, leaf), form in zip(self._alone, self._forms):
            some = np.flatnonzero(column == var)
            # Many events say the same of a column.
            distinct, group = group_rows(np.column_stack([end[some] for end in ends]))
            prob = form.between(*distinct.T)[:, group]
            first = np.flatnonzero(np.diff(event[some], prepend=-1))
            lines = slice(line, line + len(leaf))
            if len(some):
                prob = np.add.reduceat(prob, first, axis=1)
                out[lines, event[some[first]]] = log_or_inf(prob)
            line += len(leaf)
        return np.hstack([super().values(rows, start), out.T])
