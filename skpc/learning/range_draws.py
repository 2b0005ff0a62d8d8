"""Draws for cells that are known as ranges of numbers, by regressions on the rest of their rows.

Learners see these draws in place of ranges. Draws from the laws of the columns alone would be
independent of the rest of their rows, which the ranges are not.
"""

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.domain import Domain, one_hot
from skpc.learning.factors import Factors
from skpc.queries import Events
from skpc.variables.censored import Ranges, filled_ranges
from skpc.variables.censored_regression import censored_regression


def draws_given_rows(
    domain: Domain,
    events: Events,
    rows: Floats,
    weight: Floats,
    random_state: np.random.RandomState,
) -> Floats:
    """Draw the cells that are known as ranges of numbers, given the other cells of their rows.

    Parameters
    ----------
    domain : Domain
    events : Events
        The rows with their ranges.
    rows : ndarray of shape (n_rows, n_features)
        The same rows, encoded, in which ranges are draws from the laws of their columns.
    weight : ndarray of shape (n_rows,)
    random_state : RandomState

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with new draws. Where many rows have the same range, their former draws change
        places, so that the law of the column stays.
    """
    places = np.arange(domain.n_features)
    columns = [place for place in np.unique(events.column) if domain[place].states is None]
    filled = rows.copy()
    # Passes over all columns with ranges.
    sweeps = 2
    # A single such column is regressed on cells that do not change: once is enough.
    for _ in range(sweeps if len(columns) > 1 else 1):
        for column in columns:
            other_places = places[(places != column) & ~domain.is_hidden]
            # The design is made anew each time: it has the draws just made in other columns.
            design = _completed(domain.taken(other_places), filled[:, other_places], weight)
            ranges = _ColumnRanges(domain[column].law, events.only(places == column))
            filled[:, column] = ranges.drawn(design, filled[:, column], weight, random_state)
    return filled


def _completed(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Standardised scores and indicators, missing ones by linear means, and a constant."""
    constant = np.ones((len(rows), 1))
    # A column alone has nothing to be regressed on.
    if not domain.n_features:
        return constant
    scores = rows.copy()
    for place, law in enumerate(domain.laws):
        if law is not None:
            scores[:, place] = law.scaled(rows[:, place])
    features = one_hot(domain, scores)
    # Factors take no empty or constant column. `fmax` and `fmin` pass over NaN.
    varies = np.fmax.reduce(features) > np.fmin.reduce(features)
    features = features[:, varies]
    if not varies.any():
        return constant
    return np.hstack([Factors.fit(features, weight).completed(features), constant])


class _ColumnRanges:
    """The cells of a column of numbers that are known as ranges.

    Parameters
    ----------
    law : Law or None
        The law of the column.
    events : Events
        The events of the column.
    """

    def __init__(self, law: Any, events: Events):
        self.law = law
        rows = np.flatnonzero(np.diff(events.ptr) == 1)
        place = events.ptr[rows]
        ends = np.array([events.low[place], events.high[place]])
        end_scores = ends if law is None else np.array(law.end_scores(*ends))
        # Cells with several ranges, or one without ends, keep their former draws.
        has_end = np.isfinite(end_scores).any(axis=0)
        self.rows: Ints = rows[has_end]
        self.low, self.high = ends[:, has_end]
        self.end_scores = end_scores[:, has_end]

    def drawn(
        self, design: Floats, values: Floats, weight: Floats, random_state: np.random.RandomState
    ) -> Floats:
        """The cells of the column with draws given the design."""
        scores = values if self.law is None else self.law.transform(values)
        low, high = self.end_scores
        present = np.flatnonzero(~np.isnan(scores))
        ranges = np.searchsorted(present, self.rows), low, high
        # The ridge weighs as much as these rows. The constant comes last.
        ridge_rows = 3.0
        ridge = np.append(np.full(design.shape[1] - 1, ridge_rows), 0.0)
        mean, _, _ = censored_regression(
            design[present], scores[present], ranges, weight[present], ridge
        )
        place = ranges[0]
        # A known value is a range from itself to itself; ranges are open below, as bins are.
        closed = np.ones((2, len(present)), dtype=bool)
        closed[0, place] = False
        closed[1, place] = np.isfinite(high)
        lower = scores[present]
        upper = lower.copy()
        lower[place] = low
        upper[place] = high
        residuals = Ranges(lower - mean, upper - mean, closed)
        drawn_residuals = _drawn_residuals(residuals, mean, weight[present], random_state)
        # Adding the mean again may round a draw out of its range.
        drawn = np.clip((mean + drawn_residuals)[place], low, high)
        drawn = self._with_law(drawn, scores[self.rows])
        if self.law is not None:
            drawn = self.law.values(self.law.inverse(drawn))
        # The law may round a draw to a number beyond its range: the cell keeps its former draw.
        is_inside = (self.low < drawn) & (drawn <= self.high)
        filled = values.copy()
        filled[self.rows] = np.where(is_inside, drawn, values[self.rows])
        return filled

    def _with_law(self, drawn: Floats, before: Floats) -> Floats:
        """Draws; where many rows have one range, their former draws in the order of the new."""
        ends = np.column_stack([self.low, self.high])
        range_number = np.unique(ends, axis=0, return_inverse=True)[1].ravel()
        matched = drawn.copy()
        # Ranges of at least so many rows keep the law of their former draws.
        least_rows = 10
        for number in np.flatnonzero(np.bincount(range_number) >= least_rows).tolist():
            members = np.flatnonzero(range_number == number)
            # The new draws say which row has the smallest number, those of before what it is.
            order = np.argsort(drawn[members], kind="stable")
            matched[members[order]] = np.sort(before[members])
        return matched


def _drawn_residuals(
    residuals: Ranges, mean: Floats, weight: Floats, random_state: np.random.RandomState
) -> Floats:
    """Residuals with draws within ranges, by their law in a stratum of rows with similar means.

    Spread and shape of residuals may follow the mean, and at some means few residuals are known:
    each stratum has a Kaplan-Meier curve of its own.
    """
    # Known cells of a stratum.
    known_of_stratum = 100.0
    order = np.lexsort((residuals.high, residuals.low, mean))
    # Strata have about equally many known cells, for these tell the shape of the law.
    known = np.cumsum((weight * residuals.is_value)[order])
    n_strata = max(1, int(known[-1] / known_of_stratum))
    edges = known[-1] * np.arange(1, n_strata) / n_strata
    drawn = np.empty(len(mean))
    for index in np.split(order, np.searchsorted(known, edges)):
        drawn[index] = filled_ranges(
            residuals.take(index), weight[index], random_state, is_positive=False
        )
    return drawn
