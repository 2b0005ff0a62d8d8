"""Tables of arrays, pandas and polars: their columns read as numbers or strings, and written back.

Dtypes are kept in pickles as plain strings, numbers and lists: so a saved model needs no class of
pandas or polars, and can be read without trust in its source.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints, taken
from skpc._validation import (
    are_large,
    check_finite,
    column_of,
    describe_column,
    frame_library,
    join_columns,
    missing_cells,
    objects_of,
    read_cells,
    rounded_integer,
    unmasked,
)
from skpc.variables.dates import Calendar, as_dates
from skpc.variables.ranks import Ranks

#: What dtypes of polars are made with.
_MADE_WITH = ("precision", "scale", "time_unit", "time_zone")
#: How cells are numbers, and written back.
Scale = Calendar | Ranks
#: Name of a dtype, and what it was made with.
_Description = tuple[Any, ...]


@dataclass(frozen=True)
class Form:
    """How a table looks from outside: enough to build another one like it.

    Attributes
    ----------
    library : str
        "numpy", "pandas" or "polars".
    names : tuple or None
        Column names of a DataFrame.
    dtypes : tuple
        Descriptions of the column dtypes of a DataFrame. They have no classes of its library:
        skops cannot save all of these, and would ask whether to trust the others.
    """

    library: str
    names: tuple[Any, ...] | None = None
    dtypes: tuple[_Description, ...] = ()

    @classmethod
    def from_table(cls, table: Any) -> Form:
        """Describe a table."""
        library = frame_library(table)
        if library is None:
            return cls("numpy")
        dtypes = tuple(_described(library, dtype) for dtype in table.dtypes)
        return cls(library, tuple(table.columns), dtypes)

    def taken(self, order: Ints) -> Form:
        """The form of a table with its columns in another order."""
        return Form(self.library, taken(self.names, order), taken(self.dtypes, order))


def _described(library: str, dtype: Any) -> _Description:
    """The dtype of a column without classes of its library."""
    kind = _kind_of(dtype)
    if library == "polars":
        # The base type has the name alone, without a time unit or a time zone.
        name = str(dtype.base_type())
        if kind == "category":
            return (name, dtype.categories.to_list())
        return (name, *(getattr(dtype, made) for made in _MADE_WITH if hasattr(dtype, made)))
    import pandas as pd

    if kind == "category":
        # The states of a category have a dtype of their own, which is described in the same way.
        states = dtype.categories
        return ("category", states.tolist(), _described(library, states.dtype), bool(dtype.ordered))
    # The name of a dtype of strings tells neither its storage nor what a missing cell is.
    if isinstance(dtype, pd.StringDtype):
        return ("string", dtype.storage, dtype.na_value is pd.NA)
    return (str(dtype),)


def _restored(library: str, description: _Description) -> Any:
    """The dtype that was described."""
    name, *made_with = description
    if library == "polars":
        import polars as pl

        dtype = getattr(pl, name, None)
        # A file must not choose any other thing to call.
        if not isinstance(dtype, type) or not issubclass(dtype, pl.DataType):
            raise ValueError(f"The dtype of a column must be one of polars; found {name!r}.")
        return dtype(*made_with)
    import pandas as pd

    if name == "category":
        states, inner, ordered = made_with
        return pd.CategoricalDtype(pd.Index(states, dtype=_restored(library, inner)), ordered)
    if name == "string" and made_with:
        storage, is_na = made_with
        # Only strings whose missing cells are NaN must ask for that: pandas.NA is the default.
        return pd.StringDtype(storage) if is_na else pd.StringDtype(storage, na_value=np.nan)
    return pd.api.types.pandas_dtype(name)


def _kind_of(dtype: Any) -> str:
    """What a dtype of pandas or polars holds, by numpy's letters; "category" if it lists states.

    The letters "b", "i", "u" and "f" stand for bools and numbers, "M" and "m" for dates.
    """
    # Only dtypes of polars know their base type.
    if not hasattr(dtype, "base_type"):
        return "category" if str(dtype) == "category" else dtype.kind
    name = str(dtype.base_type())
    if name in {"Enum", "Boolean"}:
        return "category" if name == "Enum" else "b"
    if dtype.is_numeric():
        return "i" if dtype.is_integer() else "f"
    return "M" if dtype.is_temporal() else "O"


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
    bools : set of int
        Columns of True and False (as numbers 1 and 0 in ``numbers``).
    rounded : dict from column to int
        Columns with an integer that float64 does not hold, and the first of these.
    dates : dict from column to Calendar or Ranks
        Columns of dates or ordered categories, which ``numbers`` has as numbers.
    ordered : dict of int to Ranks
        Columns whose dtype orders three categories or more, and how they would be numbers.
    """

    numbers: Floats
    strings: dict[int, NDArray[np.object_]]
    declared: dict[int, list[Any] | None]
    bools: set[int]
    rounded: dict[int, int]
    dates: dict[int, Scale] = field(default_factory=dict)
    ordered: dict[int, Ranks] = field(default_factory=dict)

    def observed(self, column: int) -> Bools:
        """Which cells of a column are not missing."""
        strings = self.strings.get(column)
        # This comparison goes cell by cell, which "is not None" would not.
        return ~np.isnan(self.numbers[:, column]) if strings is None else strings != None  # noqa: E711

    @property
    def named(self) -> Bools:
        """Which columns have names for states: strings, bools, and declared categories."""
        named = [*self.strings, *self.declared, *self.bools]
        return np.isin(np.arange(self.numbers.shape[1]), named)

    def value(self, row: int, column: int) -> Any:
        """What a cell holds."""
        # A slice of one cell is still an array, whose tolist makes values of Python.
        return self.strings.get(column, self.numbers[:, column])[row : row + 1].tolist()[0]


def read_table(
    table: Any,
    dates: Mapping[int, Scale] | None = None,
    weight: Floats | None = None,
    names: Sequence[Any] | None = None,
) -> Cells:
    """Read a table that has passed ``check_table``.

    A float64 array is taken as it is, without a copy. ``dates`` says how dates are numbers; None
    learns it from the rows, which have these weights. ``names`` are those of the columns of an
    array, for errors.

    Raises
    ------
    TypeError
        If a cell is neither a number nor a string nor a date, or a column mixes these or holds
        others than in ``fit``.
    ValueError
        If a number is complex or infinite, or dates have several time zones.
    """
    table = unmasked(table)
    if isinstance(table, np.ndarray) and table.dtype.kind in "biuf" and not dates:
        # Kernels are compiled for one flavour of array; nothing is copied where it fits already.
        numbers = np.require(table, dtype=np.float64, requirements=("C", "W"))
        return Cells(numbers, {}, {}, set(), {})
    cells = Cells(np.full(table.shape, np.nan), {}, {}, set(), {})
    names = names if frame_library(table) is None else tuple(table.columns)
    for column in range(table.shape[1]):
        series = column_of(table, column)
        where = describe_column(column, names)
        # In fit, columns are searched for dates; later each is read as fit has read it.
        scale = None if dates is None else dates.get(column)
        # Columns of objects count too, as they may hold dates of Python.
        if dates is None and _kind_of(series.dtype) in {"M", "m", "O"}:
            scale = Calendar.fit(series, weight, where)
        if scale is None:
            _read_column(cells, series, column, names)
        else:
            cells.dates[column] = scale
            cells.numbers[:, column] = scale.numbers_of(series, where)
    return cells


def named_columns(table: Any) -> Bools:
    """Which columns of a table hold strings, bools, or categories that their dtype declares.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import named_columns
    >>> named_columns(np.array([["red", 0.5, 1], [None, 1.5, 0]], dtype=object))
    array([ True, False, False])
    """
    return read_table(table).named


def _read_column(cells: Cells, series: Any, column: int, names: Sequence[Any] | None) -> None:
    """Add a column to the cells: a Series, or an array of objects."""
    dtype = series.dtype
    kind = _kind_of(series.dtype)
    if hasattr(series, "sparse"):
        raise TypeError(
            "Sparse data is not supported; make the column dense (series.sparse.to_dense()). Found "
            f"dtype {dtype} in {describe_column(column, names)}."
        )
    if isinstance(series, np.ndarray) or kind not in {"b", "i", "u", "f"}:
        if kind == "category":
            states = dtype.categories.to_list()
            # Intervals, such as those of pandas.cut, have an order whatever the dtype says.
            are_intervals = hasattr(dtype.categories, "is_overlapping")
            cells.declared[column] = states = sorted(states) if are_intervals else states
            if len(states) > 2 and (are_intervals or getattr(dtype, "ordered", False)):
                cells.ordered[column] = Ranks(tuple(states))
        elif str(dtype).startswith("Categorical"):
            cells.declared[column] = None
        objects = objects_of(series)
        values, is_bool = read_cells(objects, column, names)
        if values.dtype == object:
            cells.strings[column] = values
            return
    else:
        if hasattr(series, "iloc"):
            # The many ways in which pandas marks missing cells all become NaN.
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            # As there is a Series of polars, its module has been imported.
            values = series.cast(sys.modules["polars"].Float64).to_numpy()
        check_finite(values, names, column)
        # Only large integers can have been rounded: the slow way by objects is for these.
        objects = objects_of(series) if are_large(values).any() else values
        is_bool = kind == "b"
    cells.numbers[:, column] = values
    if is_bool:
        cells.bools.add(column)
    integer = rounded_integer(objects, values)
    if integer is not None:
        cells.rounded[column] = integer


def write_table(
    columns: Sequence[NDArray[Any]],
    form: Form,
    dates: Mapping[int, Scale],
    like: Any = None,
) -> Any:
    """Build a table of a given form from columns of numbers (float64) or objects.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_rows,)
        Missing cells are NaN among numbers and None among objects.
    form : Form
        Library, names and dtypes. A dtype that cannot hold the values (an integer and NaN, an
        Enum and a foreign category) gives way to the closest one that can.
    dates : dict from column to Calendar or Ranks
        Which numbers are dates or ordered categories.
    like : DataFrame or None
        A pandas DataFrame lends its index.
    """
    if form.library == "numpy":
        # The array can only have a dtype for dates if all columns share it.
        is_array = len(dates) == len(columns) and len({d.stored for d in dates.values()}) == 1
        dated = {
            column: as_dates(columns[column], scale) if is_array else scale.objects(columns[column])
            for column, scale in dates.items()
        }
        return np.column_stack([dated.get(c, cells) for c, cells in enumerate(columns)])
    dtypes = (_restored(form.library, description) for description in form.dtypes)
    described = zip(columns, dtypes, map(dates.get, range(len(columns))))
    series = [_write_column(*scale, form.library) for scale in described]
    names = list(form.names or ()) if like is None else like.columns
    return join_columns(series, form.library, names, like)


def tabulate(values: Floats, like: Any) -> Any:
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


def fill_table(table: Any, decoded: Any) -> Any:
    """Replace the missing cells of a table by those of a decoded one; keep all others exactly."""
    library = frame_library(table)
    if library is None:
        missing = missing_cells(table)
        # Arrays of objects and of dates hold any filled cell; others take the dtype of these cells.
        filled = table.astype(table.dtype if table.dtype.kind in "OmM" else decoded.dtype)
        filled[missing] = decoded[missing]
        return filled
    fill = _fill_pandas if library == "pandas" else _fill_polars
    columns = range(table.shape[1])
    filled = [fill(column_of(table, c), column_of(decoded, c)) for c in columns]
    return join_columns(filled, library, table.columns, table)


def _fill_pandas(series: Any, source: Any) -> Any:
    missing = series.isna().to_numpy(dtype=bool)
    if not missing.any() or source.isna().all():
        return series
    if series.dtype != source.dtype:
        # The dtype cannot hold what fills it: an empty column takes the other one, a category
        # becomes wider, others become objects.
        if missing.all():
            return source
        series = series.astype(source.dtype if _kind_of(series.dtype) == "category" else object)
    return series.where(~missing, source)


def _fill_polars(series: Any, source: Any) -> Any:
    missing = series.is_null()
    # polars tells NaN from null, but both are missing cells.
    if series.dtype.is_float():
        missing = missing | series.is_nan().fill_null(False)
    if not missing.any() or source.null_count() == len(source):
        return series
    return series.cast(source.dtype).zip_with(~missing, source)


def _write_column(column: NDArray[Any], dtype: Any, calendar: Scale | None, library: str) -> Any:
    """A Series of a dtype, or of the closest one that holds the values."""
    if isinstance(calendar, Ranks):
        column = calendar.objects(column)
    elif calendar is not None:
        # Objects hold any date.
        fits = str(dtype) == "object" or _kind_of(dtype) in {"M", "m"}
        if isinstance(dtype, np.dtype) and dtype.kind in "mM":
            # A dtype of numpy has no time zone: dates that have one need a dtype of the library.
            # An empty column of dates may stand where fit had durations.
            fits = not calendar.zone and dtype.kind == np.dtype(calendar.stored).kind
        # The dates of numpy have nanoseconds, those of Python time zones.
        is_fine = calendar.zone is None and calendar.stored.endswith("[ns]")
        values = calendar.dates(column) if is_fine else calendar.objects(column).tolist()
        return sys.modules[library].Series(values, dtype=dtype if fits else None)
    kind = _kind_of(dtype)
    is_number = column.dtype == np.float64
    missing = missing_cells(column)
    if is_number and kind in {"i", "u"}:
        column = _whole_numbers(column, dtype)
    elif is_number and kind == "b":
        # A number between False and True becomes the nearer one of them.
        column = (column >= 0.5).astype(object)
        column[missing] = None
    write = _pandas_series if library == "pandas" else _polars_series
    return write(column, dtype, kind, missing)


def _whole_numbers(column: Floats, dtype: Any) -> Floats:
    """Round to the integers that a dtype can hold; NaN stays."""
    # Dtypes of pandas that have missing cells know the dtype of numpy that they are made of.
    name = str(getattr(dtype, "numpy_dtype", dtype)).lower()
    # float64 does not hold all integers of 128 bits anyway.
    limits = np.iinfo(name.replace("128", "64"))
    highest = float(limits.max)
    # The largest int64 is not a float: the next float is larger by one.
    if int(highest) > limits.max:
        highest = np.nextafter(highest, 0.0)
    return np.clip(np.rint(column), float(limits.min), highest)


def _pandas_series(column: NDArray[Any], dtype: Any, kind: str, missing: Bools) -> Any:
    import pandas as pd

    is_plain = isinstance(dtype, np.dtype)
    is_number = column.dtype == np.float64
    # Without any value, pandas could not infer the dtype.
    if missing.all() and not is_plain:
        return pd.Series([None] * len(column), dtype=dtype)
    if kind == "category":
        states = dtype.categories
        # Categories that the dtype does not list widen it; otherwise they would become missing.
        foreign = [v for v in pd.unique(column[~missing]) if v not in states]
        widened = states.append(pd.Index(foreign)) if foreign else states
        return pd.Series(pd.Categorical(column, categories=widened, ordered=dtype.ordered))
    if kind not in {"b", "i", "u", "f"}:
        # Numbers can stay where the column holds objects; else pandas infers a dtype for them.
        fits = not is_number or str(dtype) == "object"
        return pd.Series(column, dtype=dtype if fits else None)
    # Only numpy's own integers and bools cannot say "missing".
    fits = (is_number or kind == "b") and not (is_plain and kind != "f" and missing.any())
    series = pd.Series(column)
    return series.astype(dtype) if fits else series


def _polars_series(column: NDArray[Any], dtype: Any, kind: str, missing: Bools) -> Any:
    import polars as pl

    # Without any value, polars could not infer the dtype.
    if missing.all():
        return pl.Series([None] * len(column), dtype=dtype)
    if column.dtype == np.float64:
        series = pl.Series(column, nan_to_null=True)
        return series.cast(dtype) if dtype.is_numeric() else series
    series = pl.Series(column.tolist(), strict=False)
    if kind == "category":
        states = dtype.categories
        foreign = series.filter(~series.is_in(states.to_list())).drop_nulls().unique()
        # Foreign categories are sorted, so that the dtype does not depend on the order of rows.
        return series.cast(pl.Enum([*states, *foreign.sort()]))
    is_text = series.dtype == pl.String
    fits = dtype in (pl.String, pl.Categorical) if is_text else dtype == pl.Boolean
    return series.cast(dtype) if fits else series
