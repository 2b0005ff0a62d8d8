"""Missingness patterns: which cells rows lack, and which rows lack the same."""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets


class Patterns(NamedTuple):
    """Rows grouped by their missingness pattern, that is by which of their cells are missing.

    Parameters
    ----------
    order : ndarray of shape (n_rows,)
        The rows, pattern by pattern.
    ptr : ndarray of shape (n_patterns + 1,)
        Where each pattern begins in ``order``.
    observed : bool ndarray of shape (n_patterns, d)
        The cells that a pattern observes.
    columns : ndarray of shape (n_patterns, d)
        The columns of a pattern, the missing ones first.
    n_missing : ndarray of shape (n_patterns,)
        Number of missing columns of each pattern.
    pattern : ndarray of shape (n_rows,)
        The pattern of each entry of ``order``.
    n_observed : ndarray of shape (n_rows,)
        Number of observed cells of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.patterns import Patterns
    >>> patterns = Patterns.from_scores(
    ...     np.array([[1.0, 2.0], [np.nan, 2.0], [3.0, 4.0]])
    ... )
    >>> patterns.order, patterns.ptr, patterns.n_missing
    (array([1, 0, 2]), array([0, 1, 3]), array([1, 0]))
    """

    order: Ints
    ptr: Ints
    observed: Bools
    columns: Ints
    n_missing: Ints
    pattern: Ints
    n_observed: Ints

    @classmethod
    def from_scores(cls, scores: Floats) -> Self:
        """The patterns of rows with NaN where a cell is missing."""
        observed = ~np.isnan(scores)
        n_observed = observed.sum(axis=1)
        # The bits of a row make one value, as values sort faster than rows.
        bits = np.packbits(np.insert(observed, 0, True, axis=1), axis=1)
        key = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first_row, pattern, size = np.unique(key, True, True, True)
        order = np.argsort(pattern, kind="stable").astype(np.int64, copy=False)
        pattern = np.sort(pattern)
        observed = observed[first_row]
        # False sorts before True, and a stable sort keeps the order of the columns.
        columns = np.argsort(observed, axis=1, kind="stable")
        n_missing = (~observed).sum(axis=1)
        return cls(order, offsets(size), observed, columns, n_missing, pattern, n_observed)

    @property
    def are_complete(self) -> bool:
        """Whether no cell is missing."""
        return not self.n_missing.any()
