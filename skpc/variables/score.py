"""Scores: bijections of the line that make the values of a column look normal.

A score first maps the interval between the bounds of a column onto the line by logarithms (without
bounds it leaves the value). Then it subtracts a centre, divides by a spread, and takes
the power transform of Yeo and Johnson ("A new family of power transformations to improve normality
or symmetry", Biometrika 2000). Beyond the range of the training rows it continues linearly, because
the transform itself is bounded on one side for most powers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from skpc._arrays import Floats
from skpc._jit import fast_exp, inlined, kernel

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
#: Standard deviations around a mean beyond which a normal density counts for nothing.
_REACH = 9.0
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
#: How near to a bound a value may come, as a part of the distance that counts there.
_NEAREST = 1e-12


class Score(NamedTuple):
    """An increasing bijection between the values of a column and the line.

    Parameters
    ----------
    lower, upper : float
        Bounds of the column; infinite without a bound.
    centre, spread : float
        What is subtracted, and what the rest is divided by, before the power transform.
    power : float
        Power of the transform; 1 is the identity.
    low, high : float
        Between these, in units of the spread, the transform applies; beyond it is linear.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.score import Score
    >>> score = Score(centre=10.0, spread=2.0, power=0.0, low=-2.0, high=5.0)
    >>> z = score.of(np.array([10.0, 14.0]))
    >>> z.round(3), score.inverse(z)
    (array([0.   , 1.099]), array([10., 14.]))
    """

    lower: float = -math.inf
    upper: float = math.inf
    centre: float = 0.0
    spread: float = 1.0
    power: float = 1.0
    low: float = 0.0
    high: float = 0.0

    def of(self, x: Floats) -> Floats:
        """Scores of values; NaN stays."""
        found = np.empty(np.shape(x))
        _scores(np.array(self, dtype=np.float64), np.ravel(x), found.ravel())
        return found

    def inverse(self, z: Floats) -> Floats:
        """Values of scores; NaN stays."""
        found = np.empty(np.shape(z))
        _values(np.array(self, dtype=np.float64), np.ravel(z), found.ravel())
        return found

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        found = np.empty(np.shape(x))
        _log_slopes(np.array(self, dtype=np.float64), np.ravel(x), found.ravel())
        return found

    def moments(self, mean: Floats, sd: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` for values x whose scores are normal.

        By Gauss-Legendre quadrature between the ends of the power transform and its middle, where
        it is not smooth, and beyond them. With one bound, values beyond the range count as its end:
        they grow exponentially with their scores, and would rule the mean, though no row came near.
        """
        if self.power == 1.0 and self.lower == -math.inf and self.upper == math.inf:
            offset = self.centre + self.spread * mean - centre
            return offset, offset**2 + (self.spread * sd) ** 2
        first, second = np.empty(len(mean)), np.empty(len(mean))
        flat, rule = np.array(self, dtype=np.float64), (_NODES, _WEIGHTS)
        _quadrature(flat, self._knots, *rule, mean, sd, centre, first, second)
        return first, second

    def below(self, x: Floats, mean: Floats, sd: Floats) -> Floats:
        """Probability that a value whose score is normal is not above ``x``."""
        return ndtr((self.of(x) - mean) / sd)

    @property
    def _knots(self) -> Floats:
        """Scores between which the inverse of the score is smooth, increasing."""
        ends = [_power_of(self.low, self.power), _power_of(self.high, self.power)]
        return np.sort([*ends, 0.0])


@inlined
def _power(u: float, power: float) -> float:
    """The transform of Yeo and Johnson."""
    if power == 1.0:
        return u
    if u >= 0.0:
        return math.expm1(power * math.log1p(u)) / power if power != 0.0 else math.log1p(u)
    rest = 2.0 - power
    return -math.expm1(rest * math.log1p(-u)) / rest if rest != 0.0 else -math.log1p(-u)


@inlined
def _log_power_slope(u: float, power: float) -> float:
    return (power - 1.0) * math.log1p(u) if u >= 0.0 else (1.0 - power) * math.log1p(-u)


@inlined
def _inverse_power(y: float, power: float) -> float:
    if power == 1.0:
        return y
    if y >= 0.0:
        return math.expm1(math.log1p(power * y) / power) if power != 0.0 else math.expm1(y)
    rest = 2.0 - power
    return -math.expm1(math.log1p(-rest * y) / rest) if rest != 0.0 else -math.expm1(-y)


@inlined
def _unbound(lower: float, upper: float, x: float) -> float:
    """Map the interval between the bounds onto the line."""
    if lower > -math.inf:
        x = max(x, lower + _NEAREST * max(abs(lower), 1.0))
    if upper < math.inf:
        x = min(x, upper - _NEAREST * max(abs(upper), 1.0))
    if lower > -math.inf:
        if upper < math.inf:
            return math.log((x - lower) / (upper - x))
        return math.log(x - lower)
    return -math.log(upper - x) if upper < math.inf else x


@inlined
def score_of(score: Floats, at: int | np.int64, x: float) -> tuple[float, float]:
    """Score of a value, and the log slope there; the score is ``score[at : at + 7]``."""
    lower, upper, spread, power = score[at], score[at + 1], score[at + 3], score[at + 4]
    low, high = score[at + 5], score[at + 6]
    slope = -math.log(spread)
    if lower > -math.inf or upper < math.inf:
        v = _unbound(lower, upper, x)
        if lower > -math.inf and upper < math.inf:
            # The derivative of the logit, by what it has become.
            slope += 2.0 * math.log(2.0 * math.cosh(0.5 * v)) - math.log(upper - lower)
        else:
            slope += -v if lower > -math.inf else v
        x = v
    u = (x - score[at + 2]) / spread
    inner = min(max(u, low), high)
    if power == 1.0:
        return u, slope
    at_end = _log_power_slope(inner, power)
    return _power(inner, power) + math.exp(at_end) * (u - inner), slope + at_end


@inlined
def value_of(score: Floats, at: int | np.int64, z: float) -> float:
    """The value that has a score."""
    power, low, high = score[at + 4], score[at + 5], score[at + 6]
    u = z
    if power != 1.0:
        bottom, top = _power(low, power), _power(high, power)
        if z < bottom:
            u = low + (z - bottom) / math.exp(_log_power_slope(low, power))
        elif z > top:
            u = high + (z - top) / math.exp(_log_power_slope(high, power))
        else:
            u = _inverse_power(z, power)
    return _bound(score[at], score[at + 1], score[at + 2] + score[at + 3] * u)


@inlined
def _bound(lower: float, upper: float, v: float) -> float:
    """Map the line onto the interval between the bounds."""
    if lower > -math.inf and upper < math.inf:
        return lower + (upper - lower) / (1.0 + math.exp(-v))
    if lower > -math.inf:
        return lower + math.exp(v)
    return upper - math.exp(-v) if upper < math.inf else v


@kernel
def _scores(score: Floats, x: Floats, found: Floats) -> None:
    for i in range(len(x)):
        found[i] = score_of(score, np.int64(0), x[i])[0] if x[i] == x[i] else np.nan


@kernel
def _log_slopes(score: Floats, x: Floats, found: Floats) -> None:
    for i in range(len(x)):
        found[i] = score_of(score, np.int64(0), x[i])[1] if x[i] == x[i] else np.nan


@kernel
def _values(score: Floats, z: Floats, found: Floats) -> None:
    for i in range(len(z)):
        found[i] = value_of(score, np.int64(0), z[i]) if z[i] == z[i] else np.nan


@kernel
def _power_of(u: float, power: float) -> float:
    return _power(u, power)


@kernel
def _quadrature(
    score: Floats,
    knots: Floats,
    nodes: Floats,
    weights: Floats,
    mean: Floats,
    sd: Floats,
    centre: Floats,
    first: Floats,
    second: Floats,
) -> None:
    """Moments of values whose scores are normal, piece by piece between the knots."""
    lower, upper, middle, spread = score[0], score[1], score[2], score[3]
    power, low, high = score[4], score[5], score[6]
    bottom, below = _power(low, power), math.exp(-_log_power_slope(low, power))
    top, above = _power(high, power), math.exp(-_log_power_slope(high, power))
    # Values grow exponentially on the side without a bound.
    lowest = low if lower == -math.inf and upper < math.inf else -math.inf
    highest = high if upper == math.inf and lower > -math.inf else math.inf
    for i in range(len(mean)):
        first[i], second[i] = 0.0, 0.0
        begin, last = mean[i] - _REACH * sd[i], mean[i] + _REACH * sd[i]
        for piece in range(len(knots) + 1):
            end = min(max(knots[piece], begin), last) if piece < len(knots) else last
            half = 0.5 * (end - begin)
            # Most distributions lie between two of the knots.
            for m in range(len(nodes) if half > 0.0 else 0):
                z = begin + half * (nodes[m] + 1.0)
                t = (z - mean[i]) / sd[i]
                weight = half * weights[m] * fast_exp(-0.5 * t * t) / (sd[i] * _SQRT_2_PI)
                if z < bottom:
                    u = low + (z - bottom) * below
                elif z > top:
                    u = high + (z - top) * above
                else:
                    u = _inverse_power(z, power)
                u = min(max(u, lowest), highest)
                offset = _bound(lower, upper, middle + spread * u) - centre[i]
                first[i] += weight * offset
                second[i] += weight * offset * offset
            begin = end
