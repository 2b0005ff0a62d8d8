"""Encoded rows as columns of numbers."""

import numpy as np

from skpc._arrays import Floats
from skpc.domain._domain import Domain


def one_hot(domain: Domain, rows: Floats) -> Floats:
    """Numbers as they are, an indicator for each category; NaN where the cell is missing.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, or others with the same categories.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain, one_hot
    >>> table = np.array([["red", 0.5], ["blue", 2.5]], dtype=object)
    >>> domain = Domain.fit(table)
    >>> one_hot(domain, domain.encode(table))
    array([[0. , 1. , 0.5],
           [1. , 0. , 2.5]])
    """
    blocks = []
    for column, is_categorical, states in zip(rows.T, domain.is_categorical, domain.n_states):
        block = column[:, np.newaxis]
        if is_categorical:
            block = np.where(np.isnan(block), np.nan, block == np.arange(states))
        blocks.append(block)
    return np.hstack(blocks)
