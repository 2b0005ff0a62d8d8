"""Columns that are computed from others of their row, in each round of a chain."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._validation import describe_column, missing_cells
from skpc.domain import Domain

#: Seed of the shuffles that tell which columns a function reads.
_SEED = 0


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
        """Encoded cells of the column in complete encoded rows."""
        name = describe_column(self.column, self.domain.feature_names)
        cells = np.asarray(self.function(self.domain.decode(rows)), dtype=object)
        if cells.shape != (len(rows),):
            raise ValueError(
                f"passive must return one cell for each row of a table; for {name} it returned "
                f"shape {cells.shape} for {len(rows)} rows."
            )
        if missing_cells(cells).any():
            row = int(missing_cells(cells).argmax())
            raise ValueError(
                f"passive must return complete cells for complete rows; for {name} it returned "
                f"{cells[row]!r}."
            )
        labels = self.domain.categories[self.column]
        if labels is None:
            return self._finite(cells, name)
        codes = {label: code for code, label in enumerate(labels.tolist())}
        unknown = [cell for cell in cells.tolist() if cell not in codes]
        if unknown:
            raise ValueError(
                f"passive must return categories of {name}, one of {labels.tolist()}; it returned "
                f"{unknown[0]!r}."
            )
        return np.array([codes[cell] for cell in cells.tolist()], dtype=np.float64)

    def _finite(self, cells: Any, name: str) -> Floats:
        values = cells.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"passive must return finite numbers for {name}; found {values}.")
        return np.asarray(values)


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
    """
    observed = ~np.isnan(rows)
    complete = np.where(observed, rows, rows[observed.argmax(axis=0), np.arange(rows.shape[1])])
    order = np.random.RandomState(_SEED).permutation(len(rows))
    columns = domain.columns([*passive], "passive").tolist() if passive else []
    computed = []
    for column, (name, function) in zip(columns, passive.items()):
        if not callable(function):
            raise TypeError(
                "passive must be a dict from columns to functions of a table, such as "
                f'{{"bmi": lambda t: t["weight"] / t["height"] ** 2}}; found {function!r} for '
                f"{name!r}."
            )
        cells = PassiveColumn(domain, column, function)
        values = cells(complete)
        read = []
        for source in range(rows.shape[1]):
            shuffled = complete.copy()
            shuffled[:, source] = complete[order, source]
            if source != column and not np.array_equal(cells(shuffled), values):
                read.append(source)
        computed.append((column, cells, np.array(read, dtype=np.int64)))
    return computed
