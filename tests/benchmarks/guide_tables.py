"""Tables of the user guide: a benchmark writes a file, and a page shows it.

With ``--write doc/user_guide`` a benchmark writes each table as a file beside the pages, heads
first. ``tests/test_guide_figures.py`` compares the figures that sentences repeat with these files.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--write``."""
    parser.add_argument("--write", type=Path, help="folder of the guide's tables")


def write(folder: Path | None, name: str, rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, its heads first, where there is a folder."""
    if folder is not None:
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(rows)


def with_error(mean: float, error: float, digits: int) -> str:
    """A mean and its standard error."""
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
