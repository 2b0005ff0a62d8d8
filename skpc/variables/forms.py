"""Forms of univariate distributions: points, normals, bins, scored normals, scale mixtures.

A form holds a few parts that all of its distributions share, and for each distribution the
probabilities of the parts. Anything that is linear in a distribution (a mean, a distribution
function, the expectation of a kernel) is computed once for each part and then averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from skpc._arrays import Floats, log_or_inf
from skpc.variables.axis import Axis, AxisTable
from skpc.variables.score import ScoredColumn

#: Halvings of the bounds of a quantile: they end at neighbouring floats.
_HALVINGS = 200
#: Standard deviations within which quantiles of scores are looked for, and a bound of values.
_REACH, _FARTHEST = 8.0, 1e300
#: Probability that parts of a distribution have at least, so that each has a mean and quantiles.
_TINY = 1e-300
#: Parts less probable than this add nothing to a mean.
NOTHING = 1e-12
#: A smaller probability of a cell is taken from the density in its middle.
_SMALLEST_MASS = 1e-10
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
    """Mixtures of a few normal distributions.

    Parameters
    ----------
    mean, sd : ndarrays of shape (n_parts,) or (n, n_parts)
        The parts, the same or others for each distribution; a standard deviation of zero means a
        known number.
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
        return _averages(self.rows, self.mean)

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        squares = (self.mean - centre[:, np.newaxis]) ** 2 + self.sd**2
        return (self.rows * squares).sum(axis=1)

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        return (self.rows * ndtr((x[:, np.newaxis] - self.mean) / self.sd)).sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        some, ends = self.rows > 0.0, self.mean + ndtri(level) * self.sd
        low, high = np.where(some, ends, np.inf), np.where(some, ends, -np.inf)
        return _quantiles(self, level, low.min(axis=1), high.max(axis=1))

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        u = (x[:, np.newaxis] - self.mean) / self.sd
        log_prob = log_or_inf(self.rows / (_SQRT_2_PI * self.sd))
        return np.asarray(logsumexp(log_prob - 0.5 * u * u, axis=1))

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
        return of_state + AxisTable.from_axes([self.axis]).log_density(x[:, np.newaxis])

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
        score, offset = self.column.score, self.column.atoms - centre
        # Parts that a distribution hardly has are not worth a quadrature.
        some = np.ones(len(self.mean), bool) if self.mean.ndim == 1 else self.rows > NOTHING
        first, second = np.zeros(self.mean.shape), np.zeros(self.mean.shape)
        mean, sd = self.mean[some], self.sd[some]
        first[some], second[some] = score.moments(mean, sd, np.full(len(mean), centre))
        of_atoms, of_rest = self.state_prob[:, :-1], self.state_prob[:, -1]
        return of_atoms @ offset + of_rest * first, of_atoms @ offset**2 + of_rest * second

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
        values = np.where(np.isnan(values), self.column.score.inverse(self.mean), values)
        log_prob = log_or_inf(self.state_prob.max(axis=1))
        return values, log_prob if len(self.column.atoms) else log_peak

    def below(self, x: Floats) -> Floats:
        """Probability under each distribution that a draw is at most its own ``x``."""
        atoms = (x[:, np.newaxis] >= self.column.atoms) * self.atom_prob
        return self.rest.below(self.column.score.transform(x)) + atoms.sum(axis=1)

    def quantiles(self, level: float) -> Floats:
        """The number below which each distribution has ``level`` of its mass."""
        score, atoms = self.column.score, self.column.atoms
        some, reach = self.rows > 0.0, _REACH * self.sd
        low = score.inverse(np.where(some, self.mean - reach, np.inf).min(axis=1))
        high = score.inverse(np.where(some, self.mean + reach, -np.inf).max(axis=1))
        high = np.clip(high, atoms.max(initial=-_FARTHEST), _FARTHEST)
        return _quantiles(self, level, np.maximum(low, -_FARTHEST), high, atoms)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``.

        For an atom it is its log probability, divided by the step of the lattice if there is one.
        """
        state, score = self.column.scores(x)
        is_atom = state < len(self.column.atoms)
        of_atoms = log_or_inf((self.rows * self.state_prob.T[state]).sum(axis=1))
        if self.column.step > 0.0:
            of_atoms -= math.log(self.column.step)
        of_rest = self.rest.log_density(np.where(is_atom, 0.0, score))
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
        atoms = self.column.score.transform(self.column.atoms)
        prob = np.hstack([self.atom_prob, self.rest.rows])
        sd = np.append(np.zeros(len(atoms)), self.sd)
        return Normals(np.append(atoms, self.mean), sd, prob)

    @property
    def rows(self) -> Floats:
        """Probabilities of the parts under each distribution."""
        return np.eye(len(self.state_prob)) if self.prob is None else self.prob

    @property
    def rest(self) -> Normals:
        """The scores of values that are not atoms, with the probability of these."""
        return Normals(self.mean, self.sd, self.rows * self.state_prob[:, -1])

    @property
    def atom_prob(self) -> Floats:
        """Probabilities of the atoms under each distribution, shape (n, n_atoms)."""
        return self.rows @ self.state_prob[:, :-1]


def likely_parts(parts: Form) -> Form:
    """The same distributions without parts that are negligible, where each has parts of its own.

    Each atom becomes a part.
    """
    if not isinstance(parts, ScoredNormals) or parts.mean.ndim == 1:
        return parts
    rest = parts.rest.rows
    n_kept = max(int((rest > NOTHING).sum(axis=1).max(initial=0)), 1)
    kept = np.argpartition(-rest, n_kept - 1, axis=1)[:, :n_kept]
    mean, sd, rest = (
        np.take_along_axis(part, kept, axis=1) for part in (parts.mean, parts.sd, rest)
    )
    return _with_atoms(parts.column, parts.atom_prob, mean, sd, rest)


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


class ScaleMixture(NamedTuple):
    """Scale mixtures: copies of a distribution, stretched around its mean, which does not change.

    Only pools of predictions use them.

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
        Means of the distributions, as :meth:`from_form` computes them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals, ScaleMixture
    >>> one = Normals(np.array([5.0]), np.array([1.0]))
    >>> heavy = ScaleMixture.from_form(one, np.array([0.5, 4.0]), np.array([[0.9, 0.1]]))
    >>> heavy.means(), heavy.mean_squares(heavy.means()), heavy.quantiles(0.5)
    (array([5.]), array([1.825]), array([5.]))
    """

    form: Any
    factors: Floats
    prob: Floats
    middle: Floats

    @classmethod
    def from_form(cls, form: Any, factors: Floats, prob: Floats) -> ScaleMixture:
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
        middle = self.middle
        offset = self.form.quantiles(level) - middle
        ends = middle + self.factors[:, np.newaxis] * offset
        return _quantiles(self, level, ends.min(axis=0), ends.max(axis=0))

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
        middle, log_density = self.middle, self.log_densities(x)
        for column, factor in zip(log_density.T, self.factors):
            low, high = (middle + (x + side - middle) / factor for side in (-step / 2, step / 2))
            mass = self.form.below(high) - self.form.below(low)
            # Differences of numbers close to one are rounding.
            exact = mass > _SMALLEST_MASS
            column[exact] = np.log(mass[exact] / step)
        return log_density

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1) * self.form.total()


Form = Points | Normals | Bins | ScoredNormals
#: What the distribution of a cell is made of.
Term = Form | ScaleMixture


def _averages(prob: Floats, values: Floats) -> Floats:
    """Averages of values of parts, which are the same or others in each distribution."""
    return np.asarray(prob @ values if values.ndim == 1 else (prob * values).sum(axis=1))


def _quantiles(
    form: Any, level: float, low: Floats, high: Floats, atoms: Floats | None = None
) -> Floats:
    """The least numbers, between bounds, at which distributions reach a level of their mass."""
    wanted = level * form.total()
    return bisected(lambda x: form.below(x) >= wanted, low, high, atoms)


def bisected(
    reached: Callable[[Floats], Any], low: Floats, high: Floats, atoms: Floats | None = None
) -> Floats:
    """The least numbers, each between two bounds, at which a condition holds that then stays true.

    They are found to neighbouring floats; the upper bound where the condition holds nowhere.
    Halving comes close to an atom at zero, but hardly ever there: it is tried by itself.
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not ((low < middle) & (middle < high)).any():
            break
        holds = reached(middle)
        high, low = np.where(holds, middle, high), np.where(holds, low, middle)
    for atom in () if atoms is None else atoms:
        at_atom = reached(np.full(len(high), atom))
        high = np.where(at_atom, np.minimum(high, atom), high)
    return high
