"""setuptools, with an archive of sources that takes what builds the wheel and what has changed.

Without this, setuptools adds ``tests/test*.py`` and none of the folders beside them: tests that
cannot run. A file ``MANIFEST.in`` would do the same from the root of the project.
"""

from glob import glob

from setuptools.build_meta import *  # noqa: F403
from setuptools.command.sdist import sdist

BESIDE = (
    "pyproject.toml",
    "setup.cfg",
    ".ci/backend.py",
    "doc/CITATION.cff",
    "doc/cite.rst",
    "doc/whats_new/*.rst",
)


def _add_files(command: sdist) -> None:
    for pattern in BESIDE:
        command.filelist.extend(glob(pattern))


sdist._add_defaults_optional = _add_files
