"""Cells of a table by linear regressions of each column on the others that are observed.

All of them follow from one Gaussian of numbers and indicators of categories, which EM learns from
rows with missing cells: regressions on complete rows would need these, and covariances of pairs
of columns need no table that has them. The plain twin is ``tests/naive/linear.py``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats
from skpc.domain import Domain, column_moments, one_hot
from skpc.learning.gaussian_mixture import (
    MixtureParams,
    MixturePrior,
    MixtureRows,
    fit_gaussian_mixture,
)
from skpc.variables import Normals, Points, Predictive
from skpc.variables.gaussians import Gaussians, conditionals
from skpc.variables.patterns import Patterns

#: Standard deviations of a column given all others are at least this part of its own.
_SMALLEST_SD = 1e-4
#: A state that fewer rows have is pooled with the most frequent one of its column.
_FEWEST = 3.0
#: EM ends when the mean log density gains less than this for each column, or after so many steps.
_TOL, _MAX_ITER = 1e-3, 50


class LinearCells(NamedTuple):
    """The Gaussian of all columns.

    Attributes
    ----------
    domain : Domain
        What the columns of the table are.
    kept : bool ndarray of shape (n_columns,)
        Which columns of :func:`skpc.domain.one_hot` the Gaussian has: those that vary, without one
        state of each category.
    mean : ndarray of shape (n_columns,)
        Means of all of these columns: of numbers, and frequencies of states.
    gaussians : Gaussians
        One Gaussian.
    """

    domain: Domain
    kept: Bools
    mean: Floats
    gaussians: Gaussians

    @classmethod
    def fit(cls, domain: Domain, rows: Floats, weight: Floats, strength: float) -> Self:
        """Learn it from encoded rows.

        Parameters
        ----------
        domain : Domain
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        strength : float
            Rows, for each column of the Gaussian, that are added and have no correlations.
        """
        table = one_hot(domain, rows)
        mean, sd = (np.nan_to_num(part) for part in column_moments(table, weight))
        kept, first = sd > 0.0, 0
        for states in domain.categories:
            n = 1 if states is None else len(states)
            if states is not None:
                counts = mean[first : first + n] * weight.sum()
                kept[first : first + n] &= counts >= _FEWEST
                kept[first + int(counts.argmax())] = False
            first += n
        scores, d = table[:, kept], int(kept.sum())
        nothing = np.zeros(len(rows))
        patterns = Patterns.from_scores(scores)
        states = np.zeros((len(rows), 0))
        data = MixtureRows(scores, patterns, states, nothing, nothing)
        prior = MixturePrior(
            np.zeros(1, dtype=np.int64),
            np.zeros(0),
            mean[kept],
            np.diag(sd[kept] ** 2),
            np.zeros_like,
            _SMALLEST_SD * sd[kept],
        )
        params = MixtureParams(1, prior_strength=strength)
        start = np.ones((1, len(rows)))
        fit = fit_gaussian_mixture(data, weight, start, prior, params, _MAX_ITER, _TOL * d)
        return cls(domain, kept, mean, fit.model.gaussians)

    def posteriors(self, rows: Any, columns: Sequence[int] | None = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`."""
        table = one_hot(self.domain, rows)
        scores = np.ascontiguousarray(table[:, self.kept])
        mean, sd = np.tile(self.mean, (len(rows), 1)), np.zeros(table.shape)
        wanted = np.ones((1, len(rows)), dtype=bool)
        means, sds = conditionals(self.gaussians, scores, Patterns.from_scores(scores), wanted)
        mean[:, self.kept], sd[:, self.kept] = means[0], sds[0]
        sizes = [1 if states is None else len(states) for states in self.domain.categories]
        first = np.cumsum([0, *sizes])
        cells = []
        for column in range(rows.shape[1]) if columns is None else columns:
            part, labels = slice(first[column], first[column + 1]), self.domain.categories[column]
            if labels is None:
                form: Any = Normals(mean[:, part], sd[:, part], np.ones((len(rows), 1)))
            else:
                kept, prob = self.kept[part], np.clip(mean[:, part], 0.0, 1.0)
                rest = np.maximum(1.0 - prob[:, kept].sum(axis=1, keepdims=True), 0.0)
                of_rest = self.mean[part][~kept]
                prob[:, ~kept] = rest * of_rest / max(of_rest.sum(), 1e-300)
                prob /= prob.sum(axis=1, keepdims=True)
                form = Points(np.arange(float(len(labels))), prob)
            number = self.domain.number_of(column)
            cells.append(Predictive([form], rows[:, column], labels, number=number))
        return cells
