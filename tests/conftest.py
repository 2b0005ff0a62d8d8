"""How a run of the tests is spread over processes (``pytest -n auto``)."""

import os

import joblib
import pytest

#: More workers than this would spend their time on imports and on compiling the same kernels.
MOST_WORKERS = 8


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return min(joblib.cpu_count(), MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Keep BLAS and OpenMP to one thread in a worker, which has one core to itself."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
