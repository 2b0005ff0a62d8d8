"""Groups of similar rows, sharp or soft."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import softmax

from skpc._arrays import Floats, Ints
from skpc._threads import product

#: Rows whose distances are computed together.
_ROWS = 4096


class Numbers(NamedTuple):
    """Rows as points: their Euclidean distances count a different category as one."""

    #: Coordinates, zero where missing; shape (n_rows, n_coordinates).
    point: Floats
    #: One where a coordinate is observed, zero where missing; None if nothing is missing.
    observed: Floats | None


def as_numbers(rows: Floats, n_states: Ints, mean: Floats, sd: Floats) -> Numbers:
    """Give rows coordinates.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Encoded rows, NaN where missing.
    n_states : ndarray of shape (n_columns,)
        Number of categories; 0 for a column of numbers.
    mean, sd : ndarrays of shape (n_columns,)
        What the columns of numbers are standardised by.

    Returns
    -------
    Numbers
        A standardised number for a column of numbers, 0 or 1 for one of two categories, and as
        many coordinates as states for another.
    """
    columns = []
    for column, count in enumerate(n_states):
        cells = rows[:, [column]]
        if count > 2:
            # Two different states are at a distance of one.
            one_hot = np.sqrt(0.5) * (cells == np.arange(count))
            columns.append(np.where(np.isnan(cells), np.nan, one_hot))
        else:
            if not count:
                cells = (cells - mean[column]) / sd[column]
            columns.append(cells)
    point = np.hstack(columns)
    missing = np.isnan(point)
    if not missing.any():
        return Numbers(point, None)
    return Numbers(np.where(missing, 0.0, point), (~missing).astype(np.float64))


def cluster_points(
    point: Floats,
    weight: Floats,
    n_clusters: int,
    random_state: np.random.RandomState,
    max_iter: int = 30,
) -> Floats:
    """Memberships of rows in clusters, by weighted k-means from a start by k-means++.

    The steps are those of ``sklearn.cluster.KMeans``, except that a cluster that loses all its rows
    keeps its centroid. That class hangs in a forked child whose parent has used it (OpenMP), and
    changes the number of BLAS threads and the filters of warnings for all threads of a process.

    Parameters
    ----------
    point : ndarray of shape (n_rows, n_coordinates)
        Complete rows.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_clusters : int
        Greatest number of clusters.
    random_state : RandomState
        Draws the start.
    max_iter : int, default=30
        Greatest number of iterations; few do for clusters that EM starts from.

    Returns
    -------
    ndarray of shape (n_rows, n_clusters)
        One for the cluster of each row, zero elsewhere. No cluster is empty: there are fewer if
        fewer rows are distinct.
    """
    # The first rows usually show that there are enough distinct ones.
    if n_clusters > 1 and len(np.unique(point[: 8 * n_clusters], axis=0)) < n_clusters:
        # All rows are compared only where they do not.
        n_clusters = min(n_clusters, len(np.unique(point, axis=0)))
    if n_clusters == 1:
        return np.ones((len(point), 1))
    points = Numbers(point - point.mean(axis=0), None)
    # Centroids that move by less than this part of the variance of the points have converged.
    variance = points.point.var(axis=0).mean()
    tol = 1e-4 * variance
    # It would load half of scikit-learn with this package.
    from sklearn.cluster import kmeans_plusplus

    start, _ = kmeans_plusplus(
        points.point, n_clusters, sample_weight=weight, random_state=random_state
    )
    centroid = _k_means(points, weight, start, max_iter, tol)
    # Clusters without rows are left out.
    nearest = _relative_distances(points, centroid).argmin(axis=1)
    _, label = np.unique(nearest, return_inverse=True)
    return np.eye(label.max() + 1)[label]


def cluster_rows(
    numbers: Numbers,
    weight: Floats,
    n_clusters: int,
    max_iter: int,
    random_state: np.random.RandomState,
) -> Floats:
    """Distances of rows to the centroids of weighted k-means.

    It starts from distinct rows, drawn in proportion to their weights. A cluster that loses all
    its rows keeps its centroid. Missing coordinates are skipped.

    Parameters
    ----------
    numbers : Numbers
        Distinct rows, at least ``n_clusters``.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_clusters, max_iter : int
        Number of clusters and greatest number of iterations.
    random_state : RandomState
        Draws the start.

    Returns
    -------
    ndarray of shape (n_rows, n_clusters)
        Euclidean distances.
    """
    share = weight / weight.sum()
    start = random_state.choice(len(numbers.point), n_clusters, replace=False, p=share)
    centroid = _k_means(numbers, weight, numbers.point[start], max_iter)
    square = 2.0 * _relative_distances(numbers, centroid)
    length = np.einsum("ij,ij->i", numbers.point, numbers.point)
    square += length[:, np.newaxis]
    # Rounding may leave less than nothing of a point at its centroid.
    return np.sqrt(np.maximum(square, 0.0))


def _k_means(
    numbers: Numbers, weight: Floats, centroid: Floats, max_iter: int, tol: float = 0.0
) -> Floats:
    """The centroids of weighted k-means; a cluster that loses all its rows keeps its own."""
    label = np.full(len(numbers.point), -1)
    for _ in range(max_iter):
        before = label
        label = _relative_distances(numbers, centroid).argmin(axis=1)
        if np.array_equal(label, before):
            break
        moved = _centroids(numbers, weight, label, centroid)
        shift = ((moved - centroid) ** 2).sum()
        centroid = moved
        if shift <= tol:
            break
    return centroid


def _relative_distances(numbers: Numbers, centroid: Floats) -> Floats:
    """Half the squared distances to the centroids, less that of each point to the origin."""
    point, observed = numbers
    square = 0.5 * centroid**2
    length = 0.5 * np.einsum("ij,ij->i", centroid, centroid)
    distance = np.empty((len(point), len(centroid)))
    for begin in range(0, len(point), _ROWS):
        rows = slice(begin, begin + _ROWS)
        if observed is not None:
            length = product(observed[rows], square.T)
        distance[rows] = length - product(point[rows], centroid.T)
    return distance


def _centroids(numbers: Numbers, weight: Floats, label: Ints, centroid: Floats) -> Floats:
    """Weighted means of the observed coordinates of clusters."""
    point, observed = numbers
    shape = (len(point), len(centroid))
    # One weight in each row, in the column of its cluster.
    member = csr_array((weight, label, np.arange(len(point) + 1)), shape=shape).T
    total = np.bincount(label, weight, len(centroid))[:, np.newaxis]
    if observed is not None:
        total = member @ observed
    has_rows = total > 0
    inverse = 1.0 / np.where(has_rows, total, 1.0)
    return np.where(has_rows, member @ point * inverse, centroid)


def soft_memberships(distance: Floats, beta: float) -> Floats:
    """Memberships of rows in clusters (the reweighting function of section 4.3 of the paper).

    Parameters
    ----------
    distance : ndarray of shape (n_rows, n_clusters)
        Distances to the centroids.
    beta : float
        How sharp they are; zero makes them all equal.

    Returns
    -------
    ndarray of shape (n_rows, n_clusters)
        The softmax of ``beta`` times one minus the share of each distance in those of the row.
    """
    total = distance.sum(axis=1, keepdims=True)
    share = distance / np.where(total > 0, total, 1.0)
    closeness = 1.0 - share
    return softmax(beta * closeness, axis=1)
