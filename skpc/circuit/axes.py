"""Numbers within the bins of their histogram axes: densities and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc._random import seed_streams, uniform
from skpc.circuit.leaves._axis import (
    bin_modes,
    bin_moments,
    draw_in_bin,
    log_bin_density,
    log_bin_peaks,
)

__all__ = ["Axes", "invert_bins"]


@kernel
def _add_densities(ptr: Ints, axis: Floats, codes: Ints, rows: Floats, density: Floats) -> None:
    """Add the log density of each observed number within its bin."""
    for row in range(len(rows)):
        for v in range(len(ptr) - 1):
            if ptr[v] < ptr[v + 1] and codes[row, v] >= 0:
                state, x = codes[row, v], rows[row, v]
                density[row] += log_bin_density(axis, ptr[v], ptr[v + 1], state, x)


@kernel
def _draw(ptr: Ints, axis: Floats, seed: np.uint64, codes: Ints, rows: Floats) -> None:
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
def invert_bins(weight: Floats, axis: Floats, level: float, out: Floats) -> None:
    """Quantile of each mixture of the states of an axis; a row of weights sums to one."""
    n_states = weight.shape[1]
    for r in range(len(out)):
        below = 0.0
        state = 0
        while state < n_states - 1 and below + weight[r, state] < level:
            below += weight[r, state]
            state += 1
        # The rounding of the sums must not lead to the ends of a tail.
        within = max((level - below) / max(weight[r, state], 1e-300), 1e-300)
        if state == n_states - 1:
            within = max(1.0 - within, 1e-16)
        out[r] = draw_in_bin(axis, 0, len(axis), state, min(within, 1.0))


class Axes(NamedTuple):
    """The histogram axes of some columns, as kernels read them.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The axis of column v is ``axis[ptr[v] : ptr[v + 1]]``; it is empty for a category.
    axis : array
        Of each axis the scale of the lower tail, the edges, and the scale of the upper tail.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit.axes import Axes
    >>> axes = Axes.of([None, (np.array([0.0, 0.5, 1.0]), 1.0, 1.0)])
    >>> axes.log_density(np.array([[1, 2]]), np.array([[1.0, 0.7]])).round(3)
    array([0.693])
    """

    ptr: Ints
    axis: Floats

    @classmethod
    def of(cls, axes: Sequence[Any]) -> Axes:
        """Lay out axes ``(edges, lower_scale, upper_scale)``, or None for a category."""
        parts = [np.empty(0) if a is None else np.concatenate([[a[1]], a[0], [a[2]]]) for a in axes]
        return cls(offsets([len(part) for part in parts]), np.concatenate(parts))

    def log_density(self, codes: Ints, rows: Floats) -> Floats:
        """Log density of the observed numbers of each row, given their states.

        Parameters
        ----------
        codes : array of shape (n_rows, n_features)
            States, -1 where missing.
        rows : array of shape (n_rows, n_features)
            The encoded rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats; zero for a row without numbers.
        """
        density = np.zeros(len(rows))
        _add_densities(self.ptr, self.axis, codes, rows, density)
        return density

    def draw(self, codes: Ints, rows: Floats, seed: int) -> Floats:
        """Encoded rows whose missing cells have these states; numbers are drawn from their bins."""
        filled = rows.copy()
        _draw(self.ptr, self.axis, np.uint64(seed), codes, filled)
        return filled

    def quantile(self, column: int, weight: Floats, level: float) -> Floats:
        """Quantile of a column of numbers, for each row of probabilities of its states."""
        out = np.empty(len(weight))
        share = weight / weight.sum(axis=1, keepdims=True)
        invert_bins(share, self._axis(column).copy(), level, out)
        return out

    def means(self, column: int) -> Floats:
        """Mean of a column of numbers within each state."""
        return bin_moments(self._axis(column), 0.0)[0]

    def modes(self, column: int) -> Floats:
        """A most probable number within each state of a column."""
        return bin_modes(self._axis(column))

    def peaks(self, column: int) -> Floats:
        """Greatest log density within each state of a column."""
        return log_bin_peaks(self._axis(column))

    def _axis(self, column: int) -> Floats:
        return self.axis[self.ptr[column] : self.ptr[column + 1]]
