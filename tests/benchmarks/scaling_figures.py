"""Tables and pictures of how estimators grow, as the guide shows them."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt

from tests.benchmarks.guide_tables import write

_DOTS = "..."
#: The least seconds and MiB that are drawn.
_LEAST = 0.01, 1.0


class Figures:
    """What has been measured along an axis: a table in a file of the guide, and its picture.

    A cell of the table is seconds / MiB, dots where a fit has not come to an end, or empty where
    none has been measured.
    """

    def __init__(self, axis: str, folder: Path | None, order: list[str]):
        self.axis, self._order = axis, order
        self._is_kept = folder is not None
        folder = folder or Path()
        self._table = folder / "user_guide" / f"scaling_{axis}.csv"
        self._picture = folder / "images" / f"scaling_{axis}.svg"
        self._cells: dict[tuple[str, float, int], str] = {}
        if self._table.exists():
            with self._table.open(encoding="utf-8", newline="") as lines:
                (_, _, *sizes), *rows = csv.reader(lines)
            for name, missing, *cells in rows:
                for size, cell in zip(sizes, cells):
                    key = name, _rate(missing), int(size.replace(",", ""))
                    self._cells[key] = cell

    def enter(
        self, name: str, missing: float, size: int, seconds: float | None, mebibytes: float | None
    ) -> None:
        """Enter a fit, and write table and picture anew."""
        cell = _DOTS
        if seconds is not None and mebibytes is not None:
            cell = f"{seconds:.{0 if seconds >= 9.95 else 1 if seconds >= 0.95 else 2}f}"
            cell = f"{cell} / {mebibytes:,.0f}"
        self._cells[name, missing, size] = cell
        if self._is_kept:
            self._write()
            self._draw()

    def _rows(self) -> list[tuple[str, float]]:
        named = {(name, missing) for name, missing, _ in self._cells}
        return sorted(named, key=lambda row: (self._order.index(row[0]), row[1]))

    def _write(self) -> None:
        sizes = sorted({size for _, _, size in self._cells})
        rows = [["", "missing", *(f"{size:,}" for size in sizes)]]
        for name, missing in self._rows():
            cells = [self._cells.get((name, missing, size), "") for size in sizes]
            rows.append([name, f"{100 * missing:.0f} %", *cells])
        write(self._table.parent, self._table.stem, rows)

    def _draw(self) -> None:
        rates = sorted({missing for _, missing in self._rows()})
        with plt.style.context(["tableau-colorblind10", {"svg.fonttype": "none"}]):
            fig, axes = plt.subplots(
                2,
                len(rates),
                figsize=(2.6 + 3.6 * len(rates), 6.0),
                sharex=True,
                sharey="row",
                squeeze=False,
                layout="constrained",
            )
            for column, rate in enumerate(rates):
                for number, name in enumerate(self._order):
                    curve = self._curve(name, rate)
                    if not curve:
                        continue
                    for row in range(2):
                        axes[row, column].loglog(
                            [size for size, *_ in curve],
                            [max(both[row], _LEAST[row]) for _, *both in curve],
                            label=name,
                            color=f"C{number}",
                            marker="o",
                            markersize=4,
                        )
                title = f"{100 * rate:.0f} % of cells missing" if rate else "complete"
                axes[0, column].set_title(title)
                axes[1, column].set_xlabel(self.axis)
            axes[0, 0].set_ylabel("fit, CPU seconds")
            axes[1, 0].set_ylabel("growth of memory, MiB")
            handles, labels = axes[0, 0].get_legend_handles_labels()
            fig.legend(handles, labels, loc="outside right center", frameon=False)
            fig.savefig(self._picture)
            plt.close(fig)

    def _curve(self, name: str, rate: float) -> list[tuple[int, float, float]]:
        """Sizes, seconds and MiB."""
        found = list[tuple[int, float, float]]()
        for (own, missing, size), cell in sorted(self._cells.items()):
            if (own, missing) == (name, rate) and cell not in (_DOTS, ""):
                seconds, mebibytes = cell.split(" / ")
                found.append((size, float(seconds), float(mebibytes.replace(",", ""))))
        return found


def _rate(printed: str) -> float:
    return float(printed.removesuffix(" %")) / 100
