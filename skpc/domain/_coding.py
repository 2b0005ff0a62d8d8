"""From tables to encoded rows, and back to tables of the user's kind."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats
from skpc._validation import (
    column_of,
    describe_column,
    frame_library,
    join_columns,
    objects_of,
    refuse_rounded,
    unmasked,
)
from skpc.domain._faces import Face
from skpc.domain._rows import all_are_cells
from skpc.domain._states import (
    column_numbers,
    columns_named,
    decode_column,
    encode_numbers,
    encode_strings,
)
from skpc.domain._tables import Cells, Form, fill_table, read_table, write_table
from skpc.domain._unseen import LogMass, Unseen
from skpc.variables import Axis, Number


@dataclass(frozen=True, repr=False, eq=False)
class TableCoder:
    """The half of a domain that reads and writes tables; the attributes are those of Domain."""

    form: Form
    categories: tuple[NDArray[Any] | None, ...]
    axes: tuple[Axis | None, ...] | None
    handle_unknown: str
    unseen: Unseen
    numbers: tuple[Number | None, ...] | None = None
    why: tuple[str, ...] = ()

    @property
    def feature_names(self) -> tuple[Any, ...] | None:
        """Column names, where the domain was fitted on a DataFrame."""
        return self.form.names

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.categories)

    @cached_property
    def is_categorical(self) -> Bools:
        """Which columns are categorical, shape (n_features,)."""
        return np.array([states is not None for states in self.categories])

    def labels(self, column: int) -> Any:
        """What the codes, or the ranks, of a column stand for; None for other numbers."""
        return getattr(self.form.dates.get(column), "labels", self.categories[column])

    @cached_property
    def is_ordered(self) -> Bools:
        """Which columns of numbers have ordered states: few values, with nothing between them."""
        return np.isin(np.arange(self.n_features), [*self._ordered])

    @cached_property
    def _ordered(self) -> dict[int, Number]:
        """The columns of ordered states."""
        numbers = enumerate(self.numbers or ())
        return {v: number for v, number in numbers if number is not None and number.is_ordered}

    @cached_property
    def log_seen(self) -> Floats:
        """Log probability (nats) that a cell holds a state known from fit, shape (n_features,).

        It is 0 in columns of numbers that have no states.
        """
        share = self.unseen.mass.copy()
        for column, number in self._ordered.items():
            share[column] = number.unseen
        for face in self.unseen.faces:
            share[face.column] = share[face.source]
        return np.log1p(-share)

    def within_ends(self, rows: Floats) -> Floats:
        """Encoded rows whose numbers lie between the ends of their columns, or are states."""
        rows = rows.copy()
        for column, number in enumerate(self.numbers or ()):
            if number is not None:
                values = np.clip(rows[:, column], *number.ends)
                rows[:, column] = number.values(values) if number.is_ordered else values
        return rows

    def encode(self, table: Any) -> Floats:
        """Translate a table to encoded rows.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it. It is never modified.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64, C-contiguous
            State codes of categories, the values of numeric columns (the nearest state in a column
            of ordered states), NaN where missing; 0 in a column that no learner sees. A float64
            array that is encoded already is returned itself: treat the result as read-only.

        Raises
        ------
        ValueError
            If a column holds strings where it held numbers in ``fit`` or the other way round, an
            integer beyond 2**53 as a category, or an unknown category while
            ``handle_unknown="error"``.
        """
        return self._encode_cells(read_table(table, self.form.dates))[0]

    def numbers_in(self, table: Any) -> Floats:
        """The numbers of a table before any of them counts as the nearest state; NaN elsewhere."""
        return read_table(table, self.form.dates).numbers

    def checked(self, rows: Any) -> Floats:
        """Encoded rows as kernels read them, every cell being one that its column can have.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            As :meth:`encode` returns them.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64, C-contiguous

        Raises
        ------
        ValueError
            If this is no array of numbers of as many columns, a category is no code of a state, or
            a number is infinite.
        """
        is_numbers = isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"
        if not is_numbers or rows.shape[1:] != (self.n_features,):
            kind = f" of {rows.dtype}" if isinstance(rows, np.ndarray) else ""
            raise ValueError(
                "rows must be encoded rows (domain.encode makes them), an array of numbers of "
                f"shape (n_rows, {self.n_features}), got {type(rows).__name__}{kind} of shape "
                f"{np.shape(rows)}"
            )
        rows = np.require(rows, np.float64, ("C", "W"))
        if not all_are_cells(rows, self._n_codes):
            self._refuse_cells(rows)
        return rows

    def encode_with_mass(self, table: Any) -> tuple[Floats, LogMass]:
        """Translate a table to encoded rows, and say what the states do not.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As for :meth:`encode`.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64
            As from :meth:`encode`.
        mass : LogMass
            What the cells add to log densities of the encoded rows, those without the states that
            were not seen (``mass.known(rows)``). With ``handle_unknown="unseen"`` a warning
            names the first category that was not seen.
        """
        cells = read_table(table, self.form.dates)
        rows, unknown = self._encode_cells(cells)
        if self.handle_unknown == "unseen":
            # Another number than those of ordered states is nothing unusual, unless faces tell it.
            sources = {face.source for face in self.unseen.faces}
            quiet = self._ordered.keys() - sources
            told = {v: is_unknown for v, is_unknown in unknown.items() if v not in quiet}
            self.unseen.warn_of_unseen(told, cells, self.feature_names)
        return rows, self.unseen.log_mass(unknown, cells, self._ordered)

    def decode(self, rows: Floats, like: Any = None) -> Any:
        """Translate encoded rows back to a table in original units.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features), float64
        like : DataFrame or ndarray, default=None
            The table whose library, names, dtypes and index to follow; by default those of the
            table that the domain was fitted on.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            An array is float64 where every column is numeric, else object. Numbers are rounded
            where the dtype holds integers. Where nothing changes this is ``rows`` itself.
        """
        form = self.form if like is None else Form.from_table(like)
        if form.library == "numpy" and self._holds_codes and not self.form.dates:
            return rows
        columns = []
        for column, states in enumerate(self.categories):
            codes, face = rows[:, column], self.unseen.face_of.get(column)
            if face is None:
                columns.append(decode_column(codes, self.unseen.written(column, states)))
                continue
            # A face with a state of its own has the number of it and one, as names of rows do.
            place = np.where(codes > 0.0, codes - 1.0, face.places(rows[:, face.source]))
            columns.append(decode_column(place, face.values))
        return write_table(columns, form, self.form.dates, like)

    def name(self, rows: Floats, random_state: np.random.RandomState, given: Any = None) -> Floats:
        """Encoded rows that :meth:`decode` gives names, in the columns that name rows.

        The names are drawn, unless the only row of the table ``given`` has one that is known.
        """
        strings = {} if given is None else read_table(given, self.form.dates).strings
        rows = rows.copy()
        for column, names in enumerate(self.unseen.names):
            if names is not None:
                number = np.flatnonzero(names == strings.get(column, [None])[0])
                if not len(number):
                    number = random_state.randint(len(names), size=len(rows))
                rows[:, column] = number + 1.0
        return rows

    def fill(self, table: Any, rows: Floats) -> Any:
        """Fill the missing cells of a table from encoded rows.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it. Every cell that is not missing keeps its exact value,
            unknown categories included; a DataFrame keeps its index. It is never modified.
        rows : ndarray of shape (n_rows, n_features), float64
            Encoded rows; only the cells that ``table`` lacks are read. Numbers do not cross the
            ends of their columns, and become the nearest of ordered states.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
        """
        return fill_table(table, self.decode(self.within_ends(rows), like=table))

    def tabulate(self, values: Floats, like: Any) -> Any:
        """Write one number for each cell of a table as a table of the same kind.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_features), float64
            NaN where a cell has no number.
        like : DataFrame or ndarray of shape (n_rows, n_features)
            The table that the numbers are about.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            With the names and the index of ``like``, and columns of float64.
        """
        library = frame_library(like)
        return values if library is None else join_columns([*values.T], library, like.columns, like)

    def with_column(self, table: Any, column: int) -> Any:
        """Put anything that is known in the place of a column that a DataFrame lacks.

        Parameters
        ----------
        table : DataFrame or array-like
            As a user passes it. It is never modified.
        column : int
            Number of the column.

        Returns
        -------
        table : DataFrame or array-like
            With the column, if just that one was missing from a DataFrame; else as it came.
        """
        names, library = list(self.feature_names or ()), frame_library(table)
        if library is None or list(table.columns) != names[:column] + names[column + 1 :]:
            return table
        columns = [column_of(table, position) for position in range(len(names) - 1)]
        known = column_of(self.decode(np.zeros((len(table), len(names)))), column)
        if self.form.library != library:
            known = known.to_list()
        # The array of a pandas Series knows no index.
        columns.insert(column, getattr(known, "array", known))
        return join_columns(columns, library, names, table)

    def row(self, given: Any) -> NDArray[np.object_]:
        """One row of a table, as an array of its cells; perhaps without some columns.

        Parameters
        ----------
        given : dict, array-like, pandas Series or DataFrame
            One row. A dict has columns (names or numbers) and their values. A dict, a Series or a
            DataFrame may lack columns: these cells are missing.

        Returns
        -------
        cells : ndarray of shape (1, n_features), object

        Raises
        ------
        ValueError
            If it names a column that is not there, or there are not as many cells as columns.
        """
        names, n_columns = self.feature_names, self.n_features
        if hasattr(given, "to_frame") and hasattr(given, "index"):
            given = given.to_frame().T
        if names is not None and frame_library(given) is not None:
            cells = np.full((len(given), n_columns), None, dtype=object)
            for place, column in enumerate(columns_named([*given.columns], names, "given")):
                cells[:, column] = objects_of(column_of(given, place))
        elif isinstance(given, Mapping):
            cells = np.full((1, n_columns), None, dtype=object)
            columns = column_numbers(np.array([*given]), n_columns, names, "given")
            for column, value in zip(columns.tolist(), given.values()):
                cells[0, column] = value
        else:
            cells = np.atleast_2d(np.asarray(unmasked(given), dtype=object))
        if cells.shape[1:] != (n_columns,):
            raise ValueError(
                f"given must be one row of {n_columns} cells, NaN or None in the columns to draw, "
                f"or a dict from columns to their values; found {np.size(given)} cells"
            )
        if len(cells) != 1:
            raise ValueError(
                f"given must have exactly one row, got {len(cells)}; pass X[[i]], or X.iloc[[i]] "
                "of a DataFrame"
            )
        return cells

    @cached_property
    def _holds_codes(self) -> bool:
        """Whether every category is its own state code."""
        return all(
            states is None
            or (states.dtype == np.float64 and np.array_equal(states, np.arange(len(states))))
            for states in self.categories
        )

    @cached_property
    def _n_codes(self) -> Floats:
        """Number of states of each column, 0 for a numeric one."""
        n_codes = [0 if states is None else len(states) for states in self.categories]
        return np.array(n_codes, dtype=np.float64)

    def _encode_cells(self, cells: Cells) -> tuple[Floats, dict[int, Bools]]:
        """Encoded rows, and which rows hold an unknown state in which columns."""
        rows, unknown = self._encode_categories(cells)
        for column, number in self._ordered.items():
            values = cells.numbers[:, column]
            is_unknown = ~np.isnan(values) & ~number.is_atom(values)
            if is_unknown.any():
                unknown[column] = is_unknown
                rows = rows.copy() if rows is cells.numbers else rows
                rows[is_unknown, column] = number.values(values[is_unknown])
        for face in self.unseen.faces:
            contradicts = face.join(rows, unknown, cells)
            if self.handle_unknown == "error" and contradicts.any():
                self._refuse_contradiction(face, cells, int(contradicts.argmax()))
            if self.handle_unknown == "missing" and contradicts.any():
                unknown[face.source] = unknown[face.source] & ~contradicts
        return rows, unknown

    def _refuse_contradiction(self, face: Face, cells: Cells, row: int) -> None:
        one, two = (describe_column(v, self.feature_names) for v in (face.source, face.column))
        found = cells.value(row, face.source), cells.value(row, face.column)
        raise ValueError(
            f"{one} and {two} must hold cells that belong together as in fit, where each "
            f"determines the other; found {found[0]!r} and {found[1]!r}, row {row}. Correct one, "
            "make it missing, or use handle_unknown='unseen' or 'missing'."
        )

    def _encode_categories(self, cells: Cells) -> tuple[Floats, dict[int, Bools]]:
        """Encoded rows, and which rows hold an unknown category in which columns."""
        unknown: dict[int, Bools] = {}
        if not cells.strings and self._holds_codes and all_are_cells(cells.numbers, self._n_codes):
            return cells.numbers, unknown
        rows = cells.numbers.copy()
        rows[:, self.unseen.is_hidden] = 0.0
        for column in np.flatnonzero(~self.unseen.is_empty).tolist():
            names, strings = self.unseen.names[column], cells.strings.get(column)
            face = self.unseen.face_of.get(column)
            states = self.categories[column] if names is None else names
            if names is None:
                self._refuse_other_kind(cells, column, states if face is None else face.values)
            if face is not None:
                continue
            if states is None or (strings is None and states.dtype == object):
                continue
            if strings is None:
                refuse_rounded(cells.rounded.get(column), column, self.feature_names)
                codes = encode_numbers(cells.numbers[:, column], states)
            else:
                codes = encode_strings(strings, states)
            is_unknown = np.isnan(codes) & cells.observed(column)
            if is_unknown.any():
                unknown[column] = is_unknown
            if names is None:
                rows[:, column] = codes
        if self.handle_unknown == "error":
            self._refuse_unknown(cells, unknown)
        return rows, unknown

    def _refuse_cells(self, rows: Floats) -> None:
        is_code = (rows >= 0.0) & (rows < self._n_codes) & (rows == np.floor(rows))
        is_cell = np.where(self.is_categorical, is_code, np.isfinite(rows)) | np.isnan(rows)
        row, column = np.argwhere(~is_cell)[0].tolist()
        states = self.categories[column]
        wanted = (
            "finite" if states is None else f"the codes 0, ..., {len(states) - 1} of its states"
        )
        raise ValueError(
            f"Encoded rows (domain.encode makes them) must be {wanted} in "
            f"{describe_column(column, self.feature_names)}, NaN where missing; found "
            f"{rows[row, column]} in row {row}."
        )

    def _refuse_other_kind(self, cells: Cells, column: int, states: Any) -> None:
        was_string = states is not None and states.dtype == object
        is_string = column in cells.strings
        if was_string == is_string or (not is_string and np.isnan(cells.numbers[:, column]).all()):
            return
        kinds = ("numbers", "strings")
        value = cells.value(int(cells.observed(column).argmax()), column)
        raise ValueError(
            f"{describe_column(column, self.feature_names)} must hold {kinds[was_string]} as in "
            f"fit (or in its declared categories); found {kinds[is_string]} such as {value!r}."
        )

    def _refuse_unknown(self, cells: Cells, unknown: Mapping[int, Bools]) -> None:
        for column, is_unknown in unknown.items():
            if self.unseen.names[column] is None:
                row = int(is_unknown.argmax())
                raise ValueError(
                    f"Found the unknown category {cells.value(row, column)!r} in "
                    f"{describe_column(column, self.feature_names)}, row {row}; its categories are "
                    f"{shorten(self.categories[column])}. Declare it in categories, or use "
                    "handle_unknown='unseen' or 'missing'."
                )


def one_hot(domain: TableCoder, rows: Floats) -> Floats:
    """Numbers as they are, an indicator for each category; NaN where the cell is missing.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, or others with the same categories.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain, one_hot
    >>> table = np.array([["red", 0.5], ["blue", 2.5]], dtype=object)
    >>> domain = Domain.fit(table)
    >>> one_hot(domain, domain.encode(table))
    array([[0. , 1. , 0.5],
           [1. , 0. , 2.5]])
    """
    columns = []
    for column, states in zip(rows.T[:, :, np.newaxis], domain.categories):
        is_state = None if states is None else column == np.arange(len(states))
        columns.append(column if is_state is None else np.where(np.isnan(column), np.nan, is_state))
    return np.hstack(columns)


def shorten(states: NDArray[Any] | None) -> str:
    """The first states of a column, for error messages."""
    return reprlib.repr([] if states is None else states.tolist())
