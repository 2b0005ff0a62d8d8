"""Draws within ranges of numbers, by regressions of their scores on the rest of their rows.

A learner must not see ranges as if they were independent of the rest of their row.
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
    """Encoded rows whose ranges of numbers have draws given the other cells of their rows.

    Parameters
    ----------
    domain : Domain
    events : Events
        The rows as they are.
    rows : ndarray of shape (n_rows, n_features)
        The same with draws from the laws of their columns.
    weight : ndarray of shape (n_rows,)
    random_state : RandomState

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Draws within equal ranges of many rows are those of before, in another order.
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
            drawing = _Drawing(domain[column].law, events.only(places == column))
            filled[:, column] = drawing.drawn(design, filled[:, column], weight, random_state)
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
    # Factors take no column that is empty or constant; these functions pass over NaN.
    varies = np.fmax.reduce(features) > np.fmin.reduce(features)
    features = features[:, varies]
    if not varies.any():
        return constant
    return np.hstack([Factors.fit(features, weight).completed(features), constant])


class _Drawing:
    """What is known of the cells of a column of numbers.

    Parameters
    ----------
    law : Law or None
        Of the column.
    events : Events
        What is said of it.
    """

    def __init__(self, law: Any, events: Events):
        self.law = law
        rows = np.flatnonzero(np.diff(events.ptr) == 1)
        place = events.ptr[rows]
        ends = np.array([events.low[place], events.high[place]])
        end_scores = ends if law is None else np.array(law.end_scores(*ends))
        # Several alternatives, and ranges of all numbers, keep the draws that they have.
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
        """Draws in place of which ranges of many rows have those of before, in the same order."""
        ends = np.column_stack([self.low, self.high])
        kind = np.unique(ends, axis=0, return_inverse=True)[1].ravel()
        matched = drawn.copy()
        # Ranges of at least so many rows keep the law of their draws.
        alike = 10
        for number in np.flatnonzero(np.bincount(kind) >= alike).tolist():
            members = np.flatnonzero(kind == number)
            # The new draws say which row has the smallest number, those of before what it is.
            order = np.argsort(drawn[members], kind="stable")
            matched[members[order]] = np.sort(before[members])
        return matched


def _drawn_residuals(
    residuals: Ranges, mean: Floats, weight: Floats, random_state: np.random.RandomState
) -> Floats:
    """Residuals with draws within ranges, by their law in rows of about the same mean.

    One law for all rows would be wrong where spread or shape follow the mean, above all where those
    of some means are seldom known: a stratum has its own curve of Kaplan and Meier.
    """
    # Known cells of a stratum.
    size = 100.0
    order = np.lexsort((residuals.high, residuals.low, mean))
    # Strata have about equally many known cells, for these tell the shape of the law.
    known = np.cumsum((weight * residuals.is_value)[order])
    n_strata = max(1, int(known[-1] / size))
    edges = known[-1] * np.arange(1, n_strata) / n_strata
    drawn = np.empty(len(mean))
    for index in np.split(order, np.searchsorted(known, edges)):
        drawn[index] = filled_ranges(
            residuals.take(index), weight[index], random_state, is_positive=False
        )
    return drawn
