"""Independent parts of work, done by threads: kernels leave Python's lock to others.

Results do not depend on the number of threads if the parts do not, and write nothing that others
read or write.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from functools import cache, lru_cache, partial
from threading import current_thread
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count, effective_n_jobs, parallel_config
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

#: Products (or the like) of all parts together from which on threads pay: some tenths of a second.
_WORTH_IT = 3e8
#: Products of one multiplication of matrices from which on threads of BLAS pay.
_LARGE = 2.0**24
#: What the names of the threads begin with.
_NAME = "skpc-part"
_Matrix = NDArray[np.float64]
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def threads(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Let :func:`in_threads` use some threads; None leaves it to ``joblib.parallel_config``."""
    # Without a number the user's configuration of joblib holds.
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
    # More threads than processors would only take turns.
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
    # One part needs no threads, nor the cost of handing it over.
    n_workers = n_threads() if len(listed) > 1 else 1
    if n_workers == 1:
        return [work(part) for part in listed]
    # A thread knows what its caller is about, such as a fit.
    contexts = [copy_context() for _ in listed]
    # joblib's own threads look for results every ten milliseconds: longer than many parts take.
    pool = _pool(n_workers, os.getpid())
    return list(pool.map(partial(_within, work), contexts, listed))


def _within(work: Callable[[_Part], _Result], context: Context, part: _Part) -> _Result:
    """Do a part of the work of a call, with one thread of OpenMP, which counts these by thread."""
    # In a call BLAS has been limited, but OpenMP counts threads anew in each thread.
    is_call = context.get(_BLAS_THREADS) is not None
    with _libraries()[0].limit(limits=1) if is_call else nullcontext():
        return context.run(work, part)


def each(
    work: Callable[..., _Result], tasks: Iterable[tuple[Any, ...]], n_products: float
) -> list[_Result]:
    """Call ``work(*task)`` for each task, in threads where that pays, and list what it returns."""
    # Small tasks are done before threads would have begun.
    if n_products < _WORTH_IT:
        return [work(*task) for task in tasks]
    return in_threads(lambda task: work(*task), tasks)


def slices(n: int, size: int) -> list[slice]:
    """Divide ``n`` rows into parts of some size; zero rows give an empty list."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


#: How many threads BLAS had before the call that goes on; None outside of calls.
_BLAS_THREADS: ContextVar[int | None] = ContextVar("threads of BLAS", default=None)


def _libraries() -> tuple[ThreadpoolController, ThreadpoolController]:
    """All libraries with threads, and those of BLAS."""
    # A package that has been imported since may have brought its own.
    return _libraries_of(os.getpid(), len(sys.modules))


@lru_cache(maxsize=1)
def _libraries_of(
    process: int, n_modules: int
) -> tuple[ThreadpoolController, ThreadpoolController]:
    """To look for them takes milliseconds."""
    # Looked for once for each set of modules; the limits of these objects act on the process.
    libraries = ThreadpoolController()
    return libraries, libraries.select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for BLAS and OpenMP, if no call around this one has said so already.

    Their threads wait for each other by spinning, on cores that others may need. Small products
    have nothing to gain from them, and pools spread the work of their members themselves.
    """
    # The outer call has limited them and remembers how many there were.
    if _BLAS_THREADS.get() is not None:
        yield
        return
    libraries, blas = _libraries()
    # The greatest number, as several libraries of BLAS may be loaded.
    n_threads = max((library.num_threads for library in blas.lib_controllers), default=1)
    token = _BLAS_THREADS.set(n_threads)
    try:
        # Parts of the work have threads, with which those of libraries would compete.
        with libraries.limit(limits=1):
            yield
    finally:
        _BLAS_THREADS.reset(token)


def product(matrix: _Matrix, other: _Matrix) -> _Matrix:
    """The product of two matrices, or of stacks of them, by all threads of BLAS if they are large.

    Parameters
    ----------
    matrix : ndarray of shape (..., n_rows, n)
    other : ndarray of shape (..., n, n_columns)
    """
    n_threads = _BLAS_THREADS.get()
    # In a stack each matrix is a product by itself.
    n_products = float(matrix.shape[-2]) * matrix.shape[-1] * other.shape[-1]
    if n_threads is None or n_products < _LARGE:
        return matrix @ other
    # Only while this product is computed: afterwards one thread is the rule again.
    with _libraries()[1].limit(limits=n_threads):
        return matrix @ other
