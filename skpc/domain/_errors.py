"""What wrong cells hold: the widened margins of columns."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Bools, Floats, weighted_quantiles
from skpc.domain._domain import Domain
from skpc.variables import AxisTable, Margin, Number, plain_axis
from skpc.variables.margins import MOST_BINS
from skpc.variables.number import on_lattice

#: Part of the wrong cells that follow no margin: any category, or numbers far away.
_ANYTHING = 0.25
#: Scale of these numbers, in standard deviations by the quartiles.
_WIDTH = 2.0
#: Distance between the quartiles of a normal distribution, in standard deviations.
_QUARTILES = 1.349
#: Distance from a lattice, in steps, from which on a value is none of its points.
_OFF_LATTICE = 1e-3


class ErrorMargin(NamedTuple):
    """The distribution of the wrong cells of a column, positive wherever a cell can be.

    Three quarters of them follow the margin of the column, a quarter a Student distribution of
    three degrees of freedom about its median, or the uniform distribution of its categories. It has
    the measure of the densities of the column: atoms have probabilities.

    Attributes
    ----------
    table : AxisTable
        The axis of the margin; empty for categories.
    log_prob : ndarray of shape (n_states,)
        Log probabilities of the states, without the quarter.
    number : Number or None
        What a numeric column is.
    middle, spread : float
        Of the Student distribution; the spread is zero for categories.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain, ErrorMargin
    >>> rows = np.arange(100.0)[:, np.newaxis] ** 1.5
    >>> margin = ErrorMargin.fit(Domain.fit(rows), 0, rows[:, 0], np.ones(100))
    >>> margin.log_density(np.array([0.0, 500.0, 1e300])).round()
    array([   -7.,    -7., -2741.])
    """

    table: AxisTable
    log_prob: Floats
    number: Number | None
    middle: float
    spread: float

    @classmethod
    def fit(cls, domain: Domain, column: int, values: Floats, weight: Floats) -> ErrorMargin:
        """Estimate it from encoded cells (NaN where missing) and their weights."""
        known = np.flatnonzero(~np.isnan(values))
        values, weight = values[known], weight[known]
        axis, number, middle, spread = None, domain.number_of(column), 0.0, 0.0
        states = domain.categories[column]
        if states is None:
            order = np.argsort(values, kind="stable")
            quarters, cumulated = np.arange(1, 4), np.cumsum(weight[order])
            low, middle, high = weighted_quantiles(values[order], cumulated, quarters, 4).tolist()
            sd = math.sqrt(float(np.average((values - middle) ** 2, weights=weight)))
            spread = _WIDTH * ((high - low) / _QUARTILES or sd or max(abs(middle), 1.0))
            axis = None if domain.axes is None else domain.axes[column]
            if axis is None and number is None:
                axis = plain_axis(values, weight, MOST_BINS)
            elif axis is None and number is not None:
                axis = Margin.fit(values, weight, number).axis(MOST_BINS)
        n_states = len(states) if states is not None else axis.n_states if axis else 1
        table = AxisTable.from_axes([axis])
        codes = table.states(values[:, np.newaxis])[:, 0]
        count = np.bincount(codes, weight, n_states) + 0.5
        prob = (1.0 - _ANYTHING) * count / count.sum()
        if states is not None:
            prob += _ANYTHING / n_states
        return cls(table, np.log(prob), number, middle, spread)

    def log_density(self, values: Floats) -> Floats:
        """Log density of wrong cells in nats; NaN where missing."""
        cells = values[:, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            of_margin = self.log_prob[self.table.states(cells)[:, 0]]
            of_margin = of_margin + self.table.log_density(cells)
            if self.spread > 0.0:
                beyond = np.logaddexp(of_margin, self.log_tail(values))
                of_margin = np.where(self._has_mass(values), of_margin, beyond)
        return np.where(np.isnan(values), np.nan, of_margin)

    def log_tail(self, values: Floats) -> Floats:
        """The part of :meth:`log_density` that follows no margin, for numbers."""
        # As a power of a hypotenuse, it does not overflow.
        z = (values / self.spread - self.middle / self.spread) / math.sqrt(3.0)
        at_middle = math.log(_ANYTHING * 2.0 / (math.pi * math.sqrt(3.0) * self.spread))
        return np.asarray(at_middle - 4.0 * np.log(np.hypot(1.0, z)))

    def sizes(self, values: Floats) -> Floats:
        """What turns the density of a cell into a probability; 0 where no value has one."""
        if self.spread == 0.0:
            return np.ones(len(values))
        step = 0.0 if self.number is None else self.number.step
        return np.where(self._has_mass(values), 1.0, step)

    def can_be(self, values: Floats) -> Bools:
        """Whether a column of numbers can have these values: in its bounds, on its lattice."""
        number = self.number
        if number is None:
            return np.ones(len(values), dtype=bool)
        can_be = ~((values < number.bounds[0]) | (values > number.bounds[1]))
        if number.step > 0.0:
            off = np.abs(values - on_lattice(values, number.step, number.origin))
            can_be &= ~(off > _OFF_LATTICE * number.step)
        return can_be

    def _has_mass(self, values: Floats) -> Bools:
        """Which values have a probability: atoms, but for those that fill a cell of a lattice."""
        if self.number is None or self.number.step > 0.0:
            return np.zeros(len(values), dtype=bool)
        return self.number.is_atom(values)
