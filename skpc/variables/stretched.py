"""Distributions of numbers that only pools of predictions use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skpc._arrays import Floats, log_or_inf
from skpc.variables.forms import Form

#: Halvings of the bounds of a quantile: they end at neighbouring floats.
_HALVINGS = 200
#: A smaller probability of a cell is taken from the density in its middle.
_SMALLEST_MASS = 1e-10


class OwnNormals(NamedTuple):
    """Normal distributions, each with its own mean and standard deviation.

    Parameters
    ----------
    mean, sd : ndarrays of shape (n,)
        Moments of each distribution; standard deviations are positive.
    prob : ndarray of shape (n, 1)
        The probability of each distribution, as a part of a mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import OwnNormals
    >>> two = OwnNormals(np.array([0.0, 3.0]), np.array([1.0, 2.0]), np.ones((2, 1)))
    >>> two.means(), two.below(np.array([0.0, 3.0])), two.quantiles(0.975).round(2)
    (array([0., 3.]), array([0.5, 0.5]), array([1.96, 6.92]))
    """

    mean: Floats
    sd: Floats
    prob: Floats

    def means(self) -> Floats:
        """Mean of each distribution."""
        return self.prob[:, 0] * self.mean

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        return self.prob[:, 0] * ((self.mean - centre) ** 2 + self.sd**2)

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        return self.prob[:, 0] * ndtr((x - self.mean) / self.sd)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        return self.mean + ndtri(level) * self.sd

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        u = (x - self.mean) / self.sd
        return log_or_inf(self.prob[:, 0] / (math.sqrt(2.0 * math.pi) * self.sd)) - 0.5 * u * u

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob[:, 0]

    def without_atoms(self) -> OwnNormals:
        """The part without atoms: all."""
        return self


class Stretched(NamedTuple):
    """Mixtures of copies of a distribution, stretched around its mean, which does not change.

    Parameters
    ----------
    form : Form
        The distributions.
    factors : ndarray of shape (n_factors,)
        How many times as wide each copy is; positive.
    prob : ndarray of shape (n, n_factors)
        Weights of the copies of each distribution; they sum to one, unless the distribution is a
        part of a mixture.
    middle : ndarray of shape (n,)
        Means of the distributions, as :meth:`of` finds them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals, Stretched
    >>> one = Normals(np.array([5.0]), np.array([1.0]))
    >>> heavy = Stretched.of(one, np.array([0.5, 4.0]), np.array([[0.9, 0.1]]))
    >>> heavy.means(), heavy.mean_squares(heavy.means()), heavy.quantiles(0.5)
    (array([5.]), array([1.825]), array([5.]))
    """

    form: Any
    factors: Floats
    prob: Floats
    middle: Floats

    @classmethod
    def of(cls, form: Any, factors: Floats, prob: Floats) -> Stretched:
        """Stretch distributions around their means, which may take a quadrature each."""
        return cls(form, factors, prob, form.means() / form.total())

    def means(self) -> Floats:
        """Mean of each distribution."""
        return self.total() * self.middle

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        middle = self.middle
        around = self.form.mean_squares(middle) * (self.prob @ self.factors**2)
        return around + self.total() * (middle - centre) ** 2

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        middle = self.middle
        copies = [self.form.below(middle + (x - middle) / factor) for factor in self.factors]
        return (self.prob * np.array(copies).T).sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        middle, wanted = self.middle, level * self.total()
        away = self.form.quantiles(level) - middle
        ends = middle + self.factors[:, np.newaxis] * away
        return bisected(lambda x: self.below(x) >= wanted, ends.min(axis=0), ends.max(axis=0))

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        copies = self.log_densities(x) + log_or_inf(self.prob)
        return np.asarray(np.logaddexp.reduce(copies, axis=1))

    def log_densities(self, x: Floats) -> Floats:
        """Log density (nats) of each copy at an ``x`` for each row, shape (n, n_factors)."""
        middle = self.middle
        copies = [
            self.form.log_density(middle + (x - middle) / factor) - math.log(factor)
            for factor in self.factors
        ]
        return np.array(copies).T

    def log_masses(self, x: Floats, step: float) -> Floats:
        """Log of the mean density (nats) of each copy in the cell of a lattice around ``x``.

        Shape (n, n_factors). Over all cells the densities times ``step`` sum to one.
        """
        middle, found = self.middle, self.log_densities(x)
        for column, factor in zip(found.T, self.factors):
            low, high = (middle + (x + side - middle) / factor for side in (-step / 2, step / 2))
            mass = self.form.below(high) - self.form.below(low)
            # Differences of numbers close to one are rounding.
            told = mass > _SMALLEST_MASS
            column[told] = np.log(mass[told] / step)
        return found

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1) * self.form.total()


#: What the distribution of a cell is made of.
Term = Form | OwnNormals | Stretched


def bisected(reached: Callable[[Floats], Any], low: Floats, high: Floats) -> Floats:
    """The least numbers, each between two bounds, at which a condition holds that then stays true.

    They are found to neighbouring floats; the upper bound where the condition holds nowhere.
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not ((low < middle) & (middle < high)).any():
            break
        holds = reached(middle)
        high, low = np.where(holds, middle, high), np.where(holds, low, middle)
    return high
