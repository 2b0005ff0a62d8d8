"""k-means: the clusters of scikit-learn, without what its class does to a process."""

import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris
from threadpoolctl import threadpool_info, threadpool_limits

from skpc.counting.clustering import cluster_points

RNG = np.random.default_rng(0)
TABLES = {
    "iris": load_iris().data,
    "digits": load_digits().data[:600],
    "binary": RNG.integers(0, 2, (500, 12)) * 1.0,
    "one column": RNG.normal(size=(300, 1)),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("n_clusters", [1, 2, 7, 30])
@pytest.mark.parametrize("max_iter", [2, 300])
def test_the_clusters_are_those_of_scikit_learn(table, n_clusters, max_iter):
    point = TABLES[table]
    weight = RNG.integers(1, 4, len(point)) * 1.0
    for seed in range(3):
        means = KMeans(n_clusters, n_init=1, max_iter=max_iter, tol=0.0, random_state=seed)
        expected = np.unique(means.fit(point, sample_weight=weight).labels_, return_inverse=True)[1]
        random_state = np.random.RandomState(seed)
        membership = cluster_points(point, weight, n_clusters, random_state, max_iter)
        np.testing.assert_array_equal(membership, np.eye(expected.max() + 1)[expected])


def test_there_are_no_more_clusters_than_distinct_rows_and_no_warning():
    close = np.repeat([[0.0], [1e-17], [1.0], [1.0 + 1e-16]], 5, axis=0)
    membership = cluster_points(close, np.ones(20), 6, np.random.RandomState(0))
    label = membership.argmax(axis=1)
    assert membership.shape == (20, 2)
    assert label.tolist() == [label[0]] * 10 + [1 - label[0]] * 10


def test_clustering_in_threads_changes_neither_warnings_nor_threads_of_blas():
    point = RNG.normal(size=(2000, 4))
    with threadpool_limits(2), warnings.catch_warnings():
        before, filters = [pool["num_threads"] for pool in threadpool_info()], warnings.filters
        copy = list(filters)
        Parallel(n_jobs=4, prefer="threads")(
            delayed(cluster_points)(point, np.ones(2000), 8, np.random.RandomState(seed))
            for seed in range(40)
        )
        assert [pool["num_threads"] for pool in threadpool_info()] == before
        assert warnings.filters is filters
        assert list(filters) == copy


def test_distinct_rows_are_counted_beyond_the_first_ones():
    """As many clusters as there are distinct rows, wherever these stand."""
    point = np.zeros((100, 1))
    point[-5:, 0] = np.arange(10, 60, 10)
    for n_clusters, expected in ((4, 4), (6, 6), (9, 6)):
        membership = cluster_points(point, np.ones(100), n_clusters, np.random.RandomState(0))
        assert membership.shape[1] == expected
