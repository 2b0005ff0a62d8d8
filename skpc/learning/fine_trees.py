"""Hidden Chow-Liu trees over fine bins, and mixtures of them.

They are the trees of :mod:`skpc.learning.hidden_tree` for large tables: rows that agree in a column
and in all columns below it send one message, so that messages of categories cost next to nothing.
Messages are float32 in learning, and float64 in answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from skpc._arrays import Floats, Ints, group_sums, offsets
from skpc._threads import each, slices
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.trees import children_first
from skpc.learning.hidden_tree import HiddenTree, add_hidden_tree, normalised
from skpc.learning.state_laws import SMALLEST, Single, StateLaw, States

#: Pseudo-count of the hidden states given each state of the parent.
_TRANSITION_COUNT = 0.5


class FineCounts(NamedTuple):
    """Expected weights of rows, as :class:`skpc.learning.hidden_tree.Counts` has them.

    Attributes
    ----------
    root : ndarray of shape (k,)
        Weight in each hidden state of the root.
    transition : ndarray of shape (n_columns, k, k)
        Weight in each pair of hidden states, of a column (last axis) and its parent.
    by_state : ndarray of shape (n_states, k)
        Weight in each state and each hidden state of its column.
    """

    root: Single
    transition: Single
    by_state: Single

    def times(self, factor: float) -> Self:
        """All weights times a number."""
        return type(self)(*(counts * np.float32(factor) for counts in self))


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows as a tree reads them.

    Rows that agree in a column and in all columns below it have the same pattern there, and pass up
    as one. Trees of categories and of few bins have far fewer patterns than rows.

    Attributes
    ----------
    place : list of ndarray of shape (n_patterns,), int
        For each column, the state of each pattern, numbered over the states of all columns;
        ``n_states`` where it is missing.
    above : list of ndarray of shape (n_patterns of the parent,), int
        For each column, the number of its pattern within each pattern of its parent; for the root,
        within each row.
    weight : ndarray of shape (n_patterns of the root,), float32
        Weight of the rows of each pattern.
    n_states : int
        Number of states of all columns together.
    """

    place: list[Ints]
    above: list[Ints]
    weight: Single
    n_states: int

    @cached_property
    def of_pattern(self) -> list[Any]:
        """For each column, the matrix that sums patterns of its parent by its own patterns.

        None where each pattern of the parent has its own.
        """
        return [
            indicator(above, len(place)) if len(place) < len(above) else None
            for place, above in zip(self.place, self.above)
        ]

    @cached_property
    def of_state(self) -> Any:
        """The matrix that sums the patterns of all columns by state."""
        return indicator(np.concatenate(self.place), self.n_states)

    @classmethod
    def from_codes(cls, codes: Ints, weight: Floats, ptr: Ints, parent: Ints) -> Self:
        """From states of each column, -1 where missing."""
        n_rows = len(codes)
        row_place = places(codes, ptr)
        place = list(row_place)
        # At first each row is a pattern of its own. Of each column: the pattern of each row, and
        # a row of each pattern.
        pattern = [np.arange(n_rows)] * len(parent)
        example_row = list(pattern)
        order = children_first(parent)
        for v in order:
            # The digits of a key are the state, 0 where missing, and the patterns of children.
            key = codes[:, v] + 1
            n_keys = int(ptr[v + 1] - ptr[v]) + 1
            for child in np.flatnonzero(parent == v).tolist():
                key = key * len(place[child]) + pattern[child]
                n_keys *= len(place[child])
            # Where more keys are possible than there are rows, each row stays its own pattern.
            if n_keys <= n_rows:
                is_used = np.bincount(key, minlength=n_keys) > 0
                # The keys that occur are numbered without gaps.
                pattern[v] = (np.cumsum(is_used) - 1)[key]
                example_row[v] = np.empty(np.count_nonzero(is_used), np.int64)
                # Any row of a pattern will do: the last one that is written stays.
                example_row[v][pattern[v]] = np.arange(n_rows)
                place[v] = row_place[v][example_row[v]]
        root = order[-1]
        above = [pattern[v][example_row[u]] if u >= 0 else pattern[v] for v, u in enumerate(parent)]
        pattern_weight = group_sums(pattern[root], weight, len(place[root]))
        return cls(place, above, pattern_weight.astype(np.float32), int(ptr[-1]))


def indicator(group: Ints, n_groups: int) -> Any:
    """A sparse matrix of shape (n_groups, n_items) whose product with items sums them by group.

    Items with a number of ``n_groups`` or more belong to no group.
    """
    order = np.argsort(group, kind="stable")
    ptr = offsets(np.bincount(group, minlength=n_groups)[:n_groups])
    ones = np.ones(ptr[-1], np.float32)
    return csr_array((ones, order[: ptr[-1]], ptr), shape=(n_groups, len(group)))


def places(codes: Ints, ptr: Ints) -> Ints:
    """Numbers of the states of cells among those of all columns, shape (n_columns, n_rows)."""
    return np.ascontiguousarray(np.where(codes < 0, ptr[-1], codes + ptr[:-1]).T)


class FineTree(NamedTuple):
    """A hidden Chow-Liu tree; the emission tables of all columns are one array.

    Attributes
    ----------
    parent : ndarray of shape (n_columns,), int
        The parent of each column in the tree, -1 for the root.
    root_share : ndarray of shape (k,)
        Probabilities of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Probabilities of the hidden states of a column (last axis) given those of its parent.
    emission : ndarray of shape (n_states, k)
        Probabilities of the states of each column given its hidden states.
    law : StateLaw or None
        How emissions follow from counts; None where nothing is learned any more.
    """

    parent: Ints
    root_share: Any
    transition: Any
    emission: Any
    law: StateLaw | None = None

    def pass_up(self, rows: Batch) -> tuple[list[Any], list[Any], Floats]:
        """Pass messages from the leaves to the root.

        Returns for each column the likelihood of its hidden states given the cells in its subtree,
        up to a factor for each pattern, and its message to the parent, both of shape
        (n_patterns, k); and the log-likelihood (nats) of each row.
        """
        # Evidence is relative to the greatest of each state: products underflow less soon.
        peak = self.emission.max(axis=1, keepdims=True)
        # The row behind those of all states is for missing cells, which tell nothing.
        missing = np.ones((1, self.emission.shape[1]), self.emission.dtype)
        evidence = np.concatenate([self.emission / peak, missing])
        log_peak = np.append(np.log(peak.astype(np.float64)), 0.0)
        below: list[Any] = [evidence.take(place, axis=0) for place in rows.place]
        log_scale = [log_peak[place] for place in rows.place]
        message_to_parent: list[Any] = [None] * len(self.parent)
        *columns, root = children_first(self.parent)
        # Factors of each message since it was last divided by its greatest number: a product of
        # very many would underflow.
        n_factors = np.ones(len(self.parent))
        most_factors = np.log(np.finfo(evidence.dtype).tiny) / (2.0 * np.log(SMALLEST))
        for v in [*columns, root]:
            if n_factors[v] > most_factors:
                greatest = below[v].max(axis=1, keepdims=True)
                below[v] /= greatest
                log_scale[v] += np.log(greatest[:, 0])
                n_factors[v] = 1.0
            if v != root:
                message_to_parent[v] = below[v] @ self.transition[v].T
                below[self.parent[v]] *= message_to_parent[v].take(rows.above[v], axis=0)
                log_scale[self.parent[v]] += log_scale[v][rows.above[v]]
                n_factors[self.parent[v]] += n_factors[v]
        log_likelihood = log_scale[root] + np.log(below[root] @ self.root_share)
        return below, message_to_parent, log_likelihood[rows.above[root]]

    def expected(self, rows: Batch, weight: Single) -> FineCounts:
        """The E-step."""
        posterior, message_to_parent, _ = self.pass_up(rows)
        *columns, root = children_first(self.parent)
        transition = np.zeros_like(self.transition)
        posterior[root] *= self.root_share
        # From here on, posteriors are sums over the rows of a pattern, weights included.
        posterior[root] *= (weight / posterior[root].sum(axis=1))[:, np.newaxis]
        for v in reversed(columns):
            # Posterior of the hidden state of the parent by all cells outside of the subtree of v.
            outside = posterior[self.parent[v]] / message_to_parent[v].take(rows.above[v], axis=0)
            pattern_rows = rows.of_pattern[v]
            if pattern_rows is not None:
                outside = pattern_rows @ outside
            # `posterior[v]` still is the likelihood from below; the sum over patterns is (k, k).
            transition[v] = self.transition[v] * (outside.T @ posterior[v])
            posterior[v] *= outside @ self.transition[v]
        by_state = rows.of_state @ np.concatenate(posterior)
        return FineCounts(posterior[root].sum(axis=0), transition, by_state)

    def m_step(self, counts: FineCounts) -> Self:
        """The most probable parameters, given pseudo-counts."""
        # Pseudo-counts follow the margin of the column: without rows, it ignores its parent.
        margin = counts.transition.sum(axis=1, keepdims=True) + np.float32(1e-9)
        root_share = counts.root + np.float32(_TRANSITION_COUNT / len(counts.root))
        transition = counts.transition + np.float32(_TRANSITION_COUNT) * normalised(margin)
        emission = counts.by_state if self.law is None else self.law.m_step(counts.by_state)
        return self._replace(
            root_share=normalised(root_share), transition=normalised(transition), emission=emission
        )

    def margin(self, states: States) -> Floats:
        """Probabilities of the states of all columns."""
        *columns, root = children_first(self.parent)
        hidden = np.zeros((len(self.parent), len(self.root_share)))
        hidden[root] = self.root_share
        for v in reversed(columns):
            hidden[v] = hidden[self.parent[v]] @ self.transition[v]
        return np.einsum("ij,ij->i", self.emission, hidden[states.column])

    def settled(self) -> Self:
        """The tree at the end of learning: no law, negligible transitions, or impossible states."""
        # Hidden states less probable than this, given that of the parent, become impossible.
        negligible = 2e-6
        root_share = self.root_share * (self.root_share >= negligible)
        transition = self.transition * (self.transition >= negligible)
        emission = np.maximum(self.emission, np.float32(SMALLEST))
        return self._replace(
            root_share=root_share, transition=transition, emission=emission, law=None
        )

    def exact(self, states: States) -> Self:
        """The tree in float64, with probabilities that sum to one."""
        transition = np.zeros(self.transition.shape)
        is_edge = self.parent >= 0
        transition[is_edge] = normalised(self.transition[is_edge].astype(np.float64))
        emission = self.emission.astype(np.float64)
        total = np.add.reduceat(emission, states.ptr[:-1])
        emission /= total[states.column]
        root_share = normalised(self.root_share.astype(np.float64))
        return self._replace(root_share=root_share, transition=transition, emission=emission)


class FineForest(NamedTuple):
    """A mixture of trees over fine bins.

    Attributes
    ----------
    states : States
        The states of all columns.
    weight : ndarray of shape (n_trees,)
        Positive, with sum one.
    trees : list of FineTree
    ptr : ndarray of shape (n_members + 1,), int
        Where the trees of each member of the bag begin.
    """

    states: States
    weight: Floats
    trees: list[FineTree]
    ptr: Ints

    def exact(self) -> Self:
        """The forest in float64."""
        return self._replace(trees=[tree.exact(self.states) for tree in self.trees])

    def log_likelihood(self, codes: Ints) -> Floats:
        """Log-likelihood (nats) of rows of states, missing cells summed out; shape (n_rows,)."""
        # Numbers in the messages of a part of the rows: more of them would leave the cache.
        part_numbers = 2**21
        n_hidden = max(tree.emission.shape[1] for tree in self.trees)
        size = max(1, part_numbers // (codes.shape[1] * n_hidden))
        tasks = [(self, codes[part]) for part in slices(len(codes), size)]
        work = float(len(codes)) * sum(tree.transition.size for tree in self.trees)
        # A table without rows has no parts, and the empty one stands for them.
        return np.concatenate([np.empty(0), *each(_log_likelihood, tasks, work)])

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Ints:
        """Draw rows of states."""
        counts = random_state.multinomial(n_rows, self.weight)
        drawn = [_draw(*pair, self.states.ptr, random_state) for pair in zip(self.trees, counts)]
        # Rows stand tree by tree, an order that a sample must not show.
        return np.concatenate(drawn)[random_state.permutation(n_rows)]

    def circuit(self, axes: Sequence[Any]) -> Circuit:
        """The mixture as a smooth and decomposable circuit; it has to be exact."""
        builder = CircuitBuilder(np.diff(self.states.ptr), axes)
        roots = []
        for tree in self.trees:
            # A hidden tree has for each column a table of shape (k, n_states).
            tables = [table.T for table in np.split(tree.emission, self.states.ptr[1:-1])]
            hidden_tree = HiddenTree(tree.parent, tree.root_share, tree.transition, tables)
            roots.append(add_hidden_tree(builder, hidden_tree, builder.discrete))
        if len(roots) > 1:
            builder.sum(roots, np.log(self.weight))
        return builder.build()


def _log_likelihood(forest: FineForest, codes: Ints) -> Floats:
    """The log-likelihood of a part of the rows."""
    weight = np.ones(len(codes))
    parts = [
        tree.pass_up(Batch.from_codes(codes, weight, forest.states.ptr, tree.parent))[2]
        for tree in forest.trees
    ]
    return np.logaddexp.reduce(np.log(forest.weight)[:, np.newaxis] + parts, axis=0)


def _draw(tree: FineTree, n_rows: int, ptr: Ints, random_state: np.random.RandomState) -> Ints:
    """Draw rows of a tree."""
    *columns, root = children_first(tree.parent)
    hidden = np.zeros((len(tree.parent), n_rows), dtype=np.int64)
    hidden[root] = _drawn(tree.root_share[np.newaxis], hidden[root], random_state)
    for v in reversed(columns):
        hidden[v] = _drawn(tree.transition[v], hidden[tree.parent[v]], random_state)
    tables = np.split(tree.emission, ptr[1:-1])
    codes = [_drawn(table.T, above, random_state) for table, above in zip(tables, hidden)]
    return np.column_stack(codes)


def _drawn(table: Floats, row: Ints, random_state: np.random.RandomState) -> Ints:
    """Draw a column from some rows of a table of probabilities."""
    below = np.cumsum(table, axis=1)
    # The rows stand end to end on a line, each of length one.
    ends = (below / below[:, -1:] + np.arange(len(table))[:, np.newaxis]).ravel()
    place = np.searchsorted(ends, row + random_state.random_sample(len(row)), side="right")
    # Rounding at the ends of a row may lead into its neighbour.
    return np.clip(place - row * table.shape[1], 0, table.shape[1] - 1)
