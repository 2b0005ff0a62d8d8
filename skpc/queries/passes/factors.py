"""Factors: functions of the cells of one column, and how a pass reads leaves under them.

Every question to a circuit is the expectation of a product of functions, one for each column. A
value, a range, a set, weights of states and a kernel at a point differ only in their expectation
under a leaf: ``log_expectation``. A leaf whose column has factors reads a line of its own, as a
block does, and nothing else in a pass knows of factors. The plain twin is
``tests/naive/factors.py``.
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
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import checked_cells
from skpc.variables import Bins, Form, Normals, Points, ScoredNormals
from skpc.variables.block_ranges import box_probabilities, conditional_form
from skpc.variables.events import Events
from skpc.variables.families import leaf_values
from skpc.variables.leaf_tables import with_lines
from skpc.variables.leaves import Cells, LeafTable, leaf_of
from skpc.variables.predictive import FormSum, WithinIntervals


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """Functions of a column's missing cells, one a row, as sums of terms.

    Parameters
    ----------
    row : ndarray of int of shape (n_terms,)
        The row of each term, in increasing order. The terms of a row add up to its function. A row
        without a term has the function that is one everywhere.
    """

    row: Ints

    @abstractmethod
    def log_expectation(self, leaves: Form, terms: slice) -> Floats:
        """Log of the expectation of these terms under each leaf, shape (n_leaves, n_terms)."""


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
        """Log probability of the intervals under each leaf, shape (n_leaves, n_terms)."""
        # Many rows have the same interval, whose probability is computed once.
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
        """Log of the mean weights under each leaf, shape (n_leaves, n_terms)."""
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
    Each row has one point, and may have factors of its other columns. For a kernel of all columns
    between all rows and many points, :func:`skpc.queries.expected_gram` multiplies matrices: for 20
    rows and 200 points of eight numbers it was 22 to 28 times as fast.

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
        """Log of the expected kernels under each leaf, shape (n_leaves, n_terms)."""
        cell = self.cell[terms]
        # Where leaves are distributions of scores, a point is a score as well.
        if isinstance(leaves, ScoredNormals):
            cell = leaves.column.transform(cell)
        # A point is a normal distribution without spread.
        known = Normals(cell, np.zeros(len(cell)))
        return log_or_inf(leaf_expectations(self.kernel, leaves, known))


def factors_of(events: Events) -> dict[int, Factor]:
    """Intervals of events as a factor for each of their columns."""
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


class FactorReader(BlockReader):
    """Evaluates blocks, and leaves of single columns under factors, on the rows of a pass.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    events : Events
        The event of each row of the table. Rows hold the known cells of their events.
    factors : mapping of int to Factor
        Factors of other missing cells, by their columns.
    plan : Plan
        The plan of the circuit, whose leaves read the lines of their variables. The attribute
        ``plan`` is the same with lines of their own for leaves under factors.
    """

    def __init__(self, circuit: Circuit, events: Events, factors: Mapping[int, Factor], plan: Plan):
        super().__init__(circuit)
        self._circuit = circuit
        self.events = events
        self._leaf_table = plan.leaves
        intervals = factors_of(events)
        #: Each column with factors: its leaves, its factors, and the lines of these leaves.
        self._columns_with_factors = []
        leaf_groups = [np.empty(0, np.int64)]
        begin = 0
        for var, leaf in self.leaves.alone():
            # A column may have intervals in some rows and functions in others.
            column_factors = [group[var] for group in (intervals, factors) if var in group]
            if column_factors:
                end = begin + len(leaf)
                entry = (var, leaf, column_factors, slice(begin, end))
                self._columns_with_factors.append(entry)
                leaf_groups.append(leaf)
                begin = end
        self._leaves_with_factors = np.concatenate(leaf_groups)
        # Lines of these leaves stand behind those of the blocks.
        first_line = self.n_features + 2 * self.n_blocks
        table = with_lines(plan.leaves, self._leaves_with_factors, first_line)
        self.plan = plan._replace(leaves=table)

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_blocks + len(self._leaves_with_factors)

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log values of these leaves on rows, shape (n_rows, n_lines): blocks, then single columns.

        The value on a known cell is its log density relative to the peak of the column.
        """
        n = len(rows)
        block_values = super().values(rows, start)
        cells = checked_cells(self.columns, rows, start)
        chosen = self._leaves_with_factors
        out = np.empty((len(chosen), n))
        # In rows without factors a leaf has the value of its cell.
        log_leaf_values(self._leaf_table, self._circuit.leaf_table, cells, n, chosen, out)
        for var, leaf, factors, lines in self._columns_with_factors:
            leaves = self._circuit.leaf_forms(var, leaf)
            for factor in factors:
                # Terms are sorted by rows, so that the terms of these rows are one slice.
                terms = slice(*np.searchsorted(factor.row, [start, start + n]))
                row, first_term = np.unique(factor.row[terms], return_index=True)
                if len(row):
                    log_values = factor.log_expectation(leaves, terms)
                    # The terms of a row add up.
                    sums = np.logaddexp.reduceat(log_values, first_term, axis=1)
                    out[lines, row - start] = sums
        if self.groups:
            events = self.events.take(np.arange(start, start + n))
            # To the density of its known cells a block adds the mass of its intervals given them.
            for numbers, group, scored in zip(self.numbers, self.groups, self.cells(rows, start)):
                has_no_score = np.isnan(scored.scores)
                for event_rows, intervals in _alike(events, group.variables, has_no_score):
                    scores = scored.scores[event_rows]
                    prob = box_probabilities(group, self.columns, scores, intervals)
                    block_values[np.ix_(event_rows, numbers)] += log_or_inf(prob)
        return np.hstack([block_values, out.T])

    def fill(self, reached: Ints, streams: Any, rows: Floats, event: Ints | None = None) -> None:
        """Fill the missing cells of rows by draws within their events; see the base class.

        Row ``j`` fulfils ``event[j]``. Each cell of a block with several ranges is drawn from its
        range, given the cells before it. Without ``event`` all rows fulfil the only event: a
        block draws from its first range, and rows beyond the other ranges are drawn again.
        """
        if event is not None:
            self._draw_stated(reached, streams, rows, self.events.take(event))
            # Cells without intervals are drawn from the blocks as in the base class.
            super().fill(reached, streams, rows)
            return
        pending = np.arange(len(rows))
        before = rows.copy()
        # Most rounds of draws from a block with several ranges.
        redraws = 10_000
        for _ in range(redraws):
            pending_reached = reached[pending]
            pending_streams = streams[pending]
            drawn = before[pending]
            events = self.events.take(np.zeros(len(pending), dtype=np.int64))
            # A block draws within one of its ranges: whether the others hold is checked below.
            self._draw_stated(pending_reached, pending_streams, drawn, events, n_ranges=1)
            super().fill(pending_reached, pending_streams, drawn)
            rows[pending] = drawn
            # Streams move on, so that the next round draws other numbers.
            streams[pending] = pending_streams
            pending = pending[~events.hold(drawn).all(axis=1)]
            if not len(pending):
                return
        raise ValueError(
            f"no draw of {redraws:,} lay within all ranges that one block of numbers has; widen "
            "the ranges, or use a density without blocks"
        )

    def _draw_stated(
        self,
        reached: Ints,
        streams: Streams,
        rows: Floats,
        events: Events,
        n_ranges: int | None = None,
    ) -> None:
        """Draw the missing cells of columns with intervals from the leaves that rows have reached.

        ``reached`` is as in :meth:`fill`, with leaves of single columns under intervals, too. Of a
        block, the first ``n_ranges`` columns with intervals are drawn; None stands for all.
        """
        is_missing = np.isnan(rows)
        for var, leaf, _, _ in self._columns_with_factors:
            chosen = np.flatnonzero(is_missing[:, var] & np.isin(reached[:, var], leaf))
            if len(chosen):
                distinct, place = np.unique(reached[chosen, var], return_inverse=True)
                # Each row mixes the leaves with all weight on the one that it has reached.
                form = self._circuit.leaf_forms(var, distinct).mixed(np.eye(len(distinct))[place])
                self._draw_cells(var, form, chosen, streams, rows, events)
        for number, group in enumerate(self.groups):
            reached_block = reached[:, group.variables[0]]
            stated = np.flatnonzero(np.isin(group.variables, events.column))[:n_ranges]
            for place in stated.tolist():
                var = int(group.variables[place])
                is_of_scope = np.isin(reached_block, group.leaf)
                is_stated = np.isin(np.arange(len(rows)), events.event[events.column == var])
                chosen = np.flatnonzero(is_of_scope & is_stated & is_missing[:, var])
                if not len(chosen):
                    continue
                leaf = np.searchsorted(group.leaf, reached_block[chosen])
                # Cells of the block that have been drawn before are known now.
                cells = self.cells(rows[chosen])[number]
                form = conditional_form(group, self.columns, cells, leaf, place)
                self._draw_cells(var, form, chosen, streams, rows, events)

    def _draw_cells(
        self, var: int, form: Any, chosen: Ints, streams: Streams, rows: Floats, events: Events
    ) -> None:
        """Draw cells of a column in the chosen rows, one from each distribution of a form.

        Each lies within the intervals that the event of its row has of the column.
        """
        u = uniforms(streams)
        chosen_events = events.take(chosen)
        # Intervals padded to arrays of shape (n_chosen, most intervals of one event).
        low, high = chosen_events.only(np.arange(rows.shape[1]) == var).padded()
        within_sets = WithinIntervals(FormSum((form,)), low, high, np.ones(len(chosen)))
        drawn = within_sets.quantiles(u[chosen])
        # Far out in a tail a quantile may miss the interval by rounding.
        nearest = np.clip(drawn, np.nextafter(low[:, 0], np.inf), high[:, 0])
        rows[chosen, var] = np.where(within_sets.holds(drawn), drawn, nearest)


def _alike(
    events: Events, variables: Ints, has_no_score: Bools
) -> Iterator[tuple[Ints, dict[int, tuple[Floats, Floats]]]]:
    """Groups of events that have scores, and intervals, in the same columns of a scope.

    With each group come the ends of its intervals, by the place of their column in the scope.
    """
    stated = np.flatnonzero(np.isin(events.column, variables))
    event, number, size = np.unique(events.event[stated], return_inverse=True, return_counts=True)
    # (n_events, most intervals of an event): the columns of its intervals, padded with -1.
    column = np.full((len(event), size.max(initial=0)), -1)
    first_stated = offsets(size)[:-1]
    column[number, np.arange(len(stated)) - first_stated[number]] = events.column[stated]
    distinct, kind = group_rows(np.hstack([has_no_score[event], column]))
    for kind_number in range(len(distinct)):
        members = np.flatnonzero(kind == kind_number)
        # (n_members, n_intervals), the same columns in each row.
        interval = stated[first_stated[members, np.newaxis] + np.arange(size[members[0]])]
        is_of_variable = [events.column[interval[0]] == var for var in variables.tolist()]
        yield (
            event[members],
            {
                place: (events.low[interval[:, mask]], events.high[interval[:, mask]])
                for place, mask in enumerate(is_of_variable)
                if mask.any()
            },
        )
