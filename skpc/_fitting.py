"""What goes on around a fit: progress, notes to its errors, and the way back if it fails.

Progress is a bar where tqdm is installed, a line at the end elsewhere.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats
from skpc._warnings import one_fit


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


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put an estimator back to what it was if its ``fit`` fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        with one_fit():
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to the errors that come up meanwhile."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


@contextmanager
def without_warnings(quiet: bool = True) -> Iterator[None]:
    """Say nothing of estimates from few trees: a pool has learned how far to trust a member."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def with_some_cell(domain: Any, rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Leave out the rows without any cell that a learner sees: nothing is learned from them."""
    hidden = domain.is_hidden
    empty = (np.isnan(rows) | hidden).all(axis=1)
    if hidden.all() or not empty.any():
        return rows, weight
    return rows[~empty], weight[~empty]
