"""From the root to one leaf a variable: the walk behind sampling and most probable completion."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import inlined, kernel
from skpc._random import Streams, draw_index, uniform
from skpc.queries.passes.evaluator import Batch, Evaluator
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import Cells
from skpc.variables import Columns
from skpc.variables.families import cell_value, draw
from skpc.variables.leaves import LeafTable


@inlined
def _greatest(score: Floats, n_children: int) -> int:
    """Position of the greatest score, the first among equals."""
    chosen = 0
    for k in range(1, n_children):
        if score[k] > score[chosen]:
            chosen = k
    return chosen


@inlined
def _score(weight: float, value: float, whole: float, in_logs: bool, maximise: bool) -> float:
    """Weight times value of a child: itself, its log, or relative to the ``whole`` sum."""
    if not in_logs:
        return weight * value
    return weight + value if maximise else fast_exp(weight + value - whole)


@kernel
def descend(
    plan: Plan,
    tables: Tables,
    columns: Columns,
    mode: Floats,
    cells: Cells,
    lines: Floats,
    in_logs: bool,
    maximise: bool,
    column: Ints,
    streams: Streams,
    visitors: Ints,
    n_visitors: Ints,
    score: Floats,
    owner: Ints,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows whose values stand in column ``column[j]`` of the lines.

    At each sum a row takes one child: drawn in proportion to weight times value, or (with
    ``maximise``) the greatest. All rows move together, one node after the other, so that memory is
    read in order; ``streams[j]`` is the random stream of row ``j``. A block that is reached is
    noted in ``owner[j]``, at its first variable; the cells of blocks are left missing.
    """
    is_sum, ptr, arg, slot = plan.is_sum, plan.ptr, plan.arg, plan.slot
    leaf_family, leaf_first = plan.leaves.family, plan.leaves.first
    leaf_var, leaf_line, leaf_states = plan.leaves.var, plan.leaves.line, plan.leaves.n_states
    last_use = plan.last_use
    codes, values = cells.codes, cells.values
    linear_table, axis, axis_ptr = tables.table, columns.axis, columns.axis_ptr
    table = tables.log_table if in_logs else tables.table
    weight = tables.log_weight if in_logs else tables.weight
    root = len(is_sum) - 1
    for j in range(len(rows)):
        visitors[slot[root], j] = j
    n_visitors[slot[root]] = len(rows)
    for i in range(root, -1, -1):
        begin, end = ptr[i], ptr[i + 1]
        for a in range(begin, end):
            # Going down, the last use is the first: the line still holds another node's rows.
            if last_use[a] == 1:
                n_visitors[slot[arg[a]]] = 0
        for k in range(n_visitors[slot[i]]):
            j = visitors[slot[i], k]
            first, last = begin, end
            if is_sum[i] == 1:
                r, total = column[j], 0.0
                for a in range(begin, end):
                    child = arg[a]
                    if child >= 0:
                        value = lines[child, r]
                    else:
                        family, entry = leaf_family[~child], leaf_first[~child]
                        code, x = codes[leaf_line[~child], r], values[leaf_line[~child], r]
                        n_states = leaf_states[~child]
                        value = cell_value(family, entry, n_states, table, code, x, in_logs)
                    score[a - begin] = _score(weight[a], value, lines[i, r], in_logs, maximise)
                    total += score[a - begin]
                if maximise:
                    first = begin + _greatest(score, end - begin)
                else:
                    u = uniform(streams, j) * total
                    first = begin + draw_index(score, np.int64(0), end - begin, u)
                last = first + 1
            for a in range(first, last):
                child = arg[a]
                if child >= 0:
                    visitors[slot[child], n_visitors[slot[child]]] = j
                    n_visitors[slot[child]] += 1
                elif leaf_line[~child] != leaf_var[~child]:
                    owner[j, leaf_var[~child]] = ~child
                elif np.isnan(rows[j, leaf_var[~child]]):
                    leaf, var = ~child, leaf_var[~child]
                    rows[j, var] = (
                        mode[leaf]
                        if maximise
                        else _drawn(plan.leaves, leaf, linear_table, axis, axis_ptr, streams, j)
                    )


@inlined
def _drawn(
    leaves: LeafTable,
    leaf: int,
    table: Floats,
    axis: Floats,
    axis_ptr: Ints,
    streams: Streams,
    j: int,
) -> float:
    """Draw a value from a leaf."""
    var, first, n_states = leaves.var[leaf], leaves.first[leaf], leaves.n_states[leaf]
    low, high = axis_ptr[var], axis_ptr[var + 1]
    return draw(leaves.family[leaf], first, n_states, table, axis, low, high, streams, j)


class Descent:
    """Lines for the rows that move down together through an evaluated batch.

    Parameters
    ----------
    evaluator : Evaluator
        What evaluated the batch; whether it took maxima decides how rows descend.
    n_rows : int
        Greatest number of rows at a time.
    """

    def __init__(self, evaluator: Evaluator, n_rows: int):
        self.evaluator = evaluator
        self.visitors = np.empty((evaluator.program.n_slots, n_rows), dtype=np.int64)
        self.n_visitors = np.zeros(evaluator.program.n_slots, dtype=np.int64)
        self.score = np.empty(np.diff(evaluator.plan.ptr).max())
        self.owner = np.empty((n_rows, evaluator.circuit.n_features), dtype=np.int64)

    def fill(self, batch: Batch, column: Ints, streams: Streams, rows: Floats) -> None:
        """Fill the missing cells of ``rows[j]``, whose values are in column ``column[j]``."""
        made = self.evaluator
        evaluated = (batch.cells, batch.lines, batch.in_logs, made.maximise)
        self.owner[:] = -1
        lines = (self.visitors, self.n_visitors, self.score, self.owner)
        settings = (made.plan, made.tables, made.columns, made.mode)
        descend(*settings, *evaluated, column, streams, *lines, rows)
        owner = self.owner[: len(rows)]
        if made.maximise:
            made.reader.fill_modes(owner, rows)
        else:
            made.reader.draw(owner, streams, rows)
