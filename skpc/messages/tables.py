"""Tables of incoming messages: their columns, moments and random features (Algorithm 1).

Everywhere below, a beta or gamma message stands for the normal distribution with its mean and
variance, as in the authors' program: expectations then have closed forms. "log-gamma" is the normal
with mean and variance of the logarithm of a gamma variable, for gammas on many scales.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, polygamma

from skpc._arrays import Floats, Ints, offsets
from skpc._threads import in_threads, product, slices
from skpc._validation import describe_column
from skpc.messages.families import FAMILIES, Gamma, Message

_POINT = "point"
_LOG_GAMMA = "log-gamma"
#: Families of the two columns of a message.
_COLUMNS: dict[str, type[Message]] = {**FAMILIES, _LOG_GAMMA: Gamma}


#: Rows whose features are computed at a time.
_BLOCK = 1024
#: Frequencies are reciprocals of length scales, and their squares have to be finite.
_LEAST = 1e-300


class Moments(NamedTuple):
    """Means and variances of the messages of each row, both of shape (n_rows, n_variables).

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import message_moments
    >>> message_moments(np.array([[1.0, 1.0, 7.0]]), ["gamma", "point"])
    Moments(mean=array([[1., 7.]]), variance=array([[1., 0.]]))
    """

    mean: Floats
    variance: Floats

    def take(self, rows: slice | Ints | list[int]) -> Self:
        """The messages of some rows."""
        return type(self)(self.mean[rows], self.variance[rows])


def message_moments(
    rows: Floats, distributions: Sequence[str], names: Sequence[Any] | None = None
) -> Moments:
    """Read a table of messages as means and variances.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        The parameters of the messages, side by side.
    distributions : sequence of {"normal", "beta", "gamma", "log-gamma", "point"}
        The families in the order of the columns: two columns each (mean and variance; alpha and
        beta; shape and rate), one for a point mass. "log-gamma" is a gamma message; its moments
        are those of the logarithm of the variable.
    names : sequence or None, default=None
        Names of the columns, for error messages.

    Returns
    -------
    Moments

    Raises
    ------
    ValueError
        If the family does not exist, the number of columns does not fit, or a parameter is outside
        its family.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import message_moments
    >>> message_moments(np.array([[1.0, 3.0, 5.0]]), ["beta", "point"]).mean
    array([[0.25, 5.  ]])
    """
    _check_families(distributions, (*_COLUMNS, _POINT), "input_distributions may hold")
    # A point mass takes one column, its value; a message takes two.
    first_columns = offsets([1 if family == _POINT else 2 for family in distributions])
    if rows.shape[1] != first_columns[-1]:
        raise ValueError(
            f"input_distributions={tuple(distributions)} needs {first_columns[-1]} columns (two "
            f"for each message, one for a point mass); found {rows.shape[1]}."
        )
    finite = np.isfinite(rows)
    if not finite.all():
        row, cell = np.argwhere(~finite)[0].tolist()
        raise ValueError(
            "X must not contain NaN or infinity: messages cannot be missing; "
            f"found {rows[row, cell]} in {describe_column(cell, names)}, row {row}."
        )
    pairs = [
        (rows[:, column], np.zeros(len(rows)))
        if family == _POINT
        else _moments(family, rows, column, names)
        for family, column in zip(distributions, first_columns.tolist())
    ]
    return Moments(*map(np.column_stack, zip(*pairs)))


def _check_families(families: Sequence[str], allowed: Iterable[str], rule: str) -> None:
    for family in families:
        if family not in allowed:
            raise ValueError(f"{rule} {', '.join(map(repr, allowed))}; found {family!r}.")


def _moments(family: str, rows: Floats, column: int, names: Any) -> tuple[Floats, Floats]:
    messages = _COLUMNS[family].from_parameters(rows[:, column : column + 2])
    _check_proper(messages, rows, column, names)
    # Moments are those of the variable; for log-gamma, those of its logarithm.
    if family != _LOG_GAMMA:
        return messages.mean, messages.variance
    shape, rate = messages.parameters.T
    return digamma(shape) - np.log(rate), polygamma(1, shape)


def _check_proper(messages: Message, rows: Floats, column: int, names: Any) -> None:
    if messages.is_proper.all():
        return
    # argmin finds the first message that is not proper.
    row = int(messages.is_proper.argmin())
    # The mean of a normal may have either sign; all other parameters are positive.
    offset = int(messages.name == "normal" or rows[row, column] > 0.0)
    raise ValueError(
        f"The {messages.parameter_names[offset]} of a {messages.name} message must be positive; "
        f"found {rows[row, column + offset]} in {describe_column(column + offset, names)}, "
        f"row {row}."
    )


@dataclass(frozen=True)
class MessageLayout:
    """The columns of the messages that come into a factor, and which of them is answered.

    Parameters
    ----------
    distributions : tuple of {"normal", "beta", "gamma"}
        Family of the message from each variable, in the order of the columns.
    target : int
        Position of the variable whose belief is answered.

    Raises
    ------
    ValueError
        If the family does not exist, or there is no variable at the position.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import MessageLayout
    >>> layout = MessageLayout(("beta", "normal"), target=1)
    >>> layout.incoming(np.array([[1.0, 2.0, 0.5, 3.0]]))
    Normal(mean=[0.5], variance=[3.0])
    """

    distributions: tuple[str, ...]
    target: int

    def __post_init__(self) -> None:
        _check_families(self.distributions, FAMILIES, "Messages of a factor may be")
        if not 0 <= self.target < len(self.distributions):
            raise ValueError(
                f"target must be the position of one of the {len(self.distributions)} variables "
                f"with messages {self.distributions}, from 0 on; found {self.target!r}."
            )

    @property
    def family(self) -> type[Message]:
        """Family of the messages from and to the target."""
        return FAMILIES[self.distributions[self.target]]

    def message(self, rows: Floats, position: int) -> Message:
        """The messages from the variable at this position."""
        family = FAMILIES[self.distributions[position]]
        # Every message of a layout has two columns.
        return family.from_parameters(rows[:, 2 * position : 2 * position + 2])

    def incoming(self, rows: Floats) -> Message:
        """The messages from the target to the factor."""
        return self.message(rows, self.target)


class MessageFeatures(NamedTuple):
    """Random features whose inner products approximate the kernel on mean embeddings, eq. (7).

    Parameters
    ----------
    frequency : ndarray of shape (n_variables, n_inner)
        Frequencies of the inner kernel, rows of omega in Algorithm 1.
    damping : ndarray of shape (n_variables, n_inner)
        Half of their negative squares: what the variance of a message is multiplied by.
    phase : ndarray of shape (n_inner,)
    outer_frequency : ndarray of shape (n_inner, n_outer)
        Frequencies of the outer kernel (nu), times the scale sqrt(2 / n_inner) of the inner
        features.
    outer_phase : ndarray of shape (n_outer,)

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import MessageFeatures, message_moments
    >>> rows = np.array([[0.0, 1.0], [0.1, 1.0], [5.0, 1.0]])
    >>> moments = message_moments(rows, ["normal"])
    >>> random_state = np.random.RandomState(0)
    >>> features = MessageFeatures.draw(np.ones(1), 0.5, 300, 500, random_state)
    >>> psi = features.transform(moments)
    >>> (psi @ psi.T).round(1)
    array([[1. , 1. , 0.3],
           [1. , 1. , 0.3],
           [0.3, 0.3, 1. ]])
    """

    frequency: Floats
    damping: Floats
    phase: Floats
    outer_frequency: Floats
    outer_phase: Floats

    @classmethod
    def draw(
        cls,
        inner_length_scale_sq: Floats,
        outer_length_scale_sq: float,
        n_inner: int,
        n_outer: int,
        random_state: np.random.RandomState,
    ) -> Self:
        """Draw frequencies and phases.

        Parameters
        ----------
        inner_length_scale_sq : ndarray of shape (n_variables,)
            Squared length scales of the inner kernel, one for each variable.
        outer_length_scale_sq : float
            Squared length scale of the outer kernel.
        n_inner, n_outer : int
            Numbers of features.
        random_state : RandomState instance
            Draws frequencies and phases.

        Returns
        -------
        MessageFeatures
        """
        n_variables = len(inner_length_scale_sq)
        # Frequencies of the Gaussian kernel are normal, scaled by the length of each variable.
        frequency = random_state.normal(size=(n_inner, n_variables)).T
        frequency = frequency / np.sqrt(inner_length_scale_sq)[:, np.newaxis]
        # A random phase makes one cosine enough in place of a pair.
        phase = random_state.uniform(0.0, 2.0 * np.pi, n_inner)
        outer_frequency = random_state.normal(size=(n_outer, n_inner)).T
        # In Fortran order, which is the faster one for a single row.
        scale = math.sqrt(2.0 / (n_inner * outer_length_scale_sq))
        scaled = np.asfortranarray(outer_frequency * scale)
        outer_phase = random_state.uniform(0.0, 2.0 * np.pi, n_outer)
        return cls(frequency, -0.5 * frequency**2, phase, scaled, outer_phase)

    def transform(self, moments: Moments) -> Floats:
        """Features of messages, shape (n_rows, n_outer)."""
        out = np.empty((len(moments.mean), len(self.outer_phase)))

        def fill(block: slice) -> None:
            # A cosine under a normal distribution is damped by its variance.
            inner = np.cos(moments.mean[block] @ self.frequency + self.phase)
            inner *= np.exp(moments.variance[block] @ self.damping)
            # (n_block, n_inner) times (n_inner, n_outer).
            np.cos(product(inner, self.outer_frequency) + self.outer_phase, out=out[block])

        in_threads(fill, slices(len(out), _BLOCK))
        # Inner products become averages, and the kernel of a point with itself is about 1.
        out *= math.sqrt(2.0 / out.shape[1])
        return out


class CholeskyFeatures(NamedTuple):
    """Features whose inner products are an incomplete Cholesky factorisation of an exact kernel.

    Appendix C compares random features with them. They are not random: the kernel between two rows
    comes out exact if one of them is a pivot, and too small otherwise.

    Parameters
    ----------
    kernel : callable of (a, b)
        Takes Moments of ``n_a`` and of ``n_b`` rows; gives the kernel, shape (n_a, n_b).
    pivots : Moments
        The rows that span the features.
    triangle : ndarray of shape (n_features, n_features)
        The lower Cholesky factor of the kernel between the pivots.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from skpc.messages import (
    ...     CholeskyFeatures,
    ...     embedding_kernel,
    ...     message_moments,
    ... )
    >>> rows = np.array([[0.0, 1.0], [0.1, 1.0], [5.0, 1.0]])
    >>> moments = message_moments(rows, ["normal"])
    >>> scales = {"inner_length_scale_sq": np.ones(1), "outer_length_scale_sq": 0.5}
    >>> kernel = partial(embedding_kernel, **scales)
    >>> psi = CholeskyFeatures.choose(kernel, moments, 2).transform(moments)
    >>> (psi @ psi.T).round(1)
    array([[1. , 1. , 0.3],
           [1. , 1. , 0.3],
           [0.3, 0.3, 1. ]])
    """

    kernel: Callable[[Moments, Moments], Floats]
    pivots: Moments
    triangle: Floats

    @classmethod
    def choose(
        cls, kernel: Callable[[Moments, Moments], Floats], moments: Moments, n_features: int
    ) -> Self:
        """Choose pivots, each where the ones before it explain least of the kernel.

        Parameters
        ----------
        kernel : callable of (a, b)
            See the class.
        moments : Moments
            Messages of ``n_rows``, of which some become pivots.
        n_features : int
            Number of pivots. There are fewer where these explain all but rounding.

        Returns
        -------
        CholeskyFeatures
        """
        rows = [moments.take([row]) for row in range(len(moments.mean))]
        # (n_rows,): what is left of the diagonal of the kernel.
        residual = np.array([kernel(row, row).item() for row in rows])
        rounding = len(rows) * np.finfo(np.float64).eps * residual.max()
        factor = np.empty((n_features, len(rows)))
        pivots: list[int] = []
        while len(pivots) < n_features and residual.max() > rounding:
            pivot = int(residual.argmax())
            known = factor[: len(pivots)]
            column = kernel(rows[pivot], moments)[0] - known[:, pivot] @ known
            factor[len(pivots)] = column / math.sqrt(residual[pivot])
            residual -= factor[len(pivots)] ** 2
            pivots.append(pivot)
        return cls(kernel, moments.take(pivots), factor[: len(pivots), pivots].T)

    def transform(self, moments: Moments) -> Floats:
        """Features of messages, shape (n_rows, n_features)."""
        cross = self.kernel(self.pivots, moments)
        return solve_triangular(self.triangle, cross, lower=True).T


def embedding_kernel(
    a: Moments, b: Moments, inner_length_scale_sq: Floats, outer_length_scale_sq: float
) -> Floats:
    """Gaussian kernel on mean embeddings in closed form, eq. (7).

    Parameters
    ----------
    a, b : Moments
        Messages of ``n_a`` and of ``n_b`` rows.
    inner_length_scale_sq : ndarray of shape (n_variables,)
        Squared length scales of the inner kernel.
    outer_length_scale_sq : float
        Squared length scale of the outer kernel.

    Returns
    -------
    ndarray of shape (n_a, n_b)
        ``exp(-||mu_r - mu_s||^2 / (2 outer_length_scale_sq))``.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import embedding_kernel, message_moments
    >>> moments = message_moments(np.array([[0.0, 1.0], [1.0, 1.0]]), ["normal"])
    >>> embedding_kernel(moments, moments, np.array([2.0]), 0.1).round(3)
    array([[1.   , 0.436],
           [0.436, 1.   ]])
    """
    distances = _square_distances(a, b, inner_length_scale_sq)
    return np.exp(-0.5 * distances / outer_length_scale_sq)


def _square_distances(a: Moments, b: Moments, inner_length_scale_sq: Floats) -> Floats:
    """Squared distances of mean embeddings, from their inner products; shape (n_a, n_b)."""
    # The inner product of an embedding with itself has this closed form.
    squares, other_squares = (
        np.sqrt(inner_length_scale_sq / (inner_length_scale_sq + 2.0 * messages.variance)).prod(
            axis=1
        )
        for messages in (a, b)
    )
    products = embedding_products(a, b, inner_length_scale_sq)
    return squares[:, np.newaxis] + other_squares - 2.0 * products


def embedding_products(a: Moments, b: Moments, inner_length_scale_sq: Floats) -> Floats:
    """Inner products of mean embeddings in closed form (appendix B.3).

    Parameters
    ----------
    a, b : Moments
        Messages of ``n_a`` and of ``n_b`` rows.
    inner_length_scale_sq : ndarray of shape (n_variables,)
        Squared length scales of the inner kernel.

    Returns
    -------
    ndarray of shape (n_a, n_b)

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import embedding_products, message_moments
    >>> moments = message_moments(np.array([[0.0, 1.0], [1.0, 1.0]]), ["normal"])
    >>> embedding_products(moments, moments, np.array([2.0])).round(3)
    array([[0.707, 0.624],
           [0.624, 0.707]])
    """
    log_product = np.zeros((len(a.mean), len(b.mean)))
    for variable, length_sq in enumerate(inner_length_scale_sq):
        # (n_rows_of_a, n_rows_of_b): widths of both messages and of the kernel add up.
        total = length_sq + a.variance[:, [variable]] + b.variance[:, variable]
        distance = a.mean[:, [variable]] - b.mean[:, variable]
        log_product += 0.5 * np.log(length_sq / total) - 0.5 * distance**2 / total
    return np.exp(log_product)


def inner_length_scale_sq(moments: Moments) -> Floats:
    """Squared length scales of the inner kernel by the heuristic of appendix A.

    The mean variance of the messages from each variable. Where that is zero (point masses), the
    variance of their means; where that is zero too, one.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import inner_length_scale_sq, message_moments
    >>> rows = np.array([[0.0, 1.0, 5.0], [1.0, 3.0, 9.0]])
    >>> inner_length_scale_sq(message_moments(rows, ["normal", "point"]))
    array([2., 4.])
    """
    # How wide messages are; point masses have no width, so that their spread is taken.
    length_sq = moments.variance.mean(axis=0)
    length_sq = np.where(length_sq > 0.0, length_sq, moments.mean.var(axis=0))
    # The variance of a constant column is rounding.
    constant = length_sq <= 1e-20 * np.square(moments.mean).mean(axis=0)
    return np.where(constant | (length_sq < _LEAST), 1.0, length_sq)


def outer_length_scale_sq(moments: Moments, inner_length_scale_sq: Floats) -> float:
    """Squared length scale of the outer kernel by the heuristic of appendix A.

    It is the median of the squared distances between the mean embeddings of all pairs of rows.
    Where that is zero, their mean; where that is zero too, one.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import message_moments, outer_length_scale_sq
    >>> moments = message_moments(
    ...     np.array([[0.0, 1.0], [1.0, 1.0], [9.0, 1.0]]), ["normal"]
    ... )
    >>> round(outer_length_scale_sq(moments, np.array([2.0])), 3)
    0.166
    """
    distances = _square_distances(moments, moments, inner_length_scale_sq)
    # The median may be zero where most messages are alike.
    for length_sq in (float(np.median(distances)), float(distances.mean())):
        if length_sq > 1e-12:
            return length_sq
    return 1.0
