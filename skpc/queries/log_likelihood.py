"""How probable is a row?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._jit import kernel
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.induced import (
    InducedPlan,
    induced_plan,
    induced_values,
    probabilities,
    walk,
    walk_observed,
)
from skpc.queries.passes.plan import Plan, Tables, plan_of, tables_of
from skpc.queries.passes.rows import (
    check_rows,
    new_cells,
    over_chunks,
    read_batch,
    refuse_cell,
)
from skpc.queries.passes.upward import TINY, upward, upward_log
from skpc.variables import Columns

#: Rows evaluated at a time: a line of values then takes 4 KiB and the live ones stay in cache.
_BATCH = 512
#: A row with missing cells may take one visit for so many edges of the circuit: with more, a pass
#: over all edges, for many rows at a time, is faster. It usually takes so many for each column.
_EDGES_OF_A_VISIT, _VISITS_OF_A_COLUMN = 1000, 4


def log_likelihood(circuit: Circuit, X: Any) -> Floats:
    """Log density of each row, missing cells integrated out.

    Parameters
    ----------
    circuit : Circuit
        The distribution. Cells of variables that it has been conditioned on are not read.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log densities in nats, with respect to the counting measure on states and the Lebesgue
        measure on numbers; -inf for impossible rows, 0 for rows with every cell missing.

    Raises
    ------
    ValueError
        If the shape is wrong or a cell is neither missing nor a state (or finite number).

    Notes
    -----
    Complete rows of a deterministic circuit follow their induced tree, at the cost of one visit a
    variable. Rows with missing cells visit what their observed cells do not exclude, if that is
    little; other rows take a pass over all edges.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import log_likelihood
    >>> builder = CircuitBuilder(n_states=[3])
    >>> _ = builder.discrete(0, np.log([0.2, 0.3, 0.5]))
    >>> circuit = builder.build()
    >>> np.exp(log_likelihood(circuit, [[0.0], [2.0], [np.nan]]))
    array([0.2, 0.5, 1. ])
    """
    rows = check_rows(circuit, X)
    if not circuit.deterministic or circuit.blocks or not np.all(np.isnan(circuit.observed)):
        return _feed_forward(circuit, rows)
    out = _along_induced_trees(circuit, rows)
    most_visits = circuit.n_edges // _EDGES_OF_A_VISIT
    left = np.flatnonzero(np.isnan(out))
    if len(left) and most_visits > _VISITS_OF_A_COLUMN * circuit.n_features:
        out[left] = _of_observed(circuit, rows[left], most_visits)
        left = left[np.isnan(out[left])]
    if len(left):
        out[left] = _feed_forward(circuit, rows[left])
    return out


def _along_induced_trees(circuit: Circuit, rows: Floats) -> Floats:
    out = np.empty(len(rows))
    plan: InducedPlan = induced_plan(circuit.structure)
    value, columns, log_table = induced_values(circuit), circuit.columns, circuit.leaf_table
    table = plan_of(circuit.structure).plan.leaves

    def work(part: Floats, start: int) -> None:
        target = out[start : start + len(part)]
        bad = walk(plan, value, table, log_table, columns, part, target)
        refuse_cell(columns, part, bad, start)

    over_chunks(rows, work)
    return out


def _of_observed(circuit: Circuit, rows: Floats, most_visits: int) -> Floats:
    """Follow what the observed cells leave; NaN for rows that leave more than some visits."""
    out = np.empty(len(rows))
    plan, columns = induced_plan(circuit.structure), circuit.columns
    given = probabilities(circuit, circuit.leaf_table)
    table = plan_of(circuit.structure).plan.leaves

    def work(part: Floats, start: int) -> None:
        target = out[start : start + len(part)]
        walk_observed(plan, given, table, columns, part, most_visits, target)

    over_chunks(rows, work)
    return out


def _feed_forward(circuit: Circuit, rows: Floats) -> Floats:
    program, columns = plan_of(circuit.structure), circuit.columns
    tables = tables_of(circuit, circuit.leaf_table)
    out, reader = np.empty(len(rows)), BlockReader(circuit)

    def work(part: Floats, start: int) -> None:
        target, of_blocks = out[start : start + len(part)], reader.values(part, start)
        settings = (program.plan, program.n_slots, tables, columns)
        bad = _evaluate(*settings, part, of_blocks, target, False)
        refuse_cell(columns, part, bad, start)
        again = np.flatnonzero(np.isnan(target))
        if len(again):
            redone = np.empty(len(again))
            _evaluate(*settings, part[again], of_blocks[again], redone, True)
            target[again] = redone

    over_chunks(rows, work)
    return out


@kernel
def _evaluate(
    plan: Plan,
    n_slots: int,
    tables: Tables,
    columns: Columns,
    rows: Floats,
    of_blocks: Floats,
    out: Floats,
    in_logs: bool,
) -> int:
    """Log-likelihood of rows, batch by batch; NaN where the linear domain is too small."""
    cells = new_cells(rows.shape[1] + 2 * of_blocks.shape[1], np.int64(_BATCH))
    base = cells.base
    lines = np.empty((n_slots + 2, _BATCH))
    root = plan.slot[len(plan.slot) - 1]
    for start in range(0, len(rows), _BATCH):
        n = min(_BATCH, len(rows) - start)
        bad = read_batch(columns, rows, of_blocks, start, n, cells)
        if bad >= 0:
            return bad
        if in_logs:
            upward_log(plan, plan.slot, tables, cells, n, lines, not in_logs)
            for r in range(n):
                out[start + r] = base[r] + lines[root, r]
        else:
            upward(plan, plan.slot, tables, cells, n, lines)
            for r in range(n):
                value = lines[root, r]
                out[start + r] = base[r] + math.log(value) if value >= TINY else np.nan
    return -1
