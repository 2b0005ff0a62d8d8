"""Ranges of cells under leaves of several numbers: boxes of a multivariate normal.

A stated cell holds one of its atoms, or a score within one of its intervals. One range on a leaf is
exact, as its score given the known ones is normal; several need the quasi-Monte Carlo rule of Genz
("Numerical computation of multivariate normal probabilities", 1992) as scipy has it. The plain twin
is ``tests/naive/events.py``.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from skpc._arrays import Floats, Ints
from skpc.variables.forms import Normals, ScoredNormals, normal_between
from skpc.variables.gaussian import MultivariateGaussian
from skpc.variables.leaves import Columns

#: Largest number of ranges on one leaf, and the greatest relative error of their probability.
_MOST_RANGES, _ERROR = 8, 0.01
#: Probabilities that do not count, and tolerances of scipy relative to the size of the last answer.
_NOTHING, _TIGHTER = 1e-12, 1e-3


class Scores(NamedTuple):
    """Scores of some columns under each leaf, given the scores of others.

    ``mean`` has shape (n_leaves, n_places), ``covariance`` (n_leaves, n_places, n_places).
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def given(cls, leaves: MultivariateGaussian, places: Ints, scores: Floats) -> Scores:
        """Scores at some places of one row, whose known scores are not NaN."""
        known, (mean, covariance) = np.flatnonzero(~np.isnan(scores)), leaves.gaussians[:2]
        across = covariance[:, known][:, :, places]
        gain = np.linalg.solve(covariance[:, known][:, :, known], across)
        moved = np.einsum("lk,lkp->lp", scores[known] - mean[:, known], gain)
        rest = covariance[:, places][:, :, places] - across.transpose(0, 2, 1) @ gain
        return cls(mean[:, places] + moved, rest)


def box_probabilities(
    leaves: MultivariateGaussian,
    columns: Columns,
    scores: Floats,
    intervals: dict[int, tuple[Floats, Floats]],
) -> Floats:
    """Probability of ranges under each leaf, given the known scores of one row.

    Parameters
    ----------
    leaves : MultivariateGaussian
        The leaves of a scope.
    columns : Columns
        The variables.
    scores : ndarray of shape (n_columns,)
        Scores of the known cells, else NaN.
    intervals : dict from place to (low, high)
        For each stated column (its place in the scope) its intervals ``low < x <= high``.

    Returns
    -------
    ndarray of shape (n_leaves,)

    Raises
    ------
    ValueError
        If there are too many ranges, or their probability is not known to one percent.
    """
    places = np.array([*intervals])
    of_scores, ends, of_atoms, of_rest = Scores.given(leaves, places, scores), [], [], []
    for place, (low, high) in intervals.items():
        column, prob = columns.axis_of(leaves.variables[place]), np.exp(leaves.log_prob_of(place))
        held = (low[:, np.newaxis] < column.atoms) & (column.atoms <= high[:, np.newaxis])
        of_atoms.append(prob[:, :-1] @ held.any(axis=0))
        of_rest.append(prob[:, -1])
        ends.append(list(zip(*column.score.ends(low, high))))
    total = np.zeros(len(leaves.leaf))
    for has_score in itertools.product([False, True], repeat=len(places)):
        chosen = np.flatnonzero(has_score)
        weight = np.prod([b if h else a for a, b, h in zip(of_atoms, of_rest, has_score)], axis=0)
        for box in itertools.product(*(ends[i] for i in chosen)):
            total += weight * _in_box(of_scores, chosen, np.array(box).reshape(-1, 2).T, weight)
    return total


def _in_box(scores: Scores, chosen: Ints, box: Floats, weight: Floats) -> Floats:
    """Probability of a box of scores under each leaf."""
    mean, covariance = scores.mean[:, chosen], scores.covariance[:, chosen][:, :, chosen]
    if len(chosen) < 2:
        sd = np.sqrt(covariance[:, :, 0])
        return np.prod(normal_between(*((end - mean) / sd for end in box)), axis=1)
    if len(chosen) > _MOST_RANGES:
        raise ValueError(
            f"a block of numbers can have ranges on at most {_MOST_RANGES} columns at once, got "
            f"{len(chosen)}; fewer ranges, or a density without blocks, are exact"
        )
    counts = np.flatnonzero(weight > 0.0)
    prob = np.zeros(len(mean))
    prob[counts] = [_rectangle(mean[leaf], covariance[leaf], *box) for leaf in counts]
    return prob


def _rectangle(mean: Floats, covariance: Floats, low: Floats, high: Floats) -> float:
    """Probability of a box of one normal distribution, with a relative error of one percent."""
    # The tolerance of scipy is absolute: it is set by the answer of a coarse run.
    tolerance, values = 1e-5, [1.0, 0.0]
    for seed in range(3):
        normal = multivariate_normal(mean, covariance, abseps=tolerance, seed=seed)
        values = [values[-1], max(float(normal.cdf(high, lower_limit=low)), 0.0)]
        error = abs(values[1] - values[0])
        if seed > 0 and error <= max(_ERROR * values[1], _NOTHING):
            return values[1]
        tolerance = max(_TIGHTER * values[1], _NOTHING)
    raise ValueError(
        f"the probability of ranges on {len(mean)} columns of one block is known only to "
        f"{values[1]:.3g} +- {error:.1g}; widen the ranges or leave one out"
    )


def conditional_form(
    leaves: MultivariateGaussian, columns: Columns, scores: Floats, place: int
) -> ScoredNormals:
    """Distributions of a cell under each leaf, given the known scores of its row."""
    given = Scores.given(leaves, np.array([place]), scores)
    prob, axis = np.exp(leaves.log_prob_of(place)), columns.axis_of(leaves.variables[place])
    sd = np.sqrt(given.covariance[:, 0, 0])
    return ScoredNormals(axis, prob[:, :-1], Normals(given.mean[:, 0], sd, prob[:, -1]))
