"""Rules as computations on the cells of a table.

A rule is read as a tie of a column, the target, to other columns, the sources. The target is at
least its source (an order), a sum of its sources with signs and a constant, or a value that a value
of its only source determines (a map). Ties tell which cells follow from others, which rows break a
rule, and the nearest cells that keep all rules. Cells are numbers, codes of categories and
microseconds (:class:`TableCells`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats
from skpc.domain.given import as_given_row
from skpc.synthesis.cells import TableCells

#: Sums may differ by this part of the greatest number of their columns.
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
        The rule as the user wrote it.
    columns : tuple of int
        The target, then its sources.
    signs : tuple of float
        The sign of each source in a sum.
    constant : float
        The constant of a sum.
    tolerance : float
        The rounding error by which a kept rule may be off.
    values : dict or None
        A map, from values of the source to values of the target; None for sums and orders.
    source_values : tuple of float
        All values of the source of a map, the most frequent one first.
    is_order : bool
        Whether the target may also be greater than its source.
    is_total : bool
        Whether all values of the sources determine the target.
    is_decimal : bool
        Whether the target has no digits beyond 15, so that .1 + .2 is .3.
    is_active : bool
        Whether the target is computed from its sources; otherwise, draws keep the rule by chance.
    """

    rule: tuple[Any, ...]
    columns: tuple[int, ...]
    signs: tuple[float, ...] = (1.0,)
    constant: float = 0.0
    tolerance: float = 0.0
    values: dict[float, float] | None = None
    source_values: tuple[float, ...] = ()
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
        """The columns that the target depends on."""
        return self.columns[1:]

    def implied(self, rows: Floats) -> Floats:
        """The value of the target that the sources determine; NaN where they determine none."""
        # Sources (n_rows, n_sources) and one sign each.
        sources = rows[:, self.sources]
        if self.values is None:
            total = sources @ np.array(self.signs) + self.constant
            # A column of decimals has decimal sums.
            return _decimals(total) if self.is_decimal else total
        # A map has one source.
        return np.array([self.values.get(value, np.nan) for value in sources[:, 0].tolist()])

    def broken(self, rows: Floats) -> Bools:
        """Which rows break the rule; those that lack one of its cells do not."""
        # NaN, where a cell is missing, is above no bound.
        excess = self.implied(rows) - rows[:, self.target]
        # An order is broken on one side alone.
        return (excess if self.is_order else np.abs(excess)) > self.tolerance

    def solved_for(self, place: int) -> Tie:
        """The sum solved for the column at a place in ``columns``, which becomes the target."""
        if place == 0:
            return self
        # Signs are their own reciprocals.
        sign = -self.signs[place - 1]
        columns = list(self.columns)
        column = columns.pop(place)
        # In 0 = sum of sources - target, the target is one more column, of sign -1.
        signs = [sign * own_sign for own_sign in (-1.0, *self.signs)]
        del signs[place]
        return self._replace(
            columns=(column, *columns), signs=tuple(signs), constant=sign * self.constant
        )

    def solutions(self) -> list[Tie]:
        """The tie, and if it is a sum, the same solved for each of its other columns."""
        n_places = 1 if self.values is not None else len(self.columns)
        return [self.solved_for(place) for place in range(n_places)]

    def likeliest_source(self, rows: Floats) -> Floats:
        """The most frequent value of the source that allows the value of the target, by row."""
        target_of: dict[float, float] = self.values or {}
        likeliest = {
            # A source value that is not in the map allows every value of the target.
            value: next((s for s in self.source_values if target_of.get(s, value) == value), np.nan)
            for value in np.unique(rows[:, self.target]).tolist()
        }
        return np.array([likeliest[value] for value in rows[:, self.target].tolist()])


def read_tie(rule: Any, cells: TableCells) -> Tie:
    """Read a rule as a tie between the columns of a table.

    Raises
    ------
    ValueError
        If it is no rule, or names columns that are not there or that it cannot be about.
    """
    # A rule that `find_rules` has found stands in a `Rule`.
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
    columns = [int(cells.domain.column_numbers_of([name], "rules")[0]) for name in names]
    if len({*columns}) < len(columns) or len(columns) < 2:
        raise ValueError(f"rules must be about different columns; found {rule!r}.")
    are_categories = cells.is_categorical[columns]
    if kind == "if":
        state = _cell(cells, rule, 6, columns[1])
        return _map_tie(rule, cells, columns, {state: _cell(cells, rule, 2, columns[0])})
    if kind == "determines":
        partners = _usual_partners(cells.values[:, columns])
        # The determined column, which the rule names last, is the target.
        return _map_tie(rule, cells, columns[::-1], partners)
    # Equal categories may have different codes in the two columns.
    if kind == "==" and are_categories.all():
        # From codes of the source to those of the target, for categories that both have.
        codes, labels = (list(cells.domain[column].labels) for column in columns)
        same = {float(n): float(codes.index(x)) for n, x in enumerate(labels) if x in codes}
        return _map_tie(rule, cells, columns, same)
    # Dates have no sums, and no order with durations.
    units = {cells.unit(column) for column in columns}
    if are_categories.any() or len(units) > 1 or (kind == "sum" and units != {""}):
        raise ValueError(
            f"An order or a sum needs columns of numbers, or dates for an order; found {rule!r} "
            "about other columns. Convert them to numbers, or leave the rule out."
        )
    if kind == "<=":
        # An order has the greater column as its target.
        return Tie(rule, tuple(columns[::-1]), is_order=True)
    # Rounding errors are relative to the largest number of these columns.
    size = np.nan_to_num(np.abs(cells.values[:, columns])).max(initial=0.0)
    numbers = cells.values[:, columns[0]]
    # A total whose numbers are decimals has decimal sums.
    is_decimal = kind == "sum" and np.array_equal(_decimals(numbers), numbers, equal_nan=True)
    return Tie(
        rule,
        tuple(columns),
        signs=(1.0,) * (len(columns) - 1),
        constant=float(constant),
        tolerance=ROUNDING * size * (kind == "sum"),
        is_total=True,
        is_decimal=is_decimal,
    )


def _decimals(numbers: Floats) -> Floats:
    """Numbers rounded to 15 digits, which every decimal fraction keeps."""
    return np.array([float(f"{number:.15g}") for number in numbers.tolist()])


def _cell(cells: TableCells, rule: tuple[Any, ...], place: int, column: int) -> float:
    """The cell that a rule names at some place, as rows of the table have it."""
    domain = cells.domain
    row = TableCells.of_table(domain, as_given_row(domain, {column: rule[place]})).values
    value = float(row[0, column])
    if not value >= 0.0 and cells.is_categorical[column]:
        raise ValueError(
            f"rules must be about values that their columns have; found {rule[place]!r} in "
            f"{rule!r}. Correct it, or leave the rule out."
        )
    return value


def _map_tie(
    rule: tuple[Any, ...], cells: TableCells, columns: list[int], values: dict[float, float]
) -> Tie:
    """The tie of a target, the first column, to a source whose values map to values of it."""
    source = columns[1]
    states, n_rows = np.unique(cells.values[:, source], return_counts=True)
    # The most frequent first, and among equals the least value.
    states = states[np.argsort(-n_rows, kind="stable")]
    states = states[~np.isnan(states)].tolist()
    # New rows may have numbers that are not in the map; states are all known.
    has_states = cells.is_categorical[source] or cells.domain.is_ordered[source]
    is_total = bool(has_states) and values.keys() >= {*states}
    return Tie(rule, tuple(columns), values=values, source_values=tuple(states), is_total=is_total)


def _usual_partners(pairs: Floats) -> dict[float, float]:
    """From each value of a source to the most frequent value of the target beside it."""
    # Pairs with a missing cell are left out.
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    pairs, n_rows = np.unique(pairs, axis=0, return_counts=True)
    # Later entries of a dict win: the most frequent partner of each source comes last.
    return dict(pairs[np.lexsort((n_rows, pairs[:, 0]))].tolist())


class Ties(NamedTuple):
    """All rules of a table.

    Attributes
    ----------
    ties : list of Tie
        Active ties come first, each after the ties that compute its sources.
    """

    ties: list[Tie]

    @classmethod
    def read(cls, rules: Iterable[Any], cells: TableCells) -> Self:
        """Read rules; one that would compute a column twice, or close a circle, is not active."""
        # From columns that are computed to their sources; and those computed in all rows.
        sources_of: dict[int, set[int]] = {}
        totals: set[int] = set()
        ties: list[Tie] = []
        for tie in [read_tie(rule, cells) for rule in rules]:
            # A sum may determine any of its columns: the first one that is free.
            for solution in tie.solutions():
                # A total tie fills its target in all rows: no other tie may compute this column.
                is_taken = solution.target in (sources_of if solution.is_total else totals)
                is_circle = solution.target in _with_ancestors(solution.sources, sources_of)
                if not (tie.is_order or is_taken or is_circle):
                    sources_of.setdefault(solution.target, set()).update(solution.sources)
                    totals |= {solution.target} if solution.is_total else set()
                    tie = solution._replace(is_active=True)
                    break
            ties.append(tie)
        # Active ties in the order in which they can be computed, then the others.
        ties.sort(
            key=lambda tie: (not tie.is_active, len(_with_ancestors(tie.columns[:1], sources_of)))
        )
        return cls(ties)

    @property
    def active(self) -> list[Tie]:
        """The ties whose targets are computed."""
        return [tie for tie in self.ties if tie.is_active]

    @property
    def derived(self) -> list[int]:
        """The columns that others determine in all rows."""
        return [tie.target for tie in self.active if tie.is_total]

    def broken(self, rows: Floats) -> Bools:
        """Which rows break a rule."""
        is_broken = np.zeros(len(rows), dtype=bool)
        for tie in self.ties:
            is_broken |= tie.broken(rows)
        return is_broken

    def breach(self, rows: Floats) -> tuple[int, int, Tie] | None:
        """How many rows break a rule, the first of them, a tie it breaks; None if none does."""
        is_broken = self.broken(rows)
        if not is_broken.any():
            return None
        row = int(is_broken.argmax())
        # The first broken rule of this row is enough for the message.
        tie = next(tie for tie in self.ties if tie.broken(rows[[row]])[0])
        return int(is_broken.sum()), row, tie

    def propagated(self, rows: Floats) -> Floats:
        """Rows in which missing cells that follow from others are filled."""
        rows = rows.copy()
        solutions = [
            solution for tie in self.ties if not tie.is_order for solution in tie.solutions()
        ]
        # Each solution may fill a cell that another one needs.
        for solution in len(solutions) * solutions:
            missing = np.isnan(rows[:, solution.target])
            rows[missing, solution.target] = solution.implied(rows[missing])
        return rows

    def computed(self, rows: Floats, is_free: Bools) -> Floats:
        """Rows in which free cells that follow from others are computed."""
        rows = rows.copy()
        # Active ties are in an order in which sources are computed before their targets.
        for tie in self.active:
            value = tie.implied(rows)
            follows = is_free[:, tie.target] & ~np.isnan(value)
            rows[follows, tie.target] = value[follows]
        return rows

    def implied_cells(self, rows: Floats) -> Bools:
        """Which cells follow from other cells; shape of ``rows``."""
        is_implied = np.zeros(rows.shape, dtype=bool)
        for tie in self.active:
            is_implied[:, tie.target] |= ~np.isnan(tie.implied(rows))
        return is_implied

    def lack_cells(self, rows: Floats) -> Bools:
        """Which rows lack cells that rules restrict and do not determine."""
        is_open = np.zeros(len(rows), dtype=bool)
        for tie in self.ties:
            missing = np.isnan(rows[:, tie.columns])
            # A target that is missing will be computed.
            is_open |= missing.any(axis=1) & ~(tie.is_active & missing[:, 0])
        return is_open

    def fill_last_parts(self, rows: Floats, is_free: Bools) -> Bools:
        """Set the last free part of each known total, in place.

        Returns which cells these are; shape of ``rows``.
        """
        is_part = np.zeros(rows.shape, dtype=bool)
        for tie in self.active:
            # Where a total is not free, its parts have to add up to it.
            lacks_part = (tie.values is None) & ~is_free[:, tie.target]
            # From the last part on: those before it keep what was drawn.
            for solution in reversed(tie.solutions()[1:]):
                # A part that other rules compute is not free.
                if solution.target not in self.derived:
                    is_last = lacks_part & is_free[:, solution.target]
                    rows[is_last, solution.target] = solution.implied(rows[is_last])
                    is_part[is_last, solution.target] = True
                    lacks_part &= ~is_last
        return is_part

    def settled(self, rows: Floats, is_free: Bools) -> Floats:
        """Rows whose free cells are changed to keep the rules, as far as the other cells allow it.

        Orders are kept by raising later cells or lowering earlier ones, whichever changes less.
        """
        # Rounds of moving cells into order, and of computing what follows from them.
        most_rounds = 10
        # Cells that follow from known ones are known as well.
        known_cells = self.propagated(np.where(is_free, np.nan, rows))
        rows = np.where(np.isnan(known_cells), rows, known_cells)
        is_free = is_free & np.isnan(known_cells)
        rows = self.computed(rows, is_free)
        # Cells that orders have moved should not be moved back by sums.
        is_moved = np.zeros(rows.shape, dtype=bool)
        for _ in range(most_rounds):
            # A total that an order has moved stays, and its parts are changed.
            ordered = self._in_order(rows, is_free)
            is_moved |= (ordered != rows) & is_free
            rows = ordered
            for tie in self.ties:
                if not tie.is_order:
                    _give_way(tie, rows, is_free, is_moved)
            if not self.broken(rows).any():
                break
        return rows

    def _in_order(self, rows: Floats, is_free: Bools) -> Floats:
        """Rows whose free cells are moved as little as needed to keep all orders."""
        pairs = [tie.columns for tie in self.ties if tie.is_order]
        is_free = is_free & ~np.isnan(rows)
        known = ~is_free & ~np.isnan(rows)
        # Known cells bound the free ones from below and from above.
        least = _raised(np.where(known, rows, -np.inf), pairs)
        greatest = _lowered(np.where(known, rows, np.inf), pairs)
        # Cells out of order can be raised or lowered; both stay between the bounds.
        inside = np.clip(rows, least, greatest)
        up = _raised(np.nan_to_num(inside, nan=-np.inf), pairs)
        down = _lowered(np.nan_to_num(inside, nan=np.inf), pairs)
        # Of each column, how much more raising changes than lowering.
        cost = np.where(is_free, np.abs(up - rows) - np.abs(down - rows), 0.0)
        # All columns that orders connect are raised, or all are lowered.
        connected = np.eye(rows.shape[1])
        # As often as the longest chain has links.
        for _ in pairs:
            for high, low in pairs:
                connected[[high, low]] = connected[[high, low]].max(axis=0)
        # (n_rows, n_columns): each connected group takes the way that is cheaper for it.
        nearest = np.where(cost @ connected.T > 0.0, down, up)
        return np.where(is_free, nearest, rows)


def _with_ancestors(columns: Iterable[int], sources_of: dict[int, set[int]]) -> set[int]:
    """Some columns, and all columns that these depend on."""
    ancestors = {*columns}
    for column in columns:
        ancestors |= _with_ancestors(sources_of.get(column, ()), sources_of)
    return ancestors


def _raised(rows: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Rows in order: later cells are raised to earlier ones."""
    # As often as a chain has links.
    for high, low in len(pairs) * pairs:
        rows[:, high] = np.maximum(rows[:, low], rows[:, high])
    return rows


def _lowered(rows: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Rows in order: earlier cells are lowered to later ones."""
    return -_raised(-rows, [pair[::-1] for pair in pairs])


def _give_way(tie: Tie, rows: Floats, is_free: Bools, is_moved: Bools) -> None:
    """Change one free cell of each row that breaks a tie, in place.

    A cell that was not moved before is preferred, then the target, then the source of the greatest
    number, whose relative change is least.
    """
    broken = np.flatnonzero(tie.broken(rows))
    columns = list(tie.columns)
    # Ranks of the cells, (n_broken, n_columns): zero for known cells, two for cells not yet moved.
    rank = np.where(is_free, 2.0 - is_moved, 0.0)[broken][:, columns]
    # Among sources of one rank, the largest number is changed.
    size = np.abs(rows[broken][:, columns])
    size /= np.maximum(size.max(axis=1, keepdims=True), SMALLEST_NORMAL)
    # The target goes before all sources of its rank, and behind those of a higher rank.
    size[:, 0] = 1.5
    place = (rank + 0.5 * size).argmax(axis=1)
    place[rank.max(axis=1) == 0.0] = -1
    for number, column in enumerate(columns):
        chosen = broken[place == number]
        # Several values of a source may map to one value of the target.
        if number and tie.values is not None:
            value = tie.likeliest_source(rows[chosen])
        else:
            value = tie.solved_for(number).implied(rows[chosen])
        # Without a value that keeps the rule the cell stays.
        rows[chosen, column] = np.where(np.isnan(value), rows[chosen, column], value)
        is_moved[chosen, column] |= number > 0
