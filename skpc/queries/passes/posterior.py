"""Posterior averages over the leaves of each missing cell; shared by several questions."""

from __future__ import annotations

import numpy as np

from skpc._arrays import offsets
from skpc.circuit import Circuit
from skpc.queries.passes.downward import posterior_features
from skpc.queries.passes.evaluator import Block, Evaluator
from skpc.queries.passes.rows import over_chunks

__all__ = ["refuse_impossible", "posterior_average"]


def refuse_impossible(log_root: np.ndarray, index: np.ndarray) -> None:
    """Raise if a row has probability zero: nothing can be said given what cannot be."""
    impossible = np.flatnonzero(np.isneginf(log_root))
    if len(impossible):
        raise ValueError(
            f"row {index[impossible[0]]} of X has probability zero under the circuit: its "
            "observed cells exclude each other, so nothing can be inferred from them"
        )


def posterior_average(
    circuit: Circuit,
    rows: np.ndarray,
    features: list[np.ndarray],
    n_lines: np.ndarray,
    shift: np.ndarray | None = None,
) -> np.ndarray:
    """Posterior mean of the features of the leaf behind each missing cell.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    features : list of arrays
        One for each leaf, in the order of the nodes.
    n_lines : ndarray of shape (n_features,)
        Number of features of each variable.
    shift : ndarray of shape (n_leaves,), default=None
        Which feature of the variable the first one of each leaf is; None means 0, and then a leaf
        has all features of its variable.

    Returns
    -------
    ndarray of shape (sum of n_lines, n_rows)
        The averages, one variable after the other; 0 where the cell is observed.
    """
    evaluator = Evaluator(circuit)
    first = (np.cumsum(n_lines) - n_lines)[evaluator.plan.leaves.var]
    first = first if shift is None else first + shift
    out = np.zeros((int(n_lines.sum()), len(rows)))
    ptr = offsets([len(feature) for feature in features])
    flat = np.concatenate([np.empty(0), *features])
    missing = np.isnan(rows)

    def work(part: np.ndarray, start: int) -> None:
        flows = evaluator.flows()
        target = np.empty((len(out), evaluator.size))
        for block in evaluator.blocks(part, start):
            target[:] = 0.0
            _average(evaluator, block, flows, ptr, flat, first, target)
            found = np.flatnonzero(~np.isneginf(block.root))
            if block.in_logs:
                refuse_impossible(block.root, start + block.position)
            out[:, start + block.position[found]] = target[:, found]

    over_chunks(rows, work, chunk=max(evaluator.size, 1024))
    out *= np.repeat(missing, n_lines, axis=1).T
    return out


def _average(
    evaluator: Evaluator,
    block: Block,
    flows: np.ndarray,
    ptr: np.ndarray,
    flat: np.ndarray,
    first: np.ndarray,
    target: np.ndarray,
) -> None:
    posterior_features(
        evaluator.plan,
        evaluator.tables,
        block.codes,
        block.values,
        block.incomplete,
        len(block.position),
        block.lines,
        flows,
        block.in_logs,
        ptr,
        flat,
        first,
        target,
    )
