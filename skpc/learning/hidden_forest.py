"""A bag of mixtures of hidden Chow-Liu trees over fine bins.

A mixture divides the rows into clusters and learns a tree of each: a Chow-Liu tree of the columns
with a hidden variable above each column, as in :mod:`skpc.learning.hidden_tree`. The hidden states
of a column begin as clusters of k-means, and stepwise EM on batches goes on from there. A bag of
mixtures that differ by their seeds is one density with equal weights. This module learns; the trees
themselves are in :mod:`skpc.learning.fine_trees`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from skpc._arrays import Floats, Ints, offsets, owners
from skpc._fitting import Batches, Rows, Stepwise, Stop, learn
from skpc._threads import in_threads
from skpc.counting.clustering import Centroids, Numbers
from skpc.learning.fine_trees import (
    Batch,
    FineCounts,
    FineForest,
    FineTree,
    indicator,
    places,
)
from skpc.learning.hidden_tree import normalised
from skpc.learning.hidden_tree_search import chow_liu_parents, spread_rows
from skpc.learning.state_laws import Single, StateLaw, States


class TreeSettings(NamedTuple):
    """How a mixture of trees is learned: clusters, hidden states of a variable, epochs of EM."""

    n_clusters: int
    n_hidden: int
    n_epochs: int


def learn_hidden_forest(
    states: States, codes: Ints, weight: Floats, settings: TreeSettings, seeds: Sequence[int]
) -> FineForest:
    """Learn a bag of mixtures, one for each seed.

    Parameters
    ----------
    states : States
        The states of all columns.
    codes : ndarray of shape (n_rows, n_columns), int
        The state of each cell, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    settings : TreeSettings
    seeds : sequence of int

    Returns
    -------
    FineForest
    """
    learn = partial(_learn_mixture, states, codes, weight, settings)
    mixtures = in_threads(learn, seeds)
    trees = [tree for mixture in mixtures for _, tree in mixture]
    shares = np.array([share for mixture in mixtures for share, _ in mixture])
    ptr = offsets([len(mixture) for mixture in mixtures])
    return FineForest(states, shares / shares.sum(), trees, ptr)


class TaughtForest(NamedTuple):
    """A forest whose parameters are learned again, from all of very many rows.

    Each row teaches some members of the bag. In each of these it belongs to the cluster that is the
    most probable one by the margins of the columns.

    Attributes
    ----------
    forest : FineForest
    domain : Domain
        Reads the states of encoded rows.
    n_taught : int
        Number of members that a row teaches.
    log_margin : list of ndarray of shape (n_states + 1, n_clusters)
        Log probabilities of the states in the clusters of each member; the last row is zero, for
        missing cells.
    """

    forest: FineForest
    domain: Any
    n_taught: int
    log_margin: list[Single]

    @classmethod
    def from_forest(cls, forest: FineForest, domain: Any, n_rows: float) -> Self:
        """Prepare a forest to be learned again from ``n_rows`` rows."""
        n_members = len(forest.ptr) - 1
        # Rows that teach each member at least, if the table has as many.
        rows_of_member = 125_000.0
        n_taught = int(np.clip(np.ceil(n_members * rows_of_member / n_rows), 1, n_members))
        margin = np.column_stack([tree.margin(forest.states) for tree in forest.trees])
        log_margin = np.log(np.vstack([margin, np.ones((1, len(forest.trees)))]))
        by_member = np.split(log_margin.astype(np.float32), forest.ptr[1:-1], axis=1)
        return cls(forest, domain, n_taught, [np.ascontiguousarray(part) for part in by_member])

    def expected(self, rows: Floats, weight: Floats) -> tuple[Any, ...]:
        """The E-step for encoded rows."""
        states, shares, trees, ptr = self.forest
        codes = self.domain.codes(rows).astype(np.int64)
        row_number = np.arange(len(rows))
        counts = []
        for member, log_margin in enumerate(self.log_margin):
            # Rows go round the members, each of which is taught by the same share of them.
            is_taught = (row_number - member) % len(self.log_margin) < self.n_taught
            chosen = codes[is_taught]
            log_share = np.log(shares[ptr[member] : ptr[member + 1]])
            # Log probabilities of the cells by the margins add up, shape (n_rows, n_clusters).
            log_joint = sum(
                (log_margin.take(place, axis=0) for place in places(chosen, states.ptr)), log_share
            )
            label = log_joint.argmax(axis=1)
            for cluster, tree in enumerate(trees[ptr[member] : ptr[member + 1]]):
                is_member = label == cluster
                batch = chosen[is_member], weight[is_taught][is_member], states.ptr, tree.parent
                patterns = Batch.from_codes(*batch)
                counts.append(tree.expected(patterns, patterns.weight))
        return tuple(counts)

    def m_step(self, counts: tuple[Any, ...]) -> Self:
        """The forest with parameters from statistics of all rows."""
        states = self.forest.states
        trees = []
        for tree, tree_counts in zip(self.forest.trees, counts):
            margin = states.proportions(tree_counts.by_state.sum(axis=1) + states.share)
            learned = tree._replace(law=StateLaw.fit(states, margin)).m_step(tree_counts)
            trees.append(learned.settled())
        # A cluster without rows keeps some weight.
        weight = np.array([tree_counts.root.sum() + 1.0 for tree_counts in counts])
        forest = self.forest._replace(weight=weight / weight.sum(), trees=trees)
        return self._replace(forest=forest)


def _learn_mixture(
    states: States, codes: Ints, weight: Floats, settings: TreeSettings, seed: int
) -> list[tuple[float, FineTree]]:
    """The share of each cluster of rows, and its tree."""
    random_state = np.random.RandomState(seed)
    label = _clusters(states, codes, weight, settings.n_clusters, random_state)
    mixture = []
    for cluster in np.unique(label).tolist():
        chosen = label == cluster
        rows = codes[chosen], weight[chosen]
        mixture.append((rows[1].sum(), _learn_tree(states, *rows, settings, random_state)))
    return mixture


def _clusters(
    states: States,
    codes: Ints,
    weight: Floats,
    n_clusters: int,
    random_state: np.random.RandomState,
) -> Ints:
    """The cluster of each row by a mixture of products of tables, which starts from k-means."""
    # M-steps of the mixture.
    n_steps = 10
    points = np.hstack(_points(states, codes, states.share))
    label = _labels(points, weight, n_clusters, random_state)
    if n_clusters == 1:
        return label
    place = places(codes, states.ptr)
    cells = Cells(place, indicator(place.ravel(), int(states.ptr[-1])))
    law = StateLaw.fit(states, states.share)
    unit = np.eye(n_clusters, dtype=np.float32)
    # These tables only hold a place: the M-step replaces them.
    start = Products(law, unit, unit).m_step(cells.counted(unit[label], weight))
    mixture = learn([start], Rows(cells, weight), Stop(n_steps - 1)).model
    return mixture.posterior(cells).argmax(axis=1)


class Cells(NamedTuple):
    """Rows as mixtures of products read them.

    Attributes
    ----------
    place : ndarray of shape (n_columns, n_rows), int
        What :func:`skpc.learning.fine_trees.places` returns.
    by_state : sparse array of shape (n_states, n_columns * n_rows)
        Sums cells by state.
    """

    place: Ints
    by_state: Any

    def counted(self, posterior: Single, weight: Floats) -> tuple[Any, ...]:
        """Expected weights of clusters, and of states in each of them."""
        counts = posterior * weight.astype(np.float32)[:, np.newaxis]
        # Cells stand column by column, each with the posterior of its row.
        return counts.sum(axis=0), self.by_state @ np.tile(counts, (len(self.place), 1))


class Products(NamedTuple):
    """A mixture of products of tables; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    law : StateLaw
        How tables follow from counts.
    log_share : ndarray of shape (n_clusters,)
        Log weights of the clusters, up to a constant.
    log_table : ndarray of shape (n_states + 1, n_clusters)
        Log probabilities of the states; the last row is zero, for missing cells.
    """

    law: StateLaw
    log_share: Single
    log_table: Single

    def posterior(self, cells: Cells) -> Single:
        """The probability of each cluster for each row."""
        log_joint = self.log_share + sum(self.log_table.take(v, axis=0) for v in cells.place)
        posterior = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        return posterior / posterior.sum(axis=1, keepdims=True)

    def expected(self, cells: Cells, weight: Floats) -> tuple[Any, ...]:
        """The E-step."""
        return cells.counted(self.posterior(cells), weight)

    def m_step(self, statistics: tuple[Any, ...]) -> Self:
        """The tables of clusters; missing cells say nothing."""
        counts, by_state = statistics
        table = np.log(self.law.m_step(by_state))
        # The row behind those of all states is for missing cells.
        table = np.concatenate([table, np.zeros((1, len(counts)), np.float32)])
        # A row more keeps each cluster alive; posteriors do not need shares that sum to one.
        return self._replace(log_share=np.log(counts + np.float32(1.0)), log_table=table)


def _points(states: States, codes: Ints, share: Floats) -> list[Single]:
    """Rows as points: normal scores and scaled indicators of each column, zero where missing."""
    columns = []
    score = ndtri(states.middles(share))
    for v, (begin, end) in enumerate(zip(states.ptr, states.ptr[1:])):
        state_coordinates = np.eye(end - begin) - share[begin:end]
        if states.is_increasing[v]:
            state_coordinates = score[begin:end, np.newaxis]
        # Columns have the same variance, however many coordinates they have.
        variance = float(share[begin:end] @ (state_coordinates**2).sum(axis=1))
        scaled = state_coordinates / np.sqrt(variance or 1.0)
        # A missing cell, code -1, reads the last line.
        coordinates_of_codes = np.vstack([scaled, np.zeros((1, scaled.shape[1]))]).astype(
            np.float32
        )
        columns.append(coordinates_of_codes[codes[:, v]])
    return columns


def _labels(
    points: Single, weight: Floats, n_clusters: int, random_state: np.random.RandomState
) -> Ints:
    """Labels of rows after some iterations of k-means from rows drawn at random."""
    # Iterations of k-means: labels only start EM.
    n_rounds = 8
    numbers = Numbers(points, None)
    n_clusters = min(n_clusters, len(points))
    start = Centroids.drawn(numbers, weight, n_clusters, random_state)
    n_iter = n_rounds - 1 if n_clusters > 1 else 0
    return learn([start], Rows(numbers, weight), Stop(n_iter)).model.nearest(numbers)


def _learn_tree(
    states: States,
    codes: Ints,
    weight: Floats,
    settings: TreeSettings,
    random_state: np.random.RandomState,
) -> FineTree:
    """The tree of a cluster of rows."""
    # Batches of an epoch at most, and rows of a batch at least.
    most_batches = 8
    batch_rows = 32
    # The last step of stepwise EM towards the counts of a batch.
    last_step = 0.15
    share = states.shares_of(codes, weight)
    tree = _start(states, codes, weight, share, settings.n_hidden, random_state)
    n_batches = max(1, min(most_batches, len(codes) // batch_rows))
    order, pieces = spread_rows(weight, n_batches, random_state)
    batches = [
        Batch.from_codes(codes[order[part]], pieces[part], states.ptr, tree.parent)
        for part in np.array_split(np.arange(len(order)), n_batches)
    ]
    # A single batch has all rows, and its counts replace those of before.
    start = Stepwise(tree, float(weight.sum()), last_step if n_batches > 1 else 1.0)

    def shuffled(_: int) -> Iterator[Rows]:
        """The batches of an epoch."""
        for number in random_state.permutation(n_batches).tolist():
            yield Rows(batches[number], batches[number].weight)

    data = Batches(shuffled, start.n_rows)
    return learn([start], data, Stop(settings.n_epochs * n_batches)).model.model.settled()


def _start(
    states: States,
    codes: Ints,
    weight: Floats,
    share: Floats,
    n_hidden: int,
    random_state: np.random.RandomState,
) -> FineTree:
    """A tree whose hidden states are clusters, found for each column by itself."""
    # Rows of a cluster for each hidden state, at least.
    rows_of_state = 6.0
    # Factors of the coordinates in k-means: of the column itself, of its neighbours in the tree,
    # and of other columns.
    own_factor = 2.0
    neighbour_factor = 1.0
    far_factor = 0.3
    # The part of the margins in the tables that EM starts from.
    margin_part = 0.1
    parent = _chow_liu_tree(states, codes, weight, share)
    columns = _points(states, codes, share)
    points = np.hstack(columns)
    column_of = owners([part.shape[1] for part in columns])
    n_hidden = min(n_hidden, max(1, int(weight.sum() / rows_of_state)), len(codes))
    labels = []
    for v in range(len(parent)):
        # What a column and its neighbours have in common matters most.
        is_neighbour = (parent == v) | (np.arange(len(parent)) == parent[v])
        factor = np.where(is_neighbour, neighbour_factor, far_factor)
        factor[v] = own_factor
        scaled = points * factor.astype(np.float32)[column_of]
        labels.append(_labels(scaled, weight, n_hidden, random_state))
    # EM begins as if these labels were known.
    unit = np.eye(n_hidden, dtype=np.float32)
    hidden = unit[np.array(labels)]
    posterior = hidden * weight.astype(np.float32)[:, np.newaxis]
    transition = np.zeros((len(parent), n_hidden, n_hidden), np.float32)
    for v in np.flatnonzero(parent >= 0).tolist():
        transition[v] = hidden[parent[v]].T @ posterior[v]
    root_counts = posterior[int(np.argmin(parent))].sum(axis=0)
    state_indicator = indicator(places(codes, states.ptr).ravel(), int(states.ptr[-1]))
    by_state = state_indicator @ posterior.reshape(-1, n_hidden)
    law = StateLaw.fit(states, share)
    tree = FineTree(parent, root_counts, transition, by_state, law)
    tree = tree.m_step(FineCounts(root_counts, transition, by_state))
    # No entry of a table may be zero: EM would never change it.
    part = np.float32(margin_part)
    parentless = normalised(transition.sum(axis=1, keepdims=True) + np.float32(1e-9))
    margin = share.astype(np.float32)[:, np.newaxis]
    return tree._replace(
        transition=(1 - part) * tree.transition + part * parentless,
        emission=(1 - part) * tree.emission + part * margin,
    )


def _chow_liu_tree(states: States, codes: Ints, weight: Floats, share: Floats) -> Ints:
    """The parent of each column in the Chow-Liu tree of groups of states, -1 for the root."""
    # Groups of the states of a column at most: pairs of fine bins would have too few rows each.
    most_groups = 16
    grouped = np.empty_like(codes)
    n_groups = []
    middles = states.middles(share)
    for v, (begin, end) in enumerate(zip(states.ptr, states.ptr[1:])):
        group = np.arange(end - begin)
        if end - begin > most_groups:
            place = middles[begin:end] * most_groups
            # Of many categories, the rarest are one group.
            rank = np.argsort(np.argsort(-share[begin:end], kind="stable"))
            group = np.minimum(place if states.is_increasing[v] else rank, most_groups - 1)
            # Groups that no state belongs to leave no gaps in the numbers.
            group = np.unique(group.astype(np.int64), return_inverse=True)[1]
        n_groups.append(int(group.max()) + 1)
        # A missing cell, code -1, reads the last number, and stays missing.
        grouped[:, v] = np.append(group, -1)[codes[:, v]]
    return chow_liu_parents(grouped.astype(np.int16), weight, np.array(n_groups))
