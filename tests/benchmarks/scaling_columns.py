"""How fits grow with columns: CPU seconds and memory, complete and with a fifth of cells missing.

    python -m tests.benchmarks.scaling_columns [--columns N ...] [--rows N] [--limit SECONDS]
        [--kind factors|independent] [--missing RATE ...] [--estimators NAME ...]

The columns are numbers: sums of few factors and noise (a factor for each twenty columns, in about
a seventh of them), or independent. ``seconds`` are CPU seconds of a warm fit with one thread, in a
process of its own; ``mebibytes`` is how much its peak memory grew, the table itself not counted;
``nats`` is the mean log density of 1000 more rows, which are complete. A fit that takes more than
``--limit`` CPU seconds is ended, and wider tables are left out; one that the estimator refuses says
why.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import (
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from tests.benchmarks.scaling_processes import Cost, cost_of_fit, in_process
from tests.benchmarks.scaling_tables import numbers

COLUMNS = (10, 30, 100, 300, 500, 1_000, 2_000)
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "CutsetNetworkBD": lambda: CutsetNetworkBD(random_state=0),
    "SoftLearnSPN": lambda: SoftLearnSPN(random_state=0),
    "TableMixture": lambda: TableMixture(random_state=0),
    "HiddenChowLiuTree": lambda: HiddenChowLiuTree(random_state=0),
    "MixtureOfAllTrees": lambda: MixtureOfAllTrees(random_state=0),
}
_HELD_OUT = 1_000
_HEAD = ("estimator", "rows", "columns", "missing", "seconds", "mebibytes", "nats", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", nargs="+", type=int, default=list(COLUMNS))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--kind", choices=("factors", "independent"), default="factors")
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, 0.2])
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    options = parser.parse_args()
    print_cells(_HEAD)
    for name in options.estimators:
        for missing in options.missing:
            for n_columns in options.columns:
                sizes = options.rows, n_columns, missing
                cost = in_process(_measure, (name, *sizes, options.kind), options.limit)
                measured = (f"{x:.1f}" if x is not None else "-" for x in cost[:3])
                print_cells((name, *sizes, *measured, cost.note))
                if cost.seconds is None:
                    break


def print_cells(cells: Sequence[Any]) -> None:
    first, *others, note = map(str, cells)
    print(f"{first:20s}", *(f"{cell:>10s}" for cell in others), note, flush=True)


def _measure(
    begin: Callable[[], None], name: str, n_rows: int, n_columns: int, missing: float, kind: str
) -> Cost:
    # Training of MixtureOfAllTrees says that it has used all its iterations.
    warnings.simplefilter("ignore")
    model = ESTIMATORS[name]()
    X, asked = numbers(n_rows, n_columns, kind, 0), numbers(_HELD_OUT, n_columns, kind, 1)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    model.fit(X[:300, :8]).score_samples(asked[:, :8])
    begin()
    return cost_of_fit(lambda: model.fit(X))._replace(quality=model.score(asked))


if __name__ == "__main__":
    main()
