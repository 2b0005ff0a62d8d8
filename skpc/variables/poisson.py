"""Poisson leaves, for counts: 0, 1, 2, ... without an upper end.

The table of a leaf has rate, log rate, an unused entry, and the log value of a missing cell. The
statistics are those of :func:`skpc.variables.gaussian.add_gaussian`, with the rate as the mean. The
plain twin is ``tests/naive/circuit.py``.

A count x is most probable under the rate x. All leaves divide by this probability
(:func:`log_base`), so that the values inside a circuit lie in [0, 1] and no leaf needs log(x!).
"""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from skpc._arrays import Floats, divisors
from skpc._fast_math import fast_log
from skpc._jit import inlined, internal_kernel
from skpc._random import Streams, uniform
from skpc.variables.forms import Points
from skpc.variables.leaves import Leaf, Prior

N_PARAMS = 1
N_ENTRIES = 4

#: Forms list all likely counts; a Gaussian describes counts of greater rates better.
GREATEST_RATE = 1e6
CELL = "a whole number, 0 or more,"
NEEDED = f"a rate in (0, {GREATEST_RATE:g}]"

#: Rates are used up in steps of at most this size: exp(-step) is far from the smallest float.
_LARGEST_STEP = 500.0


@inlined
def log_base(x: float) -> float:
    """Greatest log probability that any rate gives a count."""
    return x * math.log(x) - x - math.lgamma(x + 1.0) if x > 0.0 else 0.0


@inlined
def log_poisson(leaf: Leaf, table: Floats, x: float) -> float:
    """Log probability relative to :func:`log_base`."""
    # The entry of states, of which there are none, stands first.
    rate = table[leaf.first_entry + 1]
    log_rate = table[leaf.first_entry + 2]
    missing = table[leaf.first_entry + 4]
    # The logarithm of zero or of a missing cell is not used.
    positive_count = x if x > 0.0 else 1.0
    relative = x * (log_rate - fast_log(positive_count)) + (x - rate)
    return relative if x == x else missing


@internal_kernel
def draw_poisson(rate: float, streams: Streams, j: int) -> float:
    """Draw a count: waiting times until one unit of time is over, part by part of the rate."""
    # Not inlined: a loop more would slow down the draws of all other families.
    count = 0.0
    while rate > 0.0:
        step = min(rate, _LARGEST_STEP)
        rate -= step
        # Exponential times pass the step where the product of uniform numbers passes exp(-step).
        product = uniform(streams, j)
        while product > math.exp(-step):
            product *= uniform(streams, j)
            count += 1.0
    return count


def fits(rate: Floats) -> Any:
    """Whether these are valid parameters."""
    return (np.asarray(rate) > 0) & (np.asarray(rate) <= GREATEST_RATE)


def log_peak(rate: Floats) -> Floats:
    """Zero: what counts have in common is :func:`log_base`, which depends on the count."""
    return np.zeros(len(rate))


def entries(rate: Floats, highest: Floats) -> Floats:
    """Tables of many leaves, shape (4, n_leaves)."""
    return np.array([rate, np.log(rate), 0.0 * rate, 0.0 * rate])


def form(rate: Floats) -> Points:
    """The distributions of many leaves over the counts that any of their rates makes likely."""
    # Standard deviations, and counts beyond them, that hold all but 1e-17 of the mass.
    width = 12.0
    margin = 40.0
    low = float(rate.min())
    high = float(rate.max())
    least_count = max(0.0, math.floor(low - width * math.sqrt(low) - margin))
    count = np.arange(least_count, high + width * math.sqrt(high) + margin)
    rate = rate[:, np.newaxis]
    return Points(count, np.exp(xlogy(count, rate) - rate - gammaln(count + 1.0)))


def updated(statistic: Floats, param: Floats, prior: Prior) -> Floats:
    """The M-step of many leaves.

    ``statistic`` has shape (4, n_leaves). A leaf without any count stays as it is. The rate is
    kept between 1e-9 and 1e6.
    """
    smallest_rate = 1e-9
    (rate,) = param
    observed, distance, _, missing = statistic
    count = observed + missing + prior.weight
    # A missing cell counts with the rate so far, a cell of the prior with the mean of its column.
    total = distance + (observed + missing) * rate + prior.weight * prior.mean
    mean = np.clip(total / divisors(count), smallest_rate, GREATEST_RATE)
    return np.where(count > 0, mean, param)


def log_prior(rate: Floats, prior: Prior) -> Floats:
    """Mean log probability (nats) of a leaf over cells distributed like its column.

    The mean of log(x!), which no rate changes, is left out.
    """
    return prior.mean * np.log(rate) - rate
