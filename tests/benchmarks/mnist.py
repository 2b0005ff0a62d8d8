"""Mixtures of cutset networks on binary MNIST: likelihood and size, and pictures.

    SKPC_DATA=... python -m tests.benchmarks.mnist [--components 1 10 100] [--criterion bd bic]
        [--rows N] [--picture FILE.png]

The experiment of section 7.2 of the paper, on ``mnist/mnist_meanbin.npz``. The digits have been
made binary in another way than the paper's, so that the likelihoods cannot be compared.

Trained on train + valid, 12,000 rows, or the first N of them; nothing is tuned. ll is in nats a
row, fit_s in CPU seconds of one thread, warm. Each model has a process of its own; fit_MiB is its
peak memory after the fit, all libraries and the data included.

The picture shows samples, and test digits whose lower half was missing and has been filled
(``complete`` with strategy "mpe"), for each number of components under the first criterion.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skpc import CutsetNetworkBD

SIDE = 28
N_SHOWN = 16
COLUMNS = ["K", "criterion", "params", "train_ll", "test_ll", "fit_s", "iterations", "fit_MiB"]


class Result(NamedTuple):
    """A row of the table, and rows of pixels for the picture."""

    cells: list[str]
    samples: np.ndarray
    filled: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--criterion", choices=("bd", "bic"), nargs="+", default=["bd", "bic"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--picture")
    options = parser.parse_args()
    # Read by numpy in the processes to come, which are fresh.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    jobs = [(*job, options.rows) for job in product(options.criterion, options.components)]
    results = []
    _print_row(COLUMNS)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for result in pool.map(_measure, *zip(*jobs)):
            _print_row(result.cells)
            results.append(result)
    if options.picture:
        _draw(dict(zip(options.components, results)), options.picture)


def _print_row(cells: list[str]) -> None:
    print(*(f"{cell:>10s}" for cell in cells), flush=True)


def _read() -> tuple[np.ndarray, np.ndarray]:
    """Rows for training and for testing, one bit a pixel in the file."""
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()
    with np.load(path / "mnist" / "mnist_meanbin.npz") as z:
        count = int(z["n_features"])
        parts = [np.unpackbits(z[name], axis=1, count=count) for name in ("train", "valid", "test")]
    return np.vstack(parts[:2]).astype(float), parts[2].astype(float)


def _measure(criterion: str, n_components: int, n_rows: int | None) -> Result:
    train, test = _read()
    train = train[:n_rows]
    # A pixel may be empty in all training rows; both states are declared.
    options = {"criterion": criterion, "param_ess": None, "random_state": 0}
    options["categories"] = [[0, 1]] * SIDE**2
    CutsetNetworkBD(n_components=2, **options).fit(train[:200])
    model = CutsetNetworkBD(n_components=n_components, **options)
    start = time.process_time()
    model.fit(train)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    half = test[:N_SHOWN].copy()
    half[:, SIDE**2 // 2 :] = np.nan
    cells = [
        str(n_components),
        criterion,
        str(model.n_parameters_),
        f"{model.score(train):.2f}",
        f"{model.score(test):.2f}",
        f"{seconds:.1f}",
        str(model.n_iter_),
        f"{peak:.0f}",
    ]
    samples = model.sample(N_SHOWN, random_state=0)
    return Result(cells, samples, model.complete(half, strategy="mpe"))


def _draw(results: dict[int, Result], path: str) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap

    names = {size: "one network" if size == 1 else f"{size} components" for size in results}
    # Pixels that have been filled have 2 added and are shown in blue.
    blue = np.where(np.arange(SIDE**2) < SIDE**2 // 2, 0, 2)
    strips = [("truth", _read()[1][:N_SHOWN])]
    strips += [(names[size], result.filled + blue) for size, result in results.items()]
    strips += [(names[size], result.samples) for size, result in results.items()]
    figure, axes = plt.subplots(len(strips), figsize=(8, 0.55 * len(strips)), layout="constrained")
    colours = ListedColormap(["white", "black", "#D9E8F3", "#0072B2"])
    for panel, (name, rows) in zip(axes, strips):
        digits = np.pad(rows.reshape(-1, SIDE, SIDE), ((0, 0), (0, 0), (2, 2)))
        panel.imshow(np.hstack(digits), cmap=colours, vmin=0, vmax=3)
        panel.set_ylabel(name, rotation=0, ha="right", va="center")
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    axes[0].set_title("Lower halves filled", fontsize="medium")
    axes[1 + len(results)].set_title("Samples", fontsize="medium")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
