"""Regressions of one column, by which the missing cells of that column are drawn.

Numbers are drawn by predictive mean matching, categories by logistic regressions; where a column
has many categories, by one coefficient that all of them share.
"""

from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.special import log_softmax, softmax

from skpc._arrays import Floats, Ints, picked
from skpc._random import draw_states
from skpc.imputation.regressions import Derivatives, draw_linear, mode_of

#: A missing number takes the value of one of this many donors.
N_DONORS = 5
#: A column with more categories has one coefficient for all of them (:class:`PooledCategories`).
MOST_LEVELS = 12


class ColumnRegression(Protocol):
    """A regression of one column whose coefficients have been drawn."""

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded cell for each row of the design, of shape (n_rows, n_terms)."""


class MatchedNumbers(NamedTuple):
    """Predictive mean matching: a missing number is taken from a row with a similar prediction.

    Predictions of rows that lack the number use drawn coefficients, those of donors the estimated
    coefficients (type-1 matching).

    Parameters
    ----------
    coefficients : ndarray of shape (n_terms,)
        Drawn from their posterior.
    predictions : ndarray of shape (n_donors,)
        Predictions of the donors (the rows that have the number), increasing.
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
        # Donors with the same prediction stand in a random order.
        order = random_state.permutation(len(predictions))
        order = order[np.argsort(predictions[order], kind="stable")]
        return cls(regression.coefficients, predictions[order], values[order], weight[order])

    def nearest(
        self, row_predictions: Floats, n_nearest: int, random_state: np.random.RandomState
    ) -> tuple[Ints, Floats]:
        """Find the donors whose predictions are nearest to those of rows.

        Parameters
        ----------
        row_predictions : ndarray of shape (n_rows,)
        n_nearest : int
        random_state : RandomState
            Chooses among donors with the same prediction.

        Returns
        -------
        donors : ndarray of shape (n_rows, at most n_nearest), int
        weight : ndarray of the same shape
            Mean weight of the donors with the same prediction; zero beyond the number of donors.
        """
        n_donors = len(self.predictions)
        middle = np.searchsorted(self.predictions, row_predictions)
        # The nearest donors are among n_nearest ones on either side: 0, -1, 1, -2, 2, ...
        steps = np.arange(n_nearest)
        offsets = np.column_stack([steps, ~steps]).ravel()
        window = middle[:, np.newaxis] + offsets
        donors = np.clip(window, 0, n_donors - 1)
        distance = np.abs(self.predictions[donors] - row_predictions[:, np.newaxis])
        # Where the window reaches beyond the ends there is no donor.
        distance[donors != window] = np.inf
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :n_nearest]
        donors = np.take_along_axis(donors, nearest, axis=1)
        is_donor = np.isfinite(np.take_along_axis(distance, nearest, axis=1))
        # Each donor is replaced by a random one with the same prediction: otherwise all rows would
        # share a few donors.
        start = np.searchsorted(self.predictions, self.predictions[donors], side="left")
        stop = np.searchsorted(self.predictions, self.predictions[donors], side="right")
        # A place is drawn in the stretch of the cumulated weights with the same prediction.
        cumulated = np.append(0.0, np.cumsum(self.weight))
        mass = cumulated[stop] - cumulated[start]
        place = cumulated[start] + random_state.random_sample(donors.shape) * mass
        chosen = np.searchsorted(cumulated, place, side="right") - 1
        # By rounding, a place may lie beyond the end of its stretch.
        return np.clip(chosen, start, stop - 1), mass / (stop - start) * is_donor

    def draw(self, design: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`ColumnRegression`."""
        row_predictions = design @ self.coefficients
        donors, weight = self.nearest(row_predictions, N_DONORS, random_state)
        chosen = draw_states(weight, random_state)
        return self.values[picked(donors, chosen)]


def _rounded(predictions: Floats) -> Floats:
    """Predictions without their last digits, so that those that differ by rounding are equal."""
    # The distance between rounded predictions, as a part of their range.
    rounding = 1e-9
    step = rounding * np.ptp(predictions)
    return np.rint(predictions / step) * step if step > 0.0 else predictions


class PooledCategories(NamedTuple):
    """A logistic regression with one coefficient for all states of a column.

    It multiplies the log probabilities of the states, which a density gives from the other cells of
    each row.

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
            Log probabilities of the states given the other cells of each row.
        states : ndarray of shape (n_rows,), int
        weight : ndarray of shape (n_rows,)
        random_state : RandomState
        """
        # The Bayesian bootstrap, as in the other regressions.
        weight = random_state.standard_gamma(weight)
        # The prior is normal around one, which leaves the probabilities as they are.
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
