"""Probabilities of ranges of cells under blocks: those of boxes of a multivariate normal.

A cell known as a range holds one of its atoms, or a score within one of its intervals. The
probability of one range is exact, as its score given the known ones is normal. Two ranges have a
quadrature. More of them, or two that are nearly collinear, need the quasi-Monte Carlo rule of Genz
("Numerical computation of multivariate normal probabilities", 1992) in scipy. The plain twin is
``tests/naive/events.py``.
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
    # (n_leaves, n_rows): only these pairs are computed.
    is_own = np.arange(len(leaves.leaf))[:, np.newaxis] == leaf
    mean, sd = conditionals(leaves.gaussians, *cells[1:], np.ascontiguousarray(is_own))
    row = np.arange(len(leaf))
    prob = np.exp(leaves.log_prob_of(place))[leaf]
    own_mean = mean[leaf, row, place][:, np.newaxis]
    own_sd = sd[leaf, row, place][:, np.newaxis]
    bulk = Normals(own_mean, own_sd, prob[:, -1:])
    return ScoredNormals(columns.axis_of(leaves.variables[place]), prob[:, :-1], bulk)


def _conditional_moments(
    leaves: BlockLeaves, places: Ints, scores: Floats
) -> tuple[Floats, Floats]:
    """Moments of the scores at some places under each leaf, given the known scores of each row.

    Means have shape (n_rows, n_leaves, n_places), covariances (n_leaves, n_places, n_places).
    """
    # The same cells are known in all rows.
    known = np.flatnonzero(~np.isnan(scores[0]))
    mean, covariance = leaves.gaussians[:2]
    # (n_leaves, n_known, n_places): covariances across, and regression coefficients.
    across = covariance[:, known][:, :, places]
    gain = np.linalg.solve(covariance[:, known][:, :, known], across)
    shift = np.einsum("nlk,lkp->nlp", scores[:, np.newaxis, known] - mean[:, known], gain)
    conditional_covariance = covariance[:, places][:, :, places] - across.transpose(0, 2, 1) @ gain
    return mean[:, places] + shift, conditional_covariance


def box_probabilities(
    leaves: BlockLeaves,
    columns: Columns,
    scores: Floats,
    intervals: dict[int, tuple[Floats, Floats]],
) -> Floats:
    """Probability of the ranges of each row under each leaf, given the known scores of the row.

    Parameters
    ----------
    leaves : BlockLeaves
        The leaves of a scope.
    columns : Columns
        The variables.
    scores : ndarray of shape (n_rows, n_columns)
        Scores of the known cells, the same ones in all rows, else NaN.
    intervals : dict from place to (low, high)
        For each column with ranges (its place in the scope) the intervals ``low < x <= high`` of
        each row, of shape (n_rows, n_intervals).

    Returns
    -------
    ndarray of shape (n_rows, n_leaves)

    Raises
    ------
    ValueError
        If there are too many ranges, or their probability is not known to one percent.
    """
    mean, covariance = _conditional_moments(leaves, np.array([*intervals]), scores)
    # For each column its options: the cell is at an atom, or its score is in one of the intervals.
    # An option has a probability under each leaf, and the interval of the score (None for atoms).
    options: list[list[Any]] = []
    for position, (place, (low, high)) in enumerate(intervals.items()):
        column = columns.axis_of(leaves.variables[place])
        prob = np.exp(leaves.log_prob_of(place))
        # (n_rows, n_intervals, n_atoms)
        is_within = (low[..., np.newaxis] < column.atoms) & (column.atoms <= high[..., np.newaxis])
        at_atoms = (is_within.any(axis=1) @ prob[:, :-1].T, None)
        score_ends = (end.T for end in column.end_scores(low, high))
        in_intervals = [(prob[:, -1], (position, *interval)) for interval in zip(*score_ends)]
        options.append([at_atoms, *in_intervals])
    total = np.zeros(mean.shape[:2])
    # The answer is a sum over all ways to choose one option of each column.
    for weights, boxes in (zip(*choice) for choice in itertools.product(*options)):
        weight = np.prod(np.broadcast_arrays(total, *weights)[1:], axis=0)
        scored_boxes = [box for box in boxes if box is not None]
        if len(scored_boxes) == 1:
            # The score of a single column is normal, which has a closed form.
            ((position, *ends),) = scored_boxes
            sd = np.sqrt(covariance[:, position, position])
            weight *= normal_between(
                *((end[:, np.newaxis] - mean[:, :, position]) / sd for end in ends)
            )
        elif scored_boxes:
            # (n_scored, n_rows) each: the lower and the upper ends of the box.
            chosen, *ends = (np.array(part) for part in zip(*scored_boxes))
            remaining = weight > 0.0
            if len(chosen) == 2:
                # Pairs of ranges are frequent: one quadrature serves all rows and leaves.
                pair_mean, next_mean = (mean[:, :, place] for place in chosen)
                block = covariance[:, chosen][:, :, chosen]
                variance = block[:, 0, 0]
                slope = block[:, 0, 1] / variance
                residual = block[:, 1, 1] - slope * block[:, 0, 1]
                # Nearly collinear columns make the integrand a step, which a quadrature misses.
                least = 0.05 * block[:, 1, 1]
                is_smooth = residual > least
                residual = np.maximum(residual, least)
                prob = _in_pair(pair_mean, next_mean, variance, slope, residual, *ends)
                weight *= np.where(is_smooth, prob, 1.0)
                remaining &= ~is_smooth
            # Scipy's rule is slow: only pairs that the chosen atoms leave possible get it.
            for row, leaf in np.argwhere(remaining).tolist():
                normal = mean[row, leaf, chosen], covariance[leaf][np.ix_(chosen, chosen)]
                weight[row, leaf] *= _in_box(*normal, *(end[:, row] for end in ends))
        total += weight
    return total


def _in_pair(
    mean: Floats,
    next_mean: Floats,
    variance: Floats,
    slope: Floats,
    residual: Floats,
    low: Floats,
    high: Floats,
) -> Floats:
    """Probabilities of ranges of two columns, shape (n_rows, n_leaves): an integral over the first.

    Parameters
    ----------
    mean, next_mean : ndarrays of shape (n_rows, n_leaves)
        Means of the first and of the second column.
    variance : ndarray of shape (n_leaves,)
        Variance of the first column.
    slope, residual : ndarrays of shape (n_leaves,)
        Regression of the second column on the first, and its residual variance.
    low, high : ndarrays of shape (2, n_rows)
        The ranges of both columns.
    """
    sd = np.sqrt(variance)
    ends = ((end[0][:, np.newaxis] - mean) / sd for end in (low, high))
    log_mass, nearest, steps, shares = truncated_nodes(*ends)
    # The mean of the second column at each node of the first: (n_nodes, n_rows, n_leaves).
    moved_mean = next_mean + slope * sd * (nearest + steps)
    next_ends = ((end[1][:, np.newaxis] - moved_mean) / np.sqrt(residual) for end in (low, high))
    # An empty range of the second column has no mass, whatever the order of its ends.
    mass = np.maximum(normal_between(*next_ends), 0.0)
    return np.asarray(np.exp(log_mass) * (shares * mass).sum(axis=0))


def _in_box(mean: Floats, covariance: Floats, low: Floats, high: Floats) -> float:
    """Probability of a box of one normal distribution, to one percent."""
    # Largest number of ranges on one leaf, and the greatest relative error of their probability;
    # errors below the least size do not count.
    most_ranges = 8
    error = 0.01
    least_size = 1e-12
    # The tolerance of scipy is absolute: each estimate gets one relative to the estimate before.
    tolerance = 1e-5
    tighter = 1e-3
    # No estimate is near infinity, so that two of them at least are compared.
    values = [np.inf]
    for seed in range(4 if len(mean) <= most_ranges else 0):
        normal = multivariate_normal(mean, covariance, seed=seed)
        normal.abseps = tolerance
        values.append(max(float(normal.cdf(high, lower_limit=low)), 0.0))
        if abs(values[-1] - values[-2]) <= max(error * values[-1], least_size):
            return values[-1]
        tolerance = max(tighter * values[-1], least_size)
    raise ValueError(
        f"ranges on at most {most_ranges} columns of one block of numbers, with a probability "
        f"known to one percent, are needed; got {len(mean)} columns, and estimates {values[1:]}. "
        "Leave a range out, or use a density without blocks"
    )
