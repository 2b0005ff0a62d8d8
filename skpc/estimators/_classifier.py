"""Classifiers that are joint densities of rows and classes."""

from abc import abstractmethod
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats, Ints
from skpc._validation import check_n_samples
from skpc.estimators._answers import by_chunks
from skpc.estimators._estimator import TableEstimator
from skpc.variables.events import Events


class ProbabilisticClassifier(ClassifierMixin, TableEstimator):
    """A classifier of incomplete rows that is a joint density of rows and classes."""

    classes_: np.ndarray = field(init=False)

    @abstractmethod
    def _log_posterior(self, events: Events) -> Floats:
        """Log probability of each class given the observed cells of encoded rows."""

    @abstractmethod
    def _log_density(self, events: Events) -> Floats:
        """Log density of the observed cells of encoded rows, whatever their class."""

    @abstractmethod
    def _draw(self, n_rows: int, random_state: np.random.RandomState) -> tuple[Floats, Ints]:
        """Draw encoded rows, and the numbers of their classes."""

    @by_chunks
    def predict_log_proba(self, X: Any) -> Floats:
        """Log probability of each class given the observed cells of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In nats; classes in the order of ``classes_``.
        """
        return self._log_posterior(self._events(X, is_scored=False)[1])

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class given the observed cells of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Classes in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        # An estimator that is not fitted says so, and has no classes.
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    @by_chunks
    def score_samples(self, X: Any) -> Floats:
        """Log density of each row, whatever its class, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the counting measure on categories and the
            Lebesgue measure on numbers. Low where a row is unlike the training rows. A category
            that was not seen counts as in :meth:`CutsetNetworkBD.score_samples`; it says nothing
            about the class.
        """
        _, events, mass = self._events(X)
        return mass.with_rows(self._log_density(events))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw rows and their classes.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        X : ndarray or DataFrame of shape (n_samples, n_features)
            Complete rows in original units, of the kind that ``fit`` was given.
        y : ndarray of shape (n_samples,)
            Their classes.
        """
        check_is_fitted(self)
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        rows, code = self._draw(n_samples, random_state)
        return self.domain_.decode(self.domain_.draw_row_names(rows, random_state)), self.classes_[
            code
        ]
