"""Factors: functions of the cells of one column, and how a pass reads leaves under them.

Every question to a circuit is the expectation of a product of functions, one for each column. A
value, a range, a set, weights of states and a kernel at a point differ only in what the leaves of
their column say of them: ``log_expectation``. A leaf whose column has factors reads a line of its
own, as leaves of several variables do, and nothing else in a pass knows of factors. The plain twin
is ``tests/naive/factors.py``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skpc._arrays import Bools, Floats, Ints, log_or_inf, offsets
from skpc._jit import TRUE, kernel
from skpc._random import Streams, uniforms
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.kernels import ColumnKernel, leaf_expectations
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import MultivariateReader, checked_cells
from skpc.variables import Bins, Form, Normals, Points, ScoredNormals
from skpc.variables.block_ranges import box_probabilities, conditional_form
from skpc.variables.events import Events
from skpc.variables.families import leaf_values
from skpc.variables.leaf_tables import with_lines
from skpc.variables.leaves import Cells, LeafTable, leaf_of
from skpc.variables.predictive import FormSum, WithinIntervals


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """Functions of a column's missing cells, as lists of terms.

    Parameters
    ----------
    row : ndarray of int of shape (n_terms,)
        The row of each term, in increasing order. The terms of a row add up to its function; a row
        without a term has the function that is one everywhere.
    """

    row: Ints

    @abstractmethod
    def log_expectation(self, leaves: Form, terms: slice) -> Floats:
        """Log of the expectation of some terms under each leaf, shape (n_leaves, n_terms)."""


@dataclass(frozen=True, eq=False)
class Intervals(Factor):
    """Functions that are one where ``low < x <= high``; several disjoint ones in a row are a set.

    Parameters
    ----------
    row : ndarray of int of shape (n_terms,)
        The row of each interval, in increasing order.
    low, high : ndarrays of shape (n_terms,)
        Their ends; state ``s`` of a category is the interval from ``s - 0.5`` to ``s + 0.5``.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import Intervals, log_expectation
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=0.0, sd=1.0)
    >>> below = Intervals(np.array([0]), np.array([-np.inf]), np.array([0.0]))
    >>> np.exp(log_expectation(builder.build(), [[np.nan]], {0: below})).round(6)
    array([0.5])
    """

    low: Floats
    high: Floats

    def log_expectation(self, leaves: Form, terms: slice) -> Floats:
        """Log probability of some intervals under each leaf, shape (n_leaves, n_terms)."""
        # Many rows say the same of a column.
        distinct, number = group_rows(np.column_stack([self.low[terms], self.high[terms]]))
        return leaves.log_between(*distinct.T)[:, number]


@dataclass(frozen=True, eq=False)
class Weights(Factor):
    """Functions that have a weight for each state: soft evidence.

    Parameters
    ----------
    row : ndarray of int of shape (n_terms,)
        The rows that have weights, in increasing order.
    weight : ndarray of shape (n_terms, n_states)
        What each state of a category, or of a histogram axis, counts; not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import Weights, log_expectation
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> reading = Weights(np.array([0]), np.array([[0.9, 0.2]]))
    >>> np.exp(log_expectation(builder.build(), [[np.nan]], {0: reading}))
    array([0.375])
    """

    weight: Floats

    def log_expectation(self, leaves: Form, terms: slice) -> Floats:
        """Log of some mean weights under each leaf, shape (n_leaves, n_terms)."""
        if (self.weight < 0.0).any():
            raise ValueError(f"weights must not be negative, got {self.weight.min()}")
        if not isinstance(leaves, Points | Bins):
            raise TypeError(
                "weights of states need a column of states (a category, or a histogram axis), but "
                f"its leaves are {type(leaves).__name__}; say intervals of such numbers"
            )
        return log_or_inf(leaves.averages(self.weight[terms].T))


@dataclass(frozen=True, eq=False)
class AtPoints(Factor):
    """Functions that are a kernel at a point: ``k(x, cell)``.

    Parameters
    ----------
    row : ndarray of int of shape (n_terms,)
        The row of each point, in increasing order.
    kernel : ColumnKernel
        The kernel; it must not be negative. It compares numbers that have scores by these.
    cell : ndarray of shape (n_terms,)
        The encoded cells of the points.

    Notes
    -----
    Each row meets one point, beside any factors of its other columns. For a kernel of all columns
    between all rows and many points, :func:`skpc.queries.expected_gram` multiplies matrices: of
    20 rows and 200 points of eight numbers it was 22 to 28 times as fast.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import RBF
    >>> from skpc.queries import AtPoints, log_expectation
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=0.0, sd=1.0)
    >>> point = AtPoints(np.array([0]), RBF(0.5), np.array([3.0]))
    >>> np.exp(log_expectation(builder.build(), [[np.nan]], {0: point})).round(3)
    array([0.075])
    """

    kernel: ColumnKernel
    cell: Floats

    def log_expectation(self, leaves: Form, terms: slice) -> Floats:
        """Log of some expected kernels under each leaf, shape (n_leaves, n_terms)."""
        cell = self.cell[terms]
        # Points are scores here, as the leaves of such columns are.
        if isinstance(leaves, ScoredNormals):
            cell = leaves.column.transform(cell)
        # A point is a normal without any width.
        known = Normals(cell, np.zeros(len(cell)))
        return log_or_inf(leaf_expectations(self.kernel, leaves, known))


def factors_of(events: Events) -> dict[int, Factor]:
    """The factor of each column that events have intervals of."""
    factors: dict[int, Factor] = {}
    for var in np.unique(events.column).tolist():
        chosen = events.column == var
        factors[var] = Intervals(events.event[chosen], events.low[chosen], events.high[chosen])
    return factors


@kernel
def log_leaf_values(
    leaves: LeafTable, log_table: Floats, cells: Cells, n: int, chosen: Ints, out: Floats
) -> None:
    """Log value of each chosen leaf on the first n rows of a batch, in a line of ``out`` each."""
    for line in range(len(chosen)):
        leaf_values(leaf_of(leaves, chosen[line]), log_table, cells, n, TRUE, out, line)


class FactorReader(MultivariateReader):
    """Evaluates leaves under the factors that the rows of a pass have.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    events : Events
        Those of all rows; the known cells of the rows are theirs.
    factors : mapping of int to Factor
        Factors of other cells, by their columns.
    plan : Plan
        The plan of the circuit, in which leaves read their variables.
    """

    def __init__(self, circuit: Circuit, events: Events, factors: Mapping[int, Factor], plan: Plan):
        super().__init__(circuit)
        self._circuit = circuit
        self.events = events
        self._leaf_table = plan.leaves
        # Intervals of one column are read together, whatever event says them.
        intervals = factors_of(events)
        #: Each column with factors: its leaves, these, and the leaves' places among such leaves.
        self._alone = []
        listed = [np.empty(0, np.int64)]
        begin = 0
        for var, leaf in self.leaves.alone():
            # A column may have intervals in some rows and functions in others.
            of_column = [group[var] for group in (intervals, factors) if var in group]
            if of_column:
                end = begin + len(leaf)
                self._alone.append((var, leaf, of_column, slice(begin, end)))
                listed.append(leaf)
                begin = end
        self._listed = np.concatenate(listed)
        # Lines of single leaves stand behind those of the leaves of several variables.
        first_line = self.n_features + 2 * self.n_leaves
        self.plan = plan._replace(leaves=with_lines(plan.leaves, self._listed, first_line))

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_leaves + len(self._listed)

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log values of these leaves on the factors of some rows, shape (n_rows, n_lines).

        A known cell has its density relative to the peak of the column.
        """
        n = len(rows)
        block_values = super().values(rows, start)
        cells = checked_cells(self.columns, rows, start)
        out = np.empty((len(self._listed), n))
        log_table = self._circuit.leaf_table
        # Without factors, a leaf of a listed column has the value of its cell.
        log_leaf_values(self._leaf_table, log_table, cells, n, self._listed, out)
        for var, leaf, factors, lines in self._alone:
            leaves = self._circuit.leaf_forms(var, leaf)
            for factor in factors:
                # Terms are sorted by rows, so that those of a part are one run.
                terms = slice(*np.searchsorted(factor.row, [start, start + n]))
                row, first_term = np.unique(factor.row[terms], return_index=True)
                if len(row):
                    log_values = factor.log_expectation(leaves, terms)
                    # The terms of a row add up.
                    sums = np.logaddexp.reduceat(log_values, first_term, axis=1)
                    out[lines, row - start] = sums
        if self.groups:
            events = self.events.take(np.arange(start, start + n))
            # Known cells of a block have counted; given them, the box of its intervals has a mass.
            for place, group, scored in zip(self.place, self.groups, self.cells(rows, start)):
                is_open = np.isnan(scored.scores)
                for event_rows, intervals in _alike(events, group.variables, is_open):
                    scores = scored.scores[event_rows]
                    prob = box_probabilities(group, self.columns, scores, intervals)
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
            # What intervals have left open is drawn from the leaves as ever.
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
            # Of several ranges on a block only one is drawn within: the others must then hold.
            self._draw_stated(reached, drawing, drawn, events, n_ranges=1)
            super().fill(reached, drawing, drawn)
            rows[pending] = drawn
            # Streams move on, so that a redraw is another draw.
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
        for var, leaf, _, _ in self._alone:
            # The walk has left these cells open, as their leaves read lines of their own.
            chosen = np.flatnonzero(is_missing[:, var] & np.isin(owner[:, var], leaf))
            if len(chosen):
                distinct, place = np.unique(owner[chosen, var], return_inverse=True)
                # One leaf for each row: its mixture has all weight on that leaf.
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
        # Intervals padded to arrays of shape (n_chosen, most intervals of one event).
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
    # (n_events, most stated cells): the stated columns of each event, padded with -1.
    column = np.full((len(which), size.max(initial=0)), -1)
    first_stated = offsets(size)[:-1]
    column[number, np.arange(len(stated)) - first_stated[number]] = events.column[stated]
    # Alike are events with the same open cells that state the same columns.
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
