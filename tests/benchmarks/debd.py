"""Cutset networks on the Twenty Datasets: likelihood beside the paper's, sizes and speeds.

    SKPC_DATA=... python -m tests.benchmarks.debd [names ...] [--criterion bd|bic]
        [--mixtures [--ess E]]

Trained on train + valid, as in the paper. Times are CPU seconds of one thread, warm; score/s is for
200,000 rows a call (fewer beyond 100 columns). Each set has a process of its own; fit_MiB is its
peak memory after the fit, all libraries and the data included.

With --mixtures: mixtures by structural EM; the number of components is chosen on the validation
rows among 2, 3, 5, 8, 10 and 20, and the chosen mixture is learned again from train + valid. With
param_ess=1, which the validation rows of the wide sets prefer to the default, and ess=E (0.1); on
the validation rows of ad, --ess 1 is better, on those of eachmovie much worse.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd

#: Parameters and test log-likelihood of the paper: (BD, BIC).
PAPER = {
    "nltcs": ((205, -6.064), (315, -6.043)),
    "msnbc": ((1695, -6.052), (1865, -6.046)),
    "kdd": ((2823, -2.240), (1651, -2.201)),
    "plants": ((3399, -13.713), (3163, -13.466)),
    "audio": ((1549, -42.210), (3437, -41.927)),
    "jester": ((1359, -55.454), (2689, -55.231)),
    "netflix": ((1741, -58.820), (2881, -58.649)),
    "accidents": ((2355, -30.568), (2775, -30.497)),
    "retail": ((269, -10.940), (269, -10.939)),
    "kosarek": ((1875, -10.999), (1875, -10.991)),
    "msweb": ((2333, -10.012), (1753, -10.039)),
    "book": ((2989, -37.181), (3981, -37.143)),
    "eachmovie": ((8931, -61.400), (6959, -59.365)),
    "webkb": ((5023, -161.634), (10035, -164.611)),
    "r52": ((10633, -87.766), (12403, -89.461)),
    "20ng": ((23531, -163.671), (19939, -162.227)),
    "bbc": ((58849, -320.052), (10551, -268.861)),
    "ad": ((9325, -15.676), (3111, -16.161)),
}
#: Test log-likelihood of EM-CNetBD in the paper.
PAPER_MIXTURES = {
    "nltcs": -6.032,
    "msnbc": -6.041,
    "kdd": -2.159,
    "plants": -12.902,
    "audio": -39.943,
    "jester": -52.923,
    "netflix": -56.604,
    "accidents": -29.919,
    "retail": -10.927,
    "kosarek": -10.695,
    "msweb": -9.963,
    "book": -34.854,
    "eachmovie": -53.378,
    "webkb": -157.053,
    "r52": -84.993,
    "20ng": -155.002,
    "bbc": -258.691,
    "ad": -14.923,
}
SIZES = (2, 3, 5, 8, 10, 20)
MIXTURE_COLUMNS = ["set", "K", "fit_s", "all_fits_s", "params", "valid_ll", "test_ll", "paper_ll"]
COLUMNS = ["set", "fit_s", "params", "paper", "cuts", "train_ll", "test_ll", "paper_ll"]
COLUMNS += ["score/s", "half_nan/s", "sample/s", "mpe/s", "fit_MiB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PAPER))
    parser.add_argument("--criterion", choices=("bd", "bic"), default="bd")
    parser.add_argument("--mixtures", action="store_true")
    parser.add_argument("--ess", type=float, default=0.1)
    options = parser.parse_args()
    measure = partial(_measure_mixture, ess=options.ess) if options.mixtures else _measure
    _print_row(MIXTURE_COLUMNS if options.mixtures else COLUMNS)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for cells in pool.map(measure, options.names, repeat(options.criterion)):
            _print_row(cells)


def _print_row(cells: list[str]) -> None:
    print(f"{cells[0]:10s}", *(f"{cell:>11s}" for cell in cells[1:]), flush=True)


def _measure_mixture(name: str, criterion: str, ess: float) -> list[str]:
    data = fetch_debd(name)
    train, valid, test = (part.astype(float) for part in (data.train, data.valid, data.test))
    options = {
        "criterion": criterion,
        "ess": ess,
        "param_ess": 1.0,
        "categories": [[0, 1]] * data.n_features,
        "random_state": 0,
    }
    CutsetNetworkBD(n_components=2, **options).fit(train[:200])
    scores, search_seconds = {}, 0.0
    for size in SIZES:
        model = CutsetNetworkBD(n_components=size, **options)
        seconds, _ = _cpu_seconds(lambda model=model: model.fit(train))
        search_seconds += seconds
        scores[size] = model.score(valid)
    best = max(scores, key=scores.get)
    model = CutsetNetworkBD(n_components=best, **options)
    seconds, _ = _cpu_seconds(lambda: model.fit(np.vstack([train, valid])))
    return [
        name,
        str(best),
        f"{seconds:.1f}",
        f"{search_seconds + seconds:.0f}",
        str(model.n_parameters_),
        f"{scores[best]:.3f}",
        f"{model.score(test):.3f}",
        f"{PAPER_MIXTURES.get(name, np.nan):.3f}",
    ]


def _measure(name: str, criterion: str) -> list[str]:
    data = fetch_debd(name)
    train = np.vstack([data.train, data.valid]).astype(float)
    test = data.test.astype(float)
    # A column may be constant in the training rows; both states are declared.
    states = [[0, 1]] * data.n_features
    model = CutsetNetworkBD(criterion=criterion, param_ess=None, categories=states)
    model.fit(train[:200])
    fit_seconds, _ = _cpu_seconds(lambda: model.fit(train))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    n_params, paper_ll = PAPER.get(name, ((0, np.nan),) * 2)[criterion == "bic"]
    likelihoods = [model.score(train), model.score(test)]
    n_rows = min(200_000, 20_000_000 // data.n_features)
    many = np.resize(test, (n_rows, data.n_features))
    rng = np.random.default_rng(0)
    holes = test[: 2_000_000 // data.n_features].copy()
    holes[rng.random(holes.shape) < 0.5] = np.nan
    n_samples = 5_000_000 // data.n_features
    speeds = [
        _rate(len(many), lambda: model.score_samples(many)),
        _rate(len(holes), lambda: model.score_samples(holes)),
        _rate(n_samples, lambda: model.sample(n_samples, random_state=0)),
        _rate(len(holes), lambda: model.complete(holes, strategy="mpe")),
    ]
    return [
        name,
        f"{fit_seconds:.3f}",
        str(model.n_parameters_),
        str(n_params),
        str(model.n_cuts_),
        *(f"{value:.3f}" for value in likelihoods),
        f"{paper_ll:.3f}",
        *(f"{speed:,.0f}" for speed in speeds),
        f"{peak:.0f}",
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
