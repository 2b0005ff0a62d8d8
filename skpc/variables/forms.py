"""Forms of univariate distributions: points, normals, bins, scored normals, scale mixtures.

A form holds a few parts that all of its distributions share, and for each distribution the
probabilities of the parts. Anything that is linear in a distribution (a mean, a distribution
function, the expectation of a kernel) is computed once for each part and then averaged. A form
says its moments around one number, its distribution function and its density; all else follows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from skpc._arrays import Floats, Ints, divisors, group_sums, log_or_inf, picked
from skpc.variables.histogram import Histogram, HistogramTable
from skpc.variables.law import Law
from skpc.variables.truncated import truncated_nodes

#: Probability that parts of a distribution have at least, so that each has a mean and quantiles.
_TINY = 1e-300
#: Parts less probable than this add nothing to a mean.
NOTHING = 1e-12
_SQRT_2_PI = math.sqrt(2.0 * math.pi)


class Form(ABC):
    """Distributions of one number each, mixtures of parts with some probabilities ``prob``."""

    prob: Any

    @abstractmethod
    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """A number inside the column: moments around it keep their digits."""

    @abstractmethod
    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``.

        It is no difference of two probabilities, so that it keeps its digits far from the mean.
        """

    @abstractmethod
    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""

    @abstractmethod
    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """The parts of both moments that come from an interval ``low < x <= high`` of its own."""

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``.

        Its shape is (n, n_intervals).
        """
        raise NotImplementedError(type(self).__name__)

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """Log of :meth:`between`, in nats.

        Where probabilities are tiny, normals need one part for each distribution.
        """
        # Smaller probabilities have lost digits: the logs of those of normals are found anew.
        least = 1e-290
        prob = self.between(low, high)
        log_prob = log_or_inf(prob)
        is_far = (prob < least).any(axis=0)
        if is_far.any():
            log_prob[:, is_far] = self.log_far_between(low[is_far], high[is_far])
        return log_prob

    def log_far_between(self, low: Floats, high: Floats) -> Floats:
        """The same for intervals of tiny probabilities."""
        return log_or_inf(self.between(low, high))

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1)

    def averages(self, values: Floats) -> Floats:
        """Averages of values of the parts, one or several for each, under each distribution."""
        return self.prob @ values

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable values of distributions of one part, and what these add to a maximum.

        That is a log probability for states and atoms, because the unit of the column would
        decide otherwise, and else the log density less the ``highest`` one of the column (nats).
        """
        raise NotImplementedError(type(self).__name__)

    def means(self) -> Floats:
        """Mean of each distribution, whatever its total."""
        centre = self.centre
        total = self.total()
        return centre + self.moments(centre)[0] / divisors(total)

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        origin = float(np.mean(centre)) if len(centre) else 0.0
        (mean, square) = self.moments(origin)
        shift = centre - origin
        return square - 2.0 * shift * mean + shift**2 * self.total()

    def quantiles(self, level: float | Floats) -> Floats:
        """The number below which each distribution has ``level`` of its mass, or its own."""
        wanted = level * self.total()
        return bisected(lambda x: self.below(x) >= wanted, len(wanted))

    def scaled(self, weight: Floats) -> Any:
        """The distributions as parts of a mixture, with weights of shape (n, 1)."""
        form: Any = self
        return replace(form, prob=form.prob * weight)

    def mixed(self, prob: Floats) -> Any:
        """Mixtures of the distributions with weights of shape (n_mixtures, n)."""
        form: Any = self
        return replace(form, prob=prob @ form.prob)

    def without_atoms(self) -> Any:
        """The part without atoms, with its probability."""
        return self


@dataclass(frozen=True, eq=False)
class Points(Form):
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

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return float(self.value[len(self.value) // 2]) if len(self.value) else 0.0

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        offset = self.value - centre
        return self.averages(offset), self.averages(offset**2)

    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        return self._held(np.atleast_1d(low), x).sum(axis=1)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        value = self.value[:, np.newaxis]
        is_within = (low < value) & (value <= high)
        return self.averages(is_within.astype(np.float64))

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """The parts of both moments that come from an interval ``low < x <= high`` of its own."""
        held = self._held(low, high)
        offset = self.value - centre
        return held @ offset, held @ offset**2

    def _held(self, low: Floats, high: Floats) -> Floats:
        """Probabilities of the numbers in an interval of each distribution, zero elsewhere."""
        is_held = (low[:, np.newaxis] < self.value) & (self.value <= high[:, np.newaxis])
        return self.prob * is_held

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """The first of the most probable numbers, and its log probability."""
        return self.value[self.prob.argmax(axis=1)], log_or_inf(self.prob.max(axis=1))

    def log_density(self, x: Floats) -> Floats:
        """Log probability (nats) under each distribution of its own ``x``."""
        return log_or_inf((self.prob * (self.value == x[:, np.newaxis])).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Normals(Form):
    """Mixtures of a few normal distributions.

    Parameters
    ----------
    mean, sd : ndarrays of shape (n_parts,) or (n, n_parts)
        The parts, the same or others for each distribution; a standard deviation of zero means a
        known number.
    prob : ndarray of shape (n, n_parts) or (n_parts,), or float, default=1.0
        Probabilities of the parts under each of the n distributions. With less than two dimensions
        each part is a distribution by itself, which has this probability.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals
    >>> both = Normals(
    ...     np.array([-1.0, 3.0]), np.array([1.0, 0.5]), np.array([[0.5, 0.5]])
    ... )
    >>> both.means(), both.quantiles(0.25).round(3)
    (array([1.]), array([-1.]))
    """

    mean: Floats
    sd: Floats
    prob: Any = 1.0

    @property
    def rows(self) -> Floats:
        """Probabilities of the parts under each distribution, shape (n, n_parts)."""
        prob = np.asarray(self.prob)
        # Without a second dimension each part is a distribution by itself.
        return prob if prob.ndim == 2 else np.diag(np.broadcast_to(prob, self.mean.shape))

    def averages(self, values: Floats) -> Floats:
        """Averages of values of the parts, one or several for each, under each distribution."""
        if np.ndim(self.prob) < 2:
            return (self.prob * values.T).T
        # Shared parts make a product of matrices; a distribution with parts of its own has a sum.
        of_all = self.mean.ndim == 1
        return self.prob @ values if of_all else (self.prob * values).sum(axis=1)

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return float(self.mean.flat[0]) if self.mean.size else 0.0

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        offset = self.mean - centre
        return self.averages(offset), self.averages(offset**2 + self.sd**2)

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        # Not around one centre: far from it, little would be left of a small variance.
        squares = (self.mean - centre[:, np.newaxis]) ** 2 + self.sd**2
        return (self.rows * squares).sum(axis=1)

    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        ends = np.reshape(low, (-1, 1)), x[:, np.newaxis]
        begin, end = ((side - self.mean) / self.sd for side in ends)
        # Quantiles ask often, and mostly without a lower end, which takes half the work.
        if np.isneginf(low).all():
            return (self.rows * ndtr(end)).sum(axis=1)
        return (self.rows * normal_between(begin, end)).sum(axis=1)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        mean = self.mean[:, np.newaxis]
        sd = self.sd[:, np.newaxis]
        return self.averages(normal_between((low - mean) / sd, (high - mean) / sd))

    def log_far_between(self, low: Floats, high: Floats) -> Floats:
        """Log probability (nats) of each interval under each part, (n_parts, n_intervals)."""
        mean = self.mean[:, np.newaxis]
        sd = self.sd[:, np.newaxis]
        log_prob = log_or_inf(np.broadcast_to(self.prob, self.mean.shape))
        return truncated_nodes((low - mean) / sd, (high - mean) / sd)[0] + log_prob[:, np.newaxis]

    def moments_between(
        self, low: Floats, high: Floats, centre: float, inverse: Any = None
    ) -> tuple[Floats, Floats]:
        """The parts of both moments that come from an interval ``low < x <= high`` of its own.

        With ``inverse``, they are those of the values that have these scores.
        """
        sd = np.where(self.sd > 0.0, self.sd, 1.0)
        begin, end = ((side[:, np.newaxis] - self.mean) / sd for side in (low, high))
        held = self.rows * normal_between(begin, end)
        # Parts that hardly matter between the ends are not worth a quadrature.
        row, part = np.nonzero(held > NOTHING * held.sum(axis=1, keepdims=True))
        _, nearest, steps, shares = truncated_nodes(begin[row, part], end[row, part])
        mean, sd = (np.broadcast_to(one, held.shape)[row, part] for one in (self.mean, sd))
        values = mean + sd * (nearest + steps)
        offset = (values if inverse is None else inverse(values)) - centre
        weight = shares * held[row, part]
        first = group_sums(row, (weight * offset).sum(axis=0), len(held))
        second = group_sums(row, (weight * offset**2).sum(axis=0), len(held))
        return first, second

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """The mean of each part, and its log density less the highest one of the column."""
        return self.mean, -np.log(_SQRT_2_PI * self.sd) - highest

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        u = (x[:, np.newaxis] - self.mean) / self.sd
        log_prob = log_or_inf(self.rows / (_SQRT_2_PI * self.sd))
        return logsumexp(log_prob - 0.5 * u * u, axis=1)

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.averages(np.ones(self.mean.shape))

    def mixed(self, prob: Floats) -> Normals:
        """Mixtures of the distributions with weights of shape (n_mixtures, n)."""
        mixed = prob * self.prob if np.ndim(self.prob) < 2 else prob @ self.prob
        return replace(self, prob=mixed)


@dataclass(frozen=True, eq=False)
class Bins(Form):
    """Piecewise uniform distributions with exponential tails on one histogram axis.

    Parameters
    ----------
    axis : Histogram
        The axis.
    prob : ndarray of shape (n, n_states)
        Probabilities of its states under each of the n distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Histogram, Bins
    >>> flat = Bins(
    ...     Histogram(np.array([0.0, 4.0]), 1.0, 1.0), np.array([[0.0, 1.0, 0.0]])
    ... )
    >>> flat.means(), flat.below(np.array([1.0])), flat.quantiles(0.75)
    (array([2.]), array([0.25]), array([3.]))
    """

    axis: Histogram
    prob: Floats

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return float(self.axis.edges[len(self.axis.edges) // 2])

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        mean, square = self.axis.moments(centre)
        return self.averages(mean), self.averages(square)

    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        return (self.prob * self.axis.shares_between(np.atleast_1d(low), x)).sum(axis=1)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        return self.averages(self.axis.shares_between(low, high).T)

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """The parts of both moments that come from an interval ``low < x <= high`` of its own."""
        parts = self.axis.moments_between(low, high, centre)
        first, second = ((self.prob * of_state).sum(axis=1) for of_state in parts)
        return first, second

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable values, and what their states are worth (``Histogram.log_peaks``)."""
        density = log_or_inf(self.prob) + self.axis.log_peaks()
        return self.axis.modes()[density.argmax(axis=1)], density.max(axis=1)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``; see :class:`Histogram`."""
        of_state = log_or_inf(picked(self.prob, self.axis.states_of(x)))
        return of_state + HistogramTable.from_axes([self.axis]).log_density(x[:, np.newaxis])

    def without_atoms(self) -> Bins:
        """The part without atoms, with its probability."""
        state = self.axis.states
        is_interval = np.isnan(self.axis.points)
        share = np.where(is_interval, self.axis.shares, 0.0)
        # What the atoms leave of each state.
        left = group_sums(state, share)
        if not left.any():
            # Tiny and not zero, so that each distribution has a mean and quantiles.
            return Bins(self.axis, np.full(self.prob.shape, _TINY))
        axis = self.axis._replace(state=state, share=share / divisors(left)[state])
        return Bins(axis, np.where(left > 0.0, self.prob * left + _TINY, 0.0))


@dataclass(frozen=True, eq=False)
class ScoredNormals(Form):
    """Distributions of numbers: atoms, and scores that are mixtures of normal ones for the others.

    Parameters
    ----------
    column : Law
        The atoms and the score.
    atom_prob : ndarray of shape (n, n_atoms)
        Probabilities of the atoms under each of the n distributions.
    rest : Normals
        The scores of all other values, with the probability of these.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Law, Normals, ScoredNormals
    >>> from skpc.variables.score import Score
    >>> column = Law(Score(), np.array([0.0]))
    >>> rest = Normals(np.array([4.0]), np.array([1.0]), np.array([[0.5]]))
    >>> rain = ScoredNormals(column, np.array([[0.5]]), rest)
    >>> (
    ...     rain.means().round(6),
    ...     rain.below(np.array([0.0])).round(4),
    ...     rain.quantiles(0.75),
    ... )
    (array([2.]), array([0.5]), array([4.]))
    """

    column: Law
    atom_prob: Floats
    rest: Normals

    @property
    def _atoms(self) -> Points:
        """The part of the atoms, with its probability."""
        return Points(self.column.atoms, self.atom_prob)

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return float(self.column.inverse(np.zeros(1))[0])

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        mean = self.rest.mean
        sd = self.rest.sd
        # Parts that a distribution hardly has are not worth a quadrature.
        some = np.ones(mean.shape, bool) if mean.ndim == 1 else self.rest.rows > NOTHING
        parts = np.zeros((2, *mean.shape))
        parts[:, some] = self.column.moments(mean[some], sd[some], centre)
        first, second = self._atoms.moments(centre)
        return first + self.rest.averages(parts[0]), second + self.rest.averages(parts[1])

    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        return self.rest.below(*self.column.end_scores(x, low)) + self._atoms.below(x, low)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        of_atoms = self._atoms.between(low, high)
        return of_atoms + self.rest.between(*self.column.end_scores(low, high))

    def log_far_between(self, low: Floats, high: Floats) -> Floats:
        """Log probability (nats) of each interval under each part, (n_parts, n_intervals)."""
        of_atoms = log_or_inf(self._atoms.between(low, high))
        rest = self.rest.log_far_between(*self.column.end_scores(low, high))
        return np.logaddexp(of_atoms, rest)

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """The parts of both moments that come from an interval ``low < x <= high`` of its own."""
        atoms = self._atoms.moments_between(low, high, centre)
        low, high = self.column.end_scores(low, high)
        rest = self.rest.moments_between(low, high, centre, self.column.inverse)
        return atoms[0] + rest[0], atoms[1] + rest[1]

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable values, by :meth:`Law.modes`, and what they are worth."""
        states = np.column_stack([self.atom_prob, self.rest.prob])
        has_atoms = len(self.column.atoms) > 0
        of_rest = self.rest.modes(highest)[1]
        # With atoms, states compete by their probabilities; without any, the density counts.
        value = log_or_inf(states.max(axis=1)) if has_atoms else of_rest
        return self.column.modes(states, self.rest.mean), value

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``.

        For an atom it is its log probability, divided by the step of the lattice if there is one.
        """
        state, score = self.column.scores(x)
        is_atom = state < len(self.column.atoms)
        # Values that are no atoms have the last state, here a column of zeros.
        none = np.zeros((len(self.atom_prob), 1))
        padded = np.hstack([self.atom_prob, none])
        of_atoms = log_or_inf(picked(padded, state))
        # On a lattice an atom fills its cell, which is one step wide.
        if self.column.step > 0.0:
            of_atoms -= math.log(self.column.step)
        of_rest = self.rest.log_density(np.where(is_atom, 0.0, score))
        return np.where(is_atom, of_atoms, of_rest + self.column.log_slope(x))

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.atom_prob.sum(axis=1) + self.rest.total()

    def mixed(self, prob: Floats) -> ScoredNormals:
        """Mixtures of the distributions with weights of shape (n_mixtures, n)."""
        return ScoredNormals(self.column, prob @ self.atom_prob, self.rest.mixed(prob))

    def scaled(self, weight: Floats) -> ScoredNormals:
        """The distributions as parts of a mixture, with weights of shape (n, 1)."""
        return ScoredNormals(self.column, self.atom_prob * weight, self.rest.scaled(weight))

    def without_atoms(self) -> ScoredNormals:
        """The part without atoms, with its probability."""
        column = self.column._replace(atoms=np.empty(0))
        rest = self.rest
        return ScoredNormals(column, self.atom_prob[:, :0], replace(rest, prob=rest.rows + _TINY))

    def in_scores(self) -> Normals:
        """The same distributions on the scale of the score, atoms as known numbers."""
        atoms = self.column.transform(self.column.atoms)
        prob = np.hstack([self.atom_prob, self.rest.rows])
        sd = np.append(np.zeros(len(atoms)), self.rest.sd)
        return Normals(np.append(atoms, self.rest.mean), sd, prob)

    def given(self, place: Ints, mean: Floats, sd: Floats) -> ScoredNormals:
        """The same with other scores of some parts under each distribution, (n_parts, n)."""
        n = len(self.atom_prob)
        means, sds = (np.tile(part, (n, 1)) for part in (self.rest.mean, self.rest.sd))
        means[:, place] = mean.T
        sds[:, place] = sd.T
        return replace(self, rest=Normals(means, sds, self.rest.rows))


def normal_between(low: Floats, high: Floats) -> Floats:
    """Probability of intervals under the standard normal distribution."""
    # On the side of the mean that the interval is on, the digits of small differences stay.
    is_above = low > 0.0
    return ndtr(np.where(is_above, -low, high)) - ndtr(np.where(is_above, -high, low))


def likely_parts(form: Form) -> Form:
    """The same distributions without parts that are negligible, where each has parts of its own."""
    if not isinstance(form, ScoredNormals) or form.rest.mean.ndim == 1:
        return form
    prob = form.rest.rows
    # Arrays are rectangular: each keeps as many parts as the one with the most likely parts.
    n_positive = (prob > NOTHING).sum(axis=1)
    n_kept = max(int(n_positive.max(initial=0)), 1)
    kept = np.argpartition(-prob, n_kept - 1, axis=1)[:, :n_kept]
    parts = (form.rest.mean, form.rest.sd, prob)
    rest = Normals(*(np.take_along_axis(part, kept, axis=1) for part in parts))
    return replace(form, rest=rest)


def stacked(forms: Sequence[Any]) -> Any:
    """Distributions of the same column for several lists of rows, one after the other."""
    first = forms[0]
    if isinstance(first, ScoredNormals):
        atom_prob = np.concatenate([form.atom_prob for form in forms])
        return ScoredNormals(first.column, atom_prob, stacked([form.rest for form in forms]))
    if not isinstance(first, Normals) or first.mean.ndim == 1:
        return replace(first, prob=np.concatenate([form.prob for form in forms]))
    most = max(form.mean.shape[1] for form in forms)
    # Parts that a distribution has not are standard normal ones of probability zero.
    padded = [
        np.pad(part, ((0, 0), (0, most - part.shape[1])), constant_values=fill)
        for form in forms
        for part, fill in ((form.mean, 0.0), (form.sd, 1.0), (form.prob, 0.0))
    ]
    return Normals(*(np.concatenate(padded[field::3]) for field in range(3)))


def bisected(reached: Callable[[Floats], Any], n: int) -> Floats:
    """The least of all floats at which each of n conditions holds that then stays true."""
    # As whole numbers, the bits of floats have the order of the floats: 64 halvings are enough,
    # wherever the number is.
    low, high = (_turned(np.full(n, end).view(np.int64)) for end in (-np.inf, np.inf))
    for _ in range(64):
        # The mean of two integers, without a sum that overflows.
        middle = (low & high) + ((low ^ high) >> 1)
        with np.errstate(over="ignore", invalid="ignore"):
            holds = reached(_turned(middle).view(np.float64))
        high = np.where(holds, middle, high)
        low = np.where(holds, low, middle)
    # Adding zero turns -0.0 into 0.0.
    return _turned(high).view(np.float64) + 0.0


def _turned(bits: Ints) -> Ints:
    """Bits of floats as whole numbers of the same order, or back."""
    # The bits of negative floats have the reverse order, and are inverted but for the sign.
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))
