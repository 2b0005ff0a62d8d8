"""Tables and titles of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: Stands where there is nothing to show.
NO_VALUE = "–"
#: What a table would read as an option of a program: a sign, a letter or digit, and nothing more.
_OPTION = re.compile(r"[-+]\w( ?\w*)?")


def title_lines(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def escaped(text: str) -> str:
    """Text in which nothing is markup."""
    for sign in "*_`|":
        text = text.replace(sign, f"\\{sign}")
    return f"\\{text}" if _OPTION.fullmatch(text) else text


def list_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table whose cells may be long, line by line."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for cells in (head, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
    return [*lines, ""]


def simple_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table with a line for each row; its texts are escaped."""
    table = [[escaped(text) for text in cells] for cells in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table)]
    border = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(cells, widths)).rstrip()
        for cells in table
    ]
    return [border, lines[0], border, *lines[1:], border, ""]
