"""Black-box importance sampling, plain and collapsed, and plain and collapsed Gibbs averages.

    SKPC_DATA=... python -m tests.benchmarks.cbbis [--models ising random asia grid6]
        [--sizes 25 50 100 200] [--runs 15] [--first-run 0] [--write doc/user_guide]

The experiment of section 7.2 of the paper. Samples come from a Gibbs chain: a burn-in of 2000
updates of single variables, then a sample every 1000. A cell of the table is the natural logarithm
of the average over variables of the Hellinger distance between estimated and exact marginals: its
mean over the runs, and the standard error of that mean. The chains of all methods of a run are the
same, those of smaller sizes are its first samples, and the collapsed variables (25 % or 50 % of
them, drawn anew for each sample) are the same for the Gibbs average, "ratio" and "barker".

"+.01" adds 0.01 to each weight and normalises again, as in the plots of the paper. "CIS" is plain
collapsed importance sampling: the sampled variables are drawn uniformly and weighted by their exact
probability. (That of the paper chooses variables and proposals as it goes.)

seconds are CPU seconds of one thread for the greatest size, weights and marginals.

- ising: the stored 4 x 4 model (``cbbis/ising_4x4_rand_id0.uai``)
- random: another 4 x 4 grid with tables drawn uniformly from (0, 1)
- asia: variable 5, a function of two others, is collapsed in all samples of all methods
- grid6: a 6 x 6 grid, exact marginals from the compiled circuit

The guide has the greatest size, and no or half of the variables collapsed.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler, compile, load_asia, read_uai
from skpc.queries import log_likelihood, marginals
from tests.benchmarks.guide_tables import add_write, with_error, write

MODELS = ("ising", "random", "asia", "grid6")
SHARES = {"": 0.0, " 25 %": 0.25, " 50 %": 0.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--first-run", type=int, default=0)
    add_write(parser)
    options = parser.parse_args()
    of_guide: dict[str, list[str]] = {}
    for name in options.models:
        runs = range(options.first_run, options.first_run + options.runs)
        errors, seconds = log_errors(name, options.sizes, runs)
        print(f"\n{name}, {options.runs} runs")
        print(f"{'method':24s}", *(f"{'N = ' + str(n):>16s}" for n in options.sizes), " seconds")
        for method, found in errors.items():
            error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
            cells = [f"{m:7.3f} +- {e:5.3f}" for m, e in zip(found.mean(axis=0), error)]
            print(f"{method:24s}", *cells, f"{seconds.get(method, np.nan):8.2f}", flush=True)
            if "CIS" not in method and "+.01" not in method and "25" not in method:
                cell = with_error(found.mean(axis=0)[-1], error[-1], 2)
                of_guide.setdefault(method, [method]).append(f"{cell} ({seconds[method]:.2f})")
    write(options.write, "importance_sampling", [["average", *options.models], *of_guide.values()])


def model(name: str) -> tuple[FactorGraph, list[int]]:
    """A target, and the variables that all methods collapse."""
    if name == "ising":
        home = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()
        return read_uai(home / "cbbis" / "ising_4x4_rand_id0.uai"), []
    if name == "asia":
        return load_asia(), [5]
    side = {"random": 4, "grid6": 6}[name]
    return FactorGraph.ising_grid(side, side, random_state=1), []


def log_errors(
    name: str, sizes: list[int], runs: range
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Log errors of shape (n_runs, n_sizes) and CPU seconds, for each method."""
    target, collapsed = model(name)
    exact = marginals(compile(target), np.full((1, target.n_variables), np.nan))
    errors: dict[str, list[list[float]]] = defaultdict(list)
    seconds: dict[str, float] = {}
    for run in runs:
        chain = GibbsSampler(target, collapsed=collapsed, random_state=run)
        samples = chain.sample(max(sizes))
        for label, share in SHARES.items():
            drawn = [importance_sampled(target, collapsed, share, n, run) for n in sizes]
            errors[f"CIS{label}"].append([distance(each, exact) for each in drawn])
            for operator in ("ratio", "barker"):
                found, equal, moved = [], [], []
                for size in sizes:
                    start = time.process_time()
                    sampler = BlackBoxImportanceSampler(
                        target, stein_operator=operator, collapse=share, random_state=run
                    ).fit(samples[:size])
                    found.append(log_error(sampler, exact))
                    seconds[f"BBIS {operator}{label}"] = time.process_time() - start
                    start = time.process_time()
                    average = copy.copy(sampler)
                    average.weights_ = np.full(size, 1.0 / size)
                    equal.append(log_error(average, exact))
                    seconds[f"Gibbs{label}"] = time.process_time() - start
                    average.weights_ = (sampler.weights_ + 0.01) / (1.0 + 0.01 * size)
                    moved.append(log_error(average, exact))
                if operator == "ratio":
                    errors[f"Gibbs{label}"].append(equal)
                errors[f"BBIS {operator}{label}"].append(found)
                errors[f"BBIS {operator} +.01{label}"].append(moved)
    return {method: np.array(found) for method, found in errors.items()}, seconds


def log_error(sampler: BlackBoxImportanceSampler, exact: list[np.ndarray]) -> float:
    return distance(sampler.marginals(), exact)


def distance(found: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """Log of the average marginal Hellinger distance."""
    distances = [
        np.sqrt(0.5 * np.sum(np.square(np.sqrt(each) - np.sqrt(truth[0]))))
        for each, truth in zip(found, exact)
    ]
    return float(np.log(np.mean(distances)))


def importance_sampled(
    target: FactorGraph, collapsed: list[int], share: float, n_samples: int, seed: int
) -> list[np.ndarray]:
    """Marginals by rows that are uniform where they are sampled, the rest by exact conditionals."""
    rng = np.random.default_rng([seed, n_samples])
    rows = np.floor(rng.random((n_samples, target.n_variables)) * target.n_states)
    order = rng.random(rows.shape)
    order[:, collapsed] = -1.0
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    rows[rank < max(int(share * target.n_variables + 1e-9), len(collapsed))] = np.nan
    circuit = compile(target)
    log_p = log_likelihood(circuit, rows)
    log_q = -np.where(np.isnan(rows), 0.0, np.log(target.n_states)).sum(axis=1)
    weight = np.exp(log_p - log_q - np.max(log_p - log_q))
    weight /= weight.sum()
    possible = np.where(np.isfinite(log_p)[:, np.newaxis], rows, 0.0)
    return [weight @ posterior for posterior in marginals(circuit, possible)]


if __name__ == "__main__":
    main()
