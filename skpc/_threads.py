"""Independent parts of work, done by the threads of ``joblib.parallel_config`` where that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

#: Products (or the like) of all parts together from which on threads pay: they take a millisecond
#: to start.
_WORTH_IT = 1e7


def each(
    work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_products: float
) -> list[Any]:
    """Call ``work(*task)`` for each task and list what it returns.

    The result does not depend on the number of threads if the tasks do not, and write nothing that
    others read or write.
    """
    listed = list(tasks)
    if len(listed) < 2 or n_products < _WORTH_IT or effective_n_jobs(None) == 1:
        return [work(*task) for task in listed]
    found: list[Any] = Parallel(n_jobs=None, require="sharedmem")(
        delayed(work)(*task) for task in listed
    )
    return found
