"""What number is expected in each missing cell, and with which variance?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import offsets
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows
from skpc.variables.leaf_queries import leaf_means
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
        The mean of an observed cell is its value, and its variance is 0. The states of a
        categorical variable count as the numbers 0, 1, ...; bins and tails of a histogram axis
        count with their exact moments.

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
    alone = leaves.line == leaves.var
    var = np.where(alone, leaves.var, circuit.n_features)
    count = np.bincount(var, minlength=circuit.n_features)[: circuit.n_features]
    means = leaf_means(leaves, circuit.param, columns, origin)[:, 0]
    total = np.bincount(var, means, circuit.n_features + 1)[: circuit.n_features]
    centre = total / np.maximum(count, 1)
    # Each variable has two lines; a block has one, for the probability that it made the row.
    of_leaves = leaf_means(leaves, circuit.param, columns, centre)
    feature = np.where(alone[:, np.newaxis], of_leaves, 1.0)
    kept = np.column_stack([np.ones(len(alone), dtype=bool), alone])
    block = (leaves.line - circuit.n_features) // 2
    first = np.where(alone, 2 * leaves.var, 2 * circuit.n_features + block)
    reader, n_alone = BlockReader(circuit), 2 * circuit.n_features
    lines = Lines(offsets(kept.sum(axis=1)), feature[kept], first, n_alone + reader.n_blocks)
    average = posterior_average(circuit, rows, lines)
    first_moment, second = average[:n_alone:2].T, average[1:n_alone:2].T
    reader.add_moments(rows, average[n_alone:], centre, first_moment, second)
    missing = np.isnan(rows)
    mean = np.where(missing, first_moment + centre, rows)
    variance = np.where(missing, np.maximum(second - first_moment**2, 0.0), 0.0)
    return mean, variance
