"""Which cells of a checked table are missing, and tables that lack some."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._validation import column_of, frame_library, missing_cells, objects_of


def missing_in(table: Any) -> NDArray[np.bool_]:
    """Which cells of a checked table are missing, shape (n_rows, n_features)."""
    columns = range(table.shape[1])
    return np.column_stack([missing_cells(objects_of(column_of(table, c))) for c in columns])


def without_cells(table: Any, cells: NDArray[np.bool_]) -> Any:
    """A copy of a table in which these cells are missing: NaN, or what its columns have for it."""
    library = frame_library(table)
    if library == "pandas":
        return table.mask(cells)
    if library == "polars":
        return table.with_columns(
            series.zip_with(type(series)(~empty), series.clear(len(series)))
            for series, empty in zip(table.get_columns(), cells.T)
        )
    copy = table.astype(table.dtype if table.dtype.kind in "OmM" else np.float64)
    copy[cells] = None if copy.dtype.kind in "OmM" else np.nan
    return copy


def with_cells_of(table: Any, cells: NDArray[np.bool_], other: Any) -> Any:
    """A copy of a table that has these cells from another of its kind."""
    library = frame_library(table)
    if library == "pandas":
        return table.mask(cells, other)
    if library == "polars":
        pairs = zip(table.get_columns(), other.get_columns(), cells.T)
        return table.with_columns(one.zip_with(type(one)(~some), two) for one, two, some in pairs)
    return np.where(cells, other, table)
