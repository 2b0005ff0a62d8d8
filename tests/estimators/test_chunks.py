"""Tables larger than memory: answers chunk by chunk."""

import tracemalloc

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    MixtureOfAllTrees,
)
from skpc.estimators import _answers

MODELS = [
    CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
    MixtureOfAllTrees(max_iter=2, random_state=0),
    DensityClassifier(
        CutsetNetworkBD(random_state=0), classifiers=["logistic"], cv=2, random_state=0
    ),
    DensityRegressor(CutsetNetworkBD(random_state=0), regressors=["ridge"], cv=2, random_state=0),
    ExpectedKernelSVR(random_state=0),
    ExpectedKernelSVC(
        CutsetNetworkBD(structured=True, random_state=0), calibration="sigmoid", random_state=0
    ),
]


def table(n_rows: int = 100) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, n_rows), rng.normal(size=(n_rows, 2))])
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def answers(model, X):
    """What every method that goes by chunks says, by its name."""
    if isinstance(model, DensityClassifier):
        return {
            "score_samples": model.score_samples(X),
            "predict_log_proba": model.predict_log_proba(X),
            "predict": model.predict(X),
        }
    if isinstance(model, DensityRegressor):
        mean, std = model.predict(X, return_std=True)
        return {
            "score_samples": model.score_samples(X),
            "mean": mean,
            "std": std,
            "quantiles": model.predict_quantiles(X, [0.2, 0.7]),
        }
    if isinstance(model, ExpectedKernelSVR):
        mean, std = model.predict(X, return_std=True)
        return {"predict": model.predict(X), "mean": mean, "std": std}
    if isinstance(model, ExpectedKernelSVC):
        found = {"decision_function": model.decision_function(X), "predict": model.predict(X)}
        return found | ({"predict_proba": model.predict_proba(X)} if model.calibration else {})
    lower, upper = model.interval(X, 0.5)
    return {
        "score_samples": model.score_samples(X),
        "given": model.score_samples(X, given=[0]),
        "complete": model.complete(X),
        "mpe": model.complete(X, "mpe"),
        "score_cells": model.score_cells(X),
        "lower": lower,
        "upper": upper,
        "predict_column": model.predict_column(X, 0),
    }


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of ten rows of three cells."""
    return lambda: monkeypatch.setattr(_answers, "_ANSWERED_CELLS", 30)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_chunks_of_rows_are_answered_like_the_whole(model, small_chunks):
    X = table()
    complete = np.nan_to_num(X)
    target = (complete[:, 1] > 0).astype(float)
    fitted = clone(model).fit(complete, target)
    whole = answers(fitted, X)
    small_chunks()
    with joblib.parallel_config(n_jobs=2):
        for name, found in answers(fitted, X).items():
            np.testing.assert_allclose(found, whole[name], rtol=1e-10, err_msg=name)


def test_draws_in_chunks_are_seeded_and_differ_between_chunks(small_chunks):
    model = CutsetNetworkBD(random_state=0).fit(table(1000))
    small_chunks()
    hidden = np.full((20, 3), np.nan)
    drawn = model.complete(hidden, "sample", random_state=0)
    np.testing.assert_array_equal(model.complete(hidden, "sample", random_state=0), drawn)
    assert not np.isin(drawn[:10, 1], drawn[10:, 1]).any()


def test_an_infinite_cell_is_named_by_its_row_in_the_whole(small_chunks):
    model = CutsetNetworkBD().fit(table())
    X = table()
    X[57, 1] = np.inf
    small_chunks()
    with pytest.raises(ValueError, match="column 1, row 57"):
        model.score_samples(X)


def test_other_errors_in_a_chunk_say_from_where_its_rows_are_counted(small_chunks):
    model = CutsetNetworkBD(handle_unknown="error", categorical_features=[0]).fit(table())
    X = table()
    X[57, 0] = 9.0
    small_chunks()
    with pytest.raises(ValueError, match="column 0, row 7") as caught:
        model.score_samples(X)
    assert caught.value.__notes__ == ["Rows are counted from row 50 of X, the first of a chunk."]


def test_no_rows_are_refused_as_they_are_everywhere():
    model = CutsetNetworkBD().fit(table())
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.score_samples(table()[:0])


@pytest.mark.parametrize("ask", ["score_samples", "score_cells", "complete"])
def test_memory_does_not_grow_with_a_table_on_disk(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(_answers, "_ANSWERED_CELLS", 2**15)
    model = CutsetNetworkBD(random_state=0).fit(table())
    # The first answer loads kernels.
    getattr(model, ask)(table(50_000))
    peaks = []
    for n_rows in (50_000, 200_000):
        np.save(tmp_path / "table.npy", table(n_rows))
        mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
        tracemalloc.start()
        answer = getattr(model, ask)(mapped)
        kept, peak = tracemalloc.get_traced_memory()
        peaks.append(peak - kept)
        tracemalloc.stop()
        # Beside the answer, numba keeps about a hundred bytes of each call.
        assert kept - answer.nbytes < mapped.nbytes / 4
    # What a chunk needs beside the answer.
    assert peaks[1] < 1.2 * peaks[0]
