"""Masses of cells of a normal distribution, for kernels, also far out in the tails.

The mass of a narrow cell would be a difference of two nearly equal numbers. So it is computed
relative to the density in the middle of the cell, by a series, which vectorises.
"""

import math

import numpy as np

from skpc._jit import inlined, internal_kernel

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
#: Cells are narrow up to these squares: of the width times the distance of the middle from the
#: mean, and of the width. There the error of :func:`log_narrow_cell` is below 1e-10.
NARROW_EXPONENT_SQUARED = 0.1
NARROW_WIDTH_SQUARED = 0.04
#: A smaller mass is taken as this before its logarithm is.
LEAST_MASS = 1e-300


@inlined
def log_narrow_cell(u: float, width: float) -> float:
    """:func:`log_cell` of a narrow cell: its series in the width, up to the sixth power."""
    # The squares of the width, and of the width times the distance from the mean.
    width2 = width * width
    exponent2 = u * u * width2
    second = (exponent2 - width2) / 24.0
    fourth = (-exponent2 * exponent2 - 4.0 * exponent2 * width2 + 2.0 * width2 * width2) / 2880.0
    sixth = exponent2 * exponent2 * (exponent2 / 181440.0 + width2 / 30240.0)
    sixth += width2 * width2 * (exponent2 / 60480.0 - width2 / 181440.0)
    return second + fourth + sixth


@internal_kernel
def log_cell(u: float, width: float) -> float:
    """Log of the mean density of a standard normal in a cell, less that in its middle ``u``.

    With t uniform in [-1/2, 1/2] it is

    .. math:: \\log E[\\cosh(u w t) e^{-(w t)^2 / 2}],

    where :math:`w` is the width.
    """
    width2 = width * width
    exponent2 = u * u * width2
    # In wider cells, or further out, more than five terms would be needed.
    if exponent2 < 2.25 and width2 < 0.2:
        half = -0.5 * width2
        total = 0.0
        # E[t^2] = 1 / (3 * 4), E[t^4] = 1 / (5 * 16), and so on.
        quarters = 1.0
        for order in range(1, 6):
            quarters *= 0.25
            # The coefficient of t^(2 order) in the product of the series of both factors.
            coefficient = 0.0
            cosh_term = 1.0
            for cosh_order in range(order + 1):
                exp_term = 1.0
                for k in range(1, order - cosh_order + 1):
                    exp_term *= half / k
                coefficient += cosh_term * exp_term
                cosh_term *= exponent2 / ((2 * cosh_order + 1) * (2 * cosh_order + 2))
            total += coefficient * quarters / (2 * order + 1)
        return math.log1p(total)
    log_mass = log_mass_between(u - 0.5 * width, u + 0.5 * width)
    return log_mass - math.log(width) + 0.5 * u * u + HALF_LOG_2_PI


@internal_kernel
def log_mass_between(low: float, high: float) -> float:
    """Log mass of a standard normal between two numbers; either may be infinite."""
    # Mirrored, so that the middle is not below the mean: there small masses keep their digits.
    if low + high < 0.0:
        low, high = -high, -low
    # Up to 30 standard deviations from the mean erfc does not underflow.
    if low < 30.0:
        upper = math.erfc(high * math.sqrt(0.5))
        mass = 0.5 * (math.erfc(low * math.sqrt(0.5)) - upper)
        return math.log(max(mass, LEAST_MASS))
    # The part of the tail beyond the far edge is subtracted.
    beyond = math.exp(-0.5 * (high - low) * (high + low)) * _tail(high) if high < np.inf else 0.0
    return math.log(max(_tail(low) - beyond, LEAST_MASS)) - 0.5 * low * low - HALF_LOG_2_PI


@inlined
def _tail(x: float) -> float:
    """Mass of a standard normal beyond a number over its density there, by the first terms of the
    asymptotic series."""
    inverse = 1.0 / (x * x)
    series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - 105.0 * inverse)))
    return series / x
