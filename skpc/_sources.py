"""Which files machine code is made of."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent
#: An import of a module of the package at the beginning of a line.
_IMPORT = re.compile(rf"^(?:from|import) {_ROOT.name}\.([\w.]+)", re.MULTILINE)


@cache
def sources_digest(path: str) -> str:
    """Digest of a file and of all modules of the package that it imports, directly or not.

    Functions and constants of those are compiled into its kernels.
    """
    found, new = set(), {Path(path)}
    while new:
        found |= new
        new = {module for file in new for module in _imported(file)} - found
    together = hashlib.sha256()
    for file in sorted(found):
        together.update(_content(file)[1])
    return together.hexdigest()


@cache
def _content(path: Path) -> tuple[str, bytes]:
    """The text of a file, and its digest."""
    content = path.read_bytes()
    return content.decode(), hashlib.sha256(content).digest()


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The modules of the package that a file names in its imports."""
    places = [_ROOT.joinpath(*name.split(".")) for name in _IMPORT.findall(_content(path)[0])]
    found = (p.glob("*.py") if p.is_dir() else [p.with_suffix(".py")] for p in places)
    return frozenset(file for files in found for file in files)
