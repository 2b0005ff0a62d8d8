"""Chow-Liu trees of hidden variables, one above each column, and their EM.

Let z be hidden states, x columns, and u the parent of column v in a tree of columns. Then

    p(x) = sum over z of p(z_root) prod_v p(z_v | z_u) prod_v p(x_v | z_v).

Messages of many rows pass up and down the tree at once: a message is a matrix of shape (k, n_rows),
for k hidden states, and a step is its product with a table of shape (k, k). The tree that has been
learned becomes a circuit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, offsets, owners
from skpc._fitting import Rows
from skpc._threads import slices
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.column_laws import rows_like_columns
from skpc.counting.trees import children_first

#: Rows of a part at most. The counts of each part are added up by themselves, so that the number of
#: threads changes nothing.
_PART_ROWS = 1024
#: Pseudo-counts of the hidden states given each state of the parent, distributed like the hidden
#: states of all rows.
_TRANSITION_COUNT = 0.5
#: Pseudo-counts of the states of a column given each hidden state, distributed like the column.
_EMISSION_COUNT = 0.1
#: No state is less probable than this, in any of the tables.
_SMALLEST = 1e-9

Codes = np.ndarray


class HiddenTree(NamedTuple):
    """A tree of hidden variables, all of k states, above columns of states.

    Attributes
    ----------
    parent : ndarray of shape (n_columns,), int
        The parent of each column in the tree, -1 for the root.
    root_share : ndarray of shape (k,)
        Probabilities of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Probabilities of the hidden states of a column (last axis) given those of its parent. That
        of the root is not used.
    emission : list of ndarrays of shape (k, n_states)
        Probabilities of the states of each column given its hidden states.
    """

    parent: Ints
    root_share: Floats
    transition: Floats
    emission: list[Floats]

    @property
    def n_hidden(self) -> int:
        """Number of states of each hidden variable."""
        return len(self.root_share)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        k = self.n_hidden
        n_states = sum(table.shape[1] - 1 for table in self.emission)
        return k - 1 + (len(self.parent) - 1) * k * (k - 1) + k * n_states

    def log_likelihood(self, codes: Codes) -> Floats:
        """Log-likelihood (nats) of rows, missing cells summed out; shape (n_rows,)."""
        parts = [_pass_up(self, codes[part])[2] for part in slices(len(codes), _part_rows(self))]
        return np.concatenate([np.empty(0), *parts])

    def expected(self, codes: Codes, weight: Floats) -> Counts:
        """The E-step, for rows of states and their weights; at least one row."""
        return Rows(codes, weight, _part_rows(self)).total(partial(_counts, self))


class Counts(NamedTuple):
    """Expected weights of rows: the statistics of the E-step.

    Attributes
    ----------
    root : ndarray of shape (k,)
        Weight in each hidden state of the root.
    transition : ndarray of shape (n_columns, k, k)
        Weight in each pair of hidden states, of a column (last axis) and its parent; zero for the
        root.
    by_state : ndarray of shape (n_states, k)
        Weight in each state of each column, one column after another, and each hidden state of the
        column.
    squares : ndarray of shape (n_states, k)
        The same with squared posteriors of the hidden states, for columns with missing cells; zero
        for others.
    """

    root: Floats
    transition: Floats
    by_state: Floats
    squares: Floats

    def times(self, factor: float) -> Self:
        """All weights times a number."""
        return type(self)(*(factor * counts for counts in self))

    @classmethod
    def from_tree(cls, tree: HiddenTree, n_rows: float) -> Self:
        """The counts of ``n_rows`` rows that are distributed like a tree."""
        transition = np.zeros_like(tree.transition)
        hidden = [tree.root_share] * len(tree.parent)
        # Parents come before their children, and the root has been settled.
        for v in children_first(tree.parent)[-2::-1]:
            transition[v] = hidden[tree.parent[v]][:, np.newaxis] * tree.transition[v]
            hidden[v] = transition[v].sum(axis=0)
        by_state = [
            (mass[:, np.newaxis] * emission).T for mass, emission in zip(hidden, tree.emission)
        ]
        counts = np.concatenate(by_state)
        return cls(tree.root_share, transition, counts, np.zeros_like(counts)).times(n_rows)

    def tree_like(self, tree: HiddenTree) -> HiddenTree:
        """The most probable tree with the edges of another; shares of columns are those counted."""
        state_ptr = offsets([table.shape[1] for table in tree.emission])
        parts = np.split(self.by_state.sum(axis=1) + 0.5, state_ptr[1:-1])
        return self.tree(tree.parent, [normalised(part) for part in parts])

    def tree(self, parent: Ints, share: Sequence[Floats]) -> HiddenTree:
        """The most probable tree given the counts and pseudo-counts: the M-step.

        Parameters
        ----------
        parent : ndarray of shape (n_columns,)
            The parent of each column, -1 for the root.
        share : sequence of ndarrays of shape (n_states,)
            Probabilities of the states of each column, to which those of the hidden states are
            drawn.

        Returns
        -------
        HiddenTree
        """
        k = len(self.root)
        state_ptr = offsets([len(column_share) for column_share in share])
        # A state of the parent without rows has the hidden states of all rows, whatever the parent.
        margin = self.transition.sum(axis=1, keepdims=True) + _SMALLEST
        margin /= margin.sum(axis=2, keepdims=True)
        column = np.maximum(np.concatenate(share), _SMALLEST)
        # Expected weight of the rows in each hidden state of a column, missing cells among them.
        hidden = np.where((parent < 0)[:, np.newaxis], self.root, self.transition.sum(axis=1))
        # A column has a table for each hidden state; cells are (n_states, k), line by line.
        state, table = np.divmod(np.arange(self.by_state.size), k)
        table += k * owners(np.diff(state_ptr))[state]
        cells = self.by_state.ravel(), table, state, hidden.ravel(), column, state_ptr
        unit = self.squares / np.where(self.by_state > 0.0, self.by_state, 1.0)
        like_column = rows_like_columns(*cells, unit.ravel()).reshape(self.by_state.shape)
        by_state = self.by_state + _EMISSION_COUNT * column[:, np.newaxis] + like_column
        total = np.add.reduceat(by_state, state_ptr[:-1])
        by_state /= np.repeat(total, np.diff(state_ptr), axis=0)
        root_share = normalised(self.root + _TRANSITION_COUNT / k)
        transition = normalised(self.transition + _TRANSITION_COUNT * margin)
        emission = [column_share.T for column_share in np.split(by_state, state_ptr[1:-1])]
        return HiddenTree(parent, root_share, transition, emission)


class TaughtTree(NamedTuple):
    """A tree whose tables EM learns; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    tree : HiddenTree
    share : list of ndarrays of shape (n_states,)
        Probabilities of the states of each column, which smooth its tables.
    domain : Domain or None, default=None
        Reads the states of encoded rows. None: rows are states already.
    """

    tree: HiddenTree
    share: list[Floats]
    domain: Any = None

    def log_likelihood(self, codes: Codes) -> Floats:
        """Log-likelihood (nats) of rows of states."""
        return self.tree.log_likelihood(codes)

    def expected(self, rows: Any, weight: Floats) -> Counts:
        """The E-step."""
        codes = rows if self.domain is None else self.domain.codes(rows)
        return self.tree.expected(codes, weight)

    def m_step(self, counts: Counts) -> Self:
        """The tree with the most probable parameters."""
        return self._replace(tree=counts.tree(self.tree.parent, self.share))


def _part_rows(tree: HiddenTree) -> int:
    """Rows whose messages are held at a time."""
    # Numbers in the messages of a part, at most.
    part_numbers = 2**22
    return max(1, min(_PART_ROWS, part_numbers // (len(tree.parent) * tree.n_hidden)))


def _pass_up(tree: HiddenTree, codes: Codes) -> tuple[list[Floats], list[Floats], Floats]:
    """Pass messages from the leaves to the root.

    Returns for each column the likelihood of its hidden states given the cells in its subtree, up
    to a factor for each row, and its message to the parent, both of shape (k, n_rows); and the
    log-likelihood (nats) of each row.
    """
    order = children_first(tree.parent)
    n_rows = len(codes)
    below: list[Floats] = []
    for table, states in zip(tree.emission, codes.T):
        # A missing cell, state -1, reads the last column.
        table_and_missing = np.concatenate([table, np.ones((len(table), 1))], axis=1)
        below.append(table_and_missing.take(states, axis=1, mode="wrap"))
    message_to_parent = [np.empty(0)] * len(order)
    log_likelihood = np.zeros(n_rows)
    for v in order:
        # Products over many columns would underflow.
        greatest = below[v].max(axis=0)
        below[v] /= greatest
        log_likelihood += np.log(greatest)
        if tree.parent[v] >= 0:
            message_to_parent[v] = tree.transition[v] @ below[v]
            below[tree.parent[v]] *= message_to_parent[v]
    log_likelihood += np.log(tree.root_share @ below[order[-1]])
    return below, message_to_parent, log_likelihood


def _counts(tree: HiddenTree, codes: Codes, weight: Floats) -> Counts:
    """The expected counts of a part of the rows: messages go up, posteriors come down."""
    below, message_to_parent, _ = _pass_up(tree, codes)
    *columns, root = children_first(tree.parent)
    posterior = below
    transition = np.zeros_like(tree.transition)
    # Divided by its likelihood, each row sums to its weight.
    posterior[root] *= weight / (tree.root_share @ below[root]) * tree.root_share[:, np.newaxis]
    for v in reversed(columns):
        # Posterior of the hidden state of the parent by all cells outside of the subtree of v.
        outside = posterior[tree.parent[v]] / message_to_parent[v]
        transition[v] = tree.transition[v] * (outside @ below[v].T)
        posterior[v] *= tree.transition[v].T @ outside
    state_ptr = offsets([table.shape[1] for table in tree.emission])
    by_state = np.empty((state_ptr[-1], tree.n_hidden))
    squares = np.zeros_like(by_state)
    for v, (begin, end) in enumerate(zip(state_ptr, state_ptr[1:])):
        is_state = codes[:, v] == np.arange(end - begin)[:, np.newaxis]
        by_state[begin:end] = is_state.astype(np.float64) @ posterior[v].T
        if (codes[:, v] < 0).any():
            squares[begin:end] = is_state @ (posterior[v] ** 2 / weight).T
    return Counts(posterior[root].sum(axis=1), transition, by_state, squares)


def normalised(table: Any) -> Any:
    """The table with lines that sum to one."""
    return table / table.sum(axis=-1, keepdims=True)


def hidden_tree_circuit(tree: HiddenTree, axes: Sequence[Any] | None = None) -> Circuit:
    """Turn a tree of hidden variables into a smooth and decomposable circuit.

    Each hidden state of a column is a product of its leaf and, for each child, a sum over the
    hidden states of the child.

    Parameters
    ----------
    tree : HiddenTree
    axes : sequence, default=None
        For each column None or its histogram axis.

    Returns
    -------
    Circuit
    """
    builder = CircuitBuilder([table.shape[1] for table in tree.emission], axes)
    add_hidden_tree(builder, tree, builder.discrete)
    return builder.build()


def add_hidden_tree(
    builder: CircuitBuilder, tree: HiddenTree, leaf: Callable[[int, Floats], int]
) -> int:
    """Add a tree of hidden variables to a circuit.

    Parameters
    ----------
    builder : CircuitBuilder
    tree : HiddenTree
    leaf : callable
        Takes a column and the log probabilities of its states, adds its leaf, returns its number.

    Returns
    -------
    int
        Number of the root.
    """
    upwards = children_first(tree.parent)
    root_share = _without_negligible(tree.root_share[np.newaxis])[0]
    transition = {v: _without_negligible(tree.transition[v]) for v in upwards[:-1]}
    #: For each column, which hidden states have a positive probability.
    reached = {upwards[-1]: root_share > 0.0}
    for v in upwards[-2::-1]:
        reached[v] = transition[v][reached[int(tree.parent[v])]].any(axis=0)
    #: For each column and hidden state, the nodes of the subtrees of its children.
    below: list[list[list[int]]] = [[[] for _ in root_share] for _ in upwards]
    for v in upwards:
        node_of_state: dict[int, int] = {}
        above = int(tree.parent[v])
        states_above = np.flatnonzero(reached[above]).tolist() if above >= 0 else []
        if states_above and v not in tree.parent:
            # Below a column without children, a leaf for each state above sums its own states out.
            emission_above = transition[v] @ tree.emission[v]
            for state in states_above:
                below[above][state].append(leaf(int(v), np.log(emission_above[state])))
            continue
        for state in np.flatnonzero(reached[v]).tolist():
            node = leaf(int(v), np.log(tree.emission[v][state]))
            subtrees = below[v][state]
            node_of_state[state] = builder.product([node, *subtrees]) if subtrees else node
        for state in states_above:
            below[above][state].append(_sum(builder, node_of_state, transition[v][state]))
    return _sum(builder, node_of_state, root_share)


def _sum(builder: CircuitBuilder, node_of_state: dict[int, int], probability: Floats) -> int:
    """Add a sum over the hidden states of a column; return its number."""
    states = np.flatnonzero(probability).tolist()
    # A single node has the weight one, and needs no sum.
    if len(states) == 1:
        return node_of_state[states[0]]
    return builder.sum([node_of_state[state] for state in states], np.log(probability[states]))


def _without_negligible(table: Floats) -> Floats:
    """Lines of probabilities without the smallest ones, which would cost an edge each."""
    negligible = 1e-6
    return normalised(np.where(table < negligible, 0.0, table))
