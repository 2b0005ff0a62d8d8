"""Lattices: the evenly spaced points that all values of a column lie on."""

import math

import numpy as np

from skpc._arrays import Floats, Ints, group_sums

#: Decimals tried for a lattice, and how far (in steps) a value may be from it.
_MAX_DECIMALS = 9
OFF_LATTICE = 1e-6
#: A lattice whose step is no decimal needs more values than these.
_FEW = 8


def on_lattice(values: Floats, step: float, origin: float) -> Floats:
    """The nearest points of a lattice."""
    decimals = 1.0 / step
    if abs(decimals - round(decimals)) < 1e-9 * decimals and origin == 0.0:
        # Division gives 0.3 where a multiple of 0.1 would give 0.30000000000000004.
        return np.asarray(np.rint(values * round(decimals)) / round(decimals) + 0.0)
    nearest = origin + step * np.rint((values - origin) / step)
    scaled = step * 10.0**_MAX_DECIMALS
    # A step that is no decimal number has no digits to round to.
    if abs(scaled - round(scaled)) > 1e-3:
        return np.asarray(nearest)
    magnitude = math.floor(math.log10(step))
    digits = max(0, _MAX_DECIMALS - magnitude - 6)
    return np.asarray(np.round(nearest, min(digits, 15)) + 0.0)


def fit_lattice(points: Floats, mass: Floats) -> tuple[float, float]:
    """Step and origin of the lattice of all values but unusual ones; step 0 without a lattice."""
    # Most points of a lattice in the range of the values, and of one that has no decimal step.
    max_points = 2.0**26
    unusual = weight_without_say(float(mass.sum()))
    # About so many points rule out most lattices.
    some_points = 100
    sampled = slice(None, None, 1 + len(points) // some_points)
    for decimals in _decimals(points):
        # Most columns without a lattice show it in a few points.
        if mass[sampled][_off_lattice(points[sampled], decimals)[1]].sum() > unusual:
            continue
        whole, off = _off_lattice(points, decimals)
        if mass[off].sum() > unusual or off.all():
            continue
        # A single value is left, which only shows whether it is a whole number.
        if off.sum() == len(points) - 1:
            return (1.0, 0.0) if float(points[~off][0]).is_integer() else (0.0, 0.0)
        multiples, place = np.unique(whole[~off].astype(np.int64), return_inverse=True)
        if len(multiples) == 1:
            # With so few decimals, values this close are equal.
            continue
        step = _common_step(multiples, group_sums(place, mass[~off]), unusual - mass[off].sum())
        # So many points are as good as a line without a lattice.
        if (multiples[-1] - multiples[0]) / step > max_points:
            return 0.0, 0.0
        origin = int(multiples[len(multiples) // 2]) % step
        return step / 10.0**decimals, origin / 10.0**decimals
    return _scaled_lattice(points, mass)


def _decimals(points: Floats) -> list[int]:
    """Decimals that are tried: those of ordinary numbers, and those of the unit of the values."""
    usual = list(range(_MAX_DECIMALS + 1))
    # If half of the values are zero, the greatest one shows the unit.
    size = float(np.median(np.abs(points))) or float(np.abs(points).max())
    if size == 0.0:
        return usual
    # Most decimals of any number whose powers of ten are floats.
    most_decimals = 290
    leading = min(max(-math.floor(math.log10(size)), -most_decimals), most_decimals)
    decimals_of_unit = range(leading, leading + _MAX_DECIMALS + 1)
    return usual + [decimals for decimals in decimals_of_unit if decimals not in usual]


def _scaled_lattice(points: Floats, mass: Floats) -> tuple[float, float]:
    """Step and origin of a lattice of any step, such as that of whole numbers in another unit.

    Most neighbours are one step apart, or the nearest ones are, and values repeat.
    """
    if not _FEW < len(points) <= 0.5 * mass.sum():
        return 0.0, 0.0
    between = np.diff(points)
    for step in (float(np.median(between)), float(between.min())):
        lattice = _lattice_of_step(points, mass, step)
        if lattice[0] > 0.0:
            return lattice
    return 0.0, 0.0


def _lattice_of_step(points: Floats, mass: Floats, step: float) -> tuple[float, float]:
    """The lattice of about this step, if all values but unusual ones lie on it."""
    max_scaled = 10_000
    # Distances from a value in the middle are small, and so keep their digits.
    distance = points - points[len(points) // 2]
    for _ in range(2):
        multiples = np.rint(distance / step)
        off = np.abs(distance / step - multiples) > OFF_LATTICE
        off |= np.abs(multiples) > max_scaled
        if mass[off].sum() > weight_without_say(float(mass.sum())):
            return 0.0, 0.0
        # What rounding leaves of one step is less in many.
        ends = np.flatnonzero(~off)[[0, -1]]
        step = float(np.diff(distance[ends])[0] / np.diff(multiples[ends])[0])
    origin = float(points[len(points) // 2] % step)
    # An origin next to zero or to a whole step is zero but for rounding.
    return step, origin if min(origin, step - origin) > OFF_LATTICE * step else 0.0


def _off_lattice(points: Floats, decimals: int) -> tuple[Floats, np.ndarray]:
    """The nearest multiples of a power of ten, and which points are not there."""
    # What overflows is on no lattice.
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = points * 10.0**decimals
        whole = np.rint(scaled)
        size = np.abs(scaled)
        off = np.abs(scaled - whole) > np.maximum(OFF_LATTICE, 1e-15 * size)
    # Multiples of a step beyond which floats cannot show whether there is a lattice.
    max_multiple = 2.0**32
    return whole, off | (size > max_multiple)


def _common_step(multiples: Ints, mass: Floats, unusual: float) -> int:
    """Greatest common divisor of the distances between whole numbers, one unusual one left out."""
    distance = np.abs(multiples - multiples[len(multiples) // 2])
    before = np.gcd.accumulate(distance)
    after = np.gcd.accumulate(distance[::-1])[::-1]
    step = int(before[-1])
    # An unusual value may be left out of more than these.
    few_multiples = 6
    if len(distance) > few_multiples:
        # The divisor of all but one of the numbers, for each of them.
        without = np.gcd(np.append(0, before[:-1]), np.append(after[1:], 0))
        step = max(step, int(np.where(mass <= unusual, without, 0).max()))
    return step


def weight_without_say(total: float) -> float:
    """Weight of unusual values in a column of a total weight that do not decide what it is."""
    # From so many rows on, this share of them, and one row at least, has no say.
    rows_to_tell = 50.0
    unusual_share = 1e-3
    return max(1.0, unusual_share * total) if total >= rows_to_tell else 0.0
