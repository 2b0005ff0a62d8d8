"""Tables of libraries that skpc reads by pandas or polars: those of pyarrow and narwhals."""

from importlib import import_module
from typing import Any


def is_from(library: str, X: Any) -> bool:
    """Whether a library has made an object."""
    # By name, so that no library is imported to find out that its objects are not there.
    return type(X).__module__.partition(".")[0] == library


def native(X: Any) -> Any:
    """A frame of narwhals as what it wraps, a table or batch of pyarrow as a pandas DataFrame.

    Anything else comes back as it is.
    """
    # A frame of narwhals may wrap one of pyarrow, which is why the order matters.
    if is_from("narwhals", X) and hasattr(X, "to_native"):
        X = X.to_native()
    if is_from("pyarrow", X) and hasattr(X, "to_pandas") and hasattr(X, "schema"):
        return X.to_pandas(types_mapper=_dtype_of_arrow)
    return X


def _dtype_of_arrow(arrow_type: Any) -> Any:
    """The dtype of pandas that holds a missing cell, where the default would change the others."""
    import pandas as pd
    from pyarrow import float64, types

    # Decimals are numbers here, as floats of arrow, which keep missing cells.
    if types.is_decimal(arrow_type):
        return pd.ArrowDtype(float64())
    # Integers and bools with missing cells would become floats and objects by default.
    is_exact = types.is_integer(arrow_type) or types.is_boolean(arrow_type)
    return pd.ArrowDtype(arrow_type) if is_exact else None


def like_native(answer: Any, frame: Any, X: Any) -> Any:
    """An answer for ``frame = native(X)``; a DataFrame becomes a table of the library of ``X``."""
    # Arrays and numbers are no tables: they are given back as they are.
    if not hasattr(answer, "columns"):
        return answer
    wrapped = X.to_native() if is_from("narwhals", X) else X
    if is_from("pyarrow", wrapped):
        answer = _as_arrow(answer, frame, wrapped)
    return answer if wrapped is X else import_module("narwhals").from_native(answer)


def _as_arrow(answer: Any, frame: Any, X: Any) -> Any:
    """A DataFrame as a table of pyarrow; its columns of the dtypes of ``frame`` have those of X."""
    import pyarrow as pa

    schema = pa.Schema.from_pandas(answer, preserve_index=False)
    for position, (name, dtype) in enumerate(answer.dtypes.items()):
        arrow_type = X.schema.field(position).type
        # A column whose dtype has not changed gets the exact type that it came with.
        if dtype == frame.dtypes[name] and not pa.types.is_decimal(arrow_type):
            schema = schema.set(position, pa.field(name, arrow_type))
    return type(X).from_pandas(answer, schema=schema, preserve_index=False)
