r"""Multivariate Gaussians with missing cells.

With the covariance :math:`\Sigma`, the precision :math:`\Lambda`, the distance :math:`d` of the
observed cells o from their means, and missing cells m,

.. math::

    \log N(x_o) &= -\tfrac{|o|}{2} \log 2 \pi - \tfrac12 \log |\Sigma_{oo}|
        - \tfrac12 d_o^T \Sigma_{oo}^{-1} d_o, \\
    \log |\Sigma_{oo}| &= \log |\Sigma| + \log |\Lambda_{mm}|, \qquad
        d_o^T \Sigma_{oo}^{-1} d_o = d_o^T \Lambda_{oo} d_o - |C^{-1} \Lambda_{mo} d_o|^2, \qquad
        C C^T = \Lambda_{mm}, \\
    E[d_m \mid x_o] &= -\Lambda_{mm}^{-1} \Lambda_{mo} d_o = \Sigma_{mo} \Sigma_{oo}^{-1} d_o,
    \qquad \operatorname{Cov}[d_m \mid x_o] = \Lambda_{mm}^{-1}
        = \Sigma_{mm} - \Sigma_{mo} \Sigma_{oo}^{-1} \Sigma_{om},

so that only the smaller block is factorised, that of the missing cells of the precision or that of
the observed cells of the covariance. Rows of one missingness pattern share the factor. With
:math:`d` set to zero at missing cells, one product :math:`\Lambda d` of all rows has both
:math:`\Lambda_{oo} d_o` and :math:`\Lambda_{mo} d_o`. The plain twin, which reads each row off the
covariance, is ``tests/naive/gaussians.py``.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._threads import each
from skpc.variables.gaussian_kernels import complete, measure

_LOG_2_PI = math.log(2.0 * math.pi)
#: Rows that are taken together, at least and at most, and the number of parts in between. None of
#: them depends on the number of threads, nor do the results.
_FEWEST_ROWS, _MOST_ROWS, _PARTS = 1024, 8192, 4


class Patterns(NamedTuple):
    """Rows sorted by their missingness pattern: by which of their cells are missing.

    Parameters
    ----------
    order : ndarray of shape (n_rows,)
        The rows, pattern by pattern, those with most missing cells first.
    ptr : ndarray of shape (n_patterns + 1,)
        Where each pattern begins in ``order``.
    observed : bool ndarray of shape (n_patterns, d)
        The cells that a pattern observes.
    columns : ndarray of shape (n_patterns, d)
        The columns of a pattern, the missing ones first.
    n_missing : ndarray of shape (n_patterns,)
        Number of missing columns of each pattern.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussians import Patterns
    >>> patterns = Patterns.from_scores(np.array([[1.0, 2.0], [np.nan, 2.0], [3.0, 4.0]]))
    >>> patterns.order, patterns.ptr, patterns.n_missing
    (array([1, 0, 2]), array([0, 1, 3]), array([1, 0]))
    """

    order: Ints
    ptr: Ints
    observed: NDArray[np.bool_]
    columns: Ints
    n_missing: Ints

    @classmethod
    def from_scores(cls, scores: Floats) -> Patterns:
        """The patterns of rows with NaN where a cell is missing."""
        observed = ~np.isnan(scores)
        n_rows, d = observed.shape
        if n_rows and observed.all():
            columns, ptr = np.arange(d)[np.newaxis], np.array([0, n_rows])
            return cls(np.arange(n_rows), ptr, observed[:1], columns, np.zeros(1, np.int64))
        # The bits of a row as one value: these sort faster than rows do.
        bits = np.packbits(observed, axis=1) if d else np.zeros((n_rows, 1), np.uint8)
        key = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        first, pattern, size = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )[1:]
        fewest_first = np.argsort(observed[first].sum(axis=1), kind="stable")
        rank = np.empty(len(first), dtype=np.int64)
        rank[fewest_first] = np.arange(len(first))
        ptr = np.zeros(len(first) + 1, dtype=np.int64)
        np.cumsum(size[fewest_first], out=ptr[1:])
        order = np.argsort(rank[pattern], kind="stable").astype(np.int64, copy=False)
        observed = observed[first[fewest_first]]
        columns = np.argsort(observed, axis=1, kind="stable")
        return cls(order, ptr, observed, columns, (~observed).sum(axis=1))

    def _only(self, kept: slice) -> Patterns:
        observed, columns, n_missing = self.observed[kept], self.columns[kept], self.n_missing[kept]
        return self._replace(observed=observed, columns=columns, n_missing=n_missing)

    @property
    def are_complete(self) -> bool:
        """Whether no cell is missing."""
        return not self.n_missing.any()

    @property
    def pattern(self) -> Ints:
        """The pattern of each row, in their order; shape (n_rows,)."""
        return np.repeat(np.arange(len(self.observed)), np.diff(self.ptr))

    @property
    def n_observed(self) -> Ints:
        """Number of observed cells of each row, shape (n_rows,)."""
        counts = np.empty(len(self.order), dtype=np.int64)
        counts[self.order] = self.observed.sum(axis=1)[self.pattern]
        return counts

    def parts(self, size: int) -> list[Patterns]:
        """Consecutive parts of ``size`` rows; their order is that among all rows."""
        n_rows = len(self.order)
        if n_rows <= size:
            return [self]
        parts = []
        for begin in range(0, n_rows, size):
            end = min(begin + size, n_rows)
            first, last = np.searchsorted(self.ptr, (begin, end - 1), side="right").tolist()
            ptr = np.clip(self.ptr[first - 1 : last + 1], begin, end) - begin
            of_rows = self._replace(order=self.order[begin:end].copy(), ptr=ptr)
            parts.append(of_rows._only(slice(first - 1, last)))
        return parts


class Gaussians(NamedTuple):
    """Multivariate normal distributions over the same d numbers.

    Parameters
    ----------
    mean : ndarray of shape (n_components, d)
    covariance, precision : ndarrays of shape (n_components, d, d)
        The one is the inverse of the other.
    log_det : ndarray of shape (n_components,)
        Log determinants of the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussians import Gaussians
    >>> one = Gaussians.from_covariance(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> one.log_det.round(3), one.precision.round(3)
    (array([1.099]), array([[[ 0.667, -0.333],
            [-0.333,  0.667]]]))
    """

    mean: Floats
    covariance: Floats
    precision: Floats
    log_det: Floats

    @classmethod
    def from_covariance(cls, mean: Floats, covariance: Floats) -> Gaussians:
        """Gaussians of given means and covariances.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        half = np.linalg.inv(root)
        precision = np.ascontiguousarray(half.transpose(0, 2, 1) @ half)
        covariance = np.ascontiguousarray(covariance)
        return cls(np.ascontiguousarray(mean), covariance, precision, _log_det(root))

    @classmethod
    def from_factors(cls, mean: Floats, loadings: Floats, noise: Floats) -> Gaussians:
        r"""Gaussians of covariances :math:`L L^T + \Psi` of few factors.

        Parameters
        ----------
        mean : ndarray of shape (n_components, d)
        loadings : ndarray of shape (n_components, d, n_factors)
            L.
        noise : ndarray of shape (n_components, d)
            The diagonals of :math:`\Psi`, positive.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc.variables.gaussians import Gaussians
        >>> one = Gaussians.from_factors(np.zeros((1, 2)), np.ones((1, 2, 1)), np.ones((1, 2)))
        >>> one.covariance, one.log_det.round(3)
        (array([[[2., 1.],
                [1., 2.]]]), array([1.099]))
        """
        diagonal = np.arange(mean.shape[1])
        covariance = loadings @ loadings.transpose(0, 2, 1)
        covariance[:, diagonal, diagonal] += noise
        # The lemmas on inverses and determinants: a matrix of the size of the factors is inverted.
        scaled = loadings / noise[:, :, np.newaxis]
        inner = np.eye(loadings.shape[2]) + loadings.transpose(0, 2, 1) @ scaled
        root = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)
        half = scaled @ np.linalg.inv(root).transpose(0, 2, 1)
        precision = -half @ half.transpose(0, 2, 1)
        precision[:, diagonal, diagonal] += 1.0 / noise
        log_det = np.log(noise).sum(axis=1) + _log_det(root)
        return cls(np.ascontiguousarray(mean), covariance, precision, log_det)


def _log_det(root: Floats) -> Floats:
    """Log determinants of matrices from their Cholesky factors."""
    return np.asarray(2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))


def log_densities(gaussians: Gaussians, scores: Floats, patterns: Patterns) -> Floats:
    """Log density (nats) of the observed cells of each row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.

    Returns
    -------
    ndarray of shape (n_components, n_rows)
        Zero for a row without observed cells.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.gaussians import Gaussians, Patterns, log_densities
    >>> one = Gaussians.from_covariance(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> scores = np.array([[0.0, 0.0], [2.0, np.nan]])
    >>> log_densities(one, scores, Patterns.from_scores(scores)).round(3)
    array([[-2.387, -2.266]])
    """
    square, log_det = squared_distances(gaussians, scores, patterns)
    square += log_det
    square += patterns.n_observed * _LOG_2_PI
    return np.multiply(square, -0.5, out=square)


def squared_distances(
    gaussians: Gaussians, scores: Floats, patterns: Patterns
) -> tuple[Floats, Floats]:
    """Squared Mahalanobis distances of the observed cells of each row from the means.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.

    Returns
    -------
    square, log_det : ndarrays of shape (n_components, n_rows)
        The squared distances, and the log determinants of the covariances of the observed cells;
        zero for a row without any.
    """
    shape = len(gaussians.mean), len(scores)
    square, log_det = np.empty(shape), np.empty(shape)

    def measure_part(k: int, part: Patterns) -> None:
        distance, mapped = _distances(gaussians, k, scores, part.order, part)
        # Squares of scores that overflow leave differences of infinities.
        with np.errstate(over="ignore", invalid="ignore"):
            squares: Floats = np.einsum("rv,rv->r", distance, mapped)
        log_dets = np.full(len(squares), gaussians.log_det[k])
        if not part.are_complete:
            matrices = gaussians.covariance[k], gaussians.precision[k]
            of_patterns = part.columns, part.n_missing, part.pattern
            measure(*matrices, *of_patterns, distance, mapped, squares, log_dets)
        square[k, part.order], log_det[k, part.order] = squares, log_dets

    each(measure_part, _tasks(gaussians, patterns), float(scores.size) * gaussians.mean.size)
    square[np.isnan(square)] = np.inf
    return square, log_det


def statistics(
    gaussians: Gaussians,
    scores: Floats,
    patterns: Patterns,
    weight: Floats,
    spread_weight: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Expected weighted sums over the rows, whose missing cells are filled in by each component.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    weight : ndarray of shape (n_components, n_rows)
        Weight of each row in each component, not negative. Weights of zero cost nothing.
    spread_weight : ndarray of shape (n_components, n_rows), default=None
        Weights of the conditional covariances, zero where the weights are; None takes these.

    Returns
    -------
    count : ndarray of shape (n_components,)
        Sums of the weights.
    total : ndarray of shape (n_components, d)
        Sums of the distances from the mean of the component.
    square : ndarray of shape (n_components, d, d)
        Sums of the products of these distances, the conditional covariances of the missing cells
        included.
    """
    spread_weight = weight if spread_weight is None else spread_weight
    total, square = np.zeros_like(gaussians.mean), np.zeros_like(gaussians.covariance)

    def add(k: int, part: Patterns) -> tuple[Floats, Floats]:
        weights = weight[k].take(part.order)
        chosen = np.flatnonzero(weights)
        rows = part.order[chosen]
        spread = np.zeros(gaussians.covariance.shape[1:])
        of_spread = spread_weight[k].take(rows)
        distance, _ = _completed(gaussians, k, scores, part, chosen, of_spread, spread)
        weights = weights[chosen]
        products = (weights[:, np.newaxis] * distance).T @ distance
        return weights @ distance, products + spread

    tasks = _tasks(gaussians, patterns)
    sums = each(add, tasks, float(scores.size) * gaussians.mean.size)
    for (k, _), (of_rows, of_products) in zip(tasks, sums):
        total[k] += of_rows
        square[k] += of_products
    lower = np.tril(square)
    return weight.sum(axis=1), total, lower + np.tril(lower, -1).transpose(0, 2, 1)


def conditionals(
    gaussians: Gaussians, scores: Floats, patterns: Patterns, wanted: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Distribution of each missing cell given the observed cells of its row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    wanted : bool ndarray of shape (n_components, n_rows)
        Which components are asked about which rows.

    Returns
    -------
    mean, sd : ndarrays of shape (n_components, n_rows, d)
        An observed cell has itself as mean, and sd 0; zeros where they are not wanted.
    """
    shape = len(gaussians.mean), *scores.shape
    mean, variance = np.zeros(shape), np.zeros(shape)
    for k, part in _tasks(gaussians, patterns):
        chosen = np.flatnonzero(wanted[k].take(part.order))
        rows = part.order[chosen]
        distance, variance[k, rows] = _completed(gaussians, k, scores, part, chosen)
        mean[k, rows] = gaussians.mean[k] + distance
    return mean, np.sqrt(variance)


def leave_one_out(gaussians: Gaussians, scores: Floats, patterns: Patterns) -> Floats:
    """Log density (nats) of each observed cell given the other observed cells of its row.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.

    Returns
    -------
    ndarray of shape (n_components, n_rows, d)
        Zero where a cell is missing.
    """
    log_density = np.zeros((len(gaussians.mean), *scores.shape))
    observed, shape = patterns.observed[patterns.pattern], patterns.observed.shape
    # One row without distances for each pattern, whose observed cells change places with the
    # missing ones: this precision is to the former what the covariance is to the latter.
    pattern, nothing, no_weight = np.arange(shape[0]), np.zeros(shape), np.zeros(shape[0])
    inverse = np.argsort(~patterns.observed, axis=1, kind="stable"), shape[1] - patterns.n_missing
    for k in range(len(gaussians.mean)):
        matrices = gaussians.precision[k], gaussians.covariance[k]
        strength, spread = np.zeros(shape), np.zeros(matrices[0].shape)
        filled = nothing.copy()
        complete(*matrices, *inverse, pattern, no_weight, nothing, filled, spread, strength)
        strengths = np.where(observed, strength[patterns.pattern], 1.0)
        distance, _ = _completed(gaussians, k, scores, patterns, np.arange(len(scores)))
        # The square of a cell that no Gaussian can have may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            rest = distance @ gaussians.precision[k]
            values = 0.5 * (np.log(strengths) - _LOG_2_PI - rest**2 / strengths)
        log_density[k, patterns.order] = np.where(observed, values, 0.0)
    return log_density


def _tasks(gaussians: Gaussians, patterns: Patterns) -> list[tuple[int, Patterns]]:
    """Each component with each part of the rows."""
    size = -(-len(patterns.order) // _PARTS)
    parts = patterns.parts(min(max(size, _FEWEST_ROWS), _MOST_ROWS))
    return list(product(range(len(gaussians.mean)), parts))


def _distances(
    gaussians: Gaussians, k: int, scores: Floats, rows: Ints, patterns: Patterns
) -> tuple[Floats, Floats]:
    """Distances of rows from the mean, zero where missing; these times the precision."""
    # Unlike brackets, this leaves Python's lock to other threads.
    distance = scores.take(rows, axis=0)
    distance -= gaussians.mean[k]
    if not patterns.are_complete:
        distance[np.isnan(distance)] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return distance, distance @ gaussians.precision[k]


def _completed(
    gaussians: Gaussians,
    k: int,
    scores: Floats,
    patterns: Patterns,
    chosen: Ints,
    weight: Floats | None = None,
    spread: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Expected distances of chosen rows from the mean of a component, and variances.

    Sums of conditional covariances, weighted, are added to ``spread``, shape (d, d); without it
    the variances of the missing cells are returned, and else an array without rows.
    """
    rows, d = patterns.order[chosen], scores.shape[1]
    distance, mapped = _distances(gaussians, k, scores, rows, patterns)
    variance = np.zeros((len(rows) if spread is None else 0, d))
    if not patterns.are_complete:
        if weight is None or spread is None:
            weight, spread = np.zeros(len(rows)), np.zeros((d, d))
        matrices = gaussians.covariance[k], gaussians.precision[k]
        of_patterns = patterns.columns, patterns.n_missing, patterns.pattern[chosen]
        complete(*matrices, *of_patterns, weight, mapped, distance, spread, variance)
    return distance, variance
