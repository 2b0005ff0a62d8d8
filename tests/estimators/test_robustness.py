"""Tables that a user may hand over by mistake: each works, or is refused with the culprit named."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import skops.io
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier, is_regressor

from skpc import CutsetNetworkBD
from tests.estimators.cheap import EVERY, OF_NUMBERS, TABLES

N_ROWS = 60
every_estimator = pytest.mark.parametrize("kind", EVERY)
every_estimator_of_tables = pytest.mark.parametrize("kind", TABLES)


def numbers(n_rows: int = N_ROWS) -> np.ndarray:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n_rows).astype(float)
    return np.column_stack([kind, kind + rng.normal(size=n_rows), rng.normal(size=n_rows)])


def changed(row: int, column: int, value: float) -> np.ndarray:
    X = numbers()
    X[row, column] = value
    return X


def scaled(factor: float) -> np.ndarray:
    return numbers() * [1.0, factor, 1.0]


def read_only() -> np.ndarray:
    X = numbers()
    X.setflags(write=False)
    return X


def nullable(missing: bool) -> pd.DataFrame:
    X = numbers()
    frame = pd.DataFrame({"a": X[:, 0].astype(int), "b": X[:, 1], "c": X[:, 2] > 0})
    frame = frame.astype({"a": "Int64", "b": "Float64", "c": "boolean"})
    if missing:
        frame.loc[3, "a"] = frame.loc[4, "c"] = pd.NA
    return frame


def target(estimator, n_rows: int):
    if is_regressor(estimator):
        return np.linspace(0.0, 1.0, n_rows)
    if is_classifier(estimator):
        return np.arange(n_rows) % 2
    return None


def learn(kind: str, X, **parameters):
    """A new estimator of a kind, fitted."""
    new = clone(EVERY[kind]).set_params(**parameters)
    return new.fit(X, target(new, np.shape(X)[0]))


@cache
def of_numbers(kind: str):
    """An estimator of a kind, learned once; no test changes it."""
    return learn(kind, numbers())


def answers(fitted, X) -> list[np.ndarray]:
    """Everything that can be asked of rows."""
    methods = ("score_samples", "complete", "transform", "predict", "predict_proba")
    return [np.asarray(getattr(fitted, m)(X)) for m in methods if hasattr(fitted, m)]


def first_answer(fitted):
    """A method that answers for rows."""
    methods = ("score_samples", "transform", "predict", "impute")
    return next(getattr(fitted, m) for m in methods if hasattr(fitted, m))


WORKS = {
    "two rows": numbers(2),
    "one column": numbers()[:, 1:2],
    "all constant": np.ones((30, 3)),
    "the same column twice": np.hstack([numbers(), numbers()]),
    "tiny numbers": scaled(1e-300),
    "denormal numbers": scaled(1e-310),
    "large numbers": scaled(1e60),
    "numbers that differ by rounding": numbers() * [1.0, 1e-16, 1e-8] + [0.0, 1.0, 1e8],
    "an outlier": changed(0, 1, 1e12),
    "float16": numbers().astype(np.float16),
    "objects": numbers().astype(object),
    "read-only": read_only(),
    "nullable dtypes": nullable(missing=False),
    "Fortran order": np.asfortranarray(numbers()),
    "every second row": numbers(120)[::2],
}
WITH_HOLES = {
    "an empty row": np.vstack([numbers(), np.full((1, 3), np.nan)]),
    "nullable dtypes with NA": nullable(missing=True),
    "polars with None": pl.DataFrame({"a": [0, 1, None] * 20, "b": numbers()[:, 1]}),
    "strings": pd.DataFrame({"a": ["x", "y", None] * 20, "b": numbers()[:, 1]}),
}
REFUSED = {
    "no rows": (np.empty((0, 3)), ValueError, r"0 sample\(s\)"),
    "no columns": (np.empty((10, 0)), ValueError, r"0 feature\(s\)"),
    "one dimension": (numbers()[:, 0], ValueError, "Expected 2D array"),
    "three dimensions": (numbers()[np.newaxis], ValueError, "dim 3"),
    "infinity": (changed(3, 1, np.inf), ValueError, "infinity"),
    "1e300": (changed(3, 1, 1e300), ValueError, "1e.(150|70); column 1 reaches 1e.300"),
    "the largest floats": (changed(3, 1, np.finfo(float).max), ValueError, "column 1 reaches"),
    "nothing but missing cells": (
        numbers() * np.nan,
        ValueError,
        r"of X is missing|contain\w* NaN",
    ),
    "sparse": (scipy.sparse.csr_matrix(numbers()), TypeError, "dense"),
    "complex": (numbers() * 1j, ValueError, "(?i)complex"),
}


@pytest.mark.filterwarnings("ignore:Expectation propagation has not converged")
@every_estimator
def test_unusual_tables_work(kind):
    for name, X in WORKS.items():
        if kind.startswith("expected") and name in {"large numbers", "an outlier"}:
            # Models of scikit-learn do not take these.
            continue
        # A mixture has at most as many components as there are rows.
        few = {"n_components": 2} if kind == "table mixture" else {}
        for answer in answers(learn(kind, X, **few), X):
            if (kind, name) == ("cell errors", "an outlier"):
                # It takes this one away.
                assert np.argwhere(pd.isna(answer)).tolist() in ([[0, 1]], []), name
                continue
            assert not pd.isna(answer).any(), name
            assert not np.isposinf(answer.astype(float)).any(), name


@every_estimator
def test_missing_cells_and_strings_work_or_are_refused(kind):
    for name, X in WITH_HOLES.items():
        if kind in OF_NUMBERS:
            with pytest.raises(ValueError, match="NaN|could not convert string"):
                learn(kind, X)
        else:
            # Who takes wrong cells away leaves missing ones missing.
            fitted, of_scores = learn(kind, X), kind == "cell errors"
            given = (
                [fitted.score_samples(X), np.asarray(fitted.predict(X))]
                if of_scores
                else answers(fitted, X)
            )
            assert not any(pd.isna(answer).any() for answer in given), name


@every_estimator
@pytest.mark.parametrize("name", REFUSED)
def test_hopeless_tables_are_refused_with_the_reason(kind, name):
    X, error, match = REFUSED[name]
    new = clone(EVERY[kind])
    with pytest.raises(error, match=match):
        new.fit(X, target(new, np.shape(X)[0]))
    assert not hasattr(new, "n_features_in_")


@every_estimator_of_tables
def test_ten_thousand_categories_are_refused_by_name_if_they_come_back(kind):
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(10_000)] * 2, "b": 1.0})
    with pytest.raises(ValueError, match="at most 1000 categories; column 'id' has 10000"):
        learn(kind, frame)


@every_estimator_of_tables
def test_names_of_rows_and_columns_without_values_are_warned_of_and_work(kind):
    X = numbers()
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(N_ROWS)], "a": X[:, 0], "void": np.nan})
    with pytest.warns(UserWarning, match="Some columns") as caught:
        fitted = learn(kind, frame)
    assert len(caught) == 2
    assert all(len(answer) == N_ROWS for answer in answers(fitted, frame))


@every_estimator
def test_other_columns_than_in_fit_are_refused(kind):
    X = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    ask = first_answer(of_numbers(kind))
    with pytest.raises(ValueError, match="2 features, but .* is expecting 3"):
        ask(X[:, :2])
    ask = first_answer(learn(kind, frame))
    for others in (frame[["b", "a", "c"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="feature names"):
            ask(others)


@every_estimator
def test_masked_cells_are_missing(kind):
    X, rng = numbers(), np.random.default_rng(1)
    masked = np.ma.array(X, mask=rng.random(X.shape) < 0.1)
    if kind in OF_NUMBERS:
        with pytest.raises(ValueError, match="NaN"):
            learn(kind, masked)
        return
    seeds = dict.fromkeys((n for n in EVERY[kind].get_params() if n.endswith("random_state")), 0)
    filled = masked.filled(np.nan)
    of_masked = answers(learn(kind, masked, **seeds), masked)
    for a, b in zip(of_masked, answers(learn(kind, filled, **seeds), filled)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "kind", [k for k, e in EVERY.items() if is_classifier(e) or is_regressor(e)]
)
def test_masked_targets_are_refused(kind):
    y = target(EVERY[kind], N_ROWS)
    with pytest.raises(ValueError, match="y contains NaN"):
        clone(EVERY[kind]).fit(numbers(), np.ma.array(y, mask=np.arange(N_ROWS) == 3))


@every_estimator
def test_lazy_frames_are_refused_with_the_way_out(kind):
    frame, y = pl.DataFrame(numbers(), schema=["a", "b", "c"]), target(EVERY[kind], N_ROWS)
    asks = [first_answer(of_numbers(kind))]
    if not hasattr(EVERY[kind], "fit_rows"):
        # Densities learn from the blocks of a LazyFrame.
        asks.append(lambda X: clone(EVERY[kind]).fit(X, y))
    for ask in asks:
        with pytest.raises(TypeError, match="polars LazyFrame. Pass X.collect()"):
            ask(frame.lazy())


@every_estimator
def test_memory_maps_are_read(kind, tmp_path):
    X = numbers()
    np.save(tmp_path / "table.npy", X)
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    for a, b in zip(answers(learn(kind, mapped), mapped), answers(of_numbers(kind), X)):
        np.testing.assert_array_equal(a, b)


@every_estimator
def test_what_was_saved_answers_alike(kind):
    X, fitted = numbers(), of_numbers(kind)
    expected = first_answer(fitted)(X)
    np.testing.assert_array_equal(first_answer(pickle.loads(pickle.dumps(fitted)))(X), expected)
    np.testing.assert_array_equal(first_answer(saved_and_loaded(fitted))(X), expected)


def saved_and_loaded(fitted):
    """What skops makes of it, which knows no classes but those of skpc and scikit-learn."""
    saved = skops.io.dumps(fitted)
    names = skops.io.get_untrusted_types(data=saved)
    assert all(name.startswith(("skpc.", "sklearn.", "functools.")) for name in names)
    return skops.io.loads(saved, trusted=names)


def typed_pandas() -> pd.DataFrame:
    X = numbers()
    words = np.array(["low", "mid", "high"], dtype=object)[X[:, 0].astype(int)]
    return pd.DataFrame(
        {
            "whole": pd.array(X[:, 0].astype(int), dtype="Int64"),
            "small": X[:, 1].astype(np.float32),
            "text": pd.array(words, dtype="string"),
            "plain": words,
            "flag": X[:, 2] > 0,
            "maybe": pd.array(X[:, 2] > 0, dtype="boolean"),
            "kind": pd.Categorical(words, categories=["mid", "low", "high", "never"]),
            "level": pd.Categorical(words, categories=["low", "mid", "high"], ordered=True),
            "code": pd.Categorical(X[:, 0].astype(int)),
        }
    )


def typed_polars() -> pl.DataFrame:
    words = typed_pandas()["plain"].tolist()
    return pl.DataFrame(
        {
            "whole": pl.Series(range(N_ROWS), dtype=pl.UInt16),
            "price": pl.Series([f"{i}.25" for i in range(N_ROWS)]).cast(pl.Decimal(10, 2)),
            "text": words,
            "flag": [True, False] * (N_ROWS // 2),
            "kind": pl.Series(words, dtype=pl.Categorical),
            "level": pl.Series(words, dtype=pl.Enum(["mid", "low", "high", "never"])),
        }
    )


@every_estimator_of_tables
def test_what_was_learned_from_a_frame_is_saved_without_classes_of_its_library(kind):
    for frame in (typed_pandas(), typed_polars()):
        fitted = learn(kind, frame)
        for loaded in (saved_and_loaded(fitted), pickle.loads(pickle.dumps(fitted))):
            expected = first_answer(fitted)(frame)
            np.testing.assert_array_equal(first_answer(loaded)(frame), expected)
            if hasattr(loaded, "sample") and not is_regressor(loaded):
                drawn = loaded.sample(20, random_state=0)
                drawn = drawn[0] if is_classifier(loaded) else drawn
                assert list(drawn.dtypes) == list(frame.dtypes)


def test_a_saved_dtype_calls_nothing_but_dtypes():
    domain = CutsetNetworkBD().fit(typed_polars()).domain_
    form = replace(domain.form, dtypes=(("read_csv", "/etc/hostname"),) * domain.n_features)
    with pytest.raises(ValueError, match="must be one of polars; found 'read_csv'"):
        replace(domain, form=form).decode(np.zeros((1, domain.n_features)))


@every_estimator
def test_eight_threads_find_what_one_finds(kind):
    X, ask = numbers(1000), first_answer(of_numbers(kind))
    alone = ask(X)
    together = Parallel(n_jobs=8, backend="threading")(delayed(ask)(X) for _ in range(8))
    for answer in together:
        np.testing.assert_array_equal(answer, alone)
