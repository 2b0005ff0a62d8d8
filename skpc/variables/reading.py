"""How kernels read a cell of a column of numbers: its atom or its score, and the edges of its cell.

They read the column as :attr:`skpc.variables.Law.flat` lays it out: a zero, step, reach, smallest
standard deviation and gap; the score; the atoms. The plain twin is ``tests/naive/circuit.py``.
"""

import math

import numpy as np

from skpc._arrays import Floats
from skpc._jit import inlined
from skpc.variables.histogram import BEYOND_END, n_up_to
from skpc.variables.leaves import Column
from skpc.variables.normal_cells import LEAST_MASS
from skpc.variables.score import ATOMS, HEAD, score_of


@inlined
def place_of(axis: Floats, axis_begin: int | np.int64, n_atoms: int, x: float) -> float:
    """The place of a value that is no atom; see :meth:`skpc.variables.Law.place`."""
    gap = axis[axis_begin + 4]
    # The cells of these atoms lie below the value, and have been cut out of the line.
    return x - gap * n_up_to(axis, axis_begin + ATOMS, n_atoms, 0.0, x + 0.5 * gap)


@inlined
def _state_of(column: Column, axis: Floats, x: float) -> int:
    """State of a value: the number of the atom it belongs to, or the last one."""
    first_atom = column.axis_begin + ATOMS
    n_atoms = column.n_states - 1
    reach = axis[column.axis_begin + 2]
    # Atoms are further apart than twice the reach: of those below, only the last can be near.
    state = n_up_to(axis, first_atom, n_atoms, 0.0, x + reach) - 1
    is_atom = state >= 0 and x - axis[first_atom + state] <= reach
    return state if is_atom else n_atoms


@inlined
def read_scored(column: Column, axis: Floats, x: float) -> tuple[int, float, float]:
    """State of a value, its score (NaN for an atom), and its log base density."""
    step = axis[column.axis_begin + 1]
    state = _state_of(column, axis, x)
    if state < column.n_states - 1:
        return state, np.nan, (-math.log(step) if step > 0.0 else 0.0)
    place = place_of(axis, column.axis_begin, column.n_states - 1, x)
    z, slope = score_of(axis, column.axis_begin + HEAD, place)
    return state, z, column.log_peak + slope


@inlined
def read_edges(column: Column, axis: Floats, x: float) -> tuple[float, float, float]:
    """Scores of the edges of the lattice cell of a value, and the log scale of its density.

    Log density relative to the base density of :func:`read_scored` = log scale + log (mass of the
    cell / its width), or + log mass where the cell has no end.
    """
    step = axis[column.axis_begin + 1]
    # The score begins with the bounds of the column.
    score_begin = column.axis_begin + HEAD
    lower = axis[score_begin]
    upper = axis[score_begin + 1]
    place = place_of(axis, column.axis_begin, column.n_states - 1, x)
    below = place - 0.5 * step
    above = place + 0.5 * step
    z, slope = score_of(axis, score_begin, place)
    scale = -math.log(step) - slope
    low = -np.inf
    high = np.inf
    if above <= lower or below >= upper:
        # No draw is beyond an end of the column, but the value of a row may be: it is read as the
        # outermost value of the training rows, so that it does not decide between components.
        scale += BEYOND_END
        reach = 0.5 * step * math.exp(slope - BEYOND_END)
        low = z - reach
        high = z + reach
    else:
        if below > lower:
            low = score_of(axis, score_begin, below)[0]
        if above < upper:
            high = score_of(axis, score_begin, above)[0]
    if high - low < np.inf:
        scale += math.log(max(high - low, LEAST_MASS))
    return low, high, scale
