"""Score-based learning of cutset networks: cuts node by node, or level by level.

Cuts of whole levels give structured-decomposable circuits. The networks themselves are in
:mod:`skpc.learning.network`.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Codes, Floats, Ints
from skpc._threads import each, slices
from skpc.counting.rows import node_rows, trees_along_shared_edges
from skpc.counting.tables import BayesDirichlet, Bic, CountTables, Score
from skpc.counting.trees import UNITS_PER_NAT, ScoredTrees
from skpc.learning.held_out import quarters
from skpc.learning.network import CutsetNetwork, Visited, cutset_circuit, frozen_network
from skpc.queries import log_likelihood

#: Entropies that differ by less than this for each column count as equal: where rows are counted as
#: bits, entropies are rounded to whole units of information.
_ENTROPY_TOLERANCE = 2.0 / UNITS_PER_NAT


class _Group(NamedTuple):
    """Nodes that are cut alike: one node, or a whole level.

    Attributes
    ----------
    nodes : list
        The rows of each node.
    weight : list of float
        Their weight.
    trees : ScoredTrees
        The trees that the nodes have if they are leaves.
    prior : Score
        The structure score at this depth.
    depth : int
        Number of cuts above.
    above : list of int
        Number of the node above each of them; -1 for the root.
    """

    nodes: list[Any]
    weight: list[float]
    trees: ScoredTrees
    prior: Score
    depth: int
    above: list[int]


class _Cut(NamedTuple):
    """A cut of all nodes of a group.

    Attributes
    ----------
    column : int
        Place of the variable among those of the nodes.
    counts, proportions : lists of ndarray of shape (n_branches,)
        Weight of the rows in the branches of each node, and their smoothed proportions.
    below : list of ScoredTrees
        The trees of each group below.
    score : float
        That of the cut with these trees.
    """

    column: int
    counts: list[Floats]
    proportions: list[Floats]
    below: list[ScoredTrees]
    score: float


class CutsetOptions(NamedTuple):
    """What is learned of a cutset network.

    Attributes
    ----------
    criterion : {"bd", "bic"}, default="bd"
        The Bayes-Dirichlet score or the Bayesian information criterion.
    ess : float, default=0.1
        Equivalent sample size of the Bayes-Dirichlet score at the root.
    alpha : float, default=0.01
        Pseudo-count of each cell under the Bayesian information criterion.
    n_candidates : int, default=10
        Number of variables tried as cuts at each node.
    max_depth : int, default=None
        Largest number of cuts on the way to a leaf; None for no limit.
    structured : bool, default=False
        Cut all nodes of a level on the same variable, and give the trees of all leaves the same
        edges, so that the circuit of the network is structured-decomposable.
    """

    criterion: str = "bd"
    ess: float = 0.1
    alpha: float = 0.01
    n_candidates: int = 10
    max_depth: int | None = None
    structured: bool = False


_USUAL = CutsetOptions()
#: A network without cuts is a Chow-Liu tree.
TREE = _USUAL._replace(max_depth=0)


def learn_cutset_network(
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    options: CutsetOptions = _USUAL,
    *,
    cuts: Ints | None = None,
    chains: bool = False,
    advance: Callable[[float], object] | None = None,
) -> CutsetNetwork:
    """Learn a cutset network by greedy cuts that raise a structure score (Algorithm 1).

    Every node starts as a Chow-Liu tree of its rows. The variables that leave the least
    entropy in the others (eqs. 13-15) are tried as cuts, with a tree for each branch, and the
    best one replaces the node's tree if it raises the score.

    Parameters
    ----------
    codes : array of shape (n_samples, n_features)
        State of each cell, -1 where it is missing.
    weight : array of shape (n_samples,)
        Positive weights of the rows; they need not be whole.
    n_states : array of shape (n_features,)
        Number of states of each variable.
    options : CutsetOptions, default=CutsetOptions()
    cuts : array of shape (n_nodes,), default=None
        The ``variable`` of another network: its cuts are taken, and trees learned below them.
    chains : bool, default=False
        Which of equal trees is taken: columns that tell the same of each other make a chain, or,
        by default, a star. See :func:`chains_are_better`.
    advance : callable, default=None
        Called with the weight of the rows that have just reached their leaf, to show progress.

    Returns
    -------
    CutsetNetwork
        The network with its counts.

    Notes
    -----
    Missing cells are handled by available cases: a pair is counted where both are seen and
    scaled up to the weight of all rows of the node. A row in which the variable of a cut is
    missing goes down every branch with its proportion of the weight. A row without any cell seen
    is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning.cutset import learn_cutset_network
    >>> rng = np.random.default_rng(0)
    >>> switch, noise = rng.integers(2, size=(2, 500))
    >>> codes = np.column_stack([switch, noise, noise ^ switch]).astype(np.int16)
    >>> learn_cutset_network(codes, np.ones(500), np.array([2, 2, 2]))
    CutsetNetwork(n_features=3, n_cuts=1, n_parameters=7)
    """
    advance = advance or (lambda weight: None)
    # Columns of one state tell nothing. If there are no others, one stays: a tree has a node.
    varied = np.flatnonzero(n_states > 1)
    if len(varied) == 0:
        varied = np.zeros(1, np.int64)
    codes = codes[:, varied]
    has_cell = (codes >= 0).any(axis=1)
    codes = np.ascontiguousarray(codes[has_cell])
    weight = weight[has_cell]
    prior: Score = Bic(options.alpha, float(weight.sum()))
    if options.criterion == "bd":
        prior = BayesDirichlet(options.ess)
    as_bits = not options.structured
    rows = node_rows(codes, weight, n_states[varied], varied, as_bits, chains)
    total_weight = [float(rows.state_counts(0).sum())]
    root = _Group([rows], total_weight, rows.tree(prior), prior, 0, [-1])
    visited, score = _Search(options, cuts).grow(root, advance)
    return frozen_network(visited, n_states, prior, score)


def chains_are_better(
    network: CutsetNetwork,
    codes: Codes,
    weight: Floats,
    learn: Callable[..., CutsetNetwork],
) -> bool:
    """Whether trees should have chains rather than stars where information ties.

    All trees among columns that are equal in all rows of a leaf have the same score. They differ in
    new rows in which such columns are unequal: a star then has one improbable edge for each column
    unlike its centre, a chain one for each change along it. Trees of both kinds, learned from three
    quarters of the rows below the same cuts, predict the last quarter; stars stay unless chains are
    better by two standard errors.

    Parameters
    ----------
    network : CutsetNetwork
        A network with stars.
    codes : array of shape (n_rows, n_features)
        States of complete rows.
    weight : array of shape (n_rows,)
        Their weights.
    learn : callable
        Learned the network from codes and weights; takes ``cuts`` and ``chains``.

    Returns
    -------
    bool

    Examples
    --------
    Each row has ones up to a random place, and zeros beyond it: a chain has one change.

    >>> import numpy as np
    >>> from functools import partial
    >>> from skpc.learning.cutset import (
    ...     TREE,
    ...     chains_are_better,
    ...     learn_cutset_network,
    ... )
    >>> place = np.random.default_rng(0).integers(0, 400, (200, 1))
    >>> codes = (np.arange(40) < place).astype(np.int16)
    >>> n_states = np.full(40, 2)
    >>> learn = partial(learn_cutset_network, n_states=n_states, options=TREE)
    >>> weight = np.ones(200)
    >>> chains_are_better(learn(codes, weight), codes, weight, learn)
    True
    """
    alternative = learn(codes, weight, cuts=network.variable, chains=True)
    pairs = zip(network.trees, alternative.trees)
    # Where no information ties, both rules have learned the same trees.
    if all(np.array_equal(star.parent, chain.parent) for star, chain in pairs):
        return False
    total = 0.0
    squares = 0.0
    for train_weight, held in quarters(weight):
        is_train = train_weight > 0
        is_held = held > 0
        train_rows = codes[is_train], train_weight[is_train]
        held_rows = codes[is_held].astype(np.float64)
        star, chain = (
            log_likelihood(
                cutset_circuit(learn(*train_rows, cuts=network.variable, chains=chains)), held_rows
            )
            for chains in (False, True)
        )
        gain = chain - star
        total += float(held[is_held] @ gain)
        squares += float(held[is_held] @ gain**2)
    # The root is the standard error of the total if there were no gain.
    return total > 2.0 * squares**0.5


class _Search(NamedTuple):
    """How networks are grown, see :func:`learn_cutset_network`."""

    options: CutsetOptions
    cuts: Ints | None

    def grow(self, root: _Group, advance: Callable[[float], object]) -> tuple[list[Visited], float]:
        """Cut groups from the root on; return the nodes and the score of the network."""
        pending = [root]
        visited = list[Visited]()
        score = root.trees.score
        while pending:
            group = pending.pop()
            cut = self._cut(group, number=len(visited))
            if cut is None:
                for above, tree in zip(group.above, group.trees.trees):
                    visited.append(Visited(above, -1, np.empty(0), tree))
                advance(sum(group.weight))
                continue
            # The score of a cut has that of the trees below, in place of the trees of the group.
            score += cut.score - group.trees.score
            # Reversed, for a stack hands out last what it got first: states come in their order.
            pending += reversed(_groups_below(group, cut, number=len(visited)))
            variable = int(group.nodes[0].variables[cut.column])
            for above, counts in zip(group.above, cut.counts):
                visited.append(Visited(above, variable, counts, None))
        return visited, score

    def _cut(self, group: _Group, number: int) -> _Cut | None:
        """The cut of a group, whose first node has this number; None if its nodes are leaves."""
        # Given cuts are taken as they are.
        if self.cuts is not None:
            column = np.flatnonzero(group.nodes[0].variables == self.cuts[number])
            return self._try_cut(group, int(column[0])) if len(column) else None
        return None if group.depth == self.options.max_depth else self._best_cut(group)

    def _best_cut(self, group: _Group) -> _Cut | None:
        """The cut with the largest score among those that raise the score of the trees."""
        total_weight = sum(group.weight)

        def may_cut(column: int) -> bool:
            counts = [node.state_counts(column) for node in group.nodes]
            # A level is not cut into more branches than there are rows: all its nodes are cut,
            # also those without rows, and their number multiplies at each level.
            fits = not self.options.structured or len(counts) * len(counts[0]) <= total_weight
            # A column with one state in all these rows would leave the other branches empty.
            return fits and bool(np.count_nonzero(sum(counts)) > 1)

        best = None
        highest = group.trees.score
        columns = _promising_columns(group.trees.entropy, self.options.n_candidates, may_cut)
        # A cut counts all pairs of columns in all rows.
        n_products = len(columns) * total_weight * len(group.trees.entropy) ** 2
        # A cut must raise the score by more than this part of it: less may be rounding.
        tolerance = 1e-11
        for cut in each(self._try_cut, ((group, column) for column in columns), n_products):
            if cut.score > highest + tolerance * abs(highest):
                best = cut
                highest = cut.score
        return best

    def _try_cut(self, group: _Group, column: int) -> _Cut:
        """A cut on a column."""
        counts = [node.state_counts(column) for node in group.nodes]
        # A node without rows, as levels have them, gets its proportions from pseudo-counts alone.
        smoothed = [table + group.prior.pseudo_count(1, len(table)) for table in counts]
        proportions = [table / table.sum() for table in smoothed]
        prior = group.prior.after_cut(len(counts[0]))
        if self.options.structured:
            below = [trees_along_shared_edges(_branches(group, column, proportions), prior)]
        else:
            (rows,) = group.nodes
            (proportion,) = proportions
            below = rows.branch_trees(column, prior, proportion)
        # The states of the cut are a table of the node, and score as one.
        score = sum(group.prior.of_tables(CountTables.from_states(table)) for table in counts)
        score += sum(trees.score for trees in below)
        return _Cut(column, counts, proportions, below, score)


def _branches(group: _Group, column: int, proportions: list[Floats]) -> list[Any]:
    """The rows of all branches of a cut."""
    return [
        rows.branch(column, state, proportion)
        for rows, proportion in zip(group.nodes, proportions)
        for state in range(len(proportion))
    ]


def _groups_below(group: _Group, cut: _Cut, number: int) -> list[_Group]:
    """The groups below the cut of a group, whose first node has this number."""
    branches = _branches(group, cut.column, cut.proportions)
    weight = np.concatenate(cut.counts).tolist()
    n_states = len(cut.counts[0])
    # Branches stand node by node, one for each state.
    above = [number + place // n_states for place in range(len(branches))]
    prior = group.prior.after_cut(n_states)
    depth = group.depth + 1
    # Branches of a level stay one group; otherwise, each branch becomes its own.
    size = len(branches) // len(cut.below)
    parts = slices(len(branches), size)
    return [
        _Group(branches[part], weight[part], trees, prior, depth, above[part])
        for part, trees in zip(parts, cut.below)
    ]


def _promising_columns(
    entropy: Floats, n_candidates: int, may_cut: Callable[[int], bool]
) -> list[int]:
    """The columns that may be cut and leave the least entropy in the others, best first.

    Columns of equal entropy keep their order, so that rounding does not decide.
    """
    # A cut on the only column would leave nothing below it.
    if len(entropy) < 2:
        return []
    order = np.argsort(entropy, kind="stable")
    tolerance = _ENTROPY_TOLERANCE * len(entropy)
    is_step = np.diff(entropy[order]) > tolerance
    # Steps greater than rounding separate classes of equal entropy.
    order = order[np.lexsort((order, np.append(0, np.cumsum(is_step))))]
    return list(islice(filter(may_cut, order.tolist()), n_candidates))
