"""How the estimators grow with rows and with columns: CPU seconds and memory.

    python -m tests.benchmarks.scaling [rows] [columns] [adult] [--estimators NAME ...]
        [--limit SECONDS] [--rows N ...] [--columns N ...] [--missing RATE ...] [--doc FOLDER]

rows       1e3 to 1e7 rows of 16 columns, half of them binary and half numbers; half of the rows
           come from each of two random tree-structured distributions. Densities read them in
           blocks of a file, the other estimators get the table in memory.
adult      rows of Adult (SKPC_DATA), drawn with replacement, with 0, 1 or 2 added to each number: a
           DataFrame in memory, for densities alone; nothing is entered. Nats are those of rows
           drawn in the same way.
columns    10 to 2,000 numbers in 5,000 rows: sums of few factors, and noise.

Each fit has a process of its own. Seconds are CPU seconds of a warm fit by one thread; MiB is how
much the peak memory of the process grew meanwhile, the table in memory not counted; ``nats`` is the
mean log density of 2,000 more rows, which are complete. The target of classifiers and regressions
is whether the first column with noise is above its median. A fit that takes more than ``--limit``
CPU seconds is ended, and larger tables are left out.

What has been measured is entered into the tables of the guide (``scaling_rows.csv`` and
``scaling_columns.csv``), added to what stands there, and drawn (``images/scaling_rows.svg`` and so
on). So single rows can be measured again. ``scaling_blocks.py`` and ``scaling_columns.py`` measure
more of blocks and of wide tables.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVR,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    KernelEPOperator,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from tests.benchmarks.scaling_figures import Figures
from tests.benchmarks.scaling_processes import Cost, cost_of_fit, in_process
from tests.benchmarks.scaling_tables import (
    adult_rows,
    blocks_of,
    numbers,
    part_of_table,
    write_table,
)

ROWS = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
COLUMNS = [10, 100, 500, 1_000, 2_000]
#: Columns of the tables that grow in rows, and rows of those that grow in columns.
N_COLUMNS, N_ROWS = 16, 5_000
DENSITIES: dict[str, Callable[[], Any]] = {
    "CutsetNetworkBD": lambda: CutsetNetworkBD(random_state=0),
    "CutsetNetworkBD, 10 components": lambda: CutsetNetworkBD(n_components=10, random_state=0),
    "SoftLearnSPN": lambda: SoftLearnSPN(random_state=0),
    "TableMixture": lambda: TableMixture(random_state=0),
    "HiddenChowLiuTree": lambda: HiddenChowLiuTree(random_state=0),
    "ExtraCutsets": lambda: ExtraCutsets(random_state=0),
    "HiddenForest": lambda: HiddenForest(random_state=0),
    "MixtureOfAllTrees": lambda: MixtureOfAllTrees(random_state=0),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "DensityClassifier": lambda: DensityClassifier(),
    "ExpectedKernelSVR": lambda: ExpectedKernelSVR(random_state=0),
    "KernelEPOperator": lambda: KernelEPOperator(random_state=0),
}
ESTIMATORS = DENSITIES | OTHERS
_HELD_OUT = 2_000
#: A size that would take so many times the limit, if time grew with size, is left out: in rows,
#: many estimators learn from a sample.
_MORE = {"rows": 3.0, "columns": 1.0, "adult": 10.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("axes", nargs="*", default=["rows", "columns"])
    parser.add_argument("--rows", nargs="+", type=float, default=ROWS)
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, 0.2])
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    parser.add_argument("--doc", type=Path, default=Path("doc"))
    options = parser.parse_args()
    for axis in options.axes:
        # The guide has no table of Adult.
        folder = None if axis == "adult" else options.doc
        figures = Figures(axis, folder, list(ESTIMATORS))
        print(axis)
        print_row(("estimator", "missing", "size", "cpu_s", "MiB", "nats"))
        with TemporaryDirectory() as folder:
            for name in options.estimators:
                for missing in options.missing if axis != "adult" else [0.0]:
                    of_axis = options.columns if axis == "columns" else options.rows
                    sizes = [int(size) for size in of_axis]
                    measure_all(figures, (name, missing), sizes, options.limit, Path(folder))


def measure_all(
    figures: Figures, row: tuple[str, float], sizes: list[int], limit: float, folder: Path
) -> None:
    """Measure an estimator at growing sizes, up to the limit."""
    name, missing = row
    if missing and name == "KernelEPOperator":
        return
    seconds: float | None = 0.0
    before = 1
    for size in sizes:
        # Nothing larger is tried after a fit that has not come to an end, or where one would not.
        if seconds is None or seconds * size / before > _MORE[figures.axis] * limit:
            figures.enter(name, missing, size, None, None)
            seconds = None
            continue
        cost = in_process(_measure, (figures.axis, name, missing, size, max(sizes), folder), limit)
        cells = ("-" if cell is None else f"{cell:.2f}" for cell in cost[:-1])
        print_row((name, missing, f"{size:,}", *cells, cost.note))
        figures.enter(name, missing, size, cost.seconds, cost.mebibytes)
        seconds, before = cost.seconds, size


def print_row(cells: Any) -> None:
    first, *others = map(str, cells)
    print(f"{first:32s}", *(f"{cell:>11s}" for cell in others), flush=True)


def _measure(
    begin: Callable[[], None],
    axis: str,
    name: str,
    missing: float,
    size: int,
    largest: int,
    folder: Path,
) -> Cost:
    # Training of MixtureOfAllTrees says that it has used all its iterations.
    warnings.simplefilter("ignore")
    model = ESTIMATORS[name]()
    if axis == "adult":
        frame = adult_rows(size, seed=0)
        asked = adult_rows(_HELD_OUT, seed=1)
        model.fit(frame.head(300))
        begin()
        cost = cost_of_fit(lambda: model.fit(frame))
        return cost._replace(quality=model.score(asked))
    if axis == "columns":
        X = numbers(N_ROWS, size, "factors", 0)
        X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
        table, asked = X, numbers(_HELD_OUT, size, "factors", 1)
    else:
        path = folder / f"{missing}.npy"
        if not path.exists():
            write_table(path, largest, N_COLUMNS, missing)
        table = np.load(path, mmap_mode="r")[:size]
        asked = part_of_table(_HELD_OUT, N_COLUMNS, 0.0, 2**20)
    few = np.array(table[:300, :10])
    model.fit(few, _target(few))
    if axis == "rows" and name in DENSITIES:
        _warm_blocks(name, few)
        begin()
        cost = cost_of_fit(lambda: model.fit(lambda: blocks_of(path, size)))
    else:
        X = np.array(table)
        y = _target(X)
        begin()
        cost = cost_of_fit(lambda: model.fit(X, y))
    return cost._replace(quality=model.score(asked)) if name in DENSITIES else cost


def _target(X: np.ndarray) -> np.ndarray:
    """The first column with noise, in two classes."""
    noisy = np.nan_to_num(X[:, 0]) + np.random.default_rng(3).normal(size=len(X))
    return (noisy > np.median(noisy)).astype(float)


def _warm_blocks(name: str, few: np.ndarray) -> None:
    """Compile what a fit of blocks needs."""
    from skpc.estimators import _table_chunks

    usual, _table_chunks.SAMPLE_ROWS = _table_chunks.SAMPLE_ROWS, 200
    ESTIMATORS[name]().fit(iter([few]))
    _table_chunks.SAMPLE_ROWS = usual


if __name__ == "__main__":
    main()
