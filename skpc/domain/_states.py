"""Columns of ordered states: few numbers with nothing between them, or ordered categories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpc._arrays import Bools, Floats
from skpc.domain._numbers import Numbers
from skpc.domain._tables import Cells
from skpc.variables import Law


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedStates(Numbers):
    """A column of numbers all of which are atoms; see :class:`Column`."""

    law: Law

    is_ordered = True

    @property
    def kind(self) -> str:
        """Name of the kind: that of the calendar, where there is one."""
        return "ordered states" if self.calendar is None else self.calendar.kind

    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """The states, the nearest ones of other numbers; see :meth:`Column.encode`."""
        values = cells.numbers[:, place]
        is_unknown = ~np.isnan(values) & ~self.law.is_atom(values)
        if is_unknown.any():
            # The numbers may be the array of the user itself.
            values = values.copy()
            values[is_unknown] = self.law.values(values[is_unknown])
        return values, is_unknown

    def log_unknown(self, values: Floats) -> Floats:
        """What cells of unknown states add (nats); see :meth:`Column.log_unknown`."""
        log_density = super().log_unknown(values)
        # What contradicts a face, or a face has alone, is somewhere else than the states.
        is_number = ~(np.isnan(values) | self.law.is_atom(values))
        log_density[is_number] = self.law.log_unseen(values[is_number])
        return log_density

    def within_ends(self, values: Floats) -> Floats:
        """The nearest states; NaN stays."""
        return self.nearest(super().within_ends(values))
