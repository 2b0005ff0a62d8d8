"""Scores: bijections of the line that make the values of a column look normal, and atoms.

A score first maps the interval between the bounds of a column onto the line by logarithms (without
bounds it leaves the value). Then it subtracts a centre, divides by a spread, and takes
the power transform of Yeo and Johnson ("A new family of power transformations to improve normality
or symmetry", Biometrika 2000). Beyond the range of the training rows it continues linearly, because
the transform itself is bounded on one side for most powers.

A :class:`ScoredColumn` adds the values that have a probability of their own, its atoms. The plain
twin of the kernels is ``tests/naive/circuit.py``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp, fast_log
from skpc._jit import inlined, internal_kernel, kernel

#: Rules of Gauss and Legendre. All but the last are for pieces up to some length, in standard
#: deviations and in units of the score.
_SIZES, _IN_SDS, _IN_SCORES = np.array([16, 24, 48]), np.array([6.0, 9.0]), np.array([3.0, 8.0])
_NODES, _WEIGHTS = np.hstack([np.polynomial.legendre.leggauss(size) for size in _SIZES])
_RULES = (_NODES, _WEIGHTS, _SIZES, _IN_SDS, _IN_SCORES)
#: Standard deviations around a mean beyond which a normal density counts for nothing.
_REACH = 8.0
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
#: How near to a bound a value may come, as a part of the distance that counts there.
_NEAREST = 1e-12
#: Numbers of a column, seen by kernels, that stand before its score and before its atoms.
HEAD, ATOMS = 6, 13


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

    def transform(self, x: Floats) -> Floats:
        """Scores of values; NaN stays."""
        return self._of_values(x)[0]

    def inverse(self, z: Floats) -> Floats:
        """Values of scores; NaN stays."""
        x = np.empty(np.shape(z))
        _values(np.array(self, dtype=np.float64), np.ravel(z), x.ravel())
        return x

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        return self._of_values(x)[1]

    def _of_values(self, x: Floats) -> tuple[Floats, Floats]:
        z, log_slope = np.empty(np.shape(x)), np.empty(np.shape(x))
        _scores(np.array(self, dtype=np.float64), np.ravel(x), z.ravel(), log_slope.ravel())
        return z, log_slope

    def moments(self, mean: Floats, sd: Floats, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` for values x whose scores are normal.

        By Gauss-Legendre quadrature between the ends of the power transform and its middle, where
        it is not smooth, and beyond them. With one bound, values beyond the range count as its end:
        they grow exponentially with their scores, and would rule the mean, though no row came near.
        """
        if self.power == 1.0 and self.lower == -math.inf and self.upper == math.inf:
            offset = self.centre + self.spread * mean - centre
            return offset, offset**2 + (self.spread * sd) ** 2
        first, second = np.empty(len(mean)), np.empty(len(mean))
        flat = np.array(self, dtype=np.float64)
        _quadrature(flat, self._knots, _RULES, mean, sd, float(centre), first, second)
        return first, second

    @property
    def _knots(self) -> Floats:
        """Scores between which the inverse of the score is smooth, increasing."""
        plain = Score(power=self.power, low=self.low, high=self.high)
        ends = plain.transform(np.array([self.low, self.high]))
        return np.sort([*ends, 0.0])


class ScoredColumn(NamedTuple):
    """What leaves with atoms and a Gaussian of the score have in common.

    Parameters
    ----------
    score : Score
        The bijection between values and scores.
    atoms : ndarray
        Values with a probability of their own, increasing; exact.
    step : float, default=0.0
        Step of the lattice of the column. On a lattice an atom fills its cell, and no
        standard deviation is below half a step.
    reach : float, default=0.0
        Distance from an atom up to which a value is that atom.
    smallest_sd : float, default=0.0
        No standard deviation of scores is below it.
    low, high : float, default=-inf and inf
        Draws stay between these.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import ScoredColumn
    >>> from skpc.variables.score import Score
    >>> column = ScoredColumn(Score(), np.array([0.0]))
    >>> column.scores(np.array([0.0, 2.0]))
    (array([0, 1]), array([nan,  2.]))
    """

    score: Score
    atoms: Floats
    step: float = 0.0
    reach: float = 0.0
    smallest_sd: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def from_flat(cls, flat: Floats) -> ScoredColumn:
        """Read a column from the stretch of an array that kernels see."""
        score = Score(*flat[HEAD:ATOMS].tolist())
        return cls(score, flat[ATOMS:].copy(), *flat[1:HEAD].tolist())

    @property
    def flat(self) -> Floats:
        """What kernels read: a zero, where an axis has the scale of a tail, and then all fields."""
        head = [0.0, self.step, self.reach, self.smallest_sd, self.low, self.high]
        return np.concatenate([head, self.score, self.atoms])

    @property
    def n_states(self) -> int:
        """Number of atoms, and one for all other values."""
        return len(self.atoms) + 1

    def scores(self, values: Floats) -> tuple[NDArray[np.int64], Floats]:
        """State of each value (-1 if missing), and the score of values that are not atoms."""
        near = np.abs(values[:, np.newaxis] - self.atoms) <= self.reach
        state = np.where(near.any(axis=1), near.argmax(axis=1) if near.size else 0, len(self.atoms))
        score = np.where(state < len(self.atoms), np.nan, self.score.transform(values))
        return np.where(np.isnan(values), -1, state), score

    def modes(self, state_prob: Floats, mean: Floats) -> Floats:
        """Most probable values of leaves with these probabilities and mean scores.

        With atoms, all other values together compete by their probability: a density would
        depend on the unit of the column.
        """
        values = np.append(self.atoms, np.nan)[state_prob.argmax(axis=1)]
        return np.where(np.isnan(values), self.score.inverse(mean), values)

    def smallest_sds(self, mean: Floats) -> Floats:
        """Smallest standard deviation of a leaf whose mean score is ``mean``.

        On a lattice it is half a step, on the scale of scores, about the mean.
        """
        if self.step == 0.0:
            return np.full(np.shape(mean), self.smallest_sd)
        slope = np.exp(self.score.log_slope(self.score.inverse(mean)))
        return np.maximum(0.5 * self.step * slope, self.smallest_sd)


@inlined
def _power(u: float, power: float) -> float:
    """The transform of Yeo and Johnson."""
    if power == 1.0:
        return u
    # expm1 and log1p keep the digits of small numbers, and of powers near zero.
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
    # A value at a bound would have an infinite score.
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
    # Numbers of one array, so that kernels take the score of any column alike.
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
    # Beyond the range the transform goes on along its tangent.
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
    # The ends of the range as scores say which piece a score belongs to.
    # A power of one is the identity, and most columns have it.
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
def _scores(score: Floats, x: Floats, z: Floats, log_slope: Floats) -> None:
    for i in range(len(x)):
        z[i] = log_slope[i] = np.nan
        if x[i] == x[i]:
            z[i], log_slope[i] = score_of(score, np.int64(0), x[i])


@kernel
def _values(score: Floats, z: Floats, x: Floats) -> None:
    for i in range(len(z)):
        x[i] = value_of(score, np.int64(0), z[i]) if z[i] == z[i] else np.nan


@kernel(new_arrays=True)
def _quadrature(
    score: Floats,
    knots: Floats,
    rules: tuple[Floats, Floats, Ints, Floats, Floats],
    mean: Floats,
    sd: Floats,
    centre: float,
    first: Floats,
    second: Floats,
) -> None:
    """Moments of values whose scores are normal, piece by piece between the knots.

    ======  ==========  ==============================================================
    score   (7,)        the score
    knots   (n_knots,)  scores between which its inverse is smooth, increasing
    rules   tuple       nodes, weights, sizes and longest pieces of quadrature rules
    mean    (n,)        means of the scores
    sd      (n,)        standard deviations of the scores
    centre  float       what values are counted from
    first   (n,)        receives means
    second  (n,)        receives mean squares
    ======  ==========  ==============================================================
    """
    nodes, weights, sizes, in_sds, in_scores = rules
    # Exponentials of bounds are less smooth than powers: they take the longest rule.
    plain = score[0] == -math.inf and score[1] == math.inf
    value, mass = np.empty(sizes[-1]), np.empty(sizes[-1])
    power, low, high = score[4], score[5], score[6]
    bottom, below = _power(low, power), math.exp(-_log_power_slope(low, power))
    top, above = _power(high, power), math.exp(-_log_power_slope(high, power))
    for i in range(len(mean)):
        total, square = 0.0, 0.0
        centre_of, width = mean[i], sd[i]
        # Less than 1e-15 of a normal distribution lies further out.
        begin, last = centre_of - _REACH * width, centre_of + _REACH * width
        for piece in range(len(knots) + 1):
            end = min(max(knots[piece], begin), last) if piece < len(knots) else last
            size = end - begin
            # Most distributions lie between two of the knots.
            if size > 0.0:
                rule, at = 0 if plain else len(in_sds), 0
                while rule < len(in_sds) and (
                    size > in_sds[rule] * width or size > in_scores[rule]
                ):
                    rule += 1
                for j in range(rule):
                    at += sizes[j]
                n, half = sizes[rule], 0.5 * size
                # Loops of one kind of work each: all of them vectorise.
                share = half / (width * _SQRT_2_PI)
                for m in range(n):
                    z = begin + half * (nodes[at + m] + 1.0)
                    t = (z - centre_of) / width
                    mass[m] = share * weights[at + m] * fast_exp(-0.5 * t * t)
                    value[m] = z
                inside = begin + half
                _values_of_piece(score, bottom, below, top, above, inside, n, value)
                for m in range(n):
                    offset = value[m] - centre
                    total += mass[m] * offset
                    square += mass[m] * offset * offset
            begin = end
        first[i], second[i] = total, square


@internal_kernel
def _values_of_piece(
    score: Floats,
    bottom: float,
    below: float,
    top: float,
    above: float,
    inside: float,
    n: int,
    z: Floats,
) -> None:
    """Replace scores by their values; one of them, ``inside``, tells their piece.

    ======  ========  ==============================================================
    score   (7,)      the score
    bottom  float     score of the lower end of the power transform
    below   float     slope of the inverse below it
    top     float     score of the upper end
    above   float     slope of the inverse above it
    inside  float     a score inside the piece
    n       int       number of scores
    z       (n_max,)  scores, and then values
    ======  ========  ==============================================================
    """
    power, low, high = score[4], score[5], score[6]
    # On either side of its middle the transform is a power of the distance from there.
    sign = 1.0 if inside >= 0.0 else -1.0
    exponent = power if inside >= 0.0 else 2.0 - power
    if inside < bottom:
        for m in range(n):
            z[m] = low + (z[m] - bottom) * below
    elif inside > top:
        for m in range(n):
            z[m] = high + (z[m] - top) * above
    elif exponent == 0.0:
        for m in range(n):
            z[m] = sign * (fast_exp(abs(z[m])) - 1.0)
    elif power != 1.0:
        root = 1.0 / exponent
        for m in range(n):
            z[m] = sign * (fast_exp(root * fast_log(1.0 + exponent * abs(z[m]))) - 1.0)
    _place_between_bounds(score, n, z)


@internal_kernel
def _place_between_bounds(score: Floats, n: int, z: Floats) -> None:
    """Replace what the power transform takes by values."""
    lower, upper, low, high = score[0], score[1], score[5], score[6]
    # Values grow exponentially on the side without a bound.
    least = low if lower == -math.inf and upper < math.inf else -math.inf
    greatest = high if upper == math.inf and lower > -math.inf else math.inf
    for m in range(n):
        # Centre and spread come last, as they come first on the way to a score.
        z[m] = score[2] + score[3] * min(max(z[m], least), greatest)
    if lower > -math.inf and upper < math.inf:
        for m in range(n):
            z[m] = lower + (upper - lower) / (1.0 + fast_exp(min(-z[m], 700.0)))
    elif lower > -math.inf:
        for m in range(n):
            z[m] = lower + fast_exp(z[m])
    elif upper < math.inf:
        for m in range(n):
            z[m] = upper - fast_exp(-z[m])
