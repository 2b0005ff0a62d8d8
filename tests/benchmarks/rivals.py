"""What ours is compared with: boosting on masked copies, imputers in front of models, no features.

Training rows are complete. "HGB": histogram gradient boosting with its defaults, trained on them.
"masked copies": trained on three copies of the rows, with 0, 30 % and 60 % of the cells
removed. Learning rate, leaves and iterations are tuned by folds of the copies that are grouped
by original row; the same folds decide between the best of them and the defaults. The model is
fitted three times, to other draws of the copies, and its loss is the mean of the three losses.
"LightGBM, copies": the same copies for LightGBM where it is installed, twelve settings in the same
folds.
"boosting's grid": eight settings around the defaults in three folds of the complete rows, and the
best of them on all: 25 fits, which is what people are used to wait for.

Imputers stand in front of a linear model, a support vector machine and a random forest, whose
parameters are chosen by cross-validation on the training rows. Imputer and models see scaled
numbers, and categories as one-hot columns, missing where the category is.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR

from tests.benchmarks.prediction import (
    BOOSTING,
    GRID,
    LIGHTGBM,
    RIVAL,
    Fitted,
    Split,
    ask_with,
)

COPY_RATES = (0.0, 0.3, 0.6)
N_COPY_DRAWS = 3
LEARNING_RATES, LEAVES, MAX_ITER = (0.03, 0.1), (4, 8, 31), 500
AROUND_DEFAULTS = {
    "learning_rate": (0.05, 0.1),
    "max_leaf_nodes": (15, 31),
    "max_iter": (100, 200),
}
STRENGTHS, LEAF_SIZES = (0.1, 1.0, 10.0), (1, 5)
LIGHTGBM_GRID = {
    "learning_rate": LEARNING_RATES,
    "num_leaves": LEAVES,
    "n_estimators": (100, 300),
}


class Task(NamedTuple):
    """What classification and regression call the same things.

    ``models`` are those behind imputers, with the values among which to choose.
    """

    method: str
    scoring: str
    folds: type
    boosting: Callable[..., Any]
    models: dict[str, tuple[Any, dict[str, tuple]]]
    featureless: tuple[str, Any]

    @property
    def imputed(self) -> tuple[str, ...]:
        return tuple(f"{imputer} + {model}" for imputer in _IMPUTERS for model in self.models)

    @property
    def fits(self) -> dict[tuple[str, ...], Callable[[Split], dict[str, Fitted]]]:
        optional = {(LIGHTGBM,): partial(fit_lightgbm, task=self)}
        return (optional if find_spec("lightgbm") else {}) | {
            (RIVAL,): partial(fit_masked_copies, task=self),
            (BOOSTING,): partial(fit_boosting, task=self),
            (GRID,): partial(fit_grid, task=self),
            self.imputed: partial(fit_imputed, task=self),
            self.featureless[:1]: partial(fit_featureless, task=self),
        }


_IMPUTERS = ("iterative", "KNN")

CLASSIFICATION = Task(
    "predict_proba",
    "neg_log_loss",
    StratifiedKFold,
    partial(HistGradientBoostingClassifier, random_state=0),
    {
        "logistic": (LogisticRegression(max_iter=2000), {"C": STRENGTHS}),
        "SVM": (CalibratedClassifierCV(SVC(), cv=3), {"estimator__C": STRENGTHS}),
        "forest": (RandomForestClassifier(200, random_state=0), {"min_samples_leaf": LEAF_SIZES}),
    },
    ("class shares", DummyClassifier()),
)
REGRESSION = Task(
    "predict",
    "neg_mean_squared_error",
    KFold,
    partial(HistGradientBoostingRegressor, random_state=0),
    {
        "ridge": (Ridge(), {"alpha": STRENGTHS}),
        "SVM": (SVR(), {"C": STRENGTHS}),
        "forest": (RandomForestRegressor(200, random_state=0), {"min_samples_leaf": LEAF_SIZES}),
    },
    ("mean", DummyRegressor()),
)


def fit_featureless(split: Split, task: Task) -> dict[str, Fitted]:
    label, model = task.featureless
    return {label: _fitted(clone(model), split, task)}


def fit_boosting(split: Split, task: Task) -> dict[str, Fitted]:
    return {BOOSTING: _fitted(task.boosting(), split, task)}


def fit_grid(split: Split, task: Task) -> dict[str, Fitted]:
    folds = task.folds(3, shuffle=True, random_state=0)
    search = GridSearchCV(task.boosting(), AROUND_DEFAULTS, scoring=task.scoring, cv=folds)
    return {GRID: _fitted(search, split, task)}


def _fitted(model: Any, split: Split, task: Task) -> Fitted:
    start = time.process_time()
    model.fit(split.train, split.y_train)
    return Fitted([ask_with(model, task.method)], time.process_time() - start)


# --------------------------------------------------------------------------- masked copies


def fit_masked_copies(split: Split, task: Task) -> dict[str, Fitted]:
    """Choose parameters once, then fit three times; seconds are of the choice and one fit."""
    start = time.process_time()
    chosen, note = _choose(*_copies(split, N_COPY_DRAWS), task)
    seconds = time.process_time() - start
    asks = []
    for draw in range(N_COPY_DRAWS):
        start = time.process_time()
        X, y = _copies(split, draw)
        asks.append(ask_with(task.boosting(**chosen).fit(X, y), task.method))
        seconds += (time.process_time() - start) / N_COPY_DRAWS
    return {RIVAL: Fitted(asks, seconds, note)}


def fit_lightgbm(split: Split, task: Task) -> dict[str, Fitted]:
    """Parameters that are chosen once, and three fits."""
    import lightgbm

    start = time.process_time()
    is_class = task is CLASSIFICATION
    kind = lightgbm.LGBMClassifier if is_class else lightgbm.LGBMRegressor
    model = kind(random_state=0, n_jobs=1, verbose=-1)
    X, y = _copies(split, N_COPY_DRAWS)
    folds = [(np.flatnonzero(~h), np.flatnonzero(h)) for h in _held(y, task)]
    search = GridSearchCV(model, LIGHTGBM_GRID, scoring=task.scoring, cv=folds, refit=False)
    chosen = search.fit(X, y).best_params_
    seconds, asks = time.process_time() - start, []
    for draw in range(N_COPY_DRAWS):
        start = time.process_time()
        fitted = clone(model).set_params(**chosen).fit(*_copies(split, draw))
        asks.append(ask_with(fitted, task.method))
        seconds += (time.process_time() - start) / N_COPY_DRAWS
    return {LIGHTGBM: Fitted(asks, seconds, str(chosen))}


def _held(y: np.ndarray, task: Task) -> list[np.ndarray]:
    """Which copies each fold holds out: all of the same rows."""
    rows = len(y) // len(COPY_RATES)
    folds = task.folds(3, shuffle=True, random_state=0).split(np.zeros(rows), y[:rows])
    return [np.tile(np.isin(np.arange(rows), fold), len(COPY_RATES)) for _, fold in folds]


def _copies(split: Split, draw: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Copies of the training rows, one below the other."""
    rng, rows = np.random.default_rng([2, split.number, draw]), split.train
    X = pd.concat([rows.mask(rng.random(rows.shape) < rate) for rate in COPY_RATES])
    return X.reset_index(drop=True), np.tile(split.y_train, len(COPY_RATES))


def _choose(X: pd.DataFrame, y: np.ndarray, task: Task) -> tuple[dict[str, Any], str]:
    """Parameters of the better of default and tuned boosting, and a note of both losses."""
    held = _held(y, task)
    tuned, lowest = {}, np.inf
    for rate, leaves in itertools.product(LEARNING_RATES, LEAVES):
        params = {"learning_rate": rate, "max_leaf_nodes": leaves, "early_stopping": False}
        curves = [_curve(X, y, part, params, task) for part in held]
        loss = np.mean([curve.min() for curve in curves])
        if loss < lowest:
            n_iter = max(1, round(np.mean([curve.argmin() for curve in curves])))
            tuned, lowest = {**params, "max_iter": n_iter}, loss
    scorer = get_scorer(task.scoring)
    losses = [
        -np.mean([scorer(task.boosting(**params).fit(X[~h], y[~h]), X[h], y[h]) for h in held])
        for params in ({}, tuned)
    ]
    note = (
        f"rate {tuned['learning_rate']}, {tuned['max_leaf_nodes']} leaves, "
        f"{tuned['max_iter']} iterations: loss {losses[1]:.3f}, defaults {losses[0]:.3f}"
    )
    return (tuned if losses[1] < losses[0] else {}), note


def _curve(X: pd.DataFrame, y: np.ndarray, held: np.ndarray, params: dict, task: Task):
    """Loss of held-out rows after each iteration, the first before any."""
    params = {**params, "early_stopping": True, "max_iter": MAX_ITER, "n_iter_no_change": 15}
    model = task.boosting(**params)
    model.fit(X[~held], y[~held], X_val=X[held], y_val=y[held])
    return -np.asarray(model.validation_score_)


# --------------------------------------------------------------------------- imputers


class _Filling:
    """Fills each masked table once, for all models behind the imputer."""

    def __init__(self, imputer: Any):
        self.imputer = imputer
        self.filled: dict[int, tuple[np.ndarray, float]] = {}

    def ask(self, X: pd.DataFrame, model: Any, method: str) -> tuple[np.ndarray, float]:
        start = time.process_time()
        if id(X) not in self.filled:
            rows = self.imputer.transform(X)
            self.filled[id(X)] = rows, time.process_time() - start
        rows, seconds = self.filled[id(X)]
        start = time.process_time()
        return getattr(model, method)(rows), seconds + time.process_time() - start


def fit_imputed(split: Split, task: Task) -> dict[str, Fitted]:
    """Each imputer in front of each model; nothing has to be imputed in the training rows."""
    start = time.process_time()
    rows = encoder().fit_transform(split.train)
    shared, models = time.process_time() - start, {}
    for name, (model, grid) in task.models.items():
        start = time.process_time()
        folds = task.folds(3, shuffle=True, random_state=0)
        search = GridSearchCV(model, grid, scoring=task.scoring, cv=folds)
        models[name] = search.fit(rows, split.y_train), time.process_time() - start
    found = {}
    for imputer in _IMPUTERS:
        start = time.process_time()
        filling = _Filling(_imputer(imputer, rows.shape[1]).fit(split.train))
        seconds = shared + time.process_time() - start
        for name, (model, spent) in models.items():
            ask = partial(filling.ask, model=model, method=task.method)
            found[f"{imputer} + {name}"] = Fitted([ask], seconds + spent)
    return found


def _imputer(name: str, n_columns: int) -> Any:
    """An imputer of encoded rows.

    With a tolerance, IterativeImputer would end after one round: no training cell is missing,
    hence nothing changes from round to round.
    """
    if name == "KNN":
        return make_pipeline(encoder(), KNNImputer())
    nearest = min(10, n_columns)
    imputer = IterativeImputer(random_state=0, max_iter=5, tol=0.0, n_nearest_features=nearest)
    return make_pipeline(encoder(), imputer)


def encoder() -> Any:
    """Scaled numbers, and one column for each category; missing cells stay."""
    return make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (FunctionTransformer(_indicators), make_column_selector(dtype_include="category")),
        sparse_threshold=0.0,
    )


def _indicators(X: pd.DataFrame) -> np.ndarray:
    """One column for each category, NaN where the cell is missing."""
    blocks = [np.empty((len(X), 0))]
    for column in X:
        codes = X[column].cat.codes.to_numpy()[:, np.newaxis]
        block = (codes == np.arange(len(X[column].cat.categories))).astype(float)
        blocks.append(np.where(codes < 0, np.nan, block))
    return np.hstack(blocks)
