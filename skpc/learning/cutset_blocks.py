"""Cutset networks of tables in blocks, level by level, from counts of their rows.

The counts of a node say which columns to try as cuts; the rows of each state of such a column are
counted next, for many nodes in one pass over the blocks. What is learned is what
:func:`learn_cutset_network` learns of the same rows, and memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc._threads import each
from skpc.counting import BayesDirichlet, Bic, Score, ScoredTree, count_rows
from skpc.counting.counted_rows import CountedRows, complete_slots, n_pairs
from skpc.counting.pair_cells import count_states
from skpc.counting.slot_bits import SlotBits
from skpc.learning.cutset import (
    Cut,
    Node,
    Search,
    better_cut,
    branches,
    candidates,
    grow_below,
    try_cut,
)
from skpc.learning.network import CutsetNetwork, Visited, frozen_network

#: Numbers that are counted in a pass, and the most that a single table may have. More of them in a
#: pass would save few passes, and memory shall not depend on the number of rows.
_NUMBERS, _MOST = 2**20, 2**26
#: Codes that are gathered in a pass in place of a number.
_CODES = 32

Codes = NDArray[Any]
#: Sums over the blocks what a function finds in the codes of one.
Total = Callable[[Callable[[Codes], Any]], Any]


def learn_cutset_network_of_blocks(
    total: Total,
    *,
    n_states: Ints,
    criterion: str = "bd",
    ess: float = 0.1,
    alpha: float = 0.01,
    n_candidates: int = 10,
    max_depth: int | None = None,
    most_codes: int = 2**24,
    advance: Callable[[float], object] = lambda weight: None,
) -> CutsetNetwork | None:
    """Learn a cutset network from blocks of complete rows; see :func:`learn_cutset_network`.

    Parameters
    ----------
    total : callable
        Calls a function with the codes of each block, arrays of shape (n_rows, n_features) of
        integers, and adds up what it returns.
    n_states : array of shape (n_features,)
        Number of states of each variable.
    criterion, ess, alpha, n_candidates, max_depth, advance
        See :func:`learn_cutset_network`.
    most_codes : int, default=2**24
        Nodes whose rows have fewer cells are gathered and grown in memory; the network is the same.

    Returns
    -------
    CutsetNetwork or None
        None where the counts of a single node would not fit in memory.
    """
    varied = np.flatnonzero(n_states > 1)
    varied = varied if len(varied) else np.zeros(1, np.int64)
    widths = n_states[varied]
    in_state = total(partial(_state_counts, varied, widths))
    slots = complete_slots(in_state, widths)
    if n_pairs(slots) > _MOST:
        return None
    pairs = total(partial(_pair_counts, varied, slots.state_ptr, slots.of_state))
    rows = CountedRows.of(in_state, pairs, varied, widths)
    prior: Score = BayesDirichlet(ess) if criterion == "bd" else Bic(alpha, rows.total_weight)
    root = Node(rows, rows.total_weight, rows.tree(prior), prior, depth=0, above=-1)
    search = Search(n_candidates, max_depth, n_jobs=1)
    places = _Grower(total, varied, widths, search, most_codes, advance).grow(root)
    visited, score = _depth_first(places)
    return frozen_network(visited, n_states, prior, score)


@dataclass
class _Place:
    """A place in the growing network: a leaf, unless it has branches, or nodes ``below``.

    Attributes
    ----------
    learned : ScoredTree
        The tree of the place.
    node : Node or None
        Itself, until it is known whether it is cut.
    cut, variable, first : Cut or None, int, int
        The best cut so far, its variable, and the first of the places of its branches.
    below : tuple or None
        The nodes from here on, and what their cuts gain, if they were grown in memory.
    """

    learned: ScoredTree
    node: Node | None
    cut: Cut | None = None
    variable: int = -1
    first: int = -1
    below: tuple[list[Visited], float] | None = None


class _Wanted(NamedTuple):
    """What to count in the rows of a place: the rows in states of a column, or the rows themselves.

    Attributes
    ----------
    place : int
        Number of the place.
    candidate : int
        The column, among those of the node; -1 for the rows themselves.
    column : int
        The same among all columns.
    states : ndarray
        Its states whose rows are to be counted.
    state_ptr, of_state : ndarray
        The slots of the node.
    """

    place: int
    candidate: int
    column: int
    states: Ints
    state_ptr: Ints
    of_state: Ints


class _Grower:
    """Counts nodes and cuts them."""

    def __init__(
        self,
        total: Total,
        varied: Ints,
        widths: Ints,
        search: Search,
        most_codes: int,
        advance: Callable[[float], object],
    ):
        self.total, self.varied, self.widths = total, varied, widths
        self.search, self.most_codes, self.advance = search, most_codes, advance
        self.places: list[_Place] = []

    def grow(self, root: Node) -> list[_Place]:
        """Cut level by level for as long as that raises the score."""
        self.places = [_Place(root.learned, root)]
        begin = 0
        while begin < len(self.places):
            end = len(self.places)
            tasks = [task for number in range(begin, end) for task in self._tasks(number)]
            for wanted in _passes(tasks):
                self._count(wanted)
            for number in range(begin, end):
                self._finish(number)
            begin = end
        return self.places

    def _tasks(self, number: int) -> Iterator[tuple[_Wanted, int]]:
        """What to count for a node, and how many numbers that takes."""
        node = self.places[number].node
        if node is None or node.depth == self.search.max_depth:
            return
        rows = cast("CountedRows", node.rows)
        tried = candidates(node, self.search.n_candidates)
        found = [_Wanted(number, c, *rows.to_count(c), *rows.slots[1:3]) for c in tried]
        sizes = [len(wanted.states) * n_pairs(rows.slots) for wanted in found]
        n_codes = int(rows.total_weight) * len(self.varied)
        if found and (n_codes < self.most_codes or max(sizes) > _MOST):
            found, sizes = [found[0]._replace(candidate=-1)], [n_codes // _CODES]
        yield from zip(found, sizes)

    def _count(self, wanted: list[_Wanted]) -> None:
        """Count in one pass over the blocks, and try the cuts."""
        cut_on = np.searchsorted(self.varied, [place.variable for place in self.places])
        route = cut_on, np.array([place.first for place in self.places])
        counted = self.total(partial(_counts, self.varied, route, wanted))
        gathered = [i for i, one in enumerate(wanted) if one.candidate < 0]
        of_node = [(self.places[wanted[i].place], counted[i]) for i in gathered]
        n_codes = sum(codes.size for _, blocks in of_node for codes in blocks)
        each(self._grow_in_memory, of_node, float(n_codes * len(self.varied)))
        for one, found in zip(wanted, counted):
            place = self.places[one.place]
            node = cast("Node", place.node)
            if one.candidate < 0:
                continue
            rows = cast("CountedRows", node.rows)
            before, rows.counted = rows.counted, {one.candidate: found}
            best = better_cut(node, try_cut(node, one.candidate), place.cut)
            if best is place.cut:
                # The counts of the best cut so far are kept: its branches begin with them.
                rows.counted = before
            place.cut = best

    def _grow_in_memory(self, place: _Place, gathered: list[Codes]) -> None:
        """Grow the nodes below one from its rows."""
        node = cast("Node", place.node)
        columns = np.searchsorted(self.varied, node.rows.variables)
        codes = np.concatenate(gathered)[:, columns].astype(np.int16, order="C")
        weight, n_states = np.ones(len(codes)), self.widths[columns]
        rows = count_rows(codes, weight, n_states, node.rows.variables)
        here = node._replace(rows=rows, above=-1)
        place.below = grow_below(here, self.search, 0.0, self.advance)

    def _finish(self, number: int) -> None:
        """Make the branches of the best cut, if there is one."""
        place = self.places[number]
        node, place.node = place.node, None
        if node is None or place.cut is None:
            if node is not None and place.below is None:
                self.advance(node.weight)
            return
        place.variable = int(node.rows.variables[place.cut.column])
        place.first = len(self.places)
        below = branches(node, place.cut, number)
        self.places += [_Place(branch.learned, branch) for branch in below]


def _passes(tasks: list[tuple[_Wanted, int]]) -> Iterator[list[_Wanted]]:
    """Parts of the tasks that fit in memory together."""
    part, n_numbers = list[_Wanted](), 0
    for wanted, size in tasks:
        if part and n_numbers + size > _NUMBERS:
            yield part
            part, n_numbers = [], 0
        part.append(wanted)
        n_numbers += size
    if part:
        yield part


def _depth_first(places: list[_Place]) -> tuple[list[Visited], float]:
    """The nodes depth first, and the score of the network."""
    score, visited = places[0].learned.score, list[Visited]()
    pending = [(0, -1)]
    while pending:
        number, above = pending.pop()
        place, here = places[number], len(visited)
        if place.below is not None:
            below, gain = place.below
            score += gain
            visited += [v._replace(above=above if v.above < 0 else here + v.above) for v in below]
        elif place.cut is None:
            visited.append(Visited(above, -1, np.empty(0), place.learned.tree))
        else:
            score += place.cut.score - place.learned.score
            visited.append(Visited(above, place.variable, place.cut.counts, None))
            n_branches = len(place.cut.counts)
            pending += [(place.first + i, here) for i in reversed(range(n_branches))]
    return visited, score


def _varied_codes(varied: Ints, codes: Codes) -> Codes:
    """The columns of several states, as kernels read them."""
    some = codes if len(varied) == codes.shape[1] else codes[:, varied]
    return np.require(some, np.int16, ("C", "W"))


def _state_counts(varied: Ints, widths: Ints, codes: Codes) -> Floats:
    """Number of rows in each state of each column, missing first."""
    state_ptr = offsets(widths + 1)
    found = np.zeros(state_ptr[-1])
    count_states(_varied_codes(varied, codes), np.ones(len(codes)), state_ptr, found)
    return found


def _pair_counts(varied: Ints, state_ptr: Ints, of_state: Ints, codes: Codes) -> Floats:
    codes = _varied_codes(varied, codes)
    bits = SlotBits.of(codes, np.arange(len(codes)), state_ptr, of_state)
    return bits.pairs(np.ones(len(codes), np.bool_))


def _counts(
    varied: Ints, route: tuple[Ints, Ints], wanted: list[_Wanted], codes: Codes
) -> tuple[Any, ...]:
    """The results for the rows of a block: counts of pairs of slots, or lists of rows."""
    kind, codes = codes.dtype, _varied_codes(varied, codes)
    at = np.zeros(len(codes), np.int64)
    _route(codes, *route, at)
    # Sorting of small integers takes time in proportion to their number.
    at = at.astype(np.int16) if len(route[0]) < 2**15 else at
    order = np.argsort(at, kind="stable")
    begin = np.searchsorted(at, np.arange(len(route[0]) + 1), sorter=order)
    found, place = list[Any](), -1
    for one in wanted:
        rows = order[begin[one.place] : begin[one.place + 1]]
        if one.candidate < 0:
            found.append([codes[rows].astype(kind)])
            continue
        if one.place != place:
            # What is wanted of a place follows each other.
            place, bits = one.place, SlotBits.of(codes, rows, one.state_ptr, one.of_state)
        states = codes[rows, one.column]
        found.append(np.array([bits.pairs(states == state) for state in one.states]))
    return tuple(found)


@kernel
def _route(codes: Codes, cut_on: Ints, first: Ints, at: Ints) -> None:
    """The place that each row reaches, from the columns of cuts and the places of branches."""
    for row in range(len(codes)):
        while first[at[row]] >= 0:
            at[row] = first[at[row]] + codes[row, cut_on[at[row]]]
