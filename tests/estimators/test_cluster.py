"""Work that joblib hands to a dask cluster."""

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skpc import CutsetNetworkBD
from skpc.estimators import streaming

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


@pytest.mark.slow  # Two processes are started, and import everything.
def test_two_processes_find_what_one_finds(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (2_000, 12)).astype(float)
    rows[:, 1] = rows[:, 0]
    rows[rng.random(rows.shape) < 0.1] = np.nan
    monkeypatch.setattr(streaming, "_CELLS", 6_000)  # four blocks of rows

    def answers():
        mixture = CutsetNetworkBD(n_components=3, n_init=2, max_iter=5, random_state=0)
        search = GridSearchCV(CutsetNetworkBD(random_state=0), {"ess": [0.1, 1.0]}, cv=2, n_jobs=2)
        search.fit(rows)
        yield mixture.fit(rows).score_samples(rows)
        yield search.cv_results_["mean_test_score"]
        yield search.best_estimator_.score_cells(rows)
        yield search.best_estimator_.complete(rows, "sample", random_state=0)

    at_home = list(answers())
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        on_cluster = list(answers())
        tasks = " ".join(cluster.scheduler.task_prefixes)
    assert "learn_cutset_network" in tasks
    assert "fit_and_score" in tasks
    assert "answer" in tasks
    for here, there in zip(at_home, on_cluster):
        np.testing.assert_allclose(there, here, rtol=1e-10)
