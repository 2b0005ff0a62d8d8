"""Questions about single cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN
from tests.estimators.test_common import numbers, polars_table, table, with_holes

DENSITIES = [
    CutsetNetworkBD(random_state=0),
    SoftLearnSPN(random_state=0),
    MixtureOfAllTrees(max_iter=20, random_state=0),
]
every_density = pytest.mark.parametrize("density", DENSITIES, ids=lambda d: type(d).__name__)


@every_density
def test_the_surprise_of_a_cell_is_its_density_given_the_rest(density):
    frame = table()
    density.fit(frame)
    found = density.score_cells(frame)
    for name in frame:
        others = [column for column in frame if column != name]
        assert_allclose(found[name], density.score_samples(frame, given=others), atol=1e-9)
    holes = with_holes(frame)
    assert_array_equal(np.isnan(density.score_cells(holes)), holes.isna())


@every_density
def test_surprises_of_a_frame_are_a_frame_of_floats(density):
    frame = with_holes(table()).set_axis(range(7, 7 + len(table())))
    found = density.fit(frame).score_cells(frame)
    assert isinstance(found, pd.DataFrame)
    assert found.index.equals(frame.index)
    assert list(found.columns) == list(frame.columns)
    assert set(found.dtypes) == {np.dtype(np.float64)}
    frame = polars_table()
    found = density.fit(frame).score_cells(frame)
    assert isinstance(found, pl.DataFrame)
    assert found.schema == dict.fromkeys(frame.columns, pl.Float64)
    assert found.null_count().equals(frame.null_count())


@every_density
def test_a_wrong_cell_is_the_most_surprising_one(density):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 2, (400, 1)), 6, axis=1) ^ (rng.random((400, 6)) < 0.02)
    density.fit(X)
    odd = np.repeat([[0.0], [1.0]], 6, axis=1)
    odd[0, 2], odd[1, 4] = 1.0, 0.0
    assert density.score_cells(odd).argmin(axis=1).tolist() == [2, 4]


@every_density
def test_given_takes_names_numbers_and_masks_alike(density):
    frame = table()
    density.fit(frame)
    by_name = density.score_samples(frame, given=["kind", "age"])
    assert_array_equal(density.score_samples(frame, given=[0, 4]), by_name)
    assert_array_equal(
        density.score_samples(frame, given="kind"), density.score_samples(frame, given=["kind"])
    )
    assert_array_equal(
        density.score_samples(frame, given=4), density.score_samples(frame, given=["age"])
    )
    mask = [True, False, False, False, True]
    assert_array_equal(density.score_samples(frame, given=mask), by_name)
    assert_allclose(density.score_samples(frame, given=[]), density.score_samples(frame))
    known = frame.astype({"flag": object})
    known[["size", "flag", "note"]] = None
    total = by_name + density.score_samples(known)
    assert_allclose(total, density.score_samples(frame))


@every_density
@pytest.mark.parametrize(
    ("given", "message"), [(["colour"], "given names 'colour'"), ([7], "given must .* got 7")]
)
def test_columns_that_are_not_there_are_refused(density, given, message):
    density.fit(table())
    with pytest.raises(ValueError, match=message):
        density.score_samples(table(), given=given)
    with pytest.raises(ValueError, match=message.replace("given", "column")):
        density.predict_column(table(), given[0])


@every_density
def test_intervals_hold_the_share_of_numbers_that_they_promise(density):
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 4000)
    X = np.column_stack([3 * side, -3 * side]) + rng.normal(size=(4000, 2))
    density.fit(X[:2000])
    holes = X[2000:].copy()
    holes[:, 1] = np.nan
    for level in (0.5, 0.9):
        lower, upper = density.interval(holes, level=level)
        assert_array_equal(lower[:, 0], holes[:, 0])
        inside = (lower[:, 1] < X[2000:, 1]) & (X[2000:, 1] < upper[:, 1])
        assert inside.mean() == pytest.approx(level, abs=0.05)


@every_density
def test_intervals_are_tables_of_the_same_kind(density):
    frame = table()
    holes = with_holes(frame)
    lower, upper = density.fit(frame).interval(holes)
    assert list(lower.columns) == list(frame.columns)
    numeric = ["size", "age"]
    assert not lower[numeric].isna().any().any()
    assert (lower[numeric] <= upper[numeric]).all().all()
    words = ["kind", "flag", "note"]
    assert_array_equal(lower[words].isna(), holes[words].isna())
    assert isinstance(density.interval(polars_table())[0], pl.DataFrame)
    with pytest.raises(ValueError, match=r"level .* got 1"):
        density.interval(holes, level=1)


@every_density
def test_a_predicted_column_does_not_look_at_itself(density):
    frame = table(400)
    density.fit(frame)
    found = density.predict_column(frame, "kind")
    assert isinstance(found, pd.Series)
    assert found.dtype == frame["kind"].dtype
    assert (found == frame["kind"]).mean() > 0.8
    wrong = frame.assign(kind=frame["kind"].cat.set_categories(["top", "mid", "low"], rename=True))
    assert density.predict_column(wrong, "kind").equals(found)
    assert density.predict_column(frame, 0).equals(found)


@every_density
@pytest.mark.parametrize("make", [table, polars_table], ids=["pandas", "polars"])
def test_the_column_to_predict_may_be_lacking(density, make):
    frame = make()
    density.fit(frame)
    for name in frame.columns:
        lacking = frame.drop(columns=[name]) if make is table else frame.drop(name)
        before = lacking.columns
        found = density.predict_column(lacking, name)
        assert list(before) == list(lacking.columns)
        assert found.name == name
        assert found.equals(density.predict_column(frame, name))
        assert found.dtype == frame[name].dtype
    with pytest.raises(ValueError, match="feature names"):
        density.predict_column(lacking, frame.columns[0])
    with pytest.raises(NotFittedError):
        clone(density).predict_column(lacking, "kind")


@every_density
def test_a_predicted_number_is_its_posterior_mean(density):
    frame = table()
    density.fit(frame)
    hidden = frame.assign(size=np.nan)
    expected = density.complete(hidden)["size"]
    assert_array_equal(density.predict_column(frame, "size"), expected)
    assert density.predict_column(frame, "flag").dtype == bool
    assert density.predict_column(polars_table(), "note").dtype == pl.String


@every_density
def test_arrays_give_arrays_of_the_kind_of_the_column(density):
    X = numbers()
    density.fit(X)
    assert density.predict_column(X, 2).dtype == np.float64
    assert set(density.predict_column(X, 0)) <= {0.0, 1.0, 2.0}
    words = np.column_stack([np.where(X[:, 0] > 0, "a", "b"), X[:, 2]]).astype(object)
    words[:, 1] = X[:, 2]
    density.fit(words)
    assert set(density.predict_column(words, 0)) <= {"a", "b"}
    assert density.predict_column(words, 1).dtype == np.float64
