"""What rules say of the cells of a table: which of them follow, which may not be, what is nearest.

A rule is read as a tie of a column, its target, to others, its sources. The target is at least its
source (an order), a sum of its sources with signs and a constant, or what some values of its one
source fix. Cells are numbers, codes of categories and microseconds (:class:`TableCells`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats
from skpc.synthesis.cells import TableCells

#: Sums agree to this part of the greatest number of their columns.
ROUNDING = 1e-9
_KINDS = (
    '(a, "<=", b), (a, "==", b), (total, "==", ("sum", a, b)), the same with "+", constant, '
    '(a, "determines", b) or (a, "==", value, "if", b, "==", value)'
)


class Tie(NamedTuple):
    """How a column depends on others.

    Attributes
    ----------
    rule : tuple
        The rule that says so.
    columns : tuple of int
        The target, then its sources.
    signs : tuple of float
        Those of the sources in a sum.
    constant : float
        What is added to the sum.
    reach : float
        Errors of rounding.
    values : dict or None
        The values of the source that fix one of the target; None for sums and orders.
    usual : tuple of float
        All values of the source, the most frequent one first.
    is_order : bool
        Whether the target may be greater.
    is_total : bool
        Whether its sources always tell the target.
    is_decimal : bool
        Whether the target has no digits beyond 15, so that .1 + .2 is .3.
    is_active : bool
        Whether the target is computed. Else the rule is kept by chance.
    """

    rule: tuple[Any, ...]
    columns: tuple[int, ...]
    signs: tuple[float, ...] = (1.0,)
    constant: float = 0.0
    reach: float = 0.0
    values: dict[float, float] | None = None
    usual: tuple[float, ...] = ()
    is_order: bool = False
    is_total: bool = False
    is_decimal: bool = False
    is_active: bool = False

    @property
    def target(self) -> int:
        """The column that depends on the others."""
        return self.columns[0]

    @property
    def sources(self) -> tuple[int, ...]:
        """The columns that it depends on."""
        return self.columns[1:]

    def fixed(self, rows: Floats) -> Floats:
        """The value of the target that its sources fix; NaN where they fix none."""
        # Sources (n_rows, n_sources) and one sign each.
        sources = rows[:, self.sources]
        if self.values is None:
            total = sources @ np.array(self.signs) + self.constant
            # Decimals as their column has them, so that 0.1 + 0.2 is 0.3.
            return _decimals(total) if self.is_decimal else total
        # A map has one source.
        return np.array([self.values.get(value, np.nan) for value in sources[:, 0].tolist()])

    def broken(self, rows: Floats) -> Bools:
        """Which rows break the rule; those that lack one of its cells do not."""
        # NaN, where a cell is missing, is above no bound.
        excess = self.fixed(rows) - rows[:, self.target]
        # An order is broken on one side alone.
        return (excess if self.is_order else np.abs(excess)) > self.reach

    def solved(self, place: int) -> Tie:
        """The same sum, told by another of its columns as the target."""
        if place == 0:
            return self
        # Signs are their own reciprocals.
        sign = -self.signs[place - 1]
        columns = list(self.columns)
        column = columns.pop(place)
        # Of target = sum of parts, all go to one side: the target with the sign -1.
        signs = [sign * each for each in (-1.0, *self.signs)]
        del signs[place]
        return self._replace(
            columns=(column, *columns), signs=tuple(signs), constant=sign * self.constant
        )

    def turns(self) -> list[Tie]:
        """The tie, and what a sum says of its other columns."""
        n_places = 1 if self.values is not None else len(self.columns)
        return [self.solved(place) for place in range(n_places)]

    def likeliest_source(self, rows: Floats) -> Floats:
        """The most frequent value of the source that allows the value of the target."""
        known: dict[float, float] = self.values or {}
        likeliest = {
            # A state that fixes nothing allows every value of the target.
            value: next((s for s in self.usual if known.get(s, value) == value), np.nan)
            for value in np.unique(rows[:, self.target]).tolist()
        }
        return np.array([likeliest[value] for value in rows[:, self.target].tolist()])


def read_tie(rule: Any, cells: TableCells) -> Tie:
    """The tie that a rule says, as rows of a table have it.

    Raises
    ------
    ValueError
        If it is no rule, or names columns that are not there or that it cannot be about.
    """
    # Rules that were found have support and chance beside them.
    rule = getattr(rule, "rule", rule)
    constant: Any = 0.0
    match rule:
        case (name, "==", _, "if", source, "==", _):
            kind = "if"
            names = [name, source]
        case (name, "==", ("sum", *parts), "+", Real() as constant) if isfinite(float(constant)):
            kind = "sum"
            names = [name, *parts]
        case (name, "==", ("sum", *parts)):
            kind = "sum"
            names = [name, *parts]
        case (name, ("<=" | "==" | "determines") as kind, other):
            names = [name, other]
        case _:
            raise ValueError(f"rules must be a list of tuples {_KINDS}; found {rule!r}.")
    columns = [int(cells.domain.places([name], "rules")[0]) for name in names]
    if len({*columns}) < len(columns) or len(columns) < 2:
        raise ValueError(f"rules must be about different columns; found {rule!r}.")
    are_categories = cells.is_categorical[columns]
    if kind == "if":
        state = _cell(cells, rule, 6, columns[1])
        return _map(rule, cells, columns, {state: _cell(cells, rule, 2, columns[0])})
    if kind == "determines":
        partners = _usual_partners(cells.values[:, columns])
        # The columns change places: what is determined is the target.
        return _map(rule, cells, columns[::-1], partners)
    # Equal categories may have other codes in each column.
    if kind == "==" and are_categories.all():
        # From codes of the source to those of the target, for categories that both have.
        codes, labels = (list(cells.domain[column].labels) for column in columns)
        same = {float(n): float(codes.index(x)) for n, x in enumerate(labels) if x in codes}
        return _map(rule, cells, columns, same)
    # Dates have no sums, and no order beside durations.
    units = {cells.unit(column) for column in columns}
    if are_categories.any() or len(units) > 1 or (kind == "sum" and units != {""}):
        raise ValueError(
            f"An order or a sum needs columns of numbers, or dates for an order; found {rule!r} "
            "about other columns. Convert them to numbers, or leave the rule out."
        )
    if kind == "<=":
        # An order has the greater column as its target.
        return Tie(rule, tuple(columns[::-1]), is_order=True)
    # Rounding is relative to the largest number of these columns.
    size = np.nan_to_num(np.abs(cells.values[:, columns])).max(initial=0.0)
    numbers = cells.values[:, columns[0]]
    # A column whose numbers are decimals has decimal sums, too.
    is_decimal = kind == "sum" and np.array_equal(_decimals(numbers), numbers, equal_nan=True)
    return Tie(
        rule,
        tuple(columns),
        signs=(1.0,) * (len(columns) - 1),
        constant=float(constant),
        reach=ROUNDING * size * (kind == "sum"),
        is_total=True,
        is_decimal=is_decimal,
    )


def _decimals(numbers: Floats) -> Floats:
    """Numbers to 15 digits, which decimal fractions have whatever they were computed from."""
    return np.array([float(f"{number:.15g}") for number in numbers.tolist()])


def _cell(cells: TableCells, rule: tuple[Any, ...], place: int, column: int) -> float:
    """A value in a rule, as rows have it."""
    domain = cells.domain
    row = TableCells.of_table(domain, domain.row({column: rule[place]})).values
    value = float(row[0, column])
    if not value >= 0.0 and cells.is_categorical[column]:
        raise ValueError(
            f"rules must be about values that their columns have; found {rule[place]!r} in "
            f"{rule!r}. Correct it, or leave the rule out."
        )
    return value


def _map(
    rule: tuple[Any, ...], cells: TableCells, columns: list[int], values: dict[float, float]
) -> Tie:
    """The tie of a target to a source whose values fix some of its own."""
    source = columns[1]
    states, n_rows = np.unique(cells.values[:, source], return_counts=True)
    # Most frequent first, and among equals the least value.
    usual = states[np.argsort(-n_rows, kind="stable")]
    usual = usual[~np.isnan(usual)].tolist()
    # Between numbers that are no states there may be others, which fix nothing.
    has_states = cells.is_categorical[source] or cells.domain.is_ordered[source]
    is_total = bool(has_states) and values.keys() >= {*usual}
    return Tie(rule, tuple(columns), values=values, usual=tuple(usual), is_total=is_total)


def _usual_partners(pairs: Floats) -> dict[float, float]:
    """For each value of a source the most frequent one of a target."""
    # Pairs that lack a cell say nothing.
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    pairs, n_rows = np.unique(pairs, axis=0, return_counts=True)
    # Later entries of a dict win: the most frequent partner of each source comes last.
    return dict(pairs[np.lexsort((n_rows, pairs[:, 0]))].tolist())


class Ties(NamedTuple):
    """Rules of a table, together.

    Attributes
    ----------
    every : list of Tie
        Those whose targets are computed come first, each after those of its sources.
    """

    every: list[Tie]

    @classmethod
    def read(cls, rules: Iterable[Any], cells: TableCells) -> Self:
        """Read rules; one that would close a circle, or tell a column again, is not active."""
        # Columns by what they are computed from, so that no circle closes.
        sources_of: dict[int, set[int]] = {}
        totals: set[int] = set()
        every: list[Tie] = []
        for tie in [read_tie(rule, cells) for rule in rules]:
            # A sum may determine any of its columns: the first one that is free.
            for turn in tie.turns():
                # A total rule fills its column in all rows, so that no other may write to it.
                is_told = turn.target in (sources_of if turn.is_total else totals)
                is_circle = turn.target in _above(turn.sources, sources_of)
                if not (tie.is_order or is_told or is_circle):
                    sources_of.setdefault(turn.target, set()).update(turn.sources)
                    totals |= {turn.target} if turn.is_total else set()
                    tie = turn._replace(is_active=True)
                    break
            every.append(tie)
        # Active ties in the order in which they can be computed, then the others.
        every.sort(key=lambda tie: (not tie.is_active, len(_above(tie.columns[:1], sources_of))))
        return cls(every)

    @property
    def active(self) -> list[Tie]:
        """Those whose targets are computed."""
        return [tie for tie in self.every if tie.is_active]

    @property
    def derived(self) -> list[int]:
        """The columns that others always tell."""
        return [tie.target for tie in self.active if tie.is_total]

    def broken(self, rows: Floats) -> Bools:
        """Which rows break a rule."""
        is_broken = np.zeros(len(rows), dtype=bool)
        for tie in self.every:
            is_broken |= tie.broken(rows)
        return is_broken

    def breach(self, rows: Floats) -> tuple[int, int, Tie] | None:
        """How many rows break a rule, the first of them and what it breaks; None if all keep it."""
        is_broken = self.broken(rows)
        if not is_broken.any():
            return None
        row = int(is_broken.argmax())
        # The first broken rule of this row is enough for the message.
        tie = next(tie for tie in self.every if tie.broken(rows[[row]])[0])
        return int(is_broken.sum()), row, tie

    def propagated(self, rows: Floats) -> Floats:
        """Rows with the missing cells that follow from the others."""
        rows = rows.copy()
        turns = [turn for tie in self.every if not tie.is_order for turn in tie.turns()]
        # Each turn may tell what another one needs.
        for turn in len(turns) * turns:
            missing = np.isnan(rows[:, turn.target])
            rows[missing, turn.target] = turn.fixed(rows[missing])
        return rows

    def computed(self, rows: Floats, is_free: Bools) -> Floats:
        """Rows whose free cells are what the others tell, and else as they are."""
        rows = rows.copy()
        # A source has been computed before what depends on it.
        for tie in self.active:
            value = tie.fixed(rows)
            follows = is_free[:, tie.target] & ~np.isnan(value)
            rows[follows, tie.target] = value[follows]
        return rows

    def told(self, rows: Floats) -> Bools:
        """Which cells follow from others that are known; shape of ``rows``."""
        is_told = np.zeros(rows.shape, dtype=bool)
        for tie in self.active:
            is_told[:, tie.target] |= ~np.isnan(tie.fixed(rows))
        return is_told

    def open(self, rows: Floats) -> Bools:
        """Which rows lack cells that rules restrict."""
        is_open = np.zeros(len(rows), dtype=bool)
        for tie in self.every:
            missing = np.isnan(rows[:, tie.columns])
            # A missing target will be computed.
            is_open |= missing.any(axis=1) & ~(tie.is_active & missing[:, 0])
        return is_open

    def fill_last_parts(self, rows: Floats, is_free: Bools) -> Bools:
        """Set the last free part of each known sum; which cells these are, shape of ``rows``."""
        is_part = np.zeros(rows.shape, dtype=bool)
        for tie in self.active:
            # A total that is not free asks for parts that add up to it.
            lacks_part = (tie.values is None) & ~is_free[:, tie.target]
            # From the last part on: those before it keep what was drawn.
            for turn in reversed(tie.turns()[1:]):
                # A part that other rules compute is not free.
                if turn.target not in self.derived:
                    is_last = lacks_part & is_free[:, turn.target]
                    rows[is_last, turn.target] = turn.fixed(rows[is_last])
                    is_part[is_last, turn.target] = True
                    lacks_part &= ~is_last
        return is_part

    def settled(self, rows: Floats, is_free: Bools) -> Floats:
        """Rows whose free cells have been changed to keep the rules, as far as others allow it.

        Orders are kept by raising later cells or lowering earlier ones, whichever changes less.
        """
        # How often what is out of order is moved, and what follows from it is computed again.
        most_rounds = 10
        # What known cells tell is known as well.
        settled_cells = self.propagated(np.where(is_free, np.nan, rows))
        rows = np.where(np.isnan(settled_cells), rows, settled_cells)
        is_free = is_free & np.isnan(settled_cells)
        rows = self.computed(rows, is_free)
        # Cells that orders have moved should not be moved back by sums.
        is_moved = np.zeros(rows.shape, dtype=bool)
        for _ in range(most_rounds):
            # A total that has been moved into an order moves its parts, not the other way round.
            ordered = self._in_order(rows, is_free)
            is_moved |= (ordered != rows) & is_free
            rows = ordered
            for tie in self.every:
                if not tie.is_order:
                    _give_way(tie, rows, is_free, is_moved)
            if not self.broken(rows).any():
                break
        return rows

    def _in_order(self, rows: Floats, is_free: Bools) -> Floats:
        pairs = [tie.columns for tie in self.every if tie.is_order]
        is_free = is_free & ~np.isnan(rows)
        known = ~is_free & ~np.isnan(rows)
        # Known cells press on free ones, from below and from above.
        least = _raised(np.where(known, rows, -np.inf), pairs)
        greatest = _lowered(np.where(known, rows, np.inf), pairs)
        # Between known cells there is a way up and a way down, which both stay between them.
        inside = np.clip(rows, least, greatest)
        up = _raised(np.nan_to_num(inside, nan=-np.inf), pairs)
        down = _lowered(np.nan_to_num(inside, nan=np.inf), pairs)
        # Which way costs less, for each column: all greater ones up, or all smaller ones down.
        cost = np.where(is_free, np.abs(up - rows) - np.abs(down - rows), 0.0)
        # All columns that orders connect go the same way.
        connected = np.eye(rows.shape[1])
        # As often as the longest chain has links.
        for _ in pairs:
            for high, low in pairs:
                connected[[high, low]] = connected[[high, low]].max(axis=0)
        # (n_rows, n_columns): each connected group takes the way that is cheaper for it.
        nearest = np.where(cost @ connected.T > 0.0, down, up)
        return np.where(is_free, nearest, rows)


def _above(columns: Iterable[int], sources_of: dict[int, set[int]]) -> set[int]:
    """Some columns, and all that they depend on."""
    above = {*columns}
    for column in columns:
        above |= _above(sources_of.get(column, ()), sources_of)
    return above


def _raised(rows: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Rows in order, by later cells that are as great as earlier ones."""
    # As often as a chain has links.
    for high, low in len(pairs) * pairs:
        rows[:, high] = np.maximum(rows[:, low], rows[:, high])
    return rows


def _lowered(rows: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Rows in order, by earlier cells that are as small as later ones."""
    return -_raised(-rows, [pair[::-1] for pair in pairs])


def _give_way(tie: Tie, rows: Floats, is_free: Bools, is_moved: Bools) -> None:
    """Change a free cell of each row that breaks a tie, if possible one that was not moved before.

    The target comes before its sources, and of these the greatest: its share changes least.
    """
    broken = np.flatnonzero(tie.broken(rows))
    columns = list(tie.columns)
    # Never a known cell, and rather one that has not been moved.
    may_change = np.where(is_free, 2.0 - is_moved, 0.0)[broken][:, columns]
    # Of several, the largest: a change is the smallest part of it.
    size = np.abs(rows[broken][:, columns])
    size /= np.maximum(size.max(axis=1, keepdims=True), SMALLEST_NORMAL)
    # Before all sources of the same rank, and behind those of a higher one.
    size[:, 0] = 1.5
    place = (may_change + 0.5 * size).argmax(axis=1)
    place[may_change.max(axis=1) == 0.0] = -1
    for number, column in enumerate(columns):
        chosen = broken[place == number]
        # A value may come from several states of its source.
        if number and tie.values is not None:
            value = tie.likeliest_source(rows[chosen])
        else:
            value = tie.solved(number).fixed(rows[chosen])
        # Without a value that keeps the rule the cell stays.
        rows[chosen, column] = np.where(np.isnan(value), rows[chosen, column], value)
        is_moved[chosen, column] |= number > 0
