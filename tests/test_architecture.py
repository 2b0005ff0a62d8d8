"""The layers of DESIGN: who may import whom, and who may import what."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "skpc"
LAYERS = [
    {"_sources", "_warnings"},
    {"_jit", "_arrays", "_lazy", "_files", "_repr", "_threads", "_version", "exceptions"},
    {"_fast_math", "_random", "_validation"},
    {"variables"},
    {"domain", "circuit"},
    {"kernels", "counting"},
    {"queries"},
    {"learning", "all_trees", "factor_graphs", "messages"},
    {"densities", "discrepancies"},
    {"estimators"},
    {"plotting", "datasets", "warmup"},
]
#: Packages that only these files may import.
SOLE_IMPORTERS = {"numba": {"_jit.py"}, "llvmlite": {"_jit.py"}, "cvxopt": {"_quadratic.py"}}
#: The root of the package shows the estimators; nothing stands above it.
ROOT = {"__init__", "_versions"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(number for number, rooms in enumerate(LAYERS) if name in rooms)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downward_only(path):
    mine = room(path)
    if mine in ROOT:
        return
    for name in imports(path):
        if not name.startswith("skpc."):
            continue
        theirs = name.split(".")[1]
        assert theirs == mine or layer(theirs) < layer(mine), f"{path} imports {name}"
        if theirs == "estimators":
            assert mine in {"estimators", "plotting", "warmup"}, f"{path} imports {name}"


@pytest.mark.parametrize("package", SOLE_IMPORTERS)
def test_some_packages_have_one_door(package):
    found = {path.name for path in MODULES if package in {n.split(".")[0] for n in imports(path)}}
    assert found <= SOLE_IMPORTERS[package]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_and_functions_are_short(path):
    text = path.read_text()
    code = [line for line in text.splitlines() if line.strip()]
    assert len(code) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.body[0].lineno + 1
            if isinstance(node.body[0], ast.Expr):
                length = node.end_lineno - node.body[0].end_lineno
            assert length <= 80, f"{path}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_shipped_code_has_no_assert_and_no_bare_njit(path):
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert), f"{path}:{node.lineno} asserts"
        if isinstance(node, ast.Name) and path.name != "_jit.py":
            assert node.id not in {"njit", "jit", "vectorize", "guvectorize"}, path


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_are_written_by_one_module(path):
    found = re.findall(
        r"""\bopen\([^)]*["'][wxa]|\.write_(?:text|bytes)\(|\bnp\.save""", path.read_text()
    )
    assert path.name == "_files.py" or not found


#: Leaf families, and the only places that may name one.
FAMILIES = {"CATEGORICAL", "GAUSSIAN", "HISTOGRAM", "POISSON", "SCORED", "BLOCK"}
HOMES = ("variables/", "circuit/builder.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_leaf_families_are_named_at_home_only(path):
    if str(path.relative_to(PACKAGE)).startswith(HOMES):
        return
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not names & FAMILIES, f"{path} names {names & FAMILIES}"
    compared = [ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert not any("leaf_family" in text for text in compared), f"{path} asks for a family"


def test_every_room_has_a_layer():
    rooms = {room(path) for path in MODULES} - ROOT
    assert rooms <= set().union(*LAYERS)
