"""Questions about single cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skpc import (
    CutsetNetworkBD,
    ExtraCutsets,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.domain import Domain, merge_rows
from tests.estimators.test_common import numbers, polars_table, table, with_missing_cells

DENSITIES = [
    CutsetNetworkBD(random_state=0),
    SoftLearnSPN(n_refine=5, random_state=0),
    MixtureOfAllTrees(max_iter=20, random_state=0),
]
every_density = pytest.mark.parametrize("density", DENSITIES, ids=lambda d: type(d).__name__)


@every_density
def test_the_score_of_a_cell_is_its_density_given_the_rest(density):
    frame = table()
    density.fit(frame)
    found = density.score_cells(frame)
    for name in frame:
        others = [column for column in frame if column != name]
        assert_allclose(found[name], density.score_samples(frame, given=others), atol=1e-9)
    incomplete = with_missing_cells(frame)
    assert_array_equal(np.isnan(density.score_cells(incomplete)), incomplete.isna())


@every_density
def test_scores_of_the_cells_of_a_frame_are_a_frame_of_floats(density):
    frame = with_missing_cells(table()).set_axis(range(7, 7 + len(table())))
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
def test_a_wrong_cell_scores_lowest(density):
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
    ("given", "message"), [(["colour"], "given names 'colour'"), ([7], r"given must .* got \[7\]")]
)
def test_columns_that_are_not_there_are_refused(density, given, message):
    density.fit(table())
    with pytest.raises(ValueError, match=message):
        density.score_samples(table(), given=given)
    with pytest.raises(ValueError, match=message.replace("given", "column")):
        density.predict_column(table(), given[0])


@every_density
def test_intervals_hold_the_proportion_of_numbers_that_they_promise(density):
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 4000)
    X = np.column_stack([3 * side, -3 * side]) + rng.normal(size=(4000, 2))
    density.fit(X[:2000])
    incomplete = X[2000:].copy()
    incomplete[:, 1] = np.nan
    for level in (0.5, 0.9):
        lower, upper = density.interval(incomplete, level=level)
        assert_array_equal(lower[:, 0], incomplete[:, 0])
        inside = (lower[:, 1] < X[2000:, 1]) & (X[2000:, 1] < upper[:, 1])
        assert inside.mean() == pytest.approx(level, abs=0.05)


@every_density
def test_intervals_are_tables_of_the_same_kind(density):
    frame = table()
    incomplete = with_missing_cells(frame)
    lower, upper = density.fit(frame).interval(incomplete)
    assert list(lower.columns) == list(frame.columns)
    numeric = ["size", "age"]
    assert not lower[numeric].isna().any().any()
    assert (lower[numeric] <= upper[numeric]).all().all()
    words = ["kind", "flag", "note"]
    assert_array_equal(lower[words].isna(), incomplete[words].isna())
    assert isinstance(density.interval(polars_table())[0], pl.DataFrame)
    with pytest.raises(ValueError, match=r"level .* got 1"):
        density.interval(incomplete, level=1)


@pytest.mark.parametrize("level", [None, "0.9", 0.0, 1.0, np.nan])
def test_levels_that_are_no_probabilities_are_refused(level):
    model = CutsetNetworkBD(random_state=0).fit(numbers())
    with pytest.raises(ValueError, match=f"strictly between 0 and 1, got {level!r}"):
        model.interval([[np.nan] * 3], level=level)


@pytest.mark.parametrize(("offset", "spread"), [(1e15, 2.0), (0.0, 1e-300), (-1e12, 0.5)])
@pytest.mark.parametrize(
    "density",
    [
        SoftLearnSPN(leaves="univariate", random_state=0),
        SoftLearnSPN(leaves="block", random_state=0),
        TableMixture(random_state=0),
        CutsetNetworkBD(random_state=0),
    ],
    ids=["univariate", "block", "table", "cutset"],
)
def test_intervals_keep_to_the_offset_and_the_spread_of_a_column(density, offset, spread):
    values = np.random.default_rng(0).normal(size=(300, 1)) @ [[1.0, 0.8]]
    values[:, 1] += 0.6 * np.random.default_rng(1).normal(size=300)
    X = offset + spread * values
    model = clone(density).fit(X)
    rows = np.array([[np.nan, np.nan], [X[0, 0], np.nan]])
    lower, upper = (np.asarray(end) for end in model.interval(rows))
    mean = model.complete(rows)
    assert ((lower < mean) & (mean < upper))[np.isnan(rows)].all()
    expected = np.quantile(X, [0.05, 0.95], axis=0)
    assert_allclose([lower[0], upper[0]], expected, rtol=0, atol=0.4 * spread)
    assert (upper - lower)[1, 1] < 0.85 * (upper - lower)[0, 1]


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
        other = polars_table() if make is table else table()
        lacking = other.drop(columns=[name]) if make is polars_table else other.drop(name)
        assert density.predict_column(lacking, name).to_list() == found.to_list()
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


@every_density
def test_draws_given_a_row_have_the_frequencies_of_its_conditionals(density):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 400)
    X = np.column_stack([a, (a + rng.integers(0, 2, 400)) % 3, a ^ (rng.random(400) < 0.2)])
    density.fit(X)
    drawn = density.sample(4000, random_state=0, given=[np.nan, 2, np.nan])
    assert_array_equal(drawn[:, 1], 2.0)
    cells = np.array([[x, 2, z] for x in np.unique(X[:, 0]) for z in np.unique(X[:, 2])])
    probability = np.exp(density.score_samples(cells, given=[1]))
    # The rest is that of whole numbers that were not seen.
    numbers = density.domain_.laws
    seen = np.prod([1.0 - numbers[column].unseen for column in (0, 2)])
    assert probability.sum() == pytest.approx(seen)
    frequency = [(drawn == cell).all(axis=1).mean() for cell in cells]
    assert_allclose(frequency, probability, atol=0.03)


@every_density
def test_numbers_are_drawn_given_a_category_and_categories_given_a_number(density):
    X = numbers(600)
    density.fit(X)
    for given in ([0, np.nan, np.nan], [2, np.nan, np.nan]):
        mean = density.complete([given])[0, 2]
        drawn = density.sample(2000, random_state=0, given=given)
        assert drawn[:, 2].mean() == pytest.approx(mean, abs=0.2)
    drawn = density.sample(2000, random_state=0, given=[[np.nan, np.nan, 1.5]])
    assert_array_equal(drawn[:, 2], 1.5)
    expected = density.marginals([[np.nan, np.nan, 1.5]])[0].probabilities[0]
    assert_allclose(np.bincount(drawn[:, 0].astype(int), minlength=3) / 2000, expected, atol=0.05)


@every_density
def test_draws_given_a_row_of_a_frame_have_the_dtypes_of_the_training_rows(density):
    frame = table()
    density.fit(frame)
    given = frame[:1].astype({"flag": object, "age": float})
    given[["kind", "flag", "age"]] = [[None, None, np.nan]]
    drawn = density.sample(30, random_state=0, given=given)
    assert drawn.dtypes.equals(frame.dtypes)
    assert (drawn["size"] == frame["size"][0]).all()
    assert (drawn["note"] == frame["note"][0]).all()
    assert drawn["kind"].nunique() + drawn["age"].nunique() > 2
    assert density.sample(30, random_state=0, given=given).equals(drawn)
    assert density.sample(0, given=given).shape == (0, 5)
    polars = density.fit(polars_table()).sample(3, given=polars_table()[:1])
    assert polars.equals(polars_table()[[0, 0, 0]])


@every_density
def test_rows_given_for_draws_must_be_one(density):
    X = numbers()
    density.fit(X)
    with pytest.raises(ValueError, match="given must have exactly one row, got 2"):
        density.sample(3, given=X[:2])
    with pytest.raises(ValueError, match="given must be one row of 3 cells.* found 2 cells"):
        density.sample(3, given=[0.0, 1.0])
    with pytest.raises(ValueError, match="given must be one row of 3 cells.* found 1 cells"):
        density.sample(3, given=1.0)
    with pytest.raises(NotFittedError):
        clone(density).sample(given=X[:1])


@every_density
def test_no_answer_about_a_number_that_never_is_negative_is_negative(density):
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    X = np.column_stack([np.exp(1.5 * size), size, np.rint(40.0 * rng.exponential(size=300))])
    model = clone(density).fit(X)
    rows = np.full((3, 3), np.nan)
    rows[:, 1] = [-4.0, 0.0, 4.0]
    lower, upper = model.interval(rows, 0.98)
    for cells in (lower, upper, model.complete(rows), model.complete(rows, strategy="mpe")):
        assert (cells[:, [0, 2]] >= 0.0).all()
    for column in (0, 2):
        cells = model.marginals(rows)[column]
        assert_array_equal(cells.cdf(-0.6), 0.0)
        assert (cells.mean() >= 0.0).all()
        assert (cells.quantile(0.001) >= 0.0).all()


@pytest.mark.parametrize("density", [TableMixture(), SoftLearnSPN()], ids=["table", "soft"])
def test_intervals_hold_the_values_of_a_uniform_column_between_hard_ends(density):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 4))
    X[:, 1] = X[:, 0] + X[:, 1]
    X[:, 2] = rng.uniform(0.0, 3000.0, 1300)
    model, test = clone(density).set_params(random_state=0).fit(X[:1000]), X[1000:]
    rows = test.copy()
    rows[:, 2] = np.nan
    lower, upper = (ends[:, 2] for ends in model.interval(rows, 0.8))
    assert ((lower <= test[:, 2]) & (test[:, 2] <= upper)).mean() > 0.76


@every_density
@pytest.mark.parametrize("make", [numbers, table, polars_table])
def test_densities_learn_from_rows_under_a_domain_as_from_a_table(density, make):
    X = make()
    domain = Domain.fit(X, n_bins=10)
    rows, weight = merge_rows(domain.encode(X), np.ones(len(X)))
    under = clone(density).fit_rows(domain, rows, weight)
    fitted = clone(density).fit(X)
    assert_array_equal(under.score_samples(X), fitted.score_samples(X))
    assert under.n_features_in_ == fitted.n_features_in_
    names = [getattr(m, "feature_names_in_", None) for m in (under, fitted)]
    assert_array_equal(*names)
    # The names are those of the last domain.
    again = under.fit_rows(Domain.fit(numbers(), n_bins=10), numbers(), np.ones(200))
    assert not hasattr(again, "feature_names_in_")


@every_density
def test_rows_that_do_not_fit_a_domain_are_refused_and_change_nothing(density):
    X = numbers()
    fitted = clone(density).fit(X)
    before = dict(vars(fitted))
    with pytest.raises(
        ValueError, match=r"encoded rows .* shape \(n_rows, 3\), .* shape \(200, 2\)"
    ):
        fitted.fit_rows(fitted.domain_, X[:, :2], np.ones(200))
    if not isinstance(density, SoftLearnSPN):
        with pytest.raises(ValueError, match="column 2 has no bins; fit the Domain with n_bins"):
            fitted.fit_rows(Domain.fit(X), X, np.ones(200))
    assert vars(fitted) == before


#: A cell of the rows below, what it becomes or the weights become, and what is said.
WRONG_ROWS = [
    ((5, 0), 2.0, None, "codes 0, ..., 1 of its states in column 'kind', .* found 2.0 in row 5"),
    ((5, 0), -1.0, None, "column 'kind', .* found -1.0 in row 5"),
    ((5, 0), 0.5, None, "column 'kind', .* found 0.5 in row 5"),
    ((7, 1), np.inf, None, "must be finite in column 'size', .* found inf in row 7"),
    ((0, 0), 0.0, np.ones(39), r"weight needs one number .* 40 rows.* found shape \(39,\)"),
    ((0, 0), 0.0, np.where(np.arange(40) == 3, np.nan, 1.0), "Input weight contains NaN"),
    ((0, 0), 0.0, np.where(np.arange(40) == 3, -2.0, 1.0), "negative; found -2.0 in row 3"),
    ((0, 0), 0.0, np.zeros(40), "weights are zero"),
]


@pytest.mark.parametrize(
    "density",
    [*DENSITIES, HiddenChowLiuTree(), TableMixture(), StackedDensity()],
    ids=lambda d: type(d).__name__,
)
def test_cells_and_weights_that_no_domain_has_are_refused(density):
    frame = pd.DataFrame({"kind": ["a", "b"] * 20, "size": np.arange(40) + 0.5})
    domain = Domain.fit(frame, n_bins=3)
    for cell, value, weight, message in WRONG_ROWS:
        rows = domain.encode(frame)
        rows[cell] = value
        with pytest.raises(ValueError, match=message):
            clone(density).fit_rows(domain, rows, np.ones(40) if weight is None else weight)
    raw = frame.to_numpy()
    with pytest.raises(ValueError, match="encoded rows .* got ndarray of object"):
        clone(density).fit_rows(domain, raw, np.ones(40))
    with pytest.raises(ValueError, match="found 7.0 in row 1"):
        clone(density).fit_rows(
            domain, domain.encode(frame), np.ones(40), np.array([[0.0, 1.0], [7.0, 1.0]])
        )


def test_a_row_of_weight_zero_is_absent_from_encoded_rows_too():
    X = numbers()
    domain, weight = Domain.fit(X, n_bins=5), (np.arange(200) % 3 > 0).astype(float)
    found = CutsetNetworkBD().fit_rows(domain, X, weight).score_samples(X)
    alone = CutsetNetworkBD().fit_rows(domain, X[weight > 0], weight[weight > 0])
    assert_array_equal(found, alone.score_samples(X))


def test_rows_of_early_stopping_are_those_that_are_handed_in():
    X, X_val = numbers(), numbers(80, seed=1)
    for density in DENSITIES[1:]:
        expected = clone(density).fit(X, X_val=X_val)
        domain = expected.domain_
        rows = merge_rows(domain.encode(X), np.ones(len(X)))
        found = clone(density).fit_rows(domain, *rows, domain.encode(X_val))
        assert_array_equal(found.score_samples(X), expected.score_samples(X))
        assert not np.array_equal(clone(density).fit(X).score_samples(X), found.score_samples(X))


@pytest.mark.parametrize("library", [pd, pl])
def test_given_cells_go_by_name_and_may_be_some_of_them(library):
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Oslo"], 300)
    warm = np.where(city == "Rome", 20.0, 2.0) + rng.normal(size=300)
    model = CutsetNetworkBD(random_state=0).fit(library.DataFrame({"city": city, "warm": warm}))
    whole = model.sample(4, 0, given=library.DataFrame({"city": ["Oslo"], "warm": [np.nan]}))
    for given in (
        pd.Series({"warm": np.nan, "city": "Oslo"}),
        pd.Series({"city": "Oslo"}),
        {"city": "Oslo"},
        {"warm": None, "city": "Oslo"},
        {0: "Oslo"},
        pd.DataFrame({"city": ["Oslo"]}),
        pl.DataFrame({"city": ["Oslo"]}),
        pl.DataFrame({"warm": [None], "city": ["Oslo"]}),
        ["Oslo", None],
        np.array([["Oslo", None]], dtype=object),
        np.ma.array(["Oslo", "?"], mask=[False, True]),
    ):
        drawn = model.sample(4, 0, given=given)
        assert drawn.equals(whole)
    for frame in (pd.DataFrame, pl.DataFrame):
        with pytest.raises(ValueError, match="given names 'town', which is not a column"):
            model.sample(1, 0, given=frame({"town": ["Oslo"]}))
    with pytest.raises(ValueError, match="given names 'town', which is not a column"):
        model.sample(1, 0, given={"town": "Oslo"})
    with pytest.raises(ValueError, match=r"found a dict. Pass list\(given\)"):
        model.score_samples(drawn, given={"city": "Oslo"})


@pytest.mark.parametrize("handle_unknown", ["unseen", "missing", "error"])
def test_a_given_cell_that_its_column_cannot_have_is_refused(handle_unknown):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Rome", "Oslo"], 300), "full": rng.random(300)})
    model = CutsetNetworkBD(bounds={"full": (0, 1)}, handle_unknown=handle_unknown).fit(frame)
    for given in ({"city": "Paris"}, ["Paris", None], pd.DataFrame({"city": ["Paris"]})):
        message = r"in \['Oslo', 'Rome'\] in column 'city', .* found 'Paris'"
        if handle_unknown == "error":
            message = r"'Paris' in column 'city'.* categories are \['Oslo', 'Rome'\]"
        with pytest.raises(ValueError, match=message):
            model.sample(1, 0, given=given)
    for wrong in (-0.5, 1.25):
        message = rf"in \[0, 1\] in column 'full', .* found {wrong}"
        with pytest.raises(ValueError, match=message):
            model.sample(1, 0, given={"full": wrong})
    for end in (0.0, 1.0):
        assert model.sample(3, 0, given={"full": end})["full"].tolist() == [end] * 3
    free = CutsetNetworkBD(handle_unknown=handle_unknown).fit(frame)
    assert free.sample(1, 0, given={"full": 1.25})["full"].tolist() == [1.25]
    # Rows that are not given keep what handle_unknown says.
    if handle_unknown != "error":
        assert model.complete(pd.DataFrame({"city": [None], "full": [0.5]})).notna().all(axis=None)
        assert np.isfinite(model.score_samples(frame[:1].assign(full=1.25))).all()


@pytest.mark.filterwarnings("ignore:Some columns seem to name")
def test_new_names_of_rows_may_be_given():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(200)], "a": rng.integers(0, 2, 200)})
    drawn = CutsetNetworkBD().fit(frame).sample(2, 0, given={"id": "new", "a": 1})
    assert drawn["a"].tolist() == [1, 1]
    assert set(drawn["id"]) <= set(frame["id"])


def test_large_integers_are_not_mistaken_for_the_category_beside_them():
    ids, large = [2**53, 2**53 + 2] * 30, 2**53 + 1
    X = [[a, b] for a, b in zip(ids, [0.0, 0.5, 1.0, 1.5] * 15)]
    model = CutsetNetworkBD(categorical_features=[0], random_state=0).fit(X)
    assert model.sample(5, 0, given=[2**53 + 2, np.nan])[:, 0].tolist() == [2.0**53 + 2] * 5
    for ask in (
        lambda: model.sample(1, given=[large, np.nan]),
        lambda: model.score_samples([[large, 0.5]]),
        lambda: model.complete([[large, np.nan]]),
        lambda: model.predict_column([[large, np.nan]], 1),
    ):
        with pytest.raises(ValueError, match="found 9007199254740993 in column 0"):
            ask()


def test_marginals_keep_the_index_of_a_frame():
    frame = pd.DataFrame({"a": [0.0, 1.0] * 30, "b": np.arange(60.0)}, index=np.arange(60) + 7)
    found = CutsetNetworkBD().fit(frame).marginals(frame[:3])
    assert list(found[0].to_frame().index) == [7, 8, 9]
    assert list(found[1].to_frame().index) == [7, 8, 9]


def test_rows_that_are_not_encoded_are_refused():
    frame = pd.DataFrame({"a": [0.0, 1.0] * 30})
    domain = Domain.fit(frame, n_bins=3)
    with pytest.raises(ValueError, match=r"encoded rows .* got DataFrame of shape \(60, 1\)"):
        CutsetNetworkBD().fit_rows(domain, frame, np.ones(60))


def brackets() -> pd.DataFrame:
    """Brackets of ages on a coarse lattice and doses without one, and a number that follows."""
    rng = np.random.default_rng(0)
    age = rng.choice([0.19, 0.22, 0.27, 0.37, 0.52, 0.72], 600, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.2])
    dose = np.sqrt(np.floor(10.0 * age) + rng.integers(0, 2, 600))
    return pd.DataFrame({"age": age, "dose": dose, "x": rng.normal(5.0 * age, 1.0)})


@pytest.mark.parametrize(
    "density",
    [
        *DENSITIES,
        TableMixture(random_state=0),
        HiddenChowLiuTree(random_state=0),
        ExtraCutsets(random_state=0),
    ],
)
def test_whatever_is_said_of_ordered_states_is_a_value_of_the_column(density):
    frame = brackets()
    states = {name: set(frame[name]) for name in ("age", "dose")}
    density.fit(frame)
    assert density.domain_.is_ordered.tolist() == [True, True, False]
    incomplete = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.4)
    tables = [density.sample(2000, random_state=0), *density.interval(incomplete, 0.8)]
    tables += [density.complete(incomplete, how, 0) for how in ("mean", "mpe", "sample")]
    for answer in tables:
        assert all(set(answer[name]) <= values for name, values in states.items())
    for name, values in states.items():
        assert set(density.predict_column(frame, name)) <= values
        shares = [
            part[name].value_counts(normalize=True).sort_index() for part in (frame, tables[0])
        ]
        assert_allclose(*shares, atol=0.04)
    lower, upper = tables[1:3]
    missing = incomplete.isna().to_numpy()[:, 0]
    inside = (lower["age"] <= frame["age"]) & (frame["age"] <= upper["age"])
    assert inside[missing].mean() > 0.76
