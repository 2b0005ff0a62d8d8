"""The margin of a numeric column, its distribution by itself, as a histogram.

:func:`fit_histogram` estimates it with a kernel and keeps atoms apart; bins are made of its cells.
:func:`plain_axis` has bins of equal mass and nothing more, as in the papers.
"""

from functools import lru_cache

import numpy as np
from scipy.fft import dct, idct

from skpc._arrays import (
    ROUNDING,
    Bools,
    Floats,
    Ints,
    exact_group_sums,
    group_sums,
    weighted_quantiles,
)
from skpc.variables.atoms import are_apart, distinct
from skpc.variables.histogram import NOTHING, ROWS_PER_CELL, TINY, Histogram
from skpc.variables.law import Law

#: Largest number of bins of a column, unless a user says otherwise.
MOST_BINS = 20
#: Cells of an axis, about, and bandwidths compared, in cells of the grid.
_AXIS_CELLS = 64
_BANDWIDTHS = np.r_[0.0, np.geomspace(0.35, 100.0, 24)]


def fit_histogram(values: Floats, weight: Floats, law: Law) -> Histogram:
    """The distribution of a column alone, as the finest histogram that bins are made from.

    It has the atoms of the column, and for the other values a kernel estimate on the scale of the
    score (on the lattice itself, if that has few points). Leave-one-out likelihood chooses the
    bandwidth, and the estimate is reflected at the ends of the range. Each tail beyond the range
    has the probability 1 / (n + 1) that the next of n + 1 exchangeable values is the greatest.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Numbers, at least one of them; NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    law : Law
        What the column is.

    Returns
    -------
    Histogram
        Each cell is a state. The shares are the masses of cells without frequent atoms, tails
        included, or of ordered states, and sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Law, fit_histogram
    >>> values = np.append(np.zeros(100), np.arange(1.0, 101.0))
    >>> finest = fit_histogram(values, np.ones(200), Law.fit(values, np.ones(200)))
    >>> axis = finest.binned(2)
    >>> axis.n_states, axis.atoms, axis.states_of(np.array([0.0, 1.0, 100.0]))
    (3, array([0.]), array([0, 1, 2]))
    """
    points, mass = distinct(values, weight)
    total = float(mass.sum())
    if law.is_ordered:
        return _histogram_of_states(points, mass, law)
    is_free = ~law.is_atom(points)
    atoms = points[~is_free]
    atom_mass = mass[~is_free]
    points = points[is_free]
    mass = mass[is_free]
    edges, cumulated = _smoothed_margin(points, mass, law) if len(points) else _edges_between(law)
    edges, cumulated, point = _with_atoms(edges, cumulated, law)
    # With less than three values each tail has a quarter, so that half of the mass is between.
    beyond = 1.0 / max(float(mass.sum() or total) + 1.0, 4.0)
    low, high = _tail_ends(edges, law)
    # No row can be in a tail without room.
    has_room = np.array([low < edges[0], edges[-1] < high])
    tail_masses = np.where(has_room, beyond, NOTHING)
    masses = _cell_masses(cumulated, point, beyond, tail_masses)
    n_others = float(mass.sum())
    if n_others > 0.0:
        # Frequent atoms are states of their own; the others are cells of the bins around them.
        are_states = _are_frequent(atom_mass, total)
        # An atom at an end is a state, too: zeros are apart from small values.
        are_states |= np.isin(atoms, [law.low, law.high])
        binned_mass = atom_mass[~are_states].sum()
        masses *= n_others / (n_others + binned_mass)
        cells = np.searchsorted(edges, atoms[~are_states], side="right")
        masses[cells] = atom_mass[~are_states] / (n_others + binned_mass)
        n_others += float(binned_mass)
    tails = _tail_scales(points, mass, law)
    return Histogram(edges, *tails, None, masses, point, low, high, law.step, n_others)


def _histogram_of_states(points: Floats, mass: Floats, law: Law) -> Histogram:
    """:func:`fit_histogram` of ordered states: their shares, and next to nothing between them."""
    edges, _, point = _with_atoms(*_edges_between(law), law)
    counts = group_sums(np.searchsorted(edges, points, side="right"), mass, len(point))
    # Half a row is added to each state: one that these rows lack may come.
    counts = np.where(np.isnan(point), 0.0, counts + 0.5)
    shares = counts / counts.sum()
    masses = np.where(np.isnan(point), NOTHING, shares)
    tails = _tail_scales(np.empty(0), np.empty(0), law)
    ends = _tail_ends(edges, law)
    return Histogram(edges, *tails, None, masses, point, *ends, law.step, float(mass.sum()))


def _are_frequent(mass: Floats, total: float) -> Bools:
    """Which atoms are so frequent that they are states of their own."""
    # At most so many atoms are, and each has at least this part of the rows.
    most_states = 8
    least_part = 0.05
    is_frequent = mass >= least_part * total
    is_frequent[np.argsort(-mass, kind="stable")[most_states:]] = False
    return is_frequent


def _tail_ends(edges: Floats, law: Law) -> tuple[float, float]:
    """Where the tails end; an atom at an end of the column has a cell around it."""
    low, high = law.edges_of_ends
    return min(low, float(edges[0])), max(high, float(edges[-1]))


def _smoothed_margin(points: Floats, mass: Floats, law: Law) -> tuple[Floats, Floats]:
    """Edges over the range of the values, and the part of their mass that lies below each."""
    # Cells of the grid on which the margin is smoothed.
    grid_cells = 512
    # The outermost cells begin and end at most this part of the range beyond it.
    widened = 0.01
    step = law.step
    size = points[-1] - points[0]
    if step == 0.0 and len(points) == 1:
        half = 1e-6 * (abs(points[0]) or 1.0)
        return np.array([points[0] - half, points[0] + half]), np.array([0.0, 1.0])
    # A lattice of fewer points is its own grid; else the grid is even on the scale of the score.
    lattice_cells = 200
    has_grid = step > 0.0 and size / step < lattice_cells
    z = points if has_grid else law.transform(points)
    n_cells = round(size / step) + 1 if has_grid else grid_cells
    width = step if has_grid else (z[-1] - z[0]) / (n_cells - 1)
    # Cells lie around the points of the grid.
    ends = z[0] + width * (np.arange(n_cells + 1) - 0.5)
    place = np.clip(np.searchsorted(ends, z, side="right") - 1, 0, n_cells - 1)
    below = np.append(0.0, np.cumsum(_smoothed(place, mass, n_cells, tied=step > 0.0)))
    if has_grid:
        return ends, below
    edges = law.inverse(ends)
    chosen = _coarse_edges(below, ends)
    edges = edges[chosen]
    below = below[chosen]
    if step > 0.0:
        # Edges move halfway between points of the lattice.
        edges = law.origin + step * (np.floor((edges - law.origin) / step) + 0.5)
        edges[-1] = points[-1] + step / 2.0
        edges[0] = points[0] - step / 2.0
        # Of edges that have become the same, the last one counts, with the mass below it.
        edges, last = np.unique(edges[::-1], return_index=True)
        below = below[::-1][last]
        below[0] = 0.0
    else:
        low, high = law.ends
        # The outermost edges lie a little beyond the values, but not beyond the ends.
        edges[0] = max(edges[0], low, points[0] - widened * size)
        edges[-1] = min(edges[-1], high, points[-1] + widened * size)
        # An edge belongs to the cell above it: the greatest value must lie below the last one.
        edges[-1] = max(edges[-1], np.nextafter(points[-1], np.inf))
    apart = np.append(True, are_apart(edges))
    return edges[apart], below[apart]


def _coarse_edges(below: Floats, ends: Floats) -> Ints:
    """Which edges of the grid are edges of the axis."""
    # Part of the mass and part of the distance so far: where mass is dense, cells are narrow.
    progress = below + (ends - ends[0]) / (ends[-1] - ends[0])
    wanted = np.linspace(0.0, 2.0, _AXIS_CELLS + 1)
    chosen = np.unique(np.searchsorted(progress, wanted[1:-1]))
    return np.unique(np.concatenate([[0], chosen, [len(ends) - 1]]))


def _smoothed(place: Ints, mass: Floats, n_cells: int, tied: bool) -> Floats:
    """Smooth the masses of cells by the bandwidth of the greatest leave-one-out likelihood.

    ``place`` has the cell of each value, increasing. Where values are tied by a lattice, one row is
    left out at a time, else all rows of a value.
    """
    count = group_sums(place, mass, n_cells)
    total = float(mass.sum())
    # A little mass everywhere, so that no likelihood is zero.
    background = 1.0 / (n_cells * (total + 1.0))
    response, self_weight = (part[0 if tied else 1 :] for part in _heat_kernels(n_cells))
    # (n_bandwidths, n_cells): the cosine transform reflects at the ends of the grid.
    smooth = np.maximum(idct(dct(count) * response), 0.0)
    left_out = np.minimum(mass, 1.0) if tied else mass
    # Values in one cell of which as much is left out have one likelihood: it is computed once.
    begins_group = np.append(True, (place[1:] != place[:-1]) | (left_out[1:] != left_out[:-1]))
    group_mass = np.add.reduceat(mass, np.flatnonzero(begins_group))
    place = place[begins_group]
    left_out = left_out[begins_group]
    density = np.maximum(smooth[:, place] - left_out * self_weight[:, place], 0.0)
    density /= np.maximum(total - left_out, 1e-300)
    likeliest = np.argmax(np.log(density + background) @ group_mass)
    masses = smooth[likeliest] / total + background
    return masses / masses.sum()


@lru_cache(maxsize=4)
def _heat_kernels(n_cells: int) -> tuple[Floats, Floats]:
    """Kernels of all bandwidths up to ``n_cells``, for a chain of cells with insulated ends.

    They are those of heat along the chain: unlike normal densities on a grid, they are positive at
    every bandwidth. Returned are what multiplies the cosine transform of a signal, and what a unit
    in each cell leaves in that cell; both have shape (n_bandwidths, n_cells).
    """
    bandwidths = _BANDWIDTHS[n_cells >= _BANDWIDTHS, np.newaxis]
    response = np.exp(bandwidths**2 * (np.cos(np.pi / n_cells * np.arange(n_cells)) - 1.0))
    waves = dct(np.eye(n_cells), axis=0, norm="ortho")
    # The second are the diagonals of the smoothing matrices.
    return response, response @ waves**2


def _edges_between(law: Law) -> tuple[Floats, Floats]:
    """Edges around the atoms of a column that has nothing else, and the mass below each edge."""
    half = law.step / 2.0 or law.reach
    atoms = law.atoms
    edges = np.r_[atoms[0] - half, (atoms[1:] + atoms[:-1]) / 2.0, atoms[-1] + half]
    return edges, np.linspace(0.0, 1.0, len(edges))


def _with_atoms(edges: Floats, cumulated: Floats, law: Law) -> tuple[Floats, Floats, Floats]:
    """Edges with those of the cells of atoms, the mass below each, and the atom of each cell."""
    half = law.step / 2.0
    atoms = law.atoms
    if law.step > 0.0:
        begin = atoms - half
        end = atoms + half
    else:
        # The reach may be less than rounding far away from the typical values.
        begin = np.minimum(atoms - law.reach, np.nextafter(atoms, -np.inf))
        next_number = np.nextafter(atoms, np.inf)
        end = np.maximum(atoms + law.reach, next_number)
    tolerance = 1e-6 * (end - begin)
    # (n_edges, n_atoms)
    places = edges[:, np.newaxis]
    inside = (places >= begin - tolerance) & (places <= end + tolerance)
    # Edges within the cell of an atom give way to the ends of this cell.
    merged = np.unique(np.concatenate([edges[~inside.any(axis=1)], begin, end]))
    # Neighbouring atoms share an edge, which rounding may have made two.
    is_apart = np.diff(merged) > law.reach
    merged = merged[np.append(True, is_apart)]
    below = np.interp(merged, edges, cumulated)
    point = np.full(len(merged) + 1, np.nan)
    middle = begin + (end - begin) / 2.0
    point[np.searchsorted(merged, middle, side="right")] = atoms
    return merged, below, point


def _cell_masses(cumulated: Floats, point: Floats, beyond: float, tail_mass: Floats) -> Floats:
    """Masses of the cells without atoms, which sum to one, from the mass below each edge.

    ``tail_mass`` has those of both tails; ``beyond`` is that of all cells together that are empty.
    """
    is_atom = ~np.isnan(point[1:-1])
    inner = np.where(is_atom, 0.0, np.diff(cumulated))
    inner /= max(inner.sum(), 1e-300)
    is_empty = ~is_atom & (inner <= 0.0)
    if is_empty.any():
        inner *= 1.0 - beyond
        inner[is_empty] = beyond / is_empty.sum()
    inner *= 1.0 - tail_mass.sum()
    return np.concatenate([tail_mass[:1], inner, tail_mass[1:]])


def _tail_scales(points: Floats, mass: Floats, law: Law) -> tuple[float, float]:
    """Scales of both tails: the mean distance of the outermost rows from the innermost of these."""
    least = max(law.step, 1e-3 * (law.high - law.low), np.spacing(abs(law.high)), 1e-300)
    if len(points) < 2:
        scale = max(least, 0.1 * (law.high - law.low), 1e-3 * (abs(law.high) or 1.0))
        return scale, scale
    scales = []
    # So many rows are the outermost ones.
    tail_rows = 10.0
    # The lower tail is the upper one of the reversed values.
    for values, weight in ((points[::-1], mass[::-1]), (points, mass)):
        from_end = np.cumsum(weight[::-1])[::-1]
        most_rows = max(tail_rows, weight[-1])
        outer = from_end <= most_rows * (1.0 + ROUNDING)
        excess = np.abs(values[outer] - values[outer][0])
        scales.append(max(float(np.average(excess, weights=weight[outer])), least))
    return scales[0], scales[1]


def plain_axis(values: Floats, weight: Floats, n_bins: int) -> Histogram:
    """Choose the states of a numeric column by its values.

    A small table gets fewer bins than ``n_bins``: two such columns together then have eight
    rows for each pair of states on average, but at least one bin. The ``n_bins + 1`` edges
    stand at the weighted quantiles (``inverted_cdf``) of the levels ``i / (n_bins + 2)``, so
    that each interior bin and each tail holds the same mass as far as ties allow. Edges that
    repeat, or that follow the one before by less than a thousandth of the spread (half the
    distance between the quartiles), are dropped. The scale of a tail is its weighted mean
    excess over its edge, at least a hundredth of the spread; the scale of a tail without mass
    is the spread. A constant column c gets one bin around c, whose width is a thousandth of
    max(abs(c), 1).

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Numbers, at least one of them; NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    n_bins : int
        Largest number of interior bins.

    Returns
    -------
    Histogram

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import plain_axis
    >>> plain_axis(np.arange(200.0), np.ones(200), n_bins=3).edges
    array([ 39.,  79., 119., 159.])
    """
    observed = ~np.isnan(values)
    points, inverse = np.unique(values[observed] + 0.0, return_inverse=True)
    mass = exact_group_sums(inverse, weight[observed])
    cumulated = np.cumsum(mass)
    # Smallest bins and tails, as fractions of the spread of the column. They keep the density of a
    # repeated value bounded, and cost next to nothing on held-out rows of 91 real columns.
    smallest_width = 1e-3
    smallest_tail = 1e-2
    if len(points) == 1:
        spread = max(abs(float(points[0])), 1.0)
        half = 0.5 * smallest_width * spread
        return Histogram(np.array([points[0] - half, points[0] + half]), spread, spread)
    n_bins = min(n_bins, max(1, int(np.sqrt(cumulated[-1] / ROWS_PER_CELL)) - 2))
    candidates = weighted_quantiles(points, cumulated, np.arange(1, n_bins + 2), n_bins + 2)
    # No single wild value changes this spread, unless most values are equal.
    low, median, high = weighted_quantiles(points, cumulated, np.array([1, 2, 3]), 4)
    spread = 0.5 * float(high - low) or 0.25 * float(candidates[-1] - candidates[0])
    spread = max(spread or _mean_deviation(points, mass, median), TINY)
    edges = [candidates[0]]
    for candidate in candidates[1:]:
        if candidate - edges[-1] >= max(smallest_width * spread, TINY):
            edges.append(candidate)
    scales = (
        max(
            _mean_deviation(points[is_outside], mass[is_outside], edge),
            smallest_tail * spread,
            TINY,
        )
        if is_outside.any()
        else spread
        for is_outside, edge in ((points < edges[0], edges[0]), (points >= edges[-1], edges[-1]))
    )
    return Histogram(np.array(edges), *scales)


def _mean_deviation(points: Floats, weight: Floats, centre: float) -> float:
    """Weighted mean distance of points from a centre."""
    return float(np.dot(weight / weight.sum(), np.abs(points - centre)))
