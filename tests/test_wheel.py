"""What is published: the wheel, by itself, in an environment that holds nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "setup.cfg", "README.rst", "LICENSE")


def run(*command: object, cwd: Path) -> str:
    """What a command prints; its errors fail the test with what it said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the sources, and what was said meanwhile."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "skpc", folder / "skpc", ignore=ignored)
    said = run(sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", ".", cwd=folder)
    (found,) = folder.glob("skpc-*.whl")
    return found, said


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_data_and_its_licence(wheel):
    path, said = wheel
    names = zipfile.ZipFile(path).namelist()
    sources = [p.relative_to(ROOT).as_posix() for p in (ROOT / "skpc").rglob("*.py")]
    data = ["skpc/py.typed", "skpc/factor_graphs/asia.uai", "skpc/datasets/debd.txt"]
    inside = [name for name in names if ".dist-info/" not in name]
    assert sorted(inside) == sorted([*sources, *data])
    assert any(name.endswith("LICENSE") for name in names)
    assert "Deprecat" not in said


@pytest.mark.slow
def test_the_wheel_runs_the_quickstart_in_an_empty_environment(wheel, tmp_path):
    path, _ = wheel
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", f"{path}[plot]", cwd=tmp_path)
    shutil.copy(ROOT / "examples" / "plot_quickstart.py", tmp_path)
    said = run(python, "plot_quickstart.py", cwd=tmp_path)
    assert "log-likelihood" in said
    assert (tmp_path / "quickstart.png").stat().st_size > 10_000
