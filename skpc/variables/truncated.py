"""Truncated normal distributions: log masses, moments and quantiles within intervals.

One quadrature rule serves all intervals. It covers the part of an interval that begins at the point
nearest to the mean; the part beyond has less than 1e-16 of the mass. Weights are relative to the
density at that point, so that nothing underflows far out in a tail, and no difference of two nearly
equal probabilities is taken. The plain twin is :func:`tests.naive.events.truncated_moments`, by
integrals of mpmath or scipy.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from skpc._arrays import Floats
from skpc.variables.normal_cells import HALF_LOG_2_PI

#: Nodes and weights on (0, 1). The integrand is exp(-t) with t up to the reach below, or half of a
#: bell of 18 standard deviations, which polynomials of this degree follow to the last digits.
_NODES, _WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(48))
_NODES = _NODES + 0.5


def truncated_nodes(low: Floats, high: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """A quadrature of the standard normal distribution within intervals.

    Parameters
    ----------
    low, high : ndarrays of one shape
        The ends, which may be infinite; an empty interval has ``high <= low``.

    Returns
    -------
    log_mass : ndarray of this shape
        In nats; -inf for an empty interval.
    nearest : ndarray of this shape
        The point of each interval that is nearest to the mean.
    steps, shares : ndarrays of shape (n_nodes, ...)
        The nodes, counted from that point, and their shares of the mass, which sum to one.
    """
    # Where the density is below exp(-reach) of its greatest value, it is left out.
    reach = 40.0
    low, high = np.broadcast_arrays(low, high)
    is_empty = ~(low < high)
    # The greatest density is at the point of the interval that is nearest to the mean.
    nearest = np.where(is_empty, 0.0, np.clip(0.0, low, high))
    far = np.sqrt(nearest * nearest + 2.0 * reach)
    begin = np.where(is_empty, 0.0, np.maximum(low, -far))
    size = np.where(is_empty, 1.0, np.minimum(high, far) - begin)
    along = (slice(None), *[np.newaxis] * low.ndim)
    # From the nearest point on: the difference of two large squares would lose digits.
    steps = (begin - nearest) + _NODES[along] * size
    shares = _WEIGHTS[along] * np.exp(-steps * (nearest + 0.5 * steps))
    mass = shares.sum(axis=0)
    log_mass = np.log(mass * size) - 0.5 * nearest * nearest - HALF_LOG_2_PI
    return np.where(is_empty, -np.inf, log_mass), nearest, steps, shares / mass


def truncated_normal(low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Log mass, mean and mean square of the standard normal distribution in intervals.

    Parameters
    ----------
    low, high : ndarrays of one shape
        The ends, which may be infinite; an empty interval has ``high <= low``.

    Returns
    -------
    log_mass, mean, mean_square : ndarrays of this shape
        In nats; the moments of an empty interval do not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.truncated import truncated_normal
    >>> log_mass, mean, _ = truncated_normal(
    ...     np.array([0.0, 40.0]), np.array([np.inf, np.inf])
    ... )
    >>> log_mass.round(4).tolist(), mean.round(4).tolist()
    ([-0.6931, -804.6084], [0.7979, 40.025])
    """
    log_mass, nearest, steps, shares = truncated_nodes(low, high)
    mean_step = (shares * steps).sum(axis=0)
    square_step = (shares * steps * steps).sum(axis=0)
    mean_square = nearest * nearest + 2.0 * nearest * mean_step + square_step
    return log_mass, nearest + mean_step, mean_square


def truncated_quantiles(low: Floats, high: Floats, level: Floats) -> Floats:
    """Quantiles of the standard normal distribution within intervals."""
    # On the side of the mean that an interval is on, the digits of small differences stay.
    is_above = low > 0.0
    begin = ndtr(np.where(is_above, -low, low))
    end = ndtr(np.where(is_above, -high, high))
    z = ndtri(begin + level * (end - begin))
    z = np.where(is_above, -z, z)
    # Far out both ends have the same probability: quantiles are at the nearest point.
    nearest = np.clip(0.0, low, high)
    return np.clip(np.where(np.isfinite(z), z, nearest), low, high)
