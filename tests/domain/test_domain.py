"""Tests of domains (what columns are) and of merged rows."""

import pickle
import re

import joblib
import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, DensityMixin

from skpc._validation import check_table, check_weight
from skpc.domain import Declared, Domain, _rows, column_moments, merge_rows, present_rows
from skpc.variables import fit_histogram
from tests.naive import domain as naive
from tests.scikit_checks import parametrize_with_checks

CELLS = st.sampled_from([0.0, -0.0, 1.0, 2.0, 7.0, np.nan])


def object_table(*rows):
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for position, row in enumerate(rows):
        table[position] = row
    return table


def pandas_frame():
    return pd.DataFrame(
        {
            "text": ["x", None, "y", "x"],
            "integer": np.array([1, 2, 20, 30], dtype=np.int16),
            "category": pd.Categorical(["u", None, "v", "u"], categories=["v", "w", "u"]),
            "flag": [True, False, True, True],
            "real": [1.5, np.nan, -0.0, 3.0],
            "nullable": pd.array([1, None, 2**60 + 1, 4], dtype="Int64"),
            "perhaps": pd.array([True, None, False, True], dtype="boolean"),
            "objects": np.array([True, None, False, True], dtype=object),
            "single": np.array([1, 2, 3, 17.5], dtype=np.float32),
            "level": pd.Categorical([3, 1, None, 3], ordered=True),
        },
        index=[9, 8, 7, 6],
    )


def polars_frame():
    return pl.DataFrame(
        {
            "text": ["x", None, "y", "x"],
            "integer": pl.Series([1, 2, 20, 30], dtype=pl.UInt8),
            "category": pl.Series(["u", None, "v", "u"], dtype=pl.Enum(["v", "w", "u"])),
            "pooled": pl.Series(["u", None, "v", "u"], dtype=pl.Categorical),
            "flag": [True, None, False, True],
            "real": [1.5, None, -0.0, 3.0],
            "nan": [1.5, np.nan, 2.5, 3.0],
            "nullable": [1, None, 2**60 + 1, 4],
        }
    )


FRAMES = pytest.mark.parametrize(
    "frame", [pandas_frame(), polars_frame()], ids=["pandas", "polars"]
)


def assert_frames_equal(a, b):
    module = pd if isinstance(a, pd.DataFrame) else pl
    module.testing.assert_frame_equal(a, b)


# ---------------------------------------------------------------- which columns are categorical


def test_auto_takes_strings_bools_and_small_integers_as_categories():
    table = object_table(["a", True, 0, 16, 0.5, -1], ["b", None, 15, 1, 1, 1])
    domain = Domain.fit(table)
    assert domain.is_categorical.tolist() == [True, True, True, False, False, False]
    assert domain.n_states.tolist() == [2, 2, 2, 0, 0, 0]
    assert not any(domain.axes)


def test_states_that_were_observed_become_codes_in_order():
    domain = Domain.fit(
        np.array([[3.0], [np.nan], [-0.0], [7.0], [3.0]]), Declared(categorical_features=[0])
    )
    assert domain[0].states.tolist() == [0, 3, 7]
    rows = domain.encode(np.array([[7.0], [0.0], [5.0], [np.nan], [3.0]]))
    np.testing.assert_array_equal(rows.ravel(), [2, 0, np.nan, np.nan, 1])


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ([True, False, True], [0, 2]),
        (np.array([True, False, True]), [0, 2]),
        ([0, 2], [0, 2]),
        (["a", "c"], [0, 2]),
        ([], []),
        (None, []),
        ("from_dtype", []),
        ("auto", [1]),
    ],
)
def test_columns_are_chosen_by_mask_number_or_name(choice, expected):
    frame = pd.DataFrame({"a": [1.0, 99.0], "b": [0, 1], "c": [-2.5, 3.5]})
    domain = Domain.fit(frame, Declared(categorical_features=choice))
    assert np.flatnonzero(domain.is_categorical).tolist() == expected


def test_from_dtype_takes_columns_of_category_dtype_alone():
    domain = Domain.fit(
        pandas_frame().drop(columns="text"), Declared(categorical_features="from_dtype")
    )
    assert [n for n, c in zip(domain.feature_names, domain.is_categorical) if c] == [
        "category",
        "level",
    ]
    domain = Domain.fit(polars_frame().drop("text"), Declared(categorical_features="from_dtype"))
    assert np.flatnonzero(domain.is_categorical).tolist() == [1, 2]


def test_dtypes_declare_their_categories_in_order():
    domain = Domain.fit(pandas_frame())
    states = dict(zip(domain.feature_names, (column.states for column in domain)))
    assert states["category"].tolist() == ["v", "w", "u"]
    assert states["level"].tolist() == [1, 3]
    assert states["flag"].tolist() == [False, True]
    assert Domain.fit(polars_frame())[2].states.tolist() == ["v", "w", "u"]


def test_declared_categories_keep_their_order_and_make_a_column_categorical():
    table = object_table(["b", 30.0], ["a", 10.0])
    domain = Domain.fit(table, Declared(categories=[["b", "c", "a"], [30, 20, 10]]))
    np.testing.assert_array_equal(domain.encode(table), [[0, 0], [2, 2]])
    assert domain.n_states.tolist() == [3, 3]
    some = Domain.fit(table, Declared(categories=[["b", "c", "a"], None]))
    assert some.n_states.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical_features": "yes"}, "'auto', 'from_dtype'.*got 'yes'"),
        ({"categorical_features": [True]}, r"a mask of 2 bools; got \[True\]"),
        ({"categorical_features": [2]}, r"numbers from 0 to 1, .*; got \[2\]"),
        ({"categorical_features": [-1]}, r"got \[-1\]"),
        ({"categorical_features": ["size"]}, "'size'.*no column names"),
        ({"categorical_features": [0.5]}, r"names of columns, numbers.*got \[0.5\]"),
        ({"categorical_features": [[0]]}, r"got \[\[0\]\]"),
        ({"categories": "all"}, "got 'all'"),
        ({"categories": 3}, "got 3"),
        ({"categories": [[1, 2]]}, "each of the 2 columns.*got 1"),
        ({"categories": [[1, 1], None]}, "column 0 repeat a value"),
        ({"categories": [[1, np.nan], None]}, "column 0 contain a missing value"),
        ({"categories": [[], None]}, "column 0 must be a list"),
        ({"categories": ["ab", None]}, "column 0 must be a list"),
        ({"categories": [range(1_001), None]}, "at most 1000 categories; column 0 has 1001"),
        ({"categories": [[8, 9], None]}, "No value of column 0 is one of its declared"),
        ({"categories": [["x"], None]}, "column 0 must hold strings.*found numbers such as 1.0"),
        ({"n_bins": 0}, "n_bins.*got 0"),
        ({"n_bins": 2.5}, "n_bins.*got 2.5"),
        ({"n_bins": True}, "n_bins.*got True"),
        ({"n_bins": 31_999}, "n_bins.*got 31999"),
        ({"handle_unknown": "ignore"}, "handle_unknown.*got 'ignore'"),
    ],
)
def test_impossible_options_are_refused_with_the_value_found(options, message):
    declared = {key: options[key] for key in options if key != "n_bins"}
    n_bins = options.get("n_bins")
    with pytest.raises(ValueError, match=message):
        Domain.fit(np.array([[1.0, 0.5], [2.0, 1.5]]), Declared(**declared), n_bins=n_bins)


def test_an_unknown_column_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'c', which is not a column.*\['a', 'b'\]"):
        Domain.fit(pd.DataFrame({"a": [1], "b": [2]}), Declared(categorical_features=["c"]))


def test_rows_of_weight_zero_are_not_there():
    table = object_table(["a", 1.0, 0.5], ["b", None, 9.5], ["a", 3.0, 1.5])
    weight = np.array([1.0, 0.0, 2.0])
    present, positive = present_rows(table, weight)
    domain = Domain.fit(present, sample_weight=positive, n_bins=2)
    alone = Domain.fit(table[[0, 2]], sample_weight=weight[[0, 2]], n_bins=2)
    assert domain.n_states.tolist() == alone.n_states.tolist()
    np.testing.assert_array_equal(domain.axes[2][0], alone.axes[2][0])
    with pytest.warns(UserWarning, match="no value in the rows of fit.* Found column 1"):
        Domain.fit(present_rows(table, np.array([0.0, 1.0, 0.0]))[0])


def test_too_many_observed_categories_are_refused_by_name():
    frame = pd.DataFrame({"id": np.arange(1_001) + 0.5})
    with pytest.raises(ValueError, match="column 'id' has 1001"):
        Domain.fit(frame, Declared(categorical_features=["id"]))
    assert Domain.fit(frame[1:], Declared(categorical_features=["id"])).n_states.tolist() == [1_000]


LARGE = 2**53


def table_of_ids(ids, library):
    other = [0.5 * (number % 3) for number in range(len(ids))]
    if library == "list":
        return [[a, b] for a, b in zip(ids, other)]
    if library == "integers":
        return np.column_stack([ids, np.arange(len(ids))])
    if library == "objects":
        return object_table(*([a, b] for a, b in zip(ids, other)))
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}.get(library, pd.DataFrame)
    column = {"nullable": pd.array(ids, dtype="Int64"), "category": pd.Categorical(ids)}
    return frame({"id": column.get(library, ids), "other": other})


@pytest.mark.parametrize(
    "library", ["list", "integers", "objects", "pandas", "nullable", "category", "polars"]
)
def test_large_integers_as_categories_stay_apart_or_are_refused_by_name(library):
    def checked(ids):
        return check_table(BaseEstimator(), table_of_ids(ids, library), reset=True)

    message = "round to equal floats; found 9007199254740993 in column .*Turn them into strings"
    merged = [LARGE, LARGE + 1] * 10
    with pytest.raises(ValueError, match=message):
        Domain.fit(checked(merged), Declared(categorical_features=[0]))
    with pytest.raises(ValueError, match=message):
        Domain.fit(checked(merged), Declared(categories=[[LARGE, LARGE + 1], None]))
    if library != "category":
        assert not Domain.fit(
            checked(merged), Declared(categorical_features=None)
        ).is_categorical.any()
    apart = checked([LARGE, LARGE + 2] * 10)
    domain = Domain.fit(apart, Declared(categorical_features=[0]))
    np.testing.assert_array_equal(domain.encode(apart)[:, 0], [0.0, 1.0] * 10)
    with pytest.raises(ValueError, match=message):
        domain.encode(checked([LARGE + 2, LARGE + 1]))


def test_strings_in_a_column_declared_numeric_are_refused_by_name():
    frame = pd.DataFrame({"kind": ["a", "b"], "size": [1.0, 2.0]})
    for choice in (None, ["size"], "from_dtype"):
        with pytest.raises(ValueError, match="column 'kind' holds strings such as 'a'"):
            Domain.fit(frame, Declared(categorical_features=choice))


# ---------------------------------------------------------------- encode


def test_encoding_equals_a_loop_over_cells():
    rng = np.random.default_rng(0)
    columns = [
        rng.choice(np.array(["a", "b", "c", None], dtype=object), 60),
        rng.choice([3.0, 1.0, np.nan, 12.0], 60),
        rng.choice([0.0, 1.0, 2.0, np.nan], 60),
        rng.normal(size=60),
        rng.choice([-2.5, 1e9, np.nan], 60),
    ]
    table = np.column_stack([column.astype(object) for column in columns])
    domain = Domain.fit(table[:30], Declared(categories=[None, [12.0, 3.0], None, None, [1e9, 7]]))
    states = [None if c.states is None else c.states.tolist() for c in domain]
    np.testing.assert_array_equal(domain.encode(table), naive.encode(table.tolist(), states))


def test_encoded_float_arrays_come_back_themselves():
    X = np.array([[0.0, 2.5], [1.0, np.nan], [np.nan, -1e150]])
    assert Domain.fit(X).encode(X) is X


@given(
    hnp.arrays(np.float64, (12, 3), elements=CELLS),
    st.lists(st.integers(0, 8), min_size=1, max_size=5, unique=True),
)
@settings(max_examples=50, deadline=None)
def test_encoding_numbers_equals_a_loop_over_cells_and_leaves_the_table_alone(X, states):
    X[0] = states[0]
    before = X.copy()
    domain = Domain.fit(X, Declared(categories=[states, [1, 0, *range(2, 9)], None]))
    expected = naive.encode(
        X.tolist(), [None if c.states is None else c.states.tolist() for c in domain]
    )
    np.testing.assert_array_equal(domain.encode(X), expected)
    np.testing.assert_array_equal(X, before)


def test_an_unknown_category_is_missing_or_refused():
    known, foreign = object_table(["a", 1.0], ["b", 2.0]), object_table(["a", 1.0], ["c", 3.0])
    rows = Domain.fit(known).encode(foreign)
    np.testing.assert_array_equal(rows, [[0, 0], [np.nan, np.nan]])
    strict = Domain.fit(known, Declared(handle_unknown="error"))
    with pytest.raises(
        ValueError, match=r"unknown category 'c' in column 0, row 1; .*\['a', 'b'\]"
    ):
        strict.encode(foreign)
    with pytest.raises(ValueError, match=r"unknown category 3.0 in column 1, row 0"):
        strict.encode(object_table(["a", 3.0]))
    with pytest.raises(ValueError, match=r"unknown category 2.0 in column 1, row 1"):
        Domain.fit(known, Declared(categories=[None, [1, 5]], handle_unknown="error"))


def test_the_kind_of_a_column_must_stay_the_one_of_fit():
    domain = Domain.fit(pd.DataFrame({"kind": ["a", "b"], "size": [0.5, 2.0]}))
    with pytest.raises(ValueError, match="column 'kind' must hold strings.*numbers such as 3.0"):
        domain.encode(pd.DataFrame({"kind": [np.nan, 3.0], "size": [0.5, 2.0]}))
    with pytest.raises(ValueError, match="column 'size' must hold numbers.*strings such as 'x'"):
        domain.encode(pd.DataFrame({"kind": ["a", "b"], "size": [None, "x"]}))


def test_a_column_whose_cells_are_all_missing_may_have_any_dtype():
    domain = Domain.fit(pd.DataFrame({"kind": ["a", "b"], "size": [0.5, 2.0]}))
    for frame in (
        pd.DataFrame({"kind": [np.nan], "size": [None]}),
        pl.DataFrame({"kind": [None], "size": pl.Series([None], dtype=pl.String)}),
        np.full((1, 2), np.nan),
    ):
        assert np.isnan(domain.encode(frame)).all()


@FRAMES
def test_infinity_in_a_frame_is_refused_by_name(frame):
    values = [1.0, np.inf, 2.0, 3.0]
    is_polars = isinstance(frame, pl.DataFrame)
    frame = (
        frame.with_columns(pl.Series("real", values)) if is_polars else frame.assign(real=values)
    )
    with pytest.raises(ValueError, match="found inf in column 'real', row 1"):
        Domain.fit(frame)


def test_sparse_columns_are_refused_by_name():
    with pytest.raises(TypeError, match="Sparse data is not supported.*column 'few'"):
        Domain.fit(pd.DataFrame({"few": pd.arrays.SparseArray([0.0, 1.0])}))


# ---------------------------------------------------------------- axes and codes


@given(
    hnp.arrays(np.float64, 40, elements=st.floats(-1e6, 1e6)),
    hnp.arrays(np.float64, 40, elements=st.integers(1, 4).map(float)),
    st.integers(1, 12),
)
@settings(max_examples=100, deadline=None)
def test_edges_are_quantiles_of_the_repeated_values(values, weight, n_bins):
    domain = fit_numeric(values, weight, n_bins)
    edges, lower_scale, upper_scale, *_ = domain.axes[0]
    n_bins = naive.n_bins_allowed(weight.sum(), n_bins)
    wanted = {naive.quantile(values, weight, i, n_bins + 2) for i in range(1, n_bins + 2)}
    if len(set(values + 0.0)) > 1:
        assert set(edges) <= wanted
        assert edges[0] == min(wanted)
    assert (np.diff(edges) > 0).all()
    assert lower_scale > 0
    assert upper_scale > 0
    assert domain.n_states[0] == len(edges) + 1 <= n_bins + 2


def test_every_state_of_a_smooth_column_holds_the_same_mass():
    values = np.random.default_rng(0).normal(size=1200)
    domain = fit_numeric(values, np.ones(1200), 10)
    counts = np.bincount(domain.codes(values[:, None]).ravel())
    # An edge belongs to the bin above it, so the tails differ by the one value that is an edge.
    assert counts.tolist() == [99, *[100] * 10, 101]


def test_tail_scales_are_the_mean_excess_beyond_the_edges():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=300), rng.integers(1, 4, size=300).astype(float)
    edges, lower_scale, upper_scale, *_ = fit_numeric(values, weight, 5).axes[0]
    assert lower_scale == pytest.approx(naive.mean_excess(values, weight, edges[0], -1))
    assert upper_scale == pytest.approx(naive.mean_excess(values, weight, edges[-1], 1))


@given(
    hnp.arrays(np.float64, 25, elements=st.floats(-1e150, 1e150)),
    hnp.arrays(np.float64, 25, elements=st.sampled_from([0.3, 0.1, 1.0, 2.0, 1e-3])),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_weight_two_is_the_row_twice_and_order_does_not_matter(values, weight, random):
    repeated = [(v, w) for v, w in zip(values, weight) for _ in range(2)]
    random.shuffle(repeated)
    one = fit_numeric(values, 2 * weight, 4).axes[0]
    two = fit_numeric(*np.array(repeated).T, 4).axes[0]
    np.testing.assert_array_equal(one[0], two[0])
    assert one[1:] == two[1:]


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-5, 1.0, 1e12, 1e100, 1e149])
def test_columns_of_any_magnitude_get_finite_densities(scale):
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=50) * scale, rng.integers(0, 2, 50) * scale, np.full(9, scale)):
        domain = fit_numeric(values, np.ones(len(values)), 5)
        edges, lower_scale, upper_scale, *_ = domain.axes[0]
        widths = np.array([*np.diff(edges), lower_scale, upper_scale])
        assert np.isfinite(widths).all()
        assert np.isfinite(1.0 / widths).all()
        probabilities = np.full(len(edges) + 1, 1 / (len(edges) + 1))
        for x in values:
            assert np.isfinite(naive.log_density(domain.axes[0], probabilities, x))


def test_numbers_whose_differences_overflow_are_refused_by_name():
    with pytest.raises(ValueError, match=r"column 0 reaches 1\.5e\+308"):
        fit_numeric(np.array([-1.5e308, 1.5e308]), np.ones(2), 5)


def test_repeated_values_do_not_earn_unbounded_densities():
    values = np.array([0.0] * 50 + [1e-9] * 50 + [1.0] * 50 + [1.0 + 1e-9] * 50)
    edges, lower_scale, upper_scale, *_ = fit_numeric(values, np.ones(200), 20).axes[0]
    deviation = np.abs(values - np.median(values)).mean()
    assert np.diff(edges).min() >= 1e-3 * deviation
    assert min(lower_scale, upper_scale) >= 1e-2 * deviation


def test_a_constant_column_gets_one_narrow_bin_around_its_value():
    for value in (0.0, -300.5, 1e-300):
        edges, *_ = fit_numeric(np.full(4, value), np.ones(4), 10).axes[0]
        assert edges[0] < value < edges[1]
        assert np.diff(edges) == pytest.approx(1e-3 * max(abs(value), 1.0))


def test_the_density_of_an_axis_integrates_to_one():
    rng = np.random.default_rng(0)
    axis = fit_numeric(rng.gamma(2.0, size=200), np.ones(200), 6).axes[0]
    probabilities = rng.dirichlet(np.ones(len(axis[0]) + 1))
    # The midpoint rule is exact inside bins and good to 1e-4 on the tails of this grid.
    grid = np.linspace(axis[0][0] - 30 * axis[1], axis[0][-1] + 30 * axis[2], 200_001)
    middle = (grid[1:] + grid[:-1]) / 2
    density = [np.exp(naive.log_density(axis, probabilities, x)) for x in middle]
    assert np.sum(density) * np.diff(grid)[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("n_bins", [1, 5, 200])
def test_codes_equal_counting_the_edges_below(n_bins):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.integers(0, 3, 500), rng.normal(size=500)])
    X[rng.random(X.shape) < 0.2] = np.nan
    domain = Domain.fit(X, Declared(margins="plain"), n_bins=n_bins)
    X[:4, 0] = [*domain.axes[0][0][:2], -1e300, 1e300]
    codes = domain.codes(domain.encode(X))
    assert codes.dtype == np.int16
    for row, code in zip(X, codes):
        for column in (0, 2):
            edges = domain.axes[column][0]
            x = row[column]
            assert code[column] == (-1 if np.isnan(x) else naive.state(edges, x))
        assert code[1] == (-1 if np.isnan(row[1]) else row[1])


@given(
    hnp.arrays(np.float64, 25, elements=st.floats(-1e150, 1e150)),
    hnp.arrays(np.float64, 25, elements=st.sampled_from([0.5, 1.0, 2.0, 0.25])),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_numbers_do_not_depend_on_the_order_and_repetition_of_rows(values, weight, random):
    repeated = [(v, w) for v, w in zip(values, weight) for _ in range(2)]
    random.shuffle(repeated)
    one = fit_numeric(values, 2 * weight, 4, "auto")
    two = fit_numeric(*np.array(repeated).T, 4, "auto")
    for a, b in zip(one.laws[0], two.laws[0]):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.axes[0].flat, two.axes[0].flat)
    assert np.isfinite(one.axis_table.log_density(values[:, None])).all()


def rain_frame():
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(200) < 0.6, 0.0, rng.exponential(size=200))
    return pd.DataFrame({"rain": rain, "age": rng.integers(18, 90, 200), "kind": ["a", "b"] * 100})


def test_numbers_are_learned_column_by_column():
    domain = Domain.fit(rain_frame(), n_bins=5)
    rain, age, kind = domain.laws
    assert kind is None
    assert (rain.step, age.step) == (0.0, 1.0)
    np.testing.assert_array_equal(rain.atoms, [0.0])
    np.testing.assert_array_equal(domain.axes[0].atoms, [0.0])
    assert domain[0].law is rain
    assert not any(Domain.fit(rain_frame(), Declared(margins="plain")).laws)
    assert Domain.fit(rain_frame(), Declared(margins="plain")).is_plain


@pytest.mark.parametrize("column", ["rain", 0])
def test_atoms_and_bounds_are_declared_by_name_or_number(column):
    frame = rain_frame()
    domain = Domain.fit(frame, Declared(atoms={column: [0.0, 2.0]}, bounds={column: (None, 100.0)}))
    np.testing.assert_array_equal(domain.laws[0].atoms, [0.0, 2.0])
    assert domain.laws[0].score[:2] == (-np.inf, 100.0)
    np.testing.assert_array_equal(Domain.fit(frame, Declared(atoms={column: []})).laws[0].atoms, [])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"atoms": {"kind": [1.0]}}, ValueError, "atoms must name numeric columns.*'kind'"),
        ({"bounds": {"kind": (0, 1)}}, ValueError, "bounds must name numeric columns"),
        ({"atoms": {"rain": [np.nan]}}, ValueError, "atoms of column 'rain'.*finite numbers"),
        ({"atoms": [0.0]}, TypeError, "atoms must be a dict"),
        ({"bounds": (0, 1)}, TypeError, "bounds must be a dict"),
        ({"bounds": {"rain": 0.0}}, ValueError, "must be a pair"),
        ({"bounds": {"rain": (0.0, 1.0)}}, ValueError, "hold all its values; found"),
        ({"bounds": {"rain": (9.0, 1.0)}}, ValueError, "must increase and hold all its values"),
        ({"atoms": {"wind": [0.0]}}, ValueError, "wind"),
    ],
)
def test_impossible_atoms_and_bounds_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Domain.fit(rain_frame(), Declared(**options))


def test_drawn_rows_snap_to_values_and_observed_cells_stay():
    domain = Domain.fit(rain_frame())
    drawn = np.array([[0.2, 31.4, 1.0], [0.3, 20.6, 0.0]])
    rows = np.array([[0.25, np.nan, np.nan], [np.nan, 20.6, np.nan]])
    filled = domain.snap_to_values(drawn.copy(), rows)
    np.testing.assert_array_equal(filled[:, 1], [31.0, 20.6])
    np.testing.assert_array_equal(domain.snap_to_values(drawn.copy())[:, 1], [31.0, 21.0])
    np.testing.assert_array_equal(filled[:, 2], drawn[:, 2])


def test_a_category_more_leaves_the_other_columns_what_they_are():
    domain = Domain.fit(rain_frame(), n_bins=5)
    more = domain.with_category(3)
    assert more.laws == (*domain.laws, None)
    assert more.axes == (*domain.axes, None)
    assert more.n_states[-1] == 3


@pytest.mark.parametrize("margins", ["auto", "plain"])
@pytest.mark.parametrize("n_bins", [None, 5])
@pytest.mark.parametrize("order", [["kind", "age", "rain"], ["rain", "kind", "age"]])
def test_a_number_more_is_what_it_would_be_in_the_table(order, n_bins, margins):
    frame = rain_frame()[order]
    # Targets may go on beyond those of the table, but not beyond zero where they end there.
    lower = 0.0 if order[-1] == "rain" else None
    bounds = {order[-1]: (lower, None)} if margins == "auto" else None
    whole = Domain.fit(frame, Declared(margins=margins, bounds=bounds), n_bins=n_bins)
    domain = Domain.fit(frame[order[:-1]], Declared(margins=margins), n_bins=n_bins)
    more = domain.with_number(whole.encode(frame), np.ones(len(frame)), n_bins)
    assert (more[2].law is None) == (margins == "plain")
    np.testing.assert_equal(more[2].law, whole[2].law)
    np.testing.assert_array_equal(more.n_states, whole.n_states)
    if n_bins is not None:
        np.testing.assert_array_equal(more.axis_of(2).flat, whole.axis_of(2).flat)


@pytest.mark.parametrize("margins", ["auto", "plain"])
def test_axes_of_other_rows_are_those_of_a_domain_that_has_seen_no_others(margins):
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(400, 2)))
    X[:100, 0] = 0.0
    weight = 0.5 + rng.random(400)
    domain, some = Domain.fit(X, Declared(margins=margins), n_bins=5), slice(50, 250)
    again = domain.with_axes_of(X[some], weight[some])
    if margins == "plain":
        assert again.axes == domain.axes
        return
    assert again.laws == domain.laws
    for values, number, axis in zip(X[some].T, domain.laws, again.axes):
        expected = fit_histogram(values, weight[some], number).binned(5)
        np.testing.assert_array_equal(axis.flat, expected.flat)


def test_a_column_without_values_keeps_its_axis():
    X = np.random.default_rng(0).normal(size=(100, 2))
    domain = Domain.fit(X, n_bins=5)
    without = np.where([False, True], np.nan, X)
    again = domain.with_axes_of(without, np.ones(100))
    assert again.axis_of(1) is domain.axis_of(1)
    assert not any(Domain.fit(X).with_axes_of(X, np.ones(100)).axes)


@pytest.mark.parametrize("value", [-1.0, -0.0, 0.5, 1.0, 2.0, 1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("column", [0, 1])
def test_encoded_cells_are_checked_one_by_one(value, column):
    domain = Domain.fit(object_table(["a", 0.5], ["b", 1.5]))
    rows = np.array([[0.0, 2.5], [np.nan, np.nan], [1.0, -7.0]])
    rows[1, column] = value
    if naive.are_cells(rows, domain.n_states):
        assert domain.check_encoded(rows) is rows
    else:
        number = re.escape(str(value))
        with pytest.raises(ValueError, match=f"column {column}, .* found {number} in row 1"):
            domain.check_encoded(rows)


@pytest.mark.parametrize(
    "rows", [[[0.0, 1.0]], np.zeros((2, 3)), np.zeros(2), object_table([0, 1])]
)
def test_what_is_no_array_of_encoded_rows_is_refused(rows):
    domain = Domain.fit(object_table(["a", 0.5], ["b", 1.5]), n_bins=2)
    with pytest.raises(ValueError, match=r"encoded rows .* shape \(n_rows, 2\), got "):
        domain.codes(rows)


def test_codes_of_a_column_without_axis_are_refused():
    X = np.array([[0.5], [1.5]])
    with pytest.raises(ValueError, match="column 0 has no bins; fit the Domain with n_bins"):
        Domain.fit(X).codes(X)


def fit_numeric(values, weight, n_bins, margins="plain"):
    return Domain.fit(
        np.asarray(values)[:, None].copy(),
        Declared(categorical_features=None, margins=margins),
        n_bins=n_bins,
        sample_weight=weight,
    )


# ---------------------------------------------------------------- decode and fill


@FRAMES
def test_a_frame_comes_back_from_its_rows(frame):
    # Integers beyond 2**53 are no floats, and a polars null comes back where a NaN was.
    is_polars = isinstance(frame, pl.DataFrame)
    frame = frame.drop("nullable", "nan") if is_polars else frame.drop(columns="nullable")
    domain = Domain.fit(frame)
    rows = domain.encode(frame)
    assert_frames_equal(domain.decode(rows, like=frame), frame)
    if not is_polars:
        frame = frame.reset_index(drop=True)
    assert_frames_equal(domain.decode(rows), frame)


@FRAMES
def test_complete_rows_come_back_with_the_original_dtypes(frame):
    domain = Domain.fit(frame)
    rows = domain.encode(frame)[[0, 2, 3, 0]]
    rows[np.isnan(rows)] = 1.0
    assert list(domain.decode(rows).dtypes) == list(frame.dtypes)
    assert list(domain.decode(rows, like=frame).dtypes) == list(frame.dtypes)


@FRAMES
def test_integers_are_rounded_and_kept_within_their_dtype(frame):
    domain = Domain.fit(frame)
    rows = domain.encode(frame)
    rows[:, 1] = [2.6, -1e9, 1e9, 3.0]
    limits = (0, 255) if isinstance(frame, pl.DataFrame) else (-(2**15), 2**15 - 1)
    assert domain.decode(rows)["integer"].to_list() == [3, *limits, 3]


def test_integers_of_64_bits_do_not_wrap_around():
    domain = Domain.fit(pd.DataFrame({"a": np.array([1, 2**62], dtype=np.int64)}))
    assert domain.decode(np.array([[1e30], [-1e30]]))["a"].tolist() == [2**63 - 1024, -(2**63)]


def test_a_pandas_integer_column_with_missing_cells_turns_to_floats_and_a_bool_to_objects():
    frame = pd.DataFrame({"a": [1, 20], "b": [True, False]})
    decoded = Domain.fit(frame).decode(np.array([[1.2, np.nan], [np.nan, 1.0]]))
    np.testing.assert_array_equal(decoded["a"], [1.0, np.nan])
    assert decoded["b"].tolist() == [None, True]


def test_bools_that_were_taken_as_numbers_are_rounded():
    for frame in (pd.DataFrame({"a": [True, False]}), pl.DataFrame({"a": [True, False]})):
        domain = Domain.fit(frame, Declared(categorical_features=None))
        assert not domain.is_categorical.any()
        assert domain.decode(np.array([[0.3], [0.7], [-2.0]]))["a"].to_list() == [
            False,
            True,
            False,
        ]


@FRAMES
def test_filling_keeps_observed_cells_exactly_and_completes_the_others(frame):
    domain = Domain.fit(frame)
    rows = np.ones(frame.shape)
    before = pickle.dumps(frame)
    filled = domain.fill(frame, rows)
    assert pickle.dumps(frame) == before
    assert list(filled.dtypes) == list(frame.dtypes)
    assert list(filled.columns) == list(frame.columns)
    if isinstance(frame, pd.DataFrame):
        assert filled.index.tolist() == frame.index.tolist()
    ones = domain.decode(rows, like=frame)
    for name in frame.columns:
        given_cells, new_cells = frame[name].to_list(), filled[name].to_list()
        for given_cell, new_cell, one in zip(given_cells, new_cells, ones[name].to_list()):
            is_missing = given_cell is None or given_cell is pd.NA or given_cell != given_cell
            assert repr(new_cell) == repr(one if is_missing else given_cell)


def test_filling_keeps_unknown_categories_in_every_library():
    frame = pd.DataFrame({"a": ["x", "y"], "b": [0, 1]})
    domain = Domain.fit(frame)
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    table = object_table(["new", 7], [None, 2**70], ["x", None])
    assert domain.fill(table, rows).tolist() == [["new", 7], ["y", 2**70], ["x", 0.0]]
    text = pd.Categorical(["new", None, "x"])
    filled = domain.fill(pd.DataFrame({"a": text, "b": [7, 8, np.nan]}), rows)
    assert filled["a"].tolist() == ["new", "y", "x"]
    assert filled["b"].tolist() == [7, 8, 0]
    text = pl.Series(["new", None, "x"], dtype=pl.Enum(["new", "x"]))
    filled = domain.fill(pl.DataFrame({"a": text, "b": [7, 8, None]}), rows)
    assert filled["a"].to_list() == ["new", "y", "x"]
    assert filled["b"].to_list() == [7, 8, 0]


def test_filling_a_column_that_is_all_missing_takes_the_kind_of_the_domain():
    domain = Domain.fit(pd.DataFrame({"a": ["x", "y"], "b": [0.5, 1.5]}))
    rows = np.array([[1.0, 2.5]])
    for empty in (
        np.full((1, 2), np.nan),
        object_table([None, None]),
        pd.DataFrame({"a": [np.nan], "b": [None]}),
        pd.DataFrame({"a": [np.nan], "b": pd.Series([None], dtype="str")}),
        pl.DataFrame({"a": pl.Series([None], dtype=pl.Float64), "b": pl.Series([None])}),
        pl.DataFrame({"a": [None], "b": pl.Series([None], dtype=pl.String)}),
    ):
        filled = domain.fill(empty, rows)
        values = filled.tolist() if isinstance(filled, np.ndarray) else filled.to_numpy().tolist()
        assert values == [["y", 2.5]]


def test_filling_a_float_array_keeps_every_bit():
    X = np.array([[-0.0, np.nan], [5e-324, 1.0], [np.nan, 0.5], [8.5, 2.0]])
    domain = Domain.fit(X, Declared(categorical_features=None))
    filled = domain.fill(X, np.full(X.shape, 9.0))
    expected = X.copy()
    expected[np.isnan(X)] = 9.0
    np.testing.assert_array_equal(filled.view(np.int64), expected.view(np.int64))
    assert not np.shares_memory(filled, X)


def test_the_library_of_the_table_at_hand_decides_not_the_one_of_fit():
    domain = Domain.fit(pd.DataFrame({"a": ["x", "y"], "b": [0.5, 1.5]}))
    rows = np.array([[1.0, 2.5]])
    assert domain.decode(rows, like=object_table([None, None])).tolist() == [["y", 2.5]]
    as_polars = domain.decode(rows, like=pl.DataFrame({"a": ["x"], "b": [1.0]}))
    assert as_polars.rows() == [("y", 2.5)]


def test_numeric_arrays_decode_to_floats():
    X = np.array([[3.0, 0.5], [7.0, 1.5], [np.nan, np.nan]])
    domain = Domain.fit(X)
    decoded = domain.decode(domain.encode(X))
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, X)


def test_repeated_and_numeric_column_names_survive():
    frame = pd.DataFrame([["x", 1.5, np.nan], ["y", np.nan, 2.5]], columns=[1, 0, 1])
    domain = Domain.fit(frame)
    filled = domain.fill(frame, np.zeros((2, 3)))
    assert filled.columns.tolist() == [1, 0, 1]
    # There is nothing beside a constant.
    assert filled.to_numpy().tolist() == [["x", 1.5, 2.5], ["y", 1.5, 2.5]]


# ---------------------------------------------------------------- the value itself


@FRAMES
def test_a_pickled_domain_is_the_same(frame):
    domain = Domain.fit(frame, n_bins=3)
    rows = domain.encode(frame)
    copy = pickle.loads(pickle.dumps(domain))
    assert repr(copy) == repr(domain)
    np.testing.assert_array_equal(copy.encode(frame), rows)
    np.testing.assert_array_equal(copy.codes(rows), domain.codes(rows))
    assert_frames_equal(copy.decode(rows, like=frame), domain.decode(rows, like=frame))


def test_a_memory_mapped_domain_compiles_no_kernel_again(tmp_path):
    X = np.array([[0.5, 3.0], [1.5, 5.0], [2.5, np.nan]])
    assert Domain.fit(X[:, :1]).encode(X[:, :1]).shape == (3, 1)
    domain = Domain.fit(X, n_bins=2)
    rows = domain.encode(X)
    codes = domain.codes(rows)
    joblib.dump(domain, tmp_path / "domain.joblib")
    mapped = joblib.load(tmp_path / "domain.joblib", mmap_mode="r")
    np.testing.assert_array_equal(mapped.encode(X), rows)
    np.testing.assert_array_equal(mapped.codes(rows), codes)
    # Without the JIT a kernel is a plain function and has no signatures.
    assert len(getattr(_rows.all_are_cells, "signatures", ["plain"])) == 1


def test_a_domain_cannot_be_changed():
    domain = Domain.fit(np.array([[0.5], [1.5]]))
    with pytest.raises(AttributeError):
        domain.handle_unknown = "error"


# ---------------------------------------------------------------- merged rows


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=CELLS),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_merging_equals_a_dictionary_of_rows(rows, data):
    weights = st.sampled_from([0.0, 1.0, 0.3, 0.1, 7.0, 1e-9])
    weight = data.draw(hnp.arrays(np.float64, len(rows), elements=weights))
    weight[0] = 1.0
    merged, total = merge_rows(*present_rows(rows, weight))
    assert naive.merge(merged, total) == naive.merge(rows, weight)
    assert len(merged) == len(naive.merge(rows, weight))


@given(
    hnp.arrays(np.float64, (20, 2), elements=CELLS),
    hnp.arrays(np.float64, 20, elements=st.sampled_from([0.3, 0.1, 1.0, 1 / 3])),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_merging_forgets_order_and_repetition_bit_by_bit(rows, weight, seed):
    merged, total = merge_rows(rows, 2 * weight)
    order = np.random.default_rng(seed).permutation(40)
    again, again_total = merge_rows(np.repeat(rows, 2, axis=0)[order], np.repeat(weight, 2)[order])
    np.testing.assert_array_equal(merged, again)
    np.testing.assert_array_equal(total, again_total)
    assert not np.signbit(merged).any()


def test_rows_whose_hashes_collide_are_told_apart(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.choice([0.0, -0.0, 1.0, np.nan], size=(200, 3))
    weight = rng.random(200)

    def hash_badly(rows):
        return np.where(np.isnan(rows[:, 0]), 1, 0)

    monkeypatch.setattr(_rows, "_hash_rows", hash_badly)
    merged, total = merge_rows(rows, weight)
    assert len(merged) == 27
    assert naive.merge(merged, total) == naive.merge(rows, weight)
    order = rng.permutation(200)
    again, again_total = merge_rows(rows[order], weight[order])
    np.testing.assert_array_equal(merged, again)
    np.testing.assert_array_equal(total, again_total)


def test_rows_that_differ_in_few_bits_have_different_hashes():
    numbers = np.arange(2**16)
    bits = ((numbers[:, None] >> np.arange(16)) & 1).astype(np.float64)
    for rows in (bits, numbers[:, None] * np.ones(3), numbers[:, None] * np.array([1.0, -1.0])):
        assert len(np.unique(_rows._hash_rows(rows))) == len(rows)


def test_merging_leaves_its_input_alone():
    rows, weight = np.array([[-0.0, np.nan], [0.0, np.nan]]), np.array([1.0, 2.0])
    merged, total = merge_rows(rows, weight)
    assert np.signbit(rows[0, 0])
    assert merged.shape == (1, 2)
    assert total.tolist() == [3.0]


def test_present_rows_drops_weight_zero_from_every_kind_of_table():
    weight = np.array([1.0, 0.0, 2.0])
    for table in (
        np.array([[1.0], [2.0], [3.0]]),
        pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 5, 6]),
        pl.DataFrame({"a": [1.0, 2.0, 3.0]}),
    ):
        present, kept = present_rows(table, weight)
        assert np.asarray(present).ravel().tolist() == [1.0, 3.0]
        assert kept.tolist() == [1.0, 2.0]
        assert present_rows(table, kept.repeat(2)[:3])[0] is table


def test_column_moments_are_those_of_the_cells_that_are_there():
    rows = np.array([[1.0, np.nan, 3.0], [4.0, np.nan, 3.0], [np.nan, np.nan, 3.0]])
    mean, sd = column_moments(rows, np.array([1.0, 2.0, 5.0]))
    repeated = np.array([1.0, 4.0, 4.0])
    np.testing.assert_allclose(mean, [repeated.mean(), 0.0, 3.0])
    np.testing.assert_allclose(sd, [repeated.std(), 1.0, 1.0])


def test_a_constant_column_has_sd_one_though_its_mean_is_rounded():
    rows = np.full((10, 1), 0.1)
    weight = np.random.default_rng(0).random(10)
    assert weight @ rows[:, 0] / weight.sum() != 0.1
    assert column_moments(rows, weight)[1].tolist() == [1.0]


# ---------------------------------------------------------------- as scikit-learn uses it


class IndependentColumns(DensityMixin, BaseEstimator):
    """A density that needs only a domain: independent smoothed histograms."""

    def fit(self, X, y=None, sample_weight=None):
        table = check_table(self, X, reset=True)
        table, weight = present_rows(table, check_weight(sample_weight, len(table)))
        self.domain_ = Domain.fit(table, n_bins=5, sample_weight=weight)
        rows, weight = merge_rows(self.domain_.encode(table), weight)
        codes = self.domain_.codes(rows)
        self.log_prob_ = []
        for column, k in zip(codes.T, self.domain_.n_states):
            counts = np.bincount(column[column >= 0], weight[column >= 0], minlength=k) + 1.0 / k
            self.log_prob_.append(np.log(counts / counts.sum()))
        return self

    def score_samples(self, X):
        rows = self.domain_.encode(check_table(self, X, reset=False))
        codes = self.domain_.codes(rows)
        parts = [np.append(p, 0.0)[column] for p, column in zip(self.log_prob_, codes.T)]
        return np.sum(parts, axis=0)

    def score(self, X, y=None):
        return float(np.mean(self.score_samples(X)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


@parametrize_with_checks([IndependentColumns()])
def test_an_estimator_on_a_domain_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_weight_two_is_the_row_twice_for_an_estimator_too():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 4, 40), rng.normal(size=40)])
    weight = rng.integers(0, 4, size=40)
    weighted = IndependentColumns().fit(X, sample_weight=weight)
    repeated = IndependentColumns().fit(np.repeat(X, weight, axis=0)[::-1])
    np.testing.assert_array_equal(weighted.score_samples(X), repeated.score_samples(X))


@pytest.mark.parametrize(("n_rows", "n_bins"), [(20, 1), (72, 1), (128, 2), (800, 8), (1152, 10)])
def test_small_tables_get_fewer_plain_bins(n_rows, n_bins):
    values = np.random.default_rng(0).normal(size=n_rows)
    domain = fit_numeric(values, np.ones(n_rows), 10)
    assert len(domain.axes[0][0]) == n_bins + 1
    halves = fit_numeric(np.repeat(values, 2), np.full(2 * n_rows, 0.5), 10)
    assert np.array_equal(halves.axes[0][0], domain.axes[0][0])
