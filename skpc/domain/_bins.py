"""How many bins each numeric column gets: more where these tell more about other columns.

Within a bin a value follows the margin of its column, whatever the number of bins. So the number
matters for what the column has to do with others only, and two numbers of bins compare by the
Bayes factor between dependence and independence: the log marginal likelihood (BDeu) of the table
of two columns less those of its margins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from skpc._arrays import Floats, Ints, offsets
from skpc.variables import Axis, Margin

#: Columns that each column is compared with, and multiplications to find them with: of wide
#: tables, only some of the rows are looked at.
_PARTNERS, _WORK = 3, 1e10
#: Equivalent sample size of the score. On seven tables, 8 to 16 did better than 1 to 4.
_ESS = 8.0
#: The score decides on more bins than these. Fewer would often score more, but tell less exactly
#: where a missing number lies: held-out errors grew, and on the smallest tables densities fell.
_ENOUGH = 10
#: Ratio of neighbouring numbers of bins that are tried.
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
    codes = np.full(rows.shape, -1)
    number = np.zeros(len(margins), dtype=np.int64)
    for column, (values, margin) in enumerate(zip(rows.T, margins)):
        seen = ~np.isnan(values)
        if margin is None:
            codes[seen, column] = values[seen]
        else:
            enough = min(margin.n_bins(float(weight[seen].sum())), _ENOUGH)
            number[column] = min(n_bins, enough)
            codes[seen, column] = margin.states(number[column])[margin.cells(values[seen])]
    partners = _partners(codes, weight)
    found: list[Axis | None] = []
    for column, margin in enumerate(margins):
        if margin is not None and len(margin.points):
            others = codes[:, partners[column]].T
            number[column] = _best_number(
                rows[:, column], weight, margin, n_bins, others, number[column]
            )
        found.append(None if margin is None else margin.axis(number[column]))
    return tuple(found)


def _best_number(
    values: Floats, weight: Floats, margin: Margin, n_bins: int, others: Ints, start: int
) -> int:
    """The number of bins of greatest score among those from ``start`` to ``n_bins``."""
    seen = ~np.isnan(values)
    cell, code = margin.cells(values[seen]), np.full(len(values), -1)
    best, found, number = -np.inf, start, float(start)
    while round(number) <= n_bins:
        code[seen] = margin.states(round(number))[cell]
        score = sum(_log_bayes_factor(code, other, weight) for other in others)
        if score > best:
            best, found = score, round(number)
        number = max(number + 1.0, number * _FACTOR)
    return found


def _log_bayes_factor(code: Ints, other: Ints, weight: Floats) -> float:
    """Log of the marginal likelihood of dependence over that of independence, in nats."""
    both = (code >= 0) & (other >= 0)
    shape = int(code.max()) + 1, int(other.max()) + 1
    cell = code[both] * shape[1] + other[both]
    table = np.bincount(cell, weight[both], shape[0] * shape[1]).astype(np.float64).reshape(shape)
    of_margins = _log_evidence(table.sum(axis=0)) + _log_evidence(table.sum(axis=1))
    return _log_evidence(table) - of_margins


def _log_evidence(counts: Floats) -> float:
    """Log marginal likelihood of counts under the BDeu prior."""
    prior = _ESS / counts.size
    of_all = gammaln(_ESS) - gammaln(_ESS + counts.sum())
    return float((gammaln(counts + prior) - gammaln(prior)).sum() + of_all)


def _partners(codes: Ints, weight: Floats) -> Ints:
    """The columns that depend on each column most, by the mean square of the contingency."""
    ptr = offsets(codes.max(axis=0) + 1)
    step = 1 + int(len(codes) * ptr[-1] ** 2 / _WORK)
    codes, weight = codes[::step], weight[::step]
    indicator = np.zeros((len(codes), int(ptr[-1])))
    row, column = np.nonzero(codes >= 0)
    indicator[row, ptr[column] + codes[row, column]] = 1.0
    pairs = indicator.T @ (indicator * weight[:, np.newaxis])
    count = np.diag(pairs)
    expected = np.maximum(np.multiply.outer(count, count) / weight.sum(), 1e-300)
    per_pair = np.add.reduceat(np.square(pairs - expected) / expected, ptr[:-1], axis=0)
    strength = np.add.reduceat(per_pair, ptr[:-1], axis=1)
    # More states leave more to chance.
    strength /= np.maximum(np.multiply.outer(np.diff(ptr) - 1, np.diff(ptr) - 1), 1)
    np.fill_diagonal(strength, -1.0)
    n_partners = min(_PARTNERS, codes.shape[1] - 1)
    return np.argsort(-strength, axis=1, kind="stable")[:, :n_partners]
