"""Cells to state codes and back: kernels for numbers, with the flat tables that they read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel


class CodeTable(NamedTuple):
    """The numeric categories of all columns, one behind the other.

    Attributes
    ----------
    start : ndarray of shape (n_features + 1,), int64
        Column j owns the entries start[j]:start[j + 1]; a column that is not looked up here owns
        no entry.
    value : ndarray of shape (n_entries,), float64
        Categories, increasing within a column.
    code : ndarray of shape (n_entries,), int64
        Their state codes.
    """

    start: Ints
    value: Floats
    code: Ints

    @classmethod
    def of(cls, categories: Sequence[NDArray[Any] | None]) -> "CodeTable":
        """Collect the numeric categories; columns of strings and of plain numbers own nothing."""
        empty = np.empty(0)
        owned = [empty if c is None or c.dtype == object else c for c in categories]
        orders = [np.argsort(values) for values in owned]
        return cls(
            offsets([len(part) for part in owned]),
            np.concatenate([v[o] for v, o in zip(owned, orders)]).astype(np.float64),
            np.concatenate(orders).astype(np.int64),
        )


@kernel
def all_are_codes(numbers, n_states):
    """Whether every number is missing or a code 0..n_states - 1; n_states 0 takes any."""
    for row in range(numbers.shape[0]):
        n_wrong = 0
        for column in range(numbers.shape[1]):
            value = numbers[row, column]
            count = n_states[column]
            is_code = value >= 0.0 and value < count and np.floor(value) == value
            # No short circuits: the loop over columns runs in vector registers.
            n_wrong += not (is_code | (value != value) | (count == 0.0))
        if n_wrong > 0:
            return False
    return True


@kernel
def recode(numbers, start, value, code, first_unknown):
    """Replace categories by their codes in place, unknown ones by NaN.

    ``first_unknown`` receives, for each column, the first row that holds an unknown category; it
    must come filled with -1.
    """
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            low = start[column]
            end = start[column + 1]
            number = numbers[row, column]
            if low == end or number != number:
                continue
            high = end
            while low < high:
                middle = (low + high) >> 1
                if value[middle] < number:
                    low = middle + 1
                else:
                    high = middle
            if low < end and value[low] == number:
                numbers[row, column] = code[low]
            else:
                numbers[row, column] = np.nan
                if first_unknown[column] < 0:
                    first_unknown[column] = row


def encode_strings(cells: NDArray[np.object_], states: NDArray[Any] | None) -> tuple[Floats, int]:
    """Look strings up; return codes and the first row with an unknown one (-1: no such row)."""
    code_of = {state: float(code) for code, state in enumerate([] if states is None else states)}
    code_of[None] = np.nan
    codes = np.array([code_of.get(cell, -1.0) for cell in cells.tolist()])
    unknown = codes == -1.0
    codes[unknown] = np.nan
    return codes, int(unknown.argmax()) if unknown.any() else -1


def decode_column(codes: Floats, states: NDArray[Any] | None) -> NDArray[Any]:
    """What codes stand for; numbers stay, and missing cells are NaN among these, else None."""
    if states is None:
        return codes
    # One more state behind the last stands for "missing".
    if states.dtype == np.float64:
        extended: NDArray[Any] = np.append(states, np.nan)
    else:
        extended = np.array([*states.tolist(), None], dtype=object)
    return extended[np.where(np.isnan(codes), len(states), codes).astype(np.intp)]
