"""Whether XGBoost tells draws of a density from rows, and how probable new rows are.

    SKPC_DATA=... python -m tests.benchmarks.c2st [--rivals FOLDER] [--tables ...]
        [--densities ...] [--rows N] [--seeds ...] [--told] [--gaps] [--write doc/user_guide]

A half A of the rows is learned from, and as many rows are drawn; the half B is new. Gaps are the
category "?" as in published tables. XGBoost with its defaults tells draws from each half, in 3
folds; it sees categories as numbers in the order of their names. C2ST is 2 - 2 AUC, at most 1,
where draws are like rows. Behind it are the log density of B (nats a row), the share of draws that
are nearer to A than to B (ties split; numbers by ranks, categories by indicators), and CPU seconds
of the fit. "--told" adds the columns that XGBoost tells draws from A by, each with the AUC less
that without the column. Stars mark what is below the bar of HiddenForest.

"--gaps" draws tables with gaps instead: by WithGaps, and by the density alone, for which a gap is a
category of its own, or a value of its own below all numbers. XGBoost sees both in the second form.

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
from sklearn.neighbors import NearestNeighbors

from skpc.synthesis import WithGaps
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.numbers_tables import print_row, print_title, star
from tests.benchmarks.one_law import DENSITIES

_FOLDS = 3
#: Tables, their folders, and the bars of HiddenForest: C2ST on A and on B.
BARS = {
    "adult": ("large", 0.93, 0.86),
    "magic": ("large", 0.93, 0.79),
    "bank": ("mixed", 0.95, 0.87),
    "electricity": ("mixed", 0.80, 0.70),
}
#: Tables with gaps, and their folders.
WITH_GAPS = {"adult": "large", "schooling": "tables"}
#: Greatest share of draws nearer to the half learned, and draws that are looked at.
_NEARER_BAR, _NEAREST = 0.57, 2000
#: Columns that are listed.
_LISTED = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rivals", type=Path, help="folder that holds xgboost")
    parser.add_argument("--tables", nargs="*", choices=list(BARS), default=list(BARS))
    parser.add_argument("--densities", nargs="*", choices=list(DENSITIES), default=["HiddenForest"])
    parser.add_argument("--rows", type=int, help="rows of a table, at most")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--gaps", action="store_true", help="tables with gaps")
    add_write(parser)
    parser.add_argument("--told", action="store_true", help="list columns that draws are told by")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.rivals:
        sys.path.append(str(options.rivals))
    try:
        xgboost: Any = importlib.import_module("xgboost")
    except ImportError:
        print("c2st: skipped, as there is no xgboost; see --help")
        return
    if options.gaps:
        compare_gaps(xgboost, options)
        return
    print_title("c2st: draws beside the half learned (A) and the other one (B), * if below the bar")
    print_row("table", "density", "seed", "A", "B", "nats B", "nearer", "fit s", "told by")
    of_guide = []
    for name in options.tables:
        for seed in options.seeds:
            learned, new = halves(name, seed, options.rows)
            for label in options.densities:
                start = time.process_time()
                model = clone(DENSITIES[label]).fit(learned)
                seconds = time.process_time() - start
                draws = model.sample(len(learned), random_state=seed)[list(learned)]
                figures, shown = [], []
                for half, bar in zip((learned, new), BARS[name][1:]):
                    c2st = min(2.0 - 2.0 * auc_of(xgboost, half, draws, seed), 1.0)
                    figures.append(f"{c2st:.3f}{star(c2st < bar)}")
                    shown.append(f"{c2st:.2f}")
                share = nearer(learned, new, draws.head(_NEAREST))
                told = told_by(xgboost, learned, draws, seed) if options.told else ""
                figures += [f"{model.score(new):.3f}", f"{share:.3f}{star(share > _NEARER_BAR)}"]
                print_row(name, label, str(seed), *figures, f"{seconds:.1f}", told)
                cells = [f"{len(learned):,}", label, *shown, f"{share:.2f}", f"{seconds:.0f}"]
                of_guide.append([name, *cells])
    heads = ["table", "rows learned", "density", "C2ST beside the rows learned"]
    heads += ["beside the other half", "draws nearer to the half learned", "fit, CPU s"]
    write(options.write, "c2st", [heads, *of_guide])


def halves(name: str, seed: int, n_rows: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows that are learned from, and as many others."""
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser() / BARS[name][0]
    return halved(coded(pd.read_csv(path / f"{name}.csv.gz")), seed, n_rows)


def coded(table: pd.DataFrame, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """The table without gaps: "?" among categories, a number below all others (of ``like``)."""
    like = table if like is None else like
    columns = {}
    for name in table:
        if pd.api.types.is_numeric_dtype(like[name]):
            lowest = like[name].min()
            # As far below as a tenth of the range.
            columns[name] = table[name].fillna(lowest - 0.1 * (like[name].max() - lowest))
        else:
            columns[name] = table[name].astype(object).fillna("?")
    return pd.DataFrame(columns)


def compare_gaps(xgboost: Any, options: argparse.Namespace) -> None:
    """Draws of WithGaps beside those of gaps that are values."""
    print_title("c2st with gaps: draws beside the half learned (A) and the other one (B)")
    print_row("table", "density", "seed", "WithGaps A", "B", "values A", "B", "fit s", "fit s")
    data = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()
    for name, folder in WITH_GAPS.items():
        table = pd.read_csv(data / folder / f"{name}.csv.gz")
        for seed in options.seeds:
            learned, new = halved(table, seed, options.rows)
            halves_as_values = [coded(half, table) for half in (learned, new)]
            for label in options.densities:
                figures, times = [], []
                for is_joint in (True, False):
                    model = clone(DENSITIES[label])
                    rows = halves_as_values[0]
                    if is_joint:
                        model, rows = WithGaps(model), learned
                    start = time.process_time()
                    model.fit(rows)
                    times.append(f"{time.process_time() - start:.1f}")
                    draws = model.sample(len(learned), random_state=seed)[list(learned)]
                    for half in halves_as_values:
                        auc = auc_of(xgboost, half, coded(draws, table), seed)
                        figures.append(f"{min(2.0 - 2.0 * auc, 1.0):.3f}")
                print_row(name, label, str(seed), *figures, *times)


def halved(table: pd.DataFrame, seed: int, n_rows: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two halves of the rows, in random order."""
    table = table.sample(frac=1.0, random_state=seed).head(n_rows or len(table))
    half = len(table) // 2
    learned, new = table.iloc[:half], table.iloc[half : 2 * half]
    return learned.reset_index(drop=True), new.reset_index(drop=True)


def nearer(learned: pd.DataFrame, new: pd.DataFrame, draws: pd.DataFrame) -> float:
    """Share of draws that are nearer to rows learned than to new ones."""
    both = pd.concat([learned, new], ignore_index=True)
    numeric = both.select_dtypes("number").columns

    def points(table: pd.DataFrame) -> np.ndarray:
        columns = []
        for name in both:
            cells = np.asarray(table[name].astype(object))
            if name in numeric:
                values, cells = np.sort(both[name].to_numpy()), cells.astype(float)
                place = np.searchsorted(values, cells) + np.searchsorted(values, cells, "right")
                columns.append(place[:, np.newaxis] / (2.0 * len(values)))
            else:
                states = np.asarray(both[name].unique(), dtype=object)
                columns.append(np.sqrt(0.5) * (cells[:, np.newaxis] == states))
        return np.hstack(columns).astype(np.float32)

    distances = []
    for half in (learned, new):
        index = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(points(half))
        distances.append(index.kneighbors(points(draws))[0][:, 0])
    to_learned, to_new = distances
    return float(np.mean((to_learned < to_new) + 0.5 * (to_learned == to_new)))


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


if __name__ == "__main__":
    main()
