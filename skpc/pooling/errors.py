"""Cells that may be wrong: what a density says of them, how many there are, and how sure one is.

A wrong cell is a draw from the widened margin of its column. Rates and calibration come from rows
that a density has not learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import mannwhitneyu
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skpc._arrays import Bools, Floats, Ints
from skpc.domain import Domain, LogMass, merge_rows
from skpc.pooling.error_tails import ANYTHING, ErrorTail
from skpc.queries import NoisyCells

#: The rate of errors is near this mean, as if it were that of so many cells.
MEAN_RATE, _PRIOR_CELLS = 0.015, 50.0
#: Rates that are compared, and the interval of a rate.
_RATES, _LEVELS = np.geomspace(1e-4, 0.5, 80), (0.025, 0.975)
#: Cells of less probability to be wrong are learned as they are.
_DOUBTFUL = 0.2
#: Part of the weight of a row below which it is left out.
_LEAST_WEIGHT = 1e-6
#: Log ratios beyond say no more.
_MOST = 30.0
#: Log odds beyond have no digits.
_CERTAIN = 25.0
#: Least rate of injected errors.
_LEAST_RATE = 0.02
#: Errors of a column that say whether it can tell, and the p-value below which it does.
_FEWEST_ERRORS, _CAN_TELL = 5, 1e-3
#: Part of the log odds that calibration keeps, so that it joins no two probabilities.
_KEPT = 1e-3


class CheckedCells(NamedTuple):
    """Encoded cells that may be wrong, and what their columns say of them; (n_rows, n_features).

    Attributes
    ----------
    rows : ndarray
        NaN where missing, and where no leaf reads the cell: it is set aside.
    log_tail : ndarray
        Log density of the wrong cells that follow no margin; NaN where missing.
    size : ndarray
        What turns the density of a cell into a probability.
    depth : ndarray
        How far away a number is, in nats.
    log_aside : ndarray
        Log density of cells that are set aside, given any row; NaN elsewhere.
    """

    rows: Floats
    log_tail: Floats
    size: Floats
    depth: Floats
    log_aside: Floats

    @classmethod
    def from_rows(cls, tails: list[ErrorTail], rows: Floats) -> CheckedCells:
        """Cells of encoded rows, whose categories are known."""
        parts: Any = (
            np.column_stack([ask(tail, cells) for tail, cells in zip(tails, rows.T)])
            for ask in (ErrorTail.log_density, ErrorTail.sizes, ErrorTail.depths, ErrorTail.can_be)
        )
        log_tail, size, depth, can_be = parts
        log_aside = np.where(can_be | np.isnan(rows), np.nan, -np.inf)
        return cls(np.where(can_be, rows, np.nan), log_tail, size, depth, log_aside)

    @classmethod
    def from_table(
        cls, tails: list[ErrorTail], rows: Floats, unknown: Bools, mass: LogMass
    ) -> tuple[CheckedCells, Floats]:
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
        parts = known, log_tail, cells.size, cells.depth, log_aside
        return CheckedCells(*parts), np.nansum(added, axis=1)

    def take(self, index: Ints | Bools) -> CheckedCells:
        """Those of some rows."""
        return CheckedCells(*(part[index] for part in self))

    def noisy(self, density: Any, rate: Floats) -> NoisyCells:
        """These cells under a density, if draws of errors have these rates by column."""
        log_margin = np.nan_to_num(density.log_margins(self.rows), nan=-np.inf, neginf=-np.inf)
        with np.errstate(invalid="ignore"):
            log_wrong = np.logaddexp(math.log1p(-ANYTHING) + log_margin, self.log_tail)
        log_wrong += np.log(rate)
        return NoisyCells(self.rows, np.log1p(-rate), log_wrong)

    def log_set_aside(self, noisy: NoisyCells) -> Floats:
        """Log density of the cells that are set aside, right or wrong; NaN elsewhere."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.logaddexp(noisy.log_right + self.log_aside, noisy.log_wrong))

    def judge(self, density: Any, rate: Floats) -> Judged:
        """What a density says of them."""
        noisy = self.noisy(density, rate)
        aside = self.log_set_aside(noisy)
        log_cells = np.where(np.isnan(self.log_aside), density.log_cells(noisy), aside)
        log_odds = np.minimum(noisy.log_wrong - log_cells, -1e-13)
        log_odds = log_odds - np.log(-np.expm1(log_odds))
        ratio = np.clip(log_odds - logit(rate), -_MOST, _MOST)
        # Of what is beyond the digits of a probability, the farther one is worse.
        ratio += np.where(log_odds > _CERTAIN, np.nan_to_num(self.depth), 0.0)
        return Judged(noisy.probabilities(log_cells, self.size), ratio)


class Judged(NamedTuple):
    """Verdicts on cells, NaN where missing.

    ``probability`` is that of a value other than the true one; ``log_ratio`` the log density of the
    cell as a wrong one less that given its row.
    """

    probability: Floats
    log_ratio: Floats

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Those of all rows of some parts."""
        return cls(*map(np.concatenate, zip(*parts)))


class Rates(NamedTuple):
    """Rates of draws of errors by column, the ends of their intervals, and what judges cells.

    A density that fits a column badly makes many of its cells look wrong. So all columns share one
    rate where cells are judged, the mean of theirs.
    """

    rate: Floats
    low: Floats
    high: Floats
    shared: Floats

    @classmethod
    def given(cls, error_rate: Any, domain: Domain, misses: Floats) -> Rates | None:
        """Rates of draws that make as many errors as a user says; None for "auto"."""
        if isinstance(error_rate, str):
            return None
        rate = error_rate
        if isinstance(rate, Mapping):
            rate = np.full(len(misses), MEAN_RATE)
            rate[domain.columns([*error_rate], "error_rate")] = [*error_rate.values()]
        rate = np.asarray(rate, dtype=np.float64)
        if rate.shape not in ((), misses.shape) or not ((rate >= 0.0) & (rate < 1.0)).all():
            raise ValueError(
                f"error_rate must be 'auto', or proportions in [0, 1), one for all {len(misses)} "
                f"columns or one for each; found {error_rate!r}."
            )
        # A column that nearly always has one value has fewer errors than it has draws.
        draws = np.clip(rate / np.maximum(misses, 0.5), 1e-6, 0.5)
        return cls(draws, draws, draws, draws)

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
            # Points of the grid stand for more rates where these are greater.
            mass = _RATES * np.exp(log_posterior - log_posterior.max())
            levels = np.searchsorted(np.cumsum(mass) / mass.sum(), _LEVELS)
            ends.append(_RATES[[log_posterior.argmax(), *np.minimum(levels, len(_RATES) - 1)]])
        rate, low, high = np.array(ends).T
        return cls(rate, low, high, np.full(len(rate), rate.mean()))


def doubtful_cells(probability: Floats, weight: Floats, most: float) -> Floats:
    """Probabilities of the cells that are most probably wrong, zero elsewhere.

    Their sum, by the weights of their rows, is ``most`` or less.
    """
    doubtful = np.where(probability > _DOUBTFUL, probability, 0.0)
    order = np.argsort(-doubtful, axis=None, kind="stable")
    taken = np.cumsum((doubtful * weight[:, np.newaxis]).ravel()[order])
    doubtful.ravel()[order[taken > most]] = 0.0
    return doubtful


def without_errors(
    rows: Floats, weight: Floats, probability: Floats, rate: Floats
) -> tuple[Floats, Floats]:
    """Rows to learn from, in which a cell counts by the probability that it is right.

    A row with doubtful cells counts as two: as it is, and without these. The weight taken away is
    at most twice what the rates say.
    """
    most = 2.0 * float((weight @ ~np.isnan(rows)) @ rate)
    doubtful = doubtful_cells(probability, weight, most)
    worst = doubtful.max(axis=1, initial=0.0)
    some = np.flatnonzero(worst > 0.0)
    blank = np.where(doubtful[some] > 0.0, np.nan, rows[some])
    learned = np.vstack([rows, blank])
    both = np.append(weight * (1.0 - worst), weight[some] * worst[some])
    # What is left of a row that is surely wrong would be next to nothing.
    present = both > _LEAST_WEIGHT * np.append(weight, weight[some])
    return merge_rows(learned[present], both[present])


def learned_density(density: Any, domain: Domain, part: tuple[Floats, Floats]) -> Any:
    """The density of some rows and their weights."""
    # Axes that held-out rows have a part in would speak for densities with bins.
    return clone(density).fit_rows(domain.with_axes_of(*part), *part)._density


class Calibration(NamedTuple):
    """Maps log ratios to probabilities, for numbers and categories apart, by injected errors.

    Attributes
    ----------
    maps : list of tuple or None
        For numbers and for categories: increasing log ratios, and the logs of their densities
        among errors over those among right cells. None where too few errors were injected.
    informative : ndarray of shape (n_features,), bool
        The columns whose errors have greater ratios than their other cells.
    """

    maps: list[tuple[Floats, Floats] | None]
    informative: Bools

    @classmethod
    def fit(
        cls, is_category: Bools, judged: Judged, is_error: Bools, weight: Floats, rate: Floats
    ) -> Calibration:
        """From cells of held-out rows, some of which are errors; the weights are those of rows.

        A table has errors of its own, which would count as right cells. So as many as the rates say
        do not count, by their probabilities and the most probable ones first.
        """
        ratios, known = judged.log_ratio, ~np.isnan(judged.log_ratio)
        unlabelled = np.where(is_error | ~known, 0.0, judged.probability)
        errors = doubtful_cells(unlabelled, weight, float((weight @ known) @ rate))
        mass = weight[:, np.newaxis] * (1.0 - errors)
        maps: list[tuple[Floats, Floats] | None] = [None, None]
        for kind in (False, True):
            some = known & (is_category == kind)
            ratio, error, of_cells = ratios[some], is_error[some], mass[some]
            if error.sum() >= _FEWEST_ERRORS:
                isotonic = IsotonicRegression(y_min=1e-5, y_max=1.0 - 1e-5, out_of_bounds="clip")
                isotonic.fit(ratio, error, of_cells)
                gain = logit(isotonic.y_thresholds_) - logit(np.average(error, weights=of_cells))
                maps[kind] = isotonic.X_thresholds_, gain
        informative = [
            error[some].sum() >= _FEWEST_ERRORS
            and mannwhitneyu(ratio[some & error], ratio[some & ~error], alternative="greater")[1]
            < _CAN_TELL
            for ratio, error, some in zip(ratios.T, is_error.T, known.T)
        ]
        return cls(maps, np.array(informative, dtype=bool))

    def probabilities(self, is_category: Bools, judged: Judged, error_rate: Floats) -> Floats:
        """Calibrated probabilities of cells, in columns with these rates of errors."""
        result = judged.probability.copy()
        for column, kind in enumerate(is_category.tolist()):
            of_kind, ratio = self.maps[kind], judged.log_ratio[:, column]
            if of_kind is not None:
                gain = np.interp(ratio, *of_kind) + _KEPT * ratio
                result[:, column] = expit(logit(error_rate[column]) + gain)
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
