"""What a fit costs beside two busy processes, with the threads of BLAS as they are and with one.

    python -m tests.benchmarks.busy_cores [--rows 340]

A ``DensityClassifier`` learns from rows of breast cancer data, a fifth of whose cells are missing:
once to load and compile what it needs, once while the cores are idle, once while two processes of
plain Python are busy. ``default`` has the threads that libraries take by themselves; ``one`` has
one thread, by environment variables. Seconds on the wall, and CPU seconds of the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from sklearn.datasets import load_breast_cancer

#: Environments of the children that fit; a variable without a value is taken away.
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
N_BUSY = 2
LACKING = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=340)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.rows)))
        return
    heads = ("idle wall", "idle CPU", "busy wall", "busy CPU")
    print(f"{'threads':8s}", *(f"{head:>10s}" for head in heads))
    seconds = {}
    for setting in ("default", "one"):
        seconds[setting] = in_child(setting, options.rows)
        print(f"{setting:8s}", *(f"{value:10.1f}" for value in seconds[setting]), flush=True)
    idle_wall, _, busy_wall, busy_cpu = seconds["default"]
    print(f"busy wall / idle wall: {busy_wall / idle_wall:.2f} (at most 2.6)")
    print(f"busy CPU / busy CPU of one thread: {busy_cpu / seconds['one'][3]:.2f} (at most 1.1)")


def in_child(setting: str, n_rows: int) -> list[float]:
    """Measure in a process of its own: libraries read their variables when they are loaded."""
    environment = {name: value for name, value in os.environ.items() if name not in LIBRARIES}
    if setting == "one":
        environment |= dict.fromkeys(LIBRARIES, "1")
    command = [sys.executable, "-m", __spec__.name, "--child", "--rows", str(n_rows)]
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    seconds: list[float] = json.loads(child.stdout)
    return seconds


def measure(n_rows: int) -> list[float]:
    """Wall and CPU seconds of a fit on idle cores, then of one beside busy processes."""
    from skpc import DensityClassifier

    # Few rows leave some numbers of trees without a check of convergence.
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = load_breast_cancer(return_X_y=True)
    rows = rng.permutation(len(X))[:n_rows]
    X, y = X[rows], y[rows]
    X[rng.random(X.shape) < LACKING] = np.nan

    def seconds() -> list[float]:
        wall, cpu = time.perf_counter(), time.process_time()
        DensityClassifier(random_state=0).fit(X, y)
        return [time.perf_counter() - wall, time.process_time() - cpu]

    seconds()
    idle = seconds()
    with busy_processes():
        return idle + seconds()


@contextmanager
def busy_processes() -> Iterator[None]:
    """Keep as many cores busy as there are processes."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(N_BUSY)]
    try:
        time.sleep(1.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
