"""Tests of the one door for tables and weights."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from skpc import TableMixture
from skpc._validation import check_n_samples, check_table, check_weight, missing_cells, read_cells


class Door(BaseEstimator):
    """An estimator that only looks at its table."""

    def fit(self, X):
        self.table_ = check_table(self, X, reset=True)
        return self


def test_a_float_array_passes_without_a_copy():
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    door = Door().fit(X)
    assert door.table_ is X
    assert door.n_features_in_ == 2


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
        np.array([[1.0, 2.0], [3.0, 4.0]], order="F"),
        np.array([[1, 2.0], [3, 4]], dtype=object),
        np.array([[1.0, 9.0, 2.0], [3.0, 9.0, 4.0]])[:, ::2],
    ],
)
def test_numbers_leave_as_float64_rows_that_kernels_can_take(X):
    table = Door().fit(X).table_
    assert table.dtype == np.float64
    assert table.flags.c_contiguous
    assert table.flags.writeable
    np.testing.assert_array_equal(table, [[1, 2], [3, 4]])


def test_a_read_only_array_is_copied_and_left_alone():
    X = np.ones((2, 2))
    X.setflags(write=False)
    table = Door().fit(X).table_
    assert table.flags.writeable
    assert not np.shares_memory(table, X)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_numbers_with_missing_objects_become_nan(missing):
    table = Door().fit(np.array([[1, missing], [2, 3]], dtype=object)).table_
    np.testing.assert_array_equal(table, [[1, np.nan], [2, 3]])


def test_strings_in_a_list_do_not_turn_the_numbers_beside_them_into_strings():
    table = Door().fit([["a", 1.5], ["b", 2]]).table_
    assert table.dtype == object
    assert table.tolist() == [["a", 1.5], ["b", 2]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_frame_leaves_as_the_very_object_and_its_names_are_remembered(make):
    frame = make({"size": [1.0, 2.0], "kind": ["a", None]})
    door = Door().fit(frame)
    assert door.table_ is frame
    assert door.feature_names_in_.tolist() == ["size", "kind"]
    with pytest.raises(ValueError, match="same order"):
        check_table(door, frame[["kind", "size"]], reset=False)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[1.0, 2.0], [3.0, np.inf]], ValueError, "infinity; found inf in column 1, row 1"),
        ([[None, -np.inf]], ValueError, "found -inf in column 1, row 0"),
        (np.array([["a", np.inf]], dtype=object), ValueError, "found inf in column 1, row 0"),
        ([1.0, 2.0], ValueError, "Reshape your data"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.ones((0, 3)), ValueError, "0 sample"),
        (np.ones((12, 0)), ValueError, r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample"),
        (pl.DataFrame({"a": []}), ValueError, "0 sample"),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (np.array([[1j, "a"]], dtype=object), ValueError, "Complex data not supported"),
        (sparse.csr_array(np.eye(3)), TypeError, "[Ss]parse"),
        (
            np.array([[1.0, {"a": 1}]], dtype=object),
            TypeError,
            "argument must be .* string.* number",
        ),
        ([["a", slice(1)]], TypeError, r"slice\(None, 1, None\) of type slice in column 1"),
        (np.array([["a"], [1]], dtype=object), TypeError, "column 0 holds both 'a' and 1"),
        (np.array([[b"a"]]), TypeError, "type bytes"),
        ([["a", datetime.time(10, 30)]], TypeError, "type time in column 1. Turn times into dur"),
    ],
)
def test_what_is_no_table_of_numbers_and_strings_is_refused(X, error, message):
    with pytest.raises(error, match=message):
        Door().fit(X)


def test_infinity_is_found_behind_missing_values_and_beyond_the_first_block():
    X = np.zeros((50_000, 3))
    X[::7] = np.nan
    X[44_444, 2] = -np.inf
    with pytest.raises(ValueError, match="found -inf in column 2, row 44444"):
        Door().fit(X)


def test_a_sum_that_overflows_is_not_mistaken_for_infinity():
    X = np.full((3, 1), 1e308)
    assert Door().fit(X).table_ is X


def test_another_number_of_columns_than_in_fit_is_refused():
    door = Door().fit(np.ones((2, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but Door is expecting 3"):
        check_table(door, np.ones((2, 2)), reset=False)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[0.5, 1.5], [np.inf, 3.0]]),
        np.array([[1, 2], [2**60 + 1, 3]]),
        np.array([[True, False], [True, True]]),
        np.array([["a", "b"], ["?", "a"]]),
        np.array([["a", 1.5], [None, 2.5]], dtype=object),
    ],
    ids=["floats", "integers", "bools", "strings", "objects"],
)
def test_masked_cells_are_missing_whatever_is_below_the_mask(values):
    masked = np.ma.array(values, mask=[[False, False], [True, False]])
    by_hand = values.astype(object)
    by_hand[1, 0] = None
    for X in (masked, list(masked)):
        before = masked.copy()
        found, expected = Door().fit(X).table_, Door().fit(by_hand).table_
        assert type(found) is np.ndarray
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(missing_cells(found.astype(object)), masked.mask)
        seen = ~masked.mask
        np.testing.assert_array_equal(found[seen], expected[seen])
        np.testing.assert_array_equal(before.data, masked.data)
    assert Door().fit(np.ma.array(values[:1])).table_.shape == (1, 2)


def test_integers_that_float64_does_not_hold_stay_integers():
    large = 2**53 + 1
    for X in (np.array([[large, 1]]), [[large, 1]], [[large, 0.5]], ((large, 0.5),)):
        assert Door().fit(X).table_[0, 0] == large
    for X in (np.array([[2**53 + 2, 1]]), [[2**53 + 2, np.nan]], np.array([[float(large), 1.0]])):
        assert Door().fit(X).table_.dtype == np.float64


def test_a_lazy_frame_is_refused_with_the_way_out():
    lazy = pl.LazyFrame({"a": [1.0, 2.0]})
    door = Door().fit(lazy.collect())
    with pytest.raises(TypeError, match=r"polars LazyFrame. Pass X.collect\(\)"):
        check_table(door, lazy, reset=False)


@pytest.mark.parametrize("wrong", [-1, 2.5, "3", None, 2**70])
def test_impossible_numbers_of_draws_are_refused_with_the_value(wrong):
    with pytest.raises(ValueError, match=f"n_samples must be .* got {wrong!r}"):
        check_n_samples(wrong)


def test_missing_cells_are_none_nan_and_na_of_any_float_type():
    cells = np.array([None, np.nan, np.float32("nan"), pd.NA, 0.0, "nan", np.float32(1)], object)
    assert missing_cells(cells).tolist() == [True, True, True, True, False, False, False]


def test_reading_cells_tells_bools_from_numbers_and_strings():
    values, is_bool = read_cells(np.array([True, None, False], dtype=object), 0)
    np.testing.assert_array_equal(values, [1, np.nan, 0])
    assert is_bool
    values, is_bool = read_cells(np.array([True, 2], dtype=object), 0)
    np.testing.assert_array_equal(values, [1, 2])
    assert not is_bool
    values, _ = read_cells(np.array(["x", np.nan, None], dtype=object), 0)
    assert values.tolist() == ["x", None, None]


@pytest.mark.parametrize(
    "weight", [[1, 2, 0], (1.0, 2.0, 0.0), pd.Series([1, 2, 0]), np.array([1, 2, 0], np.float32)]
)
def test_weights_leave_as_float64(weight):
    checked = check_weight(weight, 3)
    assert checked.dtype == np.float64
    assert checked.tolist() == [1, 2, 0]


def test_no_weights_are_ones():
    assert check_weight(None, 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, 2.0], r"each of the 3 rows, shape \(3,\); found shape \(2,\)"),
        ([[1.0], [1.0], [1.0]], r"found shape \(3, 1\)"),
        ([1.0, -0.5, 1.0], "found -0.5 in row 1"),
        ([1.0, np.nan, 1.0], "NaN"),
        ([1.0, np.inf, 1.0], "infinity"),
        ([0.0, 0.0, 0.0], "weights are zero"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "NaN"),
        ([1e308, 1e308, 1e308], "at most 9.0072e.15, .*; found inf. Divide"),
    ],
)
def test_impossible_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        check_weight(weight, 3)


def test_a_table_without_a_column_of_fit_is_refused_with_the_way_to_add_it():
    frame = pd.DataFrame({"a": [0.0, 1.0] * 20, "b": [0.0, 1.0] * 20})
    model = TableMixture(n_components=1).fit(frame)
    with pytest.raises(ValueError, match="feature names should match") as caught:
        model.score_samples(frame[["a"]])
    assert "X.reindex(columns=model.feature_names_in_)" in caught.value.__notes__[0]
    lacking = frame[["a"]].reindex(columns=model.feature_names_in_)
    assert np.isfinite(model.score_samples(lacking)).all()
