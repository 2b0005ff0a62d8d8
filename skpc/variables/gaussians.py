r"""Gaussians over several numbers, with missing cells.

With the precision :math:`\Lambda`, the distance :math:`d` of the observed cells o from their means,
and missing cells m,

.. math::

    \log N(x_o) &= -\tfrac{|o|}{2} \log 2 \pi + \tfrac12 \log |\Lambda|
        - \tfrac12 \log |\Lambda_{mm}|
        - \tfrac12 \left(d_o^T \Lambda_{oo} d_o - |C^{-1} \Lambda_{mo} d_o|^2\right),
        \qquad C C^T = \Lambda_{mm}, \\
    E[d_m \mid x_o] &= -\Lambda_{mm}^{-1} \Lambda_{mo} d_o,
    \qquad \operatorname{Cov}[d_m \mid x_o] = \Lambda_{mm}^{-1},

so that only the missing block of the precision is factorised. For distances alone, if more cells
are missing than observed, the observed block of the covariance is factorised instead. Eight rows
are factorised side by side, and rows of one missingness pattern share the factor. With :math:`d`
set to zero at missing cells, one product :math:`\Lambda d` for all rows has both
:math:`\Lambda_{oo} d_o` and :math:`\Lambda_{mo} d_o`.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotri
from sklearn.utils import gen_even_slices

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc._threads import each
from skpc.variables.gaussian_blocks import condition, fill, split_columns
from skpc.variables.gaussian_rows import add_rows, measure_rows
from skpc.variables.patterns import Patterns

_LOG_2_PI = math.log(2.0 * math.pi)
#: Number of columns from which LAPACK treats each matrix by itself: it knows that factors are
#: triangular.
_LAPACK_FROM = 32
#: Rows that are taken together, whatever the number of threads.
_ROWS = 8192
#: Largest number of parts in which threads measure and add up rows, and least number of rows of a
#: part.
_PARTS, _ROWS_OF_PART = 4, 1024


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
    >>> both = Gaussians.of(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> both.log_det.round(3), both.precision.round(3)
    (array([1.099]), array([[[ 0.667, -0.333],
            [-0.333,  0.667]]]))
    """

    mean: Floats
    covariance: Floats
    precision: Floats
    log_det: Floats

    @staticmethod
    def of(mean: Floats, covariance: Floats) -> Gaussians:
        """Gaussians of given means and covariances.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a covariance is not positive definite.
        """
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        log_det = 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        precision = _inverses(root)
        mean, covariance = np.ascontiguousarray(mean), np.ascontiguousarray(covariance)
        return Gaussians(mean, covariance, precision, log_det)

    def some(self, chosen: slice) -> Gaussians:
        """Some of the components."""
        return Gaussians(*(of_each[chosen] for of_each in self))

    def measure(
        self,
        scores: Floats,
        patterns: Patterns,
        wanted: NDArray[np.bool_],
        square: Floats,
        log_det: Floats,
    ) -> None:
        """Write the squared distances and log determinants of wanted rows.

        Scores and columns of ``wanted`` are in the order of the patterns; the results are not. See
        :func:`squared_distances`.
        """
        measure_rows(*self, scores, *patterns, wanted, square, log_det)

    def add(
        self,
        scores: Floats,
        patterns: Patterns,
        weight: Floats,
        spread_weight: Floats,
        total: Floats,
        square: Floats,
    ) -> None:
        """Add expected sums, and lower triangles of those of products; see :func:`statistics`.

        Scores and weights are in the order of the patterns.
        """
        add_rows(*self, scores, *patterns, weight, spread_weight, total, square)


def _inverses(root: Floats) -> Floats:
    """Inverses of matrices from their Cholesky factors, shape (n, d, d)."""
    if root.shape[1] < _LAPACK_FROM:
        half = np.linalg.inv(root)
        return np.ascontiguousarray(half.transpose(0, 2, 1) @ half)
    found = np.empty_like(root)
    for one, factor in zip(found, root):
        # To Fortran a C-contiguous lower triangle is an upper one.
        one[:] = dpotri(factor.T)[0].T
        _mirror(one)
    return found


@kernel
def _mirror(matrix: Floats) -> None:
    """Make a matrix symmetric, from its lower triangle."""
    for i in range(len(matrix)):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


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
    >>> both = Gaussians.of(np.zeros((1, 2)), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> scores = np.array([[0.0, 0.0], [2.0, np.nan]])
    >>> log_densities(both, scores, Patterns.of(scores)).round(3)
    array([[-2.387, -2.266]])
    """
    square, log_det = squared_distances(gaussians, scores, patterns)
    square += log_det
    square += patterns.n_seen * _LOG_2_PI
    return np.multiply(square, -0.5, out=square)


def squared_distances(
    gaussians: Gaussians,
    scores: Floats,
    patterns: Patterns,
    wanted: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    """Squared Mahalanobis distances of the observed cells of each row from the means.

    Parameters
    ----------
    gaussians : Gaussians
    scores : ndarray of shape (n_rows, d)
        NaN where missing.
    patterns : Patterns
        Those of the scores.
    wanted : bool ndarray of shape (n_components, n_rows), default=None
        Whether a row is to be measured under a component; None wants all.

    Returns
    -------
    square, log_det : ndarrays of shape (n_components, n_rows)
        The squared distances, and the log determinants of the covariances of the observed cells;
        zero for a row without any. Infinity and zero where they are not wanted.
    """
    if wanted is None:
        wanted = np.ones((len(gaussians.mean), len(scores)), dtype=bool)
    square, log_det = np.full(wanted.shape, np.inf), np.zeros(wanted.shape)

    def measure(part: Patterns) -> None:
        # Unlike brackets, this leaves Python's lock to other threads.
        mine, some = scores.take(part.order, axis=0), wanted.take(part.order, axis=1)
        gaussians.measure(mine, part, some, square, log_det)

    parts = ((part,) for part in patterns.parts(min(_ROWS, _rows_of_part(len(scores)))))
    each(measure, parts, float(scores.size) * gaussians.mean.size)
    # Squares of scores that overflow leave differences of infinities.
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
    n_components, d = gaussians.mean.shape
    spread = weight if spread_weight is None else spread_weight
    # Each of several components is a task; the rows of few are divided, whatever the threads.
    n_tasks = min(n_components, effective_n_jobs(None))
    size = len(scores) if n_components >= _PARTS else _rows_of_part(len(scores))

    def add(some: slice, rows: Patterns) -> tuple[Floats, Floats]:
        own = gaussians.some(some)
        total, square = np.zeros(own.mean.shape), np.zeros(own.covariance.shape)
        for part in rows.parts(_ROWS):
            mine = np.take(weight[some], part.order, axis=1)
            of_spread = mine if spread is weight else np.take(spread[some], part.order, axis=1)
            own.add(scores.take(part.order, axis=0), part, mine, of_spread, total, square)
        return total, square

    components, parts = list(gen_even_slices(n_components, n_tasks)), patterns.parts(size)
    tasks = product(components, parts)
    found = each(add, tasks, float(scores.size) * n_components * d)
    total, square = np.zeros((n_components, d)), np.zeros((n_components, d, d))
    for (some, _), (of_rows, squares) in zip(product(components, parts), found):
        total[some] += of_rows
        square[some] += squares
    for one in square:
        _mirror(one)
    return weight.sum(axis=1), total, square


def _rows_of_part(n_rows: int) -> int:
    return max(_ROWS_OF_PART, -(-n_rows // _PARTS))


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
    shape = (len(gaussians.mean), *scores.shape)
    mean, variance = np.zeros(shape), np.zeros(shape)
    _conditionals(*gaussians, scores[patterns.order], *patterns, wanted, mean, variance)
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
    found = np.zeros((len(gaussians.mean), *scores.shape))
    _leave_one_out(*gaussians, scores[patterns.order], *patterns, found)
    return found


@kernel
def _conditionals(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    found: Floats,
    variance: Floats,
) -> None:
    d = scores.shape[1]
    here, gone = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    space, inverse, spread = np.empty(d), np.empty((d, d)), np.empty((d, d))
    away = np.empty(d)
    for pattern in range(len(ptr) - 1):
        n_here, n_gone = split_columns(seen, pattern, here, gone)
        for k in range(len(mean)):
            known = False
            for r in range(ptr[pattern], ptr[pattern + 1]):
                if not wanted[k, order[r]]:
                    continue
                if not known:
                    condition(
                        covariance[k], precision[k], here, n_here, gone, n_gone, inverse, spread
                    )
                    known = True
                for v in range(d):
                    away[v] = scores[r, v] - mean[k, v] if seen[pattern, v] else 0.0
                fill(covariance[k], precision[k], here, n_here, gone, n_gone, inverse, away, space)
                for v in range(d):
                    found[k, order[r], v] = mean[k, v] + away[v]
                for i in range(n_gone):
                    variance[k, order[r], gone[i]] = spread[i, i]


@kernel
def _leave_one_out(
    mean: Floats,
    covariance: Floats,
    precision: Floats,
    log_det: Floats,
    scores: Floats,
    order: Ints,
    ptr: Ints,
    seen: NDArray[np.bool_],
    found: Floats,
) -> None:
    d = scores.shape[1]
    here, gone = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    inverse, observed = np.empty((d, d)), np.empty((d, d))
    for pattern in range(len(ptr) - 1):
        n_here, n_gone = split_columns(seen, pattern, here, gone)
        for k in range(len(mean)):
            # The precision is to the observed cells what the covariance is to the missing ones.
            condition(precision[k], covariance[k], gone, n_gone, here, n_here, inverse, observed)
            for r in range(ptr[pattern], ptr[pattern + 1]):
                for i in range(n_here):
                    rest = 0.0
                    for j in range(n_here):
                        rest += observed[i, j] * (scores[r, here[j]] - mean[k, here[j]])
                    strength = observed[i, i]
                    found[k, order[r], here[i]] = 0.5 * (
                        math.log(strength) - _LOG_2_PI - rest * rest / strength
                    )
