"""What the numeric columns of a table are: lattices, atoms, bounds, and the axes of bins.

How many bins a column gets depends on what they explain of other columns. Within a bin a value
follows the margin of its column, whatever the number of bins. So the number matters for what the
column has to do with others only, and two numbers of bins compare by the Bayes factor between
dependence and independence: the log marginal likelihood (BDeu) of the table of two columns less
those of its margins.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import gammaln

from skpc._arrays import Bools, Codes, Floats, Ints, offsets
from skpc._threads import in_threads
from skpc._validation import describe_column
from skpc.domain._states import column_numbers
from skpc.domain._tables import Form
from skpc.variables import Axis, Margin, Number, plain_axis
from skpc.variables.axis import TINY
from skpc.variables.margins import MOST_BINS
from skpc.variables.ranks import Ranks

Numbers = tuple[Number | None, ...]
_NO_BOUNDS = (-math.inf, math.inf)
#: Columns that each column is compared with, and multiplications to find them with: of wide
#: tables, only some of the rows are looked at.
_PARTNERS, _WORK = 3, 1e10
#: Equivalent sample size of the score. On seven tables, 8 to 16 did better than 1 to 4.
_ESS = 8.0
#: The score decides on more bins than these, twice as many at most. Fewer would often score more,
#: but locate a missing number less exactly: held-out errors grew, and densities fell on the
#: smallest tables.
_ENOUGH = 10
#: Rows on which numbers of bins are compared.
_MOST_ROWS = 20_000
#: Ratio of neighbouring numbers of bins that are tried, of all columns together.
_FACTOR = 1.25


def fit_numbers(
    rows: Floats,
    weight: Floats,
    is_number: Bools,
    atoms: Any,
    bounds: Any,
    form: Form,
) -> Numbers:
    """Learn what each numeric column is; None for the others.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    is_number : ndarray of shape (n_features,)
        Which columns are numeric.
    atoms, bounds
        See :meth:`skpc.domain.Domain.fit`.
    form : Form
        Names of the columns, and which are dates.

    Raises
    ------
    TypeError, ValueError
        If atoms or bounds are declared of a column that is not there or not numeric, or are not
        what they should be.
    """
    n_columns, names = rows.shape[1], form.names
    atoms = _by_column({} if isinstance(atoms, str) else atoms, "atoms", n_columns, names)
    bounds = _by_column(bounds, "bounds", n_columns, names)
    for parameter, declared in (("atoms", atoms), ("bounds", bounds)):
        for column in np.setdiff1d([*declared], np.flatnonzero(is_number)).tolist():
            raise ValueError(
                f"{parameter} must name numeric columns, but "
                f"{describe_column(column, names)} is categorical."
            )
        for column in form.dates.keys() & declared.keys():
            where = f"The {parameter} of {describe_column(column, names)}"
            given = form.dates[column].numbers_of(declared[column], where).tolist()
            declared[column] = [None if date != date else date for date in given]
    for column, scale in form.dates.items():
        # Dates go on beyond those of the table. The categories of a dtype are all that can come.
        ends: Any = (None, None)
        if isinstance(scale, Ranks):
            ends = (0, len(scale.labels) - 1)
            atoms.setdefault(column, range(len(scale.labels)))
        bounds.setdefault(column, ends)
    numbers: list[Number | None] = [None] * n_columns
    for column in np.flatnonzero(is_number).tolist():
        values = rows[:, column]
        points = _atoms(atoms[column], column, names) if column in atoms else None
        ends = _bounds(bounds[column], values, column, names) if column in bounds else None
        number = Number.fit(values, weight, points, ends)
        is_closed = isinstance(form.dates.get(column), Ranks) and number.is_ordered
        numbers[column] = number._replace(unseen=TINY) if is_closed else number
    return tuple(numbers)


def fit_axes(
    rows: Floats, weight: Floats, is_number: Bools, numbers: Numbers | None, n_bins: int | None
) -> tuple[Axis | None, ...] | None:
    """The histogram axis of each numeric column.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    is_number : ndarray of shape (n_features,)
        Which columns are numeric.
    numbers : tuple of Number or None
        What they are; None altogether for plain axes, with bins of equal mass.
    n_bins : int or None
        Largest number of bins. None: only ordered states have an axis.

    Returns
    -------
    tuple of Axis or None
        None altogether if no column has an axis.
    """
    if n_bins is None:
        return _axes_of_states(rows, weight, is_number, numbers)
    if numbers is None or not is_number.any():
        return tuple(
            plain_axis(values, weight, n_bins) if numeric else None
            for values, numeric in zip(rows.T, is_number)
        )
    margins: list[Margin | None] = [None] * len(numbers)
    start = np.ones(len(margins), dtype=np.int64)
    for column, (values, number) in enumerate(zip(rows.T, numbers)):
        if number is not None:
            margins[column] = margin = Margin.fit(values, weight, number)
            enough = margin.n_bins(float(weight[~np.isnan(values)].sum()))
            # Before bins of ordered states have several of them, these say more apart.
            n_states = len(number.atoms) if number.is_ordered else 0
            start[column] = min(n_bins, max(enough, n_states), _ENOUGH)
    # If there are many rows, some of them are enough to choose the number.
    step = 1 + len(rows) // _MOST_ROWS
    rows, weight = rows[::step], weight[::step]
    sizes, most = [start], np.minimum(2 * start, n_bins)
    while (sizes[-1] < most).any():
        finer = np.maximum(sizes[-1] + 1, np.rint(sizes[-1] * _FACTOR).astype(np.int64))
        sizes.append(np.minimum(finer, most))
    codes = _codes(rows, margins, np.array(sizes))
    score = _scores(codes, _partners(codes[0], weight), weight, is_number)
    best = np.where(score.max(axis=1) > 0.0, score.argmax(axis=1), 0)
    chosen = np.array(sizes)[best, np.arange(len(margins))].tolist()
    return tuple(None if m is None else m.axis(size) for m, size in zip(margins, chosen))


def _axes_of_states(
    rows: Floats, weight: Floats, is_number: Bools, numbers: Numbers | None
) -> tuple[Axis | None, ...] | None:
    """The axes of ordered states, where other numbers have none."""
    if numbers is None or not any(number and number.is_ordered for number in numbers):
        return None
    kept = [number is None or number.is_ordered for number in numbers]
    some = tuple(number for number, is_kept in zip(numbers, kept) if is_kept)
    axes = iter(fit_axes(rows[:, kept], weight, is_number[kept], some, MOST_BINS) or ())
    return tuple(next(axes) if is_kept else None for is_kept in kept)


def _by_column(
    declared: Any, parameter: str, n_columns: int, names: Sequence[Any] | None
) -> dict[int, Any]:
    """The entries of a dict from columns (names or numbers), by the numbers of the columns."""
    if declared is None:
        return {}
    if not isinstance(declared, Mapping):
        raise TypeError(
            f"{parameter} must be a dict from columns (names or numbers) to what is known of them; "
            f"got {type(declared).__name__}."
        )
    by_column: dict[int, Any] = {}
    for key, entry in declared.items():
        column = int(column_numbers(np.asarray([key]), n_columns, names, parameter)[0])
        if column in by_column:
            raise ValueError(f"{parameter} names {describe_column(column, names)} twice.")
        by_column[column] = entry
    return by_column


def _atoms(entry: Any, column: int, names: Sequence[Any] | None) -> Floats:
    try:
        values = np.atleast_1d(np.asarray(entry, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(
            f"The atoms of {describe_column(column, names)} must be a list of finite numbers; "
            f"got {entry!r}."
        )
    return values


def _bounds(
    entry: Any, values: Floats, column: int, names: Sequence[Any] | None
) -> tuple[float, float]:
    where = describe_column(column, names)
    is_pair = isinstance(entry, Sequence) and len(entry) == 2
    if not is_pair or not all(end is None or isinstance(end, Real) for end in entry):
        raise ValueError(
            f"The bounds of {where} must be a pair (lower, upper), None for a side without; got "
            f"{entry!r}."
        )
    lower, upper = (free if end is None else float(end) for end, free in zip(entry, _NO_BOUNDS))
    outside = values[(values < lower) | (values > upper)]
    if not lower < upper or len(outside):
        wrong = f"found {outside[0]}" if len(outside) else f"got {entry!r}"
        raise ValueError(f"The bounds of {where} must increase and hold all its values; {wrong}.")
    return lower, upper


def _codes(rows: Floats, margins: Sequence[Margin | None], numbers: Ints) -> Codes:
    """States of all cells, -1 where missing, with each number of bins of each column.

    The array has shape (n_numbers, n_columns, n_rows).
    """
    codes = np.empty((len(numbers), *rows.shape[::-1]), dtype=np.int16)
    for column, margin in enumerate(margins):
        values = np.ascontiguousarray(rows[:, column])
        missing = np.isnan(values)
        if margin is None:
            codes[:, column] = np.where(missing, -1, values)
            continue
        cell = margin.cells(values)
        for level, number in zip(codes, numbers[:, column].tolist()):
            np.take(margin.states(number).astype(np.int16), cell, out=level[column], mode="clip")
        codes[:, column, missing] = -1
    return codes


def _scores(codes: Codes, partners: Ints, weight: Floats, is_number: Bools) -> Floats:
    """Bayes factors of each number and its partners, a sum for each number of bins."""
    n_states = codes.max(axis=2).astype(np.int64) + 1
    score = np.zeros((codes.shape[1], len(codes)))
    of_pair: dict[tuple[int, ...], Floats] = {}
    for column in np.flatnonzero(is_number).tolist():
        for other in partners[column].tolist():
            pair = [min(column, other), max(column, other)]
            if tuple(pair) not in of_pair:
                levels = zip(codes[:, pair], n_states[:, pair])
                of_pair[*pair] = np.array([_log_bayes_factor(*one, weight) for one in levels])
            score[column] += of_pair[*pair]
    return score


def _log_bayes_factor(codes: Codes, n_states: Ints, weight: Floats) -> float:
    """Log of the marginal likelihood of dependence over that of independence, in nats."""
    cell = codes[0].astype(np.int64) * n_states[1] + codes[1]
    missing = (codes < 0).any(axis=0)
    if missing.any():
        cell, weight = cell[~missing], weight[~missing]
    table = np.bincount(cell, weight, n_states.prod()).astype(np.float64).reshape(n_states)
    dependent, *independent = map(_log_evidence, (table, table.sum(axis=0), table.sum(axis=1)))
    return dependent - sum(independent)


def _log_evidence(counts: Floats) -> float:
    """Log marginal likelihood (BDeu) of a table of counts."""
    gained = gammaln(counts + _ESS / counts.size) - gammaln(_ESS / counts.size)
    return float(gained.sum() + gammaln(_ESS) - gammaln(_ESS + counts.sum()))


def _partners(codes: Codes, weight: Floats) -> Ints:
    """The columns that depend on each column most, by the mean square of the contingency."""
    ptr = offsets(codes.max(axis=1).astype(np.int64) + 1)
    n_places = int(ptr[-1])
    step = 1 + int(codes.shape[1] * n_places**2 / _WORK)
    codes, weight = codes[:, ::step], weight[::step]
    # Sums of whole weights do not round, in single precision neither if they are not too large.
    is_exact = weight.sum() < 2.0**24 and bool((weight == np.floor(weight)).all())
    indicator = np.zeros((n_places + 1, len(weight)), np.float32 if is_exact else np.float64)
    # Missing cells have a place of their own, which is left out.
    place = np.where(codes < 0, n_places, ptr[:-1, np.newaxis] + codes)
    indicator[place, np.arange(len(weight))] = 1.0
    indicator = indicator[:-1]
    weighted = indicator * weight.astype(indicator.dtype)
    count, n_others = weighted.sum(axis=1, dtype=np.float64), np.diff(ptr) - 1

    def partners(column: int) -> Ints:
        places = slice(int(ptr[column]), int(ptr[column + 1]))
        expected = np.maximum(np.multiply.outer(count[places], count / weight.sum()), 1e-300)
        contingency = np.square(weighted[places] @ indicator.T - expected) / expected
        strength = np.add.reduceat(contingency.sum(axis=0), ptr[:-1])
        # More states leave more to chance.
        strength /= np.maximum(n_others[column] * n_others, 1)
        strength[column] = -1.0
        return np.argsort(-strength, kind="stable")[:_PARTNERS]

    return np.array(in_threads(partners, range(len(codes))))[:, : len(codes) - 1]
