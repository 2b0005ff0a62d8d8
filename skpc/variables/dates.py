"""Dates and durations as numbers: whole months, days, ..., nanoseconds from an origin.

Dates are taken in the local time of their zone, where they fall on whole days and hours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._validation import check_weight, kinds_of_cells, missing_cells, objects_of
from skpc.variables.lattice import unusual_weight

if TYPE_CHECKING:
    from skpc.variables.ranks import Ranks

#: Beginnings of the names of dtypes for dates and durations, in numpy, pandas and polars.
_DTYPES = ("datetime64", "timedelta64", "Date", "Duration")
_UNITS = ("D", "h", "m", "s", "ms", "us", "ns")
#: The first and the last day of dates (years 1 to 9999), of durations, and of both in nanoseconds
#: (of which int64 holds 292 years).
_DAYS = {"M8": (-719_162, 2_932_896), "m8": (-(10**8), 10**8), "ns": (-106_742, 106_750)}


class Calendar(NamedTuple):
    """How the dates or durations of a column are numbers.

    Parameters
    ----------
    stored : str
        The dtype of numpy that holds the cells: "M8[us]" for dates, say, "m8[ns]" for durations.
    zone : str or None
        The time zone of dates.
    unit : str
        The unit of the numbers by its name in numpy: the longest that all dates are multiples of.
    day : int
        The day of dates in a month (its last one in shorter months) where the unit is "M", else 0.
    origin : int
        The date of the number zero, in units since the start of 1970; 0 for durations.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.dates import Calendar
    >>> ends = np.array(
    ...     ["2024-01-31", "2024-02-29", "2024-05-31"], dtype="datetime64[D]"
    ... )
    >>> calendar = Calendar.fit(ends, None, "ends")
    >>> calendar.unit, calendar.day, calendar.numbers_of(ends, "ends")
    ('M', 31, array([-2., -1.,  2.]))
    >>> calendar.dates(np.array([1.0, np.nan]))
    array(['2024-04-30',        'NaT'], dtype='datetime64[D]')
    """

    stored: str
    zone: str | None
    unit: str = "D"
    day: int = 0
    origin: int = 0

    @classmethod
    def fit(cls, values: Any, weight: Any, where: str) -> Calendar | None:
        """Learn the unit and the origin; a few unusual rows do not decide about the unit.

        Parameters
        ----------
        values : Series, array or list of length n_rows
            See :func:`read_dates`.
        weight : array-like of shape (n_rows,) or None
            Not negative; None gives every row the weight one.
        where : str
            Name of the values in errors.

        Returns
        -------
        Calendar or None
            None if the values are no dates.
        """
        dated = read_dates(values, where)
        if dated is None:
            return None
        moments, zone = dated
        weight = check_weight(weight, len(moments))
        is_counted = ~np.isnat(moments) & (weight > 0.0)
        moments = moments[is_counted]
        weight = weight[is_counted]
        # The name of the dtype without the sign of its byte order.
        plain = cls(moments.dtype.str[1:], zone)
        calendars = [plain._replace(unit=unit) for unit in _UNITS]
        # Durations have no months.
        months = moments.astype("M8[M]") if plain.stored[0] == "M" else moments[:0]
        # In fewer different months, dates may be on the same day by chance.
        fewest_months = 3
        if len(np.unique(months)) >= fewest_months:
            day = 1 + int(np.median((moments.astype("M8[D]") - months).astype(np.int64)))
            # Last days of months come before the median day: shorter months would hide them.
            calendars[:0] = [plain._replace(unit="M", day=month_day) for month_day in (31, day)]
        unusual = unusual_weight(float(weight.sum()))
        # Units go from long to short: the first that fits is the longest.
        for calendar in calendars:
            is_off = calendar._starts(calendar._counts(moments)) != moments
            if weight[is_off].sum() <= unusual:
                break
        if plain.stored[0] == "M" and len(moments):
            # Columns of one sign end at zero, but dates do not: zero is put into their middle.
            extremes = np.array([moments.min(), moments.max()])
            ends = calendar._counts(extremes)
            calendar = calendar._replace(origin=int((ends // 2).sum()))
        return calendar

    def numbers_of(self, values: Any, where: str) -> Floats:
        """The numbers of dates or durations in any form; NaN where missing.

        Raises
        ------
        TypeError, ValueError
            If ``values``, which the error calls ``where``, are something else or of another time
            zone, or lie beyond the dates that the column can hold.
        """
        moments, zone = read_dates(values, where) or (None, None)
        if moments is None or (moments.dtype.kind, zone) != (self.stored[0], self.zone):
            # A column without any cell suits every dtype.
            cells = objects_of(values)
            present = cells[~missing_cells(cells)]
            if len(present):
                zone = f" of the time zone {self.zone}" if self.zone else " without a time zone"
                raise TypeError(
                    f"{where} must hold {self.kind}{zone} as in fit; found {present[0]!r}. See "
                    "pandas.to_datetime and pandas.to_timedelta."
                )
            return np.full(cells.shape, np.nan)
        # The range is checked in days, which cannot overflow.
        day = moments.astype(self._dtype("D")).astype(np.int64)
        outside = moments[~np.isnat(moments) & (day != np.clip(day, *self._days))]
        if len(outside):
            ends = np.array(self._days, self._dtype("D"))
            raise ValueError(
                f"{where} must lie between {ends[0]} and {ends[1]}; found {outside[0]}. Leave it "
                "missing, or convert the column to a dtype without nanoseconds."
            )
        count = self._counts(moments)
        start = self._starts(count)
        # Months differ in length: a fraction is a part of its own month.
        part = (moments - start) / (self._starts(count + 1) - start)
        return count - self.origin + part

    def dates(self, numbers: Floats) -> NDArray[Any]:
        """The nearest dates or durations, as numpy holds them in local time; NaT for NaN."""
        # Numbers up to this size can be added to the origin without an overflow.
        large = 4e18
        # The last unit of the last day is the one before the day that follows.
        days = np.array(self._days, self._dtype("D")) + np.array([0, 1])
        low, high = days.astype(self._dtype(self.unit)).astype(np.int64) - [0, 1]
        near = np.clip(np.rint(np.nan_to_num(numbers)), -large, large).astype(np.int64)
        # No draw is beyond what the dtype holds.
        moments = self._starts(np.clip(near + self.origin, low, high)).astype(self.stored)
        moments[np.isnan(numbers)] = "NaT"
        return moments

    def objects(self, numbers: Floats) -> NDArray[np.object_]:
        """The nearest dates or durations, as Python holds them; None for NaN."""
        cells = self.dates(numbers)
        # Python has no unit below microseconds.
        cells = cells.astype(self.stored if self.stored == "M8[D]" else self._dtype("us"))
        cells = cells.astype(object)
        if self.zone is not None:
            offset = self.zone.removeprefix("UTC")
            is_name = offset[:1] not in {"+", "-"}
            zone = ZoneInfo(self.zone) if is_name else datetime.strptime(offset, "%z").tzinfo
            for place, cell in np.ndenumerate(cells):
                # An hour that does not exist, as clocks skip it, becomes the hour after it.
                cells[place] = cell and cell.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
        return cells

    def lengths(self, numbers: Floats) -> NDArray[Any]:
        """Durations of these numbers of units; a month lasts 30.44 days on average."""
        # 4800 months are 400 years, after which the calendar repeats itself.
        length_of_4800 = np.diff(self._starts(np.array([0, 4800]))) / np.timedelta64(1, "us")
        return np.asarray(numbers * (length_of_4800 / 4800)).astype("m8[us]")

    def text(self, number: float) -> str:
        """The nearest date or duration, for people."""
        return str(self.dates(np.array([number])).astype(self._dtype(self.unit))[0])

    @property
    def kind(self) -> str:
        """What the column holds, in words."""
        return "dates" if self.stored[0] == "M" else "durations"

    @property
    def _days(self) -> tuple[int, int]:
        """The first and the last day that the column can hold, from the start of 1970."""
        return _DAYS["ns" if "[ns]" in self.stored else self.stored[:2]]

    def _dtype(self, unit: str) -> str:
        """The dtype of such dates or durations with another unit."""
        return f"{self.stored[:2]}[{unit}]"

    def _starts(self, count: Ints) -> NDArray[Any]:
        """The dates at these numbers of units from the start of 1970."""
        start = count.astype(self._dtype(self.unit))
        if not self.day:
            return start
        one_day = np.timedelta64(1, "D")
        # A month that is too short has its last day instead.
        last_day = (count + 1).astype(start.dtype).astype("M8[D]") - one_day
        day = start.astype("M8[D]") + (self.day - 1) * one_day
        return np.minimum(day, last_day)

    def _counts(self, moments: NDArray[Any]) -> Ints:
        """Whole units from the start of 1970 up to each date."""
        count = moments.astype(self._dtype(self.unit)).astype(np.int64)
        # Before the day of its month, a date still counts to the month before.
        return count - (moments < self._starts(count))


def as_dates(numbers: Floats, calendar: Calendar | Ranks | None) -> NDArray[Any]:
    """The dates that numbers stand for, of Python where they have a time zone, else of numpy.

    Without a calendar, the numbers themselves; ordered categories where it is their ranks.
    """
    if calendar is None:
        return numbers
    return calendar.dates(numbers) if calendar.zone is None else calendar.objects(numbers)


def text_of(number: float, calendar: Calendar | Ranks | None) -> str:
    """A number, or the date or ordered category that it stands for, as people read it."""
    return f"{number:.9g}" if calendar is None or np.isinf(number) else calendar.text(number)


def read_dates(values: Any, where: str) -> tuple[NDArray[Any], str | None] | None:
    """Dates or durations as numpy holds them, and their time zone; None for other things.

    Parameters
    ----------
    values : Series, array or list
        Its dtype is one for dates, or its cells are dates of Python, pandas or numpy.
    where : str
        Name of the values in errors.

    Returns
    -------
    moments : ndarray of datetime64 or timedelta64
        In local time; NaT where missing.
    zone : str or None
        The time zone.

    Raises
    ------
    ValueError
        If they have several time zones.

    Examples
    --------
    >>> import datetime
    >>> from skpc.variables.dates import read_dates
    >>> read_dates([datetime.date(2024, 2, 29), None], "X")
    (array(['2024-02-29',        'NaT'], dtype='datetime64[D]'), None)
    """
    dtype = getattr(values, "dtype", None)
    zone = getattr(dtype, "tz", getattr(dtype, "time_zone", None))
    if str(dtype).startswith(_DTYPES) and (zone is None or hasattr(values, "dt")):
        if zone is not None:
            is_pandas = hasattr(values, "iloc")
            # Local times stay as they are: only the zone is taken off.
            values = (values.dt.tz_localize if is_pandas else values.dt.replace_time_zone)(None)
        return np.asarray(values), zone and str(zone)
    cells = objects_of(values)
    known = cells[~missing_cells(cells)].tolist()
    kinds = kinds_of_cells(known)
    zones = {str(getattr(cell, "tzinfo", None)) for cell in known}
    if kinds not in ({"date"}, {"duration"}):
        return None
    if len(zones) > 1:
        raise ValueError(
            f"The dates of {where} must have one time zone; found {' and '.join(sorted(zones))}. "
            "Convert them, by pandas.to_datetime(..., utc=True) for example."
        )
    zone = None if zones == {"None"} else zones.pop()
    kind = "M8" if kinds == {"date"} else "m8"
    local = np.array([cell.replace(tzinfo=None) if zone else cell for cell in known], dtype=kind)
    moments = np.full(cells.shape, "NaT", dtype=local.dtype)
    moments[~missing_cells(cells)] = local
    return moments, zone
