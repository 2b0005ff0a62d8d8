"""Conditional Shapley values against the truth of known distributions, beside those of shap.

    python -m tests.benchmarks.shapley [--rows 1000] [--test 40] [--write doc/user_guide]

A linear model of eight numbers from a known Gaussian, whose truth is in closed form, and a forest
of 100 trees on eight binary columns of a known chain, whose truth is a sum over all 256 states.
Root mean squared errors of ``ExpectedPredictor.shapley_values`` (default density), and of shap's
KernelExplainer with 100 background rows, which takes at least as long; TreeExplainer (for the
forest) has another estimand, in which columns that are not known keep no dependence on the others.
shap is no requirement of the tests: install it where this runs.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from collections.abc import Callable

import numpy as np
import shap
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from skpc import ExpectedPredictor
from tests.benchmarks.guide_tables import add_write, write
from tests.naive.shapley import shapley_values

N_COLUMNS, N_BACKGROUND = 8, 100
METHODS = ("shapley_values", "KernelExplainer", "TreeExplainer")
HEADER = ("distribution, model", *METHODS, "spread of the truth")


def gaussian(rng: np.random.Generator, n_rows: int):
    """Rows, targets, and how to find the true conditional expectation of a linear model."""
    factors = rng.normal(size=(N_COLUMNS, 2))
    covariance = factors @ factors.T + 0.3 * np.eye(N_COLUMNS)
    X = rng.multivariate_normal(np.zeros(N_COLUMNS), covariance, n_rows)
    # Half of the columns have no coefficient.
    coefficients = np.where(np.arange(N_COLUMNS) % 2 == 0, rng.normal(size=N_COLUMNS), 0.0)

    def expected(model, row: np.ndarray, known: list[int]) -> float:
        gain = covariance[:, known] @ np.linalg.pinv(covariance[np.ix_(known, known)])
        return float(model.predict((gain @ row[known])[np.newaxis])[0])

    return X, X @ coefficients + 0.1 * rng.normal(size=n_rows), expected, LinearRegression()


def chain(rng: np.random.Generator, n_rows: int):
    """The same for a chain of binary columns, and a forest."""
    flips = rng.random((n_rows, N_COLUMNS)) < np.append(0.5, np.full(N_COLUMNS - 1, 0.2))
    X = np.cumsum(flips, axis=1) % 2.0
    y = X[:, 0] + 2 * X[:, 3] * X[:, 6] - X[:, 4] + 0.1 * rng.normal(size=n_rows)
    states = np.array(list(itertools.product([0.0, 1.0], repeat=N_COLUMNS)))
    n_flips = np.abs(np.diff(states, axis=1)).sum(axis=1)
    answers = functools.cache(lambda model: model.predict(states))
    prob = 0.5 * 0.2**n_flips * 0.8 ** (N_COLUMNS - 1 - n_flips)

    def expected(model, row: np.ndarray, known: list[int]) -> float:
        weight = prob * (states[:, known] == row[known]).all(axis=1)
        return float(weight @ answers(model) / weight.sum())

    return X, y, expected, RandomForestRegressor(100, max_leaf_nodes=31, random_state=0)


def truth(model, row: np.ndarray, expected: Callable) -> np.ndarray:
    """The conditional Shapley values of a row under the true distribution."""
    players = range(N_COLUMNS)
    coalitions = itertools.chain.from_iterable(
        itertools.combinations(players, size) for size in range(N_COLUMNS + 1)
    )
    value = {members: np.float64(expected(model, row, [*members])) for members in coalitions}
    return shapley_values(value.__getitem__, N_COLUMNS)


def measure(name: str, make: Callable, options: argparse.Namespace) -> list[str]:
    """Errors and seconds of one distribution, in the order of the heads."""
    rng = np.random.default_rng(0)
    X, y, expected, model = make(rng, options.rows + options.test)
    train, test = X[: options.rows], X[options.rows :]
    ours = ExpectedPredictor(model, random_state=0).fit(train, y[: options.rows])
    fitted, background = ours.estimator_, train[:N_BACKGROUND]
    right = np.array([truth(fitted, row, expected) for row in test])
    ours.shapley_values(test[:1])
    methods = {
        "shapley_values": lambda: ours.shapley_values(test).values,
        "KernelExplainer": lambda: shap.KernelExplainer(fitted.predict, background).shap_values(
            test, silent=True
        ),
    }
    if isinstance(model, RandomForestRegressor):
        methods["TreeExplainer"] = lambda: shap.TreeExplainer(fitted).shap_values(test)
    shown = {}
    for label, of_rows in methods.items():
        begin = time.process_time()
        error = np.sqrt(np.mean((of_rows() - right) ** 2))
        shown[label] = f"{error:.3f} ({time.process_time() - begin:.1f} s)"
    print(f"{name}: spread of the truth {right.std():.3f}; {shown}", flush=True)
    return [name, *(shown.get(label, "") for label in METHODS), f"{right.std():.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--test", type=int, default=40)
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        measure("Gaussian, linear model", gaussian, options),
        measure("chain of binary columns, forest", chain, options),
    ]
    write(options.write, "shapley", [HEADER, *rows])


if __name__ == "__main__":
    main()
