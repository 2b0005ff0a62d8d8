"""Imputed tables as one table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skpc._validation import column_of, frame_library, join_columns
from skpc.domain import join_tables


def long_table(tables: Sequence[Any], original: Any = None) -> Any:
    """Put imputed tables below each other, with the numbers of the table and of the row.

    Parameters
    ----------
    tables : sequence of ndarray or DataFrame
        Imputed tables of the same rows, such as :meth:`skpc.MultipleImputer.impute` returns.
    original : ndarray or DataFrame, default=None
        The table with its missing cells, which becomes table 0.

    Returns
    -------
    DataFrame
        The columns ".imp" (1, 2, ... for the imputed tables) and ".id" (0, 1, ... for the rows),
        then those of the tables. Of the library of the tables; of pandas for arrays.

    Raises
    ------
    ValueError
        If there is no table, or tables have different numbers of rows.
    TypeError
        If tables are of different kinds.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.imputation import long_table
    >>> long_table([np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])])
       .imp  .id    0
    0     1    0  1.0
    1     1    1  2.0
    2     2    0  1.0
    3     2    1  3.0
    """
    parts = list(tables) if original is None else [original, *tables]
    sizes = {len(part) for part in parts}
    if len(sizes) != 1:
        raise ValueError(
            "tables must be imputed tables of the same rows, at least one; found tables of "
            f"{sorted(sizes)} rows."
        )
    joined = join_tables(parts)
    n_rows = len(parts[0])
    # The original table has the number 0; without it, numbers begin with 1.
    numbers = np.arange(len(parts)) + (original is None)
    names = getattr(joined, "columns", np.arange(joined.shape[1]))
    columns = [np.repeat(numbers, n_rows), np.tile(np.arange(n_rows), len(parts))]
    columns += [column_of(joined, column) for column in range(joined.shape[1])]
    library = frame_library(joined) or "pandas"
    return join_columns(columns, library, [".imp", ".id", *names])
