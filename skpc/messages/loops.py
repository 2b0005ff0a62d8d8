"""Expectation propagation for linear models and for a precision, with any message operator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._validation import check_magnitude, check_option, unmasked
from skpc._warnings import warn
from skpc.messages.families import Gamma, Normal
from skpc.messages.oracles import MessageOperator

_SCHEDULES = ("parallel", "serial")
#: The posterior precision in any direction is kept above this fraction of the prior precision.
_LEAST_PRECISION = 1e-6
#: Moments of squares are taken, so fourth powers must not overflow.
LARGEST_FEATURE = 1e70


class WeightPosterior(NamedTuple):
    """What expectation propagation has found out about the weights of a linear model.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
    covariance : ndarray of shape (n_features, n_features)
    sites : Normal of n_rows
        The outgoing messages, from the factors to z.
    n_skipped : int
        How often a site was left as it was in a sweep: its cavity was improper, there was no
        answer, or the new message would have made the posterior improper.

    Examples
    --------
    >>> from skpc.messages import LogisticEP, LogisticFactor, QuadratureOracle
    >>> posterior = LogisticEP(QuadratureOracle(LogisticFactor(), 1)).run(
    ...     [[1.0], [2.0]], [1, 1]
    ... )
    >>> posterior.sites.is_proper, posterior.n_skipped
    (array([ True,  True]), 0)
    """

    mean: Floats
    covariance: Floats
    sites: Normal
    n_skipped: int

    def kl(self, other: WeightPosterior) -> float:
        """Kullback-Leibler divergence KL(self || other) in nats."""
        # A Cholesky factor serves both terms, without an inverse.
        factor = cho_factor(other.covariance, lower=True)
        distance = other.mean - self.mean
        ratio = cho_solve(factor, self.covariance)
        _, log_ratio = np.linalg.slogdet(ratio)
        quadratic = distance @ cho_solve(factor, distance)
        return float(0.5 * (np.trace(ratio) - len(distance) - log_ratio + quadratic))


@dataclass(repr=False, eq=False)
class LinearEP(ShowsParameters):
    """Expectation propagation in a linear model: z = X w with w ~ N(0, I), and for each row a
    factor between z and what was observed.

    Parameters
    ----------
    operator : MessageOperator
        Answers with normal beliefs about z. The last two columns of its messages are mean and
        variance of the message from z; the others are the observed messages.
    n_iter : int, default=10
        Number of sweeps over the rows.
    damping : float, default=0.0
        How much of its old natural parameters a site keeps in each update; in [0, 1).
    schedule : {"parallel", "serial"}, default="parallel"
        "parallel": all sites are updated from the same posterior, and the operator answers for
        all at once. "serial": the posterior is updated after each site. Sites with rows that are
        alike overshoot together: a parallel sweep that would move a weight further than the sweep
        before it, and by more than three standard deviations, is shortened.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the operator answers for another variable than the last.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import LinearEP, LogisticFactor, QuadratureOracle
    >>> X = np.array([[1.0], [2.0], [-1.0]])
    >>> heads, tails = [2.0, 1.0], [1.0, 2.0]
    >>> posterior = LinearEP(QuadratureOracle(LogisticFactor(), 1)).run(
    ...     X, [heads, heads, tails]
    ... )
    >>> posterior.mean.round(3), posterior.covariance.round(3)
    (array([0.977]), array([[0.545]]))
    """

    operator: MessageOperator
    _: KW_ONLY
    n_iter: int = 10
    damping: float = 0.0
    schedule: str = "parallel"

    def __post_init__(self) -> None:
        check_option("schedule", self.schedule, _SCHEDULES)
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(f"damping must be at least 0 and below 1, got {self.damping!r}.")
        if self.n_iter < 1:
            raise ValueError(f"n_iter must be at least 1, got {self.n_iter!r}.")
        layout = self.operator.layout
        # z = X w is the last variable of the factor, and all that is said of it is normal.
        if layout.target != len(layout.distributions) - 1 or layout.family is not Normal:
            raise ValueError(
                "operator must answer for the last variable of its factor, with a normal message; "
                f"found target {layout.target} of {layout.distributions}."
            )

    def run(self, X: ArrayLike, observed: ArrayLike) -> WeightPosterior:
        """Approximate the posterior of the weights.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        observed : array-like of shape (n_rows, n_columns)
            For each row, the parameters of the messages that come into its factor from all
            variables but z.

        Returns
        -------
        WeightPosterior

        Raises
        ------
        ValueError
            If a cell is missing, infinite or beyond 1e70, the numbers of rows differ, or an
            observed message is improper.

        Warns
        -----
        ConvergenceWarning
            If the last sweep has moved a weight by more than its standard deviation.
        """
        # In standard deviations of a weight: what the last sweep may move its mean by, and what
        # each parallel sweep may, however short the one before was.
        settled = 1.0
        rows = check_array(unmasked(X), dtype=np.float64, order="C", input_name="X")
        messages = check_array(unmasked(observed), dtype=np.float64, input_name="observed")
        check_consistent_length(rows, messages)
        check_magnitude(rows, limit=LARGEST_FEATURE)
        state = _State(rows)
        sweep = self._parallel_sweep if self.schedule == "parallel" else self._serial_sweep
        for _ in range(self.n_iter):
            # Updates are made in place, so that the mean of before must be a copy.
            before = state.mean.copy()
            sweep(state, messages)
            # Afresh from the sites, so that the rounding of single updates does not add up.
            state.mean, state.covariance = _posterior(rows, state.sites)
            state.moved = _distance(before, state.mean, state.covariance)
        # Only the last sweep tells: earlier ones move far by design.
        if state.moved > settled:
            warn(
                f"Expectation propagation has not converged: the last of {self.n_iter} sweeps "
                f"moved a weight by {state.moved:.2g} standard deviations. Centre and scale the "
                "columns, raise n_iter, or use schedule='serial'.",
                ConvergenceWarning,
            )
        sites = Normal.from_natural(state.sites)
        return WeightPosterior(state.mean, state.covariance, sites, state.n_skipped)

    def _parallel_sweep(self, state: _State, observed: Floats) -> None:
        free = 3.0
        # Mean and variance of each product x w, without the (n_rows, n_rows) matrix of all of them.
        mean = state.rows @ state.mean
        variance = ((state.rows @ state.covariance) * state.rows).sum(axis=1)
        step, known = self._steps(mean, variance, state.sites, observed)
        # A site that is not updated keeps what it said before.
        state.n_skipped += int((~known).sum())
        # Sites of negative precision can be too much together, if not one by one, and sites with
        # rows that are alike overshoot, as each makes up for the same error.
        farthest = max(free, state.moved)
        while not (
            _is_proper(state.rows, state.sites + step)
            and _distance(state.mean, *_posterior(state.rows, state.sites + step)) <= farthest
        ):
            step *= 0.5
        state.sites = state.sites + step

    def _serial_sweep(self, state: _State, observed: Floats) -> None:
        for row in range(len(state.rows)):
            x = state.rows[row]
            # A slice keeps the row an array of shape (1, n) for the operator.
            single = slice(row, row + 1)
            cross_covariance = state.covariance @ x
            mean = x @ state.mean
            variance = x @ cross_covariance
            (step,), known = self._steps(mean, variance, state.sites[single], observed[single])
            shift, precision = step
            # The new site divides the variance along its row by this.
            scale = 1.0 + precision * variance
            if not known[0] or scale * (x @ x) < _LEAST_PRECISION * variance:
                state.n_skipped += 1
                continue
            state.sites[row] += step
            # Rank-one update of the inverse (Sherman and Morrison), which costs no factorisation.
            state.covariance -= np.outer(precision / scale * cross_covariance, cross_covariance)
            state.mean += (shift - precision * mean) / scale * cross_covariance

    def _steps(
        self, mean: Floats, variance: Floats, sites: Floats, observed: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Steps of the natural parameters of sites, and which of them are any good."""
        # The posterior of z without what the site says: what the factor hears from all others.
        cavity = Normal(mean, variance) / Normal.from_natural(sites)
        known = cavity.is_proper
        step = np.zeros_like(sites)
        if known.any():
            # Operators answer for proper messages alone: the others are left out.
            cavity = cavity[known]
            belief = self.operator.project(np.hstack([observed[known], cavity.parameters]))
            # The site is what the belief says beyond the cavity; damping goes a part of the way.
            answer = (1.0 - self.damping) * ((belief / cavity).natural - sites[known])
            proper = belief.is_proper
            # Marks of the proper beliefs go to the places of the known cavities.
            known[known] = proper
            step[known] = answer[proper]
        return step, known


class _State:
    """Where a run stands: sites (natural parameters) and the posterior that they make."""

    def __init__(self, rows: Floats):
        n_rows, n_features = rows.shape
        self.rows = rows
        # Sites that say nothing: the posterior is the prior, N(0, I).
        self.sites = np.zeros((n_rows, 2))
        self.mean = np.zeros(n_features)
        self.covariance = np.eye(n_features)
        self.moved = np.inf
        self.n_skipped = 0


def _precision(rows: Floats, sites: Floats) -> Floats:
    return np.eye(rows.shape[1]) + rows.T @ (sites[:, 1:] * rows)


def _is_proper(rows: Floats, sites: Floats) -> bool:
    # The least eigenvalue: precision in the direction that is known least.
    return bool(np.linalg.eigvalsh(_precision(rows, sites))[0] > _LEAST_PRECISION)


def _posterior(rows: Floats, sites: Floats) -> tuple[Floats, Floats]:
    factor = cho_factor(_precision(rows, sites), lower=True)
    # Shifts of the sites add up along their rows; the prior has none.
    mean = cho_solve(factor, rows.T @ sites[:, 0])
    return mean, cho_solve(factor, np.eye(len(mean)))


def _distance(before: Floats, mean: Floats, covariance: Floats) -> float:
    """How far the weights have moved, in standard deviations, at most."""
    return float((np.abs(mean - before) / np.sqrt(np.diag(covariance))).max())


class LogisticEP(LinearEP):
    """Binary logistic regression by expectation propagation (fig. 2): w ~ N(0, I), and the label of
    a row is 1 with probability 1 / (1 + exp(-z)), z = x w.

    Parameters
    ----------
    operator : MessageOperator
        Answers with beliefs about z at the logistic factor: messages are alpha, beta, mean and
        variance. An oracle, a `LearnedOperator` or a `JustInTimeOperator`.
    n_iter : int, default=10
        Number of sweeps over the rows.
    damping : float, default=0.0
        How much of its old natural parameters a site keeps in each update; in [0, 1).
    schedule : {"parallel", "serial"}, default="parallel"
        See `LinearEP`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import LogisticEP, LogisticFactor, QuadratureOracle
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = rng.random(500) < 1 / (1 + np.exp(-X @ [2.0, -1.0]))
    >>> posterior = LogisticEP(QuadratureOracle(LogisticFactor(), 1)).run(X, y)
    >>> posterior.mean.round(1)
    array([ 1.7, -1.1])
    """

    def run(self, X: ArrayLike, y: ArrayLike) -> WeightPosterior:
        """Approximate the posterior of the weights.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels 0 and 1.

        Returns
        -------
        WeightPosterior

        Raises
        ------
        ValueError
            If a cell is missing or infinite, the numbers of rows differ, or there are other labels.
        """
        labels = np.asarray(y, dtype=np.float64)
        is_no_label = ~np.isin(labels, (0.0, 1.0))
        if is_no_label.any():
            row = int(is_no_label.argmax())
            raise ValueError(f"y must hold labels 0 and 1; found {labels[row]:g} in row {row}.")
        # A label is the message Beta(2, 1) or Beta(1, 2) from p: its likelihood as a function of p.
        return super().run(X, np.column_stack([1.0 + labels, 2.0 - labels]))


def precision_posterior(x: ArrayLike, operator: MessageOperator) -> Gamma:
    """Posterior of the precision tau of normal observations with mean zero, given a factor on tau.

    Parameters
    ----------
    x : array-like of shape (n_observations,)
        At least one of them not zero.
    operator : MessageOperator
        Answers with gamma beliefs about tau at its prior factor; messages are shape and rate.

    Returns
    -------
    Gamma
        The belief; improper where the operator has no answer.

    Raises
    ------
    ValueError
        If there are no observations, or all of them are zero.

    Examples
    --------
    >>> from skpc.messages import (
    ...     CompoundGammaFactor,
    ...     QuadratureOracle,
    ...     precision_posterior,
    ... )
    >>> precision_posterior(
    ...     [1.0, -2.0, 0.5], QuadratureOracle(CompoundGammaFactor(), 0)
    ... )
    Gamma(shape=2.18..., rate=3.23...)
    """
    values = np.asarray(x, dtype=np.float64)
    rate = 0.5 * float(values @ values)
    if not rate > 0.0:
        raise ValueError(
            f"x needs at least one observation that is not zero; found {values.tolist()[:5]}."
        )
    # The likelihood of tau is a gamma message: a shape of 1 + n / 2 with this rate.
    belief = operator.project(np.array([[1.0 + 0.5 * len(values), rate]]))
    return Gamma.from_natural(belief.natural[0])
