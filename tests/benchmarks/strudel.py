"""Strudel on the Twenty Datasets: how much of the way from a Chow-Liu tree to the published column.

    SKPC_DATA=... python -m tests.benchmarks.strudel [names ...] [--components 1 10]
        [--max-splits N]

Mean log-likelihoods of the test rows (nats) of one Chow-Liu tree, of the published column and of
our models, learned from the training rows; validation rows choose the splits and iterations.
The published mixtures have few splits: --components 10 --max-splits 100 is what the ledger has.
"share" is the part of the gap between the tree and the published column.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from skpc import CutsetNetworkBD, Strudel
from skpc.datasets import fetch_debd
from tests.benchmarks.published import column

NAMES = ["nltcs", "msnbc", "kdd", "plants", "audio", "jester", "netflix", "accidents", "retail"]
#: Names of the loader where they are not those of the paper.
FILES = {"audio": "baudio", "netflix": "bnetflix", "retail": "tretail"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--components", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--max-splits", type=int, default=1000)
    options = parser.parse_args()
    published = column("bayesian_scores/table_1", "Strudel")
    print("set        components  Chow-Liu  published      ours   share  splits     edges  CPU s")
    for name in options.names or NAMES:
        for n_components in options.components:
            start = time.process_time()
            figures = learn(name, n_components, options.max_splits)
            seconds = time.process_time() - start
            score = figures["test_ll"]
            tree = figures["tree_ll"]
            share = (score - tree) / (published[name] - tree)
            print(
                f"{name:10s} {n_components:10d} {tree:9.3f} {published[name]:10.3f} {score:9.3f} "
                f"{share:7.2f} {figures['splits']:7d} {figures['edges']:9d} {seconds:6.1f}",
                flush=True,
            )


def learn(name: str, n_components: int, max_splits: int) -> dict[str, Any]:
    """Log-likelihoods of test rows (nats) of our model and of a Chow-Liu tree, and its size."""
    data = fetch_debd(FILES.get(name, name))
    train, valid, test = (part.astype(float) for part in (data.train, data.valid, data.test))
    states = [[0, 1]] * data.n_features
    model = Strudel(
        n_components=n_components, max_splits=max_splits, categories=states, random_state=0
    )
    model.fit(train, X_val=valid)
    return {
        "test_ll": model.score(test),
        "tree_ll": CutsetNetworkBD(max_depth=0, categories=states).fit(train).score(test),
        "splits": model.n_splits_,
        "edges": model.circuit_.n_edges,
    }


if __name__ == "__main__":
    main()
