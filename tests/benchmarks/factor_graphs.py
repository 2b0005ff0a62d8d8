"""Compiling Ising grids, and updates of a Gibbs chain on them.

    python -m tests.benchmarks.factor_graphs [--sides 4 6 8 10 12] [--write doc/user_guide]

width is the induced width of the min-fill vtree, edges those of the circuit. Times are CPU seconds
of one thread, the best of three: for the vtree, for log Z (elimination alone), for the circuit, and
for a Gibbs update of one variable (nanoseconds).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from skpc.factor_graphs import FactorGraph, GibbsSampler, compile, log_partition, min_fill_vtree
from skpc.factor_graphs.elimination import plan_elimination
from tests.benchmarks.guide_tables import add_write, write

COLUMNS = ["side", "width", "edges", "vtree, s", "log Z, s", "circuit, s", "update, ns"]
UPDATES = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 6, 8, 10, 12])
    add_write(parser)
    options = parser.parse_args()
    GibbsSampler(FactorGraph.ising_grid(2, 2, random_state=0)).sample(1)
    print(*(f"{name:>10s}" for name in COLUMNS))
    rows = []
    for side in options.sides:
        graph = FactorGraph.ising_grid(side, side, random_state=0)
        vtree, seconds = timed(lambda graph=graph: min_fill_vtree(graph))
        plan = plan_elimination(graph, vtree, np.zeros(graph.n_variables, dtype=bool))
        _, of_sum = timed(lambda graph=graph, vtree=vtree: log_partition(graph, vtree))
        circuit, of_circuit = timed(lambda graph=graph, vtree=vtree: compile(graph, vtree))
        sampler = GibbsSampler(graph, burn_in=UPDATES, random_state=0)
        _, of_chain = timed(lambda sampler=sampler: sampler.sample(1))
        cells = [side, max(map(len, plan.context)), circuit.n_edges]
        times = [f"{t:.2g}" for t in (seconds, of_sum, of_circuit)]
        rows.append([*map(str, cells), *times, f"{1e9 * of_chain / UPDATES:.0f}"])
        print(*(f"{cell:>10s}" for cell in rows[-1]), flush=True)
    write(options.write, "ising_grids", [COLUMNS, *rows])


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return found, best


if __name__ == "__main__":
    main()
