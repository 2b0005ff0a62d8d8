"""The rows of a node of a cutset network, counted in the fastest way that fits them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, check_memory
from skpc.counting.bit_counts import BitRows, fits_bits
from skpc.counting.counted_rows import CountedRows
from skpc.counting.state_bits import StateRows, fits_state_bits
from skpc.counting.weighted_counts import WeightedRows

#: What the search for a cutset network asks of rows, each kind answers: ``variables``,
#: ``state_counts``, ``tree``, ``branch_trees`` and ``branch``.
Rows = BitRows | StateRows | WeightedRows | CountedRows


def count_rows(codes: NDArray[np.int16], weight: Floats, n_states: Ints, variables: Ints) -> Rows:
    """Make ready to count rows: as bits where these suffice, else with weights.

    Parameters
    ----------
    codes : array of shape (n_rows, m), int16, C-contiguous
        State of each cell, -1 where it is missing.
    weight : array of shape (n_rows,)
        Positive weights.
    n_states, variables : array of shape (m,)
        Number of states of each column, and the variable it shows.

    Raises
    ------
    MemoryError
        If the statistics of all pairs of columns would take more memory than there is.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting import count_rows
    >>> codes = np.array([[0, 1], [1, 1]], dtype=np.int16)
    >>> rows = count_rows(codes, np.ones(2), np.array([2, 2]), np.arange(2))
    >>> rows.state_counts(1)
    array([0., 2.])
    """
    m = len(n_states)
    check_memory(3.0 * m**2, f"The pairs of {m:,} columns", "Choose fewer columns.")
    if fits_bits(codes, weight, n_states):
        return BitRows.pack(codes, weight, variables)
    if fits_state_bits(codes, weight, n_states):
        return StateRows.of(codes, weight, variables, n_states)
    return WeightedRows(codes, weight, variables, n_states)
