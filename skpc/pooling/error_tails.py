"""The tail of the distribution of wrong cells: values unlike those of their column.

Most wrong cells hold a value that their column holds elsewhere, a draw from its margin. The others
hold a draw from the tail.
"""

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Bools, Floats, group_sums, weighted_quantiles
from skpc.domain import Column

#: Scales of the Student distributions of a tail, in standard deviations by the quartiles.
_SCALES = np.array([8.0, 32.0, 128.0])
#: Share of the wrong cells that are drawn from the tail.
TAIL_SHARE = 0.25
#: Distance between the quartiles of a normal distribution, in standard deviations.
NORMAL_IQR = 1.349


class ErrorTail(NamedTuple):
    """The distribution of those wrong cells of a column that are not drawn from its margin.

    Categories are uniform. Numbers have a mixture of Student distributions of three degrees of
    freedom around the median of the column, with scales from near to far.

    Attributes
    ----------
    column : Column
        What the column is.
    middle, spread : float
        Median and standard deviation, by quartiles, of the numbers; not used for categories.
    hit_probability : float
        The probability that a draw from the margin and the tail equals the true value by chance.
    is_strict : bool
        Whether values off the lattice of the column are impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.pooling.error_tails import ErrorTail
    >>> rows = np.arange(100.0)[:, np.newaxis] ** 1.5
    >>> tail = ErrorTail.fit(Domain.fit(rows)[0], rows[:, 0], np.ones(100))
    >>> tail.log_density(np.array([0.0, 500.0, 1e300])).round()
    array([  -10.,   -10., -2731.])
    """

    column: Column
    middle: float = 0.0
    spread: float = 1.0
    hit_probability: float = 0.0
    is_strict: bool = True

    @classmethod
    def fit(cls, column: Column, values: Floats, weight: Floats) -> Self:
        """Estimate the tail from encoded cells (NaN where missing) and their weights."""
        known = ~np.isnan(values)
        points, place = np.unique(values[known], return_inverse=True)
        mass = group_sums(place, weight[known]) / weight[known].sum()
        tail = cls(column)
        if column.states is None:
            quarters = np.arange(1, 4)
            low, middle, high = weighted_quantiles(points, np.cumsum(mass), quarters, 4).tolist()
            sd = math.sqrt(mass @ (points - middle) ** 2)
            # Where most values are equal, so are the quartiles, and another scale has to do.
            spread = (high - low) / NORMAL_IQR or sd or abs(middle) or 1.0
            # A lattice that some values do not lie on rules no value out.
            is_strict = bool(tail.can_be(points).all())
            tail = cls(column, middle, spread, is_strict=is_strict)
        size = tail.sizes(points)
        # Only values that have a probability, not a density alone, can be hit by chance.
        hit_by_tail = mass @ (np.exp(tail.log_density(points)) * size)
        hit_by_margin = mass**2 @ (size > 0.0)
        hit_probability = float((1.0 - TAIL_SHARE) * hit_by_margin + TAIL_SHARE * hit_by_tail)
        # One more cell counts as unlike all others: even a constant column may have errors.
        n_rows = float(weight[known].sum())
        return tail._replace(hit_probability=hit_probability * n_rows / (n_rows + 1.0))

    def log_density(self, values: Floats) -> Floats:
        """Log density of cells under the tail, in nats; NaN where missing."""
        if self.column.states is not None:
            return np.where(np.isnan(values), np.nan, -math.log(len(self.column.states)))
        scale = self.spread * _SCALES[:, np.newaxis]
        # As a power of a hypotenuse, it does not overflow.
        z = (values / scale - self.middle / scale) / math.sqrt(3.0)
        parts = (
            math.log(2.0 / (math.pi * math.sqrt(3.0)))
            - np.log(scale)
            - 4.0 * np.log(np.hypot(1.0, z))
        )
        log_density = logsumexp(parts, axis=0) - math.log(len(_SCALES))
        law = self.column.law
        if law is None or law.step > 0.0:
            return log_density
        # An atom has a probability, where this has a density.
        return np.where(law.is_atom(values), -np.inf, log_density)

    def sizes(self, values: Floats) -> Floats:
        """The factor from the density of each cell to its probability; 0 where it has none."""
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
