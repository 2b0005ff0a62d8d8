"""Cutset networks on the Twenty Datasets: likelihood compared with the paper's, sizes and speeds.

    SKPC_DATA=... python -m tests.benchmarks.debd [names ...] [--criterion bd|bic]
        [--mixtures [--ess E]]

Trained on train + valid, as in the paper. Times are CPU seconds of one thread, warm; score/s is for
200,000 rows a call (fewer beyond 100 columns). Each set has a process of its own; fit_MiB is its
peak memory after the fit, all libraries and the data included.

With --mixtures: mixtures by structural EM; the number of components is chosen on the validation
rows among 2, 3, 5, 8, 10 and 20, and the chosen mixture is learned again from train + valid
("train_only" is before that, as in the paper). With param_ess=1, which the validation rows of the
wide sets prefer to the default, and ess=E (0.1); on the validation rows of ad, --ess 1 is better,
on those of eachmovie much worse.
"""

from __future__ import annotations

import argparse
import os
import resource
import textwrap
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from difflib import get_close_matches
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd
from tests.benchmarks.published import PUBLISHED, column

Figures = dict[str, Any]
#: The Twenty Datasets; two are not in the shared folder.
SETS = tuple(name for name in PUBLISHED if name not in ("pumsb_star", "dna"))
#: All binary sets that can be read.
KNOWN = (*PUBLISHED, "moviereview")
COLUMN = {"bd": "CNetBD", "bic": "CNetBIC"}
SIZES = (2, 3, 5, 8, 10, 20)
MIXTURE_COLUMNS = ["set", "K", "fit_s", "all_fits_s", "params", "valid_ll", "test_ll"]
MIXTURE_COLUMNS += ["train_only", "paper_ll"]
COLUMNS = ["set", "fit_s", "params", "paper", "cuts", "train_ll", "test_ll", "paper_ll"]
COLUMNS += ["score/s", "half_nan/s", "sample/s", "mpe/s", "fit_MiB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SETS))
    parser.add_argument("--criterion", choices=("bd", "bic"), default="bd")
    parser.add_argument("--mixtures", action="store_true")
    parser.add_argument("--ess", type=float, default=0.1)
    options = parser.parse_args()
    refuse_unknown(parser, options.names, KNOWN)
    measure = partial(_measure_mixture, ess=options.ess) if options.mixtures else _measure
    _print_row(MIXTURE_COLUMNS if options.mixtures else COLUMNS)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for cells in pool.map(measure, options.names, repeat(options.criterion)):
            _print_row(cells)


def refuse_unknown(parser: argparse.ArgumentParser, names: Iterable[str], known: Any) -> None:
    """End with an error that has the nearest name, and lists what can be asked for."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        nearest = {name: get_close_matches(name, list(known), 1) for name in unknown}
        told = [name + "".join(f" (nearest: {n})" for n in nearest[name]) for name in unknown]
        listed = textwrap.fill(", ".join(known), 88, break_on_hyphens=False)
        parser.error(f"unknown: {', '.join(told)}; choose from\n{listed}")


def _print_row(cells: list[str]) -> None:
    print(f"{cells[0]:10s}", *(f"{cell:>11s}" for cell in cells[1:]), flush=True)


def learn(name: str, criterion: str, **options: Any) -> tuple[CutsetNetworkBD, Figures]:
    """A single network learned from train + valid: likelihoods, sizes, CPU seconds."""
    data = fetch_debd(name)
    train = np.vstack([data.train, data.valid]).astype(float)
    # A column may be constant in the training rows; both states are declared.
    states = [[0, 1]] * data.n_features
    model = CutsetNetworkBD(criterion=criterion, param_ess=None, categories=states, **options)
    model.fit(train[:200])
    seconds, _ = _cpu_seconds(lambda: model.fit(train))
    return model, {
        "fit_s": seconds,
        "params": model.n_parameters_,
        "cuts": model.n_cuts_,
        "train_ll": model.score(train),
        "test_ll": model.score(data.test.astype(float)),
    }


def learn_mixture(name: str, sizes: tuple[int, ...] = SIZES, **options: Any) -> Figures:
    """Structural EM: the size is chosen on the validation rows, the mixture learned again.

    ``test_ll`` is that of the mixture learned from train + valid, ``test_ll_train`` that of the one
    learned from train alone, as in the paper.
    """
    data = fetch_debd(name)
    train, valid, test = (part.astype(float) for part in (data.train, data.valid, data.test))
    options = {"categories": [[0, 1]] * data.n_features, "random_state": 0} | options
    CutsetNetworkBD(n_components=2, **options).fit(train[:200])
    scores, on_test, search_seconds = {}, {}, 0.0
    for size in sizes:
        model = CutsetNetworkBD(n_components=size, **options)
        seconds, _ = _cpu_seconds(lambda model=model: model.fit(train))
        search_seconds += seconds
        scores[size], on_test[size] = model.score(valid), model.score(test)
    best = max(scores, key=scores.__getitem__)
    model = CutsetNetworkBD(n_components=best, **options)
    seconds, _ = _cpu_seconds(lambda: model.fit(np.vstack([train, valid])))
    return {
        "K": best,
        "fit_s": seconds,
        "all_fits_s": search_seconds + seconds,
        "params": model.n_parameters_,
        "valid_ll": scores[best],
        "test_ll": model.score(test),
        "test_ll_train": on_test[best],
    }


def _measure_mixture(name: str, criterion: str, ess: float) -> list[str]:
    found = learn_mixture(name, criterion=criterion, ess=ess, param_ess=1.0)
    published = column("bayesian_scores/table_1", "EM-CNetBD")
    return [
        name,
        str(found["K"]),
        f"{found['fit_s']:.1f}",
        f"{found['all_fits_s']:.0f}",
        str(found["params"]),
        *(f"{found[key]:.3f}" for key in ("valid_ll", "test_ll", "test_ll_train")),
        f"{published.get(name, np.nan):.3f}",
    ]


def _measure(name: str, criterion: str) -> list[str]:
    model, found = learn(name, criterion)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    params, published = (
        column(f"bayesian_scores/{table}", COLUMN[criterion]).get(name, np.nan)
        for table in ("table_4", "table_1")
    )
    return [
        name,
        f"{found['fit_s']:.3f}",
        str(found["params"]),
        f"{params:.0f}",
        str(found["cuts"]),
        f"{found['train_ll']:.3f}",
        f"{found['test_ll']:.3f}",
        f"{published:.3f}",
        *(f"{speed:,.0f}" for speed in _speeds(model, fetch_debd(name).test.astype(float))),
        f"{peak:.0f}",
    ]


def _speeds(model: CutsetNetworkBD, test: np.ndarray) -> list[float]:
    """Rows a second: scored, scored with half of the cells missing, drawn, completed."""
    n_features = test.shape[1]
    many = np.resize(test, (min(200_000, 20_000_000 // n_features), n_features))
    rng = np.random.default_rng(0)
    holes = test[: 2_000_000 // n_features].copy()
    holes[rng.random(holes.shape) < 0.5] = np.nan
    n_samples = 5_000_000 // n_features
    return [
        _rate(len(many), lambda: model.score_samples(many)),
        _rate(len(holes), lambda: model.score_samples(holes)),
        _rate(n_samples, lambda: model.sample(n_samples, random_state=0)),
        _rate(len(holes), lambda: model.complete(holes, strategy="mpe")),
    ]


def _cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _rate(n_rows: int, work: Callable[[], Any]) -> float:
    work()
    return n_rows / _cpu_seconds(work)[0]


if __name__ == "__main__":
    main()
