"""SPFlow 1.1.0 (on torch) beside skpc, on binary tables, with a limit of CPU time for each learner.

In an environment of its own:

    pip install -e . spflow==1.1.0
    SKPC_DATA=... python -m tests.benchmarks.spflow_densities [names ...] [--minutes 20]
        [--write doc/user_guide]

Train rows are learned from, validation rows choose settings and end training, test rows are only
scored. SPFlow: LearnSPN (its defaults); cutset networks (``min_instances_slice`` 2000, 500, 100,
20, until one fails); trees of hidden variables (8, 16, 32 and 64 states, trained by Adam: its EM on
batches ends in NaN, and on all rows is slower; the limit is for all of them); continuous mixtures
of Chow-Liu trees (defaults, ended by validation rows or by the limit). Its integral circuits (PIC)
are parts without a learner, and do not take part. skpc: the members of its default stack, and the
stack. CPU seconds are of one thread, warm.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import torch
from spflow.learn.cnet import learn_cnet
from spflow.learn.learn_spn import learn_spn
from spflow.meta import Scope
from spflow.modules.leaves import Bernoulli
from spflow.zoo.cms import continuous_mixtures
from spflow.zoo.hclt.learn import learn_hclt_binary
from torch.utils.data import DataLoader

from skpc import CutsetNetworkBD, ExtraCutsets, HiddenChowLiuTree, SoftLearnSPN, StackedDensity
from skpc.datasets import fetch_debd
from tests.benchmarks.guide_tables import add_write, write

#: Epochs without a gain on validation rows that end training, rows of a batch, learning rate.
_PATIENCE, _BATCH, _RATE = 3, 256, 0.01


def score(model: Any, rows: torch.Tensor) -> float:
    with torch.no_grad():
        parts = [model.log_likelihood(part).ravel() for part in rows.split(1024)]
    return float(torch.cat(parts).mean())


def cutset_networks(train: torch.Tensor, valid: torch.Tensor, limit: float) -> Iterator[Any]:
    for size in (2000, 500, 100, 20):
        yield learn_cnet(train, cardinalities=2, min_instances_slice=size, seed=0)


def hidden_trees(train: torch.Tensor, valid: torch.Tensor, limit: float) -> Iterator[Any]:
    for n_hidden in (8, 16, 32, 64):
        torch.manual_seed(0)
        # A random start has transitions that do not depend on the state of the parent.
        model = learn_hclt_binary(train, num_hidden_cats=n_hidden, init="uniform")
        optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
        batches = DataLoader(train, batch_size=_BATCH, shuffle=True)
        best, missed = -np.inf, 0
        while missed < _PATIENCE:
            for batch in batches:
                optimizer.zero_grad()
                (-model.log_likelihood(batch).mean()).backward()
                optimizer.step()
            last = score(model, valid)
            missed = 0 if last > best else missed + 1
            if last > best:
                best = last
                yield model


def learned_spn(train: torch.Tensor, valid: torch.Tensor, limit: float) -> Iterator[Any]:
    torch.manual_seed(0)
    leaves = Bernoulli(scope=Scope(list(range(train.shape[1]))), out_channels=4)
    yield learn_spn(train, leaves)


def continuous_mixture(train: torch.Tensor, valid: torch.Tensor, limit: float) -> Iterator[Any]:
    settings = {"leaf": "bernoulli", "val_data": valid}
    start = time.process_time()
    yield continuous_mixtures.learn_continuous_mixture_cltree(train, num_epochs=1, **settings)
    one = time.process_time() - start
    n_epochs = min(300, int((limit - one) / one))
    if n_epochs > 1:
        yield continuous_mixtures.learn_continuous_mixture_cltree(
            train, num_epochs=n_epochs, **settings
        )


LEARNERS: dict[str, Callable[..., Iterator[Any]]] = {
    "SPFlow, LearnSPN (``learn_spn``)": learned_spn,
    "SPFlow, cutset network (``learn_cnet``)": cutset_networks,
    "SPFlow, tree of hidden variables (``learn_hclt_binary``)": hidden_trees,
    "SPFlow, continuous mixture of Chow-Liu trees": continuous_mixture,
}
OURS: dict[str, Any] = {
    "``CutsetNetworkBD()``": CutsetNetworkBD(),
    "``HiddenChowLiuTree()``": HiddenChowLiuTree(random_state=0),
    "``SoftLearnSPN()``": SoftLearnSPN(random_state=0),
    "``ExtraCutsets()``": ExtraCutsets(random_state=0),
    "``StackedDensity()``": StackedDensity(random_state=0),
}


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after some CPU seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def measure(learn: Callable[..., Iterator[Any]], data: Any, limit: float) -> str:
    """Test score of the model that validation rows prefer, among those made within the limit.

    A learner that fails after it has made a model keeps that model's score.
    """
    train, valid, test = (
        torch.tensor(rows, dtype=torch.float32) for rows in (data.train, data.valid, data.test)
    )
    best, of_test, start, error_text = -np.inf, float("nan"), time.process_time(), ""
    try:
        with time_limit(limit):
            for model in learn(train, valid, limit):
                of_valid = score(model, valid)
                if of_valid > best:
                    best, of_test = of_valid, score(model, test)
    except TimeoutError:
        error_text = "no model within the limit"
    except RuntimeError as error:
        error_text = str(error)
    if np.isnan(of_test):
        print(f"failed: {error_text[:100]}")
        return "fails"
    return _cell(of_test, time.process_time() - start)


def measure_ours(model: Any, data: Any) -> str:
    """Test score of a model of skpc, which the first of two fits compiles."""
    train, valid, test = (rows.astype(float) for rows in (data.train, data.valid, data.test))
    model.set_params(categories=[[0, 1]] * data.n_features)
    takes_held_out = not isinstance(model, (CutsetNetworkBD, ExtraCutsets))
    for rows, held_out in ((train[:300], valid[:100]), (train, valid)):
        start = time.process_time()
        model.fit(rows, **({"X_val": held_out} if takes_held_out else {}))
        seconds = time.process_time() - start
    return _cell(model.score(test), seconds)


def _cell(log_density: float, seconds: float) -> str:
    return f"{log_density:.3f} ({round(seconds) or 'below 1'} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "audio", "accidents"])
    parser.add_argument("--minutes", type=float, default=20.0, help="CPU minutes of a learner")
    add_write(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cells: dict[str, list[str]] = {title: [title] for title in (*LEARNERS, *OURS)}
    for name in options.names:
        data = fetch_debd(name)
        for title, learn in LEARNERS.items():
            cells[title].append(measure(learn, data, 60.0 * options.minutes))
            print(f"{name:12s} {title:60s}{cells[title][-1]}", flush=True)
        for title, model in OURS.items():
            cells[title].append(measure_ours(model, data))
            print(f"{name:12s} {title:60s}{cells[title][-1]}", flush=True)
    write(options.write, "coming_from_spflow", [["learner", *options.names], *cells.values()])


if __name__ == "__main__":
    main()
