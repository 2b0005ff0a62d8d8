"""Exact rules between columns, as a transformation of encoded rows.

Each rule is a tie of one column, its target, to others, its sources. The target is their sum,
perhaps with a gap that is not negative (an order), or some states of the one source fix its value.
Learners do not see a target that its sources determine, and see the gap in place of the greater of
two columns in order. The base measure stays: the Jacobian is one.

A row whose cells do not tell all addends of a sum, or the state that has fixed a value, stands for
several alternatives: its density is their sum, by quadrature where an addend is continuous.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Bools, Floats, Ints
from skpc._validation import describe_column
from skpc.domain._domain import Domain
from skpc.domain._numbers import fit_axes
from skpc.domain._ties import Tie, ordered_ties, read_rule
from skpc.variables import Axis, Number
from skpc.variables.lattice import on_lattice

#: Scores at the ends of parts; nodes of a part, and of one where two more addends are unknown.
_SCORES = np.linspace(-12.0, 12.0, 97)
_NODES = [np.polynomial.legendre.leggauss(n) for n in (4, 3)]
#: Lengths of tails, in scales of their decay.
_TAILS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
#: Lattices of more points are as lines.
_MOST_POINTS = 2_000


class Alternatives(NamedTuple):
    """What rows with missing cells may be.

    Attributes
    ----------
    rows : ndarray of shape (n, n_features)
    owner : ndarray of shape (n,)
        The number of the row that each of them stands for, increasing.
    log_weight : ndarray of shape (n,)
        Log widths of quadrature.
    """

    rows: Floats
    owner: Ints
    log_weight: Floats

    def take(self, index: Any) -> Alternatives:
        """Some of the alternatives."""
        return Alternatives(*(part[index] for part in self))


@dataclass(frozen=True, eq=False)
class ColumnRules:
    """Rules between the columns of a table, and what learners see of these.

    Attributes
    ----------
    domain : Domain
        What the columns are.
    learned : Domain
        What learners see: a column of one state for a target that the others determine, gaps for
        the greater columns of orders.
    ties : tuple of Tie
        Each of them after those of its sources.
    """

    domain: Domain
    learned: Domain
    ties: tuple[Tie, ...]

    @classmethod
    def fit(
        cls, rules: Any, domain: Domain, rows: Floats, weight: Floats, n_bins: int | None
    ) -> ColumnRules:
        """Read rules, and check them with the encoded rows of a table.

        ``n_bins`` is the largest number of bins of a column, or None.

        Raises
        ------
        ValueError
            If a rule is not one, or names unknown columns or columns that it cannot be about; if
            rules have a cycle, or two of them determine one column; if a row breaks a rule.
        """
        if domain.numbers is None and not domain.is_categorical.all():
            raise ValueError("rules need margins='auto'; with 'plain' numbers have no lattices.")
        ties = ordered_ties([read_rule(rule, domain, rows) for rule in rules], domain)
        sums = [tie.target for tie in ties if not (tie.is_map or tie.has_gap)]
        # A sum may have values that it did not have in fit.
        numbers = [
            n._replace(atoms=n.atoms[:0], seen=n.seen[:0], unseen=0.0) if n and v in sums else n
            for v, n in enumerate(domain.numbers or ())
        ]
        domain = replace(domain, numbers=tuple(numbers) or None)
        ruled = cls(domain, domain, ties)
        filled, broken = ruled.propagated(rows)
        for row in np.flatnonzero(broken >= 0)[:1]:
            tie = ties[broken[row]]
            columns = [*tie.sources, tie.target]
            cells = domain.decode(filled[[row]])
            cells = np.asarray(cells, dtype=object)[0, columns].tolist()
            where = ", ".join(describe_column(column, domain.feature_names) for column in columns)
            raise ValueError(
                f"rules must hold in all rows of fit, but {int((broken >= 0).sum())} break one; "
                f"the first breaks {tie.rule!r} by {cells} in {where}. Correct such rows, or leave "
                "the rule out."
            )
        learned = _numbers_of_gaps(domain, ties, filled, weight)
        reduced, _ = replace(ruled, learned=learned).reduced(filled)
        is_number = ~learned.is_categorical
        axes = fit_axes(reduced, weight, is_number, learned.numbers, n_bins)
        return replace(ruled, learned=replace(learned, axes=axes))

    @cached_property
    def tied(self) -> list[int]:
        """The columns of all rules, those that others determine last."""
        targets = [tie.target for tie in self.ties]
        sources = {column for tie in self.ties for column in tie.sources}
        return [*sorted(sources - {*targets}), *targets]

    @cached_property
    def _tie_of(self) -> dict[int, Tie]:
        return {tie.target: tie for tie in self.ties}

    def propagated(self, rows: Floats) -> tuple[Floats, Ints]:
        """Rows with the cells that rules tell, and the rule that each row breaks, or -1."""
        rows, broken = rows.copy(), np.full(len(rows), -1)
        for _ in self.ties:
            for tie in self.ties:
                if tie.has_gap:
                    continue
                self._fill(rows, tie.target, tie.fixed(rows))
                for source in tie.sources if not tie.is_map else ():
                    others = [column for column in tie.sources if column != source]
                    others_sum = rows[:, others].sum(axis=1) + tie.offset
                    self._fill(rows, source, rows[:, tie.target] - others_sum)
        for number, tie in enumerate(self.ties):
            broken[tie.broken(rows)] = number
        return rows, broken

    def _fill(self, rows: Floats, column: int, values: Floats) -> None:
        """Fill the missing cells of a column; errors of rounding are no distance on a lattice."""
        number, reach = self.domain.number_of(column), self._reach(column)
        is_missing = np.isnan(rows[:, column]) & ~np.isnan(values)
        values = values[is_missing]
        if number is not None:
            snapped = number.values(values)
            values = np.where(np.abs(snapped - values) <= reach, snapped, values)
        rows[is_missing, column] = values

    def _reach(self, column: int) -> float:
        return max(tie.reach for tie in self.ties if column in (tie.target, *tie.sources))

    def reduced(self, rows: Floats) -> tuple[Floats, Floats]:
        """Rows as learners see them, and what gaps that they do not know add to log densities."""
        reduced, added = rows.copy(), np.zeros(len(rows))
        for tie in self.ties:
            column, fixed = tie.target, tie.fixed(rows)
            if tie.is_total:
                reduced[:, column] = 0.0
            elif tie.is_map:
                # The value says nothing but the state that has fixed it.
                reduced[~np.isnan(fixed), column] = np.nan
            else:
                gap = np.maximum(rows[:, column] - fixed, 0.0)
                number: Any = self.learned.number_of(column)
                snapped = number.values(gap)
                gap = np.where(np.abs(snapped - gap) <= tie.reach, snapped, gap)
                if number.is_ordered:
                    is_new = ~np.isnan(gap) & ~number.is_atom(gap)
                    added += np.where(np.isnan(gap), 0.0, np.log1p(-number.unseen))
                    added[is_new] += number.log_unseen(gap[is_new]) - np.log1p(-number.unseen)
                    gap[is_new] = np.nan
                reduced[:, column] = gap
        return reduced, added

    def seen_rows(self, rows: Floats) -> Floats:
        """Rows of a table as learners see them."""
        return self.reduced(self.propagated(rows)[0])[0]

    def restored(self, reduced: Floats, rows: Floats) -> Floats:
        """Rows with the cells that they lack, from complete ones as learners see them."""
        rows = np.where(np.isnan(rows), np.nan, rows)
        for column in [c for c in range(rows.shape[1]) if c not in self._tie_of]:
            self._take(rows, column, reduced[:, column])
        for tie in self.ties:
            fixed = tie.fixed(rows)
            if tie.has_gap:
                gap = reduced[:, tie.target]
                number: Any = self.learned.number_of(tie.target)
                above = self._above(tie, fixed, fixed + gap)
                # Values of the column that rows have would move a gap off its atom, such as none.
                fixed = np.where(number.is_atom(gap), fixed + gap, above)
            self._fill(rows, tie.target, fixed)
            self._take(rows, tie.target, reduced[:, tie.target])
        return rows

    def gap_atoms(self, rows: Floats) -> Bools:
        """Which gaps of orders, a column each, are atoms in complete rows."""
        ties = [tie for tie in self.ties if tie.has_gap]
        numbers: list[Any] = [self.learned.number_of(tie.target) for tie in ties]
        gaps = [np.maximum(rows[:, tie.target] - tie.fixed(rows), 0.0) for tie in ties]
        atoms = [number.is_atom(gap) for number, gap in zip(numbers, gaps)]
        return np.array(atoms, dtype=bool).reshape(len(ties), len(rows)).T

    def _take(self, rows: Floats, column: int, values: Floats) -> None:
        is_missing = np.isnan(rows[:, column])
        rows[is_missing, column] = values[is_missing]

    def _above(self, tie: Tie, least: Floats, values: Floats) -> Floats:
        """Values of a column, in the range of its draws, that are not below the least ones."""
        number: Any = self.domain.number_of(tie.target)
        ends = number.values(np.array([number.low, number.high]))
        snapped = number.values(np.clip(values, *ends))
        if len(number.seen):
            place = np.minimum(np.searchsorted(number.seen, least), len(number.seen) - 1)
            higher = number.seen[place]
        else:
            higher = np.maximum(snapped + number.step, least)
        return np.where(snapped >= least, snapped, np.maximum(higher, least))

    def completed(self, rows: Floats, guesses: Floats) -> Floats:
        """Rows whose missing cells are guesses as far as the rules leave a choice."""
        rows = np.where(np.isin(np.arange(rows.shape[1]), self.tied), rows, guesses)
        for column in self.tied:
            rows, _ = self.propagated(rows)
            values, tie = guesses[:, column], self._tie_of.get(column)
            number = self.domain.number_of(column)
            if tie is not None and tie.has_gap:
                values = self._above(tie, tie.fixed(rows), values)
            elif number is not None and (number.step > 0.0 or number.is_ordered):
                values = number.values(values)
            self._take(rows, column, values)
        return rows

    def addends(self, rows: Floats, column: int) -> tuple[list[int], Floats]:
        """The unknown addends of a column as learners see them, and the sum of the known ones.

        All rows must lack the same cells.
        """
        tie = self._tie_of.get(column)
        if not np.isnan(rows[:1, column]).any():
            return [], rows[:, column]
        if tie is None or tie.is_map:
            return [column], np.zeros(len(rows))
        return self._parts(rows, tie)

    def _parts(self, rows: Floats, tie: Tie) -> tuple[list[int], Floats]:
        parts = [self.addends(rows, source) for source in tie.sources]
        unknown = [column for columns, _ in parts for column in columns]
        return unknown + [tie.target] * tie.has_gap, np.sum([s for _, s in parts], 0) + tie.offset

    def expanded(self, rows: Floats, wanted: Collection[int] = ()) -> Alternatives:
        """The alternatives of rows, so that what ``wanted`` columns are depends on one cell."""
        owner, done = np.arange(len(rows)), list[Alternatives]()
        rows, broken = self.propagated(rows)
        possible = Alternatives(rows, owner, np.zeros(len(rows))).take(broken < 0)
        # Rows that lack the same cells have the same alternatives to look at.
        queue = [(possible, True)]
        while queue:
            some, is_mixed = queue.pop()
            if is_mixed:
                queue += [(some.take(alike), False) for alike in self._alike(some.rows)]
                continue
            assigned = self._assigned(some, wanted)
            if assigned is None:
                done.append(some)
            else:
                filled, broken = self.propagated(assigned.rows)
                possible = assigned._replace(rows=filled).take(broken < 0)
                queue += [(possible, True)] * bool(len(possible.rows))
        # Rows that are impossible stand for themselves.
        is_lost = ~np.isin(owner, np.concatenate([some.owner for some in done] or [owner[:0]]))
        done.append(Alternatives(rows, owner, np.full(len(rows), -np.inf)).take(is_lost))
        whole = Alternatives(*map(np.concatenate, zip(*done)))
        return whole.take(np.argsort(whole.owner, kind="stable"))

    def carriers(self, rows: Floats, column: int) -> tuple[Ints, Floats]:
        """The column as learners see it that carries the value of a column, and what is added.

        -1 where the value is known. Of rows that :meth:`expanded` has made for this column.
        """
        carrier, shift = np.empty(len(rows), dtype=np.int64), np.zeros(len(rows))
        for some in self._alike(rows):
            if column not in self.tied:
                is_known = ~np.isnan(rows[some, column])
                carrier[some] = np.where(is_known, -1, column)
                shift[some] = np.where(is_known, rows[some, column], 0.0)
                continue
            unknown, shift[some] = self.addends(rows[some], column)
            carrier[some] = unknown[0] if unknown else -1
        return carrier, shift

    def _alike(self, rows: Floats) -> Iterator[Ints]:
        """The numbers of rows that lack the same cells."""
        missing, rest = np.isnan(rows[:, self.tied]), np.arange(len(rows))
        while len(rest):
            same = (missing[rest] == missing[rest[0]]).all(axis=1)
            yield rest[same]
            rest = rest[~same]

    def _assigned(self, some: Alternatives, wanted: Collection[int]) -> Alternatives | None:
        """Alternatives that know one more cell; None if none is needed."""
        for tie in reversed(self.ties):
            is_known = not np.isnan(some.rows[:1, tie.target]).any()
            if not is_known and tie.target not in wanted:
                continue
            if tie.is_map:
                if np.isnan(some.rows[:1, tie.sources[0]]).any():
                    return self._with_keys(some, tie)
                continue
            unknown, known = self._parts(some.rows, tie)
            if len(unknown) > 1:
                return self._with_addend(some, unknown, some.rows[:, tie.target] - known)
        return None

    def _with_keys(self, some: Alternatives, tie: Tie) -> Alternatives:
        target = some.rows[:, [tie.target]]
        fits = np.isnan(target) | np.isnan(tie.values) | (np.abs(tie.values - target) <= tie.reach)
        at, key = np.nonzero(fits)
        more = some.take(at)
        more.rows[:, tie.sources[0]] = tie.keys[key]
        return more

    def _with_addend(self, some: Alternatives, unknown: list[int], total: Floats) -> Alternatives:
        """The values of the first of unknown addends of a sum, which may be known."""
        column, *rest = unknown
        tie = self._tie_of.get(column)
        if tie is not None and tie.is_map and np.isnan(some.rows[:1, tie.sources[0]]).any():
            return self._with_keys(some, tie)
        addend, others = self._addends[column], [self._addends[other] for other in rest]
        nodes = [_nodes(addend, others, one) for one in total.tolist()]
        more = some.take(np.repeat(np.arange(len(nodes)), [len(v) for v, _ in nodes]))
        values, log_weight = (np.concatenate(part) for part in zip(*nodes))
        base = tie.fixed(more.rows) if tie is not None and tie.has_gap else 0.0
        more.rows[:, column] = base + values
        return more._replace(log_weight=more.log_weight + log_weight)

    @cached_property
    def _addends(self) -> dict[int, _Addend]:
        axes = self.learned.axes or (None,) * self.learned.n_features
        return {
            column: _Addend.fit(number, axes[column])
            for column, number in enumerate(self.learned.numbers or ())
            if number is not None and column in self.tied
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnRules, (self.domain, self.learned, self.ties)


def _numbers_of_gaps(domain: Domain, ties: Sequence[Tie], rows: Floats, weight: Floats) -> Domain:
    """The domain of rows as learners see them, but for bins."""
    categories, numbers = [*domain.categories], [*(domain.numbers or ())]
    for tie in ties:
        gap = np.maximum(rows[:, tie.target] - tie.fixed(rows), 0.0)
        if tie.is_total:
            categories[tie.target] = np.array([None], dtype=object)
            numbers[tie.target : tie.target + 1] = [None] * bool(numbers)
        elif tie.has_gap and np.isnan(gap).all():
            raise ValueError(f"rules must be about observed cells; no row of fit has all of {tie}.")
        elif tie.has_gap:
            numbers[tie.target] = Number.fit(gap, weight, bounds=(0.0, np.inf))
    return replace(domain, categories=tuple(categories), numbers=tuple(numbers) or None, axes=None)


class _Addend(NamedTuple):
    """Where the values of a column lie.

    Attributes
    ----------
    points : ndarray
        The values of a column on a lattice, or of ordered states; else its atoms.
    edges : ndarray
        Ends of parts on which its density is smooth; empty where it has points alone.
    log_mass : float
        What turns the density of a point into a log probability.
    low, high : float
        No value is beyond.
    reach : float
        Distance from a point within which a value is the point.
    """

    points: Floats
    edges: Floats
    log_mass: float
    low: float
    high: float
    reach: float

    @classmethod
    def fit(cls, number: Number, axis: Axis | None) -> _Addend:
        """Read what a column is, and its bins."""
        step, atoms, (lower, upper) = number.step, number.atoms, number.ends
        log_mass = float(np.log(step)) if step > 0.0 else 0.0
        edges = [number.scored_column(0.0).inverse(_SCORES), np.array([number.low, number.high])]
        if axis is not None:
            first, last = axis.edges[0], axis.edges[-1]
            tails = [first - axis.lower_scale * _TAILS, last + axis.upper_scale * _TAILS]
            edges += [axis.edges, *tails]
        every: Floats = np.unique(np.clip(np.concatenate(edges), lower, upper))
        low, high = float(every[0]), float(every[-1])
        if number.is_ordered:
            return cls(atoms, every[:0], log_mass, atoms[0], atoms[-1], number.reach)
        if step > 0.0 and high - low < _MOST_POINTS * step:
            points = on_lattice(np.arange(low, high + step, step), step, number.origin)
            points = points[(points >= lower) & (points <= upper)]
            return cls(points, every[:0], log_mass, points[0], points[-1], number.reach)
        return cls(atoms, every, log_mass, low, high, number.reach)


def _nodes(addend: _Addend, others: Sequence[_Addend], total: float) -> tuple[Floats, Floats]:
    """Values of one addend of a sum, and the logs of what they weigh.

    Parameters
    ----------
    addend : _Addend
    others : sequence of Addend
        The other unknown ones.
    total : float
        What they add up to; NaN if that is not known, either.

    Returns
    -------
    values, log_weight : ndarrays of shape (n_nodes,)
    """
    low, high, edges = addend.low, addend.high, [addend.edges]
    rest, mass = _points_of(others), sum(other.log_mass for other in others)
    reach = max(one.reach for one in (addend, *others))
    points, log_weight = addend.points, addend.log_mass
    if not np.isnan(total):
        low = max(low, total - sum(other.high for other in others))
        high = min(high, total - sum(other.low for other in others))
        if len(addend.edges):
            edges += [total - other.edges for other in others if len(others) == 1]
            meets = np.abs(points[:, np.newaxis] - (total - rest)).min(axis=1, initial=np.inf)
            if (meets <= reach).any():
                # A point of the sum: nothing else counts.
                points = points[meets <= reach]
                return points, np.full(len(points), mass + log_weight)
            if not any(len(other.edges) for other in others):
                edges, points, log_weight = [], total - rest, mass
            else:
                points = np.concatenate([points, total - rest])
    points = points[(points >= low) & (points <= high)]
    if not edges or not len(addend.edges) or not low < high:
        return points, np.full(len(points), log_weight)
    # A point on a lattice is a cell, in which there is nothing else.
    edges += [points - reach, points + reach, np.array([low, high])]
    ends = np.unique(np.clip(np.concatenate(edges), low, high))
    nodes, weight = _NODES[len(others) > 1]
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    is_free = np.abs(middle[:, np.newaxis] - points).min(axis=1, initial=np.inf) > reach
    half, middle = half[is_free], middle[is_free]
    values = (middle[:, np.newaxis] + half[:, np.newaxis] * nodes).ravel()
    log_width = np.log(half[:, np.newaxis] * weight).ravel()
    return (
        np.concatenate([points, values]),
        np.concatenate([np.full(len(points), log_weight), log_width]),
    )


def _points_of(others: Sequence[_Addend]) -> Floats:
    """Sums of the points of all others."""
    if not others:
        return np.empty(0)
    return np.unique([sum(one) for one in product(*(other.points.tolist() for other in others))])
