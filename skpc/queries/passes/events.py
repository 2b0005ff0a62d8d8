"""The leaves of a circuit under events: ranges and sets are other values of a leaf.

A leaf whose variable has statements reads a line of its own, as leaves of several variables do: the
log probability of what an event says of its cell. Nothing else in a pass knows of events.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from skpc._arrays import Bools, Floats, Ints, log_or_inf, offsets
from skpc._jit import TRUE, kernel
from skpc._random import Streams, uniforms
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import MultivariateReader, checked_cells
from skpc.variables.events import Events
from skpc.variables.families import leaf_values
from skpc.variables.gaussian_boxes import box_probabilities, conditional_form
from skpc.variables.leaf_queries import with_lines
from skpc.variables.leaves import Cells, LeafTable, leaf_of
from skpc.variables.predictive import FormSum, WithinIntervals

#: Times that draws from a leaf with several ranges are redrawn.
_REDRAWS = 10_000


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
        self._circuit, self.events, self._leaf_table = circuit, events, plan.leaves
        stated = {*np.unique(events.column).tolist()}
        alone = [(var, leaf) for var, leaf in self.leaves.alone() if var in stated]
        self._listed = np.concatenate([np.empty(0, np.int64), *(leaf for _, leaf in alone)])
        bounds = offsets([len(leaf) for _, leaf in alone]).tolist()
        #: Each stated variable with the leaves that have it alone, and their places among these.
        self._alone = [(*one, slice(a, b)) for one, (a, b) in zip(alone, pairwise(bounds))]
        self._forms = [circuit.leaf_forms(var, leaf) for var, leaf in alone]
        first = self.n_features + 2 * self.n_leaves
        self.plan = plan._replace(leaves=with_lines(plan.leaves, self._listed, first))

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_leaves + len(self._listed)

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log values of these leaves on the events of some rows, shape (n_rows, n_lines).

        A known cell has its density relative to the peak of the column, an interval its
        probability.
        """
        n, of_blocks = len(rows), super().values(rows, start)
        cells, out = checked_cells(self.columns, rows, start), np.empty((len(self._listed), n))
        log_table = self._circuit.leaf_table
        log_leaf_values(self._leaf_table, log_table, cells, n, self._listed, out)
        events = self.events.take(np.arange(start, start + n))
        event = events.event
        for (var, _, lines), form in zip(self._alone, self._forms):
            some = np.flatnonzero(events.column == var)
            if len(some):
                # Many events say the same of a column.
                ends = np.column_stack([events.low[some], events.high[some]])
                distinct, kind = group_rows(ends)
                which, first = np.unique(event[some], return_index=True)
                prob = form.between(*distinct.T)
                if len(which) < len(some):
                    # Some events have alternatives.
                    prob = np.add.reduceat(prob[:, kind], first, axis=1)
                    kind = np.arange(len(which))
                out[lines, which] = log_or_inf(prob)[:, kind]
        for place, group, scored in zip(self.place, self.groups, self.cells(rows, start)):
            for some, intervals in _alike(events, group.variables, np.isnan(scored.scores)):
                prob = box_probabilities(group, self.columns, scored.scores[some], intervals)
                of_blocks[np.ix_(some, place)] += log_or_inf(prob)
        return np.hstack([of_blocks, out.T])

    def fill(self, owner: Ints, streams: Any, rows: Floats) -> None:
        """Fill the missing cells of rows by draws within the only event; see the base class.

        Of several ranges on one leaf the first is drawn from, and draws beyond the others are
        drawn again.
        """
        pending, before = np.arange(len(rows)), rows.copy()
        for _ in range(_REDRAWS):
            reached, drawing, drawn = owner[pending], streams[pending], before[pending]
            self._draw_stated(reached, drawing, drawn)
            super().fill(reached, drawing, drawn)
            rows[pending], streams[pending] = drawn, drawing
            events = self.events.take(np.zeros(len(pending), dtype=np.int64))
            pending = pending[~events.hold(drawn).all(axis=1)]
            if not len(pending):
                return
        raise ValueError(
            f"no draw of {_REDRAWS:,} lay within all ranges that one block of numbers has; widen "
            "the ranges, or use a density without blocks"
        )

    def _draw_stated(self, owner: Ints, streams: Streams, rows: Floats) -> None:
        """Draw cells within their intervals from the leaves reached; of a block, its first one."""
        # What one leaf draws is not known to the others.
        known = rows[:1].copy()
        for var, leaf, _ in self._alone:
            some = np.flatnonzero(np.isin(owner[:, var], leaf))
            if len(some):
                distinct, place = np.unique(owner[some, var], return_inverse=True)
                form = self._circuit.leaf_forms(var, distinct).mixed(np.eye(len(distinct))[place])
                self._draw_cells(var, form, some, streams, rows)
        for group, cells in zip(self.groups, self.cells(known)):
            for at in np.flatnonzero(np.isin(group.variables, self.events.column))[:1].tolist():
                some = np.flatnonzero(np.isin(owner[:, group.variables[0]], group.leaf))
                place = np.searchsorted(group.leaf, owner[some, group.variables[0]])
                form = conditional_form(group, self.columns, cells.scores[0], at)
                form = form.mixed(np.eye(len(group.leaf))[place])
                self._draw_cells(int(group.variables[at]), form, some, streams, rows)

    def _draw_cells(self, var: int, form: Any, some: Ints, streams: Streams, rows: Floats) -> None:
        """Draw a cell of some rows from the distributions of a form, within its intervals."""
        u = np.empty(len(rows))
        uniforms(streams, u)
        is_stated = self.events.column == var
        ends = self.events.low[is_stated], self.events.high[is_stated]
        low, high = (np.tile(end, (len(some), 1)) for end in ends)
        within = WithinIntervals(FormSum((form,)), low, high, np.ones(len(some)))
        drawn = within.quantiles(u[some])
        # Far out in a tail quantiles have no digits left.
        nearest = np.clip(drawn, np.nextafter(low[:, 0], np.inf), high[:, 0])
        rows[some, var] = np.where(within.holds(drawn), drawn, nearest)


def _alike(
    events: Events, variables: Ints, is_open: Bools
) -> Iterator[tuple[Ints, dict[int, tuple[Floats, Floats]]]]:
    """Events that know and state the same cells of a scope, and their intervals by its places."""
    stated = np.flatnonzero(np.isin(events.column, variables))
    which, number, size = np.unique(events.event[stated], return_inverse=True, return_counts=True)
    column = np.full((len(which), size.max(initial=0)), -1)
    at = offsets(size)[:-1]
    column[number, np.arange(len(stated)) - at[number]] = events.column[stated]
    distinct, kind = group_rows(np.hstack([is_open[which], column]))
    for one in range(len(distinct)):
        some = np.flatnonzero(kind == one)
        taken = stated[at[some, np.newaxis] + np.arange(size[some[0]])]
        of_var = [events.column[taken[0]] == var for var in variables.tolist()]
        yield (
            which[some],
            {
                place: (events.low[taken[:, is_its]], events.high[taken[:, is_its]])
                for place, is_its in enumerate(of_var)
                if is_its.any()
            },
        )
