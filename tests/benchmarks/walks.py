"""Modules that a call goes through: the files of skpc/ whose functions it enters.

``python -m tests.benchmarks.walks`` prints a line for each call, ``-v`` the files too, by package.
A file counts once, however often it is entered; one that is only imported does not count. Kernels
are no Python functions while they run, so that a file counts if the call gets to it by Python.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import skpc
from skpc import CutsetNetworkBD, DensityClassifier, TableMixture

PACKAGE = Path(skpc.__file__).parent
#: How many files each call should enter at most.
AIMS = {"score_samples": 12, "complete": 18, "mixture fit": 35, "classifier fit": 60}


def entered(call: Callable[[], Any]) -> list[str]:
    """The files of skpc/ that have a function entered by a call, in any thread."""
    files = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        # The code of a module runs when it is imported.
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(file) for file in files)
    return sorted(str(path.relative_to(PACKAGE)) for path in paths if PACKAGE in path.parents)


def mixed_table(n_rows: int = 300) -> np.ndarray:
    """Two categories and three numbers that depend on them, with a tenth of the cells missing."""
    rng = np.random.default_rng(0)
    groups, noise = rng.integers(0, 3, n_rows), rng.normal(size=(n_rows, 3))
    other = (groups + rng.integers(0, 2, n_rows)) % 3
    table = np.column_stack([groups, other, noise + groups[:, np.newaxis]])
    table[rng.random(table.shape) < 0.1] = np.nan
    return table


def calls() -> dict[str, Callable[[], Any]]:
    """The calls that the issue names, on a small mixed table and a binary one."""
    table = mixed_table()
    complete = np.where(np.isnan(table), 0.0, table)
    binary = np.random.default_rng(0).integers(0, 2, (300, 8)).astype(np.float64)
    labels = (complete[:, 0] > 1).astype(int)
    network = CutsetNetworkBD(random_state=0).fit(complete)
    blocks = TableMixture(random_state=0).fit(complete)
    mixture = CutsetNetworkBD(n_components=5, random_state=0)
    return {
        "score_samples": lambda: network.score_samples(complete),
        "complete": lambda: blocks.complete(table),
        "mixture fit": lambda: mixture.fit(binary),
        "classifier fit": lambda: DensityClassifier(random_state=0).fit(complete, labels),
    }


def main() -> None:
    """Print how many files each call enters."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks.walks", description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="name the files")
    parser.add_argument("--only", choices=AIMS, help="one call alone")
    options = parser.parse_args()
    for name, call in calls().items():
        if options.only in (None, name):
            files = entered(call)
            print(f"{name}: {len(files)} files (aim {AIMS[name]})", flush=True)
            if options.verbose:
                print_by_package(files)


def print_by_package(files: list[str]) -> None:
    """A line for each package, and one for the files above them."""
    packages = defaultdict(list)
    for file in files:
        package, _, module = file.rpartition("/")
        packages[package or "(root)"].append(module.removesuffix(".py"))
    for package, modules in packages.items():
        print(f"    {package}: {', '.join(modules)}")


if __name__ == "__main__":
    main()
