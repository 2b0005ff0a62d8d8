"""Speed of the circuit queries, one thread, warm, in CPU seconds.

    python -m tests.benchmarks.circuit

G edge-rows/s (edges times rows over seconds) on random circuits of 100 variables and 10,000 rows
with 10 % missing cells, and a layered numpy pass; (row, variable)/s along the induced tree of
decision circuits on complete rows; and the seconds of compiling, cold and from the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import CutsetNetworkBD
from skpc.queries import flows, log_likelihood, marginals, mpe, sample, sample_missing
from tests.benchmarks.circuits import LayeredNumpy, region_circuit, rows_with_holes

N_ROWS = 10_000
HEADER = ["leaves", "edges", "log_lik", "x numpy", "EM pass", "sample", "mpe", "marginals"]
ROW = "{:10s}" + " {:>10s}" * (len(HEADER) - 1)
FIRST_FIT = """
import time
import numpy as np
from skpc import CutsetNetworkBD
rng = np.random.default_rng(0)
X = rng.integers(0, 2, (500, 10)).astype(float)
holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
numbers = rng.normal(size=(500, 4))
seconds = []
for rows in (X, numbers):
    start = time.process_time()
    model = CutsetNetworkBD().fit(rows)
    model.score_samples(rows)
    seconds.append(time.process_time() - start)
start = time.process_time()
model = CutsetNetworkBD().fit(X)
model.score_samples(holes)
seconds.append(time.process_time() - start)
print(*seconds)
"""


def main() -> None:
    print("G edge-rows/s")
    print(ROW.format(*HEADER))
    for leaf in ("binary", "gaussian"):
        for n_edges in (30_000, 100_000):
            print(ROW.format(*_edge_rows(leaf, n_edges)), flush=True)
    print("\nM (row, variable)/s along induced trees")
    for n_features in (16, 64, 256):
        print(f"{n_features:4d} variables {_induced(n_features):8.0f}", flush=True)
    print("\nCPU s of a first fit and score_samples: binary, numeric, binary with missing cells")
    with tempfile.TemporaryDirectory() as folder:
        for state in ("cold", "cached"):
            print(f"{state:7s}", *(f"{seconds:6.2f}" for seconds in _first_fit(folder)))


def _edge_rows(leaf: str, n_edges: int) -> list[str]:
    circuit = region_circuit(n_edges, leaf)
    rows = rows_with_holes(circuit, N_ROWS, 0.1)
    work = circuit.n_edges * N_ROWS / 1e9
    few = rows[:1000]
    layered = LayeredNumpy(circuit)
    fast = _seconds(lambda: log_likelihood(circuit, rows))
    slow = _seconds(lambda: layered.log_likelihood(few)) * N_ROWS / len(few)
    queries = [
        lambda: flows(circuit, rows),
        lambda: sample_missing(circuit, rows, 0),
        lambda: mpe(circuit, rows),
        lambda: marginals(circuit, rows),
    ]
    speeds = [work / _seconds(query) for query in queries]
    head = [leaf, str(circuit.n_edges), f"{work / fast:.2f}", f"{slow / fast:.0f}"]
    return head + [f"{speed:.2f}" for speed in speeds]


def _induced(n_features: int) -> float:
    rng = np.random.default_rng(0)
    switch = rng.integers(0, 2, (4000, 1))
    X = (rng.random((4000, n_features)) < 0.3 + 0.4 * switch).astype(float)
    model = CutsetNetworkBD(max_depth=4, ess=100.0).fit(X)
    rows = sample(model.circuit_, 200_000, random_state=0)
    return rows.size / _seconds(lambda: log_likelihood(model.circuit_, rows)) / 1e6


def _first_fit(folder: str) -> list[float]:
    env = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FIT], env=env, capture_output=True, text=True, check=True
    )
    return [float(seconds) for seconds in done.stdout.split()]


def _seconds(work: Callable[[], Any]) -> float:
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
