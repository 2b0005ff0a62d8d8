"""Parts of work in threads: kernels leave Python's lock to others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> list[_Result]:
    """Do the same with each part; list the results in their order.

    The number of threads is the one of ``joblib.parallel_config``, one by default. Parts must not
    depend on it, so that results do not.
    """
    listed = list(parts)
    if len(listed) < 2 or effective_n_jobs(None) == 1:
        return [work(part) for part in listed]
    # joblib looks for results every ten milliseconds: small parts do not pay.
    return list(Parallel(n_jobs=None, require="sharedmem")(delayed(work)(part) for part in listed))
