"""Targets of which some are known as ranges: how they are read, and what is asked about them."""

from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._threads import slices
from skpc._validation import objects_of
from skpc._warnings import warn
from skpc.domain.stated import (
    Stated,
    filled_numbers,
    holds_ranges,
    ranges_of,
    refuse_wrong,
    split_ranges,
)
from skpc.estimators._ranges import copied_rows
from skpc.pooling.pool import labelled
from skpc.queries import Events
from skpc.variables import Law
from skpc.variables.censored import Ranges

#: Rows whose pairs with all rows are compared at a time.
_ROWS = 512


class CensoredTarget(NamedTuple):
    """Numbers or times, some of them known as ranges.

    Attributes
    ----------
    cells : Ranges
        What is known of them.
    cause : ndarray of int of shape (n_rows,)
        The code of the event that ended the time, 0 where it is censored.
    """

    cells: Ranges
    cause: Ints

    @classmethod
    def read(cls, y: Any) -> Self:
        """Read intervals, or a structured array of events and times.

        Raises
        ------
        ValueError
            If a field is there that cannot be used, an event is neither boolean nor a code, a time
            is not finite, or a range is empty.
        """
        names = getattr(getattr(y, "dtype", None), "names", None)
        return cls._from_intervals(y) if names is None else cls._from_fields(y, names)

    @classmethod
    def _from_intervals(cls, y: Any) -> Self:
        cells_of_y = objects_of(y)
        # Ranges are split from tables: the target becomes one of a single column.
        table, stated_columns = split_ranges(cells_of_y.reshape(-1, 1))
        values = table[:, 0]
        stated = stated_columns.get(0, Stated(np.empty(0, dtype=np.int64), []))
        refuse_wrong(stated, 0, ["y"], values, "y")
        try:
            cells = ranges_of(values.astype(np.float64), stated)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers and ranges of numbers; {error}.") from error
        says_nothing = np.isneginf(cells.low) & np.isposinf(cells.high)
        wrong = np.flatnonzero(says_nothing | np.isinf(cells.low) & cells.is_value)
        if len(wrong):
            raise ValueError(
                f"y must say something of each target; found {cells_of_y[wrong[0]]!r} in row "
                f"{wrong[0]}."
            )
        # A value is an event that was seen; what is known as a range is censored.
        return cls(cells, cells.is_value.astype(np.int64))

    @classmethod
    def _from_fields(cls, y: Any, names: tuple[str, ...]) -> Self:
        if len(names) != 2:
            raise ValueError(
                f"y must have two fields, event and time; found {len(names)}: {names}. Delayed "
                "entry and other truncation are not supported: rows that were never seen to be at "
                "risk would need a likelihood of their own. Leave the field out."
            )
        cause, time = (np.asarray(y[name]) for name in names)
        # Integers are codes from 0 on, booleans say whether an event was seen; all else is refused.
        is_code = cause >= 0 if cause.dtype.kind in "iu" else np.full(cause.shape, False)
        is_code |= cause.dtype.kind == "b"
        wrong = np.flatnonzero(~is_code)
        if len(wrong):
            raise ValueError(
                "the first field of y must be boolean, whether the event was seen, or have codes "
                f"0 (censored), 1, 2, ... of events; found {cause[wrong[0]]!r} of type "
                f"{cause.dtype} in row {wrong[0]} of {names[0]!r}."
            )
        if time.dtype.kind in "mM":
            raise ValueError(
                f"times of y must be numbers; found {time.dtype} in {names[1]!r}. Divide durations "
                "by a unit, such as np.timedelta64(1, 'D'); of dates take durations first."
            )
        time = time.astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(time))
        if len(wrong):
            raise ValueError(
                f"times of y must be finite; found {time[wrong[0]]!r} in row {wrong[0]} of "
                f"{names[1]!r}."
            )
        # What was not seen by a time comes after it.
        is_seen = cause > 0
        high = np.where(is_seen, time, np.inf)
        return cls(Ranges(time, high, np.array([is_seen, is_seen])), cause.astype(np.int64))

    def take(self, index: Any) -> Self:
        """Some of the targets."""
        return type(self)(self.cells.take(index), self.cause[index])

    def labelled(self, rows: Floats, codes: Ints | None) -> Floats:
        """Rows with the cause, if there are several, and the target; NaN where these are open."""
        if codes is not None:
            # Codes may leave out numbers, the states of a column do not.
            state = np.searchsorted(codes, self.cause).astype(np.float64)
            rows = labelled(rows, np.where(self.cause > 0, state, np.nan))
        times = np.where(self.cells.is_value, self.cells.low, np.nan)
        return labelled(rows, times)

    def filled(
        self, rows: Floats, weight: Floats, random_state: np.random.RandomState
    ) -> tuple[Floats, Floats]:
        """Labelled rows in which draws stand for ranges, several for each of these; weights."""
        copied, copied_weight = copied_rows(weight, ~self.cells.is_value)
        filled = rows[copied]
        filled[:, -1] = filled_numbers(self.cells.take(copied), copied_weight, random_state)
        return filled, copied_weight

    def events(self, rows: Floats, law: Law | None) -> Events:
        """Labelled rows as events; without a law the ends are those of plain numbers."""
        index = np.flatnonzero(~self.cells.is_value)
        low, high, closed = self.cells.take(index)
        if law is None:
            # Intervals of events are open below and closed above: other ends move by one float.
            low = np.where(closed[0], np.nextafter(low, -np.inf), low)
            high = np.where(closed[1] | np.isinf(high), high, np.nextafter(high, -np.inf))
        else:
            low, high = law.intervals(low, high, closed)
        # The target is the last column of labelled rows.
        column = np.full(len(index), rows.shape[1] - 1)
        return Events.from_intervals(rows, index, column, low, high)

    @property
    def codes(self) -> Ints:
        """The codes of the causes that were seen."""
        codes = np.unique(self.cause)
        return codes[codes > 0]

    @property
    def last(self) -> float:
        """The greatest number that is an end of what is known: beyond it nothing was seen."""
        ends = np.concatenate([self.cells.low, self.cells.high])
        return float(ends[np.isfinite(ends)].max())


def is_censored(y: Any) -> bool:
    """Whether a target is structured, or holds ranges."""
    if getattr(getattr(y, "dtype", None), "names", None) is not None:
        return True
    if str(getattr(y, "dtype", "")).startswith("interval"):
        return True
    is_object = str(getattr(y, "dtype", "")) == "object" and np.ndim(y) == 1
    return is_object and holds_ranges(objects_of(y).reshape(-1, 1))


def concordance(cells: Ranges, risk: Floats, weight: Floats) -> float:
    """Share of the pairs of known order in which the earlier target has the higher risk.

    Two targets have a known order where all that is known of one lies before all that is known of
    the other. Equal risks count half.

    Parameters
    ----------
    cells : Ranges
        What is known of the targets.
    risk : ndarray of shape (n_rows,)
        High for those that are expected early.
    weight : ndarray of shape (n_rows,)
        Not negative; a pair counts with the product.

    Raises
    ------
    ValueError
        If no pair has a known order.
    """
    total = 0.0
    concordant = 0.0
    holds_low, holds_high = cells.closed
    for part in slices(len(risk), _ROWS):
        # In shape (n_part, n_rows): the target of a line ends before that of a column begins.
        high = cells.high[part, np.newaxis]
        # Ranges that share an end are in order, unless both hold it.
        touches = (high == cells.low) & ~(holds_high[part, np.newaxis] & holds_low)
        # A pair counts with the weights of both; that of the line follows below.
        pairs = ((high < cells.low) | touches) * weight
        gap = risk[part, np.newaxis] - risk
        right = (gap > 0.0) + 0.5 * (gap == 0.0)
        total += float(weight[part] @ pairs.sum(axis=1))
        concordant += float(weight[part] @ (pairs * right).sum(axis=1))
    if total == 0.0:
        raise ValueError(
            "y must hold two targets whose order is known, an event and a later time; found none "
            f"among {len(risk)} rows. Score more rows, or stratify the folds by events."
        )
    return concordant / total


def check_times(times: Any, parameter: str = "times") -> Floats:
    """Finite numbers in one dimension.

    Raises
    ------
    ValueError
        If they are not.
    """
    numbers = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise ValueError(f"{parameter} must be finite numbers in one list; got {times!r}.")
    return numbers


def known_quantiles(quantiles: Floats, last: float) -> Floats:
    """Quantiles, infinite where they lie beyond all that was seen; a warning says so."""
    is_beyond = quantiles > last
    if is_beyond.any():
        warn(
            f"{is_beyond.sum()} quantiles lie beyond {last:g}, the last target or censored time "
            "that was seen: they are infinite. Ask for smaller levels, or predict_rmst(X, tau)."
        )
    return np.where(is_beyond, np.inf, quantiles)
