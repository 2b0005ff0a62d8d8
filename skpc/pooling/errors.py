"""Cells that may be wrong: what a density says of them, and how many there are.

A wrong cell is a draw from the widened margin of its column. Rates come from rows that a density
has not learned.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from skpc._arrays import Bools, Floats, Ints, one_or_each, weighted_quantiles
from skpc.domain import Domain, LogMass
from skpc.pooling.error_tails import QUARTILES, ErrorTail
from skpc.queries import NoisyCells

#: The rate of errors is near this mean, as if it were that of so many cells a column; that of each
#: column is near that of all.
MEAN_RATE, _PRIOR_CELLS, _COLUMN_CELLS = 0.015, 50.0, 500.0
#: Parts of the wrong cells that follow no margin, where cells are judged, and where they are
#: counted: most errors are like their column, but only others can be told cell by cell.
_JUDGED, _COUNTED = 0.95, 1.0 / 3.0
#: Rates that are compared, and the interval of a rate.
_RATES, _LEVELS = np.geomspace(1e-4, 0.5, 80), (0.025, 0.975)
#: Numbers are far away beyond so many standard deviations, by the quartiles, of the median, if they
#: are a small share of their column.
_FAR, _FEW = 8.0, 0.02
#: Log ratios beyond say no more.
_MOST = 30.0


class Judged(NamedTuple):
    """Verdicts on cells, NaN where missing.

    ``probability`` is that of a value other than the true one; ``log_ratio`` the log density of the
    cell as a wrong one less that given its row.
    """

    probability: Floats
    log_ratio: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Those of all rows of some parts."""
        return cls(*map(np.concatenate, zip(*parts)))


class CheckedCells(NamedTuple):
    """Encoded cells that may be wrong, and what their columns say of them; (n_rows, n_features).

    Attributes
    ----------
    rows : ndarray
        NaN where missing, and where no leaf reads the cell: it is set aside.
    log_tail : ndarray
        Log density of the cells as what follows no margin; NaN where missing.
    size : ndarray
        What turns the density of a cell into a probability.
    log_aside : ndarray
        Log density of cells that are set aside, given any row; NaN elsewhere.
    """

    rows: Floats
    log_tail: Floats
    size: Floats
    log_aside: Floats

    @classmethod
    def from_rows(cls, tails: list[ErrorTail], rows: Floats) -> Self:
        """Cells of encoded rows, whose categories are known."""
        parts: Any = (
            np.column_stack([ask(tail, cells) for tail, cells in zip(tails, rows.T)])
            for ask in (ErrorTail.log_density, ErrorTail.sizes, ErrorTail.can_be)
        )
        log_tail, size, can_be = parts
        log_aside = np.where(can_be | np.isnan(rows), np.nan, -np.inf)
        return cls(np.where(can_be, rows, np.nan), log_tail, size, log_aside)

    @classmethod
    def from_table(
        cls, tails: list[ErrorTail], rows: Floats, unknown: Bools, mass: LogMass
    ) -> tuple[Self, Floats]:
        """Cells of rows of a table, and what the states of a row that are known add to its density.

        ``unknown`` are the cells with categories that are not known, which are missing in ``rows``.
        """
        cells = cls.from_rows(tails, rows)
        of_unknown = np.array([tail.log_density(np.zeros(1))[0] for tail in tails])
        log_tail = np.where(unknown, of_unknown, cells.log_tail)
        log_aside = np.where(unknown, -np.inf, cells.log_aside)
        # Ordered states that were not seen have probabilities, whatever the rest of the row.
        possible = mass.is_unseen & np.isnan(log_aside[:, mass.columns])
        log_aside[:, mass.columns] = np.where(possible, mass.added, log_aside[:, mass.columns])
        known = np.where(np.isnan(log_aside), cells.rows, np.nan)
        added = np.where(np.isnan(log_aside[:, mass.columns]), mass.added, 0.0)
        cells = cells._replace(rows=known, log_tail=log_tail, log_aside=log_aside)
        return cells, np.nansum(added, axis=1)

    def take(self, index: Ints | Bools) -> Self:
        """Those of some rows."""
        return type(self)(*(part[index] for part in self))

    def noisy(self, density: Any, rate: Floats) -> NoisyCells:
        """These cells under a density, if draws of errors have these rates by column."""
        return self._noisy(self._log_margins(density), rate)

    def _noisy(self, log_margins: Floats, rate: Floats) -> NoisyCells:
        log_wrong = self._log_errors(log_margins, _JUDGED) + np.log(rate)
        return NoisyCells(self.rows, np.log1p(-rate), log_wrong)

    def _log_margins(self, density: Any) -> Floats:
        margins = density.log_margins(self.rows)
        return np.asarray(np.nan_to_num(margins, nan=-np.inf, neginf=-np.inf))

    def _log_errors(self, log_margins: Floats, part: float) -> Floats:
        """Log density of the cells as wrong ones, of which a part follows no margin."""
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.logaddexp(math.log1p(-part) + log_margins, math.log(part) + self.log_tail)
            )

    def log_set_aside(self, noisy: NoisyCells) -> Floats:
        """Log density of the cells that are set aside, right or wrong; NaN elsewhere."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.logaddexp(noisy.log_right + self.log_aside, noisy.log_wrong))

    def judge(self, density: Any, rate: Floats) -> Judged:
        """What a density says of them."""
        log_margins = self._log_margins(density)
        noisy = self._noisy(log_margins, rate)
        aside = self.log_set_aside(noisy)
        log_cells = np.where(np.isnan(self.log_aside), density.log_cells(noisy), aside)
        # The density of a right cell is what errors leave of that of the cell.
        log_part = np.minimum(noisy.log_wrong - log_cells, -1e-13)
        log_right = log_cells + np.log(-np.expm1(log_part)) - noisy.log_right
        ratio = np.clip(self._log_errors(log_margins, _COUNTED) - log_right, -_MOST, _MOST)
        return Judged(noisy.probabilities(log_cells, self.size), ratio)


class Rates(NamedTuple):
    """Rates of errors by column, the ends of their intervals, and the rates of draws that judge.

    A draw that hits the true value is no error. A density that fits a column badly makes many of
    its cells look wrong. So cells are judged by one rate, that of all columns together.
    """

    rate: Floats
    low: Floats
    high: Floats
    draws: Floats

    @classmethod
    def given(cls, error_rate: Any, domain: Domain, tails: list[ErrorTail]) -> Self | None:
        """The rates that a user says; None for "auto"."""
        if isinstance(error_rate, str):
            return None
        rate = error_rate
        if isinstance(rate, Mapping):
            rate = np.full(len(tails), MEAN_RATE)
            rate[domain.places([*error_rate], "error_rate")] = [*error_rate.values()]
        needed = "error_rate must be 'auto', or one proportion in [0, 1)"
        rate = one_or_each(
            rate, len(tails), needed, "columns", lambda one: (one >= 0.0) & (one < 1.0)
        )
        return cls(rate, rate, rate, _draws(rate, tails))

    @classmethod
    def fit(cls, log_ratio: Floats, weight: Floats, tails: list[ErrorTail]) -> Self:
        """By the likelihood of cells that are wrong or not.

        The rate of all columns together has a prior, and is the mean of the prior of each column.
        Posteriors are computed on a grid; rates are their modes, which is what EM ends at.
        """
        odds = np.log(_RATES), np.log1p(-_RATES)
        known = ~np.isnan(log_ratio)
        log_likelihood = np.array(
            [
                weight[some] @ np.logaddexp(odds[0] + cells[some, np.newaxis], odds[1])
                for cells, some in zip(log_ratio.T, known.T)
            ]
        )

        def log_prior(mean: float, n_cells: float) -> Floats:
            return np.asarray(n_cells * (mean * odds[0] + (1.0 - mean) * odds[1]))

        of_all = log_prior(MEAN_RATE, _PRIOR_CELLS * len(tails)) + log_likelihood.sum(axis=0)
        shared = float(_RATES[of_all.argmax()])
        ends = []
        for log_posterior in log_prior(shared, _COLUMN_CELLS) + log_likelihood:
            # Points of the grid stand for more rates where these are greater.
            mass = _RATES * np.exp(log_posterior - log_posterior.max())
            levels = np.searchsorted(np.cumsum(mass) / mass.sum(), _LEVELS)
            ends.append(_RATES[[log_posterior.argmax(), *np.minimum(levels, len(_RATES) - 1)]])
        misses = _misses(tails, _COUNTED)
        rate, low, high = np.array(ends).T * misses
        return cls(rate, low, high, _draws(shared * misses, tails))


def _misses(tails: list[ErrorTail], part: float) -> Floats:
    """The probability by column that a wrong cell, a part of which follow no margin, differs."""
    return np.array([1.0 - (1.0 - part) * t.repeats - part * t.hits for t in tails])


def _draws(rate: Floats, tails: list[ErrorTail]) -> Floats:
    """Rates of draws that make these rates of errors where cells are judged."""
    # A column that nearly always has one value has fewer errors than it has draws.
    return np.asarray(np.clip(rate / np.maximum(_misses(tails, _JUDGED), 0.5), 1e-6, 0.5))


def doubtful_cells(probability: Floats, weight: Floats, most: float) -> Bools:
    """The cells that are rather wrong than right, the most probable ones first.

    Their weights, which are those of their rows, sum up to ``most`` at most.
    """
    order = np.argsort(-probability, axis=None, kind="stable")
    mass = np.broadcast_to(weight[:, np.newaxis], probability.shape).ravel()[order]
    doubtful = np.zeros(probability.size, dtype=bool)
    doubtful[order[np.cumsum(mass) <= most]] = True
    return doubtful.reshape(probability.shape) & (probability > 0.5)


def far_away(rows: Floats, weight: Floats, is_categorical: Bools) -> tuple[Floats, Floats]:
    """The medians of columns, and the distances from these beyond which numbers are far away.

    Infinite for categories, and for columns in which more than a few numbers would be, or most
    numbers are equal.
    """
    middle, reach = np.zeros(rows.shape[1]), np.full(rows.shape[1], np.inf)
    for column in np.flatnonzero(~is_categorical & ~np.isnan(rows).all(axis=0)):
        known = ~np.isnan(rows[:, column])
        order = np.argsort(rows[known, column])
        values, mass = rows[known, column][order], weight[known][order]
        cumulated, quarters = np.cumsum(mass), np.arange(1, 4)
        low, middle[column], high = weighted_quantiles(values, cumulated, quarters, 4)
        far = _FAR * (high - low) / QUARTILES
        is_far = np.abs(values - middle[column]) > far
        if far > 0.0 and mass @ is_far <= _FEW * cumulated[-1]:
            reach[column] = far
    return middle, reach


def learned_density(density: Any, domain: Domain, part: tuple[Floats, Floats]) -> Any:
    """The density of some rows and their weights."""
    # Axes that held-out rows have a part in would speak for densities with bins.
    return clone(density).fit_rows(domain.with_axes_of(*part), *part).row_density
