"""How probable is a row, or some of its cells given others?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.induced import EDGES_OF_A_VALUE, log_joint, walkable
from skpc.queries.passes.rows import check_rows
from skpc.queries.passes.upward import feed_forward, refuse_impossible


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
    Complete rows of a deterministic circuit, or of a mixture of such circuits, follow their induced
    trees, at the cost of one visit a variable. Other rows take a pass over all edges.

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
    if walkable(circuit, EDGES_OF_A_VALUE) is None:
        return feed_forward(circuit, rows)
    joint = log_joint(circuit, rows)
    out = joint[:, 0] if joint.shape[1] == 1 else logsumexp(joint, axis=1)
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(incomplete):
        out[incomplete] = feed_forward(circuit, rows[incomplete])
    return np.asarray(out)


def log_conditional(circuit: Circuit, X: Any, given: Any) -> Floats:
    """Log density of the other cells of each row, given the cells of some variables.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells, which are integrated out on both sides.
    given : array-like of int
        The variables that are known.

    Returns
    -------
    ndarray of shape (n_rows,)
        In nats; -inf if the other cells are impossible, 0 if all of them are missing.

    Raises
    ------
    ValueError
        If the known cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import log_conditional
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product([builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))])
    >>> b = builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))])
    >>> _ = builder.sum([a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1])
    >>> np.exp(log_conditional(builder.build(), [[1.0, 1.0]], given=[0]))
    array([0.6])
    """
    rows = check_rows(circuit, X)
    known = np.full_like(rows, np.nan)
    known[:, given] = rows[:, given]
    log_known = log_likelihood(circuit, known)
    refuse_impossible(log_known, np.arange(len(rows)))
    return log_likelihood(circuit, rows) - log_known
