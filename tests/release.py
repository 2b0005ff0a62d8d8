"""What an index takes: the archive of sources and the wheel of the last commit.

    python -m tests.release https://example.org/skpc [FOLDER]
    python -m tests.release kernels [FOLDER]

An index shows the README without the files beside it, so its links become links into the repository
at that address, which is entered with those of the documentation, the changes and the citation.
``build`` makes both files from a copy, in ``dist`` or that folder; ``twine check --strict`` reads
them as an index does.

``kernels`` makes the wheel ``skpc-kernels``: machine code for this Python, this numba and all
processors of this kind. Its metadata are written into a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
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


KERNELS_METADATA = """
[metadata]
name = skpc-kernels
version = {version}
description = Machine code of skpc, so that a first use compiles nothing
license_expression = BSD-3-Clause

[options]
packages = skpc_kernels
python_requires = =={python}.*
install_requires =
    skpc=={version}
    numba=={numba}

[options.package_data]
skpc_kernels = *.zip

[bdist_wheel]
python_tag = cp{tag}
plat_name = {platform}
"""


def build_kernels(out: Path, *names: str) -> None:
    """Build the wheel of machine code in a folder, for all estimators or those that are named."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "skpc_kernels"
        package.mkdir()
        (package / "__init__.py").write_text('"""Machine code that skpc finds by itself."""\n')
        command = [sys.executable, "-m", "skpc.warmup", *names]
        subprocess.run([*command, "--ship", package / "machine_code.zip"], cwd=ROOT, check=True)
        python = sysconfig.get_python_version()
        text = KERNELS_METADATA.format(
            version=VERSION,
            python=python,
            numba=metadata.version("numba"),
            tag=python.replace(".", ""),
            platform=re.sub(r"\W", "_", sysconfig.get_platform()),
        )
        (package.parent / "setup.cfg").write_text(text)
        required = '[build-system]\nrequires = ["setuptools>=77"]\n'
        (package.parent / "pyproject.toml").write_text(
            f'{required}build-backend = "setuptools.build_meta"\n'
        )
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(out), folder]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    folder = Path(*sys.argv[2:3] or ["dist"]).resolve()
    if sys.argv[1] == "kernels":
        build_kernels(folder, *sys.argv[3:])
    else:
        build(sys.argv[1].rstrip("/"), folder)
