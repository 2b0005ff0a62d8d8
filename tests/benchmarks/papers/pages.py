"""The ledger as a table for programs, and as a page of the documentation for each paper."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.benchmarks.papers.ledger import (
    COMMAND,
    CURVE,
    LIKES,
    LONG,
    NO_FIGURE,
    NOT_YET,
    PICTURE,
    QUOTED,
    STATUSES,
    TAKEN_OVER,
    Line,
)
from tests.benchmarks.published import PAPERS

#: How a row of the csv differs from what is shown on a page.
_SHOWN = ("what", "theirs", "ours", "status", "like", "again", "note")
#: What stands above the rows of an item.
_PICTURES = {
    ("bayesian_scores", "figure_2"): [
        ".. image:: /images/papers_pareto.png",
        "   :alt: Test log-likelihood against learning time for each set, our two networks in full",
        "      colour, those of the paper as circles, the other published learners in grey.",
    ]
}
#: What rows that were not run are counted as, and what their status has.
_REASONS = {
    "figures of other methods, quoted": QUOTED,
    "illustrations without figures": PICTURE,
    "without a figure to compare, as the paper prints a curve": CURVE,
    "without a figure to compare for another reason": NO_FIGURE,
    "without the file of the data": "is not in the folder",
    "not measured, as they take more than twenty CPU minutes": f"({LONG}",
    "not measured yet": NOT_YET,
    "of methods that skpc does not have": "there is no",
}


def write_pages(lines: Sequence[Line], folder: Path, measured_s: float, estimated_s: float) -> None:
    """Write ledger.csv and a page for each paper, and the page that counts the rows.

    The CPU seconds are those of all measurements, and of those that have not been made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "ledger.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Line._fields)
        writer.writerows(lines)
    for paper, title in PAPERS.items():
        of_paper = [line for line in lines if line.paper == paper]
        (folder / f"{paper}.rst").write_text(_page(paper, title, of_paper), encoding="utf-8")
    text = _index(lines, measured_s, estimated_s)
    (folder / "index.rst").write_text(text, encoding="utf-8")


def kind(status: str) -> str:
    """The first word or two of a status, one of those that are allowed."""
    found = next((each for each in STATUSES if status.startswith(each)), None)
    if found is None:
        raise ValueError(f"a status starts with one of {STATUSES}, got {status!r}")
    return found


_INTRODUCTION = """\
Every table and figure of the five papers from which skpc comes has rows here.
:download:`ledger.csv` has all of them with commands, CPU seconds of one thread, dates and versions.
A row compares (column ``like``)

{likes}

A measurement counts once. Other rows that print it name the item where it counts (``again``). A row
is

- *reproduced* if a log-likelihood (or log KL) differs from theirs by at most .0005 of it, .01 nats,
  or the standard deviation over runs of both where the paper prints one, whichever is most; if
  seconds, sizes and other errors differ by at most .0005 of theirs; or if the statement of the
  paper holds here. Networks of the deterministic Bayesian scores: if they have as many parameters
  and differ by at most .003 nats;
- *another network* if they do not: equal scores leave a choice of network;
- *beaten* if our figure is better than that;
- *short* if it is worse (by how much);
- *refuted* if the statement does not hold here (how it fails);
- *not reproduced* if a statement about their data does not hold on other data;
- *not run* for a reason that it names: it is a figure of another method or an illustration,
  something is missing, it takes long, or ours is measured but there is no figure to compare with.
"""
#: What is known of the reasons of rows that are short like with like.
WHY_SHORT = (
    "Structural EM ends lower than in the paper on six sets, for a reason that is not known: "
    "other starts by k-means do not close the gap on retail; ten candidates for a cut miss better "
    "ones on two sets; with many cells observed, the weights of trees drawn from the prior are "
    "uneven; and on ASIA collapsing changes the Gibbs average by less than its error."
)
_PAGE = """\
The commands measure and print the rows in a clone of skpc, with the data in ``SKPC_DATA``;
:ref:`papers` says how, and what a status means. Rows whose note has another command were measured
by that one.
"""
_RUN = """\
Run it
------

In a clone of skpc, with the data in ``SKPC_DATA`` (:doc:`/contributing` says which files):

.. code-block:: bash

   export SKPC_DATA=/path/to/data
   python -m tests.benchmarks.papers all_trees/table_1 --sets nltcs --again

measures what the rows of this table and data set need, and prints these rows with their figures and
ours. ``doc/papers/measured.json`` keeps all measurements. Without ``--again`` the command makes
only those that are not there. So in a new clone it has little to do, and prints the rows as they
are. It rewrites these pages, which git tracks. ``--out FOLDER`` writes pages and measurements to
another folder, which begins without measurements.
"""
_SECONDS = """\
All measurements took {measured:.1f} CPU hours of one thread; those that have not been made would
take about {estimated:.1f} more. Those of ``--quick`` take twenty minutes. Some rows were
measured for an earlier page of the guide, by the command in their note: of these only the seconds
of learning are known and counted.
"""


def _index(lines: Sequence[Line], measured_s: float, estimated_s: float) -> str:
    """How many rows of each status the papers have, and how long they take."""
    head = ["paper", "tables and figures", "rows", *STATUSES]
    cells = [[f":doc:`{paper}`", *_counts(lines, paper)] for paper in PAPERS]
    cells.append(["all", *_counts(lines, None)])
    likes = [[like, *_counts_of_kind(lines, like)] for like in LIKES]
    tree = [".. toctree::", "   :hidden:", "", *(f"   {paper}" for paper in PAPERS), ""]
    parts = [".. _papers:", "", *_title("The five papers", "="), summary(lines), ""]
    parts += list_table(["like", "rows", "counted", *STATUSES], likes)
    told = "\n".join(f"- *{like}*: {what};" for like, what in LIKES.items())
    parts += [_INTRODUCTION.format(likes=told[:-1] + ".")]
    seconds = _SECONDS.format(measured=measured_s / 3600, estimated=estimated_s / 3600)
    parts += [*list_table(head, cells), not_run(lines), "", seconds, _RUN]
    return "\n".join([*parts, *tree])


def summary(lines: Iterable[Line]) -> str:
    """What the ledger comes to: how many rows, how many like with like, what is short and why."""
    lines = list(lines)
    same = [line for line in lines if line.like == "same" and not line.again]
    counts = Counter(kind(line.status) for line in same)
    published = [line for line in same if kind(line.status) != "not run" and not _is_shape(line)]
    others = Counter(line.like for line in lines if line.like != "same")
    short = Counter(line.like for line in lines if kind(line.status) == "short" and not line.again)
    behind = [line for line in same if kind(line.status) == "short"]
    checked = Counter(kind(line.status) for line in lines if line.like == "illustration")
    text = f"{len(published)} measurements are compared with what a paper has published, like with "
    text += "like, and are more than the numbers of rows and columns of a data set: "
    text += f"{_listed(published)}.\n\n"
    for paper, title in PAPERS.items():
        of_paper = [line for line in published if line.paper == paper]
        text += f"- *{title}*: {_listed(of_paper) or 'none'}\n"
    text += (
        f"\nThe ledger has {len(lines)} rows. {counts.total()} measurements of them compare like "
    )
    text += "with like: the algorithm, data, split and settings of the paper. Only these say how "
    text += "well skpc does what a paper says: "
    text += ", ".join(
        f"{counts[status]} are {status}" for status in STATUSES[:-1] if counts[status]
    )
    text += f", and {counts['not run']} have no measurement or no published figure. "
    text += f"Of the other rows, {others['split']} presume which rows a paper used, "
    text += f"{others['variant']} have another method or other data, {others['machine']} are times "
    text += f"of another machine, and {others['illustration']} are pictures or statements "
    text += f"({checked['reproduced']} of these hold, {checked['refuted']} do not). "
    text += f"{short.total()} measurements are short: {short['same']} like with like, "
    text += f"{short['split']} on presumed rows and {short['variant']} of variants. "
    text += f"{WHY_SHORT}\n\nShort like with like:\n\n"
    return text + "\n".join(f"- {line.item.replace('_', ' ')}, {line.what}" for line in behind)


def _is_shape(line: Line) -> bool:
    """Whether a row has nothing but the size of a data set."""
    return line.what.endswith(("rows and columns", "columns and rows"))


def _listed(lines: Sequence[Line]) -> str:
    """How many rows of each status there are."""
    counts = Counter(kind(line.status) for line in lines)
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])


def _counts_of_kind(lines: Iterable[Line], like: str) -> list[str]:
    of_kind = [line for line in lines if line.like == like]
    counted = [line for line in of_kind if not line.again]
    counts = Counter(kind(line.status) for line in counted)
    return [str(len(of_kind)), str(len(counted)), *(str(counts[status]) for status in STATUSES)]


def not_run(lines: Iterable[Line]) -> str:
    """A sentence that counts the rows that were not run by their reasons."""
    lines = list(lines)
    statuses = [line.status for line in lines if kind(line.status) == "not run"]
    counts = Counter(
        next((reason for reason, sign in _REASONS.items() if sign in status), "others")
        for status in statuses
    )
    parts = [f"{counts[reason]} {reason}" for reason in (*_REASONS, "others") if counts[reason]]
    return f"Of the {len(lines)} rows {len(statuses)} were not run: {'; '.join(parts)}."


def _counts(lines: Iterable[Line], paper: str | None) -> list[str]:
    chosen = [line for line in lines if paper in (None, line.paper)]
    counts = Counter(kind(line.status) for line in chosen)
    items = len({(line.paper, line.item) for line in chosen})
    return [str(items), str(len(chosen)), *(str(counts[status]) for status in STATUSES)]


def _page(paper: str, title: str, lines: Sequence[Line]) -> str:
    parts = [f".. _papers_{paper}:", "", *_title(title, "="), _PAGE]
    for item in dict.fromkeys(line.item for line in lines):
        of_item = [line for line in lines if line.item == item]
        parts += _title(item.replace("_", " ").capitalize(), "-")
        if any(line.command for line in of_item):
            parts += [f"``{COMMAND} {paper}/{item} --again``", ""]
        texts = [_shown(line) for line in of_item]
        shown = [key for key in _SHOWN if any(text[key] for text in texts)]
        cells = [[escaped(text[key]) for key in shown] for text in texts]
        if (paper, item) in _PICTURES:
            parts += [*_PICTURES[paper, item], ""]
        parts += list_table(shown, cells)
        measured = sorted({line.measured for line in of_item if TAKEN_OVER not in line.measured})
        measured = [each for each in measured if each]
        if measured:
            parts += [f"Measured {'; '.join(measured)}.", ""]
    return "\n".join(parts)


def _shown(line: Line) -> dict[str, str]:
    """The columns of a page; what an earlier page of the guide had says so."""
    note = line.note
    if TAKEN_OVER in line.measured:
        note += f"; {line.measured}"
    return {key: getattr(line, key) for key in _SHOWN} | {"note": note}


def _title(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def escaped(text: str) -> str:
    """Text in which nothing is markup."""
    return text.replace("*", r"\*").replace("_", r"\_").replace("`", r"\`").replace("|", r"\|")


def list_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of the documentation, line by line."""
    found = [".. list-table::", "   :header-rows: 1", ""]
    for cells in (head, *rows):
        found += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
    return [*found, ""]
