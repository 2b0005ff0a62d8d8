"""Bayesian logistic regression by expectation propagation."""

from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing
from skpc._validation import (
    AT_LEAST_ONE,
    HasMethods,
    Interval,
    StrOptions,
    check_magnitude,
    eager,
    fit_context,
)
from skpc.estimators._estimator import Estimator, parameter
from skpc.estimators._targets import check_labels
from skpc.messages import LogisticEP, LogisticFactor, QuadratureOracle
from skpc.messages.loops import LARGEST_FEATURE


class LogisticEPClassifier(ClassifierMixin, Estimator):
    """Binary classifier: logistic regression with weights w ~ N(0, I), by expectation propagation.

    The messages from the logistic factors may come from quadrature, from a sampler or from an
    operator that learns them just in time [1]_. Predicted probabilities are averages over the
    posterior of the weights, not the probabilities under its mean.

    Centre and scale the columns first: the prior has variance one for each weight, and expectation
    propagation converges slowly where columns are large or far from zero.

    Parameters
    ----------
    operator : MessageOperator or None, default=None
        Gives beliefs about z = x w; see :class:`~skpc.messages.LogisticEP`. None: exact, by
        quadrature. A :class:`~skpc.messages.JustInTimeOperator` goes on learning in each fit: give
        the same one to several classifiers, and later ones will ask its oracle less.
    n_iter : int, default=10
        Number of sweeps over the rows.
    damping : float, default=0.0
        The share of its old natural parameters that a message keeps in each update.
    schedule : {"parallel", "serial"}, default="parallel"
        "parallel": all messages are updated from the same posterior. "serial": one by one.
    fit_intercept : bool, default=True
        Whether to add a column of ones; its weight has the same prior.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    posterior_ : WeightPosterior
        Approximate posterior of the weights, that of the intercept last.
    coef_ : ndarray of shape (1, n_features)
        Posterior means of the weights.
    intercept_ : ndarray of shape (1,)
        Posterior mean of the intercept; zero without one.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    KernelEPOperator : Learns the messages of a factor.
    DensityClassifier : Classes of rows with missing cells.
    sklearn.linear_model.LogisticRegression : The weights of greatest penalised likelihood.

    References
    ----------
    .. [1] W. Jitkrittum, A. Gretton, N. Heess, S. M. A. Eslami, B. Lakshminarayanan, D. Sejdinovic,
       Z. Szabo. "Kernel-Based Just-In-Time Learning for Passing Expectation Propagation Messages".
       UAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import LogisticEPClassifier
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = LogisticEPClassifier().fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict_proba([[0.0], [3.0]]).round(2)
    array([[0.5 , 0.5 ],
           [0.11, 0.89]])
    """

    operator: Any = parameter(None, HasMethods("project"), None)
    n_iter: int = parameter(10, AT_LEAST_ONE)
    damping: float = parameter(0.0, Interval(Real, 0, 1, closed="left"))
    schedule: str = parameter("parallel", StrOptions({"parallel", "serial"}))
    fit_intercept: bool = parameter(True, "boolean")

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Approximate the posterior of the weights.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers, without missing cells.
        y : array-like of shape (n_samples,)
            Labels, two different ones.

        Returns
        -------
        LogisticEPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a cell is missing, infinite or beyond 1e70, or there are not two labels.

        Warns
        -----
        ConvergenceWarning
            If the last sweep has moved a weight by more than its standard deviation.
        """
        with all_or_nothing(self):
            rows = validate_data(self, eager(X), dtype=np.float64)
            labels = check_labels(self, y, len(rows))
            self.classes_, codes = np.unique(labels, return_inverse=True)
            if len(self.classes_) > 2:
                # These are the words that scikit-learn's checks look for.
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"{type_of_target(labels)}."
                )
            if len(self.classes_) < 2:
                only = self.classes_.tolist()[0]
                raise ValueError(f"y needs two classes; found one class, {only!r}.")
            operator = self.operator
            if operator is None:
                # Variable 1 of the factor is z = x w; variable 0 is the probability.
                operator = QuadratureOracle(LogisticFactor(), target=1)
            loop = LogisticEP(
                operator, n_iter=self.n_iter, damping=self.damping, schedule=self.schedule
            )
            self.posterior_ = loop.run(self._design(rows), codes)
            weights = self.posterior_.mean
            self.coef_ = weights[np.newaxis, : rows.shape[1]].copy()
            # The column of ones stands last in the design.
            self.intercept_ = weights[-1:].copy() if self.fit_intercept else np.zeros(1)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class, averaged over the posterior of the weights.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive where the second class is the more probable one.
        """
        # z of a row of zeros is certain; a normal message needs some variance.
        least_variance = 1e-20
        check_is_fitted(self)
        X = validate_data(self, eager(X), reset=False, dtype=np.float64)
        rows = self._design(X)
        mean = self.posterior_.mean
        covariance = self.posterior_.covariance
        # The posterior variance of z = x w, by rows: x' S x.
        variance = ((rows @ covariance) * rows).sum(axis=1)
        variance = np.maximum(variance, least_variance)
        # One minus a probability near one has few digits: each side has its own quadrature.
        log_prob = [_log_probability(side * (rows @ mean), variance) for side in (1.0, -1.0)]
        return log_prob[0] - log_prob[1]

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        is_second = self.decision_function(X) > 0.0
        return self.classes_[is_second.astype(np.int64)]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, averaged over the posterior of the weights.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Columns in the order of ``classes_``.
        """
        second = expit(self.decision_function(X))
        return np.column_stack([1.0 - second, second])

    def _design(self, rows: Floats) -> Floats:
        check_magnitude(rows, getattr(self, "feature_names_in_", None), limit=LARGEST_FEATURE)
        return np.column_stack([rows, np.ones(len(rows))]) if self.fit_intercept else rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _log_probability(mean: Floats, variance: Floats) -> Floats:
    """Log of the expectation of 1 / (1 + exp(-z)) for normal z."""
    # The belief of p with nothing observed: the message Beta(1, 1) from p is constant.
    flat = np.ones((len(mean), 2))
    messages = np.column_stack([flat, mean, variance])
    prob = QuadratureOracle(LogisticFactor(), target=0).moments(messages)[:, 0]
    # Probabilities below this one are taken for it, so that log odds are finite.
    least_probability = 1e-300
    return np.log(np.maximum(prob, least_probability))
