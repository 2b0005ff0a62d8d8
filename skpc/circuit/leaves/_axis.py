"""Histogram axes: bins of a numeric variable between two exponential tails.

The axis of a variable stands in ``axis[first:last]`` as the scale of the lower tail, the
increasing edges and the scale of the upper tail. State 0 is the lower tail, the states from 1 on
are the bins ``[edge, next edge)``, the last state is the upper tail.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._jit import inlined

__all__ = ["bin_moments", "bin_of", "draw_in_bin", "log_bin_density", "log_bin_peaks"]


@inlined
def bin_of(axis: np.ndarray, first: int, last: int, x: float) -> int:
    """State of a value: the number of edges that are not above it."""
    low = first + 1
    high = last - 1
    while low < high:
        middle = (low + high) // 2
        if axis[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - first - 1


@inlined
def log_bin_density(axis: np.ndarray, first: int, last: int, state: int, x: float) -> float:
    """Log density of a value within its bin, for a bin that has all the mass."""
    if state == 0:
        return (x - axis[first + 1]) / axis[first] - math.log(axis[first])
    if state == last - first - 2:
        return (axis[last - 2] - x) / axis[last - 1] - math.log(axis[last - 1])
    return -math.log(axis[first + state + 1] - axis[first + state])


@inlined
def draw_in_bin(axis: np.ndarray, first: int, last: int, state: int, u: float) -> float:
    """Turn a uniform draw into one from a bin or a tail."""
    if state == 0:
        return axis[first + 1] + axis[first] * math.log(u)
    if state == last - first - 2:
        return axis[last - 2] - axis[last - 1] * math.log(u)
    low = axis[first + state]
    return low + u * (axis[first + state + 1] - low)


def log_bin_peaks(axis: np.ndarray) -> np.ndarray:
    """Greatest log density within each state of one axis."""
    return -np.log(np.concatenate([axis[:1], np.diff(axis[1:-1]), axis[-1:]]))


def bin_modes(axis: np.ndarray) -> np.ndarray:
    """A most probable value of each state: the middle of a bin, the edge of a tail."""
    edges = axis[1:-1]
    # The upper edge of the lower tail belongs to the next state already.
    below = np.nextafter(edges[:1], -np.inf)
    return np.concatenate([below, (edges[1:] + edges[:-1]) / 2, edges[-1:]])


def bin_moments(axis: np.ndarray, centre: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square of ``x - centre`` within each state of one axis."""
    edges = axis[1:-1] - centre
    low, high = edges[:-1], edges[1:]
    tails = np.array([edges[0] - axis[0], edges[-1] + axis[-1]])
    tail_squares = tails**2 + axis[[0, -1]] ** 2
    mean = np.concatenate([tails[:1], (low + high) / 2, tails[1:]])
    square = (low * low + low * high + high * high) / 3
    return mean, np.concatenate([tail_squares[:1], square, tail_squares[1:]])
