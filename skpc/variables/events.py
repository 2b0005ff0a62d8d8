"""Events: statements about the cells of encoded rows, which may be values, ranges or sets."""

from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets, owners, ranges, within


class Events(NamedTuple):
    """Conjunctions of statements about encoded cells.

    Make them with :meth:`from_intervals`. A known cell counts with its density, an interval with
    its probability.

    Parameters
    ----------
    rows : ndarray of shape (n_events, n_features)
        The cells whose values are known, NaN elsewhere.
    ptr : ndarray of shape (n_events + 1,)
        The intervals of event ``i`` are ``ptr[i] .. ptr[i + 1]``, ordered by their columns.
    column : ndarray of shape (n_intervals,)
        Their columns. The intervals of one column in an event are alternatives, and disjoint; such
        a cell is not known, unless it contradicts them: then they are empty.
    low, high : ndarrays of shape (n_intervals,)
        An interval holds the values ``low < x <= high``; state ``s`` of a category is the interval
        from ``s - 0.5`` to ``s + 0.5``.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.queries import Events
    >>> nothing = np.full((2, 3), np.nan)
    >>> column, low, high = (
    ...     np.array([2, 0]),
    ...     np.array([-0.5, 20.0]),
    ...     np.array([0.5, 30.0]),
    ... )
    >>> events = Events.from_intervals(nothing, np.array([1, 1]), column, low, high)
    >>> events.ptr, events.column, events.low
    (array([0, 0, 2]), array([0, 2]), array([20. , -0.5]))
    """

    rows: Floats
    ptr: Ints
    column: Ints
    low: Floats
    high: Floats

    @classmethod
    def of(cls, rows: Any) -> Self:
        """Events as they are; an array as events that have no intervals."""
        if isinstance(rows, cls):
            return rows
        no_columns = np.empty(0, dtype=np.int64)
        no_ends = np.empty(0)
        return cls(rows, np.zeros(len(rows) + 1, np.int64), no_columns, no_ends, no_ends)

    @classmethod
    def from_intervals(
        cls, rows: Floats, event: Ints, column: Ints, low: Floats, high: Floats
    ) -> Self:
        """Events of known cells, and of intervals in any order.

        Parameters
        ----------
        rows : ndarray of shape (n_events, n_features)
            Encoded rows, NaN where a cell is not known.
        event, column : ndarrays of int of shape (n_intervals,)
            The event and the column of each interval.
        low, high : ndarrays of shape (n_intervals,)
            Their ends. Two equal intervals count once.
        """
        # Most rows have no intervals, and a single one of these is answered in little time.
        if not len(event):
            return cls.of(rows)
        # One number for each cell of an event, by which its intervals are grouped.
        key = event * rows.shape[1] + column
        order = np.lexsort((high, low, key))
        key = key[order]
        low = low[order]
        high = high[order]
        is_other = (key[1:] != key[:-1]) | (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        is_new = np.append(True, is_other)[: len(key)]
        event, column = np.divmod(key, rows.shape[1])
        cell = rows[event, column]
        # Intervals of a known cell are dropped if one of them holds its value.
        is_kept = is_new & ~np.isin(key, key[(low < cell) & (cell <= high)])
        # The other intervals of a known cell contradict it, and become empty.
        high = np.where(np.isnan(cell), np.maximum(low, high), low)
        count = np.bincount(event[is_kept], minlength=len(rows))
        return cls(rows, offsets(count), column[is_kept], low[is_kept], high[is_kept])

    @property
    def has_intervals(self) -> bool:
        """Whether anything is said beside values."""
        return len(self.column) > 0

    @property
    def event(self) -> Ints:
        """The event that each interval belongs to."""
        return owners(np.diff(self.ptr))

    def are_stated(self) -> Bools:
        """Which cells are known or have intervals, of the shape of the rows."""
        stated = ~np.isnan(self.rows)
        stated[self.event, self.column] = True
        return stated

    def take(self, index: Ints) -> Self:
        """The events at these places."""
        size = np.diff(self.ptr)[index]
        places = ranges(self.ptr[index], size)
        low = self.low[places]
        high = self.high[places]
        return type(self)(self.rows[index], offsets(size), self.column[places], low, high)

    def only(self, is_known: Bools) -> Self:
        """The same events with statements about the marked cells alone.

        ``is_known`` has the shape of the rows, or is broadcast to it.
        """
        is_known = np.broadcast_to(is_known, self.rows.shape)
        event = self.event
        rows = np.where(is_known, self.rows, np.nan)
        is_kept = is_known[event, self.column]
        low = self.low[is_kept]
        high = self.high[is_kept]
        return self.from_intervals(rows, event[is_kept], self.column[is_kept], low, high)

    def with_cells(self, rows: Floats) -> Self:
        """The same intervals beside other known cells.

        ``rows`` may have more rows, and more or fewer columns at its end.
        """
        return self.from_intervals(rows, self.event, self.column, self.low, self.high)

    def with_columns(self, order: Ints) -> Self:
        """The same events with the columns in another order, given by their numbers."""
        # The inverse of the order says where each column goes.
        column = np.argsort(order)[self.column]
        return self.from_intervals(self.rows[:, order], self.event, column, self.low, self.high)

    def padded(self) -> tuple[Floats, Floats]:
        """Ends of the intervals of events about one column, shape (n_events, most intervals).

        An event with fewer intervals is filled up with empty ones; one without any gets the line.
        """
        count = np.diff(self.ptr)
        place = (self.event, within(count))
        # An interval from zero to zero is empty.
        low, high = np.zeros((2, len(count), count.max(initial=1)))
        low[count == 0, 0] = -np.inf
        high[count == 0, 0] = np.inf
        low[place] = self.low
        high[place] = self.high
        return low, high

    def joined(self, other: Self) -> Self:
        """The conjunction of each event with that of another list; this value of a cell counts."""
        n_features = self.rows.shape[1]
        key_of_self = self.event * n_features + self.column
        key_of_other = other.event * n_features + other.column
        # Intervals are ordered by their keys, so that those of a cell stand together.
        first_match = np.searchsorted(key_of_self, key_of_other)
        last = np.searchsorted(key_of_self, key_of_other, side="right")
        # All pairs of alternatives for a cell that both lists have intervals of.
        matches = ranges(first_match, last - first_match)
        matched = owners(last - first_match)
        alone = ~np.isin(key_of_self, key_of_other)
        new = last == first_match
        # Cells of one list keep their intervals; those of both get the overlaps of all pairs.
        key = np.concatenate([key_of_self[alone], key_of_other[new], key_of_self[matches]])
        low_of_both = np.maximum(self.low[matches], other.low[matched])
        high_of_both = np.minimum(self.high[matches], other.high[matched])
        low = np.concatenate([self.low[alone], other.low[new], low_of_both])
        high = np.concatenate([self.high[alone], other.high[new], high_of_both])
        rows = np.where(np.isnan(self.rows), other.rows, self.rows)
        return self.from_intervals(rows, key // n_features, key % n_features, low, high)

    def hold(self, rows: Floats) -> Bools:
        """Which cells of rows, one for each event, fulfil it; shape of ``rows``."""
        place = (self.event, self.column)
        holds = np.ones(rows.shape, dtype=bool)
        # The intervals of a cell are alternatives, so that one of them is enough.
        holds[place] = False
        np.logical_or.at(holds, place, (self.low < rows[place]) & (rows[place] <= self.high))
        return holds
