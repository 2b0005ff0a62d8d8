"""Predictors that are no densities, learned from masked copies of the training rows.

A model predicts best from incomplete rows if it has learned from such rows: so each training row is
in the training data once for each of several rates, with cells removed at that rate.
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

#: Linear models by name; :class:`LinearOnCompletions` makes them take missing cells.
_LINEAR = {"logistic": LogisticRegression(max_iter=300), "ridge": Ridge()}


class MaskingEnsemble(NamedTuple):
    """Clones of a model trained on masked copies of encoded rows; their answers are averaged.

    The error of a single model varies by several percent with the cells that happen to be removed.

    Attributes
    ----------
    models : list of fitted classifiers or regressors
        One for each draw of the cells to remove. Boosting chooses its settings with the first draw.
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
        # Equal weights are left out. With weights boosting sorts the rows to bin them, which takes
        # 1.1 s instead of .04 for 1,707 x 30 numbers.
        unequal_weights = weights if np.ptp(weight) > 0.0 else None
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
                    data = domain, copies, targets, unequal_weights, len(rates), random_state
                    model = _boosting(model == "classifier", *data)
                copy_weight = weights if isinstance(model, LinearOnCompletions) else unequal_weights
                fitted.append(clone(model).fit(copies, targets, sample_weight=copy_weight))
        return cls(fitted)

    def predict(self, rows: Floats, method: str = "predict") -> Floats:
        """The mean of what the models answer about encoded rows, by their method of that name."""
        with one_thread():
            return np.mean([getattr(model, method)(rows) for model in self.models], axis=0)


def _with_values(rows: Floats) -> Floats:
    """Rows whose empty columns are filled with zeros: boosting cannot bin a column of NaN."""
    return np.where(np.isnan(rows).all(axis=0), 0.0, rows)


def with_categories(model: Any, domain: Domain) -> Any:
    """A clone of a model that knows which columns are categories, if it has that parameter."""
    model = clone(model)
    if isinstance(model.get_params().get("categorical_features"), str):
        model.set_params(categorical_features=few_categories(domain))
    return model


def few_categories(domain: Domain) -> Bools:
    """Which columns boosting by histograms takes as categories; the others count as numbers."""
    # Boosting of scikit-learn refuses more categories than this.
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
    learning_rate = 0.2
    max_iter = 300
    patience = 10
    # Numbers of leaves are tried in turn, until a greater one is no better on held-out rows.
    leaves = (4, 10, 31)
    n_parts = 5
    n_rows = len(copies) // n_rates
    # Each class has its share of the held-out rows, and none is held out as a whole.
    group = target[:n_rows].astype(np.int64) if are_classes else np.zeros(n_rows, np.int64)
    zeros = np.zeros(n_rows)
    splits = deal(np.ones(n_rows), n_parts, random_state, group)
    _, held_weight = next(splits, (zeros, zeros))
    make = HistGradientBoostingClassifier if are_classes else HistGradientBoostingRegressor
    model = make(
        categorical_features=few_categories(domain),
        early_stopping=False,
        learning_rate=learning_rate,
        random_state=random_state.randint(2**31),
    )
    # With too few rows to hold one out, the settings stay those of scikit-learn.
    if not held_weight.any():
        return model
    # All copies of a row are held out together: one left in training would reveal its target.
    is_held = np.tile(held_weight > 0.0, n_rates)
    train, test = (
        (
            _with_values(copies[is_part]),
            target[is_part],
            None if weight is None else weight[is_part],
        )
        for is_part in (~is_held, is_held)
    )
    held_out = dict(zip(("X_val", "y_val", "sample_weight_val"), test))
    best_score = -np.inf
    for n_leaves in leaves:
        stopped = clone(model).set_params(
            max_leaf_nodes=n_leaves,
            max_iter=max_iter,
            early_stopping=True,
            n_iter_no_change=patience,
        )
        validation_score = stopped.fit(*train, **held_out).validation_score_
        # Score k is that after k iterations.
        n_iter = int(validation_score.argmax())
        if validation_score[n_iter] <= best_score:
            break
        best_score = validation_score[n_iter]
        model.set_params(max_leaf_nodes=n_leaves, max_iter=max(n_iter, 1))
    return model


class LinearOnCompletions(BaseEstimator):
    """A linear model of the scores of numbers and of indicators of categories.

    A missing cell is replaced by its mean given the observed cells of its row, under a normal
    distribution of all scores and indicators: the expected value of a linear function is its value
    at the expected row.

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
        # A column without any value does not vary either; fmax and fmin skip NaN.
        self.varies_ = np.fmax.reduce(features) > np.fmin.reduce(features)
        self.factors_ = Factors.fit(np.where(self.varies_, features, 0.0), sample_weight)
        self.model_: Any = clone(self.model)
        with warnings.catch_warnings():
            # A member of a pool need not converge to the last digits.
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
        """Scores of numbers and indicators of categories, NaN where missing."""
        scores = rows.copy()
        for column, law in enumerate(self.domain.laws):
            if law is not None:
                scores[:, column] = law.scaled(rows[:, column])
        return one_hot(self.domain, scores)

    def _completed(self, rows: Floats) -> Floats:
        """Standardised features of rows whose missing cells are filled with their means."""
        # Features are clipped at this many standard deviations from their means.
        farthest = 10.0
        features = np.where(self.varies_, self._features(rows), 0.0)
        return np.clip(self.factors_.completed(features), -farthest, farthest)
