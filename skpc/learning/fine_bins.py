"""Fine bins of numeric columns: hundreds of them, and values that repeat have bins of their own.

The hidden states above a column learn what neighbouring bins have in common, so that a bin needs
few rows. Fine bins divide the cells of the histogram that is the margin of the column.
"""

import numpy as np

from skpc._arrays import Floats, group_sums
from skpc.variables import Histogram, Law, fit_histogram
from skpc.variables.atoms import are_apart, distinct

#: Rows of a bin in large tables; also rows for each value that gets a bin of its own.
ROWS_OF_BIN = 20.0


def n_fine_bins(n_rows: float) -> int:
    """Number of bins of about equal mass for a table of some rows."""
    # Small tables have 16 to 128 bins of so many rows each; large tables have up to 512 bins.
    rows_of_small_bin = 8.0
    fewest_bins = 16
    most_small_bins = 128
    most_bins = 512
    n_small_bins = min(max(n_rows / rows_of_small_bin, fewest_bins), most_small_bins)
    return int(max(n_small_bins, min(n_rows / ROWS_OF_BIN, most_bins)))


def fine_axis(values: Floats, weight: Floats, law: Law, n_bins: int) -> tuple[Histogram, Floats]:
    """The axis of a column whose cells are fine bins, and the mass of each by the margin.

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
    edges = margin.edges
    if not law.is_ordered:
        is_plain = ~law.is_atom(points)
        cuts = _cuts(points[is_plain], point_mass[is_plain], law, n_bins)
        is_inside = (cuts > edges[0]) & (cuts < edges[-1])
        # The cell of an atom is not divided.
        is_inside &= np.isnan(margin.points[margin.cells(cuts)])
        edges = np.union1d(margin.edges, cuts[is_inside])
        # A cut that differs from an edge of the margin by rounding alone is left out.
        is_edge = np.isin(edges, margin.edges)
        is_apart = are_apart(edges)
        is_far = np.append(True, is_apart) & np.append(is_apart | ~is_edge[1:], True)
        edges = edges[is_edge | is_far]
    # The cell of a part is that of its middle: an end might belong to the next cell.
    middles = edges[:-1] + np.diff(edges) / 2.0
    # Below the first and above the last edge are the tails, cells of their own.
    cell_of = np.concatenate([[0], margin.cells(middles), [len(margin.edges)]])
    # Within a cell of the margin, mass goes by width; a tail is not divided.
    part = np.concatenate([[1.0], np.diff(edges), [1.0]])
    part /= group_sums(cell_of, part)[cell_of]
    mass = np.maximum(cell_shares[cell_of] * part, smallest)
    axis = margin._replace(
        edges=edges,
        state=np.arange(len(cell_of)),
        share=np.ones(len(cell_of)),
        point=margin.points[cell_of],
    )
    return axis, mass / mass.sum()


def _cuts(points: Floats, mass: Floats, law: Law, n_bins: int) -> Floats:
    """Edges of bins of about equal mass, and on both sides of values that repeat."""
    # A value with so many rows has a bin of its own. At most so many values have one, or one value
    # for each 20 rows if that is more.
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
    frequent = by_mass[mass[by_mass] >= rows_of_value]
    # Cuts behind a frequent value and behind the one before it give it a bin.
    last = np.concatenate([last, frequent, frequent - 1])
    is_inner = (last >= 0) & (last < len(points) - 1)
    return np.unique(law.upper_edges(points[last[is_inner]]))
