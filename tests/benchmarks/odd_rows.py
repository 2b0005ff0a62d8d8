"""Rows with a wrong cell: found by the log density of the row, or by its lowest cell?

A density learns one half of a table. In the other half, 5 % of the rows get one wrong cell: a
column at random, and the value that another row has there. The table shows the average precision
with which these rows are found, a mean over draws of the errors, by

- ``row``: the log density of the row (``score_samples``);
- ``cell``: the lowest of its log densities of cells given the others (``score_cells``), each less
  the median of its column in training;

and how much higher the latter is. Its standard error is over draws of the errors alone.

    python -m tests.benchmarks.odd_rows [table ...] [--draws 5] [--write doc/user_guide]
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import average_precision_score

from skpc import TableMixture
from tests.benchmarks.guide_tables import add_write, with_error, write
from tests.benchmarks.mixed_tables import file_of, read

_LOADERS = {"wine": load_wine, "breast_cancer": load_breast_cancer}
_TABLES = (
    "doctor_visits",
    "medical_expenses",
    "train_choices",
    "training_program",
    "schooling",
    "panel_earnings",
)
#: Rows of a table that take part, and share of rows with an error.
_N_ROWS, _ODD = 2400, 0.05


def table_of(name: str) -> pd.DataFrame:
    """Half of these rows are learned, the others judged."""
    if name in _LOADERS:
        table = _LOADERS[name](as_frame=True).frame.astype({"target": str})
    elif name in _TABLES:
        table = pd.read_csv(file_of(name).parents[1] / "tables" / f"{name}.csv.gz")
    else:
        table = read(name)
    return table.sample(min(len(table), _N_ROWS), random_state=0).reset_index(drop=True)


def with_errors(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with a wrong cell in some rows, and which rows these are."""
    rng = np.random.default_rng(seed)
    wrong, is_odd = table.copy(), np.zeros(len(table), dtype=bool)
    for row in rng.choice(len(table), max(5, int(_ODD * len(table))), replace=False):
        column = int(rng.integers(table.shape[1]))
        others = table.iloc[:, column]
        others = others[(others != others.iloc[row]) & others.notna()]
        # A constant column has no wrong value.
        if len(others):
            wrong.iloc[row, column] = others.iloc[int(rng.integers(len(others)))]
            is_odd[row] = True
    return wrong, is_odd


def precisions(table: pd.DataFrame, n_draws: int) -> np.ndarray:
    """Average precision by the row, and by its lowest cell, for each draw of the errors."""
    train, test = table[::2], table[1::2].reset_index(drop=True)
    model = TableMixture(random_state=0).fit(train)
    usual = model.score_cells(train).median()
    of_draws = []
    for seed in range(n_draws):
        wrong, is_odd = with_errors(test, seed)
        lowest = (model.score_cells(wrong) - usual).min(axis=1)
        scores = (model.score_samples(wrong), lowest)
        of_draws.append([average_precision_score(is_odd, -score) for score in scores])
    return np.array(of_draws)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tables", nargs="*", default=[*_LOADERS, *_TABLES, "bank", "cmc", "segment"]
    )
    parser.add_argument("--draws", type=int, default=5)
    add_write(parser)
    options = parser.parse_args()
    rows = [["table", "``score_samples``", "lowest cell", "gain"]]
    print(f"{'table':18s} {'row':>6s} {'cell':>6s} {'gain':>7s} {'se':>6s}")
    for name in options.tables:
        by_row, by_cell = precisions(table_of(name), options.draws).T
        gain = by_cell - by_row
        se = gain.std(ddof=1) / np.sqrt(len(gain))
        means = f"{by_row.mean():6.3f} {by_cell.mean():6.3f} {gain.mean():+7.3f} {se:6.3f}"
        print(f"{name:18s} {means}", flush=True)
        cells = [f"{by_row.mean():.3f}", f"{by_cell.mean():.3f}"]
        rows.append([name, *cells, with_error(gain.mean(), se, 3)])
    write(options.write, "questions_odd_rows", rows)


if __name__ == "__main__":
    main()
