"""A bag of mixtures of hidden Chow-Liu trees over fine bins.

Clusters divide the rows. In each of them a Chow-Liu tree of the columns has a hidden variable above
each column, as in :mod:`skpc.learning.hidden_tree`. Hidden states begin as clusters of k-means, one
clustering for each column, and EM goes on in steps on batches. A bag of such mixtures, that differ
by their seeds, is one density with equal weights.

Messages are float32 in learning, and float64 in answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from skpc._arrays import Floats, Ints, added, offsets
from skpc._fitting import Parts
from skpc._threads import each, in_threads, slices
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.trees import children_first
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.hidden_tree import HiddenTree, add_hidden_tree
from skpc.learning.hidden_tree_search import spread_rows
from skpc.learning.state_laws import SMALLEST, Single, StateLaw, States

#: Numbers of the messages of rows that are held at a time.
_NUMBERS = 2**23
#: Pseudo-count of hidden states given the state above.
_TRANSITION = 0.5
#: Less probable hidden states, given the one above, are none.
_NEGLIGIBLE = 2e-6
#: Weights of a column itself, of its neighbours in the tree, and of the others in k-means, and its
#: iterations; the share of the margins in the tables that EM starts from.
_OWN, _NEIGHBOUR, _OTHER, _ROUNDS, _MARGIN = 2.0, 1.0, 0.3, 8, 0.1
#: Groups of states by which trees are found, and iterations of the mixture that finds clusters.
_TREE_GROUPS, _MIXTURE_ROUNDS = 16, 10
#: Batches of an epoch, rows of each at least, and the last step towards the counts of a batch.
_BATCHES, _BATCH_ROWS, _STEP_POWER, _LAST_STEP = 8, 32, 0.6, 0.15
#: Rows of a cluster for each hidden state, at least.
_ROWS_OF_STATE = 6.0
#: Rows that teach a member of a forest, at least, where there are as many.
_ROWS_OF_MEMBER = 125_000.0


class Statistics(NamedTuple):
    """Expected counts of hidden states of the root, of edges, and of states and hidden states."""

    first: Single
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
        For each column, the number of the state of each pattern among the states of all columns,
        behind them where missing.
    above : list of ndarray of int
        For each column, the number of its pattern in each pattern of its parent; of the root, in
        each row.
    weight : ndarray of shape (n_patterns of the root,), float32
    n_states : int
        Of all columns.
    """

    place: list[Ints]
    above: list[Ints]
    weight: Single
    n_states: int

    @cached_property
    def of_pattern(self) -> list[Any]:
        """For each column, what adds up patterns of its parent by its own; None if each has one."""
        return [
            indicator(above, len(place)) if len(place) < len(above) else None
            for place, above in zip(self.place, self.above)
        ]

    @cached_property
    def of_state(self) -> Any:
        """What adds up the patterns of all columns by state."""
        return indicator(np.concatenate(self.place), self.n_states)

    @classmethod
    def from_codes(cls, codes: Ints, weight: Floats, ptr: Ints, parent: Ints) -> Self:
        """From states of each column, -1 where missing."""
        n_rows = len(codes)
        row_place = places(codes, ptr)
        place = list(row_place)
        # Row by row, where no pattern is shared: numbers of the patterns, and a row of each.
        pattern = [np.arange(n_rows)] * len(parent)
        a_row = list(pattern)
        order = children_first(parent)
        for v in order:
            key = codes[:, v] + 1
            n_keys = int(ptr[v + 1] - ptr[v]) + 1
            for child in np.flatnonzero(parent == v).tolist():
                key = key * len(place[child]) + pattern[child]
                n_keys *= len(place[child])
            if n_keys <= n_rows:
                is_used = np.bincount(key, minlength=n_keys) > 0
                pattern[v] = (np.cumsum(is_used) - 1)[key]
                a_row[v] = np.empty(np.count_nonzero(is_used), np.int64)
                a_row[v][pattern[v]] = np.arange(n_rows)
                place[v] = row_place[v][a_row[v]]
        root = order[-1]
        above = [pattern[v][a_row[u]] if u >= 0 else pattern[v] for v, u in enumerate(parent)]
        pattern_weight = np.bincount(pattern[root], weight, len(place[root]))
        return cls(place, above, pattern_weight.astype(np.float32), int(ptr[-1]))


def indicator(group: Ints, n_groups: int) -> Any:
    """A sparse array of shape (n_groups, n) that adds up what belongs to each group.

    Numbers of groups beyond the last one are left out.
    """
    order = np.argsort(group, kind="stable")
    ptr = offsets(np.bincount(group, minlength=n_groups)[:n_groups])
    ones = np.ones(ptr[-1], np.float32)
    return csr_array((ones, order[: ptr[-1]], ptr), shape=(n_groups, len(group)))


def places(codes: Ints, ptr: Ints) -> Ints:
    """Numbers of the states of cells among those of all columns, shape (n_columns, n_rows)."""
    return np.ascontiguousarray(np.where(codes < 0, ptr[-1], codes + ptr[:-1]).T)


class FineTree(NamedTuple):
    """A hidden Chow-Liu tree whose tables of all columns stand below each other.

    Attributes
    ----------
    parent : ndarray of shape (n_columns,), int
        The parent of each column in the tree, -1 for the root.
    first : ndarray of shape (k,)
        Probabilities of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Those of the hidden states of a column (last axis) given those of its parent.
    emission : ndarray of shape (n_states, k)
        Those of the states of each column given its hidden states.
    law : StateLaw or None
        How emissions follow from counts; None where nothing is learned any more.
    """

    parent: Ints
    first: Any
    transition: Any
    emission: Any
    law: StateLaw | None = None

    def pass_up(self, rows: Batch) -> tuple[list[Any], list[Any], Floats]:
        """Pass rows from the leaves to the root.

        Returns what cell and subtrees say of each hidden variable, up to a factor of each pattern,
        shape (n_patterns, k); what each variable says of its parent; and log-likelihoods of rows.
        """
        peak = self.emission.max(axis=1, keepdims=True)
        missing = np.ones((1, self.emission.shape[1]), self.emission.dtype)
        evidence = np.concatenate([self.emission / peak, missing])
        log_peak = np.append(np.log(peak.astype(np.float64)), 0.0)
        below: list[Any] = [evidence.take(place, axis=0) for place in rows.place]
        log_scale = [log_peak[place] for place in rows.place]
        to_parent: list[Any] = [None] * len(self.parent)
        *columns, root = children_first(self.parent)
        # Columns since messages were last divided by their greatest number: products of very many
        # would underflow.
        n_factors = np.ones(len(self.parent))
        most_factors = np.log(np.finfo(evidence.dtype).tiny) / (2.0 * np.log(SMALLEST))
        for v in [*columns, root]:
            if n_factors[v] > most_factors:
                greatest = below[v].max(axis=1, keepdims=True)
                below[v] /= greatest
                log_scale[v] += np.log(greatest[:, 0])
                n_factors[v] = 1.0
            if v != root:
                to_parent[v] = below[v] @ self.transition[v].T
                below[self.parent[v]] *= to_parent[v].take(rows.above[v], axis=0)
                log_scale[self.parent[v]] += log_scale[v][rows.above[v]]
                n_factors[self.parent[v]] += n_factors[v]
        log_likelihood = log_scale[root] + np.log(below[root] @ self.first)
        return below, to_parent, log_likelihood[rows.above[root]]

    def expected(self, rows: Batch) -> Statistics:
        """The E-step."""
        posterior, to_parent, _ = self.pass_up(rows)
        *columns, root = children_first(self.parent)
        transition = np.zeros_like(self.transition)
        posterior[root] *= self.first
        posterior[root] *= (rows.weight / posterior[root].sum(axis=1))[:, np.newaxis]
        for v in reversed(columns):
            # Posterior of the hidden state of the parent, by what is not below this column alone.
            outside = posterior[self.parent[v]] / to_parent[v].take(rows.above[v], axis=0)
            of_pattern = rows.of_pattern[v]
            if of_pattern is not None:
                outside = of_pattern @ outside
            transition[v] = self.transition[v] * (outside.T @ posterior[v])
            posterior[v] *= outside @ self.transition[v]
        by_state = rows.of_state @ np.concatenate(posterior)
        return Statistics(posterior[root].sum(axis=0), transition, by_state)

    def m_step(self, counts: Statistics) -> Self:
        """The most probable parameters, given pseudo-counts."""
        alone = counts.transition.sum(axis=1, keepdims=True) + np.float32(1e-9)
        first = counts.first + np.float32(_TRANSITION / len(counts.first))
        transition = counts.transition + np.float32(_TRANSITION) * _normalised(alone)
        emission = counts.by_state if self.law is None else self.law.m_step(counts.by_state)
        return self._replace(
            first=_normalised(first), transition=_normalised(transition), emission=emission
        )

    def margin(self, states: States) -> Floats:
        """Probabilities of the states of all columns."""
        *columns, root = children_first(self.parent)
        hidden = np.zeros((len(self.parent), len(self.first)))
        hidden[root] = self.first
        for v in reversed(columns):
            hidden[v] = hidden[self.parent[v]] @ self.transition[v]
        return np.einsum("ij,ij->i", self.emission, hidden[states.column])

    def settled(self) -> Self:
        """What is kept: no law, no negligible transition, and no state of probability zero."""
        first, transition = (
            np.where(table < _NEGLIGIBLE, np.float32(0.0), table)
            for table in (self.first, self.transition)
        )
        emission = np.maximum(self.emission, np.float32(SMALLEST))
        return self._replace(first=first, transition=transition, emission=emission, law=None)

    def exact(self, states: States) -> Self:
        """The same in float64, with probabilities that sum to one."""
        transition = np.zeros(self.transition.shape)
        is_edge = self.parent >= 0
        transition[is_edge] = _normalised(self.transition[is_edge].astype(np.float64))
        emission = self.emission.astype(np.float64)
        total = np.add.reduceat(emission, states.ptr[:-1])
        emission /= total[states.column]
        first = _normalised(self.first.astype(np.float64))
        return self._replace(first=first, transition=transition, emission=emission)


def _normalised(table: Any) -> Any:
    return table / table.sum(axis=-1, keepdims=True)


class FineForest(NamedTuple):
    """A mixture of trees over fine bins.

    Attributes
    ----------
    states : States
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
        """The same in float64."""
        return self._replace(trees=[tree.exact(self.states) for tree in self.trees])

    def log_likelihood(self, codes: Ints) -> Floats:
        """Log-likelihood (nats) of rows of states, missing cells summed out; shape (n_rows,)."""
        n_hidden = max(tree.emission.shape[1] for tree in self.trees)
        size = max(1, _NUMBERS // (codes.shape[1] * n_hidden))
        tasks = [(self, codes[part]) for part in slices(len(codes), size)]
        work = float(len(codes)) * sum(tree.transition.size for tree in self.trees)
        return np.concatenate([np.empty(0), *each(_log_likelihood, tasks, work)])

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Ints:
        """Draw rows of states."""
        counts = random_state.multinomial(n_rows, self.weight)
        drawn = [_draw(*pair, self.states.ptr, random_state) for pair in zip(self.trees, counts)]
        return np.concatenate(drawn)[random_state.permutation(n_rows)]

    def circuit(self, axes: Sequence[Any]) -> Circuit:
        """The mixture as a smooth and decomposable circuit; it has to be exact."""
        builder = CircuitBuilder(np.diff(self.states.ptr), axes)
        roots = []
        for tree in self.trees:
            tables = [table.T for table in np.split(tree.emission, self.states.ptr[1:-1])]
            plain = HiddenTree(tree.parent, tree.first, tree.transition, tables)
            roots.append(add_hidden_tree(builder, plain, builder.discrete))
        if len(roots) > 1:
            builder.sum(roots, np.log(self.weight))
        return builder.build()


def _log_likelihood(forest: FineForest, codes: Ints) -> Floats:
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
    hidden[root] = _drawn(tree.first[np.newaxis], hidden[root], random_state)
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
    return np.clip(place - row * table.shape[1], 0, table.shape[1] - 1)


class TreeSettings(NamedTuple):
    """How a mixture of trees is learned: clusters, hidden states of a variable, epochs of EM."""

    n_clusters: int
    n_hidden: int
    n_epochs: int


def learn_forest(
    states: States, codes: Ints, weight: Floats, settings: TreeSettings, seeds: Sequence[int]
) -> FineForest:
    """Learn a bag of mixtures, one for each seed.

    Parameters
    ----------
    states : States
        The states of all columns.
    codes : ndarray of shape (n_rows, n_columns), int
        Those of each cell, -1 where missing.
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
    """A forest whose parameters are learned from very many rows.

    Each row teaches some of the members. In each of these it belongs to the cluster that is most
    probable by the margins of the columns.

    Attributes
    ----------
    forest : FineForest
    domain : Domain
        Tells the states of encoded rows.
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
        """A forest that is learned again from so many rows."""
        n_members = len(forest.ptr) - 1
        n_taught = int(np.clip(np.ceil(n_members * _ROWS_OF_MEMBER / n_rows), 1, n_members))
        margin = np.column_stack([tree.margin(forest.states) for tree in forest.trees])
        log_margin = np.log(np.vstack([margin, np.ones((1, len(forest.trees)))]))
        by_member = np.split(log_margin.astype(np.float32), forest.ptr[1:-1], axis=1)
        return cls(forest, domain, n_taught, [np.ascontiguousarray(part) for part in by_member])

    def expected(self, rows: Floats, weight: Floats) -> Parts:
        """The E-step for encoded rows."""
        states, shares, trees, ptr = self.forest
        codes = self.domain.codes(rows).astype(np.int64)
        number = np.arange(len(rows))
        counts = []
        for member, log_margin in enumerate(self.log_margin):
            of_member = (number - member) % len(self.log_margin) < self.n_taught
            chosen = codes[of_member]
            log_share = np.log(shares[ptr[member] : ptr[member + 1]])
            cluster = sum(
                (log_margin.take(place, axis=0) for place in places(chosen, states.ptr)), log_share
            )
            label = cluster.argmax(axis=1)
            for number_of_tree, tree in enumerate(trees[ptr[member] : ptr[member + 1]]):
                of_tree = label == number_of_tree
                batch = chosen[of_tree], weight[of_member][of_tree], states.ptr, tree.parent
                counts.append(tree.expected(Batch.from_codes(*batch)))
        return Parts(tuple(counts))

    def m_step(self, counts: Parts) -> Self:
        """The forest with parameters from statistics of all rows."""
        states = self.forest.states
        trees = []
        for tree, of_tree in zip(self.forest.trees, counts.parts):
            margin = states.proportions(of_tree.by_state.sum(axis=1) + states.share)
            learned = tree._replace(law=StateLaw.fit(states, margin)).m_step(of_tree)
            trees.append(learned.settled())
        # A cluster without rows keeps some weight.
        weight = np.array([of_tree.first.sum() + 1.0 for of_tree in counts.parts])
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
    """Labels of rows by a mixture of products, which starts from k-means."""
    points = np.hstack(_points(states, codes, states.share))
    label = _k_means(points, weight, n_clusters, random_state)
    if n_clusters == 1:
        return label
    place = places(codes, states.ptr)
    of_state = indicator(place.ravel(), int(states.ptr[-1]))
    row_weight = weight.astype(np.float32)[:, np.newaxis]
    law = StateLaw.fit(states, states.share)
    posterior = np.eye(n_clusters, dtype=np.float32)[label]
    for _ in range(_MIXTURE_ROUNDS):
        counts = posterior * row_weight
        table = np.log(law.m_step(of_state @ np.tile(counts, (len(place), 1))))
        table = np.concatenate([table, np.zeros((1, n_clusters), np.float32)])
        log_joint = np.log(counts.sum(axis=0) + np.float32(1.0))
        log_joint = log_joint + sum(table.take(column, axis=0) for column in place)
        posterior = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior.argmax(axis=1)


def _points(states: States, codes: Ints, share: Floats) -> list[Single]:
    """Rows as points: normal scores and scaled indicators of each column, zero where missing."""
    columns = []
    score = ndtri(states.middles(share))
    for v, (begin, end) in enumerate(zip(states.ptr, states.ptr[1:])):
        of_states = np.eye(end - begin) - share[begin:end]
        if states.is_line[v]:
            of_states = score[begin:end, np.newaxis]
        variance = float(share[begin:end] @ (of_states**2).sum(axis=1))
        scaled = of_states / np.sqrt(variance or 1.0)
        with_missing = np.vstack([scaled, np.zeros((1, scaled.shape[1]))]).astype(np.float32)
        columns.append(with_missing[codes[:, v]])
    return columns


def _k_means(
    points: Single, weight: Floats, n_clusters: int, random_state: np.random.RandomState
) -> Ints:
    """Labels of rows after some iterations of k-means from rows drawn at random."""
    n_rows = len(points)
    n_clusters = min(n_clusters, n_rows)
    start = random_state.choice(n_rows, n_clusters, replace=False, p=weight / weight.sum())
    centroid = points[start]
    label = np.zeros(n_rows, dtype=np.int64)
    for _ in range(_ROUNDS if n_clusters > 1 else 0):
        closeness = points @ centroid.T
        closeness -= np.einsum("ij,ij->i", centroid, centroid) / np.float32(2.0)
        label = closeness.argmax(axis=1)
        member = csr_array(
            (weight.astype(np.float32), label, np.arange(n_rows + 1)), shape=(n_rows, n_clusters)
        )
        total = np.asarray(member.sum(axis=0))[:, np.newaxis]
        # A cluster that loses all its rows keeps its centroid.
        centroid = np.where(total > 0.0, member.T @ points / np.maximum(total, 1e-30), centroid)
    return label


def _learn_tree(
    states: States,
    codes: Ints,
    weight: Floats,
    settings: TreeSettings,
    random_state: np.random.RandomState,
) -> FineTree:
    """The tree of a cluster of rows."""
    share = states.shares_of(codes, weight)
    tree = _start(states, codes, weight, share, settings.n_hidden, random_state)
    n_batches = max(1, min(_BATCHES, len(codes) // _BATCH_ROWS))
    order, pieces = spread_rows(weight, n_batches, random_state)
    batches = [
        Batch.from_codes(codes[order[part]], pieces[part], states.ptr, tree.parent)
        for part in np.array_split(np.arange(len(order)), n_batches)
    ]
    return _stepwise_em(tree, batches, settings.n_epochs, random_state).settled()


def _stepwise_em(
    model: Any, batches: Sequence[Batch], n_epochs: int, random_state: np.random.RandomState
) -> Any:
    """EM in steps: each moves the expected counts towards those of its batch.

    A model has ``expected(rows) -> statistics``, which add up, and ``m_step(statistics) -> model``.
    """
    total = sum(float(batch.weight.sum()) for batch in batches)
    counts = None
    n_steps = 0
    for _ in range(n_epochs):
        for number in random_state.permutation(len(batches)).tolist():
            batch = batches[number]
            step = max((n_steps + 1.0) ** -_STEP_POWER, _LAST_STEP) if len(batches) > 1 else 1.0
            new = model.expected(batch).times(step * total / float(batch.weight.sum()))
            counts = new if counts is None else added(counts.times(1.0 - step), new)
            model = model.m_step(counts)
            n_steps += 1
    return model


def _start(
    states: States,
    codes: Ints,
    weight: Floats,
    share: Floats,
    n_hidden: int,
    random_state: np.random.RandomState,
) -> FineTree:
    """A tree whose hidden states are clusters, found for each column by itself."""
    parent = _chow_liu_tree(states, codes, weight, share)
    columns = _points(states, codes, share)
    points = np.hstack(columns)
    column_of = np.repeat(np.arange(len(parent)), [part.shape[1] for part in columns])
    n_hidden = min(n_hidden, max(1, int(weight.sum() / _ROWS_OF_STATE)), len(codes))
    labels = []
    for v in range(len(parent)):
        # What a column and its neighbours have in common matters most.
        is_neighbour = (parent == v) | (np.arange(len(parent)) == parent[v])
        factor = np.where(is_neighbour, _NEIGHBOUR, _OTHER)
        factor[v] = _OWN
        scaled = points * factor.astype(np.float32)[column_of]
        labels.append(_k_means(scaled, weight, n_hidden, random_state))
    # EM begins as if these labels were known.
    unit = np.eye(n_hidden, dtype=np.float32)
    hidden = unit[np.array(labels)]
    posterior = hidden * weight.astype(np.float32)[:, np.newaxis]
    transition = np.zeros((len(parent), n_hidden, n_hidden), np.float32)
    for v in np.flatnonzero(parent >= 0).tolist():
        transition[v] = hidden[parent[v]].T @ posterior[v]
    first = posterior[int(np.argmin(parent))].sum(axis=0)
    of_state = indicator(places(codes, states.ptr).ravel(), int(states.ptr[-1]))
    by_state = of_state @ posterior.reshape(-1, n_hidden)
    law = StateLaw.fit(states, share)
    tree = FineTree(parent, first, transition, by_state, law)
    tree = tree.m_step(Statistics(first, transition, by_state))
    # No entry of a table may be zero: EM would never change it.
    part = np.float32(_MARGIN)
    alone = _normalised(transition.sum(axis=1, keepdims=True) + np.float32(1e-9))
    margin = share.astype(np.float32)[:, np.newaxis]
    return tree._replace(
        transition=(1 - part) * tree.transition + part * alone,
        emission=(1 - part) * tree.emission + part * margin,
    )


def _chow_liu_tree(states: States, codes: Ints, weight: Floats, share: Floats) -> Ints:
    """The parent of each column in the Chow-Liu tree of groups of states, -1 for the root."""
    grouped = np.empty_like(codes)
    n_groups = []
    middle = states.middles(share)
    for v, (begin, end) in enumerate(zip(states.ptr, states.ptr[1:])):
        group = np.arange(end - begin)
        if end - begin > _TREE_GROUPS:
            place = middle[begin:end] * _TREE_GROUPS
            # Of many categories, the rarest are one group.
            rank = np.argsort(np.argsort(-share[begin:end], kind="stable"))
            group = np.minimum(place if states.is_line[v] else rank, _TREE_GROUPS - 1)
            group = np.unique(group.astype(np.int64), return_inverse=True)[1]
        n_groups.append(int(group.max()) + 1)
        grouped[:, v] = np.append(group, -1)[codes[:, v]]
    n_states = np.array(n_groups)
    # Columns that do not vary hang at the first that does.
    tree = learn_cutset_network(
        grouped.astype(np.int16), weight, n_states, TREE._replace(ess=1.0)
    ).trees[0]
    parent = np.full(len(n_states), tree.variables[0])
    parent[tree.variables] = np.where(tree.parent < 0, -1, tree.variables[tree.parent])
    return parent
