"""Which state is each missing cell in, given the rest of its row?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.posteriors import posteriors


def marginals(circuit: Circuit, X: Any) -> list[Floats | None]:
    """Posterior marginal distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    list of ndarray or None
        For each variable an array of shape (n_rows, n_states): the probabilities of its states,
        or of the bins of its histogram axis, tails first and last. An observed cell has
        probability one for its own state. None for a variable of numbers without an axis; see
        :func:`posteriors` for these.

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
    with_states = np.flatnonzero(circuit.n_states).tolist()
    found = dict(zip(with_states, posteriors(circuit, X, with_states)))
    return [found[v].probabilities if v in found else None for v in range(circuit.n_features)]
