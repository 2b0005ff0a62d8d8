"""Dtypes of DataFrame columns as plain strings, numbers and lists, and back.

So a saved model needs no class of pandas or polars, and can be read without trust in its source.
"""

from typing import Any

import numpy as np

#: Name of the dtype, and what it was made with.
Description = tuple[Any, ...]


def describe_dtype(library: str, dtype: Any) -> Description:
    """Describe the dtype of a column of a pandas or polars DataFrame."""
    return _describe_pandas(dtype) if library == "pandas" else _describe_polars(dtype)


def restore_dtype(library: str, description: Description) -> Any:
    """The dtype that was described.

    Raises
    ------
    ValueError, TypeError
        If there is no such dtype.
    """
    return (_restore_pandas if library == "pandas" else _restore_polars)(*description)


def _describe_pandas(dtype: Any) -> Description:
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        known = dtype.categories
        return ("category", known.tolist(), _describe_pandas(known.dtype), bool(dtype.ordered))
    if isinstance(dtype, pd.StringDtype):
        return ("string", dtype.storage, dtype.na_value is pd.NA)
    return (str(dtype),)


def _restore_pandas(name: str, *made_with: Any) -> Any:
    import pandas as pd

    if name == "category":
        known, inner, ordered = made_with
        return pd.CategoricalDtype(pd.Index(known, dtype=_restore_pandas(*inner)), ordered)
    if name == "string" and made_with:
        storage, is_na = made_with
        return pd.StringDtype(storage) if is_na else pd.StringDtype(storage, na_value=np.nan)
    return pd.api.types.pandas_dtype(name)


def _describe_polars(dtype: Any) -> Description:
    import polars as pl

    name = str(dtype.base_type())
    if isinstance(dtype, pl.Enum):
        return (name, dtype.categories.to_list())
    return (name, dtype.precision, dtype.scale) if isinstance(dtype, pl.Decimal) else (name,)


def _restore_polars(name: str, *made_with: Any) -> Any:
    import polars as pl

    found = getattr(pl, name, None)
    # A file must not choose any other thing to call.
    if not isinstance(found, type) or not issubclass(found, pl.DataType):
        raise ValueError(f"The dtype of a column must be one of polars; found {name!r}.")
    return found(*made_with)
