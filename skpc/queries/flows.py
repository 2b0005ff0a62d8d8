"""How many rows are expected to use each part of the circuit?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.downward import collect_statistics
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import check_rows, over_chunks


class ExpectedStatistics(NamedTuple):
    """Expected edge counts, leaf statistics, and the log-likelihood they were computed at."""

    edge_flow: Floats
    leaf_statistic: Floats
    log_likelihood: float


def flows(circuit: Circuit, X: Any, sample_weight: Any = None) -> Floats:
    """Expected number of rows that pass each edge.

    A row is divided among the children of a sum in proportion to their posterior probability, and
    goes to all children of a product.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows; None counts each row once.

    Returns
    -------
    ndarray of shape (n_edges,)
        Expected counts. If the root is a sum, the counts of its edges add up to the total weight.

    Raises
    ------
    ValueError
        If a row has probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import flows
    >>> builder = CircuitBuilder(n_states=[2])
    >>> zero, one = builder.indicator(0, 0), builder.indicator(0, 1)
    >>> _ = builder.sum([zero, one], np.log([0.5, 0.5]))
    >>> flows(builder.build(), [[0.0], [1.0], [1.0], [np.nan]])
    array([1.5, 2.5])
    """
    rows = check_rows(circuit, X)
    weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != (len(rows),):
        raise ValueError(f"sample_weight must have shape ({len(rows)},), got {weight.shape}")
    return expected_statistics(circuit, rows, weight).edge_flow


def expected_statistics(circuit: Circuit, rows: Floats, weight: Floats) -> ExpectedStatistics:
    """The E-step: expected counts of edges and statistics of leaves.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, as returned by ``check_rows``.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    ExpectedStatistics
        Edge counts in the order of the edges, leaf statistics in the layout of the leaf tables,
        and the weighted sum of the rows' log-likelihoods (nats).
    """
    evaluator = Evaluator(circuit)
    n_arguments = len(evaluator.plan.arg)
    n_entries = len(evaluator.tables.log_table)

    def work(part: Floats, start: int) -> tuple[np.ndarray, np.ndarray, float]:
        edge_flow, statistic, total = np.zeros(n_arguments), np.zeros(n_entries), 0.0
        flow, of_blocks = evaluator.flows(), np.zeros((len(part), evaluator.reader.n_blocks))
        for batch in evaluator.batches(part, start):
            found, of_rows = batch.found, np.zeros(len(batch.position))
            of_rows[found] = weight[start + batch.position[found]]
            total += float(of_rows[found] @ batch.root[found])
            flow[evaluator.plan.slot[-1], : len(of_rows)] = of_rows
            state = (batch.cells, len(of_rows), batch.lines, flow, batch.in_logs)
            collect_statistics(evaluator.plan, evaluator.tables, *state, edge_flow, statistic)
            reached = batch.cells.values[circuit.n_features + 1 :: 2, : len(of_rows)]
            of_blocks[batch.position] += reached.T
        evaluator.reader.add_statistics(part, of_blocks, statistic)
        return edge_flow, statistic, total

    # Parts are added up in their order, so that threads do not change the sums.
    parts = over_chunks(rows, work)
    by_edge = np.zeros(circuit.n_edges + 1)
    by_edge[evaluator.program.edge] = sum(part[0] for part in parts)
    statistic = sum((part[1] for part in parts), np.zeros(n_entries))
    return ExpectedStatistics(by_edge[:-1], statistic, sum(part[2] for part in parts))
