"""Cells that may be wrong: what a density says of them, how many there are, and how sure one is.

A wrong cell is a draw from the widened margin of its column. Rates and calibration come from rows
that a density has not learned.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import mannwhitneyu
from sklearn.isotonic import IsotonicRegression

from skpc._arrays import Bools, Floats, Ints
from skpc.domain import ANYTHING, Domain, ErrorTail, merge_rows
from skpc.queries import NoisyCells

#: The rate of errors is near this mean, as if it were that of so many cells.
MEAN_RATE, _PRIOR_CELLS = 0.015, 50.0
#: Rates that are compared, and the interval of a rate.
_RATES, _LEVELS = np.geomspace(1e-4, 0.5, 80), (0.025, 0.975)
#: Log ratios beyond say no more.
_MOST = 30.0
#: Copies of the held-out rows that get errors for the calibration, and the least rate of these.
_COPIES, _LEAST_RATE = 3, 0.02
#: Errors of a column that say whether it can tell, and the p-value below which it does.
_FEWEST_ERRORS, _CAN_TELL = 5, 1e-3
#: Part of the log odds that calibration keeps, so that it joins no two probabilities.
_KEPT = 1e-3
#: Greatest probability before that.
_SUREST = 0.999


class Cells(NamedTuple):
    """Encoded cells that may be wrong, and what their columns say of them; (n_rows, n_features).

    Attributes
    ----------
    rows : ndarray
        NaN where missing, and where no leaf reads the cell: it is set aside.
    log_tail : ndarray
        Log density of the wrong cells that follow no margin; NaN where missing.
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
    def from_rows(cls, tails: list[ErrorTail], rows: Floats) -> Cells:
        """Cells of encoded rows, whose categories are known."""
        log_tail, size, can_be = (
            np.column_stack([ask(tail, cells) for tail, cells in zip(tails, rows.T)])
            for ask in (ErrorTail.log_density, ErrorTail.sizes, ErrorTail.can_be)
        )
        log_aside = np.where(can_be | np.isnan(rows), np.nan, -np.inf)
        return cls(np.where(can_be, rows, np.nan), log_tail, size, log_aside)

    def take(self, index: Ints | Bools) -> Cells:
        """Those of some rows."""
        return Cells(*(part[index] for part in self))

    def noisy(self, density: Any, rate: Floats) -> NoisyCells:
        """These cells under a density, if draws of errors have these rates by column."""
        log_margin = np.nan_to_num(density.log_margins(self.rows), nan=-np.inf, neginf=-np.inf)
        log_wrong = np.log(rate) + np.logaddexp(math.log1p(-ANYTHING) + log_margin, self.log_tail)
        return NoisyCells(self.rows, np.log1p(-rate), log_wrong)

    def judge(self, density: Any, rate: Floats) -> Judged:
        """What a density says of them."""
        noisy = self.noisy(density, rate)
        aside = np.logaddexp(noisy.log_right + self.log_aside, noisy.log_wrong)
        log_cells = np.where(np.isnan(self.log_aside), density.log_cells(noisy), aside)
        log_odds = np.minimum(noisy.log_wrong - log_cells, -1e-13)
        log_odds = log_odds - np.log(-np.expm1(log_odds))
        ratio = np.clip(log_odds - logit(rate), -_MOST, _MOST)
        return Judged(noisy.probabilities(log_cells, self.size), ratio, aside)


class Judged(NamedTuple):
    """Verdicts on cells, NaN where missing.

    ``probability`` is that of a value other than the true one; ``log_ratio`` the log density of the
    cell as a wrong one less that given its row; ``aside`` the log density of cells set aside.
    """

    probability: Floats
    log_ratio: Floats
    aside: Floats


class Rates(NamedTuple):
    """Rates of draws of errors by column, the ends of their intervals, and what cells are judged by.

    A density that fits a column badly makes many of its cells look wrong. So all columns are judged
    by one rate, the mean of theirs.
    """

    rate: Floats
    low: Floats
    high: Floats
    shared: Floats

    @classmethod
    def fit(cls, log_ratio: Floats, weight: Floats) -> Rates:
        """By the likelihood of cells that are wrong or not, and a prior that columns share.

        The posterior is computed on a grid; the rate is its mode, which is what EM ends at.
        """
        ends = []
        odds = np.log(_RATES), np.log1p(-_RATES)
        prior = MEAN_RATE * _PRIOR_CELLS * odds[0] + (1 - MEAN_RATE) * _PRIOR_CELLS * odds[1]
        for cells in log_ratio.T:
            known = ~np.isnan(cells)
            joint = np.logaddexp(odds[0] + cells[known, np.newaxis], odds[1])
            log_posterior = prior + weight[known] @ joint
            mass = np.exp(log_posterior - log_posterior.max())
            levels = np.searchsorted(np.cumsum(mass) / mass.sum(), _LEVELS)
            ends.append(_RATES[[log_posterior.argmax(), *np.minimum(levels, len(_RATES) - 1)]])
        rate, low, high = np.array(ends).T
        return cls(rate, low, high, np.full(len(rate), rate.mean()))


def without_errors(
    rows: Floats, weight: Floats, probability: Floats, rate: Floats
) -> tuple[Floats, Floats]:
    """Rows to learn from, in which a cell counts by the probability that it is right.

    A row with doubtful cells counts as two: as it is, and without these. The weight taken away is
    at most twice what the rates say, cell by cell the most doubtful first.
    """
    doubtful = np.where(probability > _DOUBTFUL, probability, 0.0)
    order = np.argsort(-doubtful, axis=None, kind="stable")
    taken = np.cumsum((doubtful * weight[:, np.newaxis]).ravel()[order])
    most = 2.0 * float((weight @ ~np.isnan(rows)) @ rate)
    doubtful.ravel()[order[taken > most]] = 0.0
    worst = doubtful.max(axis=1)
    some = np.flatnonzero(worst > 0.0)
    blank = np.where(doubtful[some] > 0.0, np.nan, rows[some])
    kept = weight * (1.0 - worst)
    return merge_rows(np.vstack([rows, blank]), np.append(kept, weight[some] * worst[some]))


#: Cells of less probability to be wrong are learned as they are.
_DOUBTFUL = 0.2


class Calibration(NamedTuple):
    """Maps log ratios to probabilities, for numbers and categories apart, by injected errors.

    ``steps`` has the increasing log ratios and the logs of the densities of these among errors over
    those among all cells; None where too few errors were injected. ``informative`` are the columns
    whose errors have greater ratios than other cells.
    """

    steps: dict[bool, tuple[Floats, Floats] | None]
    informative: Bools

    @classmethod
    def fit(
        cls, is_category: Bools, log_ratio: Floats, is_error: Bools, weight: Floats
    ) -> Calibration:
        """From cells of held-out rows, some of which are errors."""
        steps: dict[bool, tuple[Floats, Floats] | None] = {}
        for kind in (False, True):
            ratio, error = log_ratio[:, is_category == kind], is_error[:, is_category == kind]
            known = ~np.isnan(ratio)
            mass = np.broadcast_to(weight[:, np.newaxis], ratio.shape)[known]
            steps[kind] = None
            if error[known].sum() >= _FEWEST_ERRORS:
                isotonic = IsotonicRegression(y_min=1e-5, y_max=0.9999, out_of_bounds="clip")
                isotonic.fit(ratio[known], error[known], mass)
                share = np.average(error[known], weights=mass)
                gain = logit(isotonic.y_thresholds_) - logit(share)
                steps[kind] = isotonic.X_thresholds_, gain
        informative = [
            error[~np.isnan(ratio)].sum() >= _FEWEST_ERRORS
            and mannwhitneyu(
                ratio[error & ~np.isnan(ratio)],
                ratio[~error & ~np.isnan(ratio)],
                alternative="greater",
            ).pvalue
            < _CAN_TELL
            for ratio, error in zip(log_ratio.T, is_error.T)
        ]
        return cls(steps, np.array(informative, dtype=bool))

    def probabilities(self, is_category: Bools, judged: Judged, error_rate: Floats) -> Floats:
        """Calibrated probabilities of cells."""
        result = judged.probability.copy()
        for column, kind in enumerate(is_category.tolist()):
            steps, ratio = self.steps[kind], judged.log_ratio[:, column]
            if steps is not None:
                # Errors are this part of the cells with this ratio.
                part = np.minimum(error_rate[column] * np.exp(np.interp(ratio, *steps)), _SUREST)
                result[:, column] = expit(logit(part) + _KEPT * ratio)
        return result


def injected(
    domain: Domain, tails: list[ErrorTail], rows: Floats, rate: Floats, random_state: Any
) -> tuple[Floats, Bools]:
    """Rows some of whose cells are replaced, and which ones differ from the true value.

    Numbers move by some standard deviations to either side, or are a tenth of themselves, or come
    from a heavy tail about the median; categories become one drawn from the square roots of their
    shares. All are values that their columns can have.
    """
    wrong, shape = rows.copy(), rows.shape
    chosen = random_state.random_sample(shape) < np.maximum(rate, _LEAST_RATE)
    for column, tail in enumerate(tails):
        some = np.flatnonzero(chosen[:, column])
        cells, n = rows[some, column], len(some)
        if tail.spread == 0.0:
            share = np.sqrt(tail.share)
            wrong[some, column] = random_state.choice(len(share), n, p=share / share.sum())
            continue
        sign = np.where(random_state.random_sample(n) < 0.5, -1.0, 1.0)
        moved = cells + sign * tail.spread * random_state.uniform(1.0, 5.0, n)
        far = tail.middle + 3.0 * tail.spread * random_state.standard_t(3, n)
        wrong[some, column] = np.choose(random_state.randint(3, size=n), [moved, far, cells / 10.0])
    wrong = np.where(np.isnan(rows), np.nan, domain.snapped(domain.within_ends(wrong)))
    wrong = np.where(chosen, wrong, rows)
    return wrong, (wrong != rows) & ~np.isnan(rows)
