"""Covariances of few factors and independent noise."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats

#: Steps from given noise, and without it; least noise of a column, as a part of its variance.
_STEPS, _FIRST_STEPS, _SMALLEST_NOISE = 2, 30, 1e-4
#: Products that a subspace takes in a step, and in the first step; vectors it has besides factors.
_PRODUCTS, _FIRST_PRODUCTS, _SPARE = 2, 6, 8


def factored(
    covariance: Floats, n_factors: int, noise: Floats | None = None
) -> tuple[Floats, Floats]:
    r"""The most likely covariances :math:`L L^T + \Psi` with few factors.

    Each step takes the best :math:`L` for a diagonal :math:`\Psi`, the leading eigenvectors of
    :math:`\Psi^{-1/2} S \Psi^{-1/2}`, and then the best :math:`\Psi` (Barber, "Bayesian Reasoning
    and Machine Learning", algorithm 21.1). The eigenvectors come from a subspace that goes on from
    step to step (Golub and Van Loan, "Matrix Computations", section 8.2): all of them would take
    ten times as long for 1,000 columns.

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
    loadings : ndarray of shape (n_components, d, n_factors)
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
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    n_steps = _FIRST_STEPS if noise is None else _STEPS
    starts = 0.5 * variance if noise is None else noise
    each = [_steps(one, start, n_factors, n_steps) for one, start in zip(covariance, starts)]
    loadings, learned = map(np.array, zip(*each))
    return loadings, learned


def _steps(matrix: Floats, noise: Floats, n_factors: int, n_steps: int) -> tuple[Floats, Floats]:
    """Loadings and noise of one covariance after some steps."""
    d, variance = len(matrix), matrix.diagonal()
    basis = np.random.RandomState(0).standard_normal((d, min(d, n_factors + _SPARE)))
    for step in range(n_steps):
        root = np.sqrt(noise)[:, np.newaxis]
        for _ in range(_PRODUCTS if step else _FIRST_PRODUCTS):
            basis = np.linalg.qr(matrix @ (basis / root) / root)[0]
        inner = basis.T @ (matrix @ (basis / root) / root)
        strength, vectors = np.linalg.eigh(inner)
        basis = basis @ vectors
        beyond = np.sqrt(np.maximum(strength[-n_factors:] - 1.0, 0.0))
        loadings = root * basis[:, -n_factors:] * beyond
        noise = np.maximum(variance - (loadings**2).sum(axis=1), _SMALLEST_NOISE * variance)
    return loadings, noise
