"""The ledger as a table for programs, and as a page for each paper."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.papers.boxes import box
from tests.benchmarks.papers.front_page import front_page
from tests.benchmarks.papers.layout import NO_VALUE, escaped, simple_table, title_lines
from tests.benchmarks.papers.ledger import COMMAND, LONG, NOT_YET, OLD, BoxRow, Line, counted
from tests.benchmarks.published import PAPERS

#: What stands above the rows of an item.
_PICTURES = {
    ("bayesian_scores", "figure_2"): [
        ".. image:: /images/papers_pareto.png",
        "   :alt: Test log-likelihood against learning time for each set, our two networks in full",
        "      colour, those of the paper as circles, the other published learners in grey.",
        "",
    ]
}
#: Longer cells do not stand side by side: each row of the ledger is a row of the table.
_LONGEST_CELL = 64
#: How a table says what its rows compare.
_COMPARES = {
    "same": "like with like",
    "split": "on presumed rows",
    "variant": "a variant",
    "machine": "another machine",
    "illustration": "an illustration",
}


def write_pages(
    lines: Sequence[Line],
    folder: Path,
    measured_s: float,
    estimated_s: float,
    boxes: Mapping[str, Sequence[BoxRow]],
) -> None:
    """Write ledger.csv, a page and a box for each paper, and the page that counts the rows.

    The CPU seconds are those of all measurements, and of those that have not been made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "ledger.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Line._fields)
        writer.writerows(lines)
    for paper, title in PAPERS.items():
        paper_lines = [line for line in lines if line.paper == paper]
        (folder / f"{paper}.rst").write_text(_page(paper, title, paper_lines), encoding="utf-8")
        if paper in boxes:
            text = box(paper, boxes[paper], paper_lines)
            (folder / f"{paper}_box.inc").write_text(text, encoding="utf-8")
    text = front_page(lines, measured_s, estimated_s)
    (folder / "index.rst").write_text(text, encoding="utf-8")


_PAGE = """\
``{command} {paper}/ITEM --again`` measures an item, such as
``{item}``, anew. :ref:`papers` says what the verdicts mean; :download:`ledger.csv` has all rows,
also those of the methods that the paper compares with. Tables with a row for each data set have
*theirs / ours* and the verdict.{old}
"""
_OLD = f" {OLD} marks figures of ours that were measured before version 0.2 (column ``version``)."


def _page(paper: str, title: str, lines: Sequence[Line]) -> str:
    by_item: dict[str, list[Line]] = {}
    for line in lines:
        if line.ours:
            by_item.setdefault(line.item, []).append(line)
    parts = [f".. _papers_{paper}:", "", *title_lines(title, "=")]
    if by_item:
        item = next(iter(by_item))
        old = _OLD if any(line.is_old for line in lines) else ""
        parts.append(_PAGE.format(command=COMMAND, paper=paper, item=item, old=old))
    for item, measured in by_item.items():
        parts += title_lines(_title(item), "-")
        parts += _PICTURES.get((paper, item), [])
        parts += _section(measured)
    return "\n".join([*parts, *_not_run_list(lines)])


def _title(item: str) -> str:
    """Numbers of appendices have capitals, those of figures do not."""
    name, number = item.split("_")
    return f"{name.capitalize()} {number.upper() if name == 'appendix' else number}"


def _section(lines: Sequence[Line]) -> list[str]:
    """The measured rows of an item: what repeats other rows in a sentence, the rest in tables."""
    shapes = [line for line in lines if line.is_shape]
    series = _by_series([line for line in lines if not line.is_shape])
    # Rows that count elsewhere have the same figures of ours there.
    repeated = {name: rows for name, rows in series.items() if rows[0].again}
    new = {name: rows for name, rows in series.items() if not rows[0].again}
    in_columns = {line for rows in series.values() for line in rows}
    alone = [line for line in lines if line not in in_columns and not line.is_shape]
    parts = _shape_sentence(shapes)
    if new:
        parts += _table_of_sets(new)
    if alone:
        parts += _table_of_rows(alone)
    for name, rows in repeated.items():
        parts += [_repeat_sentence(name, rows), ""]
    return parts


def _by_series(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Rows that several data sets have, if their cells are short enough to stand side by side."""
    series: dict[str, list[Line]] = {}
    for line in lines:
        if line.series:
            series.setdefault(line.series, []).append(line)
    columns = {}
    for name, rows in series.items():
        width = max(len(_cell(row)) for row in rows)
        if len(rows) > 1 and width <= _LONGEST_CELL:
            columns[name] = rows
    return columns


def _shape_sentence(lines: Sequence[Line]) -> list[str]:
    """Sizes of data sets: only those that differ are shown."""
    if not lines:
        return []
    wrong = [line for line in lines if line.kind != "reproduced"]
    doubtful = [f"{line.data} ({line.note})" for line in lines if line.note]
    text = f"Rows, columns and densities of {len(lines) - len(wrong)} sets are those of the paper."
    text += "".join(f" {escaped(line.what)}: {escaped(line.status)}." for line in wrong)
    if doubtful:
        text += f" The papers do not agree on {escaped(', '.join(doubtful))}."
    return [text, ""]


def _repeat_sentence(name: str, lines: Sequence[Line]) -> str:
    """Rows of measurements that count elsewhere: how many of each verdict, and what falls short."""
    behind = [line.data for line in lines if line.kind in ("short", "refuted")]
    text = f"*{escaped(name)}*, measured for {lines[0].again.split('/')[-1].replace('_', ' ')}: "
    text += counted(lines)
    return f"{text} (short: {', '.join(behind)})." if behind else f"{text}."


def _table_of_sets(series: Mapping[str, Sequence[Line]]) -> list[str]:
    """A row for each data set, a column for each series."""
    cells = {(line.data, name): _cell(line) for name, rows in series.items() for line in rows}
    # The longest series first: it has the data sets in their order.
    longest = sorted(series.values(), key=len, reverse=True)
    sets = dict.fromkeys(line.data for rows in longest for line in rows)
    table = [[data, *(cells.get((data, name), NO_VALUE) for name in series)] for data in sets]
    lines = [line for rows in series.values() for line in rows]
    return [*simple_table(["set", *series], table), *_notes_of_series(lines)]


def _cell(line: Line) -> str:
    text = f"{line.theirs or NO_VALUE} / {line.marked}"
    verdict = line.kind
    return text if verdict == "not run" else f"{text} {verdict}"


def _table_of_rows(lines: Sequence[Line]) -> list[str]:
    """A row for each row of the ledger; what only some of them have is its last column."""
    pieces = [_pieces(line) for line in lines]
    common = [piece for piece in pieces[0] if all(piece in each for each in pieces)]
    head = ["what", "theirs", "ours", "verdict", "note"]
    table = []
    for line, line_pieces in zip(lines, pieces):
        note = "; ".join(piece for piece in line_pieces if piece not in common)
        table.append([line.what, line.theirs or NO_VALUE, line.marked, _verdict(line), note])
    # A table without notes has no column for them.
    n_columns = len(head) if any(cells[-1] for cells in table) else len(head) - 1
    rows = [[cell or NO_VALUE for cell in cells[:n_columns]] for cells in table]
    return [*simple_table(head[:n_columns], rows), *_note_lines({"": common})]


def _verdict(line: Line) -> str:
    return NO_VALUE if line.kind == "not run" else line.status


def _pieces(line: Line) -> list[str]:
    """What is to be said about a row, in parts that other rows may share."""
    pieces = [_COMPARES[line.like], *(piece for piece in line.note.split("; ") if piece)]
    if line.kind == "not run":
        pieces.append(f"no verdict {line.status.removeprefix('not run ')}")
    return pieces


def _notes_of_series(lines: Sequence[Line]) -> list[str]:
    """What all rows of a table share, then what some series or some data sets have."""
    holders: dict[str, list[Line]] = {}
    for line in lines:
        for piece in _pieces(line):
            holders.setdefault(piece, []).append(line)
    notes: dict[str, list[str]] = {"": []}
    for piece, having in holders.items():
        is_common = len(having) == len(lines)
        label = "" if is_common else _holder_label(having, lines)
        notes.setdefault(label, []).append(piece)
    return _note_lines(notes)


def _holder_label(having: Sequence[Line], lines: Sequence[Line]) -> str:
    """The series whose rows these are, with the data sets if they are not all of them."""
    by_sets: dict[str, list[str]] = {}
    for name in dict.fromkeys(line.series for line in having):
        sets = [line.data for line in having if line.series == name]
        is_whole = len(sets) == sum(line.series == name for line in lines)
        text = "" if is_whole else f" ({escaped(', '.join(sets))})"
        by_sets.setdefault(text, []).append(f"*{escaped(name)}*")
    return ", ".join(", ".join(names) + text for text, names in by_sets.items())


def _note_lines(notes: Mapping[str, Sequence[str]]) -> list[str]:
    parts = []
    for label, pieces in notes.items():
        text = escaped("; ".join(pieces))
        if text and label:
            parts += [f"{label}: {text}.", ""]
        elif text:
            parts += [f"{text[0].upper()}{text[1:]}.", ""]
    return parts


def _not_run_list(lines: Sequence[Line]) -> list[str]:
    """The reasons of rows without a measurement, each with its items once."""
    by_reason: dict[str, list[str]] = {}
    for line in lines:
        if line.ours:
            continue
        reason = line.status.removeprefix("not run (").removesuffix(")")
        item = line.item.replace("_", " ")
        if LONG in reason:
            # Each of them has an estimate of its own, which the csv has.
            is_long = reason.startswith(LONG)
            reason = "takes more than twenty CPU minutes" if is_long else NOT_YET
            item += f" ({line.what})"
        elif not line.data:
            item += f" ({line.what})"
        items = by_reason.setdefault(reason, [])
        # Rows of several data sets are one item, as the missing file tells the set.
        if item not in items:
            items.append(item)
    if not by_reason:
        return []
    parts = title_lines("Not run", "-")
    for reason, items in by_reason.items():
        parts.append(f"- {escaped(reason)}: {escaped(', '.join(items))}.")
    return [*parts, ""]
