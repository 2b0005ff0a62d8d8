"""Groups of similar rows, sharp or soft."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import softmax

from skpc._arrays import Floats, Ints, picked
from skpc._fitting import Rows, Statistics, Stop, learn
from skpc._threads import product, slices

#: Rows whose distances are computed together.
_ROWS = 4096
#: Once no row moves to another cluster nothing is gained, in any unit: less than the least float.
_NOTHING = np.nextafter(0.0, 1.0)


class Numbers(NamedTuple):
    """Rows as points: their Euclidean distances count a different category as one."""

    #: Coordinates, zero where missing; shape (n_rows, n_coordinates).
    point: Any
    #: One where a coordinate is observed, zero where missing; None if nothing is missing.
    observed: Floats | None


@dataclass(frozen=True, eq=False)
class ClusterSums(Statistics):
    """Weights and sums of the rows of each cluster, by coordinates; half squared distances."""

    weight: Floats
    total: Floats
    log_likelihood: float


class Centroids(NamedTuple):
    """The model of k-means; see :class:`skpc._fitting.Parametrised`.

    Each row belongs to the nearest centroid. A cluster that loses all its rows keeps its own.
    """

    centroid: Floats

    @classmethod
    def drawn(
        cls,
        numbers: Numbers,
        weight: Floats,
        n_clusters: int,
        random_state: np.random.RandomState,
    ) -> Self:
        """Distinct rows, drawn in proportion to their weights."""
        share = weight / weight.sum()
        n_rows = len(numbers.point)
        return cls(numbers.point[random_state.choice(n_rows, n_clusters, replace=False, p=share)])

    def relative_distances(self, numbers: Numbers) -> Floats:
        """Half the squared distances to the centroids, less that of each point to the origin."""
        point, observed = numbers
        square = 0.5 * self.centroid**2
        length = 0.5 * np.einsum("ij,ij->i", self.centroid, self.centroid)
        distance = np.empty((len(point), len(self.centroid)), point.dtype)
        for rows in slices(len(point), _ROWS):
            if observed is not None:
                length = product(observed[rows], square.T)
            distance[rows] = length - product(point[rows], self.centroid.T)
        return distance

    def nearest(self, numbers: Numbers) -> Ints:
        """The number of the cluster of each row."""
        return self.relative_distances(numbers).argmin(axis=1)

    def expected(self, numbers: Numbers, weight: Floats) -> ClusterSums:
        """The E-step: sums over the observed coordinates of the rows of each cluster."""
        point, observed = numbers
        distance = self.relative_distances(numbers)
        label = distance.argmin(axis=1)
        # One weight in each row, in the column of its cluster.
        row_weight = weight.astype(point.dtype)
        entries = row_weight, label, np.arange(len(point) + 1)
        member = csr_array(entries, shape=distance.shape).T
        total = np.bincount(label, weight, len(self.centroid)).astype(point.dtype)[:, np.newaxis]
        if observed is not None:
            total = member @ observed
        closeness = -float(weight @ picked(distance, label))
        return ClusterSums(total, member @ point, closeness)

    def m_step(self, sums: ClusterSums) -> Self:
        """The weighted means of clusters."""
        has_rows = sums.weight > 0
        mean = sums.total / np.where(has_rows, sums.weight, 1)
        return type(self)(np.where(has_rows, mean, self.centroid))


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
    return Numbers(np.where(missing, 0.0, point), 1.0 - missing)


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
    # It would load half of scikit-learn with this package.
    from sklearn.cluster import kmeans_plusplus

    start, _ = kmeans_plusplus(
        points.point, n_clusters, sample_weight=weight, random_state=random_state
    )
    clusters = learn([Centroids(start)], Rows(points, weight), Stop(max_iter, _NOTHING)).model
    # Clusters without rows are left out.
    _, label = np.unique(clusters.nearest(points), return_inverse=True)
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
    start = Centroids.drawn(numbers, weight, n_clusters, random_state)
    stop = Stop(max_iter, _NOTHING)
    clusters = learn([start], Rows(numbers, weight), stop).model
    square = 2.0 * clusters.relative_distances(numbers)
    length = np.einsum("ij,ij->i", numbers.point, numbers.point)
    square += length[:, np.newaxis]
    # Rounding may leave less than nothing of a point at its centroid.
    return np.sqrt(np.maximum(square, 0.0))


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
