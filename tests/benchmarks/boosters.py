"""Boosters of XGBoost in ExpectedPredictor: time, error behind imputers, and Shapley values.

    SKPC_DATA=... python -m tests.benchmarks.boosters speed [--rows 1000] [--trees 1000]
    SKPC_DATA=... python -m tests.benchmarks.boosters imputers [--tables bank ...] [--test 500]
    python -m tests.benchmarks.boosters shapley [--test 20] [--density default|cutset]

speed: CPU time of exact expectations beside that of 100 draws a row; trees of depth 6, 20 columns,
half of the cells missing. imputers: root mean squared error from the margin of complete rows, and
from the target, 30 and 50 % of the cells missing, of the expectation, of imputers in front of the
model, and of the default directions. shapley: mean absolute error from the truth of a
Gaussian with correlations .7, beside TreeSHAP along paths and interventional. Bars: no more time
than draws, and 20 s; below all imputers on 80 % of cells; half of the error of TreeSHAP.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import shap
import xgboost
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.preprocessing import OrdinalEncoder

from skpc import CutsetNetworkBD, ExpectedPredictor
from tests.benchmarks.expected_predictor import CLASSES, load
from tests.benchmarks.guide_tables import add_write, write
from tests.naive.shapley import shapley_values

N_COLUMNS, N_TRUTH = 6, 2000


def density_of(options: argparse.Namespace):
    return CutsetNetworkBD(n_components=5, random_state=0) if options.density == "cutset" else None


def speed(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)) @ rng.normal(size=(4, 20)) + rng.normal(size=(4000, 20))
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(X[:, 3]) + 0.3 * rng.normal(size=len(X))
    booster = xgboost.XGBRegressor(
        n_estimators=options.trees, max_depth=6, learning_rate=0.05, n_jobs=1
    ).fit(X, y)
    begin = time.process_time()
    model = ExpectedPredictor(FrozenEstimator(booster), density_of(options), random_state=0).fit(X)
    print(f"fit {time.process_time() - begin:.1f} s, {model.density_.circuit_.n_edges} edges")
    holes = X[: options.rows].copy()
    holes[rng.random(holes.shape) < 0.5] = np.nan
    model.predict(holes[:2])
    begin = time.process_time()
    model.predict(holes)
    middle = time.process_time()
    model._drawn(model.domain_.encode(holes), "predict")
    end = time.process_time()
    print(f"{options.rows} rows: exact {middle - begin:.2f} s, 100 draws {end - middle:.2f} s")


def imputers(options: argparse.Namespace) -> None:
    labels = {"expected": "expected", "iterative": "IterativeImputer", "KNN": "KNNImputer"}
    labels["native"] = "default directions"
    table = [("table, removed", *labels.values())]
    for name in options.tables:
        X, y = load(name, 4000)
        # Codes are numbers for all of them: imputers and models see the same matrix.
        is_category = np.array([not pd.api.types.is_numeric_dtype(X[c].dtype) for c in X])
        texts = X.loc[:, is_category].astype(str)
        X = X.to_numpy(dtype=object, copy=True)
        X[:, is_category] = OrdinalEncoder().fit_transform(texts)
        X = X.astype(float)
        rng = np.random.default_rng(0)
        order = rng.permutation(len(X))
        n_test = min(options.test, len(X) // 3)
        test, train = order[:n_test], order[n_test:]
        kind = xgboost.XGBClassifier if name in CLASSES else xgboost.XGBRegressor
        target = np.unique(y, return_inverse=True)[1] if name in CLASSES else y
        booster = kind(n_estimators=100, max_depth=4, learning_rate=0.1, n_jobs=1)
        booster.fit(X[train], target[train])
        model = ExpectedPredictor(
            FrozenEstimator(booster),
            density_of(options),
            categorical_features=is_category,
            random_state=0,
        ).fit(X[train])
        filling = {"iterative": IterativeImputer(max_iter=5, tol=0.0), "KNN": KNNImputer()}
        for imputer in filling.values():
            imputer.fit(X[train])
        # What the model says of complete rows, by its margin, and what it predicts.
        margin, answer = "decision_function", "predict"
        wanted = target[test]
        if name in CLASSES:
            answer = "predict_proba"
            wanted = np.eye(len(booster.classes_))[wanted]
        ask = {margin: partial(booster.predict, output_margin=True)}
        ask[answer] = getattr(booster, answer)
        truth = {margin: ask[margin](X[test]), answer: wanted}
        for rate in (0.3, 0.5):
            holes = np.where(rng.random(X[test].shape) < rate, np.nan, X[test])
            completed = {label: each.transform(holes) for label, each in filling.items()}
            completed["native"] = holes
            for method, true in truth.items():
                answers = {label: ask[method](rows) for label, rows in completed.items()}
                answers["expected"] = getattr(model, method)(holes)
                error = report(f"{name:12}{rate:.1f} {method:18}", true, answers)
                if method == margin:
                    cells = (f"{error[label]:.2f}" for label in labels)
                    table.append((f"{name}, {100 * rate:.0f} %", *cells))
    write(options.write, "boosters", table)


def report(title: str, true: np.ndarray, answers: dict[str, np.ndarray]) -> dict[str, float]:
    """Root mean squared errors, and how far the expectation is below the best of the others.

    ``z`` is the difference of squared errors over its paired standard error.
    """
    square = {
        label: ((value - true) ** 2).reshape(len(true), -1).sum(axis=1)
        for label, value in answers.items()
    }
    error = {label: np.sqrt(each.mean()) for label, each in square.items()}
    best = min((label for label in error if label != "expected"), key=error.__getitem__)
    gain = square[best] - square["expected"]
    z = gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain)))
    shown = "  ".join(f"{label} {each:.4f}" for label, each in error.items())
    print(f"{title} {shown}  z {z:+.1f} ({best})", flush=True)
    return error


def shapley(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    covariance = np.full((N_COLUMNS, N_COLUMNS), 0.7) + 0.3 * np.eye(N_COLUMNS)
    X = rng.multivariate_normal(np.zeros(N_COLUMNS), covariance, 5000 + options.test)
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.1 * rng.normal(size=len(X))
    train, test = X[:5000], X[5000:]
    booster = xgboost.XGBRegressor(n_estimators=300, max_depth=4, learning_rate=0.05, n_jobs=1)
    booster.fit(train, y[:5000])
    noise = rng.multivariate_normal(np.zeros(N_COLUMNS), covariance, N_TRUTH)

    def expected(row: np.ndarray, known: tuple[int, ...]) -> float:
        known = list(known)
        inner = np.linalg.pinv(covariance[np.ix_(known, known)])
        gain = covariance[:, known] @ inner
        # Draws of the Gaussian that are moved to what is known.
        drawn = noise + (row[known] - noise[:, known]) @ gain.T
        return float(booster.predict(drawn).mean())

    truth = []
    for row in test:
        coalitions = itertools.chain.from_iterable(
            itertools.combinations(range(N_COLUMNS), size) for size in range(N_COLUMNS + 1)
        )
        value = {members: np.float64(expected(row, members)) for members in coalitions}
        truth.append(shapley_values(value.__getitem__, N_COLUMNS))
    model = ExpectedPredictor(FrozenEstimator(booster), density_of(options), random_state=0)
    values = {
        "conditional": model.fit(train).shapley_values(test).values,
        "along paths": shap.TreeExplainer(booster).shap_values(test),
        "interventional": shap.TreeExplainer(booster, train[:100]).shap_values(test),
    }
    errors = {label: np.abs(of_rows - truth).mean() for label, of_rows in values.items()}
    print("  ".join(f"{label} {error:.4f}" for label, error in errors.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["speed", "imputers", "shapley"])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--test", type=int, default=None)
    parser.add_argument("--tables", nargs="*", default=[*CLASSES, "schooling", "diabetes"])
    parser.add_argument("--density", choices=["default", "cutset"], default="default")
    add_write(parser)
    options = parser.parse_args()
    options.test = options.test or (20 if options.part == "shapley" else 500)
    warnings.simplefilter("ignore")
    {"speed": speed, "imputers": imputers, "shapley": shapley}[options.part](options)


if __name__ == "__main__":
    main()
