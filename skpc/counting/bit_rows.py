"""Counts of binary columns from bit-packed rows: 1.7-3.6x on the Twenty Datasets.

The rows of a node are packed word-major: ``words[w, v]`` holds rows ``64 w .. 64 w + 63`` of
variable ``v``. One AND and one popcount count 64 rows of a pair, and the loop over ``v`` runs
over contiguous memory, so it vectorises without a reduction at the end of every pair. The plain
twin is :class:`~skpc.counting.rows.WeightedRows`, and ``tests/naive/chow_liu.py`` below it.
"""

from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Codes, Floats, Ints
from skpc._jit import kernel, popcount
from skpc._threads import slices
from skpc.counting.tables import CountTables, Score
from skpc.counting.trees import UNITS_PER_NAT, ChowLiuTree, ScoredTrees, maximum_spanning_tree

Words = NDArray[np.uint64]
#: Words that ``_count_pairs`` takes at a time; packed rows are padded to a multiple.
_WORD_BLOCK = 4
#: Columns of which each row takes an octet at a time.
COLUMNS = 64


def fits_bits(codes: Codes, weight: Floats, n_states: Ints) -> bool:
    """Whether rows can be counted as bits: two states, no cell missing, whole weights."""
    if not np.all(n_states == 2) or codes.min(initial=0) < 0:
        return False
    # Tables of one number for each count and one bit for each cell must not take too much memory.
    # The limits do not depend on whether equal rows have been merged: weights are counted out.
    is_whole = np.all(weight == np.floor(weight))
    return bool(is_whole and weight.sum() <= min(2**23, 2**31 // codes.shape[1]))


class BitRows:
    """The rows of a node as bits. No cell is missing, so that ``proportion`` is of no use.

    Parameters
    ----------
    words : array of shape (n_words, m)
        Packed rows, padded with rows of zeros.
    n_rows : int
        Rows without the padding.
    variables : array of shape (m,)
        The variable of each column.
    chains : bool, default=False
        Which of equal trees is taken, see :func:`.maximum_spanning_tree`.
    """

    def __init__(self, words: Words, n_rows: int, variables: Ints, chains: bool = False):
        self.words = words
        self.variables = variables
        self._chains = chains
        self._n_rows = n_rows
        self._plogp_tables: dict[float, Ints] = {}

    @classmethod
    def pack(cls, codes: Codes, weight: Floats, variables: Ints, chains: bool = False) -> Self:
        """Pack coded rows, each as often as its weight says."""
        repeats = weight.astype(np.int64)
        bits = codes.T.astype(np.uint8)
        parts = slices(codes.shape[1], COLUMNS)
        words = np.hstack([packed(np.repeat(bits[part], repeats, axis=1)) for part in parts])
        return cls(words, int(repeats.sum()), variables, chains)

    def state_counts(self, column: int) -> Floats:
        """Weight of the rows in each state of a column."""
        ones = float(self._pairs[column, column])
        return np.array([self._n_rows - ones, ones])

    def tree(self, score: Score) -> ScoredTrees:
        """Chow-Liu tree of all columns."""
        columns = np.arange(len(self.variables), dtype=np.uint32)
        return self._learned(self._pairs, self._n_rows, columns, score)

    def branch_trees(self, column: int, score: Score, proportion: Floats) -> list[ScoredTrees]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        columns = np.arange(len(self.variables), dtype=np.uint32)
        columns = np.delete(columns, column)
        ones = int(self._pairs[column, column])
        # Only the smaller side is counted; the other one is what it leaves of the node.
        small = 1
        n_small = ones
        if 2 * ones > self._n_rows:
            small = 0
            n_small = self._n_rows - ones
        words = self._select(column, small)
        pairs = _count(words, np.empty_like(self._pairs))
        # The tables of the other side take the place of these.
        trees = [self._learned(pairs, n_small, columns, score)]
        np.subtract(self._pairs, pairs, out=pairs)
        n_large = self._n_rows - n_small
        trees.append(self._learned(pairs, n_large, columns, score))
        if small == 0:
            return trees
        return trees[::-1]

    def branch(self, column: int, state: int, proportion: Floats) -> Self:
        """The rows in a state of a column, without that column."""
        words = np.delete(self._select(column, state), column, axis=1)
        n_rows = int(self.state_counts(column)[state])
        variables = np.delete(self.variables, column)
        return type(self)(words, n_rows, variables, self._chains)

    def _select(self, column: int, state: int) -> Words:
        """The words of the rows in a state of a column."""
        chosen = self._bits(slice(column, column + 1))[0] == state
        parts = slices(len(self.variables), COLUMNS)
        return np.hstack([packed(self._bits(part).compress(chosen, axis=1)) for part in parts])

    def _bits(self, columns: slice) -> NDArray[np.uint8]:
        """The rows of some columns one by one, shape (n_columns, n_rows)."""
        # Octets of little-endian words are in the order of the rows.
        words = np.ascontiguousarray(self.words[:, columns].T)
        octets = words.astype("<u8").view(np.uint8)
        return np.unpackbits(octets, axis=1, count=self._n_rows, bitorder="little")

    def _learned(
        self, pairs: NDArray[np.uint32], n_rows: int, columns: NDArray[np.uint32], score: Score
    ) -> ScoredTrees:
        """Chow-Liu tree of some columns of a table of pair counts."""
        ones = pairs.diagonal().copy()
        counts = np.array([n_rows - ones.astype(np.float64), ones])
        smoothed = counts + 2 * score.pseudo_count(2, 2)
        # Each of the two columns of a pair brings its margin and half of what all rows are.
        margin = _plogp(smoothed).sum(axis=0)
        margin -= _plogp(smoothed.sum(axis=0)) / 2
        n_columns = len(columns)
        parent = np.empty(n_columns, np.int64)
        units = np.empty((n_columns, n_columns), np.int64)
        row_sums = np.zeros((2, n_columns), np.int64)
        # Logarithms of whole numbers come from a table: there are fewer of them than pairs.
        plogp = self._plogp_table(score)
        margin = margin.astype(np.int64)
        _compare_pairs(pairs, ones, n_rows, columns, plogp, margin, units, row_sums)
        maximum_spanning_tree(units, parent, self._chains)
        # Entropies are smoothed, the proportions of the branches are not: the published networks
        # come out only so.
        counts = counts[:, columns]
        smoothed = smoothed[:, columns]
        conditional = (n_columns - 1) * np.log(smoothed)
        conditional -= row_sums / UNITS_PER_NAT / smoothed
        entropy = (counts * conditional).sum(axis=0)
        ends = np.sort([columns[1:], columns[parent[1:]]], axis=0)
        # Pairs stand above the diagonal only: the lesser column is the row.
        tables = self._edge_tables(counts, pairs[ends[0], ends[1]], parent)
        tree = ChowLiuTree(self.variables[columns], parent, tables)
        return ScoredTrees([tree], score.of_tables(tables), entropy)

    def _edge_tables(self, counts: Floats, pairs: NDArray[np.uint32], parent: Ints) -> CountTables:
        """Tables of four cells for the edges, and of two cells for the root.

        ``counts`` are those of the two states of each column, ``pairs`` those of the rows in which
        the two ends of an edge are one.
        """
        count = np.empty((len(parent), 4))
        count[0, 2:] = counts[:, 0]
        # The columns are the cells 00, 01, 10 and 11 of parent and child; the root has two.
        edges = count[1:]
        above = parent[1:]
        edges[:, 3] = pairs
        edges[:, 2] = counts[1, above] - pairs
        edges[:, 1] = counts[1, 1:] - pairs
        edges[:, 0] = counts[0, above] - edges[:, 1]
        return _tables_shape(len(parent))._replace(weight=count.reshape(-1)[2:])

    def _plogp_table(self, score: Score) -> Ints:
        """``_plogp`` of all smoothed counts; all branches of all cuts look it up."""
        cell = float(score.pseudo_count(2, 2))
        if cell not in self._plogp_tables:
            count = np.arange(self._n_rows + 1, dtype=np.float64) + cell
            self._plogp_tables[cell] = _plogp(count).astype(np.int64)
        return self._plogp_tables[cell]

    @cached_property
    def _pairs(self) -> NDArray[np.uint32]:
        """Rows in which columns u and v >= u are both one; nothing below the diagonal."""
        shape = len(self.variables), len(self.variables)
        return _count(self.words, np.empty(shape, np.uint32))


def packed(bits: NDArray[Any]) -> Words:
    """The words of some columns, from an octet for each row and column."""
    octets = np.packbits(bits, axis=1, bitorder="little")
    # Rows of zeros add nothing to any count.
    padding = -octets.shape[1] % (8 * _WORD_BLOCK)
    octets = np.pad(octets, ((0, 0), (0, padding)))
    return octets.view("<u8").T.astype(np.uint64, order="C")


def _plogp(count: Floats) -> Floats:
    """``c log c`` in units."""
    return np.rint(count * np.log(count) * UNITS_PER_NAT)


def _count(words: Words, out: NDArray[np.uint32]) -> NDArray[np.uint32]:
    _count_pairs(words, np.empty(len(out), np.uint64), out)
    return out


@cache
def _tables_shape(n_variables: int) -> CountTables:
    """The tables of a tree over m variables, still without counts: all have cells alike."""
    ptr = np.arange(-2, 4 * n_variables - 1, 4)
    ptr[0] = 0
    parent_state = np.tile([0, 0, 1, 1], n_variables)[2:]
    parent_state[:2] = 0
    n_parent_states = np.full(n_variables, 2)
    n_parent_states[0] = 1
    state = np.tile([0, 1], 2 * n_variables - 1)
    return CountTables(
        ptr, parent_state, state, np.empty(0), n_parent_states, np.full(n_variables, 2)
    )


@kernel
def _count_pairs(words: Words, sums: Words, pairs: NDArray[np.uint32]) -> None:
    """Count the rows in which columns u and v >= u are both one, for all such pairs."""
    n_words, n_columns = words.shape
    for u in range(n_columns):
        n_after = n_columns - u
        for v in range(n_after):
            sums[v] = 0
        for w in range(0, n_words, _WORD_BLOCK):
            # Slices that begin at u let the loop count from 0, which spares the tests for
            # negative indices that would keep it from vectorising.
            after0 = words[w, u:]
            after1 = words[w + 1, u:]
            after2 = words[w + 2, u:]
            after3 = words[w + 3, u:]
            word0 = after0[0]
            word1 = after1[0]
            word2 = after2[0]
            word3 = after3[0]
            # Four words at a time: the sums are read and written less often.
            for v in range(n_after):
                count01 = popcount(word0 & after0[v]) + popcount(word1 & after1[v])
                count23 = popcount(word2 & after2[v]) + popcount(word3 & after3[v])
                sums[v] += count01 + count23
        row = pairs[u, u:]
        for v in range(n_after):
            row[v] = sums[v]


@kernel
def _compare_pairs(
    pairs: NDArray[np.uint32],
    ones: NDArray[np.uint32],
    n_rows: int,
    columns: NDArray[np.uint32],
    plogp: Ints,
    margin: Ints,
    units: Ints,
    row_sums: Ints,
) -> None:
    """Fill in the information of all pairs of binary variables, straight from their counts.

    Parameters
    ----------
    pairs : array of shape (n, n)
        Rows in which variables u and v >= u are both one.
    ones : array of shape (n,)
        Rows in which a variable is one.
    n_rows : int
        Number of rows.
    columns : array of shape (m,)
        The vertices, as increasing columns of ``pairs``.
    plogp : array of shape (> n_rows,)
        ``(c + a) log(c + a)`` of a count c and the pseudo-count a of a cell, in units of
        1 / :data:`UNITS_PER_NAT`.
    margin : array of shape (n,)
        The same function of the two smoothed marginal counts of a column, summed, less half
        of its value for all rows.
    units : array of shape (m, m)
        Overwritten above the diagonal with the information of the vertices.
    row_sums : array of shape (2, m)
        The sums of ``plogp`` over the cells of all pairs in which a vertex is zero and in which
        it is one are added to it.
    """
    # Unsigned numbers spare every look-up the test for a negative index.
    total = np.uint64(n_rows)
    zero_sums = row_sums[0]
    one_sums = row_sums[1]
    for i in range(len(columns)):
        column = columns[i]
        column_pairs = pairs[column]
        ones_of = ones[column]
        zero_sum = 0
        one_sum = 0
        following = i + 1
        for j in range(following, len(columns)):
            second = columns[j]
            n11 = column_pairs[second]
            n01 = ones[second] - n11
            p11 = plogp[n11]
            p01 = plogp[n01]
            n10 = ones_of - n11
            p10 = plogp[n10]
            p00 = plogp[total - ones_of - n01]
            one_sum += p11
            one_sum += p10
            zero_sum += p01
            zero_sum += p00
            one_sums[j] += p11 + p01
            zero_sums[j] += p10 + p00
            joint = p11 + p10 + p01 + p00
            units[i, j] = joint - margin[column] - margin[second]
        one_sums[i] += one_sum
        zero_sums[i] += zero_sum
