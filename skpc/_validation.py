"""The one door for tables and weights, and the only home of scikit-learn's private names.

A table is what a user passes as ``X``. It leaves as the pandas or polars DataFrame it is, or as
an array: float64 where every cell is a number, else objects. NaN and None mean missing.
"""

import datetime
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context as fit_context  # noqa: F401
from sklearn.utils._optional_dependencies import check_matplotlib_support  # noqa: F401
from sklearn.utils._param_validation import (  # noqa: F401
    HasMethods,
    Interval,
    RealNotInt,
    StrOptions,
    validate_params,
)
from sklearn.utils._set_output import _get_output_config as output_config  # noqa: F401
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition  # noqa: F401
from sklearn.utils.multiclass import _ovr_decision_function as decisions_of_pairs  # noqa: F401
from sklearn.utils.validation import _estimator_has as estimator_has  # noqa: F401
from sklearn.utils.validation import check_array, validate_data

from skpc._arrays import Floats
from skpc._frames import is_from, native

_CHUNKS = "Only the fit of a density takes a table in chunks"
_OTHER_COLUMNS = (
    "X needs the columns of fit, in their order; those that it lacks are missing cells. In pandas, "
    "X.reindex(columns=model.feature_names_in_) adds them and leaves out the others."
)
#: Beyond it float64 does not hold all integers, and counts lose single rows.
_EXACT = 2.0**53
#: What a cell can be, by its type; the first that fits.
_KINDS: dict[str, Any] = {
    "string": str,
    "bool": (bool, np.bool_),
    "complex": (complex, np.complexfloating),
    "date": (datetime.date, np.datetime64),
    "duration": (datetime.timedelta, np.timedelta64),
    "number": Number,
    "range": (tuple, list, set, frozenset, np.ndarray),
    "other": object,
}
KINDS_OF_DATES = {"date", "duration"}
#: What many parameters have to be.
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
WHOLE = Interval(Integral, 0, None, closed="left")
FRACTION = Interval(Real, 0, 1, closed="neither")
AUTO = StrOptions({"auto"})
N_JOBS: list[Any] = [Interval(Integral, None, -1, closed="right"), AT_LEAST_ONE, None]


def sigmoid_calibration() -> Any:
    """scikit-learn's curve from decisions to probabilities, which few programs need."""
    from sklearn.calibration import _SigmoidCalibration

    return _SigmoidCalibration()


def coefficients_of_pairs(*of_solver: Any) -> Any:
    """The coefficients of each pair of classes from those of a solver, by scikit-learn."""
    from sklearn.svm._base import _one_vs_one_coef

    return _one_vs_one_coef(*of_solver)


def hist_predictors(model: Any) -> Any:
    """The trees of boosting by histograms, one list an iteration; they have no public name."""
    return model._predictors


def frame_library(table: Any) -> str | None:
    """Name the library of a DataFrame: "pandas", "polars", or None for anything else."""
    # A DataFrame cannot exist before its library is imported, so neither is imported here.
    for library in ("pandas", "polars"):
        frame_type = getattr(sys.modules.get(library), "DataFrame", None)
        if frame_type is not None and isinstance(table, frame_type):
            return library
    return None


def unmasked(table: Any) -> Any:
    """A masked array with its masked cells missing: NaN, NaT among dates, or None.

    So are the rows of a list of masked arrays; anything else comes back as it is.
    """
    if isinstance(table, list | tuple):
        # Rows of a list may be masked one by one; other lists are left to numpy.
        rows_are_masked = any(isinstance(row, np.ma.MaskedArray) for row in table)
        return [unmasked(row) for row in table] if rows_are_masked else table
    if not isinstance(table, np.ma.MaskedArray):
        return table
    # An array without masked cells keeps its dtype.
    if not np.ma.is_masked(table):
        return table.data
    kind = table.dtype.kind
    # Integers and strings have no missing value, so that they become objects.
    cells = table.data.astype(table.dtype if kind in "fmM" else object)
    cells[table.mask] = np.nan if kind == "f" else None
    return cells


def objects_of(values: Any) -> NDArray[np.object_]:
    """The cells of a column of a table, or of a list."""
    if not hasattr(values, "to_list"):
        return np.asarray(values, dtype=object)
    # From an iterator, as numpy would make a matrix of cells that are tuples.
    return np.fromiter(values.to_list(), dtype=object, count=len(values))


def column_of(table: Any, column: int) -> Any:
    """One column of an array or a DataFrame, by its number."""
    return getattr(table, "iloc", table)[:, column]


def as_precise(table: Any, X: Any) -> Any:
    """A table that comes from ``X``, in float32 where that is an array of float32."""
    return table.astype(X.dtype) if getattr(X, "dtype", None) == np.float32 else table


def join_columns(
    columns: Sequence[Any], library: str, names: Sequence[Any] | None = None, like: Any = None
) -> Any:
    """A DataFrame of columns: arrays, lists, or Series of its library.

    Columns are named by their numbers where no names are given. A pandas DataFrame ``like`` lends
    its index. NaN in an array is a null of polars.

    Examples
    --------
    >>> import numpy as np
    >>> join_columns([np.array([1.5]), ["a"]], "pandas", ["size", "kind"])
       size kind
    0   1.5    a
    """
    # Names of columns may repeat, so that columns are numbered until the frame is made.
    numbered = {str(number): column for number, column in enumerate(columns)}
    if library == "polars":
        # From an array of objects polars would make a column of objects.
        as_lists = {
            name: column.tolist() if getattr(column, "dtype", None) == np.object_ else column
            for name, column in numbered.items()
        }
        frame = import_module(library).DataFrame(as_lists, strict=False, nan_to_null=True)
    else:
        frame = import_module(library).DataFrame(numbered)
        frame.index = frame.index if like is None else like.index
    frame.columns = [*numbered] if names is None else names
    return frame


def describe_column(column: int, names: Sequence[Any] | None = None) -> str:
    """Name a column in an error message, by its name where it has one, else by its number."""
    return f"column {column}" if names is None else f"column {names[column]!r}"


def columns_like(name: Any, names: Sequence[Any]) -> str:
    """What an error offers for a name that no column has: names that are close, or all of them."""
    close = get_close_matches(str(name), map(str, names))
    return f"close to it are {close}" if close else f"its columns are {list(names)}"


def check_table(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check the table that a user passes and give it one of three forms.

    Parameters
    ----------
    estimator : estimator
        Receives (or is compared with) ``n_features_in_`` and ``feature_names_in_``.
    X : DataFrame or array-like of shape (n_samples, n_features)
        Numbers, strings, dates; NaN, NaT, None and what a masked array masks are missing. Strings
        stay strings, also where they spell numbers.
    reset : bool
        True in ``fit``: remember the columns. False elsewhere: they must be those of ``fit``.

    Returns
    -------
    table : DataFrame or ndarray of shape (n_samples, n_features)
        The DataFrame itself; or an array, float64 where every cell is a number that float64 holds
        (an integer beyond 2**53 may not be), of dates as it came, else object. Arrays of numbers
        are C-contiguous and writable; one that already is, passes without a copy.

    Raises
    ------
    ValueError
        If the table is empty, not two-dimensional, complex or infinite, or lacks columns of fit.
    TypeError
        If the table is sparse or lazy, or a cell is neither a number nor a string nor a date.
    """
    # What is lazy or foreign becomes a table in memory, or is refused with advice.
    X = eager(X)
    if frame_library(X) is not None:
        try:
            # Only names and numbers of columns are checked: cells stay as they are.
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            if "feature names" in str(error):
                error.add_note(_OTHER_COLUMNS)
            raise
        if 0 in X.shape:
            check_array(np.empty(X.shape), estimator=estimator, input_name="X")  # words the error
        return X
    # The dtype is decided below, as strings and numbers may stand side by side.
    array = validate_data(estimator, X, reset=reset, dtype=None, order="C", ensure_all_finite=False)
    is_list = isinstance(X, list | tuple)
    # Dates and durations are read by the domain.
    if array.dtype.kind in "mM":
        return array
    # In a list, floats may have been integers.
    may_be_integers = array.dtype.kind in ("iuf" if is_list else "iu")
    if array.dtype.kind not in "biuf" or (may_be_integers and are_large(array).any()):
        # In a list of mixed types, numpy turns numbers into strings, and integers into floats.
        array = _numbers_where_possible(np.asarray(X if is_list else array, dtype=object))
    # Numbers become rows as kernels read them; a read-only table is copied.
    if array.dtype != object:
        array = np.require(array, dtype=np.float64, requirements=("C", "W"))
        check_finite(array)
    return array


def eager(X: Any) -> Any:
    """What may be a table, in memory and with masked cells missing.

    Raises
    ------
    TypeError
        If it is an iterator, a callable, a path, a dict, a list of tables, or a lazy table.
    """
    X = native(X)
    if is_from("dask", X) and hasattr(X, "compute"):
        X = X.compute()
    # Things that numpy would turn into a table of one cell, or into nonsense.
    description = _described_instead(X)
    if description is not None:
        raise TypeError(f"X must be a table, an array or a DataFrame; found {description}")
    return unmasked(X)


def _described_instead(X: Any) -> str | None:
    if isinstance(X, Iterator):
        return f"an iterator ({type(X).__name__}). {_CHUNKS}: pass its chunks one by one."
    # Looked up among the loaded modules, so that polars is not imported.
    lazy = getattr(sys.modules.get("polars"), "LazyFrame", None)
    if lazy is not None and isinstance(X, lazy):
        return "a polars LazyFrame. Pass X.collect(); only the fit of a density takes it as it is."
    if is_from("pyarrow", X) and hasattr(X, "to_table"):
        return (
            "a pyarrow dataset. Pass X.to_table().to_pandas(); only the fit of a density takes it "
            "as it is."
        )
    if is_from("duckdb", X) and hasattr(X, "df"):
        return "a relation of duckdb. Pass X.df(); only the fit of a density takes it as it is."
    if isinstance(X, str | os.PathLike):
        return (
            f"{X!r}. Read the file first, by pandas.read_csv or pandas.read_parquet; the fit of a "
            "density takes a folder of Parquet files by pyarrow.dataset.dataset."
        )
    if type(X) is dict:  # Some sparse matrices of scipy are subclasses.
        return "a dict. Pass pandas.DataFrame(X)."
    # A list of rows is a table; a list of tables is not.
    first = X[0] if isinstance(X, list | tuple) and X else None
    is_frame = hasattr(first, "columns")
    if is_frame or getattr(first, "ndim", 0) == 2:
        kind, way = ("DataFrames", "pandas.concat") if is_frame else ("arrays", "numpy.concatenate")
        return (
            f"a {type(X).__name__} of {kind}. Put them together by {way}; the fit of a density "
            "takes them as chunks too, by iter(X)."
        )
    if callable(X):
        return f"a callable ({type(X).__name__}). {_CHUNKS}: pass the chunks one by one."
    return None


def check_weight(sample_weight: Any, n_rows: int, name: str = "sample_weight") -> Floats:
    """Check the weights of rows; None gives every row the weight one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,) or None
        Finite and not negative. Zero means that the row is absent, two that it stands twice.
    n_rows : int
        How many rows there are.
    name : str, default="sample_weight"
        Name of the parameter, for error messages.

    Returns
    -------
    weight : ndarray of shape (n_rows,), float64

    Raises
    ------
    ValueError
        If the shape is wrong, a weight is negative or not finite, or all weights are zero.
    """
    # Weights of one need no check.
    if sample_weight is None:
        return np.ones(n_rows)
    weight = check_array(
        unmasked(sample_weight), ensure_2d=False, dtype=np.float64, order="C", input_name=name
    )
    if weight.shape != (n_rows,):
        raise ValueError(
            f"{name} needs one number for each of the {n_rows} rows, shape ({n_rows},); "
            f"found shape {weight.shape}."
        )
    if weight.min() < 0.0:
        row = int(weight.argmin())
        raise ValueError(
            f"{name} must not be negative; found {weight[row]} in row {row}. "
            "Give rows that shall not count the weight zero."
        )
    # An infinite total is refused below, with words.
    with np.errstate(over="ignore"):
        total = weight.sum()
    if total == 0.0:
        raise ValueError("All sample weights are zero; at least one row needs a positive weight.")
    if not total <= _EXACT:
        raise ValueError(
            f"The sum of {name} must be at most {_EXACT:g}, beyond which counts "
            f"lose single rows; found {total:g}. Divide all weights by a constant."
        )
    return weight


def mean_score(scores: Any, sample_weight: Any) -> float:
    """The weighted mean of scores of rows; a row of weight zero is absent, also at -inf."""
    scores = np.asarray(scores)
    weight = check_weight(sample_weight, len(scores))
    # A score of -inf times a weight of zero would be NaN.
    return float(np.average(scores[weight > 0.0], weights=weight[weight > 0.0]))


def check_finite(
    values: Floats, names: Sequence[Any] | None = None, column: int | None = None
) -> None:
    """Refuse infinite values, naming the column and the value; NaN passes.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples,), float64
        A whole table, or one column of it.
    names : sequence or None
        Names of all columns of the table.
    column : int or None
        Which column ``values`` is, where it is one column.
    """
    # The sum of finite numbers is finite (unless it overflows): one pass at the speed of memory.
    with np.errstate(over="ignore", invalid="ignore"):
        # NaN and overflow lead to a closer look, not to an error.
        if np.isfinite(values.sum()):
            return
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        # The cell stands in a table, or in the one column that was given.
        row, position = divmod(int(infinite[0]), values.size // len(values))
        where = describe_column(position if column is None else column, names)
        raise ValueError(
            f"X must not contain infinity; found {values.flat[infinite[0]]} in {where}, row {row}. "
            "Use NaN for a missing value, or clip the column."
        )


def check_option(name: str, value: Any, options: Iterable[str]) -> None:
    """Refuse a value of a parameter that is none of its options."""
    if value not in (allowed := tuple(options)):
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def check_n_samples(n_samples: Any) -> int:
    """Refuse a number of draws that is no integer of 0 or more, or that no memory could hold."""
    # Draws beyond this number fit no memory.
    most_draws = 2**40
    if not isinstance(n_samples, Integral) or not 0 <= int(n_samples) <= most_draws:
        raise ValueError(
            f"n_samples must be an integer of 0 or more, got {n_samples!r} (at most {most_draws})"
        )
    return int(n_samples)


def check_magnitude(
    values: Floats,
    names: Sequence[Any] | None = None,
    column: int | None = None,
    limit: float = 1e150,
) -> None:
    """Refuse numbers whose powers could overflow, naming the column; NaN passes.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples,), float64
        A whole table, or one column of it.
    names : sequence or None
        Names of all columns of the table.
    column : int or None
        Which column ``values`` is, where it is one column.
    limit : float
        The largest magnitude.
    """
    # fmax passes over NaN.
    largest = np.fmax.reduce(np.abs(values), axis=0, initial=0.0)
    worst = int(np.argmax(largest))
    if np.max(largest) > limit:
        where = describe_column(worst if column is None else column, names)
        raise ValueError(
            f"A column of numbers needs magnitudes up to {limit:g}; {where} reaches "
            f"{np.max(largest):g}. Rescale it."
        )


def missing_cells(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the missing cells (None, NaN, pandas' NA) of an array of objects or floats."""
    # Floats have one missing value, NaN; objects are looked at by their types.
    if cells.dtype != object:
        return np.isnan(cells)
    flat = cells.reshape(-1).tolist()
    # A column has few types, so that most questions are asked once for each type.
    types = set(map(type, flat))
    # Classes of missing values of pandas are told by name, so that pandas is not imported.
    never_held = tuple(t for t in types if t is type(None) or t.__name__ in {"NAType", "NaTType"})
    types_with_nan = (float, np.floating, np.datetime64, np.timedelta64)
    may_be_nan = tuple(t for t in types if issubclass(t, types_with_nan))
    if not never_held and not may_be_nan:
        return np.zeros(cells.shape, dtype=bool)
    marks = [
        # Only cells whose type has a NaN are compared with themselves.
        isinstance(cell, never_held) or (isinstance(cell, may_be_nan) and bool(cell != cell))
        for cell in flat
    ]
    return np.array(marks, dtype=bool).reshape(cells.shape)


def read_cells(
    cells: NDArray[np.object_], column: int, names: Sequence[Any] | None = None
) -> tuple[NDArray[Any], bool]:
    """Read one column of objects as numbers or as strings.

    Parameters
    ----------
    cells : ndarray of shape (n_samples,), object
    column : int
        Its position, for error messages.
    names : sequence or None
        Names of all columns of the table.

    Returns
    -------
    values : ndarray of shape (n_samples,)
        float64 with NaN where missing, or objects: strings, and None where missing.
    is_bool : bool
        Whether every cell that is not missing is True or False.

    Raises
    ------
    TypeError
        If a cell is neither a string nor a number, or the column mixes the two.
    ValueError
        If a number is complex or infinite.
    """
    present = ~missing_cells(cells)
    held = cells[present]
    kinds = kinds_of_cells(held.tolist())
    if kinds in ({"string"}, {"interval"}):
        strings = np.full(cells.shape, None, dtype=object)
        strings[present] = held
        return strings, False
    _refuse_other_kinds(held, kinds, describe_column(column, names))
    values = np.full(cells.shape, np.nan)
    try:
        # A Python integer may be larger than any float.
        values[present] = held.astype(np.float64)
    except OverflowError as error:
        where = describe_column(column, names)
        raise ValueError(f"{where} holds a number that float64 does not: {error}") from error
    check_finite(values, names, column)
    # Bools are numbers here, but their column holds two categories.
    return values, kinds == {"bool"}


def kinds_of_cells(cells: Iterable[Any]) -> set[str]:
    """What cells are that are not missing: "string", "number", "interval", ..., or "other"."""
    # As in missing_cells, types are few where cells are many.
    types = set(map(type, cells))
    # The class of intervals is that of pandas, which may not be there.
    return {
        "interval"
        if hasattr(cell_type, "closed_left")
        else next(k for k, held in _KINDS.items() if issubclass(cell_type, held))
        for cell_type in types
    }


def _refuse_other_kinds(held: NDArray[np.object_], kinds: set[str], where: str) -> None:
    # Found again only for the message, as columns may be long.
    def example(*wanted: str) -> Any:
        return next(cell for cell in held.tolist() if kinds_of_cells([cell]) & {*wanted})

    if "complex" in kinds:
        raise ValueError(
            f"Complex data not supported; found {example('complex')} in {where}. Take its parts."
        )
    if kinds & {"range"} or (len(kinds) > 1 and "interval" in kinds):
        raise TypeError(
            f"Values alone are needed here; {where} holds {example('range', 'interval')!r}, a "
            "range or a set. Densities that are circuits, their stacks, imputers and "
            "DensityClassifier take such cells in whole tables: in fit without chunks, "
            "score_samples, complete, marginals and interval; DensityRegressor takes them as "
            "targets, in fit(X, y). Fill them first elsewhere: "
            'CircuitImputer(strategy="sample").fit_transform(X).'
        )
    other_kinds = kinds & {*KINDS_OF_DATES, "interval", "other"}
    if other_kinds:
        cell = example(*other_kinds)
        raise TypeError(
            "The X argument must be a table of strings, numbers and dates (None or NaN where "
            "missing), each column of one kind, and of the same one as in fit; "
            f"found {cell!r} of type {type(cell).__name__} in {where}. Turn times into durations, "
            "periods into dates, other objects into strings."
        )
    if "string" in kinds:
        raise TypeError(
            "The cells of a column must be all strings or all numbers; "
            f"{where} holds both {example('string')!r} and {example('number', 'bool')!r}. "
            "Convert one kind to the other."
        )


def are_large(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers are so large that float64 does not hold all integers there; NaN is not."""
    return (numbers >= _EXACT) | (numbers <= -_EXACT)


def rounded_integer(cells: NDArray[np.object_], values: NDArray[Any]) -> int | None:
    """The first integer of a column that its numbers do not hold; None where they hold all.

    Parameters
    ----------
    cells : ndarray of shape (n_samples,), object
        The column as it came.
    values : ndarray of shape (n_samples,)
        What :func:`read_cells` makes of it.
    """
    # A column of strings holds what it was given.
    if values.dtype == object:
        return None
    # Small integers are exact as floats, so that only large ones are looked at.
    large = cells[are_large(values)].tolist()
    rounded = (cell for cell in large if isinstance(cell, Integral) and int(cell) != float(cell))
    return next(map(int, rounded), None)


def refuse_rounded(integer: int | None, where: str) -> None:
    """Raise if an integer is given: as a category it would equal its neighbours once rounded."""
    if integer is not None:
        raise ValueError(
            f"Categories that are integers beyond 2**53 round to equal floats; found {integer} in "
            f"{where}. Turn them into strings."
        )


def _numbers_where_possible(cells: NDArray[np.object_]) -> NDArray[Any]:
    """Turn an object table into float64 if that holds all of its cells."""
    # Dates, intervals and ranges are read by the domain, column by column.
    if kinds_of_cells(cells.reshape(-1).tolist()) & {*KINDS_OF_DATES, "interval", "range"}:
        return cells
    columns = [read_cells(cells[:, column], column)[0] for column in range(cells.shape[1])]
    for values, column in zip(columns, cells.T):
        # One column that numbers do not hold keeps the whole table as objects.
        if values.dtype == object or rounded_integer(column, values) is not None:
            return cells
    return np.column_stack(columns)
