"""Tables that are larger than memory: one face for all their kinds, blocks read again and again.

All that is learned from such a table is a sum over its blocks, or comes from a sample of its rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import gen_batches
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats, added
from skpc._files import kept
from skpc._fitting import noted, with_some_cell
from skpc._lazy import is_from
from skpc._validation import check_table, frame_library
from skpc._warnings import warn
from skpc.circuit import Circuit
from skpc.domain import Domain, present_rows
from skpc.queries import log_likelihood

#: In a table of more rows or more cells than these, a sample decides what the columns are. The
#: sample has at most this many rows and this many cells.
SAMPLE_ROWS, SAMPLE_CELLS = 100_000, 2**26
#: Cells of a mapped array that are read at a time.
_CELLS = 2**22
#: Cells whose states are gathered from a file, and from where the blocks of dask are.
_CODES, _CODES_OF_TASKS = 2**24, 2**21
#: Results of blocks of a dask collection that are added up at a time.
_ADDED = 8
#: Largest number of states that is kept in a byte.
_FEW_STATES = 127

_Sum = TypeVar("_Sum")
Codes = NDArray[np.signedinteger[Any]]


class TableBlocks:
    """A table in blocks of rows: arrays, or DataFrames of pandas or polars.

    Parameters
    ----------
    read : callable
        Returns an iterator over the blocks, always the same.
    tasks : list, default=None
        Instead, the blocks as delayed objects of dask. Work is done where they are.
    """

    def __init__(self, read: Callable[[], Iterator[Any]] | None, tasks: Any = None):
        self._read, self.tasks = read, tasks
        self._n_rows: int | None = None

    @classmethod
    def of_lazy(cls, X: Any) -> TableBlocks:
        """The blocks of a collection of dask."""
        whole_rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
        return cls(None, np.ravel(whole_rows.to_delayed()).tolist())

    @classmethod
    def of(cls, X: Any) -> TableBlocks | None:
        """The blocks of what a user passes as ``X``; None if that is a table as it stands."""
        if is_lazy(X):
            return cls.of_lazy(X)
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

    def total(
        self,
        count: Callable[[int, Any], _Sum],
        add: Callable[[_Sum, _Sum], _Sum] = added,
        n_jobs: int | None = None,
    ) -> _Sum:
        """Add up ``count(number, block)`` over the blocks, in their order.

        The sum does not depend on ``n_jobs``, the number of threads.
        """
        if self._read is None:
            return _total_of_tasks(self.tasks, count, add)
        return reduce(add, self._each(count, n_jobs))

    def kept(self, change: Callable[[int, Any], Any], n_jobs: int | None = None) -> TableBlocks:
        """Results for the blocks, in a temporary file; those of dask are computed when needed."""
        if self._read is None:
            numbered = enumerate(self.tasks)
            return TableBlocks(None, [_task(change)(number, block) for number, block in numbered])
        return TableBlocks(kept(self._each(change, n_jobs)))

    def _each(self, count: Callable[[int, Any], Any], n_jobs: int | None) -> Iterator[Any]:
        read, n_rows = cast("Callable[[], Iterator[Any]]", self._read), 0

        def numbered() -> Iterator[tuple[int, Any]]:
            nonlocal n_rows
            for number, block in enumerate(read()):
                n_rows += len(block)
                yield number, block

        yield from Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
            delayed(_counted)(count, number, block) for number, block in numbered()
        )
        before, self._n_rows = self._n_rows, n_rows
        if before not in {None, n_rows}:
            raise ValueError(
                "The blocks of a table must be the same in each pass: "
                f"{before:,} rows were read in the first pass, and {n_rows:,} in a later "
                "one. Let the callable read everything anew."
            )

    def first(self) -> Any:
        """The first block that has rows."""
        blocks = (task.compute() for task in self.tasks) if self._read is None else self._read()
        for block in blocks:
            if len(block):
                return block
        raise ValueError(
            "A table in blocks needs at least one block of rows; found none. An iterator that has "
            "been read is empty: pass a new one."
        )

    def sample(self, estimator: Any) -> tuple[Any, bool]:
        """Rows drawn from all blocks, or the whole table, and whether it is the whole table.

        Parameters
        ----------
        estimator : estimator
            Named in errors.

        Returns
        -------
        table : ndarray or DataFrame
            In the order of the blocks. Which rows are drawn depends on the blocks alone.
        is_whole : bool
        """
        reader = clone(estimator)
        check_table(reader, self.first(), reset=True)
        n_rows = max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // reader.n_features_in_))
        drawn = self.total(partial(_draw, reader, n_rows), partial(_drawn_together, n_rows))
        tables = [table for table in _cut(n_rows, drawn).tables if len(table)]
        return _joined(tables), drawn.n_rows <= n_rows


def sampled(estimator: Any, X: Any, sample_weight: Any) -> tuple[Any, TableBlocks | None]:
    """The whole table and None, or a sample of a table in blocks and the blocks."""
    blocks = TableBlocks.of(X)
    if blocks is None:
        return X, None
    if sample_weight is not None:
        raise ValueError(
            "sample_weight needs a table in memory, but X comes in blocks. Leave it out, or pass "
            "the whole table."
        )
    table, is_whole = blocks.sample(estimator)
    return table, None if is_whole else blocks


def _read_anew(blocks: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """What a user's callable returns, which has to be a new iterator each time."""
    before: Any = None

    def read() -> Iterator[Any]:
        nonlocal before
        found = blocks()
        is_table = frame_library(found) is not None or getattr(found, "ndim", 0) == 2
        if is_table or not isinstance(found, Iterable):
            raise TypeError(
                "A callable that is passed as X must return an iterator of blocks, such as "
                f"iter([table]); found {type(found).__name__}."
            )
        if isinstance(found, Iterator) and found is before:
            raise ValueError(
                "A callable that is passed as X must return a new iterator of blocks each time; "
                f"found the same {type(found).__name__} again, whose blocks have been read."
            )
        before = found
        return iter(found)

    return read


class EncodedBlocks(NamedTuple):
    """The encoded rows of a table in blocks.

    Attributes
    ----------
    blocks : TableBlocks
    reader : estimator
        Knows the columns.
    domain : Domain
        What these are.
    n_jobs : int or None
        Blocks that are read at a time, by threads.
    n_rows : float
        Number of rows that have a cell.
    is_complete : bool
        Whether no cell is missing.
    """

    blocks: TableBlocks
    reader: Any
    domain: Domain
    n_jobs: int | None
    n_rows: float = 0.0
    is_complete: bool = False

    @classmethod
    def of(cls, blocks: TableBlocks, estimator: Any, domain: Domain) -> EncodedBlocks:
        """The rows that an estimator reads, which has seen the columns.

        Warns about unknown categories, or refuses them.
        """
        reader = clone(estimator)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(reader, name, getattr(estimator, name))
        found = cls(blocks, reader, domain, getattr(estimator, "n_jobs", None))
        look = partial(_look, reader, domain, replace(domain, handle_unknown="error"))
        n_rows, n_missing, unknown = blocks.total(look, added, found.n_jobs)
        if unknown:
            warn(
                "Categories that are not in the sample of rows that tells the columns count as "
                f"missing. {unknown[0]}",
            )
        return found._replace(n_rows=float(n_rows), is_complete=n_missing == 0)

    @property
    def most_codes(self) -> int:
        """Largest number of cells that are moved here at a time; counts are moved instead."""
        return _CODES if self.blocks.tasks is None else _CODES_OF_TASKS

    def total(
        self, count: Callable[[Floats], _Sum], add: Callable[[_Sum, _Sum], _Sum] = added
    ) -> _Sum:
        """Add up what is counted of the encoded rows of each block; those without a cell are left
        out."""
        return self.blocks.total(
            partial(_of_rows, self.reader, self.domain, count), add, self.n_jobs
        )

    def total_of_codes(self) -> Callable[[Callable[[Codes], Any]], Any]:
        """What adds up over the states of all cells of each block.

        They are kept in a temporary file, as many passes read them; those of a collection of dask
        are made anew, where its blocks are.
        """
        states = partial(_of_rows, self.reader, self.domain, partial(_states, self.domain))
        codes = self.blocks.kept(states, self.n_jobs)
        return lambda count: codes.total(partial(_of_codes, count), n_jobs=self.n_jobs)

    def mean_log_likelihood(self, circuit: Circuit) -> float:
        """Mean log-likelihood of the rows (nats)."""
        return float(self.total(partial(_log_likelihood, circuit)) / self.n_rows)


class _Drawn(NamedTuple):
    """Rows that may be in the sample, by block: those with the smallest keys will be.

    ``limit`` is the greatest key that may still be among them.
    """

    keys: list[Floats]
    tables: list[Any]
    n_rows: int
    limit: float

    def below(self, limit: float) -> _Drawn:
        """Those with keys up to a limit."""
        limit = min(limit, self.limit)
        chosen = [key <= limit for key in self.keys]
        tables = [present_rows(t, one.astype(np.float64))[0] for t, one in zip(self.tables, chosen)]
        keys = [key[one] for key, one in zip(self.keys, chosen)]
        return _Drawn(keys, tables, self.n_rows, limit)


def _draw(reader: Any, n_rows: int, number: int, block: Any) -> _Drawn:
    """The rows of a block with the smallest keys."""
    if not len(block):
        return _Drawn([], [], 0, np.inf)
    table = check_table(reader, block, reset=False)
    keys = np.random.default_rng([number, len(table)]).random(len(table))
    return _cut(n_rows, _Drawn([keys], [table], len(table), np.inf))


def _drawn_together(n_rows: int, one: _Drawn, other: _Drawn) -> _Drawn:
    """The rows of two parts; above twice the number that is needed, those of the smallest keys."""
    limit = min(one.limit, other.limit)
    one, other = (part if part.limit == limit else part.below(limit) for part in (one, other))
    keys, tables = one.keys + other.keys, one.tables + other.tables
    both = _Drawn(keys, tables, one.n_rows + other.n_rows, limit)
    return _cut(n_rows, both) if sum(map(len, both.keys)) > 2 * n_rows else both


def _cut(n_rows: int, drawn: _Drawn) -> _Drawn:
    """The smallest keys, of as many rows as are wanted."""
    keys = np.concatenate(drawn.keys)
    if len(keys) <= n_rows:
        return drawn
    return drawn.below(float(np.partition(keys, n_rows - 1)[n_rows - 1]))


def _joined(tables: list[Any]) -> Any:
    """One table of several."""
    libraries = {frame_library(table): None for table in tables}
    if len(libraries) > 1:
        kinds = " and ".join(f"DataFrames of {name}" if name else "arrays" for name in libraries)
        raise TypeError(
            "The blocks of a table must be arrays throughout, or DataFrames of one library; found "
            f"{kinds}."
        )
    library = frame_library(tables[0])
    if library is None:
        return np.concatenate(tables)
    options = {"ignore_index": True} if library == "pandas" else {}
    return sys.modules[library].concat(tables, **options)


def _counted(count: Callable[[int, Any], Any], number: int, block: Any) -> Any:
    with noted(f"This is in block {number} of the table, counted from 0."):
        return count(number, block)


def _total_of_tasks(
    tasks: list[Any], count: Callable[[int, Any], Any], add: Callable[[Any, Any], Any]
) -> Any:
    """Count where the blocks of a dask collection are, and add up by a tree."""

    def together(first: Any, *others: Any) -> Any:
        # dask may use again what it holds, so the first one is copied.
        return reduce(add, others, deepcopy(first))

    level = [_task(_counted)(count, number, block) for number, block in enumerate(tasks)]
    while len(level) > 1:
        level = [_task(together)(*level[at : at + _ADDED]) for at in range(0, len(level), _ADDED)]
    return level[0].compute()


def _of_rows(
    reader: Any, domain: Domain, count: Callable[[Floats], Any], number: int, block: Any
) -> Any:
    rows = np.empty((0, domain.n_features))
    if len(block):
        rows = domain.encode(check_table(reader, block, reset=False))
        rows, _ = with_some_cell(domain, rows, np.empty(len(rows)))
    return count(rows)


def _states(domain: Domain, rows: Floats) -> Codes:
    codes = domain.codes(rows)
    return codes.astype(np.int8) if domain.n_states.max() <= _FEW_STATES else codes


def _of_codes(count: Callable[[Codes], Any], number: int, codes: Codes) -> Any:
    return count(codes)


def _log_likelihood(circuit: Circuit, rows: Floats) -> float:
    return float(log_likelihood(circuit, rows).sum())


def _look(
    reader: Any, domain: Domain, known: Domain, number: int, block: Any
) -> tuple[int, int, list[str]]:
    """Numbers of rows and of missing cells, and the message about an unknown category."""
    unknown = []
    if len(block) and domain.handle_unknown != "error":
        try:
            known.encode(check_table(reader, block, reset=False))
        except ValueError as error:
            unknown = [f"{error} (Row of block {number}.)"]
    found = _of_rows(reader, domain, lambda rows: (len(rows), int(np.isnan(rows).sum())), 0, block)
    return *found, unknown


def _task(function: Callable[..., Any]) -> Callable[..., Any]:
    from dask import delayed as task

    return cast("Callable[..., Any]", task(function))


def is_lazy(X: Any) -> bool:
    """Whether a table is a collection of dask."""
    return is_from("dask", X) and hasattr(X, "to_delayed")
