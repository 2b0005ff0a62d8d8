"""Score-based learning of cutset networks: node by node, or level by level.

Cuts of whole levels give structured-decomposable circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, check_memory
from skpc.counting import (
    UNITS_PER_NAT,
    BayesDirichlet,
    Bic,
    ChowLiuTree,
    CountTables,
    Rows,
    Score,
    ScoredTree,
    WeightedRows,
    maximum_spanning_tree,
    node_rows,
)
from skpc.learning.network import CutsetNetwork, Visited, frozen_network

#: A cut must raise the score by more than this part of it: less may be rounding.
_TOLERANCE = 1e-11
#: Entropies that differ by less for each column may be equal but for rounding: rows counted as bits
#: have them in units of information.
_ENTROPY_TOLERANCE = 2.0 / UNITS_PER_NAT
#: Cuts of nodes with fewer pairs of cells than this are tried one after another: threads would take
#: longer to start.
_PAIRS_FOR_THREADS = 2e6


class _Cut(NamedTuple):
    """A cut at a node and the trees of its branches."""

    column: int
    counts: Floats
    proportion: Floats
    trees: list[ScoredTree]
    score: float


class _Node(NamedTuple):
    """A node that has a tree and may still be cut; ``weight`` is that of its rows."""

    rows: Rows
    weight: float
    learned: ScoredTree
    score: Score
    depth: int
    above: int


def learn_cutset_network(
    codes: NDArray[np.int16],
    weight: Floats,
    n_states: Ints,
    *,
    criterion: str = "bd",
    ess: float = 0.1,
    alpha: float = 0.01,
    n_candidates: int = 10,
    max_depth: int | None = None,
    structured: bool = False,
    n_jobs: int | None = None,
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
    n_jobs : int, default=None
        Number of cuts of a large node tried at a time, by threads; the network is the same.
        ``structured`` does not use it.
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
    >>> from skpc.learning import learn_cutset_network
    >>> rng = np.random.default_rng(0)
    >>> switch, noise = rng.integers(2, size=(2, 500))
    >>> codes = np.column_stack([switch, noise, noise ^ switch]).astype(np.int16)
    >>> learn_cutset_network(codes, np.ones(500), np.array([2, 2, 2]))
    CutsetNetwork(n_features=3, n_cuts=1, n_parameters=7)
    """
    advance = advance or (lambda weight: None)
    varied = np.flatnonzero(n_states > 1)
    if len(varied) == 0:
        varied = np.zeros(1, np.int64)
    codes = codes[:, varied]
    known = (codes >= 0).any(axis=1)
    codes, weight = np.ascontiguousarray(codes[known]), weight[known]
    prior: Score = BayesDirichlet(ess) if criterion == "bd" else Bic(alpha, float(weight.sum()))
    if structured:
        level = WeightedRows(codes, weight, varied, n_states[varied])
        return _grow_levels(level, prior, n_states, n_candidates, max_depth, advance)
    rows = node_rows(codes, weight, n_states[varied], varied)
    root = _Node(rows, float(rows.state_counts(0).sum()), rows.tree(prior), prior, 0, above=-1)
    visited, score = _grow(root, n_candidates, max_depth, n_jobs, advance)
    return frozen_network(visited, n_states, prior, score)


def _grow(
    root: _Node,
    n_candidates: int,
    max_depth: int | None,
    n_jobs: int | None,
    advance: Callable[[float], object],
) -> tuple[list[Visited], float]:
    """Cut depth first from the root; the nodes, and the score of the network."""
    pending, visited, score = [root], list[Visited](), root.learned.score
    while pending:
        node = pending.pop()
        cut = None if node.depth == max_depth else _best_cut(node, n_candidates, n_jobs)
        if cut is None:
            visited.append(Visited(node.above, -1, np.empty(0), node.learned.tree))
            advance(node.weight)
            continue
        score += cut.score - node.learned.score
        pending += reversed(_branches(node, cut, number=len(visited)))
        variable = int(node.rows.variables[cut.column])
        visited.append(Visited(node.above, variable, cut.counts, None))
    return visited, score


def _best_cut(node: _Node, n_candidates: int, n_jobs: int | None) -> _Cut | None:
    """The cut with the largest score among those that raise the score of the node's tree."""

    def may_cut(column: int) -> bool:
        return bool(np.count_nonzero(node.rows.state_counts(column)) > 1)

    best, to_beat = None, node.learned.score
    columns = _promising_columns(node.learned.entropy, n_candidates, may_cut)
    for cut in _try_cuts(node, columns, n_jobs):
        if cut.score > to_beat + _TOLERANCE * abs(to_beat):
            best, to_beat = cut, cut.score
    return best


def _try_cuts(node: _Node, columns: list[int], n_jobs: int | None) -> Iterable[_Cut]:
    """The cuts on some columns, by threads where they pay."""
    n_pairs = node.weight * len(node.learned.entropy) ** 2
    n_threads = effective_n_jobs(n_jobs)
    if n_pairs < _PAIRS_FOR_THREADS or n_threads == 1:
        return (_try_cut(node, column) for column in columns)
    # One after the other, as only the best is kept.
    parallel = Parallel(n_jobs=n_threads, require="sharedmem", return_as="generator")
    cuts: Iterable[_Cut] = parallel(delayed(_try_cut)(node, column) for column in columns)
    return cuts


def _try_cut(node: _Node, column: int) -> _Cut:
    """A cut on a column."""
    counts = node.rows.state_counts(column)
    smoothed = counts + node.score.pseudo_count(1, len(counts))
    proportion = smoothed / smoothed.sum()
    trees = node.rows.branch_trees(column, node.score.after_cut(len(counts)), proportion)
    score = node.score.of_tables(CountTables.from_states(counts))
    return _Cut(column, counts, proportion, trees, score + sum(tree.score for tree in trees))


def _branches(node: _Node, cut: _Cut, number: int) -> list[_Node]:
    """The nodes below a cut, which gets a number."""
    score, depth = node.score.after_cut(len(cut.trees)), node.depth + 1
    below = (node.rows.branch(cut.column, i, cut.proportion) for i in range(len(cut.trees)))
    return [
        _Node(rows, weight, tree, score, depth, number)
        for rows, weight, tree in zip(below, cut.counts.tolist(), cut.trees)
    ]


class _Level(NamedTuple):
    """All nodes of one depth with trees of one structure.

    ``score`` is that of the trees and of all cuts above, ``entropy`` what a cut on each column
    would leave over in all nodes together, ``counts`` the branches of the cuts just above, one
    array for each node there.
    """

    nodes: list[WeightedRows]
    trees: list[ChowLiuTree]
    prior: Score
    score: float
    entropy: Floats
    counts: list[Floats]
    score_of_cuts: float


def _grow_levels(
    rows: WeightedRows,
    prior: Score,
    n_states: Ints,
    n_candidates: int,
    max_depth: int | None,
    advance: Callable[[float], object],
) -> CutsetNetwork:
    """Cut level by level for as long as that raises the score of the whole network."""
    levels = [_with_trees([rows], prior, [], 0.0)]
    variables: list[int] = []
    while max_depth is None or len(variables) < max_depth:
        best = _best_level(levels[-1], n_candidates, rows.total_weight)
        if best is None:
            break
        column, level = best
        variables.append(int(levels[-1].nodes[0].variables[column]))
        levels.append(level)
    advance(rows.total_weight)
    return frozen_network(_depth_first(levels, variables), n_states, prior, levels[-1].score)


def _best_level(level: _Level, n_candidates: int, total_weight: float) -> tuple[int, _Level] | None:
    """The cut of a whole level with the largest score among those that raise it."""

    def may_cut(column: int) -> bool:
        # A cut that would make more branches than there are rows is not tried: all nodes are cut
        # alike, also those without rows, and their number multiplies at each level.
        counts = [node.state_counts(column) for node in level.nodes]
        n_branches = len(counts) * len(counts[0])
        return n_branches <= total_weight and bool(np.count_nonzero(sum(counts)) > 1)

    best = None
    to_beat = level.score
    for column in _promising_columns(level.entropy, n_candidates, may_cut):
        below = _cut(level, column)
        if below.score > to_beat + _TOLERANCE * abs(to_beat):
            best, to_beat = (column, below), below.score
    return best


def _promising_columns(
    entropy: Floats, n_candidates: int, may_cut: Callable[[int], bool]
) -> list[int]:
    """The columns that leave the least entropy in the others among those to cut, best first.

    Those of equal entropy come in their order, so that rounding does not decide.
    """
    if len(entropy) < 2:
        return []
    order = np.argsort(entropy, kind="stable")
    is_more = np.diff(entropy[order]) > _ENTROPY_TOLERANCE * len(entropy)
    order = order[np.lexsort((order, np.append(0, np.cumsum(is_more))))]
    return list(islice(filter(may_cut, order.tolist()), n_candidates))


def _cut(level: _Level, column: int) -> _Level:
    """Cut all nodes of a level on a column."""
    nodes, counts, score_of_cuts = [], [], level.score_of_cuts
    for node in level.nodes:
        counts.append(node.state_counts(column))
        smoothed = counts[-1] + level.prior.pseudo_count(1, len(counts[-1]))
        proportion = smoothed / smoothed.sum()
        nodes += [node.branch(column, state, proportion) for state in range(len(proportion))]
        score_of_cuts += level.prior.of_tables(CountTables.from_states(counts[-1]))
    return _with_trees(nodes, level.prior.after_cut(len(counts[0])), counts, score_of_cuts)


def _with_trees(
    nodes: list[WeightedRows],
    prior: Score,
    counts: list[Floats],
    score_of_cuts: float,
) -> _Level:
    """Give all nodes trees of the same edges."""
    trees, entropy = trees_along_shared_edges(nodes, prior)
    score = score_of_cuts + sum(prior.of_tables(tree.tables) for tree in trees)
    return _Level(nodes, trees, prior, score, entropy, counts, score_of_cuts)


def trees_along_shared_edges(
    nodes: list[WeightedRows], prior: Score
) -> tuple[list[ChowLiuTree], Floats]:
    """Trees along the edges of greatest information in all nodes together.

    The second result is the entropy that each column leaves over in all nodes together.
    """
    m = len(nodes[0].variables)
    check_memory(3.0 * m**2, f"The pairs of {m:,} columns", "Choose fewer columns.")
    units, entropy = np.zeros((m, m), np.int64), np.zeros(m)
    for node in nodes:
        node_units, left_over = node.information(prior)
        units += node_units
        entropy += left_over
    parent = np.empty(m, np.int64)
    maximum_spanning_tree(units, parent)
    trees: list[ChowLiuTree] = []
    empty = None
    for node in nodes:
        if node.total_weight > 0.0:
            trees.append(node.tree_along(parent))
            continue
        # One tree serves all nodes without rows: there may be thousands.
        empty = node.tree_along(parent) if empty is None else empty
        trees.append(empty)
    return trees, entropy


def _depth_first(levels: list[_Level], variables: list[int]) -> list[Visited]:
    """List the nodes of all levels depth first."""
    visited: list[Visited] = []
    pending = [(0, 0, -1)]
    while pending:
        depth, place, above = pending.pop()
        if depth == len(variables):
            visited.append(Visited(above, -1, np.empty(0), levels[depth].trees[place]))
            continue
        counts = levels[depth + 1].counts[place]
        first = place * len(counts)
        branches = [(depth + 1, first + state, len(visited)) for state in range(len(counts))]
        pending += reversed(branches)
        visited.append(Visited(above, variables[depth], counts, None))
    return visited
