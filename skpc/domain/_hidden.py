"""Columns that no learner sees: those without any value, and those that name the rows.

They say nothing of the other columns. For a learner they are categories of one state, which is the
same in all rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import ROUNDING, Bools, Floats
from skpc.domain._categories import Categories, codes_of, decode_column
from skpc.domain._column import Column, Summary, listed
from skpc.domain._tables import Cells

#: The states that a learner gets for a column that it does not see.
ONE_STATE = np.array([None], dtype=object)


@dataclass(frozen=True, eq=False, kw_only=True)
class Hidden(Column):
    """A column that no learner sees.

    Attributes
    ----------
    values : ndarray
        What the cells can be; a cell whose code is ``i + 1`` holds value ``i``, and one whose code
        is 0 is missing.
    """

    values: NDArray[Any]
    states: NDArray[Any] = field(default_factory=lambda: ONE_STATE)

    is_hidden: ClassVar[bool] = True

    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """The one state, and no unknown cells; see :meth:`Column.encode`."""
        n_rows = len(cells.numbers)
        return np.zeros(n_rows), np.zeros(n_rows, dtype=bool)

    def decode(self, rows: Floats, place: int) -> NDArray[Any]:
        """The values of codes; see :meth:`Column.decode`."""
        codes = rows[:, place]
        return decode_column(np.where(codes > 0.0, codes - 1.0, np.nan), self.values)

    def encoded(self) -> Column:
        """The column of encoded cells: its one state is a category."""
        return Categories(states=np.zeros(1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Empty(Hidden):
    """A column without any value in ``fit``: whatever it holds later says nothing."""

    values: NDArray[Any] = field(default_factory=lambda: np.array([np.nan]))

    kind = "empty"
    holds_strings = None
    log_known = math.nan


@dataclass(frozen=True, eq=False, kw_only=True)
class RowNames(Hidden):
    """A column that names the rows: uniform, and independent of all other columns."""

    kind = "row names"
    holds_strings = None

    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """The one state, and which names are new; see :meth:`Column.encode`."""
        codes, _ = super().encode(cells, place)
        # A missing cell has no code either, but its name is not a new one.
        is_unknown = np.isnan(codes_of(cells, place, self.values)) & cells.observed(place)
        return codes, is_unknown

    @property
    def log_known(self) -> float:
        """What an observed cell of a known name adds to log densities (nats)."""
        # Names are uniform: each has an equal part of what the known ones have together.
        return super().log_known - math.log(len(self.values))

    def summary(self) -> Summary:
        """What to say of the column."""
        return super().summary()._replace(values=listed(self.values))


def is_once(weight: float) -> bool:
    """Whether a value of this weight is seen once."""
    return weight <= 1.0 + ROUNDING


def name_rows(weight_of: Mapping[str, float]) -> bool:
    """Whether nearly every one of the values with these weights comes once."""
    n_cells = math.fsum(weight_of.values())
    n_once = sum(map(is_once, weight_of.values()))
    # ... and a larger share of values that are seen once. A new row then holds a known value with a
    # probability of a tenth or less. In trials, values that decided another column were worth
    # nothing to it (.00 +- .01 nats a row) from a share of .4 on; learning them took five times as
    # long.
    identifier_share = 0.9
    # A column of strings is an identifier if it has this many observed cells ...
    identifier_from = 50
    return n_cells >= identifier_from and n_once > identifier_share * n_cells
