"""Cutset networks that cut level by level, for structured-decomposable circuits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, check_memory
from skpc.counting import (
    UNITS_PER_NAT,
    ChowLiuTree,
    CountTables,
    Score,
    WeightedRows,
    maximum_spanning_tree,
)
from skpc.learning.network import CutsetNetwork, Visited, frozen_network

#: A cut must raise the score by more than this part of it: less may be rounding.
TOLERANCE = 1e-11
#: Entropies that differ by less for each column may be equal but for rounding: rows counted as bits
#: have them in units of information.
_ENTROPY_TOLERANCE = 2.0 / UNITS_PER_NAT


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


def grow_levels(
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
    for column in promising_columns(level.entropy, n_candidates, may_cut):
        below = _cut(level, column)
        if below.score > to_beat + TOLERANCE * abs(to_beat):
            best, to_beat = (column, below), below.score
    return best


def promising_columns(
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
