"""Passive imputation: columns that are computed from other columns in each round of a chain.

:func:`columns_read` finds out which columns a function of a table reads.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._validation import missing_cells
from skpc.domain import Column, Domain


class PassiveColumn(NamedTuple):
    """A column that is a function of others.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    column : int
    function : callable
        Takes a table of complete rows in original units, returns a cell for each of them.
    """

    domain: Domain
    column: int
    function: Callable[[Any], Any]

    def __call__(self, rows: Floats) -> Floats:
        """Compute the encoded cells of the column from complete encoded rows."""
        column = self.domain[self.column]
        table = self.domain.decode(self.domain.within_ends(rows))
        try:
            # An array of objects keeps mixed categories, which would become strings otherwise.
            cells = np.asarray(self.function(table), dtype=object)
        except (AttributeError, KeyError) as error:
            # Most such errors name a column that the table does not have.
            raise ValueError(
                f"passive must compute {column.where} from columns that X has; found {error!r}."
            ) from error
        if cells.shape != (len(rows),):
            raise ValueError(
                "passive must return one cell for each row of a table, which need not be that of "
                f"fit; for {column.where} it returned shape {cells.shape}, not ({len(rows)},)."
            )
        if missing_cells(cells).any():
            raise ValueError(
                f"passive must return complete cells for complete rows; for {column.where} it "
                f"returned {cells[missing_cells(cells)][0]!r}."
            )
        # Numbers have no states to be looked up.
        if column.states is None:
            return self._finite(cells, column)
        # Encoded cells of categories are their codes.
        labels = column.states.tolist()
        codes = {label: float(code) for code, label in enumerate(labels)}
        if not codes.keys() >= {*cells.tolist()}:
            raise ValueError(
                f"passive must return categories of {column.where}, one of {labels}; it returned "
                f"{next(cell for cell in cells if cell not in codes)!r}."
            )
        return np.array([codes[cell] for cell in cells.tolist()])

    def _finite(self, cells: Any, column: Column) -> Floats:
        """Computed cells of a column without categories as finite numbers."""
        values = np.full(len(cells), np.nan)
        if column.calendar is not None:
            values = column.calendar.numbers_of(cells, f"passive of {column.where}")
        else:
            with suppress(TypeError, ValueError):
                values = cells.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError(
                f"passive must return finite numbers for {column.where}; found "
                f"{cells[~np.isfinite(values)][0]!r}."
            )
        return values


def read_passive(
    passive: Mapping[Any, Callable[[Any], Any]], domain: Domain, rows: Floats
) -> list[tuple[int, PassiveColumn, Ints]]:
    """The columns that are functions of others, and the columns that each of them reads.

    Parameters
    ----------
    passive : dict
        From columns (names or numbers) to functions of a table.
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.

    Returns
    -------
    list of (int, PassiveColumn, ndarray)
        The number of each such column, the column, and the numbers of the columns that it reads.
    """
    complete = with_any_cells(rows)
    columns = domain.column_numbers_of([*passive], "passive").tolist()
    computed = []
    for column, (name, function) in zip(columns, passive.items()):
        if not callable(function):
            raise TypeError(
                "passive must be a dict from columns to functions of a table, such as "
                f'{{"bmi": lambda t: t["weight"] / t["height"] ** 2}}; found {function!r} for '
                f"{name!r}."
            )
        cells = PassiveColumn(domain, column, function)
        read = columns_read(cells.__call__, complete)
        computed.append((column, cells, read[read != column]))
    return computed


def with_any_cells(rows: Floats) -> Floats:
    """Encoded rows whose missing cells are filled with the first observed value of their column."""
    observed = ~np.isnan(rows)
    return np.where(observed, rows, rows[observed.argmax(axis=0), np.arange(rows.shape[1])])


def columns_read(function: Callable[[Any], Any], rows: Floats) -> Ints:
    """The columns that a function of complete encoded rows reads.

    These are the columns whose cells change its result when they are shuffled.
    """
    # The order is fixed, so that the answer is the same for all seeds.
    order = np.random.RandomState(0).permutation(len(rows))
    values = function(rows)
    read = []
    for column in range(rows.shape[1]):
        # Shuffled cells are values that the column has, so that the function can take them.
        shuffled = rows.copy()
        shuffled[:, column] = rows[order, column]
        if not np.array_equal(function(shuffled), values):
            read.append(column)
    return np.array(read, dtype=np.int64)
