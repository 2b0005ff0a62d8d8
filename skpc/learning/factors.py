"""Factors that columns of numbers have in common: what completes rows linearly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.variables.gaussians import Gaussians

#: Greatest number of factors; to complete a row is to solve as many equations.
_N_FACTORS = 64
#: Number of factors from which EM starts: more would fit the rows at hand alone.
N_START = 16
#: Variance of a column that no factor explains, at least, as a share of that of the column.
_SMALLEST_NOISE = 0.003
#: Numbers held at a time.
_WORK = 2**22


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
    def fit(cls, values: Floats, weight: Floats, n_factors: int = _N_FACTORS) -> Factors:
        """Factors of the correlations, each taken over the rows in which both cells are seen.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            NaN where missing; a column has some value, and not always the same.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_factors : int, default=64
            Greatest number of factors.
        """
        seen = ~np.isnan(values)
        counts = (seen * weight[:, np.newaxis]).sum(axis=0)
        mean = (np.where(seen, values, 0.0) * weight[:, np.newaxis]).sum(axis=0) / counts
        away = np.where(seen, values - mean, 0.0)
        scale = np.sqrt((away**2 * weight[:, np.newaxis]).sum(axis=0) / counts)
        # Squares of the smallest numbers are zero.
        scale = np.where(scale > 0.0, scale, 1.0)
        units = away / scale
        together = (seen * weight[:, np.newaxis]).T @ seen.astype(np.float64)
        sums = (units * weight[:, np.newaxis]).T @ units
        correlation = sums / np.where(together > 0.0, together, 1.0)
        strength, direction = np.linalg.eigh(correlation)
        kept = slice(max(0, len(mean) - n_factors), None)
        beyond = np.maximum(strength[kept] - _SMALLEST_NOISE, 0.0)
        loadings = direction[:, kept] * np.sqrt(beyond)
        noise = np.maximum(1.0 - (loadings**2).sum(axis=1), _SMALLEST_NOISE)
        return cls(mean, scale, loadings, noise)

    def gaussians(self, n_components: int) -> Gaussians:
        """The normal distribution, as components that are all alike."""
        loadings, noise = self.scale[:, np.newaxis] * self.loadings, self.scale**2 * self.noise
        same = (np.array([part] * n_components) for part in (self.mean, loadings, noise))
        return Gaussians.from_factors(*same)

    def completed(self, values: Floats) -> Floats:
        """Units of standard deviations around the mean, missing ones by their conditional mean.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            NaN where missing.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        units = (values - self.mean) / self.scale
        missing = np.isnan(units)
        incomplete = np.flatnonzero(missing.any(axis=1))
        n_factors = self.loadings.shape[1]
        size = max(1, _WORK // (n_factors * (n_factors + len(self.mean))))
        for begin in range(0, len(incomplete), size):
            some = incomplete[begin : begin + size]
            precision = np.where(missing[some], 0.0, 1.0 / self.noise)
            known = np.where(missing[some], 0.0, units[some])
            # The factors given the cells that are seen, of all rows at a time.
            system = (self.loadings.T[np.newaxis] * precision[:, np.newaxis]) @ self.loadings
            system += np.eye(n_factors)
            told = (precision * known) @ self.loadings
            factors = np.linalg.solve(system, told[:, :, np.newaxis])[:, :, 0]
            units[some] = np.where(missing[some], factors @ self.loadings.T, known)
        return units
