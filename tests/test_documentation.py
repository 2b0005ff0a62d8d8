"""What the pages point to exists, their words are spelled right, and the README's example runs."""

import doctest
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import skpc
from tests.test_architecture import LAYERS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.rst"
PAGES = sorted(
    page
    for page in [README, *ROOT.glob("doc/**/*.rst"), *ROOT.glob("doc/**/*.inc")]
    if not {"auto_examples", "backreferences", "generated", "_build"} & set(page.parts)
)
HOW_TOS = ("leaf", "learner", "kernel")
TEXTS = [*PAGES, *sorted(ROOT.glob("examples/**/*.py"))]


def test_links_of_the_readme_lead_to_files():
    targets = re.findall(r"`[^`<>]+<([^`<>]+)>`_", README.read_text())
    targets += re.findall(r"^\.\. image:: (\S+)", README.read_text(), re.MULTILINE)
    missing = [target for target in targets if ":" not in target and not (ROOT / target).exists()]
    assert len(targets) > 10
    assert not missing


def test_pictures_exist_or_are_made_by_an_example():
    pictures = re.compile(r"^ *\.\. (?:image|figure):: (\S+)", re.MULTILINE)
    for page in PAGES:
        for target in pictures.findall(page.read_text()):
            made = re.fullmatch(
                r"/auto_examples/((?:\w+/)?)images/sphx_glr_(plot_\w+)_\d{3}\.png", target
            )
            if made:
                assert (ROOT / "examples" / made[1] / f"{made[2]}.py").exists(), f"{page}: {target}"
            else:
                folder = ROOT / "doc" if target.startswith("/") else page.parent
                assert (folder / target.lstrip("/")).exists(), f"{page}: {target}"


def test_files_that_a_page_names_exist():
    """Paths of files, and the modules of benchmarks that a page says to run."""
    missing = []
    for page in TEXTS:
        words = page.read_text()
        named = re.findall(r"``((?:skpc|tests|examples|doc)/[\w/]+\.\w+)``", words)
        modules = re.findall(r"-m (tests[.\w]+\w|skpc[.\w]*\w)", words)
        named += [module.replace(".", "/") for module in modules]
        ends = ("", ".py", "/__main__.py")
        missing += [
            f"{page}: {name}"
            for name in named
            if not any((ROOT / f"{name}{end}").exists() for end in ends)
        ]
    assert not missing


def test_the_example_of_the_readme_runs():
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(README), module_relative=False, optionflags=options).failed == 0


def test_the_test_command_follows_its_mark():
    """The script that checks a clean copy reads the first command after the mark."""
    after = README.read_text().split("\n.. run-the-tests\n")[1]
    command = next(line for line in after.splitlines() if line.startswith("    "))
    assert command.startswith("    python3 -m venv .venv && ")
    assert command.endswith("python -m pytest -n auto")


def test_the_table_of_the_quickstart_is_of_the_estimators_that_it_compares():
    """``python -m tests.benchmarks.quickstart`` runs the example with other seeds."""
    example = (ROOT / "examples" / "plot_quickstart.py").read_text()
    assert example.count("\nseed = 0\n") == 1
    _, *rows = (ROOT / "doc" / "user_guide" / "quickstart.csv").read_text().splitlines()
    assert len(rows) == 7
    for row in rows:
        assert re.split("[, ]", row)[0] in example


def widths_of_code(path):
    """Number and width of each line of a block with a language, or of an example."""
    block = None  # the indentation of the directive
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.lstrip()
        indent = len(line) - len(code)
        if block is not None and code and indent <= block:
            block = None
        if code.startswith((">>> ", "... ")):
            yield number, len(code)
        elif block is not None:
            yield number, len(line) - block - 3
        # What a program has printed may be wider.
        if path.suffix != ".py" and re.match(r"\.\. code-block:: (?!text)", code):
            block = indent


def test_blocks_of_code_are_at_most_80_columns_wide():
    pages = [*PAGES[1:], *sorted(ROOT.glob("skpc/**/*.py"))]
    wide = [
        f"{page}, line {number}: {width}"
        for page in pages
        for number, width in widths_of_code(page)
        if width > 80
    ]
    assert not wide


def test_words_are_spelled_right():
    """Common misspellings, and words that the pages avoid (``doc/words.txt``)."""
    pytest.importorskip("codespell_lib")
    places = ["README.rst", "doc", "examples", "skpc"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "-D", "-", "-D", "doc/words.txt", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_runs_the_versions_of_python_that_setup_names():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    versions = re.findall(r'"([\d.]+)"', re.search(r"python: \[(.*)\]", workflow)[1])
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.cfg").read_text())
    assert versions == named
    assert "- run: .ci/run\n" in workflow


JOIN = runpy.run_path(str(ROOT / "doc" / "whats_new" / "join.py"))


def unnamed(text):
    """What a fragment lacks: a name that is public, or a page of the guide."""
    names = re.findall(r":(?:class|func|meth|mod):`~?([\w.]+)`", text)
    pages = re.findall(r":doc:`(?:[^`<]*<)?/([\w/]+)>?`", text)
    missing = [page for page in pages if not (ROOT / "doc" / f"{page}.rst").exists()]
    for name in names:
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    return missing if names or pages else ["a name"]


def n_sentences(text):
    """Full stops outside of code and names that end a sentence."""
    return len(re.findall(r"[.!?](?=\s|$)", re.sub(r"`+[^`]*`+", "name", text)))


def test_fragments_of_what_is_new_are_short_and_name_something_public():
    for path in JOIN["fragments"]():
        text = path.read_text()
        assert 1 <= n_sentences(text) <= 2, path
        assert not unnamed(text), path
        assert path.name.partition("-")[0] in JOIN["SECTIONS"], path


def test_a_fragment_that_is_long_or_names_nothing_public_is_seen():
    assert n_sentences("One. Two, by ``a.b``. Three.") == 3
    assert unnamed("Something is better.")
    assert unnamed(":class:`skpc.NoSuchName` is new.") == ["skpc.NoSuchName"]
    assert unnamed(":doc:`/user_guide/no_page` is new.") == ["user_guide/no_page"]
    assert not unnamed(":class:`~skpc.TableMixture` is better.")


def test_fragments_are_joined_below_the_heading_that_they_name(tmp_path, monkeypatch):
    monkeypatch.setitem(JOIN["fragments"].__globals__, "FOLDER", tmp_path)
    (tmp_path / "faster-b.rst").write_text("One\nline more.\n")
    (tmp_path / "faster-a.rst").write_text("Two.\n")
    (tmp_path / "new-c.rst").write_text("Three.\n")
    page = "What is new\n-----------\n\nWords\n\nSpeed\n-----\n\n- Old.\n"
    assert JOIN["joined"](page) == (
        "What is new\n-----------\n\n- Three.\n\nWords\n\n"
        "Speed\n-----\n\n- Two.\n- One\n  line more.\n- Old.\n"
    )


def test_the_page_of_this_version_has_the_headings_of_fragments():
    major, minor, *_ = skpc.__version__.split(".")
    page = (ROOT / "doc" / "whats_new" / f"v{major}.{minor}.rst").read_text()
    for heading in JOIN["SECTIONS"].values():
        assert page.count(f"{heading}\n{'-' * len(heading)}\n\n") == 1, heading


def test_the_picture_of_the_rooms_is_that_of_the_layers():
    page = (ROOT / "doc" / "design.rst").read_text()
    rooms = [set(line.partition("│")[0].split()) for line in page.splitlines() if "│" in line]
    assert rooms == LAYERS[::-1]


def test_how_tos_and_contributing_are_short():
    for name, most in (("contributing", 1500), *((f"howto/{h}", 400) for h in HOW_TOS)):
        assert len((ROOT / "doc" / f"{name}.rst").read_text().split()) <= most, name


def test_functions_that_how_tos_name_exist():
    """Names in double backticks that look like those of Python are words of the code."""
    code = [*ROOT.glob("skpc/**/*.py"), *ROOT.glob("tests/**/*.py")]
    words = {word for path in code for word in re.findall(r"\w+", path.read_text())}
    for name in HOW_TOS:
        page = (ROOT / "doc" / "howto" / f"{name}.rst").read_text()
        named = re.findall(r"``([A-Za-z_]+)(?:\([^`]*\))?``", page)
        assert len(named) > 8
        assert not set(named) - words, name
