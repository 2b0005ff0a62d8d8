"""The box on the page of a method: what its paper has published, what is measured here, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.benchmarks.papers.layout import NO_VALUE, escaped, list_table
from tests.benchmarks.papers.ledger import OLD, BoxRow, Line, counted


def box(paper: str, rows: Sequence[BoxRow], lines: Sequence[Line]) -> str:
    """A file that the page of a method includes."""
    table = []
    for row in rows:
        published, measured = _figures(row, lines)
        cells = (row.label, published, measured, row.why)
        table.append([escaped(cell or NO_VALUE) for cell in cells])
    body = list_table(["result", "published", "here", "why"], table)
    source = f"From the ledger: :ref:`papers_{paper}`."
    if any(OLD in cell for cells in table for cell in cells):
        source += f" {OLD}: measured before version 0.2."
    # The table is the content of the directive, which is indented.
    indented = [f"   {line}".rstrip() for line in [*body, source]]
    directive = [".. admonition:: Published and here", "   :class: note", ""]
    written_by = ".. Written by python -m tests.benchmarks.papers."
    return "\n".join([written_by, "", *directive, *indented, ""])


def chosen(row: BoxRow, lines: Iterable[Line]) -> list[Line]:
    """The rows of the ledger behind a row of a box: those with a verdict."""
    return [
        line
        for line in lines
        if line.item == row.item
        and line.ours
        and line.kind != "not run"
        and row.series in ("", line.series, line.what)
    ]


def _figures(row: BoxRow, lines: Sequence[Line]) -> tuple[str, str]:
    """What is published and what is measured: figures of one row, or means, or counts."""
    measured = chosen(row, lines)
    if not measured:
        return "", "not measured"
    if len(measured) == 1:
        line = measured[0]
        return line.theirs, f"{line.marked}: {line.status}"
    mark = OLD * any(line.is_old for line in measured)
    verdicts = f"{counted(measured)}{mark}"
    published = {line.theirs for line in measured}
    if len(published) == 1:
        # A statement that several rows try.
        return published.pop(), verdicts
    if not row.series or any(line.series != row.series for line in measured):
        # Rows of several kinds have no mean.
        return f"{len(measured)} results", verdicts
    published_mean = _mean(line.theirs for line in measured)
    measured_mean = _mean(line.ours for line in measured)
    text = f"{measured_mean:.3f}{mark}; {counted(measured)}"
    return f"mean of {len(measured)}: {published_mean:.3f}", text


def _mean(texts: Iterable[str]) -> float:
    """The mean of the figures with which texts begin."""
    figures = [float(text.split()[0]) for text in texts]
    return sum(figures) / len(figures)
