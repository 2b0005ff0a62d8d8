"""The law of a number: a map from a continuous scale, on which models work, to its values.

The map never decreases. It is flat where many places of the scale are one value: an atom, a point
of a lattice, a repeated value, an ordered state. It jumps where nothing lies between two values.
Elsewhere it is the inverse of a score. Scores of rows, events, draws, completions and intervals are
geometry of the cells of values on this scale.

On a lattice an atom fills its cell, and the cells of the other values lie next to each other on the
scale as if those of the atoms were not there: so a draw of a score is never an atom, and the score
of no atom takes mass from the others. The plain twin is ``tests/naive/circuit.py``.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints
from skpc.variables.atoms import (
    ROUNDING_OF_VALUES,
    are_states,
    cell_cuts,
    distinct,
    have_repeats,
    largest_size,
    middles,
    repeated_points,
    unseen_mass,
)
from skpc.variables.histogram import TINY
from skpc.variables.lattice import OFF_LATTICE, fit_lattice, on_lattice
from skpc.variables.score import ATOMS, HEAD, Score
from skpc.variables.score_fit import fitted_scores, score_around

#: Rules of Gauss and Legendre on intervals of length 1, one after the other. All but the last are
#: for pieces up to some length, in standard deviations and in units of the score.
_SIZES = (16, 24, 48)
_IN_SDS = (6.0, 9.0)
_IN_SCORES = (3.0, 8.0)
_RULES = np.hstack([np.polynomial.legendre.leggauss(size) for size in _SIZES])
_NODES, _WEIGHTS = 0.5 * (_RULES + np.array([[1.0], [0.0]]))
#: Standard deviations around a mean beyond which a normal density counts for nothing.
_REACH = 8.0
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
_NO_BOUNDS = (-math.inf, math.inf)


class Law(NamedTuple):
    """The law of a number, learned once from all training rows.

    A circuit keeps what its leaves read of it, the first six fields. The others are those of the
    table.

    Parameters
    ----------
    score : Score, default=Score()
        The bijection between places (see :meth:`place`) and scores, which look normal.
    atoms : ndarray, default=empty
        Values with a probability of their own, increasing; exact.
    step : float, default=0.0
        Distance between the values of a column on a lattice (1 for integers); 0 without a lattice.
        On a lattice an atom fills its cell, and no standard deviation is below half a step.
    reach : float, default=0.0
        Distance from an atom up to which a value is that atom.
    smallest_sd : float, default=0.0
        No standard deviation of scores is below it.
    gap : float, default=0.0
        Width of the cells of atoms, which are cut out of the line; the step of the lattice, but
        zero in circuits of earlier versions.
    origin : float, default=0.0
        A point of the lattice.
    low, high : float, default=0.0
        The range of the training rows.
    ends : (float, float), default=(-inf, inf)
        No value is beyond these: declared bounds, atoms at the ends, and ends that values crowd.
    seen : ndarray, default=empty
        The values that draws can have, besides atoms, where they repeat and have no lattice; all
        values if these are ordered states.
    cuts : ndarray, default=empty
        Upper ends of the cells of the values seen, but for the last cell.
    unseen : float, default=0.0
        Probability that a new row has another value than these, if they are ordered states.
    bounds : (float, float), default=(-inf, inf)
        Declared bounds of the values.
    linear_score : Score, default=Score()
        The score without a power, and as linear as the ends of the column let it be.
    sharp_score : Score, default=Score()
        The same, but that ends which are not declared bend hardly any value: sums of columns need
        it.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Law
    >>> rain = np.r_[np.zeros(70), np.arange(1, 31) / 2]
    >>> law = Law.fit(rain, np.ones(100))
    >>> law.step, law.atoms, law.ends
    (0.5, array([0.]), (0.0, inf))
    >>> law.values(np.array([3.1, 4.3]))
    array([3. , 4.5])
    >>> law.upper_edges(np.array([3.0, 4.3]))
    array([3.25, 4.25])
    """

    score: Score = Score()
    atoms: Floats = np.empty(0)
    step: float = 0.0
    reach: float = 0.0
    smallest_sd: float = 0.0
    gap: float = 0.0
    origin: float = 0.0
    low: float = 0.0
    high: float = 0.0
    ends: tuple[float, float] = _NO_BOUNDS
    seen: Floats = np.empty(0)
    cuts: Floats = np.empty(0)
    unseen: float = 0.0
    bounds: tuple[float, float] = _NO_BOUNDS
    linear_score: Score = Score()
    sharp_score: Score = Score()

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
        Law
        """
        points, mass = distinct(values, weight)
        step, origin = fit_lattice(points, mass)
        if atoms is None:
            is_all = are_states(points, mass, step)
            atoms = points if is_all else repeated_points(points, mass, step)
        atoms = np.unique(np.asarray(atoms, dtype=float))
        # Rounding follows a typical size, which a wild value does not change.
        size = float(min(np.median(np.abs(points)), largest_size(points)))
        rounding = max(ROUNDING_OF_VALUES * size, 0.1 * TINY)
        ends = bounds or _NO_BOUNDS
        # On a lattice all of its cell is the atom; elsewhere only what differs by rounding is.
        law = cls(
            atoms=atoms,
            step=step,
            reach=0.499 * step or rounding,
            gap=step,
            origin=origin,
            low=float(points[0]),
            high=float(points[-1]),
            ends=ends,
            bounds=ends,
        )
        is_other = ~law.is_atom(points)
        if len(points) > 1 and not is_other.any():
            # Ordered states: another value near a state is not that state.
            score = score_around(points, mass, ends)
            return law._replace(
                score=score,
                linear_score=score,
                sharp_score=score,
                reach=max(OFF_LATTICE * step, rounding),
                unseen=unseen_mass(mass),
                seen=points,
                cuts=middles(points),
            )
        other_points = points[is_other]
        mass_of_others = mass[is_other]
        if bounds is None:
            law = law._replace(ends=law._inferred_ends(other_points, mass_of_others))
        if not len(other_points):
            score = score_around(points, mass, ends)
            return law._replace(score=score, linear_score=score, sharp_score=score)
        # Scores are fitted to places, between those where the outermost cells end.
        lower, upper = law.place(np.array(law.edges_of_ends)).tolist()
        places = law.place(other_points)
        scores = fitted_scores(places, mass_of_others, (lower, upper), bounds is None)
        law = law._replace(linear_score=scores[0], sharp_score=scores[1], score=scores[2])
        if step == 0.0 and len(other_points) > 1 and have_repeats(points, mass):
            law = law._replace(
                seen=other_points, cuts=cell_cuts(other_points, mass_of_others, atoms)
            )
        return law

    @classmethod
    def of_target(cls, values: Floats, weight: Floats, atoms: Floats) -> Self:
        """Learn what a target is, which may go on beyond those of the table, but not beyond zero
        where they crowd it."""
        law = cls.fit(values, weight, atoms)
        if law.is_ordered:
            return law
        lower, upper = law.ends
        bounds = lower if lower == 0.0 else -math.inf, upper if upper == 0.0 else math.inf
        return cls.fit(values, weight, atoms, bounds)

    def _inferred_ends(self, points: Floats, mass: Floats) -> tuple[float, float]:
        """Where a column without bounds ends, from its values that are no atoms."""
        if not len(points):
            return self.low, self.high
        # An end that values crowd lies this part of the range beyond them.
        widened_part = 0.01
        widened = widened_part * (self.high - self.low)
        crowds = _crowd_ends(points, mass)
        ends = []
        for sign, outermost, innermost, (is_dense, is_even) in (
            (-1.0, self.low, points[0], crowds[0]),
            (1.0, self.high, points[-1], crowds[1]),
        ):
            is_atom = bool(self.is_atom(np.array([outermost]))[0])
            # An atom beyond all other values is an end.
            if is_atom and outermost != innermost:
                ends.append(outermost)
                continue
            end = outermost + sign * widened
            # Not beyond zero, if all values are on one side of it.
            is_past_zero = outermost * sign <= 0.0 < end * sign
            end = 0.0 if is_past_zero else end
            # Many values near zero end there, though they thin out.
            if is_even or (is_dense and is_past_zero):
                # On a lattice the end is a point of it.
                if self.step > 0.0:
                    end = outermost + sign * self.step * math.floor(
                        abs(end - outermost) / self.step
                    )
                ends.append(end)
            else:
                ends.append(sign * math.inf)
        return ends[0], ends[1]

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
    def is_ordered(self) -> bool:
        """Whether the values are ordered states: all of them are atoms, with nothing between."""
        return self.unseen > 0.0

    def log_unseen(self, values: Floats) -> Floats:
        """Log density in nats of values that are none of the ordered states.

        They are uniform over the points of the lattice between the states (the line between them
        without a lattice), or in a geometric tail on either side: each of these alike, if there is
        room. Nothing lies beyond the bounds, and what is off the lattice is as if it were on it.
        """
        step = self.step
        low = float(self.atoms[0])
        high = float(self.atoms[-1])
        size = high - low
        # What the states leave between them: points of the lattice, or the whole line.
        room = size + step - step * len(self.atoms)
        # Scale of the tails of values that were not seen, as a part of the range.
        tail_part = 0.25
        scale = max(tail_part * size, step)
        beyond = np.maximum(low - values, values - high)
        tail = -beyond / scale - math.log(scale)
        if step > 0.0:
            # The first point of a tail is one step away, and each holds what its cell does.
            tail = math.log(-math.expm1(-step / scale) / step) - (np.rint(beyond / step) - 1.0) * (
                step / scale
            )
        has_room = room > 0.5 * step
        lower, upper = self.bounds
        # Inside, below and above: each part that can have a value gets the same share.
        n_parts = has_room + (low - step >= lower) + (high + step <= upper)
        part = math.log(self.unseen / max(int(n_parts), 1))
        inside = -math.log(room if has_room else size + step)
        log_density = np.where(beyond > 0.0, tail, inside) + part
        return np.where((values < lower) | (values > upper), -math.inf, log_density)

    @property
    def n_states(self) -> int:
        """Number of atoms, and one for all other values."""
        return len(self.atoms) + 1

    @property
    def atom_places(self) -> Floats:
        """The places at which the cells of the atoms have been cut out."""
        return self.atoms - self.gap * (np.arange(len(self.atoms)) + 0.5)

    def place(self, x: Floats) -> Floats:
        """Values on the line without the cells of atoms; all of such a cell is at its place."""
        if self.gap == 0.0 or not len(self.atoms):
            return x
        n_below = np.searchsorted(self.atoms - 0.5 * self.gap, x, side="right")
        # All of a cell is at the place of its atom; behind it, the widths so far are taken off.
        in_cell = np.append(-np.inf, self.atom_places)[n_below]
        return np.maximum(x - self.gap * n_below, in_cell)

    def at_place(self, place: Floats) -> Floats:
        """The values at some places."""
        if self.gap == 0.0 or not len(self.atoms):
            return place
        return place + self.gap * np.searchsorted(self.atom_places, place, side="right")

    def transform(self, x: Floats) -> Floats:
        """Scores of values, each in its order; NaN stays.

        Atoms that are neighbours on a lattice lie between the values around them. Those at a bound
        lie where the range of the others ends.
        """
        state = _states_among(self.atoms, self.reach, x)
        is_atom = state < len(self.atoms)
        # All atoms of a run are at one place: there they are spread over the width of a cell.
        place_in_run, size = _runs(self.atoms, self.gap)
        between = self.atom_places + self.gap * ((place_in_run + 0.5) / size - 0.5)
        score = self.score
        ends = score.powers_of_ends()
        # Without a bound the score has no end that an atom could cross.
        least = ends[0] if score.lower > -math.inf else -math.inf
        greatest = ends[1] if score.upper < math.inf else math.inf
        scores_of_atoms = np.clip(score.transform(between), least, greatest)
        scores = score.transform(self.place(x))
        return np.where(is_atom, np.append(scores_of_atoms, np.nan)[state], scores)

    def inverse(self, z: Floats) -> Floats:
        """Values, but for atoms, that have some scores; NaN stays."""
        return self.at_place(self.score.inverse(z))

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        return self.score.log_slope(self.place(x))

    def end_scores(self, *ends: Floats) -> list[Floats]:
        """Scores of ends of intervals of values that are no atoms."""
        return self.score.ends(*(self.place(x) for x in ends))

    def scores(self, values: Floats) -> tuple[Ints, Floats]:
        """State of each value (-1 if missing), and the score of values that are not atoms."""
        state = _states_among(self.atoms, self.reach, values)
        score = np.where(state < len(self.atoms), np.nan, self.score.transform(self.place(values)))
        return np.where(np.isnan(values), -1, state), score

    def modes(self, state_prob: Floats, mean: Floats) -> Floats:
        """Most probable values of leaves with these probabilities and mean scores.

        With atoms, all other values together compete by their probability: a density would
        depend on the unit of the column.
        """
        # The last state, that of all other values, stands for none of the atoms.
        state = state_prob.argmax(axis=1)
        values = np.append(self.atoms, np.nan)[state]
        return np.where(np.isnan(values), self.inverse(mean), values)

    def moments(self, mean: Floats, sd: Floats, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` for values x whose scores are normal.

        By Gauss-Legendre quadrature between the places where the map is not smooth: the ends of the
        power transform and its middle, and the widest runs of atoms on a lattice. Distributions
        that are nearly the same share a quadrature: the moments of each are a series in the shift
        of its mean and the widening of its variance,

        .. math:: E[g(\\mu + \\delta \\sigma + \\sqrt{1 + 2 \\epsilon} \\sigma t)]
            = \\sum_k c_k E[g(\\mu + \\sigma t) He_k(t)],
            \\quad \\sum_k c_k s^k = e^{\\delta s + \\epsilon s^2}

        with Hermite polynomials, because the heat equation has these moments as its solutions.
        """
        score = self.score
        has_gaps = self.gap > 0.0 and len(self.atoms) > 0
        # Under a linear score the moments have a closed form.
        if score.power == 1.0 and score[:2] == (-math.inf, math.inf) and not has_gaps:
            offset = score.centre + score.spread * mean - centre
            return offset, offset**2 + (score.spread * sd) ** 2
        # Means of quadratures stand a third of a standard deviation apart, and their standard
        # deviations a fiftieth: the terms left out are at most 2e-11 of the root mean square.
        knots_of_sd = 3.0
        width_of_knot = 0.02
        n_terms = 14
        sd_of_knot = np.exp(np.rint(np.log(sd) / width_of_knot) * width_of_knot)
        mean_of_knot = np.rint(mean / sd_of_knot * knots_of_sd) * sd_of_knot / knots_of_sd
        # A pair of floats, which numpy sorts as one.
        knots, knot = np.unique(mean_of_knot + 1j * sd_of_knot, return_inverse=True)
        # A series and its quadrature cost as much as a few quadratures alone.
        means_of_knot = 4
        if means_of_knot * len(knots) > len(mean):
            return self._hermite_moments(mean, sd, centre, 1)[0]
        terms = self._hermite_moments(knots.real, knots.imag, centre, n_terms)
        shift = (mean - mean_of_knot) / sd_of_knot
        twice_widened = (sd / sd_of_knot) ** 2 - 1.0
        factor: Any = 1.0
        before: Any = 0.0
        moments = np.zeros((2, len(mean)))
        # The series of the exponential: k c_k = shift c_{k-1} + 2 epsilon c_{k-2}.
        for degree, term in enumerate(terms, 1):
            moments += factor * term.take(knot, axis=1)
            factor, before = (shift * factor + twice_widened * before) / degree, factor
        return moments[0], moments[1]

    def _hermite_moments(self, mean: Floats, sd: Floats, centre: float, n_terms: int) -> Floats:
        """Means of ``x - centre`` and its square times :math:`He_k(t)`; (n_terms, 2, n)."""
        # Widest runs of atoms between which a quadrature has pieces of its own.
        runs = 4
        score = self.score
        low, high = score.powers_of_ends()
        knots = [min(low, 0.0), min(max(0.0, low), high), max(high, 0.0), math.inf]
        if self.gap > 0.0 and len(self.atoms) > 0:
            place_in_run, size = _runs(self.atoms, self.gap)
            starts = np.flatnonzero(place_in_run == 0)
            widest = starts[np.argsort(-size[starts], kind="stable")[:runs]]
            knots += score.transform(self.atom_places[widest]).tolist()
        moments = np.zeros((n_terms, 2, len(mean)))
        # So many means at a time that the nodes of all of them stay in the cache.
        part = 256
        for start in range(0, len(mean), part):
            chunk = slice(start, start + part)
            self._add_pieces(np.sort(knots), mean[chunk], sd[chunk], centre, moments[..., chunk])
        return moments

    def _add_pieces(
        self, knots: Floats, mean: Floats, sd: Floats, centre: float, moments: Floats
    ) -> None:
        """Add the moments of values between neighbouring knots, by the rule that each piece needs.

        ``moments`` has shape (n_terms, 2, n_means).
        """
        # Columns: one row for each mean.
        mean = mean[:, np.newaxis]
        sd = sd[:, np.newaxis]
        spread = _REACH * sd
        # Less than 1e-15 of a normal distribution lies further out; shape (n_means, n_pieces).
        ends = np.clip(knots, mean - spread, mean + spread)
        begins = np.column_stack([mean - spread, ends[:, :-1]])
        sizes = ends - begins
        # Exponentials of bounds are less smooth than powers: they take longer rules.
        widths = sizes if self.score[:2] == _NO_BOUNDS else 2.0 * sizes
        rules = np.zeros(sizes.shape, dtype=np.int64)
        for in_sds, in_scores in zip(_IN_SDS, _IN_SCORES):
            rules += (widths > in_sds * sd) | (widths > in_scores)
        first_node = 0
        for rule, n_nodes in enumerate(_SIZES):
            nodes = slice(first_node, first_node + n_nodes)
            first_node += n_nodes
            owner, piece = np.nonzero((rules == rule) & (sizes > 0.0))
            size = sizes[owner, piece][:, np.newaxis]
            scores = begins[owner, piece][:, np.newaxis] + size * _NODES[nodes]
            # (n_pieces, n_nodes): standard deviations of the nodes from the mean.
            t = (scores - mean[owner]) / sd[owner]
            # (n_terms, n_pieces, n_nodes): masses of the nodes, times He_k(t).
            masses = np.empty((len(moments), *t.shape))
            masses[0] = np.exp(-0.5 * t * t) * (_WEIGHTS[nodes] * size / (_SQRT_2_PI * sd[owner]))
            # He_{k+1} = t He_k - k He_{k-1}
            for degree in range(1, len(moments)):
                masses[degree] = t * masses[degree - 1]
                if degree > 1:
                    masses[degree] -= (degree - 1) * masses[degree - 2]
            offset = self.inverse(scores) - centre
            powers = np.array([offset, offset * offset])
            # Places of means come first, as the sum over their pieces wants it.
            integrals = np.einsum("kpn,mpn->pkm", masses, powers)
            np.add.at(np.moveaxis(moments, -1, 0), owner, integrals)

    def smallest_sds(self, mean: Floats) -> Floats:
        """Smallest standard deviation of a leaf whose mean score is ``mean``.

        On a lattice it is half a step, on the scale of scores, about the mean.
        """
        if self.step == 0.0:
            return np.full(np.shape(mean), self.smallest_sd)
        slope = np.exp(self.score.log_slope(self.score.inverse(mean)))
        return np.maximum(0.5 * self.step * slope, self.smallest_sd)

    def is_atom(self, values: Floats) -> np.ndarray:
        """Which values are atoms."""
        return _states_among(self.atoms, self.reach, values) < len(self.atoms)

    def cell_sizes(self, values: Floats) -> Floats:
        """What turns the density at values into a probability; 0 where no value has one."""
        if self.step > 0.0:
            return np.full(np.shape(values), self.step)
        return np.where(self.is_atom(values), 1.0, 0.0)

    def can_be(self, values: Floats) -> Bools:
        """Whether a column can have these values: within its bounds, on its lattice."""
        is_inside = ~((values < self.bounds[0]) | (values > self.bounds[1]))
        if self.step == 0.0:
            return is_inside
        off = np.abs(values - on_lattice(values, self.step, self.origin))
        return is_inside & ~(off > OFF_LATTICE * self.step)

    @property
    def edges_of_ends(self) -> tuple[float, float]:
        """The ends of the cells of the last values."""
        return self.ends[0] - 0.5 * self.step, self.ends[1] + 0.5 * self.step

    def scaled(self, values: Floats) -> Floats:
        """Values on a scale on which they look normal; NaN stays."""
        if self.is_ordered:
            return self.score.transform(values)
        return self.transform(values)

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
        # The edge lies below the next atom, and not below the last one.
        below_next_atom = np.append(np.nextafter(self.atoms, -np.inf), np.inf)[n_atoms]
        return np.maximum(np.minimum(edge, below_next_atom), last_atom)

    def intervals(self, low: Floats, high: Floats, closed: Bools) -> tuple[Floats, Floats]:
        """Ends of the intervals ``low < x <= high`` that hold what lies between two values.

        ``closed``, of shape (2, n), says which of the values belong to them. They hold whole cells.
        A value that has no cell holds nothing.
        """
        ends = []
        for end, opens in ((low, ~closed[0]), (high, closed[1])):
            near = self.known(end)
            exact = np.where(np.isnan(near), end, near)
            # Nothing is next to infinity.
            opens = opens | np.isinf(exact)
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
            state = _states_among(listed, self.reach, values)
            near = np.append(listed, np.nan)[state]
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
        # A value of the column stays itself, be it in a cell or an atom between cells.
        known = self.known(inside)
        values_of_cells = self.seen[np.searchsorted(self.cuts, inside)]
        nearest = np.where(np.isnan(known), values_of_cells, known)
        return np.where(np.isnan(inside), np.nan, nearest)


def _runs(atoms: Floats, width: float) -> tuple[Ints, Ints]:
    """The number of each atom among its neighbours on a lattice, and how many these are."""
    # Neighbours on a lattice are one step apart, but for rounding.
    begins = np.append(True, np.diff(atoms) > 1.5 * width)[: len(atoms)]
    run = np.cumsum(begins) - 1
    run_begins = np.flatnonzero(begins)
    return np.arange(len(atoms)) - run_begins[run], np.bincount(run)[run]


def _crowd_ends(points: Floats, mass: Floats) -> list[tuple[bool, bool]]:
    """Whether values are frequent near either end of their range, and whether up to the end."""
    # The outer parts that are looked at: this part of the range, or that of so many rows of a
    # uniform column, but no more than the most.
    least_outer = 0.025
    rows_at_end = 10.0
    most_outer = 0.05
    # A skewed column may have many rows near its thin end: there the outermost rows have more room
    # than the next ones, about 1.7 times as much for log-normal ones; even ones have as much.
    most_thinned = 1.3
    # In a range of less than this part of the greatest magnitude, log-odds next to an end would be
    # rounding.
    least_range = 1e-9
    total = float(mass.sum())
    outer = max(least_outer, rows_at_end / total)
    size = float(points[-1] - points[0])
    if outer > most_outer or size <= least_range * np.abs(points[[0, -1]]).max():
        return [(False, False)] * 2
    place = (points - points[0]) / size
    # A uniform column would have twice this mass in either outer part.
    least = 0.5 * outer * total
    crowds = []
    for distance, rows in ((place, mass), (1.0 - place[::-1], mass[::-1])):
        is_dense = rows[distance < outer].sum() >= least
        crowds.append(
            (bool(is_dense), bool(is_dense and _thinning(distance, rows) <= most_thinned))
        )
    return crowds


def _thinning(distance: Floats, mass: Floats) -> float:
    """The room of the rows nearest to an end, as a multiple of that of as many behind them."""
    # The share of the rows that are the first; of few rows more, but at most so many.
    least_share = 0.025
    most_share = 0.1
    enough = 60.0
    total = float(mass.sum())
    n_rows = max(least_share * total, min(enough, most_share * total))
    # Half of the rows at a distance are nearer: so are those of a lattice.
    near, far = np.interp([n_rows, 2.0 * n_rows], np.cumsum(mass) - 0.5 * mass, distance)
    return float(near / max(far - near, SMALLEST_NORMAL))


def _states_among(atoms: Floats, reach: float, values: Floats) -> Ints:
    """The number of the atom that each value is; the number of atoms for all other values."""
    place = np.searchsorted(atoms, values - reach)
    # Values above all atoms are compared with NaN, and so are near none.
    near = np.append(atoms, np.nan)[place]
    return np.where(np.abs(near - values) <= reach, place, len(atoms))
