"""Regressions whose coefficients are drawn from their posterior: linear, logistic, hazards.

Coefficients of a linear model are drawn from their posterior under a flat prior. Those of other
models are the mode under random weights of the rows (the Bayesian bootstrap), which is right for
rare states: with normal draws around the mode, a state of three rows in 600 was drawn as often as
one of twelve, on ten columns. The first column of a design is constant; the others are
standardised, so that their units do not matter. The plain twins are in
``tests/naive/imputation.py``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import stats
from scipy.special import log_softmax, softmax

from skpc._arrays import Bools, Floats, Ints, group_sums, picked
from skpc._random import draw_states

#: Greatest number of steps of Newton's method.
_MAX_STEPS = 50
#: A log density, its slope, and minus its second derivatives.
Derivatives = tuple[Any, Floats, Floats]


class Standardised(NamedTuple):
    """A design whose columns have mean zero and variance one, except for the constant first one.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_terms)
        Zero in a column that was constant.
    centre, scale : ndarray of shape (n_terms,)
        Means and standard deviations of the original columns. The standard deviation of a constant
        column is infinite, so that its coefficient becomes zero.
    """

    design: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def fit(cls, design: Floats, weight: Floats) -> Self:
        """Standardise the columns of a design, except for the first, which is constant one."""
        centre = weight @ design / weight.sum()
        # The constant stays one, so that its coefficient is the intercept.
        centre[0] = 0.0
        centred = design - centre
        size = np.abs(centred).max(axis=0)
        # After centring, a constant column has nothing but rounding errors.
        size[np.ptp(design, axis=0) == 0.0] = np.inf
        size[0] = 1.0
        # Columns are divided by their greatest number first, as squares of tiny ones underflow.
        scaled = centred / size
        spread = np.sqrt(weight @ scaled**2 / weight.sum())
        spread[np.isinf(size)] = 1.0
        return cls(scaled / spread, centre, size * spread)

    def inverse(self, weight: Floats) -> Floats:
        """The inverse of the sums of squares and products of weighed rows, (n_terms, n_terms)."""
        # The ridge lets columns that depend on each other exactly share their coefficient.
        ridge = 1e-5
        squares = (self.design.T * weight) @ self.design
        return np.linalg.inv(squares + ridge * weight.sum() * np.eye(len(squares)))

    def restored(self, coefficients: Floats) -> Floats:
        """Coefficients of the original columns from standardised ones, shape (..., n_terms)."""
        term_coefficients = coefficients / self.scale
        # The coefficient of the constant makes up for the means that were subtracted.
        term_coefficients[..., 0] -= term_coefficients @ self.centre
        return np.asarray(term_coefficients)


def mode_of(
    derivatives: Callable[[Floats], Derivatives], start: Floats, n_steps: int = _MAX_STEPS
) -> Floats:
    """Find the mode of a log-concave density by Newton's method.

    Parameters
    ----------
    derivatives : callable
        Takes a vector of coefficients; returns the log density there, its slope, and minus its
        second derivatives.
    start : ndarray
        Where the steps begin.
    n_steps : int
        Greatest number of steps.

    Returns
    -------
    ndarray of the shape of the start
    """
    # The greatest change of a coefficient in a step, and the change that ends the search.
    longest_step = 3.0
    smallest_step = 1e-4
    mode: Any = start.ravel()
    highest = -np.inf
    # The first step is zero, to compute the log density at the start.
    step = np.zeros_like(mode)
    for _ in range(n_steps):
        log_density, slope, curvature = derivatives(mode + step)
        # A step that overshoots, as where probabilities are near zero or one, is halved.
        if log_density < highest:
            step = 0.5 * step
            continue
        mode = mode + step
        highest = log_density
        step = np.linalg.solve(curvature, slope)
        longest = np.abs(step).max()
        # The curvature is right near the current mode only, so that steps are bounded.
        step /= max(longest / longest_step, 1.0)
        if longest < smallest_step:
            break
    return np.reshape(mode + step, start.shape)


class LinearDraw(NamedTuple):
    """Coefficients of a linear regression.

    Parameters
    ----------
    estimate : ndarray of shape (n_terms,)
        The coefficients with the least squared error.
    coefficients : ndarray of shape (n_terms,)
        A draw from their posterior.
    sd : float
        A draw of the standard deviation of the noise.
    """

    estimate: Floats
    coefficients: Floats
    sd: float

    def log_density(self, values: Floats, design: Floats) -> Floats:
        """Log density of numbers given the terms of their rows."""
        return np.asarray(stats.norm.logpdf(values, design @ self.coefficients, self.sd))


def draw_linear(
    design: Floats, values: Floats, weight: Floats, random_state: np.random.RandomState
) -> LinearDraw:
    """Draw the coefficients of a linear regression from their posterior under a flat prior.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_terms)
        The first term is a constant. Another constant term gets the coefficient zero.
    values : ndarray of shape (n_rows,)
        The numbers that are regressed.
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    random_state : RandomState

    Returns
    -------
    LinearDraw
    """
    standard = Standardised.fit(design, weight)
    n_rows = weight.sum()
    n_terms = design.shape[1]
    inverse = standard.inverse(weight)
    # Subtracting the mean keeps the digits of numbers far from zero.
    centre = float(weight @ values / n_rows)
    estimate = inverse @ (standard.design.T @ (weight * (values - centre)))
    residual = values - centre - standard.design @ estimate
    squares = weight @ residual**2
    # Constant terms, whose scale is infinite, cost no degree of freedom.
    freedom = max(n_rows - np.isfinite(standard.scale).sum(), 1.0)
    sd = float(np.sqrt(squares / random_state.chisquare(freedom)))
    # The Cholesky factor gives independent noise the covariance of the coefficients.
    noise = sd * np.linalg.cholesky(inverse) @ random_state.normal(size=n_terms)
    # The constant gets back the mean that was subtracted from the values.
    estimate[0] += centre
    return LinearDraw(standard.restored(estimate), standard.restored(estimate + noise), sd)


class LogitDraw(NamedTuple):
    """Coefficients of a multinomial logistic regression; the first state is the reference.

    Parameters
    ----------
    standardised : ndarray of shape (n_states - 1, n_terms)
        A draw of the coefficients of standardised terms.
    coefficients : ndarray of shape (n_states - 1, n_terms)
        The same draw for the terms in their units.
    """

    standardised: Floats
    coefficients: Floats

    def probabilities(self, design: Floats) -> Floats:
        """Probabilities of the states in each row; shape (n_rows, n_states)."""
        log_odds = design @ self.coefficients.T
        return np.asarray(softmax(np.insert(log_odds, 0, 0.0, axis=1), axis=1))

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`ColumnRegression`."""
        return draw_states(self.probabilities(design), random_state).astype(np.float64)


def draw_logit(
    design: Floats,
    states: Ints,
    n_states: int,
    weight: Floats,
    random_state: np.random.RandomState,
    start: Floats | None = None,
) -> LogitDraw:
    """Draw the coefficients of a multinomial logistic regression.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_terms)
        The first term is a constant, whose coefficients are shrunk to the log odds of the states;
        the others are shrunk to zero.
    states : ndarray of shape (n_rows,), int
        From 0 to ``n_states - 1``.
    n_states : int
        At least two.
    weight : ndarray of shape (n_rows,)
        Positive; a weight of two counts as two rows.
    random_state : RandomState
    start : ndarray of shape (n_states - 1, n_terms), default=None
        Standardised coefficients drawn for nearly the same rows, from which few steps are enough.

    Returns
    -------
    LogitDraw
    """
    steps_from_start = 3
    # The Bayesian bootstrap: the mode under random weights is a draw from the posterior.
    weight = random_state.standard_gamma(weight)
    standard = Standardised.fit(design, weight)
    shape = n_states - 1, design.shape[1]
    is_state = states[:, np.newaxis] == np.arange(1, n_states)
    # Each state counts half a row more, so that states without rows have finite log odds.
    log_count = np.log(np.bincount(states, weight, n_states) + 0.5)
    centre = np.zeros(shape)
    centre[:, 0] = log_count[1:] - log_count[0]

    # Added to the curvature of the log-likelihood of standardised coefficients, so that they stay
    # finite where the terms separate states without error.
    logit_ridge = 0.1

    def derivatives(coefficients: Floats) -> Derivatives:
        log_odds = standard.design @ coefficients.reshape(shape).T
        log_prob = log_softmax(np.insert(log_odds, 0, 0.0, axis=1), axis=1)
        prob = np.exp(log_prob[:, 1:])
        residual = (is_state - prob) * weight[:, np.newaxis]
        deviation = coefficients - centre.ravel()
        log_likelihood = weight @ picked(log_prob, states)
        return (
            log_likelihood - 0.5 * logit_ridge * deviation @ deviation,
            (residual.T @ standard.design).ravel() - logit_ridge * deviation,
            _logit_curvature(standard.design, prob, weight) + logit_ridge * np.eye(len(deviation)),
        )

    n_steps = _MAX_STEPS if start is None else steps_from_start
    start = centre if start is None else start
    mode = mode_of(derivatives, start, n_steps)
    return LogitDraw(mode, standard.restored(mode))


def _logit_curvature(scaled: Floats, prob: Floats, weight: Floats) -> Floats:
    """Minus the second derivatives of the log-likelihood, in blocks of two states.

    ``scaled`` (n_rows, n_terms) is the design, ``prob`` (n_rows, n_states - 1) the probabilities.
    """
    n_terms = scaled.shape[1]
    # All pairs of states have a product; the block of a state with itself has one more term.
    products = (prob[:, :, np.newaxis] * scaled[:, np.newaxis]).reshape(len(prob), -1)
    curvature = -(products * weight[:, np.newaxis]).T @ products
    for state, state_weight in enumerate(prob.T * weight):
        block = slice(state * n_terms, (state + 1) * n_terms)
        curvature[block, block] += (scaled * state_weight[:, np.newaxis]).T @ scaled
    return np.asarray(curvature)


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
        # At risk at a time are the rows whose own times are not earlier.
        n_at_risk = np.searchsorted(-times[order], -event_times, side="right")
        n_events = group_sums(place, weight[is_event])
        return cls(event_times, n_events, order, n_at_risk)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rows at risk at each time; shape (n_times, ...)."""
        # In the order of falling times, the rows at risk come first: cumulative sums are enough.
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

    # Added to the curvature of standardised coefficients, so that they stay finite.
    hazard_ridge = 0.1

    def derivatives(coefficients: Floats) -> Derivatives:
        log_risk = terms @ coefficients
        # Subtracting a constant changes the baseline only, and keeps the risks from overflowing.
        log_risk -= log_risk.max()
        risk = weight * np.exp(log_risk)
        at_risk = sets.sums(risk)
        # Mean terms of the rows at risk at each time, shape (n_times, n_terms).
        mean = sets.sums(risk[:, np.newaxis] * terms) / at_risk[:, np.newaxis]
        # The cumulative hazard of each row until its time, (n_rows,).
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
