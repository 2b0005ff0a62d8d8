"""The law of a number: a map from a continuous scale, on which models work, to its values.

The map never decreases. It is flat where many places of the scale are one value: an atom, a point
of a lattice, a repeated value, an ordered state. It jumps where nothing lies between two values.
Elsewhere it is the inverse of a score. Scores of rows, events, draws, completions and intervals are
geometry of the cells of values on this scale.

On a lattice an atom fills its cell. The scale leaves these cells out: those of the other values lie
next to each other on it. So no draw of a score is an atom, and atoms take no mass from the density
of the scores. The plain twin is ``tests/naive/circuit.py``.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints
from skpc._threads import slices
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
from skpc.variables.score_fit import fitted_scores, inferred_ends, score_around

#: Gauss-Legendre rules on intervals of length 1, end to end: numbers of nodes, and the longest
#: pieces that all but the last rule serve, in standard deviations and in units of the score.
_RULE_SIZES = (16, 24, 48)
_MOST_SDS = (6.0, 9.0)
_MOST_SCORES = (3.0, 8.0)
_RULES = np.hstack([np.polynomial.legendre.leggauss(size) for size in _RULE_SIZES])
_NODES, _WEIGHTS = 0.5 * (_RULES + np.array([[1.0], [0.0]]))
#: Standard deviations around a mean beyond which a normal density counts for nothing.
_REACH = 8.0
SQRT_2_PI = math.sqrt(2.0 * math.pi)
_NO_BOUNDS = (-math.inf, math.inf)


class Law(NamedTuple):
    """The law of a number, learned once from all training rows.

    A circuit keeps the first six fields, which its leaves read. The other fields serve the table.

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
        # An atom of a lattice takes all of its cell; elsewhere it takes what rounding may add.
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
        other_points = points[is_other]
        mass_of_others = mass[is_other]
        if len(points) > 1 and not len(other_points):
            # Ordered states: another value near a state is not that state.
            law = law._replace(
                reach=max(OFF_LATTICE * step, rounding),
                unseen=unseen_mass(mass),
                seen=points,
                cuts=middles(points),
            )
        elif bounds is None:
            extremes = (law.low, law.high)
            law = law._replace(ends=inferred_ends(other_points, mass_of_others, extremes, step))
        if not len(other_points):
            score = score_around(points, mass, ends)
            return law._replace(score=score, linear_score=score, sharp_score=score)
        # Scores are fitted to places, between those where the outermost cells end.
        lower, upper = law.place(np.array(law.edges_of_ends)).tolist()
        places = law.place(other_points)
        linear, sharp, score = fitted_scores(places, mass_of_others, (lower, upper), bounds is None)
        law = law._replace(linear_score=linear, sharp_score=sharp, score=score)
        if step == 0.0 and len(other_points) > 1 and have_repeats(points, mass):
            law = law._replace(
                seen=other_points, cuts=cell_cuts(other_points, mass_of_others, atoms)
            )
        return law

    @classmethod
    def of_target(cls, values: Floats, weight: Floats, atoms: Floats) -> Self:
        """Learn what a target is: it has no ends but zero, where the values crowd zero."""
        law = cls.fit(values, weight, atoms)
        if law.is_ordered:
            return law
        lower, upper = law.ends
        bounds = lower if lower == 0.0 else -math.inf, upper if upper == 0.0 else math.inf
        return cls.fit(values, weight, atoms, bounds)

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

        They lie between the states, where they are uniform over the points of the lattice (over the
        line without a lattice), or in a geometric tail on either side. These three parts have the
        same probability, unless one has no room. Nothing lies beyond the bounds. A value off the
        lattice has the density of a value on it.
        """
        step = self.step
        low = float(self.atoms[0])
        high = float(self.atoms[-1])
        size = high - low
        # The room that the states leave between them: points of the lattice, or the whole line.
        room = size + step - step * len(self.atoms)
        # The scale of the tails is this part of the range.
        tail_part = 0.25
        scale = max(tail_part * size, step)
        beyond = np.maximum(low - values, values - high)
        tail = -beyond / scale - math.log(scale)
        if step > 0.0:
            # The first point of a tail is one step away; each point has the mass of its cell.
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
        """Places of values on the line from which the cells of atoms are cut out."""
        if self.gap == 0.0 or not len(self.atoms):
            return x
        n_below = np.searchsorted(self.atoms - 0.5 * self.gap, x, side="right")
        # A value in the cell of an atom is at the place of the atom; behind the cell, the widths of
        # the cells so far are taken off.
        in_cell = np.append(-np.inf, self.atom_places)[n_below]
        return np.maximum(x - self.gap * n_below, in_cell)

    def at_place(self, place: Floats) -> Floats:
        """The values at some places."""
        if self.gap == 0.0 or not len(self.atoms):
            return place
        return place + self.gap * np.searchsorted(self.atom_places, place, side="right")

    def transform(self, x: Floats) -> Floats:
        """Scores of values, those of atoms among them, in the order of the values; NaN stays.

        Atoms that are neighbours on a lattice lie between the values around them. Atoms at a bound
        lie where the range of the other values ends.
        """
        state = _states_among(self.atoms, self.reach, x)
        is_atom = state < len(self.atoms)
        # All atoms of a run are at one place: there they are spread over the width of a cell.
        place_in_run, size = _runs(self.atoms, self.gap)
        spread_places = self.atom_places + self.gap * ((place_in_run + 0.5) / size - 0.5)
        score = self.score
        ends = score.powers_of_ends()
        # Without a bound the score has no end that an atom could cross.
        least = ends[0] if score.lower > -math.inf else -math.inf
        greatest = ends[1] if score.upper < math.inf else math.inf
        scores_of_atoms = np.clip(score.transform(spread_places), least, greatest)
        scores = score.transform(self.place(x))
        return np.where(is_atom, np.append(scores_of_atoms, np.nan)[state], scores)

    def inverse(self, z: Floats) -> Floats:
        """Values that have these scores, none of them an atom; NaN stays."""
        return self.at_place(self.score.inverse(z))

    def log_slope(self, x: Floats) -> Floats:
        """Log derivative of the score at values: what a density of scores gains in nats."""
        return self.score.log_slope(self.place(x))

    def end_scores(self, *ends: Floats) -> list[Floats]:
        """Scores of the ends of intervals, for the values in these that are no atoms."""
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
        # Quadratures stand at means a third of a standard deviation apart, and at standard
        # deviations a fiftieth apart: terms left out are at most 2e-11 of the root mean square.
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
        previous: Any = 0.0
        moments = np.zeros((2, len(mean)))
        # The series of the exponential: k c_k = shift c_{k-1} + 2 epsilon c_{k-2}.
        for degree, term in enumerate(terms, 1):
            moments += factor * term.take(knot, axis=1)
            factor, previous = (shift * factor + twice_widened * previous) / degree, factor
        return moments[0], moments[1]

    def _hermite_moments(self, mean: Floats, sd: Floats, centre: float, n_terms: int) -> Floats:
        """Means of ``x - centre`` and its square times :math:`He_k(t)`; (n_terms, 2, n)."""
        # So many of the widest runs of atoms divide the pieces of a quadrature.
        most_runs = 4
        score = self.score
        low, high = score.powers_of_ends()
        # Scores between which the map is smooth: the ends and the middle of the power transform.
        breaks = [min(low, 0.0), min(max(0.0, low), high), max(high, 0.0), math.inf]
        if self.gap > 0.0 and len(self.atoms) > 0:
            place_in_run, size = _runs(self.atoms, self.gap)
            starts = np.flatnonzero(place_in_run == 0)
            widest = starts[np.argsort(-size[starts], kind="stable")[:most_runs]]
            breaks += score.transform(self.atom_places[widest]).tolist()
        moments = np.zeros((n_terms, 2, len(mean)))
        # The nodes of so many means fit into the cache of a processor.
        chunk_size = 256
        for chunk in slices(len(mean), chunk_size):
            self._add_pieces(np.sort(breaks), mean[chunk], sd[chunk], centre, moments[..., chunk])
        return moments

    def _add_pieces(
        self, breaks: Floats, mean: Floats, sd: Floats, centre: float, moments: Floats
    ) -> None:
        """Add the moments of values between neighbouring breaks, by the rule that each piece needs.

        ``moments`` has shape (n_terms, 2, n_means).
        """
        # (n_means, 1), against pieces of shape (n_means, n_pieces).
        mean = mean[:, np.newaxis]
        sd = sd[:, np.newaxis]
        spread = _REACH * sd
        # Less than 1e-15 of a normal distribution lies further out.
        ends = np.clip(breaks, mean - spread, mean + spread)
        begins = np.column_stack([mean - spread, ends[:, :-1]])
        sizes = ends - begins
        # Between bounds the map has exponentials, which are less smooth than powers.
        widths = sizes if self.score[:2] == _NO_BOUNDS else 2.0 * sizes
        rules = np.zeros(sizes.shape, dtype=np.int64)
        for most_sds, most_scores in zip(_MOST_SDS, _MOST_SCORES):
            rules += (widths > most_sds * sd) | (widths > most_scores)
        first_node = 0
        for rule, n_nodes in enumerate(_RULE_SIZES):
            nodes = slice(first_node, first_node + n_nodes)
            first_node += n_nodes
            owner, piece = np.nonzero((rules == rule) & (sizes > 0.0))
            size = sizes[owner, piece][:, np.newaxis]
            scores = begins[owner, piece][:, np.newaxis] + size * _NODES[nodes]
            # (n_pieces, n_nodes): standard deviations of the nodes from the mean.
            t = (scores - mean[owner]) / sd[owner]
            # (n_terms, n_pieces, n_nodes): masses of the nodes, times He_k(t).
            masses = np.empty((len(moments), *t.shape))
            masses[0] = np.exp(-0.5 * t * t) * (_WEIGHTS[nodes] * size / (SQRT_2_PI * sd[owner]))
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
        """Width of the cell of each value: its probability over its density; 0 without a cell.

        The density of an atom is its probability if there is no lattice, so that its width is 1.
        """
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
        """The outer edges of the cells of the least and the greatest value."""
        return self.ends[0] - 0.5 * self.step, self.ends[1] + 0.5 * self.step

    def scaled(self, values: Floats) -> Floats:
        """Values on a scale on which they look normal; NaN stays."""
        if self.is_ordered:
            return self.score.transform(values)
        return self.transform(values)

    def upper_edges(self, values: Floats) -> Floats:
        """Upper edge of the cell of the greatest value of the column that is at most each number.

        Draws up to this edge become values up to that number. The outermost cells have no edge.
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
        """:meth:`upper_edges` between the ends of a column without a lattice."""
        # Ordered states are their own edges, and so are values that do not repeat.
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
        """Ends of intervals ``begin < x <= end`` that hold the cells of the values between two.

        ``closed``, of shape (2, n), says which of ``low`` and ``high`` belong to them. A single
        number that has no cell gives an empty interval.
        """
        ends = []
        for end, opens in ((low, ~closed[0]), (high, closed[1])):
            near = self.known(end)
            exact = np.where(np.isnan(near), end, near)
            # No number is next to infinity.
            opens = opens | np.isinf(exact)
            ends.append(self.upper_edges(np.where(opens, exact, np.nextafter(exact, -np.inf))))
        is_nothing = (low == high) & np.isnan(near) & (self.step == 0.0)
        return np.where(is_nothing, ends[1], ends[0]), ends[1]

    def known(self, values: Floats) -> Floats:
        """The value of the column that each number equals but for rounding; NaN where none does."""
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
        """The value of the column in whose cell each number lies; NaN stays."""
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
    """Runs of atoms that are neighbours on a lattice: the rank of each atom in its run, and the
    size of that run."""
    # Neighbours are one step apart, but for rounding.
    begins = np.append(True, np.diff(atoms) > 1.5 * width)[: len(atoms)]
    run = np.cumsum(begins) - 1
    run_begins = np.flatnonzero(begins)
    return np.arange(len(atoms)) - run_begins[run], np.bincount(run)[run]


def _states_among(atoms: Floats, reach: float, values: Floats) -> Ints:
    """The number of the atom that each value is; the number of atoms for all other values."""
    place = np.searchsorted(atoms, values - reach)
    # A value above all atoms is compared with NaN, and so is near none.
    near = np.append(atoms, np.nan)[place]
    return np.where(np.abs(near - values) <= reach, place, len(atoms))
