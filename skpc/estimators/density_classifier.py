"""Classification by the density of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._validation import check_labels, check_n_samples, fit_context
from skpc.domain import Domain, merge_rows
from skpc.estimators._base import TableEstimator
from skpc.estimators._fitting import all_or_nothing
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.streaming import by_blocks, noted

#: What the classifier asks of a density, and the parameters by which it declares the columns.
_METHODS = ("fit_rows", "score_samples", "sample")
_DECLARATIONS = (
    "categorical_features",
    "categories",
    "margins",
    "atoms",
    "bounds",
    "handle_unknown",
)


class DensityClassifier(ClassifierMixin, TableEstimator):
    """Classifier by the densities of the classes, for rows with any cells missing.

    A clone of a density learns the rows of each class, and Bayes' rule turns densities into
    probabilities of classes. Missing cells are integrated out, in ``fit`` and in ``predict``: a row
    is judged by the cells that it has, and needs no imputation. The density of the rows themselves
    comes with it (:meth:`score_samples`): a row that is improbable under every class is an outlier,
    whatever its label.

    Parameters
    ----------
    density : density estimator, default=None
        Any density of skpc. It is cloned, and keeps its own ``random_state``. None means
        ``SoftLearnSPN(random_state=0)``; pass one to tune its parameters in a grid search (as
        ``density__beta``).
    priors : array-like of shape (n_classes,), default=None
        Probabilities of the classes, in sorted order. None takes their frequencies in ``fit``;
        with ``joint`` their probabilities under the joint density, which are close to these.
    joint : bool, default=False
        Whether one density of the columns and the class together takes the place of one for each
        class. Its probabilities are often closer to the truth where columns tell the same story
        many times over, but it tends to misclassify more rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    class_count_ : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Probability of each class before anything is known of a row.
    densities_ : list of density estimators
        The fitted densities of encoded rows, one a class; with ``joint`` a single one, whose last
        column is the number of the class.
    domain_ : Domain
        What each column is, decided on the rows of all classes together.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    SoftLearnSPN : The default density.
    sklearn.naive_bayes.GaussianNB : One Gaussian for each class and column.

    Notes
    -----
    The density of class c, learned from rows of total weight n, is mixed with the density of all
    classes, with the weight 1 / (n + 1) of a single row more: the next row may be unlike any
    that has been seen. That bounds the price of a wrong prediction. With ``joint`` nothing is
    mixed.

    A column without any value in the rows of a class is learned from those of all classes, which
    count as one row there.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skpc import DensityClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DensityClassifier().fit(X, y)
    >>> model.predict([[np.nan, np.nan, 1.4, np.nan], [6.0, np.nan, np.nan, 2.1]])
    array([0, 2])
    >>> model.predict_proba(np.full((1, 4), np.nan)).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    _parameter_constraints: dict[str, list[Any] | str] = {
        "density": "no_validation",
        "priors": ["array-like", None],
        "joint": ["boolean"],
    }

    def __init__(self, density: Any = None, *, priors: Any = None, joint: bool = False):
        self.density = density
        self.priors = priors
        self.joint = joint

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DensityClassifier:
        """Learn the densities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings. A single class is allowed.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        DensityClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If the density is not one of skpc.
        ValueError
            If the priors do not fit the classes, all cells are missing, one is infinite,
            a class is missing or not a class, the weights are negative or all zero, or the density
            cannot learn from the few rows of a class (a note names the class).
        """
        with all_or_nothing(self):
            density = SoftLearnSPN(random_state=0) if self.density is None else self.density
            _refuse_other_density(density)
            table, weight, labels = self._training_rows(X, sample_weight, y, check_labels)
            self.classes_, code = np.unique(labels, return_inverse=True)
            self.class_count_ = np.bincount(code, weight)
            declared = {name: getattr(density, name) for name in _DECLARATIONS}
            declared["n_bins"] = density._n_bins
            self.domain_ = Domain.fit(table, sample_weight=weight, **declared)
            rows = self.domain_.encode(table)
            if self.joint:
                self.densities_ = [self._learn(density, np.column_stack([rows, code]), weight)]
            else:
                self.densities_ = []
                for c, (name, total) in enumerate(zip(self.classes_.tolist(), self.class_count_)):
                    with noted(
                        f"This came from the density of class {name!r}, which has rows of total "
                        f"weight {total:g}."
                    ):
                        mine = _rows_of_class(rows, weight, code == c)
                        self.densities_.append(self._learn(density, *mine))
            self.class_prior_ = self._class_prior()
        return self

    def _learn(self, density: Any, rows: Floats, weight: Floats) -> Any:
        """A clone of the density, fitted to encoded rows; all share what the columns are."""
        domain = self.domain_
        if self.joint:
            domain = domain.with_category(len(self.classes_))
        return clone(density).fit_rows(domain, *merge_rows(rows, weight))

    def _class_prior(self) -> Floats:
        n_classes = len(self.classes_)
        if self.priors is None:
            if self.joint:
                prior = np.exp(self._log_joint_prior())
                return np.asarray(prior / prior.sum())
            return self.class_count_ / self.class_count_.sum()
        prior = np.array(self.priors, dtype=np.float64)
        if prior.shape != (n_classes,):
            raise ValueError(
                f"priors needs one probability for each of the {n_classes} classes, shape "
                f"({n_classes},); found shape {prior.shape}."
            )
        if not (prior >= 0.0).all() or not np.isclose(prior.sum(), 1.0):
            raise ValueError(
                f"priors must be probabilities that sum to 1; found {prior.tolist()}, whose sum is "
                f"{prior.sum():g}."
            )
        return prior

    def _log_joint_prior(self) -> Floats:
        """Log probability of each class under the joint density."""
        return np.asarray(self.densities_[0]._density.log_density(self._class_alone()))

    def _class_alone(self) -> Floats:
        """One row for each class, in which only the class is known."""
        codes = np.arange(len(self.classes_), dtype=np.float64)
        unknown = np.full((len(codes), self.domain_.n_features), np.nan)
        return np.column_stack([unknown, codes])

    def _log_densities(self, rows: Floats) -> Floats:
        """Log density of encoded rows given each class, shape (n_rows, n_classes)."""
        if not self.joint:
            return np.column_stack([d._density.log_density(rows) for d in self.densities_])
        density = self.densities_[0]._density
        unlabelled = np.column_stack([rows, np.full(len(rows), np.nan)])
        log_density = density.log_density(unlabelled)
        # One question about the class instead of one for each class; a row that is too far away
        # for its density to be positive has no answer.
        near = ~np.isneginf(log_density)
        posterior = np.zeros((len(rows), len(self.classes_)))
        if near.any():
            (label,) = density.posteriors(unlabelled[near], [rows.shape[1]])
            posterior[near] = label.probabilities
        return log_density[:, np.newaxis] + _log(posterior) - self._log_joint_prior()

    def _weight_of_all(self) -> Floats:
        """Weight of the density of all classes in that of each class."""
        return np.where(self.joint, 0.0, 1.0 / (self.class_count_ + 1.0))

    def _log_joint(self, rows: Floats) -> Floats:
        """Log density of encoded rows together with each class, shape (n_rows, n_classes)."""
        log_density, log_prior = self._log_densities(rows), _log(self.class_prior_)
        weight = self._weight_of_all()
        of_all = np.logaddexp.reduce(log_density + log_prior, axis=1, keepdims=True)
        return np.logaddexp(np.log1p(-weight) + log_density, _log(weight) + of_all) + log_prior

    @by_blocks
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
            that was not seen counts as in :meth:`CutsetNetworkBD.score_samples`; of the classes it
            says nothing.
        """
        _, rows, mass = self._encode_with_mass(X)
        return mass.with_rows(np.logaddexp.reduce(self._log_joint(rows), axis=1))

    @by_blocks
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
        log_joint = self._log_joint(self._encode(X)[1])
        best = log_joint.max(axis=1, keepdims=True)
        # A row too far away for any density to be positive tells nothing about the class.
        odds = np.where(np.isneginf(best), _log(self.class_prior_), log_joint)
        # Where the logs are huge, a constant added to them would be lost in rounding.
        odds = odds - odds.max(axis=1, keepdims=True)
        return np.asarray(odds - np.logaddexp.reduce(odds, axis=1, keepdims=True))

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
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
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
        log_proba = self.predict_log_proba(X)
        return np.asarray(self.classes_[log_proba.argmax(axis=1)])

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their classes.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows.

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
        n_classes, n_features = len(self.classes_), self.domain_.n_features
        code = random_state.choice(n_classes, n_samples, p=self.class_prior_)
        other = random_state.choice(n_classes, n_samples, p=self.class_prior_)
        is_other = random_state.random_sample(n_samples) < self._weight_of_all()[code]
        source = np.where(is_other, other, code)
        rows = np.empty((n_samples, n_features))
        for c in np.unique(source):
            mine = source == c
            rows[mine] = self._draw(c, int(mine.sum()), random_state)
        rows = self.domain_.name(rows, random_state)
        return self.domain_.decode(rows), self.classes_[code]

    def _draw(self, code: int, n_rows: int, random_state: np.random.RandomState) -> Floats:
        """Encoded rows of one class."""
        if not self.joint:
            return np.asarray(self.densities_[code]._density.draw(n_rows, random_state))
        alone = np.repeat(self._class_alone()[[code]], n_rows, axis=0)
        return np.asarray(self.densities_[0]._density.draw_missing(alone, random_state)[:, :-1])


def _refuse_other_density(density: Any) -> None:
    lacking = [name for name in (*_METHODS, *_DECLARATIONS) if not hasattr(density, name)]
    if lacking:
        raise TypeError(
            f"The density of DensityClassifier needs {', '.join(_METHODS)} and the parameters "
            f"{', '.join(_DECLARATIONS)}; {density!r} has no {lacking[0]}. Give a density of skpc, "
            "such as CutsetNetworkBD()."
        )


def _rows_of_class(rows: Floats, weight: Floats, mine: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The rows of a class; columns without a value there show those of all rows, as one row."""
    empty = np.isnan(rows[mine]).all(axis=0)
    if not empty.any():
        return rows[mine], weight[mine]
    of_all = np.where(empty, rows, np.nan)
    shown = ~np.isnan(of_all).all(axis=1)
    as_one = weight[shown] / weight[shown].sum()
    return np.vstack([rows[mine], of_all[shown]]), np.append(weight[mine], as_one)


def _log(probability: Floats) -> Floats:
    """Logarithm of probabilities, -inf for zero."""
    with np.errstate(divide="ignore"):
        return np.log(probability)
