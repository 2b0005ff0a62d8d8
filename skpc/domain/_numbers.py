"""Columns of numbers, and of dates, which a calendar makes numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats
from skpc.domain._column import Column, Summary, listed
from skpc.domain._tables import Cells
from skpc.variables.dates import as_dates, text_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Numbers(Column):
    """A column of numbers, dates or durations; see :class:`Column`."""

    @property
    def kind(self) -> str:
        """Name of the kind: that of the calendar, where there is one."""
        return "number" if self.calendar is None else self.calendar.kind

    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """The numbers themselves, all of which are known; see :meth:`Column.encode`."""
        values = cells.numbers[:, place]
        return values, np.zeros(len(values), dtype=bool)

    def decode(self, rows: Floats, place: int) -> NDArray[Any]:
        """The numbers themselves; what writes the table makes dates of them."""
        return rows[:, place]

    def encoded(self) -> Column:
        """The column of encoded cells: dates are numbers."""
        return replace(self, calendar=None)

    def summary(self) -> Summary:
        """What to say of the column: its range, bounds, atoms and lattice."""
        summary = super().summary()
        if self.law is None:
            return summary
        law = self.law
        calendar = self.calendar
        low, high, *bounds = (text_of(x, calendar) for x in (law.low, law.high, *law.bounds))
        # The bounds of ordered categories are the ranks of their ends, which say nothing more.
        has_bounds = np.isfinite(law.bounds).any() and self.labels is None
        values = f"{low} to {high}" + (f" in [{', '.join(bounds)}]" if has_bounds else "")
        # A step or an origin of zero is left out.
        lattice = " from ".join(f"{part:.9g}" for part in (law.step, law.origin) if part)
        atoms = listed(as_dates(law.atoms, calendar))
        return summary._replace(values=values, atoms=atoms, lattice=lattice)
