"""Regressions whose coefficients are drawn from their posterior, and draws of cells from them.

Coefficients of a linear model are drawn from their posterior under a flat prior. Those of other
models are the mode under random weights of the rows (the Bayesian bootstrap), which is right for
rare states: with normal draws around the mode, a state of three rows in 600 was drawn as often as
one of twelve, on ten columns. The first column of a design is constant; the others are
standardised, so that their units do not matter. The plain twins stand in
``tests/naive/imputation.py``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy import stats
from scipy.special import log_softmax, softmax

from skpc._arrays import Floats, Ints, picked
from skpc._random import draw_states

#: Steps of Newton's method, at most.
_MAX_STEPS = 50
#: A missing number takes the value of one of this many donors.
N_DONORS = 5
#: A column with more categories has one coefficient for all of them (:class:`PooledCategories`).
MOST_LEVELS = 12

#: A log density, its slope, and minus its second derivatives.
Derivatives = tuple[Any, Floats, Floats]


class ColumnRegression(Protocol):
    """A regression of one column whose coefficients have been drawn."""

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded cell for each row of the design, of shape (n_rows, n_terms)."""


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
    # The factor of the inverse gives independent noise the covariance of coefficients.
    noise = sd * np.linalg.cholesky(inverse) @ random_state.normal(size=n_terms)
    # The constant gets back what was subtracted from the values.
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
    # Half a row more for each state gives states without rows finite log odds.
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


def mode_of(
    derivatives: Callable[[Floats], Derivatives], start: Floats, n_steps: int = _MAX_STEPS
) -> Floats:
    """Find the mode of a log-concave density by Newton's method.

    Parameters
    ----------
    derivatives : callable
        Takes coefficients end to end; returns the log density there, its slope, and minus its
        second derivatives.
    start : ndarray
        Where the steps begin.
    n_steps : int
        Number of steps, at most.

    Returns
    -------
    ndarray of the shape of the start
    """
    # No coefficient changes more in a step; a step whose changes are all small is the last.
    longest_step = 3.0
    small_step = 1e-4
    mode: Any = start.ravel()
    highest = -np.inf
    # The first step is zero: it tells the log density at the start.
    step = np.zeros_like(mode)
    for _ in range(n_steps):
        log_density, slope, curvature = derivatives(mode + step)
        # Steps overshoot where probabilities are near zero or one.
        if log_density < highest:
            step = 0.5 * step
            continue
        mode = mode + step
        highest = log_density
        step = np.linalg.solve(curvature, slope)
        longest = np.abs(step).max()
        # The curvature holds near the mode so far only.
        step /= max(longest / longest_step, 1.0)
        if longest < small_step:
            break
    return np.reshape(mode + step, start.shape)


def _logit_curvature(scaled: Floats, prob: Floats, weight: Floats) -> Floats:
    """Minus the second derivatives of the log-likelihood, in blocks of two states.

    ``scaled`` (n_rows, n_terms) is the design, ``prob`` (n_rows, n_states - 1) the probabilities.
    """
    n_terms = scaled.shape[1]
    # The products of all pairs of states; the block of a state with itself has a term more.
    products = (prob[:, :, np.newaxis] * scaled[:, np.newaxis]).reshape(len(prob), -1)
    curvature = -(products * weight[:, np.newaxis]).T @ products
    for state, state_weight in enumerate(prob.T * weight):
        block = slice(state * n_terms, (state + 1) * n_terms)
        curvature[block, block] += (scaled * state_weight[:, np.newaxis]).T @ scaled
    return np.asarray(curvature)


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
        # A centred constant column has errors of rounding alone.
        size[np.ptp(design, axis=0) == 0.0] = np.inf
        size[0] = 1.0
        # Squares of tiny numbers would underflow: columns are divided by their greatest number.
        parts = centred / size
        spread = np.sqrt(weight @ parts**2 / weight.sum())
        spread[np.isinf(size)] = 1.0
        return cls(parts / spread, centre, size * spread)

    def inverse(self, weight: Floats) -> Floats:
        """The inverse of the sums of squares and products of weighed rows, (n_terms, n_terms)."""
        # Added to the mean square of each column, so that columns that depend on each other exactly
        # share their coefficient.
        ridge = 1e-5
        squares = (self.design.T * weight) @ self.design
        return np.linalg.inv(squares + ridge * weight.sum() * np.eye(len(squares)))

    def restored(self, coefficients: Floats) -> Floats:
        """Coefficients of the original columns, shape (..., n_terms)."""
        term_coefficients = coefficients / self.scale
        # The means that were subtracted go to the constant.
        term_coefficients[..., 0] -= term_coefficients @ self.centre
        return np.asarray(term_coefficients)


class MatchedNumbers(NamedTuple):
    """Predictive mean matching: a missing number is that of a row with about the same prediction.

    Rows that lack the number have predictions by drawn coefficients, donors by the estimate (type-1
    matching).

    Parameters
    ----------
    coefficients : ndarray of shape (n_terms,)
        Drawn from their posterior.
    predictions : ndarray of shape (n_donors,)
        Predictions of the donors, the rows that have the number; increasing.
    values : ndarray of shape (n_donors,)
        The numbers of the donors.
    weight : ndarray of shape (n_donors,)
        Weights of the donors; heavier ones are drawn more often.
    """

    coefficients: Floats
    predictions: Floats
    values: Floats
    weight: Floats

    @classmethod
    def fit(
        cls,
        design: Floats,
        target: Floats,
        values: Floats,
        weight: Floats,
        random_state: np.random.RandomState,
    ) -> Self:
        """Draw coefficients, and order the donors by their predictions.

        Parameters
        ----------
        design : ndarray of shape (n_donors, n_terms)
        target : ndarray of shape (n_donors,)
            The numbers on the scale on which they are regressed.
        values : ndarray of shape (n_donors,)
            The numbers of the donors.
        weight : ndarray of shape (n_donors,)
        random_state : RandomState
        """
        regression = draw_linear(design, target, weight, random_state)
        predictions = _rounded(design @ regression.estimate)
        # Donors with one prediction stand in any order.
        order = random_state.permutation(len(predictions))
        order = order[np.argsort(predictions[order], kind="stable")]
        return cls(regression.coefficients, predictions[order], values[order], weight[order])

    def nearest(
        self, row_predictions: Floats, n_nearest: int, random_state: np.random.RandomState
    ) -> tuple[Ints, Floats]:
        """Donors whose predictions are nearest to those of some rows.

        Parameters
        ----------
        row_predictions : ndarray of shape (n_rows,)
        n_nearest : int
        random_state : RandomState
            Chooses among donors with one prediction.

        Returns
        -------
        donors : ndarray of shape (n_rows, at most n_nearest), int
        weight : ndarray of the same shape
            Mean weight of the donors with the same prediction; zero beyond the number of donors.
        """
        n_donors = len(self.predictions)
        middle = np.searchsorted(self.predictions, row_predictions)
        # Places around the middle, in turn: 0, -1, 1, -2, 2, ...
        ahead = np.arange(n_nearest)
        around = np.column_stack([ahead, ~ahead]).ravel()
        window = middle[:, np.newaxis] + around
        donors = np.clip(window, 0, n_donors - 1)
        distance = np.abs(self.predictions[donors] - row_predictions[:, np.newaxis])
        # Clipping has put the donor at an end in places beyond it, where there is none.
        distance[donors != window] = np.inf
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :n_nearest]
        donors = np.take_along_axis(donors, nearest, axis=1)
        is_donor = np.isfinite(np.take_along_axis(distance, nearest, axis=1))
        # Each donor is replaced by a random one with the same prediction: otherwise, all rows would
        # share a few donors.
        start = np.searchsorted(self.predictions, self.predictions[donors], side="left")
        stop = np.searchsorted(self.predictions, self.predictions[donors], side="right")
        # Donors with one prediction are a stretch of the cumulated weights: a place in it is drawn.
        cumulated = np.append(0.0, np.cumsum(self.weight))
        mass = cumulated[stop] - cumulated[start]
        place = cumulated[start] + random_state.random_sample(donors.shape) * mass
        chosen = np.searchsorted(cumulated, place, side="right") - 1
        # Rounding at the ends of a stretch may lead out of it.
        return np.clip(chosen, start, stop - 1), mass / (stop - start) * is_donor

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`ColumnRegression`."""
        row_predictions = design @ self.coefficients
        donors, weight = self.nearest(row_predictions, N_DONORS, random_state)
        chosen = draw_states(weight, random_state)
        return self.values[picked(donors, chosen)]


def _rounded(predictions: Floats) -> Floats:
    """Predictions without their last digits, so that those that differ by rounding are equal."""
    # The step between predictions, as a part of their range.
    rounding = 1e-9
    step = rounding * np.ptp(predictions)
    return np.rint(predictions / step) * step if step > 0.0 else predictions


class PooledCategories(NamedTuple):
    """One coefficient for all states of a column, which multiplies their log probabilities.

    The log probabilities are those of a density, given the rest of each row.

    Parameters
    ----------
    coefficient : float
        Drawn from its posterior.
    """

    coefficient: float

    @classmethod
    def fit(
        cls,
        log_prob: Floats,
        states: Ints,
        weight: Floats,
        random_state: np.random.RandomState,
    ) -> Self:
        """Draw the coefficient.

        Parameters
        ----------
        log_prob : ndarray of shape (n_rows, n_states)
            Log probabilities of the states given the rest of each row.
        states : ndarray of shape (n_rows,), int
        weight : ndarray of shape (n_rows,)
        random_state : RandomState
        """
        # Random weights of the rows make the mode a draw, as those of other regressions.
        weight = random_state.standard_gamma(weight)
        # The prior is normal around one, with which the probabilities are not changed.
        start = np.ones(1)

        def derivatives(coefficient: Floats) -> Derivatives:
            log_drawn = log_softmax(coefficient * log_prob, axis=1)
            prob = np.exp(log_drawn)
            mean = (prob * log_prob).sum(axis=1)
            variance = (prob * log_prob**2).sum(axis=1) - mean**2
            deviation = coefficient - start
            return (
                weight @ picked(log_drawn, states) - 0.5 * deviation @ deviation,
                weight @ (picked(log_prob, states) - mean) - deviation,
                np.atleast_2d(weight @ variance + 1.0),
            )

        return cls(float(mode_of(derivatives, start)[0]))

    def probabilities(self, design: Floats) -> Floats:
        """Probabilities of the states, from their log probabilities in each row."""
        return np.asarray(softmax(self.coefficient * design, axis=1))

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`ColumnRegression`."""
        return draw_states(self.probabilities(design), random_state).astype(np.float64)
