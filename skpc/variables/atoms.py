"""Atoms: the values of a column that have probabilities of their own; and values up to rounding."""

import math

import numpy as np
from scipy.special import logit

from skpc._arrays import ROUNDING, Floats, exact_group_sums
from skpc.variables.histogram import TINY

#: An atom has at least so many rows, and ordered states have as many on average.
_FEW_ROWS = 8.0
#: The count of an atom is compared with those of so many neighbours.
_NEAREST = 6
#: Values are one if they differ by less than this part of their size, or of a typical size; except
#: in a column that spreads over hardly more than that, far away from zero.
ROUNDING_OF_VALUES = 1e-12
_FEW_FLOATS = 16.0 * np.finfo(float).eps


def distinct(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The distinct numbers of a column, increasing, and their weights; NaN is left out.

    A weight of two counts exactly like two rows. Values that differ by rounding are one value.
    """
    # A column of a table is strided: one contiguous copy is faster to index.
    values = values + 0.0
    observed = ~np.isnan(values)
    order = np.argsort(values[observed])
    points = values[observed][order]
    weight = weight[observed][order]
    is_first = np.append(True, points[1:] != points[:-1])[: len(points)]
    # Of values that differ by rounding alone, the smallest stands for all.
    is_first[is_first] = np.append(True, are_apart(points[is_first]))[: len(points)]
    return points[is_first], exact_group_sums(np.cumsum(is_first) - 1, weight)


def are_apart(points: Floats) -> np.ndarray:
    """Whether neighbours of increasing values differ by more than rounding.

    One wild value must not make all others equal, so the greatest one does not count.
    """
    size = np.abs(points)
    typical = np.median(size) if len(size) else 0.0
    nearby = np.maximum(np.maximum(size[1:], size[:-1]), typical)
    nearby = np.minimum(nearby, largest_size(points))
    return np.diff(points) > np.maximum(ROUNDING_OF_VALUES * nearby, TINY)


def largest_size(points: Floats) -> float:
    """The largest magnitude that sets the size of rounding among increasing values."""
    if len(points) < 2:
        return math.inf
    # The outer tenths are left out, so that no wild value widens the spread.
    outer = len(points) // 10
    low = float(points[outer])
    high = float(points[-1 - outer])
    # Values that spread over a few neighbouring floats differ by rounding alone.
    is_single = high - low <= _FEW_FLOATS * max(abs(low), abs(high))
    # Sizes beyond this many spreads count as so many.
    most_spreads = 1e6
    return math.inf if is_single else most_spreads * (high - low)


def are_states(points: Floats, mass: Floats, step: float) -> bool:
    """Whether a column has so few values that all of them are atoms."""
    # Small whole numbers are states, and so are few values, such as brackets, doses and prices.
    # Codes may be more values, if most neighbours are many steps of the lattice apart.
    most_small = 15.0
    max_states = 20
    max_apart = 50
    steps_apart = 8.0
    if step > 0.0 and len(points) > 1 and np.median(np.diff(points)) >= steps_apart * step:
        max_states = max_apart
    are_small = points[0] >= 0.0 and points[-1] <= most_small and np.all(points % 1.0 == 0.0)
    are_few = len(points) <= max_states and mass.sum() >= _FEW_ROWS * len(points)
    return bool(are_small or are_few)


def middles(points: Floats) -> Floats:
    """Middles between neighbours."""
    return points[:-1] + 0.5 * np.diff(points)


def cell_cuts(points: Floats, mass: Floats, atoms: Floats) -> Floats:
    """Upper ends of the cells of values without a lattice, but for the last cell.

    The density is smooth, but rows may crowd on round numbers. So the width of a cell is
    proportional to the frequency of its value, within blocks of neighbouring values. Near the
    median a block has about as many rows as the square root of their number; near the ends, where
    the density is steep, it has fewer. An atom between two values is the end of their cells.
    """
    # Cells end halfway between values, or at the atom that lies there.
    border = np.concatenate([points[:1], middles(points), points[-1:]])
    place = np.searchsorted(points, atoms)
    between = (place > 0) & (place < len(points))
    border[place[between]] = atoms[between]
    below = np.append(0.0, np.cumsum(mass))
    total = below[-1]
    # Blocks have equal lengths in log-odds of the rank, and so fewer rows near the ends.
    block = np.floor(0.25 * math.sqrt(total) * logit((below + 0.5) / (total + 1.0)))
    is_edge = np.append(True, block[1:] > block[:-1])
    # An atom between two values ends a block, and so does the last value.
    is_edge[place[between]] = True
    is_edge[-1] = True
    # Within a block the borders follow the mass; the outer ends of all cells are no cuts.
    return np.interp(below, below[is_edge], border[is_edge])[1:-1]


def unseen_mass(mass: Floats) -> float:
    """Probability that a new row has another value than the rows with these weights."""
    return float((mass[mass <= 1.0 + ROUNDING].sum() + 0.5) / (mass.sum() + 1.0))


def have_repeats(points: Floats, mass: Floats) -> bool:
    """Whether so many rows share their values that draws should be such values, too."""
    # A new row must have a new value with less than this probability, and values must be few.
    most_unseen = 0.5
    max_values = 10_000
    return len(points) <= max_values and unseen_mass(mass) < most_unseen


def repeated(values: Floats, weight: Floats) -> Floats:
    """Values of a column that repeat much more than their neighbours do; NaN is left out."""
    return repeated_points(*distinct(values, weight), 0.0)


def repeated_points(points: Floats, mass: Floats, step: float) -> Floats:
    """The atoms among distinct values, on a lattice or without one."""
    total = float(mass.sum())
    if len(points) == 1:
        return points
    has_lattice = step > 0.0
    # An atom holds a share of the rows, and several times the mean count of its neighbours: of the
    # nearest points of a lattice, whether they occur or not, elsewhere of the nearest values. Fewer
    # times are enough for a large share.
    large_share = 0.05
    times_of_large = 4.0
    small_share = 0.002 if has_lattice else 0.01
    times_of_small = 4.0 if has_lattice else 8.0
    by_share = large_share * total
    by_count = max(_FEW_ROWS, small_share * total)
    chosen = []
    for place in np.flatnonzero(mass >= min(by_share, by_count)).tolist():
        near = np.arange(max(place - _NEAREST, 0), min(place + _NEAREST + 1, len(points)))
        near = near[near != place]
        distance = np.abs(points[near] - points[place])
        nearest = np.argsort(distance, kind="stable")[:_NEAREST]
        n_near = len(nearest)
        if has_lattice:
            n_near = max(2 * round(float(distance[nearest].max()) / step), 1)
        around = mass[near[nearest]].sum() / n_near
        often = mass[place] >= by_share and mass[place] >= times_of_large * around
        often |= mass[place] >= by_count and mass[place] >= times_of_small * around
        if often or (mass[place] >= by_count and _is_isolated(points, place)):
            chosen.append(place)
    # The heaviest come first, as atoms beyond the greatest number are dropped.
    chosen.sort(key=lambda place: -mass[place])
    # Most atoms without a lattice; and on one, or one for so many rows if these are more.
    max_atoms = 8
    max_on_lattice = 20
    rows_of_atom = 40.0
    most_atoms = max(max_on_lattice, int(total / rows_of_atom)) if has_lattice else max_atoms
    return np.sort(points[chosen[:most_atoms]])


def _is_isolated(points: Floats, place: int) -> bool:
    """Whether a value at either end is far away from all others."""
    if len(points) <= _NEAREST or place not in (0, len(points) - 1):
        return False
    other_points = np.delete(points, place)
    gap = np.abs(other_points - points[place]).min()
    # An extreme value that repeats is an atom if it is this part of the range of the others away
    # from them: a code for missing cells, say.
    isolated = 0.25
    other_range = other_points[-1] - other_points[0]
    return bool(gap > isolated * other_range)
