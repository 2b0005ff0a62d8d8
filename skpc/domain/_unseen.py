"""States that training rows do not hold, and columns that no learner sees.

The category of a new row may be one that no training row holds. Good and Turing estimate the
probability of that by the share of the training rows whose category is seen once. Nothing is said
about which category it is, so the constant belongs to the column: known categories are scaled by
the rest in every row alike, and no model needs to know of it.

So it is with ordered states, but that :class:`~skpc.variables.Number` says which values are how
probable. What is asked about a row takes such a value for the nearest state.

Two kinds of columns say nothing of the others: those without any value, and those that name the
rows, their values being nearly all different. Faces of other columns (see :mod:`._faces`) say
nothing more. For a learner all of them are categories of one state, which is the same in all rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import ROUNDING, Bools, Floats, Ints, exact_group_sums, taken
from skpc._validation import describe_column
from skpc._warnings import warn
from skpc.domain._faces import Face
from skpc.domain._tables import Cells
from skpc.variables import Number

#: A column of strings is an identifier if it has this many observed cells ...
_IDENTIFIER_FROM = 50
#: ... and a larger share of values that are seen once. A new row then holds a known value with a
#: probability of a tenth or less. In trials, values that decided another column were worth nothing
#: to it (.00 +- .01 nats a row) from a share of .4 on; learning them took five times as long.
_IDENTIFIER_SHARE = 0.9
#: The states that a learner gets for a column that it does not see.
_ONE_STATE = np.array([None], dtype=object)

_States = NDArray[Any] | None


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

    def with_rows(self, log_density: Floats, given: Any = None) -> Floats:
        """Log densities of rows, or of their other cells given some columns (numbers)."""
        # Most tables have no such column, and a single row is answered in a tenth of a millisecond.
        if not len(self.columns):
            return log_density
        counts = np.isin(self.columns, [] if given is None else given, invert=True)
        return np.asarray(log_density + np.nansum(self.added[:, counts], axis=1))

    def with_cells(self, log_cells: Floats) -> Floats:
        """Log densities of the cells of rows."""
        log_cells = log_cells.copy()
        density = np.where(self.is_unseen, 0.0, log_cells[:, self.columns])
        log_cells[:, self.columns] = density + self.added
        for column, source, is_observed, _ in self.faces:
            log_cells[:, column] = np.where(is_observed, log_cells[:, source], np.nan)
        for _, source, _, is_observed in self.faces:
            log_cells[~is_observed, source] = np.nan
        return log_cells


@dataclass(frozen=True, eq=False)
class Unseen:
    """What is known of categories that were not seen, and of columns that no learner sees.

    Attributes
    ----------
    mass : ndarray of shape (n_features,)
        Probability that an observed cell holds a category that was not seen. 0 in columns other
        than of strings, unless they have faces, and where such a cell counts as missing.
    names : tuple of ndarray or None, one a column
        The values of a column that names the rows: uniform, and independent of all other columns.
    is_empty : ndarray of shape (n_features,), bool
        Which columns have no value.
    faces : tuple of Face, default=()
        The columns that tell the same as another one.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> table = np.array([["red"], ["blue"], ["red"], ["red"]], dtype=object)
    >>> Domain.fit(table).unseen.mass
    array([0.25])
    """

    mass: Floats
    names: tuple[_States, ...]
    is_empty: Bools
    faces: tuple[Face, ...] = ()

    @classmethod
    def fit(
        cls,
        states: Sequence[_States],
        strings: Mapping[int, NDArray[np.object_]],
        weight: Floats,
        has_mass: bool,
        listed: Any,
    ) -> Self:
        """Learn it from the states of each column and the cells of those of strings.

        A column has an empty list of states if it has no value. It is never an identifier where
        ``listed`` has states for it; "auto" has no states. ``weight`` is that of the rows.
        """
        mass = np.zeros(len(states))
        names: list[_States] = [None] * len(states)
        for column, cells in strings.items():
            known, counts = np.asarray(states[column]), _count(cells, weight)
            if has_mass:
                mass[column] = _unseen_mass(counts, known.tolist())
            if _is_identifier(counts) and (isinstance(listed, str) or listed[column] is None):
                names[column] = known
        is_empty = [known is not None and len(known) == 0 for known in states]
        return cls(mass, tuple(names), np.array(is_empty))

    def taken(self, order: Ints) -> Self:
        """The same of columns in another order."""
        faces = tuple(face.taken(order) for face in self.faces)
        return type(self)(self.mass[order], taken(self.names, order), self.is_empty[order], faces)

    def with_faces(self, faces: tuple[Face, ...], weight: float, has_mass: bool) -> Self:
        """The same where some columns are faces of others; the rows have this weight in total."""
        mass = self.mass.copy()
        for face in faces:
            if has_mass:
                floor = 0.5 / (weight + 1.0)
                mass[face.source] = max(mass[face.source], mass[face.column], floor)
            mass[face.column] = 0.0
        return replace(self, mass=mass, faces=faces)

    @cached_property
    def face_of(self) -> dict[int, Face]:
        """The faces by their columns."""
        return {face.column: face for face in self.faces}

    @cached_property
    def is_hidden(self) -> Bools:
        """Which columns no learner sees, shape (n_features,)."""
        is_hidden = self.is_empty | np.array([names is not None for names in self.names])
        is_hidden[[*self.face_of]] = True
        return is_hidden

    @cached_property
    def columns(self) -> Ints:
        """The columns whose cells add something, or are missing, in spite of their code."""
        return np.flatnonzero((self.mass > 0.0) | self.is_hidden)

    def shown(self, states: Sequence[_States]) -> tuple[_States, ...]:
        """The states of each column as learners see them."""
        return tuple(_ONE_STATE if h else known for h, known in zip(self.is_hidden, states))

    def written(self, column: int, states: _States) -> _States:
        """What the codes of a column stand for, a missing cell where it has no learner."""
        if self.is_empty[column]:
            return np.array([np.nan])
        names = self.names[column]
        return states if names is None else np.concatenate([_ONE_STATE, names])

    def log_mass(
        self, unknown: Mapping[int, Bools], cells: Cells, ordered: Mapping[int, Number]
    ) -> LogMass:
        """What the cells of a table add; ``unknown`` says which of a column are no state.

        ``ordered`` are the columns of ordered states.
        """
        columns = np.union1d(self.columns, [*ordered]).astype(np.int64)
        added = np.full((len(cells.numbers), len(columns)), np.nan)
        is_unseen = np.zeros(added.shape, dtype=bool)
        for place, column in enumerate(columns.tolist()):
            is_unseen[:, place] = unknown.get(column, False)
            is_known = self._is_told(column, cells) & ~is_unseen[:, place]
            if column in ordered:
                number, values = ordered[column], cells.numbers[:, column]
                added[is_known, place] = math.log1p(-number.unseen)
                others = values[is_unseen[:, place]]
                # What contradicts a face, or a face has alone, is somewhere else.
                is_placed = ~(np.isnan(others) | number.is_atom(others))
                log_unseen = np.full(len(others), math.log(number.unseen))
                log_unseen[is_placed] = number.log_unseen(others[is_placed])
                added[is_unseen[:, place], place] = log_unseen
                continue
            has_mass = column in cells.strings or self.mass[column] > 0.0
            if self.is_empty[column] or not has_mass:
                is_unseen[:, place] = False
                continue
            names, mass = self.names[column], self.mass[column]
            added[is_known, place] = math.log1p(-mass) - math.log(
                1 if names is None else len(names)
            )
            added[is_unseen[:, place], place] = math.log(mass) if mass > 0.0 else np.nan
        faces = tuple(
            (f.column, f.source, cells.observed(f.column), cells.observed(f.source))
            for f in self.faces
        )
        return LogMass(columns, added, is_unseen, faces)

    def _is_told(self, column: int, cells: Cells) -> Bools:
        """Where the state of a column is observed, or that of one of its faces is."""
        is_told = cells.observed(column)
        for face in self.faces:
            if face.source == column:
                is_told = is_told | cells.observed(face.column)
        return is_told

    def warn_of_unseen(
        self, unknown: Mapping[int, Bools], cells: Cells, feature_names: Sequence[Any] | None
    ) -> None:
        """Name a category that was not seen of each column. New names of rows are expected."""
        columns = [column for column in unknown if self.names[column] is None]
        if columns:
            listed = "; ".join(
                f"{self._shown(cells, row, v)} in {describe_column(v, feature_names)}, row {row}"
                for v, row in ((v, int(unknown[v].argmax())) for v in columns)
            )
            n_rows = int(np.any([unknown[column] for column in columns], axis=0).sum())
            warn(
                f"Found categories that fit has not seen in {n_rows} of {len(cells.numbers)} rows, "
                f"the first {listed}. They count as missing. In columns of strings, log densities "
                "count how probable an unseen category is; in columns of numbers an unseen "
                "category adds 0 to them, as if it were certain. Declare the states of such "
                "columns in categories; if this is a column of numbers, name those of categories "
                "in categorical_features."
            )

    def _shown(self, cells: Cells, row: int, column: int) -> str:
        """A cell that was not seen, with those of its faces."""
        faces = [face.column for face in self.faces if face.source == column]
        return " with ".join(repr(cells.value(row, v)) for v in (column, *faces))

    def warn_of_hidden(self, feature_names: Sequence[Any] | None) -> None:
        """Name the columns that no learner sees."""
        for is_chosen, what in (
            (self.is_empty, "have no value in the rows of fit; they say nothing, and stay missing"),
            (
                np.array([names is not None for names in self.names]),
                "seem to name the rows: nearly every value is seen once. They are not learned, but "
                "taken as uniform and independent. Drop them, or declare their categories to learn "
                "them",
            ),
        ):
            columns = np.flatnonzero(is_chosen).tolist()
            if columns:
                listed = ", ".join(describe_column(column, feature_names) for column in columns)
                warn(f"Some columns {what}. Found {listed}.")


def _count(cells: NDArray[np.object_], weight: Floats) -> dict[str, float]:
    """Total weight of each value of a column, None being missing, whatever the order of rows."""
    number: dict[Any, int] = {None: 0}
    group = np.array([number.setdefault(cell, len(number)) for cell in cells.tolist()])
    total = exact_group_sums(group, weight).tolist()
    return {value: total[i] for value, i in number.items() if value is not None}


def _is_once(weight: float) -> bool:
    return weight <= 1.0 + ROUNDING


def _is_identifier(counts: Mapping[str, float]) -> bool:
    """Whether nearly every value comes once, so that the column names the rows."""
    n_cells, n_once = math.fsum(counts.values()), sum(map(_is_once, counts.values()))
    return n_cells >= _IDENTIFIER_FROM and n_once > _IDENTIFIER_SHARE * n_cells


def _unseen_mass(counts: Mapping[str, float], states: Sequence[str]) -> float:
    """Probability that a new cell does not hold one of the states, in [1 / (2n + 2), 1/2].

    Cells that hold something else already count in full, whatever they hold.
    """
    known, n_cells = set(states), math.fsum(counts.values())
    n_unseen = sum(
        weight if value not in known else float(_is_once(weight))
        for value, weight in counts.items()
    )
    return min(max(n_unseen / n_cells, 0.5 / (n_cells + 1.0)), 0.5)
