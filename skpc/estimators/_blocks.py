"""Tables that are larger than memory: answers for blocks of rows, and learning from a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.parallel import Parallel, delayed

from skpc._validation import check_finite
from skpc.domain import Domain, merge_rows

__all__ = ["MergedRows", "by_blocks", "noted", "representatives"]

#: Cells of an array that are answered for at a time.
_CELLS = 2**20

_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_blocks(method: _Method) -> _Method:
    """Let a method of an estimator answer for a large array of numbers block by block.

    The method takes the table ``X`` first and answers for each of its rows with an array or a tuple
    of arrays. The blocks make memory independent of the number of rows, also where ``X`` is mapped
    to a file, and within a ``joblib.parallel_config`` they are answered side by side. A
    ``random_state`` seeds each block.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        blocks = _blocks(X)
        if len(blocks) < 2:
            return method(self, X, *args, **kwargs)
        call = signature(method).bind(self, X, *args, **kwargs).arguments
        calls: Iterator[dict[str, Any]] = (call | {"X": X[block]} for block in blocks)
        if call.get("random_state") is not None:
            seeds = check_random_state(call["random_state"]).randint(2**31, size=len(blocks))
            calls = (call | {"random_state": int(seed)} for call, seed in zip(calls, seeds))
        # The kernels leave Python's lock to others. Other processes know "answer" by its name.
        parts = Parallel(prefer="threads", return_as="generator")(
            delayed(_answer)(partial(answer, **call), block) for call, block in zip(calls, blocks)
        )
        try:
            return _gathered(parts, blocks)
        except ValueError:
            # An infinite cell is named by its row in the whole.
            check_finite(X)
            raise

    return cast(_Method, answer)


def _blocks(X: Any) -> list[slice]:
    """Slices of the rows of a large array of numbers; one or none for anything else."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf" or not X.size:
        return []
    return list(gen_batches(len(X), max(1, _CELLS // X.shape[1])))


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to the errors that come up meanwhile."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def _answer(call: Callable[[], Any], block: slice) -> Any:
    with noted(f"Rows are counted from row {block.start} of X, the first of a block."):
        return call()


def _gathered(parts: Iterator[Any], blocks: list[slice]) -> Any:
    """Put the answers for blocks together as they come: arrays, or tuples of arrays."""
    wholes: list[np.ndarray] = []
    for part, block in zip(parts, blocks):
        several = part if isinstance(part, tuple) else (part,)
        if not wholes:
            n_rows = blocks[-1].stop
            wholes = [np.empty((n_rows, *one.shape[1:]), one.dtype) for one in several]
        for whole, one in zip(wholes, several):
            whole[block] = one
    return tuple(wholes) if isinstance(part, tuple) else wholes[0]


def representatives(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """Replace the numbers of encoded rows by the means of their bins, so that rows repeat."""
    codes, found = domain.codes(rows), rows.copy()
    for column in np.flatnonzero(~domain.is_categorical).tolist():
        # A missing cell has the state -1.
        means = np.append(domain.axis_of(column).moments()[0], np.nan)
        found[:, column] = means[codes[:, column]]
    return found


class MergedRows:
    """Distinct rows and how often they came, gathered block by block."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: np.ndarray, weight: np.ndarray) -> None:
        """Add encoded rows. Parts of similar size are merged, as in a merge sort."""
        part = merge_rows(rows, weight)
        while self._parts and len(self._parts[-1][0]) <= 2 * len(part[0]):
            part = _merged([self._parts.pop(), part])
        self._parts.append(part)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows and their weights."""
        return _merged(self._parts)


def _merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    rows, weight = zip(*parts)
    return merge_rows(np.concatenate(rows), np.concatenate(weight))
