"""What the numeric columns of a table are: lattices, atoms, bounds, and the axes of bins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import describe_column
from skpc.domain._bins import choose_bins
from skpc.domain._columns import column_numbers
from skpc.variables import Axis, Margin, Number, plain_axis

Numbers = tuple[Number | None, ...]
_NO_BOUNDS = (-math.inf, math.inf)


def fit_numbers(
    rows: Floats,
    weight: Floats,
    is_number: NDArray[np.bool_],
    atoms: Any,
    bounds: Any,
    names: Sequence[Any] | None,
) -> Numbers:
    """Learn what each numeric column is; None for the others.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    is_number : ndarray of shape (n_features,)
        Which columns are numeric.
    atoms, bounds
        See :meth:`skpc.domain.Domain.fit`.
    names : sequence or None
        Column names.

    Raises
    ------
    TypeError, ValueError
        If atoms or bounds are declared of a column that is not there or not numeric, or are not
        what they should be.
    """
    n_columns = rows.shape[1]
    own = {} if isinstance(atoms, str) else _by_column(atoms, "atoms", n_columns, names)
    between = _by_column(bounds, "bounds", n_columns, names)
    for parameter, declared in (("atoms", own), ("bounds", between)):
        for column in declared:
            if not is_number[column]:
                raise ValueError(
                    f"{parameter} must name numeric columns, but "
                    f"{describe_column(column, names)} is categorical."
                )
    return tuple(
        Number.fit(
            values,
            weight,
            _atoms(own[column], column, names) if column in own else None,
            _bounds(between[column], values, column, names) if column in between else _NO_BOUNDS,
        )
        if numeric
        else None
        for column, (values, numeric) in enumerate(zip(rows.T, is_number))
    )


def fit_axes(
    rows: Floats,
    weight: Floats,
    is_number: NDArray[np.bool_],
    numbers: Numbers | None,
    n_bins: int,
) -> tuple[Axis | None, ...]:
    """The histogram axis of each numeric column; plain ones where ``numbers`` is None."""
    if numbers is None:
        return tuple(
            plain_axis(values, weight, n_bins) if numeric else None
            for values, numeric in zip(rows.T, is_number)
        )
    margins = [
        None if number is None else Margin.fit(values, weight, number)
        for values, number in zip(rows.T, numbers)
    ]
    return choose_bins(rows, weight, margins, n_bins)


def axes_of_others(
    rows: Floats, weight: Floats, axes: Sequence[Axis | None], numbers: Numbers
) -> tuple[Axis | None, ...]:
    """Axes of as many bins by other rows; a column without values there keeps its axis."""
    found: list[Axis | None] = []
    for values, axis, number in zip(rows.T, axes, numbers):
        if axis is not None and number is not None and not np.isnan(values).all():
            n_bins = max(axis.n_states - len(axis.atoms), 1)
            axis = Margin.fit(values, weight, number).axis(n_bins)
        found.append(axis)
    return tuple(found)


def _by_column(
    declared: Any, parameter: str, n_columns: int, names: Sequence[Any] | None
) -> dict[int, Any]:
    """The entries of a dict from columns (names or numbers), by the numbers of the columns."""
    if declared is None:
        return {}
    if not isinstance(declared, Mapping):
        raise TypeError(
            f"{parameter} must be a dict from columns (names or numbers) to what is known of them; "
            f"got {type(declared).__name__}."
        )
    found: dict[int, Any] = {}
    for key, entry in declared.items():
        column = int(column_numbers(np.asarray([key]), n_columns, names, parameter)[0])
        if column in found:
            raise ValueError(f"{parameter} names {describe_column(column, names)} twice.")
        found[column] = entry
    return found


def _atoms(entry: Any, column: int, names: Sequence[Any] | None) -> Floats:
    try:
        values = np.atleast_1d(np.asarray(entry, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(
            f"The atoms of {describe_column(column, names)} must be a list of finite numbers; "
            f"got {entry!r}."
        )
    return values


def _bounds(
    entry: Any, values: Floats, column: int, names: Sequence[Any] | None
) -> tuple[float, float]:
    where = describe_column(column, names)
    is_pair = isinstance(entry, Sequence) and len(entry) == 2
    if not is_pair or not all(end is None or isinstance(end, Real) for end in entry):
        raise ValueError(
            f"The bounds of {where} must be a pair (lower, upper), None for a side without; got "
            f"{entry!r}."
        )
    lower, upper = _NO_BOUNDS
    lower = lower if entry[0] is None else float(entry[0])
    upper = upper if entry[1] is None else float(entry[1])
    outside = values[(values < lower) | (values > upper)]
    if not lower < upper or len(outside):
        found = f"found {outside[0]}" if len(outside) else f"got {entry!r}"
        raise ValueError(f"The bounds of {where} must increase and hold all its values; {found}.")
    return lower, upper
