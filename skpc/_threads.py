"""Independent parts of work, done by threads: kernels leave Python's lock to others.

Results do not depend on the number of threads if the parts do not, and write nothing that others
read or write.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import cache
from threading import current_thread
from typing import Any, TypeVar

from joblib import cpu_count, effective_n_jobs, parallel_config

#: Products (or the like) of all parts together from which on threads pay: some tenths of a second.
_WORTH_IT = 3e8
#: What the names of the threads begin with.
_NAME = "skpc-part"
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def threads(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Let :func:`in_threads` use some threads; None leaves it to ``joblib.parallel_config``."""
    if n_jobs is None:
        return nullcontext()
    return parallel_config(backend="threading", n_jobs=n_jobs)


def n_threads() -> int:
    """The number of threads that :func:`in_threads` uses: one within its own threads.

    If these waited for others of their pool, all of them might wait.
    """
    if current_thread().name.startswith(_NAME):
        return 1
    # None would mean one thread wherever the configuration is of processes, joblib's default.
    n_jobs = effective_n_jobs(None)
    return min(n_jobs, cpu_count()) if n_jobs > 1 else 1


@cache
def _pool(n_workers: int, process: int) -> ThreadPoolExecutor:
    """The threads of a process. A forked one has none of those of its parent."""
    return ThreadPoolExecutor(n_workers, thread_name_prefix=_NAME)


def in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> list[_Result]:
    """Do the same with each part; list the results in their order.

    The number of threads is the one of :func:`threads`, one by default.
    """
    listed = list(parts)
    n_workers = n_threads() if len(listed) > 1 else 1
    if n_workers == 1:
        return [work(part) for part in listed]
    # A thread knows what its caller is about, such as a fit.
    contexts = [copy_context() for _ in listed]
    # joblib's own threads look for results every ten milliseconds: longer than many parts take.
    pool = _pool(n_workers, os.getpid())
    return list(pool.map(lambda context, part: context.run(work, part), contexts, listed))


def each(
    work: Callable[..., _Result], tasks: Iterable[tuple[Any, ...]], n_products: float
) -> list[_Result]:
    """Call ``work(*task)`` for each task, in threads where that pays, and list what it returns."""
    if n_products < _WORTH_IT:
        return [work(*task) for task in tasks]
    return in_threads(lambda task: work(*task), tasks)


def slices(n: int, size: int) -> list[slice]:
    """Divide ``n`` rows into parts of some size; zero rows give an empty list."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
