"""What wrong cells hold, beside what their column holds."""

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Bools, Floats, group_sums, weighted_quantiles
from skpc.domain import Column

#: Scales of these numbers, in standard deviations by the quartiles.
_WIDTHS = np.array([8.0, 32.0, 128.0])
#: Part of the wrong cells that follow no margin: most errors are like their column.
SPREAD = 0.25
#: Distance between the quartiles of a normal distribution, in standard deviations.
QUARTILES = 1.349


class WrongCells(NamedTuple):
    """The distribution of the wrong cells of a column that follow no margin.

    They are uniform among the categories, or have Student distributions of three degrees of freedom
    about the median of the numbers, with scales from near to far.

    Attributes
    ----------
    column : Column
        What the column is.
    middle, spread : float
        Of the right numbers, by quartiles; not used for categories.
    hits : float
        The probability that what a wrong cell may hold, by its margin and this, is the true value.
    is_strict : bool
        Whether values off the lattice of the column are impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.pooling.error_tails import WrongCells
    >>> rows = np.arange(100.0)[:, np.newaxis] ** 1.5
    >>> wrong = WrongCells.fit(Domain.fit(rows)[0], rows[:, 0], np.ones(100))
    >>> wrong.log_density(np.array([0.0, 500.0, 1e300])).round()
    array([  -10.,   -10., -2731.])
    """

    column: Column
    middle: float = 0.0
    spread: float = 1.0
    hits: float = 0.0
    is_strict: bool = True

    @classmethod
    def fit(cls, column: Column, values: Floats, weight: Floats) -> Self:
        """Estimate it from encoded cells (NaN where missing) and their weights."""
        known = ~np.isnan(values)
        points, place = np.unique(values[known], return_inverse=True)
        mass = group_sums(place, weight[known]) / weight[known].sum()
        wrong = cls(column)
        if column.states is None:
            quarters = np.arange(1, 4)
            low, middle, high = weighted_quantiles(points, np.cumsum(mass), quarters, 4).tolist()
            sd = math.sqrt(mass @ (points - middle) ** 2)
            # Where most values are equal the quartiles are, too, and another number has to do.
            spread = (high - low) / QUARTILES or sd or abs(middle) or 1.0
            # A lattice that not all values are on is no law.
            is_strict = bool(wrong.can_be(points).all())
            wrong = cls(column, middle, spread, is_strict=is_strict)
        size = wrong.sizes(points)
        # By chance a wrong cell holds the true value, where values have probabilities at all.
        by_tail = mass @ (np.exp(wrong.log_density(points)) * size)
        by_margin = mass**2 @ (size > 0.0)
        hits = float((1.0 - SPREAD) * by_margin + SPREAD * by_tail)
        # As if one more cell were unlike all others: a constant column may get another value.
        n_rows = float(weight[known].sum())
        return wrong._replace(hits=hits * n_rows / (n_rows + 1.0))

    def log_density(self, values: Floats) -> Floats:
        """Log density of these cells in nats; NaN where missing."""
        if self.column.states is not None:
            return np.where(np.isnan(values), np.nan, -math.log(len(self.column.states)))
        scale = self.spread * _WIDTHS[:, np.newaxis]
        # As a power of a hypotenuse, it does not overflow.
        z = (values / scale - self.middle / scale) / math.sqrt(3.0)
        parts = (
            math.log(2.0 / (math.pi * math.sqrt(3.0)))
            - np.log(scale)
            - 4.0 * np.log(np.hypot(1.0, z))
        )
        log_density = logsumexp(parts, axis=0) - math.log(len(_WIDTHS))
        law = self.column.law
        if law is None or law.step > 0.0:
            return log_density
        # An atom has a probability, where this has a density.
        return np.where(law.is_atom(values), -np.inf, log_density)

    def sizes(self, values: Floats) -> Floats:
        """What turns the density of a cell into a probability; 0 where no value has one."""
        if self.column.states is not None:
            return np.ones(len(values))
        law = self.column.law
        return np.zeros(len(values)) if law is None else law.cell_sizes(values)

    def can_be(self, values: Floats) -> Bools:
        """Whether the column can have these values."""
        law = self.column.law
        if law is None:
            return np.ones(len(values), dtype=bool)
        return (law if self.is_strict else law._replace(step=0.0)).can_be(values)
