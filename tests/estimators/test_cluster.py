"""Components learned on a dask cluster."""

import joblib
import numpy as np
import pytest

from skpc import CutsetNetworkBD

distributed = pytest.importorskip("distributed", reason="dask is optional")


def test_components_learned_on_a_dask_cluster_are_the_same():
    # Few distinct rows: joblib scatters arrays above a kilobyte, and dropping its copies again
    # can fail with a KeyError that Python ignores and pytest does not.
    rows = np.random.default_rng(0).integers(0, 2, (400, 6)).astype(float)
    model = CutsetNetworkBD(n_components=3, random_state=0)
    at_home = model.fit(rows).score_samples(rows)
    # Workers in threads start at once; by TCP they are sent pickles as if they were far away.
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp://",
            host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        on_cluster = model.fit(rows).score_samples(rows)
        tasks = list(cluster.scheduler.task_prefixes)
    assert any("learn_cutset_network" in task for task in tasks)
    np.testing.assert_array_equal(on_cluster, at_home)
