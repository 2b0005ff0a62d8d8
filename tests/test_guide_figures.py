"""Published figures in the guide are those of the one source, and ours beside them the ledger's."""

import re
from pathlib import Path

import pytest

from tests.benchmarks.papers import __main__ as papers
from tests.benchmarks.papers.ledger import read_cache
from tests.benchmarks.published import MESSAGE_KERNELS, PUBLISHED, TABLES, column

DOC = Path(__file__).parents[1] / "doc"
#: Page, what its table has as header, and the published column behind each of its columns.
QUOTED = [
    (
        "cutset_networks",
        "table one network paper seconds components mixture paper seconds",
        {2: ("bayesian_scores/table_1", "CNetBD"), 6: ("bayesian_scores/table_1", "EM-CNetBD")},
    ),
    (
        "soft_learn",
        "table hard soft-2 soft refined EM-CNetBD soft s refined s edges",
        {5: ("bayesian_scores/table_1", "EM-CNetBD")},
    ),
    (
        "soft_learn",
        "table hard soft refined LearnSPN SoftLearn",
        {4: ("soft_learn/table_1", "LearnSPN"), 5: ("soft_learn/table_1", "SoftLearn")},
    ),
    (
        "mixture_of_all_trees",
        "set undirected directed MoAT MT HCLT",
        {at: ("all_trees/table_1", name) for at, name in ((3, "MoAT"), (4, "MT"), (5, "HCLT"))},
    ),
    (
        "mixture_of_all_trees",
        "set columns epochs undirected directed MoAT MT HCLT",
        {
            at: ("all_trees/table_1", name)
            for at, name in ((1, "columns"), (5, "MoAT"), (6, "MT"), (7, "HCLT"))
        },
    ),
]
#: The same for what is measured: measurement and figure behind each column.
MEASURED = [
    (
        "cutset_networks",
        "table one network paper seconds components mixture paper seconds",
        {1: ("cutset/bd", "test_ll"), 4: ("cutset/em", "K"), 5: ("cutset/em", "test_ll")},
    ),
    (
        "mixture_of_all_trees",
        "set undirected directed MoAT MT HCLT",
        {1: ("moat/undirected", "test_ll"), 2: ("moat/directed", "test_ll")},
    ),
    (
        "mixture_of_all_trees",
        "set columns epochs undirected directed MoAT MT HCLT",
        {3: ("moat/undirected", "test_ll"), 4: ("moat/directed", "test_ll")},
    ),
]
#: What the guide calls the kernels of appendix C of kernel EP.
KERNELS = {
    "means and variances as numbers": "random features, mean-variance kernel",
    "expected product, joint": "random features, expected product kernel, joint",
    "sum of expected products": "random features, sum of expected product kernels",
    "product of expected products": "random features, product of expected product kernels",
    "Gaussian on joint embeddings (ours)": "random features, Gaussian kernel on joint embeddings",
    "extremely random trees (above)": "extremely random trees",
    "random forest (above)": "random forest",
}


def tables(page):
    """Header and rows of the simple tables of a page, cut where their borders are."""
    lines = (DOC / "user_guide" / f"{page}.rst").read_text(encoding="utf-8").splitlines()
    found, borders = [], []
    for i, line in enumerate([*lines, ""]):
        if re.fullmatch(r"=+( +=+)+", line):
            borders.append(i)
        elif not line and borders:
            if len(borders) == 3:
                found.append(_table(lines, *borders))
            borders = []
    return found


def _table(lines, top, middle, bottom):
    starts = [match.start() for match in re.finditer("=+", lines[top])]
    cells = [
        [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None])]
        for line in lines[top + 1 : bottom]
    ]
    head = middle - top - 1
    title = " ".join(" ".join(column) for column in zip(*cells[:head]))
    return " ".join(title.split()), cells[head + 1 :]


def rows_of(page, header):
    (rows,) = [rows for title, rows in tables(page) if title == header]
    return rows


@pytest.mark.parametrize(("page", "header", "columns"), QUOTED)
def test_published_figures_in_the_guide_are_those_of_the_papers(page, header, columns):
    rows = rows_of(page, header)
    assert len(rows) > 5
    for row in rows:
        for at, source in columns.items():
            assert float(row[at]) == column(*source)[row[0]], (row[0], source)


@pytest.mark.parametrize(("page", "header", "columns"), MEASURED)
def test_our_figures_beside_published_ones_are_those_of_the_ledger(page, header, columns):
    cache = read_cache(DOC / "papers" / "measured.json")
    for row in rows_of(page, header):
        for at, (job, key) in columns.items():
            if row[at]:
                figures = cache[f"{job}/{row[0]}"]["figures"]
                shown = float(row[at].split()[0])
                assert shown == pytest.approx(figures[key], abs=6e-4), (row[0], job)


def test_kernels_of_messages_are_those_of_appendix_c_and_of_the_ledger():
    header = "kernel sampled, vs sampled sampled, vs exact exact, vs exact published"
    cache = read_cache(DOC / "papers" / "measured.json")
    for name, ours, *_, published in rows_of("kernel_ep", header):
        assert float(published) == MESSAGE_KERNELS[KERNELS[name]][0]
        figures = cache[f"ep/scaled/{KERNELS[name]}"]["figures"]
        assert float(ours) == pytest.approx(figures["mean"], abs=6e-3)


def test_every_table_of_the_guide_with_rows_of_the_twenty_and_a_column_of_a_paper_is_checked():
    """A new table beside published figures must be entered above."""
    names = {name for table in TABLES.values() for name in table.columns} | {"paper", "published"}
    checked = {(page, header) for page, header, _ in QUOTED}
    for path in (DOC / "user_guide").glob("*.rst"):
        for title, rows in tables(path.stem):
            of_twenty = len({row[0] for row in rows} & set(PUBLISHED)) > 3
            if of_twenty and names & set(title.split()) - {"columns", "rows"}:
                assert (path.stem, title) in checked, (path.stem, title)


def test_the_page_of_stacks_has_the_best_published_figures():
    for name in ("twenty_table.inc", "twenty_slow_table.inc"):
        text = (DOC / "user_guide" / name).read_text(encoding="utf-8")
        head, *rows = (row.split("\n     - ") for row in text.split("\n   * - ")[1:])
        at = head.index("published")
        assert len(rows) >= 4
        for row in rows:
            if row[0] in PUBLISHED:
                assert float(row[at].strip("* ")) == pytest.approx(PUBLISHED[row[0]], abs=6e-3)


def test_the_report_shows_rows_of_the_ledger_as_they_are():
    ledger = (DOC / "papers" / "ledger.csv").read_text(encoding="utf-8")
    report = (DOC / "benchmarks.rst").read_text(encoding="utf-8")
    selected = report.split("\n\nFrom the ledger (")[1:]
    assert selected
    known = {row.what for row in papers.all_rows()}
    for part in selected:
        table = part.split(".. list-table::")[1].split("\n\n", 2)[1]
        cells = re.findall(r"^   [* ] - ?(.*)$", table, flags=re.MULTILINE)[5:]
        assert len(cells) >= 5
        for what, theirs, ours, status, _ in zip(*[iter(cells)] * 5):
            assert what in known
            for cell in (theirs, ours, status):
                assert cell in ledger, (what, cell)
