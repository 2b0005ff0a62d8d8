"""SoftLearnSPN on the Twenty Datasets: hard, soft and refined, and the published figures.

    SKPC_DATA=... python -m tests.benchmarks.softlearn [names ...] [--seeds N] [--defaults]
    SKPC_DATA=... python -m tests.benchmarks.softlearn [names ...] --samples
    SKPC_DATA=... python -m tests.benchmarks.softlearn [names ...] --betas

Learned from the training rows; the validation rows choose clusterer, significance, beta and alpha
(with one seed, from at most --rows training rows) and stop the refinement. Then means and standard
deviations over the seeds, learned from all training rows; one seed for 20ng, bbc and ad. "hard" is
LearnSPN, "soft" SoftLearn, "soft-2" the same with clusterings of two iterations, "refined" with EM
on all parameters. Times are CPU seconds of one thread, warm. Published: LearnSPN or SoftLearn
("Soft Learning Probabilistic Circuits", table 1) stand next to the validation rows, with which they
are to be compared, as the user guide explains. --defaults leaves out the choice.

With --samples: a network is learned, as many rows as in training are drawn from it, another is
learned from these; test likelihoods of both (the protocol of table 3), means over three seeds.

With --betas: likelihoods of validation rows by beta, without refinement and with it, learned from
at most 6,000 rows.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import SoftLearnSPN
from skpc.datasets import fetch_debd
from tests.benchmarks.debd import KNOWN, SETS, refuse_unknown
from tests.benchmarks.published import column

ONE_SEED = ("20ng", "bbc", "ad")
#: What is not chosen: a sum comes first, and pairs are tested one by one.
GREEDY: dict[str, Any] = {"clusterer": "kmeans", "significance": 0.2, "root_test": None}
VARIANTS: dict[str, dict[str, Any]] = {
    "hard": GREEDY | {"assignment": "hard", "n_refine": 0},
    "soft-2": GREEDY | {"n_refine": 0, "max_iter": 2},
    "soft": GREEDY | {"n_refine": 0},
    "refined": GREEDY | {"n_refine": 50},
}
#: The tables that have the significance and the pseudo-counts of each clusterer and set.
SETTINGS = {"hard": "table_6", "soft": "table_8"}
SIGNIFICANCE = (0.2, 0.01, 0.001, 0.0001)
CLUSTERERS = ("kmeans", "em")
BETA = (20.0, 30.0, 50.0)
#: All that are compared with --betas, the first that of figure 2 of the paper.
BETAS = (1.0, 2.0, 5.0, 10.0, *BETA)
ALPHA = (0.1, 1.0)
Options = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--betas", action="store_true")
    options = parser.parse_args()
    refuse_unknown(parser, options.names, KNOWN)
    if options.samples:
        header = ["set", "variant", "original", "from_draws"]
    elif options.betas:
        header = ["set", "variant", "", *(f"{beta:g}" for beta in BETAS)]
    else:
        header = ["set", "variant", "choice", "valid", "sd", "paper", "test", "sd", "fit_s"]
        header += ["nodes", "edges"]
    _print_row(header)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in options.names:
            n_rows = 0 if options.defaults else options.rows
            work: tuple[Any, ...] = (_measure, name, options.seeds, n_rows)
            if options.samples or options.betas:
                work = (_sample_quality if options.samples else _betas, name)
            for cells in pool.submit(*work).result():
                _print_row(cells)


def _print_row(cells: list[str]) -> None:
    print(f"{cells[0]:10s}{cells[1]:8s}", end="")
    print(f"{cells[2]:>22s}", *(f"{cell:>9s}" for cell in cells[3:]), flush=True)


def _measure(name: str, n_seeds: int, n_rows: int) -> list[list[str]]:
    train, valid, test = _read(name)
    _fit({"max_iter": 2, "n_refine": 1}, train[:200], valid, 0)
    seeds = range(1 if name in ONE_SEED else n_seeds)
    chosen = {}
    for variant in ("hard", "soft", "refined"):
        chosen[variant] = _choose(VARIANTS[variant], train[:n_rows], valid) if n_rows else {}
    chosen["soft-2"] = chosen["soft"]
    lines = []
    for variant, fixed in VARIANTS.items():
        options, found = fixed | chosen[variant], []
        for seed in seeds:
            start = time.process_time()
            model = _fit(options, train, valid, seed)
            seconds = time.process_time() - start
            found.append((model.score(valid), model.score(test), seconds))
        mean, sd = np.mean(found, axis=0), np.std(found, axis=0)
        paper = column("soft_learn/table_1", "LearnSPN" if variant == "hard" else "SoftLearn")
        likelihoods = [mean[0], sd[0], paper.get(name, np.nan), mean[1], sd[1]]
        numbers = [*(f"{x:.3f}" for x in likelihoods), f"{mean[2]:.1f}"]
        sizes = [str(model.circuit_.n_nodes), str(model.circuit_.n_edges)]
        lines.append([name, variant, _label(model), *numbers, *sizes])
    return lines


def _read(name: str) -> list[np.ndarray]:
    data = fetch_debd(name)
    rows = np.random.RandomState(0).permutation(len(data.train))
    return [part.astype(float) for part in (data.train[rows], data.valid, data.test)]


def _fit(options: Options, train: np.ndarray, valid: np.ndarray, seed: int) -> SoftLearnSPN:
    states = [[0, 1]] * train.shape[1]
    return SoftLearnSPN(**options, categories=states, random_state=seed).fit(train, X_val=valid)


def _choose(fixed: Options, train: np.ndarray, valid: np.ndarray) -> Options:
    """Clusterer and significance first, then beta (of k-means) and alpha."""
    grid: list[Options] = [
        {"clusterer": clusterer, "significance": significance}
        for clusterer in CLUSTERERS
        for significance in SIGNIFICANCE
    ]
    best = _best(fixed, grid, train, valid)
    if best["clusterer"] == "kmeans" and fixed.get("assignment") != "hard":
        best = _best(fixed, [best | {"beta": beta} for beta in BETA], train, valid)
    return _best(fixed, [best | {"alpha": alpha} for alpha in ALPHA], train, valid)


def _best(fixed: Options, grid: list[Options], train: np.ndarray, valid: np.ndarray) -> Options:
    return max(grid, key=lambda options: _fit(fixed | options, train, valid, 0).score(valid))


def _label(model: SoftLearnSPN) -> str:
    cluster = model.clusterer
    if cluster == "kmeans" and model.assignment == "soft":
        cluster += f" {model.beta:g}"
    return f"{cluster}, {model.significance:g}, {model.alpha:g}"


def _sample_quality(name: str) -> list[list[str]]:
    lines = []
    for variant in ("hard", "soft", "refined"):
        found = score_drawn(name, VARIANTS[variant])
        lines.append([name, variant, f"{found['test']:.3f}", f"{found['drawn']:.3f}"])
    return lines


def _betas(name: str) -> list[list[str]]:
    train, valid, _ = _read(name)
    lines = []
    for variant in ("soft", "refined"):
        scores = [
            _fit(VARIANTS[variant] | {"beta": beta}, train[:6000], valid, 0).score(valid)
            for beta in BETAS
        ]
        lines.append([name, variant, "", *(f"{score:.3f}" for score in scores)])
    return lines


def tuned(name: str, n_seeds: int) -> dict[str, dict[str, float]]:
    """Likelihoods by variant, after a choice on the validation rows."""
    n_rows = 1000 if fetch_debd(name).n_features >= 500 else 3000
    found = {}
    for cells in _measure(name, n_seeds, n_rows):
        found[cells[1]] = {"valid": float(cells[3]), "test": float(cells[6])}
    return found


def as_published(assignment: str, clusterer: str, name: str) -> Options:
    """The algorithm of the paper with its significance and pseudo-counts for a set."""
    table = f"soft_learn/{SETTINGS[assignment]}"
    return {
        "assignment": assignment,
        "clusterer": clusterer,
        "significance": column(table, f"{clusterer}-p")[name],
        "alpha": column(table, f"{clusterer}-alpha")[name],
        "root_test": "pairs",
        "n_refine": 0,
    }


def learn_published(
    assignment: str, clusterer: str, name: str, n_seeds: int, **more: Any
) -> dict[str, float]:
    """Likelihoods of validation and test rows with the published settings, over the seeds."""
    train, valid, test = _read(name)
    options = as_published(assignment, clusterer, name) | more
    _fit(options, train[:200], valid, 0)
    start, found = time.process_time(), []
    for seed in range(n_seeds):
        model = _fit(options, train, valid, seed)
        found.append((model.score(valid), model.score(test)))
    means, sds = np.mean(found, axis=0), np.std(found, axis=0)
    keys = ("valid", "test", "valid_sd", "test_sd")
    figures = dict(zip(keys, [*means.tolist(), *sds.tolist()]))
    return figures | {
        "fit_s": (time.process_time() - start) / n_seeds,
        "edges": model.circuit_.n_edges,
    }


def score_drawn(name: str, options: Options, n_seeds: int = 3) -> dict[str, float]:
    """Test likelihoods of a network, and of another that is learned from rows drawn from it."""
    train, valid, test = _read(name)
    found = []
    for seed in range(n_seeds):
        first = _fit(options, train, valid, seed)
        draws = first.sample(len(train) + len(valid), random_state=seed)
        second = _fit(options, draws[: len(train)], draws[len(train) :], seed)
        found.append([model.score(rows) for rows in (valid, test) for model in (first, second)])
    keys = ("valid", "valid_drawn", "test", "drawn")
    return dict(zip(keys, np.mean(found, axis=0).tolist()))


if __name__ == "__main__":
    main()
