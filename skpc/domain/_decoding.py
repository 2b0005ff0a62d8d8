"""From encoded rows back to tables of the user's kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import frame_library, unmasked
from skpc.domain._codes import decode_column
from skpc.domain._columns import column_numbers
from skpc.domain._tables import Form, read_table
from skpc.domain._unseen import Unseen
from skpc.domain._writing import (
    fill_table,
    frame_of,
    insert_column,
    with_all_columns,
    write_table,
)


class TableWriter:
    """The half of a domain that writes tables; a subclass has the attributes."""

    form: Form
    categories: tuple[NDArray[Any] | None, ...]
    unseen: Unseen

    @property
    def feature_names(self) -> tuple[Any, ...] | None:
        """Column names, where the domain was fitted on a DataFrame."""
        return self.form.names

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
        form = self.form if like is None else Form.of(like)
        if form.library == "numpy" and self._holds_codes:
            return rows
        columns = [
            decode_column(rows[:, column], self.unseen.written(column, states))
            for column, states in enumerate(self.categories)
        ]
        return write_table(columns, form, like)

    def name(self, rows: Floats, random_state: np.random.RandomState, given: Any = None) -> Floats:
        """Encoded rows that :meth:`decode` gives names, in the columns that name rows.

        The names are drawn, unless the only row of the table ``given`` has one that is known.
        """
        strings = {} if given is None else read_table(given).strings
        known = {column: cells[0] for column, cells in strings.items()}
        return self.unseen.draw_names(rows, random_state, known)

    def fill(self, table: Any, rows: Floats) -> Any:
        """Fill the missing cells of a table from encoded rows.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it. Every cell that is not missing keeps its exact value,
            unknown categories included; a DataFrame keeps its index. It is never modified.
        rows : ndarray of shape (n_rows, n_features), float64
            Encoded rows; only the cells that ``table`` lacks are read.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
        """
        return fill_table(table, self.decode(rows, like=table))

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
        return write_table(list(values.T), Form.of(like).with_floats(), like)

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
        names = list(self.feature_names or ())
        lacking = names[:column] + names[column + 1 :]
        if not names or list(Form.of(table).names or ()) != lacking:
            return table
        return insert_column(table, column, self.decode(np.zeros((len(table), len(names)))))

    def row(self, given: Any) -> Any:
        """One row of a table, as a table; by name, and perhaps without some columns.

        Parameters
        ----------
        given : dict, array-like, pandas Series or DataFrame
            One row. A dict has columns (names or numbers) and their values. A dict, a Series or a
            DataFrame may lack columns: these cells are missing.

        Returns
        -------
        table : DataFrame or array-like
            A DataFrame with all columns where the domain was fitted on one.

        Raises
        ------
        ValueError
            If a dict names a column that is not there, or there are not as many cells as columns.
        """
        if isinstance(given, Mapping):
            given = self._cells_of(given)
        if hasattr(given, "to_frame") and hasattr(given, "index"):
            given = given.to_frame().T
        given = unmasked(given)
        given = [list(given)] if np.ndim(given) == 1 else given
        names, n_columns = self.feature_names, len(self.categories)
        if frame_library(given) is None and np.shape(given)[1:] != (n_columns,):
            raise ValueError(
                f"given must be one row of {n_columns} cells, NaN or None in the columns to draw, "
                f"or a dict from columns to their values; found {np.size(given)} cells"
            )
        if names is None:
            return given
        if frame_library(given) is None:
            given = frame_of(given, names, self.form.library)
        if frame_library(given) is not None and set(given.columns) <= set(names):
            given = with_all_columns(given, names)
        return given

    def _cells_of(self, given: Mapping[Any, Any]) -> list[Any]:
        """A row with the cells that a dict gives, None elsewhere."""
        cells: list[Any] = [None] * len(self.categories)
        numbers = column_numbers(np.array([*given]), len(cells), self.feature_names, "given")
        for column, value in zip(numbers.tolist(), given.values()):
            cells[column] = value
        return cells

    @cached_property
    def _holds_codes(self) -> bool:
        """Whether every category is its own state code."""
        return all(
            states is None
            or (states.dtype == np.float64 and np.array_equal(states, np.arange(len(states))))
            for states in self.categories
        )
