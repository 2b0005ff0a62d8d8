"""Work that joblib hands to a cluster of dask or of ray, and collections of dask."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from skpc import CutsetNetworkBD, TableMixture
from skpc.estimators import _answers, _table_chunks

base = pytest.importorskip("dask.base", reason="dask is optional")
distributed = pytest.importorskip("distributed", reason="dask is optional")


def test_components_learned_on_a_dask_cluster_are_the_same():
    # Few distinct rows: joblib scatters arrays above a kilobyte, and dropping its copies again
    # can fail with a KeyError that Python ignores and pytest does not.
    rows = np.random.default_rng(0).integers(0, 2, (400, 6)).astype(float)
    model = CutsetNetworkBD(n_components=3, param_ess=1.0, random_state=0)
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


def test_dask_tells_models_apart_by_what_they_have_learned():
    """Parameters are fields of a dataclass, and dask takes other dataclasses for their fields."""
    first, second = np.repeat(np.eye(4), 9, axis=0), np.repeat(np.ones((4, 4)), 9, axis=0)
    models = [CutsetNetworkBD().fit(X) for X in (first, second, first)]
    tokens = [base.tokenize(model.score_samples) for model in models]
    assert tokens[0] == tokens[2] != tokens[1]


@pytest.mark.slow  # Two processes are started, and import everything.
def test_two_processes_find_what_one_finds(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (2_000, 12)).astype(float)
    rows[:, 1] = rows[:, 0]
    rows[rng.random(rows.shape) < 0.1] = np.nan
    monkeypatch.setattr(_answers, "_ANSWERED_CELLS", 6_000)  # four chunks of rows

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
    for here, there in zip(at_home, on_cluster):
        np.testing.assert_allclose(there, here, rtol=1e-10)


@pytest.mark.slow  # Processes are started, and import everything.
def test_a_grid_search_by_ray_finds_the_same():
    ray = pytest.importorskip("ray", reason="ray is optional")
    from ray.util.joblib import register_ray

    rows = np.random.default_rng(0).integers(0, 2, (400, 6)).astype(float)
    search = GridSearchCV(CutsetNetworkBD(random_state=0), {"ess": [0.1, 1.0]}, cv=2, n_jobs=2)
    at_home = search.fit(rows).cv_results_["mean_test_score"]
    register_ray()
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        with joblib.parallel_config(backend="ray"):
            by_ray = search.fit(rows).cv_results_["mean_test_score"]
    finally:
        ray.shutdown()
    np.testing.assert_allclose(by_ray, at_home, rtol=1e-10)


def in_a_cluster():
    return distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=None,
    )


def binary():
    X = np.random.default_rng(0).integers(0, 2, (2_000, 6)).astype(float)
    X[:, 3] = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    return X


def test_a_dask_array_is_learned_where_its_chunks_are(monkeypatch):
    array = pytest.importorskip("dask.array", reason="dask is optional")
    monkeypatch.setattr(_table_chunks, "SAMPLE_ROWS", 300)
    X = binary()
    lazy = array.from_array(X, chunks=(450, 4))
    for model in (
        CutsetNetworkBD(categories=[[0, 1]] * 6),
        TableMixture(n_components=2, categories=[[0, 1]] * 6, random_state=0),
    ):
        here = model.fit(X[at : at + 450] for at in range(0, 2_000, 450)).score_samples(X)
        with in_a_cluster() as cluster, distributed.Client(cluster):
            there = model.fit(lazy).score_samples(X)
            tasks = " ".join(cluster.scheduler.task_prefixes)
        assert "counted" in tasks
        assert "together" in tasks
        np.testing.assert_allclose(there, here, rtol=1e-10)


def test_answers_for_a_dask_array_are_lazy():
    array = pytest.importorskip("dask.array", reason="dask is optional")
    X = binary()
    X[:, 5] += np.random.default_rng(1).normal(size=len(X))
    model = CutsetNetworkBD(random_state=0).fit(X)
    X[::3, 1] = np.nan
    lazy = array.from_array(X, chunks=(450, 4))
    asked = {
        "score_samples": {},
        "complete": {},
        "score_cells": {},
        "predict_column": {"column": 1},
    }
    for name, given in asked.items():
        found = getattr(model, name)(lazy, **given)
        assert isinstance(found, array.Array)
        whole = getattr(model, name)(X, **given)
        assert found.shape == whole.shape
        np.testing.assert_allclose(found.compute(), whole, rtol=1e-10, err_msg=name)
    for found, whole in zip(model.interval(lazy), model.interval(X)):
        np.testing.assert_allclose(found.compute(), whole, rtol=1e-10)
    assert model.score(lazy) == pytest.approx(model.score(X), abs=1e-10)
    drawn = model.complete(lazy, "sample", random_state=0)
    np.testing.assert_array_equal(drawn.compute(), drawn.compute())


def test_dask_frames_are_learned_and_answered():
    dataframe = pytest.importorskip("dask.dataframe", reason="it needs pyarrow")
    frame = pd.DataFrame(binary(), columns=list("abcdef"))
    frame["sky"] = np.where(frame["a"] > 0, "sun", "rain")
    whole = CutsetNetworkBD(random_state=0).fit(frame)
    frame.loc[::3, "sky"] = None
    # The last of the parts is empty.
    lazy = dataframe.from_pandas(frame, npartitions=3)
    lazy = dataframe.concat([lazy, lazy[lazy["a"] > 1]])
    model = CutsetNetworkBD(random_state=0).fit(lazy)
    np.testing.assert_allclose(
        model.score_samples(lazy).compute(), model.score_samples(frame), rtol=1e-10
    )
    filled = whole.complete(lazy)
    assert isinstance(filled, dataframe.DataFrame)
    found, expected = filled.compute(), whole.complete(frame)
    assert found["sky"].tolist() == expected["sky"].tolist()
    np.testing.assert_array_equal(found[list("abcdef")], expected[list("abcdef")])
