"""Cells of a table by linear regressions of each column on those that its row has.

All of them follow from one Gaussian of numbers and indicators of categories, which EM learns from
rows with missing cells. Covariances of pairs of columns, each from the rows that have both, are
biased where it depends on other columns which cells are missing, and belong to no table together.
The plain twin is ``tests/naive/linear.py``.
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

#: EM ends when an iteration raises the mean log density by less, for each column.
_MAX_ITER = 200
_TOL = 1e-5


class LinearCells(NamedTuple):
    """What a linear model says of single cells; see :class:`skpc.densities.Density`.

    Attributes
    ----------
    domain : Domain
        What the columns of the table are.
    gaussians : Gaussians
        The one Gaussian, of the columns of :func:`skpc.domain.one_hot`. All states of a category
        are among them: the rows that are added keep its covariance from being singular.
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
            Rows without correlations, for each column of the Gaussian, that are added.
        """
        # The smallest standard deviation of a column, and the smallest share of a state.
        smallest_sd = 1e-4
        scores = one_hot(domain, rows)
        mean, sd = column_moments(scores, weight)
        patterns = Patterns.from_scores(scores)
        # There are no tables of states: indicators of categories count as numbers.
        states = np.zeros((len(rows), 0))
        nothing = np.zeros(len(rows))
        fit = fit_gaussian_mixture(
            MixtureRows(scores, patterns, states, nothing, nothing),
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
        """Zero for each row: none is impossible. Of rows as a whole the model says nothing."""
        return np.zeros(len(Events.of(rows).rows))

    def posteriors(self, rows: Any, columns: Sequence[int] | None = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`. Ranges and sets count as missing cells."""
        smallest_share = 1e-6
        rows = Events.of(rows).rows
        domain = self.domain
        scores = one_hot(domain, rows)
        wanted = np.ones((1, len(rows)), dtype=bool)
        moments = conditionals(self.gaussians, scores, Patterns.from_scores(scores), wanted)
        # Of the one component: shape (n_rows, n_coordinates), indicators among them.
        mean, sd = (moment[0] for moment in moments)
        # Observed cells are known, but have a distribution as well.
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
                # Means of indicators are linear in the other columns, and may be no probabilities.
                share = np.clip(mean[:, part], smallest_share, 1.0)
                share /= share.sum(axis=1, keepdims=True)
                form = Points(np.arange(float(share.shape[1])), share)
            known = rows[:, column]
            number = domain[column].law
            answers.append(Predictive([form], known, labels[column], law=number))
        return answers
