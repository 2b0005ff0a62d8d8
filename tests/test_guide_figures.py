"""Published figures in the guide are those of the one source, and ours beside them the ledger's."""

import csv
import functools
import itertools
import re
from pathlib import Path

import pytest

from tests.benchmarks.papers import __main__ as papers
from tests.benchmarks.papers.ledger import read_cache
from tests.benchmarks.published import PUBLISHED, TABLES, column

DOC = Path(__file__).parents[1] / "doc"
GUIDE = DOC / "user_guide"
BENCHMARKS = Path(__file__).parent / "benchmarks"
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
            [(f"soft/hard/em/{name}", part) for part in ("valid", "test")],
        )
        for name, sentence in (
            ("kdd", "# and # on kdd"),
            ("eachmovie", "# and # on eachmovie"),
            ("20ng", "# and # on 20ng"),
            ("webkb", "# and # on webkb"),
            ("r52", "# and # on r52"),
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
#: Files that no benchmark writes yet, with figures of several runs, or of other environments.
BY_HAND = {"classification", "regression", "coming_from_spflow"}
#: Files in which high figures are good.
LOG_DENSITIES = {"numbers_loglik", "numbers_gaussian"}
POOL = ("pool", "boosting, masked copies")
POOL_AND_TWO = (*POOL, "LightGBM, masked copies")
EXPECTED = ("expected", "best imputer")
STACKS = ("``StackedDensity()``", "SPFlow, continuous mixture of Chow-Liu trees")
README = "../README.rst"
CHOOSING = "user_guide/choosing.rst"
IMPUTATION = "user_guide/imputation.rst"
DISTANCE = "imputation_energy_distance_of_draws"
#: Sentences whose figures are in files: for each the file, the first cells of its row, its column.
CELLS = [
    (
        README,
        f"{table}: # to # ",
        [("numbers_completion", table, head) for head in ("TableMixture", "regressions")],
    )
    for table in ("segment", "cmc")
]
CELLS += [
    (
        README,
        f"{table}: # to #",
        [("numbers_gaussian", table, "TableMixture"), ("numbers_gaussian", table, "BIC")],
    )
    for table in ("breast_cancer", "iris")
]
CELLS += [
    (README, sentence, [("classification", table, label, head) for label in labels])
    for sentence, table, head, labels in (
        (
            "electricity, half the cells missing: # to #",
            "electricity",
            "50 %",
            ("pool", "boosting"),
        ),
        ("electricity, complete: # to #", "electricity", "0 %", ("pool", "boosting")),
        ("segment, half the cells missing: # to # (#)", "segment", "50 %", POOL_AND_TWO),
        ("cmc, complete, is ahead by little: # to # (#)", "cmc", "0 %", POOL_AND_TWO),
    )
]
CELLS += [
    (README, sentence, [("expected_predictor", f"{table}, 50 %", head) for head in EXPECTED])
    for sentence, table in (
        ("electricity: # to #", "electricity"),
        ("diabetes, error in standard deviations: # to #", "diabetes"),
    )
]
CELLS += [
    (
        README,
        "plants: # to #; # s to # s",
        [("coming_from_spflow", stack, "plants") for stack in (*STACKS, *STACKS)],
    ),
    (
        README,
        "rare peaks: # of a standard deviation, skpc #",
        [
            ("regression", "electricity, nswprice", label, "0 %")
            for label in ("best imputer + model", "pool")
        ],
    ),
]
CELLS += [
    (
        IMPUTATION,
        "a mean distance of #, mice's defaults #",
        [(DISTANCE, method, "all") for method in ("MultipleImputer", "mice pmm")],
    ),
    (IMPUTATION, "ahead of it on four tables (#)", [(DISTANCE, "mice cart", "all")]),
    (
        IMPUTATION,
        "coefficients are covered at # with 100 rows and at # with 600",
        [("multiple_imputation_coverage", "interaction", n, "model") for n in ("100", "600")],
    ),
    (
        IMPUTATION,
        "the distances are # and # of mice's, on the simulated one # and #",
        [
            ("multiple_imputation_real", table, mechanism, "default over mice's")
            for table in ("the real tables", "product")
            for mechanism in ("MCAR", "MAR")
        ],
    ),
]
#: Sentences that count in how many cells of a file the first of some columns, or rows of a table,
#: is ahead of the others.
COUNTS = [
    (CHOOSING, "every imputer in # of # cells", "expected_predictor", EXPECTED),
    (
        "user_guide/expected_predictor.rst",
        "every imputer in # of these # cells",
        "expected_predictor",
        EXPECTED,
    ),
    (CHOOSING, "lack cells in all #", "classification", POOL),
    (
        CHOOSING,
        "behind an imputer in # of #",
        "generative_forest",
        ("GenerativeForest", "iterative + forest"),
    ),
    ("user_guide/classification.rst", "copies in all # cases", "classification", POOL),
    (CHOOSING, "lack cells in # of #", "regression", POOL),
    ("user_guide/regression.rst", "copies in # of # cases", "regression", POOL),
    (
        CHOOSING,
        "the highest log density on # of # tables",
        "numbers_loglik",
        ("SoftLearnSPN", "CutsetNetworkBD", "five of them", "MixtureOfAllTrees"),
    ),
    (
        CHOOSING,
        "ahead of the others on # of # tables",
        "numbers_gaussian",
        ("TableMixture", "BIC", "SoftLearnSPN", "SoftLearnSPN, univariate", "CutsetNetworkBD"),
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
            top, bottom = borders[0], borders[-1]
            # Some tables have no heads.
            middle = borders[1] if len(borders) > 2 else top
            title = " ".join(" ".join(lines[top + 1 : middle]).split())
            found.append((title, _cells(lines[middle + 1 : bottom], lines[top])))
            borders = []
    return found


def _cells(lines, border):
    starts = [match.start() for match in re.finditer("=+", border)]
    ends = [*starts[1:], None]
    return [[line[start:end].strip() for start, end in zip(starts, ends)] for line in lines]


def is_shown(text, figure):
    """Whether a figure is rounded to the digits of a text."""
    digits = len(text.partition(".")[2])
    return abs(float(text.replace(",", "")) - figure) <= 0.51 * 10.0**-digits


#: A figure within a sentence.
FIGURE = r"(-?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+))"


def figures_of(name, sentence):
    """The figures of a sentence, with a place for each where it has #."""
    text = " ".join((DOC / name).read_text(encoding="utf-8").replace("\n# ", "\n").split())
    (found,) = re.finditer(re.escape(sentence).replace(r"\#", FIGURE), text)
    return found.groups()


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
def rows_of(file):
    """Rows of a file of the guide, by their heads; an empty first cell stands for the one above."""
    with open(GUIDE / f"{file}.csv", encoding="utf-8", newline="") as lines:
        rows = [*csv.DictReader(lines)]
    for above, row in itertools.pairwise(rows):
        first = next(iter(row))
        row[first] = row[first] or above[first]
    return rows


def cell_of(file, *titles, head):
    """A cell of the row that begins with the titles."""
    (cell,) = (row[head] for row in rows_of(file) if (*row.values(),)[: len(titles)] == titles)
    return cell


@pytest.mark.parametrize(("name", "sentence", "sources"), CELLS)
def test_figures_in_sentences_are_those_of_files(name, sentence, sources):
    for text, (file, *titles, head) in zip(figures_of(name, sentence), sources, strict=True):
        cell = cell_of(file, *titles, head=head)
        figures = [float(found.replace(",", "")) for found in re.findall(FIGURE, cell)]
        assert any(is_shown(text, figure) for figure in figures), (sentence, file, titles, cell)


def test_the_readme_has_the_figures_of_the_report_on_other_libraries():
    report = (DOC / "benchmarks.rst").read_text(encoding="utf-8")
    seconds, scores = zip(
        *(
            re.search(rf"nltcs +{library} \S+ +{model} +{FIGURE} +{FIGURE} ", report).groups()
            for library, model in (("skpc", "SoftLearnSPN"), ("deeprob-kit", "LearnSPN"))
        )
    )
    claimed = figures_of(README, "nltcs: # to #; # s to # s")
    for text, figure in zip(claimed, (*scores, *seconds), strict=True):
        assert is_shown(text, float(figure))


@pytest.mark.parametrize(("name", "sentence", "file", "labels"), COUNTS)
def test_counts_in_sentences_are_those_of_files(name, sentence, file, labels):
    rows = rows_of(file)
    heads = list(rows[0])
    if labels[0] in heads:
        compared = [[row[label] for label in labels] for row in rows]
    else:
        compared = [
            [cell_of(file, title, label, head=head) for label in labels]
            for title in {row[heads[0]]: None for row in rows}
            for head in heads[2:]
            if "accuracy" not in head
        ]
    figures = [[float(cell.split()[0]) for cell in cells] for cells in compared]
    # Log densities are high where errors are low.
    best = max if file in LOG_DENSITIES else min
    n_ahead = sum(ours == best(ours, *others) and ours not in others for ours, *others in figures)
    claimed = [int(text) for text in figures_of(name, sentence)]
    # "All 36" is one figure.
    assert claimed in ([n_ahead, len(figures)], [n_ahead] * (n_ahead == len(figures)))


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
    for file in set(re.findall(r":file: (\w\S*)\.csv", text)) - BY_HAND:
        assert (GUIDE / f"{file}.csv").exists(), file
        writers = {name for name, code in modules.items() if writes(code, file)}
        assert any(writer.startswith(name) for writer in writers for name in named), file


def are_figures(rows):
    """Whether most cells of rows behind their first one begin with a figure.

    Rows of parameters are no measurements.
    """
    cells = [cell for row in rows if row and row[0][:2] != "``" for cell in row[1:] if cell]
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
