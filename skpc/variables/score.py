"""Scores: bijections of the line that make the values of a column look normal, and atoms.

A score first maps the interval between the bounds of a column onto the line by logarithms (without
bounds it leaves the value). Then it subtracts a centre, divides by a spread, and takes
the power transform of Yeo and Johnson ("A new family of power transformations to improve normality
or symmetry", Biometrika 2000). Beyond the range of the training rows it continues linearly, because
the transform itself is bounded on one side for most powers.

A :class:`ScoredColumn` adds the values that have a probability of their own, its atoms. The plain
twin of the kernels is ``tests/naive/circuit.py``.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp, fast_log
from skpc._jit import ZERO, inlined, kernel

#: Rules of Gauss and Legendre on intervals of length 1, one after the other. All but the last are
#: for pieces up to some length, in standard deviations and in units of the score.
_SIZES, _IN_SDS, _IN_SCORES = (16, 24, 48), (6.0, 9.0), (3.0, 8.0)
_RULES = np.hstack([np.polynomial.legendre.leggauss(size) for size in _SIZES])
_NODES, _WEIGHTS = 0.5 * (_RULES + np.array([[1.0], [0.0]]))
#: Standard deviations around a mean beyond which a normal density counts for nothing.
_REACH = 8.0
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
#: The exponential of anything greater would overflow.
_GREATEST_LOG = 700.0
#: How near to a bound a value may come, as a part of the distance that counts there.
_NEAREST = 1e-12
#: Numbers of a column, seen by kernels, that stand before its score and before its atoms.
HEAD, ATOMS = 6, 13


class Score(NamedTuple):
    """An increasing bijection between the values of a column and the line.

    Parameters
    ----------
    lower, upper : float
        Bounds of the column, or the ends of a range that its values crowd; infinite without.
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

    def ends(self, *ends: Floats) -> list[Floats]:
        """Scores of ends of intervals; beyond a bound there is nothing."""
        scores = [np.where(x <= self.lower, -np.inf, self.transform(x)) for x in ends]
        return [np.where(x >= self.upper, np.inf, score) for x, score in zip(ends, scores)]

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
        moments, flat = np.empty((2, len(mean))), np.array(self, dtype=np.float64)
        _quadrature(flat, _NODES, _WEIGHTS, mean, sd, float(centre), moments)
        return moments[0], moments[1]


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
    def from_flat(cls, flat: Floats) -> Self:
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

    def scores(self, values: Floats) -> tuple[Ints, Floats]:
        """State of each value (-1 if missing), and the score of values that are not atoms."""
        state = states_among(self.atoms, self.reach, values)
        score = np.where(state < len(self.atoms), np.nan, self.score.transform(values))
        return np.where(np.isnan(values), -1, state), score

    def modes(self, state_prob: Floats, mean: Floats) -> Floats:
        """Most probable values of leaves with these probabilities and mean scores.

        With atoms, all other values together compete by their probability: a density would
        depend on the unit of the column.
        """
        values = np.append(self.atoms, np.nan)[state_prob.argmax(axis=1)]
        return np.where(np.isnan(values), self.score.inverse(mean), values)

    def reaching(self, low: float, high: float, ends: tuple[float, float]) -> Self:
        """The column, whose draws have scores up to some numbers, but do not cross its ends.

        The range still ends at an atom that is its least or greatest value.
        """
        of_range = np.array([self.low, self.high])
        is_atom = states_among(self.atoms, 0.5 * self.step, of_range) < len(self.atoms)
        reached = np.where(is_atom, of_range, self.score.inverse(np.array([low, high])))
        # Half a step of a lattice lies beyond the ends.
        least, greatest = np.clip(reached, *ends).tolist()
        return self._replace(low=min(self.low, least), high=max(self.high, greatest))

    def smallest_sds(self, mean: Floats) -> Floats:
        """Smallest standard deviation of a leaf whose mean score is ``mean``.

        On a lattice it is half a step, on the scale of scores, about the mean.
        """
        if self.step == 0.0:
            return np.full(np.shape(mean), self.smallest_sd)
        slope = np.exp(self.score.log_slope(self.score.inverse(mean)))
        return np.maximum(0.5 * self.step * slope, self.smallest_sd)


def states_among(atoms: Floats, reach: float, values: Floats) -> Ints:
    """The number of the atom that each value is; the number of atoms for all other values."""
    place = np.searchsorted(atoms, values - reach)
    near = np.append(atoms, np.nan)[place]
    return np.where(np.abs(near - values) <= reach, place, len(atoms))


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
def _unbound(lower: float, upper: float, centre: float, x: float) -> tuple[float, float]:
    """Map the interval between the bounds onto the line; also the log slope there."""
    is_inside = lower < x < upper
    # A value at a bound would have an infinite score.
    if lower > -math.inf:
        x = max(x, lower + _NEAREST * max(abs(lower), 1.0))
    if upper < math.inf:
        x = min(x, upper - _NEAREST * max(abs(upper), 1.0))
    if lower > -math.inf and upper < math.inf:
        v = math.log((x - lower) / (upper - x))
        # The derivative of the logit, by what it has become. At and beyond a bound it has none, and
        # would make what cannot be the densest of all: that of the middle counts.
        at = v if is_inside else centre
        return v, 2.0 * math.log(2.0 * math.cosh(0.5 * at)) - math.log(upper - lower)
    if lower > -math.inf:
        v = math.log(x - lower)
        return v, -v if is_inside else -centre
    if upper < math.inf:
        v = -math.log(upper - x)
        return v, v if is_inside else centre
    return x, 0.0


@inlined
def score_of(score: Floats, at: int | np.int64, x: float) -> tuple[float, float]:
    """Score of a value, and the log slope there; the score is ``score[at : at + 7]``."""
    # Numbers of one array, so that kernels take the score of any column alike.
    spread, power, low, high = score[at + 3], score[at + 4], score[at + 5], score[at + 6]
    v, slope = _unbound(score[at], score[at + 1], score[at + 2], x)
    u, slope = (v - score[at + 2]) / spread, slope - math.log(spread)
    # Beyond the range the transform goes on along its tangent.
    inner = min(max(u, low), high)
    if power == 1.0:
        return u, slope
    at_end = _log_power_slope(inner, power)
    return _power(inner, power) + math.exp(at_end) * (u - inner), slope + at_end


class Inverse(NamedTuple):
    """A score as its inverse reads it: its fields, and scores and slopes at the ends ``low, high``.

    Beyond the scores ``bottom`` and ``top`` the slopes of the inverse are ``below`` and ``above``.
    """

    lower: float
    upper: float
    centre: float
    spread: float
    power: float
    low: float
    high: float
    bottom: float
    top: float
    below: float
    above: float


@inlined
def inverse_of(score: Floats, at: int | np.int64) -> Inverse:
    """The inverse of the score ``score[at : at + 7]``."""
    power, low, high = score[at + 4], score[at + 5], score[at + 6]
    bottom, below = _power(low, power), math.exp(-_log_power_slope(low, power))
    top, above = _power(high, power), math.exp(-_log_power_slope(high, power))
    fields = (score[at], score[at + 1], score[at + 2], score[at + 3], power, low, high)
    return Inverse(*fields, bottom, top, below, above)


@inlined
def value_of(inverse: Inverse, z: float) -> float:
    """The value that has a score."""
    # A power of one is the identity, and most columns have it.
    return _bound(inverse, z if inverse.power == 1.0 else _inverse_power(inverse, z))


@inlined
def _inverse_power(inverse: Inverse, z: float) -> float:
    # No branches depend on the score: loops over scores vectorise.
    inner = min(max(z, inverse.bottom), inverse.top)
    # On either side of its middle the transform is a power of the distance from there.
    sign = 1.0 if inner >= 0.0 else -1.0
    exponent = inverse.power if inner >= 0.0 else 2.0 - inverse.power
    of_power = fast_log(1.0 + exponent * abs(inner)) / exponent
    u = sign * (fast_exp(of_power if exponent != 0.0 else abs(inner)) - 1.0)
    return u + (z - inner) * (inverse.below if z < inner else inverse.above)


@inlined
def _bound(inverse: Inverse, u: float) -> float:
    """The value of a power, between the bounds."""
    lower, upper, v = inverse.lower, inverse.upper, inverse.centre + inverse.spread * u
    if lower > -math.inf and upper < math.inf:
        return lower + (upper - lower) / (1.0 + fast_exp(min(-v, _GREATEST_LOG)))
    if lower > -math.inf:
        return lower + fast_exp(min(v, _GREATEST_LOG))
    return upper - fast_exp(min(-v, _GREATEST_LOG)) if upper < math.inf else v


@kernel
def _scores(score: Floats, x: Floats, z: Floats, log_slope: Floats) -> None:
    for i in range(len(x)):
        z[i] = log_slope[i] = np.nan
        if x[i] == x[i]:
            z[i], log_slope[i] = score_of(score, ZERO, x[i])


@kernel
def _values(score: Floats, z: Floats, x: Floats) -> None:
    inverse = inverse_of(score, ZERO)
    for i in range(len(z)):
        x[i] = value_of(inverse, z[i]) if z[i] == z[i] else np.nan


@kernel(new_arrays=True)
def _quadrature(
    score: Floats,
    nodes: Floats,
    weights: Floats,
    mean: Floats,
    sd: Floats,
    centre: float,
    moments: Floats,
) -> None:
    """Moments of values whose scores are normal, piece by piece.

    =======  ==========  ==============================================================
    score    (7,)        the score
    nodes    (n_nodes,)  of a quadrature rule on the unit interval
    weights  (n_nodes,)  of the nodes
    mean     (n,)        means of the scores
    sd       (n,)        standard deviations of the scores
    centre   float       what values are counted from
    moments  (2, n)      receives means and mean squares
    =======  ==========  ==============================================================
    """
    inverse, value, mass = inverse_of(score, ZERO), np.empty(_SIZES[-1]), np.empty(_SIZES[-1])
    # With one bound, values grow exponentially on the side without it.
    above, below = inverse.lower > -math.inf, inverse.upper < math.inf
    least = inverse.bottom if below and not above else -math.inf
    greatest = inverse.top if above and not below else math.inf
    # Between these scores the inverse is smooth.
    middle = min(max(0.0, inverse.bottom), inverse.top)
    knots = (min(inverse.bottom, 0.0), middle, max(inverse.top, 0.0), math.inf)
    for i in range(len(mean)):
        total, square = 0.0, 0.0
        # Less than 1e-15 of a normal distribution lies further out.
        begin, last = mean[i] - _REACH * sd[i], mean[i] + _REACH * sd[i]
        for knot in knots:
            end = min(max(knot, begin), last)
            size, at = end - begin, 0
            # Exponentials of bounds are less smooth than powers: they take the longest rule.
            rule = 0 if not (above or below) else len(_IN_SDS)
            while rule < len(_IN_SDS) and (size > _IN_SDS[rule] * sd[i] or size > _IN_SCORES[rule]):
                rule += 1
            for shorter in range(rule):
                at += _SIZES[shorter]
            # Most distributions lie between two of the knots.
            n = _SIZES[rule] if size > 0.0 else 0
            # Loops of one kind of work each: all of them vectorise.
            for m in range(n):
                z = begin + size * nodes[at + m]
                t = (z - mean[i]) / sd[i]
                mass[m] = size * weights[at + m] * fast_exp(-0.5 * t * t)
                value[m] = min(max(z, least), greatest)
            if inverse.power != 1.0:
                for m in range(n):
                    value[m] = _inverse_power(inverse, value[m])
            for m in range(n):
                offset = _bound(inverse, value[m]) - centre
                total += mass[m] * offset
                square += mass[m] * offset * offset
            begin = end
        scale = 1.0 / (sd[i] * _SQRT_2_PI)
        moments[0, i], moments[1, i] = scale * total, scale * square
