"""Learning from rows with missing cells, compared with imputing them first.

    SKPC_DATA=... python -m tests.benchmarks.incomplete_training [names ...] [--rows N]
        [--rates ...] [--write doc/user_guide]

A share of the cells of train + valid is removed completely at random; the table shows the mean
log-likelihood (nats) of the complete test rows under a cutset network, or a mixture of five,
learned from what is left: as it is ("none"), or after imputation by the most frequent value, by
KNNImputer (5 neighbours) or by IterativeImputer (Bayesian ridge), both rounded to 0 and 1. Seconds
are CPU seconds of imputing and fitting, one thread. The guide has the mixtures of five, seconds in
brackets.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd
from tests.benchmarks.guide_tables import add_write, write

RATES = (0.0, 0.1, 0.3, 0.5)
IMPUTERS = {
    "none": None,
    "mode": SimpleImputer(strategy="most_frequent"),
    "knn": KNNImputer(),
    "iterative": IterativeImputer(random_state=0),
}
COMPONENTS = (1, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "audio"])
    parser.add_argument("--rows", type=int, help="rows to learn from, at most")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    add_write(parser)
    options = parser.parse_args()
    rows_of_guide = []
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'set':8s}{'missing':>8s}{'imputed':>11s}", end="")
    print("".join(f"{f'K={k}':>10s}{'seconds':>9s}" for k in COMPONENTS), flush=True)
    for name in options.names:
        data = fetch_debd(name)
        complete = np.vstack([data.train, data.valid]).astype(float)[: options.rows]
        for rate in options.rates:
            holes = np.random.default_rng(0).random(complete.shape) < rate
            cells = [
                _print_row(name, rate, imputer, np.where(holes, np.nan, complete), data.test)
                for imputer in (IMPUTERS if rate else ("none",))
            ]
            rows_of_guide.append([name, f"{rate:.0%}", *cells])
    heads = ["table", "missing", "as they are", *list(IMPUTERS)[1:]]
    write(options.write, "incomplete_training", [heads, *rows_of_guide])


def _print_row(name: str, rate: float, imputer: str, X: np.ndarray, test: np.ndarray) -> str:
    """Print a row, and return the log-likelihood and the seconds of the mixture."""
    start = time.process_time()
    if IMPUTERS[imputer] is not None:
        X = np.clip(np.rint(IMPUTERS[imputer].fit_transform(X)), 0, 1)
    imputing = time.process_time() - start
    print(f"{name:8s}{rate:8.0%}{imputer:>11s}", end="")
    for n_components in COMPONENTS:
        start = time.process_time()
        model = CutsetNetworkBD(
            n_components=n_components,
            param_ess=None,
            categories=[[0, 1]] * X.shape[1],
            random_state=0,
        ).fit(X)
        seconds = imputing + time.process_time() - start
        score = model.score(test.astype(float))
        print(f"{score:10.3f}{seconds:9.1f}", end="", flush=True)
    print(flush=True)
    return f"{score:.2f} ({seconds:.1f})"


if __name__ == "__main__":
    main()
