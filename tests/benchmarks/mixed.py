"""Densities of mixed tables: cutset networks, soft sum-product networks, mixtures of all trees,
Gaussian mixtures.

    SKPC_DATA=... python -m tests.benchmarks.mixed [names ...]

Mean log-likelihood (nats a row) of training and test rows over five splits of 70 % and 30 %,
numbers standardised on the training rows and clipped at 6 sd. Margins are plain, without point
masses. K is the number of components of a
CutsetNetworkBD, ess its param_ess; "hard", "soft" and "refined" are SoftLearnSPN without and with
refinement; "directed" and "undirected" are MixtureOfAllTrees. "gm" is scikit-learn's
GaussianMixture of the numbers (components chosen among 1, 2, 3, 5, 8, 10, 15 and 20 by BIC), full
or diagonal, with this reg_covar, times independent smoothed categories. With the default of 1e-6
its components become spikes (sd .001) on values that repeat, and the table then shows how many rows
are whole numbers. ``tests.benchmarks.papers`` has the figures of SoftLearn's paper and ours.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN
from tests.benchmarks.debd import refuse_unknown
from tests.benchmarks.mixed_tables import MIXED, numbers_of, present, read, split

N_SPLITS = 5
#: The algorithm of the paper.
SOFT_LEARN = {"clusterer": "kmeans", "significance": 0.2, "root_test": None}
SOFT = {
    "hard": SOFT_LEARN | {"assignment": "hard", "n_refine": 0},
    "soft": SOFT_LEARN | {"n_refine": 0},
    "refined": SOFT_LEARN | {"n_refine": 50},
    "default": {},
}
Score = Callable[[pd.DataFrame], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=present())
    options = parser.parse_args()
    refuse_unknown(parser, options.names, MIXED)
    print(f"{'set':12s}{'model':>14s}{'ess':>6s}{'train':>10s}{'test':>10s}{'sd':>7s}{'fit_s':>8s}")
    for name in options.names:
        table = read(name)
        for size in (1, 5, 10):
            for param_ess in (None, 10.0, "auto"):
                model = CutsetNetworkBD(n_components=size, param_ess=param_ess, random_state=0)
                _measure(name, f"K={size}", param_ess, table, _density(table, model))
        for variant, parameters in SOFT.items():
            model = SoftLearnSPN(**parameters, random_state=0)
            _measure(name, variant, None, table, _density(table, model))
        for orientation in ("directed", "undirected"):
            model = MixtureOfAllTrees(orientation=orientation, random_state=0)
            _measure(name, orientation, None, table, _density(table, model))
        for kind, floor in (("full", 1e-6), ("diag", 1e-6), ("full", 1e-2)):
            _measure(name, f"gm {kind} {floor:g}", None, table, _gaussian(kind, floor))


def _measure(
    name: str,
    model: str,
    param_ess: float | str | None,
    table: pd.DataFrame,
    learn: Callable[[pd.DataFrame], Score],
) -> None:
    found, seconds = [], 0.0
    for seed in range(N_SPLITS):
        train, test = split(table, seed)
        start = time.process_time()
        score = learn(train)
        seconds += time.process_time() - start
        found.append((score(train), score(test)))
    (train_ll, test_ll), sd = np.mean(found, axis=0), np.std(found, axis=0)[1]
    print(f"{name:12s}{model:>14s}{param_ess or '':>6}", end="")
    print(f"{train_ll:10.3f}{test_ll:10.3f}{sd:7.3f}{seconds / N_SPLITS:8.2f}", flush=True)


def _density(table: pd.DataFrame, model: CutsetNetworkBD | MixtureOfAllTrees | SoftLearnSPN):
    states = [list(table[c].cat.categories) if c in _categorical(table) else None for c in table]
    model.set_params(categories=states, margins="plain")
    return lambda train: model.fit(train).score


def _categorical(table: pd.DataFrame) -> list[str]:
    return list(table.select_dtypes("category").columns)


def _gaussian(covariance_type: str, reg_covar: float):
    def learn(train: pd.DataFrame) -> Score:
        numbers = numbers_of(train)
        candidates = [
            GaussianMixture(
                k, covariance_type=covariance_type, reg_covar=reg_covar, random_state=0
            ).fit(train[numbers])
            for k in (1, 2, 3, 5, 8, 10, 15, 20)
        ]
        model = min(candidates, key=lambda candidate: candidate.bic(train[numbers]))
        log_prob = {}
        for column in _categorical(train):
            counts = train[column].value_counts() + 0.1
            log_prob[column] = np.log(counts / counts.sum())

        def score(rows: pd.DataFrame) -> float:
            of_categories = sum(
                rows[column].map(log_prob[column]).astype(float) for column in log_prob
            )
            return float(model.score(rows[numbers]) + np.mean(of_categories))

        return score

    return learn


if __name__ == "__main__":
    main()
