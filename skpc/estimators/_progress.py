"""Progress of long fits: a bar where tqdm is installed, a line at the end elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils.parallel import Parallel


def announce(text: str, verbose: int) -> None:
    """Say what begins, at once."""
    if verbose:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


@contextmanager
def progress(total: float, what: str, verbose: int) -> Iterator[Callable[[float], None]]:
    """Follow work of a known size.

    Parameters
    ----------
    total : float
        The whole of the work.
    what : str
        What is being counted.
    verbose : int
        0 shows nothing.

    Yields
    ------
    callable
        Takes the amount of work just finished.
    """
    if not verbose:
        yield lambda done: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        start = time.perf_counter()
        yield lambda done: None
        sys.stdout.write(f"{total:g} {what} in {time.perf_counter() - start:.1f} s\n")
        return
    with tqdm(total=round(total), desc=what, unit=f" {what}") as bar:
        finished = 0.0

        def advance(done: float) -> None:
            nonlocal finished
            finished += done
            bar.update(round(finished) - bar.n)

        yield advance
        # What stops early has not been aborted.
        bar.total = bar.n
        bar.refresh()


def followed(
    n_jobs: int | None, advance: Callable[[float], None]
) -> Callable[[Iterable[Any]], list[Any]]:
    """Return a function that runs delayed calls by joblib and reports each to ``advance``."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")

    def run(calls: Iterable[Any]) -> list[Any]:
        found = []
        for answer in parallel(calls):
            found.append(answer)
            advance(1.0)
        return found

    return run
