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
    """What a pass down adds up: flows and statistics over all rows, or averages of each row.

    Attributes
    ----------
    edge_flow : array of shape (n_arguments,)
        Flows of the arguments of the plan, summed over the rows; empty where averages are wanted.
    statistic : array of shape (n_entries,)
        Sufficient statistics of the leaves, in the layout of their tables.
    features : Lines
        The features of each leaf, which are averaged with its flow as weight.
    average : array of shape (n_lines, size)
        The averages of the features, one column a row.
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
    n_rows: int,
    lines: Floats,
    flows: Floats,
    in_logs: bool,
    into: Collected,
) -> None:
    """Send the flow of the root down to the leaves, and add up what :class:`Collected` names.

    Parameters
    ----------
    plan, tables : Plan and Tables
        The order of the nodes, and the parameters.
    cells, n_rows : Cells and int
        The batch, and its number of rows.
    lines : array of shape (n_inner + N_SCRATCH, size)
        The values of the nodes, in logs if ``in_logs``; the last lines are scratch.
    flows : array of shape (n_slots, size)
        Workspace: flows of the nodes that are alive together. That of the root is given.
    in_logs : bool
        Whether the batch was evaluated in logs.
    into : Collected
        Takes flows and statistics if it has room for flows of edges; else averages, in which only
        leaves of missing cells count.
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    slot = plan.slot
    leaves = plan.leaves
    weight = tables.log_weight if in_logs else tables.weight
    table = tables.log_table if in_logs else tables.table
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
            for r in range(n_rows):
                lines[flow, r] = flows[line, r]
                total += flows[line, r]
        elif not in_logs:
            # All children of a sum need its flow over its value.
            for r in range(n_rows):
                value = lines[i, r]
                lines[quotient, r] = flows[line, r] / value if value > 0.0 else 0.0
        for a in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            child = arg[a]
            # Nobody asks for an average of observed cells.
            if child < 0 and not sums_rows and incomplete[leaves.line[~child]] == 0:
                continue
            if is_sum[i] == 1:
                source = child
                if child < 0:
                    source = lines.shape[0] - VALUE
                    leaf_values(
                        leaf_of(leaves, ~child), table, cells, n_rows, in_logs, lines, source
                    )
                total = _divide_flow(lines, flows, line, i, source, weight[a], in_logs, n_rows)
            # The line FLOW now holds the flow of this child, and ``total`` its sum over the rows.
            if sums_rows:
                into.edge_flow[a] += total
            if child >= 0:
                # The last use on the way up is the first on the way down: until then the line
                # holds the flow of another node.
                is_new = plan.last_use[a] == 1
                child_line = slot[child]
                for r in range(n_rows):
                    before = 0.0 if is_new else flows[child_line, r]
                    flows[child_line, r] = lines[flow, r] + before
            elif sums_rows:
                leaf = leaf_of(leaves, ~child)
                add_statistics(leaf, tables.log_table, cells, n_rows, lines, flow, into.statistic)
            else:
                _add_features(lines, into, ~child, n_rows)


@inlined
def _divide_flow(
    lines: Floats,
    flows: Floats,
    line: int,
    i: int,
    source: int,
    weight: float,
    in_logs: bool,
    n_rows: int,
) -> float:
    """Write the flow of one child of a sum into the line FLOW; return its total over the rows.

    Parameters
    ----------
    lines, flows : arrays
        See :func:`flow_down`.
    line, i : int
        The line of the sum in ``flows``, and its number in the plan.
    source : int
        The line of the child's values.
    weight : float
        The weight of the child, its log if ``in_logs``.
    in_logs, n_rows : bool and int
        See :func:`flow_down`.
    """
    flow = lines.shape[0] - FLOW
    quotient = lines.shape[0] - QUOTIENT
    total = 0.0
    # A quotient of logs is a difference, which needs no line of its own.
    if in_logs:
        for r in range(n_rows):
            share = flows[line, r] * fast_exp(weight + lines[source, r] - lines[i, r])
            lines[flow, r] = share
            total += share
    else:
        for r in range(n_rows):
            share = lines[quotient, r] * weight * lines[source, r]
            lines[flow, r] = share
            total += share
    return total


@internal_kernel
def _add_features(lines: Floats, into: Collected, leaf: int, n_rows: int) -> None:
    """Add the features of a leaf, weighted by the line FLOW, to the averages of the rows."""
    flow = lines.shape[0] - FLOW
    features = into.features
    begin = features.feature_ptr[leaf]
    end = features.feature_ptr[leaf + 1]
    for place in range(begin, end):
        feature = features.feature[place]
        average_line = features.first_line[leaf] + place - begin
        # Rows in the inner loop, as the numbers of a line stand together in memory.
        for r in range(n_rows):
            into.average[average_line, r] += feature * lines[flow, r]


def posterior_average(
    circuit: Circuit, rows: Floats, features: Lines, events: Events | None = None
) -> Floats:
    """Posterior means of the features of the leaf that generated each missing cell.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    features : Lines
        The features of each leaf, and the lines of the result that these belong to.
    events : Events, default=None
        The event that each row stands for, whose known cells it has.

    Returns
    -------
    ndarray of shape (n_lines, n_rows)
        The averages; those of observed cells are arbitrary.
    """
    evaluator = Evaluator(circuit, events=events)
    # The root is the last node of the plan.
    root = evaluator.plan.slot[-1]
    out = np.zeros((features.n_lines, len(rows)))

    def work(part: Floats, start: int) -> None:
        flows = evaluator.flows()
        average = np.empty((len(out), evaluator.size))
        into = Collected(_NO_FLOATS, _NO_FLOATS, features, average)
        for batch in evaluator.batches(part, start):
            average[:] = 0.0
            # A whole row enters the root.
            flows[root] = 1.0
            state = (batch.cells, len(batch.position), batch.lines, flows, batch.in_logs)
            flow_down(evaluator.plan, evaluator.tables, *state, into)
            # The others are too improbable for this batch, and follow in a batch of logs.
            out[:, start + batch.position[batch.evaluated]] = average[:, batch.evaluated]

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    return out
