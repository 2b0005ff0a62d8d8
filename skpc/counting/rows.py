"""The rows of a node of a cutset network: its trees, those of its branches, and their counts.

Binary columns are counted as bits (:mod:`skpc.counting.bit_rows`), all others with weights: any
number of states, weights that need not be whole, and missing cells.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Codes, Floats, Ints, check_memory, offsets, owners, within
from skpc._threads import product
from skpc.counting.bit_rows import BitRows, fits_bits
from skpc.counting.information import inform
from skpc.counting.pairs import Places, count_pairs, pack_states
from skpc.counting.tables import CountTables, Score
from skpc.counting.trees import NO_INFORMATION, ChowLiuTree, ScoredTrees, maximum_spanning_tree


class WeightedRows:
    """The rows of a node as codes with weights, any number of states, and missing cells.

    A row in which the column of a cut is missing is in every branch, with the proportion of its
    weight that ``proportion`` gives to the state.

    Parameters
    ----------
    codes : array of shape (n, m), int16, C-contiguous
        State of each cell, -1 where it is missing.
    weight : array of shape (n,)
        Positive weights.
    variables, n_states : array of shape (m,)
        Variable of each column and its number of states.
    chains : bool, default=False
        Which of equal trees is taken, see :func:`.maximum_spanning_tree`.
    """

    def __init__(
        self,
        codes: Codes,
        weight: Floats,
        variables: Ints,
        n_states: Ints,
        chains: bool = False,
    ):
        self.variables = variables
        self.chains = chains
        self.total_weight = float(weight.sum())
        self._codes = codes
        self._weight = weight
        self._n_states = n_states

    def state_counts(self, column: int) -> Floats:
        """Weight of the rows in each state of a column, scaled up for the missing ones."""
        places = self._places
        counts = np.zeros(self._n_states[column])
        start = places.observed[column]
        observed = slice(start, places.place_ptr[column + 1])
        counts[places.state[observed]] = places.weight[observed]
        # Missing cells have a place of their own, before the others.
        if start > places.place_ptr[column] and counts.any():
            counts *= self.total_weight / counts.sum()
        return counts

    def tree(self, score: Score) -> ScoredTrees:
        """Chow-Liu tree of all columns."""
        return trees_along_shared_edges([self], score)

    def information(self, score: Score) -> tuple[Ints, Floats]:
        """Mutual information of all pairs times the weight of the rows, and the entropies.

        The information is in units, so that of several nodes can be added without rounding.
        """
        return inform(self._codes, self._weight, self._places, self._scale, score)

    def tree_along(self, parent: Ints, is_told: NDArray[np.bool_]) -> ChowLiuTree:
        """The tree of a given structure, with the counts of these rows.

        The tables of columns that are told nothing by their parents, as the root, have one row.
        """
        places = self._places
        n_states = self._n_states
        n_places = places.place_ptr[1:] - places.observed
        n_cells = n_places * np.where(is_told, n_places[parent], 1)
        # (n_rows, m): the places of the cells, below zero where they are missing.
        place = places.state_place[self._codes + (places.state_ptr[:-1] + 1)] - places.observed
        parent_place = np.where(is_told, place.take(parent, axis=1), 0)
        ptr = offsets(n_cells)
        # Pairs of which one is missing are counted behind all others.
        is_pair = np.minimum(place, parent_place) >= 0
        cells = np.where(is_pair, ptr[:-1] + parent_place * n_places + place, ptr[-1])
        counts = np.bincount(cells.ravel(), np.repeat(self._weight, len(parent)), ptr[-1] + 1)[:-1]
        # Cells without rows are not listed.
        (cell,) = np.nonzero(counts)
        vertex = owners(n_cells)[cell]
        row, column = np.divmod(within(n_cells)[cell], n_places[vertex])
        # Rows that lack one of the two cells count as those that show both.
        partner = np.where(is_told, parent, np.arange(len(parent)))
        scale = self._scale[vertex, partner[vertex]]
        # A vertex that is told nothing has one row, whose parent state is of no use.
        parent_state = places.state.take(places.observed[parent[vertex]] + row, mode="clip")
        tables = CountTables(
            ptr=offsets(np.bincount(vertex, minlength=len(parent))),
            parent_state=np.where(is_told[vertex], parent_state, 0),
            state=places.state[places.observed[vertex] + column],
            weight=counts[cell] * scale,
            n_parent_states=np.where(is_told, n_states[parent], 1),
            n_states=n_states,
        )
        return ChowLiuTree(self.variables, parent, tables)

    def branch_trees(self, column: int, score: Score, proportion: Floats) -> list[ScoredTrees]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        branches = (self.branch(column, state, proportion) for state in range(len(proportion)))
        return list(_of_each(branches, lambda branch: branch.tree(score)))

    def branch(self, column: int, state: int, proportion: Floats) -> Self:
        """The rows in a state of a column, without that column."""
        cells = self._codes[:, column]
        is_missing = cells == -1
        row = np.flatnonzero((cells == state) | is_missing)
        weight = self._weight[row] * np.where(is_missing[row], proportion[state], 1.0)
        # Rows first and then columns: both at once would take five times as long.
        codes = np.delete(self._codes.take(row, axis=0), column, axis=1)
        variables = np.delete(self.variables, column)
        n_states = np.delete(self._n_states, column)
        return type(self)(codes, weight, variables, n_states, self.chains)

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""
        return self._places.are_complete

    @cached_property
    def _places(self) -> Places:
        return Places.from_codes(self._codes, self._weight, self._n_states)

    @cached_property
    def _scale(self) -> Floats:
        """What brings the rows in which two columns are observed to the weight of all rows."""
        n_columns = len(self.variables)
        if self.is_complete:
            return np.ones((n_columns, n_columns))
        # A product of matrices: nothing of it is needed where no cell is missing.
        is_observed = (self._codes >= 0).astype(np.float64)
        observed_weight = self._weight[:, np.newaxis] * is_observed
        shared = product(is_observed.T, observed_weight)
        return np.divide(
            self.total_weight, shared, out=np.zeros((n_columns, n_columns)), where=shared > 0.0
        )


def trees_along_shared_edges(nodes: Sequence[WeightedRows], score: Score) -> ScoredTrees:
    """Trees along the edges of greatest information in all nodes together."""
    n_columns = len(nodes[0].variables)
    units = np.zeros((n_columns, n_columns), np.int64)
    entropy = np.zeros(n_columns)
    for node in nodes:
        node_units, left_over = node.information(score)
        units += node_units
        entropy += left_over
    parent = np.empty(n_columns, np.int64)
    maximum_spanning_tree(units, parent, nodes[0].chains)
    is_told = parent >= 0
    if not all(node.is_complete for node in nodes):
        is_told &= units[parent, np.arange(n_columns)] > NO_INFORMATION
    trees = list(_of_each(nodes, lambda node: node.tree_along(parent, is_told)))
    total = sum(score.of_tables(tree.tables) for tree in trees)
    return ScoredTrees(trees, total, entropy)


def _of_each(nodes: Iterable[WeightedRows], learn: Callable[[WeightedRows], Any]) -> Iterator[Any]:
    """Learn from each node in turn, but only once from all nodes without rows."""
    empty = None
    for node in nodes:
        if node.total_weight > 0.0:
            yield learn(node)
            continue
        # One tree serves all nodes without rows: there may be thousands.
        empty = empty or learn(node)
        yield empty


#: What the search for a cutset network asks of rows, each kind answers: ``variables``,
#: ``state_counts``, ``tree``, ``branch_trees`` and ``branch``.
Rows = BitRows | WeightedRows


def node_rows(
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    variables: Ints,
    as_bits: bool = True,
    chains: bool = False,
) -> Rows:
    """The rows of a node, ready to be counted: as bits where these suffice, else with weights.

    Parameters
    ----------
    codes : array of shape (n_rows, m), int16, C-contiguous
        State of each cell, -1 where it is missing.
    weight : array of shape (n_rows,)
        Positive weights.
    n_states, variables : array of shape (m,)
        Number of states of each column, and the variable it shows.
    as_bits : bool, default=True
        Whether rows may be counted as bits, which have no :meth:`WeightedRows.tree_along`.
    chains : bool, default=False
        Which of equal trees is taken, see :func:`.maximum_spanning_tree`.

    Raises
    ------
    MemoryError
        If the statistics of all pairs of columns would take more memory than there is.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting.rows import node_rows
    >>> codes = np.array([[0, 1], [1, 1]], dtype=np.int16)
    >>> rows = node_rows(codes, np.ones(2), np.array([2, 2]), np.arange(2))
    >>> rows.state_counts(1)
    array([0., 2.])
    """
    n_columns = len(n_states)
    check_memory(3.0 * n_columns**2, f"The pairs of {n_columns:,} columns", "Choose fewer columns.")
    if as_bits and fits_bits(codes, weight, n_states):
        return BitRows.pack(codes, weight, variables, chains)
    return WeightedRows(codes, weight, variables, n_states, chains)


def count_state_pairs(codes: NDArray[np.integer], weight: Floats, n_states: Ints) -> Floats:
    """Weight of the rows in every two states of all columns.

    Parameters
    ----------
    codes : array of shape (n_rows, n_columns)
        State of each cell, -1 where missing: a pair of columns is counted in the rows that show
        both.
    weight : array of shape (n_rows,)
        Weights of the rows.
    n_states : array of shape (n_columns,)
        Number of states of each column.

    Returns
    -------
    ndarray of shape (n_all_states, n_all_states)
        Symmetric; the states of all columns are numbered through.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting.rows import count_state_pairs
    >>> codes = np.array([[0, 1], [1, 1], [0, -1]])
    >>> count_state_pairs(codes, np.array([1.0, 2.0, 4.0]), np.array([2, 2]))
    array([[5., 0., 0., 1.],
           [0., 2., 0., 2.],
           [0., 0., 0., 0.],
           [1., 2., 0., 3.]])
    """
    check_memory(
        2.0 * float(n_states.sum()) ** 2,
        f"The pairs of {n_states.sum():,} states of {len(n_states):,} columns",
        "Choose fewer columns, merge rare states or take fewer bins.",
    )
    cells = np.require(codes, np.int16, ("C", "W"))
    places = Places.from_codes(cells, weight, n_states)
    words = pack_states(cells, weight, places)
    counts = count_pairs(cells, weight, places, 0, len(places.weight), words)
    # A column's own states are never in one row.
    is_same_column = places.column[:, np.newaxis] == places.column
    counts[is_same_column] = 0.0
    np.fill_diagonal(counts, places.weight)
    # States that do not occur have no place: their rows and columns stay zero.
    n_all_states = int(n_states.sum())
    pairs = np.zeros((n_all_states, n_all_states))
    is_state = places.state >= 0
    state = places.state + offsets(n_states)[places.column]
    state = state[is_state]
    pairs[np.ix_(state, state)] = counts[np.ix_(is_state, is_state)]
    # Rounding depends on the order of the subtractions, but the result is symmetric.
    return np.tril(pairs) + np.tril(pairs, -1).T
