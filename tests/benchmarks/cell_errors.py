"""Wrong cells: found by their posterior, by how odd they are, or by boosting every column?

One half of a table is learned, clean or with errors ("dirty"). In the other half, 3 % of the cells
are changed: to the value of another row (``swap``), times ten (``x10``), by three standard
deviations (``sd``, on the decimals of the column), or to a category at random (``category``). A
change that leaves the value is no error. The first table shows the average precision of wrong cells
by

- ``posterior``: ``CellErrorDetector.predict_proba``;
- ``cells``: ``score_cells`` of its density; ``centred``: each less the median of its column in
  training;
- ``boosting``: gradient boosting of each column by the others, the residual in standard deviations
  or the negative log probability of the category;
- ``ECOD``: empirical tail probabilities of each column;

then that of rows with a wrong cell, by the largest cell (``posterior``, ``cells``) and by the log
density of the row (``row``). The second table shows the rates of errors, learned and true, the
finds at ``fdr=0.1``, the proportion of right cells among them, what part they are of the wrong
cells that an oracle would find at that proportion, seconds of ``fit``, and how much longer the
posterior takes than ``score_cells``. The last lines show means over tables of paired differences
to ``cells`` and ``centred`` with their standard errors, all errors together and by kind.

    python -m tests.benchmarks.cell_errors [table ...] [--rows 1200] [--seeds 3] [--density NAME]

With ``--fitted``, 3 % of the cells of the table that is fitted hold the value of another row, and
are to be found there (``--write doc/user_guide`` writes the guide's table): average precision of
``predict_proba``, less the better one of ``SoftLearnSPN`` and ``HiddenChowLiuTree``
(``score_cells`` less the median of its column); what is marked, and what share of it is wrong;
probabilities against shares of wrong cells, in five bins; and what is marked without any planted
errors.

With ``--imputer``, ``CircuitImputer`` fills 20 % of the cells of the second half, clean or with
errors in both halves, ``robust`` or not; "oracle" knows the wrong cells, which are missing. Root
mean squared errors of numbers in standard deviations, and shares of wrong categories.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score

import skpc
from skpc import CellErrorDetector, CircuitImputer
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.odd_rows import table_of

TABLES = (
    "bank",
    "electricity",
    "segment",
    "cmc",
    "doctor_visits",
    "schooling",
    "wine",
    "breast_cancer",
)
METHODS = ("posterior", "cells", "centred", "boosting", "ECOD")
KINDS = ("swap", "x10", "sd", "category")
_RATE = 0.03


def with_errors(
    table: pd.DataFrame, seed: int, rate: float = _RATE
) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with errors, and the number of the kind of each wrong cell, -1 elsewhere."""
    rng, wrong = np.random.default_rng(seed), {}
    kind = np.full(table.shape, -1)
    for at, (name, column) in enumerate(table.items()):
        values, observed = column.tolist(), column.dropna()
        is_number = pd.api.types.is_numeric_dtype(column)
        decimals = decimals_of(observed) if is_number else 0
        for row in np.flatnonzero((rng.random(len(table)) < rate) & column.notna()):
            one = int(rng.choice([0, 1, 2] if is_number else [0, 3]))
            before = values[row]
            if one == 0:
                values[row] = observed.iloc[int(rng.integers(len(observed)))]
            elif one == 1:
                values[row] = round(before * 10, decimals)
            elif one == 2:
                values[row] = round(before + 3.0 * float(observed.std(ddof=0)), decimals)
            else:
                values[row] = rng.choice(observed.unique().tolist())
            if values[row] != before:
                kind[row, at] = one
        wrong[name] = pd.Series(values, dtype=None if is_number else column.dtype)
    return pd.DataFrame(wrong), kind


def decimals_of(column: pd.Series) -> int:
    texts = (f"{value:.6f}".rstrip("0") for value in column[:500])
    return max(len(text.split(".")[-1] if "." in text else "") for text in texts)


def boosting(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Scores of cells: residuals of numbers, negative log probabilities of categories."""
    codes = {
        name: column if pd.api.types.is_numeric_dtype(column) else column.astype("category")
        for name, column in train.items()
    }
    like = pd.DataFrame(codes)
    test = pd.DataFrame(
        {name: pd.Series(test[name]).astype(column.dtype) for name, column in like.items()}
    )
    scores = np.zeros(test.shape)
    for at, (name, target) in enumerate(like.items()):
        known, others = target.notna(), like.drop(columns=name)
        options = {"random_state": 0, "max_iter": 50, "categorical_features": "from_dtype"}
        if pd.api.types.is_numeric_dtype(target):
            model = HistGradientBoostingRegressor(**options).fit(others[known], target[known])
            spread = np.std(target[known] - model.predict(others[known])) or 1.0
            scores[:, at] = np.abs(test[name] - model.predict(test.drop(columns=name))) / spread
        elif target.nunique() > 1:
            text = target[known].astype(str)
            model = HistGradientBoostingClassifier(**options).fit(others[known], text)
            prob = model.predict_proba(test.drop(columns=name))
            place = pd.Index(model.classes_).get_indexer(test[name].astype(str))
            chosen = np.where(place < 0, 0.0, prob[np.arange(len(prob)), place])
            scores[:, at] = -np.log(np.maximum(chosen, 1e-9))
    return np.nan_to_num(scores)


def ecod(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Scores of cells: the greater negative log of the two empirical tail probabilities."""
    scores = np.zeros(test.shape)
    for at, name in enumerate(train):
        if pd.api.types.is_numeric_dtype(train[name]):
            known = np.sort(train[name].dropna().to_numpy(float))
            x = test[name].to_numpy(float)
            below = (np.searchsorted(known, x, side="right") + 1.0) / (len(known) + 1.0)
            above = (len(known) - np.searchsorted(known, x) + 1.0) / (len(known) + 1.0)
            scores[:, at] = -np.log(np.minimum(np.minimum(below, above), 1.0))
        else:
            share = train[name].astype(str).value_counts(normalize=True)
            scores[:, at] = -np.log(test[name].astype(str).map(share).fillna(1e-4).to_numpy(float))
    return scores


def precision(is_wrong: np.ndarray, score: np.ndarray, some: np.ndarray) -> float:
    return float(average_precision_score(is_wrong[some], score[some]))


def measure(name: str, seed: int, is_dirty: bool, density, n_rows: int) -> dict:
    table = table_of(name)
    table = table.sample(min(len(table), n_rows), random_state=seed).reset_index(drop=True)
    train, test = table[::2].reset_index(drop=True), table[1::2].reset_index(drop=True)
    if is_dirty:
        train, _ = with_errors(train, 1000 + seed)
    test, kind = with_errors(test, seed)
    is_wrong, observed = kind >= 0, test.notna().to_numpy()
    begin = time.perf_counter()
    detector = CellErrorDetector(density, random_state=seed).fit(train)
    seconds = time.perf_counter() - begin
    model = detector.density_
    usual = model.score_cells(train).median().to_numpy()
    for method in (model.score_cells, detector.predict_proba):
        method(test)
    begin = time.perf_counter()
    oddness = -model.score_cells(test).to_numpy()
    of_cells = time.perf_counter() - begin
    begin = time.perf_counter()
    posterior = detector.predict_proba(test).to_numpy()
    slower = (time.perf_counter() - begin) / of_cells
    scores = {
        "posterior": posterior,
        # A category that was not seen is as odd as can be.
        "cells": np.where(np.isnan(oddness), 50.0, oddness),
        "centred": np.where(np.isnan(oddness), 50.0, oddness + usual),
        "boosting": boosting(train, test),
        "ECOD": ecod(train, test),
    }
    result = {key: precision(is_wrong, score, observed) for key, score in scores.items()}
    for number, key in enumerate(KINDS):
        if (kind == number).sum() >= 5:
            some = observed & ((kind == number) | ~is_wrong)
            for method in ("posterior", "cells", "centred"):
                result[f"{method} {key}"] = precision(is_wrong, scores[method], some)
    rows = is_wrong.any(axis=1)
    for method in ("posterior", "cells", "centred"):
        largest = np.where(observed, scores[method], -np.inf).max(axis=1)
        result[f"rows {method}"] = float(average_precision_score(rows, largest))
    result["rows row"] = float(average_precision_score(rows, -model.score_samples(test)))
    finds = detector.predict(test).to_numpy()
    n_finds, right = int(finds.sum()), int((finds & ~is_wrong).sum())
    result |= {"e": detector.error_rate_.mean(), "true e": is_wrong.mean(), "finds": n_finds}
    result |= {"right": right, "seconds": seconds, "slower": slower}
    order = np.argsort(-posterior[observed], kind="stable")
    hits = np.cumsum(is_wrong[observed][order])
    share = 1.0 - hits / np.arange(1, len(hits) + 1)
    allowed = hits[share <= right / max(n_finds, 1)]
    result["power"] = (n_finds - right) / max(int(allowed.max(initial=0)), 1)
    result["density"] = type(model).__name__
    return result


def shuffled(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with values of other rows in some cells, and which cells differ."""
    rng, dirty = np.random.default_rng(seed), table.copy()
    is_wrong = np.zeros(table.shape, dtype=bool)
    for place, (name, column) in enumerate(table.items()):
        observed = np.flatnonzero(column.notna())
        some = observed[rng.random(len(observed)) < _RATE]
        values = column.to_numpy().copy()
        values[some] = values[rng.choice(observed, len(some))]
        is_wrong[:, place] = (values != column.to_numpy()) & column.notna()
        dirty[name] = pd.Series(values, index=table.index).astype(column.dtype)
    return dirty, is_wrong


def measure_fitted(name: str, seed: int, density, n_rows: int) -> dict:
    """How well errors of the table that is fitted are found, with and without such errors."""
    table = table_of(name)
    table = table.sample(min(len(table), n_rows), random_state=seed).reset_index(drop=True)
    dirty, is_wrong = shuffled(table, seed)
    observed, result = table.notna().to_numpy(), {"table": name}
    for key, model in (("soft", skpc.SoftLearnSPN), ("hidden", skpc.HiddenChowLiuTree)):
        scores = model(random_state=seed).fit(dirty).score_cells(dirty)
        oddness = np.nan_to_num(-(scores - scores.median()).to_numpy(float), nan=50.0)
        result[key] = precision(is_wrong, oddness, observed)
    begin = time.process_time()
    detector = CellErrorDetector(density, random_state=seed).fit(dirty)
    result["seconds"] = time.process_time() - begin
    probability, marks = (
        ask(dirty).to_numpy() for ask in (detector.predict_proba, detector.predict)
    )
    result["posterior"] = precision(is_wrong, probability, observed)
    result["gain"] = result["posterior"] - max(result["soft"], result["hidden"])
    result |= {"marked": marks.sum(), "right": (marks & is_wrong).sum(), "wrong": is_wrong.sum()}
    result["cells"] = np.column_stack([probability[observed], is_wrong[observed]])
    clean = CellErrorDetector(density, random_state=seed).fit(table)
    result["marked clean"] = clean.predict(table).to_numpy()[observed].mean()
    return result


def print_fitted(results: pd.DataFrame) -> None:
    means = results.groupby("table")["gain"].mean()
    error = means.std() / np.sqrt(len(means)) if len(means) > 1 else np.nan
    print(f"gain {means.mean():+.3f} +- {error:.3f}  least {means.min():+.3f} ({means.idxmin()})")
    probability, is_wrong = np.concatenate([*results["cells"]]).T
    for low in np.arange(0.0, 1.0, 0.2):
        some = (probability >= low) & (probability < low + 0.2 + 1e-9)
        if some.any():
            pair = f"{probability[some].mean():.3f}  wrong {is_wrong[some].mean():.3f}"
            print(f"bin {low:.1f}: {some.sum()} cells  probability {pair}")


def impute(name: str, seed: int, density, n_rows: int) -> dict[str, tuple[float, float]]:
    """Errors of removed cells, of numbers and of categories, by what fills them."""
    table = table_of(name)
    table = table.sample(min(len(table), n_rows), random_state=seed).reset_index(drop=True)
    train, test = table[::2].reset_index(drop=True), table[1::2].reset_index(drop=True)
    removed = np.random.default_rng(seed).random(test.shape) < 0.2
    (dirty, bad), (asked, wrong) = with_errors(train, 1000 + seed), with_errors(test, seed)
    tables = {
        "clean": (train, test, False),
        "clean, robust": (train, test, True),
        "dirty": (dirty, asked, False),
        "dirty, robust": (dirty, asked, True),
        "oracle": (dirty.mask(bad >= 0), asked.mask(wrong >= 0), False),
    }
    result = {}
    for key, (learned, rows, robust) in tables.items():
        imputer = CircuitImputer(density, robust=robust, random_state=seed)
        imputer.set_output(transform="pandas").fit(learned)
        result[key] = fill_errors(test, imputer.transform(rows.mask(removed)), removed)
    return result


def fill_errors(truth: pd.DataFrame, filled: pd.DataFrame, removed: np.ndarray):
    squared, wrong = [], []
    for column, lost in zip(truth, (removed & truth.notna().to_numpy()).T):
        right, cells = truth[column][lost], filled[column][lost]
        if not pd.api.types.is_numeric_dtype(right):
            wrong.append((right.astype(str) != cells.astype(str)).mean())
        elif truth[column].var() > 0.0:
            squared.append(((right - cells.astype(float)) ** 2).mean() / truth[column].var())
    return np.sqrt(np.mean(squared)), np.mean(wrong) if wrong else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--density", default=None)
    parser.add_argument("--imputer", action="store_true")
    parser.add_argument("--fitted", action="store_true")
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for name in options.tables if options.imputer else ():
        density = options.density and getattr(skpc, options.density)(random_state=0)
        parts = [impute(name, seed, density, options.rows) for seed in range(options.seeds)]
        means = {key: np.mean([part[key] for part in parts], axis=0) for key in parts[0]}
        print(f"{name:14s}", *(f"{k} {a:.3f} {b:.3f} " for k, (a, b) in means.items()), flush=True)
    fitted = []
    for name in options.tables if options.fitted else ():
        for seed in range(options.seeds):
            density = options.density and getattr(skpc, options.density)(random_state=seed)
            fitted.append(measure_fitted(name, seed, density, options.rows))
            keys = [key for key in fitted[-1] if key not in ("table", "cells")]
            print(f"{name:16s}", *(f"{key} {fitted[-1][key]:.3f} " for key in keys), flush=True)
    if fitted:
        print_fitted(pd.DataFrame(fitted))
        means = pd.DataFrame(fitted).groupby("table")[["posterior", "soft", "hidden"]].mean()
        rows = [["table", "posterior", "``score_cells``"]]
        for name, (posterior, *densities) in means.iterrows():
            rows.append([name, f"{posterior:.3f}", f"{max(densities):.3f}"])
        write(options.write, "cell_errors", rows)
    for name in () if options.imputer or options.fitted else options.tables:
        for is_dirty in (False, True):
            for seed in range(options.seeds):
                density = options.density and getattr(skpc, options.density)(random_state=seed)
                one = measure(name, seed, is_dirty, density, options.rows)
                results.append({"table": name, "train": "dirty" if is_dirty else "clean"} | one)
            of_seeds = pd.DataFrame(results[-options.seeds :])
            print_line(name, of_seeds)
    if results:
        print_differences(pd.DataFrame(results))


def print_line(name: str, of_seeds: pd.DataFrame) -> None:
    mean = of_seeds.mean(numeric_only=True)
    total = of_seeds[["finds", "right"]].sum()
    methods = "  ".join(f"{k} {mean[k]:.3f}" for k in METHODS)
    rows = "  ".join(f"{k} {mean['rows ' + k]:.3f}" for k in (*METHODS[:3], "row"))
    wrong = total["right"] / max(total["finds"], 1)
    print(
        f"{name:14s}{of_seeds['train'].iloc[0]}  {methods}  rows: {rows}\n"
        f"{'':14s}e {mean['e']:.4f} of {mean['true e']:.4f}  finds {total['finds']}"
        f"  right {wrong:.2f}  power {mean['power']:.2f}  fit {mean['seconds']:.1f} s"
        f"  {mean['slower']:.1f}x  {of_seeds['density'].mode()[0]}",
        flush=True,
    )


def print_differences(results: pd.DataFrame) -> None:
    for train, some in results.groupby("train"):
        for key in ("", *(f" {kind}" for kind in KINDS)):
            if f"posterior{key}" not in some:
                continue
            for method in ("cells", "centred"):
                difference = some[f"posterior{key}"] - some[f"{method}{key}"]
                means = difference.groupby(some["table"]).mean().dropna()
                error = means.std() / np.sqrt(len(means)) if len(means) > 1 else np.nan
                print(
                    f"{train} posterior - {method}{key or ' all'}: {means.mean():+.3f} "
                    f"+- {error:.3f}  least {means.min():+.3f} ({means.idxmin()})"
                )


if __name__ == "__main__":
    main()
