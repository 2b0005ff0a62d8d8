"""Trees of hidden variables above tables with numbers, to be mixed with Gaussians.

The tree and its EM see the states of a number: its atoms, then bins of its other scores. The
density has a normal of the score in place of each bin, so that its base measure is that of the
mixtures in :mod:`skpc.learning.table_mixture`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpc._arrays import Floats, group_sums, weighted_quantiles, whole_rows
from skpc._fitting import Rows
from skpc.circuit import CircuitBuilder
from skpc.learning.hidden_tree import (
    Codes,
    Counts,
    HiddenTree,
    add_hidden_tree,
)
from skpc.learning.hidden_tree_search import (
    TreeChoice,
    TreeRows,
    choose_hidden_tree,
    learn_hidden_tree,
)
from skpc.variables.atoms import distinct

if TYPE_CHECKING:
    from skpc.learning.table_mixture import TableColumns


class ScoreBins(NamedTuple):
    """Bins of about equal weight of the scores of a number, and a normal for each of them.

    Attributes
    ----------
    edges : ndarray of shape (n_bins - 1,)
        The greatest score of each bin but the last.
    mean, sd : ndarrays of shape (n_bins,)
        Moments of the normals, in scores.
    """

    edges: Floats
    mean: Floats
    sd: Floats


class TableTree(NamedTuple):
    """A tree of hidden variables, and the bins of each number of its table."""

    bins: list[ScoreBins]
    tree: HiddenTree

    def expected(self, columns: TableColumns, rows: Floats, weight: Floats) -> Counts:
        """The E-step, on encoded rows."""
        return self.tree.expected(_codes(columns, self.bins, rows), weight)

    def m_step(self, counts: Counts) -> TableTree:
        """The tree with parameters from counts of all rows."""
        return self._replace(tree=counts.tree_like(self.tree))

    def add(self, builder: CircuitBuilder, columns: TableColumns) -> int:
        """Add the tree to a circuit; return the node of its root."""
        places = {int(v): place for place, v in enumerate(columns.numbers)}
        normals: dict[int, list[int]] = {}

        def leaf(v: int, log_prob: Floats) -> int:
            # A category has one leaf; a number is a sum over its atoms and its normals.
            if v not in places:
                return builder.discrete(v, log_prob)
            _, mean, sd = self.bins[places[v]]
            # One leaf has the atoms and the normal of the first bin. The normals of the other bins
            # are the same for all hidden states, and shared.
            n_first = len(log_prob) - len(mean) + 1
            log_weight = np.logaddexp.reduce(log_prob[:n_first])
            atoms_leaf = builder.scored(
                v, log_prob[:n_first] - log_weight, float(mean[0]), float(sd[0])
            )
            if len(mean) == 1:
                return atoms_leaf
            if v not in normals:
                no_atom = np.where(np.arange(n_first) < n_first - 1, -np.inf, 0.0)
                moments = list(zip(mean.tolist(), sd.tolist()))[1:]
                # A leaf is evaluated for each node above it, a product of one leaf only once.
                normals[v] = [
                    builder.product([builder.scored(v, no_atom, *normal)]) for normal in moments
                ]
            return builder.sum([atoms_leaf, *normals[v]], np.append(log_weight, log_prob[n_first:]))

        return add_hidden_tree(builder, self.tree, leaf)


def choose_table_tree(
    columns: TableColumns,
    rows: Floats,
    weight: Floats,
    test_rows: Floats,
    test_weight: Floats,
    seed: int,
) -> tuple[TableTree, TreeChoice]:
    """Learn a tree; test rows choose its number of hidden states, and how long EM goes on."""
    bins, table = _tree_rows(columns, rows, weight)
    held_out = Rows(_codes(columns, bins, test_rows), test_weight)
    is_category = ~np.isin(columns.tables, columns.numbers)
    most_states = int(np.diff(columns.state_ptr)[is_category].max(initial=1))
    tree, choice = choose_hidden_tree(
        table, held_out, None, most_states, seed, lambda n_epochs: None
    )
    return TableTree(bins, tree), choice


def learn_table_tree(
    columns: TableColumns, rows: Floats, weight: Floats, choice: TreeChoice, seed: int
) -> TableTree:
    """Learn a tree as another one was learned, from other rows."""
    bins, table = _tree_rows(columns, rows, weight)
    return TableTree(bins, learn_hidden_tree(table, choice, seed))


def _tree_rows(
    columns: TableColumns, rows: Floats, weight: Floats
) -> tuple[list[ScoreBins], TreeRows]:
    """The bins of all numbers, and the rows with their cells as states."""
    _, scores = columns.codes_and_scores(rows)
    bins = []
    for place, score in enumerate(scores.T):
        points, mass = distinct(score, weight)
        bins.append(_bins(points, mass, columns, place))
    n_states = np.zeros(rows.shape[1], dtype=np.int64)
    n_states[columns.tables] = np.diff(columns.state_ptr)
    # A number has a state for each atom and each bin.
    n_states[columns.numbers] = [
        len(law.atoms) + len(bins_of_number.mean)
        for law, bins_of_number in zip(columns.scored, bins)
    ]
    coded = Rows(_codes(columns, bins, rows), weight)
    return bins, TreeRows.from_codes(coded, columns.points(rows, weight), n_states)


def _bins(points: Floats, mass: Floats, columns: TableColumns, place: int) -> ScoreBins:
    """The bins of distinct scores, increasing; without any, one normal around the centre.

    ``points`` and ``mass`` are the scores and their weights, ``place`` that of the number in
    ``columns``.
    """
    # Rows of a bin at least, and bins of a number at most.
    rows_of_bin = 40.0
    most_bins = 30
    # A normal is this much wider than the values in its bin: neighbours overlap.
    widening = 1.3
    # A value of a lattice has a bin of its own if it has this share of the rows, and so many rows.
    share_of_value = 0.01
    rows_of_value = 8.0
    scale = float(columns.scale[place])
    edges = np.empty(0)
    mean = columns.centre[[place]]
    sd = np.array([scale])
    # Least standard deviation of a normal off a lattice, in distances to its neighbours.
    part_of_gap = 0.3
    if len(points):
        n_bins = min(max(whole_rows(mass.sum() / rows_of_bin), 1), most_bins)
        edges = weighted_quantiles(points, mass.cumsum(), np.arange(1, n_bins), n_bins)
        if columns.scored[place].step > 0.0:
            is_repeated = mass >= max(share_of_value * mass.sum(), rows_of_value)
            # Edges at a value and at the one before give it a bin of its own.
            edges = np.append(edges, points[is_repeated | np.append(is_repeated[1:], False)])
        # Above an edge at the greatest score would be an empty bin.
        edges = np.unique(edges[edges < points[-1]])
        bin_of_point = np.searchsorted(edges, points)
        total = group_sums(bin_of_point, mass)
        mean = group_sums(bin_of_point, mass * points) / total
        variance = group_sums(bin_of_point, mass * (points - mean[bin_of_point]) ** 2) / total
        sd = widening * np.sqrt(variance)
        if columns.scored[place].step == 0.0 and len(mean) > 1:
            # Values that repeat without a lattice are no reason for a spike.
            sd = np.maximum(sd, part_of_gap * np.gradient(mean))
    smallest = columns.smallest_sds(place, mean)
    return ScoreBins(edges, mean, np.hypot(sd, smallest))


def _codes(columns: TableColumns, bins: list[ScoreBins], rows: Floats) -> Codes:
    """States of all cells: of a number its atoms, then its bins; -1 where missing."""
    states, scores = columns.codes_and_scores(rows)
    codes = np.full(rows.shape, -1, dtype=np.int16)
    codes[:, columns.tables] = states
    for v, scored, bins_of_number, score in zip(columns.numbers, columns.scored, bins, scores.T):
        has_score = ~np.isnan(score)
        bin_of_cell = np.searchsorted(bins_of_number.edges, score[has_score])
        codes[has_score, v] = len(scored.atoms) + bin_of_cell
    return codes
