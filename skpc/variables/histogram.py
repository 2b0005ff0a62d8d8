"""Histogram axes: the states of a numeric column, and how its values lie within each.

The edges of an axis cut the line into cells: a lower tail, intervals ``[edge, next edge)``, and an
upper tail. A state is one cell or several; each cell has a share of the probability of its state,
the same one in all leaves of a circuit. Within its cell a value is uniform, or exponential in a
tail; the cell of an atom holds one value only.

Kernels read an axis as the stretch ``axis[first:last]`` of an array: five numbers (the scales of
the tails, the range of draws, the step), the edges, and then for each cell its state, its share,
the log density of a value in this cell within its state, and the value of its atom (NaN without an
atom).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, divisors, group_sums, offsets, segment
from skpc._jit import inlined
from skpc._random import Streams, start_streams, uniforms

#: Numbers of an axis, seen by kernels, that stand before its edges.
HEAD = 5
#: The cell of an atom that is narrower than this, relative to the values, is a point mass.
POINT = 1e-10
#: Added to the log density beyond the end of a tail: no draw lies there, but a row may.
BEYOND_END = math.log(1e-15)
#: Numbers this close are one number, whatever their size: reciprocals of less would overflow.
TINY = 1e-305

#: Rows for each pair of bins of two columns, on average. Cross-validation among 1 to 15 bins on
#: wine, iris, breast cancer, diabetes and samples of 100 to 5000 rows of two larger tables chose
#: about as many bins as this allows.
ROWS_PER_CELL = 8
#: Mass of a cell between ordered states, where no value lies.
NOTHING = 1e-15


class Histogram(NamedTuple):
    """A histogram axis: uniform within its cells, exponential in its tails.

    Parameters
    ----------
    edges : ndarray of shape (n_cells - 1,)
        Increasing. Cell 0 lies below the first edge, the last cell begins at the last edge.
    lower_scale, upper_scale : float
        Scales of the exponential tails, in the unit of the column; positive.
    state : ndarray of shape (n_cells,), default=None
        The state 0, 1, ... that each cell belongs to; None makes each cell a state.
    share : ndarray of shape (n_cells,), default=None
        The part of its state that each cell holds; None if each cell is a state.
    point : ndarray of shape (n_cells,), default=None
        The value of each cell that holds only one value, an atom; NaN for other cells. None: no
        atoms. A cell no wider than the rounding of the column is a point mass (its density is with
        respect to the counting measure). The mass of a wider cell, on a lattice, is spread over it.
    low, high : float, default=-inf and inf
        The tails end here.
    step : float, default=0.0
        Step of the lattice of the column: the density of a value in the tails is the mean one in
        its cell.
    weight : float, default=0.0
        In the finest histogram of a column, the weight of the values that are not atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Histogram
    >>> axis = Histogram(np.array([0.0, 1.0, 3.0]), 0.5, 2.0)
    >>> axis.n_states
    4
    >>> axis.states_of(np.array([-1.0, 0.0, 2.9, 3.0]))
    array([0, 1, 2, 3])
    >>> axis.moments()[0]
    array([-0.5,  0.5,  2. ,  5. ])
    """

    edges: Floats
    lower_scale: float
    upper_scale: float
    state: Any = None
    share: Any = None
    point: Any = None
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    weight: float = 0.0

    @classmethod
    def from_flat(cls, flat: Floats) -> Self:
        """Read an axis from the stretch of an array that kernels see."""
        lower_scale, upper_scale, low, high, step = flat[:HEAD].tolist()
        # An edge has five numbers, its own and four of a cell; there is one more cell than edges.
        n_edges = (len(flat) - HEAD - 4) // 5
        edges = flat[HEAD : HEAD + n_edges]
        cells = flat[HEAD + n_edges :]
        # Log densities follow from all the others, and are not read back.
        state, share, _, point = cells.reshape(4, -1)
        shares = state.astype(int), share, point
        return cls(edges, lower_scale, upper_scale, *shares, low, high, step)

    @property
    def flat(self) -> Floats:
        """What kernels read; see the top of this file."""
        head = [self.lower_scale, self.upper_scale, self.low, self.high, self.step]
        cells = (self.states, self.shares, self.log_densities, self.points)
        return np.concatenate([head, self.edges, *cells])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.edges) + 1 if self.state is None else int(np.max(self.state)) + 1

    @property
    def states(self) -> Ints:
        """State of each cell."""
        return np.arange(len(self.edges) + 1) if self.state is None else np.asarray(self.state)

    @property
    def shares(self) -> Floats:
        """Share of each cell in its state."""
        return np.ones(len(self.edges) + 1) if self.share is None else np.asarray(self.share)

    @property
    def points(self) -> Floats:
        """Value of each cell that is an atom, NaN elsewhere."""
        if self.point is None:
            return np.full(len(self.edges) + 1, np.nan)
        return np.asarray(self.point)

    @property
    def atoms(self) -> Floats:
        """The values with a probability of their own, increasing."""
        return self.points[~np.isnan(self.points)]

    @property
    def widths(self) -> Floats:
        """Width of each cell; the scale of a tail."""
        return np.concatenate([[self.lower_scale], np.diff(self.edges), [self.upper_scale]])

    @property
    def log_densities(self) -> Floats:
        """Greatest log density (nats) of each cell within its state."""
        # A cell without a share has a log density of minus infinity.
        with np.errstate(divide="ignore"):
            width = np.where(self._is_mass, 1.0, self.widths)
            # A tail that ends is denser; on a lattice the mean density of each cell counts.
            width[[0, -1]] *= self._tail_parts / self._lattice_factors
            return np.log(self.shares) - np.log(width)

    @property
    def _tail_parts(self) -> Floats:
        """The part of an endless exponential that lies before the end of each tail."""
        room = np.array([self.edges[0] - self.low, self.high - self.edges[-1]])
        # Densities are divided by it, but a tail without room has none.
        return divisors(-np.expm1(-room / self._tail_scales))

    @property
    def _lattice_factors(self) -> Floats:
        """Mean density in a cell of the lattice over that in its middle, for each tail."""
        # The limit of sinh(x) / x is one at zero, where the quotient itself is NaN.
        half = np.maximum(0.5 * self.step / self._tail_scales, TINY)
        return np.sinh(half) / half

    @property
    def _tail_scales(self) -> Floats:
        """Scales of the lower and the upper tail."""
        return np.array([self.lower_scale, self.upper_scale])

    @property
    def mixing(self) -> Floats:
        """Shares as a matrix of shape (n_states, n_cells): averages cells to states."""
        return np.where(self.states == np.arange(self.n_states)[:, np.newaxis], self.shares, 0.0)

    @property
    def _is_mass(self) -> np.ndarray:
        """Which cells are point masses."""
        # An atom may be zero, which has no size: the edges have one.
        size = np.fmax(np.abs(self.points), float(np.median(np.abs(self.edges))))
        narrow = self.widths <= np.maximum(POINT * size, TINY)
        return narrow & ~np.isnan(self.points)

    def binned(self, n_bins: int) -> Self:
        """One state for each atom, and at most ``n_bins`` bins of about equal mass.

        The histogram must be the finest one of its column (:func:`skpc.variables.fit_histogram`).
        Within a bin values are distributed as in the column. A bin of ordered states has several.
        """
        point = self.points
        state = self.binned_states(n_bins)
        masses = np.where(self._are_lone_atoms, 1.0, self.shares)
        if self.weight == 0.0:
            # In a column of atoms alone, other values take a small part of the nearest state.
            gap_masses = np.where(np.isnan(point), self.shares[0], 0.0)
            atom_masses = divisors(1.0 - group_sums(state, gap_masses)[state])
            masses = np.where(np.isnan(point), gap_masses, atom_masses)
        share = masses / group_sums(state, masses)[state]
        return self._replace(state=state, share=share, weight=0.0)

    def binned_states(self, n_bins: int) -> Ints:
        """State of each cell after :meth:`binned`, numbered by the first cells inside the range."""
        point = self.points
        if self.weight == 0.0:
            # In a column of atoms alone, each cell joins the nearest atom.
            atom_cells = np.flatnonzero(~np.isnan(point))
            # (n_cells, n_atoms): distances, counted in cells.
            return np.abs(np.arange(len(point))[:, np.newaxis] - atom_cells).argmin(axis=1)
        # A wide gap ends a bin: values beyond it are codes rather than neighbours.
        width = np.r_[0.0, np.diff(self.edges), 0.0]
        # A gap in which nothing was seen is wide if it is this part of the range.
        wide_gap = 0.25
        is_gap = (self.shares <= NOTHING) & (width > wide_gap * width.sum())
        states = _bins(self.shares, self._are_lone_atoms, is_gap, n_bins, self.weight)
        # Tails come last: they are inside no range.
        numbers, first_cells = np.unique(np.roll(states, -1), return_index=True)
        return np.argsort(np.argsort(first_cells))[np.searchsorted(numbers, states)]

    @property
    def _are_lone_atoms(self) -> Bools:
        """Which cells are atoms with a state of their own."""
        return ~np.isnan(self.points) & (self.shares == 0.0)

    def cells(self, values: Floats) -> Ints:
        """Cell of each value."""
        return np.searchsorted(self.edges, values, side="right")

    def enough_bins(self, n_rows: float) -> int:
        """Number of bins that leave two columns eight rows for each pair of bins on average."""
        share = self.weight / n_rows
        return max(1, round(share * math.sqrt(n_rows / ROWS_PER_CELL)))

    def stretches(self) -> tuple[Floats, Floats]:
        """Edges between neighbouring cells of different states, and the shares that they separate.

        The shares have shape (n_states, n_edges + 1): a state may lie on both sides of an atom.
        """
        change = np.flatnonzero(np.diff(self.states))
        first_cells = np.append(0, change + 1)
        mixing = np.add.reduceat(self.mixing, first_cells, axis=1)
        return self.edges[change], mixing

    def states_of(self, values: Floats) -> Ints:
        """State of each value."""
        return self.states[self.cells(values)]

    def log_peaks(self) -> Floats:
        """Greatest log density (nats) of each state that has all the mass, for maxima over a cell.

        With atoms it is zero for every state: bins and atoms compete by their probabilities,
        because between densities the unit of the column would decide.
        """
        if len(self.atoms):
            return np.zeros(self.n_states)
        peaks = np.full(self.n_states, -np.inf)
        np.maximum.at(peaks, self.states, self.log_densities)
        return peaks

    def modes(self) -> Floats:
        """A most probable value of each state: an atom, the middle of a cell, a tail's edge."""
        edges = self.edges
        points = self.points
        # The upper edge of the lower tail belongs to the next cell already.
        below = np.nextafter(edges[:1], -np.inf)
        cell_modes = np.concatenate([below, (edges[1:] + edges[:-1]) / 2, edges[-1:]])
        cell_modes = np.where(np.isnan(points), cell_modes, points)
        # The densest cell of each state is written last and stays; among equal ones, the first.
        from_last = -np.arange(len(cell_modes))
        order = np.lexsort((from_last, self.log_densities))
        values = np.empty(self.n_states)
        values[self.states[order]] = cell_modes[order]
        return values

    def moments(self, centre: float = 0.0) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` within each state."""
        edges = self.edges - centre
        scales = self._tail_scales
        low = edges[:-1]
        high = edges[1:]
        # In a tail, the distance from its edge is exponential and cut off at the end of the tail.
        room = np.array([edges[0] - self.low + centre, self.high - centre - edges[-1]])
        reached = np.where(np.isinf(room), 0.0, room) / scales
        cut_off = np.exp(-room / scales) / self._tail_parts
        distance = scales * np.maximum(1.0 - cut_off * reached, 0.0)
        square_distance = scales**2 * np.maximum(2.0 - cut_off * reached * (reached + 2.0), 0.0)
        signs = np.array([-1.0, 1.0])
        tails = edges[[0, -1]] + signs * distance
        tail_squares = edges[[0, -1]] ** 2 + 2.0 * signs * edges[[0, -1]] * distance
        tail_squares += square_distance
        mean = np.concatenate([tails[:1], (low + high) / 2, tails[1:]])
        square = (low * low + low * high + high * high) / 3
        square = np.concatenate([tail_squares[:1], square, tail_squares[1:]])
        # An atom has no spread.
        is_atom = ~np.isnan(self.points)
        atom = self.points - centre
        mixing = self.mixing
        return mixing @ np.where(is_atom, atom, mean), mixing @ np.where(is_atom, atom**2, square)

    def shares_between(self, low: Floats, high: Floats) -> Floats:
        """Share of each state within each interval ``low < x <= high``, (n_intervals, n_states)."""
        low = low[:, np.newaxis]
        high = high[:, np.newaxis]
        cells = self._cells_below(high) - self._cells_below(low)
        is_within = (low < self.points) & (self.points <= high)
        masses = np.where(np.isnan(self.points), cells, is_within)
        return masses @ self.mixing.T

    def moments_between(
        self, low: Floats, high: Floats, centre: float = 0.0
    ) -> tuple[Floats, Floats]:
        """The parts of the moments of each state that come from intervals ``low < x <= high``.

        Both have shape (n_intervals, n_states), as those of :meth:`shares_between`.
        """
        ends = low[:, np.newaxis], high[:, np.newaxis]
        edges = self.edges - centre
        clipped = [np.clip(end, self.edges[:-1], self.edges[1:]) - centre for end in ends]
        width = np.diff(self.edges)
        # Integrals of x and of its square over what lies inside, divided by the width of the cell.
        inner = [(clipped[1] ** k - clipped[0] ** k) / (k * width) for k in (2, 3)]
        # In a tail, the distance from its edge is exponential.
        tails = list[Floats]()
        for sign, edge, scale, part in zip(
            (-1, 1), edges[[0, -1]], self._tail_scales, self._tail_parts
        ):
            reached = [np.clip(end, self.low, self.high) - centre for end in ends]
            # In the lower tail the upper end of an interval is the one near the edge.
            near, far = (np.maximum(sign * (end - edge), 0.0)[:, 0] for end in reached[::sign])
            mass, first_moment, second_moment = exponential_moments(near / scale, far / scale)
            first_moment = sign * scale * first_moment
            second_moment = scale**2 * second_moment
            moments = (
                edge * mass + first_moment,
                edge**2 * mass + 2.0 * edge * first_moment + second_moment,
            )
            tails.append(np.array(moments)[:, :, np.newaxis] / part)
        is_within = (ends[0] < self.points) & (self.points <= ends[1])
        parts = []
        for power, inner_cells in enumerate(inner):
            cells = np.hstack([tails[0][power], inner_cells, tails[1][power]])
            atoms = np.where(is_within, (self.points - centre) ** (power + 1), 0.0)
            parts.append(np.where(np.isnan(self.points), cells, atoms) @ self.mixing.T)
        return parts[0], parts[1]

    def drawn(self, states: Ints, streams: Streams, place: Ints) -> Floats:
        """One value drawn from each of some states, by the random streams at these places."""
        drawing = streams[place]
        u = uniforms(drawing)
        streams[place] = drawing
        # Cells of one state stand side by side, and one random number chooses among their shares.
        order = np.argsort(self.states, kind="stable")
        cumulated = np.append(0.0, np.cumsum(self.shares[order]))
        # (n_states + 1,): the shares before each state, and after all of them.
        bounds = cumulated[np.searchsorted(self.states[order], np.arange(self.n_states + 1))]
        target = bounds.take(states) + u * np.diff(bounds).take(states)
        target = np.minimum(target, np.nextafter(bounds, -np.inf).take(states + 1))
        chosen = np.searchsorted(cumulated, target, side="right") - 1
        # Where the number lies between two sums is the place within the cell.
        part = (target - cumulated[chosen]) / (cumulated[chosen + 1] - cumulated[chosen])
        cell = order[chosen]
        edges = self.edges
        # An inner cell is uniform; in a tail the distribution of the distance is inverted.
        width = np.concatenate([[0.0], np.diff(edges), [0.0]])[cell]
        values = np.append(edges[0], edges)[cell] + part * width
        for is_tail, side, scale, end_of_range in (
            (cell == 0, -1.0, self.lower_scale, self.low),
            (cell == len(edges), 1.0, self.upper_scale, self.high),
        ):
            edge = values[is_tail]
            least = np.exp(np.minimum(side * (edge - end_of_range) / scale, 0.0))
            beyond = edge - side * scale * np.log(least + (1.0 - least) * part[is_tail])
            values[is_tail] = side * np.minimum(side * beyond, side * end_of_range)
        points = self.points[cell]
        return np.where(np.isnan(points), values, points)

    def _cells_below(self, x: Floats) -> Floats:
        """Part of each cell that lies up to each number; for the last cell, that part less 1."""
        low = self.edges[:-1]
        high = self.edges[1:]
        inside = np.clip(x, self.low, self.high)
        tails = self._tail_parts
        # Of endless exponentials, this part would lie beyond the ends of the tails.
        beyond = 1.0 - tails
        lower = np.exp(np.minimum((inside - self.edges[0]) / self.lower_scale, 0.0)) - beyond[0]
        # Counted from the far end, the small parts there keep their digits.
        upper = beyond[1] - np.exp(np.minimum((self.edges[-1] - inside) / self.upper_scale, 0.0))
        lower = lower / tails[0]
        upper = upper / tails[1]
        with np.errstate(over="ignore"):
            inner = np.clip((x - low) / (high - low), 0.0, 1.0)
        return np.hstack([lower, inner, upper])


def exponential_moments(near: Floats, far: Floats) -> Floats:
    """What values between two numbers add to mass, mean and mean square of an exponential.

    The answer has shape (3, ...).
    """
    # At infinity there is no mass, but infinity times zero would be NaN.
    far = np.where(np.exp(-far) > 0.0, far, 1e3)

    def beyond(end: Floats) -> Floats:
        """What values beyond a number add, shape (3, ...)."""
        return np.exp(-end) * np.array([np.ones_like(end), end + 1.0, end * (end + 2.0) + 2.0])

    return beyond(near) - beyond(far)


def _bins(cells: Floats, is_atom: Bools, is_gap: Bools, n_bins: int, n_rows: float) -> Ints:
    """A state for each cell: its own for an atom, and bins of about equal mass for the other cells.

    No bin has less than half of that mass, since cells without rows tell nothing. A bin may have as
    little as eight rows only where it is the last one, or ends at an atom or a gap: small values,
    say, stay apart from zero.
    """
    state = np.full(len(cells), n_bins)
    # Atoms are numbered behind all bins, of which atoms and gaps may make more than ``n_bins``.
    state[is_atom] += len(cells) + np.arange(is_atom.sum())
    number = 0
    filled = 0.0
    below = 0.0
    enough = 0.5 / n_bins
    least_filled = ROWS_PER_CELL / max(n_rows, 1.0)
    other_cells = np.flatnonzero(~is_atom)
    numbers = list[int]()
    for mass, is_apart in zip(
        cells[other_cells].tolist(), (is_atom | is_gap)[other_cells - 1].tolist()
    ):
        # A bin is full if it holds enough and the mass up to here reaches a multiple of 1 / n_bins.
        full = filled >= enough and below + mass / 2.0 >= (number + 1) / n_bins
        if full or (is_apart and filled >= least_filled and 1.0 - below >= least_filled):
            number = max(number + 1, int((below + mass / 2.0) * n_bins))
            filled = 0.0
        numbers.append(number)
        filled += mass
        below += mass
    state[other_cells] = numbers
    # A last bin of too few rows joins the one before.
    if filled < min(enough, least_filled):
        last = state == number
        state[last] = state[(state < number)].max(initial=0) if number else 0
    return state


class HistogramTable(NamedTuple):
    """The axes of some columns, as kernels read them.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The axis of column v is ``axis[ptr[v] : ptr[v + 1]]``, empty for a column without an axis.
    axis : array
        The axes end to end.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Histogram, HistogramTable
    >>> table = HistogramTable.from_axes(
    ...     [None, Histogram(np.array([0.0, 0.5, 1.0]), 1.0, 1.0)]
    ... )
    >>> table.log_density(np.array([[1.0, 0.7], [0.0, np.nan]])).round(3)
    array([0.693, 0.   ])
    """

    ptr: Ints
    axis: Floats

    @classmethod
    def from_axes(cls, axes: Sequence[Any]) -> Self:
        """Lay axes (or other records of columns) end to end; None marks a column without one."""
        parts = [np.empty(0) if axis is None else axis.flat for axis in axes]
        return cls(offsets([len(part) for part in parts]), np.concatenate([np.empty(0), *parts]))

    def states(self, rows: Floats) -> np.ndarray:
        """State of every cell of encoded rows (int16), -1 where missing.

        The cells of a column without an axis are states already.
        """
        return self._read(rows)[0]

    def coded(self, rows: Floats) -> Floats:
        """Encoded rows in which the numbers of columns with an axis are its states."""
        codes = self.states(rows)
        return np.where((np.diff(self.ptr) > 0) & (codes >= 0), codes, rows)

    def log_density(self, rows: Floats) -> Floats:
        """Log density (nats) of the observed numbers of each row, given their states.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
            The encoded rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Zero for a row without numbers.
        """
        return self._read(rows)[1]

    def _read(self, rows: Floats) -> tuple[np.ndarray, Floats]:
        """States of the cells, and log density of the numbers of each row, given these."""
        density = np.zeros(len(rows))
        # Numbers overflow here; below they get the states of their axis.
        with np.errstate(invalid="ignore"):
            states = np.where(np.isnan(rows), -1.0, rows)
            codes = states.astype(np.int16)
        for v in np.flatnonzero(np.diff(self.ptr)).tolist():
            axis = Histogram.from_flat(self.axis[segment(self.ptr, v)])
            observed = np.flatnonzero(~np.isnan(rows[:, v]))
            values = rows[observed, v]
            cell = axis.cells(values)
            codes[observed, v] = axis.states[cell]
            # Tails are exponential: their density falls with the distance from their edge.
            below = np.minimum((values - axis.edges[0]) / axis.lower_scale, 0.0)
            above = np.minimum((axis.edges[-1] - values) / axis.upper_scale, 0.0)
            is_beyond = (values < axis.low) | (values > axis.high)
            density[observed] += axis.log_densities[cell] + below + above
            density[observed] += is_beyond * BEYOND_END
        return codes, density

    def draw(self, codes: Ints, rows: Floats, seed: int) -> Floats:
        """Encoded rows whose missing cells have these states; numbers are drawn from their bins."""
        filled = rows.copy()
        # A row's draws do not depend on other rows.
        streams = start_streams(np.uint64(seed), len(rows))
        for v in range(len(self.ptr) - 1):
            missing = np.flatnonzero(np.isnan(rows[:, v]))
            filled[missing, v] = codes[missing, v]
            flat = self.axis[segment(self.ptr, v)]
            if len(flat):
                axis = Histogram.from_flat(flat)
                filled[missing, v] = axis.drawn(codes[missing, v], streams, missing)
        return filled


@inlined
def n_up_to(numbers: Floats, begin: int | np.int64, n: int, gap: float, x: float) -> int:
    """How many of n increasing numbers are at most ``x``, with a ``gap`` cut out at each of them.

    Kernels would need a second more to compile numpy's search.
    """
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if numbers[begin + middle] - gap * (middle + 0.5) <= x:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def state_and_log_density(
    axis: Floats, axis_begin: int, axis_end: int, x: float
) -> tuple[int, float]:
    """State of a value, and its log density there if the state has all the mass."""
    # An axis has five numbers for each edge, and nine more.
    n_edges = (axis_end - axis_begin - 9) // 5
    first_edge = axis_begin + HEAD
    # The cell is the number of edges that are not above the value.
    cell = n_up_to(axis, first_edge, n_edges, 0.0, x)
    # Behind the edges stand the states, the shares and the log densities of the cells.
    place = first_edge + n_edges + cell
    log_density = axis[place + 2 * (n_edges + 1)]
    # Tails are exponential: their density falls with the distance from their edge.
    if cell == 0:
        log_density += (x - axis[first_edge]) / axis[axis_begin]
    elif cell == n_edges:
        log_density += (axis[first_edge + n_edges - 1] - x) / axis[axis_begin + 1]
    if x < axis[axis_begin + 2] or x > axis[axis_begin + 3]:
        log_density += BEYOND_END
    return int(axis[place]), log_density
