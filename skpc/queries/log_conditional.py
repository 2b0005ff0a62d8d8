"""How probable are some cells of a row, given others?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.log_likelihood import log_likelihood
from skpc.queries.passes.evaluator import refuse_impossible
from skpc.queries.passes.rows import check_rows


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
