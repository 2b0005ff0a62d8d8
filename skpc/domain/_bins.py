"""How many bins each numeric column gets: more where these explain other columns better.

Within a bin a value follows the margin of its column, whatever the number of bins. So the number
matters for what the column has to do with others only, and two numbers of bins compare by the
Bayes factor between dependence and independence: the log marginal likelihood (BDeu) of the table
of two columns less those of its margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpc._arrays import Floats, Ints, offsets
from skpc.variables import Axis, Margin

#: Columns that each column is compared with, and multiplications to find them with: of wide
#: tables, only some of the rows are looked at.
_PARTNERS, _WORK = 3, 1e10
#: Pairs of states that are held at a time.
_PAIRS = 4e6
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
    numbers, codes = [start], [_codes(few, margins, start)]
    most = np.minimum(2 * start, n_bins)
    while (numbers[-1] < most).any():
        finer = np.maximum(numbers[-1] + 1, np.rint(numbers[-1] * _FACTOR).astype(np.int64))
        numbers.append(np.minimum(finer, most))
        codes.append(_codes(few, margins, numbers[-1]))
    partners = _partners(codes[0], their_weight)
    found: list[Axis | None] = []
    for column, margin in enumerate(margins):
        if margin is None:
            found.append(None)
            continue
        scores = [
            sum(
                _log_bayes_factor(level[:, column], level[:, other], their_weight)
                for other in partners[column]
            )
            for level in codes
        ]
        best = int(np.argmax(scores)) if max(scores) > 0.0 else 0
        found.append(margin.axis(int(numbers[best][column])))
    return tuple(found)


def _codes(rows: Floats, margins: Sequence[Margin | None], number: Ints) -> NDArray[np.int16]:
    """States of all cells, -1 where missing, with a number of bins for each column."""
    found = np.full(rows.shape, -1, dtype=np.int16)
    for column, (values, margin) in enumerate(zip(rows.T, margins)):
        seen = ~np.isnan(values)
        cells = values[seen]
        if margin is not None:
            cells = margin.states(int(number[column]))[margin.cells(cells)]
        found[seen, column] = cells
    return found


def _log_bayes_factor(code: Any, other: Any, weight: Floats) -> float:
    """Log of the marginal likelihood of dependence over that of independence, in nats."""
    both = (code >= 0) & (other >= 0)
    shape = int(code.max()) + 1, int(other.max()) + 1
    cell = code[both].astype(np.int64) * shape[1] + other[both]
    table = np.bincount(cell, weight[both], shape[0] * shape[1]).astype(np.float64).reshape(shape)
    of_margins = _log_evidence(table.sum(axis=0)) + _log_evidence(table.sum(axis=1))
    return _log_evidence(table) - of_margins


def _log_evidence(counts: Floats) -> float:
    """Log marginal likelihood of counts under the BDeu prior."""
    prior = _ESS / counts.size
    of_all = gammaln(_ESS) - gammaln(_ESS + counts.sum())
    return float((gammaln(counts + prior) - gammaln(prior)).sum() + of_all)


def _partners(codes: NDArray[np.int16], weight: Floats) -> Ints:
    """The columns that depend on each column most, by the mean square of the contingency."""
    ptr = offsets(codes.max(axis=0).astype(np.int64) + 1)
    step = 1 + int(len(codes) * ptr[-1] ** 2 / _WORK)
    codes, weight = codes[::step], weight[::step]
    indicator = np.zeros((len(codes), int(ptr[-1])))
    row, column = np.nonzero(codes >= 0)
    indicator[row, ptr[column] + codes[row, column]] = 1.0
    count, n_partners = weight @ indicator, min(_PARTNERS, codes.shape[1] - 1)
    found = np.empty((codes.shape[1], n_partners), dtype=np.int64)
    size = max(1, int(_PAIRS / (ptr[-1] * np.diff(ptr).max())))
    for begin in range(0, len(found), size):
        some = ptr[begin : begin + size + 1]
        mine = slice(int(some[0]), int(some[-1]))
        pairs = (indicator[:, mine] * weight[:, np.newaxis]).T @ indicator
        expected = np.maximum(np.multiply.outer(count[mine], count) / weight.sum(), 1e-300)
        per_pair = np.add.reduceat(np.square(pairs - expected) / expected, ptr[:-1], axis=1)
        strength = np.add.reduceat(per_pair, some[:-1] - some[0], axis=0)
        # More states leave more to chance.
        strength /= np.maximum(np.multiply.outer(np.diff(some) - 1, np.diff(ptr) - 1), 1)
        own = np.arange(len(strength))
        strength[own, begin + own] = -1.0
        order = np.argsort(-strength, axis=1, kind="stable")
        found[begin : begin + size] = order[:, :n_partners]
    return found
