"""Cells of tables that are known as ranges or sets: where they stand, and values to begin with.

A cell may be a tuple ``(low, high)``, None for an open end, a ``pandas.Interval``, or a set or list
of values; so may those of a column of ``IntervalDtype``. What holds a single value is that value.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints
from skpc._validation import column_of, describe_column, frame_library, missing_cells, objects_of
from skpc.variables.censored import Ranges, Sets, even_draws, filled_ranges, self_consistent

#: Types of cells that list the values which a cell may have.
SET_TYPES = (list, set, frozenset, np.ndarray)


class Stated(NamedTuple):
    """What is said of some cells of a column.

    Attributes
    ----------
    rows : ndarray of int
        Their rows.
    cells : list, or array of pandas
        Tuples, intervals, or sets; of a column of ``IntervalDtype`` its own array.
    """

    rows: Ints
    cells: Any

    @property
    def are_intervals(self) -> bool:
        """Whether the ends of the cells are arrays."""
        return hasattr(self.cells, "closed_left")


def is_stated(cell: Any) -> bool:
    """Whether a cell is a range or a set."""
    return _is_kind(type(cell))


def _is_kind(kind: type) -> bool:
    return issubclass(kind, (tuple, *SET_TYPES)) or hasattr(kind, "closed_left")


def _are_intervals(column: Any) -> bool:
    """Whether a column is one of ``IntervalDtype`` with two arrays of numbers as its ends."""
    # Intervals of dates are refused one by one.
    return str(column.dtype).startswith(("interval[float", "interval[int", "interval[uint"))


def _are_stated(column: Any) -> bool:
    """Whether any cell of a column is a range or a set."""
    if _are_intervals(column):
        return bool(column.notna().any())
    # A column holds many cells of few types: each type is judged once.
    return any(map(_is_kind, set(map(type, objects_of(column).tolist()))))


def _columns_of_objects(table: Any) -> Iterator[tuple[int, Any]]:
    """The columns of a table that may hold ranges, as they are."""
    if frame_library(table) == "pandas":
        for place, dtype in enumerate(table.dtypes):
            # Columns of other dtypes cannot hold tuples, sets or intervals.
            if str(dtype) == "object" or str(dtype).startswith("interval"):
                yield place, column_of(table, place)
    elif isinstance(table, np.ndarray) and table.dtype == object and table.ndim == 2:
        for place in range(table.shape[1]):
            yield place, table[:, place]


def holds_ranges(table: Any, interval_columns: Any = ()) -> bool:
    """Whether a cell of a pandas DataFrame, or of an array of objects, is a range or a set.

    In ``interval_columns`` an interval is a value.
    """
    return any(
        _are_stated(column)
        for place, column in _columns_of_objects(table)
        if place not in interval_columns
    )


def split_ranges(table: Any, interval_columns: Any = ()) -> tuple[Any, dict[int, Stated]]:
    """A table without its ranges and sets, and these by the numbers of their columns.

    Parameters
    ----------
    table : ndarray or DataFrame of shape (n_rows, n_features)
        As ``check_table`` returns it.
    interval_columns : collection of int, default=()
        Columns whose states are intervals: such a cell is a value there.

    Returns
    -------
    table : ndarray or DataFrame
        The cells are missing. Columns whose other cells are numbers hold float64.
    stated : dict from int to Stated
    """
    stated: dict[int, Stated] = {}
    columns: dict[int, NDArray[Any]] = {}
    open_ranges = [*product((None, np.nan, -np.inf), (None, np.nan, np.inf))]
    for place, column in _columns_of_objects(table):
        if place in interval_columns or not _are_stated(column):
            continue
        if _are_intervals(column):
            intervals = column.array
            low, high, *closed = ends_of(intervals)
            is_value = (low == high) & np.all(closed, axis=0)
            columns[place] = np.where(is_value, low, np.nan)
            rows = np.flatnonzero(~is_value & ~np.isnan(low))
            stated[place] = Stated(rows, intervals[rows])
            continue
        cells = objects_of(column)
        values = cells.copy()
        statements = dict[int, Any]()
        for row, cell in enumerate(cells.tolist()):
            if is_stated(cell):
                values[row] = _single(cell)
                # A range without ends is a missing cell.
                is_open = isinstance(cell, tuple) and cell in open_ranges
                if values[row] is None and not is_open:
                    statements[row] = cell
        # Without its ranges and sets the column may hold numbers only.
        columns[place] = _as_numbers(values)
        rows = np.array([*statements], dtype=np.int64)
        stated[place] = Stated(rows, [*statements.values()])
    # A column may hold only ranges that are values, or open at both ends.
    stated = {place: said for place, said in stated.items() if len(said.rows)}
    return with_columns(table, columns), stated


def _single(cell: Any) -> Any:
    """The only value that a range or set holds; None if there are several."""
    if hasattr(cell, "closed_left"):
        # An interval that is open at an end cannot hold a single value.
        cell = (cell.left, cell.right) if cell.closed == "both" else ()
    values = [*cell]
    is_range = isinstance(cell, tuple)
    is_value = len(values) == 2 and values[0] == values[1] if is_range else len(values) == 1
    return values[0] if is_value else None


def _as_numbers(values: NDArray[np.object_]) -> NDArray[Any]:
    """The cells of a column as floats, if they are numbers."""
    present = values[~missing_cells(values)]
    # Bools and some strings could be converted too, but are no numbers.
    if any(
        isinstance(cell, bool) or not np.isscalar(cell) or isinstance(cell, str) for cell in present
    ):
        return values
    try:
        numbers = np.full(len(values), np.nan)
        numbers[~missing_cells(values)] = present.astype(np.float64)
    except (TypeError, ValueError):
        return values
    return numbers


def values_of(table: Any, place: int) -> NDArray[Any]:
    """A column of a table without ranges and sets: floats if its cells are numbers, or objects."""
    column = column_of(table, place)
    is_plain = column.dtype == np.float64
    return np.asarray(column) if is_plain else _as_numbers(objects_of(column))


def with_columns(table: Any, columns: dict[int, NDArray[Any]]) -> Any:
    """A copy of a table with some other columns; of an array, floats where all cells are."""
    if not columns:
        return table
    copy = table.copy()
    for place, values in columns.items():
        if isinstance(copy, np.ndarray):
            copy[:, place] = values
        else:
            # A place is unique where names of columns repeat.
            copy.isetitem(place, values)
    if isinstance(copy, np.ndarray):
        parts = [_as_numbers(copy[:, place]) for place in range(copy.shape[1])]
        if all(part.dtype == np.float64 for part in parts):
            return np.column_stack(parts)
    return copy


def ends_of(cell: Any) -> tuple[Any, Any, Any, Any]:
    """The ends of a range of numbers, or of an array of them, and whether they belong to it."""
    if hasattr(cell, "closed_left"):
        # A time is no number, but numpy would make one of it.
        low, high = (np.asarray(end, dtype=np.float64) for end in (cell.left, cell.right))
        # Infinity itself belongs to no range.
        return low, high, cell.closed_left & (low > -np.inf), cell.closed_right & (high < np.inf)
    if isinstance(cell, SET_TYPES):
        numbers = np.asarray([*cell], dtype=np.float64)
        return float(numbers.min()), float(numbers.max()), True, True
    # NaN, which differs from itself, is an open end as None is.
    least = -np.inf if cell[0] is None or cell[0] != cell[0] else float(cell[0])
    greatest = np.inf if cell[1] is None or cell[1] != cell[1] else float(cell[1])
    return least, greatest, least > -np.inf, greatest < np.inf


def are_categories(values: NDArray[Any], stated: Stated) -> bool:
    """Whether a column that holds sets has categories."""
    # Columns of intervals are not looked at cell by cell: each would become an object.
    are_sets = not stated.are_intervals and all(
        isinstance(cell, SET_TYPES) for cell in stated.cells
    )
    return values.dtype == object or are_sets


def refuse_wrong(
    stated: Stated, place: int, names: Any, values: NDArray[Any], parameter: str = "X"
) -> None:
    """Raise the error for a range or set that no column can have, or that its column cannot."""
    where = describe_column(place, names)
    has_strings = values.dtype == object
    if stated.are_intervals:
        low, high, *_ = ends_of(stated.cells)
        wrong = ~(low < high)
        stated = Stated(stated.rows[wrong], stated.cells[wrong])
    for row, cell in zip(stated.rows.tolist(), stated.cells):
        wanted = ""
        if isinstance(cell, SET_TYPES):
            if not len(cell):
                wanted = "a value in each set"
        elif has_strings and any(isinstance(value, str) for value in values):
            wanted = "sets such as {'a', 'b'}, as its strings have no order,"
        elif isinstance(cell, tuple) and len(cell) != 2:
            wanted = "ranges of two ends, None for an open one,"
        else:
            try:
                low, high, holds_low, holds_high = ends_of(cell)
            except (TypeError, ValueError):
                # NaN fails the comparison below, as ends in the wrong order do.
                low = np.nan
                high = np.nan
            if not low < high:
                wanted = "ranges of numbers from the smaller to the greater end"
                sides = (cell.left, cell.right) if hasattr(cell, "left") else cell
                if any(hasattr(side, "isoformat") for side in sides):
                    wanted = "dates that are known or missing (only questions take ranges of dates)"
        if wanted:
            raise ValueError(
                f"{parameter} must have {wanted} in {where}; found {cell!r} in row {row}."
            )


def ranges_of(values: Floats, stated: Stated) -> Ranges:
    """Values, ranges and missing cells of a column of numbers; the last have infinite ends."""
    low = values.copy()
    high = values.copy()
    missing = np.isnan(values)
    low[missing] = -np.inf
    high[missing] = np.inf
    # Shape (2, n_cells): both ends of a value belong to it; a missing cell has none.
    closed = np.tile(~missing, (2, 1))
    if len(stated.rows):
        cells = stated.cells
        ends_of_cells = ends_of(cells) if stated.are_intervals else zip(*map(ends_of, cells))
        *ends, holds_low, holds_high = ends_of_cells
        low[stated.rows], high[stated.rows] = ends
        closed[:, stated.rows] = holds_low, holds_high
    return Ranges(low, high, closed)


def filled_numbers(cells: Ranges, weight: Floats, random_state: np.random.RandomState) -> Floats:
    """The values of a column, draws from its law within its ranges, and NaN where it is missing."""
    filled = np.full(len(weight), np.nan)
    # Cells without any end are missing, and stay so.
    stated_cells = np.flatnonzero(np.isfinite(cells.low) | np.isfinite(cells.high))
    filled[stated_cells] = filled_ranges(
        cells.take(stated_cells), weight[stated_cells], random_state
    )
    return filled


def filled_codes(
    codes: Floats, held: Bools, rows: Ints, weight: Floats, random_state: np.random.RandomState
) -> Floats:
    """Codes of categories with draws within sets, by the law that is most likely.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        NaN where missing or stated.
    held : bool ndarray of shape (n_stated, n_states)
        The states of each set.
    rows : ndarray of shape (n_stated,)
        Their rows.
    weight : ndarray of shape (n_rows,)
    random_state : RandomState
    """
    known = ~np.isnan(codes)
    n_states = held.shape[1]
    count = np.bincount(codes[known].astype(np.intp), weight[known], n_states)
    # A known cell is a set of one state.
    sets = Sets(np.vstack([np.eye(n_states, dtype=bool), held]))
    # Probability of each state of each set, up to a factor: (n_stated, n_states).
    share = held * self_consistent(sets, np.append(count, weight[rows]), n_states)
    filled = codes.copy()
    filled[rows] = even_draws(share, random_state)
    return filled


def check_stated(table: Any, stated: dict[int, Stated], names: Any) -> None:
    """Refuse ranges and sets that do not suit the columns of the table they were split from.

    Raises
    ------
    ValueError
        If a range or set is empty, or does not suit its column.
    """
    for place, stated_column in stated.items():
        values = values_of(table, place)
        refuse_wrong(stated_column, place, names, values)


def filled_table(
    table: Any, stated: dict[int, Stated], weight: Floats, random_state: np.random.RandomState
) -> Any:
    """A table in which draws from the laws of columns stand for ranges and sets.

    Parameters
    ----------
    table, stated
        As :func:`split_ranges` returns them.
    weight : ndarray of shape (n_rows,)
        Positive.
    random_state : RandomState
    """
    columns: dict[int, NDArray[Any]] = {}
    for place, stated_column in stated.items():
        values = values_of(table, place)
        if are_categories(values, stated_column):
            # Which categories there are is all that a domain learns of sets: each of them in turn.
            filled = values.astype(object)
            members = [sorted(cell) for cell in stated_column.cells]
            filled[stated_column.rows] = [
                each[turn % len(each)] for turn, each in enumerate(members)
            ]
            columns[place] = _as_numbers(filled)
        else:
            cells = ranges_of(values.astype(np.float64), stated_column)
            columns[place] = filled_numbers(cells, weight, random_state)
    return with_columns(table, columns)
