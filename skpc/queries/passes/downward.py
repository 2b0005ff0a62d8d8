"""Passes from the root down: what part of a row flows through each edge.

The flow of the root is one (or the weight of the row). A product gives its whole flow to every
child. A sum divides its flow among its children in proportion to weight times value. So the flow of
a leaf is the posterior probability that this leaf generated its part of the row.

``tests/naive/circuit.py`` says the same by recursion over nodes, one row at a time.
"""

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel, kernel
from skpc.circuit import Circuit
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import over_chunks
from skpc.queries.passes.upward import FLOW, QUOTIENT, VALUE, Evaluator
from skpc.variables.events import Events
from skpc.variables.families import add_statistics, leaf_values
from skpc.variables.leaves import Cells, Lines, leaf_of

_NO_FLOATS = np.empty(0)
_NO_INTS = np.empty(0, dtype=np.int64)
_NO_FEATURES = Lines(_NO_INTS, _NO_FLOATS, _NO_INTS, 0)


class Collected(NamedTuple):
    """What a pass down adds up, over the rows or for each of them.

    Attributes
    ----------
    edge_flow : array of shape (n_arguments,)
        Flows of the arguments of the plan, summed over the rows; empty where each row has averages
        of its own.
    statistic : array of shape (n_entries,)
        Sufficient statistics of the leaves, in the layout of their tables.
    features : Lines
        What each leaf adds to lines of ``average``, times its flow; nothing by default.
    average : array of shape (n_lines, size)
        The averages of each row.
    """

    edge_flow: Floats
    statistic: Floats
    features: Lines = _NO_FEATURES
    average: Floats = np.empty((0, 0))


@kernel
def flow_down(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    flows: Floats,
    in_logs: bool,
    into: Collected,
) -> None:
    """Send the flow of the root down to the leaves and collect what it says there.

    Parameters
    ----------
    plan, tables : Plan and Tables
        The order of the nodes, and the parameters.
    cells, n : Cells and int
        The batch, and its number of rows.
    lines : array of shape (n_inner + N_SCRATCH, size)
        The values of the nodes, in logs if ``in_logs``; the last lines are scratch.
    flows : array of shape (n_slots, size)
        Flows of the nodes that are alive together. That of the root has been set.
    in_logs : bool
        Whether the batch was evaluated in logs.
    into : Collected
        Takes sums over rows if it has edges; else averages of each row, in which only leaves of
        missing cells count.
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    slot = plan.slot
    leaves = plan.leaves
    weight = tables.log_weight if in_logs else tables.weight
    table = tables.log_table if in_logs else tables.table
    # Either sums over rows are wanted, or averages for each row.
    sums_rows = len(into.edge_flow) > 0
    incomplete = cells.incomplete
    flow = lines.shape[0] - FLOW
    quotient = lines.shape[0] - QUOTIENT
    # Parents before children: the flow of a node is complete when its turn comes.
    for i in range(len(is_sum) - 1, -1, -1):
        line = slot[i]
        total = 0.0
        if is_sum[i] == 0:
            # All children of a product get its whole flow.
            for r in range(n):
                lines[flow, r] = flows[line, r]
                total += flows[line, r]
        elif not in_logs:
            # All children of a sum need its flow over its value.
            for r in range(n):
                value = lines[i, r]
                lines[quotient, r] = flows[line, r] / value if value > 0.0 else 0.0
        for a in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            child = arg[a]
            # An observed cell has no average to fill.
            if child < 0 and not sums_rows and incomplete[leaves.line[~child]] == 0:
                continue
            if is_sum[i] == 1:
                source = child
                if child < 0:
                    source = lines.shape[0] - VALUE
                    leaf_values(leaf_of(leaves, ~child), table, cells, n, in_logs, lines, source)
                total = _send(lines, flows, line, i, source, weight[a], in_logs, n)
            # Children of a product have the flow, and its total, of the product.
            if sums_rows:
                into.edge_flow[a] += total
            if child >= 0:
                # Going down, the last use is the first: until then the line holds the flow of
                # another node.
                starts = plan.last_use[a] == 1
                below = slot[child]
                for r in range(n):
                    flows[below, r] = lines[flow, r] + (0.0 if starts else flows[below, r])
            elif sums_rows:
                leaf = leaf_of(leaves, ~child)
                add_statistics(leaf, tables.log_table, cells, n, lines, flow, into.statistic)
            else:
                _add_features(lines, into, ~child, n)


@inlined
def _send(
    lines: Floats,
    flows: Floats,
    line: int,
    i: int,
    source: int,
    weight: float,
    in_logs: bool,
    n: int,
) -> float:
    """Write into the line FLOW what a child of a sum gets, and return its total.

    Parameters
    ----------
    lines, flows : arrays
        See :func:`flow_down`.
    line, i : int
        The line of the sum among the flows, and the sum.
    source : int
        The line of the child's values.
    weight : float
        The weight of the child, its log if ``in_logs``.
    in_logs, n : bool and int
        See :func:`flow_down`.
    """
    flow = lines.shape[0] - FLOW
    quotient = lines.shape[0] - QUOTIENT
    total = 0.0
    # In logs a quotient is a difference, so that each child divides by itself.
    if in_logs:
        for r in range(n):
            sent = flows[line, r] * fast_exp(weight + lines[source, r] - lines[i, r])
            lines[flow, r] = sent
            total += sent
    else:
        for r in range(n):
            sent = lines[quotient, r] * weight * lines[source, r]
            lines[flow, r] = sent
            total += sent
    return total


@internal_kernel
def _add_features(lines: Floats, into: Collected, leaf: int, n: int) -> None:
    """Add the features of a leaf, weighted by the line FLOW, to the averages of the rows."""
    flow = lines.shape[0] - FLOW
    features = into.features
    begin = features.feature_ptr[leaf]
    end = features.feature_ptr[leaf + 1]
    for f in range(begin, end):
        # One loop over rows for each feature: both lines stand together in memory.
        factor = features.feature[f]
        out = features.first_line[leaf] + f - begin
        for r in range(n):
            into.average[out, r] += factor * lines[flow, r]


def posterior_average(
    circuit: Circuit, rows: Floats, lines: Lines, events: Events | None = None
) -> Floats:
    """Posterior mean of the features of the leaf behind each missing cell.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    lines : Lines
        The features of each leaf.
    events : Events, default=None
        What the rows stand for, whose known cells they have.

    Returns
    -------
    ndarray of shape (n_lines, n_rows)
        The averages; those of observed cells are arbitrary.
    """
    evaluator = Evaluator(circuit, events=events)
    # The root is the last node of the plan.
    root = evaluator.plan.slot[-1]
    out = np.zeros((lines.n_lines, len(rows)))

    def work(part: Floats, start: int) -> None:
        flows = evaluator.flows()
        average = np.empty((len(out), evaluator.size))
        into = Collected(_NO_FLOATS, _NO_FLOATS, lines, average)
        for batch in evaluator.batches(part, start):
            average[:] = 0.0
            # Each row is divided as a whole.
            flows[root] = 1.0
            state = (batch.cells, len(batch.position), batch.lines, flows, batch.in_logs)
            flow_down(evaluator.plan, evaluator.tables, *state, into)
            # Rows that come again in logs have no sound values in this batch.
            out[:, start + batch.position[batch.evaluated]] = average[:, batch.evaluated]

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    return out
