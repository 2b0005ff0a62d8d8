"""Cells that may be wrong: the odds of hypotheses about rows, and how many cells are wrong.

A hypothesis is a set of wrong cells of a row. Its density is the density of the other cells, times
the densities of the wrong cells as draws from the margin or the tail of their columns. The
hypotheses about a row are: no cell is wrong; one cell is wrong; the most doubtful cell is wrong,
and no cell or one cell more; the two most doubtful cells are, and no cell or one cell more.
``tests/naive/cell_errors.py`` computes the same by loops over hypotheses.

A replaced cell holds such a draw instead of its true value. It is an error unless the draw equals
the true value by chance.
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
from skpc.pooling.error_tails import NORMAL_IQR, TAIL_SHARE, ErrorTail
from skpc.pooling.mixture import without_each_cell

#: The prior mean of the rate of errors.
MEAN_RATE = 0.015
#: The rate of all columns is the prior of each column, with the weight of this many cells.
_COLUMN_CELLS = 10.0
_LARGEST_RATE = 0.2
#: The smallest rate by which cells are left out of learning. A density that has learned errors
#: expects them: at a low rate it would find none, and learn them again.
_SUSPECTED_RATE = 0.1
#: A cell is doubtful where the hypothesis that it is wrong has these log odds, at even rates.
_DOUBTFUL_LOG_ODDS = 1.0
#: No other cell of a row makes up for these log odds.
_ABSURD_LOG_ODDS = 40.0
#: Numbers further than this from the median, in standard deviations by the quartiles, are far away
#: if they are at most this share of their column.
_FAR_SDS = 8.0
_FEW_SHARE = 0.02
#: A log density below all others that stays finite in sums.
_LOWEST = -1e300


class Consensus(NamedTuple):
    """Densities that judge cells together: by the means of their log densities.

    A right cell that is improbable under one density is seldom so under another of a different
    kind. A mixture would follow the density under which the row is most probable.

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
        return np.mean([member.log_density(rows) for member in self.members], axis=0)

    def log_cells(self, rows: Floats) -> Floats:
        """See :class:`skpc.densities.Density`."""
        return np.mean([member.log_cells(rows) for member in self.members], axis=0)

    def log_margins(self, rows: Floats) -> Floats:
        """Log density of each cell by itself; NaN where it is missing."""
        margins = np.full(rows.shape, np.nan)
        for column, cells in enumerate(rows.T):
            known = ~np.isnan(cells)
            # Many cells of a column are equal: each distinct value is asked about once.
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
        log_without : ndarray of shape (n_rows, n_features)
        """
        log_density = self.log_density(rows)
        log_without = np.full(rows.shape, -np.inf)
        possible = np.isfinite(log_density)
        log_cells = self.log_cells(rows[possible])
        log_without[possible] = log_density[possible, np.newaxis] - log_cells
        # Cells of impossible rows have no density given the others.
        for row in np.flatnonzero(~possible):
            log_without[row] = self.log_density(without_each_cell(rows[row]))
        return log_density, np.where(np.isnan(rows), -np.inf, log_without)


class CheckedCells(NamedTuple):
    """Encoded cells that may be wrong; all arrays have the shape (n_rows, n_features).

    Attributes
    ----------
    rows : ndarray
        The cells. NaN where missing, and where a cell is set aside: no density reads it, as its
        column cannot have the value, or had no such state in training.
    log_tail : ndarray
        Log density of each cell under the tail of its column; NaN where missing.
    size : ndarray
        The factor from the density of a cell to its probability.
    log_aside : ndarray
        Log density of each cell that is set aside, as a right one, whatever the other cells of its
        row; NaN elsewhere.
    """

    rows: Floats
    log_tail: Floats
    size: Floats
    log_aside: Floats

    @classmethod
    def from_rows(cls, tails: list[ErrorTail], rows: Floats) -> Self:
        """Cells of encoded rows, whose categories are known."""
        parts: Any = (
            np.column_stack([answer_of(tail, cells) for tail, cells in zip(tails, rows.T)])
            for answer_of in (ErrorTail.log_density, ErrorTail.sizes, ErrorTail.can_be)
        )
        log_tail, size, can_be = parts
        log_aside = np.where(can_be | np.isnan(rows), np.nan, -np.inf)
        return cls(np.where(can_be, rows, np.nan), log_tail, size, log_aside)

    @classmethod
    def from_table(
        cls, tails: list[ErrorTail], rows: Floats, unknown: Bools, mass: LogMass
    ) -> tuple[Self, Floats]:
        """Cells of the rows of a table, and what ``mass`` adds to the log density of each row.

        ``unknown`` (n_rows, n_features) says which cells hold categories that were not seen in
        training; these are missing in ``rows``.
        """
        cells = cls.from_rows(tails, rows)
        log_tail_of_unknown = np.array([tail.log_density(np.zeros(1))[0] for tail in tails])
        log_tail = np.where(unknown, log_tail_of_unknown, cells.log_tail)
        # A category that was not seen is impossible in any row.
        log_aside = np.where(unknown, -np.inf, cells.log_aside)
        # Ordered states that were not seen have probabilities that do not depend on the row.
        possible = mass.is_unseen & np.isnan(log_aside[:, mass.columns])
        log_aside[:, mass.columns] = np.where(possible, mass.added, log_aside[:, mass.columns])
        known = np.where(np.isnan(log_aside), cells.rows, np.nan)
        added = np.where(np.isnan(log_aside[:, mass.columns]), mass.added, 0.0)
        cells = cells._replace(rows=known, log_tail=log_tail, log_aside=log_aside)
        return cells, np.nansum(added, axis=1)

    def take(self, index: Ints | Bools) -> Self:
        """The cells of some rows."""
        return type(self)(*(part[index] for part in self))

    # Missing and impossible cells have log densities of -inf or NaN, from which NaN follows.
    @np.errstate(invalid="ignore")
    def judge(self, density: Consensus) -> "Evidence":
        """Compute the log densities of all hypotheses about the rows."""
        # The most doubtful cells, at most this many, are taken for wrong one after another.
        max_taken = 2
        margins = density.log_margins(self.rows)
        # A number that is absurd in its column is wrong in any row, and its density has no digits.
        absurd = margins < self.log_tail - _ABSURD_LOG_ODDS
        rows = np.where(absurd, np.nan, self.rows)
        log_aside = np.where(absurd, -np.inf, self.log_aside)
        # A wrong cell is a draw from the margin of its column, or from the tail.
        log_error = np.logaddexp(
            np.log1p(-TAIL_SHARE) + np.where(np.isnan(rows), -np.inf, margins),
            np.log(TAIL_SHARE) + self.log_tail,
        )
        # Round k makes a line for each active row, which takes its k most doubtful cells for wrong.
        active = np.arange(len(rows))
        taken = np.zeros(rows.shape, dtype=bool)
        log_taken = np.zeros(len(rows))
        value_probability = np.zeros(rows.shape)
        lines = []
        for _ in range(1 + max_taken):
            log_density, log_without = density.without_cells(rows)
            # Densities of numbers may be so great that their exponential would overflow.
            log_cells = log_density[:, np.newaxis] - log_without
            log_cells = np.minimum(log_cells, _ABSURD_LOG_ODDS)
            probability = np.minimum(self.size[active] * np.exp(log_cells), 1.0)
            # Cells are judged anew without the taken ones, which keep their probability.
            value_probability[active] = np.where(
                np.isnan(rows), value_probability[active], probability
            )
            log_joint = np.column_stack([log_without + log_error[active], log_density])
            log_joint = np.where(np.isnan(log_joint), -np.inf, log_joint)
            lines.append((active, taken, log_joint + log_taken[:, np.newaxis]))
            worst = log_joint[:, :-1].argmax(axis=1)
            log_worst = picked(log_joint, worst)
            doubtful = np.flatnonzero(log_worst - log_density > _DOUBTFUL_LOG_ODDS)
            # The next round takes one more cell, of the rows that have a doubtful one.
            active = active[doubtful]
            cell = np.arange(len(active)), worst[doubtful]
            log_taken = log_taken[doubtful] + log_error[active, cell[1]]
            taken = taken[doubtful]
            taken[cell] = True
            rows = rows[doubtful]
            rows[cell] = np.nan
        # "The doubtful cell alone is wrong" is a hypothesis of two lines; the later one is exact.
        for (earlier_rows, _, log_joint), (later_rows, is_taken, _) in pairwise(lines):
            line, column = np.nonzero(is_taken)
            # The later rows are among the earlier ones, in the same order.
            log_joint[np.searchsorted(earlier_rows, later_rows)[line], column] = -np.inf
        row, taken, log_joint = (np.concatenate(part) for part in zip(*lines))
        is_judged = ~np.isnan(self.rows) & ~absurd
        return Evidence(is_judged, row, taken, log_joint, log_aside, log_error, value_probability)


class TrustedRows(NamedTuple):
    """Rows to learn from, without the cells that are probably wrong.

    Attributes
    ----------
    rows : ndarray of shape (n_copies, n_features)
        Encoded rows.
    weight : ndarray of shape (n_copies,)
        Positive parts of the weights of the judged rows.
    source : ndarray of int of shape (n_copies,)
        The number of the judged row that each of them is a copy of.
    """

    rows: Floats
    weight: Floats
    source: Ints


class Evidence(NamedTuple):
    """The log densities of hypotheses about rows, arranged in lines.

    A line is about one row, of which it takes some cells for wrong. Its hypotheses are that one
    other cell is wrong too (one hypothesis for each cell), and that none is.

    Attributes
    ----------
    is_judged : ndarray of bool of shape (n_rows, n_features)
        The cells that hypotheses are about: neither missing nor set aside.
    row : ndarray of int of shape (n_lines,)
        The row that each line is about.
    taken : ndarray of bool of shape (n_lines, n_features)
        The cells that each line takes for wrong.
    log_joint : ndarray of shape (n_lines, n_features + 1)
        Log densities of the hypotheses of each line, without the odds of errors: one for each
        other cell, and in the last column that of no other wrong cell. -inf where a cell is missing
        or taken.
    log_aside, log_error : ndarrays of shape (n_rows, n_features)
        Log density of cells that are set aside, as right ones (NaN elsewhere), and of all cells as
        wrong ones.
    value_probability : ndarray of shape (n_rows, n_features)
        Probability of the value of each cell given the other cells of its row.
    """

    is_judged: Bools
    row: Ints
    taken: Bools
    log_joint: Floats
    log_aside: Floats
    log_error: Floats
    value_probability: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The evidence about the rows of all parts, one part after another."""
        begins = offsets([len(part.is_judged) for part in parts])
        parts = [part._replace(row=part.row + begin) for part, begin in zip(parts, begins)]
        return cls(*map(np.concatenate, zip(*parts)))

    def _shares(self, rate: Floats) -> tuple[Floats, Floats]:
        """Probability of each hypothesis given its row, as in log_joint; log density of rows."""
        odds = logit(rate)
        score = self.log_joint + (self.taken @ odds)[:, np.newaxis]
        score[:, :-1] += odds
        peak = np.full(len(self.is_judged), _LOWEST)
        # The hypotheses of a row stand in several lines: its peak is that of all of them.
        np.maximum.at(peak, self.row, score.max(axis=1))
        share = np.exp(score - peak[self.row, np.newaxis])
        # Rows that are impossible under all hypotheses have the total zero.
        total = divisors(group_sums(self.row, share.sum(axis=1), len(peak)))
        return share / total[self.row, np.newaxis], peak + np.log(total)

    @property
    def is_counted(self) -> Bools:
        """The cells that are judged, or set aside."""
        return self.is_judged | ~np.isnan(self.log_aside)

    def error_probabilities(self, rate: Floats) -> Floats:
        """Probability that the true value of each cell differs, at these rates; 0 where missing."""
        return self.replaced_probabilities(rate) * (1.0 - self.value_probability)

    def replaced_probabilities(self, rate: Floats) -> Floats:
        """Probability that each cell is replaced by a draw, which may equal the true value."""
        share, _ = self._shares(rate)
        replaced = np.zeros(self.is_judged.shape)
        # A cell is replaced in its own hypothesis of each line, and in all of a line that takes it.
        np.add.at(replaced, self.row, share[:, :-1] + self.taken * share.sum(axis=1, keepdims=True))
        log_odds = logit(rate) + self.log_error - self.log_aside
        aside = 1.0 / (1.0 + np.exp(-np.minimum(log_odds, _ABSURD_LOG_ODDS)))
        aside[np.isneginf(self.log_aside)] = 1.0
        return np.where(np.isnan(self.log_aside), np.minimum(replaced, 1.0), aside)

    def log_density(self, rate: Floats) -> Floats:
        """Log density of each row, whose cells may be wrong, in nats."""
        _, log_density = self._shares(rate)
        log_right = np.log1p(-rate)
        with np.errstate(invalid="ignore"):
            aside = np.logaddexp(log_right + self.log_aside, np.log(rate) + self.log_error)
        log_density_of_cells = np.where(np.isnan(self.log_aside), self.is_judged * log_right, aside)
        return log_density + log_density_of_cells.sum(axis=1)

    def trusted_rows(self, rate: Floats, rows: Floats, weight: Floats) -> TrustedRows:
        """Split each row into copies that lack the wrong cells of the probable hypotheses.

        A copy has the part of the weight that is the probability of its hypothesis. If the most
        probable errors lost all their weight, each round would trim the tails of columns further.
        """
        suspected = np.maximum(rate, _SUSPECTED_RATE)
        share, _ = self._shares(suspected)
        share[:, :-1] *= 1.0 - self.value_probability[self.row]
        # Hypotheses of smaller probabilities make no copies.
        smallest_share = 0.1
        share[share < smallest_share] = 0.0
        # The hypothesis that no cell is wrong makes no copy: the row itself stays.
        share[~self.taken.any(axis=1), -1] = 0.0
        n_cells = weight @ self.is_judged.sum(axis=1)
        n_doubted = weight @ self.error_probabilities(suspected).sum(axis=1)
        # The copies lack at most this rate of all cells.
        if n_doubted > _LARGEST_RATE * n_cells:
            share *= _LARGEST_RATE * n_cells / n_doubted
        line, cell = np.nonzero(share)
        source = self.row[line]
        # The last column stands for no other wrong cell.
        is_wrong = np.column_stack([self.taken, np.zeros(len(self.taken), dtype=bool)])[line]
        is_wrong[np.arange(len(line)), cell] = True
        copies = np.where(is_wrong[:, :-1], np.nan, rows[source])
        copy_weight = share[line, cell] * weight[source]
        whole_weight = weight - group_sums(source, copy_weight, len(weight))
        whole_rows = np.flatnonzero(whole_weight > 0.0)
        return TrustedRows(
            np.vstack([rows[whole_rows], copies]),
            np.append(whole_weight[whole_rows], copy_weight),
            np.append(whole_rows, source),
        )


class ReplacementRates(NamedTuple):
    """Rates of replaced cells by column; see :class:`skpc._fitting.Parametrised`."""

    rate: Floats

    def expected(self, evidence: Evidence, weight: Floats) -> tuple[Floats, ...]:
        """The E-step: the weight of the cells of each column, and of the replaced ones."""
        probability = evidence.replaced_probabilities(self.rate)
        # Cells count where their rows raise the odds of an error by at least this factor. Where the
        # other cells say nothing, a rate would follow from the tails alone.
        odds_factor = 5.0
        smallest_probability = odds_factor * self.rate * (1.0 - probability)
        is_supported = probability * (1.0 - self.rate) > smallest_probability
        return weight @ evidence.is_counted, weight @ (probability * is_supported)

    def m_step(self, statistics: tuple[Floats, ...]) -> Self:
        """The rates of columns, shrunk towards the rate of all columns together."""
        # The prior of the rate of all columns has the weight of this many cells a column.
        prior_cells = 50.0
        least_rate = 0.0015
        n_cells, n_replaced = statistics
        n_prior = prior_cells * len(n_cells)
        shared = (n_replaced.sum() + MEAN_RATE * n_prior) / (n_cells.sum() + n_prior)
        rate = (n_replaced + shared * _COLUMN_CELLS) / (n_cells + _COLUMN_CELLS)
        # With rates near zero, the column would decide which cells are marked, not the row.
        return type(self)(np.clip(rate, least_rate, _LARGEST_RATE))


class Rates(NamedTuple):
    """Rates by column, all of shape (n_features,): of errors, their interval, of replaced cells."""

    rate: Floats
    low: Floats
    high: Floats
    replaced: Floats

    @classmethod
    def given(cls, error_rate: Any, domain: Domain, tails: list[ErrorTail]) -> Self | None:
        """The rates that a user gives; None for "auto"."""
        if isinstance(error_rate, str):
            return None
        rate = error_rate
        if isinstance(rate, Mapping):
            rate = np.full(domain.n_features, MEAN_RATE)
            rate[domain.column_numbers_of([*error_rate], "error_rate")] = [*error_rate.values()]
        needed = "error_rate must be 'auto', or one proportion in [0, 1)"
        rate = one_or_each(
            rate, domain.n_features, needed, "columns", lambda rates: (rates >= 0.0) & (rates < 1.0)
        )
        # Where a column nearly always has one value, most replaced cells are no errors. A rate of
        # zero has no logarithm.
        replaced = np.clip(rate / np.maximum(_error_share(tails), 0.5), SMALLEST_NORMAL, 0.5)
        return cls(rate, rate, rate, replaced)

    @classmethod
    def fit(cls, evidence: Evidence, weight: Floats, tails: list[ErrorTail]) -> Self:
        """By EM; the rate of all columns together has a prior, and is the prior of each column."""
        max_iter = 100
        # Probability that a rate lies within its interval.
        level = 0.95
        start = ReplacementRates(np.full(evidence.is_judged.shape[1], MEAN_RATE))
        rate = learn([start], Rows(evidence, weight), Stop(max_iter)).model.rate
        total = weight @ evidence.is_counted + _COLUMN_CELLS
        # The posterior of a rate, if each cell were known to be replaced or not.
        ends = beta.interval(level, total * rate, total * (1.0 - rate))
        error_share = _error_share(tails)
        low, high = (end * error_share for end in ends)
        return cls(rate * error_share, low, high, rate)


def _error_share(tails: list[ErrorTail]) -> Floats:
    """Probability by column that a replaced cell differs from its true value."""
    return np.array([1.0 - tail.hit_probability for tail in tails])


def far_away(rows: Floats, weight: Floats, is_categorical: Bools) -> tuple[Floats, Floats]:
    """The medians of columns, and the distances from these beyond which numbers are far away.

    The distance is infinite for categories, where more than a few numbers would be far away, and
    where most numbers are equal.
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
        far = _FAR_SDS * (high - low) / NORMAL_IQR
        is_far = np.abs(values - middle[column]) > far
        if far > 0.0 and mass @ is_far <= _FEW_SHARE * cumulated[-1]:
            reach[column] = far
    return middle, reach
