"""Normal distributions within an interval: the log of its mass, and the moments there.

A quadrature of one rule serves all intervals, because it follows the mass: the part of the interval
that lies further out than the nearest point by more than the rule can see has less than 1e-16 of
it. Weights are relative to the density at the nearest point, so nothing underflows, however far in
the tail the interval is, and no difference of two nearly equal probabilities is taken. The truth is
:func:`tests.naive.events.truncated_moments`, by mpmath's or scipy's integrals.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from skpc._arrays import Floats

#: Nodes and weights on (0, 1). The integrand is exp(-t) with t up to the reach below, or half of a
#: bell of 18 standard deviations, which polynomials of this degree follow to the last digits.
_NODES, _WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(48))
_NODES = _NODES + 0.5
LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


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
    # The density falls to exp(-40) of its greatest value before the rest is left out.
    reach = 40.0
    low, high = np.broadcast_arrays(low, high)
    is_empty = ~(low < high)
    # The greatest density is at the point of the interval that is nearest to the mean.
    nearest = np.where(is_empty, 0.0, np.clip(0.0, low, high))
    # Beyond these ends the density is below exp(-reach) of the greatest one.
    far = np.sqrt(nearest * nearest + 2.0 * reach)
    begin = np.where(is_empty, 0.0, np.maximum(low, -far))
    size = np.where(is_empty, 1.0, np.minimum(high, far) - begin)
    along = (slice(None), *[np.newaxis] * low.ndim)
    # From the nearest point on: the difference of two large squares would lose digits.
    steps = (begin - nearest) + _NODES[along] * size
    shares = _WEIGHTS[along] * np.exp(-steps * (nearest + 0.5 * steps))
    mass = shares.sum(axis=0)
    log_mass = np.log(mass * size) - 0.5 * nearest * nearest - LOG_SQRT_2_PI
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
    first_moment = (shares * steps).sum(axis=0)
    second = (shares * steps * steps).sum(axis=0)
    return (
        log_mass,
        nearest + first_moment,
        nearest * nearest + 2.0 * nearest * first_moment + second,
    )


def truncated_quantiles(low: Floats, high: Floats, level: Floats) -> Floats:
    """Quantiles of the standard normal distribution within intervals."""
    # On the side of the mean that an interval is on, the digits of small differences stay.
    is_above = low > 0.0
    begin = ndtr(np.where(is_above, -low, low))
    end = ndtr(np.where(is_above, -high, high))
    z = ndtri(begin + level * (end - begin))
    z = np.where(is_above, -z, z)
    # Out there the normal has no digits left.
    nearest = np.clip(0.0, low, high)
    return np.clip(np.where(np.isfinite(z), z, nearest), low, high)
