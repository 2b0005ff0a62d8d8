"""Damaged, vanished and locked caches of machine code: kernels work, and mend what they can."""

import shutil
import threading
import warnings

import numpy as np
import pytest

from skpc import _compiler, _jit
from skpc._jit import kernel

pytestmark = pytest.mark.attack
N_DAMAGES = 150


def cube(x):
    return x * x * x


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder for machine code."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_jit, "KERNELS", [])
    monkeypatch.setattr(_compiler, "WARNED", [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield tmp_path / "cache"


def misses() -> int:
    """How often a new process would compile a kernel."""
    fresh = kernel(cube)
    assert fresh(2.0) == 8.0
    return sum(fresh.stats.cache_misses.values())


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes flipped, cut, repeated, or replaced by noise."""
    if not content:
        return b"\x00"
    data, kind = bytearray(content), rng.integers(4)
    at = int(rng.integers(len(data)))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = data[: int(rng.integers(1, 100))]
    else:
        end = min(at + 64, len(data))
        data[at:end] = rng.bytes(end - at)
    return bytes(data)


def test_no_damage_of_a_cache_changes_an_answer(cache):
    rng = np.random.default_rng(0)
    for _ in range(N_DAMAGES):
        misses()
        paths = sorted(path for path in cache.rglob("*.nb?") if path.is_file())
        path = paths[rng.integers(len(paths))]
        path.write_bytes(damaged(path.read_bytes(), rng))
        assert misses() <= 1
    # The next process mends what is left.
    misses()
    assert misses() == 0


def test_a_cache_that_vanishes_or_becomes_a_file_costs_compiling_only(cache):
    fresh = kernel(cube)
    shutil.rmtree(cache)
    assert fresh(2.0) == 8.0
    fresh = kernel(cube)
    shutil.rmtree(cache)
    cache.write_text("in the way")
    assert fresh(2.0) == 8.0
    assert kernel(cube)(2.0) == 8.0


def test_threads_that_share_a_cache_get_their_answers(cache):
    found = []
    threads = [threading.Thread(target=lambda: found.append(kernel(cube)(2.0))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [8.0] * 16
