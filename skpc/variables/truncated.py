"""Normal distributions within an interval: the log of its mass, and the moments there.

A quadrature of one rule serves all intervals, because it follows the mass: the part of the interval
that lies further out than the nearest point by more than the rule can see has less than 1e-16 of
it. Weights are relative to the density at the nearest point, so nothing underflows, however far in
the tail the interval is, and no difference of two nearly equal probabilities is taken. The truth is
:func:`tests.naive.events.truncated_moments`, by mpmath's or scipy's integrals.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtr, ndtri

from skpc._arrays import Floats, Ints
from skpc._fitting import Rows, Statistics, Stop, learn

#: Nodes and weights on (0, 1). The integrand is exp(-t) with t up to the reach below, or half of a
#: bell of 18 standard deviations, which polynomials of this degree follow to the last digits.
_NODES, _WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(48))
_NODES = _NODES + 0.5
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


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
    log_mass = np.log(mass * size) - 0.5 * nearest * nearest - _LOG_SQRT_2_PI
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
    begin, end = (ndtr(np.where(is_above, -side, side)) for side in (low, high))
    z = ndtri(begin + level * (end - begin))
    z = np.where(is_above, -z, z)
    # Out there the normal has no digits left.
    nearest = np.clip(0.0, low, high)
    return np.clip(np.where(np.isfinite(z), z, nearest), low, high)


def censored_regression(
    design: Floats,
    scores: Floats,
    ranges: tuple[Ints, Floats, Floats],
    weight: Floats,
    ridge: Floats,
) -> tuple[Floats, float, float]:
    """Linear regression of scores of which some are known as ranges.

    It is that of Tobin ("Estimation of relationships for limited dependent variables", 1958), by EM
    with the moments of truncated normals.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_columns)
        Of full rank, where the ridge is zero.
    scores : ndarray of shape (n_rows,)
        Those of ranges are where EM begins.
    ranges : (rows, low, high)
        The rows with ranges, and their ends, some of them infinite.
    weight : ndarray of shape (n_rows,)
        Positive.
    ridge : ndarray of shape (n_columns,)
        In rows.

    Returns
    -------
    mean : ndarray of shape (n_rows,)
    sd : float
        Deviation around the means.
    log_likelihood : float
        In nats.
    """
    smallest = 1e-6
    weighted = design * weight[:, np.newaxis]
    gram = weighted.T @ design
    coef: Floats = np.linalg.inv(gram + np.diag(ridge)) @ (weighted.T @ scores)
    total = weight.sum()
    centre = weight @ scores / total
    spread = float(np.sqrt(weight @ (scores - centre) ** 2 / total))
    least = smallest * (spread or abs(centre) or 1.0)
    sd = max(float(np.sqrt(weight @ (scores - design @ coef) ** 2 / total)), least)
    start = CensoredNormal(coef, sd, gram, ridge, least)
    rows = CensoredRows(design, scores, *ranges)
    n_steps = 29
    line = learn([start], Rows(rows, weight), Stop(n_steps)).model
    return design @ line.coef, line.sd, line.expected(rows, weight).log_likelihood


class CensoredRows(NamedTuple):
    """Rows with scores, and the ranges of those that are not known; see the regression."""

    design: Floats
    scores: Floats
    place: Ints
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Residuals(Statistics):
    """Sums of rows: weights, products of design and residuals, squares of these."""

    weight: float
    product: Floats
    square: float
    log_likelihood: float


class CensoredNormal(NamedTuple):
    """The model of the regression; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    coef : ndarray of shape (n_columns,)
    sd : float
    gram : ndarray of shape (n_columns, n_columns)
        Weighted products of the columns of the design.
    ridge : ndarray of shape (n_columns,)
    least : float
        The least deviation.
    """

    coef: Floats
    sd: float
    gram: Floats
    ridge: Floats
    least: float

    def expected(self, rows: CensoredRows, weight: Floats) -> Residuals:
        """The E-step: moments of normals within ranges."""
        mean = rows.design @ self.coef
        residual = (rows.scores - mean) / self.sd
        log_density = -0.5 * residual * residual - math.log(self.sd) - _LOG_SQRT_2_PI
        square = residual * residual
        place = rows.place
        ends = ((end - mean[place]) / self.sd for end in (rows.low, rows.high))
        # Where a score is known as a range, expectations within it take its place.
        log_density[place], residual[place], square[place] = truncated_normal(*ends)
        return Residuals(
            float(weight.sum()),
            self.sd * (rows.design.T @ (weight * residual)),
            self.sd**2 * float(weight @ square),
            float(weight @ log_density),
        )

    def m_step(self, sums: Residuals) -> Self:
        """Least squares around the line so far."""
        # The gradient at the line so far; as squares are quadratic, one step is exact.
        slope = sums.product - self.ridge * self.coef
        move = np.linalg.solve(self.gram + np.diag(self.ridge), slope)
        # Squares around the new line, from sums around the line so far.
        square = sums.square - 2.0 * move @ sums.product + move @ self.gram @ move
        sd = max(math.sqrt(max(float(square) / sums.weight, 0.0)), self.least)
        return self._replace(coef=self.coef + move, sd=sd)
