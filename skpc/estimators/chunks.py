"""Tables larger than memory: read, learned and answered for in chunks of rows.

All kinds of tables have one face, :class:`TableChunks`, which is read again and again. A sample of
at most 100,000 rows tells what the columns are and the structure of a model; the parameters come
from sums over all chunks (:class:`EncodedChunks`). Answers for an array of numbers or a collection
of dask are given chunk by chunk (:func:`by_chunks`).

Queries divide their rows too, but into pieces of work for threads, when a float64 copy of the table
and its encoded rows stand in memory already. The chunks bound these, and what is computed for each
cell, so that a table mapped to a file is never read as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, reduce, wraps
from inspect import signature
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats, added
from skpc._files import kept
from skpc._fitting import noted, with_some_cell
from skpc._threads import in_threads, threads
from skpc._validation import check_finite, check_table, frame_library, is_from
from skpc._warnings import collected, warn
from skpc.domain import Domain, present_rows

#: In a table of more rows or more cells than these, a sample tells what the columns are and the
#: structure of a model. The sample has at most this many rows and this many cells.
SAMPLE_ROWS, SAMPLE_CELLS = 100_000, 2**26
#: Cells of a mapped array that are read at a time, and of any array that are answered for.
_CELLS, _ANSWERED_CELLS = 2**22, 2**20
#: Results of chunks of a dask collection that are added up at a time.
_ADDED = 8

_Sum = TypeVar("_Sum")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def is_lazy(X: Any) -> bool:
    """Whether a table is a collection of dask."""
    return is_from("dask", X) and hasattr(X, "to_delayed")


class TableChunks:
    """A table in chunks of rows: arrays, or DataFrames of pandas or polars.

    Parameters
    ----------
    read : callable
        Returns an iterator over the chunks, always the same.
    tasks : list, default=None
        Instead, the chunks as delayed objects of dask. Work is done where they are.
    """

    def __init__(self, read: Callable[[], Iterator[Any]] | None, tasks: Any = None):
        self._read, self.tasks = read, tasks
        self.n_rows: int | None = None
        #: Knows the columns once :meth:`sample` has looked at them.
        self.reader: Any = None

    @classmethod
    def from_dask(cls, X: Any) -> TableChunks:
        """The chunks of a collection of dask."""
        whole_rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
        return cls(None, np.ravel(whole_rows.to_delayed()).tolist())

    @classmethod
    def from_table(cls, X: Any) -> TableChunks | None:
        """The chunks of what a user passes as ``X``; None if that is a table as it stands."""
        if is_lazy(X):
            return cls.from_dask(X)
        if is_from("pyarrow", X) and hasattr(X, "to_batches"):
            return cls(lambda: (batch.to_pandas() for batch in X.to_batches()))
        if is_from("polars", X) and hasattr(X, "collect_batches"):
            return cls(X.collect_batches)
        if isinstance(X, np.memmap) and X.ndim == 2 and X.size > _CELLS:
            rows = max(1, _CELLS // X.shape[1])
            return cls(lambda: (np.asarray(X[part]) for part in gen_batches(len(X), rows)))
        if isinstance(X, Iterator):
            return cls(kept(X))
        return cls(_read_anew(X)) if callable(X) else None

    def total(self, count: Callable[[int, Any], _Sum], n_jobs: int | None = None) -> _Sum:
        """Add up ``count(number, chunk)`` over the chunks, in their order.

        The sum does not depend on ``n_jobs``, the number of threads.
        """
        counted = partial(_counted, count)
        if self._read is None:
            n_rows, total = _total_of_tasks(self.tasks, counted)
        else:
            run = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
            parts = run(delayed(counted)(*chunk) for chunk in enumerate(self._read()))
            n_rows, total = reduce(added, parts)
        before, self.n_rows = self.n_rows, n_rows
        if before not in {None, n_rows}:
            raise ValueError(
                "The chunks of a table must be the same in each pass: "
                f"{before:,} rows were read in the first pass, and {n_rows:,} in a later "
                "one. Let the callable read everything anew."
            )
        return cast("_Sum", total)

    def first(self) -> Any:
        """The first chunk that has rows."""
        chunks = (task.compute() for task in self.tasks) if self._read is None else self._read()
        for chunk in chunks:
            if len(chunk):
                return chunk
        raise ValueError(
            "A table in chunks needs at least one chunk of rows; found none. An iterator that has "
            "been read is empty: pass a new one."
        )

    def sample(self, estimator: Any) -> tuple[Any, bool]:
        """Rows drawn from all chunks, or the whole table, and whether it is the whole table.

        Parameters
        ----------
        estimator : estimator
            Named in errors.

        Returns
        -------
        table : ndarray or DataFrame
            In the order of the chunks. Which rows are drawn depends on the chunks alone.
        is_whole : bool
        """
        self.reader = clone(estimator)
        check_table(self.reader, self.first(), reset=True)
        size = max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // self.reader.n_features_in_))
        drawn = self.total(partial(_draw, self.reader, size)).smallest()
        tables = [table for table in drawn.tables if len(table)]
        return _joined(tables), cast("int", self.n_rows) <= size


def sampled(estimator: Any, X: Any, sample_weight: Any) -> tuple[Any, TableChunks | None]:
    """The whole table and None, or a sample of a table in chunks and the chunks."""
    chunks = TableChunks.from_table(X)
    if chunks is None:
        return X, None
    if sample_weight is not None:
        raise ValueError(
            "sample_weight needs a table in memory, but X comes in chunks. Leave it out, or pass "
            "the whole table."
        )
    table, is_whole = chunks.sample(estimator)
    return table, None if is_whole else chunks


class EncodedChunks(NamedTuple):
    """The encoded rows of a table in chunks.

    Attributes
    ----------
    chunks : TableChunks
    domain : Domain
        What the columns are.
    n_jobs : int or None
        Chunks that are read at a time, by threads.
    n_rows : float
        Number of rows that have a cell.
    """

    chunks: TableChunks
    domain: Domain
    n_jobs: int | None
    n_rows: float

    @classmethod
    def from_sampled(cls, chunks: TableChunks, domain: Domain, n_jobs: int | None) -> EncodedChunks:
        """The rows of a table whose sample has told what the columns are.

        Warns about unknown categories, or refuses them.
        """
        strict = replace(domain, handle_unknown="error")
        look = partial(_look, chunks.reader, domain, strict)
        n_rows, unknown = chunks.total(look, n_jobs)
        if unknown:
            warn(
                "Categories that are not in the sample of rows that tells the columns count as "
                f"missing. {unknown[0]}",
            )
        return cls(chunks, domain, n_jobs, float(n_rows))

    def total(self, count: Callable[[Floats], _Sum]) -> _Sum:
        """Add up what is counted of the encoded rows of each chunk; those without a cell are left
        out."""
        encoded = partial(_count_rows, self.chunks.reader, self.domain, count)
        return self.chunks.total(encoded, self.n_jobs)


def by_chunks(method: _Method) -> _Method:
    """Let a method of an estimator answer for a large array of numbers chunk by chunk.

    The method takes the table ``X`` first and answers for each of its rows with an array or a tuple
    of arrays. The chunks make memory independent of the number of rows, also where ``X`` is mapped
    to a file. They, or parts of them, are answered side by side by ``n_jobs`` threads where the
    estimator has it, else within a ``joblib.parallel_config``. A ``random_state`` seeds each chunk.
    The answer for a dask collection is a dask collection too, which is computed where the chunks
    are.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_lazy(X):
            return _lazily(signature(method).bind(self, X, *args, **kwargs).arguments, answer, X)
        with threads(getattr(self, "n_jobs", None)):
            is_numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
            if not is_numbers or len(X) < 2 or X.size <= _ANSWERED_CELLS:
                return method(self, X, *args, **kwargs)
            call = signature(method).bind(self, X, *args, **kwargs).arguments
            return _side_by_side(call, answer, X)

    return cast(_Method, answer)


def _read_anew(read: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """What a user's callable returns, which has to be a new iterator each time."""
    before: Any = None

    def read_checked() -> Iterator[Any]:
        nonlocal before
        chunks = read()
        is_table = frame_library(chunks) is not None or getattr(chunks, "ndim", 0) == 2
        if is_table or not isinstance(chunks, Iterable):
            raise TypeError(
                "A callable that is passed as X must return an iterator of chunks, such as "
                f"iter([table]); found {type(chunks).__name__}."
            )
        if isinstance(chunks, Iterator) and chunks is before:
            raise ValueError(
                "A callable that is passed as X must return a new iterator of chunks each time; "
                f"found the same {type(chunks).__name__} again, whose chunks have been read."
            )
        before = chunks
        return iter(chunks)

    return read_checked


@dataclass
class _Drawn:
    """Rows that may be in a sample of some size, by chunk: those of the smallest keys will be."""

    size: int
    keys: list[Floats]
    tables: list[Any]

    def __add__(self, other: _Drawn) -> _Drawn:
        both = _Drawn(self.size, self.keys + other.keys, self.tables + other.tables)
        return both.smallest() if sum(map(len, both.keys)) > 2 * self.size else both

    def smallest(self) -> _Drawn:
        """Those with the smallest keys, as many as are wanted."""
        keys = np.concatenate(self.keys)
        if len(keys) <= self.size:
            return self
        limit = np.partition(keys, self.size - 1)[self.size - 1]
        chosen = [key <= limit for key in self.keys]
        tables = [present_rows(t, one.astype(np.float64))[0] for t, one in zip(self.tables, chosen)]
        return _Drawn(self.size, [key[one] for key, one in zip(self.keys, chosen)], tables)


def _draw(reader: Any, size: int, number: int, chunk: Any) -> _Drawn:
    """The rows of a chunk with the smallest keys."""
    if not len(chunk):
        return _Drawn(size, [], [])
    table = check_table(reader, chunk, reset=False)
    keys = np.random.default_rng([number, len(table)]).random(len(table))
    return _Drawn(size, [keys], [table]).smallest()


def _joined(tables: list[Any]) -> Any:
    """One table of several."""
    libraries = {frame_library(table): None for table in tables}
    if len(libraries) > 1:
        kinds = " and ".join(f"DataFrames of {name}" if name else "arrays" for name in libraries)
        raise TypeError(
            "The chunks of a table must be arrays throughout, or DataFrames of one library; found "
            f"{kinds}."
        )
    library = frame_library(tables[0])
    if library is None:
        return np.concatenate(tables)
    options = {"ignore_index": True} if library == "pandas" else {}
    return sys.modules[library].concat(tables, **options)


def _counted(count: Callable[[int, Any], _Sum], number: int, chunk: Any) -> tuple[int, _Sum]:
    """The number of rows of a chunk, and what is counted of them."""
    with noted(f"This is in chunk {number} of the table, counted from 0."):
        return len(chunk), count(number, chunk)


def _total_of_tasks(tasks: list[Any], count: Callable[[int, Any], Any]) -> Any:
    """Count where the chunks of a dask collection are, and add up by a tree."""
    from dask import delayed as task

    def together(first: Any, *others: Any) -> Any:
        # dask may use again what it holds, so the first one is copied.
        return reduce(added, others, deepcopy(first))

    level = [task(count)(number, chunk) for number, chunk in enumerate(tasks)]
    while len(level) > 1:
        level = [task(together)(*level[at : at + _ADDED]) for at in range(0, len(level), _ADDED)]
    return level[0].compute()


def _count_rows(
    reader: Any, domain: Domain, count: Callable[[Floats], Any], number: int, chunk: Any
) -> Any:
    rows = np.empty((0, domain.n_features))
    if len(chunk):
        rows = domain.encode(check_table(reader, chunk, reset=False))
        rows, _ = with_some_cell(domain, rows, np.empty(len(rows)))
    return count(rows)


def _look(
    reader: Any, domain: Domain, strict: Domain, number: int, chunk: Any
) -> tuple[int, list[str]]:
    """Number of rows with some cell, and the message about an unknown category."""
    unknown = []
    if len(chunk) and domain.handle_unknown != "error":
        try:
            strict.encode(check_table(reader, chunk, reset=False))
        except ValueError as error:
            unknown = [f"{error} (Row of chunk {number}.)"]
    return _count_rows(reader, domain, len, number, chunk), unknown


def _side_by_side(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for an array, made of those for its chunks."""
    chunks = list(gen_batches(len(X), max(1, _ANSWERED_CELLS // X.shape[1])))
    tasks = list(zip(chunks, _seeded(call, len(chunks))))
    wholes: list[np.ndarray] = []

    def write(task: tuple[slice, dict[str, Any]]) -> tuple[bool, dict[type[Warning], str]]:
        """Whether a chunk is answered by a tuple, and the first of each kind of its warnings."""
        chunk, arguments = task
        note = f"Rows are counted from row {chunk.start} of X, the first of a chunk."
        with noted(note), collected() as warnings:
            part = answer(**(arguments | {"X": X[chunk]}))
        several = part if isinstance(part, tuple) else (part,)
        if not wholes:
            wholes.extend(np.empty((len(X), *one.shape[1:]), one.dtype) for one in several)
        for whole, one in zip(wholes, several):
            whole[chunk] = one
        return several is part, {kind: f"{text} {note}" for text, kind in reversed(warnings)}

    try:
        # The first chunk tells the shape of the answer.
        written = [write(tasks[0]), *in_threads(write, tasks[1:])]
    except ValueError:
        # An infinite cell is named by its row in the whole.
        check_finite(X)
        raise
    warned = {kind: text for _, texts in reversed(written) for kind, text in texts.items()}
    for kind, text in warned.items():
        warn(text, kind)
    return tuple(wholes) if written[0][0] else wholes[0]


def _seeded(call: dict[str, Any], n_chunks: int) -> list[dict[str, Any]]:
    """The arguments for each chunk."""
    if call.get("random_state") is None:
        return [call] * n_chunks
    seeds = check_random_state(call["random_state"]).randint(2**31, size=n_chunks)
    return [call | {"random_state": int(seed)} for seed in seeds]


def _lazily(call: dict[str, Any], answer: Callable[..., Any], X: Any) -> Any:
    """The answer for a dask collection, as dask arrays and DataFrames."""
    from dask import delayed as task

    chunks = TableChunks.from_dask(X)
    is_numbers = hasattr(X, "dtype") and X.dtype.kind in "biuf"
    head = np.full((1, X.shape[1]), np.nan) if is_numbers else chunks.first()[:1]
    like = answer(**(call | {"X": head}))
    del call["X"]
    seeded = zip(_seeded(call, len(chunks.tasks)), chunks.tasks)
    parts = [task(_of_chunk)(partial(answer, **one), chunk, like) for one, chunk in seeded]
    sizes = X.chunks[0] if is_numbers else [np.nan] * len(parts)
    if not isinstance(like, tuple):
        return _collection(parts, sizes, like)
    places = range(len(like))
    return tuple(_collection([part[i] for part in parts], sizes, like[i]) for i in places)


def _of_chunk(answer: Callable[..., Any], chunk: Any, like: Any) -> Any:
    if len(chunk):
        return answer(X=chunk)
    return tuple(one[:0] for one in like) if isinstance(like, tuple) else like[:0]


def _collection(parts: list[Any], sizes: Any, like: Any) -> Any:
    """One dask collection of the answers for chunks, which look like a known one."""
    if not isinstance(like, np.ndarray):
        from dask import dataframe

        return dataframe.from_delayed(parts, meta=like[:0])
    from dask import array

    shapes = [(size, *like.shape[1:]) for size in sizes]
    return array.concatenate(
        [array.from_delayed(part, shape, like.dtype) for part, shape in zip(parts, shapes)],
        allow_unknown_chunksizes=True,
    )
