"""The tables that all trees over the same variables share, and checks of trees and rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets

__all__ = ["TreeTables", "check_codes", "check_integer", "check_tables", "check_trees"]


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

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees import TreeTables, log_evidence
    >>> tables = TreeTables.of([[0.4, 0.6], [0.5, 0.5]], {(0, 1): [[0.9, 0.1], [0.2, 0.8]]})
    >>> np.exp(log_evidence(tables, [[-1, 0], [-1, -1]], [[1, 0], [-1, 0]])).round(3)
    array([[0.12, 0.3 ],
           [0.48, 0.5 ]])
    """

    ptr: Ints
    conditional: Floats

    @classmethod
    def of(cls, root: Any, given: dict[tuple[int, int], Any]) -> TreeTables:
        """Arrange tables that stand alone.

        Parameters
        ----------
        root : sequence of n arrays of shape (n_states[v],)
            Probabilities of the states of each variable as a root.
        given : dict of (u, v) to array of shape (n_states[u], n_states[v])
            Probabilities of the states of v (columns) given those of its parent u (rows). Pairs
            that are left out are independent: v has the probabilities it has as a root.

        Returns
        -------
        TreeTables
        """
        n_states = [len(p) for p in root]
        ptr = offsets([*n_states, 1])
        alone = np.concatenate([np.asarray(p, dtype=np.float64) for p in root])
        conditional = np.repeat(alone[:, np.newaxis], len(alone) + 1, axis=1)
        for (u, v), table in given.items():
            conditional[ptr[v] : ptr[v + 1], ptr[u] : ptr[u + 1]] = np.transpose(table)
        return cls(ptr, conditional)

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return len(self.ptr) - 2


def check_tables(tables: TreeTables) -> TreeTables:
    """Tables as C-contiguous, writable arrays; refuse those whose shapes do not fit."""
    ptr = np.require(tables.ptr, dtype=np.int64, requirements=("C", "W"))
    conditional = np.require(tables.conditional, dtype=np.float64, requirements=("C", "W"))
    needed = (int(ptr[-1]) - 1, int(ptr[-1]))
    if conditional.shape != needed:
        raise ValueError(f"conditional must have shape {needed}; found {conditional.shape}.")
    return TreeTables(ptr, conditional)


def check_codes(tables: TreeTables, codes: Any) -> Ints:
    """Rows of states as int64, C-contiguous and writable; refuse states that do not exist."""
    rows = np.require(codes, dtype=np.int64, requirements=("C", "W"))
    if rows.ndim != 2 or rows.shape[1] != tables.n_features:
        raise ValueError(f"codes must have shape (n_rows, {tables.n_features}); found {rows.shape}")
    n_states = np.diff(tables.ptr)[:-1]
    wrong = np.argwhere((rows < -1) | (rows >= n_states))
    if len(wrong):
        row, v = wrong[0]
        raise ValueError(
            f"codes[{row}, {v}] must be a state in 0..{n_states[v] - 1} or -1 (missing); "
            f"found {rows[row, v]}."
        )
    return rows


def check_trees(tables: TreeTables, parents: Any) -> Ints:
    """Trees as int64, C-contiguous and writable; refuse what is no tree."""
    trees = np.require(parents, dtype=np.int64, requirements=("C", "W"))
    n = tables.n_features
    if trees.ndim != 2 or trees.shape[1] != n:
        raise ValueError(f"parents must have shape (n_trees, {n}); found {trees.shape}.")
    if trees.size and not -1 <= trees.min() <= trees.max() < n:
        wrong = trees[(trees < -1) | (trees >= n)]
        raise ValueError(f"Parents must be in 0..{n - 1}, or -1 for roots; found {wrong[0]}.")
    # After k doublings each vertex has gone up 2 ** k edges, or stays at the root, number n.
    above = np.column_stack([np.where(trees < 0, n, trees), np.full(len(trees), n)])
    for _ in range(n.bit_length()):
        above = np.take_along_axis(above, above, axis=1)
    lost = np.argwhere(above != n)
    if len(lost):
        tree, v = lost[0]
        raise ValueError(f"The parents above vertex {v} of tree {tree} must not form a cycle.")
    return trees


def check_integer(name: str, value: Any, limit: int) -> int:
    """An integer of at least 0 and below ``limit``; anything else is refused."""
    if not (isinstance(value, Integral) and 0 <= int(value) < limit):
        raise ValueError(f"{name} must be an integer in [0, {limit}); found {value!r}.")
    return int(value)
