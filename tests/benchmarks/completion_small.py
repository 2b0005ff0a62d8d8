"""Small tables, completed once: does CircuitImputer choose what fills them best?

    SKPC_DATA=... python -m tests.benchmarks.completion_small [names ...] [--rows 16 30 50 100]
        [--masks 20] [--more] [--keep FOLDER]

Each mask draws rows of a table (its number is the seed) and removes 30 % of their cells at random;
imputers fill the table that they learn from. Columns with one value left are dropped. Numbers have
the root of the mean over columns of the mean squared error over the variance, categories the share
that is wrong. Single schemes: column means and most frequent states, IterativeImputer (Bayesian
ridge regressions; one level of each category dropped, as all levels would sum to one) and
TableMixture; with ``--more`` also ten neighbours, random forests (IterativeImputer) and boosting
column by column. Printed are means over tables and masks, and the mean difference from
CircuitImputer with its standard error, masks of a table being paired; below zero CircuitImputer is
ahead. Then, for each table, the difference from the scheme (with ``--more``, of those of
scikit-learn) that is best on the even masks, judged on the odd ones.

``--rows 600 --more`` with the names diabetes cmc wine electricity breast_cancer economics schooling
train_choices training_program is the comparison with single imputations on nine tables.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skpc import CircuitImputer, TableMixture
from tests.benchmarks.imputation_by_kind import TABLES, table_of
from tests.benchmarks.imputation_rivals import cells_to_remove, prepared
from tests.benchmarks.numbers_tables import Estimate, kept, of_splits, print_row, print_title

#: The rows of a table that subsamples are drawn from.
_MOST_ROWS = 4000
_KINDS = ("numbers", "categories")
_BY_CODES = {
    "means": SimpleImputer(),
    "ridge": IterativeImputer(random_state=0),
    "neighbours": KNNImputer(n_neighbors=10),
    "forests": IterativeImputer(
        RandomForestRegressor(50, min_samples_leaf=3, random_state=0), max_iter=5, random_state=0
    ),
}
_BOOSTING = {"max_iter": 60, "learning_rate": 0.08, "max_leaf_nodes": 8, "early_stopping": False}
_OURS, _SINGLE = "default", ("means", "ridge", "TableMixture")
_MORE = ("neighbours", "forests", "boosting")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=TABLES)
    parser.add_argument("--rows", type=int, nargs="*", default=[16, 30, 50, 100])
    parser.add_argument("--masks", type=int, default=20)
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    labels = (_OURS, *_SINGLE, *(_MORE if options.more else ()))
    for n_rows in options.rows:
        errors = {}
        for name in options.names:
            whole = prepared(table_of(name, _MOST_ROWS))
            of_masks = [
                [
                    kept(
                        options,
                        partial(_measured, whole, n_rows, mask, label),
                        *("completion", name, n_rows, mask, label),
                    )["errors"]
                    for label in labels
                ]
                for mask in range(options.masks)
            ]
            errors[name] = np.array(of_masks, float)
        _print(n_rows, labels, errors)


def _measured(whole: pd.DataFrame, n_rows: int, mask: int, label: str) -> dict[str, np.ndarray]:
    truth = whole.sample(min(n_rows, len(whole)), random_state=mask).reset_index(drop=True)
    removed = cells_to_remove(truth, "mcar", mask)
    varies = (truth.mask(removed).nunique() > 1).to_numpy()
    truth, removed = truth.loc[:, varies], removed[:, varies]
    filled = _fill(label, truth.mask(removed))
    squared, wrong = [], []
    for column, lost in zip(truth, removed.T):
        goal, cells = truth[column][lost], filled[column][lost]
        if truth[column].dtype != np.float64:
            wrong += list(goal.astype(object) != cells.astype(object))
        elif lost.any():
            squared.append(((goal - cells) ** 2).mean() / truth[column].var(ddof=0))
    numbers = np.sqrt(np.mean(squared)) if squared else np.nan
    return {"errors": np.array([numbers, np.mean(wrong) if wrong else np.nan])}


def _fill(label: str, table: pd.DataFrame) -> pd.DataFrame:
    if label in _BY_CODES:
        return _by_codes(clone(_BY_CODES[label]), table)
    if label == "boosting":
        return _boosted(table)
    density = TableMixture(random_state=0) if label == "TableMixture" else None
    return (
        CircuitImputer(density, random_state=0).set_output(transform="pandas").fit_transform(table)
    )


def _by_codes(imputer: Any, table: pd.DataFrame) -> pd.DataFrame:
    """Standardised numbers, and indicators of all states but the first, which has the rest."""
    blocks, read = [], []
    for column in table:
        cells = table[column]
        if cells.dtype == np.float64:
            mean, sd = cells.mean(), cells.std(ddof=0)
            blocks.append(((cells - mean) / sd).to_numpy()[:, np.newaxis])
            read.append(partial(_as_numbers, mean, sd))
        else:
            codes, states = pd.factorize(cells, sort=True)
            block = codes[:, np.newaxis] == np.arange(1, len(states))
            blocks.append(np.where(codes[:, np.newaxis] < 0, np.nan, block))
            read.append(partial(_as_states, states))
    filled = imputer.fit_transform(np.hstack(blocks))
    ends = np.cumsum([block.shape[1] for block in blocks])
    parts = np.split(filled, ends[:-1], axis=1)
    return pd.DataFrame({column: of(part) for column, of, part in zip(table, read, parts)})


def _as_numbers(mean: float, sd: float, part: np.ndarray) -> np.ndarray:
    return mean + sd * part[:, 0]


def _as_states(states: Any, part: np.ndarray) -> np.ndarray:
    shares = np.column_stack([1.0 - part.sum(axis=1), part])
    return np.asarray(states, dtype=object)[shares.argmax(axis=1)]


def _boosted(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.columns[table.dtypes == np.float64]
    others = table.columns.difference(numbers)
    known, filled = table.astype(dict.fromkeys(others, "category")), table.copy()
    for column in table:
        lost = table[column].isna().to_numpy()
        model: Callable[..., Any] = HistGradientBoostingClassifier
        if column in numbers:
            model = HistGradientBoostingRegressor
        predictor = model(categorical_features="from_dtype", random_state=0, **_BOOSTING)
        rest = known.drop(columns=column)
        if lost.any():
            predictor.fit(rest[~lost], table[column][~lost])
            filled.loc[lost, column] = predictor.predict(rest[lost])
    return filled


def _print(n_rows: int, labels: tuple[str, ...], errors: dict[str, np.ndarray]) -> None:
    """Means over tables, and each table against the best scheme; errors: masks, labels, kinds."""
    print_title(f"{n_rows} rows")
    print_row("scheme", *(f"{kind}, difference" for kind in _KINDS))
    for place, label in enumerate(labels):
        cells = []
        for kind in range(len(_KINDS)):
            own = [_finite(one[:, place, kind]).mean() for one in errors.values()]
            gaps = [
                of_splits(_finite(one[:, 0, kind] - one[:, place, kind])) for one in errors.values()
            ]
            gaps = [gap for gap in gaps if np.isfinite(gap.mean)]
            se = np.sqrt(np.sum(np.square([gap.se for gap in gaps]))) / len(gaps)
            gap = Estimate(float(np.mean([gap.mean for gap in gaps])), float(se))
            cells.append(f"{np.nanmean(own):.3f}  {gap}")
        print_row(label, *cells)
    print_row("table", *(f"{kind}, best scheme, difference" for kind in _KINDS))
    # Among schemes of other packages, or among single schemes.
    is_rival = [
        label != _OURS and (label != "TableMixture" or "forests" not in labels) for label in labels
    ]
    rivals, near = np.flatnonzero(is_rival).tolist(), 0
    for name, one in errors.items():
        cells, is_near = [], True
        for kind in range(len(_KINDS)):
            even, odd = one[::2, :, kind], one[1::2, :, kind]
            if np.isnan(even).all():
                cells.append("--")
                continue
            best = min(rivals, key=lambda place: np.nanmean(even[:, place]))
            gap = of_splits(_finite(odd[:, 0] - odd[:, best]))
            is_near &= bool(gap.mean <= gap.se)
            cells.append(f"{np.nanmean(odd[:, 0]):.3f}  {labels[best]}  {gap}")
        near += is_near
        print_row(name, *cells, "" if is_near else "*")
    print_row(f"ahead or within one standard error: {near} of {len(errors)} tables")


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


if __name__ == "__main__":
    main()
