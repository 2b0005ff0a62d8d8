"""Mixtures of all trees: likelihoods on the Twenty Datasets, speeds, and conditional marginals.

    export SKPC_DATA=... OMP_NUM_THREADS=1
    python -m tests.benchmarks.moat [names ...] [--orientation directed undirected]
        [--components K] [--epochs N] [--rate R] [--batch B] [--paper]
    python -m tests.benchmarks.moat --speed [--columns 16 69 ...]
    python -m tests.benchmarks.moat --conditional [--orientation ...]
    python -m tests.benchmarks.moat --missing [--orientation ...]
    python -m tests.benchmarks.moat --incomplete [--orientation ...]
    python -m tests.benchmarks.moat --wide [--columns 500] [--epochs N]

Speeds, conditional and missing write a table of the guide with --write doc/user_guide.

Likelihoods: trained on train, stopped early on valid, as in the paper; CPU seconds of one thread.

Speeds: rows a second of one evaluation (forward) and of one with all derivatives (both), in
GFLOP/s by 2 n^3 (directed) or n^3 (undirected) operations for both, relative to the dgemm of the
machine, and to bare calls of LAPACK's factorisation and inverse.

Conditional: mean absolute error of the marginals of the missing columns of nltcs against exact
enumeration, over 20 test rows with random evidence of each size. "estimator" is what the estimator
does: "auto", unless there are so few completions that it sums them. Other methods are values of
``inference``.

Missing: digits (64 binary columns) with missing cells: effective sample sizes, and
their errors against 20,000 trees; what rows with missing cells cost, also in tables of numbers.

Incomplete: rows a CPU second of the test rows of nltcs with missing cells, and mean absolute errors
of log-likelihood (nats) and marginals against sums over the 65,536 states of its 16 columns.

Wide: 5,000 rows of numbers with common causes; what is announced, what is needed, and the held-out
log-likelihood, and that of one Chow-Liu tree over the same bins.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from skpc import CutsetNetworkBD, MixtureOfAllTrees
from skpc.all_trees.all_trees import AllTrees, Components
from skpc.all_trees.determinants import expected_edges, log_tree_weights
from skpc.all_trees.importance import estimate_rows
from skpc.all_trees.incomplete import estimate_missing
from skpc.datasets import fetch_debd, make_missing
from skpc.domain import merge_rows
from skpc.queries import log_likelihood
from tests.benchmarks.debd import KNOWN, refuse_unknown
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.published import column

ORIENTATIONS = ("directed", "undirected")
#: Ranges of effective sample sizes, and errors within them.
_BOUNDS = (1, 3, 10, 30, 100, 300, 1000)
SIZES = {f"{low} to {high}": (low, high) for low, high in zip(_BOUNDS, _BOUNDS[1:])}
ERRORS = ("log-likelihood", "probability")
Sampler = Callable[[AllTrees, np.ndarray, int, int], tuple[Any, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "jester"])
    parser.add_argument("--orientation", nargs="+", choices=ORIENTATIONS, default=ORIENTATIONS)
    parser.add_argument("--components", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--batch", type=int, default=0, help="0 is auto")
    parser.add_argument("--paper", action="store_true", help="the schedule of the paper")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--columns", type=int, nargs="+", default=[16, 69, 100, 180, 500, 889])
    parser.add_argument("--conditional", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--incomplete", action="store_true")
    parser.add_argument("--wide", action="store_true")
    add_write(parser)
    options = parser.parse_args()
    refuse_unknown(parser, options.names, KNOWN)
    if options.speed:
        _speeds(options)
    elif options.conditional:
        _conditionals(options)
    elif options.missing:
        _incomplete_rows(options)
    elif options.incomplete:
        _speeds_of_incomplete_rows(options.orientation)
    elif options.wide:
        _wide_tables(options)
    else:
        _likelihoods(options)


def _print_row(cells: list[Any]) -> None:
    print(*(f"{cell:>11s}" for cell in map(str, cells)), flush=True)


def fitted(name: str, orientation: str, options: argparse.Namespace) -> tuple[Any, float, Any]:
    data = fetch_debd(name)
    train, valid = data.train.astype(float), data.valid.astype(float)
    model = MixtureOfAllTrees(
        orientation=orientation,
        n_components=options.components,
        max_iter=options.epochs,
        learning_rate_init=options.rate,
        batch_size=options.batch or "auto",
        schedule="paper" if options.paper else "auto",
        categories=[[0, 1]] * data.n_features,
        random_state=0,
    )
    model.set_params(max_iter=1).fit(train[:100])
    model.set_params(max_iter=options.epochs)
    seconds = _cpu_seconds(lambda: model.fit(train, X_val=valid))
    return model, seconds, data


def _likelihoods(options: argparse.Namespace) -> None:
    columns = ["set", "orientation", "K", "epochs", "fit_s", "valid_ll", "test_ll"]
    published = ("MoAT", "MT", "HCLT")
    _print_row([*columns, *published])
    for name in options.names:
        for orientation in options.orientation:
            found = learn(name, orientation, options)
            _print_row(
                [
                    name,
                    orientation,
                    options.components,
                    found["epochs"],
                    f"{found['fit_s']:.1f}",
                    f"{found['valid_ll']:.3f}",
                    f"{found['test_ll']:.3f}",
                    *(column("all_trees/table_1", key).get(name, np.nan) for key in published),
                ]
            )


def learn(name: str, orientation: str, options: argparse.Namespace) -> dict[str, float]:
    """Likelihoods of a mixture, and the CPU seconds of its training."""
    model, seconds, data = fitted(name, orientation, options)
    return {
        "fit_s": seconds,
        "epochs": model.n_iter_,
        "valid_ll": max(model.scores_),
        "test_ll": model.score(data.test.astype(float)),
    }


def _speeds(options: argparse.Namespace) -> None:
    rows = []
    matrix = np.asfortranarray(np.random.default_rng(0).random((600, 600)))
    dgemm = 2.0 * 600**3 / _best(lambda: matrix @ matrix) / 1e9
    print(f"dgemm: {dgemm:.1f} GFLOP/s")
    _print_row(
        ["columns", "orientation", "forward/s", "both/s", "GFLOP/s", "of_dgemm", "of_LAPACK"]
    )
    for n in options.columns:
        for orientation in ORIENTATIONS:
            symmetric = orientation == "undirected"
            factor, states = _random_rows(n, symmetric)
            weight = np.ones(len(states))
            forward = len(states) / _best(
                lambda f=factor, s=states, y=symmetric: log_tree_weights(f, s, y)
            )
            both = len(states) / _best(
                lambda f=factor, s=states, w=weight, y=symmetric: expected_edges(f, s, w, y)
            )
            flops = both * (n**3 if symmetric else 2 * n**3) / 1e9
            _print_row(
                [
                    n,
                    orientation,
                    f"{forward:,.0f}",
                    f"{both:,.0f}",
                    f"{flops:.1f}",
                    f"{flops / dgemm:.0%}",
                    f"{both * _lapack_seconds(n, symmetric):.0%}",
                ]
            )
            rows.append([n, orientation, f"{forward:,.0f}", f"{both:,.0f}", f"{flops / dgemm:.0%}"])
    heads = ["columns", "model", "likelihood", "gradient", "of dgemm"]
    write(options.write, "all_trees_speed", [heads, *rows])


def _random_rows(n: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Binary rows that would take about a quarter of a second."""
    rng = np.random.default_rng(0)
    n_vertices = n if symmetric else n + 1
    factor = rng.random((2 * n_vertices, 2 * n_vertices))
    n_rows = int(np.clip(2.5e9 / n**3, 8, 20_000)) // 8 * 8
    states = 2 * np.arange(n_vertices) + rng.integers(0, 2, (n_rows, n_vertices))
    return factor + factor.T, states


def _lapack_seconds(n: int, symmetric: bool) -> float:
    """CPU seconds of bare calls that factor and invert one matrix."""
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(rng.random((n, n)))
    matrix = matrix + matrix.T + 2.0 * n * np.eye(n)
    n_calls = max(1, int(2e8 / n**3))

    def calls() -> None:
        for _ in range(n_calls):
            if symmetric:
                lapack.dpotri(lapack.dpotrf(matrix)[0])
            else:
                factor, pivots, _ = lapack.dgetrf(matrix)
                lapack.dgetri(factor, pivots)

    return _best(calls) / n_calls


def _conditionals(options: argparse.Namespace) -> None:
    rows = []
    _print_row(["orientation", "evidence", "method", "samples", "error", "ESS", "ms/row"])
    for orientation in options.orientation:
        model, _, data = fitted("nltcs", orientation, options)
        rng = np.random.default_rng(0)
        for n_observed in (4, 8, 12):
            codes = data.test[rng.permutation(len(data.test))[:20]].astype(np.int64)
            for row in codes:
                row[rng.permutation(16)[n_observed:]] = -1
            cells = _print_errors(model, codes, orientation, n_observed)
            rows.append([orientation, 16 - n_observed, *cells])
    write(options.write, "all_trees_methods", [["model", "missing", *METHODS], *rows])


def _of_estimator(method: str) -> Sampler:
    def sample(model: AllTrees, codes: np.ndarray, seed: int, n: int) -> tuple[Any, Any]:
        seeds = np.arange(len(codes), dtype=np.uint64) + np.uint64(1000 * seed)
        estimates = estimate_rows(method, model, codes, seeds, n)
        return estimates.marginals[:, 1::2], estimates.effective_sample_size

    return sample


def _whole_estimator(model: AllTrees, codes: np.ndarray, seed: int, n: int) -> tuple[Any, Any]:
    seeds = np.arange(len(codes), dtype=np.uint64) + np.uint64(1000 * seed)
    estimates = estimate_missing(Components(np.zeros(1), (model,)), codes, seeds, "auto", n)
    return estimates.marginals[:, 1::2], estimates.effective_sample_size


#: Probabilities of ones of rows of binary cells, and effective sample sizes, from some samples.
SAMPLERS: dict[str, Sampler] = {
    "auto": _of_estimator("auto"),
    "collapsed": _of_estimator("collapsed"),
    "importance": _of_estimator("importance"),
    "gibbs": _of_estimator("gibbs"),
}
#: Those of the guide.
METHODS = ("estimator", *SAMPLERS)


def _print_errors(model: Any, codes: np.ndarray, orientation: str, n_observed: int) -> list[str]:
    """Print errors and CPU milliseconds a row; those of 1,000 samples are for the guide."""
    of_guide = []
    trees = model.mixture_.models[0]
    truth = np.array([exact_ones(trees, row) for row in codes])
    for method, sample in {"estimator": _whole_estimator, **SAMPLERS}.items():
        for n_samples in (100, 1000):
            start = time.process_time()
            ones, sizes = sample(trees, codes, 0, n_samples)
            seconds = time.process_time() - start
            error = np.abs(ones - truth)[codes < 0].mean()
            cells = [orientation, n_observed, method, n_samples, f"{error:.4f}"]
            _print_row([*cells, f"{sizes.mean():.0f}", f"{1000 * seconds / len(codes):.2f}"])
        if method in METHODS:
            of_guide.append(f"{error:.4f} ({1000 * seconds / len(codes):.1f} ms)")
    return of_guide


def exact_ones(trees: Any, row: np.ndarray) -> np.ndarray:
    """Probability of a one in each column, by summing all completions."""
    columns = np.flatnonzero(row < 0)
    every = np.repeat(row[np.newaxis], 2 ** len(columns), axis=0)
    every[:, columns] = np.arange(len(every))[:, np.newaxis] >> np.arange(len(columns)) & 1
    probability = np.exp(trees.log_likelihood(trees.states_of(every)))
    return probability @ every / probability.sum()


def _incomplete_rows(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    orientations, rows_of = options.orientation, {}
    X = (load_digits().data > 7).astype(float)
    for orientation in orientations:
        model = MixtureOfAllTrees(orientation=orientation, random_state=0)
        model.fit(X[:1300])
        _print_row(["digits", "missing", "ESS_5%", "ESS_median", "below_10"])
        found = []
        for rate in (0.2, 0.35, 0.5, 0.7):
            rows = make_missing(X[1300:1325], rate=rate, random_state=0)
            size = model.effective_sample_size(rows)
            # Sums of a few completions have no size to speak of.
            low, median = np.quantile(size, [0.05, 0.5], method="lower")
            share = f"{(size < 10).mean():.0%}"
            _print_row([orientation, rate, f"{low:.0f}", f"{median:.0f}", share])
            # At 20 % most rows are summed.
            if rate > 0.2:
                found.append(_errors_and_sizes(model, rows))
        rows_of[orientation] = _print_errors_by_size(*np.concatenate(found, axis=1))
        circuit = model.to_mixture(100, random_state=0)
        lost = model.score(X[1300:1400]) - log_likelihood(circuit, X[1300:1400]).mean()
        print(f"a mixture of 100 trees loses {lost:.1f} nats a row")
    heads = ["effective sample size", *(f"{model}: {what}" for model in rows_of for what in ERRORS)]
    cells = [sum((rows[size] for rows in rows_of.values()), start=[size]) for size in SIZES]
    write(options.write, "all_trees_sizes", [heads, *cells])
    _print_row(["columns", "orientation", "samples", "score_ms", "marginals_ms"])
    rng = np.random.default_rng(0)
    for n in (10, 30, 100):
        numbers = rng.normal(size=(2000, n)) @ (np.eye(n) + rng.normal(size=(n, n)) / np.sqrt(n))
        for orientation in orientations:
            model = MixtureOfAllTrees(orientation=orientation, max_iter=3, random_state=0)
            model.fit(numbers)
            _print_costs(model, make_missing(numbers[: 1000 // n], rate=0.4, random_state=0))


def _speeds_of_incomplete_rows(orientations: list[str]) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    _print_row(["orientation", "missing", "rows", "summed", "rows/s", "log_p", "marginals"])
    options = argparse.Namespace(components=1, epochs=50, rate=0.05, batch=0, paper=False)
    for orientation in orientations:
        model, _, data = fitted("nltcs", orientation, options)
        test = data.test.astype(float)
        model.marginals(make_missing(test[:10], rate=0.8, random_state=0))
        complete = len(test) / _best(lambda m=model, t=test: m.score_samples(t))
        _print_row([orientation, "0 %", len(test), "-", f"{complete:,.0f}", "-", "-"])
        for rate in (0.2, 0.5, 0.8):
            rows = make_missing(test, rate=rate, random_state=0)
            for part in (rows[:300], rows):
                seconds = _best(lambda m=model, p=part: m.score_samples(p))
                log_p, ones = _sums_over_all_states(model, part)
                found = _answers(model, part)
                errors = np.abs(found[0] - log_p).mean(), np.abs(found[1] - ones).mean()
                summed = np.isinf(model.effective_sample_size(part)).mean()
                cells = [orientation, f"{rate:.0%}", len(part), f"{summed:.1%}"]
                speed = f"{len(part) / seconds:,.0f}"
                _print_row([*cells, speed, *(f"{error:.2g}" for error in errors)])


def _sums_over_all_states(model: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood and probabilities of ones of rows of binary cells."""
    n = rows.shape[1]
    every = np.arange(2**n)[:, np.newaxis] >> np.arange(n)[::-1] & 1
    joint = np.exp(model.score_samples(every.astype(float))).reshape((2,) * n)
    log_p, ones = np.empty(len(rows)), np.where(np.isnan(rows), 0.0, rows)
    for i, row in enumerate(rows):
        known = joint[tuple(slice(None) if np.isnan(x) else int(x) for x in row)]
        total = known.sum()
        log_p[i] = np.log(total)
        for axis, missing in enumerate(np.flatnonzero(np.isnan(row))):
            ones[i, missing] = known.take(1, axis=axis).sum() / total
    return log_p, ones


def _wide_tables(options: argparse.Namespace) -> None:
    for n in options.columns:
        rng = np.random.default_rng(0)
        causes = rng.normal(size=(20, n)) * (rng.random((20, n)) < 0.15)
        X = rng.normal(size=(6000, 20)) @ causes + 0.7 * rng.normal(size=(6000, n))
        epochs = options.epochs
        model = MixtureOfAllTrees(max_iter=epochs, random_state=0, verbose=1, n_jobs=2)
        wall = time.perf_counter()
        seconds = _cpu_seconds(lambda m=model, x=X: m.fit(x[:5000]))
        wall = time.perf_counter() - wall
        rows, weight = merge_rows(model.domain_.encode(X[:5000]), np.ones(5000))
        tree = CutsetNetworkBD(max_depth=0).fit_rows(model.domain_, rows, weight)
        speed = 4500 * model.n_iter_ / seconds
        print(f"{n} columns: {model.n_iter_} epochs in {seconds:.0f} CPU s ({wall:.0f} s)")
        print(f"{speed:.0f} rows a CPU s; held out {model.score(X[5000:]):.2f} nats a row,")
        print(f"a Chow-Liu tree over the same bins {tree.score(X[5000:]):.2f}")


def _errors_and_sizes(model: Any, rows: np.ndarray) -> np.ndarray:
    """Effective sample size, error of the log-likelihood and of marginals, for each row twice."""
    at = np.isfinite(model.effective_sample_size(rows))
    rows = rows[at]
    truth = _answers(model.set_params(n_inference_samples=20_000), rows)
    found = []
    for n_samples in (100, 1000):
        model.set_params(n_inference_samples=n_samples)
        log_p, ones = _answers(model, rows)
        missing = np.isnan(rows)
        error = np.abs(ones - truth[1]).sum(axis=1, where=missing) / missing.sum(axis=1)
        found.append([model.effective_sample_size(rows), np.abs(log_p - truth[0]), error])
    return np.concatenate(found, axis=1)


def _answers(model: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ones = np.column_stack([p.probabilities[:, -1] for p in model.marginals(rows)])
    return model.score_samples(rows), ones


def _print_errors_by_size(
    size: np.ndarray, log_p: np.ndarray, marginals: np.ndarray
) -> dict[str, list[str]]:
    """Print mean errors by range of the effective sample size, and return them."""
    errors = {}
    _print_row(["ESS", "rows", "log_p", "marginals"])
    for name, (low, high) in SIZES.items():
        at = (size >= low) & (size < high)
        errors[name] = [f"{part[at].mean():.3f}" if at.any() else "" for part in (log_p, marginals)]
        _print_row([name, at.sum(), *errors[name]])
    return errors


def _print_costs(model: Any, rows: np.ndarray) -> None:
    for n_samples in (100, 1000):
        model.set_params(n_inference_samples=n_samples)
        model.marginals(rows[:2])
        score, marginals = (
            f"{1000 * _cpu_seconds(lambda f=f: f(rows)) / len(rows):.2f}"
            for f in (model.score_samples, model.marginals)
        )
        _print_row([rows.shape[1], model.orientation, n_samples, score, marginals])


def _cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _best(work: Callable[[], Any]) -> float:
    return min(_cpu_seconds(work) for _ in range(4))


if __name__ == "__main__":
    main()
