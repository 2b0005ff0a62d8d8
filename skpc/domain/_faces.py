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
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpc._arrays import Bools, Floats, Ints
from skpc.domain._categories import codes_of, decode_column, encode_numbers
from skpc.domain._column import Column, Summary, listed
from skpc.domain._declared import MAX_STATES
from skpc.domain._hidden import Hidden
from skpc.domain._tables import Cells

#: Columns are one variable if chance makes them so with a smaller probability.
_LOG_CHANCE = math.log(1e-6)
#: Rows that tell most pairs of columns apart, and states of columns compared at a time.
_FEW_ROWS = 512
_BLOCK = 4_096


@dataclass(frozen=True, eq=False, kw_only=True)
class Face(Hidden):
    """A column that tells the same as another one, its source.

    Attributes
    ----------
    place, source : int
        Numbers of the columns.
    values : ndarray of shape (n_states,)
        What the column holds for each state of the source: float64, bool, or objects.
    source_cells : ndarray of shape (n_states,)
        The encoded cells of these states, increasing.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> table = np.array([["us", 1.0], ["fr", 33.0]] * 20, dtype=object)
    >>> (face,) = Domain.fit(table).faces.values()
    >>> face.place, face.source, face.values
    (0, 1, array(['us', 'fr'], dtype=object))
    """

    place: int
    source: int
    source_cells: Floats

    kind = "face of another"
    #: Its source counts.
    log_known = 0.0

    @property
    def labels(self) -> Any:
        """What users know; None for numbers."""
        return None if self.holds_numbers else self.values

    @property
    def holds_strings(self) -> bool:
        """Whether its cells are strings."""
        return self.values.dtype == object

    @property
    def holds_numbers(self) -> bool:
        """Whether the column holds numbers, which have an order, and no labels."""
        return self.values.dtype == np.float64

    def moved(self, places: Ints) -> Self:
        """The face in a table whose column ``v`` has become column ``places[v]``."""
        return replace(self, place=int(places[self.place]), source=int(places[self.source]))

    def decode(self, rows: Floats, place: int) -> NDArray[Any]:
        """The values that belong to the states of the source; see :meth:`Column.decode`."""
        # A face with a state of its own has the number of it and one, as names of rows do.
        codes = rows[:, place]
        state = np.where(codes > 0.0, codes - 1.0, self.state_numbers(rows[:, self.source]))
        return decode_column(state, self.values)

    def state_numbers(self, source_values: Floats) -> Floats:
        """The numbers of the states of encoded cells of the source; NaN where missing."""
        # Cells between two states count as the nearer one.
        middles = self.source_cells[:-1] + np.diff(self.source_cells) / 2.0
        number = np.searchsorted(middles, source_values, side="right")
        return np.where(np.isnan(source_values), np.nan, number)

    def numbered(self, values: Floats) -> Floats:
        """What stands for values of the column in encoded rows: the number of the state and one."""
        return encode_numbers(values, self.values) + 1.0

    def join(self, rows: Floats, unknown: dict[int, Bools], cells: Cells) -> Bools:
        """Let the cells of the column tell those of the source, in place; where they contradict.

        Where both contradict each other, or the column has an unknown value, the state is unknown.
        """
        source = rows[:, self.source]
        state = codes_of(cells, self.place, self.values)
        is_new = unknown.get(self.source, np.zeros(len(rows), dtype=bool))
        # A source with an unknown state is NaN like a missing one, but no face may fill it.
        is_told = np.isnan(source) & ~np.isnan(state) & ~is_new
        source[is_told] = self.source_cells[state[is_told].astype(np.intp)]
        # NaN differs from every number: an unknown value of this column contradicts, too.
        contradicts = cells.observed(self.place) & (self.state_numbers(source) != state)
        source[contradicts] = np.nan
        if contradicts.any():
            unknown[self.source] = is_new | contradicts
        return np.asarray(contradicts)

    def summary(self) -> Summary:
        """What to say of the column."""
        return super().summary()._replace(values=listed(self.values))


def fit_faces(rows: Floats, weight: Floats, columns: Sequence[Column]) -> dict[int, Face]:
    """The columns that tell the same as another one.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    columns : sequence of Column
        What the columns are.

    Returns
    -------
    dict from int to Face
        Faces by the numbers of their columns. The source of each is a column of ordered states, if
        one of the columns is; else one of categories. Numbers that are no states can be faces of
        categories only. Columns of categories that are numbers are no faces of each other.
    """
    states_of = dict(_columns_of_states(rows, columns))
    # Columns can only be one variable if they have equally many states.
    by_size: dict[int, list[int]] = {}
    for place, states in states_of.items():
        by_size.setdefault(len(states), []).append(place)
    faces: dict[int, Face] = {}
    for places in by_size.values():
        ranked = sorted(places, key=lambda place: _rank(columns[place]))
        # The first column of several that are one is the source of all others.
        for source, place in sorted(_candidates(rows, ranked, states_of), key=lambda pair: pair[0]):
            source = ranked[source]
            place = ranked[place]
            is_source = source not in faces and _rank(columns[source])[0] < 2
            # Circuits are asked about categories of numbers, such as 0 and 1, as they are.
            are_codes = all(_is_code(columns[v]) for v in (source, place))
            if is_source and place not in faces and not are_codes:
                face = _face(rows, weight, source, place, states_of, columns)
                if face is not None:
                    faces[place] = face
    return faces


def _is_code(column: Column) -> bool:
    """Whether a column has categories that are numbers."""
    return column.states is not None and column.states.dtype == np.float64


def _columns_of_states(rows: Floats, columns: Sequence[Column]) -> Iterator[tuple[int, Floats]]:
    """Columns of several states, and their encoded cells, increasing."""
    most_states = max((len(c.states) for c in columns if c.states is not None), default=0)
    for place, column in enumerate(columns):
        if column.states is not None:
            codes = np.arange(float(column.n_states))
        elif column.law is not None and column.is_ordered:
            codes = column.law.atoms
        elif column.law is None or not most_states:
            continue
        else:
            # A few rows already show that most numbers have too many values.
            codes = np.unique(rows[:_FEW_ROWS, place])
            if len(codes) <= most_states:
                codes = np.unique(rows[:, place])
            codes = codes[~np.isnan(codes)]
        if 2 <= len(codes) <= MAX_STATES:
            yield place, codes


def _rank(column: Column) -> tuple[int, str]:
    """Columns of small ranks are sources; what a column holds decides, not its place."""
    if column.states is not None:
        return 1, str(column.states.tolist())
    if column.law is not None and column.is_ordered:
        return 0, str(column.law.atoms.tolist())
    return 2, ""


def _candidates(
    rows: Floats, columns: list[int], states_of: Mapping[int, Floats]
) -> Iterator[tuple[int, int]]:
    """Places of columns of as many states that determine each other in some of the rows.

    The first place of each pair is the smaller one.
    """
    if len(columns) < 2:
        return
    # Most pairs of columns differ in a few rows already.
    sample = rows[:: max(1, len(rows) // _FEW_ROWS)]
    size = len(states_of[columns[0]])
    n_columns = max(1, _BLOCK // size)
    starts = range(0, len(columns), n_columns)
    blocks = [columns[start : start + n_columns] for start in starts]
    # Blocks of columns are compared by one product of matrices each.
    for start, block in zip(starts, blocks):
        indicators = _indicators(sample, block, states_of)
        for partner_start, partner in zip(starts, blocks):
            # Whether states meet in a row: (columns x states, partner columns x states).
            meet = indicators.T @ _indicators(sample, partner, states_of) > 0.0
            # The most states of one column that a state of the other meets.
            meet = meet.reshape(len(block), size, len(partner), size)
            most_met = np.maximum(meet.sum(axis=3).max(axis=1), meet.sum(axis=1).max(axis=2))
            # Places within the blocks become places among all columns.
            for pair in np.argwhere(most_met <= 1) + [start, partner_start]:
                # Each pair comes twice, and each column also meets itself.
                if pair[0] < pair[1]:
                    yield int(pair[0]), int(pair[1])


def _indicators(rows: Floats, columns: list[int], states_of: Mapping[int, Floats]) -> Any:
    """Which state each row has in each column, shape (n_rows, n_columns x n_states)."""
    cells = [rows[:, [column]] == states_of[column] for column in columns]
    return np.concatenate(cells, axis=1).astype(np.float32)


def _face(
    rows: Floats,
    weight: Floats,
    source: int,
    place: int,
    states_of: Mapping[int, Floats],
    columns: Sequence[Column],
) -> Face | None:
    """The second of two columns as a face of the first, if they determine each other."""
    # Rows that lack one of the cells say nothing about the pair.
    is_complete = ~np.isnan(rows[:, [source, place]]).any(axis=1)
    cells = rows[is_complete][:, [source, place]]
    pairs, pair_number = np.unique(cells, axis=0, return_inverse=True)
    # Each state of either column must be in exactly one pair.
    is_one_to_one = np.array_equal(np.sort(pairs[:, 1]), states_of[place])
    if not is_one_to_one or not np.array_equal(pairs[:, 0], states_of[source]):
        return None
    count = np.bincount(pair_number.ravel(), weight[is_complete]).astype(np.float64)
    if log_chance(count) >= _LOG_CHANCE:
        return None
    column = columns[place]
    # The columns are numbers, or codes of these categories.
    values = pairs[:, 1]
    if column.states is not None:
        values = column.states[values.astype(np.intp)]
    return Face(
        name=column.name,
        calendar=column.calendar,
        why=f"tells the same as {columns[source].where}",
        place=place,
        source=source,
        values=values,
        source_cells=states_of[source],
    )


def log_chance(count: Floats) -> float:
    """Log probability that columns whose states have these weights determine each other by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain._faces import log_chance
    >>> np.exp(log_chance(np.array([2.0, 2.0]))).round(3)
    np.float64(0.333)
    """
    # States of as many rows can stand for each other.
    _, n_alike = np.unique(np.rint(count), return_counts=True)
    alike = gammaln(count + 1.0).sum() + gammaln(n_alike + 1.0).sum()
    return np.float64(alike - gammaln(count.sum() + 1.0))
