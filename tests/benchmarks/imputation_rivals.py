"""Imputers of today on fourteen tables: draws by energy scores and coverage, and single guesses.

30 % of the cells of a table (of at most ``--rows`` rows) are removed: at random (mcar), by the
rank of the first number (mar), or by the value of the cell itself (mnar: the chance of a number
grows with its rank, that of a category with its frequency). Imputers fill the same table that they
learn from. Numbers have the root mean squared error over the standard deviation, categories the
share that is wrong. "energy" is the energy score of the removed cells of a row (numbers over
standard deviations, categories one-hot over root two), lower is better: the fair version for ten
draws, and the distance for single guesses, which are point masses. "coverage" is the distance from
.80 of the share of removed numbers between the least and the greatest of nine draws. "corr" and
"margin" are the mean errors of correlations, and of the distribution function of each number or the
probabilities of each category, in the completed tables. Draws guess by their mean, or their most
frequent category. Seconds are CPU seconds of all ten draws; code is compiled before. What takes
more of them than ``--limit`` is too slow (nan), and ranks last.

Bars: the mean rank over tables is the best or tied in energy, wrong categories and coverage (tied:
the 95 % interval of paired differences holds 0, and they are .5 at most); numbers within 1.02 times
the best rival on 10 tables of 14; less time than miceforest on 11.

    python -m venv rivals && rivals/bin/pip install -r tests/benchmarks/rivals.txt
    rivals/bin/python -m tests.benchmarks.imputation --rivals
"""

from __future__ import annotations

import argparse
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skpc import CircuitImputer, CutsetNetworkBD, MultipleImputer, TableMixture
from skpc.domain import Domain
from tests.benchmarks.imputation_by_kind import TABLES, table_of
from tests.benchmarks.numbers_tables import kept, print_row, print_title
from tests.benchmarks.rival_imputers import draws_of_miceforest, draws_of_utrees

_REMOVED, _DRAWS = 0.3, 10
MEASURES = ("numbers", "wrong", "energy", "coverage", "corr", "margin", "seconds")
OURS = ("default", "multiple", "mixture", "cutset")


def _circuit(density: Any, X: pd.DataFrame, seed: int) -> tuple[list[Any], Any]:
    imputer = CircuitImputer(density, random_state=seed).set_output(transform="pandas").fit(X)
    guess = imputer.transform(X)
    imputer.set_params(strategy="sample")
    draws = [imputer.set_params(random_state=seed + k).transform(X) for k in range(_DRAWS)]
    return draws, guess


def _multiple(X: pd.DataFrame, seed: int) -> tuple[list[Any], Any]:
    imputer = MultipleImputer(n_imputations=_DRAWS, random_state=seed)
    return imputer.fit_impute(X), None


def _one_hot_filled(imputer: Any, X: pd.DataFrame, seed: int, fill: Any) -> tuple[list[Any], Any]:
    return [fill(imputer, X, X)], None


def _posterior(X: pd.DataFrame, seed: int, fill: Any) -> tuple[list[Any], Any]:
    imputers = [
        IterativeImputer(sample_posterior=True, random_state=seed + k) for k in range(_DRAWS)
    ]
    return [fill(imputer, X, X) for imputer in imputers], None


def methods(fill: Callable[..., pd.DataFrame]) -> dict[str, Callable[..., Any]]:
    """Each takes a table and a seed; returns draws, or one guess, and a guess besides draws."""
    forest = IterativeImputer(
        RandomForestRegressor(50, min_samples_leaf=3, random_state=0), max_iter=5, random_state=0
    )
    points = {
        "simple": SimpleImputer(),
        "KNN": KNNImputer(n_neighbors=10),
        "ridge": IterativeImputer(random_state=0),
        "MissForest": forest,
    }
    return {
        "default": partial(_circuit, None),
        "multiple": _multiple,
        "mixture": partial(_circuit, TableMixture(random_state=0)),
        "cutset": partial(_circuit, CutsetNetworkBD(random_state=0)),
        **{name: partial(_one_hot_filled, one, fill=fill) for name, one in points.items()},
        "ridge draws": partial(_posterior, fill=fill),
        "miceforest": lambda X, seed: (draws_of_miceforest(X, seed, _DRAWS), None),
        "utrees": lambda X, seed: (draws_of_utrees(X, seed, _DRAWS), None),
    }


def compare(options: argparse.Namespace, fill: Callable[..., pd.DataFrame]) -> None:
    """Print the measures of each imputer on each table, and the mean ranks."""
    warnings.simplefilter("ignore")
    print_title("today's imputers: removed cells of the table that is learned from")
    print_row("table", "mechanism", "imputer", *MEASURES)
    chosen = methods(fill)
    chosen = {name: chosen[name] for name in options.imputers or chosen}
    records = []
    for name in options.names or TABLES:
        truth = prepared(table_of(name, options.rows))
        for mechanism in options.mechanisms:
            for seed in range(options.seeds):
                for label, impute in chosen.items():
                    measure = partial(_measured, truth, mechanism, seed, impute)
                    measure = partial(_within, options.limit, measure)
                    names = (name, options.rows, mechanism, seed, label)
                    values = kept(options, measure, *names)
                    records.append({"table": name, "imputer": label, **values})
                    cells = (f"{float(values[key]):.3f}" for key in MEASURES)
                    print_row(name, mechanism, label, *cells)
    _print_ranks(pd.DataFrame(records))


def _within(limit: float, measure: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What is measured, or NaN if it takes more CPU seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return measure()
    except TimeoutError:
        return {key: np.array(limit if key == "seconds" else np.nan) for key in MEASURES}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers as floats, all else as strings; rows without a missing cell."""
    table = table.dropna().reset_index(drop=True)
    is_categorical = Domain.fit(table).is_categorical
    for column, is_category in zip(table.columns, is_categorical):
        kind = object if is_category else np.float64
        table[column] = table[column].astype(str).astype(kind) if is_category else table[column]
        table[column] = table[column].astype(kind)
    return table.loc[:, table.nunique() > 1]


def cells_to_remove(table: pd.DataFrame, mechanism: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    numbers = [c for c in table if table[c].dtype == np.float64]
    chance = np.full(table.shape, 0.5)
    if mechanism == "mar":
        chance[:] = table[numbers[0]].rank(pct=True).to_numpy()[:, np.newaxis]
    elif mechanism == "mnar":
        for j, column in enumerate(table):
            values = table[column]
            values = values if column in numbers else values.map(values.value_counts())
            chance[:, j] = values.rank(pct=True)
    missing = rng.random(table.shape) < 2.0 * _REMOVED * chance
    if mechanism == "mar":
        missing[:, table.columns.get_loc(numbers[0])] = False
    # A row keeps some cell, and a column some values.
    missing[missing.all(axis=1), 0] = False
    return missing


def _measured(
    truth: pd.DataFrame, mechanism: str, seed: int, impute: Callable[..., Any]
) -> dict[str, np.ndarray]:
    removed = cells_to_remove(truth, mechanism, seed)
    X = truth.mask(removed)
    numbers = np.array([truth[c].dtype == np.float64 for c in truth])
    scaled = X.copy()
    mean, sd = X.loc[:, numbers].mean(), X.loc[:, numbers].std(ddof=0).replace(0.0, 1.0)
    scaled.loc[:, numbers] = (X.loc[:, numbers] - mean) / sd
    for column in truth.columns[~numbers]:
        scaled[column] = pd.Categorical(X[column], sorted(truth[column].unique()))
    answer = (truth.loc[:, numbers] - mean) / sd
    start = time.process_time()
    draws, guess = impute(scaled, seed)
    seconds = time.process_time() - start
    codes = [
        scaled[c].cat.categories.get_indexer(truth[c]) if not is_number else answer[c]
        for c, is_number in zip(truth, numbers)
    ]
    goal = np.column_stack(codes).astype(float)
    points = np.stack([_codes(one, scaled, numbers) for one in draws])
    best = _consensus(points, numbers) if guess is None else _codes(guess, scaled, numbers)
    error = np.where(removed & numbers, best - goal, np.nan)
    n_numbers = numbers.sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = np.nanmean(np.where(removed & ~numbers, best != goal, np.nan))
        root = np.nanmean(np.sqrt(np.nanmean(error**2, axis=0)))
    values = {
        "numbers": root if n_numbers else np.nan,
        "wrong": wrong,
        "energy": _energy(points, goal, removed, numbers),
        "coverage": _coverage(points, goal, removed & numbers),
        "corr": _correlation_error(points, goal, numbers),
        "margin": _margin_error(points, goal, numbers),
        "seconds": seconds,
    }
    return {key: np.array(value) for key, value in values.items()}


def _codes(table: pd.DataFrame, like: pd.DataFrame, numbers: np.ndarray) -> np.ndarray:
    columns = [
        table[c].astype(float) if is_number else like[c].cat.categories.get_indexer(table[c])
        for c, is_number in zip(like, numbers)
    ]
    return np.column_stack(columns).astype(float)


def _consensus(points: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Means of numbers, most frequent categories."""
    best = points.mean(axis=0)
    for j in np.flatnonzero(~numbers):
        codes = points[:, :, j].astype(int)
        counts = np.stack([(codes == code).sum(axis=0) for code in range(codes.max() + 1)])
        best[:, j] = counts.argmax(axis=0)
    return best


def _energy(points: np.ndarray, goal: np.ndarray, removed: Any, numbers: np.ndarray) -> float:
    """Mean energy score of rows that lack cells; fair where there are several draws."""

    def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # One-hot categories over root two: those that differ have distance one.
        square = np.where(numbers, (a - b) ** 2, a != b)
        return np.sqrt(np.where(removed, square, 0.0).sum(axis=-1))

    m, rows = len(points), removed.any(axis=1)
    score = np.mean([distance(one, goal) for one in points], axis=0)
    for i in range(m):
        for j in range(i):
            score = score - distance(points[i], points[j]) / (m * (m - 1.0))
    return float(score[rows].mean())


def _coverage(points: np.ndarray, goal: np.ndarray, removed: np.ndarray) -> float:
    """Distance from .80 of the coverage of the range of nine draws."""
    low, high = points[:9].min(axis=0), points[:9].max(axis=0)
    return abs(float(((low <= goal) & (goal <= high))[removed].mean()) - 0.8)


def _correlation_error(points: np.ndarray, goal: np.ndarray, numbers: np.ndarray) -> float:
    if numbers.sum() < 2:
        return np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        truth = np.corrcoef(goal[:, numbers].T)
        mean = np.mean([np.nan_to_num(np.corrcoef(p[:, numbers].T)) for p in points], axis=0)
    upper = np.triu_indices(len(truth), 1)
    return float(np.nanmean(np.abs(mean - truth)[upper]))


def _margin_error(points: np.ndarray, goal: np.ndarray, numbers: np.ndarray) -> float:
    errors = []
    for j, is_number in enumerate(numbers):
        values = np.unique(goal[:, j])
        drawn, true = points[:, :, j].ravel(), goal[:, j]
        if is_number:
            at = [np.searchsorted(np.sort(x), values, "right") / len(x) for x in (drawn, true)]
            errors.append(np.abs(at[0] - at[1]).max())
        else:
            at = [np.array([(x == v).mean() for v in values]) for x in (drawn, true)]
            errors.append(0.5 * np.abs(at[0] - at[1]).sum())
    return float(np.mean(errors))


def _by_imputer(means: pd.Series) -> pd.DataFrame:
    """A row for each table that has the measure; what was too slow is last."""
    return means.unstack("imputer").dropna(how="all").fillna(np.inf)


def _print_ranks(records: pd.DataFrame) -> None:
    """Mean ranks over tables, and how ours stand against the best rival."""
    means = records.astype({key: float for key in MEASURES})
    means = means.groupby(["table", "imputer"], sort=False)[list(MEASURES)].mean()
    print_title("mean rank over tables (1 is best)")
    ranks = {}
    for key in MEASURES:
        # "numbers" of the best and so on; a table without such columns does not count.
        wide = _by_imputer(means[key])
        ranks[key] = pd.DataFrame(rankdata(wide, axis=1), wide.index, wide.columns)
    labels = means.index.unique("imputer")
    print_row("imputer", *MEASURES)
    for label in labels:
        print_row(label, *(f"{ranks[key][label].mean():.2f}" for key in MEASURES))
    rivals = [label for label in labels if label not in OURS]
    if not rivals or len(rivals) == len(labels):
        return
    print_title("ours against the best rival by mean rank: difference of ranks, 95 % interval")
    for label in (label for label in labels if label in OURS):
        for key in ("energy", "wrong", "coverage", "numbers"):
            best = min(rivals, key=lambda rival: ranks[key][rival].mean())
            gap = (ranks[key][label] - ranks[key][best]).to_numpy()
            half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            print_row(label, key, best, f"{gap.mean():+.2f}", f"+-{half:.2f}")
        wide = _by_imputer(means["numbers"])
        near = (wide[label] <= 1.02 * wide[rivals].min(axis=1)).sum()
        print_row(label, f"numbers within 1.02 of the best rival: {near} of {len(wide)}")
        if "miceforest" in rivals:
            seconds = means["seconds"].unstack("imputer")
            faster = (seconds[label] < seconds["miceforest"]).sum()
            print_row(label, f"less time than miceforest: {faster} of {len(seconds)}")
