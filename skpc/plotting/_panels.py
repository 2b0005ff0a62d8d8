"""One panel for one cell: bars of a category, the density of a number, or an observed mark."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc.plotting._canvas import BLUE, LIGHT_BLUE, ORANGE
from skpc.plotting._names import shown_value
from skpc.variables import Axis, Bins, Predictive

_MAX_BARS = 12
_TAIL_LENGTH = 3.0
_TAIL_POINTS = 30
#: Numbers without bins are drawn from this quantile to the one as far from the other end.
_COVERED = 0.001
_GRID_POINTS = 301


def draw_states(
    panel: Any, probability: Floats, categories: NDArray[Any], observed: float | None
) -> None:
    """Draw a bar for each category, or a mark on the observed one; the first one on top."""
    shown, rest = _most_probable(probability)
    labels = [shown_value(categories[state]) for state in shown]
    lengths = probability[shown].tolist()
    if rest:
        labels.append(f"({rest} others)")
        lengths.append(max(1.0 - sum(lengths), 0.0))
    place = np.arange(len(labels))
    panel.set_yticks(place, labels)
    panel.set_ylim(len(labels) - 0.4, -0.6)
    if observed is None:
        panel.barh(place, lengths, height=0.65, color=LIGHT_BLUE, edgecolor=BLUE)
        for at, length in zip(place, lengths):
            panel.text(length + 0.03, at, f"{length:.2f}", va="center", fontsize="small")
        panel.set_xlim(0, 1.25)
        panel.set_xticks([0, 0.5, 1])
        panel.set_xlabel("probability")
    else:
        _mark(panel, 0.0, shown.index(int(observed)))
        panel.set_xticks([])
    panel.spines[["top", "right"]].set_visible(False)


def draw_density(panel: Any, cell: Predictive, observed: float | None) -> None:
    """Draw the density of a number and its atoms, or a mark at the observed one.

    An atom is a line as high as its probability, where the panel's height is one.
    """
    x, density = _outline(cell)
    low, high = x[0], x[-1]
    panel.set_yticks([])
    if observed is None:
        atoms, probability = cell.atoms, cell.atom_probabilities()[0]
        low, high = min(low, *atoms, low), max(high, *atoms, high)
        height = panel.get_xaxis_transform()
        panel.vlines(atoms, 0.0, probability, color=BLUE, linewidth=2.0, transform=height)
        panel.fill_between(x, density, color=LIGHT_BLUE)
        panel.plot(x, density, color=BLUE)
        panel.set_ylim(bottom=0.0)
        panel.set_ylabel("density")
    else:
        low, high = min(low, observed), max(high, observed)
        _mark(panel, observed, 0.0)
        panel.set_ylim(-0.5, 4.0)
        panel.set_xlabel(f"= {shown_value(observed)}")
    margin = 0.03 * (high - low)
    panel.set_xlim(low - margin, high + margin)
    panel.spines[["top", "right"]].set_visible(False)


def _mark(panel: Any, x: float, y: float) -> None:
    panel.plot([x], [y], marker="D", markersize=8, color=ORANGE, linestyle="none", clip_on=False)


def _most_probable(probability: Floats) -> tuple[list[int], int]:
    """States to show, in their order, and the number of those left out."""
    n_states = len(probability)
    if n_states <= _MAX_BARS:
        return list(range(n_states)), 0
    best = np.argsort(-probability, kind="stable")[: _MAX_BARS - 1]
    return sorted(best.tolist()), n_states - _MAX_BARS + 1


def _outline(cell: Predictive) -> tuple[Floats, Floats]:
    """Points of the outline of a density: of its bins if it has any, else of its slope."""
    term, probability = cell.terms[0], cell.probabilities
    if isinstance(term, Bins) and probability is not None:
        return _steps(term.prob[0] / term.prob[0].sum(), term.axis)
    low, high = (float(cell.quantile(level)[0]) for level in (_COVERED, 1.0 - _COVERED))
    if low == high:
        low, high = low - 0.5, high + 0.5
    x = np.linspace(low, high, _GRID_POINTS)
    below = np.array([sum(term.below(np.array([at]))[0] for term in cell.terms) for at in x])
    # Atoms are drawn by themselves.
    below -= (x[:, np.newaxis] >= cell.atoms) @ cell.atom_probabilities()[0]
    return (x[1:] + x[:-1]) / 2, np.diff(below) / np.diff(x)


def _steps(probability: Floats, axis: Axis) -> tuple[Floats, Floats]:
    """Steps over the bins, from far in one exponential tail to far in the other."""
    edges, lower_scale, upper_scale = axis[:3]
    away = np.linspace(0.0, _TAIL_LENGTH, _TAIL_POINTS)
    fall = np.exp(-away)
    cells = np.where(np.isnan(axis.points), probability @ axis.mixing, 0.0)
    flat = cells[1:-1] / np.diff(edges)
    below = (edges[0] - lower_scale * away)[::-1], (cells[0] / lower_scale * fall)[::-1]
    above = edges[-1] + upper_scale * away, cells[-1] / upper_scale * fall
    inner = np.repeat(edges, 2)[1:-1], np.repeat(flat, 2)
    x, density = zip(below, inner, above)
    return np.concatenate(x), np.concatenate(density)
