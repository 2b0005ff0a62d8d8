"""Chow-Liu trees of hidden variables, one above each column, and their EM.

Let z be hidden states, x columns, and u the parent of column v in a tree of columns. Then

    p(x) = sum over z of p(z_root) prod_v p(z_v | z_u) prod_v p(x_v | z_v).

Rows pass up and down the tree in compiled loops (``hidden_tree_passes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_even_slices

from skpc._arrays import Floats, Ints, offsets
from skpc._threads import each, threads
from skpc.counting import children_first
from skpc.learning.hidden_tree_passes import FlatTree, count_rows, measure_rows

#: Rows of a part in a small table, and the greatest number of parts. The counts of each part
#: are added up by themselves, so that threads change nothing.
_PART_ROWS, _MOST_PARTS = 256, 16
#: Pseudo-counts: of the distribution of hidden states given each state of the parent, drawn to that
#: without a parent; and of the states of a column given each hidden state, drawn to the column.
_TRANSITION, _EMISSION = 0.5, 0.1
#: No state is less probable than this, in any of the tables.
_SMALLEST = 1e-9

Codes = NDArray[Any]


class CodedRows(NamedTuple):
    """Rows of states.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n_columns), int
        State of each cell, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Positive weights of the rows.
    """

    codes: Codes
    weight: Floats

    def some(self, rows: Ints) -> CodedRows:
        """Some of the rows."""
        return CodedRows(self.codes[rows], self.weight[rows])


class HiddenTree(NamedTuple):
    """A tree of hidden variables, all of k states, above columns of states.

    Attributes
    ----------
    parent : ndarray of shape (n_columns,), int
        The parent of each column in the tree, -1 for the root.
    first : ndarray of shape (k,)
        Probabilities of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Probabilities of the hidden states of a column (last axis) given those of its parent. That
        of the root is not used.
    emission : list of ndarrays of shape (k, n_states)
        Probabilities of the states of each column given its hidden states.
    """

    parent: Ints
    first: Floats
    transition: Floats
    emission: list[Floats]

    @property
    def n_hidden(self) -> int:
        """Number of states of each hidden variable."""
        return len(self.first)

    def log_likelihood(self, codes: Codes) -> Floats:
        """Log-likelihood (nats) of rows, missing cells summed out; shape (n_rows,)."""
        found = np.empty(len(codes))
        measure_rows(_flat(self), _codes(codes), found)
        return found


class Counts(NamedTuple):
    """Expected weights of rows.

    Attributes
    ----------
    first : ndarray of shape (k,)
        Expected counts of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Counts of those of each column (last axis) and of its parent; zero for the root.
    state_ptr : ndarray of shape (n_columns + 1,)
        The states of column v are the rows ``state_ptr[v] .. state_ptr[v + 1]`` of ``by_state``.
    by_state : ndarray of shape (n_states, k)
        Counts of the states of all columns and of the hidden states above them.
    """

    first: Floats
    transition: Floats
    state_ptr: Ints
    by_state: Floats

    @property
    def emission(self) -> list[Floats]:
        """Counts of the states of each column and the hidden ones, shapes (k, n_states)."""
        return _tables(self.state_ptr, self.by_state)

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        return Counts(
            self.first + other.first,
            self.transition + other.transition,
            self.state_ptr,
            self.by_state + other.by_state,
        )

    def times(self, factor: float) -> Counts:
        """All weights times a number."""
        transition, by_state = factor * self.transition, factor * self.by_state
        return Counts(factor * self.first, transition, self.state_ptr, by_state)

    def tree(self, parent: Ints, share: Sequence[Floats]) -> HiddenTree:
        """The most probable parameters.

        Parameters
        ----------
        parent : ndarray of shape (n_columns,)
            The tree.
        share : sequence of ndarrays of shape (n_states,)
            Probabilities of the states of each column, to which those of the hidden states are
            drawn.

        Returns
        -------
        HiddenTree
        """
        k = len(self.first)
        alone = self.transition.sum(axis=1, keepdims=True) + _SMALLEST
        alone /= alone.sum(axis=2, keepdims=True)
        column = np.maximum(np.concatenate(share), _SMALLEST)
        by_state = self.by_state + _EMISSION * column[:, np.newaxis]
        total = np.add.reduceat(by_state, self.state_ptr[:-1])
        by_state /= np.repeat(total, np.diff(self.state_ptr), axis=0)
        return HiddenTree(
            parent,
            _normalised(self.first + _TRANSITION / k),
            _normalised(self.transition + _TRANSITION * alone),
            _tables(self.state_ptr, by_state),
        )


def expected_counts(tree: HiddenTree, rows: CodedRows, n_jobs: int | None) -> Counts:
    """The E-step.

    Parameters
    ----------
    tree : HiddenTree
    rows : CodedRows
        At least one.
    n_jobs : int or None
        Parts of the rows that are read at a time, by threads. The result is the same.

    Returns
    -------
    Counts
    """
    flat, n_rows = _flat(tree), len(rows.weight)
    n_parts = min(-(-n_rows // _PART_ROWS), _MOST_PARTS)
    tasks = ((flat, rows, part) for part in gen_even_slices(n_rows, n_parts))
    with threads(n_jobs):
        return reduce(Counts.plus, each(_counts, tasks, float(n_rows) * flat.transition.size))


def _counts(tree: FlatTree, rows: CodedRows, part: slice) -> Counts:
    found = Counts(
        np.zeros_like(tree.first),
        np.zeros_like(tree.transition),
        tree.state_ptr,
        np.zeros_like(tree.emission),
    )
    codes, weight = _codes(rows.codes[part]), np.ascontiguousarray(rows.weight[part])
    count_rows(tree, codes, weight, found.first, found.transition, found.by_state)
    return found


def _codes(codes: Codes) -> NDArray[np.int16]:
    return np.require(codes, np.int16, ["C", "W"])


def _flat(tree: HiddenTree) -> FlatTree:
    emission = np.concatenate([table.T for table in tree.emission])
    return FlatTree(
        np.array(children_first(tree.parent)),
        tree.parent,
        tree.first,
        tree.transition,
        offsets([table.shape[1] for table in tree.emission]),
        emission,
    )


def _tables(state_ptr: Ints, by_state: Floats) -> list[Floats]:
    """The rows of the states of each column, turned."""
    ends = state_ptr.tolist()
    return [by_state[begin:end].T for begin, end in zip(ends, ends[1:])]


def _normalised(table: Floats) -> Floats:
    return np.asarray(table / table.sum(axis=-1, keepdims=True))
