"""Which completion of a row is the most probable one?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.descent import Descent
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import check_rows, over_chunks


def mpe(circuit: Circuit, X: Any) -> Floats:
    """Most probable explanation: fill the missing cells of each row with their joint mode.

    The answer is exact if the circuit is deterministic (``circuit.deterministic``). Otherwise sums
    are replaced by maxima, which finds the best completion within one induced tree: usually a good
    one, not always the most probable.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with their missing cells filled. The mode of a bin is its middle, and the mode of a
        tail its edge.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Notes
    -----
    The mode of a density depends on the units of the numeric columns; for tables with numbers the
    posterior mean (:func:`moments`) is often the better completion.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import mpe
    >>> builder = CircuitBuilder(n_states=[3])
    >>> _ = builder.discrete(0, np.log([0.2, 0.5, 0.3]))
    >>> mpe(builder.build(), [[np.nan], [2.0]])
    array([[1.],
           [2.]])
    """
    rows = check_rows(circuit, X)
    evaluator = Evaluator(circuit, maximise=True)
    out = rows.copy()

    def work(part: Floats, start: int) -> None:
        descent, no_streams = Descent(evaluator, evaluator.size), np.empty(0, dtype=np.uint64)
        for batch in evaluator.batches(part, start):
            first = start + int(batch.position[0])
            column = np.arange(len(batch.position))
            descent.fill(batch, column, no_streams, out[first : first + len(column)])

    over_chunks(rows, work)
    return out
