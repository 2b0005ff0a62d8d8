"""Message families: normal, beta and gamma distributions as values, proper or not."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, digamma, gammaln, polygamma, xlog1py, xlogy

from skpc._arrays import Floats

#: Stands for zero in logarithms.
_TINY = 1e-300
#: Improper messages have moments that are infinite or NaN, which is no news.
_silent = partial(np.errstate, divide="ignore", invalid="ignore")


def _in_two(pair: Floats) -> Floats:
    """What stands in the last axis of an array of shape (..., 2), shape (2, ...)."""
    return np.moveaxis(pair, -1, 0)


class Message(ABC):
    """One message, or an array of messages, of an exponential family with two parameters.

    The density is proportional to exp(natural . statistics(x)). Products and ratios of messages
    are sums and differences of natural parameters, and may be improper (a normal with negative
    precision, say): that is a value like any other. Moments and divergences of improper messages
    mean nothing.

    Attributes
    ----------
    natural : ndarray of shape (..., 2)
        Natural parameters.

    Examples
    --------
    >>> from skpc.messages import Gamma, Message
    >>> isinstance(Gamma(2.0, 1.0), Message)
    True
    """

    #: The name that `input_distributions` has for the family.
    name: ClassVar[str]
    #: Names of the two usual parameters, which are the two columns of a table of messages.
    parameter_names: ClassVar[tuple[str, str]]

    #: What usual parameters are greater by than natural ones.
    _shift: ClassVar[tuple[float, float]]
    #: What the natural parameters of proper messages are greater than.
    _bound: ClassVar[tuple[float, float]]

    natural: Floats

    def __init__(self, first: ArrayLike, second: ArrayLike):
        # Both parameters take their common shape, (...), and then stand in a last axis.
        pair = np.broadcast_arrays(np.asarray(first, float), np.asarray(second, float))
        self.natural = self._to_natural(np.stack(pair, axis=-1))

    @classmethod
    def from_natural(cls, natural: ArrayLike) -> Self:
        """Messages with these natural parameters, an array of shape (..., 2)."""
        # Not by __init__, which takes the usual parameters.
        message = cls.__new__(cls)
        message.natural = np.asarray(natural, dtype=np.float64)
        return message

    @classmethod
    def from_parameters(cls, parameters: ArrayLike) -> Self:
        """Messages with these usual parameters, an array of shape (..., 2)."""
        return cls.from_natural(cls._to_natural(np.asarray(parameters, dtype=np.float64)))

    @classmethod
    @abstractmethod
    def from_moments(cls, mean: ArrayLike, variance: ArrayLike) -> Self:
        """Messages with these moments, arrays of shape (...).

        They are improper where the family has no distribution with these moments.

        Examples
        --------
        >>> from skpc.messages import Gamma
        >>> Gamma.from_moments(2.0, 1.0)
        Gamma(shape=4.0, rate=2.0)
        """

    @classmethod
    @abstractmethod
    def from_mean_parameters(cls, statistics: ArrayLike) -> Self:
        """Messages with these expected sufficient statistics, the inverse of `mean_parameters`.

        They have the least divergence of all messages of the family from a distribution with
        these expectations of what `statistics` gives, an array of shape (..., 2), and are improper
        where the family has no distribution with them.

        Examples
        --------
        >>> from skpc.messages import Gamma
        >>> Gamma.from_mean_parameters(
        ...     Gamma(4.0, 2.0).mean_parameters
        ... ).parameters.round(6)
        array([4., 2.])
        """

    @classmethod
    @abstractmethod
    def statistics(cls, x: ArrayLike) -> Floats:
        """Sufficient statistics, shape (..., 2), of values of shape (...).

        Examples
        --------
        >>> from skpc.messages import Gamma
        >>> Gamma.statistics([1.0])
        array([[ 0., -1.]])
        """

    @classmethod
    def _to_natural(cls, parameters: Floats) -> Floats:
        return parameters - np.array(cls._shift)

    @property
    def parameters(self) -> Floats:
        """Usual parameters, shape (..., 2), in the order of `parameter_names`."""
        return self.natural + np.array(self._shift)

    @property
    def is_proper(self) -> NDArray[np.bool_]:
        """Whether the density can be normalised, shape (...); False where a parameter is NaN."""
        # A comparison with NaN is false, so that NaN is never proper.
        inside = (self.natural > np.array(self._bound)) & np.isfinite(self.natural)
        return inside[..., 0] & inside[..., 1]

    @property
    def mean(self) -> Floats:
        """Means, shape (...)."""
        return self._moments()[0]

    @property
    def variance(self) -> Floats:
        """Variances, shape (...)."""
        return self._moments()[1]

    @property
    @abstractmethod
    def mean_parameters(self) -> Floats:
        """Expected sufficient statistics, shape (..., 2)."""

    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]: ...

    @abstractmethod
    def _log_partition(self) -> Floats: ...

    @abstractmethod
    def log_density(self, x: ArrayLike) -> Floats:
        """Log density of proper messages.

        Parameters
        ----------
        x : array-like
            Values; they broadcast with the messages.

        Returns
        -------
        ndarray
            In nats.

        Examples
        --------
        >>> from skpc.messages import Normal
        >>> Normal(0.0, 1.0).log_density([0.0, 1.0]).round(3)
        array([-0.919, -1.419])
        """

    @abstractmethod
    def sample(self, n_samples: int, random_state: np.random.RandomState) -> Floats:
        """Draw from one proper message.

        Parameters
        ----------
        n_samples : int
            Number of draws.
        random_state : RandomState instance
            Draws.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from skpc.messages import Beta
        >>> Beta(2.0, 2.0).sample(3, np.random.RandomState(0)).round(2)
        array([0.7 , 0.89, 0.41])
        """

    def __mul__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        # Densities are multiplied by adding natural parameters.
        return self.from_natural(self.natural + other.natural)

    def __truediv__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return self.from_natural(self.natural - other.natural)

    def __getitem__(self, index: Any) -> Self:
        return self.from_natural(self.natural[index])

    def __len__(self) -> int:
        return len(self.natural[..., 0])

    def __repr__(self) -> str:
        values = zip(self.parameter_names, _in_two(self.parameters))
        return f"{type(self).__name__}({', '.join(f'{k}={v.tolist()}' for k, v in values)})"

    def kl(self, other: Self) -> Floats:
        """Kullback-Leibler divergence KL(self || other) between proper messages of a family.

        Returns
        -------
        ndarray of shape (...)
            In nats.

        Examples
        --------
        >>> from skpc.messages import Normal
        >>> Normal(0.0, 1.0).kl(Normal(1.0, 1.0))
        array(0.5)
        """
        # The divergence of an exponential family by its natural and mean parameters.
        step = ((self.natural - other.natural) * self.mean_parameters).sum(axis=-1)
        return np.asarray(step - self._log_partition() + other._log_partition())


class Normal(Message):
    """Normal messages by mean and variance; natural parameters mean / variance and 1 / variance.

    Parameters
    ----------
    mean, variance : float or array-like
        A negative variance makes an improper message.

    Examples
    --------
    >>> from skpc.messages import Normal
    >>> Normal(0.0, 1.0) * Normal(2.0, 1.0)
    Normal(mean=1.0, variance=0.5)
    >>> bool((Normal(0.0, 1.0) / Normal(0.0, 0.5)).is_proper)
    False
    """

    name = "normal"
    parameter_names = ("mean", "variance")
    _bound = (-np.inf, 0.0)

    @classmethod
    def _to_natural(cls, parameters: Floats) -> Floats:
        mean, variance = _in_two(parameters)
        # Improper messages have no variance; they are passed on and judged by is_proper.
        with _silent():
            return np.stack([mean / variance, 1.0 / variance], axis=-1)

    @classmethod
    def from_moments(cls, mean: ArrayLike, variance: ArrayLike) -> Self:
        """See :meth:`Message.from_moments`."""
        return cls(mean, variance)

    @classmethod
    def from_mean_parameters(cls, statistics: ArrayLike) -> Self:
        """See :meth:`Message.from_mean_parameters`."""
        # The statistics are x and -x^2 / 2, whose means give the variance.
        mean, half_square = _in_two(np.asarray(statistics, float))
        return cls(mean, -2.0 * half_square - mean * mean)

    @classmethod
    def statistics(cls, x: ArrayLike) -> Floats:
        """See :meth:`Message.statistics`."""
        x = np.asarray(x, float)
        return np.stack([x, -0.5 * x * x], axis=-1)

    @property
    def parameters(self) -> Floats:
        return np.stack(self._moments(), axis=-1)

    def _moments(self) -> tuple[Floats, Floats]:
        # A precision of zero is a flat message, which has no moments.
        shift, precision = _in_two(self.natural)
        with _silent():
            return shift / precision, 1.0 / precision

    @property
    def mean_parameters(self) -> Floats:
        mean, variance = self._moments()
        return np.stack([mean, -0.5 * (mean * mean + variance)], axis=-1)

    def _log_partition(self) -> Floats:
        shift, precision = _in_two(self.natural)
        return 0.5 * (shift * shift / precision + np.log(2.0 * np.pi / precision))

    def log_density(self, x: ArrayLike) -> Floats:
        """See :meth:`Message.log_density`."""
        distance = np.asarray(x, float) - self.mean
        precision = self.natural[..., 1]
        return 0.5 * (np.log(precision / (2.0 * np.pi)) - precision * distance**2)

    def sample(self, n_samples: int, random_state: np.random.RandomState) -> Floats:
        """See :meth:`Message.sample`."""
        return random_state.normal(float(self.mean), float(np.sqrt(self.variance)), n_samples)

    def kl(self, other: Self) -> Floats:
        """See :meth:`Message.kl`."""
        # The general formula loses small divergences, which normal messages are compared by, in
        # the rounding of its large terms.
        _, precision = _in_two(other.natural)
        excess = self.variance * precision - 1.0
        distance = self.mean - other.mean
        with _silent():
            return np.asarray(0.5 * (excess - np.log1p(excess) + distance * distance * precision))


class Beta(Message):
    """Beta messages; natural parameters alpha - 1 and beta - 1.

    Parameters
    ----------
    alpha, beta : float or array-like

    Examples
    --------
    >>> from skpc.messages import Beta
    >>> Beta(2.0, 1.0) * Beta(1.0, 3.0)
    Beta(alpha=2.0, beta=3.0)
    """

    name = "beta"
    parameter_names = ("alpha", "beta")
    _shift = (1.0, 1.0)
    _bound = (-1.0, -1.0)

    @classmethod
    def from_moments(cls, mean: ArrayLike, variance: ArrayLike) -> Self:
        """See :meth:`Message.from_moments`."""
        mean = np.asarray(mean, float)
        variance = np.asarray(variance, float)
        with _silent():
            # alpha + beta, from the formula of the variance.
            total = mean * (1.0 - mean) / variance - 1.0
            return cls(mean * total, (1.0 - mean) * total)

    @classmethod
    def from_mean_parameters(cls, statistics: ArrayLike) -> Self:
        """See :meth:`Message.from_mean_parameters`."""
        return cls.from_parameters(_solve_beta(np.asarray(statistics, float)))

    @classmethod
    def statistics(cls, x: ArrayLike) -> Floats:
        """See :meth:`Message.statistics`."""
        # A value next to one has been rounded to it.
        values = np.clip(np.asarray(x, float), _TINY, 1.0 - 2.0**-53)
        return np.stack([np.log(values), np.log1p(-values)], axis=-1)

    def _moments(self) -> tuple[Floats, Floats]:
        # (..., 2) with the parameters in the last axis becomes two arrays of shape (...).
        alpha, beta = _in_two(self.parameters)
        total = alpha + beta
        mean = alpha / total
        # Quotients first, so that no product of large parameters overflows.
        return mean, mean * (beta / total) / (total + 1.0)

    @property
    def mean_parameters(self) -> Floats:
        parameters = self.parameters
        # Means of log(x) and log(1 - x).
        return digamma(parameters) - digamma(parameters.sum(axis=-1, keepdims=True))

    def _log_partition(self) -> Floats:
        return betaln(*_in_two(self.parameters))

    def log_density(self, x: ArrayLike) -> Floats:
        """See :meth:`Message.log_density`."""
        x = np.asarray(x, float)
        # xlogy takes 0 log(0) as zero: a power of zero is one, also at the ends of the interval.
        power, power_of_rest = _in_two(self.natural)
        unnormalised = xlogy(power, x) + xlog1py(power_of_rest, -x)
        return unnormalised - self._log_partition()

    def sample(self, n_samples: int, random_state: np.random.RandomState) -> Floats:
        """See :meth:`Message.sample`."""
        alpha, beta = self.parameters
        return random_state.beta(alpha, beta, n_samples)


class Gamma(Message):
    """Gamma messages by shape and rate; natural parameters shape - 1 and rate.

    Parameters
    ----------
    shape, rate : float or array-like

    Examples
    --------
    >>> from skpc.messages import Gamma
    >>> Gamma(3.0, 2.0) / Gamma(1.0, 0.5)
    Gamma(shape=3.0, rate=1.5)
    """

    name = "gamma"
    parameter_names = ("shape", "rate")
    _shift = (1.0, 0.0)
    _bound = (-1.0, 0.0)

    @classmethod
    def from_moments(cls, mean: ArrayLike, variance: ArrayLike) -> Self:
        """See :meth:`Message.from_moments`."""
        mean = np.asarray(mean, float)
        variance = np.asarray(variance, float)
        with _silent():
            rate = mean / variance
            return cls(mean * rate, rate)

    @classmethod
    def from_mean_parameters(cls, statistics: ArrayLike) -> Self:
        """See :meth:`Message.from_mean_parameters`."""
        # The statistics are log(x) and -x.
        mean_log, negative = _in_two(np.asarray(statistics, float))
        with _silent():
            # Log of the mean less mean log depends on the shape alone.
            shape = _solve_gamma_shape(np.log(-negative) - mean_log)
            return cls(shape, -shape / negative)

    @classmethod
    def statistics(cls, x: ArrayLike) -> Floats:
        """See :meth:`Message.statistics`."""
        values = np.asarray(x, float)
        return np.stack([np.log(np.maximum(values, _TINY)), -values], axis=-1)

    def _moments(self) -> tuple[Floats, Floats]:
        shape, rate = _in_two(self.parameters)
        mean = shape / rate
        # The rate is applied twice, so that its square cannot overflow.
        return mean, mean / rate

    @property
    def mean_parameters(self) -> Floats:
        shape, rate = _in_two(self.parameters)
        return np.stack([digamma(shape) - np.log(rate), -shape / rate], axis=-1)

    def _log_partition(self) -> Floats:
        shape, rate = _in_two(self.parameters)
        return gammaln(shape) - shape * np.log(rate)

    def log_density(self, x: ArrayLike) -> Floats:
        """See :meth:`Message.log_density`."""
        x = np.asarray(x, float)
        power, rate = _in_two(self.natural)
        unnormalised = xlogy(power, x) - rate * x
        return unnormalised - self._log_partition()

    def sample(self, n_samples: int, random_state: np.random.RandomState) -> Floats:
        """See :meth:`Message.sample`."""
        shape, rate = self.parameters
        return random_state.gamma(shape, 1.0 / rate, n_samples)


#: The families by the names that `input_distributions` has for them.
FAMILIES: dict[str, type[Message]] = {family.name: family for family in (Normal, Beta, Gamma)}


def _newton(log_parameters: Floats, step_from: Callable[[Floats], Floats]) -> Floats:
    """Parameters at which the steps that Newton's method takes on their logarithms vanish."""
    # Newton steps on the logarithms of parameters, and the greatest length of a step.
    steps = 100
    longest = 1.0
    close = 1e-13
    # Logarithms keep parameters positive, whatever the step.
    for _ in range(steps):
        step = step_from(np.exp(log_parameters))
        # A full step from far away would overshoot.
        log_parameters = log_parameters - np.clip(step, -longest, longest)
        # NaN is not above the bound, so that impossible messages do not hold up the others.
        if not np.any(np.abs(step) > close):
            break
    return np.exp(log_parameters)


def _solve_gamma_shape(excess: Floats) -> Floats:
    """Shapes whose log less digamma is this positive number: log of the mean less mean log."""

    def step_from(shape: Floats) -> Floats:
        # A Newton step for log(shape): the slope has the factor shape.
        return (np.log(shape) - digamma(shape) - excess) / (1.0 - shape * polygamma(1, shape))

    with _silent():
        # Right at either end of the range, and nowhere off by more than a factor of two.
        start = -np.log(2.0 * excess) + np.log1p(excess / (excess + 3.0))
        return np.where(excess > 0.0, _newton(start, step_from), np.nan)


def _solve_beta(statistics: Floats) -> Floats:
    """Both parameters, shape (..., 2), for given means of log(x) and log(1 - x)."""

    def step_from(pair: Floats) -> Floats:
        # (..., 1), to be met with the pair, (..., 2).
        total = pair.sum(axis=-1, keepdims=True)
        error = digamma(pair) - digamma(total) - statistics
        slope = polygamma(1, pair)
        shared = polygamma(1, total)
        # The inverse of a diagonal matrix less a constant.
        scaled = error / slope
        common = shared / (1.0 - shared * (1.0 / slope).sum(axis=-1, keepdims=True))
        return (scaled + common * scaled.sum(axis=-1, keepdims=True) / slope) / pair

    with _silent(over="ignore"):
        # By Jensen's inequality no beta distribution has other means of logarithms.
        possible = np.exp(statistics).sum(axis=-1, keepdims=True) < 1.0
        return np.where(possible, _newton(np.zeros_like(statistics), step_from), np.nan)
