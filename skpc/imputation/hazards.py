"""Proportional hazards with coefficients drawn from their posterior, and Breslow's baseline."""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, group_sums
from skpc.imputation.regressions import Derivatives, Standardised, mode_of


class HazardDraw(NamedTuple):
    """Coefficients of proportional hazards, and Breslow's baseline for them.

    Parameters
    ----------
    standardised : ndarray of shape (n_terms,)
        A draw of the coefficients of standardised terms.
    coefficients : ndarray of shape (n_terms,)
        The same draw for the terms in their units. The coefficient of the constant keeps risks near
        one wherever the zeros of the terms are.
    times : ndarray of shape (n_times,)
        Times of events, increasing.
    cumulative : ndarray of shape (n_times,)
        The cumulative hazard of a row whose risk is one, at these times.
    """

    standardised: Floats
    coefficients: Floats
    times: Floats
    cumulative: Floats

    def log_density(self, design: Floats, times: Floats, is_event: Bools) -> Floats:
        """Log density of times given the terms of their rows, up to a constant."""
        log_risk = design @ self.coefficients
        # Before the first event, the cumulative hazard is zero.
        n_times_before = np.searchsorted(self.times, times, side="right")
        cumulative = np.append(0.0, self.cumulative)[n_times_before]
        return np.asarray(is_event * log_risk - cumulative * np.exp(log_risk))


class RiskSets(NamedTuple):
    """The rows that are at risk at the times of events.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Times of events, increasing.
    n_events : ndarray of shape (n_times,)
        Weight of the events at each of these times.
    order : ndarray of shape (n_rows,), int
        The rows by falling time.
    n_at_risk : ndarray of shape (n_times,), int
        How many of the rows in this order are at risk at each time.
    """

    times: Floats
    n_events: Floats
    order: Ints
    n_at_risk: Ints

    @classmethod
    def of(cls, times: Floats, is_event: Bools, weight: Floats) -> Self:
        """The risk sets of weighed rows with these times, events or censored."""
        event_times, place = np.unique(times[is_event], return_inverse=True)
        order = np.argsort(-times, kind="stable")
        # At risk are the rows from the latest time on down to this time.
        n_at_risk = np.searchsorted(-times[order], -event_times, side="right")
        n_events = group_sums(place, weight[is_event])
        return cls(event_times, n_events, order, n_at_risk)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rows at risk at each time; shape (n_times, ...)."""
        # Rows at risk at a time are at risk at all earlier times: one cumulated sum has all sums.
        return np.asarray(np.cumsum(values[self.order], axis=0)[self.n_at_risk - 1])

    def cumulative(self, risk: Floats) -> Floats:
        """Breslow's cumulative hazard of a row whose risk is one; shape (n_times,)."""
        return np.cumsum(self.n_events / self.sums(risk))


def draw_hazards(
    design: Floats,
    times: Floats,
    is_event: Bools,
    weight: Floats,
    random_state: np.random.RandomState,
    start: Floats | None = None,
) -> HazardDraw:
    """Draw the coefficients of proportional hazards; equal times are treated as Breslow does.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_terms)
        The first term is a constant, whose coefficient is a part of the baseline.
    times : ndarray of shape (n_rows,)
        Times of events, or of the end of observation.
    is_event : ndarray of shape (n_rows,), bool
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    random_state : RandomState
    start : ndarray of shape (n_terms,), default=None
        Coefficients of standardised terms to begin with.

    Returns
    -------
    HazardDraw
    """
    # Under random weights of the rows (the Bayesian bootstrap), the mode is a draw.
    weight = random_state.standard_gamma(weight)
    standard = Standardised.fit(design, weight)
    terms = standard.design
    sets = RiskSets.of(times, is_event, weight)
    event_weight = weight * is_event
    n_times_before = np.searchsorted(sets.times, times, side="right")

    # Added to the curvature of standardised coefficients of hazards.
    hazard_ridge = 0.1

    def derivatives(coefficients: Floats) -> Derivatives:
        log_risk = terms @ coefficients
        # A constant is a part of the baseline; without the greatest risk none overflows.
        log_risk -= log_risk.max()
        risk = weight * np.exp(log_risk)
        at_risk = sets.sums(risk)
        # Mean terms of the rows at risk at each time, shape (n_times, n_terms).
        mean = sets.sums(risk[:, np.newaxis] * terms) / at_risk[:, np.newaxis]
        # The hazard that each row was under until its time.
        exposure = risk * np.append(0.0, sets.cumulative(risk))[n_times_before]
        # Second moments of all risk sets together, shape (n_terms, n_terms).
        second = (terms * exposure[:, np.newaxis]).T @ terms
        curvature = second - (mean * sets.n_events[:, np.newaxis]).T @ mean
        log_likelihood = event_weight @ log_risk - sets.n_events @ np.log(at_risk)
        return (
            log_likelihood - 0.5 * hazard_ridge * coefficients @ coefficients,
            (event_weight - exposure) @ terms - hazard_ridge * coefficients,
            curvature + hazard_ridge * np.eye(len(coefficients)),
        )

    start = np.zeros(terms.shape[1]) if start is None else start
    mode = mode_of(derivatives, start)
    coefficients = standard.restored(mode)
    risk = weight * np.exp(design @ coefficients)
    return HazardDraw(mode, coefficients, sets.times, sets.cumulative(risk))
