"""Distributions of single cells by linear regressions on the observed cells of their row.

All regressions follow from one Gaussian of numbers and indicators of categories, which EM learns
from rows with missing cells. Covariances of the rows that have both columns of a pair would be
biased where other columns decide which cells are missing, and need not be positive definite. The
plain twin is ``tests/naive/linear.py``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Floats, offsets, segment
from skpc._fitting import Stop
from skpc.domain import Domain, column_moments, one_hot
from skpc.learning.gaussian_mixture import (
    MixtureParams,
    MixturePrior,
    MixtureRows,
    fit_gaussian_mixture,
)
from skpc.variables import Normals, Points, Predictive
from skpc.variables.events import Events
from skpc.variables.gaussians import Gaussians, conditionals
from skpc.variables.patterns import Patterns

#: EM ends after this many iterations, or when an iteration raises the mean log density by less than
#: this many nats a column.
_MAX_ITER = 200
_TOL = 1e-5


class LinearCells(NamedTuple):
    """The distributions of single cells by a linear model; see :class:`skpc.densities.Density`.

    Attributes
    ----------
    domain : Domain
        What the columns of the table are.
    gaussians : Gaussians
        One Gaussian of the columns of :func:`skpc.domain.one_hot`, which has an indicator for each
        state of a category: added rows keep its covariance from being singular.
    """

    domain: Domain
    gaussians: Gaussians

    @classmethod
    def fit(cls, domain: Domain, rows: Floats, weight: Floats, strength: float) -> Self:
        """Learn the Gaussian.

        Parameters
        ----------
        domain : Domain
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        strength : float
            Number of rows of uncorrelated columns that are added as a prior, for each column.
        """
        # The smallest standard deviation, as a part of that of the column.
        smallest_sd = 1e-4
        scores = one_hot(domain, rows)
        mean, sd = column_moments(scores, weight)
        patterns = Patterns.from_scores(scores)
        # There are no tables of states: indicators of categories count as numbers.
        states = np.zeros((len(rows), 0))
        zeros = np.zeros(len(rows))
        fit = fit_gaussian_mixture(
            MixtureRows(scores, patterns, states, zeros, zeros),
            weight,
            [np.ones((1, len(rows)))],
            MixturePrior(
                offsets(np.zeros(0, dtype=np.int64)),
                np.zeros(0),
                mean,
                np.diag(sd**2),
                np.zeros_like,
                smallest_sd * sd,
            ),
            MixtureParams(1, prior_strength=strength),
            Stop(_MAX_ITER, _TOL * len(sd)),
        )
        return cls(domain, fit.model.mixture.gaussians)

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """Zero for each row: no row is impossible, and this model has no density of whole rows."""
        return np.zeros(len(Events.of(rows).rows))

    def posteriors(self, rows: Any, columns: Sequence[int] | None = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`. Ranges and sets count as missing cells."""
        # The smallest probability of a state.
        smallest_share = 1e-6
        rows = Events.of(rows).rows
        domain = self.domain
        scores = one_hot(domain, rows)
        wanted = np.ones((1, len(rows)), dtype=bool)
        moments = conditionals(self.gaussians, scores, Patterns.from_scores(scores), wanted)
        # The moments of the only component, (n_rows, n_coordinates).
        mean, sd = (moment[0] for moment in moments)
        # Observed cells have standard deviation zero, and densities need a positive one.
        sd[sd == 0.0] = SMALLEST_NORMAL
        labels = [column.states for column in domain]
        first_indicator = offsets(
            np.array([1 if states is None else len(states) for states in labels])
        )
        answers = []
        for column in range(len(labels)) if columns is None else columns:
            part = segment(first_indicator, column)
            if labels[column] is None:
                form: Any = Normals(mean[:, part], sd[:, part], np.ones((len(rows), 1)))
            else:
                # Means of indicators are linear in other columns, and may lie outside of [0, 1].
                share = np.clip(mean[:, part], smallest_share, 1.0)
                share /= share.sum(axis=1, keepdims=True)
                form = Points(np.arange(float(share.shape[1])), share)
            known = rows[:, column]
            law = domain[column].law
            answers.append(Predictive([form], known, labels[column], law=law))
        return answers
