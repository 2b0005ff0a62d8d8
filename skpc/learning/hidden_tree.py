"""Chow-Liu trees of hidden variables, one above each column, and their EM.

With hidden states z, columns x, a tree of columns and the parent u of each column v but the root,

    p(x) = sum over z of p(z_root) prod_v p(z_v | z_u) prod_v p(x_v | z_v).

Sums over the states of a parent are products of matrices, for many rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from skpc._arrays import Floats, Ints
from skpc.counting import children_first

#: Numbers that are held for each array of messages.
_NUMBERS = 2_000_000
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
        Positive.
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
        for part in _batches(self, len(codes)):
            found[part] = _Messages(self, codes[part]).log_likelihood
        return found


class Counts(NamedTuple):
    """Expected weights of rows: of hidden states, and of these with those of the parent and cells.

    The fields have the shapes of those of :class:`HiddenTree`.
    """

    first: Floats
    transition: Floats
    emission: list[Floats]

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        pairs = zip(self.emission, other.emission)
        return Counts(
            self.first + other.first,
            self.transition + other.transition,
            [mine + yours for mine, yours in pairs],
        )

    def times(self, factor: float) -> Counts:
        """All weights times a number."""
        emission = [factor * counts for counts in self.emission]
        return Counts(factor * self.first, factor * self.transition, emission)

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
        emission = [
            counts + _EMISSION * np.maximum(column, _SMALLEST)
            for counts, column in zip(self.emission, share)
        ]
        return HiddenTree(
            parent,
            _normalised(self.first + _TRANSITION / k),
            _normalised(self.transition + _TRANSITION * alone),
            [_normalised(table) for table in emission],
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
    found = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
        delayed(_counts)(tree, rows.codes[part], rows.weight[part])
        for part in _batches(tree, len(rows.weight))
    )
    return reduce(Counts.plus, found)


class _Messages:
    """What the subtree below each hidden variable tells of it, for some rows."""

    def __init__(self, tree: HiddenTree, codes: Codes):
        n_columns, k = len(tree.parent), tree.n_hidden
        self.upwards = children_first(tree.parent)
        #: Of the cell and the subtrees below, and of all that for the parent.
        self.below = np.empty((n_columns, len(codes), k))
        self.told = np.empty_like(self.below)
        for v, table in enumerate(tree.emission):
            # A missing cell, -1, tells nothing.
            lines = np.concatenate([table.T, np.ones((1, k))])
            self.below[v] = lines[codes[:, v]]
        log_scale = np.zeros(len(codes))
        for v in self.upwards:
            here = self.below[v]
            greatest = here.max(axis=1)
            here /= greatest[:, np.newaxis]
            log_scale += np.log(greatest)
            if tree.parent[v] >= 0:
                np.matmul(here, tree.transition[v].T, out=self.told[v])
                self.below[tree.parent[v]] *= self.told[v]
        self.likelihood = self.below[self.upwards[-1]] @ tree.first
        self.log_likelihood = np.log(self.likelihood) + log_scale


def _counts(tree: HiddenTree, codes: Codes, weight: Floats) -> Counts:
    messages = _Messages(tree, codes)
    below, told, root = messages.below, messages.told, messages.upwards[-1]
    transition = np.zeros_like(tree.transition)
    emission = []
    below[root] *= tree.first * (weight / messages.likelihood)[:, np.newaxis]
    for v in messages.upwards[-2::-1]:
        # Posterior of the hidden state of the parent, by what is not below this column alone.
        outside = np.divide(below[tree.parent[v]], told[v], out=told[v])
        np.multiply(tree.transition[v], outside.T @ below[v], out=transition[v])
        below[v] *= outside @ tree.transition[v]
    for v, table in enumerate(tree.emission):
        states = np.arange(table.shape[1])
        emission.append(below[v].T @ (codes[:, [v]] == states).astype(np.float64))
    return Counts(below[root].sum(axis=0), transition, emission)


def _batches(tree: HiddenTree, n_rows: int) -> Iterator[slice]:
    """Rows whose messages fit in memory together."""
    size = max(1, _NUMBERS // (len(tree.parent) * tree.n_hidden))
    return gen_batches(n_rows, size)


def _normalised(table: Floats) -> Floats:
    return np.asarray(table / table.sum(axis=-1, keepdims=True))
