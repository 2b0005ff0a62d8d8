"""What fits to numbers cost."""

from __future__ import annotations

import argparse
import time

import numpy as np

from skpc._fitting import Stop
from skpc.counting.clustering import cluster_points
from skpc.learning.gaussian_mixture import MixtureParams, fit_gaussian_mixture
from skpc.learning.table_mixture import TableColumns
from tests.benchmarks.numbers_tables import (
    DENSITIES,
    chosen,
    fitted,
    load,
    print_row,
    print_title,
    standardised,
    star,
)

#: The most CPU seconds of a fit.
FITS = {"breast_cancer": 2.0, "segment": 25.0, "diabetes": 3.0, "electricity": 40.0}
#: The most CPU seconds of the iterations, for each share of missing cells.
ITERATIONS = {0.0: 0.1, 0.3: 0.4}
N_ITERATIONS, N_COMPONENTS = 40, 5
#: Rows of a first fit, which compiles.
_FEW = 60


def speed(options: argparse.Namespace) -> None:
    """Print CPU seconds of fits, and of iterations of EM."""
    print_title("speed: CPU s of a fit to standardised numbers, * above the bar")
    print_row("table", *options.models, "bar")
    for name in chosen(options, tuple(FITS)):
        (split,) = standardised(load(name, options.n_rows), 1, mixed=False)
        cells = []
        for label in options.models:
            fitted(DENSITIES[label], split.train[:_FEW])
            _, seconds = fitted(DENSITIES[label], split.train)
            cells.append(f"{seconds:.2f}{star(seconds > FITS[name])}")
        print_row(name, *cells, f"{FITS[name]:g}")
    print_title(f"speed: CPU s of {N_ITERATIONS} iterations of EM, {N_COMPONENTS} components")
    print_row("missing", "rows x columns", "s", "bar")
    rows = load("breast_cancer", options.n_rows).drop(columns="target").to_numpy()
    draws = np.random.default_rng(0).random(rows.shape)
    for share, bar in ITERATIONS.items():
        masked = np.where(draws < share, np.nan, (rows - rows.mean(axis=0)) / rows.std(axis=0))
        seconds = min(_iterations(masked) for _ in range(3))
        size = f"{rows.shape[0]} x {rows.shape[1]}"
        print_row(f"{share:.0%}", size, f"{seconds:.3f}{star(seconds > bar)}", f"{bar:g}")


def _iterations(rows: np.ndarray) -> float:
    n_rows, n_columns = rows.shape
    weight, numbers = np.ones(n_rows), np.zeros(n_columns, dtype=np.int64)
    absent = [None] * n_columns
    columns = TableColumns.from_rows(rows, weight, numbers, absent, absent)
    points = columns.points(rows, weight)
    clusters = cluster_points(points, weight, N_COMPONENTS, np.random.RandomState(0))
    share = np.ascontiguousarray(clusters.T)
    cells = columns.cells(rows)
    start = time.process_time()
    params = MixtureParams(N_COMPONENTS)
    fit_gaussian_mixture(cells, weight, share, columns.prior, params, Stop(N_ITERATIONS))
    return time.process_time() - start
