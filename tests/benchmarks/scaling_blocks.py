"""Ten million binary rows of 100 columns, in blocks of a mapped file or of a dask array.

    python -m tests.benchmarks.scaling_blocks [--rows N ...] [--columns N] [--estimators NAME ...]
        [--dask]

Half of the rows come from each of two random tree-structured distributions; two cells in a hundred
are flipped. They stand in a file, a byte a cell (1 GB). ``cpu_s`` and ``wall_s`` are seconds of a
warm fit by one thread; ``MiB`` is how much the memory of the process grew meanwhile, pages of the
file not counted; ``score_s`` are CPU seconds of ``score`` on the same rows.

``--dask`` compares a cluster of one process with one of two, on the greatest number of rows.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import CutsetNetworkBD, HiddenChowLiuTree
from tests.benchmarks.scaling_tables import write_table

ROWS = [1_000_000, 10_000_000]
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "CutsetNetworkBD": lambda: CutsetNetworkBD(random_state=0),
    "HiddenChowLiuTree": lambda: HiddenChowLiuTree(random_state=0),
}
#: Seconds between two looks at the memory.
_PAUSE = 0.05
#: Rows of a chunk of the dask array.
_CHUNK = 250_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=ROWS)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--estimators", nargs="+", default=["CutsetNetworkBD"])
    parser.add_argument("--dask", action="store_true")
    options = parser.parse_args()
    rows = [int(n) for n in options.rows]
    with TemporaryDirectory() as folder:
        path = Path(folder, "table.npy")
        write_table(path, max(rows), options.columns, None)
        if options.dask:
            compare_processes(path)
            return
        heads = ("rows", "cpu_s", "wall_s", "MiB", "score_s", "nats")
        print(f"{'estimator':20s}", *(f"{head:>11s}" for head in heads))
        for name in options.estimators:
            for n_rows in rows:
                child = get_context("spawn").Process(target=measure, args=(name, path, n_rows))
                child.start()
                child.join()


def measure(name: str, path: Path, n_rows: int) -> None:
    """Fit and score the mapped rows, and print a line."""
    # HiddenChowLiuTree says that it has used all its iterations.
    warnings.simplefilter("ignore")
    mapped, model = np.load(path, mmap_mode="r")[:n_rows], ESTIMATORS[name]()
    model.fit(np.array(mapped[:400, :10]))
    cpu, wall = time.process_time(), time.perf_counter()
    with growth() as mebibytes:
        model.fit(mapped)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    start = time.process_time()
    nats = model.score(mapped)
    asked = time.process_time() - start
    cells = (f"{n_rows:,}", *(f"{x:.1f}" for x in (cpu, wall, mebibytes[0], asked)), f"{nats:.3f}")
    print(f"{name:20s}", *(f"{cell:>11s}" for cell in cells), flush=True)


@contextmanager
def growth() -> Iterator[list[float]]:
    """Look again and again at the memory that is not pages of a file; how much it has grown at
    most, in MiB."""
    found, ended = [0.0], threading.Event()
    before = _anonymous()

    def watch() -> None:
        while not ended.wait(_PAUSE):
            found[0] = max(found[0], _anonymous() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def _anonymous() -> float:
    """Memory of the process that is not pages of a file, in MiB; Linux tells it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def compare_processes(path: Path) -> None:
    """A cluster of one process, and one of two, on a dask array of binary columns."""
    from dask import array, delayed
    from distributed import Client, LocalCluster

    n_rows, n_columns = np.load(path, mmap_mode="r").shape
    begins = range(0, n_rows, _CHUNK)
    shapes = [(min(_CHUNK, n_rows - begin), n_columns) for begin in begins]
    model = CutsetNetworkBD()
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster),
        ):
            # The workers read their parts of the file.
            parts = [delayed(_chunk)(path, begin) for begin in begins]
            arrays = [array.from_delayed(*one, np.uint8) for one in zip(parts, shapes)]
            table = array.concatenate(arrays).persist()
            model.fit(table[:300_000, :10])
            start = time.perf_counter()
            model.fit(table)
            seconds = time.perf_counter() - start
            print(f"{n_workers} processes: {seconds:.1f} s, {model.n_cuts_} cuts", flush=True)


def _chunk(path: Path, begin: int) -> np.ndarray:
    return np.array(np.load(path, mmap_mode="r")[begin : begin + _CHUNK])


if __name__ == "__main__":
    main()
