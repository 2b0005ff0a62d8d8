"""Machine code that comes with an installation, so that nothing has to be compiled.

The wheel ``skpc-kernels`` holds one file for a version of skpc, of numba and of Python, and a kind
of processor; ``python -m skpc.warmup --ship`` writes the same file for a working copy. The file is
an archive with a member for each kernel and a list of what it was made of. A member is used only
where all of this is the same here, and where nobody else can write the file: reading it runs code.
"""

from __future__ import annotations

import json
import os
import pickle
import platform
import stat
import sys
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_features

from skpc._version import __version__

#: The file of a working copy, and its name in the wheel.
NAME = "machine_code.zip"
OWN_FILE = Path(__file__).parent / "__pycache__" / NAME
_CONTENTS = "contents.json"
#: Kinds of processors that code is made for: the name that LLVM has for one, and what it can do.
_KINDS = {
    "x86_64": ("x86-64-v3", {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}),
    "aarch64": ("generic", set[str]()),
}


def processor() -> str | None:
    """The kind of processor that code is made for, if this one is of such a kind."""
    # Processors of other kinds compile for themselves.
    unknown = (None, set[str]())
    name, needed = _KINDS.get(platform.machine(), unknown)
    has = get_host_cpu_features()
    return name if all(has.get(feature, False) for feature in needed) else None


def _made_of() -> dict[str, str | None]:
    """What code must have been made of to run here."""
    # Machine code of any other version of these may crash, or compute something else.
    return {
        "skpc": __version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "numba": metadata.version("numba"),
        "system": f"{sys.platform} {platform.machine()}",
        "processor": processor(),
    }


@cache
def shipped_file() -> Path | None:
    """The file of machine code that suits this process, or None."""
    # Where files have no owners, nobody can tell who may have written them.
    if processor() is None or not hasattr(os, "getuid"):
        return None
    # An installed package comes first, then what this copy has made itself.
    package = util.find_spec("skpc_kernels")
    folders = [] if package is None else list(package.submodule_search_locations or [])
    for path in (*(Path(folder) / NAME for folder in folders), OWN_FILE):
        # Safety is judged before anything is read from the file.
        if path.is_file() and _is_safe(path) and _contents(path)[0] == _made_of():
            return path
    return None


def _is_safe(path: Path) -> bool:
    """Whether only the owner of the process, or of the machine, can write a file."""
    # Whoever may change a folder above the file may replace the file.
    for place in (path.resolve(), *path.resolve().parents):
        facts = place.stat()
        # Others may add files to a sticky folder, but not replace those of somebody else.
        is_open = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
        if is_open or facts.st_uid not in (0, os.getuid()):
            return False
    return True


@cache
def _contents(path: Path) -> tuple[Any, Mapping[str, str]]:
    """What the code of a file was made of, and the digest of the sources of each member."""
    try:
        with zipfile.ZipFile(path) as archive:
            made_of, digests = json.loads(archive.read(_CONTENTS))
            return made_of, dict(digests)
    except Exception:  # whatever broken bytes may raise
        return None, {}


def read_shipped(kernel: str, digest: str) -> list[tuple[Any, Any]]:
    """Signatures of a kernel, and what its machine code was reduced to.

    Parameters
    ----------
    kernel : str
        Its name.
    digest : str
        That of the sources that it is made of; no code of others is read.
    """
    path = shipped_file()
    # Other sources, or another version of this kernel: it is compiled.
    if path is None or _contents(path)[1].get(kernel) != digest:
        return []
    with zipfile.ZipFile(path) as archive:
        return list(pickle.loads(archive.read(kernel)))


def write_shipped(path: Path, members: Iterable[tuple[str, str, Any]]) -> None:
    """Write the names, digests and reduced machine code of kernels to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A file that is being written must not be found by other processes.
    partial = path.with_suffix(f".{os.getpid()}")
    digests = {}
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for kernel, digest, code in members:
            digests[kernel] = digest
            archive.writestr(kernel, pickle.dumps(code))
        # Contents come last, when all digests are known.
        archive.writestr(_CONTENTS, json.dumps([_made_of(), digests]))
    # Whoever can write the folder can already run code here; the file must not be open to others.
    partial.chmod(0o644)
    partial.replace(path)
