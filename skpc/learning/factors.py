"""Factor analysis: covariances of many columns from a few factors that they have in common.

:class:`Factors` are fitted to rows with missing cells, :func:`factored` to given covariances.
"""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, divisors
from skpc._threads import product
from skpc.domain import column_moments
from skpc.variables.gaussians import Gaussians, conditionals
from skpc.variables.patterns import Patterns

#: Greatest number of factors.
_N_FACTORS = 64
#: Number of factors from which EM starts: more would fit the rows at hand alone.
N_START = 16


class Factors(NamedTuple):
    r"""A normal distribution of columns that have few factors in common.

    The covariance of the columns, in units of their standard deviations, is
    :math:`L L^T + \operatorname{diag}(\sigma^2)`.

    Attributes
    ----------
    mean, scale : ndarrays of shape (n_columns,)
        Mean and standard deviation of each column.
    loadings : ndarray of shape (n_columns, n_factors)
        L.
    noise : ndarray of shape (n_columns,)
        The variances that factors do not explain.
    """

    mean: Floats
    scale: Floats
    loadings: Floats
    noise: Floats

    @classmethod
    def fit(cls, values: Floats, weight: Floats, n_factors: int = _N_FACTORS) -> Self:
        """Fit factors to correlations, each of the rows in which both cells are observed.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            NaN where missing; a column has some value, and not always the same.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_factors : int, default=64
            Greatest number of factors.
        """
        observed = ~np.isnan(values)
        weights = observed * weight[:, np.newaxis]
        mean, scale = column_moments(values, weight)
        # A missing cell stands at the mean, where it adds nothing to sums of products.
        units = np.where(observed, values - mean, 0.0) / scale
        # Weight of the rows that have both columns of a pair, shape (n_columns, n_columns).
        pair_weight = product(weights.T, observed.astype(np.float64))
        sums = product((units * weights).T, units)
        correlation = sums / divisors(pair_weight)
        strength, direction = np.linalg.eigh(correlation)
        strongest = slice(max(0, len(mean) - n_factors), None)
        # Variance of a column that no factor explains, at least, as a share of that of the column.
        smallest_noise = 0.003
        # Correlations of pairs from different rows may have negative eigenvalues: no factors.
        beyond = np.maximum(strength[strongest] - smallest_noise, 0.0)
        loadings = direction[:, strongest] * np.sqrt(beyond)
        noise = np.maximum(1.0 - (loadings**2).sum(axis=1), smallest_noise)
        return cls(mean, scale, loadings, noise)

    def gaussians(self) -> Gaussians:
        """The distribution as Gaussians of one component, in the units of the columns."""
        loadings = self.scale[:, np.newaxis] * self.loadings
        noise = self.scale**2 * self.noise
        return Gaussians.from_factors(
            self.mean[np.newaxis], loadings[np.newaxis], noise[np.newaxis]
        )

    def completed(self, values: Floats) -> Floats:
        """Standardised cells, in which missing ones are their conditional means.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            NaN where missing.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        units = (values - self.mean) / self.scale
        # The values are in units already, so that the distribution must be, too.
        standard = self._replace(mean=np.zeros_like(self.mean), scale=np.ones_like(self.scale))
        every_row = np.ones((1, len(values)), dtype=bool)
        patterns = Patterns.from_scores(units)
        # The mean of the one component, shape (n_rows, n_columns).
        return conditionals(standard.gaussians(), units, patterns, every_row)[0][0]


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
        S, the covariances of the data.
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
    >>> from skpc.learning.factors import factored
    >>> one = np.ones((1, 3, 3)) + np.diag([1.0, 2.0, 3.0])
    >>> factored(one, 1)[1].round(2)
    array([[1., 2., 3.]])
    """
    # Steps from given noise, and without it.
    further_steps = 2
    first_steps = 30
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    n_steps = first_steps if noise is None else further_steps
    starts = 0.5 * variance if noise is None else noise
    pairs = [_steps(matrix, start, n_factors, n_steps) for matrix, start in zip(covariance, starts)]
    loadings, learned = map(np.array, zip(*pairs))
    return loadings, learned


def _steps(matrix: Floats, noise: Floats, n_factors: int, n_steps: int) -> tuple[Floats, Floats]:
    """Loadings and noise of one covariance after some steps."""
    # Least noise of a column, as a share of its variance.
    smallest_share = 1e-4
    d = len(matrix)
    variance = matrix.diagonal()
    # Products with the matrix that turn the subspace in a step, and in the first step.
    n_products = 2
    n_first_products = 6
    # Vectors of the subspace besides the factors.
    n_spare = 8
    # The seed is fixed: a covariance always has the same factors.
    basis = np.random.RandomState(0).standard_normal((d, min(d, n_factors + n_spare)))
    for step in range(n_steps):
        root = np.sqrt(noise)[:, np.newaxis]
        for _ in range(n_products if step else n_first_products):
            basis = np.linalg.qr(matrix @ (basis / root) / root)[0]
        # Eigenvectors within the subspace come from a matrix that is as small as it is.
        inner = basis.T @ (matrix @ (basis / root) / root)
        strength, vectors = np.linalg.eigh(inner)
        basis = basis @ vectors
        # In its own unit noise has variance one in each direction; factors have what is beyond.
        beyond = np.sqrt(np.maximum(strength[-n_factors:] - 1.0, 0.0))
        loadings = root * basis[:, -n_factors:] * beyond
        noise = np.maximum(variance - (loadings**2).sum(axis=1), smallest_share * variance)
    return loadings, noise
