"""How probable is each cell, given all others of its row?

A circuit is linear in the leaves of one variable, and a leaf is 1 if its cell is missing. So the
derivatives give the density of the row without that cell: ``p(x without x_v) = sum over leaves l of
v of dp / dl``. One pass up and one pass down find the derivatives for all variables. Flows cannot
replace them: a flow is derivative times value, and a division by the value fails if it is zero.
"""

from typing import Any

import numpy as np

from skpc._arrays import Floats, log_or_inf
from skpc._jit import inlined, kernel
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import check_rows, checked_cells, over_chunks
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
    most_children = int(np.diff(plan.ptr).max())
    out = np.empty((len(rows), circuit.n_features))

    def work(part: Floats, start: int) -> None:
        derivative = evaluator.flows()
        prefix = np.empty((most_children, evaluator.size))
        # A line for each variable, then two for each block, as cells have.
        n_lines = circuit.n_features + 2 * evaluator.reader.n_blocks
        without_cell = np.empty((n_lines, evaluator.size))
        for batch in evaluator.batches(part, start, refuse=False):
            n_rows = len(batch.position)
            cells = batch.cells
            in_logs = batch.in_logs
            state = (cells, n_rows, batch.lines, in_logs)
            _differentiate(plan, evaluator.tables, *state, derivative, prefix, without_cell)
            root = batch.lines[len(plan.is_sum) - 1, :n_rows]
            values = np.ascontiguousarray(part[batch.position].T)
            # Cells of variables that the circuit has been conditioned on are not read.
            values[evaluator.columns.ignored > 0] = np.nan
            if evaluator.reader.groups:
                _add_blocks(evaluator.reader, part[batch.position], in_logs, without_cell)
            log_without_cell = without_cell[: circuit.n_features, :n_rows]
            if not in_logs:
                root = log_or_inf(root)
                log_without_cell = log_or_inf(log_without_cell)
            # Values inside a circuit are relative to the base density of their cells.
            score = _base_log_densities(evaluator.columns, values)
            # Infinity minus infinity is NaN: the other cells are impossible by themselves.
            with np.errstate(invalid="ignore"):
                score += root - log_without_cell
            evaluated = batch.evaluated
            index = start + batch.position[evaluated]
            out[index] = score[:, evaluated].T
            if batch.in_logs:
                # An observed cell has no score if the other cells of its row are impossible.
                lacks_score = np.isnan(out[index]) & ~np.isnan(values[:, evaluated].T)
                refuse_impossible(np.where(lacks_score.any(axis=1), -np.inf, 0.0), index)

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    return out


def _add_blocks(reader: BlockReader, rows: Floats, in_logs: bool, out: Floats) -> None:
    """Add to the densities without each cell what blocks say of their other cells.

    ``out`` has shape (n_lines, size), as :func:`_differentiate` has filled it.
    """
    n_rows = len(rows)
    n_features = rows.shape[1]
    # The first of the two lines of a block holds the derivative of the root by the block.
    derivative = out[n_features::2, :n_rows]
    without_cell = out[:n_features, :n_rows]
    if not in_logs:
        derivative = log_or_inf(derivative)
        without_cell = log_or_inf(without_cell)
    log_without_cell = without_cell.copy()
    reader.add_without_cells(rows, derivative, log_without_cell)
    out[:n_features, :n_rows] = log_without_cell if in_logs else np.exp(log_without_cell)


@kernel
def _differentiate(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    n_rows: int,
    lines: Floats,
    in_logs: bool,
    derivative: Floats,
    prefix: Floats,
    out: Floats,
) -> None:
    """Add up the derivatives of the root with respect to the leaves of each variable.

    Parameters
    ----------
    plan, tables, cells, n_rows : Plan, Tables, Cells and int
        The order of the nodes, the parameters, the batch, and its number of rows.
    lines : array of shape (n_inner + N_SCRATCH, size)
        The values of the nodes; the last lines are scratch.
    in_logs : bool
        Whether lines and derivatives hold logs.
    derivative : array of shape (n_slots, size)
        Workspace: the derivatives by the nodes that are alive together.
    prefix : array of shape (most_children, size)
        Workspace: for each child of a product, the derivative of the product times the values of
        the children before this one.
    out : array of shape (n_features + 2 n_blocks, size)
        Takes the derivatives: a line for each variable, and the first of two for each block.
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    slot = plan.slot
    leaves = plan.leaves
    table = tables.log_table if in_logs else tables.table
    # Scratch lines: the derivative by one child along one edge, the values of a leaf, and the
    # product of the values of the children after this one.
    by_child = lines.shape[0] - FLOW
    value = lines.shape[0] - VALUE
    suffix = lines.shape[0] - QUOTIENT
    zero, unit = (-np.inf, 0.0) if in_logs else (0.0, 1.0)
    # Several leaves may read one cell: their derivatives add up.
    out[:, :n_rows] = zero
    last = len(is_sum) - 1
    # The derivative of the root by itself.
    derivative[slot[last], :n_rows] = unit
    # Parents before children: a derivative is complete when its node passes it on.
    for i in range(last, -1, -1):
        begin = ptr[i]
        end = ptr[i + 1]
        if is_sum[i] == 0:
            for r in range(n_rows):
                prefix[0, r] = derivative[slot[i], r]
            # To divide the product by the value of the child would take less work, but the value
            # may be zero, or so small that its digits are lost.
            for a in range(begin, end - 1):
                if arg[a] < 0:
                    leaf_values(
                        leaf_of(leaves, ~arg[a]), table, cells, n_rows, in_logs, lines, value
                    )
                source = arg[a] if arg[a] >= 0 else value
                _multiply(prefix, a - begin + 1, prefix, a - begin, lines, source, n_rows, in_logs)
            # Prefixes are kept for all children, while the suffix grows on the way back.
            lines[suffix, :n_rows] = unit
        for a in range(end - 1, begin - 1, -1):
            child = arg[a]
            if is_sum[i] == 1:
                factor = tables.log_weight[a] if in_logs else tables.weight[a]
                for r in range(n_rows):
                    by_sum = derivative[slot[i], r]
                    lines[by_child, r] = by_sum + factor if in_logs else by_sum * factor
            else:
                _multiply(lines, by_child, prefix, a - begin, lines, suffix, n_rows, in_logs)
                # Nobody reads the product of all children.
                if a > begin:
                    if child < 0:
                        leaf = leaf_of(leaves, ~child)
                        leaf_values(leaf, table, cells, n_rows, in_logs, lines, value)
                    source = child if child >= 0 else value
                    _multiply(lines, suffix, lines, suffix, lines, source, n_rows, in_logs)
            if child < 0:
                _add(out, plan.leaves.line[~child], lines, by_child, n_rows, in_logs)
            elif plan.last_use[a] == 1:
                # The last use on the way up is the first on the way down.
                for r in range(n_rows):
                    derivative[slot[child], r] = lines[by_child, r]
            else:
                _add(derivative, slot[child], lines, by_child, n_rows, in_logs)


@inlined
def _multiply(
    out: Floats,
    out_line: int,
    left: Floats,
    left_line: int,
    right: Floats,
    right_line: int,
    n_rows: int,
    in_logs: bool,
) -> None:
    """Write the product of a line of ``left`` and a line of ``right`` into a line of ``out``.

    Parameters
    ----------
    out, left, right : arrays of shape (n_lines, size)
        The lines.
    out_line, left_line, right_line : int
        The numbers of these lines.
    n_rows, in_logs : int and bool
        Number of rows, and whether the lines hold logs.
    """
    for r in range(n_rows):
        x = left[left_line, r]
        y = right[right_line, r]
        out[out_line, r] = x + y if in_logs else x * y


@inlined
def _add(out: Floats, out_line: int, lines: Floats, line: int, n_rows: int, in_logs: bool) -> None:
    """Add a line of ``lines`` to a line of ``out``."""
    for r in range(n_rows):
        x = out[out_line, r]
        y = lines[line, r]
        out[out_line, r] = log_sum(x, y) if in_logs else x + y


def _base_log_densities(columns: Columns, values: Floats) -> Floats:
    """Log density that all leaves of a cell have in common; NaN where the cell is missing.

    Of the shape of ``values``, (n_features, n_rows).
    """
    log_density = np.where(np.isnan(values), np.nan, 0.0)
    # The edges of cells take time to find, and are not read.
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
