"""Whether XGBoost tells draws of Adult from the rows that they were learned from.

    SKPC_DATA=... python -m tests.benchmarks.c2st [--rivals FOLDER] [--densities ...] [--rows N]
        [--seeds ...]

90 % of ``large/adult`` are learned from, gaps being the category "?" as in published tables, and as
many rows are drawn. XGBoost with its defaults tells both apart, in 3 folds; it sees categories as
numbers in the order of their names. C2ST is 2 - 2 AUC, at most 1, where draws are like rows (bars
.81 for SoftLearnSPN, .83 for ExtraCutsets). Behind it are the columns that XGBoost tells draws by,
each with the AUC less that without the column, and CPU seconds of the fit and of the draws.

XGBoost is one of ``rivals.txt``; ``pip install --no-deps --target FOLDER xgboost`` makes the folder
of ``--rivals``. Without it nothing is measured.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from tests.benchmarks.numbers_tables import print_row, print_title, star
from tests.benchmarks.one_law import DENSITIES

_LEARNED, _FOLDS = 0.9, 3
#: Densities that are asked by default.
BARS = {"SoftLearnSPN": 0.81, "ExtraCutsets": 0.83}
#: Columns that are listed.
_LISTED = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rivals", type=Path, help="folder that holds xgboost")
    parser.add_argument("--densities", nargs="*", choices=list(DENSITIES), default=list(BARS))
    parser.add_argument("--rows", type=int, help="rows that are learned from, at most")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.rivals:
        sys.path.append(str(options.rivals))
    try:
        xgboost: Any = importlib.import_module("xgboost")
    except ImportError:
        print("c2st: skipped, as there is no xgboost; see --help")
        return
    print_title("c2st: draws of Adult and rows learned from, * if below the bar")
    print_row("density", "seed", "c2st", "auc", "fit s", "draw s", "told by")
    for seed in options.seeds:
        train = rows_of(seed, options.rows)
        for label in options.densities:
            start = time.process_time()
            model = clone(DENSITIES[label]).fit(train)
            between = time.process_time()
            draws = model.sample(len(train), random_state=seed)
            seconds = between - start, time.process_time() - between
            auc = auc_of(xgboost, train, draws, seed)
            c2st = min(2.0 - 2.0 * auc, 1.0)
            missed = star(c2st < BARS.get(label, 0.0))
            told = told_by(xgboost, train, draws, seed)
            print_row(
                label, str(seed), f"{c2st:.3f}{missed}", f"{auc:.3f}", *map(_shown, seconds), told
            )


def rows_of(seed: int, n_rows: int | None) -> pd.DataFrame:
    """The rows that are learned from."""
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser() / "large"
    table = pd.read_csv(path / "adult.csv.gz")
    texts = table.columns.difference(table.select_dtypes("number").columns)
    table[texts] = table[texts].fillna("?")
    train = table.sample(frac=_LEARNED, random_state=seed)
    return train.head(n_rows or len(train)).reset_index(drop=True)


def auc_of(xgboost: Any, train: pd.DataFrame, draws: pd.DataFrame, seed: int) -> float:
    """Area under the curve of rows that the classifier has not seen."""
    both = pd.concat([train, draws[list(train)]], ignore_index=True)
    is_text = ~both.columns.isin(both.select_dtypes("number").columns)
    for name in both.columns[is_text]:
        both[name] = pd.factorize(both[name], sort=True)[0]
    is_drawn = np.repeat([0, 1], [len(train), len(draws)])
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    model = xgboost.XGBClassifier()
    told = cross_val_predict(model, both, is_drawn, cv=folds, method="predict_proba")
    return float(roc_auc_score(is_drawn, told[:, 1]))


def told_by(xgboost: Any, train: pd.DataFrame, draws: pd.DataFrame, seed: int) -> str:
    """The columns without which draws are told apart least."""
    whole = auc_of(xgboost, train, draws, seed)
    lost = pd.Series(
        {name: whole - auc_of(xgboost, train.drop(columns=name), draws, seed) for name in train}
    )
    return ", ".join(f"{name} {gain:.3f}" for name, gain in lost.nlargest(_LISTED).items())


def _shown(seconds: float) -> str:
    return f"{seconds:.1f}"


if __name__ == "__main__":
    main()
