"""Cells of a variable as its leaves read them: which are readable, in words, and on which scale."""

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.variables.families import CATEGORICAL, FORMULAS, POISSON, SCORED
from skpc.variables.leaves import Columns


def is_category(columns: Columns, var: int) -> bool:
    """Whether a variable has states without an order, and no numbers."""
    return bool(columns.n_states[var] and columns.axis_ptr[var] == columns.axis_ptr[var + 1])


def unreadable(columns: Columns, cells: Floats) -> Ints:
    """The variables whose leaves cannot read the cell given for them; ``cells`` is one row."""
    # Categories and counts are whole numbers from zero on; other leaves read any finite number.
    is_whole = np.isin(columns.family, (CATEGORICAL, POISSON))
    end = np.where(columns.family == CATEGORICAL, columns.n_states, np.inf)
    is_code = (cells >= 0.0) & (cells < end) & (cells == np.floor(cells))
    is_read = np.isnan(cells) | np.where(is_whole, is_code, np.isfinite(cells))
    return np.flatnonzero(~is_read)


def needed_cell(columns: Columns, var: int) -> str:
    """What a cell of a variable must be, in words."""
    if is_category(columns, var):
        return f"one of the states 0..{columns.n_states[var] - 1}"
    formula = FORMULAS.get(int(columns.family[var]))
    return "a finite number" if formula is None else str(formula.CELL)


def kernel_cells(columns: Columns, var: int, values: Floats) -> Floats:
    """Cells of a variable on the scale on which kernels compare them: their scores, if any."""
    return columns.axis_of(var).transform(values) if columns.family[var] == SCORED else values
