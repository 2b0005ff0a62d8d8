r"""Multivariate Gaussians with missing cells.

With the covariance :math:`\Sigma`, the precision :math:`\Lambda`, the distance :math:`d` of the
observed cells o from their means, and missing cells m,

.. math::

    \log N(x_o) &= -\tfrac{|o|}{2} \log 2 \pi - \tfrac12 \log |\Sigma_{oo}|
        - \tfrac12 d_o^T \Sigma_{oo}^{-1} d_o, \\
    E[d_m \mid x_o] &= -\Lambda_{mm}^{-1} \Lambda_{mo} d_o, \qquad
        \operatorname{Cov}[d_m \mid x_o] = \Lambda_{mm}^{-1}, \\
    \log |\Sigma_{oo}| &= \log |\Sigma| + \log |\Lambda_{mm}|, \qquad
        d_o^T \Sigma_{oo}^{-1} d_o = d_o^T \Lambda_{oo} d_o + E[d_m \mid x_o]^T \Lambda_{mo} d_o,

so that all follows from a factor of the block of the missing cells of the precision, which rows of
one missingness pattern share. With :math:`d` set to zero at missing cells, one product
:math:`\Lambda d` of all rows has both :math:`\Lambda_{oo} d_o` and :math:`\Lambda_{mo} d_o`. The
plain twin, which reads each row off the covariance, is ``tests/naive/gaussians.py``.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, divisors
from skpc._jit import internal_kernel, kernel
from skpc._threads import each, product, slices
from skpc.variables.leaves import Prior
from skpc.variables.patterns import Patterns

LOG_2_PI = math.log(2.0 * math.pi)


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
    >>> one = Gaussians.from_covariance(
    ...     np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]])
    ... )
    >>> one.log_det.round(3), one.precision.round(3)
    (array([1.099]), array([[[ 0.667, -0.333],
            [-0.333,  0.667]]]))
    """

    mean: Floats
    covariance: Floats
    precision: Floats
    log_det: Floats

    @classmethod
    def from_covariance(cls, mean: Floats, covariance: Floats) -> Self:
        """Gaussians of given means and covariances.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        inverse_root = np.linalg.inv(root)
        precision = np.ascontiguousarray(inverse_root.transpose(0, 2, 1) @ inverse_root)
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        log_det = 2.0 * np.log(diagonal).sum(axis=1)
        covariance = np.ascontiguousarray(covariance)
        return cls(np.ascontiguousarray(mean), covariance, precision, log_det)

    @classmethod
    def from_factors(cls, mean: Floats, loadings: Floats, noise: Floats) -> Self:
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
        >>> one = Gaussians.from_factors(
        ...     np.zeros((1, 2)), np.ones((1, 2, 1)), np.ones((1, 2))
        ... )
        >>> one.covariance, one.log_det.round(3)
        (array([[[2., 1.],
                [1., 2.]]]), array([1.099]))
        """
        factors = loadings @ loadings.transpose(0, 2, 1)
        return cls.from_covariance(mean, factors + np.eye(mean.shape[1]) * noise[:, np.newaxis])


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
    >>> from skpc.variables.gaussians import Gaussians, log_densities
    >>> from skpc.variables.patterns import Patterns
    >>> one = Gaussians.from_covariance(
    ...     np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]])
    ... )
    >>> scores = np.array([[0.0, 0.0], [2.0, np.nan]])
    >>> log_densities(one, scores, Patterns.from_scores(scores)).round(3)
    array([[-2.387, -2.266]])
    """
    square, log_det = squared_distances(gaussians, scores, patterns)
    square += log_det
    square += patterns.n_observed * LOG_2_PI
    return np.multiply(square, -0.5, out=square)


def squared_distances(
    gaussians: Gaussians, scores: Floats, patterns: Patterns
) -> tuple[Floats, Floats]:
    """Squared Mahalanobis distances of the observed cells of each row from the means.

    The arguments are those of :func:`log_densities`.

    Returns
    -------
    square, log_det : ndarrays of shape (n_components, n_rows)
        The squared distances, and the log determinants of the covariances of the observed cells;
        zero for a row without any.
    """
    shape = len(gaussians.mean), len(scores)
    square = np.empty(shape)
    log_det = np.empty(shape)

    def measure(group: slice) -> None:
        """Write the rows of a group of components."""
        filled = Filled.from_rows(gaussians, group, scores, patterns)
        # Squares of scores that overflow leave differences of infinities.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("krv,krv->kr", filled.distance, filled.mapped)
        square[group, patterns.order] = squares
        log_det[group, patterns.order] = filled.log_det

    each(measure, zip(_groups(shape[0], scores)), float(scores.size) * gaussians.mean.size)
    # A difference of infinities belongs to a row that is infinitely far away.
    square[np.isnan(square)] = np.inf
    return square, np.where(patterns.n_observed > 0, log_det, 0.0)


def _groups(n_components: int, scores: Floats) -> list[slice]:
    """Groups of components that are computed at once: larger ones where there are few rows."""
    # Numbers in the filled rows of a group, about.
    group_size = 1 << 16
    return slices(n_components, max(1, group_size // max(1, scores.size)))


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
    gaussians, scores, patterns
        See :func:`log_densities`.
    weight : ndarray of shape (n_components, n_rows)
        Weight of each row in each component, not negative. Weights of zero cost nothing.
    spread_weight : ndarray of shape (n_components, n_rows), default=None
        Weights of the conditional covariances, zero just where the weights are; None takes these.

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
    total = np.empty_like(gaussians.mean)
    square = np.empty_like(gaussians.covariance)

    def add(group: slice) -> None:
        """Write the sums of a group of components."""
        weights = weight[group].take(patterns.order, axis=1)
        # Rows without weight in any component of the group are left out.
        chosen = np.flatnonzero(weights.any(axis=0))
        weights = weights.take(chosen, axis=1)
        spread_weights = spread_weight[group].take(patterns.order[chosen], axis=1)
        filled = Filled.from_rows(gaussians, group, scores, patterns, chosen, spread_weights)
        total[group] = (weights[:, np.newaxis] @ filled.distance)[:, 0]
        weighted = weights[:, :, np.newaxis] * filled.distance
        square[group] = product(weighted.transpose(0, 2, 1), filled.distance) + filled.spread

    each(add, zip(_groups(len(total), scores)), float(scores.size) * gaussians.mean.size)
    # Only the lower halves of the spreads were added up: they are mirrored.
    lower = np.tril(square)
    return weight.sum(axis=1), total, lower + np.tril(lower, -1).transpose(0, 2, 1)


def updated_moments(
    mean: Floats, covariance: Floats, sums: tuple[Floats, Floats, Floats], prior: Prior
) -> tuple[Floats, Floats]:
    """The M-step of Gaussians: their new means and covariances.

    ``sums`` are what :func:`statistics` returns. ``prior`` adds rows of independent cells to each
    Gaussian, distributed like the columns. A Gaussian without any count stays as it is.
    """
    # No standard deviation falls much below this part of the one of its column.
    smallest_sd = 1e-6
    count, total, square = sums
    # Distances are from the old means: squares of large numbers would lose the digits of variances.
    offset = prior.mean - mean
    identity = np.eye(mean.shape[1])
    count = count + prior.weight
    scale = 1.0 / divisors(count)[:, np.newaxis]
    like_column = identity * prior.sd[..., np.newaxis] ** 2 + outer_products(offset, offset)
    shift = scale * (total + prior.weight[:, np.newaxis] * offset)
    square = square + prior.weight[:, np.newaxis, np.newaxis] * like_column
    smallest = identity * (smallest_sd * prior.sd[..., np.newaxis]) ** 2
    # Squares around the old means become variances around the new ones.
    new_covariance = scale[:, :, np.newaxis] * square - outer_products(shift, shift) + smallest
    used = (count > 0)[:, np.newaxis]
    mean = np.where(used, mean + shift, mean)
    return mean, np.where(used[:, :, np.newaxis], new_covariance, covariance)


def outer_products(left: Floats, right: Floats) -> Floats:
    """Products of all pairs of two vectors; shape (n, d, d) of (n, d)."""
    return left[:, :, np.newaxis] * right[:, np.newaxis, :]


def conditionals(
    gaussians: Gaussians, scores: Floats, patterns: Patterns, wanted: Bools
) -> tuple[Floats, Floats]:
    """Distribution of each missing cell given the observed cells of its row.

    Parameters
    ----------
    gaussians, scores, patterns
        See :func:`log_densities`.
    wanted : bool ndarray of shape (n_components, n_rows)
        Which components are asked about which rows.

    Returns
    -------
    mean, sd : ndarrays of shape (n_components, n_rows, d)
        An observed cell has itself as mean, and sd 0; zeros where they are not wanted.
    """
    shape = len(gaussians.mean), *scores.shape
    mean = np.zeros(shape)
    variance = np.zeros(shape)
    for group in _groups(len(mean), scores):
        used = wanted[group].take(patterns.order, axis=1)
        chosen = np.flatnonzero(used.any(axis=0))
        rows = patterns.order[chosen]
        weights = used.take(chosen, axis=1).astype(np.float64)
        filled = Filled.from_rows(gaussians, group, scores, patterns, chosen, weights)
        completed = gaussians.mean[group, np.newaxis] + filled.distance
        mean[group, rows] = np.where(weights[:, :, np.newaxis] > 0.0, completed, 0.0)
        variance[group, rows] = filled.variance
    return mean, np.sqrt(variance)


def leave_one_out(gaussians: Gaussians, scores: Floats, patterns: Patterns) -> Floats:
    """Log density (nats) of each observed cell given the other observed cells of its row.

    The arguments are those of :func:`log_densities`.

    Returns
    -------
    ndarray of shape (n_components, n_rows, d)
        Zero where a cell is missing.
    """
    log_density = np.zeros((len(gaussians.mean), *scores.shape))
    observed = patterns.observed[patterns.pattern]
    precision = gaussians.precision
    # (n_components, n_patterns, d): the diagonal of the precision of the observed cells alone. As a
    # Schur complement it lacks what the missing cells explain.
    strength = np.diagonal(precision, axis1=1, axis2=2)
    strength = np.repeat(strength[:, np.newaxis], len(patterns.columns), axis=1)
    for p, (columns, n_missing) in enumerate(zip(patterns.columns, patterns.n_missing.tolist())):
        rows = columns[:n_missing, np.newaxis]
        observed_columns = columns[n_missing:]
        # Shape (n_components, n_missing, n_observed).
        cross = precision[:, rows, observed_columns]
        explained = cross * np.linalg.solve(precision[:, rows, rows.T], cross)
        strength[:, p, observed_columns] -= explained.sum(axis=1)
    for k in range(len(gaussians.mean)):
        distance = Filled.from_rows(gaussians, slice(k, k + 1), scores, patterns).distance[0]
        strengths = strength[k, patterns.pattern]
        # The square of a cell that no Gaussian can have may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            # For each cell, its strength times its distance from the mean given the other cells.
            residual = product(distance, precision[k])
            values = 0.5 * (np.log(strengths) - LOG_2_PI - residual**2 / strengths)
        log_density[k, patterns.order] = np.where(observed, values, 0.0)
    return log_density


class Filled(NamedTuple):
    """Rows whose missing cells have been filled by some components.

    Parameters
    ----------
    distance : ndarray of shape (n_components, n_rows, d)
        Expected distances from the mean.
    mapped : ndarray of shape (n_components, n_rows, d)
        The distances of the observed cells, zero elsewhere, times the precision.
    log_det : ndarray of shape (n_components, n_rows)
        Log determinants of the covariances of the observed cells.
    spread : ndarray of shape (n_components, d, d)
        Weighted sums of the conditional covariances; their lower halves. Empty without weights.
    variance : ndarray of shape (n_components, n_rows, d)
        Conditional variances; without rows where they were not wanted.
    """

    distance: Floats
    mapped: Floats
    log_det: Floats
    spread: Floats
    variance: Floats

    @classmethod
    def from_rows(
        cls,
        gaussians: Gaussians,
        group: slice,
        scores: Floats,
        patterns: Patterns,
        chosen: Ints | slice = slice(None),
        weight: Floats | None = None,
    ) -> Self:
        """Fill the missing cells of rows by their expectations under a group of components.

        ``chosen`` are places of rows in the order of the patterns. ``weight``, of shape
        (n_components, n_rows), has the weights of their conditional covariances: a component does
        not fill rows of weight zero. Without weights, no covariances are computed.
        """
        rows = patterns.order[chosen]
        d = scores.shape[1]
        # Unlike indexing, ``take`` releases Python's lock for other threads.
        distance = scores.take(rows, axis=0) - gaussians.mean[group, np.newaxis]
        if not patterns.are_complete:
            distance[np.isnan(distance)] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = product(distance, gaussians.precision[group])
        log_det = np.repeat(gaussians.log_det[group, np.newaxis], len(rows), axis=1)
        # Empty arrays tell the kernel to compute no covariances.
        spread = np.zeros((0 if weight is None else len(log_det), d, d))
        variance = np.zeros((len(log_det), 0 if weight is None else len(rows), d))
        filled = cls(distance, mapped, log_det, spread, variance)
        if not patterns.are_complete:
            weight = np.ones(log_det.shape) if weight is None else weight
            pattern_arguments = (
                patterns.columns,
                patterns.n_missing,
                patterns.pattern[chosen],
                weight,
            )
            _fill(gaussians.precision[group], np.empty((d + 1, d)), *pattern_arguments, *filled)
        return filled


@internal_kernel
def _sweep(matrix: Floats, index: Ints, swept: Floats) -> float:
    """Invert the block of a matrix that an index selects, by the sweep operator.

    Writes the lower half of the negative inverse into ``swept``, whose last row is workspace, and
    returns the log determinant of the block.
    """
    n = len(index)
    row = swept[len(matrix)]
    log_det = 0.0
    for i in range(n):
        for j in range(i + 1):
            swept[i, j] = matrix[index[i], index[j]]
    # The pivots of a positive definite matrix are positive, in any order.
    for p in range(n):
        pivot = swept[p, p]
        log_det += math.log(pivot)
        for i in range(n):
            row[i] = swept[max(i, p), min(i, p)]
        for i in range(n):
            factor = row[i] / pivot
            for j in range(i + 1):
                swept[i, j] -= factor * row[j]
        # The row and the column of the pivot, of which one half is stored, come last.
        for i in range(n):
            swept[max(i, p), min(i, p)] = row[i] / pivot
        swept[p, p] = -1.0 / pivot
    return log_det


@kernel
def _fill(
    precision: Floats,
    swept: Floats,
    columns: Ints,
    n_missing: Ints,
    pattern: Ints,
    weight: Floats,
    distance: Floats,
    mapped: Floats,
    log_det: Floats,
    spread: Floats,
    variance: Floats,
) -> None:
    """Fill in the missing cells of rows, those of a pattern one after another.

    ==========  =====================  =======================================================
    precision   (n_components, d, d)   of each component k
    swept       (d + 1, d)             workspace
    columns     (n_patterns, d)        columns of each pattern, the missing ones first
    n_missing   (n_patterns,)          number of missing columns of each pattern
    pattern     (n_rows,)              the pattern of each row
    weight      (k, n_rows)            weights of conditional covariances; rows of zero stay
    distance    (k, n_rows, d)         from the mean; zeros of missing cells become expectations
    mapped      (k, n_rows, d)         the distances times the precision
    log_det     (k, n_rows)            of the covariance; becomes that of the observed cells
    spread      (k or 0, d, d)         receives sums of conditional covariances, lower halves
    variance    (k, n_rows or 0, d)    receives conditional variances, if it has rows
    ==========  =====================  =======================================================
    """
    n_components, n_rows, d = distance.shape
    row_buffer = swept[d]
    for k in range(n_components):
        begin = 0
        while begin < n_rows:
            # Rows of a pattern stand together: the inverse and the spread are made once for all.
            p = pattern[begin]
            end = begin
            weights = 0.0
            while end < n_rows and pattern[end] == p:
                weights += weight[k, end]
                end += 1
            missing = columns[p, : n_missing[p]] if weights > 0.0 else columns[p, :0]
            n = len(missing)
            log_det_of_pattern = _sweep(precision[k], missing, swept)
            for r in range(begin, end):
                log_det[k, r] += log_det_of_pattern
                # Another component may fill the row.
                if weight[k, r] > 0.0:
                    for i in range(n):
                        row_buffer[i] = mapped[k, r, missing[i]]
                        distance[k, r, missing[i]] = swept[i, i] * row_buffer[i]
                        if variance.shape[1] > 0:
                            variance[k, r, missing[i]] = -swept[i, i]
                    for i in range(n):
                        expected = 0.0
                        for j in range(i):
                            expected += swept[i, j] * row_buffer[j]
                            distance[k, r, missing[j]] += swept[i, j] * row_buffer[i]
                        distance[k, r, missing[i]] += expected
            for i in range(n if len(spread) else 0):
                for j in range(i + 1):
                    spread[k, missing[i], missing[j]] -= weights * swept[i, j]
            begin = end
