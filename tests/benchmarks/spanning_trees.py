"""Random spanning trees and inference in them: trees per CPU second.

    python tests/benchmarks/spanning_trees.py

Directed weights are log-uniform over e ** -spread to e ** spread, and half of the vertices are in
pairs that hold each other by edges of weight e ** (2 spread). Draws fill rows of binary columns, a
third of the cells missing, each in a tree of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from skpc._random import start_streams
from skpc.all_trees.spanning_trees import eliminate, split_trees
from skpc.all_trees.tree_inference import TreeTables, draw_each


def rate(run: Callable[[], object], n_items: int) -> float:
    """Items per CPU second, the best of four runs."""
    seconds = []
    for _ in range(4):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return n_items / min(seconds)


def random_graph(n: int, spread: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    weight, roots = rng.uniform(-spread, spread, (n, n)), rng.uniform(-spread, spread, n)
    one = np.arange(0, n - 1, 4)
    weight[one, one + 1] = weight[one + 1, one] = 2 * spread
    return np.exp(np.column_stack([weight.T, roots]))


def binary_tables(n: int) -> TreeTables:
    one = np.random.default_rng(1).uniform(0.05, 0.95, (n, 1, 2 * n + 1))
    conditional = np.concatenate([1 - one, one], axis=1).reshape(2 * n, 2 * n + 1)
    ptr = np.append(np.arange(0, 2 * n + 1, 2), 2 * n + 1)
    return TreeTables(ptr, conditional, np.ones((n, n + 1)))


def measure(n: int, spread: float) -> list[float]:
    """Rates of all steps of the work."""
    n_trees = 40_000 // n
    tables, into = binary_tables(n), random_graph(n, spread)
    codes = np.random.default_rng(2).integers(-1, 2, (n_trees, n))
    graph, _ = eliminate(into)
    streams, parents = start_streams(0, n_trees), np.empty((n_trees, n), np.int64)
    return [
        rate(lambda: eliminate(into), 1),
        rate(lambda: split_trees(graph, streams, parents), n_trees),
        rate(lambda: draw_each(tables, parents, streams, codes.copy()), n_trees),
    ]


def main() -> None:
    names = ("eliminated", "split", "draws")
    print("columns spread" + "".join(f"{name:>13}" for name in names))
    for n in (16, 69, 100, 180, 500):
        for spread in (0.0, 3.0, 14.0):
            cells = "".join(f"{x:13,.0f}" for x in measure(n, spread))
            print(f"{n:7} {spread:6}{cells}", flush=True)


if __name__ == "__main__":
    main()
