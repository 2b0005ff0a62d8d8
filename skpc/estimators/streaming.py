"""Tables that are larger than memory: answers for blocks of rows.

Queries divide their rows too, but into pieces of work for threads, when a float64 copy of the table
and its encoded rows stand in memory already. The blocks here bound these, and what is computed for
each cell, so that a table mapped to a file is never read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.parallel import Parallel, delayed

from skpc._fitting import noted
from skpc._threads import threads
from skpc._validation import check_finite
from skpc._warnings import collected, warn
from skpc.estimators.blocks import TableBlocks, is_lazy

#: Cells of an array that are answered for at a time.
_CELLS = 2**20

_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_blocks(method: _Method) -> _Method:
    """Let a method of an estimator answer for a large array of numbers block by block.

    The method takes the table ``X`` first and answers for each of its rows with an array or a tuple
    of arrays. The blocks make memory independent of the number of rows, also where ``X`` is mapped
    to a file. They, or parts of them, are answered side by side by ``n_jobs`` threads where the
    estimator has it, else within a ``joblib.parallel_config``. A ``random_state`` seeds each block.
    The answer for a dask collection is a dask collection too, which is computed where the blocks
    are.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_lazy(X):
            return _lazily(signature(method).bind(self, X, *args, **kwargs).arguments, answer, X)
        with threads(getattr(self, "n_jobs", None)):
            is_numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
            if not is_numbers or len(X) < 2 or X.size <= _CELLS:
                return method(self, X, *args, **kwargs)
            call = signature(method).bind(self, X, *args, **kwargs).arguments
            return _side_by_side(call, answer, X)

    return cast(_Method, answer)


def _side_by_side(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for an array, made of those for its blocks."""
    blocks = list(gen_batches(len(X), max(1, _CELLS // X.shape[1])))
    seeded = _seeded(call, len(blocks))
    calls = (one | {"X": X[block]} for one, block in zip(seeded, blocks))
    # The kernels leave Python's lock to others. Other processes know "answer" by its name.
    # None would mean one where the configuration is of processes, joblib's default.
    n_jobs = effective_n_jobs(None)
    parts = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
        delayed(_answer)(partial(answer, **one), block) for one, block in zip(calls, blocks)
    )
    try:
        return _gathered(parts, blocks)
    except ValueError:
        # An infinite cell is named by its row in the whole.
        check_finite(X)
        raise


def _seeded(call: dict[str, Any], n_blocks: int) -> list[dict[str, Any]]:
    """The arguments for each block."""
    if call.get("random_state") is None:
        return [call] * n_blocks
    seeds = check_random_state(call["random_state"]).randint(2**31, size=n_blocks)
    return [call | {"random_state": int(seed)} for seed in seeds]


def _lazily(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for a dask collection, as dask arrays and DataFrames."""
    from dask import delayed as task

    blocks = TableBlocks.of_lazy(X)
    is_numbers = hasattr(X, "dtype") and X.dtype.kind in "biuf"
    head = np.full((1, X.shape[1]), np.nan) if is_numbers else blocks.first()[:1]
    like = answer(**(call | {"X": head}))
    del call["X"]
    seeded = zip(_seeded(call, len(blocks.tasks)), blocks.tasks)
    parts = [task(_of_block)(partial(answer, **one), block, like) for one, block in seeded]
    sizes = X.chunks[0] if is_numbers else [np.nan] * len(parts)
    if not isinstance(like, tuple):
        return _collection(parts, sizes, like)
    places = range(len(like))
    return tuple(_collection([part[i] for part in parts], sizes, like[i]) for i in places)


def _of_block(answer: Callable[..., Any], block: Any, like: Any) -> Any:
    if len(block):
        return answer(X=block)
    return tuple(one[:0] for one in like) if isinstance(like, tuple) else like[:0]


def _collection(parts: list[Any], sizes: Any, like: Any) -> Any:
    """One dask collection of the answers for blocks, which look like a known one."""
    if not isinstance(like, np.ndarray):
        from dask import dataframe

        return dataframe.from_delayed(parts, meta=like[:0])
    from dask import array

    shapes = [(size, *like.shape[1:]) for size in sizes]
    return array.concatenate(
        [array.from_delayed(part, shape, like.dtype) for part, shape in zip(parts, shapes)],
        allow_unknown_chunksizes=True,
    )


def _answer(call: Callable[[], Any], block: slice) -> tuple[Any, dict[type[Warning], str]]:
    """The answer for a block, and the first of each category of its warnings."""
    note = f"Rows are counted from row {block.start} of X, the first of a block."
    with noted(note), collected() as warned:
        found = call()
    return found, {category: f"{text} {note}" for text, category in reversed(warned)}


def _gathered(parts: Iterator[Any], blocks: list[slice]) -> Any:
    """Put the answers for blocks together as they come: arrays, or tuples of arrays."""
    wholes: list[np.ndarray] = []
    said: dict[type[Warning], str] = {}
    for (part, warned), block in zip(parts, blocks):
        said = warned | said
        several = part if isinstance(part, tuple) else (part,)
        if not wholes:
            n_rows = blocks[-1].stop
            wholes = [np.empty((n_rows, *one.shape[1:]), one.dtype) for one in several]
        for whole, one in zip(wholes, several):
            whole[block] = one
    for category, text in said.items():
        warn(text, category)
    return tuple(wholes) if isinstance(part, tuple) else wholes[0]
