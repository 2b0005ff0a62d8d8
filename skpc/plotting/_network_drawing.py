"""Where the parts of a cutset network stand on a page."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from skpc.plotting._canvas import BLUE, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, Page, text_width
from skpc.plotting._names import Names
from skpc.plotting._network import Cut, Part, Vertex

__all__ = ["draw_network"]

# All in ems.
_PITCH = 2.3
_INDENT = 1.8
_PADDING = 0.5
_HALF_BOX = 0.95
_GAP = 2.5
_LABEL_HEIGHT = 3.6
_CUT_HEIGHT = 3.0
_MARGIN = 1.5
_KEY_HEIGHT = 3.0


class _Item(NamedTuple):
    """A text with its left end and the middle of its line; ``style`` tells what it is."""

    x: float
    y: float
    text: str
    style: str


class _Line(NamedTuple):
    points: list[tuple[float, float]]
    arrow: bool


class _Block:
    """A rectangle with texts and lines in it; ``anchor`` is where an edge from above ends."""

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.lines: list[_Line] = []
        self.width = self.height = self.anchor = 0.0

    def add_text(self, x: float, y: float, text: str, style: str) -> float:
        """Add a text; return its width, frame included."""
        padding = 0.0 if style in ("label", "note") else 2 * _PADDING
        width = text_width(text) + padding
        self.items.append(_Item(x, y, text, style))
        self.width = max(self.width, x + width)
        self.height = max(self.height, y + _PITCH / 2)
        return width

    def add_block(self, block: _Block, x: float, y: float) -> None:
        """Copy what stands in another block."""
        self.items += [item._replace(x=item.x + x, y=item.y + y) for item in block.items]
        for line in block.lines:
            moved = [(a + x, b + y) for a, b in line.points]
            self.lines.append(line._replace(points=moved))
        self.width = max(self.width, x + block.width)
        self.height = max(self.height, y + block.height)


def draw_network(caller: str, parts: list[Part], names: Names, ax: Any) -> Any:
    """Draw the network, first cut on top, and return the axes."""
    block = _beside([_part_block(part, names) for part in parts])
    width = max(block.width, text_width(_key(parts))) + 2 * _MARGIN
    height = block.height + 2 * _MARGIN + _KEY_HEIGHT
    page = Page.prepare(caller, ax, width, height)
    shift = (width - block.width) / 2
    for line in block.lines:
        page.edge([(x + shift, y + _MARGIN) for x, y in line.points], line.arrow)
    for item in block.items:
        _write(page, item._replace(x=item.x + shift, y=item.y + _MARGIN))
    key = _Item((width - text_width(_key(parts))) / 2, height - _MARGIN, _key(parts), "note")
    _write(page, key)
    return page.ax


def _key(parts: list[Part]) -> str:
    trees = "square boxes: variables of a Chow-Liu tree"
    return f"round boxes: cuts; {trees}" if any(isinstance(p, Cut) for p in parts) else trees


def _write(page: Page, item: _Item) -> None:
    centre = item.x + text_width(item.text) / 2
    if item.style == "cut":
        page.box(centre + _PADDING, item.y, item.text, "round4,pad=0.5", BLUE, LIGHT_BLUE)
    elif item.style == "variable":
        page.box(centre + _PADDING, item.y, item.text, "square,pad=0.4", ORANGE, LIGHT_ORANGE)
    else:
        colour = "#4D4D4D" if item.style == "note" else "black"
        page.write(centre, item.y, item.text, color=colour)


def _part_block(part: Part, names: Names) -> _Block:
    if isinstance(part, Cut):
        return _cut_block(part, names)
    block = _Block()
    for root in part.roots:
        _add_tree(block, root, names, 0.0, 0)
    block.anchor = min(block.width / 2, text_width(block.items[0].text) / 2 + _PADDING)
    return block


def _add_tree(block: _Block, vertex: Vertex, names: Names, x: float, line: int) -> None:
    """Add a vertex and the tree below it, one line each, children indented."""
    y = _HALF_BOX if not block.items else block.items[-1].y + _PITCH
    block.add_text(x, y, names.variable(vertex.variable), "variable")
    trunk, below = x + _INDENT / 2, x + _INDENT
    for child in vertex.children:
        child_y = block.items[-1].y + _PITCH
        block.lines.append(_Line([(trunk, y + 0.8), (trunk, child_y), (below, child_y)], True))
        _add_tree(block, child, names, below, line + 1)
    if vertex.n_hidden:
        block.add_text(below, block.items[-1].y + _PITCH, f"+{vertex.n_hidden} more", "note")


def _cut_block(cut: Cut, names: Names) -> _Block:
    block = _Block()
    name = names.variable(cut.variable)
    name_width = text_width(name) + 2 * _PADDING
    labels, parts = [], []
    for branch in cut.branches:
        share = 100 * math.exp(branch.log_probability)
        labels.append(f"{names.state(cut.variable, branch.state)}\n{share:.3g} %")
        parts.append(_part_block(branch.part, names))
    row, anchors = _Block(), []
    for label, part in zip(labels, parts):
        x = row.width + _GAP if row.items else 0.0
        room = max(text_width(label) / 2 - part.anchor, 0.0)
        anchors.append(x + room + part.anchor)
        row.add_text(anchors[-1] - text_width(label) / 2, _LABEL_HEIGHT / 2, label, "label")
        row.add_block(part, x + room, _LABEL_HEIGHT)
    centre = (anchors[0] + anchors[-1]) / 2 if anchors else name_width / 2
    left = max(name_width / 2 - centre, 0.0)
    block.add_block(row, left, _CUT_HEIGHT + _HALF_BOX) if anchors else None
    block.anchor = centre + left
    block.add_text(block.anchor - name_width / 2, _HALF_BOX, name, "cut")
    return block
