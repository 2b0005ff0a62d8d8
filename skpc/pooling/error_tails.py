"""What wrong cells hold, beside what their column holds."""

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Bools, Floats, weighted_quantiles
from skpc.domain import Domain
from skpc.variables import Law
from skpc.variables.lattice import on_lattice

#: Scales of these numbers, in standard deviations by the quartiles.
_WIDTHS = np.array([8.0, 32.0, 128.0])
#: Part of the wrong cells that follow no margin: most errors are like their column.
SPREAD = 0.25
#: Distance between the quartiles of a normal distribution, in standard deviations.
QUARTILES = 1.349


class ErrorTail(NamedTuple):
    """What the wrong cells of a column hold that follow no margin.

    They are uniform among the categories, or have Student distributions of three degrees of freedom
    about the median of the numbers, with scales from near to far.

    Attributes
    ----------
    number : Law or None
        What a numeric column is.
    middle, spread : float
        Of the right numbers, by quartiles; the spread is zero for categories.
    share : ndarray of shape (n_states,)
        The shares of the categories, empty for numbers.
    hits : float
        The probability that what a wrong cell may hold, by its margin and this, is the true value.
    is_strict : bool
        Whether values off the lattice of the column are impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.pooling.error_tails import ErrorTail
    >>> rows = np.arange(100.0)[:, np.newaxis] ** 1.5
    >>> tail = ErrorTail.fit(Domain.fit(rows), 0, rows[:, 0], np.ones(100))
    >>> tail.log_density(np.array([0.0, 500.0, 1e300])).round()
    array([  -10.,   -10., -2731.])
    """

    number: Law | None
    middle: float
    spread: float
    share: Floats
    hits: float
    is_strict: bool = True

    @classmethod
    def fit(cls, domain: Domain, column: int, values: Floats, weight: Floats) -> Self:
        """Estimate it from encoded cells (NaN where missing) and their weights."""
        known = ~np.isnan(values)
        values = values[known]
        weight = weight[known]
        points, place = np.unique(values, return_inverse=True)
        mass = np.bincount(place, weight) / weight.sum()
        states = domain[column].states
        number = domain[column].law
        if states is not None:
            share = (np.bincount(values.astype(np.int64), weight, len(states)) + 0.5) / (
                weight.sum() + 0.5 * len(states)
            )
            tail = cls(None, 0.0, 0.0, share, 0.0)
        else:
            quarters = np.arange(1, 4)
            cumulated = np.cumsum(mass)
            low, middle, high = weighted_quantiles(points, cumulated, quarters, 4).tolist()
            sd = math.sqrt(float(mass @ (points - middle) ** 2))
            spread = (high - low) / QUARTILES or sd or abs(middle) or 1.0
            tail = cls(number, middle, spread, mass[:0], 0.0)
            # A lattice that not all values are on is no law.
            tail = tail._replace(is_strict=bool(tail.can_be(points).all()))
        size = tail.sizes(points)
        by_tail = mass @ (np.exp(tail.log_density(points)) * size)
        by_margin = mass**2 @ (size > 0.0)
        hits = float((1.0 - SPREAD) * by_margin + SPREAD * by_tail)
        # As if one more cell were unlike all others: a constant column may get another value.
        return tail._replace(hits=hits * weight.sum() / (weight.sum() + 1.0))

    def log_density(self, values: Floats) -> Floats:
        """Log density of these cells in nats; NaN where missing."""
        if self.spread == 0.0:
            return np.where(np.isnan(values), np.nan, -math.log(len(self.share)))
        scale = self.spread * _WIDTHS[:, np.newaxis]
        # As a power of a hypotenuse, it does not overflow.
        z = (values / scale - self.middle / scale) / math.sqrt(3.0)
        parts = (
            math.log(2.0 / (math.pi * math.sqrt(3.0)))
            - np.log(scale)
            - 4.0 * np.log(np.hypot(1.0, z))
        )
        log_density = logsumexp(parts, axis=0) - math.log(len(_WIDTHS))
        # An atom has a probability, where this has a density.
        return np.where(self._has_mass(values), -np.inf, log_density)

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
        # Distance from a lattice, in steps, from which on a value is none of its points.
        off_lattice = 1e-3
        if number.step > 0.0 and self.is_strict:
            off = np.abs(values - on_lattice(values, number.step, number.origin))
            can_be &= ~(off > off_lattice * number.step)
        return can_be

    def _has_mass(self, values: Floats) -> Bools:
        """Which values have a probability: atoms, but for those that fill a cell of a lattice."""
        if self.number is None or self.number.step > 0.0:
            return np.zeros(len(values), dtype=bool)
        return self.number.is_atom(values)
