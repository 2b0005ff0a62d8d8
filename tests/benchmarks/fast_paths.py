"""Special paths of the package beside their plain twins: which of them pay?

    python -m tests.benchmarks.fast_paths [names ...]

A special path stays where it is at least three times as fast as the plain code on a shape that is
named here. Plain is what the package does where the path does not apply, or a twin in
``tests/naive``.
The two must agree. They run in turn; the factor is the ratio of the medians of CPU seconds of one
thread (of threads themselves: of seconds that passed).
"""

from __future__ import annotations

import argparse
import inspect
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from joblib import parallel_config
from scipy.linalg import blas

import skpc._fast_math
import skpc._threads
import skpc.all_trees.determinants
import skpc.counting.bit_rows
import skpc.counting.pairs
import skpc.queries.passes.induced
import skpc.variables.gaussian
from skpc import CutsetNetworkBD, TableMixture
from skpc.all_trees.determinants import expected_edges
from skpc.circuit import CircuitBuilder, mixture
from skpc.counting.rows import WeightedRows
from skpc.counting.tables import BayesDirichlet
from skpc.domain._rows import all_are_cells
from skpc.learning.cutset import CutsetOptions, learn_cutset_network
from skpc.messages import BayesianRegression
from skpc.queries import log_likelihood
from skpc.queries.flows import _statistics_of_all_edges, expected_statistics
from skpc.queries.passes.upward import feed_forward
from skpc.variables import Law
from skpc.variables.score import Score
from tests.naive import fast_math

#: Below this a special path is to be deleted.
PAYS = 3.0
_REPEATS = 7


@dataclass
class Pair:
    """A special path and the plain code, ready to run."""

    fast: Callable[[], Any]
    plain: Callable[[], Any]
    shape: str
    source: Any
    """The module or function that is the special path, whose lines are counted."""
    without: Callable[[], AbstractContextManager[Any]] = nullcontext
    """What makes the package take the plain path."""
    clock: Callable[[], float] = time.process_time
    tolerance: float = 1e-9
    least: float = PAYS
    """The factor from which on the path pays."""


def bits_of_binary_columns() -> Pair:
    codes = _binary(3000, 180)
    arguments = codes, np.ones(len(codes)), np.full(codes.shape[1], 2)

    def learn() -> Any:
        return learn_cutset_network(*arguments, CutsetOptions(max_depth=1)).score

    no_bits = mock.patch("skpc.counting.rows.fits_bits", return_value=False)
    return Pair(
        learn,
        learn,
        "3,000 x 180 binary",
        skpc.counting.bit_rows,
        lambda: no_bits,
        tolerance=1e-6,
    )


def bits_of_states() -> Pair:
    codes = np.random.default_rng(0).integers(0, 10, (5000, 500)).astype(np.int16)
    node = WeightedRows(codes, np.ones(5000), np.arange(500), np.full(500, 10))
    no_bits = mock.patch("skpc.counting.information.pack_states", return_value=None)

    return Pair(
        lambda: node.information(BayesDirichlet(1.0))[1],
        lambda: node.information(BayesDirichlet(1.0))[1],
        "5,000 x 500 of 10 states",
        skpc.counting.pairs._count_bits,
        lambda: no_bits,
    )


def induced_trees_of_complete_rows() -> Pair:
    rows = _binary(20_000, 100).astype(np.float64)
    circuit = CutsetNetworkBD(random_state=0).fit(rows).circuit_

    return Pair(
        lambda: log_likelihood(circuit, rows),
        lambda: feed_forward(circuit, rows),
        f"20,000 x 100 binary, {circuit.n_edges:,} edges",
        skpc.queries.passes.induced,
    )


def induced_trees_of_mixtures() -> Pair:
    rows = _binary(20_000, 100).astype(np.float64)
    part = CutsetNetworkBD(random_state=0).fit(rows).circuit_
    circuit = mixture([part, part], [0.4, 0.6])
    return Pair(
        lambda: log_likelihood(circuit, rows),
        lambda: feed_forward(circuit, rows),
        f"20,000 x 100 binary, 2 parts, {circuit.n_edges:,} edges",
        skpc.queries.passes.induced,
    )


def counting_walk_of_networks() -> Pair:
    rows = _binary(20_000, 100).astype(np.float64)
    circuit = CutsetNetworkBD(random_state=0).fit(rows).circuit_
    weight = np.ones(len(rows))
    return Pair(
        lambda: expected_statistics(circuit, rows, weight).edge_flow,
        lambda: _statistics_of_all_edges(circuit, rows, weight, weight > 0).edge_flow,
        f"20,000 x 100 binary, {circuit.n_edges:,} edges",
        skpc.queries.passes.induced,
    )


def leaves_of_one_number() -> Pair:
    """Gaussians of single columns inside a circuit, and as multivariate ones of one column."""
    rng = np.random.default_rng(0)
    n_columns, n_components = 10, 50
    column, states = Law(Score(), np.zeros(1)), np.log([0.1, 0.9])
    circuits = []
    for alone in (True, False):
        builder = CircuitBuilder([2] * n_columns, [column] * n_columns)
        means = np.random.default_rng(0).normal(size=(n_components, n_columns))
        products = []
        for mean in means:
            leaves = [
                builder.scored(var, states, centre, 1.0)
                if alone
                else builder.block([var], [states], [centre], [[1.0]])
                for var, centre in enumerate(mean.tolist())
            ]
            products.append(builder.product(leaves))
        builder.sum(products, np.full(n_components, -np.log(n_components)))
        circuits.append(builder.build())
    rows = rng.normal(size=(20_000, n_columns))
    return Pair(
        lambda: log_likelihood(circuits[0], rows),
        lambda: log_likelihood(circuits[1], rows),
        "20,000 x 10 numbers, 50 components",
        skpc.variables.gaussian,
    )


def checks_of_cells() -> Pair:
    rows, n_states = _binary(200_000, 50).astype(np.float64), np.full(50, 2.0)

    def plain() -> Any:
        is_code = (rows >= 0) & (rows < n_states) & (rows == np.floor(rows))
        return (np.isnan(rows) | np.where(n_states == 0, np.isfinite(rows), is_code)).all()

    source = all_are_cells.py_func  # type: ignore[attr-defined]
    return Pair(lambda: all_are_cells(rows, n_states), plain, "200,000 x 50 binary", source)


def exponentials() -> Pair:
    x, out = -10.0 * np.random.default_rng(0).random(100_000), np.empty(100_000)
    return _of_kernels(fast_math.fast_exponentials, fast_math.exponentials, x, out)


def logarithms() -> Pair:
    x, out = 10.0 * np.random.default_rng(0).random(100_000) + 1e-9, np.empty(100_000)
    return _of_kernels(fast_math.fast_logarithms, fast_math.logarithms, x, out)


def one_row_of_a_regression() -> Pair:
    rng = np.random.default_rng(0)
    start = BayesianRegression.prior(500, 2, prior_variance=1.0, noise_variance=0.1)
    posterior = start.update(rng.normal(size=(600, 500)), rng.normal(size=(600, 2)))
    row = rng.normal(size=(1, 500))

    def plain() -> Any:
        explained = (row * blas.dsymm(1.0, posterior.triangle, row.T).T).sum(axis=1)
        return row @ posterior.weights, explained + posterior.noise_variance

    source = BayesianRegression._times_covariance
    return Pair(lambda: posterior.predict(row), plain, "1 x 500", source)


def threads() -> Pair:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20)) @ rng.normal(size=(20, 20))

    def fit() -> Any:
        return TableMixture(n_components=4, random_state=0).fit(X).score(X)

    def fit_in_threads() -> Any:
        with parallel_config(backend="threading", n_jobs=-1):
            return fit()

    n_cores = os.cpu_count() or 1
    shape = f"TableMixture.fit 4,000 x 20 on {n_cores} idle cores"
    # Never more than the cores, so that two of them cannot give twice the speed.
    clock, least = time.perf_counter, 0.6 * n_cores
    return Pair(fit_in_threads, fit, shape, skpc._threads, clock=clock, least=least)


def trees_side_by_side() -> Pair:
    """Determinants of eight rows at a time, and one by one as of wide rows."""
    rng = np.random.default_rng(0)
    factor = rng.random((138, 138))
    states = 2 * np.arange(69) + rng.integers(0, 2, (2000, 69))
    return Pair(
        lambda: expected_edges(factor + factor.T, states, np.ones(2000), True),
        lambda: expected_edges(factor + factor.T, states, np.ones(2000), True),
        "2,000 x 69 binary, undirected",
        skpc.all_trees.determinants._eliminate_lanes.py_func,  # type: ignore[attr-defined]
        lambda: mock.patch("skpc.all_trees.determinants._WIDEST", 0),
    )


PATHS = (
    trees_side_by_side,
    bits_of_binary_columns,
    bits_of_states,
    induced_trees_of_complete_rows,
    induced_trees_of_mixtures,
    counting_walk_of_networks,
    leaves_of_one_number,
    checks_of_cells,
    exponentials,
    logarithms,
    one_row_of_a_regression,
    threads,
)


def _binary(n_rows: int, n_columns: int) -> np.ndarray:
    """A mixture of thirty products, of which a network with some hundred cuts is learned."""
    rng = np.random.default_rng(0)
    probability, component = rng.random((30, n_columns)), rng.integers(0, 30, n_rows)
    return (rng.random((n_rows, n_columns)) < probability[component]).astype(np.int16)


def _of_kernels(fast: Any, plain: Any, x: np.ndarray, out: np.ndarray) -> Pair:
    def run(kernel: Any) -> Any:
        kernel(x, out)
        return out.copy()

    return Pair(
        lambda: run(fast),
        lambda: run(plain),
        f"{len(x):,} numbers",
        skpc._fast_math,
        tolerance=1e-12,
    )


def measure(pair: Pair) -> float:
    """How many times as fast the special path is."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    answers = {}
    for _ in range(_REPEATS + 1):
        for fast in (True, False):
            with nullcontext() if fast else pair.without():
                start = pair.clock()
                answers[fast] = (pair.fast if fast else pair.plain)()
                seconds[fast].append(pair.clock() - start)
    for one, other in zip(_arrays(answers[True]), _arrays(answers[False])):
        np.testing.assert_allclose(one, other, rtol=pair.tolerance, atol=pair.tolerance)
    # The first run of each compiles.
    return float(np.median(seconds[False][1:]) / np.median(seconds[True][1:]))


def _arrays(answer: Any) -> list[np.ndarray]:
    several = answer if isinstance(answer, tuple) else (answer,)
    return [np.asarray(one) for one in several if one is not None]


def code_lines(source: Any) -> int:
    """Lines of a special path that are no blanks or comments."""
    lines = (line.strip() for line in inspect.getsource(source).splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def main() -> None:
    """Print a line for each special path."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks.fast_paths", description=__doc__)
    parser.add_argument("names", nargs="*", help="only paths whose names contain one of these")
    names = parser.parse_args().names
    print(f"{'path':34s} {'lines':>5s} {'factor':>7s}  shape")
    for path in PATHS:
        title = path.__name__.replace("_", " ")
        if names and not any(name in title for name in names):
            continue
        pair = path()
        factor = measure(pair)
        verdict = "" if factor >= pair.least else "   DOES NOT PAY"
        lines = code_lines(pair.source)
        print(f"{title:34s} {lines:5d} {factor:6.1f}x  {pair.shape}{verdict}", flush=True)


if __name__ == "__main__":
    main()
