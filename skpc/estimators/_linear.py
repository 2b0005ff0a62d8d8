"""Linear models of rows whose missing cells are filled by their conditional means."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from skpc._arrays import Floats
from skpc.domain import Domain, one_hot
from skpc.learning import Factors

#: Standard deviations from the mean beyond which a number counts no more.
_FARTHEST = 10.0
#: Iterations of logistic regression, and the least probability; smaller ones count as this.
_MAX_ITER, _SMALLEST = 300, 1e-12


class LinearOnCompletions(BaseEstimator):
    """A linear model of the scores of numbers and of indicators of categories.

    A missing cell counts by its mean given the cells of its row that are there, under a normal
    distribution of all scores and indicators: the expected value of a linear function is that of
    the expected row.

    Parameters
    ----------
    domain : Domain
        What the columns of the encoded rows are.
    of_classes : bool
        Whether it is a logistic regression, or a ridge regression.
    penalty : float, default=1.0
        Factor of the squared coefficients in the loss, like ``alpha`` of Ridge.
    """

    def __init__(self, domain: Domain, of_classes: bool, penalty: float = 1.0):
        self.domain = domain
        self.of_classes = of_classes
        self.penalty = penalty

    def fit(self, rows: Floats, target: Any, sample_weight: Floats) -> LinearOnCompletions:
        """Learn from encoded rows, which may have missing cells."""
        features = self._features(rows)
        missing = np.isnan(features)
        lowest = np.where(missing, np.inf, features).min(axis=0)
        self.varies_ = np.where(missing, -np.inf, features).max(axis=0) > lowest
        if self.varies_.any():
            self.factors_ = Factors.fit(features[:, self.varies_], sample_weight)
        self.model_: Any = Ridge(alpha=self.penalty)
        if self.of_classes:
            self.model_ = LogisticRegression(C=1.0 / self.penalty, max_iter=_MAX_ITER)
        with warnings.catch_warnings():
            # The last digits of a member of a pool do not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_.fit(self._completed(rows), target, sample_weight)
        return self

    def losses(self, rows: Floats, target: Any) -> Floats:
        """Log loss of each row, in nats, or squared error."""
        if not self.of_classes:
            return np.asarray((self.predict(rows) - target) ** 2)
        own = self.predict_proba(rows)[np.arange(len(rows)), np.searchsorted(self.classes_, target)]
        return np.asarray(-np.log(np.maximum(own, _SMALLEST)))

    def predict(self, rows: Floats) -> Any:
        """Predictions for encoded rows."""
        return self.model_.predict(self._completed(rows))

    def predict_proba(self, rows: Floats) -> Any:
        """Probabilities of the classes, for encoded rows."""
        return self.model_.predict_proba(self._completed(rows))

    @property
    def classes_(self) -> Any:
        """The classes."""
        return self.model_.classes_

    def _features(self, rows: Floats) -> Floats:
        scores = rows.copy()
        for column, number in enumerate(self.domain.numbers or ()):
            if number is not None:
                scores[:, column] = number.score.transform(rows[:, column])
        return one_hot(self.domain, scores)

    def _completed(self, rows: Floats) -> Floats:
        if not self.varies_.any():
            return np.zeros((len(rows), 1))
        units = self.factors_.completed(self._features(rows)[:, self.varies_])
        return np.clip(units, -_FARTHEST, _FARTHEST)
