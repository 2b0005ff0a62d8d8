"""Writing decoded columns as a table of the user's library, with the user's dtypes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import column_of, frame_library, missing_cells
from skpc.domain._tables import Form

Column = NDArray[Any]


def write_table(columns: Sequence[Column], form: Form, like: Any = None) -> Any:
    """Build a table of a given form from columns of numbers (float64) or objects.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_rows,)
        Missing cells are NaN among numbers and None among objects.
    form : Form
        Library, names and dtypes. A dtype that cannot hold the values (an integer and NaN, an
        Enum and a foreign category) gives way to the closest one that can.
    like : DataFrame or None
        A pandas DataFrame lends its index.
    """
    if form.library == "numpy":
        return np.column_stack(columns)
    names = form.names or ()
    dtypes = form.dtypes or ()
    if form.library == "polars":
        import polars as pl

        return pl.DataFrame(
            [
                _polars_series(column, dtype).alias(name)
                for column, dtype, name in zip(columns, dtypes, names)
            ]
        )
    import pandas as pd

    series = [_pandas_series(column, dtype) for column, dtype in zip(columns, dtypes)]
    frame = pd.concat(series, axis=1)
    frame.columns = list(names) if like is None else like.columns
    if like is not None:
        frame.index = like.index
    return frame


def fill_table(table: Any, decoded: Any) -> Any:
    """Replace the missing cells of a table by those of a decoded one; keep all others exactly."""
    library = frame_library(table)
    if library == "pandas":
        return _fill_pandas(table, decoded)
    if library == "polars":
        return table.with_columns(
            [_fill_polars(series, decoded[series.name]) for series in table.get_columns()]
        )
    is_object = table.dtype == object
    missing = missing_cells(table) if is_object else np.isnan(table)
    filled = table.astype(object if is_object else decoded.dtype)
    filled[missing] = decoded[missing]
    return filled


def insert_column(table: Any, column: int, source: Any) -> Any:
    """Put a column of another DataFrame in its place among the others."""
    series, is_same = column_of(source, column), frame_library(source) == frame_library(table)
    if frame_library(table) == "polars":
        import polars as pl

        series = series if is_same else pl.Series(series.name, series.tolist())
        return table.clone().insert_column(column, series)
    whole = table.copy(deep=False)
    whole.insert(column, series.name, series.array if is_same else series.to_list())
    return whole


def frame_of(rows: Any, names: Sequence[Any], library: str) -> Any:
    """A DataFrame of rows of cells that stand in a list or an array."""
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(rows, columns=list(names))
    import polars as pl

    columns = [[row[column] for row in rows] for column in range(len(names))]
    return pl.DataFrame(
        [pl.Series(name, cells, strict=False) for name, cells in zip(names, columns)]
    )


def with_all_columns(table: Any, names: Sequence[Any]) -> Any:
    """A DataFrame with columns of these names; those that it lacks are missing throughout."""
    if frame_library(table) == "pandas":
        return table.reindex(columns=list(names))
    import polars as pl

    return table.select(
        [pl.col(name) if name in table.columns else pl.lit(None).alias(name) for name in names]
    )


def _whole_numbers(column: Column, dtype: np.dtype[Any]) -> Floats:
    """Round to the integers that a dtype can hold; NaN stays."""
    limits = np.iinfo(dtype)
    highest = float(limits.max)
    # The largest int64 is not a float: the next float is larger by one.
    if int(highest) > limits.max:
        highest = np.nextafter(highest, 0.0)
    return np.clip(np.rint(column), float(limits.min), highest)


def _pandas_series(column: Column, dtype: Any) -> Any:
    import pandas as pd

    types = pd.api.types
    holds_numbers = column.dtype == np.float64
    missing = np.isnan(column) if holds_numbers else missing_cells(column)
    if missing.all() and not isinstance(dtype, np.dtype):
        return pd.Series([None] * len(column), dtype=dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        known = dtype.categories
        foreign = [v for v in pd.unique(column[~missing]) if v not in known]
        widened = known.append(pd.Index(foreign)) if foreign else known
        return pd.Series(pd.Categorical(column, categories=widened, ordered=dtype.ordered))
    if types.is_bool_dtype(dtype):
        cells = (column >= 0.5 if holds_numbers else column).astype(object)
        cells[missing] = None
        if missing.any() and isinstance(dtype, np.dtype):
            return pd.Series(cells, dtype=object)
        return pd.Series(cells).astype(dtype)
    if types.is_numeric_dtype(dtype):
        return _pandas_numbers(column, dtype, missing)
    if holds_numbers and not types.is_object_dtype(dtype):
        return pd.Series(column)
    return pd.Series(column, dtype=dtype)


def _pandas_numbers(column: Column, dtype: Any, missing: NDArray[np.bool_]) -> Any:
    import pandas as pd

    if column.dtype != np.float64:
        return pd.Series(column)
    if not pd.api.types.is_integer_dtype(dtype):
        return pd.Series(column).astype(dtype)
    whole = pd.Series(_whole_numbers(column, getattr(dtype, "numpy_dtype", dtype)))
    # Only numpy's own integers cannot say "missing".
    return whole if missing.any() and isinstance(dtype, np.dtype) else whole.astype(dtype)


def _fill_pandas(table: Any, decoded: Any) -> Any:
    import pandas as pd

    filled = table.copy()
    for position in range(table.shape[1]):
        series, source = table.iloc[:, position], decoded.iloc[:, position]
        missing = series.isna().to_numpy(dtype=bool)
        if not missing.any() or source.isna().all():
            continue
        if isinstance(series.dtype, pd.CategoricalDtype):
            series = series.cat.set_categories(source.cat.categories)
        elif series.dtype != source.dtype:
            series = series.astype(object)
        filled.isetitem(position, series.where(~missing, source))
    return filled


def _polars_series(column: Column, dtype: Any) -> Any:
    import polars as pl

    missing = np.isnan(column) if column.dtype == np.float64 else missing_cells(column)
    if missing.all():
        return pl.Series([None] * len(column), dtype=dtype)
    if column.dtype != np.float64:
        series = pl.Series(column.tolist(), strict=False)
        if isinstance(dtype, pl.Enum):
            known = dtype.categories
            foreign = series.filter(~series.is_in(known.to_list())).drop_nulls().unique()
            return series.cast(pl.Enum([*known, *foreign.sort()]))
        is_text = series.dtype == pl.String
        fits = dtype in (pl.String, pl.Categorical) if is_text else dtype == pl.Boolean
        return series.cast(dtype) if fits else series
    if dtype.is_integer():
        column = _whole_numbers(column, np.dtype(str(dtype).lower()))
    series = pl.Series(column).fill_nan(None)
    if dtype == pl.Boolean:
        return series >= 0.5
    return series.cast(dtype) if dtype.is_numeric() else series


def _fill_polars(series: Any, source: Any) -> Any:
    missing = series.is_null()
    if series.dtype.is_float():
        missing = missing | series.is_nan().fill_null(False)
    if not missing.any() or source.null_count() == len(source):
        return series
    return series.cast(source.dtype).zip_with(~missing, source)
