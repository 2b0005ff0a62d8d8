"""The kernel decorator and its intrinsics."""

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite import binding

from skpc import _compiler, _jit
from skpc._fast_math import fast_exp, fast_log
from skpc._jit import (
    inlined,
    internal_kernel,
    kernel,
    popcount,
)
from skpc._random import normal, start_streams, uniform, uniforms

ROOT = Path(__file__).parents[1]
NEWEST = ["numba", "numpy", "scipy", "scikit-learn", "pandas"]
OLDEST = [*NEWEST, "-c", str(ROOT / "tests" / "versions" / "oldest.txt")]

PROBE = """
import numpy as np, pandas as pd
from skpc import CutsetNetworkBD
from skpc._jit import KERNELS
from skpc.queries import fit_parameters, flows
rng = np.random.default_rng(0)
binary = rng.integers(0, 2, (300, 5)).astype(float)
mixed = np.column_stack([rng.integers(0, 3, 300), rng.normal(size=(300, 2)), binary])
frozen = mixed.copy()
frozen.flags.writeable = False
tables = [binary, binary.astype(np.float32), binary.astype(np.int64), np.asfortranarray(mixed),
          frozen, mixed[::2], pd.DataFrame(mixed)]
for number, table in enumerate(tables):
    for criterion in ("bd", "bic"):
        weight = None if number % 2 else rng.random(len(table))
        model = CutsetNetworkBD(criterion=criterion).fit(table, sample_weight=weight)
        model.score_samples(table)
        holes = pd.DataFrame(np.array(table, dtype=float)).where(rng.random(table.shape) < 0.6)
        holes = holes if isinstance(table, pd.DataFrame) else holes.to_numpy()
        model.score_samples(holes), model.marginals(holes), model.sample(5, random_state=0)
        for strategy in ("mean", "mpe", "sample"):
            model.complete(holes, strategy=strategy)
        CutsetNetworkBD(criterion=criterion).fit(holes)
        rows = model.domain_.encode(np.array(holes, dtype=float))
        flows(model.circuit_, rows)
        fit_parameters(model.circuit_, rows, max_iter=2)
many = {k.py_func.__module__ + "." + k.py_func.__name__: len(k.signatures) for k in KERNELS}
print({name: count for name, count in many.items() if count > 1})
"""


def run(code: str, folder: Path = ROOT, **environment: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code]
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_flavour_of_input_compiles_a_kernel_twice():
    assert run(PROBE) == "{}"


def small_package(folder: Path) -> Path:
    """A copy of the modules that kernels need, as a package that is imported in no time."""
    source = ROOT / "skpc"
    target = folder / "skpc"
    target.mkdir()
    (target / "__init__.py").write_text("")
    for name in ("_compiler", "_lowering", "_jit", "_fast_math", "_shipped", "_version"):
        shutil.copy(source / f"{name}.py", target)
    return target


@pytest.fixture
def package(tmp_path):
    return small_package(tmp_path)


def test_kernels_work_where_nothing_can_be_written(package, tmp_path):
    # A file in place of the cache directory stops even root from writing there.
    (package / "__pycache__").write_text("")
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    code = (
        "import skpc._fast_math as j; print(j.__file__);"
        "print(type(j.fast_exp._cache).__name__, round(float(j.fast_exp(1.0)), 6))"
    )
    env = {"HOME": str(blocked), "XDG_CACHE_HOME": str(blocked), "PYTHONDONTWRITEBYTECODE": "1"}
    where, what = run(code, tmp_path, NUMBA_CACHE_DIR="", **env).split("\n")
    assert where.startswith(str(tmp_path))
    assert what == "_ShippedCache 2.718282"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder for machine code."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_jit, "KERNELS", [])
    monkeypatch.setattr(_compiler, "WARNED", [])
    return tmp_path


def use_a_kernel() -> int:
    """How often a new process would compile a kernel."""
    fresh = kernel(fast_exp.py_func)
    assert fresh(0.0) == 1.0
    return sum(fresh.stats.cache_misses.values())


def test_machine_code_is_kept(cache):
    assert [use_a_kernel(), use_a_kernel()] == [1, 0]


@pytest.mark.parametrize("collects", [True, False])
def test_a_compiled_kernel_leaves_the_collector_of_garbage_as_it_was(cache, collects):
    try:
        (gc.enable if collects else gc.disable)()
        use_a_kernel()
        assert gc.isenabled() == collects
    finally:
        gc.enable()


def test_types_that_are_remembered_are_those_of_numba(cache):
    def mixed(x, i):
        # The same operators for several types, one after the other.
        return x + x * i, i + i * i, i // 2 + x / 2, max(x, i), np.floor(x) + i

    plain = numba.njit(mixed)
    for arguments in ((2.5, 3), (np.float32(2.5), np.int8(3)), (2, 3.0), (True, 3), (2.5, 3.5)):
        fresh = kernel(mixed)
        expected = plain(*arguments)
        assert fresh(*arguments) == expected
        (compiled,) = fresh.nopython_signatures
        assert compiled.return_type == plain.nopython_signatures[-1].return_type


def test_on_a_full_disk_kernels_are_compiled_with_one_warning_that_names_the_folder(
    package, tmp_path
):
    code = """
        import resource, warnings
        from skpc._fast_math import fast_exp
        from skpc._jit import kernel
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(fast_exp(0.0), kernel(fast_exp.py_func)(0.0))
        print(*(w.message for w in caught), sep="\\n")
    """
    value, *warning = run(dedent(code), tmp_path, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert [value, len(warning)] == ["1.0 1.0", 1]
    assert re.search(f"{tmp_path}.*make room there", warning[0])


SHIP = """
    from skpc._jit import KERNELS, compile_for_others, ship
    from skpc._shipped import OWN_FILE
    compile_for_others()
    from skpc._fast_math import fast_exp
    fast_exp(0.0)
    print(ship(KERNELS, OWN_FILE))
"""
USE = """
    import platform
    {before}
    from skpc._fast_math import fast_exp
    print(round(float(fast_exp(1.0)), 6), *fast_exp.stats.cache_misses.values())
"""


@pytest.fixture(scope="module")
def with_machine_code(tmp_path_factory):
    """A small package that has written the file of its machine code."""
    from skpc._shipped import processor

    if processor() is None:
        pytest.skip("no machine code is shipped for this processor")
    folder = tmp_path_factory.mktemp("shipped")
    package = small_package(folder)
    # What a folder for temporary files allows to others is not the question of these tests.
    module = package / "_shipped.py"
    text = module.read_text()
    module.write_text(text.replace("*path.resolve().parents", "path.resolve().parent"))
    assert run(dedent(SHIP), folder, NUMBA_CACHE_DIR=str(folder / "maker")) == "1"
    return package


@pytest.fixture
def shipped(with_machine_code, tmp_path):
    """The file of machine code of a small package, and a way to use it in a new process."""
    package = tmp_path / "skpc"
    shutil.copytree(with_machine_code, package)
    path = package / "__pycache__" / "machine_code.zip"

    def use(before: str = "", **environment: str) -> str:
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "user"), **environment}
        return run(dedent(USE).format(before=before), tmp_path, **environment)

    return path, use


def test_shipped_machine_code_is_not_compiled(shipped):
    assert shipped[1]() == "2.718282"


def test_shipped_machine_code_serves_where_nothing_can_be_written(shipped, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    env = {"HOME": str(blocked), "XDG_CACHE_HOME": str(blocked), "NUMBA_CACHE_DIR": str(blocked)}
    assert shipped[1](**env) == "2.718282"


@pytest.mark.parametrize(
    "before",
    [
        'platform.machine = lambda: "another"',
        'import skpc._shipped as s; s.get_host_cpu_features = lambda: {"avx2": False}',
        'import skpc._shipped as s; s.__version__ = "another"',
        'import skpc._shipped as s; s.metadata.version = lambda name: "another"',
    ],
)
def test_machine_code_of_another_kind_is_compiled_anew(shipped, before):
    assert shipped[1](before) == "2.718282 1"


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign"])
def test_damaged_shipped_code_is_compiled_anew(shipped, damage):
    path, use = shipped
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    changes = {"cut": content[:-40], "empty": b"", "flipped": content, "foreign": b"PK" * 50}
    path.write_bytes(changes[damage])
    assert use() == "2.718282 1"


def test_shipped_code_of_other_sources_is_compiled_anew(shipped):
    path, use = shipped
    module = path.parents[1] / "_fast_math.py"
    module.write_text(module.read_text() + "# A new version.\n")
    assert use() == "2.718282 1"


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_what_others_can_write_is_not_read(shipped, mode):
    path, use = shipped
    path.chmod(mode)
    assert use() == "2.718282 1"


DAMAGES = [("nbi", "cut"), ("nbi", "empty"), ("nbc", "cut"), ("nbc", "empty"), ("nbc", "flipped")]


@pytest.mark.parametrize(("ending", "damage"), DAMAGES)
def test_damaged_caches_are_compiled_anew_and_mended(cache, ending, damage):
    use_a_kernel()
    (path,) = cache.rglob(f"*.{ending}")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"cut": content[:-40], "empty": b"", "flipped": content}[damage])
    with pytest.warns(RuntimeWarning, match=f"{cache}.*compiled anew"):
        assert use_a_kernel() == 1
    assert use_a_kernel() == 0


def test_a_new_version_of_another_module_is_compiled_anew(package, tmp_path):
    (package / "part.py").write_text(
        "from skpc._jit import inlined\n@inlined\ndef part(x):\n    return x + 1.0\n"
    )
    (package / "whole.py").write_text(
        "from skpc._jit import kernel\nfrom skpc.part import part\n"
        "@kernel\ndef whole(x):\n    return part(x)\n"
    )
    code = "from skpc.whole import whole; print(whole(1.0), *whole.stats.cache_misses.values())"
    cache = str(tmp_path / "cache")
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache) == "2.0 1"
    (package / "part.py").write_text((package / "part.py").read_text().replace("1.0", "3.0"))
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache) == "4.0 1"


def test_kernels_are_the_same_where_numba_has_changed_inside(monkeypatch):
    assert _compiler.KNOWN
    monkeypatch.setattr(_compiler, "KNOWN", False)
    monkeypatch.setattr(_jit, "KERNELS", [])

    @internal_kernel
    def twice(x):
        return x + x

    @kernel(new_arrays=True)
    def repeat(x, n):
        out = np.empty(n)
        for i in range(n):
            out[i] = twice(x)
        return out

    assert repeat(2.0, 3).tolist() == [4.0, 4.0, 4.0]
    assert twice(2.0) == 4.0


class Arrays(NamedTuple):
    """What kernels are handed: arrays of one type, or of several, and numbers."""

    table: np.ndarray
    other: np.ndarray
    codes: np.ndarray
    is_shown: np.ndarray
    n: int


def look(arrays, few, index, out):
    """Read and write cells, and count, in all the ways that kernels do."""
    table = arrays.table
    n_rows, n_columns = table.shape
    total = 0.0
    for i in range(n_rows - 1, -1, -1):
        for j in range(1, n_columns, 2):
            if arrays.is_shown[i]:
                total += table[i, j] + arrays.codes[j, -1] * table[-1, j]
        out[i, -1] = total
    for _ in range(arrays.n, arrays.n):
        total = np.nan
    for x in few.other:
        # Another type than that of the array, and an index without a sign.
        total += x + few.table[index[0]]
        out[np.int32(-1), index[1]] = arrays.codes[0, 0]
        if total > 100.0:
            break
    row = arrays.other[1]
    row[0] = len(row) + i
    arrays.is_shown[1] = total < 0.0
    return total + few.codes[-2]


def test_kernels_find_cells_and_count_as_python_does():
    answers = []
    for compiled in (look, kernel(new_arrays=True)(look)):
        rng = np.random.default_rng(0)
        # Columns of a larger array are not contiguous.
        others = rng.normal(size=(3, 8))[:, ::2]
        codes = rng.integers(-5, 5, (4, 2)).astype(np.int16)
        arrays = Arrays(rng.normal(size=(5, 4)), others, codes, np.arange(5) != 2, 3)
        few = Arrays(*(rng.normal(size=6) for _ in range(4)), 0)
        out = np.zeros((5, 3))
        total = compiled(arrays, few, np.array([4, 1], dtype=np.uint64), out)
        answers.append((total, *arrays, *few, out))
    for expected, answer in zip(*answers):
        np.testing.assert_allclose(answer, expected, rtol=1e-14)


def test_kernels_count_without_arrays_of_their_own():
    @kernel
    def rows_above(tables, least):
        n = 0
        for r in range(tables[0].shape[0]):
            above = 0.0
            for column in range(tables[1].shape[1]):
                above = tables[1][r, column] - tables[0][r, column]
                if above > least:
                    n += 1
                    break
        return n

    low = np.zeros((4, 3))
    high = np.array([[0.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 9.0, 9.0]])
    assert rows_above((low, high), 1.0) == 3


@pytest.mark.slow
@pytest.mark.parametrize("versions", [OLDEST, NEWEST], ids=["oldest", "newest"])
def test_kernels_work_under_the_oldest_and_the_newest_numba(versions, tmp_path):
    """Needs a network, and for the oldest Python 3.11 or 3.12."""
    python = tmp_path / "env" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(tmp_path / "env")],
        [str(python), "-m", "pip", "install", "-q", "pytest", *versions],
        [str(python), "-m", "pytest", "-q", "-m", "not slow", "-c", os.devnull, __file__],
    ):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr


#: Products and sums are rounded once.
IS_FUSED = not numba.config.CPU_NAME and binding.get_host_cpu_features().get("fma", False)


def test_fast_exp_is_close_to_exp_everywhere():
    x = np.concatenate([np.linspace(-708, 5, 3001), [0.0, -1e-300]])
    found = np.array([fast_exp(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=5e-14 if IS_FUSED else 1e-13)
    near = x > -20
    np.testing.assert_allclose(found[near], np.exp(x[near]), rtol=1e-14)


@kernel
def _take_logs(x):
    for i in range(len(x)):
        x[i] = fast_log(x[i])


def test_fast_log_is_close_to_log_everywhere():
    near_one = 1.0 + np.linspace(-1e-3, 1e-3, 2001)
    x = np.concatenate([np.geomspace(1e-300, 1e300, 20_001), near_one, [np.sqrt(2.0), 1.0]])
    found = x.copy()
    _take_logs(found)
    error = np.abs(found - np.log(x)) / np.maximum(np.abs(np.log(x)), 1.0)
    assert error.max() <= (4e-16 if IS_FUSED else 5e-16)


def test_fast_exp_of_minus_infinity_is_zero():
    assert fast_exp(-np.inf) == 0.0
    assert fast_exp(-709.0) == 0.0


@kernel
def _ones(words, out):
    for i in range(len(words)):
        out[i] = popcount(words[i])


def test_popcount_counts_ones():
    words = np.random.default_rng(0).integers(0, 2**64, 100, dtype=np.uint64, endpoint=False)
    out = np.empty(100, dtype=np.int64)
    _ones(words, out)
    assert out.tolist() == [int(word).bit_count() for word in words]


@kernel
def _draw(streams, numbers, normals):
    for j in range(len(streams)):
        numbers[j] = uniform(streams, j)
        normals[j] = normal(streams, j)


def test_streams_are_independent_of_their_neighbours_and_look_random():
    from scipy.stats import kstest, pearsonr

    streams = start_streams(np.uint64(5), 20_000, 100)
    assert np.array_equal(streams[50:60], start_streams(np.uint64(5), 10, 150))
    numbers, normals = np.empty(20_000), np.empty(20_000)
    # Outside of kernels the same numbers are drawn.
    assert np.array_equal(uniforms(streams.copy()), _drawn(streams, numbers, normals))
    assert kstest(numbers, "uniform").pvalue > 1e-3
    assert kstest(normals, "norm").pvalue > 1e-3
    assert pearsonr(numbers[1:], numbers[:-1]).pvalue > 1e-3
    assert pearsonr(numbers, normals).pvalue > 1e-3


def _drawn(streams, numbers, normals):
    _draw(streams, numbers, normals)
    return numbers


@inlined
def _twice(x):
    return x + x


@internal_kernel
def _thrice(x):
    return x + _twice(x)


@kernel
def _use(x):
    return _twice(x) + _thrice(x)


def test_parts_work_inside_kernels_and_refuse_calls_from_python():
    # Before and after they have been compiled, with the kernel that calls them.
    for _ in range(2):
        with pytest.raises(TypeError, match="_twice is a part of kernels"):
            _twice(2.0)
        with pytest.raises(TypeError, match="_thrice is a part of kernels"):
            _thrice(2.0)
        assert _use(2.0) == 10.0


@pytest.mark.parametrize("value", [np.nan])
def test_the_float_flags_keep_nan_apart(value):
    @kernel
    def is_missing(x):
        return x != x

    assert is_missing(value)
