"""Choosing which columns are categorical, and what their states are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._jit import kernel
from skpc._validation import (
    describe_column,
    missing_cells,
    read_cells,
    refuse_rounded,
    rounded_integer,
)
from skpc.domain._columns import column_numbers
from skpc.domain._tables import Cells
from skpc.variables.number import weight_without_say

#: The table of a pair of columns has as many cells as the product of their states, and circuits
#: list all states below each state of a parent: a thousand of them take 8 MB in every tree.
MAX_STATES = 1_000

_SMALL_INTEGERS = 16

Categories = NDArray[Any] | None


@kernel
def _mark_small_integers(numbers, seen):
    """Set bit v of a column's mark for every value v in 0..15, bit 16 for any other value."""
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            value = numbers[row, column]
            bit = np.int64(16)
            if value >= 0.0 and value <= 15.0 and np.float64(np.int64(value)) == value:
                bit = np.int64(value)
            if value == value:
                seen[column] |= np.int64(1) << bit


def _are_small(
    numbers: NDArray[np.float64], weight: NDArray[np.float64], seen: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which columns hold integers in 0..15, apart from unusual values.

    ``seen`` has the marks of the columns.
    """
    small = (1 << _SMALL_INTEGERS) - 1
    found = (seen > 0) & (seen <= small)
    for column in np.flatnonzero((seen > small) & (seen & small > 0)).tolist():
        values = numbers[:, column]
        unusual = (values < 0) | (values >= _SMALL_INTEGERS) | (values != np.floor(values))
        unusual &= ~np.isnan(values)
        total = float(weight[~np.isnan(values)].sum())
        found[column] = weight[unusual].sum() <= weight_without_say(total)
    return found


def choose_categories(
    cells: Cells,
    weight: NDArray[np.float64],
    names: Sequence[Any] | None,
    categorical_features: Any,
    categories: Any,
) -> tuple[Categories, ...]:
    """Choose the states of each categorical column; ``weight`` is that of the rows.

    Returns
    -------
    categories : tuple of ndarray or None, one a column
        float64, bool, or object (strings); None for a numeric column; of length 0 for a column
        without any value.

    Raises
    ------
    TypeError, ValueError
        If a parameter does not fit the table, a column of strings is not categorical, or no column
        holds a value.
    """
    n_columns = cells.numbers.shape[1]
    listed = _check_categories(categories, n_columns, names)
    seen = np.zeros(n_columns, dtype=np.int64)
    _mark_small_integers(cells.numbers, seen)
    if not seen.any() and not cells.strings:
        raise ValueError(
            "Every value of X is missing (in the rows of positive weight); nothing can be learned."
        )
    is_small = _are_small(cells.numbers, weight, seen)
    is_categorical = _categorical_mask(cells, is_small, names, categorical_features)
    chosen: list[Categories] = []
    for column in range(n_columns):
        if seen[column] == 0 and column not in cells.strings:
            states: Categories = np.empty(0)
        elif listed[column] is not None:
            states = listed[column]
        elif not is_categorical[column]:
            _refuse_strings(cells, column, names)
            states = None
        elif 0 < seen[column] < 1 << _SMALL_INTEGERS and not (
            column in cells.declared or column in cells.bools
        ):
            states = np.flatnonzero(seen[column] >> np.arange(_SMALL_INTEGERS) & 1) + 0.0
        else:
            states = _observed_or_declared(cells, column, names)
        chosen.append(states)
    return tuple(chosen)


def _observed_or_declared(cells: Cells, column: int, names: Sequence[Any] | None) -> Categories:
    declared = cells.declared.get(column)
    if declared is not None:
        return _check_states(declared, column, names)
    if column in cells.bools:
        return np.array([False, True])
    if column in cells.strings:
        observed = sorted(set(cells.strings[column].tolist()) - {None})
        return np.array(observed, dtype=object)
    values = np.unique(cells.numbers[:, column]) + 0.0
    return values[~np.isnan(values)]


def _check_categories(
    categories: Any, n_columns: int, names: Sequence[Any] | None
) -> list[Categories]:
    if isinstance(categories, str) and categories == "auto":
        return [None] * n_columns
    if isinstance(categories, str) or not hasattr(categories, "__len__"):
        raise ValueError(
            f"categories must be 'auto' or a list with one entry a column; got {categories!r}."
        )
    if len(categories) != n_columns:
        raise ValueError(
            f"categories needs one entry for each of the {n_columns} columns (None lets the "
            f"column's data decide); got {len(categories)}."
        )
    return [
        None if entry is None else _check_states(entry, column, names)
        for column, entry in enumerate(categories)
    ]


def _check_states(entry: Any, column: int, names: Sequence[Any] | None) -> NDArray[Any]:
    """Check declared categories; their order is the order of the states."""
    where = describe_column(column, names)
    cells = np.asarray(entry, dtype=object)
    if isinstance(entry, str) or cells.ndim != 1 or len(cells) == 0:
        raise ValueError(f"The categories of {where} must be a list of values; got {entry!r}.")
    if missing_cells(cells).any():
        raise ValueError(
            f"The categories of {where} contain a missing value; leave it out, missing cells "
            "need no category."
        )
    values, is_bool = read_cells(cells, column, names)
    refuse_rounded(rounded_integer(cells, values), column, names)
    if len(set(values.tolist())) < len(values):
        raise ValueError(f"The categories of {where} repeat a value: {cells.tolist()!r}.")
    return values.astype(bool) if is_bool else values


def _categorical_mask(
    cells: Cells,
    is_small: NDArray[np.bool_],
    names: Sequence[Any] | None,
    categorical_features: Any,
) -> NDArray[np.bool_]:
    mask = np.zeros(len(is_small), dtype=bool)
    if categorical_features is None:
        return mask
    if isinstance(categorical_features, str):
        if categorical_features not in ("auto", "from_dtype"):
            raise ValueError(
                "categorical_features must be 'auto', 'from_dtype', None, a boolean mask, or a "
                f"list of column numbers or names; got {categorical_features!r}."
            )
        mask[list(cells.declared)] = True
        if categorical_features == "auto":
            mask |= is_small
            mask[[*cells.strings, *cells.bools]] = True
        return mask
    words = "'auto', 'from_dtype', None, "
    chosen = np.asarray(categorical_features)
    mask[column_numbers(chosen, len(mask), names, "categorical_features", words)] = True
    return mask


def _refuse_strings(cells: Cells, column: int, names: Sequence[Any] | None) -> None:
    if column in cells.strings:
        value = next(cell for cell in cells.strings[column].tolist() if cell is not None)
        raise ValueError(
            f"A numeric column must hold numbers; {describe_column(column, names)} holds strings "
            f"such as {value!r}. Name it in categorical_features, or use "
            "categorical_features='auto'."
        )


def refuse_too_many(categories: Sequence[Categories], names: Sequence[Any] | None) -> None:
    """Raise if a column has more states than learners and circuits can take."""
    for column, states in enumerate(categories):
        if states is not None and len(states) > MAX_STATES:
            raise ValueError(
                f"A categorical column may have at most {MAX_STATES} categories; "
                f"{describe_column(column, names)} has {len(states)}. Drop it, group its "
                "rare values, or treat it as numeric."
            )
