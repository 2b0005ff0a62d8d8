"""Weights of all spanning trees of a graph: their sum, and the probability of each edge.

A graph is given by the weights of the edges into each vertex, ``into[v, u]`` of the edge from the
parent u and ``into[v, n]`` of the edge from a virtual root; a tree hangs from the virtual root and
weighs the product of its edges. The sum over all trees is the determinant of the Laplacian M with
``M[v, v] = sum of into[v]`` and ``M[u, v] = -into[v, u]`` (the directed matrix-tree theorem).

Here vertices are eliminated one after the other, but unlike in an LU factorisation each diagonal is
summed anew from the weights that are left (Grassmann, Taksar and Heyman). Nothing is ever
subtracted, so that every number is accurate to rounding even where the weights differ by a hundred
orders of magnitude and the Laplacian is singular to working precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._jit import kernel

__all__ = [
    "check_weights",
    "differentiate",
    "edge_probabilities",
    "edges_into",
    "eliminate",
    "log_tree_weight",
    "refuse_unreachable",
    "scale_rows",
]


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
        share = into[k, k + 1 :]
        left = 0.0
        for u in range(n - k):
            left += share[u]
        if left < _SMALLEST:
            return k
        total[k] = left
        for u in range(n - k):
            share[u] /= left
        for v in range(k + 1, n):
            through = into[v, k]
            if through > 0.0:
                row = into[v, k + 1 :]
                for u in range(n - k):
                    row[u] += through * share[u]
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
        share, gain = eliminated[k, k + 1 :], gains[: n - k]
        gain[:] = 1.0
        for v in range(k + 1, n):
            row = slope[v, k + 1 :]
            as_parent = 0.0
            for u in range(n - k):
                as_parent += share[u] * row[u]
            slope[v, k] = as_parent
            through = eliminated[v, k]
            for u in range(n - k):
                gain[u] += through * (row[u] - as_parent)
        slope[k, k] = 0.0
        row = slope[k, k + 1 :]
        for u in range(n - k):
            # Rounding may bring what is nearly zero below it.
            row[u] = max(gain[u], 0.0) / total[k]


def edges_into(weight: Any, root_weight: Any = None) -> Floats:
    """Check the weights of a graph and arrange them by the vertex that edges lead into.

    Parameters
    ----------
    weight : array-like of shape (n, n)
        Weight of the edge from u to v, finite and not negative; symmetric if ``root_weight`` is
        None. The diagonal is ignored.
    root_weight : array-like of shape (n,) or None, default=None
        Weight of each vertex as a root; None for undirected trees, which then hang from the vertex
        of the greatest weight.

    Returns
    -------
    ndarray of shape (n, n + 1)
        Weights into each vertex (first axis); those of the roots in the last column.

    Raises
    ------
    ValueError
        If a shape is wrong, or a weight is negative, infinite or NaN; if undirected weights are
        not symmetric.

    Examples
    --------
    >>> from skpc.all_trees.laplacian import edges_into
    >>> edges_into([[0.0, 2.0], [3.0, 0.0]], [0.5, 0.25])
    array([[0.  , 3.  , 0.5 ],
           [2.  , 0.  , 0.25]])
    """
    weight = np.asarray(weight, dtype=np.float64)
    if weight.ndim != 2 or weight.shape[0] != weight.shape[1] or not len(weight):
        raise ValueError(f"weight must have shape (n, n) with n > 0; found {weight.shape}.")
    n = len(weight)
    check_weights(weight[~np.eye(n, dtype=bool)], "weight")
    into = np.zeros((n, n + 1))
    into[:, :n] = weight.T
    np.fill_diagonal(into, 0.0)
    if root_weight is not None:
        roots = np.asarray(root_weight, dtype=np.float64)
        if roots.shape != (n,):
            raise ValueError(f"root_weight must have shape ({n},); found {roots.shape}.")
        check_weights(roots, "root_weight")
        into[:, n] = roots
        return into
    uneven = np.argwhere(into[:, :n] != into[:, :n].T)
    if len(uneven):
        u, v = uneven[0]
        raise ValueError(
            f"Without root_weight trees are undirected and weight must be symmetric; found "
            f"weight[{u}, {v}] = {weight[u, v]} and weight[{v}, {u}] = {weight[v, u]}."
        )
    with np.errstate(over="ignore"):
        root = int(into.sum(axis=1).argmax())
    into[root, :n] = 0.0
    into[root, n] = 1.0
    return into


def log_tree_weight(weight: Any, root_weight: Any = None) -> float:
    """Log of the sum over all spanning trees of the product of their edge weights.

    With ``root_weight`` the trees are directed: each vertex has one parent or is a root, and weighs
    the edge from its parent or its weight as a root. The sum is the determinant of the Laplacian
    (a minor of it, if undirected), found in O(n^3) without cancellation.

    Parameters
    ----------
    weight : array-like of shape (n, n)
        Weight of the edge from u to v, finite and not negative; symmetric if ``root_weight`` is
        None. The diagonal is ignored.
    root_weight : array-like of shape (n,) or None, default=None
        Weight of each vertex as a root; None for undirected trees.

    Returns
    -------
    float
        In nats; -inf if there is no spanning tree of positive weight.

    Raises
    ------
    ValueError
        If a shape is wrong, or a weight is negative, infinite or NaN; if undirected weights are
        not symmetric.

    Examples
    --------
    Cayley's formula: there are 5 ** 3 trees on five vertices, and 6 ** 4 rooted forests.

    >>> import numpy as np
    >>> from skpc.all_trees import log_tree_weight
    >>> round(float(np.exp(log_tree_weight(np.ones((5, 5))))))
    125
    >>> round(float(np.exp(log_tree_weight(np.ones((5, 5)), np.ones(5)))))
    1296
    """
    into = edges_into(weight, root_weight)
    total = np.empty(len(into))
    log_scale = scale_rows(into)
    if eliminate(into, total) >= 0:
        return -math.inf
    return float(log_scale + np.log(total).sum())


def edge_probabilities(weight: Any, root_weight: Any = None) -> tuple[Floats, Floats]:
    """Probability of each edge in a random spanning tree.

    A tree is drawn with probability proportional to the product of its edge weights. The
    probability of an edge is its weight times the derivative of :func:`log_tree_weight`; it is
    found in O(n^3), its error is of the order of rounding whatever the weights.

    Parameters
    ----------
    weight : array-like of shape (n, n)
        Weight of the edge from u to v, finite and not negative; symmetric if ``root_weight`` is
        None. The diagonal is ignored.
    root_weight : array-like of shape (n,) or None, default=None
        Weight of each vertex as a root; None for undirected trees.

    Returns
    -------
    edge : ndarray of shape (n, n)
        Probability that u is the parent of v; symmetric, that the edge is in the tree, if
        undirected.
    root : ndarray of shape (n,)
        Probability that a vertex is a root; zeros if undirected.

    Raises
    ------
    ValueError
        As :func:`log_tree_weight`; also if there is no spanning tree of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees import edge_probabilities
    >>> edge, root = edge_probabilities(np.ones((3, 3)))
    >>> edge.round(3)
    array([[0.   , 0.667, 0.667],
           [0.667, 0.   , 0.667],
           [0.667, 0.667, 0.   ]])
    """
    into = edges_into(weight, root_weight)
    n = len(into)
    scale_rows(into)
    eliminated, total, slope = into.copy(), np.empty(n), np.empty_like(into)
    refuse_unreachable(eliminate(eliminated, total))
    differentiate(eliminated, total, slope)
    probability = np.minimum(into * slope, 1.0)
    edge, root = np.ascontiguousarray(probability[:, :n].T), probability[:, n].copy()
    if root_weight is None:
        return np.minimum(edge + edge.T, 1.0), np.zeros(n)
    return edge, root


def refuse_unreachable(vertex: int) -> None:
    """Raise the error for a vertex that no tree reaches; -1 means there is none."""
    if vertex >= 0:
        raise ValueError(
            "A spanning tree needs a way of positive weight from a root to every vertex; found "
            f"none to vertex {vertex}. Give it an edge or a root weight (weights into one vertex "
            "may differ by 300 orders of magnitude)."
        )


def check_weights(values: Floats, name: str) -> None:
    """Refuse weights that are negative, infinite or NaN."""
    wrong = values[~((values >= 0.0) & (values < np.inf))]
    if len(wrong):
        raise ValueError(f"{name} must be finite and not negative; found {wrong[0]}.")
