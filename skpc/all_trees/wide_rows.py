"""Determinants and inverses of single Laplacians of many vertices.

Products of matrices do the work of an inverse: they are the fastest there is on large matrices, and
leave Python's lock to other threads, as LAPACK's inverses do not.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from skpc._arrays import Floats

#: LAPACK inverts matrices of up to this number of vertices.
_LEAF = 96
#: An answer is taken if no pivot has lost more than this share of its diagonal entry.
_LOST = 1e-10


def log_weight_of_trees(into: Floats, symmetric: bool) -> float:
    """Log weight of all trees of one graph, NaN where rounding has spoilt it.

    Parameters
    ----------
    into : array of shape (n, n + 1)
        Weights into each vertex, those of the root last; zero on the diagonal.
    symmetric : bool
        Whether the weights between vertices are.
    """
    laplacian, diagonal = _laplacian(into)
    if symmetric:
        triangle, _ = lapack.dpotrf(laplacian, overwrite_a=True)
        return _log_product(triangle.diagonal() ** 2, diagonal)
    triangle, _, _ = lapack.dgetrf(laplacian, overwrite_a=True)
    return _log_product(triangle.diagonal(), diagonal)


def invert_laplacian(into: Floats, symmetric: bool, inverse: Floats) -> float:
    """Fill in the inverse of the Laplacian whose columns are the weights into each vertex.

    Parameters
    ----------
    into, symmetric
        See :func:`log_weight_of_trees`.
    inverse : array of shape (n, n)
        Overwritten.

    Returns
    -------
    float
        As :func:`log_weight_of_trees`.
    """
    laplacian, diagonal = _laplacian(into)
    pivot = np.empty(len(into))
    with np.errstate(all="ignore"):
        _invert(laplacian, symmetric, inverse, pivot)
    return _log_product(pivot, diagonal)


def _laplacian(into: Floats) -> tuple[Floats, Floats]:
    """The Laplacian whose columns are the weights into each vertex, and its diagonal.

    No entry of a column outweighs that on the diagonal, so that LAPACK moves no row.
    """
    laplacian, diagonal = -into[:, :-1].T, into.sum(axis=1)
    np.fill_diagonal(laplacian, diagonal)
    return laplacian, diagonal


def _log_product(pivot: Floats, diagonal: Floats) -> float:
    return float(np.log(pivot).sum()) if np.all(pivot > _LOST * diagonal) else math.nan


def _invert(matrix: Floats, symmetric: bool, inverse: Floats, pivot: Floats) -> None:
    """Invert a matrix by halves: one block, and what the other is given it (Schur complement)."""
    n = len(matrix)
    if n <= _LEAF:
        triangle, order, _ = lapack.dgetrf(matrix)
        inverse[:], _ = lapack.dgetrs(triangle, order, np.eye(n))
        pivot[:] = triangle.diagonal()
        return
    one, other = slice(n // 2), slice(n // 2, n)
    first, second = inverse[one, one], inverse[other, other]
    _invert(matrix[one, one], symmetric, first, pivot[one])
    right = first @ matrix[one, other]
    left = right.T if symmetric else matrix[other, one] @ first
    _invert(matrix[other, other] - matrix[other, one] @ right, symmetric, second, pivot[other])
    across = right @ second
    np.negative(across, out=inverse[one, other])
    np.negative(across.T if symmetric else second @ left, out=inverse[other, one])
    first += across @ left
