"""What every density answers about encoded rows: how a circuit does, and how rules change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

import skpc.queries as queries
from skpc._arrays import Bools, Floats, Ints, group_sums
from skpc._warnings import warn
from skpc.circuit import Circuit
from skpc.domain import ColumnRules, Domain
from skpc.queries import Events
from skpc.queries.passes.upward import refuse_impossible
from skpc.queries.posteriors import expected_cells
from skpc.variables import Points, Predictive
from skpc.variables.predictive import Grouped

#: Rows with missing cells under a rule whose alternatives are held at a time.
_ROWS = 16
#: Alternatives of a row that weigh less than this part of the heaviest one say nothing of a cell.
_NOTHING = 1e-13


class Density(Protocol):
    """A distribution of encoded rows, as a composing estimator asks it.

    Rows have shape (n_rows, n_features), with NaN where a cell is missing; missing cells are
    integrated out. Log densities are in nats. The methods that fill missing cells return rows of
    the same shape, and keep the observed cells. A class needs no import to be a density.

    In place of rows, :meth:`log_density` (without columns that are given) and :meth:`posteriors`
    (of columns without intervals) take :class:`~skpc.queries.Events`: ranges and sets beside cells.
    :meth:`log_density` (without columns that are given) and :meth:`log_cells` of circuits, and of
    their mixtures, take :class:`~skpc.queries.NoisyCells`: rows whose cells may be wrong.
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

    def means(self, rows: Floats, columns: Sequence[int] | None = None) -> Floats:
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

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
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

    def log_margins(self, rows: Floats) -> Floats:
        """Log density of each cell by itself; NaN where it is missing."""
        return queries.log_margins(self.circuit, rows)

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """See :class:`Density`."""
        labels, number_of = self.domain.categories, self.domain.number_of
        chosen = range(self.domain.n_features) if columns is None else columns
        return [
            Predictive(cells.terms, cells.known, labels[column], number=number_of(column))
            for column, cells in zip(chosen, queries.posteriors(self.circuit, rows, chosen))
        ]

    def means(self, rows: Floats, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`Density`."""
        chosen = np.arange(rows.shape[1]) if columns is None else np.asarray(columns, dtype=int)
        incomplete = np.flatnonzero(np.isnan(rows[:, chosen]).any(axis=1))
        filled = rows.copy()
        filled[incomplete] = expected_cells(self.circuit, rows[incomplete], chosen)
        return filled

    def modes(self, rows: Floats) -> Floats:
        """See :class:`Density`."""
        return self.domain.values(queries.mpe(self.circuit, rows), rows)

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """See :class:`Density`."""
        drawn = queries.sample(self.circuit, n_rows, random_state, given)
        known = None if given is None else np.tile(given.rows, (n_rows, 1))
        return self.domain.values(drawn, known)

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`Density`."""
        return self.domain.values(queries.sample_missing(self.circuit, rows, random_state), rows)


class _Weighed(NamedTuple):
    """The alternatives of rows.

    Attributes
    ----------
    rows : ndarray of shape (n, n_features)
        As the table has them.
    reduced : ndarray or Events
        The same as the learner sees them, with ranges and sets where these are given.
    owner : ndarray of shape (n,)
        The row that each one stands for; all rows have some.
    joint : ndarray of shape (n,)
        Their log densities (nats).
    """

    rows: Floats
    reduced: Any
    owner: Ints
    joint: Floats

    def take(self, index: Any) -> _Weighed:
        """Some of the alternatives, by their numbers."""
        rows, reduced, owner, joint = self
        return _Weighed(rows[index], _taken(reduced, index), owner[index], joint[index])

    def total(self) -> Floats:
        """Log density of each row."""
        part, highest = self._parts()
        return np.where(
            np.isneginf(highest), -np.inf, highest + np.log(group_sums(self.owner, part))
        )

    def likely(self) -> tuple[_Weighed, Floats]:
        """Those that count, and their posterior weights; they are alike if a row is impossible."""
        part = self._parts()[0]
        some = np.flatnonzero(part > _NOTHING)
        part = part[some] / group_sums(self.owner, part)[self.owner[some]]
        return self.take(some), part

    def best(self, value: Floats) -> Ints:
        """The alternative of each row with the greatest value."""
        order = np.lexsort((value, self.owner))
        return order[np.flatnonzero(np.append(np.diff(self.owner[order]), 1))]

    def _parts(self) -> tuple[Floats, Floats]:
        """Densities as parts of the highest one of each row, and the logs of these."""
        highest = np.full(self.owner.max(initial=-1) + 1, -np.inf)
        np.maximum.at(highest, self.owner, self.joint)
        finite = np.where(np.isneginf(highest), 0.0, highest)[self.owner]
        is_lost = np.isneginf(highest)[self.owner]
        return np.where(is_lost, 1.0, np.exp(self.joint - finite)), highest


class RuledDensity(NamedTuple):
    """The density of rows whose columns obey rules; see :class:`skpc.densities.Density`.

    Parameters
    ----------
    learned : Density
        That of the rows as its learner sees them.
    rules : ColumnRules
        What holds between the columns.
    """

    learned: Density
    rules: ColumnRules

    @property
    def domain(self) -> Domain:
        """See :class:`skpc.densities.Density`."""
        return self.rules.domain

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        log_density = self._weighed(rows).total()
        if given is None:
            return log_density
        known = np.full_like(rows, np.nan)
        known[:, given] = rows[:, given]
        log_known = self.log_density(known)
        refuse_impossible(log_known, np.arange(len(rows)))
        return log_density - log_known

    def log_cells(self, rows: Any) -> Floats:
        """See :class:`skpc.densities.Density`. In a row that breaks a rule, its cells have -inf."""
        log_density, log_cells = self.log_density(rows), np.full(rows.shape, np.nan)
        _, broken = self.rules.propagated(rows)
        for column in range(rows.shape[1]):
            some = np.flatnonzero(~np.isnan(rows[:, column]) & (broken < 0))
            without = rows[some].copy()
            without[:, column] = np.nan
            log_cells[some, column] = log_density[some] - self.log_density(without)
        lost = np.flatnonzero(broken >= 0)
        log_cells[lost] = self.learned.log_cells(self.rules.reduced(rows[lost])[0])
        for row, number in zip(lost, broken[lost]):
            tie = self.rules.ties[number]
            log_cells[row, [tie.target, *tie.sources]] = -np.inf
        return np.where(np.isnan(rows), np.nan, log_cells)

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`."""
        chosen = range(_cells(rows).shape[1]) if columns is None else columns
        return [self._posterior(rows, int(column)) for column in chosen]

    def means(self, rows: Floats, columns: Any = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        weighed = self._weighed(rows)
        is_one = np.bincount(weighed.owner, minlength=len(rows)) == 1
        alone, guesses = weighed.take(np.flatnonzero(is_one[weighed.owner])), rows.copy()
        guesses[is_one] = self.rules.restored(self.learned.means(alone.reduced), alone.rows)
        many = np.flatnonzero(~is_one)
        for column in np.flatnonzero(np.isnan(rows[many]).any(axis=0)).tolist():
            cells = self._posterior(rows[many], column)
            is_category = self.domain.is_categorical[column]
            probable = np.asarray(cells.probabilities).argmax(axis=1) if is_category else None
            guesses[many, column] = cells.mean() if probable is None else probable
        filled = self.rules.completed(rows, guesses)
        # The state next to a mean may be one that a rule excludes.
        lost = np.flatnonzero(self.rules.propagated(filled)[1] >= 0)
        filled[lost] = self._likeliest(rows[lost]) if len(lost) else filled[lost]
        return self._kept(rows, filled)

    def modes(self, rows: Floats) -> Floats:
        """The likeliest of the modes of the alternatives; see :class:`skpc.densities.Density`."""
        return self._kept(rows, self._likeliest(rows))

    def _likeliest(self, rows: Floats) -> Floats:
        """Rows filled by the likeliest of the modes of their alternatives."""
        weighed, _ = self._weighed(rows).likely()
        modes = self.learned.modes(weighed.reduced)
        best = weighed.best(self.learned.log_density(modes))
        return self.rules.restored(modes[best], weighed.rows[best])

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """See :class:`skpc.densities.Density`."""
        nothing = np.full((n_rows, self.domain.n_features), np.nan)
        if given is None:
            return self.rules.restored(self.learned.draw(n_rows, random_state), nothing)
        weighed = self._weighed(given)
        refuse_impossible(weighed.total(), np.arange(1))
        weighed, weight = weighed.likely()
        source = np.sort(random_state.choice(len(weight), n_rows, p=weight))
        drawn, known = nothing.copy(), weighed.rows[source]
        for one, first, size in zip(*np.unique(source, return_index=True, return_counts=True)):
            event = weighed.reduced.take(np.array([one]))
            drawn[first : first + size] = self.learned.draw(int(size), random_state, event)
        drawn = self._snapped(nothing, self.rules.restored(drawn, known))
        return random_state.permutation(drawn)

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`skpc.densities.Density`."""
        weighed, weight = self._weighed(rows).likely()
        chosen = weighed.take(weighed.best(np.log(weight) + random_state.gumbel(size=len(weight))))
        drawn = self.learned.draw_missing(chosen.reduced, random_state)
        drawn = self._snapped(rows, self.rules.restored(drawn, chosen.rows))
        return self._kept(rows, drawn)

    def _snapped(self, rows: Floats, drawn: Floats) -> Floats:
        """Draws that are values of their columns, also where a quadrature was drawn from.

        Seen values where rules and atoms of gaps stay as they are, else values on the lattice.
        """
        kept, atoms = drawn, self.rules.gap_atoms(drawn)
        moved = self.domain.values(drawn.copy(), rows)
        fits = (self.rules.gap_atoms(moved) == atoms).all(axis=1)
        fits &= self.rules.propagated(moved)[1] < 0
        return np.where(fits[:, np.newaxis], moved, kept)

    def _weighed(self, rows: Any, wanted: tuple[int, ...] = ()) -> _Weighed:
        """The alternatives of rows or events, and their log densities."""
        is_open = np.isnan(_cells(rows)[:, self.rules.tied]).any(axis=1)
        some = np.flatnonzero(is_open)
        chunks = [some[start : start + _ROWS] for start in range(0, len(some), _ROWS)]
        chunks.append(np.flatnonzero(~is_open))
        parts = []
        for chunk in chunks:
            part, _ = self._weighed_part(_taken(rows, chunk), wanted).likely()
            parts.append(part._replace(owner=chunk[part.owner]))
        cells, reduced, owner, joint = zip(*parts)
        whole = Events.stacked(reduced) if isinstance(rows, Events) else np.concatenate(reduced)
        weighed = _Weighed(np.concatenate(cells), whole, *map(np.concatenate, (owner, joint)))
        return weighed.take(np.argsort(weighed.owner, kind="stable"))

    def _weighed_part(self, rows: Any, wanted: tuple[int, ...]) -> _Weighed:
        cells, events = _cells(rows), rows if isinstance(rows, Events) else None
        if events is not None:
            wanted = (*wanted, *np.intersect1d(events.column, self.rules.tied).tolist())
        more = self.rules.expanded(cells, wanted)
        reduced, joint = self.rules.reduced(more.rows)
        joint = joint + more.log_weight
        if events is None:
            joint = joint + self.learned.log_density(reduced)
            return _Weighed(more.rows, reduced, more.owner, joint)
        of_reduced, holds = self._events(more.rows, reduced, events.take(more.owner))
        joint = np.where(holds, joint + self.learned.log_density(of_reduced), -np.inf)
        return _Weighed(more.rows, of_reduced, more.owner, joint)

    def _events(self, rows: Floats, reduced: Floats, events: Events) -> tuple[Events, Bools]:
        """Events as the learner sees them, and whether what is known fulfils its statements."""
        event, column = events.event, events.column
        carrier, shift = column.copy(), np.zeros(len(column))
        for one in np.intersect1d(column, self.rules.tied).tolist():
            at = column == one
            carriers, shifts = self.rules.carriers(rows, one)
            carrier[at], shift[at] = carriers[event[at]], shifts[event[at]]
        is_known = carrier < 0
        fulfils = (events.low < shift) & (shift <= events.high)
        holds = np.ones(rows.shape, dtype=bool)
        holds[event[is_known], column[is_known]] = False
        holds[event[is_known & fulfils], column[is_known & fulfils]] = True
        low, high = events.low - shift, events.high - shift
        # Statements about several columns may be about one of those that the learner sees.
        whole = Events.from_intervals(reduced, event[:0], column[:0], low[:0], high[:0])
        for one in np.unique(column[~is_known]).tolist():
            at = (column == one) & ~is_known
            nothing, of_one = np.full_like(reduced, np.nan), (event[at], carrier[at])
            said = Events.from_intervals(nothing, *of_one, low[at], high[at])
            whole = whole.joined(said)
        return whole, np.asarray(holds.all(axis=1))

    def _posterior(self, rows: Any, column: int) -> Predictive:
        """The distribution of one column."""
        cells, domain = _cells(rows), self.domain
        weighed, weight = self._weighed(rows, (column,)).likely()
        carrier, shift = self.rules.carriers(weighed.rows, column)
        labels, n_rows = domain.categories[column], len(cells)
        is_plain = len(weight) == n_rows and (carrier == column).all() and not shift.any()
        if is_plain or column not in self.rules.tied and len(weight) == n_rows:
            (same,) = self.learned.posteriors(weighed.reduced, [column])
            terms: Any = same.terms
        elif labels is not None:
            prob, is_known = np.zeros((len(weight), len(labels))), carrier < 0
            prob[is_known, shift[is_known].astype(np.intp)] = 1.0
            if not is_known.all():
                some = weighed.take(np.flatnonzero(~is_known)).reduced
                (of_some,) = self.learned.posteriors(some, [column])
                prob[~is_known] = of_some.probabilities
            summed = np.zeros((n_rows, len(labels)))
            np.add.at(summed, weighed.owner, prob * weight[:, np.newaxis])
            terms = [Points(np.arange(float(len(labels))), summed)]
        else:
            terms = []
            for one in np.unique(carrier).tolist():
                at = np.flatnonzero(carrier == one)
                forms: Any = [Points(np.zeros(1), np.ones((len(at), 1)))]
                if one >= 0:
                    forms = self.learned.posteriors(weighed.take(at).reduced, [one])[0].terms
                terms.append(Grouped(forms, weighed.owner[at], weight[at], shift[at], n_rows))
        return Predictive(terms, cells[:, column], labels, number=domain.number_of(column))

    def _kept(self, rows: Floats, filled: Floats) -> Floats:
        """Filled rows with the observed cells; warns of those that break a rule."""
        kept = np.where(np.isnan(rows), filled, rows)
        _, broken = self.rules.propagated(kept)
        for row in np.flatnonzero(broken >= 0)[:1].tolist():
            warn(
                f"{int((broken >= 0).sum())} rows break a rule, whatever their missing cells; "
                f"their cells stay as they are. The first is row {row}, which breaks "
                f"{self.rules.ties[broken[row]].rule!r}."
            )
        return kept


def _taken(rows: Any, index: Any) -> Any:
    return rows.take(index) if isinstance(rows, Events) else rows[index]


def _cells(rows: Any) -> Floats:
    return np.asarray(rows.rows if isinstance(rows, Events) else rows)
