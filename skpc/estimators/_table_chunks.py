"""Tables in chunks of rows, which may be larger than memory.

All kinds of them have one face, :class:`TableChunks`, which is read again and again. A sample of at
most 100,000 rows tells what the columns are and the structure of a model; the parameters come from
sums over all chunks (:class:`EncodedChunks`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Self, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats, Ints, added
from skpc._files import kept
from skpc._fitting import noted, with_some_cell
from skpc._frames import is_from, native
from skpc._threads import slices
from skpc._validation import check_table
from skpc._warnings import collected, warn
from skpc.domain import Domain, join_tables, present_rows
from skpc.estimators._answers import dask_chunks, is_lazy

#: In a table of more rows or more cells than these, a sample tells what the columns are and the
#: structure of a model. The sample has at most this many rows and this many cells.
SAMPLE_ROWS = 100_000
#: Cells of a mapped array that are read at a time.
_CELLS = 2**22
#: Results of chunks of a dask collection that are added up at a time.
_ADDED = 8

_Sum = TypeVar("_Sum")


class TableChunks:
    """A table in chunks of rows: arrays, DataFrames of pandas or polars, batches of pyarrow.

    Parameters
    ----------
    read : callable
        Returns an iterator over the chunks, always the same.
    tasks : list, default=None
        The same chunks as delayed objects of dask. Work is done where they are.
    """

    def __init__(self, read: Callable[[], Iterator[Any]], tasks: list[Any] | None = None):
        self._read = read
        self._tasks = tasks
        #: Number of rows of each chunk, from the first pass on.
        self.sizes: list[int] | None = None
        #: Knows the columns once :meth:`sample` has looked at them.
        self.reader: Any = None

    @classmethod
    def from_table(cls, X: Any) -> TableChunks | None:
        """The chunks of what a user passes as ``X``; None if that is a table as it stands."""
        X = native(X)
        if is_lazy(X):
            tasks = dask_chunks(X)
            return cls(lambda: (task.compute() for task in tasks), tasks)
        if is_from("pyarrow", X) and hasattr(X, "to_batches"):
            # Reading ahead would hold some whole files in memory.
            ahead = {"batch_readahead": 1, "fragment_readahead": 1}
            options = ahead if hasattr(X, "scanner") else {}
            return cls(lambda: map(native, X.to_batches(**options)))
        if is_from("duckdb", X) and hasattr(X, "__arrow_c_stream__"):
            return cls(partial(_record_batches, X))
        if is_from("polars", X) and hasattr(X, "collect_batches"):
            return cls(X.collect_batches)
        # A mapped file may be larger than memory; any other array is in it already.
        if isinstance(X, np.memmap) and X.ndim == 2 and X.size > _CELLS:
            rows = max(1, _CELLS // X.shape[1])
            return cls(lambda: (np.asarray(X[part]) for part in slices(len(X), rows)))
        if isinstance(X, Iterator):
            # An iterator ends after one pass, so its chunks are kept in a file for later ones.
            return cls(kept(map(native, X)))
        return cls(partial(_read_anew, X)) if callable(X) else None

    @property
    def n_rows(self) -> int:
        """Number of rows, from the first pass on."""
        return sum(self.sizes or ())

    def total(self, count: Callable[[int, Any], _Sum], n_jobs: int | None = None) -> _Sum:
        """Add up ``count(number, chunk)`` over the chunks, in their order.

        The sum does not depend on ``n_jobs``, the number of threads.
        """
        counted = partial(_counted, count)
        if self._tasks is None:
            run = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
            parts = run(delayed(counted)(*chunk) for chunk in enumerate(self._read()))
            # The first part begins the sum; no chunks at all have no rows and no total.
            sizes, total = reduce(added, parts, next(parts, ([], None)))
        else:
            sizes, total = _total_of_tasks(self._tasks, counted)
        if self.sizes is not None and sum(sizes) != self.n_rows:
            raise ValueError(
                "The chunks of a table must be the same in each pass: "
                f"{self.n_rows:,} rows were read in the first pass, and {sum(sizes):,} in a later "
                "one. Let the callable read everything anew."
            )
        self.sizes = self.sizes or sizes
        return cast("_Sum", total)

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
        sample_cells = 2**26
        first_chunk = next((chunk for chunk in self._read() if len(chunk)), None)
        # A pass for the sizes alone, which say how large a share of the rows is drawn.
        self.total(lambda number, chunk: 0)
        if first_chunk is None or not self.n_rows:
            raise ValueError(
                "A table in chunks needs at least one chunk of rows; found none. An iterator that "
                "has been read is empty: pass a new one."
            )
        self.reader = clone(estimator)
        check_table(self.reader, first_chunk, reset=True)
        size = max(1, min(SAMPLE_ROWS, sample_cells // self.reader.n_features_in_))
        limit = 1.0
        if size < self.n_rows:
            # The keys of all rows might not fit the memory. These are about twice as many as drawn.
            likely = (2.0 * size + 20.0) / self.n_rows
            # Keys depend on the number and size of a chunk: each pass has the same ones.
            keys = [key[key < likely] for key in map(_keys, itertools.count(), self.sizes or ())]
            # As many rows as are wanted have smaller keys than the one of this rank.
            limit = float(np.partition(np.concatenate(keys), size)[size])
        return join_tables(self.total(partial(_draw, self.reader, limit))), size >= self.n_rows


@dataclass
class EncodedChunks:
    """The encoded rows of a table in chunks; those without a cell are left out.

    Attributes
    ----------
    table : TableChunks
        A sample of it has said what the columns are.
    domain : Domain
        What the columns are.
    n_jobs : int or None
        Chunks that are read at a time, by threads.
    columns : ndarray of shape (n_features,), int, or None
        The order in which a model takes the columns; None takes them as they are.
    n_rows : float
        Number of rows that have a cell, once they have been read; of all rows before.
    is_read : bool, default=False
        Whether there has been a pass.
    """

    table: TableChunks
    domain: Domain
    n_jobs: int | None
    n_rows: float
    columns: Ints | None = None
    is_read: bool = False

    def taken(self, columns: Ints) -> Self:
        """The same with the columns in another order."""
        return replace(self, columns=columns)

    def total(self, count: Callable[[Floats, Floats], _Sum]) -> _Sum:
        """The sum of ``count(rows, weight)`` over all chunks; the first pass warns of categories.

        See :class:`skpc._fitting.Rows`.
        """
        counted = partial(_count_rows, self, count)
        n_rows, warnings, total = self.table.total(counted, self.n_jobs)
        if warnings and not self.is_read:
            warn(
                "Categories that are not in the sample of rows that tells the columns count as "
                f"missing. {warnings[0]}",
            )
        self.n_rows = float(n_rows)
        self.is_read = True
        return total


def _read_anew(read: Callable[[], Any]) -> Iterator[Any]:
    """What a user's callable returns, which has to be a new iterator each time."""
    chunks = read()
    if not isinstance(chunks, Iterable) or hasattr(chunks, "shape"):
        raise TypeError(
            "A callable that is passed as X must return an iterator of chunks, such as "
            f"iter([table]); found {type(chunks).__name__}."
        )
    return map(native, chunks)


def _record_batches(stream: Any) -> Iterator[Any]:
    """The rows of what streams by Arrow, such as a query, which runs again in each pass."""
    from pyarrow import RecordBatchReader

    return map(native, RecordBatchReader.from_stream(stream))


def _keys(number: int, n_rows: int) -> Floats:
    """Random numbers of the rows of a chunk; those of the least ones are a sample."""
    return np.random.default_rng([number, n_rows]).random(n_rows)


def _draw(reader: Any, limit: float, number: int, chunk: Any) -> list[Any]:
    """The rows of a chunk whose keys are below a limit."""
    if not len(chunk):
        return []
    table = check_table(reader, chunk, reset=False)
    is_drawn = _keys(number, len(table)) < limit
    return [present_rows(table, is_drawn.astype(np.float64))[0]] if is_drawn.any() else []


def _counted(count: Callable[[int, Any], _Sum], number: int, chunk: Any) -> tuple[list[int], _Sum]:
    """The number of rows of a chunk, and what is counted of them."""
    with noted(f"This is in chunk {number} of the table, counted from 0."):
        return [len(chunk)], count(number, chunk)


def _total_of_tasks(tasks: list[Any], count: Callable[[int, Any], Any]) -> Any:
    """Count where the chunks of a dask collection are, and add up by a tree."""
    from dask import delayed as task

    def together(*parts: Any) -> Any:
        return reduce(added, parts)

    level = [task(count)(number, chunk) for number, chunk in enumerate(tasks)]
    while len(level) > 1:
        level = [task(together)(*level[part]) for part in slices(len(level), _ADDED)]
    return level[0].compute()


def _count_rows(
    chunks: EncodedChunks, count: Callable[[Floats, Floats], _Sum], number: int, chunk: Any
) -> tuple[int, list[str], _Sum]:
    """Number of rows with a cell, warnings of unknown categories, and what is counted."""
    domain = chunks.domain
    rows = np.empty((0, domain.n_features))
    texts = []
    if len(chunk):
        with collected() as warnings:
            table = check_table(chunks.table.reader, chunk, reset=False)
            rows, _ = domain.encode_with_mass(table)
        # Rows of chunks have no weights: any numbers do here.
        rows, _ = with_some_cell(domain, rows, np.empty(len(rows)))
        texts = [f"{text} (Row of chunk {number}.)" for text, _ in warnings]
    if chunks.columns is not None:
        rows = rows.take(chunks.columns, axis=1)
    return len(rows), texts, count(rows, np.ones(len(rows)))
