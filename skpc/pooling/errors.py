"""Cells that may be wrong: the odds of hypotheses about rows, and how many cells are wrong.

A hypothesis takes some cells of a row for wrong. Its density is that of the other cells, times what
wrong cells hold. The hypotheses are that no cell is wrong, that each cell is alone, and with the
most doubtful cell, or two, of a row each other cell. ``tests/naive/cell_errors.py`` says the same
by loops over them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logit
from scipy.stats import beta

from skpc._arrays import (
    SMALLEST_NORMAL,
    Bools,
    Floats,
    Ints,
    divisors,
    group_sums,
    offsets,
    one_or_each,
    picked,
    weighted_quantiles,
)
from skpc._fitting import Rows, Stop, learn
from skpc.domain import Domain, LogMass
from skpc.pooling.error_tails import QUARTILES, SPREAD, WrongCells

#: The rate of errors is near this mean, as if it were that of so many cells a column; that of each
#: column is near that of all, as if it were that of so many cells.
MEAN_RATE = 0.015
_COLUMN_CELLS = 10.0
_MOST_RATE = 0.2
#: Where trust is at stake, errors are at least as frequent. A density that has learned errors
#: expects them: it would say that there are none, and learn them again.
_SUSPECTED = 0.1
_DOUBTFUL = 1.0
#: Log odds that nothing in a row makes up for.
_ABSURD = 40.0
#: Numbers are far away beyond so many standard deviations, by the quartiles, of the median, if they
#: are a small share of their column.
_FAR = 8.0
_FEW = 0.02
#: A log density that is finite, whatever is added.
_LEAST = -1e300


class Consensus(NamedTuple):
    """Densities that judge cells together: by the means of their log densities.

    A right cell that is odd to one density is seldom odd to another that reads the table in a
    different way. A mixture would follow the density that expects the row.

    Attributes
    ----------
    members : sequence of Density
        Densities of the same encoded rows.
    """

    members: Sequence[Any]

    @classmethod
    def of(cls, density: Any) -> Self:
        """The members of a fitted stack; any other density by itself."""
        return cls([member.row_density for member in getattr(density, "estimators_", [density])])

    def log_density(self, rows: Floats) -> Floats:
        """See :class:`skpc.densities.Density`."""
        return np.mean([each.log_density(rows) for each in self.members], axis=0)

    def log_cells(self, rows: Floats) -> Floats:
        """See :class:`skpc.densities.Density`."""
        return np.mean([each.log_cells(rows) for each in self.members], axis=0)

    def log_margins(self, rows: Floats) -> Floats:
        """Log density of each cell by itself; NaN where it is missing."""
        margins = np.full(rows.shape, np.nan)
        for column, cells in enumerate(rows.T):
            known = ~np.isnan(cells)
            # Many cells of a column are alike.
            values, place = np.unique(cells[known], return_inverse=True)
            alone = np.full((len(values), rows.shape[1]), np.nan)
            alone[:, column] = values
            margins[known, column] = self.log_density(alone)[place]
        return margins

    def without_cells(self, rows: Floats) -> tuple[Floats, Floats]:
        """Log density of rows, and of rows without each of their cells; -inf where it is missing.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
        log_rest : ndarray of shape (n_rows, n_features)
        """
        log_density = self.log_density(rows)
        log_rest = np.full(rows.shape, -np.inf)
        possible = np.isfinite(log_density)
        log_cells = self.log_cells(rows[possible])
        log_rest[possible] = log_density[possible, np.newaxis] - log_cells
        # Cells of impossible rows have no density given the others.
        for row in np.flatnonzero(~possible):
            copies = np.tile(rows[row], (rows.shape[1], 1))
            np.fill_diagonal(copies, np.nan)
            log_rest[row] = self.log_density(copies)
        return log_density, np.where(np.isnan(rows), -np.inf, log_rest)


class CheckedCells(NamedTuple):
    """Encoded cells that may be wrong, and what their columns say of them; (n_rows, n_features).

    Attributes
    ----------
    rows : ndarray
        NaN where missing, and where no density reads the cell: it is set aside.
    log_tail : ndarray
        Log density of the cells as numbers that may be far from all; NaN where missing.
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
    def from_rows(cls, tails: list[WrongCells], rows: Floats) -> Self:
        """Cells of encoded rows, whose categories are known."""
        parts: Any = (
            np.column_stack([ask(tail, cells) for tail, cells in zip(tails, rows.T)])
            for ask in (WrongCells.log_density, WrongCells.sizes, WrongCells.can_be)
        )
        log_tail, size, can_be = parts
        log_aside = np.where(can_be | np.isnan(rows), np.nan, -np.inf)
        return cls(np.where(can_be, rows, np.nan), log_tail, size, log_aside)

    @classmethod
    def from_table(
        cls, tails: list[WrongCells], rows: Floats, unknown: Bools, mass: LogMass
    ) -> tuple[Self, Floats]:
        """Cells of rows of a table, and what the states of a row that are known add to its density.

        ``unknown`` are the cells with categories that are not known, which are missing in ``rows``.
        """
        cells = cls.from_rows(tails, rows)
        log_tail_of_unknown = np.array([tail.log_density(np.zeros(1))[0] for tail in tails])
        log_tail = np.where(unknown, log_tail_of_unknown, cells.log_tail)
        # A category that is not known has no probability in any row.
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

    # Cells that are missing, or impossible, have log densities of -inf, or NaN, all along.
    @np.errstate(invalid="ignore")
    def judge(self, density: Consensus) -> "Evidence":
        """The densities of all hypotheses about the rows."""
        # Most cells of a row that are taken for wrong before another one, and the log odds (at even
        # rates) from which on there may be another one.
        chain = 2
        margins = density.log_margins(self.rows)
        # No row makes a number right that is absurd in its column, and its density has no digits.
        absurd = margins < self.log_tail - _ABSURD
        rows = np.where(absurd, np.nan, self.rows)
        log_aside = np.where(absurd, -np.inf, self.log_aside)
        # A wrong cell holds what its column holds elsewhere, or something far from it.
        log_error = np.logaddexp(
            np.log1p(-SPREAD) + np.where(np.isnan(rows), -np.inf, margins),
            np.log(SPREAD) + self.log_tail,
        )
        active = np.arange(len(rows))
        taken = np.zeros(rows.shape, dtype=bool)
        log_taken = np.zeros(len(rows))
        chance = np.zeros(rows.shape)
        lines = []
        for _ in range(1 + chain):
            log_density, log_rest = density.without_cells(rows)
            # Densities of numbers may be so great that the next line would overflow.
            log_cells = log_density[:, np.newaxis] - log_rest
            log_cells = np.minimum(log_cells, _ABSURD)
            same = np.minimum(self.size[active] * np.exp(log_cells), 1.0)
            # A later line judges a cell without the wrong ones; what is said of taken cells stays.
            chance[active] = np.where(np.isnan(rows), chance[active], same)
            log_joint = np.column_stack([log_rest + log_error[active], log_density])
            log_joint = np.where(np.isnan(log_joint), -np.inf, log_joint)
            lines.append((active, taken, log_joint + log_taken[:, np.newaxis]))
            worst = log_joint[:, :-1].argmax(axis=1)
            log_worst = picked(log_joint, worst)
            doubtful = np.flatnonzero(log_worst - log_density > _DOUBTFUL)
            # In each line one more cell is taken for wrong, of fewer rows.
            active = active[doubtful]
            cell = np.arange(len(active)), worst[doubtful]
            log_taken = log_taken[doubtful] + log_error[active, cell[1]]
            taken = taken[doubtful]
            taken[cell] = True
            rows = rows[doubtful]
            rows[cell] = np.nan
        # The next line says without rounding what a line says of the cell that it takes.
        for (before, _, log_joint), (after, is_taken, _) in pairwise(lines):
            line, column = np.nonzero(is_taken)
            # Rows of a line are among those of the line before, in the same order.
            log_joint[np.searchsorted(before, after)[line], column] = -np.inf
        row, taken, log_joint = (np.concatenate(part) for part in zip(*lines))
        is_judged = ~np.isnan(self.rows) & ~absurd
        return Evidence(is_judged, row, taken, log_joint, log_aside, log_error, chance)


class Evidence(NamedTuple):
    """What densities say of hypotheses about rows.

    A line takes some cells of a row for wrong, and each other cell beside them, or none.

    Attributes
    ----------
    is_judged : ndarray of bool of shape (n_rows, n_features)
        The cells that hypotheses are about.
    row : ndarray of int of shape (n_lines,)
        The rows of lines.
    taken : ndarray of bool of shape (n_lines, n_features)
        The cells that are taken for wrong.
    log_joint : ndarray of shape (n_lines, n_features + 1)
        Log densities of rows, at even rates, with another cell wrong, or none in the last column;
        -inf where a cell is missing or taken.
    log_aside, log_error : ndarrays of shape (n_rows, n_features)
        Log density of cells that are set aside (NaN elsewhere), and of all cells as wrong ones.
    chance : ndarray of shape (n_rows, n_features)
        Probability that the true value of a cell is the one seen, by the others of its row.
    """

    is_judged: Bools
    row: Ints
    taken: Bools
    log_joint: Floats
    log_aside: Floats
    log_error: Floats
    chance: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Those of all rows of some parts."""
        begins = offsets([len(part.is_judged) for part in parts])
        parts = [part._replace(row=part.row + begin) for part, begin in zip(parts, begins)]
        return cls(*map(np.concatenate, zip(*parts)))

    def _shares(self, rate: Floats) -> tuple[Floats, Floats]:
        """Probability of each hypothesis given its row, and the log density of rows."""
        odds = logit(rate)
        score = self.log_joint + (self.taken @ odds)[:, np.newaxis]
        score[:, :-1] += odds
        peak = np.full(len(self.is_judged), _LEAST)
        # Hypotheses of a row stand in several lines, which need a common scale to be summed.
        np.maximum.at(peak, self.row, score.max(axis=1))
        share = np.exp(score - peak[self.row, np.newaxis])
        # Rows that are impossible under all hypotheses have nothing to share.
        total = divisors(group_sums(self.row, share.sum(axis=1), len(peak)))
        return share / total[self.row, np.newaxis], peak + np.log(total)

    @property
    def is_counted(self) -> Bools:
        """The cells that are judged, or set aside."""
        return self.is_judged | ~np.isnan(self.log_aside)

    def probabilities(self, rate: Floats) -> Floats:
        """Probability that the true value of each cell differs, at these rates; 0 where missing."""
        return self.draws(rate) * (1.0 - self.chance)

    def draws(self, rate: Floats) -> Floats:
        """Probability that each cell holds a draw, which may be the true value."""
        share, _ = self._shares(rate)
        wrong = np.zeros(self.is_judged.shape)
        # A cell is wrong where a hypothesis adds it, and in the whole line that has taken it.
        np.add.at(wrong, self.row, share[:, :-1] + self.taken * share.sum(axis=1, keepdims=True))
        log_odds = logit(rate) + self.log_error - self.log_aside
        aside = 1.0 / (1.0 + np.exp(-np.minimum(log_odds, _ABSURD)))
        aside[np.isneginf(self.log_aside)] = 1.0
        return np.where(np.isnan(self.log_aside), np.minimum(wrong, 1.0), aside)

    def log_density(self, rate: Floats) -> Floats:
        """Log density of each row, right or wrong, in nats."""
        _, log_density = self._shares(rate)
        log_right = np.log1p(-rate)
        with np.errstate(invalid="ignore"):
            aside = np.logaddexp(log_right + self.log_aside, np.log(rate) + self.log_error)
        log_density_of_cells = np.where(np.isnan(self.log_aside), self.is_judged * log_right, aside)
        return log_density + log_density_of_cells.sum(axis=1)

    def trusted(self, rate: Floats, rows: Floats, weight: Floats) -> tuple[Floats, Floats, Ints]:
        """Rows without the cells that are wrong by each hypothesis, by its probability.

        To take likely errors away would trim what columns hold further in each round.

        Returns
        -------
        rows : ndarray of shape (n_copies, n_features)
        weight : ndarray of shape (n_copies,)
            Parts of the weights of the rows, all positive.
        source : ndarray of int of shape (n_copies,)
            The rows that copies are of.
        """
        suspected = np.maximum(rate, _SUSPECTED)
        share, _ = self._shares(suspected)
        share[:, :-1] *= 1.0 - self.chance[self.row]
        # Hypotheses of smaller probabilities are not learned from.
        notable = 0.1
        share[share < notable] = 0.0
        # The hypothesis that no cell is wrong leaves a row as it is.
        share[~self.taken.any(axis=1), -1] = 0.0
        n_cells = weight @ self.is_judged.sum(axis=1)
        n_doubted = weight @ self.probabilities(suspected).sum(axis=1)
        # In all, no more is distrusted than the largest rate allows.
        if n_doubted > _MOST_RATE * n_cells:
            share *= _MOST_RATE * n_cells / n_doubted
        line, cell = np.nonzero(share)
        source = self.row[line]
        # The last column takes no other cell.
        without = np.column_stack([self.taken, np.zeros(len(self.taken), dtype=bool)])[line]
        without[np.arange(len(line)), cell] = True
        copies = np.where(without[:, :-1], np.nan, rows[source])
        lost = share[line, cell] * weight[source]
        left = weight - group_sums(source, lost, len(weight))
        left_rows = np.flatnonzero(left > 0.0)
        return (
            np.vstack([rows[left_rows], copies]),
            np.append(left[left_rows], lost),
            np.append(left_rows, source),
        )


class RatesOfDraws(NamedTuple):
    """Rates of wrong cells by column; see :class:`skpc._fitting.Parametrised`."""

    rate: Floats

    def expected(self, evidence: Evidence, weight: Floats) -> tuple[Floats, ...]:
        """The E-step: the weight of the cells of each column, and of the wrong ones."""
        probability = evidence.draws(self.rate)
        # Factor by which rows raise the odds of the cells that are counted as wrong. Where the rest
        # of the row tells nothing, a rate would follow from the tails alone.
        telling = 5.0
        least = telling * self.rate * (1.0 - probability)
        is_told = probability * (1.0 - self.rate) > least
        return weight @ evidence.is_counted, weight @ (probability * is_told)

    def m_step(self, statistics: tuple[Floats, ...]) -> Self:
        """The rates of columns, drawn to that of all."""
        prior_cells = 50.0
        least_rate = 0.0015
        n_cells, wrong = statistics
        n_prior = prior_cells * len(n_cells)
        shared = (wrong.sum() + MEAN_RATE * n_prior) / (n_cells.sum() + n_prior)
        rate = (wrong + shared * _COLUMN_CELLS) / (n_cells + _COLUMN_CELLS)
        # Rates of next to nothing would say which columns to look at, rather than rows.
        return type(self)(np.clip(rate, least_rate, _MOST_RATE))


class Rates(NamedTuple):
    """Rates of errors by column, the ends of their intervals, and rates of draws, (n_features,).

    What a wrong cell holds is drawn, whatever the true value. Draws that hit it are no errors.
    """

    rate: Floats
    low: Floats
    high: Floats
    draws: Floats

    @classmethod
    def given(cls, error_rate: Any, domain: Domain, tails: list[WrongCells]) -> Self | None:
        """The rates that a user says; None for "auto"."""
        if isinstance(error_rate, str):
            return None
        rate = error_rate
        if isinstance(rate, Mapping):
            rate = np.full(domain.n_features, MEAN_RATE)
            rate[domain.places([*error_rate], "error_rate")] = [*error_rate.values()]
        needed = "error_rate must be 'auto', or one proportion in [0, 1)"
        rate = one_or_each(
            rate, domain.n_features, needed, "columns", lambda each: (each >= 0.0) & (each < 1.0)
        )
        # A column that nearly always has one value has fewer errors than it has draws. A rate of
        # zero has no logarithm.
        draws = np.clip(rate / np.maximum(_misses(tails), 0.5), SMALLEST_NORMAL, 0.5)
        return cls(rate, rate, rate, draws)

    @classmethod
    def fit(cls, evidence: Evidence, weight: Floats, tails: list[WrongCells]) -> Self:
        """By EM; the rate of all columns together has a prior, and is the prior of each column."""
        # Iterations of EM for the rates, the smallest and the largest rate.
        iterations = 100
        # Probability that a rate lies within its interval.
        level = 0.95
        start = RatesOfDraws(np.full(evidence.is_judged.shape[1], MEAN_RATE))
        rate = learn([start], Rows(evidence, weight), Stop(iterations)).model.rate
        total = weight @ evidence.is_counted + _COLUMN_CELLS
        # As if the cells had been seen to be wrong or right.
        ends = beta.interval(level, total * rate, total * (1.0 - rate))
        low, high = (end * _misses(tails) for end in ends)
        return cls(rate * _misses(tails), low, high, rate)


def _misses(tails: list[WrongCells]) -> Floats:
    """Probability by column that what a wrong cell may hold differs from the true value."""
    return np.array([1.0 - tail.hits for tail in tails])


def far_away(rows: Floats, weight: Floats, is_categorical: Bools) -> tuple[Floats, Floats]:
    """The medians of columns, and the distances from these beyond which numbers are far away.

    Infinite for categories, and for columns in which more than a few numbers would be, or most
    numbers are equal.
    """
    middle = np.zeros(rows.shape[1])
    reach = np.full(rows.shape[1], np.inf)
    for column in np.flatnonzero(~is_categorical & ~np.isnan(rows).all(axis=0)):
        known = ~np.isnan(rows[:, column])
        order = np.argsort(rows[known, column])
        values = rows[known, column][order]
        mass = weight[known][order]
        cumulated = np.cumsum(mass)
        low, middle[column], high = weighted_quantiles(values, cumulated, np.arange(1, 4), 4)
        far = _FAR * (high - low) / QUARTILES
        is_far = np.abs(values - middle[column]) > far
        if far > 0.0 and mass @ is_far <= _FEW * cumulated[-1]:
            reach[column] = far
    return middle, reach
