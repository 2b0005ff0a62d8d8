"""Posterior averages over the leaves of each missing cell; shared by several questions."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.downward import posterior_features
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import over_chunks
from skpc.variables.leaves import Lines


def posterior_average(circuit: Circuit, rows: Floats, lines: Lines) -> Floats:
    """Posterior mean of the features of the leaf behind each missing cell.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    lines : Lines
        The features of each leaf.

    Returns
    -------
    ndarray of shape (n_lines, n_rows)
        The averages; those of observed cells are arbitrary.
    """
    evaluator = Evaluator(circuit)
    plan, out = evaluator.plan, np.zeros((lines.n_lines, len(rows)))
    features = (lines.feature_ptr, lines.feature, lines.first)

    def work(part: Floats, start: int) -> None:
        flows = evaluator.flows()
        target = np.empty((len(out), evaluator.size))
        for batch in evaluator.batches(part, start):
            target[:] = 0.0
            state = (batch.cells, len(batch.position), batch.lines, flows, batch.in_logs)
            posterior_features(plan, evaluator.tables, *state, *features, target)
            out[:, start + batch.position[batch.found]] = target[:, batch.found]

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    return out
