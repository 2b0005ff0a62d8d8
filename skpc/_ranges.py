"""Cells known as ranges, from two columns or from strings."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._validation import missing_cells, objects_of

#: What a string may be: "<0.5", "<=0.5", ">120", ">=120", "12-15", or a number.
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BEYOND = re.compile(rf"\s*(<=|>=|<|>|≤|≥)\s*({_NUMBER})\s*")
_BETWEEN = re.compile(rf"\s*({_NUMBER})\s*(?:-|–|to)\s*({_NUMBER})\s*")
_CLOSED = ("both", "left", "right", "neither")


def ranges(low: Any, high: Any = None, closed: str = "both") -> NDArray[np.object_]:
    """Cells of a column that are known as ranges, for tables that densities learn from.

    Parameters
    ----------
    low : array-like of shape (n_rows,)
        Lower ends; NaN, None or minus infinity for an open one. Without ``high``: strings such as
        ``"<0.5"``, ``">=120"``, ``"12-15"`` and ``"7.1"``, or numbers.
    high : array-like of shape (n_rows,), default=None
        Upper ends; NaN, None or infinity for an open one.
    closed : {"both", "left", "right", "neither"}, default="both"
        Which ends belong to the ranges of two columns. A string says it: the limit in ``"<0.5"``
        does not belong to its range, those of ``"12-15"`` do.

    Returns
    -------
    ndarray of shape (n_rows,), object
        Numbers where both ends are equal; None where both are open; else tuples ``(low, high)``
        with None for an open end, or ``pandas.Interval`` where an end does not belong to the range.

    Raises
    ------
    ValueError
        If a lower end is above its upper one, the lengths differ, ``closed`` is none of the four,
        or a string is no range.

    Examples
    --------
    >>> from skpc import ranges
    >>> ranges([1.0, 2.0, None], [1.0, None, None])
    array([1.0, (2.0, None), None], dtype=object)
    >>> ranges(["12-15", "7.1"])
    array([(12.0, 15.0), 7.1], dtype=object)
    """
    if closed not in _CLOSED:
        raise ValueError(f"closed must be one of {_CLOSED}, got {closed!r}")
    # A copy, as missing ends are set to None below.
    first = objects_of(low).copy()
    if high is None:
        cells = [_from_string(cell, row) for row, cell in enumerate(first.tolist())]
    else:
        last = objects_of(high).copy()
        if first.shape != last.shape or first.ndim != 1:
            raise ValueError(
                "low and high need one entry for each row; got shapes "
                f"{first.shape} and {last.shape}"
            )
        for end, infinity in ((first, -np.inf), (last, np.inf)):
            # NaN, NA and NaT all mean that an end is open, as infinity does.
            end[missing_cells(end) | (end == infinity)] = None
        holds_low = closed in _CLOSED[:2]
        holds_high = closed in ("both", "right")
        cells = [
            _cell(lower, upper, holds_low, holds_high, row)
            for row, (lower, upper) in enumerate(zip(first.tolist(), last.tolist()))
        ]
    # Filled after it is made: numpy would turn a list of tuples into a matrix.
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def _cell(low: Any, high: Any, with_low: bool, with_high: bool, row: int) -> Any:
    """A range as a cell: a value, None, a tuple, or an interval of pandas."""
    if low is None and high is None:
        return None
    if low is not None and high is not None and not low <= high:
        raise ValueError(f"low must not be above high; found {low!r} and {high!r} in row {row}")
    if low is not None and low == high:
        return low
    # An open end belongs to no range.
    if (with_low or low is None) and (with_high or high is None):
        return low, high
    import pandas as pd

    # A range that is not closed at all its ends has no tuple: pandas has intervals for these.
    sides = {(True, True): "both", (True, False): "left", (False, True): "right"}
    closed = sides.get((with_low and low is not None, with_high and high is not None), "neither")
    ends = -math.inf if low is None else low, math.inf if high is None else high
    return pd.Interval(*ends, closed=closed)


def _from_string(cell: Any, row: int) -> Any:
    """A cell of a column of strings."""
    if not isinstance(cell, str):
        # Numbers in a column of strings are values; NaN differs from itself.
        is_missing = cell is None or cell != cell
        return None if is_missing else cell
    text = cell.strip()
    if not text:
        return None
    if re.fullmatch(_NUMBER, text):
        return float(text)
    beyond = _BEYOND.fullmatch(text)
    # A hyphen may be a sign or stand between two ends, which only the whole pattern tells.
    between = _BETWEEN.fullmatch(text)
    if between:
        return _cell(float(between[1]), float(between[2]), True, True, row)
    if beyond:
        sign = beyond[1]
        limit = float(beyond[2])
        with_limit = sign not in "<>"
        if sign in ("<", "<=", "≤"):
            return _cell(None, limit, False, with_limit, row)
        return _cell(limit, None, with_limit, False, row)
    raise ValueError(
        "a string must be a number or a range such as '<0.5', '>=120' or '12-15'; found "
        f"{cell!r} in row {row}"
    )
