"""The tables that all trees over the same variables share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints


class TreeTables(NamedTuple):
    """Distributions of each of n variables given each other as its parent.

    The states of all variables are numbered through, that of the virtual root last.

    Parameters
    ----------
    ptr : array of shape (n + 2,), int64
        The states of variable v are ``ptr[v] .. ptr[v + 1]``, that of the root ``ptr[n]``.
    conditional : array of shape (n_states, n_states + 1), float64, C-contiguous
        Probability of a state (first axis) of a variable given a state of its parent (second), in
        the last column as a root. Blocks on the diagonal are not read.
    """

    ptr: Ints
    conditional: Floats

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return len(self.ptr) - 2

    def check_codes(self, codes: Any) -> Ints:
        """Rows of states as int64, C-contiguous and writable; refuse states that do not exist."""
        rows = np.require(codes, dtype=np.int64, requirements=("C", "W"))
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(
                f"codes must have shape (n_rows, {self.n_features}); found {rows.shape}"
            )
        n_states = np.diff(self.ptr)[:-1]
        wrong = np.argwhere((rows < -1) | (rows >= n_states))
        if len(wrong):
            row, v = wrong[0]
            raise ValueError(
                f"codes[{row}, {v}] must be a state in 0..{n_states[v] - 1} or -1 (missing); "
                f"found {rows[row, v]}."
            )
        return rows
