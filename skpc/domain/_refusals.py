"""Errors about the cells of tables and of encoded rows; each names the column and the cell."""

from collections.abc import Sequence

import numpy as np

from skpc._arrays import Floats
from skpc.domain._categories import shorten
from skpc.domain._column import Column
from skpc.domain._faces import Face
from skpc.domain._tables import Cells


def refuse_empty_columns(rows: Floats, columns: Sequence[Column]) -> None:
    """Raise if a column of the encoded rows of fit has no value."""
    empty = np.flatnonzero(np.isnan(rows).all(axis=0))
    if len(empty):
        column = columns[empty[0]]
        raise ValueError(
            f"No value of {column.where} is one of its declared categories "
            f"{shorten(column.states)}; correct them or drop the column."
        )


def refuse_other_kind(column: Column, cells: Cells, column_number: int) -> None:
    """Raise if a column holds strings where it held numbers in fit, or the other way round."""
    was_string = column.holds_strings
    is_string = column_number in cells.strings
    # A column without any cell can be read as either kind.
    is_empty = not is_string and np.isnan(cells.numbers[:, column_number]).all()
    if was_string is None or was_string == is_string or is_empty:
        return
    kinds = ("numbers", "strings")
    value = cells.value(int(cells.observed(column_number).argmax()), column_number)
    raise ValueError(
        f"{column.where} must hold {kinds[was_string]} as in fit (or in its declared categories); "
        f"found {kinds[is_string]} such as {value!r}."
    )


def refuse_unknown(column: Column, cells: Cells, column_number: int, row: int) -> None:
    """Raise the error for a category that is not one of those of the column."""
    raise ValueError(
        f"Found the unknown category {cells.value(row, column_number)!r} in {column.where}, row "
        f"{row}; its categories are {shorten(column.states)}. Declare it in categories, or use "
        "handle_unknown='unseen' or 'missing'."
    )


def refuse_contradiction(face: Face, source: Column, cells: Cells, row: int) -> None:
    """Raise the error for a row in which a face and its source contradict each other."""
    raise ValueError(
        f"{source.where} and {face.where} must hold cells that belong together as in fit, where "
        f"each determines the other; found {cells.value(row, face.source)!r} and "
        f"{cells.value(row, face.place)!r}, row {row}. Correct one, make it missing, or use "
        "handle_unknown='unseen' or 'missing'."
    )


def refuse_encoded(rows: Floats, columns: Sequence[Column], n_codes: Floats) -> None:
    """Raise the error for the first cell of encoded rows that its column cannot have.

    ``n_codes`` has the number of states of each column, 0 for one of numbers.
    """
    is_code = (rows >= 0.0) & (rows < n_codes) & (rows == np.floor(rows))
    is_cell = np.where(n_codes > 0.0, is_code, np.isfinite(rows)) | np.isnan(rows)
    row, column_number = np.argwhere(~is_cell)[0].tolist()
    column = columns[column_number]
    wanted = "finite"
    if column.states is not None:
        wanted = f"the codes 0, ..., {len(column.states) - 1} of its states"
    raise ValueError(
        f"Encoded rows (domain.encode makes them) must be {wanted} in {column.where}, NaN where "
        f"missing; found {rows[row, column_number]} in row {row}."
    )
