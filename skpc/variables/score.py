"""Scores: bijections of the line that make the values of a column look normal, and atoms.

A score first maps the interval between the bounds of a column onto the line: by logarithms, or, if
the bounds are soft, by what leaves values alone but for those next to a bound (without bounds it
leaves all). Then it subtracts a centre, divides by a spread, and takes
the power transform of Yeo and Johnson ("A new family of power transformations to improve normality
or symmetry", Biometrika 2000). Beyond the range of the training rows it continues linearly, because
the transform itself is bounded on one side for most powers; where a column has one bound, it is
linear in the values on the other side, as a logarithm would make tails without a mean.

A :class:`ScoredColumn` adds the values that have a probability of their own, its atoms. On a
lattice an atom fills its cell, and the cells of the other values lie next to each other on the
scale as if those of the atoms were not there: so a draw of a score is never an atom, and the score
of no atom takes mass from the others. The plain twin of the kernels is ``tests/naive/circuit.py``.
"""

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.interpolate import CubicSpline

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
#: Means with one standard deviation from which on splines go through some, knots of these in one
#: standard deviation, and means for each knot that are worth it.
_MANY_MEANS, _KNOTS_OF_SD, _MEANS_OF_KNOT = 400, 10.0, 4
#: Widest runs of atoms between which a quadrature has pieces of its own.
_RUNS = 4
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
#: The exponential of anything greater would overflow.
_GREATEST_LOG = 700.0
#: How near to a bound a value may come, as a part of the distance of typical ones.
_NEAREST = 1e-12
#: Numbers of a column, seen by kernels, that stand before its score and before its atoms.
HEAD, ATOMS = 5, 13


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


class ScoredColumn(NamedTuple):
    """What leaves with atoms and a Gaussian of the score have in common.

    Parameters
    ----------
    score : Score
        The bijection between places (see :meth:`place`) and scores.
    atoms : ndarray
        Values with a probability of their own, increasing; exact.
    step : float, default=0.0
        Step of the lattice of the column. On a lattice an atom fills its cell, and no
        standard deviation is below half a step.
    reach : float, default=0.0
        Distance from an atom up to which a value is that atom.
    smallest_sd : float, default=0.0
        No standard deviation of scores is below it.
    gap : float, default=0.0
        Width of the cells of atoms, which are cut out of the line; the step of the lattice, but
        zero in circuits of earlier versions.

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
    gap: float = 0.0

    @classmethod
    def from_flat(cls, flat: Floats) -> Self:
        """Read a column from the stretch of an array that kernels see."""
        score = Score(*flat[HEAD:ATOMS].tolist())
        return cls(score, flat[ATOMS:].copy(), *flat[1:HEAD].tolist())

    @property
    def flat(self) -> Floats:
        """What kernels read: a zero, where an axis has the scale of a tail, and then all fields."""
        head = [0.0, self.step, self.reach, self.smallest_sd, self.gap]
        return np.concatenate([head, self.score, self.atoms])

    @property
    def n_states(self) -> int:
        """Number of atoms, and one for all other values."""
        return len(self.atoms) + 1

    @property
    def cuts(self) -> Floats:
        """The places at which the cells of the atoms have been cut out."""
        return self.atoms - self.gap * (np.arange(len(self.atoms)) + 0.5)

    def place(self, x: Floats) -> Floats:
        """Values on the line without the cells of atoms; all of such a cell is at its place."""
        if self.gap == 0.0 or not len(self.atoms):
            return x
        n_below = np.searchsorted(self.atoms - 0.5 * self.gap, x, side="right")
        in_cell = np.append(-np.inf, self.cuts)[n_below]
        return np.maximum(x - self.gap * n_below, in_cell)

    def value(self, place: Floats) -> Floats:
        """The values at some places."""
        return place + self.gap * np.searchsorted(self.cuts, place, side="right")

    def transform(self, x: Floats) -> Floats:
        """Scores of values, each in its order; NaN stays.

        Atoms that are neighbours on a lattice lie between the values around them. Those at a bound
        lie where the range of the others ends.
        """
        state = states_among(self.atoms, self.reach, x)
        is_atom = state < len(self.atoms)
        of_run, size = _runs(self.atoms, self.gap)
        between = self.cuts + self.gap * ((of_run + 0.5) / size - 0.5)
        score = self.score
        ends = _powers(np.array(score, dtype=np.float64), np.array([score.low, score.high]))
        least = ends[0] if score.lower > -math.inf else -math.inf
        most = ends[1] if score.upper < math.inf else math.inf
        of_atoms = np.clip(score.transform(between), least, most)
        scores = score.transform(self.place(x))
        return np.where(is_atom, np.append(of_atoms, np.nan)[state], scores)

    def inverse(self, z: Floats) -> Floats:
        """Values, but for atoms, that have some scores; NaN stays."""
        return self.value(self.score.inverse(z))

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        return self.score.log_slope(self.place(x))

    def ends(self, *ends: Floats) -> list[Floats]:
        """Scores of ends of intervals of values that are no atoms."""
        return self.score.ends(*(self.place(x) for x in ends))

    def scores(self, values: Floats) -> tuple[Ints, Floats]:
        """State of each value (-1 if missing), and the score of values that are not atoms."""
        state = states_among(self.atoms, self.reach, values)
        score = np.where(state < len(self.atoms), np.nan, self.score.transform(self.place(values)))
        return np.where(np.isnan(values), -1, state), score

    def modes(self, state_prob: Floats, mean: Floats) -> Floats:
        """Most probable values of leaves with these probabilities and mean scores.

        With atoms, all other values together compete by their probability: a density would
        depend on the unit of the column.
        """
        values = np.append(self.atoms, np.nan)[state_prob.argmax(axis=1)]
        return np.where(np.isnan(values), self.inverse(mean), values)

    def moments(self, mean: Floats, sd: Floats, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` for values x whose scores are normal.

        By Gauss-Legendre quadrature between the places where the map is not smooth: the ends of the
        power transform and its middle, and the widest runs of atoms on a lattice. Of many means
        with one standard deviation, a few have quadratures, and splines go through these.
        """
        moments = np.empty((2, len(mean)))
        distinct, of_sd, count = np.unique(sd, return_inverse=True, return_counts=True)
        is_alone = np.ones(len(mean), dtype=bool)
        for number in np.flatnonzero(count > _MANY_MEANS).tolist():
            members = np.flatnonzero(of_sd == number)
            low, high = mean[members].min(), mean[members].max()
            n_knots = 2 + math.ceil(_KNOTS_OF_SD * (high - low) / distinct[number])
            if _MEANS_OF_KNOT * n_knots < len(members):
                knots = np.linspace(low, high, n_knots) if high > low else np.array([low])
                at_knots = self._quadratures(knots, np.full(len(knots), distinct[number]), centre)
                if high > low:
                    at_knots = CubicSpline(knots, at_knots, axis=1)(mean[members])
                moments[:, members] = at_knots
                is_alone[members] = False
        moments[:, is_alone] = self._quadratures(mean[is_alone], sd[is_alone], centre)
        return moments[0], moments[1]

    def _quadratures(self, mean: Floats, sd: Floats, centre: float) -> Floats:
        """Both moments, each by a quadrature of its own; shape (2, n)."""
        score = self.score
        has_gaps = self.gap > 0.0 and len(self.atoms) > 0
        if score.power == 1.0 and score[:2] == (-math.inf, math.inf) and not has_gaps:
            offset = score.centre + score.spread * mean - centre
            return np.array([offset, offset**2 + (score.spread * sd) ** 2])
        flat = np.array(score, dtype=np.float64)
        low, high = _powers(flat, np.array([score.low, score.high]))
        knots = [min(low, 0.0), min(max(0.0, low), high), max(high, 0.0), math.inf]
        if has_gaps:
            of_run, size = _runs(self.atoms, self.gap)
            starts = np.flatnonzero(of_run == 0)
            widest = starts[np.argsort(-size[starts], kind="stable")[:_RUNS]]
            knots += score.transform(self.cuts[widest]).tolist()
        cuts = self.cuts if has_gaps else np.empty(0)
        moments = np.empty((2, len(mean)))
        _quadrature(
            self.flat, cuts, np.sort(knots), _NODES, _WEIGHTS, mean, sd, float(centre), moments
        )
        return moments

    def smallest_sds(self, mean: Floats) -> Floats:
        """Smallest standard deviation of a leaf whose mean score is ``mean``.

        On a lattice it is half a step, on the scale of scores, about the mean.
        """
        if self.step == 0.0:
            return np.full(np.shape(mean), self.smallest_sd)
        slope = np.exp(self.score.log_slope(self.score.inverse(mean)))
        return np.maximum(0.5 * self.step * slope, self.smallest_sd)


def _runs(atoms: Floats, width: float) -> tuple[Ints, Ints]:
    """The number of each atom among its neighbours on a lattice, and how many these are."""
    begins = np.append(True, np.diff(atoms) > 1.5 * width)[: len(atoms)]
    run = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    return np.arange(len(atoms)) - first[run], np.bincount(run)[run]


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
def _unbound(
    lower: float, upper: float, centre: float, end: float, soft: float, x: float
) -> tuple[float, float]:
    """Map the interval between the bounds onto the line; also the log slope there.

    With one bound the map is linear beyond its value ``end``, away from the bound.
    """
    if soft > 0.0:
        v, slope = x, 0.0
        if lower > -math.inf:
            change, slope = _softened(v - lower, soft)
            v += change
        if upper < math.inf:
            last = upper
            if lower > -math.inf:
                last += _softened(upper - lower, soft)[0]
            change, more = _softened(last - v, soft)
            v, slope = v - change, slope + more
        return v, slope
    # A value at a bound would have an infinite score. And the slope at and beyond a bound would
    # make what cannot be the densest of all: that of the middle counts.
    if lower > -math.inf and upper < math.inf:
        part = (x - lower) / (upper - lower)
        inner = min(max(part, _NEAREST), 1.0 - _NEAREST)
        v = math.log(inner / (1.0 - inner))
        at = v if 0.0 < part < 1.0 else centre
        return v, 2.0 * math.log(2.0 * math.cosh(0.5 * at)) - math.log(upper - lower)
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
def _restored(v: float, bound: float, side: float, soft: float) -> float:
    """The value on one side of a soft bound that is ``v`` on the line."""
    t = side * (v - bound) / soft
    small = fast_exp(-abs(t))
    # The sum with one would lose the digits of small numbers.
    series = small * (1.0 - small * (0.5 - small * (1.0 / 3.0 - small * (0.25 - 0.2 * small))))
    added = series if small < 1e-3 else fast_log(1.0 + small)
    return (v if t > 0.0 else bound) + side * soft * added


@inlined
def _logarithm(distance: float, centre: float, end: float) -> tuple[float, float]:
    """Logarithm of a distance, linear beyond that of ``end``; also the log slope there."""
    least = _NEAREST * math.exp(centre)
    if distance <= math.exp(end):
        v = math.log(max(distance, least))
        return v, -v if distance > 0.0 else -centre
    return end + (distance * math.exp(-end) - 1.0), -end


@inlined
def score_of(score: Floats, at: int | np.int64, x: float) -> tuple[float, float]:
    """Score of a value, and the log slope there; the score is ``score[at : at + 8]``."""
    # Numbers of one array, so that kernels take the score of any column alike.
    spread, power, low, high = score[at + 3], score[at + 4], score[at + 5], score[at + 6]
    # Where there is one bound, values go on linearly from the end of the range on the other side.
    end = score[at + 2] + spread * (high if score[at] > -math.inf else low)
    v, slope = _unbound(score[at], score[at + 1], score[at + 2], end, score[at + 7], x)
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
    soft: float
    bottom: float
    top: float
    below: float
    above: float


@inlined
def inverse_of(score: Floats, at: int | np.int64) -> Inverse:
    """The inverse of the score ``score[at : at + 8]``."""
    power, low, high = score[at + 4], score[at + 5], score[at + 6]
    bottom, below = _power(low, power), math.exp(-_log_power_slope(low, power))
    top, above = _power(high, power), math.exp(-_log_power_slope(high, power))
    fields = (score[at], score[at + 1], score[at + 2], score[at + 3], power, low, high)
    return Inverse(*fields, score[at + 7], bottom, top, below, above)


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
    if inverse.soft > 0.0:
        if upper < math.inf:
            last = upper
            if lower > -math.inf:
                last += _softened(upper - lower, inverse.soft)[0]
            v = _restored(v, last, -1.0, inverse.soft)
        return v if lower == -math.inf else _restored(v, lower, 1.0, inverse.soft)
    if lower > -math.inf and upper < math.inf:
        return lower + (upper - lower) / (1.0 + fast_exp(min(-v, _GREATEST_LOG)))
    if lower > -math.inf:
        inner = min(v, inverse.centre + inverse.spread * inverse.high)
        return lower + fast_exp(inner) * (1.0 + (v - inner))
    if upper < math.inf:
        inner = max(v, inverse.centre + inverse.spread * inverse.low)
        return upper - fast_exp(-inner) * (1.0 - (v - inner))
    return v


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


def _powers(score: Floats, u: Floats) -> Floats:
    """The power transform at ends of the range."""
    z = np.empty(len(u))
    _transformed(score, u, z)
    return z


@kernel
def _transformed(score: Floats, u: Floats, z: Floats) -> None:
    for i in range(len(u)):
        z[i] = _power(u[i], score[4])


@inlined
def place_of(column: Floats, first: int | np.int64, n_atoms: int, x: float) -> float:
    """The place of a value that is no atom; see :meth:`ScoredColumn.place`."""
    gap = column[first + 4]
    if gap == 0.0 or n_atoms == 0:
        return x
    begin = first + ATOMS
    # The atoms whose cells begin at or before the value.
    n_below = np.searchsorted(column[begin : begin + n_atoms], x + 0.5 * gap, side="right")
    return x - gap * n_below


@inlined
def value_at(column: Floats, first: int | np.int64, n_atoms: int, place: float) -> float:
    """The value at a place; see :meth:`ScoredColumn.value`."""
    gap = column[first + 4]
    if gap == 0.0 or n_atoms == 0:
        return place
    # The cuts at or before the place, by halving.
    low, high = 0, n_atoms
    while low < high:
        middle = (low + high) // 2
        if column[first + ATOMS + middle] - gap * (middle + 0.5) <= place:
            low = middle + 1
        else:
            high = middle
    return place + gap * low


@kernel(new_arrays=True)
def _quadrature(
    column: Floats,
    cuts: Floats,
    knots: Floats,
    nodes: Floats,
    weights: Floats,
    mean: Floats,
    sd: Floats,
    centre: float,
    moments: Floats,
) -> None:
    """Moments of values whose scores are normal, piece by piece.

    ========  ==========  =============================================================
    column    (n,)        the column, as kernels read it
    cuts      (n_cuts,)   places at which values jump over atoms, increasing
    knots     (n_knots,)  scores between which the map is smooth, increasing
    nodes     (n_nodes,)  of a quadrature rule on the unit interval
    weights   (n_nodes,)  of the nodes
    mean      (n,)        means of the scores
    sd        (n,)        standard deviations of the scores
    centre    float       what values are counted from
    moments   (2, n)      receives means and mean squares
    ========  ==========  =============================================================
    """
    inverse, n_atoms = inverse_of(column, HEAD), len(cuts)
    value, mass = np.empty(_SIZES[-1]), np.empty(_SIZES[-1])
    # Exponentials of bounds are less smooth than powers: they take longer rules.
    has_bounds = inverse.lower > -math.inf or inverse.upper < math.inf
    wider = 2.0 if has_bounds else 1.0
    for i in range(len(mean)):
        total, square = 0.0, 0.0
        # Less than 1e-15 of a normal distribution lies further out.
        begin, last = mean[i] - _REACH * sd[i], mean[i] + _REACH * sd[i]
        n_below = 0
        for knot in knots:
            end = min(max(knot, begin), last)
            size, at = end - begin, 0
            rule = 0
            while rule < len(_IN_SDS) and (
                wider * size > _IN_SDS[rule] * sd[i] or wider * size > _IN_SCORES[rule]
            ):
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
                value[m] = z
            if inverse.power != 1.0:
                for m in range(n):
                    value[m] = _inverse_power(inverse, value[m])
            for m in range(n):
                value[m] = _bound(inverse, value[m])
            # Nodes increase, and so does the number of cuts below them.
            for m in range(n if n_atoms > 0 else 0):
                while n_below < n_atoms and cuts[n_below] <= value[m]:
                    n_below += 1
                value[m] += column[HEAD - 1] * n_below
            for m in range(n):
                offset = value[m] - centre
                total += mass[m] * offset
                square += mass[m] * offset * offset
            begin = end
        scale = 1.0 / (sd[i] * _SQRT_2_PI)
        moments[0, i], moments[1, i] = scale * total, scale * square
