"""Learning a Chow-Liu tree of hidden variables: its start, EM on batches, the number of states.

The likelihood of held-out rows chooses the number of hidden states, the start, and when EM ends.
The trees are in :mod:`skpc.learning.hidden_tree`.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, copies, offsets, within
from skpc._fitting import Batches, Rows, Stepwise, Stop, best_of, learn
from skpc.counting.clustering import cluster_points
from skpc.learning.categorical import indicators, log_tables
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.hidden_tree import Codes, Counts, HiddenTree, TaughtTree

#: Numbers of hidden states to choose from.
_N_HIDDEN = (2, 4, 8, 16, 32, 64)
#: Rows of the first batches.
_BATCH_ROWS = 512
MAX_EPOCHS = 100


class TreeChoice(NamedTuple):
    """How a tree is learned, as held-out rows have chosen.

    Attributes
    ----------
    n_hidden : int
        Number of states of each hidden variable.
    by_value : bool
        Whether each hidden state at the start stands for low or for high values of its column in a
        cluster of rows, rather than for the whole cluster.
    batches : tuple of int
        Rows in the batches of each epoch.
    """

    n_hidden: int
    by_value: bool
    batches: tuple[int, ...]


class TreeRows(NamedTuple):
    """Rows to learn from, and what trees of all sizes have in common.

    Attributes
    ----------
    rows : Rows
        Distinct rows of states.
    points : ndarray of shape (n_rows, n_coordinates)
        The rows as complete points, in which clusters are found.
    parent : ndarray of shape (n_columns,), int
        The Chow-Liu tree of the columns, -1 for the root.
    share : list of ndarrays of shape (n_states,)
        Proportions of the states of each column, all of them positive.
    """

    rows: Rows
    points: Floats
    parent: Ints
    share: list[Floats]

    @classmethod
    def from_codes(cls, rows: Rows, points: Floats, n_states: Ints) -> Self:
        """Find the tree and the proportions; ``n_states`` are those of each column."""
        state_ptr = offsets(n_states)
        counts = rows.weight @ indicators(rows.rows, state_ptr) + 0.5
        share = np.split(np.exp(log_tables(counts[np.newaxis], state_ptr)[0]), state_ptr[1:-1])
        return cls(rows, points, chow_liu_parents(rows.rows, rows.weight, n_states), share)


def choose_hidden_tree(
    table: TreeRows,
    held_out: Rows,
    n_hidden: int | None,
    n_categories: int,
    seed: int,
    advance: Callable[[float], object],
) -> tuple[HiddenTree, TreeChoice]:
    """Learn trees of several numbers of hidden states and two starts; held-out rows choose one.

    Parameters
    ----------
    table : TreeRows
        Rows to learn from.
    held_out : Rows
        Rows that choose when EM ends, the start, and the number of hidden states.
    n_hidden : int or None
        The number of hidden states; None chooses.
    n_categories : int
        The greatest number of categories of a column.
    seed : int
        Seeds the clusters, the noise and the batches.
    advance : callable
        Called after each of ``MAX_EPOCHS`` epochs in all, or with more than one at a time.

    Returns
    -------
    tree : HiddenTree
        The tree with the greatest likelihood of held-out rows.
    choice : TreeChoice
        How it was learned.
    """
    # The walk begins with this number of hidden states, or one not below the number of categories.
    usual_n_hidden = 8
    n_epochs = 0
    highest = -np.inf

    def count_epochs(n_more: float) -> None:
        nonlocal n_epochs
        n_epochs += int(n_more)
        advance(n_more)

    def attempt(size: int, by_value: bool) -> Attempt:
        nonlocal highest
        # An attempt that falls behind the best one ends early.
        attempted = _Learner(table, size, by_value, seed).learn(held_out, count_epochs, highest)
        highest = max(highest, attempted.score)
        return attempted

    at_least = min(max(usual_n_hidden, n_categories), _N_HIDDEN[-2])
    middle = n_hidden or next(size for size in _N_HIDDEN if size >= at_least)
    starts = (False, True) if middle > 1 else (False,)
    by_score = attrgetter("score")
    best = best_of_middle = max((attempt(middle, start) for start in starts), key=by_score)
    by_value = best_of_middle.choice.by_value
    for sizes in (_N_HIDDEN, _N_HIDDEN[::-1]) if n_hidden is None else ():
        # Greater numbers first; smaller ones only if none of these is better.
        further = (attempt(size, by_value) for size in sizes[sizes.index(middle) + 1 :])
        best = best_of(chain([best_of_middle], further), by_score)
        if best is not best_of_middle:
            break
    if best is not best_of_middle and best.choice.n_hidden > 1:
        # The start that is better at one size need not be at another.
        best = best_of([best, attempt(best.choice.n_hidden, not by_value)], by_score)
    advance(float(max(MAX_EPOCHS - n_epochs, 0)))
    return best.tree, best.choice


def learn_hidden_tree(table: TreeRows, choice: TreeChoice, seed: int) -> HiddenTree:
    """Learn a tree with the choices of another one; see :func:`choose_hidden_tree`."""
    learner = _Learner(table, choice.n_hidden, choice.by_value, seed)
    return learner.learn_again(choice.batches)


class Attempt(NamedTuple):
    """A tree, its mean log-likelihood of held-out rows, and how it was learned."""

    score: float
    tree: HiddenTree
    choice: TreeChoice


class _Learner:
    """A tree before and while it learns by stepwise EM."""

    def __init__(self, table: TreeRows, n_hidden: int, by_value: bool, seed: int):
        self.by_value = by_value
        self.rows, points, self.parent, self.share = table
        self.random_state = np.random.RandomState(seed)
        start = TaughtTree(self._start(points, n_hidden), self.share)
        self.model = Stepwise(start, float(self.rows.weight.sum()), None)

    def learn(self, held_out: Rows, advance: Callable[[float], object], aim: float) -> Attempt:
        """Run epochs until held-out rows gain no more, or will not reach the score ``aim``."""
        # Batches grow twofold after an epoch that raises the likelihood of held-out rows by less
        # than this part of it; so many such epochs in a row end EM.
        tol = 1e-4
        patience = 3
        n_rows = len(self.rows.weight)
        tolerated = tol * abs(float(self.model.log_likelihood(held_out.rows).mean()))
        data = Batches(self.dealt, self.model.n_rows, _BATCH_ROWS, n_rows)
        stop = Stop(MAX_EPOCHS * max(1, n_rows // _BATCH_ROWS), tolerated, patience, aim)
        fit = learn([self.model], data, stop, held_out)
        advance(float(len(data.sizes)))
        # Epochs after the best model were in vain.
        n_epochs = int(np.searchsorted(np.cumsum(data.n_batches), fit.model.n_steps, side="right"))
        tree = fit.model.model.tree
        choice = TreeChoice(tree.n_hidden, self.by_value, tuple(data.sizes[:n_epochs]))
        return Attempt(fit.score, tree, choice)

    def learn_again(self, sizes: tuple[int, ...]) -> HiddenTree:
        """Run one epoch with batches of each of these sizes."""
        n_steps = sum(max(1, len(self.rows.weight) // size) for size in sizes)
        size_of_epoch = iter(sizes)
        data = Batches(lambda _: self.dealt(next(size_of_epoch, _BATCH_ROWS)), self.model.n_rows)
        return learn([self.model], data, Stop(n_steps)).model.model.tree

    def dealt(self, size: int) -> Iterator[Rows]:
        """All rows, in batches of about this size."""
        n_batches = max(1, len(self.rows.weight) // size)
        order, weight = spread_rows(self.rows.weight, n_batches, self.random_state)
        for part in np.array_split(np.arange(len(order)), n_batches):
            yield Rows(self.rows.rows[order[part]], weight[part])

    def _start(self, points: Floats, n_hidden: int) -> HiddenTree:
        """A tree whose hidden states are clusters of rows, or clusters by low and high values."""
        # Parts of the tables that are noise, and that are like the column: EM would never change
        # entries of zero.
        noise_part = 0.1
        column_part = 0.04
        chosen = np.arange(len(self.rows.weight))
        # Largest number of rows that make the start.
        start_rows = 20_000
        if len(chosen) > start_rows:
            chosen = self.random_state.choice(len(chosen), start_rows, replace=False)
        codes = self.rows.rows[chosen]
        weight = self.rows.weight[chosen]
        n_clusters = n_hidden // 2 if self.by_value else n_hidden
        label = cluster_points(points[chosen], weight, n_clusters, self.random_state)
        transition = np.zeros((len(self.parent), n_hidden, n_hidden))
        root_counts = np.empty(n_hidden)
        emission = []
        for v, above in enumerate(self.parent.tolist()):
            hidden = weight[:, np.newaxis] * self._hidden(v, codes, label, n_hidden)
            if above < 0:
                root_counts = hidden.sum(axis=0)
            else:
                transition[v] = self._hidden(above, codes, label, n_hidden).T @ hidden
            states = np.arange(len(self.share[v]))
            emission.append((codes[:, [v]] == states).T @ hidden)
        by_state = np.concatenate(emission)
        # At the start each row has one hidden state, or nearly.
        counts = Counts(root_counts, transition, by_state, by_state)
        tree = counts.tree(self.parent, self.share)
        noise = self.random_state.dirichlet(np.ones(n_hidden), transition.shape[:2])
        noise = 0.5 * noise + 0.5 / n_hidden
        drawn = [
            (1.0 - column_part) * prob + column_part * share
            for prob, share in zip(tree.emission, self.share)
        ]
        return tree._replace(
            transition=(1.0 - noise_part) * tree.transition + noise_part * noise, emission=drawn
        )

    def _hidden(self, v: int, codes: Codes, label: Floats, n_hidden: int) -> Floats:
        """Probabilities of the hidden states of column v in each row, shape (n_rows, n_hidden)."""
        hidden = np.zeros((len(codes), n_hidden))
        n_clusters = label.shape[1]
        if not self.by_value:
            hidden[:, :n_clusters] = label
            return hidden
        # Low values are the first states with half of the weight at most, but never all or none.
        is_low = np.cumsum(self.share[v]) <= 0.5
        is_low[0] = True
        is_low[-1] = False
        low_share = np.append(is_low, self.share[v][is_low].sum())[codes[:, v], np.newaxis]
        hidden[:, :n_clusters] = low_share * label
        hidden[:, n_clusters : 2 * n_clusters] = (1.0 - low_share) * label
        return hidden


def chow_liu_parents(codes: Codes, weight: Floats, n_states: Ints) -> Ints:
    """The parent of each column in the Chow-Liu tree of rows of states, -1 for the root."""
    tree = learn_cutset_network(codes, weight, n_states, TREE._replace(ess=1.0)).trees[0]
    # Columns that do not vary hang at the first that does.
    parent = np.full(len(n_states), tree.variables[0])
    parent[tree.variables] = np.where(tree.parent < 0, -1, tree.variables[tree.parent])
    return parent


def spread_rows(
    weight: Floats, n_batches: int, random_state: np.random.RandomState
) -> tuple[Ints, Floats]:
    """Rows in random order and their weights; a heavy row comes in pieces that lie far apart.

    Otherwise the heaviest row would outweigh its batch, and be absent from the others.
    """
    order = random_state.permutation(len(weight))
    weight = weight[order]
    # No row has more than this share of the weight of a batch, unless it is in each of them.
    piece_share = 0.02
    n_pieces = copies(weight * n_batches / (piece_share * weight.sum())).clip(1, n_batches)
    row_place = np.repeat(np.arange(len(order)) / len(order), n_pieces)
    # The pieces of a row are spread evenly over the whole order.
    offset = within(n_pieces) / np.repeat(n_pieces, n_pieces)
    place = np.argsort((row_place + offset) % 1.0, kind="stable")
    return np.repeat(order, n_pieces)[place], np.repeat(weight / n_pieces, n_pieces)[place]
