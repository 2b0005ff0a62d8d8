"""What a user says of the cells of rows: values, ranges and sets, as encoded events.

A tuple of two is a closed range (None for an open end), a pandas.Interval a range with the ends
that it is closed at, a list, set or array a set of values, NaN or None nothing; the rest is a
value.
"""

from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints
from skpc._validation import (
    column_of,
    frame_library,
    kinds_of_cells,
    missing_cells,
    objects_of,
    read_cells,
)
from skpc._warnings import warn
from skpc.domain._categories import encode_values, shorten
from skpc.domain._column import Column
from skpc.domain._declared import column_numbers
from skpc.domain._domain import Domain
from skpc.domain._faces import Face
from skpc.domain.given import encode_given
from skpc.domain.stated import SET_TYPES, Stated
from skpc.variables.events import Events
from skpc.variables.ranks import Ranks

#: What intervals have, and all that holds several values, such as slices, which are refused.
_OF_STATEMENTS = ("closed_left", "__len__", "indices")


def _is_statement(cell: Any) -> bool:
    return not isinstance(cell, str | bytes) and any(hasattr(cell, n) for n in _OF_STATEMENTS)


def read_events(
    domain: Domain, said: Any, parameter: str, *, values_are_known: bool
) -> tuple[Events, NDArray[np.object_]]:
    """Read one event or many.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    said : dict, list of dict, or DataFrame
        Columns (names or numbers) and what is said of them; a column that is left out, as a missing
        cell, has no statement.
    parameter : str
        Name of the parameter it came by, for error messages.
    values_are_known : bool
        Whether a single value of a cell is known, and counts with its density. Else it is an event:
        on a lattice its cell, and nothing where the column has neither a lattice nor this atom.

    Returns
    -------
    events : Events
        Encoded.
    values : ndarray of shape (n_events, n_features), object
        The cells that are known, None elsewhere.

    Raises
    ------
    TypeError, ValueError
        If a column does not exist, or a statement does not suit it.

    Warns
    -----
    UserWarning
        If an event has probability zero because it fixes a number that has none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain, read_events
    >>> domain = Domain.fit(
    ...     np.array([["red", 1.0], ["blue", 2.0], ["red", 9.0]], dtype=object)
    ... )
    >>> events, _ = read_events(
    ...     domain, {1: (2, 4), 0: ["red"]}, "event", values_are_known=False
    ... )
    >>> events.column, events.low, events.high
    (array([0, 1]), array([0.5, 1.5]), array([1.5, 4.5]))
    """
    listed = _listed(said, parameter)
    statements = dict[Any, _Statements]()
    values = np.full((len(listed), len(domain)), None, dtype=object)
    for event, cells_of_columns in enumerate(listed):
        for name, cell in cells_of_columns.items():
            if name not in statements:
                names = domain.feature_names
                (place,) = column_numbers(np.array([name]), len(domain), names, parameter).tolist()
                statements[name] = _Statements(domain, place, parameter, [])
            column = statements[name]
            # Where the states are intervals themselves, such a cell is a value.
            if _is_statement(cell) and not column.has_states_like(cell):
                column.add(event, cell)
            elif values_are_known:
                values[event, column.place] = cell
            elif not _is_missing(cell):
                column.said.append(_Range(event, cell, cell))
    rows = np.full(values.shape, np.nan)
    # Encoding also checks the values, and lets faces tell their sources.
    if values_are_known:
        rows = encode_given(domain, values)
    return _events_of(rows, [*statements.values()]), values


def events_of_table(domain: Domain, rows: Floats, stated: Mapping[int, Stated]) -> Events:
    """Encoded rows, and the ranges and sets of the cells that are missing there, as events.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded.
    stated : dict from int to Stated
        What :func:`skpc.domain.split_ranges` finds.

    Returns
    -------
    Events

    Raises
    ------
    ValueError
        If a range or a set does not suit its column.
    """
    statements = [_Statements(domain, place, "X", []) for place in stated]
    for column, said in zip(statements, stated.values()):
        if said.are_intervals and column.has_order:
            ends = said.cells.left.tolist(), said.cells.right.tolist()
            closed = repeat(said.cells.closed_left), repeat(said.cells.closed_right)
            column.said.extend(map(_Range, said.rows.tolist(), *ends, *closed))
            continue
        for row, cell in zip(said.rows.tolist(), said.cells):
            column.add(row, cell)
    return _events_of(rows, statements)


def _events_of(rows: Floats, statements: list[Any]) -> Events:
    """Encoded rows and what is said of their columns."""
    stated = [column for column in statements if column.said]
    # No model has a column for a face: what is said of it is said of its source below.
    parts = [column.intervals() for column in stated if not isinstance(column.column, Face)]
    # An empty part, so that there is something to concatenate.
    parts.append((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0)))
    events = Events.from_intervals(rows, *map(np.concatenate, zip(*parts)))
    nothing = np.full_like(rows, np.nan)
    for column in stated:
        # What is said of a face holds at once with what is said of its source.
        face = column.column
        if isinstance(face, Face):
            source_intervals = column.intervals_of_source(face)
            events = events.joined(Events.from_intervals(nothing, *source_intervals))
    return events


def _listed(said: Any, parameter: str) -> list[Mapping[Any, Any]]:
    """Events as dicts from columns to statements."""
    if isinstance(said, Mapping):
        return [said]
    if frame_library(said) is not None:
        # As objects, cells such as tuples and dates stay what they are.
        cells = [objects_of(column_of(said, place)) for place in range(said.shape[1])]
        return [dict(zip(said.columns, row)) for row in zip(*cells)]
    if isinstance(said, list | tuple) and all(isinstance(statement, Mapping) for statement in said):
        return list(said)
    raise TypeError(
        f"{parameter} must be a dict from columns to values, ranges (a, b) or sets, a list of such "
        f"dicts or a DataFrame of such cells; found {type(said).__name__}"
    )


def _is_missing(cell: Any) -> bool:
    # The most common types are never missing, and need no array to tell.
    is_plain = isinstance(cell, str | int)
    return not is_plain and bool(missing_cells(np.array([cell], dtype=object))[0])


def _are_within(values: Any, low: Floats, high: Floats, holds_low: Any, holds_high: Any) -> Bools:
    """Which values are in ranges, which may hold their ends."""
    is_above = (low < values) | ((low == values) & holds_low)
    return np.asarray(is_above & ((values < high) | ((values == high) & holds_high)))


class _Range(NamedTuple):
    """A range of a column in an event; both ends of a value are the value itself."""

    event: int
    low: Any
    high: Any
    holds_low: bool = True
    holds_high: bool = True
    is_of_set: bool = False


class _Statements(NamedTuple):
    """What is said of one column; ranges of one event are alternatives."""

    domain: Domain
    place: int
    parameter: str
    said: list[_Range]

    @property
    def column(self) -> Column:
        """What the column is."""
        return self.domain[self.place]

    @property
    def has_order(self) -> bool:
        """Whether ranges are about the cells of the column."""
        column = self.column
        return column.holds_numbers if isinstance(column, Face) else column.states is None

    def refuse(self, needed: str, cell: Any, event: int | None = None) -> NoReturn:
        """Raise the error for a statement that does not suit the column, in a row of a table."""
        where = self.column.where
        row = "" if event is None or self.parameter != "X" else f" in row {event}"
        raise ValueError(f"{self.parameter} must have {needed} in {where}; found {cell!r}{row}.")

    def has_states_like(self, cell: Any) -> bool:
        """Whether a cell is an interval, and so are the states of the column."""
        labels = self.column.labels
        return labels is not None and kinds_of_cells([cell]) == kinds_of_cells(labels[:1])

    def add(self, event: int, cell: Any) -> None:
        """Add a range or a set."""
        if isinstance(cell, SET_TYPES):
            values = [value for value in cell if not _is_missing(value)]
            if not values:
                self.refuse("a value in a set", cell, event)
            self.said.extend(_Range(event, value, value, is_of_set=True) for value in values)
            return
        closed = (True, True)
        if hasattr(cell, "closed_left"):
            closed = cell.closed_left, cell.closed_right
            cell = cell.left, cell.right
        states = self.column.states
        # Strings have no order; numbers have one, though they count as categories.
        numbers = None if states is None or states.dtype == object else states
        if numbers is None and not self.has_order:
            self.refuse("sets such as ['a', 'b'], as its categories have no order,", cell, event)
        if not isinstance(cell, tuple) or len(cell) != 2:
            needed = "a tuple of two ends, None for an open one, or a list of values"
            self.refuse(needed, cell, event)
        if numbers is None:
            self.said.append(_Range(event, *cell, *closed))
            return
        # A range of numbers that count as categories is the set of those in it.
        low, high = self._ends([cell[:1], cell[1:]])
        is_held = _are_within(numbers, low, high, *closed)
        if not is_held.any():
            self.refuse(f"a range that holds one of {shorten(numbers)}", cell, event)
        self.add(event, [*numbers[is_held]])

    def intervals(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Events, columns, and ends of intervals ``low < x <= high``."""
        # The ranges become one sequence each of events, lower ends, upper ends and so on.
        event, *ends, holds_low, holds_high, is_of_set = zip(*self.said)
        columns = np.full(len(event), self.place)
        column = self.column
        if column.is_hidden:
            self.refuse("nothing of what names the rows, or was empty in fit,", ends[0][0])
        if column.states is not None:
            codes = self._codes(ends[0], column.states)
            return np.array(event), columns, codes - 0.5, codes + 0.5
        low, high = self._ends(ends)
        for place in np.flatnonzero(low > high)[:1]:
            needed = "ranges from the smaller to the greater end"
            self.refuse(needed, (ends[0][place], ends[1][place]), event[place])
        is_value = low == high
        # A plain column has neither atoms nor a lattice: its ends do not matter.
        is_beyond = np.zeros(len(low), dtype=bool)
        if column.law is not None:
            low, high = column.law.intervals(low, high, np.array([holds_low, holds_high]))
            # Beyond the ends of a column there is nothing, whatever tails leaves have.
            is_beyond = (high < column.law.ends[0]) | (low > column.law.ends[1])
            high = np.where(is_beyond, low, high)
        for place in np.flatnonzero(is_value & (low == high) & ~is_beyond)[:1]:
            needed = "the tuple (a, b) for a range, as a number that is no atom has probability 0,"
            # In a set this is an error; alone it is an event of probability zero, with a warning.
            if is_of_set[place]:
                self.refuse(needed, ends[0][place])
            step = 0.0 if column.law is None else column.law.step
            kind = f"of steps of {step:g}" if step > 0.0 else "without a lattice"
            warn(
                f"{self.parameter} should have {needed} in a column {kind}; known values belong in "
                f"given. Found {ends[0][place]!r}."
            )
        return np.array(event), columns, low, high

    def _ends(self, ends: Any) -> tuple[Floats, Floats]:
        """Numbers of lower and upper ends, infinite where there is none."""
        low, high = map(self._numbers, ends)
        # An end without a number is open.
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

    def intervals_of_source(self, face: Face) -> tuple[Ints, Ints, Floats, Floats]:
        """What is said of a face as intervals of its source: one for each state that is meant."""
        event, *ends, holds_low, holds_high, _ = zip(*self.said)
        if self.has_order:
            # Ends of shape (n_statements, 1) meet values of shape (n_states,).
            ranges = (*self._ends(ends), np.array(holds_low), np.array(holds_high))
            is_meant = _are_within(face.values, *(part[:, np.newaxis] for part in ranges))
        else:
            codes = self._codes(ends[0], face.values)
            is_meant = codes[:, np.newaxis] == np.arange(len(face.values))
        statement, place = np.nonzero(is_meant)
        states = face.source_cells[place]
        # Numbers have the cells of their law, categories the interval around each code.
        law = self.domain[face.source].law
        if law is None:
            lower = states - 0.5
            upper = states + 0.5
        else:
            lower, upper = law.intervals(states, states, np.ones((2, len(states)), dtype=bool))
        # An empty interval says that no state is meant.
        nothing = np.flatnonzero(~is_meant.any(axis=1))
        events = np.array(event)[np.concatenate([statement, nothing])]
        lower, upper = (
            np.append(ends_of_states, np.zeros(len(nothing))) for ends_of_states in (lower, upper)
        )
        return events, np.full(len(events), face.source), lower, upper

    def _codes(self, values: tuple[Any, ...], states: NDArray[Any]) -> Floats:
        """Codes of categories."""
        cells = np.empty(len(values), object)
        cells[:] = values
        read = read_cells(cells, self.place, self.domain.feature_names)[0]
        codes = encode_values(read, states)
        for place in np.flatnonzero(np.isnan(codes))[:1]:
            event = self.said[place].event if len(self.said) == len(values) else None
            self.refuse(f"categories of {shorten(states)}", values[place], event)
        return codes

    def _numbers(self, ends: tuple[Any, ...]) -> Floats:
        """Numbers of ends, NaN where there is none."""
        cells = np.empty(len(ends), object)
        calendar = self.column.calendar
        cells[:] = ends
        if calendar is not None:
            if isinstance(calendar, Ranks):
                # Another category is no missing cell here: what is said of it would be lost.
                calendar = calendar._replace(is_strict=True)
            return calendar.numbers_of(cells, f"{self.parameter} in {self.column.where}")
        # The conversion below would take a string such as "3" for a number.
        for end in (text for text in ends if isinstance(text, str | bytes)):
            self.refuse("numbers", end)
        try:
            return cells.astype(np.float64)
        except (TypeError, ValueError):
            self.refuse("numbers", next(e for e in ends if not isinstance(e, int | float | None)))
