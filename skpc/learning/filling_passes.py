"""Passes of rows up and down the edges of a mixture of trees: draws of their missing cells.

A pass treats one column of many rows after the other, as the table of a column stays in a
processor's cache. The first pass weighs LANES components at a time, whose numbers lie side by side.
Once the component of each row has been drawn, the second pass goes up the edges of that tree alone,
and the third draws cells on the way down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import LANES, ZERO, inlined, kernel, multiply_by_products
from skpc._random import Streams, draw_index, start_streams, uniform
from skpc._threads import each, slices
from skpc.learning.mixture import Codes

if TYPE_CHECKING:
    from skpc.learning.filling import SharedTrees

#: Factors of a product between two checks that it is not too small for a float. A factor may be as
#: small as a product that has passed its check. A division by a power of two changes no digit.
_FACTORS = 4
_SMALL = 2.0**-128
#: State of a missing cell whose row has observed ones below it, seen along missing cells.
_TOLD = -2
#: Rows drawn at a time: at most this many, fewer where their evidence would be more numbers.
_ROWS, _ENTRIES = 1_000, 1 << 22


def with_told(trees: SharedTrees, codes: Codes) -> Codes:
    """The codes of each column, which tell apart missing cells with and without evidence below."""
    cells = codes.T.copy()
    for column, above in zip(trees.column[::-1].tolist(), trees.above[::-1].tolist()):
        if above >= 0:
            cells[above, (cells[above] < 0) & (cells[column] != -1)] = _TOLD
    return cells


def draw_rows(
    trees: SharedTrees, cells: Codes, random_state: np.random.RandomState
) -> tuple[Codes, Ints]:
    """Complete columns, and the component of each row."""
    n_rows, states = cells.shape[1], int(trees.n_states.sum())
    streams = start_streams(np.uint64(random_state.randint(np.iinfo(np.int32).max)), n_rows)
    filled, chosen = np.maximum(cells, 0), np.empty(n_rows, np.int64)
    plan, tables = _plan(trees), _grouped_tables(trees)

    def work(part: slice) -> None:
        first, last = part.start, part.stop
        messages = _workspace(trees, plan, last - first, len(tables))
        for group, table in enumerate(tables):
            _weigh(trees, plan, table, group, cells, first, last, messages)
        _choose(len(tables), first, messages, streams, chosen[first:last])
        _tell(trees, plan, cells, first, chosen[first:last], messages.told)
        _draw_cells(trees, cells, first, chosen[first:last], messages, streams, filled)

    tasks = [(part,) for part in slices(n_rows, min(_ROWS, max(1, _ENTRIES // plan.n_told)))]
    each(work, tasks, float(n_rows * len(trees.share) * states))
    return filled, chosen


class _Plan(NamedTuple):
    """In which order messages go up the edges, and where they wait.

    Parameters
    ----------
    upwards : array of shape (n_vertices,)
        The vertices, children before parents.
    opens, checks : arrays of shape (n_features,)
        Whether the message of a column is the first to its parent, and whether the product of the
        messages to its parent may be too small after it.
    slot : array of shape (n_features,)
        Which part of the memory holds the messages to a column until its own has been sent.
    width : int
        Greatest number of states of a column.
    n_told : int
        Numbers that the evidence for a row takes.
    """

    upwards: Ints
    opens: NDArray[np.bool_]
    checks: NDArray[np.bool_]
    slot: Ints
    width: int
    n_told: int


def _plan(trees: SharedTrees) -> _Plan:
    """Depth first, the largest subtree of a column first: few columns wait at a time."""
    upwards, below = _children_first(trees)
    opens, checks = np.zeros((2, len(trees.n_states)), np.bool_)
    slot, n_slots = np.zeros(len(trees.n_states), np.int64), 0
    free: list[int] = []
    for i in upwards:
        for n, child in enumerate(below[i], 1):
            opens[trees.column[child]] = n == 1
            checks[trees.column[child]] = n % _FACTORS == 0 or n == len(below[i])
    for i in upwards:
        v, parent = trees.column[i], trees.above[i]
        if opens[v]:
            if not free:
                free.append(n_slots)
                n_slots += 1
            slot[parent] = free.pop()
        if below[i]:
            free.append(int(slot[v]))
    width = int(trees.n_states.max())
    n_told = max(int(trees.n_states.sum()), n_slots * width * LANES)
    return _Plan(np.array(upwards), opens, checks, slot, width, n_told)


def _children_first(trees: SharedTrees) -> tuple[list[int], list[list[int]]]:
    """The vertices, and the children of each, both as they send their messages."""
    n = len(trees.column)
    vertex = np.zeros(len(trees.n_states), np.int64)
    vertex[trees.column] = np.arange(n)
    parent = vertex[trees.above].tolist()
    below: list[list[int]] = [[] for _ in range(n)]
    size = [1] * n
    for i in range(n - 1, 0, -1):
        below[parent[i]].append(i)
        size[parent[i]] += size[i]
    downwards, waiting = [], [0]
    while waiting:
        i = waiting.pop()
        downwards.append(i)
        below[i].sort(key=lambda child: -size[child])
        waiting += below[i]
    return downwards[::-1], below


class _Workspace(NamedTuple):
    """Messages of some rows.

    Parameters
    ----------
    share, times : arrays of shape (n_groups * n_rows * LANES,)
        Weight of each component of a row, and how often it was enlarged.
    told : array
        Evidence of the cells below for the states of missing cells, after a vector of ones.
    score : array
        Sums, or the weights of what is to be drawn.
    """

    share: Floats
    times: Ints
    told: Floats
    score: Floats


def _workspace(trees: SharedTrees, plan: _Plan, n_rows: int, n_groups: int) -> _Workspace:
    start = np.zeros(n_groups * LANES)
    start[: len(trees.share)] = trees.share[: len(start)]
    share = np.repeat(start.reshape(n_groups, 1, LANES), n_rows, axis=1).reshape(-1)
    ones = plan.width * LANES
    told = np.empty(ones + plan.n_told * n_rows)
    told[:ones] = 1.0
    score = np.empty(max(n_groups * LANES, ones))
    return _Workspace(share, np.zeros(len(share), np.int64), told, score)


def _grouped_tables(trees: SharedTrees) -> Floats:
    """The tables of LANES components at a time, filled up with zeros; none of a single one."""
    k = len(trees.share)
    n_groups = -(-k // LANES) if k > 1 else 0
    found = np.zeros((n_groups, len(trees.prob) // k, LANES))
    for group, table in enumerate(found):
        of_group = trees.prob.reshape(-1, k)[:, group * LANES : (group + 1) * LANES]
        table[:, : of_group.shape[1]] = of_group
    return found.reshape(n_groups, len(trees.prob) // k * LANES)


@inlined
def _enlarge(product: Floats, start: Any, n: Any, work: _Workspace, row: Any) -> None:
    """Keep n vectors of products from becoming too small for a float."""
    times, told, score = work.times, work.told, work.score
    for k in range(LANES):
        score[k] = 1.0
    multiply_by_products(score, ZERO, product, start, told, ZERO, n)
    for k in range(LANES):
        while 0.0 < score[k] < _SMALL:
            score[k] /= _SMALL
            times[row + k] += 1
            for s in range(n):
                product[start + s * LANES + k] /= _SMALL


@kernel
def _weigh(
    trees: SharedTrees,
    plan: _Plan,
    table: Floats,
    group: int,
    cells: Codes,
    first: int,
    last: int,
    work: _Workspace,
) -> None:
    """Posterior weights of a group of components for some rows."""
    n, n_rows, share, told = len(trees.share), last - first, work.share, work.told
    ones, slot = plan.width * LANES, plan.width * n_rows * LANES
    for j in range(len(plan.upwards)):
        v, above = trees.column[plan.upwards[j]], trees.above[plan.upwards[j]]
        width, n_above = trees.n_states[v], trees.n_states[max(above, 0)]
        own, target = ones + plan.slot[v] * slot, ones + plan.slot[max(above, 0)] * slot
        start, opens, checks = trees.first[v] // n * LANES, plan.opens[v], plan.checks[v]
        for r in range(n_rows):
            state = np.int64(cells[v, first + r])
            parent_state = np.int64(0) if above < 0 else np.int64(cells[above, first + r])
            # What is observed is a sum of one state, whose evidence is 1.
            row, source, n_terms = start + state * LANES, np.int64(0), np.int64(1)
            if state < 0:
                row, source, n_terms = start, own, width
            of_row = (group * n_rows + r) * LANES
            if parent_state >= 0 and state != -1:
                row += parent_state * width * LANES
                multiply_by_products(share, of_row, table, row, told, source, n_terms)
            elif parent_state == _TOLD:
                if opens:
                    for k in range(n_above * LANES):
                        told[np.uint64(target) + np.uint64(k)] = 1.0
                for t in range(n_above if state != -1 else 0):
                    to, row_of_t = target + t * LANES, row + t * width * LANES
                    multiply_by_products(told, to, table, row_of_t, told, source, n_terms)
                if checks:
                    _enlarge(told, target, n_above, work, of_row)
                target += n_above * LANES
            if j % _FACTORS == 0:
                _enlarge(share, of_row, np.int64(1), work, of_row)
            if state == _TOLD:
                own += width * LANES


@kernel
def _choose(n_groups: int, first: int, work: _Workspace, streams: Streams, chosen: Ints) -> None:
    """Draw the component of each row."""
    share, times, score = work.share, work.times, work.score
    n_rows = len(chosen)
    for r in range(n_rows):
        least = np.int64(1 << 62)
        for group in range(n_groups):
            for k in range(LANES):
                i = (group * n_rows + r) * LANES + k
                if share[i] > 0.0:
                    least = min(least, times[i])
        total = 0.0
        for group in range(n_groups):
            for k in range(LANES):
                i, component = (group * n_rows + r) * LANES + k, group * LANES + k
                score[component] = share[i]
                # After a few times nothing is left of it.
                for _ in range(min(times[i] - least, _FACTORS + 1)):
                    score[component] *= _SMALL
                total += score[component]
        u = uniform(streams, first + r) * total
        chosen[r] = draw_index(score, ZERO, n_groups * LANES, u)


@kernel
def _tell(
    trees: SharedTrees, plan: _Plan, cells: Codes, first: int, chosen: Ints, told: Floats
) -> None:
    """Evidence for missing cells under the chosen component, in place of that under all."""
    n, n_rows, prob = len(trees.share), len(chosen), trees.prob
    # The last vertex is the root, which tells no other.
    for j in range(len(plan.upwards) - 1):
        v, above = trees.column[plan.upwards[j]], trees.above[plan.upwards[j]]
        width, n_above = trees.n_states[v], trees.n_states[above]
        own, target = trees.place[v] * n_rows, trees.place[above] * n_rows
        opens, checks = plan.opens[v], plan.checks[v]
        for r in range(n_rows):
            state, parent_state = np.int64(cells[v, first + r]), cells[above, first + r]
            if parent_state == _TOLD:
                total = 0.0
                for t in range(n_above):
                    row = trees.first[v] + t * width * n + chosen[r]
                    message = prob[row + state * n] if state >= 0 else 1.0
                    if state == _TOLD:
                        message = 0.0
                        for s in range(width):
                            message += prob[row + s * n] * told[own + s]
                    told[target + t] = message if opens else told[target + t] * message
                    total += told[target + t]
                if checks and 0.0 < total < _SMALL:
                    for t in range(n_above):
                        told[target + t] /= total
                target += n_above
            if state == _TOLD:
                own += width


@kernel
def _draw_cells(
    trees: SharedTrees,
    cells: Codes,
    first: int,
    chosen: Ints,
    work: _Workspace,
    streams: Streams,
    filled: Codes,
) -> None:
    """Draw missing cells, parents before children."""
    n, n_rows, prob, told, score = len(trees.share), len(chosen), trees.prob, work.told, work.score
    for i in range(len(trees.column)):
        v, above = trees.column[i], trees.above[i]
        width, own = trees.n_states[v], trees.place[v] * n_rows
        for r in range(n_rows):
            state = cells[v, first + r]
            if state >= 0:
                continue
            parent_state = np.int64(0) if above < 0 else np.int64(filled[above, first + r])
            row = trees.first[v] + parent_state * width * n + chosen[r]
            total = 0.0
            for s in range(width):
                score[s] = prob[row + s * n]
                if state == _TOLD:
                    score[s] *= told[own + s]
                total += score[s]
            if state == _TOLD:
                own += width
            u = uniform(streams, first + r) * total
            filled[v, first + r] = draw_index(score, ZERO, width, u)


@kernel
def count_draws(
    trees: SharedTrees, filled: Codes, weight: Floats, chosen: Ints, counts: Floats
) -> None:
    """Count complete rows in the tables of their components."""
    n = len(trees.share)
    for i in range(len(trees.column)):
        v, above = trees.column[i], trees.above[i]
        for r in range(len(weight)):
            parent_state = np.int64(0) if above < 0 else np.int64(filled[above, r])
            row = parent_state * trees.n_states[v] + np.int64(filled[v, r])
            counts[trees.first[v] + row * n + chosen[r]] += weight[r]
