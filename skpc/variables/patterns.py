"""Missingness patterns: which rows have the same missing cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints


class Patterns(NamedTuple):
    """Rows sorted by which of their cells are missing.

    Parameters
    ----------
    order : ndarray of shape (n_rows,)
        The rows, pattern by pattern, those with most missing cells first.
    ptr : ndarray of shape (n_patterns + 1,)
        Where each pattern begins in ``order``.
    seen : bool ndarray of shape (n_patterns, d)
        The cells that a pattern observes.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.patterns import Patterns
    >>> Patterns.of(np.array([[1.0, 2.0], [np.nan, 2.0], [3.0, 4.0]]))
    Patterns(order=array([1, 0, 2]), ptr=array([0, 1, 3]), seen=array([[False,  True],
           [ True,  True]]))
    """

    order: Ints
    ptr: Ints
    seen: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: Floats) -> Patterns:
        """The patterns of rows with NaN where a cell is missing."""
        seen = ~np.isnan(scores)
        if len(seen) and seen.all():
            return cls(np.arange(len(seen)), np.array([0, len(seen)]), seen[:1])
        # The bits of a row as one value: these sort faster than rows do.
        bits = np.packbits(seen, axis=1) if seen.shape[1] else np.zeros((len(seen), 1), np.uint8)
        key = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        first, pattern, size = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )[1:]
        # Patterns of the same size are neighbours, for they are treated side by side.
        fewest_first = np.argsort(seen[first].sum(axis=1), kind="stable")
        rank = np.empty(len(first), dtype=np.int64)
        rank[fewest_first] = np.arange(len(first))
        ptr = np.zeros(len(first) + 1, dtype=np.int64)
        np.cumsum(size[fewest_first], out=ptr[1:])
        order = np.argsort(rank[pattern], kind="stable").astype(np.int64, copy=False)
        return cls(order, ptr, np.ascontiguousarray(seen[first[fewest_first]]))

    def parts(self, size: int) -> list[Patterns]:
        """Consecutive parts of ``size`` rows; their order is that among all rows."""
        n_rows = len(self.order)
        if n_rows <= size:
            return [self]
        found = []
        for begin in range(0, n_rows, size):
            end = min(begin + size, n_rows)
            first, last = np.searchsorted(self.ptr, (begin, end - 1), side="right").tolist()
            ptr = np.clip(self.ptr[first - 1 : last + 1], begin, end) - begin
            found.append(Patterns(self.order[begin:end].copy(), ptr, self.seen[first - 1 : last]))
        return found

    @property
    def n_seen(self) -> Ints:
        """Number of observed cells of each row, shape (n_rows,)."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(self.seen.sum(axis=1), np.diff(self.ptr))
        return found
