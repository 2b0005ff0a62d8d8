"""Pairs of the states that occur in the columns of a node: their counts and their information.

Rows mostly agree with the most frequent state of each column, so only their other states are
counted in pairs; whatever concerns the most frequent state is what these leave. The plain twin, a
look at every cell of every pair, is ``pair_table`` of ``tests/naive/chow_liu.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._fast_math import fast_log
from skpc._jit import internal_kernel, kernel
from skpc.counting.tables import Score
from skpc.counting.trees import UNITS_PER_NAT


class Places(NamedTuple):
    """The states that occur in each column, which are numbered through: they are its *places*.

    Parameters
    ----------
    n_states : array of shape (m,)
        Numbers of states of the columns.
    state_ptr : array of shape (m + 1,)
        Where the states of each column begin in ``counted``, missing first.
    of_state, counted : arrays of shape (n_all_states,)
        Place of each state, -1 for one that does not occur; in ``counted`` also for the most
        frequent one.
    first : array of shape (m + 1,)
        The places of column v are ``first[v] .. first[v + 1]``.
    observed : array of shape (m,)
        The first of these that is not the one of missing cells.
    usual : array of shape (m,)
        The place of the most frequent state of each column, -1 without rows.
    column, state, weight : arrays of shape (n_places,)
        Column and state of each place, and the weight of its rows.
    """

    n_states: Ints
    state_ptr: Ints
    of_state: Ints
    counted: Ints
    first: Ints
    observed: Ints
    usual: Ints
    column: Ints
    state: Ints
    weight: Floats

    @classmethod
    def from_codes(cls, codes: NDArray[np.int16], weight: Floats, n_states: Ints) -> Places:
        """The places of the columns of some rows."""
        state_ptr = offsets(n_states + 1)
        in_state = np.zeros(state_ptr[-1])
        _count_states(codes, weight, state_ptr, in_state)
        occurs = in_state > 0.0
        column = np.repeat(np.arange(len(n_states)), n_states + 1)
        state = np.arange(len(column)) - state_ptr[column] - 1
        # States that do not occur have no place, so that their cells cost nothing.
        place = np.where(occurs, np.cumsum(occurs) - 1, -1)
        # If several states are most frequent, the first one is the usual one.
        most_frequent = np.lexsort((-in_state, column))[state_ptr[:-1]]
        usual, counted = place[most_frequent], place.copy()
        counted[most_frequent] = -1
        first = offsets(occurs)[state_ptr]
        observed = first[:-1] + occurs[state_ptr[:-1]]
        at_places = column[occurs], state[occurs], in_state[occurs]
        return cls(n_states, state_ptr, place, counted, first, observed, usual, *at_places)


class Smoothing(NamedTuple):
    """What smooths the tables of two columns, by the numbers of states of both.

    Parameters
    ----------
    size : array of shape (m,)
        Which of the sizes each column has.
    cell : array of shape (n_sizes, n_sizes)
        Pseudo-count of each cell.
    empty_cell, empty_row : arrays of shape (n_sizes, n_sizes)
        x log x of a cell without rows, and of all cells of a state of the first column without.
    total, log_total : arrays of shape (n_sizes, n_sizes)
        Weight of all rows and pseudo-counts, and its logarithm.
    scale : array of shape (m, m)
        What brings the rows in which two columns are observed to the weight of all rows.
    weight : float
        Weight of all rows.
    """

    size: Ints
    cell: Floats
    empty_cell: Floats
    empty_row: Floats
    total: Floats
    log_total: Floats
    scale: Floats
    weight: float

    @classmethod
    def of_rows(cls, score: Score, n_states: Ints, scale: Floats, weight: float) -> Smoothing:
        """The smoothing of all rows of a node by a score."""
        # Logarithms of pseudo-counts are taken once for each pair of sizes, not of columns.
        sizes, size = np.unique(n_states, return_inverse=True)
        cell = score.pseudo_count(sizes[:, np.newaxis], sizes)
        row = cell * sizes
        total = row * sizes[:, np.newaxis] + weight
        logs = cell * np.log(cell), row * np.log(row), total, np.log(total)
        return cls(size, cell, *logs, scale, weight)


class Sums(NamedTuple):
    """Sums over the places of one column, for its pairs with the columns before it.

    Parameters
    ----------
    left : array of shape (n_places,)
        What the counted states leave to the usual one.
    term, place_weight, place_term : arrays of shape (n_places,)
        x log x of smoothed cells of one place; weight and terms of all places of the column.
    scale, cell, row : arrays of shape (n_places,)
        What each cell is multiplied by, its pseudo-count, and that of all places of the column.
    row_weight, row_term, width, joint, margins : arrays of shape (m,)
        The same by column: weight and terms of one place, pseudo-counts, terms of all cells, and
        those of the sums of cells.
    """

    left: Floats
    term: Floats
    place_weight: Floats
    place_term: Floats
    scale: Floats
    cell: Floats
    row: Floats
    row_weight: Floats
    row_term: Floats
    width: Floats
    joint: Floats
    margins: Floats


@kernel
def _count_states(
    codes: NDArray[np.int16], weight: Floats, state_ptr: Ints, counts: Floats
) -> None:
    """Add the weight of each row to the state of each of its cells, missing first."""
    for r in range(codes.shape[0]):
        for v in range(codes.shape[1]):
            counts[state_ptr[v] + codes[r, v] + 1] += weight[r]


@kernel(new_arrays=True)
def count_pairs(
    codes: NDArray[np.int16], weight: Floats, places: Places, begin: int, counts: Floats
) -> None:
    """Add the weight of each row to the pairs of its places that are not the usual ones.

    ``counts[i, t]`` is the pair of place ``begin + i`` with place t of an earlier column.
    """
    state_ptr, counted, m = places.state_ptr, places.counted, codes.shape[1]
    end = begin + len(counts)
    in_row = np.empty(m, np.uint64)
    for r in range(codes.shape[0]):
        # Every place is written and most are written over: a branch would often guess wrong.
        n_counted = 0
        for v in range(m):
            place = counted[state_ptr[v] + codes[r, v] + 1]
            in_row[n_counted] = np.uint64(place)
            n_counted += place >= 0
        for a in range(n_counted):
            place = np.int64(in_row[a])
            # Only earlier columns: each pair is counted once, and a place not with its own column.
            if begin <= place < end:
                row = counts[place - begin]
                for b in range(a):
                    row[in_row[b]] += weight[r]


@kernel
def inform(
    counts: Floats,
    begin: int,
    places: Places,
    smoothing: Smoothing,
    sums: Sums,
    units: Ints,
    entropy: Floats,
) -> None:
    """Fill in the information of pairs of columns, and add up the entropies given a column.

    ``counts`` are those of the places from ``begin`` on; the next call takes the places after them.
    """
    first, usual, left, weight = places.first, places.usual, sums.left, places.weight
    for i in range(len(counts)):
        place, row = begin + i, counts[i]
        a = places.column[place]
        # The places of a column may be spread over several calls: the sums go on.
        if place == first[a]:
            _begin_column(a, places, smoothing, sums)
        if place != usual[a]:
            for b in range(a):
                rest = weight[place]
                for t in range(np.uint64(first[b]), np.uint64(first[b + 1])):
                    rest -= row[t]
                # Rounding must not leave less than nothing.
                row[usual[b]] = max(rest, 0.0)
            # Missing cells are taken from the usual state as well, but tell nothing themselves.
            for t in range(first[a]):
                left[t] -= row[t]
            if place >= places.observed[a]:
                entropy[a] += _add_place(a, row, places, smoothing, sums)
        if place == first[a + 1] - 1:
            for t in range(first[a]):
                left[t] = max(left[t], 0.0)
            if usual[a] >= places.observed[a]:
                entropy[a] += _add_place(a, left, places, smoothing, sums)
            _compare(a, places, smoothing, sums, units, entropy)


@internal_kernel
def _begin_column(a: np.int64, places: Places, smoothing: Smoothing, sums: Sums) -> None:
    """Sums over no place of a column yet."""
    n_states, size, scale = places.n_states, smoothing.size, smoothing.scale
    for b in range(a):
        cell = smoothing.cell[size[a], size[b]]
        sums.width[b] = n_states[b] * cell
        sums.joint[b], sums.margins[b] = 0.0, 0.0
        for t in range(places.first[b], places.first[b + 1]):
            sums.left[t] = places.weight[t]
            sums.place_weight[t], sums.place_term[t] = 0.0, 0.0
            sums.scale[t], sums.cell[t], sums.row[t] = scale[a, b], cell, n_states[a] * cell


@internal_kernel
def _add_place(a: np.int64, row: Floats, places: Places, smoothing: Smoothing, sums: Sums) -> float:
    """Add the cells of a place of a column; the entropies of the columns before it, given it."""
    first, observed, n_states, size = places.first, places.observed, places.n_states, smoothing.size
    term, scale, cell = sums.term, sums.scale, sums.cell
    place_weight, place_term = sums.place_weight, sums.place_term
    row_weight, row_term, width = sums.row_weight, sums.row_term, sums.width
    joint, margins, pair_scale = sums.joint, sums.margins, smoothing.scale
    # Loops of their own over all places, and over all columns, vectorise.
    for t in range(first[a]):
        smoothed = row[t] * scale[t] + cell[t]
        term[t] = smoothed * fast_log(smoothed)
    for t in range(first[a]):
        place_weight[t] += row[t]
    for t in range(first[a]):
        place_term[t] += term[t]
    for b in range(a):
        weight, terms = 0.0, 0.0
        # Indices without a sign: nothing tests whether they count from the end.
        for t in range(np.uint64(observed[b]), np.uint64(first[b + 1])):
            weight += row[t]
            terms += term[t]
        # States without a place have empty cells only.
        n_empty = n_states[b] - (first[b + 1] - observed[b])
        row_weight[b] = weight * pair_scale[a, b]
        row_term[b] = terms + n_empty * smoothing.empty_cell[size[a], size[b]]
    gained = 0.0
    for b in range(a):
        smoothed = row_weight[b] + width[b]
        log = fast_log(smoothed)
        margins[b] += smoothed * log
        gained += row_weight[b] * (log - row_term[b] / smoothed)
    for b in range(a):
        joint[b] += row_term[b]
    return gained


@internal_kernel
def _compare(
    a: np.int64,
    places: Places,
    smoothing: Smoothing,
    sums: Sums,
    units: Ints,
    entropy: Floats,
) -> None:
    """Information of a column and each one before it, and the entropies given these."""
    first, observed, n_states, size = places.first, places.observed, places.n_states, smoothing.size
    empty_a = n_states[a] - (first[a + 1] - observed[a])
    # The terms of the last place are done with.
    log, place_weight, place_term = sums.term, sums.place_weight, sums.place_term
    place_scale, row = sums.scale, sums.row
    for t in range(first[a]):
        log[t] = fast_log(place_weight[t] * place_scale[t] + row[t])
    for b in range(a):
        i, j, scale = size[a], size[b], smoothing.scale[a, b]
        no_rows = empty_a * smoothing.empty_cell[i, j]
        empty_b = n_states[b] - (first[b + 1] - observed[b])
        joint = sums.joint[b] + n_states[b] * no_rows
        margins = sums.margins[b] + empty_a * smoothing.empty_row[i, j]
        margins += empty_b * smoothing.empty_row[j, i]
        gained = 0.0
        for t in range(np.uint64(observed[b]), np.uint64(first[b + 1])):
            weight = place_weight[t] * scale
            smoothed = weight + row[t]
            margins += smoothed * log[t]
            gained += weight * (log[t] - (place_term[t] + no_rows) / smoothed)
        entropy[b] += gained
        information = (joint - margins) / smoothing.total[i, j] + smoothing.log_total[i, j]
        # Columns that are never observed together have no table.
        information = information if scale > 0.0 else 0.0
        # Rounded to whole units, so that equal information compares as equal.
        rounded = np.int64(information * smoothing.weight * UNITS_PER_NAT + 0.5)
        units[a, b] = units[b, a] = max(rounded, np.int64(0))


@kernel
def list_edges(
    columns: NDArray[np.int16],
    weight: Floats,
    parent: Ints,
    places: Places,
    table: Floats,
    ptr: Ints,
    parent_state: Ints,
    state: Ints,
    count: Floats,
) -> None:
    """Append the cells of the edges of a tree that have rows to the states of its root.

    Parameters
    ----------
    columns : array of shape (m, n_rows)
        State of each cell, -1 where missing, column by column.
    weight : array of shape (n_rows,)
        Weights of the rows.
    parent : array of shape (m,)
        Column of the tree parent of each column; -1 for the root, which comes first.
    places : Places
        The states that occur in the columns.
    table : array
        Workspace: a zero for each cell of an edge, or at least for each place of a column.
    ptr : array of shape (m + 1,)
        Where the cells of each column begin. The first two are given, the others overwritten.
    parent_state, state, count : arrays
        The cells: states of parent and child, weight scaled up to that of all rows.
    """
    total = weight.sum()
    state_ptr, of_state = places.state_ptr, places.of_state
    for v in range(1, len(parent)):
        above = parent[v]
        first_row, first_cell = places.observed[above], places.observed[v]
        n_rows, k = places.first[above + 1] - first_row, places.first[v + 1] - first_cell
        at, at_once, observed = ptr[v], len(table) // max(k, 1), 0.0
        # A table that is too large takes several passes over the rows.
        for begin in range(0, n_rows, at_once):
            end = min(begin + at_once, n_rows)
            for r in range(columns.shape[1]):
                i = of_state[state_ptr[above] + columns[above, r] + 1] - first_row
                j = of_state[state_ptr[v] + columns[v, r] + 1] - first_cell
                # The place of missing cells is before the first one.
                if begin <= i < end and j >= 0:
                    table[(i - begin) * k + j] += weight[r]
            # Cells without rows are not listed; the table is zero again for the next edge.
            for cell in range((end - begin) * k):
                if table[cell] > 0.0:
                    parent_state[at] = places.state[first_row + begin + cell // k]
                    state[at] = places.state[first_cell + cell % k]
                    count[at] = table[cell]
                    observed += table[cell]
                    table[cell] = 0.0
                    at += 1
        # Rows that lack one of the two cells count as those that show both.
        if at > ptr[v] and observed < total:
            for cell in range(ptr[v], at):
                count[cell] *= total / observed
        ptr[v + 1] = at
