"""Censored columns: numbers of which some cells are known as ranges, and values drawn for these.

The distribution of a column is the nonparametric one of greatest likelihood, by self-consistency
(Turnbull, "The empirical distribution function with arbitrarily grouped, censored and truncated
data", 1976); with values and right-censored cells alone it is that of Kaplan and Meier. It has
masses on parts: the values, and the innermost ranges, inside which no cell ends. The nonparametric
likelihood says nothing of the inside of such a range: there, values follow the normal distribution
of a power that fits all cells best. The plain twin is ``tests/naive/censored.py``.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, group_sums
from skpc._fitting import Rows, Statistics, Stop, learn
from skpc.variables.atoms import distinct, repeated_points
from skpc.variables.censored_regression import censored_regression
from skpc.variables.lattice import fit_lattice, on_lattice
from skpc.variables.truncated import truncated_quantiles

#: Self-consistency ends after so many steps, or once a step gains less than so many nats a cell.
_STOP = Stop(1_000, 1e-12)


class Ranges(NamedTuple):
    """Cells of a column: values, ranges, and missing ones.

    Attributes
    ----------
    low, high : ndarrays of shape (n_cells,)
        The ends: equal for a value, infinite where a cell has no bound.
    closed : bool ndarray of shape (2, n_cells)
        Which ends belong to the range.
    """

    low: Floats
    high: Floats
    closed: Bools

    @property
    def is_value(self) -> Bools:
        """Which cells are values."""
        return self.low == self.high

    def apart(self) -> Self:
        """The same cells, where a point shared by two closed ranges belongs to the upper one alone.

        Else the point would be an innermost range by itself and get the mass of both, though
        numbers need not lie just there. A point that is a value stays shared.
        """
        is_range = ~self.is_value
        begins = np.where(self.closed[0], np.nextafter(self.low, -np.inf), self.low)[is_range]
        below = np.nextafter(self.high, -np.inf)
        is_shared = is_range & self.closed[1] & np.isin(below, begins)
        is_shared &= ~np.isin(self.high, self.low[self.is_value])
        return self._replace(high=np.where(is_shared, below, self.high))

    def take(self, index: Ints) -> Self:
        """The cells at these places."""
        return type(self)(self.low[index], self.high[index], self.closed[:, index])


class Support(NamedTuple):
    """The parts of a law, which are values and innermost ranges of cells, and their probabilities.

    Attributes
    ----------
    low, high : ndarrays of shape (n_parts,)
        Increasing; equal for a value.
    mass : ndarray of shape (n_parts,)
        Probabilities.
    first_part, last_part : ndarrays of shape (n_cells,)
        The parts that each cell may be in: ``first_part .. last_part``, both included.
    """

    low: Floats
    high: Floats
    mass: Floats
    first_part: Ints
    last_part: Ints


def fit_support(cells: Ranges, weight: Floats) -> Support:
    """The nonparametric law of a column of values and ranges.

    Parameters
    ----------
    cells : Ranges
        Each of them holds some number.
    weight : ndarray of shape (n_cells,)
        Positive.

    Returns
    -------
    Support

    Examples
    --------
    Deaths at 1 and 3, and a life that was seen until 2 (Kaplan and Meier's 2/3 after 1):

    >>> import numpy as np
    >>> from skpc.variables.censored import Ranges, fit_support
    >>> low, high = np.array([1.0, 2.0, 3.0]), np.array([1.0, np.inf, 3.0])
    >>> closed = np.array([[True, False, True], [True, False, True]])
    >>> support = fit_support(Ranges(low, high, closed), np.ones(3))
    >>> support.low, support.mass.round(3)
    (array([1., 3.]), array([0.333, 0.667]))
    """
    n_cells = len(weight)
    # An end lies just below or just above its number: below it if a lower end is closed.
    number = np.concatenate([cells.low, cells.high])
    side = np.concatenate([np.where(cells.closed[0], -1, 1), np.where(cells.closed[1], 1, -1)])
    is_high = np.arange(2 * n_cells) >= n_cells
    place = np.unique(np.column_stack([number, side]), axis=0, return_inverse=True)[1].ravel()
    # At one place upper ends come first: nothing lies between an upper and a lower end there.
    order = np.lexsort((~is_high, place))
    # An innermost range is a lower end that an upper end follows.
    turns = np.flatnonzero(~is_high[order[:-1]] & is_high[order[1:]])
    opens = order[turns]
    closes = order[turns + 1]
    # A cell may be in all the parts that lie between its own ends.
    first_part = np.searchsorted(place[opens], place[:n_cells])
    last_part = np.searchsorted(place[closes], place[n_cells:], side="right") - 1
    mass = self_consistent(Stretches(first_part, last_part), weight, len(opens))
    return Support(number[opens], number[closes], mass, first_part, last_part)


class Stretches(NamedTuple):
    """Cells that may each be in the parts ``first_part .. last_part`` of a law, both included."""

    first_part: Ints
    last_part: Ints

    def probabilities(self, mass: Floats) -> Floats:
        """Probability of each cell under probabilities of the parts."""
        below = np.append(0.0, np.cumsum(mass))
        return below[self.last_part + 1] - below[self.first_part]

    def reached(self, amount: Floats, n_parts: int) -> Floats:
        """Sum of the amounts of the cells that may be in each part."""
        begun = group_sums(self.first_part, amount, n_parts + 1)
        ended = group_sums(self.last_part + 1, amount, n_parts + 1)
        # Differences of sums may be rounding errors below zero.
        return np.maximum(np.cumsum(begun - ended)[:-1], 0.0)


class Sets(NamedTuple):
    """Cells that may each be in any set of parts, marked in ``held`` (n_cells, n_parts)."""

    held: Bools

    def probabilities(self, mass: Floats) -> Floats:
        """Probability of each cell under probabilities of the parts."""
        return self.held @ mass

    def reached(self, amount: Floats, n_parts: int) -> Floats:  # noqa: ARG002
        """Sum of the amounts of the cells that may be in each part."""
        return amount @ self.held


@dataclass(frozen=True, eq=False)
class Shares(Statistics):
    """Expected weights of the cells in each part."""

    weight: Floats
    log_likelihood: float


class PartLaw(NamedTuple):
    """Probabilities of parts; see :class:`skpc._fitting.Parametrised`."""

    mass: Floats

    def expected(self, cells: Stretches | Sets, weight: Floats) -> Shares:
        """The E-step: each cell is shared among its parts, in proportion to their masses."""
        # The probability of a cell of hardly any weight may round to zero.
        prob = np.maximum(cells.probabilities(self.mass), SMALLEST_NORMAL)
        part_weight = self.mass * cells.reached(weight / prob, len(self.mass))
        return Shares(part_weight, float(weight @ np.log(prob)))

    def m_step(self, shares: Shares) -> Self:
        """The share of each part."""
        return type(self)(shares.weight / shares.weight.sum())


def self_consistent(cells: Stretches | Sets, weight: Floats, n_parts: int) -> Floats:
    """Probabilities of parts such that each is its share of all cells that may be in it."""
    even = PartLaw(np.full(n_parts, 1.0 / n_parts))
    return learn([even], Rows(cells, weight), _STOP).model.mass


def even_levels(n_levels: int, random_state: np.random.RandomState) -> Floats:
    """Random numbers between zero and one; any run of them is spread evenly over the interval."""
    # Fractional parts of multiples of the golden ratio have this property.
    golden = 0.5 * (5.0**0.5 - 1.0)
    return np.modf(random_state.random_sample() + golden * np.arange(n_levels))[0]


def even_draws(share: Floats, random_state: np.random.RandomState) -> Floats:
    """A state drawn for each row by its shares, with evenly spread levels; shape (n_rows,)."""
    # (n_rows, n_states): a level falls to the first state whose cumulated share is above it.
    cumulated = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)
    level = even_levels(len(share), random_state)
    return np.asarray((level[:, np.newaxis] >= cumulated[:, :-1]).sum(axis=1), dtype=np.float64)


class PowerNormal(NamedTuple):
    """A distribution of numbers whose Box-Cox transforms are normal.

    Attributes
    ----------
    power : float or None
        Power of the transform, for positive numbers; 0 is the logarithm, None no transform.
    mean, sd : float
        Those of the transformed numbers.
    """

    power: float | None
    mean: float
    sd: float

    @classmethod
    def fit(cls, cells: Ranges, weight: Floats, is_positive: bool) -> Self:
        """The power, mean and deviation of greatest likelihood, by EM for each power."""
        powers = (-0.5, 0.0, 0.25, 0.5, 1.0, 2.0)
        # So many ranges are enough to compare powers.
        sketch = 1_000
        is_value = cells.is_value
        ranges = np.flatnonzero(~is_value)
        ranges = ranges[np.lexsort((cells.high[ranges], cells.low[ranges]))]
        step = 1 + len(ranges) // sketch
        chosen = np.append(np.flatnonzero(is_value), ranges[::step])
        low = cells.low[chosen]
        high = cells.high[chosen]
        # Each chosen range also stands for those that were left out.
        mass = np.where(is_value, weight, step * weight)[chosen]
        rows = np.flatnonzero(low < high)
        finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])
        # Powers are for positive numbers only.
        is_positive &= bool((finite >= 0.0).all())
        # EM starts from the middle of a range, or from its only finite end.
        middle = np.where(np.isfinite(low), low, high)
        middle = np.where(np.isfinite(high - low), 0.5 * (low + high), middle)
        is_positive &= bool((middle > 0.0).all())
        greatest = -np.inf
        likeliest = cls(None, 0.0, 1.0)
        for power in powers if is_positive else (None,):
            law = cls(power, 0.0, 1.0)
            ends = rows, law.scores(low[rows]), law.scores(high[rows])
            constant = np.ones((len(low), 1))
            start = law.scores(middle)
            mean, sd, objective = censored_regression(constant, start, ends, mass, np.zeros(1))
            # The slope of the transform turns densities of scores into densities of values.
            if power is not None:
                objective += (power - 1.0) * float(mass[low == high] @ np.log(low[low == high]))
            if objective > greatest:
                greatest = objective
                likeliest = law._replace(mean=float(mean[0]), sd=sd)
        return likeliest

    def scores(self, x: Floats) -> Floats:
        """The transforms of numbers; infinite at and below zero, and at infinity."""
        if self.power is None:
            return x
        with np.errstate(divide="ignore", over="ignore"):
            positive = np.maximum(x, 0.0)
            if self.power == 0.0:
                return np.log(positive)
            scores = (positive**self.power - 1.0) / self.power
        return np.where(x <= 0.0, -np.inf, scores)

    def numbers(self, scores: Floats) -> Floats:
        """The numbers that have these transforms."""
        if self.power is None:
            return scores
        if self.power == 0.0:
            return np.exp(scores)
        # Scores that no power reaches become the end of the range.
        return np.maximum(1.0 + self.power * scores, 0.0) ** (1.0 / self.power)

    def within(self, low: Floats, high: Floats, level: Floats) -> Floats:
        """The quantile of each level within the range that belongs to it."""
        begin = (self.scores(low) - self.mean) / self.sd
        end = (self.scores(high) - self.mean) / self.sd
        z = truncated_quantiles(begin, end, level)
        drawn = self.numbers(self.mean + self.sd * z)
        # Rounding must not leave the range.
        return np.clip(drawn, low, high)


def filled_ranges(
    cells: Ranges,
    weight: Floats,
    random_state: np.random.RandomState,
    is_positive: bool = True,
) -> Floats:
    """Values for all cells of a column: those of ranges are drawn from its law within the range.

    Parameters
    ----------
    cells : Ranges
        Values and ranges.
    weight : ndarray of shape (n_cells,)
        Positive.
    random_state : RandomState
        Draws where the sequence of levels begins.
    is_positive : bool, default=True
        Whether numbers may be taken as positive if no end is negative; residuals may not.

    Returns
    -------
    ndarray of shape (n_cells,)
        Values stay. Draws are on the lattice of the values, if there is one.
    """
    cells = cells.apart()
    support = fit_support(cells, weight)
    is_value = cells.is_value
    points, mass = distinct(cells.low[is_value], weight[is_value])
    step = 0.0
    origin = 0.0
    atoms = np.empty(0)
    if len(points):
        step, origin = fit_lattice(points, mass)
        atoms = repeated_points(points, mass, step)
    # Neighbours in this order have the same range or similar ones, and evenly spread levels.
    order = np.lexsort((cells.high, cells.low))
    order = order[~is_value[order]]
    part, inside = _places_in_support(support, order, even_levels(len(order), random_state))
    is_point = support.low == support.high
    # A value that does not repeat stands for all numbers up to half the way to its neighbours.
    spreads = is_point & ~np.isin(support.low, atoms) & (step == 0.0)
    below, above = _halfway_to_neighbours(support)
    # The room around a value may be wider than the cell.
    low = np.maximum(np.where(spreads, below, support.low)[part], cells.low[order])
    high = np.minimum(np.where(spreads, above, support.high)[part], cells.high[order])
    drawn = np.where(np.isfinite(low), low, high)
    is_finite = np.isfinite(high - low)
    drawn[is_finite] += inside[is_finite] * (high - low)[is_finite]
    # Inside an innermost range draws follow a normal law of powers. If it is the only part of the
    # law, no cell tells anything of its inside, and draws stay even.
    is_open = ~is_point[part] & (len(is_point) > 1)
    if is_open.any():
        law = PowerNormal.fit(cells, weight, is_positive)
        drawn[is_open] = law.within(low[is_open], high[is_open], inside[is_open])
    if step > 0.0:
        drawn = on_lattice(drawn, step, origin)
        # A point at an open end, or beyond an end, gives way to the next point inside.
        least = cells.low[order]
        highest = cells.high[order]
        drawn += step * ((drawn < least) | ((drawn == least) & ~cells.closed[0, order]))
        drawn -= step * ((drawn > highest) | ((drawn == highest) & ~cells.closed[1, order]))
    filled = cells.low.copy()
    filled[order] = drawn
    return filled


def _places_in_support(support: Support, order: Ints, level: Floats) -> tuple[Ints, Floats]:
    """The part of the support that each cell's draw is in, and how far into it, from 0 to 1."""
    # The law is inverted between the probabilities that it gives to the ends of each cell.
    below = np.append(0.0, np.cumsum(support.mass))
    begin = below[support.first_part[order]]
    end = below[support.last_part[order] + 1]
    reached = begin + level * (end - begin)
    part = np.searchsorted(below, reached, side="right") - 1
    # Rounding must not choose a part that the cell cannot be in.
    part = np.clip(part, support.first_part[order], support.last_part[order])
    inside = (reached - below[part]) / np.maximum(support.mass[part], SMALLEST_NORMAL)
    return part, np.clip(inside, 0.0, 1.0)


def _halfway_to_neighbours(support: Support) -> tuple[Floats, Floats]:
    """Lower and upper ends of the room of each value: half the way to the neighbouring parts."""
    before = np.append(-np.inf, support.high[:-1])
    after = np.append(support.low[1:], np.inf)
    # The answers for ranges are not used; a range may be open at both ends.
    with np.errstate(invalid="ignore"):
        below = np.where(np.isfinite(before), 0.5 * (support.low + before), support.low)
        above = np.where(np.isfinite(after), 0.5 * (support.low + after), support.low)
    return below, above
