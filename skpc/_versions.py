"""Versions of what the package stands on, for bug reports."""

import platform
import sys
from importlib import metadata

from skpc._shipped import processor, shipped_file
from skpc._version import __version__

__all__ = ["show_versions"]

_DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "joblib", "cvxopt")
_OPTIONAL = ("pandas", "polars", "matplotlib", "tqdm", "dask", "skops")


def show_versions() -> None:
    """Write the versions of skpc, Python and the packages it uses to standard output.

    One line says whether functions are compiled here, or come with the installation.

    Examples
    --------
    >>> import skpc
    >>> skpc.show_versions()  # doctest: +SKIP
    """
    lines = [
        f"skpc: {__version__}",
        f"python: {sys.version.split()[0]}",
        f"platform: {platform.platform()}",
        f"machine code: {_machine_code()}",
    ]
    lines += [f"{name}: {_version_of(name)}" for name in (*_DEPENDENCIES, *_OPTIONAL)]
    sys.stdout.write("\n".join(lines) + "\n")


def _machine_code() -> str:
    """Where compiled functions come from."""
    path = shipped_file()
    return "compiled here" if path is None else f"of {path}, for processors {processor()}"


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
