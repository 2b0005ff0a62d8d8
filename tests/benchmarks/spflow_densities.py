"""SPFlow 1.1.0 (on torch) beside skpc, on binary tables, with a limit of CPU time for each learner.

In an environment of its own:

    pip install -e . spflow==1.1.0
    SKPC_DATA=... python -m tests.benchmarks.spflow_densities [names ...] [--minutes 20]

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
    "LearnSPN": learned_spn,
    "cutset network": cutset_networks,
    "hidden tree": hidden_trees,
    "continuous mixture": continuous_mixture,
}
OURS: dict[str, Any] = {
    "cutset network": CutsetNetworkBD(),
    "hidden tree": HiddenChowLiuTree(random_state=0),
    "SoftLearnSPN": SoftLearnSPN(random_state=0),
    "random cuts": ExtraCutsets(random_state=0),
    "stack": StackedDensity(random_state=0),
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
    """Test score of the model that validation rows prefer, among those made within the limit."""
    train, valid, test = (
        torch.tensor(rows, dtype=torch.float32) for rows in (data.train, data.valid, data.test)
    )
    best, of_test, start, ended = -np.inf, float("nan"), time.process_time(), ""
    try:
        with time_limit(limit):
            for model in learn(train, valid, limit):
                of_valid = score(model, valid)
                if of_valid > best:
                    best, of_test = of_valid, score(model, test)
    except TimeoutError:
        ended = ", at the limit"
    except RuntimeError as error:
        ended = f", fails: {str(error)[:60]}"
    return f"{of_test:10.3f}  {time.process_time() - start:.0f} s{ended}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "audio", "accidents"])
    parser.add_argument("--minutes", type=float, default=20.0, help="CPU minutes of a learner")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in options.names:
        data = fetch_debd(name)
        for learner, learn in LEARNERS.items():
            text = measure(learn, data, 60.0 * options.minutes)
            print(f"{name:12s} SPFlow  {learner:20s}{text}", flush=True)
        train, valid, test = (rows.astype(float) for rows in (data.train, data.valid, data.test))
        for learner, model in OURS.items():
            model.set_params(categories=[[0, 1]] * data.n_features)
            for rows, held in ((train[:300], valid[:100]), (train, valid)):
                start = time.process_time()
                takes_rows = learner not in ("cutset network", "random cuts")
                model.fit(rows, **({"X_val": held} if takes_rows else {}))
            seconds = time.process_time() - start
            print(f"{name:12s} skpc    {learner:20s}{model.score(test):10.3f}  {seconds:.0f} s")


if __name__ == "__main__":
    main()
