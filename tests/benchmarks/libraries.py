"""Densities of binary tables compared with other libraries, with the defaults of each.

    SKPC_DATA=... python -m tests.benchmarks.libraries [names ...]

deeprob-kit and pomegranate take part where they are installed; skpc does not need them. SPFlow has
a benchmark of its own, ``spflow_densities``.
Trained on train and valid. Seconds are CPU seconds of one thread, warm; rows/s
is of the log-likelihood of the test rows, once as they are and once with half of their cells NaN
("-": not offered).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN
from skpc.datasets import fetch_debd

#: Log-likelihoods of test rows, by a model that was learned.
Score = Callable[[np.ndarray], np.ndarray]


def of_skpc(model: Any) -> Callable[[np.ndarray], Score]:
    def learn(X: np.ndarray) -> Score:
        return model.set_params(categories=[[0, 1]] * X.shape[1]).fit(X).score_samples

    return learn


def deeprob(X: np.ndarray) -> Score:
    from deeprob.spn.algorithms.inference import log_likelihood
    from deeprob.spn.learning.wrappers import learn_estimator
    from deeprob.spn.structure.leaf import Bernoulli

    m = X.shape[1]
    data = X.astype(np.float32)
    network = learn_estimator(data, [Bernoulli] * m, [[0, 1]] * m, verbose=False)
    return lambda rows: log_likelihood(network, rows.astype(np.float32))


def pomegranate(X: np.ndarray) -> Score:
    import torch
    from pomegranate.bayesian_network import BayesianNetwork

    torch.set_num_threads(1)
    network = BayesianNetwork(algorithm="chow-liu").fit(torch.tensor(X.astype(np.int64)))

    def score(rows: np.ndarray) -> np.ndarray:
        if np.isnan(rows).any():
            raise NotImplementedError
        return network.log_probability(torch.tensor(rows.astype(np.int64))).numpy()

    return score


#: Name of the distribution, what it learns, and how.
LEARNERS: list[tuple[str, str, Callable[[np.ndarray], Score]]] = [
    ("skpc", "Chow-Liu tree", of_skpc(CutsetNetworkBD(max_depth=0))),
    ("skpc", "CutsetNetworkBD", of_skpc(CutsetNetworkBD())),
    ("skpc", "LearnSPN", of_skpc(SoftLearnSPN(assignment="hard", n_refine=0, random_state=0))),
    ("skpc", "SoftLearnSPN", of_skpc(SoftLearnSPN(random_state=0))),
    ("skpc", "MixtureOfAllTrees", of_skpc(MixtureOfAllTrees(random_state=0))),
    ("deeprob-kit", "LearnSPN", deeprob),
    ("pomegranate", "Chow-Liu tree", pomegranate),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants"])
    names = parser.parse_args().names
    # The libraries warn of their dependencies, and MixtureOfAllTrees of its last iteration.
    warnings.simplefilter("ignore")
    print_row(("set", "library", "model", "fit_s", "test_ll", "rows/s", "half_nan/s"))
    for name in names:
        for library, model, learn in LEARNERS:
            measure(name, library, model, learn)


def print_row(cells: Any) -> None:
    print("".join(f"{cell:>20s}" for cell in cells), flush=True)


def measure(name: str, library: str, model: str, learn: Callable[[np.ndarray], Score]) -> None:
    data = fetch_debd(name)
    X = np.vstack([data.train, data.valid]).astype(np.float64)
    test = data.test.astype(np.float64)
    holes = np.where(np.random.default_rng(0).random(test.shape) < 0.5, np.nan, test)
    try:
        learn(X[:100, :10])(test[:10, :10])
    except ImportError:
        print_row((name, library, "not installed", *"----"))
        return
    fit_seconds, score = cpu_seconds(lambda: learn(X))
    seconds, log_likelihood = cpu_seconds(lambda: score(test))
    mean = float(np.mean(log_likelihood))
    try:
        # Where rows with missing cells are sampled, a part of them is enough to time; once before,
        # for kernels that only some of the rows need.
        part = holes[:500] if model == "MixtureOfAllTrees" else holes
        score(part)
        speed = f"{len(part) / cpu_seconds(lambda: score(part))[0]:,.0f}"
    except NotImplementedError:
        speed = "-"
    print_row(
        (
            name,
            f"{library} {version(library)}",
            model,
            f"{fit_seconds:.2f}",
            f"{mean:.3f}",
            f"{len(test) / seconds:,.0f}",
            speed,
        )
    )


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
