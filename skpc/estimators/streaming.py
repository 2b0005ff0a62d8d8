"""Tables that are larger than memory: answers for blocks of rows.

Queries divide their rows too, but into pieces of work for threads, when a float64 copy of the table
and its encoded rows stand in memory already. The blocks here bound these, and what is computed for
each cell, so that a table mapped to a file is never read as a whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.parallel import Parallel, delayed

from skpc._validation import check_finite

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
        is_numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
        if not is_numbers or len(X) < 2 or X.size <= _CELLS:
            return method(self, X, *args, **kwargs)
        blocks = list(gen_batches(len(X), max(1, _CELLS // X.shape[1])))
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
