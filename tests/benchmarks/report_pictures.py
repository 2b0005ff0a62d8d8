"""Pictures of the report: curves against the share of missing cells, read from printed tables."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

__all__ = ["accuracy_curves", "error_curves"]

#: A panel: its title, where the curves have their points, and the curves by name.
Panel = tuple[str, list[float], dict[str, list[float]]]
#: Ours come first, in this style; others are dashed.
_OURS = {"pool", "densities alone", "exact"}


def accuracy_curves(printed: str, path: Path) -> None:
    """Accuracies of ``tests.benchmarks.classification``, a panel for each table."""
    panels: list[Panel] = []
    wanted = False
    for line in printed.splitlines():
        if not line.startswith(" "):
            name, _, heads = line.partition(", accuracy ")
            wanted = bool(heads)
            if wanted:
                rates = [float(head) for head in heads.split() if head not in ("mar", "mnar")]
                panels.append((name, rates, {}))
        elif wanted:
            values = line[34:].split()
            panels[-1][2][line[:34].strip()] = [float(value) for value in values[: len(rates)]]
    _draw(panels, "accuracy", path)


def error_curves(printed: str, path: Path) -> None:
    """Errors of ``tests.benchmarks.expected_kernel quality``, a panel for each table."""
    panels: list[Panel] = []
    for line in printed.splitlines():
        cells = line.split()
        if line.endswith(tuple("0123456789")) and ":" in line:
            name = line.split(":")[0]
        elif cells and cells[0] == "missing":
            panels.append((name, [], {label: [] for label in cells[1:]}))
        elif cells:
            _, rates, curves = panels[-1]
            rates.append(float(cells[0]))
            for curve, cell in zip(curves.values(), cells[1:]):
                curve.append(float(cell))
    _draw(panels, "root mean squared error", path)


def _draw(panels: list[Panel], unit: str, path: Path) -> None:
    with plt.style.context("tableau-colorblind10"):
        fig, axes = plt.subplots(
            1, len(panels), figsize=(2 + 4 * len(panels), 3.6), squeeze=False, layout="constrained"
        )
        for ax, (name, rates, curves) in zip(axes[0], panels):
            for label, values in curves.items():
                ours = label in _OURS
                ax.plot(
                    rates,
                    values,
                    label=label,
                    linestyle="-" if ours else "--",
                    linewidth=2.2 if ours else 1.4,
                    marker="o" if ours else None,
                    markersize=4,
                )
            ax.set(title=name, xlabel="share of missing cells", ylabel=unit)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside right center", frameon=False)
        fig.savefig(path, dpi=120)
        plt.close(fig)
