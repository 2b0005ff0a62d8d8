"""Cells of tables as numbers that can be compared across tables of the same columns."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from skpc._arrays import Bools, Floats
from skpc._cells import missing_in, with_cells_of
from skpc._validation import check_table
from skpc.domain import Declared, Domain, join_tables


class TableCells(NamedTuple):
    """A table as numbers.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Numbers, codes of categories, ranks of ordered ones, dates as microseconds; NaN where
        missing.
    domain : Domain
        What the columns are.
    """

    values: Floats
    domain: Domain

    @property
    def names(self) -> list[Any]:
        """Names of the columns, or their numbers."""
        return list(self.domain.feature_names or range(self.domain.n_features))

    @property
    def is_categorical(self) -> Bools:
        """Which columns hold codes."""
        return self.domain.is_categorical

    def unit(self, column: int) -> str:
        """The kind of number that a column holds: "M" for dates, "m" for durations, else ""."""
        # The dtype of any moment tells the kind.
        scale = self.domain.calendars.get(column)
        return "" if scale is None else scale.dates(np.zeros(1)).dtype.kind

    def label(self, column: int, value: float) -> Any:
        """The value of a cell as a user would write it."""
        # Categories have labels; other cells are numbers, dates or durations.
        labels = self.domain[column].labels
        if labels is not None:
            return labels[int(value)]
        unit = self.unit(column)
        return np.array(int(value)).astype(f"{unit}8[us]")[()] if unit else float(value)

    @classmethod
    def of_table(cls, domain: Domain, table: Any) -> Self:
        """Read a checked table of these columns; a category that they do not have has code -1."""
        return cls.of_rows(domain, rows_of(domain, table))

    @classmethod
    def of_rows(cls, domain: Domain, rows: Floats) -> Self:
        """Read encoded rows, whose dates have the origins and units of their columns."""
        values = rows.copy()
        for column, calendar in _calendars(domain):
            # In microseconds dates of all units can be compared.
            moments = calendar.dates(rows[:, column])
            moments = moments.astype(f"{moments.dtype.kind}8[us]")
            # NaT is the least integer, which must not pass for a date.
            values[:, column] = np.where(np.isnat(moments), np.nan, moments.astype(np.float64))
        return cls(values, domain)

    def encoded(self, rows: Floats) -> Floats:
        """Encoded rows changed to these cells; cells that are equal already stay as they are."""
        # Converting a cell that the rows have already would change its last digits.
        is_new = (self.values != self.of_rows(self.domain, rows).values) & ~np.isnan(self.values)
        encoded = self.values.copy()
        for column, calendar in _calendars(self.domain):
            micros = encoded[:, column]
            # NaN cannot become an integer: such cells are marked again below.
            moments = np.nan_to_num(micros).astype(np.int64).astype(f"{self.unit(column)}8[us]")
            moments[np.isnan(micros)] = "NaT"
            # Moments are in local time.
            encoded[:, column] = calendar._replace(zone=None).numbers_of(moments, "X")
        return np.where(is_new, encoded, rows)

    def written(self, table: Any) -> Any:
        """A table of these columns, changed where its cells differ from these."""
        rows = rows_of(self.domain, table)
        encoded = self.encoded(rows)
        # Missing cells are not written.
        is_new = (encoded != rows) & ~np.isnan(encoded)
        if not is_new.any():
            # A table that has these cells already keeps its dtypes, too.
            return table
        return with_cells_of(table, is_new, self.domain.decode(encoded, like=table))


def rows_of(domain: Domain, table: Any) -> Floats:
    """Encoded rows of a checked table whose numbers are not rounded to states of their columns.

    A category that the domain does not have gets the code -1.
    """
    # Codes come from encoding, which would round numbers to states; numbers from the table itself.
    rows = np.where(domain.is_categorical, domain.encode(table), domain.numbers_in(table))
    unknown = domain.is_categorical & np.isnan(rows)
    if unknown.any():
        # NaN in a row is a missing cell, or a category that the domain does not have.
        rows[unknown & ~missing_in(table)] = -1.0
    return rows


def _calendars(domain: Domain) -> Iterator[tuple[int, Any]]:
    """The columns whose cells are dates or durations, and their calendars."""
    for column, calendar in domain.calendars.items():
        # Dates that are categories have codes, not numbers.
        if domain[column].labels is None:
            yield column, calendar


def read_cells(tables: Sequence[Any], categorical_features: Any) -> list[TableCells]:
    """Read tables of the same columns with one domain, which has the values of all tables.

    Raises
    ------
    TypeError, ValueError
        If the tables are of different libraries or columns, or a cell is infinite.
    """
    # Checks keep the names of columns in an estimator, which compares each table with the first.
    reader = BaseEstimator()
    checked: list[Any] = []
    for number, table in enumerate(tables):
        try:
            checked.append(check_table(reader, table, reset=number == 0))
        except ValueError as error:
            if number == 0:
                raise
            raise ValueError(
                f"Table {number + 1} of {len(tables)} does not have the columns of the first one, "
                f"or cannot be read: {error}"
            ) from error
    together = join_tables(checked)
    # Columns stay apart, also where one determines another.
    domain = Domain.fit(
        together, Declared(categorical_features=categorical_features, merges_columns=False)
    )
    # All tables are read at once, and then cut apart where they end.
    values = TableCells.of_table(domain, together).values
    ends = np.cumsum([len(table) for table in checked])[:-1]
    return [TableCells(part, domain) for part in np.split(values, ends)]
