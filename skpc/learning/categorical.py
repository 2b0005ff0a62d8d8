"""Tables of independent categorical columns: indicators of states, and log probabilities of counts.

The tables of all columns stand side by side, so that counts are one product of matrices.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skpc._arrays import Floats, Ints, group_sums, offsets


def indicators(codes: NDArray[np.integer], state_ptr: Ints) -> Any:
    """Indicators of the states of some columns, side by side.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        States, -1 where missing.
    state_ptr : ndarray of shape (n_columns + 1,)
        Where the states of each column begin.

    Returns
    -------
    ndarray or sparse matrix of shape (n_rows, n_states)
    """
    # One entry for each cell that is not missing.
    row, column = np.nonzero(codes >= 0)
    state = state_ptr[column] + codes[row, column]
    shape = len(codes), int(state_ptr[-1])
    # `nonzero` lists the cells row by row, the order of a sparse array: none is sorted again.
    row_ptr = offsets(np.bincount(row, minlength=len(codes)))
    sparse = csr_array((np.ones(len(row)), state, row_ptr), shape=shape)
    # Up to this number of states, products with indicators are faster if these are not sparse.
    dense = 16
    return sparse.toarray() if shape[1] <= dense else sparse


def state_counts(codes: NDArray[np.integer], weight: Floats, state_ptr: Ints) -> Floats:
    """Weight of the rows in each state of some columns; see :func:`indicators`."""
    observed = codes >= 0
    state = (state_ptr[:-1] + codes)[observed]
    cell_weight = np.broadcast_to(weight[:, np.newaxis], codes.shape)[observed]
    return group_sums(state, cell_weight, state_ptr[-1])


def log_tables(counts: Floats, state_ptr: Ints) -> Floats:
    """Log probabilities of states from counts, both of shape (n_components, n_states)."""
    if not counts.shape[1]:
        return counts
    total = np.add.reduceat(counts, state_ptr[:-1], axis=1)
    return np.log(counts / np.repeat(total, np.diff(state_ptr), axis=1))
