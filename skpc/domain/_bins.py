"""How many bins each numeric column gets: more where these explain other columns better.

Within a bin a value follows the margin of its column, whatever the number of bins. So the number
matters for what the column has to do with others only, and two numbers of bins compare by the
Bayes factor between dependence and independence: the log marginal likelihood (BDeu) of the table
of two columns less those of its margins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpc._arrays import Floats, Ints, offsets
from skpc._threads import in_threads
from skpc.variables import Axis, Margin

#: Columns that each column is compared with, and multiplications to find them with: of wide
#: tables, only some of the rows are looked at.
_PARTNERS, _WORK = 3, 1e10
#: Pairs of states that are held at a time.
_PAIRS = 3e5
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


def choose_bins(
    rows: Floats, weight: Floats, margins: Sequence[Margin | None], n_bins: int
) -> tuple[Axis | None, ...]:
    """Cut an axis from each margin.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive.
    margins : sequence of Margin or None
        None for a category.
    n_bins : int
        Largest number of bins.

    Returns
    -------
    tuple of Axis or None
    """
    # If there are many rows, some of them are enough to choose the number.
    step = 1 + len(rows) // _MOST_ROWS
    few, their_weight = rows[::step], weight[::step]
    start = np.ones(len(margins), dtype=np.int64)
    for column, (values, margin) in enumerate(zip(rows.T, margins)):
        if margin is not None:
            enough = margin.n_bins(float(weight[~np.isnan(values)].sum()))
            start[column] = min(n_bins, enough, _ENOUGH)
    numbers, most = [start], np.minimum(2 * start, n_bins)
    while (numbers[-1] < most).any():
        finer = np.maximum(numbers[-1] + 1, np.rint(numbers[-1] * _FACTOR).astype(np.int64))
        numbers.append(np.minimum(finer, most))
    codes = _codes(few, margins, np.array(numbers))
    partners = _partners(codes[0], their_weight)
    is_number = np.array([margin is not None for margin in margins])
    score = _scores(codes, partners, their_weight, is_number)
    found: list[Axis | None] = []
    for column, margin in enumerate(margins):
        if margin is None:
            found.append(None)
            continue
        best = int(np.argmax(score[column])) if score[column].max() > 0.0 else 0
        found.append(margin.axis(int(numbers[best][column])))
    return tuple(found)


def _codes(rows: Floats, margins: Sequence[Margin | None], numbers: Ints) -> NDArray[np.int16]:
    """States of all cells, -1 where missing, with each number of bins of each column.

    The array has shape (n_numbers, n_columns, n_rows).
    """
    found = np.empty((len(numbers), *rows.shape[::-1]), dtype=np.int16)
    for column, margin in enumerate(margins):
        values = np.ascontiguousarray(rows[:, column])
        missing = np.isnan(values)
        if margin is None:
            found[:, column] = np.where(missing, -1, values)
            continue
        cell = margin.cells(values)
        for level, number in zip(found, numbers[:, column].tolist()):
            np.take(margin.states(number).astype(np.int16), cell, out=level[column], mode="clip")
        found[:, column, missing] = -1
    return found


def _scores(
    codes: NDArray[np.int16], partners: Ints, weight: Floats, is_number: NDArray[np.bool_]
) -> Floats:
    """Bayes factors of each number and its partners, a sum for each number of bins."""
    n_states = codes.max(axis=2).astype(np.int64) + 1
    found = np.zeros((codes.shape[1], len(codes)))
    known: dict[tuple[int, int], Floats] = {}
    for column in np.flatnonzero(is_number).tolist():
        for other in partners[column].tolist():
            pair = (column, other) if column < other else (other, column)
            if pair not in known:
                both = list(pair)
                known[pair] = np.array(
                    [
                        _log_bayes_factor(level[both], states[both], weight)
                        for level, states in zip(codes, n_states)
                    ]
                )
            found[column] += known[pair]
    return found


def _log_bayes_factor(codes: NDArray[np.int16], n_states: Ints, weight: Floats) -> float:
    """Log of the marginal likelihood of dependence over that of independence, in nats."""
    cell = codes[0].astype(np.int64) * n_states[1] + codes[1]
    missing = (codes < 0).any(axis=0)
    if missing.any():
        cell, weight = cell[~missing], weight[~missing]
    table = np.bincount(cell, weight, n_states.prod()).astype(np.float64).reshape(n_states)
    counts = table.ravel(), table.sum(axis=0), table.sum(axis=1)
    sizes = np.array([table.size, n_states[1], n_states[0]])
    prior = _ESS / sizes
    gained = gammaln(np.concatenate(counts) + np.repeat(prior, sizes))
    # Of two margins and their table, one whole is left.
    of_all = gammaln(_ESS + table.sum()) - gammaln(_ESS)
    of_cells = np.add.reduceat(gained, offsets(sizes[:-1])) - sizes * gammaln(prior)
    return float(of_all + of_cells[0] - of_cells[1] - of_cells[2])


def _partners(codes: NDArray[np.int16], weight: Floats) -> Ints:
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
    count, n_partners = weighted.sum(axis=1, dtype=np.float64), min(_PARTNERS, len(codes) - 1)
    found = np.empty((len(codes), n_partners), dtype=np.int64)
    size = max(1, int(_PAIRS / (n_places * np.diff(ptr).max())))

    def find(begin: int) -> None:
        some = ptr[begin : begin + size + 1]
        mine = slice(int(some[0]), int(some[-1]))
        expected = np.multiply.outer(count[mine], count / weight.sum())
        np.maximum(expected, 1e-300, out=expected)
        away = weighted[mine] @ indicator.T - expected
        np.square(away, out=away)
        away /= expected
        per_pair = np.add.reduceat(away, ptr[:-1], axis=1)
        strength = np.add.reduceat(per_pair, some[:-1] - some[0], axis=0)
        # More states leave more to chance.
        strength /= np.maximum(np.multiply.outer(np.diff(some) - 1, np.diff(ptr) - 1), 1)
        own = np.arange(len(strength))
        strength[own, begin + own] = -1.0
        order = np.argsort(-strength, axis=1, kind="stable")
        found[begin : begin + size] = order[:, :n_partners]

    in_threads(find, range(0, len(found), size))
    return found
