"""How the estimators grow with rows and with columns: seconds and memory.

    python -m tests.benchmarks.scaling [rows] [blocks] [columns] [--limit SECONDS]
                                       [--estimators NAME ...]

rows       1e3 to 1e6 rows of 16 columns in memory
blocks     1e3 to 1e7 rows of 16 columns in blocks of a file, complete and with a fifth of the cells
           missing (scaling_blocks.py says more)
columns    tables that grow wider: scaling_columns.py says how; without it, 10 to 1500 columns of
           2000 rows

Half of the columns are binary and half are numbers; half of the rows come from each of two random
tree-structured distributions. The target of classifiers and regressions is the first column with
noise. fit_s and score_s are CPU seconds of one thread, warm: of a fit, and of score_samples (or
predict) on the same rows. For score_nan_s the first half of the columns is missing (1000 rows at
most for MixtureOfAllTrees, which samples there; KernelEPOperator takes none). MiB is how much the
peak memory of the process grew in the fit; the table itself was there before. A size is left out
where the fit is expected to take longer than ``--limit`` seconds, after the size before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
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
    KernelEPOperator,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.datasets import make_chow_liu

ROWS = [1_000, 10_000, 100_000, 1_000_000]
COLUMNS = [10, 100, 500, 1_500]
#: What is fitted, and how much longer a fit takes when rows, or columns, are ten times as many; a
#: guess that is only used to leave sizes out.
ESTIMATORS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "CutsetNetworkBD": (lambda: CutsetNetworkBD(random_state=0), 10, 30),
    "  n_components=10": (lambda: CutsetNetworkBD(n_components=10, random_state=0), 10, 30),
    "  30 % of cells NaN": (lambda: CutsetNetworkBD(random_state=0), 10, 30),
    "SoftLearnSPN": (lambda: SoftLearnSPN(random_state=0), 10, 30),
    "MixtureOfAllTrees": (lambda: MixtureOfAllTrees(random_state=0), 10, 300),
    "DensityClassifier": (lambda: DensityClassifier(), 10, 30),
    "ExpectedKernelSVR": (lambda: ExpectedKernelSVR(random_state=0), 100, 100),
    "KernelEPOperator": (lambda: KernelEPOperator(random_state=0), 10, 10),
}
HEAD = ("estimator", "rows", "columns", "fit_s", "MiB", "score_s", "score_nan_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("axes", nargs="*", default=["rows", "blocks", "columns"])
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    options = parser.parse_args()
    for axis in options.axes:
        part = f"tests.benchmarks.scaling_{axis}"
        if find_spec(part):
            # It has options of its own, which are left as they are.
            sys.argv[1:] = []
            import_module(part).main()
            continue
        sizes = [(n, 16) for n in ROWS] if axis == "rows" else [(2_000, d) for d in COLUMNS]
        print_row(HEAD)
        for name in options.estimators:
            measure_all(name, sizes, axis, options.limit)
        print()


def print_row(cells: Any) -> None:
    first, *others = map(str, cells)
    print(f"{first:20s}", *(f"{cell:>11s}" for cell in others), flush=True)


def measure_all(name: str, sizes: list[tuple[int, int]], axis: str, limit: float) -> None:
    """Measure an estimator at growing sizes, each in a process of its own."""
    growth = ESTIMATORS[name][1 if axis == "rows" else 2]
    seconds, cells = 0.0, 1
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        for n_rows, n_columns in sizes:
            size = n_rows * n_columns
            if seconds * growth ** np.log10(size / cells) > limit:
                break
            path = Path(folder, "table.npy")
            np.save(path, table(n_rows, n_columns, 0.3 if "NaN" in name else 0.0))
            seconds, *others = pool.submit(measure, name, path).result()
            print_row((name, n_rows, n_columns, f"{seconds:.2f}", *others))
            cells = size


def table(n_rows: int, n_columns: int, rate: float) -> np.ndarray:
    """Binary columns, numbers, and the target as the last column."""
    half = n_rows // 2
    parts = [make_chow_liu(half, n_columns, random_state=seed) for seed in range(2)]
    rng = np.random.default_rng(0)
    X = rng.permutation(np.vstack(parts))
    X[:, 1::2] += rng.normal(scale=0.5, size=X[:, 1::2].shape)
    y = (X[:, 0] + rng.normal(size=len(X)) > 0.5).astype(float)
    X[rng.random(X.shape) < rate] = np.nan
    return np.column_stack([X, y])


def measure(name: str, path: Path) -> list[Any]:
    # Training of MixtureOfAllTrees says that it has used all its iterations.
    warnings.simplefilter("ignore")
    model = ESTIMATORS[name][0]()
    X = np.load(path)
    X, y = np.ascontiguousarray(X[:, :-1]), X[:, -1].copy()
    model.fit(X[:50, :10], y[:50])  # compiles
    before = peak()
    fit_seconds = cpu_seconds(lambda: model.fit(X, y))
    memory = peak() - before
    score = getattr(model, "score_samples", getattr(model, "predict", None))
    cells = [fit_seconds, f"{memory:.0f}", f"{cpu_seconds(lambda: score(X)):.2f}"]
    if isinstance(model, KernelEPOperator):
        return [*cells, "-"]
    if isinstance(model, MixtureOfAllTrees):
        X = X[:1_000]
    X[:, : X.shape[1] // 2] = np.nan
    score(X[:2])
    return [*cells, f"{cpu_seconds(lambda: score(X)):.2f}"]


def peak() -> float:
    """Greatest memory of the process so far, in MiB; Linux tells it (resource does not forget that
    of the parent)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
