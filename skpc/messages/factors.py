"""Factors on one variable whose density is known: the logistic and the compound gamma factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit, log_expit

from skpc._arrays import Floats

#: How far below its peak (nats) a density is negligible: exp(-40) is 4e-18.
_DEPTH = 40.0
#: Stands for a power of zero.
_SMALL = 1e-10


class Factor(Protocol):
    """What quadrature has to know of a factor, integrated along one coordinate u.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import LogisticFactor
    >>> factor, rows = LogisticFactor(), np.array([[2.0, 1.0, 0.0, 4.0]])
    >>> left, right = factor.panels(rows)
    >>> u = np.linspace(left[0, 0], right[0, 1], 10_001)[np.newaxis]
    >>> weight = np.exp(factor.log_density(u, rows))
    >>> ((weight * factor.value(u, 1)).sum() / weight.sum()).round(3)
    np.float64(1.211)
    """

    @property
    def distributions(self) -> tuple[str, ...]:
        """Families of the incoming messages, in the order of the columns."""

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Both ends of intervals of u, shapes (n_rows, n_panels).

        The product of factor and messages is smooth in each interval, and negligible outside them.
        """

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """Log of the product of factor and messages as a density of u, up to a constant for each
        row; shape (n_rows, n_points) as `u`."""

    def value(self, u: Floats, variable: int) -> Floats:
        """The value of a variable at u."""


class LogisticFactor(NamedTuple):
    """The factor delta(p - 1 / (1 + exp(-z))) with a beta message from p and a normal one from z.

    Variable 0 is p, variable 1 is z, and z is the coordinate.

    Examples
    --------
    >>> from skpc.messages import LogisticFactor, QuadratureOracle
    >>> oracle = QuadratureOracle(LogisticFactor(), target=1)
    >>> oracle.project([[2.0, 1.0, 0.0, 4.0]]).parameters.round(3)
    array([[1.211, 2.532]])
    """

    distributions: tuple[str, ...] = ("beta", "normal")

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Below zero the beta message is about exp((alpha - 1) z) and above it about
        exp(-(beta - 1) z), within a constant factor: the product is near a normal density on
        either side."""
        alpha, beta, mean, variance = rows.T
        below, above = mean + (alpha - 1.0) * variance, mean - (beta - 1.0) * variance
        lower = _normal_interval(below, mean, variance, np.minimum(below, 0.0))
        upper = _normal_interval(above, mean, variance, np.maximum(above, 0.0))
        peak = np.maximum(lower.peak, upper.peak)
        low_left, low_right = lower.ends(peak)
        up_left, up_right = upper.ends(peak)
        left = np.stack([np.minimum(low_left, 0.0), np.maximum(up_left, 0.0)], axis=1)
        right = np.stack([np.minimum(low_right, 0.0), np.maximum(up_right, 0.0)], axis=1)
        return left, right

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """See ``Factor``, which has an example."""
        alpha, beta, mean, variance = (column[:, np.newaxis] for column in rows.T)
        normal = -0.5 * (u - mean) ** 2 / variance
        # log(1 - p) is log(p) - z.
        return np.asarray(normal + (alpha + beta - 2.0) * log_expit(u) - (beta - 1.0) * u)

    def value(self, u: Floats, variable: int) -> Floats:
        """See ``Factor``, which has an example."""
        return np.asarray(expit(u)) if variable == 0 else u


class _Interval(NamedTuple):
    """The density exp(height - (z - centre)^2 / 2 variance), and its log where it is greatest."""

    centre: Floats
    variance: Floats
    height: Floats
    peak: Floats

    def ends(self, peak: Floats) -> tuple[Floats, Floats]:
        """Where the density has fallen below a peak."""
        fall = np.maximum(self.height - peak + _DEPTH, 0.0)
        radius = np.sqrt(2.0 * self.variance) * np.sqrt(fall)
        return self.centre - radius, self.centre + radius


def _normal_interval(centre: Floats, mean: Floats, variance: Floats, mode: Floats) -> _Interval:
    # A normal density times exp(a z) is another one, with this constant before it.
    height = 0.5 * ((centre - mean) / variance) * (centre + mean)
    fall = 0.5 * ((mode - centre) / np.sqrt(variance)) ** 2
    return _Interval(centre, variance, height, height - fall)


def _gamma_interval(power: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """Where tau^power exp(-rate tau), as a function of log(tau), is not negligible."""
    mode, sd = np.log(power / rate), np.sqrt(2.0 * _DEPTH / power)
    # There are two bounds on the right; the first is the better one for large powers.
    right = np.minimum(mode + sd, np.log(2.0 * (power + _DEPTH) / rate))
    return mode - sd - _DEPTH / power, right


@dataclass(frozen=True)
class CompoundGammaFactor:
    """The compound gamma factor of a precision tau, with a gamma message from tau.

    tau is gamma with shape `s2` and rate r2, and r2 is gamma with shape `s1` and rate `r1`; r2 is
    integrated out, which leaves tau^(s2 - 1) (tau + r1)^-(s1 + s2). The coordinate is log(tau).

    Parameters
    ----------
    s1, r1, s2 : float, default=1.0
        Positive.

    Raises
    ------
    ValueError
        If one of them is not positive.

    Examples
    --------
    >>> from skpc.messages import CompoundGammaFactor, QuadratureOracle
    >>> oracle = QuadratureOracle(CompoundGammaFactor(), target=0)
    >>> oracle.project([[10.0, 20.0]]).parameters.round(3)
    array([[ 9.795, 20.896]])
    """

    s1: float = 1.0
    r1: float = 1.0
    s2: float = 1.0
    distributions: tuple[str, ...] = ("gamma",)

    def __post_init__(self) -> None:
        if not min(self.s1, self.r1, self.s2) > 0.0:
            raise ValueError(
                f"s1, r1 and s2 must be positive; found {self.s1}, {self.r1} and {self.s2}."
            )

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Below r1 the product is within a constant factor of a gamma density, and above it of one
        with a smaller shape, which need not be positive."""
        shape, rate = rows.T
        bend = np.log(self.r1)
        # A power that is not positive leaves nothing to normalise: the answer is then NaN.
        power = np.where(shape + self.s2 > 1.0, shape + self.s2 - 1.0, np.nan)
        tail = power - self.s1 - self.s2
        left, right = _gamma_interval(power, rate)
        low = np.minimum(left, bend), np.minimum(right, bend)
        left, right = _gamma_interval(np.maximum(tail, _SMALL), rate)
        # With a negative power the density falls from the bend on, by the rate at least.
        right = np.where(tail > 0.0, right, np.log(self.r1 + _DEPTH / rate))
        high = np.maximum(left, bend), np.maximum(right, bend)
        return np.stack([low[0], high[0]], axis=1), np.stack([low[1], high[1]], axis=1)

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """See ``Factor``, which has an example."""
        shape, rate = (column[:, np.newaxis] for column in rows.T)
        compound = -(self.s1 + self.s2) * np.logaddexp(u, np.log(self.r1))
        return np.asarray((shape + self.s2 - 1.0) * u - rate * np.exp(u) + compound)

    def value(self, u: Floats, variable: int) -> Floats:
        """See ``Factor``, which has an example."""
        return np.exp(u)
