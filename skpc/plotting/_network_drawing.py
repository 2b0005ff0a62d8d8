"""Where the parts of a cutset network stand on a page."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from skpc.plotting._canvas import (
    BLUE,
    GREY,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    ORANGE,
    Page,
    caption_width,
    text_width,
)
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
_STEEPNESS = 0.05
_MARGIN = 1.5
_KEY_HEIGHT = 2.5


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
    width = max(block.width, caption_width(_key(parts))) + 2 * _MARGIN
    height = block.height + 2 * _MARGIN + _KEY_HEIGHT
    page = Page.prepare(caller, ax, width, height)
    shift = (width - block.width) / 2
    for line in block.lines:
        page.edge([(x + shift, y + _MARGIN) for x, y in line.points], line.arrow)
    for item in block.items:
        _write(page, item._replace(x=item.x + shift, y=item.y + _MARGIN))
    page.write(width / 2, height - _MARGIN, _key(parts), color=GREY)
    return page.ax


def _key(parts: list[Part]) -> str:
    trees = "square boxes: variables of a Chow-Liu tree"
    return f"round boxes: cuts; {trees}" if any(isinstance(p, Cut) for p in parts) else trees


def _write(page: Page, item: _Item) -> None:
    # Texts start at their left ends, so that the boxes of siblings are flush whatever the font.
    if item.style == "cut":
        page.box(item.x + _PADDING, item.y, item.text, "round4,pad=0.5", BLUE, LIGHT_BLUE)
    elif item.style == "variable":
        page.box(item.x + _PADDING, item.y, item.text, "square,pad=0.4", ORANGE, LIGHT_ORANGE)
    elif item.style == "label":
        page.write(item.x + text_width(item.text) / 2, item.y, item.text)
    else:
        page.write(item.x, item.y, item.text, ha="left", color=GREY)


def _part_block(part: Part, names: Names) -> _Block:
    if isinstance(part, Cut):
        return _cut_block(part, names)
    block = _Block()
    for root in part.roots:
        _add_tree(block, root, names, 0.0)
    block.anchor = text_width(block.items[0].text) / 2 + _PADDING
    return block


def _add_tree(block: _Block, vertex: Vertex, names: Names, x: float) -> None:
    """Add a vertex and the tree below it, one line each, children indented."""
    y = _next_line(block)
    block.add_text(x, y, names.variable(vertex.variable), "variable")
    trunk, below = x + _INDENT / 2, x + _INDENT
    for child in vertex.children:
        child_y = _next_line(block)
        block.lines.append(_Line([(trunk, y + 0.8), (trunk, child_y), (below, child_y)], True))
        _add_tree(block, child, names, below)
    if vertex.n_hidden:
        block.add_text(below, _next_line(block), f"+{vertex.n_hidden} more", "note")


def _next_line(block: _Block) -> float:
    return block.items[-1].y + _PITCH if block.items else _HALF_BOX


def _cut_block(cut: Cut, names: Names) -> _Block:
    """A cut above its branches."""
    block, name = _Block(), names.variable(cut.variable)
    half = text_width(name) / 2 + _PADDING
    row, ends = _branch_row(cut, names)
    middle = (ends[0] + ends[-1]) / 2 if ends else half
    left = max(half - middle, 0.0)
    block.anchor = middle + left
    block.add_text(block.anchor - half, _HALF_BOX, name, "cut")
    if not ends:
        hidden = f"{_count(cut.n_cuts, 'cut')}, " if cut.n_cuts else ""
        hidden = f"+{hidden}{_count(cut.n_variables, 'variable')}"
        block.add_text(0.0, _HALF_BOX + _PITCH, hidden, "note")
        return block
    # Edges to far branches need some height, or they would lie on each other.
    top = max(_CUT_HEIGHT, _STEEPNESS * row.width)
    for end in ends:
        block.lines.append(_Line([(block.anchor, 2 * _HALF_BOX), (end + left, top)], False))
    block.add_block(row, left, top)
    return block


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def _branch_row(cut: Cut, names: Names) -> tuple[_Block, list[float]]:
    """The branches of a cut side by side under their labels, and where their edges end."""
    row = _Block()
    ends: list[float] = []
    for branch in cut.branches:
        share = 100 * math.exp(branch.log_probability)
        label = f"{names.state(cut.variable, branch.state)}\n{share:.3g} %"
        part, half = _part_block(branch.part, names), text_width(label) / 2
        x = (row.width + _GAP if ends else 0.0) + max(half - part.anchor, 0.0)
        ends.append(x + part.anchor)
        row.add_text(ends[-1] - half, _LABEL_HEIGHT / 2, label, "label")
        row.add_block(part, x, _LABEL_HEIGHT)
    return row, ends


def _beside(blocks: list[_Block]) -> _Block:
    row = _Block()
    for block in blocks:
        row.add_block(block, row.width + _GAP if row.items else 0.0, 0.0)
    return row
