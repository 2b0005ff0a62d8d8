"""Histogram axes: bins of a numeric column between two exponential tails.

State 0 of an axis is the lower tail, the states from 1 on are the bins ``[edge, next edge)``, and
the last state is the upper tail. Kernels read an axis as the stretch ``axis[first:last]`` of an
array: the scale of the lower tail, the increasing edges, the scale of the upper tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, exact_parts, group_sums, offsets, weighted_quantiles
from skpc._jit import inlined, kernel
from skpc._random import seed_streams, uniform

# Fractions of the column's spread. Both lost next to nothing on held-out rows of 91 real columns,
# and both keep a repeated value from earning an unbounded density.
_SMALLEST_WIDTH = 1e-3
_SMALLEST_TAIL = 1e-2
# Rows that the table of two binned columns should have a cell. Cross-validation among 1 to 15 bins
# on wine, iris, breast cancer, diabetes and samples of 100 to 5000 rows of two larger tables chose
# about as many bins as this allows.
_ROWS_PER_CELL = 8
# Below this part of the magnitude, differences between values are noise of their rounding.
_RESOLUTION = 1e-12
# The reciprocal of anything smaller would come near the largest float.
_SMALLEST_FLOAT = 1e-305


class Axis(NamedTuple):
    """A histogram axis: uniform within its bins, exponential in its tails.

    Parameters
    ----------
    edges : ndarray of shape (n_states - 1,)
        Increasing. State 0 lies below the first, the last state from the last edge on.
    lower_scale, upper_scale : float
        Scales of the exponential tails, in the unit of the column; positive.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Axis
    >>> axis = Axis(np.array([0.0, 1.0, 3.0]), 0.5, 2.0)
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

    @classmethod
    def fit(cls, values: Floats, weight: Floats, n_bins: int) -> Axis:
        """Place the states of a numeric column where its values are.

        A small table gets fewer bins than ``n_bins``: two such columns together then have eight
        rows for each pair of states on average, but at least one bin. The ``n_bins + 1`` edges
        stand at the weighted quantiles (``inverted_cdf``) of the levels ``i / (n_bins + 2)``, so
        that each interior bin and each tail holds the same mass as far as ties allow. Edges that
        repeat, or that follow the one before by less than a thousandth of the spread (half the
        distance between the quartiles), are dropped. The scale of a tail is its weighted mean
        excess over its edge, at least a hundredth of the spread; the scale of a tail without mass
        is the spread. A constant column c gets one bin around c, whose width is a thousandth of
        max(abs(c), 1).

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Numbers, at least one of them; NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_bins : int
            Largest number of interior bins.

        Returns
        -------
        Axis
        """
        seen = ~np.isnan(values)
        points, inverse = np.unique(values[seen] + 0.0, return_inverse=True)
        large, small = (group_sums(inverse, part) for part in exact_parts(weight[seen]))
        mass, cumulated = large + small, np.cumsum(large) + np.cumsum(small)
        if len(points) == 1:
            spread = max(abs(float(points[0])), 1.0)
            half = 0.5 * _SMALLEST_WIDTH * spread
            return cls(np.array([points[0] - half, points[0] + half]), spread, spread)
        n_bins = min(n_bins, max(1, int(np.sqrt(cumulated[-1] / _ROWS_PER_CELL)) - 2))
        candidates = weighted_quantiles(points, cumulated, np.arange(1, n_bins + 2), n_bins + 2)
        spread = _spread(points, mass, cumulated, float(candidates[-1] - candidates[0]))
        noise = max(_RESOLUTION * float(np.abs(candidates).max()), _SMALLEST_FLOAT)
        edges = _well_separated(candidates, max(_SMALLEST_WIDTH * spread, noise))
        below, above = points < edges[0], points >= edges[-1]
        lower_scale = _tail_scale(points[below], mass[below], edges[0], spread, noise)
        upper_scale = _tail_scale(points[above], mass[above], edges[-1], spread, noise)
        return cls(edges, lower_scale, upper_scale)

    @classmethod
    def of(cls, flat: Floats) -> Axis:
        """Read an axis from the stretch of an array that kernels see."""
        return cls(flat[1:-1], float(flat[0]), float(flat[-1]))

    @property
    def flat(self) -> Floats:
        """What kernels see: the scale of the lower tail, the edges, the scale of the upper tail."""
        return np.concatenate([[self.lower_scale], self.edges, [self.upper_scale]])

    @property
    def n_states(self) -> int:
        """Number of bins, the two tails included."""
        return len(self.edges) + 1

    def states_of(self, values: Floats) -> Ints:
        """State of each value."""
        return np.searchsorted(self.edges, values, side="right")

    def log_peaks(self) -> Floats:
        """Greatest log density within each state that has all the mass, in nats."""
        return -np.log(
            np.concatenate([[self.lower_scale], np.diff(self.edges), [self.upper_scale]])
        )

    def modes(self) -> Floats:
        """A most probable value of each state: the middle of a bin, the edge of a tail."""
        edges = self.edges
        # The upper edge of the lower tail belongs to the next state already.
        below = np.nextafter(edges[:1], -np.inf)
        return np.concatenate([below, (edges[1:] + edges[:-1]) / 2, edges[-1:]])

    def moments(self, centre: float = 0.0) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` within each state."""
        edges, scales = self.edges - centre, np.array([self.lower_scale, self.upper_scale])
        low, high = edges[:-1], edges[1:]
        tails = edges[[0, -1]] + scales * [-1.0, 1.0]
        tail_squares = tails**2 + scales**2
        mean = np.concatenate([tails[:1], (low + high) / 2, tails[1:]])
        square = (low * low + low * high + high * high) / 3
        return mean, np.concatenate([tail_squares[:1], square, tail_squares[1:]])

    def share_below(self, x: Floats) -> Floats:
        """Share of each state that lies below each number, shape (len(x), n_states)."""
        x = x[:, np.newaxis]
        low, high = self.edges[:-1], self.edges[1:]
        lower = np.exp(np.minimum((x - self.edges[0]) / self.lower_scale, 0.0))
        upper = -np.expm1(np.minimum((self.edges[-1] - x) / self.upper_scale, 0.0))
        return np.hstack([lower, np.clip((x - low) / (high - low), 0.0, 1.0), upper])

    def quantile(self, prob: Floats, level: float) -> Floats:
        """The number below which each of some mixtures of the states has ``level`` of its mass.

        ``prob`` has shape (n, n_states); its rows sum to one.
        """
        found = np.empty(len(prob))
        _invert(np.require(prob, requirements=("C", "W")), self.flat, level, found)
        return found


class AxisTable(NamedTuple):
    """The axes of some columns, as kernels read them.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The axis of column v is ``axis[ptr[v] : ptr[v + 1]]``; it is empty where there is none.
    axis : array
        The axes end to end.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Axis, AxisTable
    >>> table = AxisTable.of([None, Axis(np.array([0.0, 0.5, 1.0]), 1.0, 1.0)])
    >>> table.log_density(np.array([[1, 2]]), np.array([[1.0, 0.7]])).round(3)
    array([0.693])
    """

    ptr: Ints
    axis: Floats

    @classmethod
    def of(cls, axes: Sequence[Axis | None]) -> AxisTable:
        """Lay axes end to end; None stands for a column without one."""
        parts = [np.empty(0) if axis is None else Axis(*axis).flat for axis in axes]
        return cls(offsets([len(part) for part in parts]), np.concatenate([np.empty(0), *parts]))

    def states(self, rows: Floats) -> np.ndarray:
        """State of every cell of encoded rows (int16), -1 where missing.

        The cells of a column without an axis are states already.
        """
        found = np.empty(rows.shape, dtype=np.int16)
        _bin_rows(self.ptr, self.axis, np.require(rows, requirements=("C", "W")), found)
        return found

    def log_density(self, codes: Ints, rows: Floats) -> Floats:
        """Log density (nats) of the observed numbers of each row, given their states.

        Parameters
        ----------
        codes : array of shape (n_rows, n_features)
            States, -1 where missing.
        rows : array of shape (n_rows, n_features)
            The encoded rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Zero for a row without numbers.
        """
        density = np.zeros(len(rows))
        _add_densities(self.ptr, self.axis, codes, rows, density)
        return density

    def draw(self, codes: Ints, rows: Floats, seed: int) -> Floats:
        """Encoded rows whose missing cells have these states; numbers are drawn from their bins."""
        filled = rows.copy()
        _draw_rows(self.ptr, self.axis, np.uint64(seed), codes, filled)
        return filled


@inlined
def bin_of(axis: Floats, first: int, last: int, x: float) -> int:
    """State of a value: the number of edges that are not above it."""
    low = first + 1
    high = last - 1
    while low < high:
        middle = (low + high) >> 1
        if axis[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - first - 1


@inlined
def log_bin_density(axis: Floats, first: int, last: int, state: int, x: float) -> float:
    """Log density of a value within its bin, for a bin that has all the mass."""
    if state == 0:
        return (x - axis[first + 1]) / axis[first] - math.log(axis[first])
    if state == last - first - 2:
        return (axis[last - 2] - x) / axis[last - 1] - math.log(axis[last - 1])
    return -math.log(axis[first + state + 1] - axis[first + state])


@inlined
def draw_in_bin(axis: Floats, first: int, last: int, state: int, u: float) -> float:
    """Turn a uniform draw into one from a bin or a tail."""
    if state == 0:
        return axis[first + 1] + axis[first] * math.log(u)
    if state == last - first - 2:
        return axis[last - 2] - axis[last - 1] * math.log(u)
    low = axis[first + state]
    return low + u * (axis[first + state + 1] - low)


@kernel
def _bin_rows(ptr: Ints, axis: Floats, rows: Floats, codes: np.ndarray) -> None:
    """Write the state of every cell, -1 where missing."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            number = rows[row, column]
            if number != number:
                codes[row, column] = -1
            elif ptr[column] == ptr[column + 1]:
                codes[row, column] = np.int16(number)
            else:
                # bin_of, faster over many rows: counting beats halving on few edges, as it has
                # no branch to mispredict. Inside the kernels of queries it is the slower one.
                low, high = ptr[column] + 1, ptr[column + 1] - 1
                while high - low > 32:
                    middle = (low + high) >> 1
                    if axis[middle] <= number:
                        low = middle + 1
                    else:
                        high = middle
                n_below = low - ptr[column] - 1
                for position in range(low, high):
                    n_below += np.int64(axis[position] <= number)
                codes[row, column] = np.int16(n_below)


@kernel
def _add_densities(ptr: Ints, axis: Floats, codes: Ints, rows: Floats, density: Floats) -> None:
    """Add the log density of each observed number within its bin."""
    for row in range(len(rows)):
        for v in range(len(ptr) - 1):
            if ptr[v] < ptr[v + 1] and codes[row, v] >= 0:
                state, x = codes[row, v], rows[row, v]
                density[row] += log_bin_density(axis, ptr[v], ptr[v + 1], state, x)


@kernel
def _draw_rows(ptr: Ints, axis: Floats, seed: np.uint64, codes: Ints, rows: Floats) -> None:
    """Replace NaN by the code of the cell, or by a draw from its bin."""
    streams = np.empty(1, dtype=np.uint64)
    for row in range(len(rows)):
        seed_streams(seed, row, streams)
        for v in range(len(ptr) - 1):
            if np.isnan(rows[row, v]):
                rows[row, v] = codes[row, v]
                if ptr[v] < ptr[v + 1]:
                    u = uniform(streams, 0)
                    rows[row, v] = draw_in_bin(axis, ptr[v], ptr[v + 1], codes[row, v], u)


@kernel
def _invert(prob: Floats, axis: Floats, level: float, out: Floats) -> None:
    """Quantile of each mixture of the states of an axis; a row of probabilities sums to one."""
    n_states = prob.shape[1]
    for r in range(len(out)):
        below = 0.0
        state = 0
        while state < n_states - 1 and below + prob[r, state] < level:
            below += prob[r, state]
            state += 1
        # The rounding of the sums must not lead to the ends of a tail.
        within = max((level - below) / max(prob[r, state], 1e-300), 1e-300)
        if state == n_states - 1:
            within = max(1.0 - within, 1e-16)
        out[r] = draw_in_bin(axis, 0, len(axis), state, min(within, 1.0))


def _spread(points: Floats, mass: Floats, cumulated: Floats, covered: float) -> float:
    """A width that one wild value cannot change: half the distance of the quartiles.

    Where these are equal, a quarter of what the edges cover, or the mean absolute deviation.
    """
    low, median, high = weighted_quantiles(points, cumulated, np.array([1, 2, 3]), 4)
    half = 0.5 * float(high - low)
    return half or 0.25 * covered or _mean_deviation(points, mass, median)


def _well_separated(candidates: Floats, smallest_width: float) -> Floats:
    edges = [candidates[0]]
    for candidate in candidates[1:]:
        if candidate - edges[-1] >= smallest_width:
            edges.append(candidate)
    return np.array(edges)


def _tail_scale(points: Floats, weight: Floats, edge: float, spread: float, noise: float) -> float:
    if len(points) == 0:
        return max(spread, noise)
    return max(_mean_deviation(points, weight, edge), _SMALLEST_TAIL * spread, noise)


def _mean_deviation(points: Floats, weight: Floats, centre: float) -> float:
    """Weighted mean distance of points from a centre."""
    return float(np.dot(weight / weight.sum(), np.abs(points - centre)))
