"""Which rows does the circuit generate, alone or given some of their cells?"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats
from skpc._random import start_streams
from skpc._validation import check_n_samples
from skpc.circuit import Circuit
from skpc.queries.passes.descent import Descent
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import check_rows, over_chunks


def sample(circuit: Circuit, n_samples: int = 1, random_state: Any = None) -> Floats:
    """Draw independent rows.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    n_samples : int, default=1
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        The same seed gives the same rows on any number of threads.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Complete encoded rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import sample
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.7, 0.3]))
    >>> float(sample(builder.build(), 10_000, random_state=0).mean().round(1))
    0.3
    """
    n_samples = check_n_samples(n_samples)
    empty = check_rows(circuit, np.full((1, circuit.n_features), np.nan))
    evaluator = Evaluator(circuit, size=1)
    # All rows start from the same nothing, so one evaluated row serves them all.
    batch = next(evaluator.batches(empty))
    rows = np.repeat(empty, n_samples, axis=0)
    seed = _seed(random_state)

    def work(part: Floats, start: int) -> None:
        column, streams = np.zeros(len(part), dtype=np.int64), start_streams(seed, len(part), start)
        Descent(evaluator, len(part)).fill(batch, column, streams, part)

    over_chunks(rows, work, chunk=512)
    return rows


def sample_missing(circuit: Circuit, X: Any, random_state: Any = None) -> Floats:
    """Fill the missing cells of each row with one joint draw given its observed cells.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    random_state : int, RandomState instance or None, default=None
        The same seed gives the same draws on any number of threads.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with their missing cells filled.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import sample_missing
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> _ = builder.product([builder.indicator(0, 1), builder.indicator(1, 0)])
    >>> sample_missing(builder.build(), [[np.nan, 0.0]], random_state=0)
    array([[1., 0.]])
    """
    rows = check_rows(circuit, X)
    evaluator, seed = Evaluator(circuit), _seed(random_state)
    out = rows.copy()

    def work(part: Floats, start: int) -> None:
        descent = Descent(evaluator, evaluator.size)
        streams = start_streams(seed, len(part), start)
        for batch in evaluator.batches(part, start):
            index = batch.position[batch.found]
            filled = part[index]
            descent.fill(batch, batch.found, streams[index], filled)
            out[start + index] = filled

    over_chunks(rows, work)
    return out


def _seed(random_state: Any) -> np.uint64:
    high = np.iinfo(np.int32).max
    first, second = check_random_state(random_state).randint(high, size=2)
    return np.uint64(first) << np.uint64(31) | np.uint64(second)
