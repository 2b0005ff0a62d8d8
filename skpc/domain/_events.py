"""What a user says of the cells of rows: values, ranges and sets, as encoded events.

A tuple of two is a closed range (None for an open end), a pandas.Interval a range with the ends
that it is closed at, a list, set or array a set of values, NaN or None nothing; the rest is a
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints
from skpc._validation import (
    column_of,
    describe_column,
    frame_library,
    missing_cells,
    objects_of,
    read_cells,
)
from skpc._warnings import warn
from skpc.domain._coding import shorten
from skpc.domain._domain import Domain
from skpc.domain._states import column_numbers, encode_numbers, encode_strings
from skpc.variables.events import Events

#: Flags of a statement: which ends belong to it, and whether it is one value of a set.
_LOW, _HIGH, _OF_SET = 1, 2, 4
_SETS = (list, set, frozenset, np.ndarray)


class Statements(NamedTuple):
    """What is said of one column, statement by statement."""

    event: list[int]
    low: list[Any]
    high: list[Any]
    flags: list[int]

    def add(self, event: int, low: Any, high: Any, flags: int) -> None:
        """Add a range or a value."""
        for part, one in zip(self, (event, low, high, flags)):
            part.append(one)


def has_statements(said: Mapping[Any, Any]) -> bool:
    """Whether an event has ranges or sets, not only values."""
    kinds = (tuple, *_SETS)
    return any(isinstance(cell, kinds) or hasattr(cell, "closed_left") for cell in said.values())


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
    """
    listed = _listed(said, parameter)
    values, of_columns = _sorted_by_column(domain, listed, parameter, values_are_known)
    rows = np.full(values.shape, np.nan)
    if values_are_known:
        rows = domain.encode_given(values)
    parts = [_intervals(domain, column, one, parameter) for column, one in of_columns.items()]
    parts.append((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0)))
    return Events.from_intervals(rows, *map(np.concatenate, zip(*parts))), values


def _listed(said: Any, parameter: str) -> list[Mapping[Any, Any]]:
    """Events as dicts from columns to statements."""
    if isinstance(said, Mapping):
        return [said]
    if frame_library(said) is not None:
        names = list(said.columns)
        cells = [objects_of(column_of(said, place)) for place in range(len(names))]
        return [dict(zip(names, row)) for row in zip(*cells)]
    if isinstance(said, list | tuple) and all(isinstance(one, Mapping) for one in said):
        return list(said)
    raise TypeError(
        f"{parameter} must be a dict from columns to values, ranges (a, b) or sets, a list of such "
        f"dicts or a DataFrame of such cells; found {type(said).__name__}"
    )


def _sorted_by_column(
    domain: Domain, listed: list[Mapping[Any, Any]], parameter: str, values_are_known: bool
) -> tuple[NDArray[np.object_], dict[int, Statements]]:
    """The known values, and all other statements by their columns."""
    names, n_columns = domain.feature_names, domain.n_features
    values, numbers = np.full((len(listed), n_columns), None, dtype=object), {}
    of_columns: dict[int, Statements] = {}
    for event, statements in enumerate(listed):
        for name, cell in statements.items():
            column = numbers.get(name)
            if column is None:
                column = int(column_numbers(np.array([name]), n_columns, names, parameter)[0])
                numbers[name] = column
                of_columns[column] = Statements([], [], [], [])
            add = of_columns[column].add
            if isinstance(cell, tuple):
                add(event, *_ends(domain, column, cell), _LOW | _HIGH)
            elif isinstance(cell, _SETS):
                for value in _members(domain, column, cell):
                    add(event, value, value, _LOW | _HIGH | _OF_SET)
            elif hasattr(cell, "closed_left"):
                closed = _LOW * cell.closed_left | _HIGH * cell.closed_right
                add(event, *_ends(domain, column, (cell.left, cell.right)), closed)
            elif not _is_missing(cell):
                if values_are_known:
                    values[event, column] = cell
                else:
                    add(event, cell, cell, _LOW | _HIGH)
    return values, {column: one for column, one in of_columns.items() if one.event}


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str | int):
        return False
    return bool(missing_cells(np.array([cell], dtype=object))[0])


def _ends(domain: Domain, column: int, ends: tuple[Any, ...]) -> tuple[Any, ...]:
    """The two ends of a range."""
    if len(ends) != 2 or domain.is_categorical[column]:
        where = describe_column(column, domain.feature_names)
        needed = "have two ends, None for an open one"
        if domain.is_categorical[column]:
            needed = "be a set such as ['a', 'b'], as its categories have no order"
        raise ValueError(f"A range in {where} must {needed}; found the tuple {ends!r}.")
    return ends


def _members(domain: Domain, column: int, cells: Iterable[Any]) -> list[Any]:
    """The distinct values of a set."""
    members = [cell for cell in cells if not _is_missing(cell)]
    if not members:
        raise ValueError(
            f"A set in {describe_column(column, domain.feature_names)} must hold a value; found "
            f"{cells!r}. Leave the column out to say nothing of it."
        )
    return members


def _intervals(
    domain: Domain, column: int, said: Statements, parameter: str
) -> tuple[Ints, Ints, Floats, Floats]:
    """Events, columns, and ends of intervals ``low < x <= high``."""
    where = describe_column(column, domain.feature_names)
    if domain.unseen.is_hidden[column]:
        raise ValueError(
            f"{parameter} has a statement about {where}, which no learner sees: it names the rows "
            "or was empty in fit. Leave it out."
        )
    event, flags = np.array(said.event), np.array(said.flags)
    columns = np.full(len(event), column)
    if domain.is_categorical[column]:
        codes = _codes(domain, column, said.low)
        return event, columns, codes - 0.5, codes + 0.5
    low, high = (_numbers(domain, column, ends) for ends in (said.low, said.high))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    for place in np.flatnonzero(low > high)[:1]:
        raise ValueError(
            f"A range in {where} must go from the smaller to the greater end; found "
            f"({said.low[place]!r}, {said.high[place]!r})."
        )
    is_value, number = low == high, domain.number_of(column)
    # A plain column has neither atoms nor a lattice: its ends do not matter.
    if number is not None:
        low, high = number.intervals(low, high, np.array([flags & _LOW, flags & _HIGH]) > 0)
    _report_nothing(said, where, is_value & (low == high))
    return event, columns, low, high


def _report_nothing(said: Statements, where: str, is_nothing: Bools) -> None:
    """Say that a number that is no atom has probability zero."""
    for place in np.flatnonzero(is_nothing)[:1]:
        value, of_set = said.low[place], said.flags[place] & _OF_SET
        text = (
            f"the number {value!r} has probability 0 as an event in {where}: the column has no "
            "lattice, and it is none of its atoms. For a range pass the tuple (a, b); a value that "
            "is known belongs in given"
        )
        if of_set:
            raise ValueError(f"A list is a set of values, and {text}.")
        warn(f"{text[0].upper()}{text[1:]}.")


def _codes(domain: Domain, column: int, values: list[Any]) -> Floats:
    """Codes of categories."""
    cells, names = np.empty(len(values), object), domain.feature_names
    cells[:] = values
    read, states = read_cells(cells, column, names)[0], domain.categories[column]
    encode: Any = encode_strings if read.dtype == object else encode_numbers
    is_kind = states is not None and (states.dtype == object) == (read.dtype == object)
    codes = encode(read, states) if is_kind else np.full(len(values), np.nan)
    for place in np.flatnonzero(np.isnan(codes))[:1]:
        raise ValueError(
            f"A statement about {describe_column(column, names)} must hold its categories "
            f"{shorten(states)}; found {values[place]!r}."
        )
    return np.asarray(codes)


def _numbers(domain: Domain, column: int, ends: list[Any]) -> Floats:
    """Numbers of ends, NaN where there is none."""
    cells, calendar = np.empty(len(ends), object), domain.form.dates.get(column)
    cells[:] = ends
    where = describe_column(column, domain.feature_names)
    if calendar is not None:
        return calendar.numbers_of(cells, where)
    try:
        for text in (end for end in ends if isinstance(end, str)):
            raise ValueError(f"found {text!r}")
        return cells.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"A statement about {where} must hold numbers; {error}.") from error
