"""Counts of complete columns with few states, from a bit for each state of each row.

The rows of a node are packed word-major, as in ``bit_counts``: ``words[w, p]`` holds rows
``64 w .. 64 w + 63`` of one state of one column, its *place*. One AND and one popcount count 64
rows of a cell. The cells of all pairs of a column are counted together and used at once, so that
they stay in the cache, however many columns there are.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._fast_math import fast_log
from skpc._jit import internal_kernel, kernel, popcount
from skpc._threads import in_threads
from skpc.counting.chow_liu import ChowLiuTree, ScoredTree, maximum_spanning_tree
from skpc.counting.count_tables import CountTables
from skpc.counting.mutual_information import UNITS_PER_NAT
from skpc.counting.scores import Score

#: Columns with more states are counted row by row: each cell costs a pass over the words.
_MAX_STATES = 40
#: Rows (weights counted out) beyond which codes and bits would take too much memory.
_MAX_ROWS = 2**22
#: Words that are read together, and words that stay in the cache while a column is counted.
_WORD_BLOCK, _CACHED_WORDS = 4, 2**16
#: Terms come from a table where there are at least this many cells for each of its entries.
_CELLS_A_TERM = 8
#: Columns are divided into parts of this many words of pairs of places, a term counting as some.
_WORK_A_PART, _WORDS_A_TERM, _MOST_PARTS = 1e8, 8, 16


def fits_state_bits(codes: NDArray[np.int16], weight: Floats, n_states: Ints) -> bool:
    """Whether rows can be counted as bits of states: few states, complete, whole weights.

    Copies of rows in place of weights are not worth while where there are fewer possible rows than
    rows. Whether equal rows have been merged does not matter.
    """
    return bool(
        n_states.max(initial=0) <= _MAX_STATES
        and codes.min(initial=0) >= 0
        and np.all(weight == np.floor(weight))
        and weight.sum() <= _MAX_ROWS
        and np.log(weight.sum()) <= np.log(n_states).sum()
    )


class StateRows:
    """The rows of a node as states. No cell is missing, so that ``proportion`` is of no use.

    Parameters
    ----------
    codes : array of shape (m, n_rows), int16, C-contiguous
        State of each cell, column by column.
    variables, n_states : array of shape (m,)
        Variable of each column and its number of states.
    """

    def __init__(self, codes: NDArray[np.int16], variables: Ints, n_states: Ints):
        self.variables = variables
        self._codes, self._n_states = codes, n_states

    @classmethod
    def of(
        cls, codes: NDArray[np.int16], weight: Floats, variables: Ints, n_states: Ints
    ) -> StateRows:
        """Rows of codes, each as often as its weight says."""
        columns = np.ascontiguousarray(codes.T)
        if (weight > 1.0).any():
            columns = np.repeat(columns, weight.astype(np.int64), axis=1)
        return cls(columns, variables, n_states)

    def state_counts(self, column: int) -> Floats:
        """Number of the rows in each state of a column."""
        found = np.bincount(self._codes[column], minlength=self._n_states[column])
        return found.astype(np.float64)

    def tree(self, score: Score) -> ScoredTree:
        """Chow-Liu tree of all columns."""
        units, entropy = self._information(score)
        parent = np.empty(len(entropy), np.int64)
        maximum_spanning_tree(units, parent)
        tables = self._edge_tables(parent)
        return ScoredTree(
            ChowLiuTree(self.variables, parent, tables), score.of_tables(tables), entropy
        )

    def _information(self, score: Score) -> tuple[Ints, Floats]:
        """Information of all pairs in units, and the entropy of all others given each column."""
        first, count, words = self._packed
        sizes = np.arange(1, int(self._n_states.max()) + 1)
        tables = _Tables.of(
            _Places(first, count, self._n_states), score.pseudo_count(sizes[:, np.newaxis], sizes)
        )
        m, n_rows = self._codes.shape
        units = np.zeros((m, m), np.int64)
        # The parts do not depend on the number of threads, because their sums round.
        work = float(len(count)) ** 2 * (len(words) + _WORDS_A_TERM)
        n_parts = min(1 + int(work / _WORK_A_PART), _MOST_PARTS)
        entropy = np.zeros((n_parts, m))
        ends = [round(m * math.sqrt(part / n_parts)) for part in range(n_parts + 1)]

        def inform(part: int) -> None:
            of_part = ends[part], ends[part + 1], units, entropy[part]
            _inform(words, tables, float(n_rows), *of_part)

        in_threads(inform, range(n_parts))
        return units, entropy.sum(axis=0)

    def branch_trees(self, column: int, score: Score, proportion: Floats) -> list[ScoredTree]:
        """Chow-Liu trees of the rows in each state of a column, over the other columns."""
        trees: list[ScoredTree] = []
        empty = None
        for state in range(len(proportion)):
            branch = self.branch(column, state, proportion)
            if branch._codes.shape[1] == 0:
                # One tree serves all branches without rows.
                empty = branch.tree(score) if empty is None else empty
                trees.append(empty)
                continue
            trees.append(branch.tree(score))
        return trees

    def branch(self, column: int, state: int, proportion: Floats) -> StateRows:
        """The rows in a state of a column, without that column."""
        others = np.delete(np.arange(len(self.variables)), column)
        row = np.flatnonzero(self._codes[column] == state)
        codes = np.empty((len(others), len(row)), np.int16)
        for cells, v in zip(codes, others.tolist()):
            np.take(self._codes[v], row, out=cells, mode="clip")
        return StateRows(codes, self.variables[others], self._n_states[others])

    @cached_property
    def _packed(self) -> tuple[Ints, Floats, NDArray[np.uint64]]:
        """First place of each column, rows of each place, and the bits.

        Only states that occur have a place.
        """
        state_ptr = offsets(self._n_states)
        in_state = np.zeros(state_ptr[-1])
        _count_states(self._codes, state_ptr, in_state)
        occurs = in_state > 0.0
        first = offsets(occurs)[state_ptr]
        place = np.cumsum(occurs) - 1
        n_words = -(-self._codes.shape[1] // (64 * _WORD_BLOCK)) * _WORD_BLOCK
        words = np.zeros((n_words, first[-1]), np.uint64)
        held = np.zeros(self._n_states.max(), np.uint64)
        _pack(self._codes, state_ptr, place, held, words)
        return first, in_state[occurs], words

    def _edge_tables(self, parent: Ints) -> CountTables:
        """Tables of the states of each column given those of its tree parent."""
        n_states, n_parent_states = self._n_states, self._n_states[parent]
        n_parent_states[0] = 1
        size = np.minimum(n_states * n_parent_states, self._codes.shape[1])
        size[0] = n_states[0]
        most = int(size.sum())
        parent_state, state = np.empty((2, most), np.int64)
        ptr, count = np.zeros(len(parent) + 1, np.int64), np.empty(most)
        table = np.zeros(n_states.max() ** 2, np.int64)
        _list_edges(self._codes, parent, n_states, table, ptr, parent_state, state, count)
        n = ptr[-1]
        cells = parent_state[:n].copy(), state[:n].copy(), count[:n].copy()
        return CountTables(ptr, *cells, n_parent_states, n_states)


@kernel
def _count_states(codes: NDArray[np.int16], state_ptr: Ints, out: Floats) -> None:
    for v in range(codes.shape[0]):
        begin = state_ptr[v]
        for r in range(codes.shape[1]):
            out[begin + codes[v, r]] += 1.0


@kernel
def _pack(
    codes: NDArray[np.int16],
    state_ptr: Ints,
    place: Ints,
    held: NDArray[np.uint64],
    words: NDArray[np.uint64],
) -> None:
    """Set the bit of the state of each cell; ``held`` has a zero for each state of a column."""
    n_rows = codes.shape[1]
    for v in range(codes.shape[0]):
        begin, n_states = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
        for first in range(0, n_rows, 64):
            for r in range(first, min(first + 64, n_rows)):
                held[codes[v, r]] |= np.uint64(1) << np.uint64(r - first)
            for state in range(n_states):
                if held[state] > 0:
                    words[first >> 6, place[begin + state]] = held[state]
                    held[state] = 0


@internal_kernel
def _count_before(
    words: NDArray[np.uint64], begin: np.int64, end: np.int64, both: NDArray[np.uint64]
) -> None:
    """Count the rows that the places of a column share with those of the columns before it."""
    n_words = words.shape[0]
    at_once = (1 + _CACHED_WORDS // (begin + 1) // _WORD_BLOCK) * _WORD_BLOCK
    for from_word in range(0, n_words, at_once):
        to_word = min(from_word + at_once, n_words)
        for s in range(end - begin):
            counts, place = both[s], begin + s
            for w in range(from_word, to_word, _WORD_BLOCK):
                words0, words1, words2, words3 = words[w], words[w + 1], words[w + 2], words[w + 3]
                of0, of1, of2, of3 = words0[place], words1[place], words2[place], words3[place]
                # The first words overwrite the counts of another column.
                kept = ~np.uint64(0) if w > 0 else np.uint64(0)
                for t in range(begin):
                    counts[t] = (kept & counts[t]) + (
                        popcount(of0 & words0[t])
                        + popcount(of1 & words1[t])
                        + popcount(of2 & words2[t])
                        + popcount(of3 & words3[t])
                    )


class _Places(NamedTuple):
    """First place of each column, and the last one's end; rows of each place; numbers of states."""

    first: Ints
    weight: Floats
    n_states: Ints


class _Tables(NamedTuple):
    """What depends on one column, and on the number of states of another one, from one on."""

    places: _Places
    #: Pseudo-count of each cell of two columns.
    pseudo_count: Floats
    #: x log x of the smoothed counts 0, 1, ... of their cells; empty if there are too many.
    terms: Floats
    #: What is not smoothing of the weight of a place.
    share: Floats
    #: Sums over the states of a column: x log x of smoothed weights, and weight times that log.
    margin: Floats
    given: Floats

    @classmethod
    def of(cls, places: _Places, pseudo_count: Floats) -> _Tables:
        """Fill them in."""
        n_sizes, n_places, m = len(pseudo_count), len(places.weight), len(places.n_states)
        n_terms = int(places.weight.max(initial=0.0)) + 1
        if _CELLS_A_TERM * n_sizes**2 * n_terms > n_places**2:
            n_terms = 0
        terms = np.empty((n_sizes, n_sizes, n_terms))
        share, sums = np.empty((n_sizes, n_places)), np.empty((2, n_sizes, m))
        tables = cls(places, pseudo_count, terms, share, sums[0], sums[1])
        _tabulate(tables)
        return tables


@kernel
def _tabulate(tables: _Tables) -> None:
    """Fill in the tables for all numbers of states that occur."""
    first, count, n_states = tables.places
    occurs = np.zeros(len(tables.pseudo_count), np.bool_)
    for v in range(len(n_states)):
        occurs[n_states[v] - 1] = True
    for other in range(len(occurs)):
        if not occurs[other]:
            continue
        for own in range(len(occurs)):
            if occurs[own]:
                for c in range(tables.terms.shape[2]):
                    smoothed = c + tables.pseudo_count[own, other]
                    tables.terms[own, other, c] = smoothed * fast_log(smoothed)
        for v in range(len(n_states)):
            added = (other + 1) * tables.pseudo_count[n_states[v] - 1, other]
            # States without a place have empty cells only.
            n_empty = n_states[v] - (first[v + 1] - first[v])
            margin, given = n_empty * added * fast_log(added), 0.0
            for p in range(first[v], first[v + 1]):
                smoothed = count[p] + added
                log = fast_log(smoothed)
                tables.share[other, p] = count[p] / smoothed
                margin += smoothed * log
                given += count[p] * log
            tables.margin[other, v], tables.given[other, v] = margin, given


@internal_kernel
def _take_terms(both: NDArray[np.uint64], n: np.int64, pseudo_count: Floats, out: Floats) -> None:
    """x log x of the smoothed counts of one place; a loop of its own, so that it vectorises."""
    for t in range(n):
        smoothed = np.float64(np.int64(both[t])) + pseudo_count[t]
        out[t] = smoothed * fast_log(smoothed)


@internal_kernel
def _add_terms(
    term: Floats, first: Ints, n_columns: int | np.int64, of_place: Floats, of_column: Floats
) -> None:
    """Sum the terms of one place by column, and those of all places of its column by place."""
    for t in range(first[n_columns]):
        of_place[t] += term[t]
    for b in range(n_columns):
        total = 0.0
        for t in range(first[b], first[b + 1]):
            total += term[t]
        of_column[b] = total


@internal_kernel
def _add_known_terms(
    both: NDArray[np.uint64],
    n_columns: int | np.int64,
    places: _Places,
    terms: Floats,
    of_place: Floats,
    of_column: Floats,
) -> None:
    """The same for counts whose terms are in a table."""
    first, _, n_states = places
    for b in range(n_columns):
        size, total = np.uint64(n_states[b] - 1), 0.0
        for t in range(np.uint64(first[b]), np.uint64(first[b + 1])):
            term = terms[size, both[t]]
            total += term
            of_place[t] += term
        of_column[b] = total


@kernel
def _inform(
    words: NDArray[np.uint64],
    tables: _Tables,
    total: float,
    first_column: int,
    end_column: int,
    units: Ints,
    entropy: Floats,
) -> None:
    """Fill in the information of the pairs of some columns with those before them, and add the
    entropies given a column.
    """
    first, count, n_states = tables.places
    m, n_places, widest = len(n_states), len(count), np.int64(0)
    for v in range(m):
        widest = max(widest, first[v + 1] - first[v])
    both = np.empty((widest, n_places), np.uint64)
    of_place, of_column = np.empty(n_places), np.empty((widest, m))
    term, added = np.empty(n_places), np.empty(n_places)
    for a in range(first_column, end_column):
        begin, end, own = first[a], first[a + 1], n_states[a] - 1
        _count_before(words, begin, end, both)
        for b in range(a):
            for t in range(first[b], first[b + 1]):
                of_place[t], added[t] = 0.0, tables.pseudo_count[own, n_states[b] - 1]
        for s in range(end - begin):
            if tables.terms.shape[2] > 0:
                terms = tables.terms[own]
                _add_known_terms(both[s], a, tables.places, terms, of_place, of_column[s])
            else:
                _take_terms(both[s], begin, added, term)
                _add_terms(term, first, a, of_place, of_column[s])
        _compare(a, tables, total, of_place, of_column, units, entropy)


@internal_kernel
def _compare(
    a: int | np.int64,
    tables: _Tables,
    total: float,
    of_place: Floats,
    of_column: Floats,
    units: Ints,
    entropy: Floats,
) -> None:
    """Information and entropies of a column and each one before it, from sums of terms.

    The formulas are those of ``table_information``.
    """
    first, count, n_states = tables.places
    begin, end, own = first[a], first[a + 1], n_states[a] - 1
    empty_rows = n_states[a] - (end - begin)
    for b in range(a):
        left, right, other = first[b], first[b + 1], n_states[b] - 1
        alpha = tables.pseudo_count[own, other]
        empty = alpha * fast_log(alpha)
        empty_columns = n_states[b] - (right - left)
        joint = empty_rows * n_states[b] * empty
        of_a, of_b = tables.given[own, b], tables.given[other, a]
        for s in range(begin, end):
            gained = of_column[s - begin, b] + empty_columns * empty
            joint += gained
            of_b -= tables.share[other, s] * gained
        for t in range(left, right):
            of_a -= tables.share[own, t] * (of_place[t] + empty_rows * empty)
        smoothed = total + n_states[a] * n_states[b] * alpha
        margins = tables.margin[other, a] + tables.margin[own, b]
        information = (joint - margins) / smoothed + fast_log(smoothed)
        units[a, b] = max(np.int64(information * total * UNITS_PER_NAT + 0.5), np.int64(0))
        units[b, a] = units[a, b]
        entropy[a] += of_b
        entropy[b] += of_a


@kernel
def _list_edges(
    codes: NDArray[np.int16],
    parent: Ints,
    n_states: Ints,
    table: Ints,
    ptr: Ints,
    parent_state: Ints,
    state: Ints,
    count: Floats,
) -> None:
    """List all states of the root of a tree, and the cells of its edges that have rows.

    ``table`` has a zero for each cell of the largest edge.
    """
    for v in range(len(parent)):
        above, k = parent[v], n_states[v]
        n_rows = np.int64(1) if above < 0 else n_states[above]
        for r in range(codes.shape[1]):
            row = np.int64(0) if above < 0 else np.int64(codes[above, r])
            table[row * k + codes[v, r]] += 1
        at = ptr[v]
        for i in range(n_rows * k):
            if above < 0 or table[i] > 0:
                parent_state[at], state[at], count[at] = i // k, i % k, table[i]
                table[i] = 0
                at += 1
        ptr[v + 1] = at
