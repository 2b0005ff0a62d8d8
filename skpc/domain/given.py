"""What users give beside whole tables: single rows, and tables that lack the column asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import (
    column_of,
    frame_library,
    join_columns,
    missing_cells,
    objects_of,
    unmasked,
)
from skpc.domain._categories import shorten
from skpc.domain._declared import column_numbers, columns_named
from skpc.domain._domain import Domain
from skpc.domain._tables import read_table
from skpc.variables.dates import text_of


def as_given_row(domain: Domain, given: Any) -> NDArray[np.object_]:
    """One row of a table, as an array of its cells; perhaps without some columns.

    Parameters
    ----------
    domain : Domain
        What the columns are.
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
    names = domain.feature_names
    n_columns = domain.n_features
    # A pandas Series is one row, whose index has the names.
    if hasattr(given, "to_frame") and hasattr(given, "index"):
        given = given.to_frame().T
    if names is not None and frame_library(given) is not None:
        cells = np.full((len(given), n_columns), None, dtype=object)
        for j, column_number in enumerate(columns_named([*given.columns], names, "given")):
            cells[:, column_number] = objects_of(column_of(given, j))
    elif isinstance(given, Mapping):
        cells = np.full((1, n_columns), None, dtype=object)
        numbers = column_numbers(np.array([*given]), n_columns, names, "given")
        for column_number, value in zip(numbers.tolist(), given.values()):
            cells[0, column_number] = value
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


def encode_given(domain: Domain, row: NDArray[np.object_]) -> Floats:
    """Translate rows that are given; their columns must be able to have their cells.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    row : ndarray of shape (n_rows, n_features), object
        Such as :func:`as_given_row` returns.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features), float64
        Encoded.

    Raises
    ------
    ValueError
        If a cell holds a category that is not known, or a number outside its bounds.
    """
    cells = read_table(row, domain.calendars, names=domain.feature_names)
    rows, unknown = domain.encode_cells(cells)
    for column_number, face in domain.faces.items():
        # A face that contradicts its source, or has an unknown value, makes the source missing.
        contradicts = ~missing_cells(row[:, column_number]) & np.isnan(rows[:, face.source])
        if contradicts.any():
            wrong = row[contradicts][0]
            raise ValueError(
                f"given must have cells of {domain[face.source].where} and {face.where} "
                "that belong together as in fit, or leave one of them out; found "
                f"{wrong[face.source]!r} and {wrong[column_number]!r}."
            )
    # A cell is lost if it was given, but no number could be read from it.
    is_lost = ~missing_cells(row) & np.isnan(cells.numbers)
    for column_number in np.flatnonzero(~domain.is_hidden).tolist():
        column = domain[column_number]
        values = cells.numbers[:, column_number]
        lower, upper = (-np.inf, np.inf) if column.law is None else column.law.bounds
        is_wrong = is_lost[:, column_number] | (values < lower) | (values > upper)
        allowed = f"[{text_of(lower, column.calendar)}, {text_of(upper, column.calendar)}]"
        # Cells of categories are wrong if they have no state; strings have no numbers at all.
        if column.states is not None:
            is_wrong = unknown.get(column_number, np.zeros(len(row), dtype=bool))
            allowed = shorten(column.states)
        if is_wrong.any():
            raise ValueError(
                f"given must be in {allowed} in {column.where}, or leave the column out; "
                f"found {row[is_wrong, column_number][0]!r}."
            )
    return rows


def restore_given_numbers(domain: Domain, drawn: Floats, row: NDArray[np.object_]) -> Floats:
    """Drawn encoded rows that have the given cells of ordered states, whether seen or not."""
    # Encoding moves an unseen number to the nearest state: the given one takes its place again.
    cells = domain.numbers_in(row)[0]
    return np.where(domain.is_ordered & ~np.isnan(cells), cells, drawn)


def table_with_column(domain: Domain, table: Any, column_number: int) -> Any:
    """Put anything that is known in the place of a column that a DataFrame lacks.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    table : DataFrame or array-like
        As a user passes it. It is never modified.
    column_number : int
        Which column may be missing.

    Returns
    -------
    table : DataFrame or array-like
        With the column, if just that one was missing from a DataFrame; else as it came.
    """
    names = list(domain.feature_names or ())
    library = frame_library(table)
    present = names[:column_number] + names[column_number + 1 :]
    if library is None or list(table.columns) != present:
        return table
    columns = [column_of(table, j) for j in range(len(present))]
    # What encoded zeros stand for has the dtype that the column had in fit.
    stand_in = column_of(domain.decode(np.zeros((len(table), len(names)))), column_number)
    # The column has been made for the library of fit; any other library takes a list.
    if domain.form.library != library:
        stand_in = stand_in.to_list()
    # The array of a pandas Series knows no index.
    columns.insert(column_number, getattr(stand_in, "array", stand_in))
    return join_columns(columns, library, names, table)
