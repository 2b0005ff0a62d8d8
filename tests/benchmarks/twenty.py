"""Every density on the Twenty Datasets, and their stack, and the best published figures.

    SKPC_DATA=... python -m tests.benchmarks.twenty [names ...] [--slow | --forest]
        [--keep FOLDER] [--write FILE]

Train rows are learned from; validation rows weigh the members of the stack, end training and choose
numbers of hidden states and components; test rows are only scored. Both states of all columns are
declared. CPU seconds are of one thread, compiled code. With --slow there is a stack of more and
larger members: hidden trees of 64 states, more seeds, mixtures of cutset networks of several sizes,
and a mixture of all trees, which has a column of its own. With --forest there is HiddenForest
alone, which learns from the training rows. --keep reads and writes the figures of each set in a
folder; --write writes the table of the docs.

The last column is the share of the test rows that are training rows too. Some members come close to
knowing these by heart. "published" has the best figure of the five papers' tables (test rows), and
"elsewhere" a better one of two other papers, where there is one. Later work (continuous mixtures of
trees, quadrature circuits) is higher on some sets.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from sklearn.base import clone

from skpc import (
    CutsetNetworkBD,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
)
from skpc.datasets import fetch_debd
from tests.benchmarks.published import ELSEWHERE, PUBLISHED

COLUMNS = ["hidden", "soft", "cutset", "random cuts", "stack", "trees", "slow stack"]
LAST = ["published", "elsewhere", "seen"]
#: Names of members of the two stacks, and their columns.
ALONE = {
    "stack": {
        "hidden": "hidden",
        "soft": "soft",
        "cutset": "cutset",
        "random_cuts": "random cuts",
    },
    "slow stack": {"trees": "trees"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PUBLISHED))
    parser.add_argument(
        "--slow", action="store_true", help="a larger stack, with a mixture of all trees"
    )
    parser.add_argument("--forest", action="store_true", help="HiddenForest alone")
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    parser.add_argument("--write", type=Path, help="file for the table of the docs")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(PUBLISHED))
    if unknown:
        parser.error(f"unknown sets {unknown}; choose from {list(PUBLISHED)}")
    columns = COLUMNS if options.slow else COLUMNS[:5]
    parts = ["stack", "slow stack"] if options.slow else ["stack"]
    if options.forest:
        columns = ["forest"]
        parts = ["forest"]
    print(f"{'set':12s}", *(f"{name:>18s}" for name in [*columns, *LAST]))
    found = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in options.names:
            try:
                found[name] = _figures(pool, name, parts, options.keep)
            except OSError as error:
                print(f"{name:12s} is not present: {error}")
                continue
            cells = _cells(name, found[name], columns)
            print(f"{name:12s}", *(f"{cell:>18s}" for cell in cells), flush=True)
    if options.write:
        options.write.write_text(_table(found, columns))


def _figures(pool: Any, name: str, parts: list[str], keep: Path | None) -> dict[str, Any]:
    """Test log-likelihoods and CPU seconds of everything on one set."""
    found: dict[str, Any] = {}
    for part in parts:
        path = keep and keep / f"{name}_{part.replace(' ', '_')}.json"
        if path and path.exists():
            found |= json.loads(path.read_text())
            continue
        measured = pool.submit(_measure, name, part).result()
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(measured))
        found |= measured
    data = fetch_debd(name)
    trained = {row.tobytes() for row in data.train}
    found["seen"] = sum(row.tobytes() in trained for row in data.test) / len(data.test)
    return found


def _measure(name: str, part: str) -> dict[str, Any]:
    data = fetch_debd(name)
    train, valid, test = (rows.astype(float) for rows in (data.train, data.valid, data.test))
    columns = {"categories": [[0, 1]] * data.n_features}
    members = _slow_members() if part == "slow stack" else None
    model: Any = StackedDensity(members, random_state=0, **columns)
    held_out = {"X_val": valid}
    if part == "forest":
        model = HiddenForest(random_state=0, **columns)
        held_out = {}
    # The first fit compiles.
    clone(model).fit(train[:300], **held_out)
    start = time.process_time()
    model.fit(train, **held_out)
    seconds = time.process_time() - start
    found: dict[str, Any] = {part: (model.score(test), seconds)}
    if part == "forest":
        return found
    alone = model.named_estimators_
    found |= {column: (alone[name].score(test), None) for name, column in ALONE[part].items()}
    found[f"weights of {part}"] = dict(zip(alone, model.weights_.round(3).tolist()))
    return found


def _slow_members() -> list[tuple[str, Any]]:
    members: list[tuple[str, Any]] = [("trees", MixtureOfAllTrees(random_state=0))]
    for seed in range(3):
        members += [
            (f"hidden_{seed}", HiddenChowLiuTree(random_state=seed)),
            (f"wide_{seed}", HiddenChowLiuTree(n_hidden=64, random_state=seed)),
            (f"soft_{seed}", SoftLearnSPN(random_state=seed)),
        ]
    return members + [
        (f"cutset_{size}", CutsetNetworkBD(n_components=size, random_state=0))
        for size in (5, 10, 20)
    ]


def _cells(name: str, found: dict[str, Any], columns: list[str]) -> list[str]:
    cells = []
    for column in columns:
        score, seconds = found[column]
        cells.append(f"{score:.3f}" + (f" ({seconds:.0f} s)" if seconds else ""))
    elsewhere = f"{ELSEWHERE[name]:.2f}" if name in ELSEWHERE else "-"
    return [*cells, f"{PUBLISHED[name]:.3f}", elsewhere, f"{found['seen']:.0%}"]


def _table(found: dict[str, Any], columns: list[str]) -> str:
    """The figures as a table for the docs."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    rows = [[name, *_cells(name, figures, columns)] for name, figures in found.items()]
    for cells in (["set", *columns, *LAST], *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
