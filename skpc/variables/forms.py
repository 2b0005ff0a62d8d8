"""Four forms make up every univariate distribution here: points, normals, bins, scored normals.

A form holds a few parts that all of its distributions share, and for each distribution the
probabilities of the parts. Anything that is linear in a distribution (a mean, a distribution
function, the expectation of a kernel) is computed once for each part and then averaged.
(``stretched.py`` has forms that only pools of predictions need.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from skpc._arrays import Floats, log_or_inf
from skpc._jit import kernel
from skpc.variables.axis import Axis, AxisTable
from skpc.variables.scored_column import ScoredColumn

#: Newton's method doubles the digits at each step; halving alone would need about as many.
_MAX_STEPS = 200
#: How exact a quantile is, in standard deviations.
_PRECISION = 1e-13
#: An error of the level that is rounding of the sum of its parts.
_ROUNDING = 1e-15
#: Probability that parts of a distribution have at least, so that each has a mean and quantiles.
_TINY = 1e-300
#: Parts less probable than this add nothing to a mean.
NOTHING = 1e-12
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_PI = math.sqrt(2.0 * math.pi)


class Points(NamedTuple):
    """Distributions over the same few numbers, such as the state codes of a category.

    Parameters
    ----------
    value : ndarray of shape (n_points,)
        The numbers, increasing.
    prob : ndarray of shape (n, n_points)
        Their probabilities under each of the n distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Points
    >>> coin = Points(np.array([0.0, 1.0]), np.array([[0.25, 0.75]]))
    >>> coin.means(), coin.below(np.array([0.5])), coin.quantiles(0.5)
    (array([0.75]), array([0.25]), array([1.]))
    """

    value: Floats
    prob: Floats

    def means(self) -> Floats:
        """Mean of each distribution."""
        return self.prob @ self.value

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        return (self.prob * (self.value - centre[:, np.newaxis]) ** 2).sum(axis=1)

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        return (self.prob * (self.value <= x[:, np.newaxis])).sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The first number at which each distribution reaches the level."""
        reached = np.cumsum(self.prob, axis=1) >= level * self.prob.sum(axis=1, keepdims=True)
        return self.value[np.where(reached[:, -1], reached.argmax(axis=1), len(self.value) - 1)]

    def log_density(self, x: Floats) -> Floats:
        """Log probability (nats) under each distribution of its own ``x``."""
        return log_or_inf((self.prob * (self.value == x[:, np.newaxis])).sum(axis=1))

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1)


class Normals(NamedTuple):
    """Mixtures of the same few normal distributions.

    Parameters
    ----------
    mean, sd : ndarrays of shape (n_parts,)
        The parts; a standard deviation of zero means a known number.
    prob : ndarray of shape (n, n_parts), default=None
        Probabilities of the parts under each of the n distributions; None takes the parts
        themselves as the distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals
    >>> both = Normals(np.array([-1.0, 3.0]), np.array([1.0, 0.5]), np.array([[0.5, 0.5]]))
    >>> both.means(), both.quantiles(0.25).round(3)
    (array([1.]), array([-1.]))
    """

    mean: Floats
    sd: Floats
    prob: Any = None

    def means(self) -> Floats:
        """Mean of each distribution."""
        return self.rows @ self.mean

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        squares = (self.mean - centre[:, np.newaxis]) ** 2 + self.sd**2
        return (self.rows * squares).sum(axis=1)

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        return (self.rows * ndtr((x[:, np.newaxis] - self.mean) / self.sd)).sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        prob = self.rows / self.rows.sum(axis=1, keepdims=True)
        return _normal_quantiles(prob, self.mean, self.sd, np.full(len(prob), float(level)))

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        return _log_normals(self.rows, self.mean, self.sd, x)

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.rows.sum(axis=1)

    def without_atoms(self) -> Normals:
        """The part without atoms: all."""
        return self

    @property
    def rows(self) -> Floats:
        """Probabilities of the parts under each distribution."""
        return np.eye(len(self.mean)) if self.prob is None else self.prob


class Bins(NamedTuple):
    """Piecewise uniform distributions with exponential tails on one histogram axis.

    Parameters
    ----------
    axis : Axis
        The axis.
    prob : ndarray of shape (n, n_states)
        Probabilities of its states under each of the n distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Axis, Bins
    >>> flat = Bins(Axis(np.array([0.0, 4.0]), 1.0, 1.0), np.array([[0.0, 1.0, 0.0]]))
    >>> flat.means(), flat.below(np.array([1.0])), flat.quantiles(0.75)
    (array([2.]), array([0.25]), array([3.]))
    """

    axis: Axis
    prob: Floats

    def means(self) -> Floats:
        """Mean of each distribution."""
        return self.prob @ self.axis.moments()[0]

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        origin = float(self.axis.edges.mean())
        mean, square = self.axis.moments(origin)
        shift = (centre - origin)[:, np.newaxis]
        return (self.prob * (square - 2.0 * shift * mean + shift**2)).sum(axis=1)

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        return (self.prob * self.axis.share_below(x)).sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        return self.axis.quantile(self.prob / self.prob.sum(axis=1, keepdims=True), level)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``; see :class:`Axis`."""
        of_state = log_or_inf(self.prob[np.arange(len(x)), self.axis.states_of(x)])
        return of_state + AxisTable.of([self.axis]).log_density(x[:, np.newaxis])

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1)

    def without_atoms(self) -> Bins:
        """The part without atoms, with its probability."""
        state = self.axis.states
        share = np.where(np.isnan(self.axis.points), self.axis.shares, 0.0)
        left = np.bincount(state, share)
        if not left.any():
            return self._replace(prob=np.full(self.prob.shape, _TINY))
        axis = self.axis._replace(state=state, share=share / np.where(left > 0.0, left, 1.0)[state])
        return Bins(axis, np.where(left > 0.0, self.prob * left + _TINY, 0.0))


class ScoredNormals(NamedTuple):
    """Mixtures of the same few distributions of numbers: atoms, and a normal score for the others.

    Parameters
    ----------
    column : ScoredColumn
        The atoms and the score.
    state_prob : ndarray of shape (n_parts, n_atoms + 1)
        Probabilities of the atoms, and of all other values, in each part.
    mean, sd : ndarrays of shape (n_parts,) or (n, n_parts)
        Moments of the scores of the other values; they may differ between the distributions.
    prob : ndarray of shape (n, n_parts), default=None
        Probabilities of the parts under each of the n distributions; None takes the parts
        themselves as the distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import ScoredColumn, ScoredNormals
    >>> from skpc.variables.score import Score
    >>> column = ScoredColumn(Score(), np.array([0.0]))
    >>> rain = ScoredNormals(column, np.array([[0.5, 0.5]]), np.array([4.0]), np.array([1.0]))
    >>> rain.means().round(6), rain.below(np.array([0.0])).round(4), rain.quantiles(0.75)
    (array([2.]), array([0.5]), array([4.]))
    """

    column: ScoredColumn
    state_prob: Floats
    mean: Floats
    sd: Floats
    prob: Any = None

    def moments_of_parts(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` in each part."""
        score, away = self.column.score, self.column.atoms - centre
        # Parts that a distribution hardly has are not worth a quadrature.
        some = np.ones(len(self.mean), bool) if self.mean.ndim == 1 else self.rows > NOTHING
        first, second = np.zeros(self.mean.shape), np.zeros(self.mean.shape)
        mean, sd = self.mean[some], self.sd[some]
        first[some], second[some] = score.moments(mean, sd, np.full(len(mean), centre))
        of_atoms, of_rest = self.state_prob[:, :-1], self.state_prob[:, -1]
        return of_atoms @ away + of_rest * first, of_atoms @ away**2 + of_rest * second

    def means(self) -> Floats:
        """Mean of each distribution."""
        return _averages(self.rows, self.moments_of_parts(0.0)[0])

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        origin = float(np.mean(centre)) if len(centre) else 0.0
        mean, square = (_averages(self.rows, part) for part in self.moments_of_parts(origin))
        shift, total = centre - origin, self.rows.sum(axis=1)
        return square - 2.0 * shift * mean + shift**2 * total

    def modes(self, log_peak: Floats) -> tuple[Floats, Floats]:
        """A most probable value of each part, and its log value in the comparison of the parts.

        With atoms, all other values together compete by their probability: a density would
        depend on the unit of the column. Without atoms ``log_peak`` counts, the peak of a part.
        """
        best = self.state_prob.argmax(axis=1)
        values = np.append(self.column.atoms, np.nan)[best]
        found = np.where(np.isnan(values), self.column.score.inverse(self.mean), values)
        with np.errstate(divide="ignore"):
            log_prob = np.log(self.state_prob.max(axis=1))
        return found, log_prob if len(self.column.atoms) else log_peak

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        z = self.column.score.of(x)[:, np.newaxis]
        rest = ndtr((z - self.mean) / self.sd) * self.state_prob[:, -1]
        atoms = (x[:, np.newaxis] >= self.column.atoms) * (self.rows @ self.state_prob[:, :-1])
        return (self.rows * rest).sum(axis=1) + atoms.sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        total = self.rows.sum(axis=1)
        rest, wanted = self.rows * self.state_prob[:, -1], level * total
        of_atoms = self.rows @ self.state_prob[:, :-1]
        found, before = np.full(len(total), np.nan), np.zeros(len(total))
        for atom, mass in zip(self.column.atoms, of_atoms.T):
            reached = self.below(np.full(len(total), atom))
            at_atom = np.isnan(found) & (reached >= wanted) & (reached - mass < wanted)
            found[at_atom] = atom
            before += np.where(reached < wanted, mass, 0.0)
        left = np.flatnonzero(np.isnan(found))
        share = rest[left] / rest[left].sum(axis=1, keepdims=True)
        inner = (wanted - before)[left] / rest[left].sum(axis=1)
        inner = np.clip(inner, 1e-15, 1.0 - 1e-15)
        mean, sd = (part if part.ndim == 1 else part[left] for part in (self.mean, self.sd))
        scores = _normal_quantiles(share, mean, sd, inner)
        found[left] = self.column.score.inverse(scores)
        return found

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``.

        For an atom it is its log probability, divided by the step of the lattice if there is one.
        """
        state, score = self.column.scores(x)
        is_atom = state < len(self.column.atoms)
        of_atoms = log_or_inf((self.rows * self.state_prob.T[state]).sum(axis=1))
        if self.column.step > 0.0:
            of_atoms -= math.log(self.column.step)
        rest = np.where(is_atom, 0.0, score)
        of_rest = _log_normals(self.rows * self.state_prob[:, -1], self.mean, self.sd, rest)
        return np.where(is_atom, of_atoms, of_rest + self.column.score.log_slope(x))

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.rows @ self.state_prob.sum(axis=1)

    def without_atoms(self) -> ScoredNormals:
        """The part without atoms, with its probability."""
        column, prob = self.column._replace(atoms=np.empty(0)), self.rows * self.state_prob[:, -1]
        one = np.ones((len(self.state_prob), 1))
        return self._replace(column=column, state_prob=one, prob=prob + _TINY)

    def in_scores(self) -> Normals:
        """The same distributions on the scale of the score, atoms as known numbers."""
        atoms = self.column.score.of(self.column.atoms)
        prob = np.hstack([self.rows @ self.state_prob[:, :-1], self.rows * self.state_prob[:, -1]])
        sd = np.append(np.zeros(len(atoms)), self.sd)
        return Normals(np.append(atoms, self.mean), sd, prob)

    @property
    def rows(self) -> Floats:
        """Probabilities of the parts under each distribution."""
        return np.eye(len(self.state_prob)) if self.prob is None else self.prob


def likely_parts(parts: ScoredNormals) -> ScoredNormals:
    """The same distributions with a part for each atom, and the parts that are not negligible.

    The means of parts differ from row to row, and so do the parts that are kept.
    """
    rest = parts.rows * parts.state_prob[:, -1]
    n_kept = max(int((rest > NOTHING).sum(axis=1).max(initial=0)), 1)
    kept = np.argpartition(-rest, n_kept - 1, axis=1)[:, :n_kept]
    mean, sd, rest = (
        np.take_along_axis(part, kept, axis=1) for part in (parts.mean, parts.sd, rest)
    )
    return _with_atoms(parts.column, parts.rows @ parts.state_prob[:, :-1], mean, sd, rest)


def stacked(forms: Sequence[Any]) -> Any:
    """Distributions of the same column for several lists of rows, one after the other."""
    first = forms[0]
    if len(forms) == 1:
        return first
    if not isinstance(first, ScoredNormals) or first.mean.ndim == 1:
        return first._replace(prob=np.concatenate([form.prob for form in forms]))
    n_atoms, most = len(first.column.atoms), max(form.mean.shape[1] for form in forms)

    def padded(values: list[Floats], fill: float) -> Floats:
        widths = [((0, 0), (0, most - value.shape[1])) for value in values]
        parts = [np.pad(value, w, constant_values=fill) for value, w in zip(values, widths)]
        return np.concatenate(parts)[:, n_atoms:]

    mean, sd = padded([form.mean for form in forms], 0.0), padded([form.sd for form in forms], 1.0)
    prob = padded([form.rows for form in forms], 0.0)
    of_atoms = np.concatenate([form.rows[:, :n_atoms] for form in forms])
    return _with_atoms(first.column, of_atoms, mean, sd, prob)


def _with_atoms(
    column: ScoredColumn, of_atoms: Floats, mean: Floats, sd: Floats, rest: Floats
) -> ScoredNormals:
    """Distributions with probabilities of the atoms, and parts that are normal scores."""
    n_atoms, n_parts = of_atoms.shape[1], rest.shape[1]
    state_prob = np.eye(n_atoms + 1)[np.minimum(np.arange(n_atoms + n_parts), n_atoms)]
    mean, sd = np.hstack([np.zeros_like(of_atoms), mean]), np.hstack([np.ones_like(of_atoms), sd])
    return ScoredNormals(column, state_prob, mean, sd, np.hstack([of_atoms, rest]))


Form = Points | Normals | Bins | ScoredNormals


def _averages(prob: Floats, values: Floats) -> Floats:
    """Averages of values of parts, which are the same or others in each distribution."""
    return np.asarray(prob @ values if values.ndim == 1 else (prob * values).sum(axis=1))


def _log_normals(prob: Floats, mean: Floats, sd: Floats, x: Floats) -> Floats:
    """Log density of each mixture of normals at an ``x`` of its own."""
    u = (x[:, np.newaxis] - mean) / sd
    return np.asarray(logsumexp(log_or_inf(prob / (_SQRT_2_PI * sd)) - 0.5 * u * u, axis=1))


def _normal_quantiles(prob: Floats, mean: Floats, sd: Floats, level: Floats) -> Floats:
    """Quantile, at a level of its own, of each mixture of normals."""
    found, of_one = np.empty(len(prob)), ndtri(level)
    means, sds = (np.array(np.broadcast_to(part, prob.shape), order="C") for part in (mean, sd))
    _invert_normals(np.ascontiguousarray(prob), means, sds, level, of_one, found)
    return found


@kernel
def _invert_normals(
    prob: Floats, mean: Floats, sd: Floats, level: Floats, z: Floats, out: Floats
) -> None:
    """Quantile of each mixture of normals, by Newton's method between bounds.

    ``z`` has the quantiles of the standard normal distribution. Numbers are counted from the mean
    of a part, as floats are coarse far away from zero.
    """
    for r in range(len(out)):
        low, high, narrowest, origin = np.inf, -np.inf, np.inf, np.nan
        for k in range(prob.shape[1]):
            # The quantile of a mixture lies between those of its parts.
            if prob[r, k] > 0.0:
                origin = mean[r, k] if origin != origin else origin
                end = mean[r, k] - origin + z[r] * sd[r, k]
                low, high = min(low, end), max(high, end)
                narrowest = min(narrowest, sd[r, k])
        x, stride = 0.5 * (low + high), high - low
        for _ in range(_MAX_STEPS):
            excess, density = -level[r], 0.0
            for k in range(prob.shape[1]):
                u = (x - (mean[r, k] - origin)) / sd[r, k]
                excess += prob[r, k] * 0.5 * math.erfc(-u / _SQRT_2)
                density += prob[r, k] * math.exp(-0.5 * u * u) / (sd[r, k] * _SQRT_2_PI)
            if excess > 0.0:
                high = x
            else:
                low = x
            step = x - excess / density if density > 0.0 else np.inf
            # Newton's steps may go round in circles between parts: each is half the last at most.
            is_short = low < step < high and abs(step - x) <= 0.5 * stride
            following = step if is_short else 0.5 * (low + high)
            stride = abs(following - x)
            if stride <= _PRECISION * narrowest or abs(excess) <= _ROUNDING * level[r]:
                break
            x = following
        out[r] = origin + x
