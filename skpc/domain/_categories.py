"""Columns of categories, and the codes of their states."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats
from skpc._validation import refuse_rounded
from skpc.domain._column import Column, Summary, listed
from skpc.domain._tables import Cells


@dataclass(frozen=True, eq=False, kw_only=True)
class Categories(Column):
    """A column of categories without an order; see :class:`Column`."""

    states: NDArray[Any]

    kind = "categories"

    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """Codes of the cells; see :meth:`Column.encode`."""
        # An integer that float64 does not hold could be taken for another category.
        if place not in cells.strings:
            refuse_rounded(cells.rounded.get(place), self.where)
        codes = codes_of(cells, place, self.states)
        return codes, np.isnan(codes) & cells.observed(place)

    def decode(self, rows: Floats, place: int) -> NDArray[Any]:
        """The categories of codes; see :meth:`Column.decode`."""
        return decode_column(rows[:, place], self.states)

    def encoded(self) -> Column:
        """The column of encoded cells."""
        return Categories(states=np.arange(float(self.n_states)))

    def summary(self) -> Summary:
        """What to say of the column."""
        return super().summary()._replace(values=listed(self.states))


def codes_of(cells: Cells, place: int, states: NDArray[Any]) -> Floats:
    """Codes of the cells of a column, NaN where one is missing or no state."""
    return encode_values(cells.strings.get(place, cells.numbers[:, place]), states)


def encode_values(column: NDArray[Any], states: NDArray[Any]) -> Floats:
    """Codes of the strings or numbers of a column, NaN where it is missing or no state."""
    if column.dtype == object:
        return encode_strings(column, states)
    # Cells that were read as numbers are none of these strings.
    if states.dtype == object:
        return np.full(len(column), np.nan)
    return encode_numbers(column, states)


def encode_numbers(column: Floats, states: NDArray[Any]) -> Floats:
    """Codes of the numbers of a column, NaN where it is missing or no state."""
    # A search needs increasing states, but users declare them in any order.
    order = np.argsort(states)
    values = states[order].astype(np.float64)
    # What is above the last state is compared with it, and differs.
    place = np.minimum(np.searchsorted(values, column), len(values) - 1)
    return np.where(values[place] == column, order[place], np.nan)


def encode_strings(column: NDArray[np.object_], states: NDArray[Any]) -> Floats:
    """Codes of the strings of a column, NaN where it is missing or no state."""
    code_of = {state: float(code) for code, state in enumerate(states)}
    return np.array([code_of.get(cell, np.nan) for cell in column.tolist()])


def decode_column(codes: Floats, states: NDArray[Any]) -> NDArray[Any]:
    """What codes stand for; missing cells are NaN among numbers, else None."""
    missing: Any = np.nan if states.dtype == np.float64 else None
    # One more state behind the last stands for "missing".
    extended = np.append(states, missing)
    code = np.where(np.isnan(codes), len(states), codes)
    return extended[code.astype(np.intp)]


def shorten(states: NDArray[Any] | None) -> str:
    """The first states of a column, for error messages."""
    return reprlib.repr([] if states is None else states.tolist())
