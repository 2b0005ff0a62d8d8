"""Columns that determine each other both ways: one variable with several faces.

Education and its number, or a code and its label, are one variable. A learner sees one of the
columns, the source; another face of it has the value that belongs to the state of the source. So a
cell that is missing in one column is known by the other, and what is drawn or completed agrees. A
row whose cells contradict each other holds a state that was not seen.

The evidence is values that repeat. If the values of one column were put into the rows at random,
they would determine another column with the probability

    prod_s c_s! prod_c m_c! / n!

where ``c_s`` of the ``n`` rows have the state ``s``, and ``m_c`` states are in ``c`` rows. Columns
whose values are all distinct have the probability one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpc._arrays import Bools, Floats, Ints
from skpc.domain._states import MAX_STATES, encode_numbers, encode_strings
from skpc.domain._tables import Cells
from skpc.variables import Number

#: Columns are one variable if chance makes them so with a smaller probability.
_LOG_CHANCE = math.log(1e-6)
#: Rows that tell most pairs of columns apart, and states of columns compared at a time.
_FEW_ROWS, _BLOCK = 512, 4_096


class Face(NamedTuple):
    """A column that tells the same as another one, its source.

    Parameters
    ----------
    column, source : int
        Numbers of the columns.
    values : ndarray of shape (n_states,)
        What the column holds for each state of the source: float64, bool, or objects.
    states : ndarray of shape (n_states,)
        The encoded cells of these states, increasing.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> table = np.array([["us", 1.0], ["fr", 33.0]] * 20, dtype=object)
    >>> (face,) = Domain.fit(table).unseen.faces
    >>> face.column, face.source, face.values
    (0, 1, array(['us', 'fr'], dtype=object))
    """

    column: int
    source: int
    values: NDArray[Any]
    states: Floats

    @property
    def holds_numbers(self) -> bool:
        """Whether the column holds numbers, which have an order, and no labels."""
        return self.values.dtype == np.float64

    def taken(self, order: Ints) -> Self:
        """The same of columns in another order."""
        place = np.argsort(order)
        return self._replace(column=int(place[self.column]), source=int(place[self.source]))

    def places(self, of_source: Floats) -> Floats:
        """The numbers of the states of encoded cells of the source; NaN where missing."""
        middles = self.states[:-1] + np.diff(self.states) / 2.0
        place = np.searchsorted(middles, of_source, side="right")
        return np.where(np.isnan(of_source), np.nan, place)

    def numbered(self, values: Floats) -> Floats:
        """What stands for values of the column in encoded rows: the number of the state and one."""
        return encode_numbers(values, self.values) + 1.0

    def read(self, cells: Cells) -> Floats:
        """The numbers of the states that cells of the column tell; NaN if missing or unknown."""
        strings = cells.strings.get(self.column)
        if strings is not None:
            return encode_strings(strings, self.values)
        if self.values.dtype == object:
            return np.full(len(cells.numbers), np.nan)
        return encode_numbers(cells.numbers[:, self.column], self.values)

    def join(self, rows: Floats, unknown: dict[int, Bools], cells: Cells) -> Bools:
        """Let the cells of the column tell those of the source, in place; where they contradict.

        Where both contradict each other, or the column has an unknown value, the state is unknown.
        """
        of_source, place = rows[:, self.source], self.read(cells)
        is_new = unknown.get(self.source, np.zeros(len(rows), dtype=bool))
        is_told = np.isnan(of_source) & ~np.isnan(place) & ~is_new
        of_source[is_told] = self.states[place[is_told].astype(np.intp)]
        is_other = cells.observed(self.column) & (self.places(of_source) != place)
        of_source[is_other] = np.nan
        if is_other.any():
            unknown[self.source] = is_new | is_other
        return np.asarray(is_other)


def fit_faces(
    rows: Floats,
    weight: Floats,
    categories: Sequence[NDArray[Any] | None],
    numbers: Sequence[Number | None] | None,
) -> tuple[Face, ...]:
    """The columns that tell the same as another one.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    categories : sequence of ndarray or None, one a column
        States of categories, None of numbers.
    numbers : sequence of Number or None
        What each column of numbers is; None altogether if nothing is known of them.

    Returns
    -------
    tuple of Face
        The source of each is a column of ordered states, if one of the columns is; else one of
        categories. Numbers that are no states can be faces of categories only. Columns of
        categories that are numbers are no faces of each other.
    """
    listed = dict(_columns_of_states(rows, categories, numbers))
    by_size: dict[int, list[int]] = {}
    for column, states in listed.items():
        by_size.setdefault(len(states), []).append(column)
    faces: dict[int, Face] = {}
    for columns in by_size.values():
        ranked = sorted(columns, key=lambda column: _rank(column, categories, numbers))
        # The first column of several that are one is the source of all others.
        for source, column in sorted(_candidates(rows, ranked, listed), key=lambda pair: pair[0]):
            source, column = ranked[source], ranked[column]
            is_source = source not in faces and _rank(source, categories, numbers)[0] < 2
            # Circuits are asked about categories of numbers, such as 0 and 1, as they are.
            are_codes = all(_is_code(categories[v]) for v in (source, column))
            if is_source and column not in faces and not are_codes:
                face = _face(rows, weight, source, column, listed, categories)
                if face is not None:
                    faces[column] = face
    return tuple(faces.values())


def _is_code(states: NDArray[Any] | None) -> bool:
    """Whether a column has categories that are numbers."""
    return states is not None and states.dtype == np.float64


def _columns_of_states(
    rows: Floats,
    categories: Sequence[NDArray[Any] | None],
    numbers: Sequence[Number | None] | None,
) -> Iterator[tuple[int, Floats]]:
    """Columns of several states, and their encoded cells, increasing."""
    sizes = [len(states) for states in categories if states is not None]
    for column, states in enumerate(categories):
        number = None if numbers is None else numbers[column]
        if states is not None:
            codes = np.arange(float(len(states)))
        elif number is not None and number.is_ordered:
            codes = number.atoms
        elif number is None or not sizes:
            continue
        else:
            codes = np.unique(rows[:_FEW_ROWS, column])
            if len(codes) <= max(sizes):
                codes = np.unique(rows[:, column])
            codes = codes[~np.isnan(codes)]
        if 2 <= len(codes) <= MAX_STATES:
            yield column, codes


def _rank(
    column: int,
    categories: Sequence[NDArray[Any] | None],
    numbers: Sequence[Number | None] | None,
) -> tuple[int, str]:
    """Columns of small ranks are sources; what a column holds decides, not its place."""
    states = categories[column]
    if states is not None:
        return 1, str(states.tolist())
    number = None if numbers is None else numbers[column]
    return (0, str(number.atoms.tolist())) if number is not None and number.is_ordered else (2, "")


def _candidates(
    rows: Floats, columns: list[int], listed: Mapping[int, Floats]
) -> Iterator[tuple[int, int]]:
    """Places of columns of as many states that determine each other in some of the rows.

    The first place of each pair is the smaller one.
    """
    if len(columns) < 2:
        return
    some = rows[:: max(1, len(rows) // _FEW_ROWS)]
    size = len(listed[columns[0]])
    n_columns = max(1, _BLOCK // size)
    blocks = [columns[start : start + n_columns] for start in range(0, len(columns), n_columns)]
    for number, block in enumerate(blocks):
        left = _indicators(some, block, listed)
        for other_number, other in enumerate(blocks[number:], number):
            meet = left.T @ _indicators(some, other, listed) > 0.0
            # The most states of one column that a state of the other meets.
            meet = meet.reshape(len(block), size, len(other), size)
            most_met = np.maximum(meet.sum(axis=3).max(axis=1), meet.sum(axis=1).max(axis=2))
            for one, two in np.argwhere(most_met <= 1).tolist():
                pair = number * n_columns + one, other_number * n_columns + two
                if pair[0] < pair[1]:
                    yield pair


def _indicators(rows: Floats, columns: list[int], listed: Mapping[int, Floats]) -> Any:
    """Which state each row has in each column, shape (n_rows, n_columns x n_states)."""
    cells = [rows[:, [column]] == listed[column] for column in columns]
    return np.concatenate(cells, axis=1).astype(np.float32)


def _face(
    rows: Floats,
    weight: Floats,
    source: int,
    column: int,
    listed: Mapping[int, Floats],
    categories: Sequence[NDArray[Any] | None],
) -> Face | None:
    """The second of two columns as a face of the first, if they determine each other."""
    both = ~np.isnan(rows[:, [source, column]]).any(axis=1)
    pairs, of_pair = np.unique(rows[both][:, [source, column]], axis=0, return_inverse=True)
    states, values = listed[source], listed[column]
    is_one_to_one = np.array_equal(np.sort(pairs[:, 1]), values)
    if not is_one_to_one or not np.array_equal(pairs[:, 0], states):
        return None
    count = np.bincount(of_pair.ravel(), weight[both]).astype(np.float64)
    if log_chance(count) >= _LOG_CHANCE:
        return None
    labels, of_column = categories[column], pairs[:, 1]
    told = of_column if labels is None else labels[of_column.astype(np.intp)]
    return Face(column, source, told, states)


def log_chance(count: Floats) -> float:
    """Log probability that columns whose states have these weights determine each other by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain._faces import log_chance
    >>> np.exp(log_chance(np.array([2.0, 2.0]))).round(3)
    np.float64(0.333)
    """
    _, of_count = np.unique(np.rint(count), return_counts=True)
    alike = gammaln(count + 1.0).sum() + gammaln(of_count + 1.0).sum()
    return np.float64(alike - gammaln(count.sum() + 1.0))
