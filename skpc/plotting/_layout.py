"""Blocks of texts in layers, with edges from each block to those below it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.plotting._canvas import (
    BLUE,
    GREY,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    ORANGE,
    Page,
    text_width,
)

# All in ems.
HALF_BOX = 0.95
_PADDING = 0.5
_STEEPNESS = 0.05
_MARGIN = 1.5
#: At some resolutions the letters of a line are rounded up to whole pixels, most of them.
_ROUNDING = 1.1


def _boxed(shape: str, edge: str, face: str, ha: str) -> dict[str, Any]:
    frame = {"boxstyle": shape, "edgecolor": edge, "facecolor": face, "linewidth": 1.0}
    return {"bbox": frame, "ha": ha, "zorder": 3}


#: How texts look. Those of a list start at their left ends, so that they are flush in any font.
_STYLES: dict[str, dict[str, Any]] = {
    "cut": _boxed("round4,pad=0.5", BLUE, LIGHT_BLUE, "center"),
    "variable": _boxed("square,pad=0.4", ORANGE, LIGHT_ORANGE, "left"),
    "sum": _boxed("circle,pad=0.3", BLUE, LIGHT_BLUE, "center"),
    "product": _boxed("circle,pad=0.3", ORANGE, LIGHT_ORANGE, "center"),
    "label": {"ha": "center"},
    "note": {"ha": "left", "color": GREY},
    "upright": {"ha": "center", "va": "top", "rotation": 90},
}


class Block:
    """Texts that stand together in a layer, and what is below them.

    Places of texts and arrows are relative to the end of an edge from above. ``below`` holds the
    numbers of other blocks, ``weights`` the texts on the edges to them, if there are any.
    """

    def __init__(self, layer: int) -> None:
        self.layer = layer
        self.below: list[int] = []
        self.weights: list[str] = []
        self.texts: list[tuple[float, float, str, str]] = []
        self.arrows: list[list[tuple[float, float]]] = []
        self.left = self.right = self.height = 0.0

    def write(self, x: float, y: float, text: str, style: str) -> None:
        """Add a text and make room for it and its frame."""
        width, half_height = text_width(text), HALF_BOX
        if style == "upright":
            width, half_height = 0.3, width
        start = x - width / 2 if _STYLES[style]["ha"] == "center" else x
        self.texts.append((x, y, text, style))
        self.left = max(self.left, _PADDING - start)
        self.right = max(self.right, start + width + _PADDING)
        self.height = max(self.height, y + half_height)


class Spacing(NamedTuple):
    """The least distances between neighbours and between layers."""

    x: float
    y: float


def draw_blocks(caller: str, blocks: list[Block], spacing: Spacing, key: str, ax: Any) -> Any:
    """Draw blocks, each one before those below it, over a line that explains them.

    Returns the axes.
    """
    x = _columns(blocks, spacing.x)
    y = _layers(blocks, x, spacing.y)
    drawn = max(at + block.right for at, block in zip(x, blocks))
    width = max(drawn, _ROUNDING * text_width(key)) + 2 * _MARGIN
    height = max(at + block.height for at, block in zip(y, blocks)) + 5 * _MARGIN
    page = Page.prepare(caller, ax, width, height)
    x, y = x + (width - drawn) / 2, y + _MARGIN
    for number, block in enumerate(blocks):
        for arrow in block.arrows:
            page.edge([(x[number] + dx, y[number] + dy) for dx, dy in arrow], arrow=True)
        start = x[number], y[number] + block.height
        for child in block.below if block.texts else ():
            page.edge([start, (x[child], y[child])], arrow=False)
        for child, weight in zip(block.below, block.weights):
            _write_weight(page, start, (x[child], y[child]), weight, len(block.below))
        for dx, dy, text, style in block.texts:
            page.write(x[number] + dx, y[number] + dy, text, **_STYLES[style])
    page.write(width / 2, height - _MARGIN, key, color=GREY)
    return page.ax


def _write_weight(page: Page, start: Any, end: Any, weight: str, n_edges: int) -> None:
    """Write on an edge, at a place where edges from the same block are apart."""
    frame = {"boxstyle": "square,pad=0.1", "edgecolor": "none", "facecolor": "white"}
    down = 0.5 if n_edges <= 2 else 0.75
    at = [(1 - down) * a + down * b for a, b in zip(start, end)]
    page.write(at[0], at[1], weight, bbox=frame, fontsize=0.85 * page.font_size)


def _columns(blocks: list[Block], gap: float) -> Floats:
    """Put each block over the middle of those below it that no block before has taken.

    A block and all that was put below it have their columns for themselves, so nothing overlaps.
    """
    taken: set[int] = set()
    own: list[list[int]] = []
    for block in blocks:
        own.append([child for child in dict.fromkeys(block.below) if child not in taken])
        taken.update(own[-1])
    left, right = [b.left for b in blocks], [b.right for b in blocks]
    x = np.zeros(len(blocks))
    for number in reversed(range(len(blocks))):
        if not own[number]:
            continue
        end = -gap
        for child in own[number]:
            x[child] = end + gap + left[child]
            end = x[child] + right[child]
        first, last = own[number][0], own[number][-1]
        x[own[number]] -= (x[first] + x[last]) / 2
        left[number] = max(left[number], left[first] - x[first])
        right[number] = max(right[number], right[last] + x[last])
    x[0] = left[0]
    for number, children in enumerate(own):
        x[children] += x[number]
    return x


def _layers(blocks: list[Block], x: Floats, gap: float) -> Floats:
    """The top of each block: that of its layer."""
    room = np.zeros(1 + max(block.layer for block in blocks))
    for block in blocks:
        if block.texts and block.below:
            # Edges to far blocks need some height, or they would lie on each other.
            needed = block.height + max(gap, _STEEPNESS * float(np.ptp(x[block.below])))
            room[block.layer] = max(room[block.layer], needed)
    return (np.cumsum(room) - room)[[block.layer for block in blocks]]
