"""Weights of all spanning trees of a graph: their sum, and the probability of each edge.

A graph is given by the weights of the edges into each vertex, ``into[v, u]`` of the edge from the
parent u and ``into[v, n]`` of the edge from a virtual root; a tree hangs from the virtual root and
weighs the product of its edges. The sum over all trees is the determinant of the Laplacian M with
``M[v, v] = sum of into[v]`` and ``M[u, v] = -into[v, u]`` (the directed matrix-tree theorem).

Here vertices are eliminated one after the other, but unlike in an LU factorisation each diagonal is
summed anew from the weights that are left (Grassmann, Taksar and Heyman). Nothing is ever
subtracted, so that every number is accurate to rounding even where the weights differ by a hundred
orders of magnitude and the Laplacian is singular to working precision.

:mod:`skpc.all_trees.determinants` eliminates the same way, eight rows side by side and for their
sums alone; it stands apart because draws of trees need one graph and every step of its elimination.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats
from skpc._jit import kernel

#: A smaller sum of weights is taken as zero: its inverse may overflow.
_SMALLEST = 1e-300


@kernel
def scale_rows(into: Floats) -> float:
    """Divide the weights into each vertex by the largest; return the log of the product of these.

    A tree has one edge into each vertex, so that its probability does not change.
    """
    log_scale = 0.0
    for v in range(into.shape[0]):
        largest = 0.0
        for u in range(into.shape[1]):
            largest = max(largest, into[v, u])
        if largest > 0.0:
            for u in range(into.shape[1]):
                into[v, u] = into[v, u] / largest
            log_scale += math.log(largest)
    return log_scale


@kernel
def eliminate(into: Floats, total: Floats) -> int:
    """Eliminate the vertices in turn; return the first that no tree reaches, else -1.

    Eliminating k adds to each edge u -> v the weight of the way u -> k -> v, into[v, k] times the
    probability that the parent of k is u.

    Parameters
    ----------
    into : array of shape (n, n + 1)
        Weights into each vertex; the diagonal is not read. Overwritten: for k < v, ``into[v, k]``
        becomes the weight of the edge k -> v when k is eliminated; for u > k, ``into[k, u]`` the
        weight of u -> k then, divided by ``total[k]``.
    total : array of shape (n,)
        Overwritten with the weight into each vertex when it is eliminated. The product is the
        weight of all trees.
    """
    n = len(into)
    for k in range(n):
        probability = into[k, k + 1 :]
        left = 0.0
        for u in range(n - k):
            left += probability[u]
        if left < _SMALLEST:
            return k
        total[k] = left
        for u in range(n - k):
            probability[u] /= left
        for v in range(k + 1, n):
            through = into[v, k]
            if through > 0.0:
                row = into[v, k + 1 :]
                for u in range(n - k):
                    row[u] += through * probability[u]
                into[v, v] = 0.0
    return -1


@kernel
def differentiate(eliminated: Floats, total: Floats, slope: Floats) -> None:
    """Derivatives of the log weight of all trees with respect to ``into``, by going back.

    Parameters
    ----------
    eliminated, total : arrays of shape (n, n + 1) and (n,)
        As :func:`eliminate` leaves them.
    slope : array of shape (n, n + 1)
        Overwritten with the derivatives; zero on the diagonal.
    """
    n = len(total)
    gains = np.empty(n)
    for k in range(n - 1, -1, -1):
        probability, gain = eliminated[k, k + 1 :], gains[: n - k]
        gain[:] = 1.0
        for v in range(k + 1, n):
            row = slope[v, k + 1 :]
            as_parent = 0.0
            for u in range(n - k):
                as_parent += probability[u] * row[u]
            slope[v, k] = as_parent
            through = eliminated[v, k]
            for u in range(n - k):
                gain[u] += through * (row[u] - as_parent)
        slope[k, k] = 0.0
        row = slope[k, k + 1 :]
        for u in range(n - k):
            # Rounding may bring what is nearly zero below it.
            row[u] = max(gain[u], 0.0) / total[k]


def hang_undirected(weight: Floats) -> Floats:
    """Weights into each vertex of the trees of an undirected graph, shape (n, n + 1).

    The trees hang from the vertex of the greatest weight, which becomes their one root.

    Parameters
    ----------
    weight : ndarray of shape (n, n)
        Symmetric weights of the edges; zero on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees.laplacian import hang_undirected
    >>> hang_undirected(np.array([[0.0, 2.0], [2.0, 0.0]]))
    array([[0., 0., 1.],
           [2., 0., 0.]])
    """
    n = len(weight)
    into = np.zeros((n, n + 1))
    into[:, :n] = weight
    with np.errstate(over="ignore"):
        root = int(into.sum(axis=1).argmax())
    into[root, :n] = 0.0
    into[root, n] = 1.0
    return into
