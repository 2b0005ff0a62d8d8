"""Covariances of few factors and independent noise."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from skpc._arrays import Floats

#: Steps from given noise, and without it; least noise of a column, as a part of its variance.
_STEPS, _FIRST_STEPS, _SMALLEST_NOISE = 2, 30, 1e-4


def factored(
    covariance: Floats, n_factors: int, noise: Floats | None = None
) -> tuple[Floats, Floats]:
    r"""The most likely covariances :math:`L L^T + \Psi` with few factors.

    Each step takes the best :math:`L` for a diagonal :math:`\Psi`, the leading eigenvectors of
    :math:`\Psi^{-1/2} S \Psi^{-1/2}`, and then the best :math:`\Psi` (Barber, "Bayesian Reasoning
    and Machine Learning", algorithm 21.1).

    Parameters
    ----------
    covariance : ndarray of shape (n_components, d, d)
        S, those of the data.
    n_factors : int
        Columns of L, less than d.
    noise : ndarray of shape (n_components, d), default=None
        Where to begin: what a former call returned.

    Returns
    -------
    covariance : ndarray of shape (n_components, d, d)
    noise : ndarray of shape (n_components, d)
        The diagonals of :math:`\Psi`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning.low_rank import factored
    >>> one = np.ones((1, 3, 3)) + np.diag([1.0, 2.0, 3.0])
    >>> factored(one, 1)[1].round(2)
    array([[1., 2., 3.]])
    """
    d = covariance.shape[1]
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    n_steps = _FIRST_STEPS if noise is None else _STEPS
    noise = 0.5 * variance if noise is None else noise.copy()
    found = np.empty_like(covariance)
    for k, matrix in enumerate(covariance):
        for _ in range(n_steps):
            root = np.sqrt(noise[k])
            scaled = matrix / root[:, np.newaxis] / root
            strength, vectors = eigh(scaled, subset_by_index=(d - n_factors, d - 1))
            loadings = root[:, np.newaxis] * vectors * np.sqrt(np.maximum(strength - 1.0, 0.0))
            noise[k] = variance[k] - (loadings**2).sum(axis=1)
            noise[k] = np.maximum(noise[k], _SMALLEST_NOISE * variance[k])
        found[k] = loadings @ loadings.T + np.diag(noise[k])
    return found, noise
