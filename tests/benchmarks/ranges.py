"""Answers to range queries from densities, against the shares of rows that fulfil them.

    SKPC_DATA=... python -m tests.benchmarks.ranges [--tables electricity bank] [--seeds N]

1,000 random conjunctions of 2 to 5 predicates a seed. Each predicate is about a random column: a
number between its quantiles a and a + w, w uniform in .02 to .30; the category of a random row. The
q-error is the greater of estimate / truth and truth / estimate, both at least one row; its
quantiles are means over the seeds. "cutset" and "cutset5" are CutsetNetworkBD of one and five
components (bars on electricity 1.40 / 4.2 / 15 and 1.28 / 3.2 / 12), "independence" multiplies the
shares of the predicates, "sample 1 %" counts in some rows. The last columns are the seconds of the
fit, and events a second from dicts, and from encoded events (bar 100,000).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from skpc import CutsetNetworkBD
from skpc.domain import read_events
from tests.benchmarks.mixed_tables import read

LEVELS = [0.5, 0.9, 0.99]
N_QUERIES = 1000


def queries(table: pd.DataFrame, seed: int) -> list[dict]:
    """Random conjunctions of predicates."""
    rng, out = np.random.default_rng(seed), []
    quantiles = {
        name: np.sort(column.dropna().to_numpy())
        for name, column in table.items()
        if pd.api.types.is_numeric_dtype(column)
    }
    for _ in range(N_QUERIES):
        n = int(rng.integers(2, min(5, table.shape[1]) + 1))
        query = {}
        for name in rng.choice(table.columns, n, replace=False):
            if name in quantiles:
                width = rng.uniform(0.02, 0.30)
                first = rng.uniform(0.0, 1.0 - width)
                ends = (np.array([first, first + width]) * (len(quantiles[name]) - 1)).astype(int)
                query[name] = tuple(quantiles[name][ends].tolist())
            else:
                value = table[name].iloc[int(rng.integers(len(table)))]
                query[name] = None if pd.isna(value) else value
        out.append(query)
    return out


def masks(table: pd.DataFrame, query: dict) -> list[np.ndarray]:
    """Rows that fulfil each predicate."""
    held = []
    for name, said in query.items():
        if said is not None:
            column = table[name]
            is_range = isinstance(said, tuple)
            held.append((column.between(*said) if is_range else column == said).to_numpy(bool))
    return held or [np.ones(len(table), dtype=bool)]


def q_errors(estimate: np.ndarray, truth: np.ndarray, n_rows: int) -> np.ndarray:
    floor = 1.0 / n_rows
    ratio = np.maximum(estimate, floor) / np.maximum(truth, floor)
    return np.quantile(np.maximum(ratio, 1.0 / ratio), LEVELS)


def line(name: str, errors: list[np.ndarray], *more: str) -> None:
    print(f"{name:14s}", *(f"{error:8.2f}" for error in np.mean(errors, axis=0)), *more)


def measure(name: str, n_seeds: int) -> None:
    table = read(name).reset_index(drop=True)
    print(f"\n{name}: {len(table):,} rows, {table.shape[1]} columns")
    asked = [queries(table, seed) for seed in range(n_seeds)]
    held = [[masks(table, query) for query in of_seed] for of_seed in asked]
    truth = [np.array([np.all(m, axis=0).mean() for m in of_seed]) for of_seed in held]
    alone = [np.array([np.prod([one.mean() for one in m]) for m in of_seed]) for of_seed in held]
    some = np.random.default_rng(0).choice(len(table), len(table) // 100, replace=False)
    part = [np.array([np.all([o[some] for o in m], axis=0).mean() for m in h]) for h in held]
    for label, estimate in (("independence", alone), ("sample 1 %", part)):
        line(label, [q_errors(*pair, len(table)) for pair in zip(estimate, truth)])
    for label, n_components in (("cutset", 1), ("cutset5", 5)):
        model = CutsetNetworkBD(n_components=n_components, random_state=0).fit(table.head(1000))
        begin = time.process_time()
        model = CutsetNetworkBD(n_components=n_components, random_state=0).fit(table)
        seconds = time.process_time() - begin
        model.probability(asked[0])
        errors = [
            q_errors(model.probability(of_seed), true, len(table))
            for of_seed, true in zip(asked, truth)
        ]
        many = asked[0] * 50
        begin = time.process_time()
        model.probability(many)
        middle = time.process_time()
        events, _ = read_events(model.domain_, many, "event", values_are_known=False)
        encoded = time.process_time()
        model._density.log_density(events)
        end = time.process_time()
        speeds = len(many) / (middle - begin), len(many) / (end - encoded)
        line(label, errors, f"{seconds:6.1f} s", *(f"{speed:10,.0f}/s" for speed in speeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=["electricity"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("q-error at", LEVELS)
    for name in options.tables:
        measure(name, options.seeds)


if __name__ == "__main__":
    main()
