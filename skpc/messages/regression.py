"""Bayesian linear regression, updated online: outputs of one noise share the covariance."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas, lapack

from skpc._arrays import Floats
from skpc._threads import product, slices

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
    >>> prior = BayesianRegression.prior(
    ...     1, 1, prior_variance=1.0, noise_variance=1.0
    ... )
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
    ) -> Self:
        """The prior, eq. (9): weights with mean zero and variance `prior_variance`."""
        # The layout in which BLAS reads matrices.
        triangle = np.asfortranarray(prior_variance * np.eye(n_features))
        return cls(np.zeros((n_features, n_outputs)), triangle, noise_variance)

    def update(self, features: Floats, targets: Floats) -> Self:
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
        # The covariance of a block of rows is factored, so that blocks must not be large.
        for block in slices(len(features), _BLOCK):
            posterior = posterior._update_block(features[block], targets[block])
        return posterior

    def _update_block(self, features: Floats, targets: Floats) -> Self:
        n_rows, n_outputs = targets.shape
        # (n_rows, n_features), of which the product with the features is (n_rows, n_rows).
        cross_covariance = self._times_covariance(features)
        predictive = cross_covariance @ features.T
        # The noise stands on the diagonal alone.
        predictive.flat[:: n_rows + 1] += self.noise_variance
        factor, failure = lapack.dpotrf(predictive, lower=1)
        # The factor fails where rounding has made the matrix indefinite.
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
        # For the evidence: each output has this normal density.
        log_determinant = 2.0 * np.log(np.diag(factor)).sum() + n_rows * math.log(2.0 * math.pi)
        return replace(
            self,
            weights=self.weights + gain.T @ residual,
            # Only one triangle of the symmetric matrix is kept and updated.
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
            Variance of a target, noise included.
        """
        # (n_rows,): the diagonal alone of features times covariance times features.
        explained = np.einsum("ij,ij->i", features, self._times_covariance(features))
        # Rounding could leave a tiny negative number.
        return features @ self.weights, np.maximum(explained, 0.0) + self.noise_variance

    def _times_covariance(self, features: Floats) -> Floats:
        """The rows times the posterior covariance, shape (n_rows, n_features)."""
        if len(features) == 1:  # 3.6x on one row of 500 features
            return blas.dsymv(1.0, self.triangle, features[0])[np.newaxis]
        # Transposed, as BLAS takes columns where numpy has rows.
        return blas.dsymm(1.0, self.triangle, features.T).T


@dataclass(frozen=True)
class SeparateRegressions:
    """Posteriors of outputs whose noise differs: the same features, a regression for each.

    A value, as `BayesianRegression` is.

    Parameters
    ----------
    outputs : tuple of BayesianRegression
        The regression of each output.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import SeparateRegressions
    >>> prior = SeparateRegressions.prior(
    ...     1, prior_variance=1.0, noise_variance=[1.0, 0.1]
    ... )
    >>> posterior = prior.update(np.ones((3, 1)), np.full((3, 2), 2.0))
    >>> [part.round(2).tolist() for part in posterior.predict(np.ones((1, 1)))]
    [[[1.5, 1.94]], [[1.25, 0.13]]]
    """

    outputs: tuple[BayesianRegression, ...]

    @classmethod
    def prior(cls, n_features: int, *, prior_variance: float, noise_variance: ArrayLike) -> Self:
        """The prior, eq. (9), with a noise variance for each output."""
        # The noise of the template is never used: each output replaces it.
        template = BayesianRegression.prior(
            n_features, 1, prior_variance=prior_variance, noise_variance=math.nan
        )
        noises = np.asarray(noise_variance, dtype=np.float64).tolist()
        return cls(tuple(replace(template, noise_variance=noise) for noise in noises))

    @property
    def n_rows(self) -> int:
        """Number of rows seen."""
        return self.outputs[0].n_rows

    @property
    def log_evidence(self) -> float:
        """Log density, in nats, of all targets seen, the weights integrated out."""
        return sum(each.log_evidence for each in self.outputs)

    def update(self, features: Floats, targets: Floats) -> Self:
        """Posteriors after more rows; see `BayesianRegression.update`."""
        columns = np.split(targets, len(self.outputs), axis=1)
        return type(self)(
            tuple(each.update(features, column) for each, column in zip(self.outputs, columns))
        )

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means and variances of the outputs, noise included, eq. (15).

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features)

        Returns
        -------
        mean, variance : ndarray of shape (n_rows, n_outputs)
        """
        means, variances = zip(*(each.predict(features) for each in self.outputs))
        return np.hstack(means), np.column_stack(variances)


def noise_of_greatest_evidence(
    blocks: Iterable[tuple[Floats, Floats]], prior_variance: float
) -> Floats:
    """The noise variance of each output under which its targets are most probable.

    Parameters
    ----------
    blocks : iterable of (features, targets)
        All rows, some at a time: arrays of shape (n_rows, n_features) and (n_rows, n_outputs).
    prior_variance : float
        Prior variance of the weights.

    Returns
    -------
    ndarray of shape (n_outputs,)
        Between 1e-10 prior variances and the mean square of the targets, within 3 %.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import noise_of_greatest_evidence
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(1000, 2))
    >>> targets = features + rng.normal(scale=[0.1, 1.0], size=(1000, 2))
    >>> noise_of_greatest_evidence([(features, targets)], prior_variance=1.0).round(
    ...     2
    ... )
    array([0.01, 1.04])
    """
    n_rows = 0
    # Broadcasting zeros: the first block gives them their shapes.
    gram = np.zeros((1, 1))
    cross = np.zeros((1, 1))
    square = np.zeros(1)
    for features, targets in blocks:
        # Sums over rows, so that blocks need not be held.
        n_rows += len(features)
        gram = gram + product(features.T, features)
        cross = cross + features.T @ targets
        square = square + (targets**2).sum(axis=0)
    # Along the eigenvectors of the features the outputs are independent numbers.
    length, direction = np.linalg.eigh(gram)
    # Directions that hold nothing but rounding are left to the noise.
    is_notable = length > len(length) * np.finfo(np.float64).eps * length[-1]
    length = length[is_notable]
    # Squares of the targets along the directions of the features, and what is left of them.
    along = (direction[:, is_notable].T @ cross) ** 2 / length[:, np.newaxis]
    left = np.maximum(square - along.sum(axis=0), 0.0)
    signal = prior_variance * length
    # Noise variances that are compared, evenly on a log scale, and the least of them, in prior
    # variances: less would be near what rounding swallows.
    n_noises = 400
    least_noise = 1e-10
    least = least_noise * prior_variance
    greatest = np.maximum(square / n_rows, least)
    # Shapes: noises, outputs and directions.
    noise = np.geomspace(least, greatest, n_noises)
    # Variance of the targets along a direction: noise plus what the prior explains.
    variance = noise[..., np.newaxis] + signal
    # Directions without features have nothing but noise.
    log_determinant = np.log(variance).sum(axis=2) + (n_rows - len(length)) * np.log(noise)
    distance = (along.T / variance).sum(axis=2) + left / noise
    # The evidence is greatest where this sum is least; its constants are left out.
    best = np.argmin(log_determinant + distance, axis=0)
    return noise[best, np.arange(len(best))]


def noise_of_least_error(features: Floats, targets: Floats, prior_variance: float) -> Floats:
    """The noise variance of each output under which rows are best predicted from all others.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows, n_outputs)
    prior_variance : float
        Prior variance of the weights.

    Returns
    -------
    ndarray of shape (n_outputs,)
        The least mean squared error of leave-one-out predictions, between 1e-10 prior variances and
        the mean square of the targets, within 13 %.

    Notes
    -----
    A few rows that are unlike all others may decide the sum of squares. So the noise comes out too
    large where targets have hardly any; :func:`noise_of_greatest_evidence` is then better.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import noise_of_least_error
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(20, 10))
    >>> targets = features.sum(axis=1, keepdims=True) + rng.normal(size=(20, 1))
    >>> bool(noise_of_least_error(features, targets, prior_variance=1.0)[0] > 0.1)
    True
    """
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    signal = prior_variance * singular[:, np.newaxis] ** 2
    along = left.T @ targets
    # Parts of a row and of its targets that lie along none of the directions.
    row_outside = np.maximum(1.0 - (left**2).sum(axis=1, keepdims=True), 0.0)
    outside = targets - left @ along
    n_noises = 200
    # Less, in prior variances, would be near what rounding swallows.
    least = 1e-10 * prior_variance
    greatest = np.maximum((targets**2).mean(axis=0), least)
    best = []
    for output, most in enumerate(greatest):
        noise = np.geomspace(least, most, n_noises)
        # Part of each direction that the fit leaves, shape (n_directions, n_noises).
        rest = noise / (signal + noise)
        residual = outside[:, [output]] + left @ (rest * along[:, [output]])
        # Without a row, its residual is greater by one over one minus its leverage.
        error = residual / (row_outside + left**2 @ rest)
        best.append(noise[(error**2).sum(axis=0).argmin()])
    return np.array(best)
