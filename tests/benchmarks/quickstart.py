"""The comparisons of ``examples/plot_quickstart.py`` on twenty splits, for the table it prints.

The example runs as it is, with other seeds, up to its comparisons; the imputer without a density,
which compares several, is measured beside it. The table is written to
``doc/user_guide/quickstart.csv``. An error of numbers is the mean over the splits, diagnoses are
counted over all of them. A gap is to the first estimator of the same task, on the same splits;
behind ± is a standard error over the splits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from skpc import CircuitImputer
from tests.benchmarks.guide_tables import write
from tests.benchmarks.numbers_tables import of_splits

_ROOT = Path(__file__).parents[2]
_EXAMPLE = _ROOT / "examples" / "plot_quickstart.py"
_GUIDE = _ROOT / "doc" / "user_guide"
_SEED = "\nseed = 0\n"
_DEFAULT = "CircuitImputer by default"
_HEADER = ("estimator", "error of numbers", "gap", "right diagnoses", "gap in points")


def compared(seed: int) -> dict[str, Any]:
    """The names of the example after its comparisons, with another seed."""
    before, after = _EXAMPLE.read_text(encoding="utf-8").split(_SEED)
    names: dict[str, Any] = {}
    for cell in f"{before}\nseed = {seed}\n{after}".split("\n# %%\n"):
        exec(compile(cell, _EXAMPLE.name, "exec"), names)
        if "filled" in names and _DEFAULT not in names["filled"]:
            imputer = CircuitImputer(random_state=0).set_output(transform="pandas")
            names["filled"][_DEFAULT] = imputer.fit(names["train"]).transform(names["test"])
        if "predicted" in names:
            break
    return names


def rows_of(splits: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of the table: first what fills missing cells, then what predicts classes."""
    rows = []
    hidden = np.array([split["unknown"].sum() for split in splits])
    held_out = np.array([len(split["test"]) for split in splits])
    errors = _columns(splits, "errors")
    for counts, cells in (
        (_columns(splits, "right"), hidden),
        (_columns(splits, "predicted"), held_out),
    ):
        reference = next(iter(counts))
        for name, right in counts.items():
            row = [
                name,
                "",
                "",
                f"{right.sum()} of {cells.sum()} ({right.sum() / cells.sum():.1%})",
                "",
            ]
            if name in errors:
                row[1] = str(of_splits(errors[name]))
            if name != reference:
                row[4] = _points(right - counts[reference], cells)
            if name in errors and name != reference:
                row[2] = str(of_splits(errors[name] - errors[reference]))
            rows.append(row)
    return rows


def _columns(splits: list[dict[str, Any]], figure: str) -> dict[str, np.ndarray]:
    """A value a split of each estimator."""
    return {name: np.array([split[figure][name] for split in splits]) for name in splits[0][figure]}


def _points(gaps: np.ndarray, cells: np.ndarray) -> str:
    """Percent of all cells; the error is that of a ratio, since splits differ in cells."""
    share = gaps.sum() / cells.sum()
    error = np.sqrt(len(gaps)) * np.std(gaps - share * cells, ddof=1) / cells.sum()
    return f"{100 * share:+.1f} ±{100 * error:.1f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of splits (default: 20)")
    options = parser.parse_args(arguments)
    rows = rows_of([compared(seed) for seed in range(options.seeds)])
    write(_GUIDE, "quickstart", [_HEADER, *rows])


if __name__ == "__main__":
    main()
