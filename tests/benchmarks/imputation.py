"""Imputing mixed tables: CircuitImputer compared with the imputers of scikit-learn.

    SKPC_DATA=... python -m tests.benchmarks.imputation [names ...] [--seeds N] [--imputers ...]
        [--by-kind | --rivals] [--rows N] [--keep FOLDER]

Cells of 70 % of the rows (at most 10,000) and of the others (at most 5,000) are removed; imputers
are fitted to the former and fill the latter. "mcar": 30 % at random. "mar": depending on the first
number, which is always there; 30 % on average. nrmse is the root of the mean squared error of a
number over its variance, averaged over the columns; error is the share of the removed categories
that were filled wrongly; seconds are CPU seconds of fit and transform. Means over the seeds.

Others than CircuitImputer see categories as one-hot columns (the largest of a group counts), for
which all of them did better than with ordinal codes. K is the number of components of a
CutsetNetworkBD, "soft" is SoftLearnSPN, "table" TableMixture, "default" no density but the default.
IterativeImputer uses Bayesian ridge regressions, "forest" random forests of 50 trees.

With --by-kind other tables, rivals and bars, see ``imputation_by_kind``; with --rivals those of
other packages, judged by draws too, see ``imputation_rivals``.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skpc import CircuitImputer, CutsetNetworkBD, SoftLearnSPN, TableMixture
from tests.benchmarks.imputation_by_kind import by_kind
from tests.benchmarks.imputation_rivals import compare
from tests.benchmarks.mixed_tables import holes, present, read, split

DENSITIES = {
    **{f"K={k}": CutsetNetworkBD(n_components=k) for k in (1, 5, 10)},
    "soft": SoftLearnSPN(),
    "table": TableMixture(),
    "default": None,
}
OTHERS = {
    "simple": SimpleImputer(),
    "knn": KNNImputer(n_neighbors=10),
    "iterative": IterativeImputer(random_state=0),
    "forest": IterativeImputer(
        RandomForestRegressor(50, min_samples_leaf=3, random_state=0), random_state=0, max_iter=5
    ),
}
#: On the other tables it would take hours.
FOREST_TABLES = ("cmc", "segment")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--imputers", nargs="*", help="all of them by default")
    parser.add_argument("--by-kind", action="store_true")
    parser.add_argument("--rivals", action="store_true", help="see imputation_rivals.py")
    parser.add_argument("--mechanisms", nargs="*", default=["mcar", "mar", "mnar"])
    parser.add_argument("--rows", type=int, default=2000, help="at most so many, but by default")
    parser.add_argument("--limit", type=float, default=600.0, help="CPU s of a rival's ten draws")
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.by_kind:
        by_kind(options, _fill_one_hot)
        return
    if options.rivals:
        compare(options, _fill_one_hot)
        return
    print(f"{'set':11s}{'missing':>7s}{'imputer':>12s}{'nrmse':>8s}{'error':>8s}{'seconds':>9s}")
    for name in options.names or present():
        for mechanism in ("mcar", "mar"):
            for imputer in options.imputers or _imputers(name):
                found = [_measure(name, mechanism, imputer, s) for s in range(options.seeds)]
                nrmse, error, seconds = np.mean(found, axis=0)
                print(f"{name:11s}{mechanism:>7s}{imputer:>12s}", end="")
                print(f"{nrmse:8.3f}{error:8.3f}{seconds:9.1f}", flush=True)


def _imputers(name: str) -> list[str]:
    others = [other for other in OTHERS if other != "forest" or name in FOREST_TABLES]
    return [*DENSITIES, *others]


def _measure(name: str, mechanism: str, imputer: str, seed: int) -> tuple[float, float, float]:
    train, test = split(read(name), seed)
    train, test = train[:10_000], test[:5_000]
    removed = holes(test, mechanism, 2 * seed + 1)
    rows = train.mask(holes(train, mechanism, 2 * seed))
    start = time.process_time()
    if imputer in OTHERS:
        filled = _fill_one_hot(OTHERS[imputer], rows, test.mask(removed))
    else:
        density = DENSITIES[imputer]
        if density is not None:
            density = density.set_params(categorical_features="from_dtype", random_state=0)
        model = CircuitImputer(density, random_state=0).set_output(transform="pandas")
        filled = model.fit(rows).transform(test.mask(removed))
    return *_errors(test, filled, removed), time.process_time() - start


def _fill_one_hot(imputer, rows: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    imputer.fit(_one_hot(rows))
    filled, at = imputer.transform(_one_hot(test)), 0
    columns = {}
    for column in test:
        if test[column].dtype == "category":
            categories = test[column].cat.categories
            block = filled[:, at : at + len(categories)]
            columns[column] = pd.Categorical.from_codes(block.argmax(axis=1), categories)
            at += len(categories)
        else:
            columns[column] = filled[:, at]
            at += 1
    return pd.DataFrame(columns)


def _one_hot(table: pd.DataFrame) -> np.ndarray:
    blocks = []
    for column in table:
        if table[column].dtype == "category":
            codes = table[column].cat.codes.to_numpy()[:, np.newaxis]
            block = (codes == np.arange(len(table[column].cat.categories))).astype(float)
            blocks.append(np.where(codes < 0, np.nan, block))
        else:
            blocks.append(table[[column]].to_numpy())
    return np.hstack(blocks)


def _errors(truth: pd.DataFrame, filled: pd.DataFrame, removed: np.ndarray) -> tuple[float, float]:
    squared, wrong = [], []
    for column, missing in zip(truth, removed.T):
        true, found = truth[column][missing], filled[column][missing]
        if truth[column].dtype == "category":
            wrong += list(true.astype(object) != found.astype(object))
        elif missing.any() and truth[column].var() > 0:
            squared.append(((true - found) ** 2).mean() / truth[column].var())
    return float(np.sqrt(np.mean(squared))), float(np.mean(wrong))


if __name__ == "__main__":
    main()
