"""What docstrings of estimators say of the parameters that they share, written once.

    python -m tests.docstrings

fills the texts below into the docstrings of the classes that have such a parameter. They stand in
the files of the package, where ``help``, editors and doctests read them, so that an import fills in
nothing. A test says which docstrings differ.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ESTIMATORS = Path(__file__).parents[1] / "skpc" / "estimators"
WIDTH = 100
_SEED = "int, RandomState instance or None, default=None"
#: Parameter: its type, and what a docstring says of it.
SHARED = {
    "categorical_features": (
        '"auto", "from_dtype", None or array-like, default="auto"',
        "Which columns are categorical: a boolean mask, column numbers, or names. "
        '"from_dtype": those with a category dtype. "auto": these, strings, bools, and numeric '
        "columns of two integers in 0..15, a few unusual ones apart (one in a thousand).",
    ),
    "categories": (
        '"auto" or list, default="auto"',
        "The states of each column as in OrdinalEncoder; None in the list lets the data of that "
        "column decide. A column with declared categories is categorical.",
    ),
    "atoms": (
        '"auto" or dict, default="auto"',
        "A dict from columns (names or numbers) to the values that are atoms, where you know "
        "them; the atoms of the other columns are found.",
    ),
    "bounds": (
        "dict, default=None",
        "A dict from columns (names or numbers) to pairs (lower, upper), between which all values "
        "lie. None stands for a side without a bound.",
    ),
    "handle_unknown": (
        '{"unseen", "missing", "error"}, default="unseen"',
        "What to do with a category that has not been seen or declared: take it as missing, or "
        'refuse it. "unseen" takes it as missing too, but in columns of strings log densities '
        "count the probability of such a category, the share of the training rows whose category "
        "is seen once.",
    ),
}
#: Parameters of which each class says what they do there; all have the type, and the ending.
ENDING = {
    "random_state": (_SEED, ""),
    "n_jobs": (
        "int, default=None",
        "None means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores. The result "
        "is the same.",
    ),
    "verbose": ("int, default=0", ""),
}
_PLAIN = 'Used by ``margins="auto"``.'
#: What a class adds to a shared text.
ADDED = {
    ("CutsetNetworkBD", "categorical_features"): (
        "The folds of a cross-validation can then disagree, so declare the columns or their "
        "``categories`` where that matters."
    ),
    ("ExpectedPredictor", "categorical_features"): "A density that is given has its own.",
    **{
        (name, parameter): _PLAIN
        for name in ("CutsetNetworkBD", "MixtureOfAllTrees", "SoftLearnSPN")
        for parameter in ("atoms", "bounds")
    },
}
#: Classes in which a parameter means something else.
OWN = {
    ("CellErrorDetector", "bounds"),
    ("CellErrorDetector", "handle_unknown"),
    ("ExpectedKernelSVC", "categorical_features"),
    ("ExpectedKernelSVR", "categorical_features"),
}


def wanted(owner: str, name: str, description: str) -> tuple[str, str] | None:
    """Type and description of a parameter of a class; None where it has its own."""
    if name in SHARED and (owner, name) not in OWN:
        kind, text = SHARED[name]
        return kind, f"{text} {ADDED.get((owner, name), '')}".strip()
    if name in ENDING:
        kind, ending = ENDING[name]
        begins = ending.split(" ", 2)[:2]
        # A class says first what it does with the parameter.
        if ending:
            description = re.split(" ?" + " ".join(begins), description)[0]
            same = r" (The results? (are|is) the same|The result does not depend on it)\."
            description = re.sub(same, "", description)
        return kind, f"{description} {ending}".strip()
    return None


def filled(source: str) -> str:
    """The source of a module with the shared texts in its docstrings."""
    lines = source.splitlines(keepends=True)
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    # From the end on, so that lines before keep their numbers.
    for node in sorted(classes, key=lambda node: -node.lineno):
        if ast.get_docstring(node) is None:
            continue
        text = node.body[0]
        for start, end, name in reversed([*_parameters(lines, text.lineno - 1, text.end_lineno)]):
            indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
            words = " ".join(" ".join(lines[start + 1 : end]).split())
            shared = wanted(node.name, name, words)
            if shared is not None:
                inner = f"{indent}    "
                body = textwrap.wrap(shared[1], WIDTH - len(inner), break_on_hyphens=False)
                lines[start:end] = [
                    f"{indent}{name} : {shared[0]}\n",
                    *(f"{inner}{line}\n" for line in body),
                ]
    return "".join(lines)


def _parameters(lines: list[str], start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """First line, line after the last one, and name of each parameter of a docstring."""
    heads = [at for at in range(start, end) if lines[at].strip() == "Parameters"]
    if not heads:
        return
    at = heads[0] + 2
    indent = len(lines[heads[0]]) - len(lines[heads[0]].lstrip())
    while at < end and lines[at].strip():
        after = at + 1
        while after < end and re.match(rf" {{{indent + 1},}}\S", lines[after]):
            after += 1
        yield at, after, lines[at].partition(" : ")[0].strip()
        at = after


def main() -> None:
    for path in sorted(ESTIMATORS.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if (changed := filled(source)) != source:
            path.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    main()
