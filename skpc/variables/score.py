"""Scores: bijections of the line that make the values of a column look normal.

A score first maps the interval between the bounds of a column onto the line: by logarithms, or, if
the bounds are soft, by a map that changes only values next to a bound. Then it subtracts a centre,
divides by a spread, and takes the power transform of Yeo and Johnson ("A new family of power
transformations to improve normality or symmetry", Biometrika 2000).

Beyond the range of the training rows a score continues linearly, because most powers are bounded on
one side. With a single bound it is linear in the values on the other side, as a logarithm there
would make tails without a mean.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from skpc._arrays import Floats
from skpc._jit import ZERO, inlined, internal_kernel, kernel
from skpc.variables.histogram import BEYOND_END

#: How near to a bound a value may come, as a part of the distance of typical ones.
_NEAREST = 1e-12
#: Where the score and where the atoms begin in the numbers of a column that kernels read.
HEAD = 5
ATOMS = 13
#: The power transform goes on linearly beyond the range seen, widened by this part of it.
WIDENED = 0.1


def _inverse_power(size: Floats, exponent: float) -> Floats:
    """Undo the transform of Yeo and Johnson, for distances from its middle on one side."""
    # log1p and expm1 would be ten times as slow.
    logs = np.log(1.0 + exponent * size) / exponent if exponent != 0.0 else size
    return np.asarray(np.exp(logs) - 1.0)


def _undo_soft_bound(v: Floats, bound: float, side: float, soft: float) -> Floats:
    """The values on one side of a soft bound that :func:`_softened` maps to ``v``."""
    t = side * (v - bound) / soft
    return np.where(t > 0.0, v, bound) + side * soft * np.log1p(np.exp(-np.abs(t)))


class Score(NamedTuple):
    """An increasing bijection between the values of a column and the line.

    Parameters
    ----------
    lower, upper : float
        Bounds of the column, or the ends of a range that its values crowd; infinite without.
    centre, spread : float
        Subtracted, and divided by, before the power transform.
    power : float
        Power of the transform; 1 is the identity.
    low, high : float
        Between these, in units of the spread, the transform applies; beyond it is linear.
    soft : float, default=0.0
        Distance from a bound from which on values are hardly changed, ``x + s log(1 - exp(-(x -
        lower) / s))`` with ``s`` this distance; 0 for logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.score import Score
    >>> score = Score(centre=10.0, spread=2.0, power=0.0, low=-2.0, high=5.0)
    >>> z = score.transform(np.array([10.0, 14.0]))
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
    soft: float = 0.0

    def transform(self, x: Floats) -> Floats:
        """Scores of values; NaN stays."""
        return self._of_values(x)[0]

    def inverse(self, z: Floats) -> Floats:
        """Values of scores; NaN stays."""
        # Scores far beyond a wide range stand for no finite number.
        with np.errstate(over="ignore"):
            v = self.centre + self.spread * self._powers(np.asarray(z, dtype=np.float64))
        lower = self.lower
        upper = self.upper
        if self.soft > 0.0:
            # The bounds are undone in reverse: the upper one, which softening the lower one has
            # moved, comes first.
            if upper < math.inf:
                width = (upper - lower) / self.soft
                last = upper + self.soft * math.log(-math.expm1(-width))
                v = _undo_soft_bound(v, last, -1.0, self.soft)
            return _undo_soft_bound(v, lower, 1.0, self.soft) if lower > -math.inf else v
        if lower > -math.inf and upper < math.inf:
            return np.asarray(lower + (upper - lower) * expit(v))
        # Beyond the range an exponential goes on along its tangent.
        if lower > -math.inf:
            inner = np.minimum(v, self.centre + self.spread * self.high)
            return lower + np.exp(inner) * (1.0 + (v - inner))
        if upper < math.inf:
            inner = np.maximum(v, self.centre + self.spread * self.low)
            return upper - np.exp(-inner) * (1.0 - (v - inner))
        return v

    def _powers(self, z: Floats) -> Floats:
        """The numbers whose power transforms are scores."""
        if self.power == 1.0:
            return z
        bottom, top, below, above = _ends_of_power(self.power, self.low, self.high)
        inner = np.minimum(np.maximum(z, bottom), top)
        # Above and below its middle the transform has other exponents.
        upper = _inverse_power(np.maximum(inner, 0.0), self.power)
        lower = _inverse_power(np.maximum(-inner, 0.0), 2.0 - self.power)
        # Beyond the range the tangents go on.
        beyond = below * np.minimum(z - bottom, 0.0) + above * np.maximum(z - top, 0.0)
        return upper - lower + beyond

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        return self._of_values(x)[1]

    def ends(self, *ends: Floats) -> list[Floats]:
        """Scores of the ends of intervals; infinite at and beyond a bound."""
        scores = [np.where(x <= self.lower, -np.inf, self.transform(x)) for x in ends]
        return [np.where(x >= self.upper, np.inf, score) for x, score in zip(ends, scores)]

    def powers_of_ends(self) -> Floats:
        """The power transform at the ends of the range."""
        return np.array(_ends_of_power(self.power, self.low, self.high)[:2])

    def _of_values(self, x: Floats) -> tuple[Floats, Floats]:
        """Scores of values, and the log slopes there; NaN stays."""
        z = np.empty(np.shape(x))
        log_slope = np.empty(np.shape(x))
        _scores(np.array(self, dtype=np.float64), np.ravel(x), z.ravel(), log_slope.ravel())
        return z, log_slope


@lru_cache(maxsize=1024)
def _ends_of_power(power: float, low: float, high: float) -> list[float]:
    """The power transform at both ends of its range, and the slopes of its inverse there.

    Learners ask for the same ranges a thousand times.
    """
    scores, log_slopes = Score(power=power, low=low, high=high)._of_values(np.array([low, high]))
    return [*scores.tolist(), *np.exp(-log_slopes).tolist()]


@inlined
def _power(u: float, power: float) -> float:
    """The transform of Yeo and Johnson."""
    if power == 1.0:
        return u
    # expm1 and log1p keep the digits of small numbers, and of powers near zero.
    if u >= 0.0:
        return math.expm1(power * math.log1p(u)) / power if power != 0.0 else math.log1p(u)
    exponent = 2.0 - power
    return -math.expm1(exponent * math.log1p(-u)) / exponent if exponent != 0.0 else -math.log1p(-u)


@inlined
def _log_power_slope(u: float, power: float) -> float:
    """Log derivative of the transform of Yeo and Johnson."""
    return (power - 1.0) * math.log1p(u) if u >= 0.0 else (1.0 - power) * math.log1p(-u)


@inlined
def _unbound(
    lower: float, upper: float, centre: float, end: float, soft: float, x: float
) -> tuple[float, float]:
    """Map the interval between the bounds onto the line; also the log slope there.

    With one bound the map is linear beyond its value ``end``, away from the bound.
    """
    if soft > 0.0:
        v = x
        slope = 0.0
        if lower > -math.inf:
            change, slope = _softened(v - lower, soft)
            v += change
        if upper < math.inf:
            last = upper
            # Softening the lower bound has moved the upper one as well.
            if lower > -math.inf:
                last += _softened(upper - lower, soft)[0]
            change, change_of_slope = _softened(last - v, soft)
            v -= change
            slope += change_of_slope
        return v, slope
    # A value at a bound would have an infinite score: it is moved inside. Its slope is that of the
    # middle, as the one at the bound would make an impossible value the densest of all.
    if lower > -math.inf and upper < math.inf:
        part = (x - lower) / (upper - lower)
        inner = min(max(part, _NEAREST), 1.0 - _NEAREST)
        v = math.log(inner / (1.0 - inner))
        place = v if 0.0 < part < 1.0 else centre
        return v, 2.0 * math.log(2.0 * math.cosh(0.5 * place)) - math.log(upper - lower)
    if lower > -math.inf:
        v, size = _logarithm(x - lower, centre, end)
        return v, size
    if upper < math.inf:
        v, size = _logarithm(upper - x, -centre, -end)
        return -v, size
    return x, 0.0


@inlined
def _softened(distance: float, soft: float) -> tuple[float, float]:
    """What is added to a distance from a soft bound, and the log slope of the sum."""
    t = distance / soft
    inner = max(t, _NEAREST)
    added = math.log(-math.expm1(-inner))
    return soft * (inner - t + added), -added if t > 0.0 else 0.0


@inlined
def _logarithm(distance: float, centre: float, end: float) -> tuple[float, float]:
    """Logarithm of a distance, linear beyond that of ``end``; also the log slope there."""
    # No value is nearer to the bound than a tiny part of a typical distance.
    least = _NEAREST * math.exp(centre)
    if distance <= math.exp(end):
        v = math.log(max(distance, least))
        return v, -v if distance > 0.0 else -centre
    return end + (distance * math.exp(-end) - 1.0), -end


@internal_kernel
def score_of(score: Floats, begin: int | np.int64, x: float) -> tuple[float, float]:
    """Score of a value, and the log slope there; the score is ``score[begin : begin + 8]``."""
    # An array and not a Score: kernels read the score of any column out of one array.
    spread = score[begin + 3]
    power = score[begin + 4]
    low = score[begin + 5]
    high = score[begin + 6]
    # Where there is one bound, values go on linearly from the end of the range on the other side.
    end = score[begin + 2] + spread * (high if score[begin] > -math.inf else low)
    v, slope = _unbound(score[begin], score[begin + 1], score[begin + 2], end, score[begin + 7], x)
    u = (v - score[begin + 2]) / spread
    slope = slope - math.log(spread)
    # A value beyond an end of the column is hardly possible. It counts as the outermost value of
    # the training rows: a score far out would decide about all other cells of its row.
    margin = (high - low) * WIDENED / (1.0 + 2.0 * WIDENED)
    if x <= score[begin] and low > -math.inf:
        u = low + margin
    if x >= score[begin + 1] and high < math.inf:
        u = high - margin
    if x < score[begin] or x > score[begin + 1]:
        slope += BEYOND_END
    # Beyond the range the transform goes on along its tangent.
    inner = min(max(u, low), high)
    if power == 1.0:
        return u, slope
    at_end = _log_power_slope(inner, power)
    return _power(inner, power) + math.exp(at_end) * (u - inner), slope + at_end


@kernel
def _scores(score: Floats, x: Floats, z: Floats, log_slope: Floats) -> None:
    """Write the scores of values, and the log slopes there; NaN for NaN."""
    for i in range(len(x)):
        z[i] = log_slope[i] = np.nan
        if x[i] == x[i]:
            z[i], log_slope[i] = score_of(score, ZERO, x[i])
