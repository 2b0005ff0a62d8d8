"""Completions where training rows have missing cells too, compared with two imputers.

Three cells in ten are removed from all rows, completely at random. Rivals see scaled numbers and
one column for each category: IterativeImputer with Bayesian ridge regressions, and KNNImputer, the
number of rounds or neighbours chosen by cells that they do not see (on small tables more rounds
make the former worse). Columns that add up to one tell a regression nothing but each other, so
"n-1" leaves out the last category of each; it finds better categories, but not always better
numbers.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from tests.benchmarks.guide_tables import write
from tests.benchmarks.mixed_tables import holes, numbers_of
from tests.benchmarks.numbers_tables import (
    DENSITIES,
    NAMES,
    Figures,
    Split,
    chosen,
    fitted,
    kept,
    load,
    of_splits,
    print_row,
    print_title,
    splits,
    star,
)
from tests.benchmarks.rivals import encoder

#: The greatest error of numbers, and of categories.
BARS = {
    "breast_cancer": (0.34, 0.07),
    "segment": (0.32, np.inf),
    "diabetes": (0.67, np.inf),
    "wine": (0.72, np.inf),
    "electricity": (0.64, np.inf),
    "bank": (0.79, np.inf),
    "iris": (0.54, np.inf),
    "cmc": (0.86, np.inf),
}
RIVALS = ("iterative", "iterative n-1", "KNN")
N_NEIGHBORS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80)
N_ROUNDS = (1, 2, 3, 5, 10, 20)
#: Share of the cells that are removed, and of those left that choose rounds or neighbours.
_REMOVED, _CHOOSING = 0.3, 0.1
#: Masks of training rows have seeds of their own.
_TRAIN = 1000


def completion(options: argparse.Namespace) -> None:
    """Print errors of completions."""
    rows = []
    print_title("completion: error of removed cells, * if the best density misses the bar")
    heads = ("nrmse", "median error", "wrong", "fit s", "fill s", "bar", "bar, wrong", "chosen")
    print_row("table", "imputer", *heads)
    for name in chosen(options, tuple(BARS)):
        parts = list(splits(load(name, options.n_rows), options.splits))
        errors_of, seconds_of = {}, {}
        for label in RIVALS:
            found = [
                kept(
                    options,
                    partial(_rival, split, label),
                    *("fill", name, options.n_rows, split.seed, label.replace(" ", "-")),
                )
                for split in parts
            ]
            _print_figures(name, label, found)
            errors_of[label] = np.mean([figures["nrmse"] for figures in found])
        ours = {}
        for label in options.models:
            found = [_density(split, label) for split in parts]
            _print_figures(name, label, found)
            ours[label] = [np.mean([f[key] for f in found]) for key in ("nrmse", "wrong")]
            errors_of[label] = ours[label][0]
            seconds_of[label] = np.median([figures["fit"] for figures in found])
        best, bars = min(ours, key=lambda label: ours[label][0]), BARS[name]
        cells = [f"{error:.3f}{star(error > bar)}" for error, bar in zip(ours[best], bars)]
        limits = [f"{bar:.2f}" if bar < np.inf else "" for bar in bars]
        print_row(name, f"best: {best}", cells[0], "", cells[1], "", "", *limits)
        regressions = min(errors_of["iterative"], errors_of["iterative n-1"])
        errors = (regressions, *(errors_of[label] for label in ("KNN", *options.models)))
        seconds = [f"{seconds_of[label]:.1f}" for label in options.models]
        rows.append([name, *(f"{error:.3f}" for error in errors), *seconds])
    names = [NAMES[label] for label in options.models]
    heads = ["table", "regressions", "neighbours", *names, *(f"{name}, fit s" for name in names)]
    write(options.write, "numbers_completion", [heads, *rows])


def _print_figures(name: str, label: str, found: list[Figures]) -> None:
    errors = [str(of_splits([f[key] for f in found])) for key in ("nrmse", "median", "wrong")]
    seconds = [f"{np.median([f[key] for f in found]):.2f}" for key in ("fit", "fill")]
    notes = " ".join(str(figures.get("note", "")) for figures in found)
    print_row(name, label, *errors, *seconds, "", "", notes)


def _masked(split: Split) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Training and held-out rows with missing cells, and which of the latter are missing."""
    removed = holes(split.test, "mcar", split.seed, _REMOVED)
    of_train = holes(split.train, "mcar", _TRAIN + split.seed, _REMOVED)
    return split.train.mask(of_train), split.test.mask(removed), removed


def _density(split: Split, label: str) -> Figures:
    train, test, removed = _masked(split)
    model, seconds = fitted(DENSITIES[label], train)
    start = time.process_time()
    filled = model.complete(test)
    spent = time.process_time() - start
    return _errors(split, filled, removed) | {"fit": np.array(seconds), "fill": np.array(spent)}


def _rival(split: Split, label: str) -> Figures:
    train, test, removed = _masked(split)
    start = time.process_time()
    encoded = encoder().fit(train)
    rows, asked = encoded.transform(train), encoded.transform(test)
    used = np.ones(rows.shape[1], dtype=bool)
    if label == "iterative n-1":
        used[[block.stop - 1 for block in _blocks(train).values()]] = False
    size = _best_size(label, rows[:, used], np.random.default_rng(split.seed))
    imputer = _imputer(label, size).fit(rows[:, used])
    fit = time.process_time() - start
    start = time.process_time()
    asked[:, used] = imputer.transform(asked[:, used])
    filled = _decoded(asked, encoded, test)
    times = {"fit": np.array(fit), "fill": np.array(time.process_time() - start)}
    return _errors(split, filled, removed) | times | {"note": np.array(size)}


def _imputer(label: str, size: int) -> Any:
    if label == "KNN":
        return KNNImputer(n_neighbors=size)
    return IterativeImputer(max_iter=size, random_state=0)


def _best_size(label: str, rows: np.ndarray, rng: np.random.Generator) -> int:
    """The number of rounds or neighbours that fills removed cells of the training rows best."""
    hidden = ~np.isnan(rows) & (rng.random(rows.shape) < _CHOOSING)
    seen = np.where(hidden, np.nan, rows)
    sizes = N_NEIGHBORS if label == "KNN" else N_ROUNDS
    filled = [_imputer(label, size).fit_transform(seen) for size in sizes]
    errors = [np.mean((values - rows)[hidden] ** 2) for values in filled]
    return sizes[int(np.argmin(errors))]


def _blocks(like: pd.DataFrame) -> dict[str, slice]:
    """The columns that stand for the categories of each column."""
    found, at = {}, len(numbers_of(like))
    for column in like.select_dtypes("category"):
        found[column] = slice(at, at + len(like[column].cat.categories))
        at = found[column].stop
    return found


def _decoded(rows: np.ndarray, encoded: Any, like: pd.DataFrame) -> pd.DataFrame:
    """Numbers in their units, and the largest category; the last one may be left missing."""
    numbers = numbers_of(like)
    values = encoded.named_transformers_["standardscaler"].inverse_transform(
        rows[:, : len(numbers)]
    )
    columns: dict[str, Any] = dict(zip(numbers, values.T))
    for column, block in _blocks(like).items():
        shares = rows[:, block]
        rest = 1.0 - np.nansum(shares[:, :-1], axis=1)
        shares[:, -1] = np.where(np.isnan(shares[:, -1]), rest, shares[:, -1])
        columns[column] = pd.Categorical.from_codes(
            shares.argmax(axis=1), like[column].cat.categories
        )
    return pd.DataFrame(columns, index=like.index)[list(like)]


def _errors(split: Split, filled: pd.DataFrame, removed: np.ndarray) -> Figures:
    """Errors of numbers in standard deviations of the training rows, means over the columns."""
    roots, medians, wrong = [], [], []
    for column, lost in zip(split.test, removed.T):
        true, found = split.test[column][lost], filled[column][lost]
        if true.dtype == "category":
            wrong.append(true.astype(object).to_numpy() != found.astype(object).to_numpy())
            continue
        sd = split.train[column].std()
        if lost.any() and sd > 0.0:
            gap = (found.to_numpy(np.float64) - true.to_numpy(np.float64)) / sd
            roots.append(np.sqrt(np.mean(gap**2)))
            medians.append(np.median(np.abs(gap)))
    of_categories = np.concatenate(wrong).mean() if wrong else np.nan
    figures = {"nrmse": np.mean(roots), "median": np.mean(medians), "wrong": of_categories}
    return {key: np.array(value) for key, value in figures.items()}
