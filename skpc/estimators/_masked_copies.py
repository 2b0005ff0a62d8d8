"""Classifiers and regressors that take missing cells, trained on copies of rows that lack some.

A model that is to predict from incomplete rows learns them best from incomplete rows: each
training row is there several times, with cells removed at each of some rates.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from skpc._arrays import Floats
from skpc.domain import Domain
from skpc.estimators._linear import LinearOnCompletions
from skpc.pooling.folds import deal, remove_cells

#: Leaves and learning rates of boosting that compete on held-out rows.
_CANDIDATES = ((4, 0.1), (10, 0.1), (31, 0.06))
#: One row in this many is held out to choose among them, and the number of iterations.
_HELD_OUT = 5
_MAX_ITER, _PATIENCE = 300, 15
#: Penalties of linear models to choose from.
_PENALTIES = (0.1, 1.0, 10.0, 100.0)
#: Most categories that boosting takes; a column with more is taken for a number.
_MAX_CATEGORIES = 255
#: What is said of members that fail to learn.
NEEDED = "Members learn from encoded rows, and must take missing cells and sample_weight."
#: Draws of the cells to remove.
_N_DRAWS = 3
#: Threads of boosting wait for each other after every split. With fewer cells than this, one thread
#: is as fast, and forty times as fast where other work has the cores.
_CELLS_FOR_THREADS = 2**20
#: A process with another number has been forked.
_IMPORTED_IN = os.getpid()


def fit_on_copies(
    model: Any,
    domain: Domain,
    rows: Floats,
    target: Any,
    weight: Floats,
    rates: Sequence[float],
    random_state: np.random.RandomState,
) -> list[Any]:
    """Train clones of a model on masked copies of encoded rows, whose answers are to be averaged.

    Which cells happen to be removed moves a single model by several percent of its error.

    Parameters
    ----------
    model : classifier, regressor, or one of {"classifier", "regressor", "logistic", "ridge"}
        The first two strings stand for boosting, whose leaves, learning rate and number of
        iterations are chosen on held-out rows (the copies of a row are held out together); the
        others for linear models with completed rows, whose penalty is chosen so.
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
    random_state : RandomState instance

    Returns
    -------
    list of fitted models
        One for each draw of the cells to remove; settings are chosen on the first.
    """
    targets, weights = np.tile(target, len(rates)), np.tile(weight, len(rates))
    if not isinstance(model, str):
        model = told_categories(model, domain)
    fitted = []
    for _ in range(_N_DRAWS):
        copies = np.concatenate([remove_cells(rows, rate, random_state) for rate in rates])
        with few_threads(copies):
            if isinstance(model, str):
                model = _chosen(model, domain, copies, targets, weights, random_state, len(rates))
            fitted.append(clone(model).fit(copies, targets, sample_weight=weights))
    return fitted


def few_threads(rows: Floats) -> AbstractContextManager[Any]:
    """Let boosting learn from few rows, or answer for them, with one thread.

    A forked child takes one thread for all rows: it would wait for threads of OpenMP that its
    parent has started, and that a fork does not copy.
    """
    alone = rows.size < _CELLS_FOR_THREADS or os.getpid() != _IMPORTED_IN
    return threadpool_limits(1, user_api="openmp") if alone else nullcontext()


def told_categories(model: Any, domain: Domain) -> Any:
    """A clone of a model that knows which columns are categories, if it has that parameter."""
    model = clone(model)
    if isinstance(model.get_params().get("categorical_features"), str):
        model.set_params(categorical_features=_few_categories(domain))
    return model


def _few_categories(domain: Domain) -> Any:
    return domain.is_categorical & (domain.n_states <= _MAX_CATEGORIES)


def _chosen(
    kind: str,
    domain: Domain,
    copies: Floats,
    target: Any,
    weight: Floats,
    random_state: np.random.RandomState,
    n_rates: int,
) -> Any:
    """Boosting or a linear model, with settings chosen on held-out rows: one row in five."""
    of_classes, n_rows = kind in ("classifier", "logistic"), len(copies) // n_rates
    group = target[:n_rows].astype(np.int64) if of_classes else np.zeros(n_rows, np.int64)
    held = np.tile(deal(np.ones(n_rows), group, _HELD_OUT, random_state)[0] > 0.0, n_rates)
    choose, model = _best_boosting, _boosting(of_classes, domain, random_state)
    if kind in ("logistic", "ridge"):
        choose, model = _best_linear, LinearOnCompletions(domain, of_classes)
    return choose(model, copies, target, weight, held) if held.any() else model


def _boosting(of_classes: bool, domain: Domain, random_state: np.random.RandomState) -> Any:
    make = HistGradientBoostingClassifier if of_classes else HistGradientBoostingRegressor
    return make(
        categorical_features=_few_categories(domain),
        early_stopping=False,
        random_state=int(random_state.randint(2**31)),
    )


def _best_linear(model: Any, copies: Floats, target: Any, weight: Floats, held: Any) -> Any:
    """The model with the penalty that has the least loss on held-out copies."""
    losses = []
    for penalty in _PENALTIES:
        tried = clone(model).set_params(penalty=penalty)
        tried.fit(copies[~held], target[~held], weight[~held])
        losses.append(weight[held] @ tried.losses(copies[held], target[held]))
    return clone(model).set_params(penalty=_PENALTIES[int(np.argmin(losses))])


def _best_boosting(model: Any, copies: Floats, target: Any, weight: Floats, held: Any) -> Any:
    """The model with the settings that have the least loss on held-out copies."""
    found = []
    for n_leaves, rate in _CANDIDATES:
        tried = clone(model).set_params(
            max_leaf_nodes=n_leaves,
            learning_rate=rate,
            max_iter=_MAX_ITER,
            early_stopping=True,
            n_iter_no_change=_PATIENCE,
        )
        tried.fit(
            copies[~held],
            target[~held],
            sample_weight=weight[~held],
            X_val=copies[held],
            y_val=target[held],
            sample_weight_val=weight[held],
        )
        # The first of the scores is that before any iteration.
        best = int(tried.validation_score_.argmax())
        found.append((tried.validation_score_[best], n_leaves, rate, max(best, 1)))
    _, n_leaves, rate, n_iter = max(found)
    return clone(model).set_params(max_leaf_nodes=n_leaves, learning_rate=rate, max_iter=n_iter)
