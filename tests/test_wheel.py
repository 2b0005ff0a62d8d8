"""What is published: the archive of sources and the wheel, by themselves, and what they say."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from skpc import __version__
from tests.release import absolute

ROOT = Path(__file__).parents[1]
HOME = "https://example.org/skpc"
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def run(*command: object, cwd: Path) -> str:
    """What a command prints; its errors fail the test with what it said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Archive and wheel of the last commit, and what was said meanwhile. Needs a network."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "build", "twine", cwd=folder)
    said = run(python, "-m", "tests.release", HOME, folder / "dist", cwd=ROOT)
    (archive,) = folder.glob("dist/skpc-*.tar.gz")
    (wheel,) = folder.glob("dist/skpc-*.whl")
    return archive, wheel, said


def package_files():
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "skpc").rglob("*.py")]
    return [*sources, "skpc/py.typed", "skpc/factor_graphs/asia.uai", "skpc/datasets/debd.txt"]


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_data_and_its_licence(release):
    _, path, said = release
    names = zipfile.ZipFile(path).namelist()
    inside = [name for name in names if ".dist-info/" not in name]
    assert sorted(inside) == sorted(package_files())
    assert any(name.endswith("LICENSE") for name in names)
    assert "Deprecat" not in said
    assert said.count("PASSED") == 2


@pytest.mark.slow
def test_the_archive_holds_what_builds_the_wheel_and_no_part_of_the_tests(release):
    path, _, _ = release
    with tarfile.open(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
        description = archive.extractfile(f"skpc-{__version__}/PKG-INFO").read().decode()
    beside = {"doc/CITATION.cff", "doc/whats_new/index.rst", "LICENSE"}
    assert {*beside, *package_files()} <= set(names)
    assert not any(name.startswith("tests") for name in names)
    assert len(re.findall("^Project-URL: ", description, re.MULTILINE)) == 5
    links = re.findall(r"`[^`<>]+<([^`<>]+)>`_|^\.\. image:: (\S+)", description, re.MULTILINE)
    assert len(links) > 10
    assert all("".join(link).startswith(HOME) for link in links)


def test_links_of_the_long_description_lead_into_the_repository():
    text = absolute("`a b <doc/x.rst>`_, `c <https://d.org>`_\n.. image:: doc/e.png\n", HOME)
    tag = f"v{__version__}"
    assert f"`a b <{HOME}/blob/{tag}/doc/x.rst>`_, `c <https://d.org>`_" in text
    assert f".. image:: {HOME}/raw/{tag}/doc/e.png" in text


def test_the_oldest_versions_are_those_that_setup_allows():
    pins = dict(
        line.split("==")
        for line in (ROOT / "tests/versions/oldest.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    for requirement in SETUP["options"]["install_requires"].split():
        name, floor = requirement.split(">=")
        assert f"{pins[name]}.".startswith(f"{floor}."), name


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {__version__}\n" in (ROOT / "doc/CITATION.cff").read_text()
    assert f"version = {{{__version__}}}" in (ROOT / "doc/cite.rst").read_text()


@pytest.mark.slow
def test_the_wheel_runs_the_quickstart_in_an_empty_environment(release, tmp_path):
    _, path, _ = release
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", f"{path}[plot]", cwd=tmp_path)
    shutil.copy(ROOT / "examples" / "plot_quickstart.py", tmp_path)
    said = run(python, "plot_quickstart.py", cwd=tmp_path)
    assert "right diagnoses" in said
    assert (tmp_path / "quickstart.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_wheel_of_machine_code_spares_its_user_the_compiler(tmp_path):
    run(sys.executable, "-m", "tests.release", "kernels", tmp_path, "CutsetNetworkBD", cwd=ROOT)
    (wheel,) = tmp_path.glob("skpc_kernels-*.whl")
    assert f"-cp{sys.version_info[0]}{sys.version_info[1]}-none-" in wheel.name
    target = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--no-deps", "-t", target, wheel, cwd=ROOT)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from skpc import CutsetNetworkBD\n"
        "from skpc._jit import KERNELS\n"
        "CutsetNetworkBD().fit([[0, 1], [1, 0]] * 20).score([[0, 1]])\n"
        "print(sum(sum(k.stats.cache_misses.values()) for k in KERNELS))"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", code, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.strip() == "0"
