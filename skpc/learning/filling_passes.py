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
_EXPONENT = -128
_SMALL = 2.0**_EXPONENT
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

    def draw(part: slice) -> None:
        work = _workspace(trees, plan, streams[part], chosen[part])
        for group, table in enumerate(tables):
            _weigh(trees, plan, table, group, cells, part.start, work)
        share = _comparable_shares(work, len(tables))
        _draw_cells(trees, plan, cells, part.start, work, share, filled)

    tasks = [(part,) for part in slices(n_rows, min(_ROWS, max(1, _ENTRIES // plan.n_told)))]
    each(draw, tasks, float(n_rows * len(trees.share) * states))
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
    share, times : arrays of shape (n_rows * n_groups * LANES,)
        Weight of each component of a row, and how often it was enlarged.
    told : array
        Evidence of the cells below for the states of missing cells, after a vector of ones.
    score : array
        Sums, or the weights of the states of a cell.
    streams, chosen : arrays of shape (n_rows,)
        Source of the draws of each row, and its component.
    """

    share: Floats
    times: Ints
    told: Floats
    score: Floats
    streams: Streams
    chosen: Ints


def _workspace(trees: SharedTrees, plan: _Plan, streams: Streams, chosen: Ints) -> _Workspace:
    n_rows = len(chosen)
    start = np.zeros(_n_groups(trees) * LANES)
    start[: len(trees.share)] = trees.share[: len(start)]
    share = np.tile(start, n_rows)
    ones = plan.width * LANES
    told = np.empty(ones + plan.n_told * n_rows)
    told[:ones] = 1.0
    times = np.zeros(len(share), np.int64)
    return _Workspace(share, times, told, np.empty(ones), streams, chosen)


def _n_groups(trees: SharedTrees) -> int:
    """How often LANES components are weighed; a single one need not be."""
    return -(-len(trees.share) // LANES) if len(trees.share) > 1 else 0


def _grouped_tables(trees: SharedTrees) -> Floats:
    """The tables of LANES components at a time, filled up with zeros."""
    k, n_groups = len(trees.share), _n_groups(trees)
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
    is_small = False
    for k in range(LANES):
        is_small |= 0.0 < score[k] < _SMALL
    if not is_small:
        return
    for k in range(LANES):
        factor = 1.0
        while 0.0 < score[k] * factor < _SMALL:
            factor /= _SMALL
            times[row + k] += 1
        score[k] = factor
    for s in range(n):
        multiply_by_products(product, start + s * LANES, score, ZERO, told, ZERO, 1)


@kernel
def _weigh(
    trees: SharedTrees,
    plan: _Plan,
    table: Floats,
    group: int,
    cells: Codes,
    first: int,
    work: _Workspace,
) -> None:
    """Posterior weights of a group of components for rows from the first on."""
    n, n_rows, share, told = len(trees.share), len(work.chosen), work.share, work.told
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
            of_row = r * (len(share) // n_rows) + group * LANES
            product, to, n_products = share, of_row, np.int64(state != -1)
            if parent_state >= 0:
                row += parent_state * width * LANES
            elif parent_state == _TOLD:
                product, to, n_products = told, target, n_above * np.int64(state != -1)
                if opens:
                    for k in range(n_above * LANES):
                        told[np.uint64(target) + np.uint64(k)] = 1.0
            else:
                n_products = np.int64(0)
            for t in range(n_products):
                at, row_of_t = to + t * LANES, row + t * width * LANES
                multiply_by_products(product, at, table, row_of_t, told, source, n_terms)
            if parent_state == _TOLD:
                if checks:
                    _enlarge(told, target, n_above, work, of_row)
                target += n_above * LANES
            if j % _FACTORS == 0:
                _enlarge(share, of_row, np.int64(1), work, of_row)
            if state == _TOLD:
                own += width * LANES


def _comparable_shares(work: _Workspace, n_groups: int) -> Floats:
    """Bring the weights of each row to one scale; return their sum."""
    shape = len(work.chosen), n_groups * LANES
    share, times = work.share.reshape(shape), work.times.reshape(shape)
    if times.any():
        times -= np.where(share > 0.0, times, times.max()).min(axis=1, keepdims=True)
        np.ldexp(share, (_EXPONENT * times).astype(np.intc), out=share)
    return share.sum(axis=1)


@kernel
def _draw_cells(
    trees: SharedTrees,
    plan: _Plan,
    cells: Codes,
    first: int,
    work: _Workspace,
    share: Floats,
    filled: Codes,
) -> None:
    """Draw components, then missing cells after messages up the edges of the component."""
    n, n_rows, prob, n_states = len(trees.share), len(work.chosen), trees.prob, trees.n_states
    told, score, ones = work.told, work.score, plan.width * LANES
    n_shares = len(work.share) // n_rows
    for r in range(n_rows):
        u = uniform(work.streams, r) * share[r]
        work.chosen[r] = draw_index(work.share, r * n_shares, n_shares, u)
    # The last vertex is the root, which sends none.
    for j in range(len(plan.upwards) - 1):
        v, above = trees.column[plan.upwards[j]], trees.above[plan.upwards[j]]
        own, target = ones + trees.place[v] * n_rows, ones + trees.place[above] * n_rows
        for r in range(n_rows):
            state, parent_state = np.int64(cells[v, first + r]), np.int64(cells[above, first + r])
            shift, source, n_terms = max(state, 0), np.int64(0), np.int64(state >= 0)
            if state == _TOLD:
                source, n_terms = own, n_states[v]
                own += n_terms
            if parent_state == _TOLD:
                total = 0.0
                for t in range(n_states[above]):
                    row = trees.first[v] + (t * n_states[v] + shift) * n + work.chosen[r]
                    message = np.float64(n_terms == 0)
                    for s in range(n_terms):
                        message += prob[row + s * n] * told[source + s]
                    told[target + t] = message if plan.opens[v] else told[target + t] * message
                    total += told[target + t]
                if plan.checks[v] and total < _SMALL:
                    for t in range(n_states[above]):
                        told[target + t] /= total
                target += n_states[above]
    for i in range(len(trees.column)):
        v, above = trees.column[i], trees.above[i]
        own = ones + trees.place[v] * n_rows
        for r in range(n_rows):
            state = np.int64(cells[v, first + r])
            if state < 0:
                parent_state = np.int64(0) if above < 0 else np.int64(filled[above, first + r])
                row = trees.first[v] + parent_state * n_states[v] * n + work.chosen[r]
                source, total = own if state == _TOLD else np.int64(0), 0.0
                for s in range(n_states[v]):
                    score[s] = prob[row + s * n] * told[source + s]
                    total += score[s]
                drawn = draw_index(score, ZERO, n_states[v], uniform(work.streams, r) * total)
                filled[v, first + r] = drawn
                own += n_states[v] * np.int64(state == _TOLD)
