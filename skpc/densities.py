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
        The distribution. Every answer is exact; :meth:`modes` is a good guess where the circuit is
        not deterministic.
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
        stated = {*events.column.tolist()}
        # Columns of a block depend on each other within one leaf.
        beside = {v for block in self._blocks for v in block if {*block} & stated}
        # All columns without ranges near them take one pass.
        apart = [v for v in chosen if v not in stated | beside]
        cells = dict(zip(apart, queries.posteriors(self.circuit, events, apart)))
        cells |= {v: self._given_events(events, v) for v in chosen if v not in cells}
        return [
            Predictive(
                cells[v].terms, cells[v].known, self.domain[v].states, law=self.domain[v].law
            )
            for v in chosen
        ]

    @property
    def _blocks(self) -> list[list[int]]:
        """The variables of each scope of several."""
        return [block.variables.tolist() for block in self.circuit.multivariate]

    def _given_events(self, events: Events, column: int) -> Predictive:
        """The distribution of a column with ranges, or in a block with such a column.

        Its own range cuts what all else says of it. Ranges of other columns of a block have no
        closed form there: it is the mixture of some draws of these cells within their ranges. The
        draws do not know the range of the column, which counts once, when it cuts.
        """
        # Draws that stand for ranges of other columns of a block.
        draws = 16
        # The question splits into the ranges of the column itself and all others.
        places = np.arange(self.domain.n_features)
        column_events = events.only(places == column)
        elsewhere = events.only(places != column)
        stated = {*elsewhere.column.tolist()}
        beside = [v for block in self._blocks if column in block for v in block if v in stated]
        # Without ranges in the block, one answer is exact.
        given = [elsewhere]
        if beside:
            # Drawn cells take the place of ranges in the block; ranges outside stay as they are.
            is_drawn = np.isin(places, beside)
            outside = elsewhere.only(~is_drawn)
            given = []
            for seed in range(draws):
                drawn = queries.sample_missing(self.circuit, elsewhere, seed)
                # Only cells with ranges are taken from the draws: the others stay open.
                rows = np.where(is_drawn & elsewhere.are_stated(), drawn, elsewhere.rows)
                given.append(outside.with_cells(rows))
        answers = [queries.posteriors(self.circuit, known, [column])[0] for known in given]
        # No draw is more probable than another, so that their answers are mixed evenly.
        terms = Predictive.mixture(answers, np.full(len(given), 1.0 / len(given))).terms
        what = self.domain[column]
        cells = Predictive(terms, column_events.rows[:, column], what.states, law=what.law)
        # A column without ranges is answered by what the others say.
        if not column_events.has_intervals:
            return cells
        return cells.within(*column_events.padded())

    def means(self, rows: Any, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`Density`."""
        n_columns = self.domain.n_features
        chosen = np.arange(n_columns) if columns is None else np.asarray(columns, dtype=int)
        events = Events.of(rows)
        # Only rows that lack one of the columns need a pass.
        is_incomplete = has_gaps(events.rows[:, chosen])
        incomplete = np.flatnonzero(is_incomplete)
        filled = events.rows.copy()
        if not events.has_intervals:
            # Rows take means all at once; ranges need a distribution for each cell.
            filled[incomplete] = expected_cells(self.circuit, filled[incomplete], chosen)
            return filled
        open_columns = chosen[np.isnan(events.rows[:, chosen]).any(axis=0)]
        # The other rows say nothing, and keep their places: errors name a row by its place.
        asked = events.only(is_incomplete[:, np.newaxis])
        for column, cells in zip(open_columns.tolist(), self.posteriors(asked, open_columns)):
            filled[incomplete, column] = cells.centres()[incomplete]
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
