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
NARROW_EXPONENT = 0.1
NARROW_WIDTH = 0.04
#: The smallest mass that has a logarithm.
LEAST_MASS = 1e-300


@inlined
def log_narrow_cell(u: float, width: float) -> float:
    """:func:`log_cell` by its cumulants, up to the sixth."""
    b = width * width
    a = u * u * b
    second = (a - b) / 24.0
    fourth = (-a * a - 4.0 * a * b + 2.0 * b * b) / 2880.0
    sixth = a * a * (a / 181440.0 + b / 30240.0) + b * b * (a / 60480.0 - b / 181440.0)
    return second + fourth + sixth


@internal_kernel
def log_cell(u: float, width: float) -> float:
    """Log of the mean density of a standard normal in a cell, less that in its middle ``u``.

    With t uniform in [-1/2, 1/2] it is

    .. math:: \\log E[\\cosh(u w t) e^{-(w t)^2 / 2}],

    where :math:`w` is the width.
    """
    b = width * width
    square = u * u * b
    # In wider cells, or further out, more than five terms would be needed.
    if square < 2.25 and b < 0.2:
        half = -0.5 * b
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
                cosh_term *= square / ((2 * cosh_order + 1) * (2 * cosh_order + 2))
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
    # Beyond so many standard deviations the tail needs its asymptotic series.
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
