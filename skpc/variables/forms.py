"""Forms of univariate distributions: points, normals, bins, and numbers with atoms and scores.

A form holds n distributions at once: a few parts that they share, and for each distribution the
probabilities of the parts. Anything that is linear in a distribution (a mean, a distribution
function, the expectation of a kernel) is computed once for each part and then averaged. A new form
needs moments, distribution function and density; all else follows from these.
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
from skpc.variables.law import SQRT_2_PI, Law
from skpc.variables.truncated import truncated_nodes

#: Least probability of a part, so that each distribution has a mean and quantiles.
_TINY = 1e-300
#: Parts less probable than this add nothing to a mean.
NOTHING = 1e-12


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
        """What each distribution's own interval ``low < x <= high`` adds to its :meth:`moments`."""

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``.

        Its shape is (n, n_intervals).
        """
        raise NotImplementedError(type(self).__name__)

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """Log of :meth:`between` (nats), which keeps its digits if distributions have one part."""
        # Smaller probabilities have lost digits, so that their logs are computed another way.
        least = 1e-290
        prob = self.between(low, high)
        log_prob = log_or_inf(prob)
        is_far = (prob < least).any(axis=0)
        if is_far.any():
            log_prob[:, is_far] = self.log_far_between(low[is_far], high[is_far])
        return log_prob

    def log_far_between(self, low: Floats, high: Floats) -> Floats:
        """:meth:`log_between` for intervals of tiny probabilities."""
        return log_or_inf(self.between(low, high))

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.prob.sum(axis=1)

    def averages(self, values: Floats) -> Floats:
        """Averages under each distribution of values of the parts, shape (n_parts, ...)."""
        return self.prob @ values

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable value of each distribution, and its log probability or log density (nats).

        States and atoms compete by their probabilities: between densities, the unit of the column
        would decide. A log density is relative to the ``highest`` one of the column. Normals need
        one part for each distribution.
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
        mean, square = self.moments(origin)
        shift = centre - origin
        return square - 2.0 * shift * mean + shift**2 * self.total()

    def quantiles(self, level: float | Floats) -> Floats:
        """Quantiles of all distributions at a level, or of each one at its own level."""
        mass = level * self.total()
        return bisected(lambda x: self.below(x) >= mass, len(mass))

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
        return self._prob_within(np.atleast_1d(low), x).sum(axis=1)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        value = self.value[:, np.newaxis]
        is_within = (low < value) & (value <= high)
        return self.averages(is_within.astype(np.float64))

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """What each distribution's own interval ``low < x <= high`` adds to its moments."""
        prob = self._prob_within(low, high)
        offset = self.value - centre
        return prob @ offset, prob @ offset**2

    def _prob_within(self, low: Floats, high: Floats) -> Floats:
        """Probabilities of the numbers in an interval of each distribution, zero elsewhere."""
        is_within = (low[:, np.newaxis] < self.value) & (self.value <= high[:, np.newaxis])
        return self.prob * is_within

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
        return prob if prob.ndim == 2 else np.diag(np.broadcast_to(prob, self.mean.shape))

    def averages(self, values: Floats) -> Floats:
        """Averages under each distribution of values of the parts, shape (n_parts, ...)."""
        # Without probabilities for each distribution, each part is a distribution by itself.
        if np.ndim(self.prob) < 2:
            return (self.prob * values.T).T
        # All distributions may share the parts, or each may have its own.
        are_shared = self.mean.ndim == 1
        return self.prob @ values if are_shared else (self.prob * values).sum(axis=1)

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
        # Quantiles ask often, and without a lower end half of the work is saved.
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
        """What each distribution's own interval ``low < x <= high`` adds to its moments.

        With ``inverse``, the distributions are of scores, and the moments are of the values
        ``inverse(score)``.
        """
        sd = np.where(self.sd > 0.0, self.sd, 1.0)
        begin, end = ((side[:, np.newaxis] - self.mean) / sd for side in (low, high))
        mass = self.rows * normal_between(begin, end)
        # Parts that hardly matter between the ends are not worth a quadrature.
        row, part = np.nonzero(mass > NOTHING * mass.sum(axis=1, keepdims=True))
        _, nearest, steps, shares = truncated_nodes(begin[row, part], end[row, part])
        mean, sd = (np.broadcast_to(array, mass.shape)[row, part] for array in (self.mean, sd))
        # (n_nodes, n_pairs): nodes of each pair of a distribution and a part of it.
        values = mean + sd * (nearest + steps)
        offset = (values if inverse is None else inverse(values)) - centre
        weight = shares * mass[row, part]
        mean_part = group_sums(row, (weight * offset).sum(axis=0), len(mass))
        square_part = group_sums(row, (weight * offset**2).sum(axis=0), len(mass))
        return mean_part, square_part

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """The mean of each part, and its log density less the highest one of the column."""
        return self.mean, -np.log(SQRT_2_PI * self.sd) - highest

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        u = (x[:, np.newaxis] - self.mean) / self.sd
        log_prob = log_or_inf(self.rows / (SQRT_2_PI * self.sd))
        return logsumexp(log_prob - 0.5 * u * u, axis=1)

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.averages(np.ones(self.mean.shape))

    def mixed(self, prob: Floats) -> Normals:
        """Mixtures of the distributions with weights of shape (n_mixtures, n)."""
        # A distribution that is a single part takes its weight times its own probability.
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
        """What each distribution's own interval ``low < x <= high`` adds to its moments."""
        # (n, n_states) each: the intervals differ, so that states are averaged row by row.
        moments = self.axis.moments_between(low, high, centre)
        mean_part, square_part = ((self.prob * moment).sum(axis=1) for moment in moments)
        return mean_part, square_part

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable values: those of the states that ``Histogram.log_peaks`` prefers."""
        density = log_or_inf(self.prob) + self.axis.log_peaks()
        return self.axis.modes()[density.argmax(axis=1)], density.max(axis=1)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``; see :class:`Histogram`."""
        log_prob = log_or_inf(picked(self.prob, self.axis.states_of(x)))
        return log_prob + HistogramTable.from_axes([self.axis]).log_density(x[:, np.newaxis])

    def without_atoms(self) -> Bins:
        """The part without atoms, with its probability."""
        state = self.axis.states
        is_interval = np.isnan(self.axis.points)
        share = np.where(is_interval, self.axis.shares, 0.0)
        # (n_states,): the share of each state that is in its intervals.
        interval_share = group_sums(state, share)
        if not interval_share.any():
            return Bins(self.axis, np.full(self.prob.shape, _TINY))
        axis = self.axis._replace(state=state, share=share / divisors(interval_share)[state])
        return Bins(axis, np.where(interval_share > 0.0, self.prob * interval_share + _TINY, 0.0))


@dataclass(frozen=True, eq=False)
class ScoredNormals(Form):
    """Distributions of numbers: atoms, and all other values by mixtures of normals of their scores.

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
        is_likely = np.ones(mean.shape, bool) if mean.ndim == 1 else self.rest.rows > NOTHING
        moments = np.zeros((2, *mean.shape))
        moments[:, is_likely] = self.column.moments(mean[is_likely], sd[is_likely], centre)
        atom_mean, atom_square = self._atoms.moments(centre)
        mean_of_rest, square_of_rest = (self.rest.averages(moment) for moment in moments)
        return atom_mean + mean_of_rest, atom_square + square_of_rest

    def below(self, x: Floats, low: Any = -math.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        return self.rest.below(*self.column.end_scores(x, low)) + self._atoms.below(x, low)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Probability under each distribution of each interval ``low < x <= high``."""
        prob_of_rest = self.rest.between(*self.column.end_scores(low, high))
        return self._atoms.between(low, high) + prob_of_rest

    def log_far_between(self, low: Floats, high: Floats) -> Floats:
        """Log probability (nats) of each interval under each part, (n_parts, n_intervals)."""
        log_prob_of_rest = self.rest.log_far_between(*self.column.end_scores(low, high))
        return np.logaddexp(log_or_inf(self._atoms.between(low, high)), log_prob_of_rest)

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """What each distribution's own interval ``low < x <= high`` adds to its moments."""
        atom_parts = self._atoms.moments_between(low, high, centre)
        low, high = self.column.end_scores(low, high)
        parts_of_rest = self.rest.moments_between(low, high, centre, self.column.inverse)
        return atom_parts[0] + parts_of_rest[0], atom_parts[1] + parts_of_rest[1]

    def modes(self, highest: float) -> tuple[Floats, Floats]:
        """Most probable values, by :meth:`Law.modes`; without atoms, by their density."""
        states = np.column_stack([self.atom_prob, self.rest.prob])
        has_atoms = len(self.column.atoms) > 0
        peaks = log_or_inf(states.max(axis=1)) if has_atoms else self.rest.modes(highest)[1]
        return self.column.modes(states, self.rest.mean), peaks

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``.

        For an atom it is its log probability, divided by the step of the lattice if there is one.
        """
        state, score = self.column.scores(x)
        is_atom = state < len(self.column.atoms)
        # Values that are no atoms have the last state, here a column of zeros.
        prob = np.pad(self.atom_prob, ((0, 0), (0, 1)))
        log_atom_density = log_or_inf(picked(prob, state))
        # On a lattice an atom fills its cell, which is one step wide.
        if self.column.step > 0.0:
            log_atom_density -= math.log(self.column.step)
        log_score_density = self.rest.log_density(np.where(is_atom, 0.0, score))
        return np.where(is_atom, log_atom_density, log_score_density + self.column.log_slope(x))

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
        """The distributions of the scores; an atom is a normal part without spread."""
        atoms = self.column.transform(self.column.atoms)
        prob = np.hstack([self.atom_prob, self.rest.rows])
        sd = np.append(np.zeros(len(atoms)), self.rest.sd)
        return Normals(np.append(atoms, self.rest.mean), sd, prob)

    def given(self, place: Ints, mean: Floats, sd: Floats) -> ScoredNormals:
        """The same distributions with other moments of the parts at these places, (n_places, n)."""
        n = len(self.atom_prob)
        # Each distribution gets parts of its own.
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
    n_likely = (prob > NOTHING).sum(axis=1)
    n_parts = max(int(n_likely.max(initial=0)), 1)
    likely = np.argpartition(-prob, n_parts - 1, axis=1)[:, :n_parts]
    fields = (form.rest.mean, form.rest.sd, prob)
    normals = Normals(*(np.take_along_axis(field, likely, axis=1) for field in fields))
    return replace(form, rest=normals)


def stacked(forms: Sequence[Any]) -> Any:
    """Distributions of the same column for several lists of rows, one after the other."""
    reference = forms[0]
    if isinstance(reference, ScoredNormals):
        atom_prob = np.concatenate([form.atom_prob for form in forms])
        return ScoredNormals(reference.column, atom_prob, stacked([form.rest for form in forms]))
    # Forms of the same column share their parts, unless each distribution has its own.
    if not isinstance(reference, Normals) or reference.mean.ndim == 1:
        return replace(reference, prob=np.concatenate([form.prob for form in forms]))
    n_parts = max(form.mean.shape[1] for form in forms)
    # A distribution with fewer parts gets standard normal ones of probability zero.
    padded = [
        np.pad(array, ((0, 0), (0, n_parts - array.shape[1])), constant_values=fill)
        for form in forms
        for array, fill in ((form.mean, 0.0), (form.sd, 1.0), (form.prob, 0.0))
    ]
    return Normals(*(np.concatenate(padded[field::3]) for field in range(3)))


def bisected(reached: Callable[[Floats], Any], n: int) -> Floats:
    """The least float at which each of n monotone conditions holds; ``reached`` tests n floats."""
    # The floats are ordered as their bits are, read as whole numbers: 64 halvings are enough,
    # however large or small the answer is.
    low, high = (_ordered_bits(np.full(n, end).view(np.int64)) for end in (-np.inf, np.inf))
    for _ in range(64):
        # The mean of two integers, without a sum that overflows.
        middle = (low & high) + ((low ^ high) >> 1)
        with np.errstate(over="ignore", invalid="ignore"):
            holds = reached(_ordered_bits(middle).view(np.float64))
        high = np.where(holds, middle, high)
        low = np.where(holds, low, middle)
    # Adding zero turns -0.0 into 0.0.
    return _ordered_bits(high).view(np.float64) + 0.0


def _ordered_bits(bits: Ints) -> Ints:
    """Bits of floats as whole numbers in the order of the floats, or back."""
    # Negative floats have the reverse order: all bits but the sign are inverted.
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))
