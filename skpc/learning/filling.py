"""Which states could the missing cells of rows have? Draws from a mixture of trees.

The trees of all components have the same edges, so that one pass over the rows serves several of
them. Tables and draws are found together by stochastic approximation EM (Delyon, Lavielle and
Moulines, 1999): missing cells are drawn given the tables, the drawn rows are counted, and later
counts move the tables less and less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, check_memory, offsets
from skpc.counting import ChowLiuTree
from skpc.learning.filling_passes import draw_rows, with_told
from skpc.learning.mixture import Codes

#: Equivalent sample size of the tables of all components together. Trees smoothed less fill cells
#: with what a few rows have in common by chance: at 10, and a structure score's 0.1, networks of
#: four tables with 40 % missing lost .1 and .4 nats a row against 30.
_ESS = 30.0
#: Number of rows, distributed like all rows, that are added to those of each component.
_STRENGTH = 3.0
#: Times that missing cells are drawn to learn, and after how many of them counts are averaged.
_SWEEPS = 20
_SETTLING = 10


class SharedTrees(NamedTuple):
    """A mixture of trees that have the same edges.

    Parameters
    ----------
    column, above : arrays of shape (n_vertices,)
        Column of each vertex, parents before children, and that of its parent, -1 above the root.
    n_states : array of shape (n_features,)
        Number of states of each column.
    first, place : arrays of shape (n_features,)
        Where the table of each column begins in ``prob``, and where its states are numbered from.
    prob : array of shape (n_entries,)
        Tables end to end: probability of each state given the parent's state and the component,
        which varies fastest.
    share : array of shape (n_components,)
        Weights of the components, which sum to one.
    """

    column: Ints
    above: Ints
    n_states: Ints
    first: Ints
    place: Ints
    prob: Floats
    share: Floats

    @classmethod
    def of(cls, tree: ChowLiuTree, n_states: Ints, n_components: int) -> SharedTrees:
        """The edges of a tree, with tables still to be learned."""
        vertex = _parents_first(tree.parent)
        column = tree.variables[vertex]
        above = np.where(tree.parent[vertex] < 0, -1, tree.variables[tree.parent[vertex]])
        size, first = np.zeros((2, len(n_states)), np.int64)
        size[column] = n_states[column] * np.where(above < 0, 1, n_states[above]) * n_components
        check_memory(3.0 * size.sum(), "The tables of a tree", "Merge rare states.")
        first[column] = offsets(size[column])[:-1]
        place, share = offsets(n_states)[:-1], np.full(n_components, 1.0 / n_components)
        states, prob = n_states.astype(np.int64), np.empty(int(size.sum()))
        return cls(column, above, states, first, place.copy(), prob, share)

    def tables(self, values: Floats) -> list[Floats]:
        """The values of each table, shape (n_parent_states, n_states, n_components)."""
        found, k = [], len(self.share)
        for column, above in zip(self.column.tolist(), self.above.tolist()):
            shape = (1 if above < 0 else int(self.n_states[above]), int(self.n_states[column]), k)
            start = self.first[column]
            found.append(values[start : start + np.prod(shape)].reshape(shape))
        return found

    def with_counts(self, counts: Floats) -> SharedTrees:
        """The tables and weights that suit counts best; a component is drawn towards all rows."""
        tables = self.tables(counts)
        learned = np.empty_like(counts)
        for table, out in zip(tables, self.tables(learned)):
            whole = table.sum(axis=2, keepdims=True)
            whole += _ESS / whole.size
            smoothed = table + _STRENGTH * whole / whole.sum()
            out[:] = smoothed / smoothed.sum(axis=1, keepdims=True)
        share = tables[0].sum(axis=(0, 1)) + _STRENGTH
        return self._replace(prob=learned, share=share / share.sum())


def learn_shared_trees(
    tree: ChowLiuTree,
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    component: Ints,
    random_state: np.random.RandomState,
) -> SharedTrees:
    """Learn the tables of a mixture of trees from rows with missing cells.

    Parameters
    ----------
    tree : ChowLiuTree
        The edges of all components.
    codes : array of shape (n_rows, n_features)
        State of each cell, -1 where it is missing.
    weight : array of shape (n_rows,)
        Weights of the rows.
    n_states : array of shape (n_features,)
        Number of states of each column.
    component : array of shape (n_rows,)
        A component for each row to start from: 0, 1, ...
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    SharedTrees

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting import BayesDirichlet, count_rows
    >>> from skpc.learning.filling import draw_states, learn_shared_trees
    >>> codes = np.repeat([[0, 0], [1, 1], [0, -1]], [400, 400, 100], axis=0).astype(np.int16)
    >>> weight, n_states = np.ones(900), np.array([2, 2])
    >>> tree = count_rows(codes, weight, n_states, np.arange(2)).tree(BayesDirichlet(0.1)).tree
    >>> rng = np.random.RandomState(0)
    >>> found = learn_shared_trees(tree, codes, weight, n_states, np.zeros(900, int), rng)
    >>> filled = draw_states(found, codes, rng)
    >>> bool((filled[:, 1] == filled[:, 0]).mean() > 0.97)
    True
    """
    trees = SharedTrees.of(tree, n_states, int(component.max()) + 1)
    cells = with_told(trees, codes)
    counts = _counts(trees, cells, weight, component)
    for sweep in range(_SWEEPS):
        filled, chosen = draw_rows(trees.with_counts(counts), cells, random_state)
        found = _counts(trees, filled, weight, chosen)
        counts += (found - counts) / max(1, sweep - _SETTLING + 2)
    return trees.with_counts(counts)


def draw_states(trees: SharedTrees, codes: Codes, random_state: np.random.RandomState) -> Codes:
    """Codes whose missing cells are drawn given the observed ones of their row.

    Columns that the trees do not have get state 0.
    """
    filled, _ = draw_rows(trees, with_told(trees, codes), random_state)
    return np.ascontiguousarray(filled.T)


def _counts(trees: SharedTrees, cells: Codes, weight: Floats, component: Ints) -> Floats:
    """Counts of each component on the rows that show a column and its parent, scaled to all."""
    counts, k = np.zeros(len(trees.prob)), len(trees.share)
    for column, above in zip(trees.column.tolist(), trees.above.tolist()):
        parent = np.zeros(len(weight), np.int64) if above < 0 else cells[above].astype(np.int64)
        seen = (cells[column] >= 0) & (parent >= 0)
        if not seen.any():
            continue
        row = parent[seen] * trees.n_states[column] + cells[column, seen]
        found = np.bincount(row * k + component[seen], weight[seen])
        start = trees.first[column]
        counts[start : start + len(found)] += found * (weight.sum() / found.sum())
    return counts


def _parents_first(parent: Ints) -> Ints:
    """The vertices of a tree, breadth first from the root."""
    below: list[list[int]] = [[] for _ in parent]
    for vertex in range(1, len(parent)):
        below[parent[vertex]].append(vertex)
    order = [0]
    for vertex in order:
        order += below[vertex]
    return np.array(order)
