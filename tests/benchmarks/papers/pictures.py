"""Learning time against likelihood: figure 2 of Bayesian scores with our networks in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt

from tests.benchmarks.debd import COLUMN
from tests.benchmarks.papers.bayesian_scores import published_points
from tests.benchmarks.papers.ledger import Figures
from tests.benchmarks.published import PUBLISHED

#: Where the pages find it.
PARETO = "papers_pareto.png"


def draw_pareto(cache: Mapping[str, Figures], path: Path) -> None:
    """A panel for each measured set: published learners in grey, their BD and BIC, and ours."""
    sets = [n for n in PUBLISHED if all(f"cutset/{criterion}/{n}" in cache for criterion in COLUMN)]
    if not sets:
        return
    colours = dict(zip(COLUMN.values(), ("#0072B2", "#D55E00")))
    n_rows = -(-len(sets) // 5)
    figure, axes = plt.subplots(
        n_rows, 5, figsize=(13, 2.6 * n_rows), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes.flat, sets):
        for title, point in published_points(name).items():
            colour = colours.get(title, "#999999")
            ax.plot(*point, "o", mfc="none", color=colour, ms=5)
            if title not in colours:
                ax.annotate(title, point, fontsize=6, color=colour)
        for criterion, title in COLUMN.items():
            found = cache[f"cutset/{criterion}/{name}"]["figures"]
            ax.plot(found["fit_s"], found["test_ll"], "o", color=colours[title], ms=6)
        ax.set(title=name, xscale="log")
    for ax in axes.flat[len(sets) :]:
        ax.set_axis_off()
    for title, colour in colours.items():
        axes.flat[0].plot([], [], "o", color=colour, label=f"{title}, ours")
        axes.flat[0].plot([], [], "o", mfc="none", color=colour, label=f"{title}, paper")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", frameon=False, ncols=4)
    figure.supxlabel("seconds of learning")
    figure.supylabel("test log-likelihood")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)
