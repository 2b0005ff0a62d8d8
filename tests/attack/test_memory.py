"""Little memory: a fit works, or raises MemoryError and leaves a process that works."""

import ctypes
import gc
import os
import resource
import sys

import pytest
from sklearn.base import clone

from tests.attack.models import EVERY_FIT, answers, learn, run, table

pytestmark = pytest.mark.attack
#: MiB beyond what a process has at hand that has fitted the estimator before. (With none at all,
#: libraries written in C end the process.)
LIMITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
N_ROWS = 1500


@pytest.mark.parametrize("group", range(4))
def test_where_memory_is_short_a_fit_works_or_raises_a_memory_error(group):
    names = list(EVERY_FIT)[group::4]
    told = run("test_memory", *names, timeout=500.0).splitlines()
    assert [line.split(":")[0] for line in told] == names
    assert all(set(line.split(": ")[1].split()) <= {"works", "MemoryError"} for line in told), told


def memory_used() -> int:
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def what_happens(name: str, limit: float) -> str:
    """The end of a child that learns with little memory, and once more with enough."""
    child = os.fork()
    if child == 0:
        X, code = table(N_ROWS, 0), 0
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        most = memory_used() + int(limit * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        try:
            answers(learn(clone(EVERY_FIT[name]), X), X)
        except MemoryError:
            code = 1
        except BaseException:
            code = 2
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        if code == 1:
            answers(learn(clone(EVERY_FIT[name]), X[:200]), X[:200])
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    return {0: "works", 256: "MemoryError"}.get(status, f"status-{status}")


def main(names: list[str]) -> None:
    for name in names:
        # Machine code is loaded: LLVM ends the process that has no memory for it.
        learn_all = table(N_ROWS, 0)
        answers(learn(clone(EVERY_FIT[name]), learn_all), learn_all)
        answers(learn(clone(EVERY_FIT[name]), learn_all[:200]), learn_all[:200])
        told = [what_happens(name, limit) for limit in LIMITS]
        sys.stdout.write(f"{name}: {' '.join(told)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
