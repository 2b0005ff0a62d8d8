"""How fits of tables in blocks grow with rows: seconds and memory.

    python -m tests.benchmarks.scaling_blocks [--rows N ...] [--missing RATE ...] [--limit SECONDS]
                                              [--estimators NAME ...] [--dask]

The rows stand in a file, and fits read them in blocks of 100,000. Half of the 16 columns are binary
and half are numbers; half of the rows are from each of two random tree-structured distributions.
``binary`` are 100 columns of this kind, all binary. ``cpu_s`` and ``wall_s`` are seconds of a warm
fit by one thread; ``MiB`` is how much the peak memory of the process grew meanwhile; ``nats`` is
the mean log density of 2000 more rows, which are complete. A size is left out where the fit is
expected to take longer than ``--limit`` seconds, after the size before.

``--dask`` compares one process with a cluster of two, on the greatest number of rows.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
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
from skpc.datasets import make_chow_liu
from tests.benchmarks.scaling import peak, print_row

ROWS = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "CutsetNetworkBD": lambda: CutsetNetworkBD(random_state=0),
    "  binary": lambda: CutsetNetworkBD(random_state=0),
    "TableMixture": lambda: TableMixture(random_state=0),
    "HiddenChowLiuTree": lambda: HiddenChowLiuTree(random_state=0),
    "SoftLearnSPN": lambda: SoftLearnSPN(random_state=0),
    "MixtureOfAllTrees": lambda: MixtureOfAllTrees(random_state=0),
}
HEAD = ("estimator", "rows", "missing", "cpu_s", "wall_s", "MiB", "nats")
_BLOCK = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=ROWS)
    parser.add_argument("--missing", nargs="+", type=float, default=[0.0, 0.2])
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    parser.add_argument("--dask", action="store_true")
    options = parser.parse_args()
    rows = [int(n) for n in options.rows]
    with TemporaryDirectory() as folder:
        if options.dask:
            compare_processes(Path(folder), max(rows))
            return
        print_row(HEAD)
        for missing in options.missing:
            for name in options.estimators:
                measure_all(name, rows, missing, options.limit, Path(folder))


def measure_all(name: str, rows: list[int], missing: float, limit: float, folder: Path) -> None:
    """Fit an estimator to more and more rows, each in a process of its own."""
    seconds, before = 0.0, 1
    context = get_context("spawn")
    for n_rows in rows:
        if seconds * n_rows / before > limit:
            break
        path = folder / f"{n_rows}-{missing}-{name.strip() == 'binary'}.npy"
        if not path.exists():
            write_table(path, n_rows, missing, name.strip() == "binary")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            cells = pool.submit(measure, name, path).result()
        print_row((name, f"{n_rows:,}", missing, *cells))
        seconds, before = float(cells[1]), n_rows


def part_of_table(n_rows: int, missing: float, is_binary: bool, seed: int) -> np.ndarray:
    """Some rows; those of other seeds have the same distribution."""
    n_columns = 100 if is_binary else 16
    rng = np.random.default_rng(seed)
    several = _trees(n_columns)
    own = rng.integers(0, 2 * _BLOCK, n_rows)
    X = np.where(rng.random((n_rows, 1)) < 0.5, several[0][own], several[1][own])
    if is_binary:
        flipped = rng.random(X.shape) < 0.02
        return np.where(flipped, 1 - X, X).astype(np.uint8)
    X = X.astype(np.float64)
    X[:, 1::2] += rng.normal(scale=0.5, size=X[:, 1::2].shape)
    X[rng.random(X.shape) < missing] = np.nan
    return X


@cache
def _trees(n_columns: int) -> list[np.ndarray]:
    return [make_chow_liu(2 * _BLOCK, n_columns, random_state=seed) for seed in range(2)]


def write_table(path: Path, n_rows: int, missing: float, is_binary: bool) -> None:
    first = part_of_table(1, missing, is_binary, 0)
    shape = (n_rows, first.shape[1])
    out = np.lib.format.open_memmap(path, mode="w+", dtype=first.dtype, shape=shape)
    for seed, begin in enumerate(range(0, n_rows, _BLOCK)):
        part = out[begin : begin + _BLOCK]
        part[:] = part_of_table(len(part), missing, is_binary, seed)
        out.flush()


def blocks_of(path: Path) -> Iterator[np.ndarray]:
    """The table in blocks; the file is mapped anew for each, so that no page of it stays."""
    n_rows = len(np.load(path, mmap_mode="r"))
    for begin in range(0, n_rows, _BLOCK):
        yield np.array(np.load(path, mmap_mode="r")[begin : begin + _BLOCK])


def measure(name: str, path: Path) -> list[Any]:
    # MixtureOfAllTrees says that it learns from a sample.
    warnings.simplefilter("ignore")
    model, is_binary = ESTIMATORS[name](), name.strip() == "binary"
    _warm(name, next(blocks_of(path))[:400])
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    model.fit(lambda: blocks_of(path))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory = peak() - before
    test = part_of_table(2_000, 0.0, is_binary, 2**20)
    return [f"{cpu:.1f}", f"{wall:.1f}", f"{memory:.0f}", f"{model.score(test):.3f}"]


def _warm(name: str, few: np.ndarray) -> None:
    """Compile what a fit of blocks needs."""
    from skpc.estimators import blocks

    usual, blocks.SAMPLE_ROWS = blocks.SAMPLE_ROWS, 200
    ESTIMATORS[name]().fit(iter([few[:, :10]]))
    blocks.SAMPLE_ROWS = usual


def compare_processes(folder: Path, n_rows: int) -> None:
    """One process, and a cluster of two, on a dask array of binary columns."""
    from dask import array
    from distributed import Client, LocalCluster

    write_table(folder / "table.npy", n_rows, 0.0, True)
    mapped = np.load(folder / "table.npy", mmap_mode="r")
    model = CutsetNetworkBD()
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster),
        ):
            table = array.from_array(mapped, chunks=(250_000, 100), inline_array=True).persist()
            model.fit(table[:300_000, :10])
            start = time.perf_counter()
            model.fit(table)
            seconds = time.perf_counter() - start
            print(f"{n_workers} processes: {seconds:.1f} s, {model.n_cuts_} cuts", flush=True)


if __name__ == "__main__":
    main()
