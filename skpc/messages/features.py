"""Two-stage random Fourier features of products of messages (Algorithm 1); their length scales.

Everywhere below, a beta or gamma message stands for the normal distribution with its mean and
variance, as in the authors' program: expectations then have closed forms. "log-gamma" is the normal
with mean and variance of the logarithm of a gamma variable, for gammas on many scales.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.messages.layout import Moments

_BLOCK = 2048
#: Frequencies are reciprocals of length scales, and their squares have to be finite.
_LEAST = 1e-300


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
    ) -> MessageFeatures:
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

        Returns
        -------
        MessageFeatures
        """
        n_variables = len(inner_length_scale_sq)
        frequency = random_state.normal(size=(n_inner, n_variables)).T
        frequency = frequency / np.sqrt(inner_length_scale_sq)[:, np.newaxis]
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
        for start in range(0, len(out), _BLOCK):
            block = slice(start, start + _BLOCK)
            inner = np.cos(moments.mean[block] @ self.frequency + self.phase)
            inner *= np.exp(moments.variance[block] @ self.damping)
            np.cos(inner @ self.outer_frequency + self.outer_phase, out=out[block])
        out *= math.sqrt(2.0 / out.shape[1])
        return out


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
    >>> moments = message_moments(np.array([[0.0, 1.0], [1.0, 1.0], [9.0, 1.0]]), ["normal"])
    >>> round(outer_length_scale_sq(moments, np.array([2.0])), 3)
    0.166
    """
    products = embedding_products(moments, moments, inner_length_scale_sq)
    squares = np.diag(products)
    distances = squares[:, np.newaxis] + squares - 2.0 * products
    for length_sq in (float(np.median(distances)), float(distances.mean())):
        if length_sq > 1e-12:
            return length_sq
    return 1.0
