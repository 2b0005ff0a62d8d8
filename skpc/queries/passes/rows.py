"""Encoded rows: their checks, and the batches in which kernels read them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._cells import rows_of_numbers
from skpc._jit import kernel
from skpc._threads import in_threads
from skpc.circuit import Circuit
from skpc.variables import Columns
from skpc.variables.cells import kernel_cells, needed_cell
from skpc.variables.events import Events
from skpc.variables.families import read_cell
from skpc.variables.leaves import Cells, column_of, edge_line
from skpc.variables.reading import read_edges

#: Rows handed to one call of a kernel, and the unit of work of a thread.
CHUNK = 8192


def check_rows(circuit: Circuit, X: Any) -> Floats:
    """Encoded rows as float64 of shape (n_rows, n_features), C-contiguous.

    Cells of variables that the circuit has been conditioned on take the value given then. States
    out of range are found later, by the kernel that reads the rows.
    """
    rows = read_rows(circuit, X)
    known = np.flatnonzero(~np.isnan(circuit.observed))
    if len(known):
        # The caller keeps its rows as they are.
        rows = rows.copy()
        rows[:, known] = circuit.observed[known]
    return rows


def check_events(circuit: Circuit, X: Any) -> Events:
    """Encoded rows as events, which have no intervals where X is an array."""
    if not isinstance(X, Events):
        return Events.of(check_rows(circuit, X))
    # Cells that the circuit has been conditioned on decide the intervals about them.
    return X.with_cells(check_rows(circuit, X.rows))


def read_rows(circuit: Circuit, X: Any) -> Floats:
    """:func:`check_rows`, without the values that the circuit has been conditioned on."""
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"queries ask a Circuit, got {type(circuit).__name__}; the one of a fitted estimator "
            "is its circuit_"
        )
    return rows_of_numbers(X, circuit.n_features)


def refuse_cell(columns: Columns, rows: Floats, cell: int, start: int) -> None:
    """Raise the error for a cell that no leaf can read; ``cell`` < 0 means there is none.

    The cell is counted within ``rows``; their first row is row ``start`` of the caller's.
    """
    if cell < 0:
        return
    row, var = divmod(cell, rows.shape[1])
    raise ValueError(
        f"X[{row + start}, {var}] must be {needed_cell(columns, var)} or NaN (missing), got "
        f"{rows[row, var]}; circuits read encoded rows, as made by an estimator or a Domain"
    )


def over_chunks(rows: Floats, work: Callable[[Floats, int], Any], chunk: int = CHUNK) -> list[Any]:
    """Call ``work(part, start)`` on consecutive parts of the rows and list what it returns.

    The parts do not depend on the number of threads, which is the one of
    ``joblib.parallel_config`` (one by default), so neither do the results.
    """

    def task(start: int) -> Any:
        part = rows[start : start + chunk]
        # A read-only array (a memory map, say) would compile every kernel again.
        return work(part if part.flags.writeable else part.copy(), start)

    return in_threads(task, range(0, len(rows), chunk))


def refuse_blocks(circuit: Circuit) -> None:
    """Raise an error if the circuit has blocks."""
    if circuit.multivariate:
        listed = circuit.multivariate[0].variables.tolist()
        raise ValueError(
            "sums over paths need leaves of one variable each, but "
            f"the circuit has leaves of the variables {listed} together; use a density without "
            "blocks of numbers, such as HiddenChowLiuTree"
        )


def new_cells(n_features: int, n_leaf_lines: int, size: int) -> Cells:
    """Empty arrays for batches of up to ``size`` rows.

    Leaves that do not read the line of their variable have ``n_leaf_lines``, two each.
    """
    n_lines = n_features + n_leaf_lines
    codes = np.zeros((n_lines, size), np.int16)
    incomplete = np.ones(n_lines, np.int8)
    # Behind the values stand four lines for each variable: both edges of its cells, a scale, and
    # rows with the same value. A last line is scratch: kernels that make arrays read slowly.
    values = np.empty((n_lines + 4 * n_features + 1, size))
    return Cells(codes, values, np.empty(size), incomplete)


@kernel
def read_batch(
    columns: Columns, rows: Floats, own_line_values: Floats, n_rows: int, cells: Cells
) -> int:
    """Transpose rows into lines of states and of values, one line a variable.

    Returns the flat position of the first cell that cannot be read, or -1.

    Parameters
    ----------
    columns : Columns
        The variables.
    rows : array of shape (size, n_features)
        Encoded rows.
    own_line_values : array of shape (size, n_own_leaves)
        Log values of the leaves that have lines of their own, such as blocks.
    n_rows : int
        How many of the rows are read.
    cells : Cells
        Takes the lines.
    """
    n_features = rows.shape[1]
    codes = cells.codes
    values = cells.values
    base = cells.base
    incomplete = cells.incomplete
    # A hash table of the values of a lattice: the last row in each place.
    row_of_place = values.shape[0] - 1
    n_places = values.shape[1]
    # The density that all leaves of the numbers of a row have in common.
    for r in range(n_rows):
        base[r] = 0.0
    for var in range(n_features):
        column = column_of(columns, var)
        ignored = columns.ignored[var]
        # Passes skip leaves of a variable that is complete in all rows of a batch.
        incomplete[var] = 0
        edges = edge_line(cells, var)
        has_cells = columns.has_cells[var]
        for place in range(n_places if has_cells else 0):
            values[row_of_place, place] = -1.0
        for r in range(n_rows):
            x = rows[r, var]
            # A variable that the circuit has been conditioned on is read from the circuit.
            if np.isnan(x) or ignored:
                # Tables have an entry for a missing cell behind those of the states.
                codes[var, r] = column.n_states
                values[var, r] = np.nan
                if has_cells:
                    values[edges, r] = values[edges + 1, r] = 0.0
                incomplete[var] = 1
            else:
                state, value, density = read_cell(column, columns.axis, x)
                # The caller raises the error: kernels only say where.
                if state < 0:
                    return r * n_features + var
                codes[var, r] = state
                values[var, r] = value
                # A density that all leaves of the variable share is left out of their tables.
                base[r] += density
                # An atom has no score, but its line must say that there is a lattice.
                if has_cells:
                    low = 0.0
                    high = 0.0
                    scale = 0.0
                    equal_row = r
                    # An atom has the value NaN, which does not equal itself.
                    if value == value:
                        # A lattice has few values: an earlier row mostly had the same.
                        step = columns.axis[column.axis_begin + 1]
                        turns = math.floor(x / (n_places * step))
                        place = int(x / step - n_places * turns) % n_places
                        earlier_row = int(values[row_of_place, place])
                        if earlier_row >= 0 and rows[earlier_row, var] == x:
                            equal_row = earlier_row
                            low = values[edges, equal_row]
                            high = values[edges + 1, equal_row]
                            scale = values[edges + 2, equal_row]
                        else:
                            values[row_of_place, place] = r
                            low, high, scale = read_edges(column, columns.axis, x)
                    values[edges, r] = low
                    values[edges + 1, r] = high
                    values[edges + 2, r] = scale
                    values[edges + 3, r] = equal_row
        if not has_cells:
            values[edges, 0] = np.inf
    # The second line of such a leaf takes the flow that reaches it.
    for leaf in range(own_line_values.shape[1]):
        line = n_features + 2 * leaf
        for r in range(n_rows):
            values[line, r] = own_line_values[r, leaf]
            values[line + 1, r] = 0.0
    return -1


def checked_cells(columns: Columns, rows: Floats, start: int = 0) -> Cells:
    """The cells of rows, all in one batch; the first row is row ``start`` of the caller's."""
    cells = new_cells(rows.shape[1], 0, len(rows))
    unreadable = read_batch(columns, rows, np.empty((len(rows), 0)), len(rows), cells)
    refuse_cell(columns, rows, unreadable, start)
    return cells


def read_cells(columns: Columns, rows: Floats, start: int = 0) -> tuple[Ints, Floats]:
    """The states and values that leaves read of encoded rows.

    Parameters
    ----------
    columns : Columns
        The variables of the circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    start : int, default=0
        Place of the first row among those of the caller, for error messages.

    Returns
    -------
    codes : ndarray of shape (n_rows, n_features)
        States of the cells, -1 where missing; 0 for a number without states.
    values : ndarray of shape (n_rows, n_features)
        Numbers, or their scores; NaN without a number.
    """
    # The edges of cells take time to find, and are not returned.
    without_edges = columns._replace(has_cells=np.zeros_like(columns.has_cells))
    cells = checked_cells(without_edges, rows, start)
    # Kernels read the entry of a missing cell behind those of the states; callers get -1.
    codes = np.where(np.isnan(rows), -1, cells.codes.T)
    return codes.astype(np.int64), np.ascontiguousarray(cells.values[: rows.shape[1]].T)


def kernel_rows(circuit: Circuit, rows: Floats) -> Floats:
    """Encoded rows on the scale on which kernels compare them: scores of numbers that have some."""
    cells = [kernel_cells(circuit.columns, var, column) for var, column in enumerate(rows.T)]
    return np.column_stack(cells)


def refuse_unreadable(columns: Columns, rows: Floats) -> None:
    """Raise the error for the first cell of points that is missing or that no leaf can read."""
    read_cells(columns, rows)
    missing = np.flatnonzero(np.isnan(rows))
    if len(missing):
        row, var = divmod(int(missing[0]), rows.shape[1])
        raise ValueError(f"X[{row}, {var}] must hold a cell, as a point needs all of them; got nan")
