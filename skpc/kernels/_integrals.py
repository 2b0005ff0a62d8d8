"""Means of a Gaussian bump over bins and exponential tails, to nearly full precision.

The bump is ``exp(-(a t)^2)`` of a difference ``t``. Closed forms divide differences of close
numbers by the width of a bin, so Gauss-Legendre takes over for bins narrower than the bump.
"""

import numpy as np
from scipy.special import erf, erfc, erfcx

from skpc._arrays import Floats
from skpc.variables import Histogram

# Gauss-Legendre between 0 and 1; 20 nodes are exact to rounding on bins narrower than the bump.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES = (_NODES + 1.0) / 2.0
_WEIGHTS = _WEIGHTS / 2.0
_SQRT_PI = np.sqrt(np.pi)


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
    # Very far away squares overflow and bins have no width: the bump is zero there.
    with np.errstate(over="ignore", invalid="ignore"):
        return _mean_over_cells(a, x, axis) @ axis.mixing.T


def _mean_over_cells(a: Floats, x: Floats, axis: Histogram) -> Floats:
    """Mean of the bumps over each cell of an axis; the cell of an atom is a point."""
    a = a[:, np.newaxis]
    x = x[:, np.newaxis]
    edges = axis.edges
    # Signed distances from the bumps to all edges: (n, n_edges).
    from_bump = edges - x
    lower = tail_mean(a, from_bump[:, :1], axis.lower_scale)
    upper = tail_mean(a, x - edges[-1:], axis.upper_scale)
    bins = _bin_mean(a, from_bump[:, :-1], from_bump[:, 1:])
    means = np.hstack([lower, bins, upper])
    points = axis.points
    at_points = np.exp(-np.square(a * (x - points)))
    return np.where(np.isnan(points), means, at_points)


def mean_over_pairs(a: float, left: Histogram, right: Histogram) -> Floats:
    """Mean of ``exp(-a^2 (X - Y)^2)`` over each pair of states of two axes.

    Parameters
    ----------
    a : float
        Inverse width of the bump, positive.
    left, right : Histogram
        The axes.

    Returns
    -------
    ndarray of shape (n_left_states, n_right_states)
    """
    edges = left.edges
    right_edges = right.edges
    low = edges[0]
    high = edges[-1]
    right_low = right_edges[0]
    right_high = right_edges[-1]
    # Rows are the cells of the left: its lower tail, its bins, its upper tail; columns likewise.
    means = np.empty((len(edges) + 1, len(right_edges) + 1))
    bins = means[1:-1]
    bins[:, 1:-1] = _bin_pair_means(a, edges, right_edges)
    bins[:, 0] = _bin_tail_mean(a, right_low - edges, right.lower_scale)
    bins[:, -1] = _bin_tail_mean(a, edges - right_high, right.upper_scale)
    lower = means[0]
    lower[1:-1] = _bin_tail_mean(a, low - right_edges, left.lower_scale)
    lower[0] = _same_side_mean(a, right_low - low, left.lower_scale, right.lower_scale)
    lower[-1] = _opposite_mean(a, right_high - low, left.lower_scale, right.upper_scale)
    upper = means[-1]
    upper[1:-1] = _bin_tail_mean(a, right_edges - high, left.upper_scale)
    upper[-1] = _same_side_mean(a, high - right_high, left.upper_scale, right.upper_scale)
    upper[0] = _opposite_mean(a, high - right_low, left.upper_scale, right.lower_scale)
    # Cells of atoms are points.
    for axis, opposite, cells in ((left, right, means), (right, left, means.T)):
        atoms = np.flatnonzero(~np.isnan(axis.points))
        inverse_widths = np.full(len(atoms), a)
        cells[atoms] = _mean_over_cells(inverse_widths, axis.points[atoms], opposite)
    return left.mixing @ means @ right.mixing.T


def tail_mean(a: float | Floats, d: float | Floats, scale: float | np.ndarray) -> Floats:
    """Mean of ``exp(-a^2 (Z - d)^2)`` for an exponential Z of this scale: a tail from 0 on."""
    height = _SQRT_PI / (2.0 * a * scale)
    return height * _bump_times_erfcx(a, d, scale)


def _bump_times_erfcx(a: float | Floats, d: float | Floats, scale: float | np.ndarray) -> Floats:
    """``exp(-(a d)^2) erfcx(w)`` with ``w = 1 / (2 a scale) - a d``."""
    scaled = a * scale
    half = 0.5 / scaled
    shift = a * d
    w = half - shift
    # erfcx overflows far on the left, where w^2 and (a d)^2 nearly cancel: take them together.
    exponent = half * np.minimum(half - 2.0 * a * d, 0.0)
    left = np.exp(exponent) * erfc(np.minimum(w, 0.0))
    right = np.exp(-np.square(shift))
    right = right * erfcx(np.maximum(w, 0.0))
    return np.where(w < 0.0, left, right)


def _bin_mean(a: float | Floats, low: Floats, high: Floats) -> Floats:
    """Mean of ``exp(-(a t)^2)`` for t uniform between ``low`` and ``high``."""
    width = high - low
    scaled_width = a * width
    integral = _SQRT_PI / 2.0 * (erf(a * high) - erf(a * low))
    means = integral / scaled_width
    # A difference of erf loses digits where the bin is narrower than the bump.
    is_narrow = scaled_width < 1.0
    if is_narrow.any():
        # (n_nodes, n_narrow) places inside of the narrow bins.
        a, low, high = (part[is_narrow] for part in np.broadcast_arrays(a, low, high))
        t = low + np.multiply.outer(_NODES, high - low)
        means[is_narrow] = _WEIGHTS @ np.exp(-np.square(a * t))
    return means


def _bin_pair_means(a: float, edges: Floats, right_edges: Floats) -> Floats:
    """Means over pairs of bins: closed where both are wide, else along the narrower one."""
    if len(edges) < 2 or len(right_edges) < 2:
        return np.empty((len(edges) - 1, len(right_edges) - 1))
    # All are (n_bins, n_right_bins), or broadcast to it.
    low = edges[:-1, np.newaxis]
    high = edges[1:, np.newaxis]
    right_low, right_high = np.broadcast_arrays(right_edges[:-1], right_edges[1:])
    width = high - low
    right_width = right_high - right_low
    overlap = np.minimum(high, right_high)
    overlap = np.maximum(overlap - np.maximum(low, right_low), 0.0)
    remainders = _remainder(a * (high - right_low))
    remainders += _remainder(a * (low - right_high))
    remainders -= _remainder(a * (high - right_high))
    remainders -= _remainder(a * (low - right_low))
    integral = _SQRT_PI / (2.0 * a * a) * (2.0 * a * overlap + remainders)
    area = width * right_width
    means = integral / area
    # Either bin narrower than the bump makes the closed form a difference of close numbers.
    narrower_width = np.minimum(width, right_width)
    scaled_width = narrower_width * a
    is_narrow = scaled_width < 1.0
    if is_narrow.any():
        parts = (low, high, right_low, right_high, width <= right_width)
        low, high, right_low, right_high, left_is_narrower = (
            part[is_narrow] for part in np.broadcast_arrays(*parts)
        )
        # Nodes stand along the narrower bin; each takes the closed mean over the wider one.
        start = np.where(left_is_narrower, low, right_low)
        t = start + np.multiply.outer(_NODES, narrower_width[is_narrow])
        wide_low = np.where(left_is_narrower, right_low, low)
        wide_high = np.where(left_is_narrower, right_high, high)
        node_means = _bin_mean(a, wide_low - t, wide_high - t)
        means[is_narrow] = _WEIGHTS @ node_means
    return means


def _remainder(t: Floats) -> Floats:
    """The antiderivative ``t erf(t) + exp(-t^2) / sqrt(pi)`` of erf less ``|t|``, its asymptote."""
    size = abs(t)
    bump = np.exp(-size * size)
    return bump * (1.0 / _SQRT_PI - size * erfcx(size))


def _bin_tail_mean(a: float, ends: Floats, scale: float) -> Floats:
    """Mean of :func:`tail_mean` for d uniform between neighbours of ``ends``, in either order."""
    low = np.minimum(ends[:-1], ends[1:])
    high = np.maximum(ends[:-1], ends[1:])
    width = high - low
    area = _SQRT_PI / (2.0 * a) * (erf(a * high) - erf(a * low))
    step = tail_mean(a, high, scale) - tail_mean(a, low, scale)
    means = (area - scale * step) / width
    # The difference loses digits where the bin is narrow: Gauss-Legendre along it takes over.
    t = low + np.multiply.outer(_NODES, width)
    narrow_means = _WEIGHTS @ tail_mean(a, t, scale)
    return np.where(a * width < 1.0, narrow_means, means)


def _same_side_mean(a: float, gap: float, left_scale: float, right_scale: float) -> Floats | float:
    """Mean over two tails that point the same way, the left starting ``gap`` further out."""
    # The difference of two exponential variables is a mixture of one to either side.
    ahead = tail_mean(a, -gap, left_scale)
    behind = tail_mean(a, gap, right_scale)
    total = left_scale * ahead + right_scale * behind
    scales = left_scale + right_scale
    return total / scales


def _opposite_mean(a: float, gap: float, left_scale: float, right_scale: float) -> Floats | float:
    """Mean over two tails that point away from each other, ``gap`` apart."""
    difference = left_scale - right_scale
    # Scales that are closer (relative) would divide two roundings: Gauss-Legendre averages them.
    if abs(difference) > 0.1 * max(left_scale, right_scale):
        total = left_scale * tail_mean(a, -gap, left_scale)
        total -= right_scale * tail_mean(a, -gap, right_scale)
        return total / difference
    # The mean of the derivative between both scales is the quotient of the differences.
    steps = _NODES * difference
    scales = right_scale + steps
    return _WEIGHTS @ _slope(a, -gap, scales)


def _slope(a: float, d: float, scale: Floats) -> Floats:
    """Derivative of ``scale * tail_mean(a, d, scale)`` by the scale."""
    width_ratio = a * scale
    w = 0.5 / width_ratio - a * d
    bump = np.exp(-np.square(a * d))
    direct = bump - _SQRT_PI * w * _bump_times_erfcx(a, d, scale)
    # For large w the two terms nearly cancel; the asymptotic series of erfcx does not.
    series = np.zeros_like(w)
    term = np.ones_like(w)
    far = np.maximum(w, 8.0)
    for order in range(1, 20):
        term = -term * (2 * order - 1) / (2.0 * far * far)
        series -= term
    series *= bump
    numerator = np.where(w > 8.0, series, direct)
    return numerator / (2.0 * np.square(width_ratio))
