"""How fits grow with columns: CPU seconds and memory, complete and with a fifth of cells missing.

    python -m tests.benchmarks.scaling_columns [--columns N ...] [--rows N] [--limit SECONDS]
        [--kind factors|independent] [--missing RATE ...] [--estimators NAME ...]

The columns are numbers: sums of few factors and noise (a factor for each twenty columns, in about
a seventh of them), or independent. ``seconds`` are CPU seconds of a warm fit with one thread, in a
process of its own; ``mebibytes`` is how much its peak memory grew, the table itself not counted;
``nats`` is the mean log density of 1000 more rows, which are complete. A fit that takes longer than
``--limit`` seconds (wall time) is ended, and wider tables are left out; one that the estimator
refuses says why.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

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

COLUMNS = (10, 30, 100, 300, 500, 1_000, 2_000)
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "CutsetNetworkBD": lambda: CutsetNetworkBD(random_state=0),
    "SoftLearnSPN": lambda: SoftLearnSPN(random_state=0),
    "TableMixture": lambda: TableMixture(random_state=0),
    "HiddenChowLiuTree": lambda: HiddenChowLiuTree(random_state=0),
    "MixtureOfAllTrees": lambda: MixtureOfAllTrees(random_state=0),
}
_HELD_OUT = 1_000


class WideFit(NamedTuple):
    """What a fit has cost. Without ``seconds`` it has not come to an end; ``note`` says why."""

    estimator: str
    rows: int
    columns: int
    missing: float
    seconds: float | None
    mebibytes: float | None
    nats: float | None
    note: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", nargs="+", type=int, default=list(COLUMNS))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--kind", choices=("factors", "independent"), default="factors")
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, 0.2])
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    options = parser.parse_args()
    print_cells(WideFit._fields)
    for name in options.estimators:
        for missing in options.missing:
            sizes = options.rows, options.columns
            for fit in measure_columns(name, *sizes, missing, options.limit, options.kind):
                numbers = (f"{x:.1f}" if x is not None else "-" for x in fit[4:7])
                print_cells((*fit[:4], *numbers, fit.note))


def print_cells(cells: Sequence[Any]) -> None:
    first, *others, note = map(str, cells)
    print(f"{first:20s}", *(f"{cell:>10s}" for cell in others), note, flush=True)


def measure_columns(
    name: str,
    n_rows: int,
    columns: Sequence[int],
    missing: float,
    limit: float,
    kind: str = "factors",
) -> Iterator[WideFit]:
    """Fit an estimator to tables of more and more columns, as far as the limit lets it."""
    for n_columns in columns:
        done = _in_process(name, (n_rows, n_columns, missing), kind, limit)
        yield WideFit(name, n_rows, n_columns, missing, *done)
        if done[0] is None:
            break


def numbers(n_rows: int, n_columns: int, kind: str, seed: int) -> np.ndarray:
    """Rows of numbers; those of other seeds have the same distribution."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(1_000)
    if kind == "independent":
        return rng.normal(size=(n_rows, n_columns))
    shape = max(2, n_columns // 20), n_columns
    loading = fixed.normal(size=shape) * (fixed.random(shape) < 0.15)
    factors = rng.normal(size=(n_rows, len(loading)))
    return factors @ loading + 0.7 * rng.normal(size=(n_rows, n_columns))


def _in_process(
    name: str, sizes: tuple[int, int, float], kind: str, limit: float
) -> tuple[float | None, float | None, float | None, str]:
    """Fit in a process that is ended at the limit."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_fit, args=(name, sizes, kind, there))
    child.start()
    there.close()
    try:
        # Imports and the compiling of kernels come first.
        here.recv()
        if here.poll(limit):
            found: tuple[float | None, float | None, float | None, str] = here.recv()
            return found
        return None, None, None, f"not done in {limit:g} s"
    except EOFError:
        return None, None, None, "the process died"
    finally:
        child.kill()
        child.join()


def _fit(name: str, sizes: tuple[int, int, float], kind: str, there: Connection) -> None:
    # Training of MixtureOfAllTrees says that it has used all its iterations.
    warnings.simplefilter("ignore")
    n_rows, n_columns, missing = sizes
    model = ESTIMATORS[name]()
    X, asked = numbers(n_rows, n_columns, kind, 0), numbers(_HELD_OUT, n_columns, kind, 1)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    model.fit(X[:300, :8]).score_samples(asked[:, :8])
    there.send("ready")
    before, start = peak(), time.process_time()
    try:
        model.fit(X)
    except MemoryError as refusal:
        there.send((None, None, None, str(refusal)))
        return
    seconds, memory = time.process_time() - start, peak() - before
    there.send((seconds, memory, model.score(asked), ""))


def peak() -> float:
    """Greatest memory of the process so far, in MiB; Linux tells it."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
