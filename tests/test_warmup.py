"""After the warm-up, ordinary use compiles nothing."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from types import ModuleType
from typing import get_type_hints

import numpy as np
import pytest

import skpc
from skpc import CutsetNetworkBD, DensityClassifier, MixtureOfAllTrees, SoftLearnSPN
from skpc import warmup as warmup_module
from skpc._jit import KERNELS
from skpc.warmup import warmup


@pytest.fixture(scope="module")
def warm():
    """All modules imported and all kernels compiled."""
    for module in pkgutil.walk_packages(skpc.__path__, "skpc."):
        importlib.import_module(module.name)
    warmup()


def compiled() -> int:
    return sum(len(kernel.signatures) for kernel in KERNELS)


def called_by(kernel) -> list:
    """Kernels that a kernel calls, by their names or as attributes of modules."""
    known, names = kernel.py_func.__globals__, kernel.py_func.__code__.co_names
    homes = [known, *(vars(home) for home in known.values() if isinstance(home, ModuleType))]
    called = [home[name] for home in homes for name in names if name in home]
    return [found for found in called if hasattr(found, "py_func")]


def test_fits_and_queries_after_the_warm_up_compile_nothing(warm):
    before = compiled()
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 2, (300, 5)), rng.normal(size=(300, 7))])
    holes = np.where(rng.random(X.shape) < 0.5, np.nan, X)
    for density in (CutsetNetworkBD(), SoftLearnSPN(), MixtureOfAllTrees(max_iter=1)):
        density.set_params(random_state=0).fit(X).score_samples(X)
        density.sample(5, random_state=0)
        density.complete(holes[:20])
        density.score_samples(holes[:20], given=[0, 1])
    for density in (CutsetNetworkBD(random_state=0), SoftLearnSPN(random_state=0)):
        density.fit(holes).complete(holes)
        density.marginals(holes)
    for inference in ("auto", "collapsed"):
        trees = MixtureOfAllTrees(max_iter=1, inference=inference, random_state=0)
        trees.fit(holes).marginals(holes[:3])
    DensityClassifier(CutsetNetworkBD(), joint=True, classifiers=None).fit(X, X[:, 0]).predict(
        holes
    )
    assert compiled() == before


_TWO_KINDS = """
import numpy as np
from skpc import GenerativeForest, TableMixture
from skpc._jit import KERNELS

rng = np.random.default_rng(2)
X = np.column_stack([rng.integers(0, 3, 400), rng.normal(size=(400, 4))])
X[rng.random(X.shape) < 0.1] = np.nan
labels = rng.integers(0, 2, 400)
GenerativeForest(2, random_state=0).fit(X, labels).predict_proba(X)
model = TableMixture(random_state=0).fit(X)
model.complete(X)
ours = [kernel for kernel in KERNELS if kernel.py_func.__module__.startswith("skpc.")]
assert any(kernel.signatures for kernel in ours)
twice = {kernel.py_func.__name__ for kernel in ours if len(kernel.signatures) > 1}
assert not twice, twice
"""


def test_no_kernel_is_compiled_for_two_kinds_of_arrays():
    # A process of its own: other tests call kernels with arrays of any kind.
    subprocess.run([sys.executable, "-c", _TWO_KINDS], check=True)


def test_the_warm_up_leaves_no_kernel_out(warm):
    # A kernel that comes from the disk brings along those it calls, without a word of them.
    ready, left = set(), [kernel for kernel in KERNELS if kernel.signatures]
    while left:
        kernel = left.pop()
        if kernel.py_func not in ready:
            ready.add(kernel.py_func)
            left += called_by(kernel)
    ours = [kernel.py_func for kernel in KERNELS if kernel.py_func.__module__.startswith("skpc.")]
    assert not {func.__name__ for func in ours if func not in ready}


def test_kernels_that_hold_new_arrays_count_references(warm):
    ours = [kernel for kernel in KERNELS if kernel.py_func.__module__.startswith("skpc.")]
    free = [kernel for kernel in ours if not kernel.targetoptions["_nrt"]]
    assert len(free) > len(ours) / 2
    for kernel in free:
        for called in [kernel, *called_by(kernel)]:
            returned = get_type_hints(called.py_func).get("return")
            # A record stands for its fields.
            parts = [returned]
            if hasattr(returned, "_fields"):
                parts = list(get_type_hints(returned).values())
            text = re.sub("typing.Any|NoneType|None", "", str(parts))
            assert not re.search("[A-Z]|array", text), (kernel, called)


def test_the_command_says_what_it_does(monkeypatch, capsys):
    monkeypatch.setattr(warmup_module, "warmup", lambda: None)
    monkeypatch.setattr(sys, "argv", ["skpc.warmup"])
    warmup_module._main()
    assert capsys.readouterr().out.startswith("skpc is warm after ")
    monkeypatch.setattr(sys, "argv", ["skpc.warmup", "--help"])
    with pytest.raises(SystemExit):
        warmup_module._main()
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().out


@pytest.mark.slow
def test_a_second_warm_up_compiles_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "skpc.warmup"]
    for expected in (False, True):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.startswith("skpc is warm after ")
        assert (": 0 functions compiled" in done.stdout) == expected
