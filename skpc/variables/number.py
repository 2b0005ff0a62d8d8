"""What a numeric column is: its lattice, its atoms, its range, and its score."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logit

from skpc._arrays import (
    ROUNDING,
    Bools,
    Floats,
    exact_group_sums,
    weighted_quantiles,
    whole_rows,
)
from skpc.variables.axis import TINY
from skpc.variables.lattice import OFF_LATTICE, fit_lattice, on_lattice
from skpc.variables.score import Score, ScoredColumn, states_among

#: How far from the one value of a column others are expected, as a part of that value.
_NEAR_CONSTANT = 0.01
#: An atom holds ``_FEW_ROWS`` rows and a small share at least, and several times the mean count of
#: what is next to it. On a lattice these are the nearest points, whether they occur or not, and the
#: share is ``_SHARE_ON_LATTICE``; elsewhere the nearest values, and the share is ``_SHARE`` with
#: ``_TIMES`` their count, or ``_SMALL_SHARE`` with ``_MORE_TIMES``.
_FEW_ROWS, _SHARE, _SMALL_SHARE, _SHARE_ON_LATTICE = 8.0, 0.05, 0.01, 0.002
_TIMES, _MORE_TIMES, _NEAREST = 4.0, 8.0, 6
#: Most atoms without a lattice, and on one: as many, or one for this many rows.
_MAX_ATOMS, _MAX_ON_LATTICE, _ROWS_OF_ATOM = 8, 20, 40.0
#: All values are atoms, such as brackets, doses and prices, if there are no more than
#: ``_MAX_STATES``, of ``_FEW_ROWS`` rows each on average; or if they are among 0, 1, ...,
#: ``_MOST_SMALL``.
_MAX_STATES, _MOST_SMALL = 20, 15.0
#: The least or greatest value is an atom, if it repeats as often, also where it is as far away from
#: the others as this part of their range: a code for what is missing, say.
_ISOLATED = 0.25
#: Values this close, relative to them or a typical one, are one value with errors of rounding; but
#: far away from zero values may spread over little more than that. A size counts up to
#: ``_MOST_SPREADS`` spreads, unless the values spread over a few neighbouring floats only.
_ROUNDING, _MOST_SPREADS = 1e-12, 1e6
_FEW_FLOATS = 16.0 * np.finfo(float).eps
#: Scale of the tails of values that were not seen, as a part of the range.
_TAIL = 0.25
#: An end that values crowd lies this part of the range beyond them.
_WIDENED = 0.01
#: Values repeat if a new row has another value with less than this probability, and if there are
#: not too many of them.
_MOST_UNSEEN, _MAX_VALUES = 0.5, 10_000
#: Quantiles on which powers of the score are compared, at most and at least; and the powers, from a
#: logarithm to its mirror image: beyond, means of what lies outside the range seen explode.
_SKETCH, _ENOUGH, _POWERS = 2000, 8, np.arange(0.0, 2.25, 0.25)
_NO_BOUNDS = (-math.inf, math.inf)
#: The power transform goes on linearly beyond the range seen, widened by this part of it.
_BEYOND = 0.1
#: Ends that are not declared change values nearer to them than this part of the spread.
_SOFT = 0.1
#: Values crowd an end if the outermost part of the range there, ``_OUTER`` or the one that has
#: ``_ROWS_AT_END`` rows of a uniform column, holds half as many rows as there. The part is at most
#: ``_MOST_OUTER``. The range is more than this part of the greatest magnitude: log-odds next to an
#: end would be rounding.
_OUTER, _ROWS_AT_END, _MOST_OUTER, _LEAST_RANGE = 0.025, 10.0, 0.05, 1e-9


class Number(NamedTuple):
    """What a numeric column is, learned once from all training rows.

    Parameters
    ----------
    step : float
        Distance between the values of a column on a lattice (1 for integers); 0 without a lattice.
    origin : float
        A point of the lattice.
    atoms : ndarray
        Values with a probability of their own, increasing.
    low, high : float
        The range of the training rows.
    score : Score
        The bijection that makes the places of the other values look normal.
    size : float
        Magnitude of the values, which tells how large rounding errors are.
    ends : (float, float), default=(-inf, inf)
        No value is beyond these: declared bounds, atoms at the ends, and ends that values crowd.
    seen : ndarray, default=empty
        The values that draws can have, besides atoms, where they repeat and have no lattice; all
        values if these are ordered states.
    cuts : ndarray, default=empty
        Upper ends of the cells of the values seen, but for the last cell.
    unseen : float, default=0
        Probability that a new row has another value than these, if they are ordered states.
    bounds : (float, float), default=(-inf, inf)
        Declared bounds of the values.
    linear_score : Score, default=Score()
        The score without a power, and as linear as the ends of the column let it be.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Number
    >>> rain = np.r_[np.zeros(70), np.arange(1, 31) / 2]
    >>> number = Number.fit(rain, np.ones(100))
    >>> number.step, number.atoms, number.ends
    (0.5, array([0.]), (0.0, inf))
    >>> number.values(np.array([3.1, 4.3]))
    array([3. , 4.5])
    >>> number.upper_edges(np.array([3.0, 4.3]))
    array([3.25, 4.25])
    """

    step: float
    origin: float
    atoms: Floats
    low: float
    high: float
    score: Score
    size: float
    ends: tuple[float, float] = _NO_BOUNDS
    seen: Floats = np.empty(0)
    cuts: Floats = np.empty(0)
    unseen: float = 0.0
    bounds: tuple[float, float] = _NO_BOUNDS
    linear_score: Score = Score()

    @classmethod
    def fit(
        cls,
        values: Floats,
        weight: Floats,
        atoms: Any = None,
        bounds: tuple[float, float] | None = None,
    ) -> Self:
        """Learn what a column is.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Numbers, at least one of them; NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        atoms : array-like, default=None
            The atoms, if they are known; None finds them.
        bounds : (float, float), default=None
            Bounds of the values; infinite for no bound. None: a column whose values crowd an end of
            its range, or whose least or greatest value is an atom, ends there.

        Returns
        -------
        Number
        """
        points, mass = distinct(values, weight)
        step, origin = fit_lattice(points, mass)
        if atoms is None:
            atoms = points if _are_states(points, mass) else _repeated(points, mass, step)
        atoms = np.unique(np.asarray(atoms, dtype=float))
        low, high = float(points[0]), float(points[-1])
        size = float(min(np.median(np.abs(points)), _largest_size(points)))
        ends = bounds or _NO_BOUNDS
        number = cls(step, origin, atoms, low, high, Score(), size, ends, bounds=ends)
        rest = ~number.is_atom(points)
        unseen = unseen_mass(mass)
        if len(points) > 1 and not rest.any():
            score = _score_around(points, mass, ends)
            number = number._replace(score=score, linear_score=score, unseen=unseen)
            return number._replace(seen=points, cuts=_middles(points))
        if bounds is None:
            number = number._replace(ends=number._inferred_ends(points[rest], mass[rest]))
        column = number.scored_column(0.0)
        lower, upper = column.place(np.array(number.edges_of_ends)).tolist()
        if not rest.any():
            score = _score_around(points, mass, bounds or _NO_BOUNDS)
            return number._replace(score=score, linear_score=score)
        places, is_soft = column.place(points[rest]), bounds is None
        linear, score = _fitted_scores(places, mass[rest], (lower, upper), is_soft)
        number = number._replace(score=score, linear_score=linear)
        has_repeats = unseen < _MOST_UNSEEN and len(points) <= _MAX_VALUES
        if step == 0.0 and has_repeats and rest.sum() > 1:
            cuts = _cuts(points[rest], mass[rest], atoms)
            number = number._replace(seen=points[rest], cuts=cuts)
        return number

    @classmethod
    def of_target(cls, values: Floats, weight: Floats, atoms: Floats) -> Self:
        """Learn what a target is, which may go on beyond those of the table, but not beyond zero
        where they crowd it."""
        number = cls.fit(values, weight, atoms)
        if number.is_ordered:
            return number
        lower, upper = number.ends
        bounds = lower if lower == 0.0 else -math.inf, upper if upper == 0.0 else math.inf
        return cls.fit(values, weight, atoms, bounds)

    def _inferred_ends(self, points: Floats, mass: Floats) -> tuple[float, float]:
        """Where a column without bounds ends, from its values that are no atoms."""
        if not len(points):
            return self.low, self.high
        widened = _WIDENED * (self.high - self.low)
        crowds = _crowd_ends(points, mass)
        ends = []
        for sign, outermost, innermost, crowd in (
            (-1.0, self.low, points[0], crowds[0]),
            (1.0, self.high, points[-1], crowds[1]),
        ):
            is_atom = bool(self.is_atom(np.array([outermost]))[0])
            if is_atom and outermost != innermost:
                ends.append(outermost)
            elif crowd:
                # Not beyond zero, if all values are on one side of it.
                end = outermost + sign * widened
                end = 0.0 if outermost * sign <= 0.0 < end * sign else end
                if self.step > 0.0:
                    end = outermost + sign * self.step * math.floor(
                        abs(end - outermost) / self.step
                    )
                ends.append(end)
            else:
                ends.append(sign * math.inf)
        return ends[0], ends[1]

    @property
    def is_ordered(self) -> bool:
        """Whether the values are ordered states: all of them are atoms, with nothing between."""
        return self.unseen > 0.0

    def log_unseen(self, values: Floats) -> Floats:
        """Log density in nats of values that are none of the ordered states.

        They are uniform over the points of the lattice between the states (the line between them
        without a lattice), or in a geometric tail on either side: each of these alike, if there is
        room. Nothing lies beyond the bounds, and what is off the lattice is as if it were on it.
        """
        step, low, high = self.step, float(self.atoms[0]), float(self.atoms[-1])
        size = high - low
        room = size + step - step * len(self.atoms)
        scale = max(_TAIL * size, step)
        beyond = np.maximum(low - values, values - high)
        tail = -beyond / scale - math.log(scale)
        if step > 0.0:
            # The first point of a tail is one step away, and each holds what its cell does.
            tail = math.log(-math.expm1(-step / scale) / step) - (np.rint(beyond / step) - 1.0) * (
                step / scale
            )
        has_room = room > 0.5 * step
        lower, upper = self.bounds
        n_parts = has_room + (low - step >= lower) + (high + step <= upper)
        part = math.log(self.unseen / max(int(n_parts), 1))
        inside = -math.log(room if has_room else size + step)
        log_density = np.where(beyond > 0.0, tail, inside) + part
        return np.where((values < lower) | (values > upper), -math.inf, log_density)

    @property
    def reach(self) -> float:
        """Distance from an atom up to which a value is that atom: rounding, for ordered states."""
        if self.is_ordered:
            return max(OFF_LATTICE * self.step, _ROUNDING * self.size, 0.1 * TINY)
        return 0.499 * self.step or max(_ROUNDING * self.size, 0.1 * TINY)

    def is_atom(self, values: Floats) -> np.ndarray:
        """Which values are atoms."""
        return states_among(self.atoms, self.reach, values) < len(self.atoms)

    @property
    def edges_of_ends(self) -> tuple[float, float]:
        """The ends of the cells of the last values."""
        return self.ends[0] - 0.5 * self.step, self.ends[1] + 0.5 * self.step

    def scored_column(self, smallest_sd: float) -> ScoredColumn:
        """What leaves with atoms and a Gaussian of the score share, if they describe the column."""
        column = self.score, self.atoms, self.step, self.reach, smallest_sd
        return ScoredColumn(*column, gap=self.step)

    def scaled(self, values: Floats) -> Floats:
        """Values on a scale on which they look normal; NaN stays."""
        if self.is_ordered:
            return self.score.transform(values)
        return self.scored_column(0.0).transform(values)

    def upper_edges(self, values: Floats) -> Floats:
        """Upper ends of the cells of the greatest values of the column that are not above some.

        A draw up to there becomes one of these values. The cells of the last values have no end.
        """
        if self.step > 0.0:
            nearest = on_lattice(values, self.step, self.origin)
            point = np.where(nearest <= values, nearest, nearest - self.step)
            edges = point + 0.5 * self.step
        else:
            edges = self._edges_of_cells(values)
        edges = np.where(values < self.ends[0], -np.inf, edges)
        return np.where(values >= self.ends[1], np.inf, edges)

    def _edges_of_cells(self, values: Floats) -> Floats:
        """The same without a lattice, where values may repeat."""
        if self.is_ordered or not len(self.seen):
            return values
        # Atoms between two values are not in the cells of these.
        edges = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        edge = edges[np.searchsorted(self.seen, values, side="right")]
        n_atoms = np.searchsorted(self.atoms, values, side="right")
        last_atom = np.append(-np.inf, self.atoms)[n_atoms]
        next_atom = np.append(self.atoms, np.inf)[n_atoms]
        return np.maximum(np.minimum(edge, np.nextafter(next_atom, -np.inf)), last_atom)

    def intervals(self, low: Floats, high: Floats, closed: Bools) -> tuple[Floats, Floats]:
        """Ends of the intervals ``low < x <= high`` that hold what lies between two values.

        ``closed``, of shape (2, n), says which of the values belong to them. They hold whole cells.
        A value that has no cell holds nothing.
        """
        ends = []
        for end, opens in ((low, ~closed[0]), (high, closed[1])):
            near = self.known(end)
            exact = np.where(np.isnan(near), end, near)
            ends.append(self.upper_edges(np.where(opens, exact, np.nextafter(exact, -np.inf))))
        is_nothing = (low == high) & np.isnan(near) & (self.step == 0.0)
        return np.where(is_nothing, ends[1], ends[0]), ends[1]

    def known(self, values: Floats) -> Floats:
        """The values of the column that some numbers are, but for rounding; NaN for others."""
        if self.step > 0.0 and not self.is_ordered:
            near = on_lattice(values, self.step, self.origin)
            reach = OFF_LATTICE * self.step
        else:
            listed = np.union1d(self.atoms, self.seen)
            near = np.append(listed, np.nan)[states_among(listed, self.reach, values)]
            reach = self.reach
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(values - near) <= reach, near, np.nan)

    def values(self, drawn: Floats) -> Floats:
        """The values of the column in whose cells some numbers lie; NaN stays."""
        inside = np.clip(drawn, *self.ends)
        if self.step > 0.0 and not self.is_ordered:
            return on_lattice(inside, self.step, self.origin)
        if not len(self.seen):
            return inside
        known = self.known(inside)
        of_cells = self.seen[np.searchsorted(self.cuts, inside)]
        nearest = np.where(np.isnan(known), of_cells, known)
        return np.where(np.isnan(inside), np.nan, nearest)


def distinct(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The distinct numbers of a column, increasing, and their weights; NaN is left out.

    A weight of two counts exactly like two rows. Values that differ by rounding are one value.
    """
    # A column of a table is scattered over the memory: it is read once.
    values = values + 0.0
    observed = ~np.isnan(values)
    order = np.argsort(values[observed])
    points, weight = values[observed][order], weight[observed][order]
    is_first = np.append(True, points[1:] != points[:-1])[: len(points)]
    is_first[is_first] = np.append(True, are_apart(points[is_first]))[: len(points)]
    return points[is_first], exact_group_sums(np.cumsum(is_first) - 1, weight)


def are_apart(points: Floats) -> np.ndarray:
    """Whether neighbours of increasing values differ by more than rounding.

    One wild value must not make all others equal, so the greatest one does not count.
    """
    size = np.abs(points)
    typical = np.median(size) if len(size) else 0.0
    nearby = np.maximum(np.maximum(size[1:], size[:-1]), typical)
    nearby = np.minimum(nearby, _largest_size(points))
    return np.asarray(np.diff(points) > np.maximum(_ROUNDING * nearby, TINY))


def _largest_size(points: Floats) -> float:
    """The largest magnitude that sets the size of rounding among increasing values."""
    if len(points) < 2:
        return math.inf
    outer = len(points) // 10
    low, high = float(points[outer]), float(points[-1 - outer])
    is_one = high - low <= _FEW_FLOATS * max(abs(low), abs(high))
    return math.inf if is_one else _MOST_SPREADS * (high - low)


def _are_states(points: Floats, mass: Floats) -> bool:
    """Whether a column has so few values that all of them are atoms."""
    are_small = points[0] >= 0.0 and points[-1] <= _MOST_SMALL and np.all(points % 1.0 == 0.0)
    are_few = len(points) <= _MAX_STATES and mass.sum() >= _FEW_ROWS * len(points)
    return bool(are_small or are_few)


def _middles(points: Floats) -> Floats:
    """Middles between neighbours."""
    return np.asarray(points[:-1] + 0.5 * np.diff(points))


def _cuts(points: Floats, mass: Floats, atoms: Floats) -> Floats:
    """Upper ends of the cells of values without a lattice, but for the last cell.

    The density is smooth, but rows may crowd on round numbers. So the width of a cell is
    proportional to the frequency of its value, within blocks of neighbouring values. Near the
    median a block has about the square root of the number of rows; near the ends, where the density
    is steep, it has fewer. An atom between two values is the end of their cells.
    """
    border = np.concatenate([points[:1], _middles(points), points[-1:]])
    place = np.searchsorted(points, atoms)
    between = (place > 0) & (place < len(points))
    border[place[between]] = atoms[between]
    below = np.append(0.0, np.cumsum(mass))
    total = below[-1]
    block = np.floor(0.25 * math.sqrt(total) * logit((below + 0.5) / (total + 1.0)))
    is_edge = np.append(True, block[1:] > block[:-1])
    is_edge[place[between]] = True
    is_edge[-1] = True
    return np.asarray(np.interp(below, below[is_edge], border[is_edge])[1:-1])


def unseen_mass(mass: Floats) -> float:
    """Probability that a new row has another value than the rows with these weights."""
    return float((mass[mass <= 1.0 + ROUNDING].sum() + 0.5) / (mass.sum() + 1.0))


def repeated(values: Floats, weight: Floats) -> Floats:
    """Values of a column that repeat much more than their neighbours do; NaN is left out."""
    return _repeated(*distinct(values, weight), 0.0)


def _repeated(points: Floats, mass: Floats, step: float) -> Floats:
    """The atoms among distinct values, on a lattice or without one."""
    total = float(mass.sum())
    if len(points) == 1:
        return points
    has_lattice = step > 0.0
    by_share = _SHARE * total
    by_count = max(_FEW_ROWS, (_SHARE_ON_LATTICE if has_lattice else _SMALL_SHARE) * total)
    chosen = []
    for place in np.flatnonzero(mass >= min(by_share, by_count)).tolist():
        near = np.arange(max(place - _NEAREST, 0), min(place + _NEAREST + 1, len(points)))
        near = near[near != place]
        distance = np.abs(points[near] - points[place])
        nearest = np.argsort(distance, kind="stable")[:_NEAREST]
        n_near = len(nearest)
        if has_lattice:
            n_near = max(2 * round(float(distance[nearest].max()) / step), 1)
        around = mass[near[nearest]].sum() / n_near
        often = mass[place] >= by_share and mass[place] >= _TIMES * around
        times = _TIMES if has_lattice else _MORE_TIMES
        often |= mass[place] >= by_count and mass[place] >= times * around
        if often or (mass[place] >= by_count and _is_isolated(points, place)):
            chosen.append(place)
    chosen.sort(key=lambda place: -mass[place])
    most = max(_MAX_ON_LATTICE, int(total / _ROWS_OF_ATOM)) if has_lattice else _MAX_ATOMS
    return np.sort(points[chosen[:most]])


def _is_isolated(points: Floats, place: int) -> bool:
    """Whether a value at either end is far away from all others."""
    if len(points) <= _NEAREST or place not in (0, len(points) - 1):
        return False
    others = np.delete(points, place)
    gap = np.abs(others - points[place]).min()
    return bool(gap > _ISOLATED * (others[-1] - others[0]))


def _score_around(places: Floats, mass: Floats, bounds: tuple[float, float]) -> Score:
    """A linear score for a column of atoms alone: other values lie around these."""
    score = _on_line(places, np.cumsum(mass), bounds, 0.0)
    line = Score(*bounds, low=-math.inf, high=math.inf).transform(places)
    spread = 0.5 * float(line[-1] - line[0]) or _NEAR_CONSTANT * (abs(score.centre) or 1.0)
    return score._replace(spread=max(spread, TINY), low=-1.0, high=1.0)


def _crowd_ends(points: Floats, mass: Floats) -> tuple[bool, bool]:
    """Whether values are as frequent near either end of their range as about the middle."""
    total = float(mass.sum())
    outer = max(_OUTER, _ROWS_AT_END / total)
    size = float(points[-1] - points[0])
    if outer > _MOST_OUTER or size <= _LEAST_RANGE * np.abs(points[[0, -1]]).max():
        return False, False
    place = (points - points[0]) / size
    least = 0.5 * outer * total
    return bool(mass[place < outer].sum() >= least), bool(mass[place > 1.0 - outer].sum() >= least)


def _fitted_scores(
    places: Floats, mass: Floats, bounds: tuple[float, float], is_soft: bool
) -> tuple[Score, Score]:
    """A linear score, and that of the power and bounds that make values most likely as normal."""
    cumulated = np.cumsum(mass)
    n_levels = min(_SKETCH, max(len(places), whole_rows(mass.sum())))
    levels = 2 * np.arange(n_levels) + 1
    sketch = weighted_quantiles(places, cumulated, levels, 2 * n_levels)
    scores = [_on_line(places, cumulated, bounds, 0.0)]
    if is_soft and np.isfinite(bounds).any():
        scores.append(_on_line(places, cumulated, bounds, _SOFT * _spread(places, cumulated)))
    linear = scores[-1]
    if n_levels >= _ENOUGH:
        scores += [score._replace(power=power) for score in scores for power in _POWERS.tolist()]
    # Among equals, the first: a logarithm, and the identity.
    merits = [_log_likelihood(score, sketch) for score in scores]
    return linear, scores[int(np.argmax(merits))]


def _log_likelihood(score: Score, places: Floats) -> float:
    """Log-likelihood (nats, up to a constant) of values whose scores are normal."""
    # One wild value may be too large for squares; such a power is not the best one.
    with np.errstate(all="ignore"):
        log_slope = score.log_slope(places).sum()
        merit = float(log_slope - 0.5 * len(places) * np.log(score.transform(places).var()))
    return merit if math.isfinite(merit) else -math.inf


def _on_line(places: Floats, cumulated: Floats, bounds: tuple[float, float], soft: float) -> Score:
    """The score without a power of increasing places between bounds."""
    lower, upper = bounds
    centre = 0.0
    if soft == 0.0 and (lower > -math.inf) != (upper < math.inf):
        # A logarithm tells how near to its bound a value may be by the distance of typical ones.
        distance = np.abs(places - (lower if lower > -math.inf else upper))
        typical = math.log(max(float(np.median(distance)), TINY))
        centre = typical if lower > -math.inf else -typical
    score = Score(*bounds, centre=centre, low=-math.inf, high=math.inf, soft=soft)
    line = centre + score.transform(places)
    centre = float(weighted_quantiles(line, cumulated, np.array([1]), 2)[0])
    spread = _spread(line, cumulated)
    ends = (line[[0, -1]] - centre) / spread
    low, high = ends + _BEYOND * (ends[1] - ends[0]) * np.array([-1.0, 1.0])
    return Score(*bounds, centre, spread, 1.0, float(low), float(high), soft)


def _spread(line: Floats, cumulated: Floats) -> float:
    """Half the distance between the first and the last tenth of increasing numbers."""
    decile, centre, last = weighted_quantiles(line, cumulated, np.array([1, 5, 9]), 10)
    spread = 0.5 * float(last - decile) or 0.5 * float(line[-1] - line[0])
    return max(spread or abs(float(centre)) or 1.0, TINY)
