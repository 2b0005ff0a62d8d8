"""How the tests use the cores of a machine, one after the other or with ``pytest -n auto``."""

import os

import pytest

# The matrices are small, and a worker has one core to itself: more threads of BLAS or OpenMP would
# wait for each other. Has to be set before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: More workers than this would spend their time on imports and on compiling the same kernels.
MOST_WORKERS = 8


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    import joblib

    return min(joblib.cpu_count(), MOST_WORKERS)
