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
        self._circuit = circuit
        self.events = events
        self._leaf_table = plan.leaves
        stated = {*np.unique(events.column).tolist()}
        alone = [(var, leaf) for var, leaf in self.leaves.alone() if var in stated]
        self._listed = np.concatenate([np.empty(0, np.int64), *(leaf for _, leaf in alone)])
        bounds = offsets([len(leaf) for _, leaf in alone]).tolist()
        #: Each stated variable with the leaves that have it alone, and their places among these.
        self._alone = [
            (*alone_group, slice(a, b)) for alone_group, (a, b) in zip(alone, pairwise(bounds))
        ]
        self._forms = [circuit.leaf_forms(var, leaf) for var, leaf in alone]
        first_line = self.n_features + 2 * self.n_leaves
        self.plan = plan._replace(leaves=with_lines(plan.leaves, self._listed, first_line))

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_leaves + len(self._listed)

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log values of these leaves on the events of some rows, shape (n_rows, n_lines).

        A known cell has its density relative to the peak of the column, an interval its
        probability.
        """
        n = len(rows)
        block_values = super().values(rows, start)
        cells = checked_cells(self.columns, rows, start)
        out = np.empty((len(self._listed), n))
        log_table = self._circuit.leaf_table
        log_leaf_values(self._leaf_table, log_table, cells, n, self._listed, out)
        events = self.events.take(np.arange(start, start + n))
        event = events.event
        # Smaller probabilities have lost digits; the logs of those of normals are found from
        # scratch.
        few_digits = 1e-290
        for (var, _, lines), form in zip(self._alone, self._forms):
            chosen = np.flatnonzero(events.column == var)
            if len(chosen):
                # Many events say the same of a column.
                ends = np.column_stack([events.low[chosen], events.high[chosen]])
                distinct, kind = group_rows(ends)
                stated, start_of = np.unique(event[chosen], return_index=True)
                prob = form.between(*distinct.T)
                log_prob = log_or_inf(prob)
                is_far = (prob < few_digits).any(axis=0)
                if is_far.any():
                    log_prob[:, is_far] = form.log_between(*distinct[is_far].T)
                # Some events have alternatives.
                out[lines, stated] = np.logaddexp.reduceat(log_prob[:, kind], start_of, axis=1)
        for place, group, scored in zip(self.place, self.groups, self.cells(rows, start)):
            for event_rows, intervals in _alike(events, group.variables, np.isnan(scored.scores)):
                prob = box_probabilities(group, self.columns, scored.scores[event_rows], intervals)
                block_values[np.ix_(event_rows, place)] += log_or_inf(prob)
        return np.hstack([block_values, out.T])

    def fill(self, owner: Ints, streams: Any, rows: Floats, index: Ints | None = None) -> None:
        """Fill the missing cells of rows by draws within their events; see the base class.

        Without ``index`` all rows fulfil the only event: of several ranges on one leaf the first is
        drawn from, and draws beyond the others are drawn again. Else row ``j`` fulfils the event
        ``index[j]``, and each range of a leaf is drawn from given the ones before it.
        """
        if index is not None:
            self._draw_stated(owner, streams, rows, self.events.take(index))
            super().fill(owner, streams, rows)
            return
        pending = np.arange(len(rows))
        before = rows.copy()
        # Times that draws from a leaf with several ranges are redrawn.
        redraws = 10_000
        for _ in range(redraws):
            reached = owner[pending]
            drawing = streams[pending]
            drawn = before[pending]
            events = self.events.take(np.zeros(len(pending), dtype=np.int64))
            self._draw_stated(reached, drawing, drawn, events, n_ranges=1)
            super().fill(reached, drawing, drawn)
            rows[pending] = drawn
            streams[pending] = drawing
            pending = pending[~events.hold(drawn).all(axis=1)]
            if not len(pending):
                return
        raise ValueError(
            f"no draw of {redraws:,} lay within all ranges that one block of numbers has; widen "
            "the ranges, or use a density without blocks"
        )

    def _draw_stated(
        self,
        owner: Ints,
        streams: Streams,
        rows: Floats,
        events: Events,
        n_ranges: int | None = None,
    ) -> None:
        """Draw cells within their intervals from the leaves reached, and the missing ones beside.

        Of a block, the first ``n_ranges`` stated columns are drawn; None stands for all.
        """
        is_missing = np.isnan(rows)
        for var, leaf, _ in self._alone:
            chosen = np.flatnonzero(is_missing[:, var] & np.isin(owner[:, var], leaf))
            if len(chosen):
                distinct, place = np.unique(owner[chosen, var], return_inverse=True)
                form = self._circuit.leaf_forms(var, distinct).mixed(np.eye(len(distinct))[place])
                self._draw_cells(var, form, chosen, streams, rows, events)
        for number, group in enumerate(self.groups):
            stated = np.flatnonzero(np.isin(group.variables, events.column))[:n_ranges]
            for place in stated.tolist():
                var = int(group.variables[place])
                reached = np.isin(owner[:, group.variables[0]], group.leaf)
                says = np.isin(np.arange(len(rows)), events.event[events.column == var])
                chosen = np.flatnonzero(reached & says & is_missing[:, var])
                if not len(chosen):
                    continue
                leaf = np.searchsorted(group.leaf, owner[chosen, group.variables[0]])
                # What has been drawn of the block before is known now.
                cells = self.cells(rows[chosen])[number]
                form = conditional_form(group, self.columns, cells, leaf, place)
                self._draw_cells(var, form, chosen, streams, rows, events)

    def _draw_cells(
        self, var: int, form: Any, chosen: Ints, streams: Streams, rows: Floats, events: Events
    ) -> None:
        """Draw a cell of some rows from the distributions of a form, within its intervals."""
        u = uniforms(streams)
        chosen_events = events.take(chosen)
        low, high = chosen_events.only(np.arange(rows.shape[1]) == var).padded()
        within_sets = WithinIntervals(FormSum((form,)), low, high, np.ones(len(chosen)))
        drawn = within_sets.quantiles(u[chosen])
        # Far out in a tail quantiles have no digits left.
        nearest = np.clip(drawn, np.nextafter(low[:, 0], np.inf), high[:, 0])
        rows[chosen, var] = np.where(within_sets.holds(drawn), drawn, nearest)


def _alike(
    events: Events, variables: Ints, is_open: Bools
) -> Iterator[tuple[Ints, dict[int, tuple[Floats, Floats]]]]:
    """Events that know and state the same cells of a scope, and their intervals by its places."""
    stated = np.flatnonzero(np.isin(events.column, variables))
    which, number, size = np.unique(events.event[stated], return_inverse=True, return_counts=True)
    column = np.full((len(which), size.max(initial=0)), -1)
    first_stated = offsets(size)[:-1]
    column[number, np.arange(len(stated)) - first_stated[number]] = events.column[stated]
    distinct, kind = group_rows(np.hstack([is_open[which], column]))
    for kind_number in range(len(distinct)):
        members = np.flatnonzero(kind == kind_number)
        taken = stated[first_stated[members, np.newaxis] + np.arange(size[members[0]])]
        is_of_variable = [events.column[taken[0]] == var for var in variables.tolist()]
        yield (
            which[members],
            {
                place: (events.low[taken[:, is_its]], events.high[taken[:, is_its]])
                for place, is_its in enumerate(is_of_variable)
                if is_its.any()
            },
        )
