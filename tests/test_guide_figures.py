"""Published figures in the guide are those of the one source, and ours beside them the ledger's."""

import csv
import functools
import re
from pathlib import Path

import pytest

from tests.benchmarks.papers import __main__ as papers
from tests.benchmarks.papers.ledger import read_cache
from tests.benchmarks.published import PUBLISHED, TABLES, column

DOC = Path(__file__).parents[1] / "doc"
GUIDE = DOC / "user_guide"
BENCHMARKS = Path(__file__).parent / "benchmarks"
#: Pages of the guide that have figures of their own.
PAGES = sorted(path.stem for path in GUIDE.glob("*.rst"))
#: File, a sentence with places for figures, and for each the measurement and its figure.
SENTENCES = [
    (
        "papers/which_rows.rst",
        "hard LearnSPN of skpc has # on validation rows and # on test rows",
        [("soft/tuned/nltcs", "hard", part) for part in ("valid", "test")],
    ),
    (
        "papers/which_rows.rst",
        "nltcs gives # (LearnSPN) and # (SoftLearn) on validation rows, and # and # on test rows",
        [
            (f"soft/{assignment}/kmeans/nltcs", part)
            for part in ("valid", "test")
            for assignment in ("hard", "soft")
        ],
    ),
    *(
        (
            "papers/which_rows.rst",
            sentence,
            [(f"soft/tuned/{name}", "hard", part) for part in ("valid", "test")],
        )
        for name, sentence in (
            ("kdd", "# and # on kdd"),
            ("eachmovie", "# and # on eachmovie"),
            ("20ng", "# and # on 20ng"),
            ("webkb", "# and # on webkb"),
            ("r52", "r52 lies between, # and #"),
            ("book", "book speaks against it: # and #"),
        )
    ),
]
#: Sentences about the mean errors of the centres beyond a bad cut, by key of the measurement.
BAD_CUT = [
    (
        "../examples/methods/plot_bad_cut.py",
        "is off by # on the mean here, by # with 2 and by # with 30",
        ("soft 1", "soft 2", "soft 30"),
    ),
    (
        "user_guide/soft_learn.rst",
        "off by # with ``beta=1``, # with 2, # with 5, # with 10 and # with 30, and by # with hard",
        ("soft 1", "soft 2", "soft 5", "soft 10", "soft 30", "hard"),
    ),
]

OURS_AND_COPIES = ("pool", "boosting, masked copies", "LightGBM, masked copies")
EXPECTED = ("expected", "best imputer")
#: Sentences whose figures are those of tables: for each the file, the first cells of its row, its
#: column, and which of several figures of a cell it is.
CELLS = [
    (
        "../README.rst",
        "segment: # to # ",
        [("numbers_completion", "segment", column) for column in ("TableMixture", "regressions")],
    ),
    (
        "../README.rst",
        "cmc: # to # ",
        [("numbers_completion", "cmc", column) for column in ("TableMixture", "regressions")],
    ),
    (
        "../README.rst",
        "electricity, half the cells missing: # to #",
        [("classification", "electricity", label, "50 %") for label in ("pool", "boosting")],
    ),
    (
        "../README.rst",
        "electricity, complete: # to #",
        [("classification", "electricity", label, "0 %") for label in ("pool", "boosting")],
    ),
    (
        "../README.rst",
        "segment, half the cells missing: # to # (#)",
        [("classification", "segment", label, "50 %") for label in OURS_AND_COPIES],
    ),
    (
        "../README.rst",
        "cmc, complete, is ahead by little: # to # (#)",
        [("classification", "cmc", label, "0 %") for label in OURS_AND_COPIES],
    ),
    (
        "../README.rst",
        "breast_cancer: # to #",
        [("numbers_gaussian", "breast_cancer", column) for column in ("TableMixture", "BIC")],
    ),
    (
        "../README.rst",
        "iris: # to #",
        [("numbers_gaussian", "iris", column) for column in ("TableMixture", "BIC")],
    ),
    (
        "../README.rst",
        "electricity: # to #",
        [("expected_predictor", "electricity, 50 %", column) for column in EXPECTED],
    ),
    (
        "../README.rst",
        "diabetes, error in standard deviations: # to #",
        [("expected_predictor", "diabetes, 50 %", column) for column in EXPECTED],
    ),
]


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


def is_shown(text, figure):
    """Whether a figure is rounded to the digits of a text."""
    digits = len(text.partition(".")[2])
    return abs(float(text.replace(",", "")) - figure) <= 0.51 * 10.0**-digits


#: A figure within a sentence.
FIGURE = r"(-?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+))"


def figures_of(name, sentence):
    """The figures of a sentence, with a place for each where it has #."""
    text = " ".join((DOC / name).read_text(encoding="utf-8").replace("\n# ", "\n").split())
    (found,) = re.findall(re.escape(sentence).replace(r"\#", r"(-?[0-9]*\.[0-9]+)"), text)
    return found


def test_refined_networks_reach_the_figures_of_soft_learn_on_validation_rows():
    """The page counts the tables; the figures stand on the page of the paper."""
    cache = read_cache(DOC / "papers" / "measured.json")
    published = {
        name: figure
        for name, figure in column("soft_learn/table_1", "SoftLearn").items()
        if f"soft/tuned/{name}" in cache
    }
    # The paper rounds to two decimals.
    reached = [
        name
        for name, figure in published.items()
        if cache[f"soft/tuned/{name}"]["figures"]["refined"]["valid"] >= figure - 0.005
    ]
    text = " ".join((DOC / "user_guide" / "soft_learn.rst").read_text(encoding="utf-8").split())
    sentence = f"at or above SoftLearn on {len(reached)} of {len(published)} tables"
    assert sentence in text


@pytest.mark.parametrize(("name", "sentence", "sources"), SENTENCES)
def test_figures_in_sentences_are_those_of_the_ledger(name, sentence, sources):
    cache = read_cache(DOC / "papers" / "measured.json")
    for text, (job, *keys) in zip(figures_of(name, sentence), sources, strict=True):
        figure = cache[job]["figures"]
        for key in keys:
            figure = figure[key]
        assert is_shown(text, figure), (sentence, job)


@pytest.mark.parametrize(("name", "sentence", "keys"), BAD_CUT)
def test_errors_beyond_a_bad_cut_are_those_of_the_ledger(name, sentence, keys):
    means = read_cache(DOC / "papers" / "measured.json")["soft/bad_cut"]["figures"]
    for text, key in zip(figures_of(name, sentence), keys, strict=True):
        assert is_shown(text, sum(abs(abs(mean) - 0.5) for mean in means[key]) / len(means[key]))


@functools.cache
def cells_of(name):
    """The cells of a file of the guide, by the first cells of their row and by their column.

    An empty first cell stands for the one above.
    """
    with open(GUIDE / f"{name}.csv", encoding="utf-8", newline="") as file:
        heads, *rows = csv.reader(file)
    cells, title = {}, ""
    for row in rows:
        title = row[0] or title
        for head, cell in zip(heads, row, strict=True):
            for n_titles in range(1, len(row)):
                cells.setdefault((title, *row[1:n_titles], head), cell)
    return cells


@pytest.mark.parametrize(("name", "sentence", "sources"), CELLS)
def test_figures_in_sentences_are_those_of_files(name, sentence, sources):
    for text, (file, *place) in zip(figures_of(name, sentence), sources, strict=True):
        *titles, column, number = (*place, 0) if isinstance(place[-1], str) else place
        cell = cells_of(file)[(*titles, column)]
        figure = re.findall(r"-?[0-9,]*\.?[0-9]+", cell)[number]
        assert is_shown(text, float(figure.replace(",", ""))), (sentence, file, place, cell)


def test_the_cells_in_which_an_expectation_is_ahead_are_those_of_the_table():
    cells = cells_of("expected_predictor")
    titles = {title for title, *_ in cells}
    n_ahead = sum(
        float(cells[title, "expected"]) < float(cells[title, "best imputer"].split()[0])
        for title in titles
    )
    for page in ("expected_predictor", "choosing"):
        text = " ".join((GUIDE / f"{page}.rst").read_text(encoding="utf-8").split())
        assert re.search(rf"every imputer in {n_ahead} of (these )?{len(titles)} cells", text), page


@pytest.mark.parametrize("page", PAGES)
def test_every_table_of_figures_is_a_file_that_a_command_writes(page):
    text = (GUIDE / f"{page}.rst").read_text(encoding="utf-8")
    assert not [rows for _, rows in tables(page) if are_figures(rows)]
    listed = re.findall(r"(?m)^   (?:\* | {2})- ?(.*)$", text)
    assert not are_figures([listed])
    # A measurement that a benchmark has printed.
    assert not re.search(r"(?m)^   \S+(?: +-?[0-9]*\.[0-9]+){3}", text)
    modules = {path.stem: path.read_text(encoding="utf-8") for path in BENCHMARKS.glob("*.py")}
    named = re.findall(r"tests\.\s*benchmarks\.(\w+)", text)
    for file in re.findall(r":file: (\w\S*)\.csv", text):
        writers = {name for name, code in modules.items() if writes(code, file)}
        assert any(writer.startswith(name) for writer in writers for name in named), file


def are_figures(rows):
    """Whether most cells of rows behind their first one begin with a figure."""
    cells = [cell for row in rows for cell in row[1:] if cell]
    return sum(bool(re.match(r"[-+]?[0-9]*\.?[0-9]", cell)) for cell in cells) > len(cells) / 2


def writes(code, file):
    """Whether the code has the name of a file, or its first word with the others to come."""
    return f'"{file}"' in code or f"{file.partition('_')[0]}_{{" in code


def test_no_table_of_the_guide_repeats_figures_of_a_paper():
    """The pages of the papers are the one place; the stack's table is checked below."""
    names = {name for table in TABLES.values() for name in table.columns} | {"paper", "published"}
    for path in (DOC / "user_guide").glob("*.rst"):
        for title, rows in tables(path.stem):
            n_of_twenty = len({row[0] for row in rows} & set(PUBLISHED))
            columns_of_papers = names & set(title.split()) - {"columns", "rows"}
            assert n_of_twenty <= 3 or not columns_of_papers, (path.stem, title)


def test_the_page_of_stacks_has_the_best_published_figures():
    for name in ("twenty_table.inc", "twenty_slow_table.inc", "twenty_forest_table.inc"):
        text = (DOC / "user_guide" / name).read_text(encoding="utf-8")
        head, *rows = (row.split("\n     - ") for row in text.split("\n   * - ")[1:])
        at = head.index("published")
        assert len(rows) >= 4
        for row in rows:
            if row[0] in PUBLISHED:
                assert float(row[at].strip("* ")) == pytest.approx(PUBLISHED[row[0]], abs=6e-3)


def test_the_report_repeats_no_row_of_the_ledger():
    """Two copies of a figure would differ one day; the pages of the papers are the one place."""
    report = (DOC / "benchmarks.rst").read_text(encoding="utf-8")
    rows = [row.what for row in papers.all_rows()]
    assert len(rows) > 500
    assert not [what for what in rows if f" - {what}\n" in report]
    assert ":ref:`papers`" in report
