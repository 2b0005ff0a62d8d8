"""What states that training rows do not hold add to log densities.

The category of a new row may be one that no training row holds. Good and Turing estimate the
probability of that by the share of the training rows whose category is seen once. Nothing is said
about which category it is, so the constant belongs to the column: known categories are scaled by
the rest in every row alike, and no model needs to know of it.

So it is with ordered states, but that :class:`~skpc.variables.Law` says which values are how
probable. What is asked about a row takes such a value for the nearest state.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints, exact_group_sums
from skpc._warnings import warn
from skpc.domain._categories import Categories
from skpc.domain._column import Column
from skpc.domain._faces import Face
from skpc.domain._hidden import is_once
from skpc.domain._tables import Cells


class LogMass(NamedTuple):
    """What observed cells add to log densities that take unseen categories as missing.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        The columns that add something.
    added : ndarray of shape (n_rows, n_columns)
        In nats; NaN where the cell is missing.
    is_unseen : ndarray of shape (n_rows, n_columns), bool
        Whether the cell holds a state that is not known.
    faces : tuple of (int, int, ndarray, ndarray)
        Columns that tell the same as another one, the source; the source; and in which rows a cell
        of each of them is observed.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> table = np.array([["red"], ["blue"], ["red"], ["red"]], dtype=object)
    >>> rows, mass = Domain.fit(table).encode_with_mass(table[:2])
    >>> (
    ...     mass.with_rows(np.log([0.7, 0.3])).round(2),
    ...     np.log([0.7 * 0.75, 0.3 * 0.75]).round(2),
    ... )
    (array([-0.64, -1.49]), array([-0.64, -1.49]))
    """

    columns: Ints
    added: Floats
    is_unseen: Bools
    faces: tuple[tuple[int, int, Bools, Bools], ...] = ()

    def known(self, rows: Floats) -> Floats:
        """The encoded rows, unseen states being missing: they are as probable in any row."""
        if self.is_unseen.any():
            rows = rows.copy()
            row, place = np.nonzero(self.is_unseen)
            rows[row, self.columns[place]] = np.nan
        return rows

    def with_stated(self, stated: Bools, log_prob_seen: Floats) -> Self:
        """The same with what cells add that are known as ranges or sets of known states.

        ``stated`` has the shape of the rows, ``log_prob_seen`` an entry for each column.
        """
        added = np.where(stated[:, self.columns], log_prob_seen[self.columns], self.added)
        return self._replace(added=added)

    def with_rows(self, log_density: Floats, given: Any = None) -> Floats:
        """Log densities of rows, or of their other cells given some columns (numbers)."""
        # Most tables have no such column, and a single row is answered in a tenth of a millisecond.
        if not len(self.columns):
            return log_density
        # A cell that is given adds nothing to the density of the others.
        counts = np.isin(self.columns, [] if given is None else given, invert=True)
        return np.asarray(log_density + np.nansum(self.added[:, counts], axis=1))

    def with_cells(self, log_cells: Floats) -> Floats:
        """Log densities of the cells of rows."""
        log_cells = log_cells.copy()
        # The model has no density for an unseen state: what is added is all there is.
        density = np.where(self.is_unseen, 0.0, log_cells[:, self.columns])
        log_cells[:, self.columns] = density + self.added
        # A face tells the same as its source, and so has its density.
        for column, source, is_observed, _ in self.faces:
            log_cells[:, column] = np.where(is_observed, log_cells[:, source], np.nan)
        # A source that only a face has told has no cell of its own.
        for _, source, _, is_observed in self.faces:
            log_cells[~is_observed, source] = np.nan
        return log_cells


def log_mass(
    columns: Sequence[Column],
    mass_columns: Ints,
    faces: Mapping[int, Face],
    unknown: Mapping[int, Bools],
    cells: Cells,
) -> LogMass:
    """What the cells of a table add.

    ``mass_columns`` are the numbers of the columns that add something, and ``unknown`` has the
    cells of a column that hold no known state.
    """
    # Shape (n_rows, n_columns that add something); NaN stays where a cell is missing.
    added = np.full((len(cells.numbers), len(mass_columns)), np.nan)
    is_unseen = np.zeros(added.shape, dtype=bool)
    is_observed = {j: cells.observed(j) for j in faces}
    for j, column_number in enumerate(mass_columns.tolist()):
        column = columns[column_number]
        is_unseen[:, j] = unknown.get(column_number, False)
        # The state of a source is known from its own cell, or from that of any of its faces.
        is_known = cells.observed(column_number)
        for face in faces.values():
            if face.source == column_number:
                is_known = is_known | is_observed[face.place]
        added[is_known & ~is_unseen[:, j], j] = column.log_known
        new_values = cells.numbers[is_unseen[:, j], column_number]
        added[is_unseen[:, j], j] = column.log_unknown(new_values)
    observed_of_faces = tuple(
        (column_number, face.source, is_observed[column_number], cells.observed(face.source))
        for column_number, face in faces.items()
    )
    return LogMass(mass_columns, added, is_unseen, observed_of_faces)


def warn_of_unseen(
    columns: Sequence[Column],
    faces: Mapping[int, Face],
    unknown: Mapping[int, Bools],
    cells: Cells,
) -> None:
    """Name a category that was not seen of each column. New names of rows are expected."""
    sources = {face.source for face in faces.values()}
    # New numbers in columns of ordered states are usual, but not where faces depend on them.
    unusual = [j for j in unknown if j in sources or isinstance(columns[j], Categories)]
    if not unusual:
        return
    shown = []
    for column_number in unusual:
        row = int(unknown[column_number].argmax())
        # A source is shown with its faces.
        joined = [face.place for face in faces.values() if face.source == column_number]
        values = " with ".join(repr(cells.value(row, j)) for j in (column_number, *joined))
        shown.append(f"{values} in {columns[column_number].where}, row {row}")
    n_rows = int(np.any([unknown[j] for j in unusual], axis=0).sum())
    warn(
        f"Found categories that fit has not seen in {n_rows} of {len(cells.numbers)} rows, "
        f"the first {'; '.join(shown)}. They count as missing; completed tables keep them. In "
        "columns of strings, log densities count how probable an unseen category is; in columns of "
        "numbers an unseen category adds 0 to them, as if it were certain. Declare the states of "
        "such columns in categories; if this is a column of numbers, name those of categories in "
        "categorical_features."
    )


def weight_of_values(cells: NDArray[np.object_], weight: Floats) -> dict[str, float]:
    """Total weight of each value of a column, None being missing, whatever the order of rows."""
    number: dict[Any, int] = {None: 0}
    group = np.array([number.setdefault(cell, len(number)) for cell in cells.tolist()])
    # Exact sums do not depend on the order of the rows.
    total = exact_group_sums(group, weight).tolist()
    return {value: total[i] for value, i in number.items() if value is not None}


def unseen_share(weight_of: Mapping[str, float], states: NDArray[Any]) -> float:
    """Probability that a new cell does not hold one of the states, in [1 / (2n + 2), 1/2].

    Cells that hold something else already count in full, whatever they hold.
    """
    known = set(states.tolist())
    # fsum rounds once, so that the order of the values does not matter.
    n_cells = math.fsum(weight_of.values())
    n_unseen = sum(
        weight if value not in known else float(is_once(weight))
        for value, weight in weight_of.items()
    )
    # Known states keep at least half of the probability.
    return min(max(n_unseen / n_cells, least_share(n_cells)), 0.5)


def least_share(weight: float) -> float:
    """Least probability of an unseen state beside cells of this weight."""
    return 0.5 / (weight + 1.0)
