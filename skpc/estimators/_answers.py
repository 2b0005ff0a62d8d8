"""Answers for large tables chunk by chunk: by threads, or where dask keeps the chunks."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import check_random_state

from skpc._fitting import noted
from skpc._frames import is_from, like_native, native
from skpc._threads import in_threads, slices, threads
from skpc._validation import check_finite
from skpc._warnings import collected, warn

#: Cells of an array that are answered for at a time.
_ANSWERED_CELLS = 2**20

_Method = TypeVar("_Method", bound=Callable[..., Any])


def is_lazy(X: Any) -> bool:
    """Whether a table is a collection of dask."""
    return is_from("dask", X) and hasattr(X, "to_delayed")


def by_chunks(method: _Method) -> _Method:
    """Let a method of an estimator answer for a large array of numbers chunk by chunk.

    The method takes the table ``X`` first and answers for each of its rows with an array or a tuple
    of arrays. The chunks make memory independent of the number of rows, also where ``X`` is mapped
    to a file. They, or parts of them, are answered side by side by ``n_jobs`` threads where the
    estimator has it, else within a ``joblib.parallel_config``. A ``random_state`` seeds each chunk.
    The answer for a dask collection is a dask collection too, which is computed where the chunks
    are. Tables for tables of pyarrow and frames of narwhals are of their library.

    Queries divide their rows too, but into pieces of work for threads, when a float64 copy of the
    table and its encoded rows stand in memory already. The chunks bound these.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        # A dask collection is answered where its chunks are, each of them by this function.
        if is_lazy(X):
            return _lazily(signature(method).bind(self, X, *args, **kwargs).arguments, answer, X)
        # Tables of pyarrow and narwhals are answered as what they wrap, and turned back.
        frame = native(X)
        if frame is not X:
            frame_answers = _several(answer(self, frame, *args, **kwargs))
            answers = tuple(like_native(each, frame, X) for each in frame_answers)
            return answers if len(answers) > 1 else answers[0]
        with threads(getattr(self, "n_jobs", None)):
            # Chunks bound the memory of large arrays of numbers; all else is answered at once.
            is_numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
            if not is_numbers or len(X) < 2 or X.size <= _ANSWERED_CELLS:
                return method(self, X, *args, **kwargs)
            call = signature(method).bind(self, X, *args, **kwargs).arguments
            return _side_by_side(call, answer, X)

    return cast(_Method, answer)


def dask_chunks(X: Any) -> list[Any]:
    """The chunks of rows of a collection of dask, as its delayed objects."""
    whole_rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
    return list(np.ravel(whole_rows.to_delayed()))


def _side_by_side(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for an array, made of those for its chunks."""
    chunks = slices(len(X), max(1, _ANSWERED_CELLS // X.shape[1]))
    tasks = list(zip(chunks, _seeded(call, len(chunks))))
    wholes: list[np.ndarray] = []

    def write(task: tuple[slice, dict[str, Any]]) -> tuple[bool, dict[type[Warning], str]]:
        """Whether a chunk is answered by a tuple, and the first of each kind of its warnings."""
        chunk, arguments = task
        note = f"Rows are counted from row {chunk.start} of X, the first of a chunk."
        with noted(note), collected() as warnings:
            part = answer(**(arguments | {"X": X[chunk]}))
        # The first chunk is done before threads begin, so that no two of them allocate.
        if not wholes:
            wholes.extend(
                np.empty((len(X), *part_answer.shape[1:]), part_answer.dtype)
                for part_answer in _several(part)
            )
        for whole, part_answer in zip(wholes, _several(part)):
            whole[chunk] = part_answer
        # In reverse, so that the first warning of each kind is the one that stays.
        texts = {kind: f"{text} {note}" for text, kind in reversed(warnings)}
        return isinstance(part, tuple), texts

    try:
        # The first chunk tells the shape of the answer.
        written = [write(tasks[0]), *in_threads(write, tasks[1:])]
    except ValueError:
        # An infinite cell is named by its row in the whole.
        check_finite(X)
        raise
    # Among chunks too, the first warning of each kind stays.
    warned = {kind: text for _, texts in reversed(written) for kind, text in texts.items()}
    for kind, text in warned.items():
        warn(text, kind)
    return tuple(wholes) if written[0][0] else wholes[0]


def _several(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _seeded(call: dict[str, Any], n_chunks: int) -> list[dict[str, Any]]:
    """The arguments for each chunk."""
    if call.get("random_state") is None:
        # Without a seed there is nothing to share out: each chunk draws anew.
        return [call] * n_chunks
    # With one seed in common, rows at the same places of two chunks would have the same draws.
    seeds = check_random_state(call["random_state"]).randint(2**31, size=n_chunks)
    return [call | {"random_state": int(seed)} for seed in seeds]


def _lazily(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for a dask collection, as dask arrays and DataFrames."""
    from dask import delayed as task

    # The answer for one row tells dask the kinds and dtypes of all.
    head = X.head(1, npartitions=-1) if hasattr(X, "head") else X[:1].compute()
    head_answer = answer(**(call | {"X": head}))
    head_answers = _several(head_answer)
    chunks = dask_chunks(X)
    # Each task gets a chunk in place of the whole table.
    del call["X"]
    seeded = zip(_seeded(call, len(chunks)), chunks)
    parts = [
        task(_of_chunk)(partial(answer, **seeded_call), chunk, head_answers)
        for seeded_call, chunk in seeded
    ]
    # A DataFrame of dask does not know the sizes of its partitions.
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    answers = [
        _collection([part[i] for part in parts], sizes, head_part)
        for i, head_part in enumerate(head_answers)
    ]
    return tuple(answers) if isinstance(head_answer, tuple) else answers[0]


def _of_chunk(
    answer: Callable[..., Any], chunk: Any, head_answers: tuple[Any, ...]
) -> tuple[Any, ...]:
    # A chunk without rows is not asked about: its answers are those of the head without rows.
    return _several(answer(X=chunk)) if len(chunk) else tuple(head[:0] for head in head_answers)


def _collection(parts: list[Any], sizes: Any, head: Any) -> Any:
    """One dask collection of the answers for chunks, which look like a known one."""
    if not isinstance(head, np.ndarray):
        from dask import dataframe

        return dataframe.from_delayed(parts, meta=head[:0])
    from dask import array

    shapes = [(size, *head.shape[1:]) for size in sizes]
    return array.concatenate(
        [array.from_delayed(part, shape, head.dtype) for part, shape in zip(parts, shapes)],
        allow_unknown_chunksizes=True,
    )
