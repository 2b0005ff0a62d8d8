"""Learn a Chow-Liu tree of hidden variables: its start, EM on batches of rows, its size."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, copies, offsets, within
from skpc._fitting import Batches, Rows, Stepwise, Stop, best_of, learn
from skpc.counting.clustering import cluster_points
from skpc.learning.categorical import indicators, log_tables
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.hidden_tree import Codes, Counts, HiddenTree, TaughtTree

#: Numbers of hidden states to choose from. The walk begins with the one in the middle, or with one
#: that is not below the number of categories.
_N_HIDDEN = (2, 4, 8, 16, 32, 64)
_MIDDLE = 8
#: How much of the tables at the start is noise, and how much is that of the column alone.
_NOISE = 0.1
#: Rows of the first batches. Batches grow twofold after an epoch that raises the likelihood of
#: held-out rows by less than this part of it. ``_PATIENCE`` such epochs in a row end EM.
_BATCH = 512
_TOL = 1e-4
_PATIENCE = 3
MAX_EPOCHS = 100


class TreeChoice(NamedTuple):
    """What held-out rows have chosen.

    Attributes
    ----------
    n_hidden : int
        Number of states of each hidden variable.
    by_value : bool
        Whether the hidden states at the start separate values, and not only clusters of rows.
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
        The same as complete points, in which clusters are found.
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
    """Learn trees of several sizes from two starts each; the likelihood of held-out rows chooses.

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
        The best.
    choice : TreeChoice
        How it was learned.
    """
    n_epochs = 0
    highest = -np.inf

    def count(n_more: float) -> None:
        nonlocal n_epochs
        n_epochs += int(n_more)
        advance(n_more)

    def attempt(size: int, by_value: bool) -> Attempt:
        nonlocal highest
        # An attempt that falls behind the best one ends early.
        attempted = _Learner(table, size, by_value, seed).learn(held_out, count, highest)
        highest = max(highest, attempted.score)
        return attempted

    def best_attempt(attempts: Iterable[Attempt]) -> Attempt:
        return best_of(attempts, Attempt.get_score)

    at_least = min(max(_MIDDLE, n_categories), _N_HIDDEN[-2])
    middle = n_hidden or next(size for size in _N_HIDDEN if size >= at_least)
    starts = (False, True) if middle > 1 else (False,)
    best = best_of_middle = max((attempt(middle, start) for start in starts), key=Attempt.get_score)
    by_value = best_of_middle.choice.by_value
    for sizes in (_N_HIDDEN, _N_HIDDEN[::-1]) if n_hidden is None else ():
        others = (attempt(size, by_value) for size in sizes[sizes.index(middle) + 1 :])
        best = best_attempt(chain([best_of_middle], others))
        if best is not best_of_middle:
            break
    if best is not best_of_middle and best.choice.n_hidden > 1:
        # The start that is better at one size need not be at another.
        best = best_attempt([best, attempt(best.choice.n_hidden, not by_value)])
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

    def get_score(self) -> float:
        """The score, for comparisons."""
        return self.score


class _Learner:
    """A tree that learns by steps, from batches that grow."""

    def __init__(self, table: TreeRows, n_hidden: int, by_value: bool, seed: int):
        self.by_value = by_value
        self.rows, points, self.parent, self.share = table
        self.random_state = np.random.RandomState(seed)
        start = TaughtTree(self._start(points, n_hidden), self.share)
        self.model = Stepwise(start, float(self.rows.weight.sum()), None)

    def learn(self, held_out: Rows, advance: Callable[[float], object], aim: float) -> Attempt:
        """Run epochs until held-out rows gain no more, or would not reach the aim."""
        n_rows = len(self.rows.weight)
        tolerated = _TOL * abs(float(self.model.log_likelihood(held_out.rows).mean()))
        data = Batches(self.dealt, self.model.n_rows, _BATCH, n_rows)
        stop = Stop(MAX_EPOCHS * max(1, n_rows // _BATCH), tolerated, _PATIENCE, aim)
        fit = learn([self.model], data, stop, held_out)
        advance(float(len(data.sizes)))
        # Epochs after the best model were in vain.
        n_epochs = int(np.searchsorted(np.cumsum(data.n_batches), fit.model.n_steps, side="right"))
        tree = fit.model.model.tree
        choice = TreeChoice(tree.n_hidden, self.by_value, tuple(data.sizes[:n_epochs]))
        return Attempt(fit.score, tree, choice)

    def learn_again(self, sizes: tuple[int, ...]) -> HiddenTree:
        """Run epochs with batches of these sizes."""
        n_steps = sum(max(1, len(self.rows.weight) // size) for size in sizes)
        order = iter(sizes)
        data = Batches(lambda _: self.dealt(next(order, _BATCH)), self.model.n_rows)
        return learn([self.model], data, Stop(n_steps)).model.model.tree

    def dealt(self, size: int) -> Iterator[Rows]:
        """All rows, in batches of about this size."""
        n_batches = max(1, len(self.rows.weight) // size)
        order, weight = spread_rows(self.rows.weight, n_batches, self.random_state)
        for part in np.array_split(np.arange(len(order)), n_batches):
            yield Rows(self.rows.rows[order[part]], weight[part])

    def _start(self, points: Floats, n_hidden: int) -> HiddenTree:
        """A tree whose hidden states are clusters of rows, or these and one of two values each."""
        alone = 0.04
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
        first_share = np.empty(n_hidden)
        emission = []
        for v, above in enumerate(self.parent.tolist()):
            hidden = weight[:, np.newaxis] * self._hidden(v, codes, label, n_hidden)
            if above < 0:
                first_share = hidden.sum(axis=0)
            else:
                transition[v] = self._hidden(above, codes, label, n_hidden).T @ hidden
            states = np.arange(len(self.share[v]))
            emission.append((codes[:, [v]] == states).T @ hidden)
        by_state = np.concatenate(emission)
        # At the start each row has one hidden state, or nearly.
        counts = Counts(first_share, transition, by_state, by_state)
        tree = counts.tree(self.parent, self.share)
        noise = self.random_state.dirichlet(np.ones(n_hidden), transition.shape[:2])
        noise = 0.5 * noise + 0.5 / n_hidden
        drawn = [
            (1.0 - alone) * prob + alone * share for prob, share in zip(tree.emission, self.share)
        ]
        return tree._replace(
            transition=(1.0 - _NOISE) * tree.transition + _NOISE * noise, emission=drawn
        )

    def _hidden(self, v: int, codes: Codes, label: Floats, n_hidden: int) -> Floats:
        """The hidden state of a column in each row, as parts of one; shape (n_rows, n_hidden)."""
        hidden = np.zeros((len(codes), n_hidden))
        n_clusters = label.shape[1]
        if not self.by_value:
            hidden[:, :n_clusters] = label
            return hidden
        # The lower states, with half of the weight at most, and the upper ones.
        below = np.cumsum(self.share[v]) <= 0.5
        below[0] = True
        below[-1] = False
        lower = np.append(below, self.share[v][below].sum())[codes[:, v], np.newaxis]
        hidden[:, :n_clusters] = lower * label
        hidden[:, n_clusters : 2 * n_clusters] = (1.0 - lower) * label
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
    """Rows in random order and their weights, those that weigh much in pieces far apart.

    Otherwise the heaviest row would outweigh its batch, and be absent from the others.
    """
    order = random_state.permutation(len(weight))
    weight = weight[order]
    # No row has more than this share of the weight of a batch, unless it is in each of them.
    piece = 0.02
    n_pieces = copies(weight * n_batches / (piece * weight.sum())).clip(1, n_batches)
    first_places = np.repeat(np.arange(len(order)) / len(order), n_pieces)
    part = within(n_pieces) / np.repeat(n_pieces, n_pieces)
    place = np.argsort((first_places + part) % 1.0, kind="stable")
    return np.repeat(order, n_pieces)[place], np.repeat(weight / n_pieces, n_pieces)[place]
