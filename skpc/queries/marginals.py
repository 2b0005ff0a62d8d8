"""Which state is each missing cell in, given the rest of its row?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc.circuit import GAUSSIAN, Circuit
from skpc.queries.passes.plan import plan_of
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows

__all__ = ["marginals"]


def marginals(circuit: Circuit, X: Any) -> list[np.ndarray]:
    """Posterior marginal distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    list of ndarray
        For each variable an array of shape (n_rows, n_states): the probabilities of its states,
        or of the bins of its histogram axis, tails first and last. An observed cell has
        probability one for its own state. A numeric variable without an axis has an array of
        shape (n_rows, 0); see :func:`moments` for these.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import marginals
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> marginals(builder.build(), [[np.nan], [0.0]])
    [array([[0.25, 0.75],
           [1.  , 0.  ]])]
    """
    rows = check_rows(circuit, X)
    structure, leaves = circuit.structure, plan_of(circuit.structure).plan.leaves
    features = []
    for node, family in zip(leaves.node, leaves.family):
        param = circuit.param[structure.param_ptr[node] : structure.param_ptr[node + 1]]
        features.append(np.empty(0) if family == GAUSSIAN else np.exp(param))
    average = posterior_average(circuit, rows, features, structure.n_states)
    parts = np.split(average, np.cumsum(structure.n_states)[:-1])
    return [
        _with_observed(circuit, var, rows[:, var], np.ascontiguousarray(part.T))
        for var, part in enumerate(parts)
    ]


def _with_observed(circuit: Circuit, var: int, column: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Normalise away rounding and put all the mass of observed cells on their states."""
    if prob.shape[1] == 0:
        return prob
    seen = np.flatnonzero(~np.isnan(column))
    edges = circuit.structure.edges_of_axis(var)
    state = np.searchsorted(edges, column[seen], "right") if len(edges) else column[seen]
    prob[seen, state.astype(np.int64)] = 1.0
    return np.asarray(prob / prob.sum(axis=1, keepdims=True))
