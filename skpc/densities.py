"""What every density answers about encoded rows, and how a circuit does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

import skpc.queries as queries
from skpc._arrays import Floats, has_gaps
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.queries import Events
from skpc.queries.posteriors import expected_cells
from skpc.variables import Predictive


class Density(Protocol):
    """A distribution of encoded rows, as a composing estimator asks it.

    Rows have shape (n_rows, n_features), with NaN where a cell is missing; missing cells are
    integrated out. Log densities are in nats. The methods that fill missing cells return rows of
    the same shape, and keep the observed cells. A class needs no import to be a density.

    In place of an array, :meth:`log_density`, :meth:`posteriors`, :meth:`means` and
    :meth:`draw_missing` take :class:`~skpc.queries.Events`: ranges and sets beside cells. They read
    both by ``Events.of(rows)``.
    """

    @property
    def domain(self) -> Domain:
        """What the columns are."""

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """Log density of each row, or that of its other cells given some columns (numbers)."""

    def log_cells(self, rows: Any) -> Floats:
        """Log density of each cell given the others of its row; NaN where it is missing."""

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """Distribution of the cells of each column (of all where None) given the observed ones.

        From it follow marginals, means, intervals and, with
        :meth:`~skpc.variables.Predictive.mixture`, those of several densities together.
        """

    def means(self, rows: Any, columns: Sequence[int] | None = None) -> Floats:
        """Fill each cell by itself: the mean of a number, the most probable state of a category.

        With ``columns``, only these are filled, and the other missing cells are arbitrary. The
        result also follows from :meth:`posteriors`, but this takes less time and memory.
        """

    def modes(self, rows: Floats) -> Floats:
        """Fill the missing cells of each row by those that are jointly most probable."""

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """Draw complete rows, which all fulfil the one event that may be given."""

    def draw_missing(self, rows: Any, random_state: np.random.RandomState) -> Floats:
        """Fill the missing cells of each row by one joint draw."""


class CircuitAnswers(NamedTuple):
    """The density of a circuit over encoded rows.

    Parameters
    ----------
    circuit : Circuit
        The distribution. Answers are exact, but for :meth:`modes` of a circuit that is not
        deterministic, which is a good guess, and for columns of a block in which others have
        ranges: :meth:`posteriors` and :meth:`means` mix 16 draws of these there.
    domain : Domain
        What the columns are.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.densities import CircuitAnswers
    >>> from skpc.domain import Domain
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> density = CircuitAnswers(
    ...     builder.build(), Domain.fit(np.array([[0.0], [1.0]]))
    ... )
    >>> density.means(np.array([[0.0], [np.nan]]))
    array([[0.],
           [1.]])
    """

    circuit: Circuit
    domain: Domain

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """See :class:`Density`."""
        if given is None:
            return queries.log_likelihood(self.circuit, rows)
        return queries.log_conditional(self.circuit, rows, given)

    def log_cells(self, rows: Any) -> Floats:
        """See :class:`Density`."""
        return queries.score_cells(self.circuit, rows)

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """See :class:`Density`."""
        chosen = [*range(self.domain.n_features)] if columns is None else [*columns]
        events = Events.of(rows)
        ranged = {*events.column.tolist()}
        # Columns of a block depend on each other within one leaf.
        block_mates = {v for block in self._blocks if ranged & {*block} for v in block}
        # All columns without ranges of their own or in their block take one pass.
        others = [v for v in chosen if v not in ranged | block_mates]
        answers = zip(others, queries.posteriors(self.circuit, events, others))
        predictives = {v: self._predictive(v, answer.terms, answer.known) for v, answer in answers}
        predictives |= {
            v: self._posterior_given_ranges(events, v) for v in chosen if v not in predictives
        }
        return [predictives[v] for v in chosen]

    def _predictive(self, column: int, terms: Any, known: Floats) -> Predictive:
        """The distribution of cells in the units and categories of their column."""
        facts = self.domain[column]
        return Predictive(terms, known, facts.states, law=facts.law)

    @property
    def _blocks(self) -> list[list[int]]:
        """The variables of each scope of several."""
        return [block.variables.tolist() for block in self.circuit.multivariate]

    def _posterior_given_ranges(self, events: Events, column: int) -> Predictive:
        """The distribution of a column with ranges, or in a block with such a column.

        Ranges of other columns of a block have no closed form: the answers for some draws of these
        cells within their ranges are mixed. All this leaves out the range of the column itself,
        which truncates the result at the end, so that it is used once.
        """
        # Draws that stand for ranges of other columns of a block.
        n_draws = 16
        # The ranges of the column itself are apart from those of all other columns.
        column_numbers = np.arange(self.domain.n_features)
        own_events = events.only(column_numbers == column)
        other_events = events.only(column_numbers != column)
        ranged = {*other_events.column.tolist()}
        drawn_columns = [
            v for block in self._blocks if column in block for v in block if v in ranged
        ]
        # Without ranges in the block, one answer is exact.
        conditions = [other_events]
        if drawn_columns:
            # Drawn cells take the place of ranges in the block; ranges outside stay as they are.
            is_drawn = np.isin(column_numbers, drawn_columns)
            outside = other_events.only(~is_drawn)
            conditions = []
            for seed in range(n_draws):
                drawn = queries.sample_missing(self.circuit, other_events, seed)
                # Only cells with ranges are taken from the draws: the others stay open.
                rows = np.where(is_drawn & other_events.are_stated(), drawn, other_events.rows)
                conditions.append(outside.with_cells(rows))
        answers = [queries.posteriors(self.circuit, given, [column])[0] for given in conditions]
        # Draws come from the posterior, so that they have equal weights.
        equal_weights = np.full(len(answers), 1.0 / len(answers))
        terms = Predictive.mixture(answers, equal_weights).terms
        predictive = self._predictive(column, terms, own_events.rows[:, column])
        # A column without ranges is answered by what the others say.
        if not own_events.has_intervals:
            return predictive
        return predictive.within(*own_events.padded())

    def means(self, rows: Any, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`Density`."""
        n_columns = self.domain.n_features
        chosen = np.arange(n_columns) if columns is None else np.asarray(columns, dtype=int)
        events = Events.of(rows)
        # Rows that have all these columns are left as they are.
        is_incomplete = has_gaps(events.rows[:, chosen])
        incomplete = np.flatnonzero(is_incomplete)
        filled = events.rows.copy()
        if not events.has_intervals:
            # Rows take means all at once; ranges need a distribution for each cell.
            filled[incomplete] = expected_cells(self.circuit, filled[incomplete], chosen)
            return filled
        open_columns = chosen[np.isnan(events.rows[:, chosen]).any(axis=0)]
        # Complete rows stay, emptied: errors name a row by its number.
        incomplete_events = events.only(is_incomplete[:, np.newaxis])
        predictives = self.posteriors(incomplete_events, open_columns)
        for column, predictive in zip(open_columns.tolist(), predictives):
            filled[incomplete, column] = predictive.centres()[incomplete]
        return filled

    def modes(self, rows: Floats) -> Floats:
        """See :class:`Density`."""
        # Values of the columns, as modes may lie between the states of a column.
        return self.domain.snap_to_values(queries.mpe(self.circuit, rows), rows)

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """See :class:`Density`."""
        drawn = queries.sample(self.circuit, n_rows, random_state, given)
        # All rows fulfil the same event.
        known = None if given is None else np.tile(given.rows, (n_rows, 1))
        return self.domain.snap_to_values(drawn, known)

    def draw_missing(self, rows: Any, random_state: np.random.RandomState) -> Floats:
        """See :class:`Density`."""
        drawn = queries.sample_missing(self.circuit, rows, random_state)
        return self.domain.snap_to_values(drawn, Events.of(rows).rows)
