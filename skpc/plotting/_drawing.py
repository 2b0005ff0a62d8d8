"""Drawings of blocks of texts that stand in layers and are joined by lines."""

from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats

# Two colours that people with any colour vision can tell apart; shapes differ as well.
BLUE, LIGHT_BLUE = "#0072B2", "#D3E8F5"
ORANGE, LIGHT_ORANGE = "#D55E00", "#FBE6D3"
_FONT_SIZE = 9.0
_GREY = "#4D4D4D"
_WHITE = {"boxstyle": "square,pad=0.1", "edgecolor": "none", "facecolor": "white"}
#: Half the height of a framed text, in ems.
HALF_FRAME = 0.95


def _framed(shape: str, edge: str, face: str, ha: str) -> dict[str, Any]:
    """Options of ``Axes.text`` for a text in a frame."""
    frame = {"boxstyle": shape, "edgecolor": edge, "facecolor": face, "linewidth": 1.0}
    return {"bbox": frame, "ha": ha, "zorder": 3}


#: Options of ``Axes.text`` by the role of a text. Variables of a list are placed by their left
#: ends, so that they are flush in any font.
_STYLES: dict[str, dict[str, Any]] = {
    "cut": _framed("round4,pad=0.5", BLUE, LIGHT_BLUE, "center"),
    "variable": _framed("square,pad=0.4", ORANGE, LIGHT_ORANGE, "left"),
    "sum": _framed("circle,pad=0.3", BLUE, LIGHT_BLUE, "center"),
    "product": _framed("circle,pad=0.3", ORANGE, LIGHT_ORANGE, "center"),
    "label": {"ha": "center"},
    "note": {"ha": "left", "color": _GREY},
    "key": {"ha": "center", "color": _GREY},
    "weight": {"ha": "center", "bbox": _WHITE},
    "upright": {"ha": "center", "va": "top", "rotation": 90},
}


def text_width(text: str) -> float:
    """Width of the longest line of a text, in ems."""
    from matplotlib.textpath import TextPath

    # A line without letters has no outline to be measured.
    lines = [line for line in text.split("\n") if line.strip()]
    return max(
        (float(TextPath((0, 0), line, size=1).get_extents().width) for line in lines), default=0
    )


class Page(NamedTuple):
    """Axes with coordinates in ems: an em is the font size, and y grows downwards."""

    ax: Any
    font_size: float

    @classmethod
    def prepare(cls, ax: Any, width: float, height: float) -> Self:
        """Take the given axes, or new ones of the right size, and choose a font that fits."""
        smallest_figure = (3.0, 1.5)
        points_per_inch = 72
        if ax is None:
            import matplotlib.pyplot as plt

            # At the full font size an em has _FONT_SIZE points.
            inches = [extent * _FONT_SIZE / points_per_inch for extent in (width, height)]
            size = [max(pair) for pair in zip(inches, smallest_figure)]
            ax = plt.figure(figsize=size).add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_axis_off()
        # Given axes may be a part of a figure, so that their size is not that of the figure.
        figure_size = ax.figure.get_size_inches()
        box = ax.get_position()
        points = points_per_inch * figure_size * (box.width, box.height)
        # Text shrinks until the drawing fits in both directions, and never grows.
        font_size = min(_FONT_SIZE, points[0] / width, points[1] / height)
        # Margins on both sides keep the drawing in proportion where there is room to spare.
        spare_x, spare_y = (points / font_size - (width, height)) / 2
        ax.set_xlim(-spare_x, width + spare_x)
        # The greater limit comes first, so that y grows downwards.
        ax.set_ylim(height + spare_y, -spare_y)
        return cls(ax, font_size)

    def write(self, x: float, y: float, text: str, style: str, scale: float = 1.0) -> None:
        """Write a text at (x, y), in the middle of its line unless its style says otherwise."""
        options = {"va": "center", "fontsize": scale * self.font_size, **_STYLES[style]}
        self.ax.text(x, y, text, **options)

    def edge(self, points: list[tuple[float, float]], arrow: bool) -> None:
        """Draw a line through points, with or without an arrowhead at its end."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        patch = FancyArrowPatch(
            path=Path(points),
            arrowstyle="-|>" if arrow else "-",
            mutation_scale=0.8 * self.font_size,
            color=_GREY,
            linewidth=0.9,
            # An arrowhead is filled; a bare line through several points must not be.
            fill=arrow,
            joinstyle="miter",
        )
        self.ax.add_patch(patch)


class Block:
    """A group of texts and arrows that stand together in a layer.

    Coordinates are in ems, relative to the point where the edge from the block above ends.

    Attributes
    ----------
    layer : int
    below : list of int
        Numbers of the blocks that an edge leads to.
    weights : list of str
        Texts on these edges; empty where they have none.
    texts : list of (float, float, str, str)
        Coordinates, the text, and its style.
    arrows : list of list of (float, float)
        The points that each arrow runs through.
    left, right, height : float
        How far the block reaches to either side, and down.
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
        padding = 0.5
        width = text_width(text)
        extent_below = HALF_FRAME
        # Upright text hangs down from its place: its height is the length of the text.
        if style == "upright":
            extent_below = width
            width = 0.3
        # A centred text reaches as far to the left as to the right.
        start = x - width / 2 if _STYLES[style]["ha"] == "center" else x
        self.texts.append((x, y, text, style))
        self.left = max(self.left, padding - start)
        self.right = max(self.right, start + width + padding)
        self.height = max(self.height, y + extent_below)


def draw_blocks(blocks: list[Block], gaps: tuple[float, float], key: str, ax: Any) -> Any:
    """Draw blocks, and below them a line of text that explains them; return the axes.

    In the list each block comes before the blocks below it. ``gaps`` are the least distances
    between neighbours in a layer, and between layers.
    """
    # At some resolutions the width of letters is rounded up to whole pixels.
    rounding = 1.1
    margin = 1.5
    # The height of layers depends on how far apart the blocks are, which thus comes first.
    x = _columns(blocks, gaps[0])
    y = _layers(blocks, x, gaps[1])
    drawing_width = max(position + block.right for position, block in zip(x, blocks))
    width = max(drawing_width, rounding * text_width(key)) + 2 * margin
    # The key stands below the blocks, with a margin around it.
    height = max(position + block.height for position, block in zip(y, blocks)) + 5 * margin
    page = Page.prepare(ax, width, height)
    # The key may be wider than the drawing, which then stands in the middle.
    x = x + (width - drawing_width) / 2
    y = y + margin
    for number, block in enumerate(blocks):
        for arrow in block.arrows:
            page.edge([(x[number] + dx, y[number] + dy) for dx, dy in arrow], arrow=True)
        start = x[number], y[number] + block.height
        # A block without texts stands for independent parts, which no line joins.
        for child in block.below if block.texts else ():
            end = (x[child], y[child])
            page.edge([start, end], arrow=False)
        for child, weight in zip(block.below, block.weights):
            # Weights stand in the middle of two edges, but further down where more edges fan out.
            part = 0.5 if len(block.below) <= 2 else 0.75
            position = [(1 - part) * a + part * b for a, b in zip(start, (x[child], y[child]))]
            page.write(position[0], position[1], weight, "weight", 0.85)
        for dx, dy, text, style in block.texts:
            page.write(x[number] + dx, y[number] + dy, text, style)
    page.write(width / 2, height - margin, key, "key")
    return page.ax


def _columns(blocks: list[Block], gap: float) -> Floats:
    """Horizontal position of each block: over the middle of the blocks below it.

    A block with several parents is placed below the first of them. A block and all blocks that are
    placed below it have a range of positions of their own, so that nothing overlaps.
    """
    taken: set[int] = set()
    children_of: list[list[int]] = []
    for block in blocks:
        children_of.append([child for child in dict.fromkeys(block.below) if child not in taken])
        taken.update(children_of[-1])
    left = [b.left for b in blocks]
    right = [b.right for b in blocks]
    x = np.zeros(len(blocks))
    # From the last block to the first: the blocks below a block are placed before it.
    for number in reversed(range(len(blocks))):
        if not children_of[number]:
            continue
        # Children stand side by side, a gap between neighbours.
        end = -gap
        for child in children_of[number]:
            x[child] = end + gap + left[child]
            end = x[child] + right[child]
        leftmost = children_of[number][0]
        last = children_of[number][-1]
        # The middle of the children comes under the block, whose position is zero for now.
        x[children_of[number]] -= (x[leftmost] + x[last]) / 2
        # From here on the block reaches as far as all blocks below it.
        left[number] = max(left[number], left[leftmost] - x[leftmost])
        right[number] = max(right[number], right[last] + x[last])
    # Block 0 is the root, the only block that has no parent.
    x[0] = left[0]
    # From the root down, positions relative to the parent become positions on the page.
    for number, children in enumerate(children_of):
        x[children] += x[number]
    return x


def _layers(blocks: list[Block], x: Floats, gap: float) -> Floats:
    """Vertical position of the top of each block, which is that of its layer."""
    # Least height of edges, as a part of the width that they span.
    steepness = 0.05
    # The height of each layer with the edges below it.
    height = np.zeros(1 + max(block.layer for block in blocks))
    for block in blocks:
        if block.texts and block.below:
            # Flat edges to far blocks would cover each other.
            block_height = block.height + max(gap, steepness * np.ptp(x[block.below]))
            height[block.layer] = max(height[block.layer], block_height)
    # The top of a layer is the height of all layers above it.
    return (np.cumsum(height) - height)[[block.layer for block in blocks]]
