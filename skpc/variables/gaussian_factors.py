r"""Gaussians whose numbers have few factors in common, with missing cells.

The covariance is :math:`L L^T + \Psi` with few columns of :math:`L` and a diagonal :math:`\Psi`.
With the distances :math:`d` of the observed cells o from their means, and missing cells m, the
lemmas on inverses and determinants of such matrices give

.. math::

    M &= I + L_o^T \Psi_o^{-1} L_o, \qquad t = L_o^T \Psi_o^{-1} d_o, \\
    d_o^T \Sigma_{oo}^{-1} d_o &= d_o^T \Psi_o^{-1} d_o - t^T M^{-1} t, \qquad
        \log |\Sigma_{oo}| = \log |\Psi_o| + \log |M|, \\
    E[d_m \mid x_o] &= L_m M^{-1} t, \qquad
        \operatorname{Cov}[d_m \mid x_o] = L_m M^{-1} L_m^T + \Psi_m,

so that a row costs a matrix of the size of the factors rather than one of its missing cells
(Ghahramani and Hinton, "The EM algorithm for mixtures of factor analyzers", 1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc.variables.gaussians import Gaussians
from skpc.variables.patterns import Patterns

#: Rows that are taken together.
_ROWS = 1024
#: What a product for factors takes, in those for covariances; and products of a cell besides.
_DEARER, _OF_CELL = 3.0, 30.0


class FactoredGaussians(Gaussians):
    r"""Gaussians of covariances :math:`L L^T + \Psi`, which know their factors.

    Attributes
    ----------
    loadings : ndarray of shape (n_components, d, n_factors)
        L.
    noise : ndarray of shape (n_components, d)
        The diagonals of :math:`\Psi`, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussian_factors import FactoredGaussians
    >>> both = FactoredGaussians.of_factors(np.zeros((1, 2)), np.ones((1, 2, 1)), np.ones((1, 2)))
    >>> both.covariance, both.log_det.round(3)
    (array([[[2., 1.],
            [1., 2.]]]), array([1.099]))
    """

    loadings: Floats
    noise: Floats

    @classmethod
    def of_factors(cls, mean: Floats, loadings: Floats, noise: Floats) -> FactoredGaussians:
        """Gaussians of given means, loadings and noise."""
        diagonal = np.arange(mean.shape[1])
        covariance = loadings @ loadings.transpose(0, 2, 1)
        covariance[:, diagonal, diagonal] += noise
        scaled = loadings / noise[:, :, np.newaxis]
        inner = np.eye(loadings.shape[2]) + loadings.transpose(0, 2, 1) @ scaled
        root = np.linalg.cholesky(inner)
        half = scaled @ np.linalg.inv(root).transpose(0, 2, 1)
        precision = -half @ half.transpose(0, 2, 1)
        precision[:, diagonal, diagonal] += 1.0 / noise
        log_det = np.log(noise).sum(axis=1)
        log_det += 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        found = cls(np.ascontiguousarray(mean), covariance, precision, log_det)
        found.loadings, found.noise = np.ascontiguousarray(loadings), noise
        return found

    def some(self, chosen: slice) -> Gaussians:
        """Some of the components."""
        found = FactoredGaussians(*(of_each[chosen] for of_each in self))
        found.loadings, found.noise = self.loadings[chosen], self.noise[chosen]
        return found

    def measure(
        self,
        scores: Floats,
        patterns: Patterns,
        wanted: NDArray[np.bool_],
        square: Floats,
        log_det: Floats,
    ) -> None:
        """Write the squared distances and log determinants of wanted rows."""
        if self._is_dearer(patterns):
            super().measure(scores, patterns, wanted, square, log_det)
            return
        for k, rows, told in self._told(scores, patterns, wanted):
            noise, half = self.noise[k], told.half[told.pattern]
            whitened = (half @ told.about[:, :, np.newaxis])[:, :, 0]
            whole = (told.away**2 / noise).sum(axis=1) - (whitened**2).sum(axis=1)
            # The roots on the diagonals of the inverses are reciprocals.
            of_factors = np.log(np.diagonal(told.half, axis1=1, axis2=2)).sum(axis=1)
            log_dets = told.seen @ np.log(noise) - 2.0 * of_factors
            at = patterns.order[rows]
            square[k, at], log_det[k, at] = np.maximum(whole, 0.0), log_dets[told.pattern]

    def add(
        self,
        scores: Floats,
        patterns: Patterns,
        weight: Floats,
        spread_weight: Floats,
        total: Floats,
        square: Floats,
    ) -> None:
        """Add expected sums, and lower triangles of those of products."""
        if self._is_dearer(patterns):
            super().add(scores, patterns, weight, spread_weight, total, square)
            return
        diagonal = np.arange(scores.shape[1])
        for k, rows, told in self._told(scores, patterns, weight > 0.0):
            loadings, half, gone = self.loadings[k], told.half[told.pattern], 1.0 - told.seen
            whitened = half @ told.about[:, :, np.newaxis]
            factors = (half.transpose(0, 2, 1) @ whitened)[:, :, 0]
            filled = told.away + gone[told.pattern] * (factors @ loadings.T)
            weighted = weight[k, rows, np.newaxis] * filled
            total[k] += weighted.sum(axis=0)
            square[k] += weighted.T @ filled
            spread = np.zeros(len(gone))
            np.add.at(spread, told.pattern, spread_weight[k, rows])
            square[k, diagonal, diagonal] += self.noise[k] * (spread @ gone)
            _add_spreads(loadings, told.half, spread, gone, square[k])

    def _is_dearer(self, patterns: Patterns) -> bool:
        """Whether factors would take more products than covariances."""
        d, n_factors = self.loadings.shape[1:]
        n_gone = d - patterns.seen.sum(axis=1, dtype=np.float64)
        smaller = np.minimum(n_gone, d - n_gone)
        dense = float(d * d * len(patterns.order) + (smaller**3).sum())
        of_pattern = d * n_factors**2 + n_factors**3 + n_gone**2 * n_factors
        of_rows = (2.0 * n_factors + _OF_CELL) * d * len(patterns.order)
        return dense < _DEARER * (of_rows + float(of_pattern.sum()))

    def _told(
        self, scores: Floats, patterns: Patterns, wanted: NDArray[np.bool_]
    ) -> Iterator[tuple[int, Ints, _Told]]:
        """What rows say about the factors: components, rows in the order of the patterns."""
        pattern = np.repeat(np.arange(len(patterns.seen)), np.diff(patterns.ptr))
        for k in range(len(self.mean)):
            loadings, noise = self.loadings[k], self.noise[k]
            scaled = loadings / noise[:, np.newaxis]
            first, second = np.tril_indices(loadings.shape[1])
            products = loadings[:, first] * scaled[:, second]
            chosen = np.flatnonzero(wanted[k])
            for begin in range(0, len(chosen), _ROWS):
                rows = chosen[begin : begin + _ROWS]
                known, own = np.unique(pattern[rows], return_inverse=True)
                seen = patterns.seen[known].astype(np.float64)
                inner = np.zeros((len(known), loadings.shape[1], loadings.shape[1]))
                # A Cholesky factor takes no more than the lower triangle.
                inner[:, first, second] = seen @ products + (first == second)
                half = np.linalg.inv(np.linalg.cholesky(inner)).astype(np.float64, copy=False)
                apart = scores[rows] - self.mean[k]
                away = np.where(np.isnan(apart), 0.0, apart)
                yield k, rows, _Told(own, seen, half, away, away @ scaled)


class _Told(NamedTuple):
    """What some rows say about the factors of a component.

    Attributes
    ----------
    pattern : ndarray of shape (n_rows,)
        The missingness pattern of each row.
    seen : ndarray of shape (n_patterns, d)
        One for the cells that a pattern observes, zero for the others.
    half : ndarray of shape (n_patterns, n_factors, n_factors)
        Inverses of the Cholesky factors of M.
    away : ndarray of shape (n_rows, d)
        Distances from the mean, zero where missing.
    about : ndarray of shape (n_rows, n_factors)
        The vectors t.
    """

    pattern: Ints
    seen: Floats
    half: Floats
    away: Floats
    about: Floats


@kernel
def _add_spreads(
    loadings: Floats, half: Floats, weight: Floats, gone: Floats, square: Floats
) -> None:
    """Add lower triangles of the parts of conditional covariances that factors have in common."""
    d, n_factors = loadings.shape
    some, products = np.empty((d, n_factors)), np.empty((d, n_factors))
    block, columns = np.empty(d * d), np.empty(d, dtype=np.int64)
    for p in range(len(gone)):
        n = 0
        for v in range(d):
            if gone[p, v] > 0.0:
                columns[n] = v
                for a in range(n_factors):
                    some[n, a] = loadings[v, a]
                n += 1
        if n == 0 or weight[p] == 0.0:
            continue
        np.dot(some[:n], half[p].T, products[:n])
        found = block[: n * n].reshape(n, n)
        np.dot(products[:n], products[:n].T, found)
        for i in range(n):
            v = columns[i]
            for j in range(i + 1):
                square[v, columns[j]] += weight[p] * found[i, j]
