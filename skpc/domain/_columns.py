"""Columns as users name them: by a mask, by numbers, or by names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def column_numbers(
    chosen: NDArray[Any],
    n_columns: int,
    names: Sequence[Any] | None,
    parameter: str,
    or_strings: str = "",
) -> NDArray[np.intp]:
    """Turn a mask, column numbers or column names into column numbers.

    Parameters
    ----------
    chosen : ndarray
        What the user gave.
    n_columns : int
        Number of columns of the table.
    names : sequence or None
        Their names, where they have some.
    parameter : str
        Name of the parameter, for error messages.
    or_strings : str, default=""
        What else the parameter may be, for error messages.

    Raises
    ------
    ValueError
        If it has another type, or names a column that the table does not have.
    """
    if chosen.size == 0:
        return np.empty(0, dtype=np.intp)
    if chosen.ndim == 1 and chosen.dtype.kind == "b":
        if len(chosen) != n_columns:
            raise ValueError(
                f"{parameter} as a mask needs {n_columns} entries, one a column; got {len(chosen)}."
            )
        return np.flatnonzero(chosen)
    if chosen.ndim == 1 and chosen.dtype.kind in "iu":
        outside = chosen[(chosen < 0) | (chosen >= n_columns)]
        if len(outside):
            raise ValueError(
                f"{parameter} must hold column numbers in [0, {n_columns - 1}]; got {outside[0]}."
            )
        return chosen.astype(np.intp)
    if chosen.ndim == 1 and all(isinstance(name, str) for name in chosen.tolist()):
        return _columns_named(chosen.tolist(), names, parameter)
    raise ValueError(
        f"{parameter} must be {or_strings}a boolean mask, or a list of column numbers or names; "
        f"got an array of dtype {chosen.dtype} and shape {chosen.shape}."
    )


def _columns_named(
    wanted: list[str], names: Sequence[Any] | None, parameter: str
) -> NDArray[np.intp]:
    if names is None:
        raise ValueError(
            f"{parameter} names columns ({wanted[0]!r}), but X has no column names; pass a "
            "DataFrame or column numbers."
        )
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(
            f"{parameter} names {unknown[0]!r}, which is not a column of X; its columns are "
            f"{list(names)!r}."
        )
    return np.array([list(names).index(name) for name in wanted], dtype=np.intp)
