"""Oracles: from factors of known density, or simulators, to the belief of a variable."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit
from sklearn.utils import check_random_state

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._threads import slices
from skpc._validation import check_option
from skpc.messages.families import Message
from skpc.messages.tables import MessageLayout, message_moments

#: How far below its peak (nats) a density is negligible: exp(-40) is 4e-18.
_DEPTH = 40.0
#: Stands for a power of zero.
_SMALL = 1e-10
_BLOCK = 256
_PROJECTIONS = ("moments", "kl")


class Factor(Protocol):
    """What quadrature has to know of a factor, integrated along one coordinate u.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import LogisticFactor
    >>> factor, rows = LogisticFactor(), np.array([[2.0, 1.0, 0.0, 4.0]])
    >>> left, right = factor.panels(rows)
    >>> u = np.linspace(left[0, 0], right[0, 1], 10_001)[np.newaxis]
    >>> weight = np.exp(factor.log_density(u, rows))
    >>> round(float((weight * factor.value(u, 1)).sum() / weight.sum()), 3)
    1.211
    """

    @property
    def distributions(self) -> tuple[str, ...]:
        """Families of the incoming messages, in the order of the columns."""

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Both ends of intervals of u, shapes (n_rows, n_panels).

        The product of factor and messages is smooth in each interval, and negligible outside them.
        """

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """Log of the product of factor and messages as a density of u, up to a constant for each
        row; shape (n_rows, n_points) as `u`."""

    def value(self, u: Floats, variable: int) -> Floats:
        """The value of a variable at u."""


class LogisticFactor(NamedTuple):
    """The factor delta(p - 1 / (1 + exp(-z))) with a beta message from p and a normal one from z.

    Variable 0 is p, variable 1 is z, and z is the coordinate.

    Examples
    --------
    >>> from skpc.messages import LogisticFactor, QuadratureOracle
    >>> oracle = QuadratureOracle(LogisticFactor(), target=1)
    >>> oracle.project([[2.0, 1.0, 0.0, 4.0]]).parameters.round(3)
    array([[1.211, 2.532]])
    """

    distributions: tuple[str, ...] = ("beta", "normal")

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Below zero the beta message is about exp((alpha - 1) z) and above it about
        exp(-(beta - 1) z), within a constant factor: the product is near a normal density on
        either side."""
        alpha, beta, mean, variance = rows.T[..., np.newaxis]
        # A normal density times exp(a z) is another one, with this constant before it.
        centre = mean + np.hstack([alpha - 1.0, 1.0 - beta]) * variance
        # Logarithm of that constant, in a form that keeps its digits for small variances.
        height = 0.5 * ((centre - mean) / variance) * (centre + mean)
        # Two panels: below zero and above it, (n_rows, 2) as all arrays here.
        least = [-np.inf, 0.0]
        greatest = [0.0, np.inf]
        # How far the peak falls where the panel cuts the normal density off.
        fall = 0.5 * ((np.clip(centre, least, greatest) - centre) / np.sqrt(variance)) ** 2
        # The higher of the two peaks is that of the whole density, to which both compare.
        peak = (height - fall).max(axis=1, keepdims=True)
        # Where the density has fallen by the depth; a panel far below the peak is empty.
        radius = np.sqrt(2.0 * variance) * np.sqrt(np.maximum(height - peak + _DEPTH, 0.0))
        return np.clip(centre - radius, least, greatest), np.clip(centre + radius, least, greatest)

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """See ``Factor``, which has an example."""
        alpha, beta, mean, variance = rows.T[..., np.newaxis]
        normal = -0.5 * (u - mean) ** 2 / variance
        # log(1 - p) is log(p) - z.
        return normal + (alpha + beta - 2.0) * log_expit(u) - (beta - 1.0) * u

    def value(self, u: Floats, variable: int) -> Floats:
        """See ``Factor``, which has an example."""
        return expit(u) if variable == 0 else u


def _gamma_interval(power: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """Where tau^power exp(-rate tau), as a function of log(tau), is not negligible."""
    mode = np.log(power / rate)
    # A normal density of the same curvature has fallen by the depth at this distance.
    sd = np.sqrt(2.0 * _DEPTH / power)
    # There are two bounds on the right; the first is the better one for large powers.
    right = np.minimum(mode + sd, np.log(2.0 * (power + _DEPTH) / rate))
    return mode - sd - _DEPTH / power, right


@dataclass(frozen=True)
class CompoundGammaFactor:
    """The compound gamma factor of a precision tau, with a gamma message from tau.

    tau is gamma with shape `s2` and rate r2, and r2 is gamma with shape `s1` and rate `r1`; r2 is
    integrated out, which leaves tau^(s2 - 1) (tau + r1)^-(s1 + s2). The coordinate is log(tau).

    Parameters
    ----------
    s1, r1, s2 : float, default=1.0
        Positive.
    distributions : tuple of str, default=("gamma",)
        Families of the incoming messages.

    Raises
    ------
    ValueError
        If one of them is not positive.

    Examples
    --------
    >>> from skpc.messages import CompoundGammaFactor, QuadratureOracle
    >>> oracle = QuadratureOracle(CompoundGammaFactor(), target=0)
    >>> oracle.project([[10.0, 20.0]]).parameters.round(3)
    array([[ 9.795, 20.896]])
    """

    s1: float = 1.0
    r1: float = 1.0
    s2: float = 1.0
    distributions: tuple[str, ...] = ("gamma",)

    def __post_init__(self) -> None:
        if not min(self.s1, self.r1, self.s2) > 0.0:
            raise ValueError(
                f"s1, r1 and s2 must be positive; found {self.s1}, {self.r1} and {self.s2}."
            )

    def panels(self, rows: Floats) -> tuple[Floats, Floats]:
        """Below r1 the product is within a constant factor of a gamma density, and above it of one
        with a smaller shape, which need not be positive."""
        shape, rate = rows.T[..., np.newaxis]
        # A power that is not positive leaves nothing to normalise: the answer is then NaN.
        power = np.where(shape + self.s2 > 1.0, shape + self.s2 - 1.0, np.nan)
        tail = power - self.s1 - self.s2
        # A power of zero or less has no mode: the interval on the right is replaced below.
        left, right = _gamma_interval(np.hstack([power, np.maximum(tail, _SMALL)]), rate)
        # With a negative power the density falls from the bend on, by the rate at least.
        right[:, 1:] = np.where(tail > 0.0, right[:, 1:], np.log(self.r1 + _DEPTH / rate))
        bend = np.log(self.r1)
        least = [-np.inf, bend]
        greatest = [bend, np.inf]
        return np.clip(left, least, greatest), np.clip(right, least, greatest)

    def log_density(self, u: Floats, rows: Floats) -> Floats:
        """See ``Factor``, which has an example."""
        shape, rate = rows.T[..., np.newaxis]
        compound = -(self.s1 + self.s2) * np.logaddexp(u, np.log(self.r1))
        return (shape + self.s2 - 1.0) * u - rate * np.exp(u) + compound

    def value(self, u: Floats, variable: int) -> Floats:
        """See ``Factor``, which has an example."""
        # The coordinate is log(tau), in which both panels have tails that fall fast.
        return np.exp(u)


class MessageOperator(Protocol):
    """What expectation propagation asks of a factor: an oracle, or an operator that has learned.

    Attributes
    ----------
    layout : MessageLayout
        The columns of the incoming messages, and the variable whose belief is given.

    Examples
    --------
    The factor x = z with a normal message from either side needs no oracle:

    >>> from skpc.messages import LinearEP, MessageLayout
    >>> class Identity:
    ...     layout = MessageLayout(("normal", "normal"), target=1)
    ...
    ...     def project(self, messages):
    ...         return self.layout.message(messages, 0) * self.layout.message(
    ...             messages, 1
    ...         )
    >>> LinearEP(Identity()).run([[1.0]], [[3.0, 1.0]]).mean
    array([1.5])
    """

    layout: MessageLayout

    def project(self, messages: ArrayLike) -> Message:
        """Beliefs of the target.

        The belief is the message of the target's family that has the mean and the variance which
        the target has under the product of the factor and all incoming messages, the numerator of
        eq. (1). Divided by the incoming message of the target it is the outgoing message.

        Parameters
        ----------
        messages : array-like of shape (n_rows, n_columns)
            Parameters of the incoming messages.

        Returns
        -------
        Message of n_rows
            Improper where there is no answer.
        """


def check_messages(messages: ArrayLike, layout: MessageLayout) -> Floats:
    """The incoming messages as an array; ValueError where they are not those of the layout."""
    rows = np.atleast_2d(np.asarray(messages, dtype=np.float64))
    message_moments(rows, layout.distributions)
    return rows


@dataclass(repr=False, eq=False)
class QuadratureOracle(ShowsParameters):
    """Beliefs by Gauss-Legendre quadrature along the one coordinate of a factor.

    Parameters
    ----------
    factor : Factor
        Such as `LogisticFactor` or `CompoundGammaFactor`.
    target : int
        Position of the variable whose belief is wanted.
    n_nodes : int, default=100
        Number of nodes in each panel of the coordinate.
    projection : {"moments", "kl"}, default="moments"
        What a belief has in common with the product of factor and messages. "moments": mean and
        variance. "kl": the expected sufficient statistics, which is the projection of least
        divergence, eq. (1). For normals they are the same.

    Raises
    ------
    ValueError
        If the projection does not exist.

    Examples
    --------
    >>> from skpc.messages import LogisticFactor, QuadratureOracle
    >>> QuadratureOracle(LogisticFactor(), target=0).project([[1.0, 1.0, 0.0, 1.0]])
    Beta(alpha=[2.38...], beta=[2.38...])
    >>> oracle = QuadratureOracle(LogisticFactor(), target=0, projection="kl")
    >>> oracle.project([[1.0, 1.0, 0.0, 1.0]])
    Beta(alpha=[2.4...], beta=[2.4...])
    """

    factor: Factor
    target: int
    _: KW_ONLY
    n_nodes: int = 100
    projection: str = "moments"

    def __post_init__(self) -> None:
        check_option("projection", self.projection, _PROJECTIONS)
        self.layout = MessageLayout(self.factor.distributions, self.target)
        # Nodes and weights on [-1, 1], for any panel once shifted and scaled.
        self._nodes, self._weights = leggauss(self.n_nodes)

    def project(self, messages: ArrayLike) -> Message:
        """Beliefs of the target; see `MessageOperator.project`."""
        return _beliefs(self.layout, self._statistics(messages, self.projection), self.projection)

    def moments(self, messages: ArrayLike) -> Floats:
        """Mean and variance of the target under the product of factor and messages.

        Parameters
        ----------
        messages : array-like of shape (n_rows, n_columns)
            Parameters of the incoming messages.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            NaN where the product cannot be normalised.
        """
        return self._statistics(messages, "moments")

    def _statistics(self, messages: ArrayLike, projection: str) -> Floats:
        rows = check_messages(messages, self.layout)
        statistics = np.empty((len(rows), 2))
        for block in slices(len(rows), _BLOCK):
            # NaN is the answer where there is no density to normalise.
            with np.errstate(invalid="ignore"):
                values, weight = self._weighted_values(rows[block])
                statistics[block] = _statistics(self.layout, projection, values, weight)
        return statistics

    def _weighted_values(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values of the target at the nodes, and their weights, which sum to one."""
        left, right = self.factor.panels(rows)
        # (n_rows, n_panels, 1), to be met with the nodes, (n_nodes,).
        half = 0.5 * (right - left)[:, :, np.newaxis]
        u = (left[:, :, np.newaxis] + half * (self._nodes + 1.0)).reshape(len(rows), -1)
        weight = (half * self._weights).reshape(len(rows), -1)
        log_density = self.factor.log_density(u, rows)
        log_density = np.where(weight > 0.0, log_density, -np.inf)  # panels may be empty
        # Relative to the peak of its row, no exponential overflows.
        weight *= np.exp(log_density - log_density.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        return self.factor.value(u, self.layout.target), weight


def _statistics(layout: MessageLayout, projection: str, values: Floats, weight: Floats) -> Floats:
    """What beliefs have in common with rows of values of the target, whose weights sum to one."""
    if projection == "kl":
        statistics = layout.family.statistics(values)
        # weight (..., n) and statistics (..., n, 2) give means of shape (..., 2).
        return (weight[..., np.newaxis] * statistics).sum(axis=-2)
    mean = (weight * values).sum(axis=-1)
    # Around the mean, as the difference of two large moments would lose digits.
    variance = (weight * (values - mean[..., np.newaxis]) ** 2).sum(axis=-1)
    return np.stack([mean, variance], axis=-1)


def _beliefs(layout: MessageLayout, statistics: Floats, projection: str) -> Message:
    if projection == "kl":
        return layout.family.from_mean_parameters(statistics)
    return layout.family.from_moments(statistics[:, 0], statistics[:, 1])


def _check_output(output: Floats, inputs: Floats) -> None:
    n_particles = len(inputs)
    if output.shape != (n_particles,):
        raise ValueError(
            f"factor_sampler must return one number for each of the {n_particles} particles, "
            f"shape ({n_particles},); found shape {output.shape}."
        )
    missing = np.isnan(output)
    if missing.any():
        raise ValueError(
            f"factor_sampler must return one number for each particle; found {missing.sum()} NaN, "
            f"the first for inputs {inputs[missing.argmax()].tolist()}."
        )


@dataclass(repr=False, eq=False)
class ImportanceSamplingOracle(ShowsParameters):
    """Beliefs of a factor that can only be simulated, by importance sampling, eq. (2).

    Inputs are drawn from a proposal, the factor draws the output for each of them, and the
    particles are weighted by the incoming messages.

    Parameters
    ----------
    factor_sampler : callable of (inputs, random_state)
        Draws outputs of the factor, shape (n_particles,), for inputs of shape (n_particles,
        n_inputs). The density of the factor is not needed.
    proposal : sequence of Message
        The distribution from which each input is drawn, one proper message for each. Empty for a
        factor without inputs.
    output : {"normal", "beta", "gamma"}
        Family of the messages of the output. Their columns come first, those of the inputs follow.
    target : int
        The variable whose belief is wanted: 0 for the output, 1 for the first input.
    n_particles : int, default=100_000
        Number of particles of each answer.
    min_effective_size : float, default=100.0
        With a smaller effective sample size, (sum w)^2 / sum w^2, there is no answer.
    projection : {"moments", "kl"}, default="moments"
        What beliefs have in common with the particles; see `QuadratureOracle`.
    random_state : int, RandomState instance or None, default=None
        Seeds the particles. They are drawn anew for each answer.

    Raises
    ------
    ValueError
        If a proposal is not one proper message, there are no particles, or the output, the target
        or the projection do not exist; in ``project``, if the factor does not draw one number for
        each particle.

    Examples
    --------
    >>> from scipy.special import expit
    >>> from skpc.messages import ImportanceSamplingOracle, Normal
    >>> oracle = ImportanceSamplingOracle(
    ...     lambda inputs, random_state: expit(inputs[:, 0]),
    ...     [Normal(0.0, 200.0)], output="beta", target=1, random_state=0,
    ... )
    >>> oracle.project([[2.0, 1.0, 0.0, 4.0]]).parameters.round(1)
    array([[1.2, 2.5]])
    """

    factor_sampler: Callable[[Floats, np.random.RandomState], ArrayLike]
    proposal: Sequence[Message]
    _: KW_ONLY
    output: str
    target: int
    n_particles: int = 100_000
    min_effective_size: float = 100.0
    projection: str = "moments"
    random_state: InitVar[Any] = None

    def __post_init__(self, random_state: Any) -> None:
        check_option("projection", self.projection, _PROJECTIONS)
        self.proposal = tuple(self.proposal)
        for position, each in enumerate(self.proposal):
            if each.natural.shape != (2,) or not each.is_proper:
                raise ValueError(
                    "proposal needs one proper message for each input; found natural parameters "
                    f"{each.natural.tolist()} for input {position}."
                )
        if self.n_particles < 1:
            raise ValueError(f"n_particles must be at least 1, got {self.n_particles!r}.")
        families = (self.output, *(each.name for each in self.proposal))
        self.layout = MessageLayout(families, self.target)
        # One generator for all calls, so that particles of later messages are fresh.
        self._random_state = check_random_state(random_state)

    def project(self, messages: ArrayLike) -> Message:
        """Beliefs of the target; see `MessageOperator.project`."""
        rows = check_messages(messages, self.layout)
        # Each row has particles of its own, which may take much memory: one row at a time.
        statistics = np.array([self._statistics(rows[[row]]) for row in range(len(rows))])
        return _beliefs(self.layout, statistics, self.projection)

    def _statistics(self, row: Floats) -> Floats:
        """What the projection needs; NaN where too few particles carry the weight."""
        n_particles = self.n_particles
        random_state = self._random_state
        inputs = np.empty((n_particles, len(self.proposal)))
        for position, proposal in enumerate(self.proposal):
            inputs[:, position] = proposal.sample(n_particles, random_state)
        output = np.asarray(self.factor_sampler(inputs, random_state), dtype=np.float64)
        _check_output(output, inputs)
        # The first message is that of the output, then come those of the inputs.
        log_weight = self.layout.message(row, 0).log_density(output)
        # Inputs come from proposals: their messages count relative to these.
        for position, proposal in enumerate(self.proposal):
            message = self.layout.message(row, position + 1)
            log_weight += message.log_density(inputs[:, position])
            log_weight -= proposal.log_density(inputs[:, position])
        # Weights relative to the greatest: no exponential overflows, and their scale cancels.
        peak = log_weight.max()
        if not np.isfinite(peak):  # no particle is possible, or one is infinitely probable
            return np.full(2, np.nan)
        weight = np.exp(log_weight - peak)
        total = weight.sum()
        # The effective size, (sum w)^2 / sum w^2, without a division.
        if total**2 < self.min_effective_size * (weight**2).sum():
            return np.full(2, np.nan)
        values = output if self.layout.target == 0 else inputs[:, self.layout.target - 1]
        return _statistics(self.layout, self.projection, values, weight / total)
