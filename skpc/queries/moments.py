"""What number is expected in each missing cell, and how far off may it be?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc.circuit import Circuit
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows
from skpc.variables.families import leaf_means
from skpc.variables.leaves import Lines


def moments(circuit: Circuit, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variance of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    mean, variance : ndarrays of shape (n_rows, n_features)
        An observed cell has itself as mean and variance 0. The states of a categorical variable
        count as the numbers 0, 1, ...; bins and tails of a histogram axis enter with their exact
        moments.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import moments
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.0, sd=2.0)
    >>> mean, variance = moments(builder.build(), [[float("nan")]])
    >>> mean, variance
    (array([[1.]]), array([[4.]]))
    """
    rows = check_rows(circuit, X)
    leaves, columns = circuit.structure.leaves, circuit.columns
    origin = np.zeros(circuit.n_features)
    # Around a typical value of the column, the mean square does not drown the variance.
    count = np.bincount(leaves.var, minlength=circuit.n_features)
    means = leaf_means(leaves, circuit.param, columns, origin)[:, 0]
    total = np.bincount(leaves.var, means, circuit.n_features)
    centre = total / count
    feature = leaf_means(leaves, circuit.param, columns, centre)
    ptr, shift = 2 * np.arange(len(feature) + 1), np.zeros(len(feature), dtype=np.int64)
    lines = Lines(ptr, feature.ravel(), shift, np.full(circuit.n_features, 2))
    average = posterior_average(circuit, rows, lines)
    missing = np.isnan(rows)
    mean = np.where(missing, average[::2].T + centre, rows)
    variance = np.where(missing, np.maximum(average[1::2].T - average[::2].T ** 2, 0.0), 0.0)
    return mean, variance
