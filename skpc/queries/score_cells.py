"""How probable is each cell, given all others of its row?

A circuit is linear in the leaves of one variable, and a leaf is 1 if its cell is missing. So the
derivatives give the density of the row without that cell: ``p(x without x_v) = sum over leaves l of
v of dp / dl``. One pass up and one pass down find the derivatives for all variables. The flows of
other questions cannot replace them: they are derivative times value, and a division by the value
fails if it is zero.
"""

from typing import Any

import numpy as np

from skpc._arrays import Floats, log_or_inf
from skpc._jit import inlined, kernel
from skpc.circuit import Circuit
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import (
    MultivariateReader,
    check_rows,
    checked_cells,
    over_chunks,
)
from skpc.queries.passes.upward import FLOW, QUOTIENT, VALUE, Evaluator, refuse_impossible
from skpc.variables import Columns
from skpc.variables.families import leaf_values, log_sum
from skpc.variables.leaves import Cells, leaf_of


def score_cells(circuit: Circuit, X: Any) -> Floats:
    """Log density of each cell given all other observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        ``log p(x_v | the rest)`` in nats; NaN if the cell is missing (or belongs to a variable
        that the circuit has been conditioned on), -inf if it is impossible.

    Raises
    ------
    ValueError
        If the other cells of a row have probability zero, or a cell cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import score_cells
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product(
    ...     [builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))]
    ... )
    >>> b = builder.product(
    ...     [builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))]
    ... )
    >>> _ = builder.sum(
    ...     [a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1]
    ... )
    >>> np.exp(score_cells(builder.build(), [[0.0, 1.0], [np.nan, 1.0]])).round(2)
    array([[0.14, 0.1 ],
           [ nan, 0.35]])
    """
    rows = check_rows(circuit, X)
    evaluator = Evaluator(circuit)
    plan = evaluator.plan
    n_arguments = int(np.diff(plan.ptr).max())
    out = np.empty((len(rows), circuit.n_features))

    def work(part: Floats, start: int) -> None:
        derivative = evaluator.flows()
        before = np.empty((n_arguments, evaluator.size))
        # A line for each variable, then two for each leaf of several, as cells have.
        target = np.empty((circuit.n_features + 2 * evaluator.reader.n_leaves, evaluator.size))
        for batch in evaluator.batches(part, start, refuse=False):
            n = len(batch.position)
            cells = batch.cells
            in_logs = batch.in_logs
            state = (cells, n, batch.lines, in_logs)
            _differentiate(plan, evaluator.tables, *state, derivative, before, target)
            root = batch.lines[len(plan.is_sum) - 1, :n]
            values = np.ascontiguousarray(part[batch.position].T)
            # Cells of variables that the circuit has been conditioned on are not read.
            values[evaluator.columns.ignored > 0] = np.nan
            if evaluator.reader.groups:
                _add_groups(evaluator.reader, part[batch.position], in_logs, target)
            log_rest = target[: circuit.n_features, :n]
            if not in_logs:
                root = log_or_inf(root)
                log_rest = log_or_inf(log_rest)
            # Values inside a circuit are relative to a density that all leaves have in common.
            score = _log_densities(evaluator.columns, values)
            # Infinity minus infinity is NaN: the others are impossible by themselves.
            with np.errstate(invalid="ignore"):
                score += root - log_rest
            evaluated = batch.evaluated
            index = start + batch.position[evaluated]
            out[index] = score[:, evaluated].T
            if batch.in_logs:
                # An observed cell without a score: the rest of its row is impossible.
                lost = np.isnan(out[index]) & ~np.isnan(values[:, evaluated].T)
                refuse_impossible(np.where(lost.any(axis=1), -np.inf, 0.0), index)

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    return out


def _add_groups(reader: MultivariateReader, rows: Floats, in_logs: bool, target: Floats) -> None:
    """Add the derivatives of leaves of several variables, times what they say without each cell."""
    n = len(rows)
    n_features = rows.shape[1]
    # Derivatives stand in the first of the two lines of each such leaf.
    derivative = target[n_features::2, :n]
    without_cell = target[:n_features, :n]
    if not in_logs:
        derivative = log_or_inf(derivative)
        without_cell = log_or_inf(without_cell)
    without_cell = without_cell.copy()
    reader.add_without_cells(rows, derivative, without_cell)
    target[:n_features, :n] = without_cell if in_logs else np.exp(without_cell)


@kernel
def _differentiate(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    in_logs: bool,
    derivative: Floats,
    before: Floats,
    out: Floats,
) -> None:
    """Add up the derivatives of the root with respect to the leaves of each variable.

    Parameters
    ----------
    plan, tables, cells, n : Plan, Tables, Cells and int
        The order of the nodes, the parameters, the batch, and its number of rows.
    lines : array of shape (n_inner + N_SCRATCH, size)
        The values of the nodes; the last lines are scratch.
    in_logs : bool
        Whether lines and derivatives hold logs.
    derivative : array of shape (n_slots, size)
        Workspace: the derivatives by the nodes that are alive together.
    before : array of shape (most_children, size)
        Workspace: for each argument of a product, the product of those that stand before it.
    out : array of shape (n_lines, size)
        Takes the derivatives.
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    slot = plan.slot
    leaves = plan.leaves
    table = tables.log_table if in_logs else tables.table
    sent = lines.shape[0] - FLOW
    value = lines.shape[0] - VALUE
    after = lines.shape[0] - QUOTIENT
    zero, unit = (-np.inf, 0.0) if in_logs else (0.0, 1.0)
    # Several leaves may read one cell: their derivatives add up.
    out[:, :n] = zero
    last = len(is_sum) - 1
    # The derivative of the root by itself.
    derivative[slot[last], :n] = unit
    # Parents before children: a derivative is complete when its node passes it on.
    for i in range(last, -1, -1):
        begin = ptr[i]
        end = ptr[i + 1]
        if is_sum[i] == 0:
            for r in range(n):
                before[0, r] = derivative[slot[i], r]
            # Dividing by the value of the argument would be less, but it may be zero, or so small
            # that its digits are lost.
            for a in range(begin, end - 1):
                if arg[a] < 0:
                    leaf_values(leaf_of(leaves, ~arg[a]), table, cells, n, in_logs, lines, value)
                source = arg[a] if arg[a] >= 0 else value
                _times(before, a - begin + 1, before, a - begin, lines, source, n, in_logs)
            # Products before each argument are kept, those behind it grow on the way.
            lines[after, :n] = unit
        for a in range(end - 1, begin - 1, -1):
            child = arg[a]
            if is_sum[i] == 1:
                factor = tables.log_weight[a] if in_logs else tables.weight[a]
                for r in range(n):
                    above = derivative[slot[i], r]
                    lines[sent, r] = above + factor if in_logs else above * factor
            else:
                _times(lines, sent, before, a - begin, lines, after, n, in_logs)
                # Nobody reads the product of all arguments.
                if a > begin:
                    if child < 0:
                        leaf = leaf_of(leaves, ~child)
                        leaf_values(leaf, table, cells, n, in_logs, lines, value)
                    source = child if child >= 0 else value
                    _times(lines, after, lines, after, lines, source, n, in_logs)
            if child < 0:
                _add(out, plan.leaves.line[~child], lines, sent, n, in_logs)
            elif plan.last_use[a] == 1:
                # Going down, the last use is the first: nothing has come here yet.
                for r in range(n):
                    derivative[slot[child], r] = lines[sent, r]
            else:
                _add(derivative, slot[child], lines, sent, n, in_logs)


@inlined
def _times(
    target: Floats, t: int, left: Floats, a: int, right: Floats, b: int, n: int, in_logs: bool
) -> None:
    """Write the product of two lines into a third.

    Parameters
    ----------
    target, t, left, a, right, b : arrays and int
        Line ``t`` takes the product of line ``a`` and line ``b``.
    n, in_logs : int and bool
        Number of rows, and whether the lines hold logs.
    """
    for r in range(n):
        x = left[a, r]
        y = right[b, r]
        target[t, r] = x + y if in_logs else x * y


@inlined
def _add(target: Floats, t: int, lines: Floats, a: int, n: int, in_logs: bool) -> None:
    for r in range(n):
        x = target[t, r]
        y = lines[a, r]
        target[t, r] = log_sum(x, y) if in_logs else x + y


def _log_densities(columns: Columns, values: Floats) -> Floats:
    """What all leaves of a cell have in common, shape (n_features, n); NaN where missing."""
    log_density = np.where(np.isnan(values), np.nan, 0.0)
    # Nobody asks for the edges of cells here, which take time to find.
    has_cells = np.zeros_like(columns.has_cells)
    # Categories have no density of their own.
    is_number = (columns.n_states == 0) | (np.diff(columns.axis_ptr) > 0)
    for var in np.flatnonzero(is_number).tolist():
        place = slice(var, var + 1)
        # The axes of all columns stay one array, into which the offsets of this column point.
        column = Columns(
            columns.n_states[place],
            columns.axis_ptr[var : var + 2],
            columns.axis,
            columns.family[place],
            columns.log_peak[place],
            columns.ignored[place],
            has_cells[place],
        )
        log_density[var] += checked_cells(column, values[var, :, np.newaxis]).base
    return log_density
