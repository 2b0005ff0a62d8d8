"""Means of a Gaussian bump over bins and exponential tails, to nearly full precision.

The bump is ``exp(-(a t)^2)`` of a difference ``t``. Closed forms divide differences of close
numbers by the width of a bin, so Gauss-Legendre takes over for bins narrower than the bump.
"""

import numpy as np
from scipy.special import erf, erfc, erfcx

from skpc._arrays import Floats
from skpc.variables import Histogram

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES = (_NODES + 1.0) / 2.0
_WEIGHTS = _WEIGHTS / 2.0
_SQRT_PI = np.sqrt(np.pi)
#: Two tails whose scales are closer than this (relative) are averaged by Gauss-Legendre.
_CLOSE = 0.1


def mean_over_bins(a: Floats, x: Floats, axis: Histogram) -> Floats:
    """Mean of ``exp(-a^2 (x - Y)^2)`` over each state of an axis.

    Parameters
    ----------
    a, x : ndarrays of shape (n,)
        Inverse widths, positive, and positions of the bumps.
    axis : Histogram
        The axis.

    Returns
    -------
    ndarray of shape (n, n_states)
    """
    # Very far away squares overflow and bins have no width: nothing is left of the bump there.
    with np.errstate(over="ignore", invalid="ignore"):
        return _mean_over_cells(a, x, axis) @ axis.mixing.T


def _mean_over_cells(a: Floats, x: Floats, axis: Histogram) -> Floats:
    """The same over each cell; the cell of an atom is a point."""
    a = a[:, np.newaxis]
    x = x[:, np.newaxis]
    edges = axis.edges
    points = axis.points
    lower = tail_mean(a, edges[:1] - x, axis.lower_scale)
    upper = tail_mean(a, x - edges[-1:], axis.upper_scale)
    means = np.hstack([lower, _bin_mean(a, edges[:-1] - x, edges[1:] - x), upper])
    return np.where(np.isnan(points), means, np.exp(-np.square(a * (x - points))))


def mean_over_pairs(a: float, axis: Histogram, other: Histogram) -> Floats:
    """Mean of ``exp(-a^2 (X - Y)^2)`` over each pair of states of two axes.

    Parameters
    ----------
    a : float
        Inverse width of the bump, positive.
    axis, other : Histogram
        The axes.

    Returns
    -------
    ndarray of shape (n_states, n_other_states)
    """
    edges = axis.edges
    others = other.edges
    low = axis.lower_scale
    high = axis.upper_scale
    low_other = other.lower_scale
    high_other = other.upper_scale
    means = np.empty((len(edges) + 1, len(others) + 1))
    means[1:-1, 1:-1] = _bin_pair_means(a, edges, others)
    means[1:-1, 0] = _bin_tail_mean(a, others[0] - edges[:-1], others[0] - edges[1:], low_other)
    means[1:-1, -1] = _bin_tail_mean(a, edges[:-1] - others[-1], edges[1:] - others[-1], high_other)
    means[0, 1:-1] = _bin_tail_mean(a, edges[0] - others[:-1], edges[0] - others[1:], low)
    means[-1, 1:-1] = _bin_tail_mean(a, others[:-1] - edges[-1], others[1:] - edges[-1], high)
    means[0, 0] = _same_side_mean(a, others[0] - edges[0], low, low_other)
    means[-1, -1] = _same_side_mean(a, edges[-1] - others[-1], high, high_other)
    means[0, -1] = _opposite_mean(a, others[-1] - edges[0], low, high_other)
    means[-1, 0] = _opposite_mean(a, edges[-1] - others[0], high, low_other)
    # Cells of atoms are points.
    for first, second, cells in ((axis, other, means), (other, axis, means.T)):
        at = np.flatnonzero(~np.isnan(first.points))
        cells[at] = _mean_over_cells(np.full(len(at), a), first.points[at], second)
    return np.asarray(axis.mixing @ means @ other.mixing.T)


def tail_mean(a: Floats, d: Floats, scale: float | np.ndarray) -> Floats:
    """Mean of ``exp(-a^2 (Z - d)^2)`` for an exponential Z of this scale."""
    return np.asarray(_SQRT_PI / (2.0 * a * scale) * _bump_times_erfcx(a, d, scale))


def _bump_times_erfcx(a: Floats, d: Floats, scale: float | np.ndarray) -> Floats:
    """``exp(-(a d)^2) erfcx(w)`` with ``w = 1 / (2 a scale) - a d``."""
    half = 0.5 / (a * scale)
    w = half - a * d
    # erfcx overflows far on the left, where w^2 and (a d)^2 nearly cancel: take them together.
    left = np.exp(half * np.minimum(half - 2.0 * a * d, 0.0)) * erfc(np.minimum(w, 0.0))
    right = np.exp(-np.square(a * d)) * erfcx(np.maximum(w, 0.0))
    return np.where(w < 0.0, left, right)


def _bin_mean(a: Floats, low: Floats, high: Floats) -> Floats:
    """Mean of ``exp(-(a t)^2)`` for t uniform between ``low`` and ``high``."""
    width = a * (high - low)
    closed = _SQRT_PI / 2.0 * (erf(a * high) - erf(a * low)) / width
    narrow = width < 1.0
    if narrow.any():
        a, low, high = (part[narrow] for part in np.broadcast_arrays(a, low, high))
        t = low + np.multiply.outer(_NODES, high - low)
        closed[narrow] = _WEIGHTS @ np.exp(-np.square(a * t))
    return np.asarray(closed)


def _bin_pair_means(a: float, edges: Floats, others: Floats) -> Floats:
    """Means over pairs of bins: closed where both are wide, else along the narrower one."""
    if len(edges) < 2 or len(others) < 2:
        return np.empty((len(edges) - 1, len(others) - 1))
    low = edges[:-1, np.newaxis]
    high = edges[1:, np.newaxis]
    low_other, high_other = np.broadcast_arrays(others[:-1], others[1:])
    width = high - low
    width_other = high_other - low_other
    overlap = np.maximum(np.minimum(high, high_other) - np.maximum(low, low_other), 0.0)
    remainders = (
        _remainder(a * (high - low_other))
        + _remainder(a * (low - high_other))
        - _remainder(a * (high - high_other))
        - _remainder(a * (low - low_other))
    )
    means = _SQRT_PI / (2.0 * a * a) * (2.0 * a * overlap + remainders) / (width * width_other)
    narrow = np.minimum(width, width_other) * a < 1.0
    if narrow.any():
        parts = (low, high, low_other, high_other, width <= width_other)
        low, high, low_other, high_other, first = (
            part[narrow] for part in np.broadcast_arrays(*parts)
        )
        start = np.where(first, low, low_other)
        size = np.minimum(width, width_other)[narrow]
        t = start + np.multiply.outer(_NODES, size)
        wide_low = np.where(first, low_other, low)
        wide_high = np.where(first, high_other, high)
        means[narrow] = _WEIGHTS @ _bin_mean(np.array(a), wide_low - t, wide_high - t)
    return np.asarray(means)


def _remainder(t: Floats) -> Floats:
    """What the antiderivative ``t erf(t) + exp(-t^2) / sqrt(pi)`` of erf has beyond ``|t|``."""
    size = np.abs(t)
    return np.asarray(np.exp(-size * size) * (1.0 / _SQRT_PI - size * erfcx(size)))


def _bin_tail_mean(a: float, start: Floats, end: Floats, scale: float) -> Floats:
    """Mean of :func:`tail_mean` for d uniform between ``start`` and ``end``, in either order."""
    low = np.minimum(start, end)
    high = np.maximum(start, end)
    bump = np.array(a)
    width = high - low
    area = _SQRT_PI / (2.0 * a) * (erf(a * high) - erf(a * low))
    means = (area - scale * (tail_mean(bump, high, scale) - tail_mean(bump, low, scale))) / width
    narrow = a * width < 1.0
    t = low + np.multiply.outer(_NODES, width)
    return np.where(narrow, _WEIGHTS @ tail_mean(bump, t, scale), means)


def _same_side_mean(a: float, gap: float, scale: float, other: float) -> float:
    """Mean over two tails that point the same way, the first starting ``gap`` further out."""
    bump = np.array(a)
    d = np.array(gap)
    # The difference of two exponential variables is a mixture of one to either side.
    ahead = tail_mean(bump, -d, scale)
    behind = tail_mean(bump, d, other)
    return float((scale * ahead + other * behind) / (scale + other))


def _opposite_mean(a: float, gap: float, scale: float, other: float) -> float:
    """Mean over two tails that point away from each other, ``gap`` apart."""
    bump = np.array(a)
    d = np.array(-gap)
    if abs(scale - other) > _CLOSE * max(scale, other):
        ends = scale * tail_mean(bump, d, scale) - other * tail_mean(bump, d, other)
        return float(ends / (scale - other))
    scales = other + _NODES * (scale - other)
    return float(_WEIGHTS @ _slope(bump, d, scales))


def _slope(a: Floats, d: Floats, scale: Floats) -> Floats:
    """Derivative of ``scale * tail_mean(a, d, scale)`` by the scale."""
    w = 0.5 / (a * scale) - a * d
    direct = np.exp(-np.square(a * d)) - _SQRT_PI * w * _bump_times_erfcx(a, d, scale)
    # For large w the two terms nearly cancel; the asymptotic series of erfcx does not.
    series = np.zeros_like(w)
    term = np.ones_like(w)
    far = np.maximum(w, 8.0)
    for n in range(1, 20):
        term = -term * (2 * n - 1) / (2.0 * far * far)
        series -= term
    series *= np.exp(-np.square(a * d))
    return np.asarray(np.where(w > 8.0, series, direct) / (2.0 * np.square(a * scale)))
