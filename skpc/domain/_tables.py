"""Reading the columns of a table as numbers or strings, whatever library the table is of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import (
    are_large,
    check_finite,
    column_of,
    describe_column,
    frame_library,
    read_cells,
    rounded_integer,
    unmasked,
)
from skpc.domain._dtypes import describe_dtype, restore_dtype


@dataclass(frozen=True)
class Form:
    """How a table looks from outside: enough to build another one like it.

    Attributes
    ----------
    library : str
        "numpy", "pandas" or "polars".
    names : tuple or None
        Column names of a DataFrame.
    dtypes : tuple or None
        Column dtypes of a DataFrame.
    """

    library: str
    names: tuple[Any, ...] | None = None
    dtypes: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, table: Any) -> "Form":
        """Describe a table."""
        library = frame_library(table)
        if library is None:
            return cls("numpy")
        return cls(library, tuple(table.columns), tuple(table.dtypes))

    def with_floats(self) -> "Form":
        """The form of a table of the same kind whose columns are all float64."""
        if self.dtypes is None:
            return self
        plain = "float64" if self.library == "pandas" else "Float64"
        return replace(self, dtypes=(restore_dtype(self.library, (plain,)),) * len(self.dtypes))

    def __getstate__(self) -> dict[str, Any]:
        # Without the classes of the library: skops cannot save all of them, and would ask whether
        # to trust the others.
        described = tuple(describe_dtype(self.library, dtype) for dtype in self.dtypes or ())
        return {"library": self.library, "names": self.names, "dtypes": described}

    def __setstate__(self, state: dict[str, Any]) -> None:
        dtypes = tuple(restore_dtype(state["library"], plain) for plain in state["dtypes"])
        # The class is frozen.
        vars(self).update(state, dtypes=dtypes if state["names"] is not None else None)


@dataclass(frozen=True)
class Cells:
    """The contents of a table.

    Attributes
    ----------
    numbers : ndarray of shape (n_rows, n_features), float64
        Numbers; NaN where missing, and throughout a column of strings.
    strings : dict from column to ndarray of shape (n_rows,), object
        Columns of strings; None where missing.
    declared : dict from column to list or None
        Columns whose dtype is a category; None where the dtype does not list the categories.
    bools : frozenset of int
        Columns of True and False (as numbers 1 and 0 in ``numbers``).
    rounded : dict from column to int
        Columns with an integer that float64 does not hold, and the first of these.
    """

    numbers: Floats
    strings: dict[int, NDArray[np.object_]]
    declared: dict[int, list[Any] | None]
    bools: frozenset[int]
    rounded: dict[int, int]


def read_table(table: Any) -> Cells:
    """Read a table that has passed ``check_table``.

    A float64 array is taken as it is, without a copy.

    Raises
    ------
    TypeError
        If a cell is neither a number nor a string, or a column mixes the two.
    ValueError
        If a number is complex or infinite.
    """
    table = unmasked(table)
    if isinstance(table, np.ndarray) and table.dtype != object:
        # Kernels are compiled for one flavour of array; nothing is copied where it fits already.
        numbers = np.require(table, dtype=np.float64, requirements=("C", "W"))
        return Cells(numbers, {}, {}, frozenset(), {})
    form, numbers = Form.of(table), np.full(table.shape, np.nan)
    strings: dict[int, NDArray[np.object_]] = {}
    declared: dict[int, list[Any] | None] = {}
    rounded: dict[int, int] = {}
    bools = set()
    for column in range(table.shape[1]):
        read = _READERS[form.library](table, column, form.names)
        values, is_bool, is_category, categories, integer = read
        if values.dtype == object:
            strings[column] = values
        else:
            numbers[:, column] = values
        if is_bool:
            bools.add(column)
        if is_category:
            declared[column] = categories
        if integer is not None:
            rounded[column] = integer
    return Cells(numbers, strings, declared, frozenset(bools), rounded)


# Values; whether they are bools; whether the dtype is a category, and the categories it lists; the
# first integer that the values do not hold.
_Read = tuple[NDArray[Any], bool, bool, list[Any] | None, int | None]


def _read_column(
    cells: NDArray[np.object_],
    column: int,
    names: Sequence[Any] | None,
    is_category: bool = False,
    categories: list[Any] | None = None,
) -> _Read:
    values, is_bool = read_cells(cells, column, names)
    return values, is_bool, is_category, categories, rounded_integer(cells, values)


def _read_objects(table: NDArray[np.object_], column: int, names: Sequence[Any] | None) -> _Read:
    return _read_column(table[:, column], column, names)


def _read_pandas(table: Any, column: int, names: Sequence[Any] | None) -> _Read:
    import pandas as pd

    series = column_of(table, column)
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        cells = np.asarray(series.astype(object), dtype=object)
        return _read_column(cells, column, names, True, dtype.categories.tolist())
    if isinstance(dtype, pd.SparseDtype):
        raise TypeError(
            "Sparse data is not supported; make the column dense (series.sparse.to_dense()). Found "
            f"dtype {dtype} in {describe_column(column, names)}."
        )
    is_number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    if not is_number:
        return _read_column(series.to_numpy(dtype=object), column, names)
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    check_finite(values, names, column)
    integer = None
    if pd.api.types.is_integer_dtype(dtype):
        large = are_large(values)
        integer = rounded_integer(series[large].to_numpy(dtype=object), values[large])
    return values, pd.api.types.is_bool_dtype(dtype), False, None, integer


def _read_polars(table: Any, column: int, names: Sequence[Any] | None) -> _Read:
    import polars as pl

    series = column_of(table, column)
    dtype = series.dtype
    if dtype == pl.Boolean or dtype.is_numeric():
        values = series.cast(pl.Float64).to_numpy()
        check_finite(values, names, column)
        large = are_large(values) & dtype.is_integer()
        integer = rounded_integer(_objects(series.filter(large)), values[large])
        return values, dtype == pl.Boolean, False, None, integer
    categories = dtype.categories.to_list() if isinstance(dtype, pl.Enum) else None
    is_category = isinstance(dtype, pl.Enum | pl.Categorical)
    return _read_column(_objects(series), column, names, is_category, categories)


def _objects(series: Any) -> NDArray[np.object_]:
    """The cells of a polars Series."""
    cells = np.empty(len(series), dtype=object)
    cells[:] = series.to_list()
    return cells


_READERS = {"numpy": _read_objects, "pandas": _read_pandas, "polars": _read_polars}
