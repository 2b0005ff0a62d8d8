"""What all drawings share: matplotlib on demand, colours, and pages measured in ems."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "BLUE",
    "GREY",
    "LIGHT_BLUE",
    "LIGHT_ORANGE",
    "ORANGE",
    "Page",
    "caption_width",
    "require_pyplot",
    "text_width",
]

# Two colours that people with any kind of colour vision can tell apart; shape tells them as well.
BLUE, LIGHT_BLUE = "#0072B2", "#D3E8F5"
ORANGE, LIGHT_ORANGE = "#D55E00", "#FBE6D3"
GREY = "#4D4D4D"

_POINTS_PER_INCH = 72
_FONT_SIZE = 9.0
_SMALLEST_FIGURE = (3.0, 1.5)
#: At some resolutions the letters of a line are rounded up to whole pixels, most of them.
_ROUNDING = 1.1


def require_pyplot(caller: str) -> Any:
    """Import matplotlib.pyplot, or say who needs it and how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib, which could not be imported; install it with "
            "`pip install matplotlib`"
        ) from error
    return plt


def text_width(text: str) -> float:
    """Width of the longest line of a text in ems."""
    from matplotlib.textpath import TextPath

    # The advance of a trailing space is not part of the outline, nor is any of "".
    lines = [line for line in text.split("\n") if line.strip()]
    return max(
        (float(TextPath((0, 0), line, size=1).get_extents().width) for line in lines), default=0
    )


def caption_width(text: str) -> float:
    """Width in ems that a long line needs at any resolution."""
    return _ROUNDING * text_width(text)


class Page(NamedTuple):
    """An area of the size of a drawing, in ems: one em is one font size, downwards positive."""

    ax: Any
    font_size: float

    @classmethod
    def prepare(cls, caller: str, ax: Any, width: float, height: float) -> Page:
        """Take the given axes, or new ones of the right size, and choose a font that fits."""
        plt = require_pyplot(caller)
        if ax is None:
            inches = [extent * _FONT_SIZE / _POINTS_PER_INCH for extent in (width, height)]
            size = [max(pair) for pair in zip(inches, _SMALLEST_FIGURE)]
            ax = plt.figure(figsize=size).add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_axis_off()
        figure_width, figure_height = ax.figure.get_size_inches()
        box = ax.get_position()
        room = min(box.width * figure_width / width, box.height * figure_height / height)
        font_size = min(_FONT_SIZE, room * _POINTS_PER_INCH)
        # Margins on both sides keep the drawing in proportion where there is room to spare.
        spare_x = box.width * figure_width * _POINTS_PER_INCH / font_size - width
        spare_y = box.height * figure_height * _POINTS_PER_INCH / font_size - height
        ax.set_xlim(-spare_x / 2, width + spare_x / 2)
        ax.set_ylim(height + spare_y / 2, -spare_y / 2)
        return cls(ax, font_size)

    def write(self, x: float, y: float, text: str, **options: Any) -> None:
        """Write a text, centred on a point unless the options say otherwise."""
        options = {"ha": "center", "va": "center", "fontsize": self.font_size, **options}
        self.ax.text(x, y, text, **options)

    def box(
        self, x: float, y: float, text: str, style: str, edge: str, face: str, ha: str = "left"
    ) -> None:
        """Write a text in a box."""
        frame = {"boxstyle": style, "edgecolor": edge, "facecolor": face, "linewidth": 1.0}
        self.write(x, y, text, bbox=frame, ha=ha, zorder=3)

    def edge(self, points: list[tuple[float, float]], arrow: bool) -> None:
        """Draw a line through points, with an arrowhead at its end where asked for."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        patch = FancyArrowPatch(
            path=Path(points),
            arrowstyle="-|>" if arrow else "-",
            mutation_scale=0.8 * self.font_size,
            color=GREY,
            linewidth=0.9,
            fill=arrow,
            joinstyle="miter",
        )
        self.ax.add_patch(patch)
