"""Bayesian linear regression with one posterior covariance for all outputs, updated online."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import blas, lapack

from skpc._arrays import Floats

_BLOCK = 256


@dataclass(frozen=True)
class BayesianRegression:
    """Posterior of the weights of a linear regression, eqs. (9)-(13).

    All outputs have the same prior, noise and features, so they share one posterior covariance.
    A value: `update` returns a new posterior.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_outputs)
        Posterior means.
    triangle : ndarray of shape (n_features, n_features), Fortran order
        The posterior covariance. Only its upper triangle is read and written, so that it cannot
        lose its symmetry to rounding.
    noise_variance : float
        Variance of the noise of the targets.
    n_rows : int
        Number of rows seen.
    log_evidence : float
        Log density, in nats, of all targets seen, the weights integrated out.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import BayesianRegression
    >>> prior = BayesianRegression.prior(1, 1, prior_variance=1.0, noise_variance=1.0)
    >>> posterior = prior.update(np.ones((3, 1)), np.full((3, 1), 2.0))
    >>> posterior.predict(np.ones((1, 1)))
    (array([[1.5]]), array([1.25]))
    """

    weights: Floats
    triangle: Floats
    noise_variance: float
    n_rows: int = 0
    log_evidence: float = 0.0

    @classmethod
    def prior(
        cls, n_features: int, n_outputs: int, *, prior_variance: float, noise_variance: float
    ) -> BayesianRegression:
        """The prior, eq. (9): weights with mean zero and variance `prior_variance`."""
        triangle = np.asfortranarray(prior_variance * np.eye(n_features))
        return cls(np.zeros((n_features, n_outputs)), triangle, noise_variance)

    def update(self, features: Floats, targets: Floats) -> BayesianRegression:
        """Posterior after more rows.

        One row costs O(n_features^2): eq. (16). More rows are taken in blocks by the same
        identity in its block form.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features)
        targets : ndarray of shape (n_rows, n_outputs)

        Returns
        -------
        BayesianRegression

        Raises
        ------
        ValueError
            If the noise is too small for floating point: below 1e-12 of the prior variance, say.
        """
        posterior = self
        for start in range(0, len(features), _BLOCK):
            block = slice(start, start + _BLOCK)
            posterior = posterior._update_block(features[block], targets[block])
        return posterior

    def _update_block(self, features: Floats, targets: Floats) -> BayesianRegression:
        n_rows, n_outputs = targets.shape
        cross_covariance = self._times_covariance(features)
        predictive = cross_covariance @ features.T
        predictive.flat[:: n_rows + 1] += self.noise_variance
        factor, failure = lapack.dpotrf(predictive, lower=1)
        if failure:
            raise ValueError(
                f"The noise variance {self.noise_variance:g} is too small a part of the prior "
                "variance for this arithmetic; use a greater noise_variance or a smaller "
                "prior_variance."
            )
        # Corrections of the means by residuals, and not sums of products of features and targets:
        # those would be large numbers whose difference is wanted.
        gain, _ = lapack.dtrtrs(factor, cross_covariance, lower=1)
        residual, _ = lapack.dtrtrs(factor, targets - features @ self.weights, lower=1)
        log_determinant = 2.0 * np.log(np.diag(factor)).sum() + n_rows * math.log(2.0 * math.pi)
        return replace(
            self,
            weights=self.weights + gain.T @ residual,
            triangle=blas.dsyrk(-1.0, gain, beta=1.0, c=self.triangle, trans=1),
            n_rows=self.n_rows + n_rows,
            log_evidence=self.log_evidence
            - 0.5 * float((residual**2).sum() + n_outputs * log_determinant),
        )

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means of the outputs and the one variance of each row, eq. (15).

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features)

        Returns
        -------
        mean : ndarray of shape (n_rows, n_outputs)
        variance : ndarray of shape (n_rows,)
            Of a target, noise included.
        """
        explained = np.einsum("ij,ij->i", features, self._times_covariance(features))
        # Rounding could leave a tiny negative number.
        return features @ self.weights, np.maximum(explained, 0.0) + self.noise_variance

    def _times_covariance(self, features: Floats) -> Floats:
        """The rows times the posterior covariance, shape (n_rows, n_features)."""
        if len(features) == 1:  # several times faster than the product of matrices
            return np.asarray(blas.dsymv(1.0, self.triangle, features[0])[np.newaxis])
        return np.asarray(blas.dsymm(1.0, self.triangle, features.T).T)
