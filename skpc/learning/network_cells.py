"""The cells of all tables of a cutset network, end to end, and quick passes of rows over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.counting import BayesDirichlet, ChowLiuTree, CountTables
from skpc.learning.network import CutsetNetwork, node_priors

Codes = NDArray[np.int16]


class NetworkCells(NamedTuple):
    """Which cells of a network's tables a complete row falls into.

    Branches that no row took share one tree, and so the cells of its tables.

    Parameters
    ----------
    variable, child_ptr, child, leaf : arrays
        The nodes, as in :class:`CutsetNetwork`.
    first_of_cut : array of shape (n_nodes,)
        First cell of the table of a cut.
    tree_ptr : array of shape (n_trees + 1,)
        The vertices of tree t are ``tree_ptr[t] .. tree_ptr[t + 1]``.
    vertex, above : array of shape (n_vertices,)
        The variable of each vertex and that of its parent; -1 for the parent of a root.
    first, n_states : array of shape (n_vertices,)
        First cell of the table of a vertex, and its number of columns.
    row_ptr : array of shape (n_rows + 1,)
        The cells of each row of a table, one distribution, are ``row_ptr[i] .. row_ptr[i + 1]``.
    even : array of shape (n_cells,)
        Pseudo-count of each cell at an equivalent sample size of one.
    """

    variable: Ints
    child_ptr: Ints
    child: Ints
    leaf: Ints
    first_of_cut: Ints
    tree_ptr: Ints
    vertex: Ints
    above: Ints
    first: Ints
    n_states: Ints
    row_ptr: Ints
    even: Floats

    @classmethod
    def of(cls, network: CutsetNetwork) -> NetworkCells:
        """The cells of the cuts in the order of the nodes, then those of the trees."""
        sizes = np.where(network.variable >= 0, np.diff(network.child_ptr), 0)
        first_of_cut = offsets(sizes)
        share = np.array([prior.ess for prior in node_priors(network, BayesDirichlet(1.0))])
        trees = network.trees
        rows = np.concatenate([tree.tables.n_parent_states for tree in trees])
        states = np.concatenate([tree.tables.n_states for tree in trees])
        n_vertices = [len(tree.variables) for tree in trees]
        # Leaves that share a tree are branches of one cut, and their shares are equal.
        of_tree = np.empty(len(trees))
        of_tree[network.leaf[network.leaf >= 0]] = share[network.leaf >= 0]
        even_in_tables = np.repeat(of_tree, n_vertices) / (rows * states)
        width = np.concatenate([sizes[sizes > 0], np.repeat(states, rows)])
        even_in_cuts = np.repeat(share / np.maximum(sizes, 1), sizes)
        above = [np.where(t.parent < 0, -1, t.variables[t.parent]) for t in trees]
        return cls(
            network.variable.copy(),
            network.child_ptr.copy(),
            network.child.copy(),
            network.leaf.copy(),
            first_of_cut[:-1].copy(),
            offsets(n_vertices),
            np.concatenate([tree.variables for tree in trees]),
            np.concatenate(above),
            first_of_cut[-1] + offsets(rows * states)[:-1],
            states,
            offsets(width),
            np.concatenate([even_in_cuts, np.repeat(even_in_tables, rows * states)]),
        )

    def counts(self, codes: Codes, weight: Floats, shown: Codes | None = None) -> Floats:
        """Weight of complete rows in each cell.

        Given the codes as they were before missing cells were filled, only what these show counts:
        the states of a vertex where neither it nor its parent is missing.
        """
        found = np.zeros(len(self.even))
        _count(self, codes, codes if shown is None else shown, weight, found)
        return found

    def log_likelihood(self, codes: Codes, log_prob: Floats) -> Floats:
        """Log probability of complete rows of codes, from those of the cells."""
        found = np.zeros(len(codes))
        _log_likelihood(self, codes, log_prob, found)
        return found

    def row_sums(self, of_cells: Floats) -> Floats:
        """Sums over the cells of each distribution."""
        return np.add.reduceat(of_cells, self.row_ptr[:-1])

    def log_probabilities(self, counts: Floats) -> Floats:
        """Log of the proportions of positive counts in their distributions."""
        log_total = np.log(self.row_sums(counts))
        return np.log(counts) - np.repeat(log_total, np.diff(self.row_ptr))

    def with_counts(self, network: CutsetNetwork, counts: Floats) -> CutsetNetwork:
        """The network, with other counts in its tables."""
        n_cut_cells = len(counts) - int(sum(_n_cells(tree) for tree in network.trees))
        # The cells of cuts are in the order of the nodes, as the branches are.
        trees, at = [], n_cut_cells
        for tree in network.trees:
            n_cells = _n_cells(tree)
            trees.append(_with_counts(tree, counts[at : at + n_cells]))
            at += n_cells
        return network.with_counts(counts[:n_cut_cells].copy(), tuple(trees))


def _n_cells(tree: ChowLiuTree) -> int:
    return int((tree.tables.n_parent_states * tree.tables.n_states).sum())


def _with_counts(tree: ChowLiuTree, counts: Floats) -> ChowLiuTree:
    """The tree with full tables of these counts."""
    rows, states = tree.tables.n_parent_states, tree.tables.n_states
    row, column = [], []
    for n_rows, n_columns in zip(rows.tolist(), states.tolist()):
        row.append(np.repeat(np.arange(n_rows), n_columns))
        column.append(np.tile(np.arange(n_columns), n_rows))
    ptr = offsets(rows * states)
    tables = CountTables(
        ptr, np.concatenate(row), np.concatenate(column), counts.copy(), rows, states
    )
    return tree._replace(tables=tables)


@kernel
def _count(cells: NetworkCells, codes: Codes, shown: Codes, weight: Floats, counts: Floats) -> None:
    variable, child_ptr, child, leaf = cells.variable, cells.child_ptr, cells.child, cells.leaf
    first_of_cut, tree_ptr, vertex = cells.first_of_cut, cells.tree_ptr, cells.vertex
    above, first, n_states = cells.above, cells.first, cells.n_states
    for row in range(codes.shape[0]):
        of_row = weight[row]
        node = np.int64(0)
        while variable[node] >= 0:
            state = codes[row, variable[node]]
            if shown[row, variable[node]] >= 0:
                counts[first_of_cut[node] + state] += of_row
            node = child[child_ptr[node] + state]
        tree = leaf[node]
        for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
            cell = first[i] + codes[row, vertex[i]]
            is_shown = shown[row, vertex[i]] >= 0
            if above[i] >= 0:
                cell += codes[row, above[i]] * n_states[i]
                is_shown &= shown[row, above[i]] >= 0
            if is_shown:
                counts[cell] += of_row


@kernel
def _log_likelihood(cells: NetworkCells, codes: Codes, log_prob: Floats, found: Floats) -> None:
    variable, child_ptr, child, leaf = cells.variable, cells.child_ptr, cells.child, cells.leaf
    first_of_cut, tree_ptr, vertex = cells.first_of_cut, cells.tree_ptr, cells.vertex
    above, first, n_states = cells.above, cells.first, cells.n_states
    for row in range(codes.shape[0]):
        total = 0.0
        node = np.int64(0)
        while variable[node] >= 0:
            state = codes[row, variable[node]]
            total += log_prob[first_of_cut[node] + state]
            node = child[child_ptr[node] + state]
        tree = leaf[node]
        for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
            cell = first[i] + codes[row, vertex[i]]
            if above[i] >= 0:
                cell += codes[row, above[i]] * n_states[i]
            total += log_prob[cell]
        found[row] = total
