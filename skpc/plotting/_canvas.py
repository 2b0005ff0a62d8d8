"""What all drawings share: matplotlib on demand, colours, and pages measured in ems."""

from __future__ import annotations

from typing import Any, NamedTuple

# Two colours that people with any kind of colour vision can tell apart; shape tells them as well.
BLUE, LIGHT_BLUE = "#0072B2", "#D3E8F5"
ORANGE, LIGHT_ORANGE = "#D55E00", "#FBE6D3"
GREY = "#4D4D4D"

_POINTS_PER_INCH = 72
_FONT_SIZE = 9.0
_SMALLEST_FIGURE = (3.0, 1.5)


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
        figure_size, box = ax.figure.get_size_inches(), ax.get_position()
        points = _POINTS_PER_INCH * figure_size * (box.width, box.height)
        font_size = min(_FONT_SIZE, points[0] / width, points[1] / height)
        # Margins on both sides keep the drawing in proportion where there is room to spare.
        spare_x, spare_y = (points / font_size - (width, height)) / 2
        ax.set_xlim(-spare_x, width + spare_x)
        ax.set_ylim(height + spare_y, -spare_y)
        return cls(ax, font_size)

    def write(self, x: float, y: float, text: str, **options: Any) -> None:
        """Write a text, centred on a point unless the options say otherwise."""
        self.ax.text(
            x, y, text, **{"ha": "center", "va": "center", "fontsize": self.font_size, **options}
        )

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
