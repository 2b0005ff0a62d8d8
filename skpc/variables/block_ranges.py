"""Ranges of cells under leaves of several numbers: boxes of a multivariate normal.

A stated cell holds one of its atoms, or a score within one of its intervals. One range on a leaf is
exact, as its score given the known ones is normal; two have a quadrature, more (or two that nearly
tell each other) need the quasi-Monte Carlo rule of Genz ("Numerical computation of multivariate
normal probabilities", 1992) as scipy has it. The plain twin
is ``tests/naive/events.py``.
"""

import itertools
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

from skpc._arrays import Floats, Ints
from skpc.variables.blocks import BlockLeaves, ScoredCells
from skpc.variables.forms import Normals, ScoredNormals, normal_between
from skpc.variables.gaussians import conditionals
from skpc.variables.leaves import Columns
from skpc.variables.truncated import truncated_nodes


def conditional_form(
    leaves: BlockLeaves, columns: Columns, cells: ScoredCells, leaf: Ints, place: int
) -> ScoredNormals:
    """Distributions of a cell of each row under its own leaf, given the known scores of the row.

    Parameters
    ----------
    leaves : BlockLeaves
        The leaves of a scope.
    columns : Columns
        The variables.
    cells : ScoredCells
        The cells of the rows.
    leaf : ndarray of shape (n_rows,)
        Which of the leaves each row is in.
    place : int
        Place of the column in the scope.
    """
    # Shape (n_leaves, n_rows): each row wants its own leaf.
    is_own = np.arange(len(leaves.leaf))[:, np.newaxis] == leaf
    # Pairs of rows and leaves that are not marked stay without an answer.
    mean, sd = conditionals(leaves.gaussians, *cells[1:], np.ascontiguousarray(is_own))
    row = np.arange(len(leaf))
    prob = np.exp(leaves.log_prob_of(place))[leaf]
    own_mean = mean[leaf, row, place][:, np.newaxis]
    own_sd = sd[leaf, row, place][:, np.newaxis]
    bulk = Normals(own_mean, own_sd, prob[:, -1:])
    return ScoredNormals(columns.axis_of(leaves.variables[place]), prob[:, :-1], bulk)


def _given(leaves: BlockLeaves, places: Ints, scores: Floats) -> tuple[Floats, Floats]:
    """Means of scores of rows under each leaf, and covariances, given the known scores."""
    # The same cells are known in all rows, so that the first row tells which.
    known = np.flatnonzero(~np.isnan(scores[0]))
    (mean, covariance) = leaves.gaussians[:2]
    # Both have shape (n_leaves, n_known, n_places): they carry known scores to the stated ones.
    across = covariance[:, known][:, :, places]
    gain = np.linalg.solve(covariance[:, known][:, :, known], across)
    moved = np.einsum("nlk,lkp->nlp", scores[:, np.newaxis, known] - mean[:, known], gain)
    conditional_covariance = covariance[:, places][:, :, places] - across.transpose(0, 2, 1) @ gain
    return mean[:, places] + moved, conditional_covariance


def box_probabilities(
    leaves: BlockLeaves,
    columns: Columns,
    scores: Floats,
    intervals: dict[int, tuple[Floats, Floats]],
) -> Floats:
    """Probability of ranges under each leaf, given the known scores of rows.

    Parameters
    ----------
    leaves : BlockLeaves
        The leaves of a scope.
    columns : Columns
        The variables.
    scores : ndarray of shape (n_rows, n_columns)
        Scores of the known cells, the same ones in all rows, else NaN.
    intervals : dict from place to (low, high)
        For each stated column (its place in the scope) the intervals ``low < x <= high`` of each
        row, of shape (n_rows, n_intervals).

    Returns
    -------
    ndarray of shape (n_rows, n_leaves)

    Raises
    ------
    ValueError
        If there are too many ranges, or their probability is not known to one percent.
    """
    mean, covariance = _given(leaves, np.array([*intervals]), scores)
    # Each stated cell is at an atom, or its score is in one of some intervals.
    options: list[list[Any]] = []
    for position, (place, (low, high)) in enumerate(intervals.items()):
        column = columns.axis_of(leaves.variables[place])
        prob = np.exp(leaves.log_prob_of(place))
        # Shape (n_rows, n_intervals, n_atoms).
        held = (low[..., np.newaxis] < column.atoms) & (column.atoms <= high[..., np.newaxis])
        options.append([(held.any(axis=1) @ prob[:, :-1].T, None)])
        ends = (end.T for end in column.end_scores(low, high))
        options[-1] += [(prob[:, -1], (position, *side)) for side in zip(*ends)]
    total = np.zeros(mean.shape[:2])
    # The answer is a sum over all ways to choose an option of each column.
    for weights, sides in (zip(*choice) for choice in itertools.product(*options)):
        weight = np.prod(np.broadcast_arrays(total, *weights)[1:], axis=0)
        stated_sides = [side for side in sides if side is not None]
        if len(stated_sides) == 1:
            # The score of a single column is normal, which has a closed form.
            ((position, *box),) = stated_sides
            sd = np.sqrt(covariance[:, position, position])
            weight *= normal_between(
                *((end[:, np.newaxis] - mean[:, :, position]) / sd for end in box)
            )
        elif stated_sides:
            chosen, *box = (np.array(part) for part in zip(*stated_sides))
            remaining = weight > 0.0
            if len(chosen) == 2:
                # Pairs of ranges are many, and have a quadrature for all rows and leaves at once.
                first, second = (mean[:, :, place] for place in chosen)
                parts = covariance[:, chosen][:, :, chosen]
                slope = parts[:, 0, 1] / parts[:, 0, 0]
                rest = parts[:, 1, 1] - slope * parts[:, 0, 1]
                # Where one column nearly tells the other, the quadrature would miss the step.
                least = 0.05 * parts[:, 1, 1]
                is_smooth = rest > least
                rest = np.maximum(rest, least)
                prob = _in_pair(first, second, parts[:, 0, 0], slope, rest, *box)
                weight *= np.where(is_smooth, prob, 1.0)
                remaining &= ~is_smooth
            # Quadratures are slow: only pairs that the chosen atoms leave possible get one.
            for row, leaf in np.argwhere(remaining).tolist():
                normal = mean[row, leaf, chosen], covariance[leaf][np.ix_(chosen, chosen)]
                weight[row, leaf] *= _in_box(*normal, *(end[:, row] for end in box))
        total += weight
    return total


def _in_pair(
    first: Floats,
    second: Floats,
    variance: Floats,
    slope: Floats,
    rest: Floats,
    low: Floats,
    high: Floats,
) -> Floats:
    """Probabilities of ranges of two columns, of shape (n_rows, n_leaves).

    Parameters
    ----------
    first, second : ndarrays of shape (n_rows, n_leaves)
        Means.
    variance, slope, rest : ndarrays of shape (n_leaves,)
        The variance of the first, how the second follows it, and the variance of what is left.
    low, high : ndarrays of shape (2, n_rows)
    """
    sd = np.sqrt(variance)
    ends = ((end[0][:, np.newaxis] - first) / sd for end in (low, high))
    log_mass, nearest, steps, shares = truncated_nodes(*ends)
    # The mean of the second column at each node of the first: (n_nodes, n_rows, n_leaves).
    moved = second + slope * sd * (nearest + steps)
    sides = ((end[1][:, np.newaxis] - moved) / np.sqrt(rest) for end in (low, high))
    # An empty range of the second column has no mass, whatever the order of its ends.
    held = np.maximum(normal_between(*sides), 0.0)
    return np.asarray(np.exp(log_mass) * (shares * held).sum(axis=0))


def _in_box(mean: Floats, covariance: Floats, low: Floats, high: Floats) -> float:
    """Probability of a box of one normal distribution, to one percent."""
    # Probabilities that do not count, and tolerances of scipy relative to the size of the last
    # answer.
    nothing = 1e-12
    tighter = 1e-3
    # The tolerance of scipy is absolute: it follows the size of the answer.
    tolerance = 1e-5
    # No answer is near infinity, so that two answers at least are compared.
    values = [np.inf]
    # Largest number of ranges on one leaf, and the greatest relative error of their probability.
    most_ranges = 8
    error = 0.01
    for seed in range(4 if len(mean) <= most_ranges else 0):
        normal = multivariate_normal(mean, covariance, seed=seed)
        normal.abseps = tolerance
        values.append(max(float(normal.cdf(high, lower_limit=low)), 0.0))
        if abs(values[-1] - values[-2]) <= max(error * values[-1], nothing):
            return values[-1]
        tolerance = max(tighter * values[-1], nothing)
    raise ValueError(
        f"ranges on at most {most_ranges} columns of one block of numbers, with a probability "
        f"known to one percent, are needed; got {len(mean)} columns, and estimates {values[1:]}. "
        "Leave a range out, or use a density without blocks"
    )
