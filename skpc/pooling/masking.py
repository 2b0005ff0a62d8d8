"""Models of incomplete rows: masking ensembles, and linear models of completed rows.

A model that is to predict from incomplete rows learns them best from incomplete rows: each
training row is in the training data several times, with cells removed at each of some rates.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from skpc._arrays import Bools, Floats
from skpc._threads import one_thread
from skpc.domain import Domain, one_hot
from skpc.learning.factors import Factors
from skpc.learning.held_out import deal
from skpc.pooling.folds import remove_cells

_RATE = 0.2
#: One row in this many is held out to choose among them, and the number of iterations.
_HELD_OUT = 5
#: Linear models of completed rows.
_LINEAR = {"logistic": LogisticRegression(max_iter=300), "ridge": Ridge()}


class MaskingEnsemble(NamedTuple):
    """Clones of a model trained on masked copies of encoded rows; their answers are averaged.

    Which cells happen to be removed moves a single model by several percent of its error.

    Attributes
    ----------
    models : list of fitted classifiers or regressors
        One for each draw of the cells to remove. Boosting chooses its settings on the first.
    """

    models: list[Any]

    @classmethod
    def fit(
        cls,
        model: Any,
        domain: Domain,
        rows: Floats,
        target: Any,
        weight: Floats,
        rates: Sequence[float],
        seeds: Sequence[int],
    ) -> Self:
        """Train clones of a model.

        Parameters
        ----------
        model : classifier, regressor, or {"classifier", "regressor", "logistic", "ridge"}
            The first two strings stand for boosting, whose leaves, learning rate and number of
            iterations are chosen on held-out rows (the copies of a row are held out together); the
            others for linear models of completed rows.
        domain : Domain
            What the columns are.
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        target : ndarray of shape (n_rows,)
            Numbers of classes, or targets.
        weight : ndarray of shape (n_rows,)
            Positive.
        rates : sequence of float
            Proportions of cells to remove, one copy for each.
        seeds : sequence of int
            One for each model.
        """
        targets = np.tile(target, len(rates))
        weights = np.tile(weight, len(rates))
        # Boosting sorts weighted rows to bin them: 1.1 s and not .04 for 1,707 x 30 numbers.
        unequal = weights if np.ptp(weight) > 0.0 else None
        if not isinstance(model, str):
            model = with_categories(model, domain)
        fitted = []
        for random_state in map(np.random.RandomState, seeds):
            # Copies stand below each other as tiled targets do, (n_rates * n_rows, n_features).
            parts = [remove_cells(rows, rate, random_state) for rate in rates]
            copies = _with_values(np.concatenate(parts))
            with one_thread():
                if isinstance(model, str) and model in _LINEAR:
                    model = LinearOnCompletions(domain, _LINEAR[model])
                elif isinstance(model, str):
                    data = domain, copies, targets, unequal, len(rates), random_state
                    model = _boosting(model == "classifier", *data)
                copy_weight = weights if isinstance(model, LinearOnCompletions) else unequal
                fitted.append(clone(model).fit(copies, targets, sample_weight=copy_weight))
        return cls(fitted)

    def predict(self, rows: Floats, method: str = "predict") -> Floats:
        """The mean answer of the models to encoded rows."""
        with one_thread():
            return np.mean([getattr(model, method)(rows) for model in self.models], axis=0)


def _with_values(rows: Floats) -> Floats:
    """Rows whose empty columns are constant: boosting cannot bin what has no value."""
    return np.where(np.isnan(rows).all(axis=0), 0.0, rows)


def with_categories(model: Any, domain: Domain) -> Any:
    """A clone of a model that knows which columns are categories, if it has that parameter."""
    model = clone(model)
    if isinstance(model.get_params().get("categorical_features"), str):
        model.set_params(categorical_features=few_categories(domain))
    return model


def few_categories(domain: Domain) -> Bools:
    """The columns that boosting by histograms takes for categories."""
    # Most categories that boosting takes; a column with more is taken for a number.
    max_categories = 255
    return domain.is_categorical & (domain.n_states <= max_categories)


def _boosting(
    are_classes: bool,
    domain: Domain,
    copies: Floats,
    target: Floats,
    weight: Floats | None,
    n_rates: int,
    random_state: np.random.RandomState,
) -> Any:
    """Boosting with the settings that are best for one row in five, held out."""
    # Leaves of boosting that compete on held-out rows, more and more until they are no better, and
    # its learning rate.
    leaves = (4, 10, 31)
    max_iter = 300
    patience = 10
    n_rows = len(copies) // n_rates
    # Classes have even parts in what is held out, and none is held out as a whole.
    group = target[:n_rows].astype(np.int64) if are_classes else np.zeros(n_rows, np.int64)
    nothing = np.zeros(n_rows)
    _, dealt = next(deal(np.ones(n_rows), _HELD_OUT, random_state, group), (nothing, nothing))
    make = HistGradientBoostingClassifier if are_classes else HistGradientBoostingRegressor
    model = make(
        categorical_features=few_categories(domain),
        early_stopping=False,
        learning_rate=_RATE,
        random_state=random_state.randint(2**31),
    )
    # So few rows leave none to hold out, and the settings stay as they are.
    if not dealt.any():
        return model
    # A copy that stayed would give away the answer of a row held out.
    held = np.tile(dealt > 0.0, n_rates)
    train, test = (
        (
            _with_values(copies[is_part]),
            target[is_part],
            None if weight is None else weight[is_part],
        )
        for is_part in (~held, held)
    )
    held_out = dict(zip(("X_val", "y_val", "sample_weight_val"), test))
    reached = -np.inf
    for n_leaves in leaves:
        stopped = clone(model).set_params(
            max_leaf_nodes=n_leaves,
            max_iter=max_iter,
            early_stopping=True,
            n_iter_no_change=patience,
        )
        validation_score = stopped.fit(*train, **held_out).validation_score_
        # The first of the scores is that before any iteration.
        best = int(validation_score.argmax())
        if validation_score[best] <= reached:
            break
        reached = validation_score[best]
        model.set_params(max_leaf_nodes=n_leaves, max_iter=max(best, 1))
    return model


class LinearOnCompletions(BaseEstimator):
    """A linear model of the scores of numbers and of indicators of categories.

    A missing cell counts by its mean given the cells of its row that are observed, under a normal
    distribution of all scores and indicators: the expected value of a linear function is that of
    the expected row.

    Parameters
    ----------
    domain : Domain
        What the columns of the encoded rows are.
    model : LogisticRegression or Ridge
        It is cloned.
    """

    def __init__(self, domain: Domain, model: Any):
        self.domain = domain
        self.model = model

    def fit(self, rows: Floats, target: Any, sample_weight: Floats) -> Self:
        """Learn from encoded rows, which may have missing cells."""
        features = self._features(rows)
        # Neither does a column vary that has no value; fmax and fmin do not see NaN.
        self.varies_ = np.fmax.reduce(features) > np.fmin.reduce(features)
        self.factors_ = Factors.fit(np.where(self.varies_, features, 0.0), sample_weight)
        self.model_: Any = clone(self.model)
        with warnings.catch_warnings():
            # The last digits of a member of a pool do not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_.fit(self._completed(rows), target, sample_weight)
        return self

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
        for column, number in enumerate(self.domain.laws):
            if number is not None:
                scores[:, column] = number.scaled(rows[:, column])
        return one_hot(self.domain, scores)

    def _completed(self, rows: Floats) -> Floats:
        # Standard deviations from the mean beyond which a number counts no more for a linear model.
        farthest = 10.0
        features = np.where(self.varies_, self._features(rows), 0.0)
        return np.clip(self.factors_.completed(features), -farthest, farthest)
