"""Lattices: the evenly spaced points that all values of a column lie on."""

import math

import numpy as np

from skpc._arrays import Floats, Ints, group_sums

#: Most decimals tried for a lattice, and the distance (in steps) up to which a value is on it.
_MAX_DECIMALS = 9
OFF_LATTICE = 1e-6
#: A lattice whose step is no decimal needs more values than these.
_FEW = 8


def on_lattice(values: Floats, step: float, origin: float) -> Floats:
    """The nearest points of a lattice."""
    decimals = 1.0 / step
    if abs(decimals - round(decimals)) < 1e-9 * decimals and origin == 0.0:
        # A quotient is the nearest float: 3 / 10 is 0.3, but 3 * 0.1 is 0.30000000000000004.
        return np.rint(values * round(decimals)) / round(decimals) + 0.0
    nearest = origin + step * np.rint((values - origin) / step)
    scaled = step * 10.0**_MAX_DECIMALS
    # A step that is no decimal number has no digits to round to.
    if abs(scaled - round(scaled)) > 1e-3:
        return nearest
    digits = max(0, _MAX_DECIMALS - math.floor(math.log10(step)) - 6)
    return np.round(nearest, min(digits, 15)) + 0.0


def fit_lattice(points: Floats, mass: Floats) -> tuple[float, float]:
    """Step and origin of the lattice of all values but unusual ones; step 0 without a lattice."""
    # A lattice of more points in the range of the values is as good as a line without a lattice.
    max_points = 2.0**26
    unusual = unusual_weight(float(mass.sum()))
    # About so many points rule out most lattices.
    sample_size = 100
    sampled = slice(None, None, 1 + len(points) // sample_size)
    for decimals in _decimals(points):
        if mass[sampled][_off_lattice(points[sampled], decimals)[1]].sum() > unusual:
            continue
        whole, off = _off_lattice(points, decimals)
        if mass[off].sum() > unusual or off.all():
            continue
        # A single value on the lattice shows only whether it is a whole number.
        if off.sum() == len(points) - 1:
            return (1.0, 0.0) if float(points[~off][0]).is_integer() else (0.0, 0.0)
        multiples, place = np.unique(whole[~off].astype(np.int64), return_inverse=True)
        if len(multiples) == 1:
            # These decimals are too few to tell the values apart.
            continue
        step = _common_step(multiples, group_sums(place, mass[~off]), unusual - mass[off].sum())
        if (multiples[-1] - multiples[0]) / step > max_points:
            return 0.0, 0.0
        origin = int(multiples[len(multiples) // 2]) % step
        return step / 10.0**decimals, origin / 10.0**decimals
    return _scaled_lattice(points, mass)


def _decimals(points: Floats) -> list[int]:
    """Decimals that are tried: those of ordinary numbers, and those of the unit of the values."""
    usual = list(range(_MAX_DECIMALS + 1))
    # If the median is zero, the greatest value shows the unit.
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

    Candidates are the median and the least distance of neighbours. Values must repeat.
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
    # A lattice without a decimal step has at most so many points on either side of its middle.
    max_scaled = 10_000
    # Distances from a value in the middle are small, and so keep their digits.
    distance = points - points[len(points) // 2]
    for _ in range(2):
        multiples = np.rint(distance / step)
        off = np.abs(distance / step - multiples) > OFF_LATTICE
        off |= np.abs(multiples) > max_scaled
        if mass[off].sum() > unusual_weight(float(mass.sum())):
            return 0.0, 0.0
        # The distance of far points tells the step more exactly than that of neighbours.
        ends = np.flatnonzero(~off)[[0, -1]]
        step = float(np.diff(distance[ends])[0] / np.diff(multiples[ends])[0])
    origin = float(points[len(points) // 2] % step)
    # Next to zero, or to one step, the origin is zero with an error of rounding.
    return step, origin if min(origin, step - origin) > OFF_LATTICE * step else 0.0


def _off_lattice(points: Floats, decimals: int) -> tuple[Floats, np.ndarray]:
    """The nearest multiples of a power of ten, and which points are not there."""
    # Products that overflow are on no lattice.
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = points * 10.0**decimals
        whole = np.rint(scaled)
        size = np.abs(scaled)
        off = np.abs(scaled - whole) > np.maximum(OFF_LATTICE, 1e-15 * size)
    # Multiples of a step beyond which floats cannot show whether there is a lattice.
    max_multiple = 2.0**32
    return whole, off | (size > max_multiple)


def _common_step(multiples: Ints, mass: Floats, unusual: float) -> int:
    """Greatest common divisor of the distances of whole numbers, one unusual number left out."""
    distance = np.abs(multiples - multiples[len(multiples) // 2])
    before = np.gcd.accumulate(distance)
    after = np.gcd.accumulate(distance[::-1])[::-1]
    step = int(before[-1])
    # Of so few numbers none is left out.
    few_multiples = 6
    if len(distance) > few_multiples:
        # The divisor of all but one of the numbers, for each of them.
        without = np.gcd(np.append(0, before[:-1]), np.append(after[1:], 0))
        step = max(step, int(np.where(mass <= unusual, without, 0).max()))
    return step


def unusual_weight(total: float) -> float:
    """Weight that unusual values of a column may have without deciding what the column is."""
    # A small share of the rows, and one row at least, may be unusual; in small tables none.
    small_table = 50.0
    unusual_share = 1e-3
    return max(1.0, unusual_share * total) if total >= small_table else 0.0
