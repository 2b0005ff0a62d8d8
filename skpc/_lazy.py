"""What users pass as a table, but is none in memory: what it is, and what to pass instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

_BLOCKS = "Only the fit of a density takes a table in blocks"


def is_from(library: str, X: Any) -> bool:
    """Whether a library has made an object."""
    return type(X).__module__.partition(".")[0] == library


def refuse_no_table(X: Any) -> None:
    """Refuse what numpy would take for a single cell, or for something else than a table.

    Raises
    ------
    TypeError
        If it is an iterator, a callable, a path, a dict, a list of tables, or a lazy table of
        polars or pyarrow.
    """
    found = _found_instead(X)
    if found is not None:
        raise TypeError(f"X must be a table, an array or a DataFrame; found {found}")


def _found_instead(X: Any) -> str | None:
    if isinstance(X, Iterator):
        return f"an iterator ({type(X).__name__}). {_BLOCKS}: pass its blocks one by one."
    lazy = getattr(sys.modules.get("polars"), "LazyFrame", None)
    if lazy is not None and isinstance(X, lazy):
        return "a polars LazyFrame. Pass X.collect(); only the fit of a density takes it as it is."
    if is_from("pyarrow", X) and hasattr(X, "to_table"):
        return (
            "a pyarrow dataset. Pass X.to_table().to_pandas(); only the fit of a density takes it "
            "as it is."
        )
    if isinstance(X, str | os.PathLike):
        return (
            f"{X!r}. Read the file first, by pandas.read_csv or pandas.read_parquet; the fit of a "
            "density takes a folder of Parquet files by pyarrow.dataset.dataset."
        )
    if type(X) is dict:  # Some sparse matrices of scipy are subclasses.
        return "a dict. Pass pandas.DataFrame(X)."
    if isinstance(X, list | tuple) and any(_is_table(block) for block in X[:1]):
        kind, way = "arrays", "numpy.concatenate"
        if hasattr(X[0], "columns"):
            kind, way = "DataFrames", "pandas.concat"
        return (
            f"a {type(X).__name__} of {kind}. Put them together by {way}; the fit of a density "
            "takes them as blocks too, by iter(X)."
        )
    if callable(X):
        return f"a callable ({type(X).__name__}). {_BLOCKS}: pass the blocks one by one."
    return None


def _is_table(block: Any) -> bool:
    return hasattr(block, "columns") or getattr(block, "ndim", 0) == 2
