"""Tables of states that few cells tell of are drawn to the law of their column.

A table is the distribution of a column in one part of the rows: of a component, below a hidden
state, under a cut. Where cells are missing, it has fewer cells than rows, and what these have in
common by chance would be taken for the part. So it gets a number of rows that are like its column.
Each cell is predicted by the others that are observed in its table and by these rows; the number
that predicts all cells of a column best is taken, times the share of cells that are missing: what
a table of a complete column tells is not changed. The plain twin is ``tests/naive/column_laws.py``.
"""

import numpy as np

from skpc._arrays import ROUNDING, Floats, Ints, group_sums, owners

#: Multiples of the rows like the column to choose from.
_FACTORS = np.geomspace(1.0, 1000.0, 7)


def evidence_factors(
    count: Floats, added: Floats, table: Ints, column: Ints, unit: Floats | float = 1.0
) -> Floats:
    """The multiple of pseudo-counts with which the cells of a column predict each other best.

    Parameters
    ----------
    count, added : ndarrays of shape (n_cells,)
        Weight of the observed rows in each cell of the tables, and its pseudo-count.
    table, column : ndarrays of shape (n_cells,), int
        The table of each cell, and its column.
    unit : float or ndarray of shape (n_cells,), default=1.0
        What one row adds to the cell: less than one where rows are divided among tables.

    Returns
    -------
    ndarray of shape (n_columns,)

    Examples
    --------
    Two tables that are alike, and two that are not.

    >>> import numpy as np
    >>> from skpc.counting.column_laws import evidence_factors
    >>> count = np.array([5.0, 5.0, 5.0, 5.0, 9.0, 1.0, 1.0, 9.0])
    >>> table, column = np.repeat([0, 1, 2, 3], 2), np.repeat([0, 1], 4)
    >>> evidence_factors(count, np.full(8, 0.5), table, column).round(1)
    array([1000. ,    3.2])
    """
    # Cells without rows predict nothing themselves: only cells of rows are looked at.
    is_observed = count > 0.0
    in_table = np.bincount(table, count)[table][is_observed]
    added_in_table = np.bincount(table, added)[table][is_observed]
    row_unit = np.broadcast_to(unit, count.shape)[is_observed]
    cell_column = column[is_observed]
    count = count[is_observed]
    added = added[is_observed]
    n_columns = int(column.max()) + 1
    # Each row is predicted by the other rows of its table.
    other_rows = np.maximum(count - row_unit, 0.0)
    others_in_table = np.maximum(in_table - row_unit, 0.0)
    evidence = []
    for factor in _FACTORS:
        pseudo_count = factor * added
        predicted = other_rows + pseudo_count
        predicted /= others_in_table + factor * added_in_table
        log_prob = np.log(predicted)
        evidence.append(group_sums(cell_column, count * log_prob, n_columns))
    # That the best of all multiples is better than the greatest by so much is chance.
    evidence[-1] += np.log(len(_FACTORS))
    return _FACTORS[np.argmax(evidence, axis=0)]


def rows_like_columns(
    count: Floats,
    table: Ints,
    state: Ints,
    mass: Floats,
    share: Floats,
    state_ptr: Ints,
    unit: Floats | None = None,
) -> Floats:
    """Pseudo-counts of the cells of tables, zero for columns without missing cells.

    Parameters
    ----------
    count : ndarray of shape (n_cells,)
        Expected weight of the observed rows in each cell of the tables.
    table : ndarray of shape (n_cells,), int
        The table of each cell.
    state : ndarray of shape (n_cells,), int
        Its state, those of all columns numbered through.
    mass : ndarray of shape (n_tables,)
        Expected weight of all rows of each table, those that lack the cell too.
    share : ndarray of shape (n_states,)
        Positive shares of the states of each column, where its law begins.
    state_ptr : ndarray of shape (n_columns + 1,)
        Where the states of each column begin.
    unit : ndarray of shape (n_cells,), default=None
        See :func:`evidence_factors`; None stands for one.

    Returns
    -------
    ndarray of shape (n_cells,)
        The law of a column is that of all rows: its tables, weighed by all rows of theirs.
    """
    n_columns = len(state_ptr) - 1
    column_of_state = owners(np.diff(state_ptr))
    column = column_of_state[state]
    added = np.zeros(len(count))
    column_of_table = np.zeros(len(mass), np.int64)
    column_of_table[table] = column
    observed = np.bincount(column, count, n_columns)
    all_rows = np.bincount(column_of_table, mass, n_columns)
    # The share of the cells of each column that are missing.
    all_rows = np.where(all_rows > 0.0, all_rows, 1.0)
    observed_share = observed / all_rows
    missing = 1.0 - observed_share
    cell = np.flatnonzero((missing > ROUNDING)[column])
    if not len(cell):
        return added
    count = count[cell]
    table = table[cell]
    state = state[cell]
    column = column[cell]
    in_table = np.bincount(table, count, len(mass))[table]
    law = share
    row_unit: Floats | float = 1.0
    if unit is not None:
        row_unit = unit[cell]
    # The law of a column and its tables settle in a few steps.
    for _ in range(3):
        state_law = law[state]
        factor = evidence_factors(count, state_law, table, column, row_unit)[column]
        prob = (count + factor * state_law) / (in_table + factor)
        # No state that a column may have becomes impossible.
        law = np.bincount(state, mass[table] * prob, len(share)) + ROUNDING * share
        law /= np.bincount(column_of_state, law)[column_of_state]
    added[cell] = missing[column] * factor * law[state]
    return added
