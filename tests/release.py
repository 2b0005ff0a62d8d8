"""What an index takes: the archive of sources and the wheel of the last commit.

    python -m tests.release https://example.org/skpc [FOLDER]

An index shows the README without the files beside it, so its links become links into the repository
at that address, which is entered with those of the documentation, the changes and the citation.
``build`` makes both files from a copy, in ``dist`` or that folder; ``twine check --strict`` reads
them as an index does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Read, not imported: an environment that builds has no numpy.
VERSION = re.findall(r'"([\w.]+)"', (ROOT / "skpc" / "_version.py").read_text())[0]


def absolute(text: str, home: str) -> str:
    """A page whose links and pictures lead into the repository at the address, as it is tagged."""
    text = re.sub(r"(`[^`<>]+<)(?!\w+:)([^`<>]+>`_)", rf"\1{home}/blob/v{VERSION}/\2", text)
    return re.sub(r"^(\.\. image:: )(?!\w+:)", rf"\1{home}/raw/v{VERSION}/", text, flags=re.M)


def addresses(home: str) -> str:
    """The addresses of a project, for ``setup.cfg``."""
    pages = {
        "Documentation": "doc/index.rst",
        "Changelog": "doc/whats_new/index.rst",
        "Citation": "doc/CITATION.cff",
    }
    lines = [f"{name} = {home}/blob/v{VERSION}/{page}" for name, page in pages.items()]
    lines = [f"Source = {home}", f"Issues = {home}/issues", *lines]
    return "project_urls =\n" + "".join(f"    {line}\n" for line in lines)


def build(home: str, out: Path) -> None:
    """Build and check both files in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        archive = copy / "committed.tar"
        subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
        shutil.unpack_archive(archive, folder)
        readme, setup = copy / "README.rst", copy / "setup.cfg"
        readme.write_text(absolute(readme.read_text(), home))
        text = setup.read_text().replace("\n[options]\n", f"{addresses(home)}\n[options]\n")
        setup.write_text(text)
        subprocess.run([sys.executable, "-m", "build", "--outdir", out, folder], check=True)
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *out.glob(f"skpc-{VERSION}*")],
        check=True,
    )


if __name__ == "__main__":
    build(sys.argv[1].rstrip("/"), Path(*sys.argv[2:3] or ["dist"]).resolve())
