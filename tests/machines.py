"""The suite, or some tests, as on other processors: no figure may depend on the machine.

    python -m tests.machines [names of settings] [-- arguments of pytest]

Each setting takes a part of the processor away: the kernels of its core type in OpenBLAS, the
instructions that numba compiles for, those that numpy chooses at import, or it allows two threads.
``elsewhere`` does all but the second at once, and needs nothing compiled again. Settings that need
instructions which this processor lacks are left out. Without names all settings run, without
arguments all fast tests and doctests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from llvmlite import binding

ROOT = Path(__file__).parents[1]
#: Core types of OpenBLAS, and the instructions that their kernels use.
CORE_TYPES = {
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512vl"},
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
#: Those of OpenMP wait asleep: workers of pytest need the cores on which they would spin.
TWO_THREADS = {
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
}
#: Machine code for any processor of this kind, in a folder of its own.
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(ROOT / ".pytest_cache" / "generic")}


def settings() -> dict[str, dict[str, str]]:
    """Environment variables for each setting that this processor can take."""
    features = {name for name, has in binding.get_host_cpu_features().items() if has}
    cores = {
        core.lower(): {"OPENBLAS_CORETYPE": core}
        for core, needed in CORE_TYPES.items()
        if needed <= features
    }
    chosen = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)}
    elsewhere = {**cores.get("haswell", {}), **plain, **TWO_THREADS}
    alone = {**cores, "generic": GENERIC, "numpy": plain}
    one_thread = {name: {**ONE_THREAD, **setting} for name, setting in alone.items()}
    return {**one_thread, "threads": TWO_THREADS, "elsewhere": elsewhere}


def run(setting: dict[str, str], arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **setting}).returncode


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    names, arguments = words[:at], words[at + 1 :]
    known = settings()
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f"This processor can take {', '.join(known)}; found {', '.join(sorted(unknown))}.")
    failed = []
    for name in names or known:
        variables = " ".join("=".join(pair) for pair in known[name].items())
        sys.stderr.write(f"{name}: {variables}\n")
        failed += [name] if run(known[name], arguments) else []
    sys.exit(f"Failed under {', '.join(failed)}" if failed else 0)
