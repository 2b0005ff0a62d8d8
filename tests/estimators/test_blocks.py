"""Tables larger than memory: answers block by block, and learning from an iterator of blocks."""

import tracemalloc

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.estimators import streaming

DENSITIES = [
    CutsetNetworkBD(n_components=2, random_state=0),
    SoftLearnSPN(random_state=0),
    MixtureOfAllTrees(max_iter=2, random_state=0),
]
PREDICTORS = [
    DensityClassifier(CutsetNetworkBD(random_state=0), cv=2, random_state=0),
    DensityClassifier(CutsetNetworkBD(random_state=0), joint=True, classifiers=None),
    DensityRegressor(CutsetNetworkBD(random_state=0), cv=2, random_state=0),
    ExpectedKernelSVR(random_state=0),
    ExpectedKernelSVC(random_state=0),
    ExpectedKernelSVC(calibration="sigmoid", random_state=0),
]


def table(n_rows: int = 100) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, n_rows), rng.normal(size=(n_rows, 2))])
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def answers(model, X):
    """What every method that goes by blocks says, by its name."""
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
def small_blocks(monkeypatch):
    """Blocks of ten rows of three cells."""
    return lambda: monkeypatch.setattr(streaming, "_CELLS", 30)


@pytest.mark.parametrize("model", [*DENSITIES, *PREDICTORS], ids=repr)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blocks_of_rows_are_answered_like_the_whole(model, n_jobs, small_blocks):
    X = table()
    complete = np.nan_to_num(X)
    target = (complete[:, 1] > 0).astype(float)
    fitted = clone(model).fit(complete, target)
    whole = answers(fitted, X)
    small_blocks()
    with joblib.parallel_config(n_jobs=n_jobs):
        for name, found in answers(fitted, X).items():
            np.testing.assert_allclose(found, whole[name], rtol=1e-10, err_msg=name)


def test_draws_in_blocks_are_seeded_and_differ_between_blocks(small_blocks):
    model = CutsetNetworkBD(random_state=0).fit(table(1000))
    small_blocks()
    hidden = np.full((20, 3), np.nan)
    drawn = model.complete(hidden, "sample", random_state=0)
    np.testing.assert_array_equal(model.complete(hidden, "sample", random_state=0), drawn)
    assert not np.isin(drawn[:10, 1], drawn[10:, 1]).any()


def test_an_infinite_cell_is_named_by_its_row_in_the_whole(small_blocks):
    model = CutsetNetworkBD().fit(table())
    X = table()
    X[57, 1] = np.inf
    small_blocks()
    with pytest.raises(ValueError, match="column 1, row 57"):
        model.score_samples(X)


def test_other_errors_in_a_block_say_from_where_its_rows_are_counted(small_blocks):
    model = CutsetNetworkBD(handle_unknown="error").fit(table())
    X = table()
    X[57, 0] = 9.0
    small_blocks()
    with pytest.raises(ValueError, match="column 0, row 7") as caught:
        model.score_samples(X)
    assert caught.value.__notes__ == ["Rows are counted from row 50 of X, the first of a block."]


def test_no_rows_are_refused_as_they_are_everywhere():
    model = CutsetNetworkBD().fit(table())
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.score_samples(table()[:0])


@pytest.mark.parametrize("ask", ["score_samples", "score_cells", "complete"])
def test_memory_does_not_grow_with_a_table_on_disk(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "_CELLS", 2**15)
    model = CutsetNetworkBD(random_state=0).fit(table())
    peaks = []
    for n_rows in (50_000, 200_000):
        np.save(tmp_path / "table.npy", table(n_rows))
        mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
        tracemalloc.start()
        answer = getattr(model, ask)(mapped)
        peaks.append(tracemalloc.get_traced_memory()[1] - answer.nbytes)
        tracemalloc.stop()
    # What a block needs beside the answer.
    assert peaks[1] < 1.2 * peaks[0]


def in_blocks(X, size):
    return (X[start : start + size] for start in range(0, len(X), size))


@pytest.mark.parametrize("incomplete", [False, True])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_categories_are_learned_from_blocks_as_from_the_whole(incomplete, size):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 5)).astype(float)
    X[:, 1] = X[:, 0]
    if incomplete:
        X[rng.random(X.shape) < 0.2] = np.nan
    model = CutsetNetworkBD(categories=[[0, 1]] * 5, random_state=0)
    X[0] = 1.0  # The first block must show every column, whatever its size.
    whole = clone(model).fit(X)
    parts = clone(model).fit(in_blocks(X, size))
    np.testing.assert_array_equal(parts.score_samples(X), whole.score_samples(X))
    assert parts.lower_bound_ == whole.lower_bound_


def test_numbers_are_learned_from_blocks_by_the_bins_of_the_first(small_blocks):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    X[:, 1] += X[:, 0]
    whole = CutsetNetworkBD().fit(X)
    parts = CutsetNetworkBD().fit(in_blocks(X, 5_000))
    first = CutsetNetworkBD().fit(X[:5_000])
    np.testing.assert_array_equal(parts.domain_.axes[0][0], first.domain_.axes[0][0])
    test = rng.normal(size=(5000, 3))
    test[:, 1] += test[:, 0]
    assert parts.score(test) == pytest.approx(whole.score(test), abs=0.02)
    assert parts.lower_bound_ == pytest.approx(whole.lower_bound_, abs=0.02)


def test_a_mixture_of_frames_read_in_chunks(tmp_path):
    frame = pd.DataFrame({"sky": ["sun", "rain"] * 500, "t": np.arange(1000.0) % 17})
    frame.to_csv(tmp_path / "weather.csv", index=False)
    chunks = pd.read_csv(tmp_path / "weather.csv", chunksize=300)
    model = CutsetNetworkBD(n_components=2, random_state=0).fit(chunks)
    assert model.feature_names_in_.tolist() == ["sky", "t"]
    assert np.isfinite(model.score(frame))


@pytest.mark.parametrize(
    ("blocks", "weight", "match"),
    [
        (iter([]), None, "at least one block of rows; found none"),
        (iter([np.eye(3)]), np.ones(3), "sample_weight needs a table"),
        (iter([np.eye(3), np.eye(2)]), None, "2 features, but .* is expecting 3"),
        (iter([np.full((3, 3), np.nan)]), None, "missing"),
    ],
)
def test_streams_that_cannot_be_learned_are_refused(blocks, weight, match):
    model = CutsetNetworkBD()
    with pytest.raises(ValueError, match=match):
        model.fit(blocks, sample_weight=weight)
    assert not hasattr(model, "n_features_in_")


def test_what_is_wrong_with_a_block_is_told_with_its_number():
    blocks = iter([np.eye(3), np.full((2, 3), np.inf)])
    with pytest.raises(ValueError, match="infinity") as caught:
        CutsetNetworkBD().fit(blocks)
    assert caught.value.__notes__ == ["This is in block 1 of the iterator, counted from 0."]


def test_empty_blocks_are_passed_over():
    X = table()
    blocks = iter([X[:0], X[:50], X[:0], X[50:]])
    found = CutsetNetworkBD(random_state=0).fit(blocks).lower_bound_
    whole = CutsetNetworkBD(random_state=0).fit(iter([X[:50], X[50:]])).lower_bound_
    assert found == whole


def test_categories_that_the_first_block_lacks_are_warned_of():
    blocks = [pd.DataFrame({"sky": [sky] * 9, "n": range(9)}) for sky in ("sun", "rain", "fog")]
    model = CutsetNetworkBD(random_state=0)
    with pytest.warns(UserWarning, match="'rain' in column 'sky', row 0.*Row of block 1"):
        model.fit(iter(blocks))
    with pytest.raises(ValueError, match="unknown category 'rain'"):
        model.set_params(handle_unknown="error").fit(iter(blocks))


@pytest.mark.parametrize("model", [SoftLearnSPN(), MixtureOfAllTrees()], ids=repr)
def test_other_learners_say_that_they_take_no_iterator(model):
    with pytest.raises(TypeError, match="found an iterator .* Only the fit of CutsetNetworkBD"):
        model.fit(iter([table()]))
