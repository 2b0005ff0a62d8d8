"""Fine bins of numeric columns: hundreds of them, and values that repeat have bins of their own.

Hidden states know what neighbouring bins have in common, so that a bin needs few rows. The cells of
the column's margin stay; they are divided further.
"""

import numpy as np

from skpc._arrays import Floats, group_sums
from skpc.variables import Histogram, Law, fit_histogram
from skpc.variables.atoms import are_apart, distinct

#: Rows of a bin in large tables, and of a value in columns whose values are as categories.
ROWS_OF_BIN = 20.0
_MOST = 512


def n_fine_bins(n_rows: float) -> int:
    """Number of bins of about equal mass for a table of some rows."""
    fewest = 16
    # Rows of a bin in small tables, and the numbers of bins between which this is.
    rows_of_small = 8.0
    enough = 128
    small = min(max(n_rows / rows_of_small, fewest), enough)
    return int(max(small, min(n_rows / ROWS_OF_BIN, _MOST)))


def fine_axis(values: Floats, weight: Floats, law: Law, n_bins: int) -> tuple[Histogram, Floats]:
    """The axis of a column in which each cell is a state, and the mass of each by the margin.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Numbers, at least one of them; NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    law : Law
        What the numbers can be.
    n_bins : int
        Number of bins of about equal mass; repeated values and the cells of the margin add more.

    Returns
    -------
    axis : Histogram
    mass : ndarray of shape (n_states,)
        They sum to one.
    """
    # No state has less mass.
    smallest = 1e-12
    margin = fit_histogram(values, weight, law)
    points, point_mass = distinct(values, weight)
    total = float(point_mass.sum())
    cell_mass = group_sums(margin.cells(points), point_mass, len(margin.points))
    # A frequent atom has no share in the margin of the other values.
    is_atom_alone = ~np.isnan(margin.points) & (margin.shares == 0.0)
    cell_shares = np.where(is_atom_alone, cell_mass, margin.shares * margin.weight) / total
    finer = margin.edges
    if not law.is_ordered:
        is_plain = ~law.is_atom(points)
        cuts = _cuts(points[is_plain], point_mass[is_plain], law, n_bins)
        inside = (cuts > finer[0]) & (cuts < finer[-1])
        # An atom's cell stays whole.
        inside &= np.isnan(margin.points[margin.cells(cuts)])
        finer = np.union1d(margin.edges, cuts[inside])
        # A cut that is an edge of the margin but for rounding is that edge.
        is_edge = np.isin(finer, margin.edges)
        is_apart = are_apart(finer)
        is_far = np.append(True, is_apart) & np.append(is_apart | ~is_edge[1:], True)
        finer = finer[is_edge | is_far]
    # The middle of a part lies safely within its cell, where an end might belong to the next.
    middles = finer[:-1] + np.diff(finer) / 2.0
    # Below the first and above the last edge are the tails, cells of their own.
    cell_of = np.concatenate([[0], margin.cells(middles), [len(margin.edges)]])
    # Within a cell of the margin, mass goes by width; a tail is not divided.
    part = np.concatenate([[1.0], np.diff(finer), [1.0]])
    part /= group_sums(cell_of, part)[cell_of]
    mass = np.maximum(cell_shares[cell_of] * part, smallest)
    axis = margin._replace(
        edges=finer,
        state=np.arange(len(cell_of)),
        share=np.ones(len(cell_of)),
        point=margin.points[cell_of],
    )
    return axis, mass / mass.sum()


def _cuts(points: Floats, mass: Floats, law: Law, n_bins: int) -> Floats:
    """Edges of bins of about equal mass, and on both sides of values that repeat."""
    # A value with so many rows has a bin of its own; there are so many of these, or
    # one for each 20 rows.
    rows_of_value = 4.0
    most_values = 20.0
    if len(points) < 2:
        return np.empty(0)
    below = np.cumsum(mass)
    levels = np.arange(1, n_bins) / n_bins * below[-1]
    # A bin ends with the point at which the mass reaches a level.
    last = np.searchsorted(below, levels)
    if law.step == 0.0 and not len(law.seen):
        last = last[last < len(points) - 1]
        return np.unique((points[last] + points[last + 1]) / 2.0)
    n_values = int(max(most_values, below[-1] / ROWS_OF_BIN))
    by_mass = np.argsort(-mass, kind="stable")[:n_values]
    often = by_mass[mass[by_mass] >= rows_of_value]
    # Cuts behind a frequent value and behind the one before it give it a bin.
    last = np.concatenate([last, often, often - 1])
    is_inner = (last >= 0) & (last < len(points) - 1)
    return np.unique(law.upper_edges(points[last[is_inner]]))
