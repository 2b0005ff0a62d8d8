"""The cells of tables of the same columns as numbers that can be compared across tables."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skpc._arrays import Bools, Floats
from skpc._validation import check_table
from skpc.domain import Domain, join_tables


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
        """What kind of number a column holds: "M" for dates, "m" for durations, else none."""
        scale = self.domain.form.dates.get(column)
        return "" if scale is None else scale.dates(np.zeros(1)).dtype.kind

    def is_value(self, column: int, label: Any) -> Bools:
        """Which cells of a column hold a value as :meth:`label` writes it."""
        labels = self.domain.labels(column)
        code = label if labels is None else [n for n, one in enumerate(labels) if one == label]
        return np.isin(self.values[:, column], code)

    def label(self, column: int, value: float) -> Any:
        """What a cell of a column holds, as a user would write it."""
        labels = self.domain.labels(column)
        return float(value) if labels is None else labels[int(value)]


def read_cells(tables: Sequence[Any], categorical_features: Any) -> list[TableCells]:
    """Read tables of the same columns; one Domain knows the values of all of them.

    Raises
    ------
    TypeError, ValueError
        If the tables are of different libraries or columns, or a cell is infinite.
    """
    reader, checked = BaseEstimator(), list[Any]()
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
    domain = Domain.fit(together, categorical_features=categorical_features)
    values = np.where(domain.is_categorical, domain.encode(together), domain.numbers_in(together))
    for column, scale in domain.form.dates.items():
        if domain.labels(column) is None:
            # Columns of dates have origins and units of their own.
            moments = scale.dates(values[:, column])
            moments = moments.astype(f"{moments.dtype.kind}8[us]")
            values[:, column] = np.where(np.isnat(moments), np.nan, moments.astype(np.float64))
    ends = np.cumsum([len(table) for table in checked])[:-1]
    return [TableCells(part, domain) for part in np.split(values, ends)]
