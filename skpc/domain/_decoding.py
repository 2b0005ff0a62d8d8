"""From encoded rows back to tables of the user's kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import column_of, frame_library, join_columns, unmasked
from skpc.domain._states import column_numbers, decode_column
from skpc.domain._tables import Form, cells_of, fill_table, read_table, write_table
from skpc.domain._unseen import Unseen


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
        form = self.form if like is None else Form.from_table(like)
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
        names, n_columns = self.feature_names or (), len(self.categories)
        if hasattr(given, "to_frame") and hasattr(given, "index"):
            given = given.to_frame().T
        if names and frame_library(given) is not None:
            unknown = [name for name in given.columns if name not in names]
            if unknown:
                raise ValueError(
                    f"given names {unknown[0]!r}, which is not a column of X; its columns are "
                    f"{list(names)!r}."
                )
            cells = cells_of(given, names)
        elif isinstance(given, Mapping):
            cells = np.full((1, n_columns), None, dtype=object)
            columns = column_numbers(np.array([*given]), n_columns, self.feature_names, "given")
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


def one_hot(domain: TableWriter, rows: Floats) -> Floats:
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
