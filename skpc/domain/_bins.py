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
from skpc.domain._column import Column
from skpc.domain._declared import Declared, column_numbers
from skpc.variables import Histogram, Law, fit_histogram, plain_axis
from skpc.variables.histogram import TINY
from skpc.variables.margins import MOST_BINS
from skpc.variables.ranks import Ranks

_NO_BOUNDS = (-math.inf, math.inf)
#: Columns that each column is compared with, and multiplications to find them with: of wide
#: tables, only some of the rows are looked at.
_PARTNERS = 3
#: Equivalent sample size of the score. On seven tables, 8 to 16 did better than 1 to 4.
_ESS = 8.0
#: The score decides on more bins than these, twice as many at most. Fewer would often score more,
#: but locate a missing number less exactly: held-out errors grew, and densities fell on the
#: smallest tables.
_ENOUGH = 10


def fit_laws(
    rows: Floats,
    weight: Floats,
    columns: Sequence[Column],
    declared: Declared,
    names: Sequence[Any] | None,
) -> list[Law | None]:
    """Learn what the numbers of each column can be; None for categories.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    columns : sequence of Column
        What the columns are, without laws.
    declared : Declared
        Atoms and bounds that are known.
    names : sequence or None
        Names of the columns of a DataFrame.

    Raises
    ------
    TypeError, ValueError
        If atoms or bounds are declared of a column that is not there or not numeric, or are not
        what they should be.
    """
    named_atoms = None if isinstance(declared.atoms, str) else declared.atoms
    atoms = _by_column(named_atoms, "atoms", len(columns), names)
    bounds = _by_column(declared.bounds, "bounds", len(columns), names)
    for parameter, places in (("atoms", atoms), ("bounds", bounds)):
        for place in places:
            if columns[place].states is not None:
                raise ValueError(
                    f"{parameter} must name numeric columns, but {columns[place].where} is "
                    "categorical."
                )
    return [
        _law(rows[:, place], weight, column, atoms.get(place), bounds.get(place))
        if column.states is None
        else None
        for place, column in enumerate(columns)
    ]


def _law(values: Floats, weight: Floats, column: Column, atoms: Any, bounds: Any) -> Law:
    """The law of one column, of which atoms and bounds may be declared."""
    calendar = column.calendar
    if calendar is not None and atoms is not None:
        atoms = calendar.numbers_of(atoms, f"The atoms of {column.where}").tolist()
    if calendar is not None and bounds is not None:
        ends = calendar.numbers_of(bounds, f"The bounds of {column.where}").tolist()
        # Missing dates stand for sides without a bound.
        bounds = [None if end != end else end for end in ends]
    if isinstance(calendar, Ranks):
        # The categories of a dtype are all that can come.
        atoms = range(len(calendar.labels)) if atoms is None else atoms
        bounds = (0, len(calendar.labels) - 1) if bounds is None else bounds
    elif calendar is not None and calendar.kind == "dates" and bounds is None:
        # Dates go on beyond those of the table; durations are numbers like others.
        bounds = None, None
    points = None if atoms is None else _atoms(atoms, column)
    limits = None if bounds is None else _bounds(bounds, values, column)
    law = Law.fit(values, weight, points, limits)
    # No other category can come, but only a positive share marks ordered states.
    is_ranks = isinstance(calendar, Ranks)
    return law._replace(unseen=TINY) if is_ranks and law.is_ordered else law


def fit_axes(
    rows: Floats, weight: Floats, columns: Sequence[Column], n_bins: int | None
) -> list[Histogram | None]:
    """The histogram axis of each column, None for categories.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    columns : sequence of Column
        What the columns are. Those of numbers without a law get plain axes, with bins of equal
        mass.
    n_bins : int or None
        Largest number of bins. None: only ordered states have an axis.
    """
    # Rows on which numbers of bins are compared.
    most_rows = 20_000
    # Ratio of neighbouring numbers of bins that are tried, of all columns together.
    factor = 1.25
    is_number = np.array([column.states is None for column in columns])
    if n_bins is None:
        # Only categories have something to say of bins that are states.
        is_shown = ~is_number | [column.is_ordered for column in columns]
        if not (is_number & is_shown).any():
            return [None] * len(columns)
        shown = [column for column, has_axis in zip(columns, is_shown) if has_axis]
        axes = iter(fit_axes(rows[:, is_shown], weight, shown, MOST_BINS))
        return [next(axes) if has_axis else None for has_axis in is_shown]
    if all(column.law is None for column in columns):
        return [
            plain_axis(values, weight, n_bins) if numeric else None
            for values, numeric in zip(rows.T, is_number)
        ]
    margins: list[Histogram | None] = [None] * len(columns)
    start = np.ones(len(margins), dtype=np.int64)
    for place, (values, column) in enumerate(zip(rows.T, columns)):
        if column.law is not None:
            margins[place] = margin = fit_histogram(values, weight, column.law)
            enough = margin.enough_bins(float(weight[~np.isnan(values)].sum()))
            # Before bins of ordered states have several of them, these say more apart.
            n_states = len(column.law.atoms) if column.is_ordered else 0
            start[place] = min(n_bins, max(enough, n_states), _ENOUGH)
    # If there are many rows, some of them are enough to choose the number.
    step = 1 + len(rows) // most_rows
    rows = rows[::step]
    weight = weight[::step]
    # The numbers of bins of all columns, from the start up to twice as many.
    sizes = [start]
    most_bins = np.minimum(2 * start, n_bins)
    while (sizes[-1] < most_bins).any():
        finer = np.maximum(sizes[-1] + 1, np.rint(sizes[-1] * factor).astype(np.int64))
        sizes.append(np.minimum(finer, most_bins))
    # The codes have shape (n_numbers, n_columns, n_rows), the score (n_columns, n_numbers).
    codes = _codes(rows, margins, np.array(sizes))
    score = _scores(codes, _partners(codes[0], weight), weight, is_number)
    # Without evidence that columns depend on each other, the fewest bins are enough.
    best = np.where(score.max(axis=1) > 0.0, score.argmax(axis=1), 0)
    chosen = np.array(sizes)[best, np.arange(len(margins))].tolist()
    return [None if m is None else m.binned(size) for m, size in zip(margins, chosen)]


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


def _atoms(entry: Any, column: Column) -> Floats:
    try:
        values = np.atleast_1d(np.asarray(entry, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(
            f"The atoms of {column.where} must be a list of finite numbers; got {entry!r}."
        )
    return values


def _bounds(entry: Any, values: Floats, column: Column) -> tuple[float, float]:
    is_pair = isinstance(entry, Sequence) and len(entry) == 2
    if not is_pair or not all(end is None or isinstance(end, Real) for end in entry):
        raise ValueError(
            f"The bounds of {column.where} must be a pair (lower, upper), None for a side without; "
            f"got {entry!r}."
        )
    lower, upper = (free if end is None else float(end) for end, free in zip(entry, _NO_BOUNDS))
    outside = values[(values < lower) | (values > upper)]
    if not lower < upper or len(outside):
        wrong = f"found {outside[0]}" if len(outside) else f"got {entry!r}"
        raise ValueError(
            f"The bounds of {column.where} must increase and hold all its values; {wrong}."
        )
    return lower, upper


def _codes(rows: Floats, margins: Sequence[Histogram | None], numbers: Ints) -> Codes:
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
        # Cells of values are found once: numbers of bins only differ in how they group cells.
        cell = margin.cells(values)
        for level, number in zip(codes, numbers[:, column].tolist()):
            state = margin.binned_states(number).astype(np.int16)
            # With its default mode, numpy would fill a buffer first.
            np.take(state, cell, out=level[column], mode="clip")
        codes[:, column, missing] = -1
    return codes


def _scores(codes: Codes, partners: Ints, weight: Floats, is_number: Bools) -> Floats:
    """Bayes factors of each number and its partners, a sum for each number of bins."""
    n_states = codes.max(axis=2).astype(np.int64) + 1
    score = np.zeros((codes.shape[1], len(codes)))
    score_of_pair: dict[tuple[int, ...], Floats] = {}
    for column in np.flatnonzero(is_number).tolist():
        for partner in partners[column].tolist():
            # A pair of numbers has one score, which counts for both of them.
            pair = [min(column, partner), max(column, partner)]
            if tuple(pair) not in score_of_pair:
                levels = zip(codes[:, pair], n_states[:, pair])
                score_of_pair[*pair] = np.array(
                    [_log_bayes_factor(*level, weight) for level in levels]
                )
            score[column] += score_of_pair[*pair]
    return score


def _log_bayes_factor(codes: Codes, n_states: Ints, weight: Floats) -> float:
    """Log of the marginal likelihood of dependence over that of independence, in nats."""
    # One number for each pair of states, so that counting makes their table.
    cell = codes[0].astype(np.int64) * n_states[1] + codes[1]
    missing = (codes < 0).any(axis=0)
    if missing.any():
        cell = cell[~missing]
        weight = weight[~missing]
    table = np.bincount(cell, weight, n_states.prod()).astype(np.float64).reshape(n_states)
    dependent, *independent = map(_log_evidence, (table, table.sum(axis=0), table.sum(axis=1)))
    return dependent - sum(independent)


def _log_evidence(counts: Floats) -> float:
    """Log marginal likelihood (BDeu) of a table of counts."""
    # The equivalent sample is spread evenly over the cells.
    gained = gammaln(counts + _ESS / counts.size) - gammaln(_ESS / counts.size)
    return float(gained.sum() + gammaln(_ESS) - gammaln(_ESS + counts.sum()))


def _partners(codes: Codes, weight: Floats) -> Ints:
    """The columns that depend on each column most, by the mean square of the contingency."""
    work = 1e10
    ptr = offsets(codes.max(axis=1).astype(np.int64) + 1)
    n_places = int(ptr[-1])
    step = 1 + int(codes.shape[1] * n_places**2 / work)
    codes = codes[:, ::step]
    weight = weight[::step]
    # Sums of whole weights do not round, in single precision neither if they are not too large.
    is_exact = weight.sum() < 2.0**24 and bool((weight == np.floor(weight)).all())
    indicator = np.zeros((n_places + 1, len(weight)), np.float32 if is_exact else np.float64)
    # Missing cells have a place of their own, which is left out.
    place = np.where(codes < 0, n_places, ptr[:-1, np.newaxis] + codes)
    indicator[place, np.arange(len(weight))] = 1.0
    indicator = indicator[:-1]
    weighted = indicator * weight.astype(indicator.dtype)
    count = weighted.sum(axis=1, dtype=np.float64)
    n_others = np.diff(ptr) - 1

    def partners(column: int) -> Ints:
        places = slice(int(ptr[column]), int(ptr[column + 1]))
        # A state without any row must not divide by zero.
        expected = np.maximum(np.multiply.outer(count[places], count / weight.sum()), 1e-300)
        contingency = np.square(weighted[places] @ indicator.T - expected) / expected
        # From (states of the column, states of all columns) to one number for each column.
        strength = np.add.reduceat(contingency.sum(axis=0), ptr[:-1])
        # More states leave more to chance.
        strength /= np.maximum(n_others[column] * n_others, 1)
        # A column is not a partner of itself.
        strength[column] = -1.0
        return np.argsort(-strength, kind="stable")[:_PARTNERS]

    # Among few columns, the last one in the order is the column itself.
    return np.array(in_threads(partners, range(len(codes))))[:, : len(codes) - 1]
