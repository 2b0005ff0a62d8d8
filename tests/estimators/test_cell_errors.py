"""CellErrorDetector: which cells it marks, what it makes of absurd values, what it refuses."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score

from skpc import (
    CellErrorDetector,
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.pooling.error_tails import TAIL_SHARE
from tests.naive import cell_errors as naive


def table(n_rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "kind": pd.Categorical(np.array(["low", "mid", "top"])[kind]),
            "size": np.round(kind * 8.0 + rng.normal(size=n_rows), 2),
            "flag": kind > 0,
            "name": np.array(["x", "y", "z"])[kind],
            "age": 20 + 30 * kind + rng.integers(0, 9, n_rows),
            "noise": rng.normal(size=n_rows),
        }
    )


def with_swaps(frame: pd.DataFrame, rate: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Some cells replaced by those of other rows, and which ones differ."""
    rng, swapped = np.random.default_rng(seed), frame.copy()
    for column in frame:
        some = np.flatnonzero(rng.random(len(frame)) < rate)
        others = frame[column].iloc[rng.integers(0, len(frame), len(some))]
        swapped.loc[swapped.index[some], column] = others.to_numpy()
    return swapped, (swapped != frame).to_numpy()


def new(**parameters) -> CellErrorDetector:
    return CellErrorDetector(CutsetNetworkBD(random_state=0), random_state=0, **parameters)


@pytest.fixture(scope="module")
def fitted() -> CellErrorDetector:
    return new().fit(table())


def test_wrong_cells_have_greater_probabilities_than_odd_ones():
    dirty, _ = with_swaps(table(1500), 0.03, 1)
    test, is_wrong = with_swaps(table(600, seed=5), 0.03, 2)
    detector = new(fdr=0.3).fit(dirty)
    probability = detector.predict_proba(test).to_numpy()
    oddness = -detector.density_.score_cells(test).to_numpy()
    told = np.arange(6) < 5  # nothing says what the last column should be
    by_posterior = average_precision_score(is_wrong[:, told].ravel(), probability[:, told].ravel())
    by_score = average_precision_score(is_wrong[:, told].ravel(), oddness[:, told].ravel())
    assert by_posterior > max(0.8, by_score + 0.1)
    marks = detector.predict(test)
    assert marks.dtypes.eq(bool).all()
    marks = marks.to_numpy()
    assert is_wrong[marks].mean() > 0.85
    assert (marks & is_wrong).sum() > 10
    assert 0.005 < detector.error_rate_[:5].mean() < 0.03
    low, high = detector.error_rate_interval_
    assert np.all(low <= detector.error_rate_)
    assert np.all(detector.error_rate_ <= high)


def test_right_tables_have_few_errors(fitted):
    assert fitted.error_rate_.mean() < 0.01
    assert fitted.predict(table(600, seed=7)).to_numpy().mean() < 0.002


def test_frames_keep_their_names_index_and_dtypes():
    fitted = new(error_rate=0.05, fdr=0.1).fit(table())
    frame = table(5)
    frame = frame.assign(name=["x", *frame["name"][1:]], size=[frame["size"][0], np.nan, 1, 1, 1])
    frame = frame.assign(size=frame["size"].where(np.arange(5) < 2, table(5)["size"]))
    frame.index = list("abcde")
    assert frame["kind"].iloc[0] == "top"
    probability = fitted.predict_proba(frame)
    assert list(probability.columns) == list(frame.columns)
    assert list(probability.index) == list(frame.index)
    assert probability.loc["b", "size"] == 0.0
    assert probability.loc["a"].idxmax() == "name"
    left = fitted.transform(frame)
    assert left.isna().to_numpy().sum() == 2
    assert left.loc["a", "name"] is None or pd.isna(left.loc["a", "name"])
    repaired = fitted.set_params(repair="mean").transform(frame)
    assert repaired.loc["a", "name"] == "z"
    assert repaired.isna().to_numpy().sum() == 1
    assert repaired.dtypes.equals(frame.dtypes)
    line = fitted.explain(frame).iloc[0]
    assert (line["row"], line["column"], line["value"]) == ("a", "name", "x")
    assert line["expected"] == repaired.loc["a", "name"]
    assert line["low"] is None


def test_polars_says_the_same(fitted):
    frame = table(20).drop(columns="kind")
    one = new().fit(table().drop(columns="kind"))
    two = new().fit(pl.from_pandas(table().drop(columns="kind")))
    marks = two.predict(pl.from_pandas(frame))
    assert isinstance(marks, pl.DataFrame)
    assert set(marks.dtypes) == {pl.Boolean}
    probability = two.predict_proba(pl.from_pandas(frame)).to_numpy()
    assert_allclose(probability, one.predict_proba(frame), atol=1e-12)
    wrong = pl.from_pandas(frame).with_columns(pl.lit(1e4).alias("size"))
    assert two.transform(wrong)["size"].null_count() == 20


@pytest.mark.parametrize(
    ("column", "value"), [("size", 1e300), ("size", -1e12), ("age", 10_000), ("age", 55.5)]
)
def test_absurd_numbers_are_wrong_and_leave_the_others_alone(fitted, column, value):
    frame = table(3).astype({"age": float})
    without = frame.assign(**{column: np.nan})
    frame[column] = value
    after, left = fitted.predict_proba(frame), fitted.predict_proba(without)
    assert (after[column] > 0.95).all()
    assert_allclose(after.drop(columns=column), left.drop(columns=column), atol=1e-3)
    cost = fitted.score_samples(frame) - fitted.score_samples(without)
    assert np.isfinite(cost).all()
    assert fitted.predict(frame)[column].all()


def test_unknown_categories_and_values_out_of_bounds_are_wrong():
    detector = new(bounds={"size": (-10.0, 40.0)}).fit(table())
    frame = table(2).assign(name=["q", "x"], size=[0.0, 41.0])
    with warnings.catch_warnings():
        # They do not count as missing, and nobody says so.
        warnings.simplefilter("error")
        probability = detector.predict_proba(frame)
        assert np.isfinite(detector.score_samples(frame)).all()
        marks = detector.predict(frame)
    assert probability.loc[0, "name"] > 0.95
    assert probability.loc[1, "size"] > 0.95
    assert marks.loc[0, "name"]
    assert marks.loc[1, "size"]
    with pytest.raises(ValueError, match="inf"):
        detector.predict(table(2).assign(size=np.inf))
    lenient = new(handle_unknown="missing").fit(table())
    assert lenient.predict_proba(frame.assign(size=0.0)).loc[0, "name"] == 0.0


def test_rows_have_the_density_of_a_sum_over_sets_of_wrong_cells():
    X = np.random.default_rng(0).integers(0, 2, (300, 4)).astype(float)
    X[:, 1] = X[:, 0]
    detector = new(error_rate=0.05).fit(X)

    def log_density(row):
        return float(detector.density_.score_samples(row[np.newaxis])[0])

    rate = detector._rates.replaced
    for row in X[:4]:
        alone = np.where(np.eye(4, dtype=bool), row, np.nan)
        margins = np.exp(detector.density_.score_samples(alone))
        log_error = np.log((1 - TAIL_SHARE) * margins + TAIL_SHARE / 2)
        listed = naive.hypotheses(log_density, row, log_error)
        draws, expected = naive.judge(listed, rate)
        assert detector.score_samples([row])[0] == pytest.approx(expected, abs=1e-9)
        assert (detector.predict_proba([row])[0] <= draws + 1e-12).all()


def test_stacks_answer_as_mixtures_of_their_members():
    members = [("a", CutsetNetworkBD(random_state=0)), ("b", HiddenChowLiuTree(random_state=0))]
    X = table(300)[["size", "flag", "age"]]
    detector = CellErrorDetector(StackedDensity(members, cv=2), random_state=0).fit(X)
    wrong = X[:4].assign(age=X["age"][:4] + 500)
    assert (detector.predict_proba(wrong)["age"] > 0.5).all()
    assert np.isfinite(detector.score_samples(wrong)).all()


def test_pickles_threads_and_seeds_give_the_same_bits(fitted):
    test, _ = with_swaps(table(300, seed=3), 0.05, 0)
    expected = fitted.predict_proba(test)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_proba(test), expected)
    assert_array_equal(new(n_jobs=3).fit(table()).predict_proba(test), expected)


def test_weights_are_repetitions():
    X = table(150)[["size", "flag"]].to_numpy(float)
    weight = np.random.default_rng(1).integers(0, 3, 150)
    one = new().fit(X, sample_weight=weight)
    two = new().fit(np.repeat(X, weight, axis=0)[::-1])
    assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)


def test_rates_can_be_given_by_column():
    detector = new(error_rate={"age": 0.1, "size": 0.001}).fit(table())
    rate = dict(zip(table(), detector.error_rate_))
    assert rate["age"] == pytest.approx(0.1, rel=1e-6)
    assert rate["size"] == pytest.approx(0.001, rel=1e-6)
    for wrong in (1.5, [0.1, 0.2], {"age": -1.0}):
        with pytest.raises(ValueError, match="error_rate must be"):
            new(error_rate=wrong).fit(table(50))


def test_tiny_tables_are_judged_by_what_is_known():
    detector = new().fit(table(8))
    assert detector.predict_proba(table(8)).to_numpy().max() < 0.9


def test_what_is_no_density_is_refused():
    with pytest.raises(TypeError, match="CellErrorDetector"):
        CellErrorDetector("network").fit(table(50))
    with pytest.raises(ValueError, match="fdr"):
        new(fdr=0.0).fit(table(50))


@pytest.mark.parametrize("density", [MixtureOfAllTrees(), SoftLearnSPN(random_state=0)])
def test_any_density_judges_cells(density):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1)) @ np.ones((1, 3)) + 0.1 * rng.normal(size=(300, 3))
    if isinstance(density, MixtureOfAllTrees):
        X = (X > 0.0).astype(float)
    detector = CellErrorDetector(density, error_rate=0.02, random_state=0).fit(X)
    row = np.median(X, axis=0)
    row[1] = X[:, 1].max() if row[1] < X[:, 1].max() else X[:, 1].min()
    assert detector.predict_proba([row])[0].argmax() == 1


def test_wrong_cells_of_a_column_tied_to_two_others_are_found_in_the_table_itself():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    X[:, 2] = X[:, 0] + X[:, 1] + 0.1 * X[:, 2]
    dirty, some = X.copy(), rng.random(1500) < 0.05
    dirty[some, 2] = rng.permutation(X[:, 2])[some]
    detector = CellErrorDetector(TableMixture(n_components=1), random_state=0).fit(dirty)
    marks, is_wrong = detector.predict(dirty), dirty != X
    assert is_wrong[marks].mean() >= 0.8
    assert marks[is_wrong].mean() >= 0.6
    assert (
        not CellErrorDetector(TableMixture(n_components=1), random_state=0).fit(X).predict(X).any()
    )
