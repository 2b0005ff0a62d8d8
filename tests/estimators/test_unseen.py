"""Categories that were not seen, and columns that no learner sees, in every estimator."""

import warnings
from functools import cache

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.estimators import _answers
from tests.naive import unseen as naive

DENSITIES = [
    CutsetNetworkBD(random_state=0),
    CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
    SoftLearnSPN(random_state=0),
    MixtureOfAllTrees(max_iter=5, n_inference_samples=200, random_state=0),
]
every_density = pytest.mark.parametrize("density", DENSITIES, ids=repr)
unseen_is_expected = pytest.mark.filterwarnings("ignore:Found categories that fit has not seen")
hidden_is_expected = pytest.mark.filterwarnings("ignore:Some columns")


def table(n_rows: int = 160, seed: int = 0) -> pd.DataFrame:
    """Two columns of strings and one of numbers, all dependent; one note is seen once."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    note = np.array(["x", "y", "z"], dtype=object)[np.where(rng.random(n_rows) < 0.8, kind, 0)]
    note[7] = "once"
    return pd.DataFrame(
        {
            "kind": np.array(["low", "mid", "top"])[kind],
            "size": 2.0 * kind + rng.normal(size=n_rows),
            "note": note,
        }
    )


def with_hidden_columns(n_rows: int = 160) -> pd.DataFrame:
    """The table, with a column of names and one without values."""
    frame = table(n_rows)
    frame.insert(0, "id", [f"row {i}" for i in range(n_rows)])
    return frame.assign(void=np.nan)


@cache
def of_table(density):
    """A density of the table, learned once; no test changes it."""
    return clone(density).fit(table())


@cache
def of_hidden_columns(density):
    """The same of the table with hidden columns."""
    return clone(density).fit(with_hidden_columns())


def some_unseen() -> pd.DataFrame:
    frame = table()[:6].reset_index(drop=True)
    frame.loc[0, "kind"] = frame.loc[2, "note"] = "new"
    frame.loc[1, ["kind", "note"]] = ["other", "new"]
    frame.loc[3, "kind"] = None
    frame.loc[4, "size"] = np.nan
    return frame


def expected_constants(model, frame) -> np.ndarray:
    """What each cell adds, by a loop; also what the domain knows, from the training table."""
    found = np.zeros(frame.shape)
    train = table()
    for column in (0, 2):
        cells = train.iloc[:, column].tolist()
        states = sorted(set(cells))
        mass = naive.unseen_mass(cells, [1.0] * len(cells), states)
        for row, cell in enumerate(frame.iloc[:, column].astype(object)):
            found[row, column] = naive.added(cell if isinstance(cell, str) else None, states, mass)
    return found


def as_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its unseen categories missing."""
    return frame.mask(frame.isin(["new", "other"]))


# ---------------------------------------------------------------- categories that were not seen


@unseen_is_expected
@every_density
def test_an_unseen_category_adds_its_log_probability_and_counts_as_missing(density):
    frame, old = some_unseen(), clone(density).set_params(handle_unknown="missing").fit(table())
    model = of_table(density)
    added = expected_constants(model, frame)
    assert_allclose(
        model.score_samples(frame), old.score_samples(as_missing(frame)) + added.sum(axis=1)
    )
    given = old.score_samples(as_missing(frame), given=["kind", "size"]) + added[:, 2]
    assert_allclose(model.score_samples(frame, given=["kind", "size"]), given)
    cells = old.score_cells(as_missing(frame))
    is_unseen = frame.isin(["new", "other"])
    assert_allclose(model.score_cells(frame), cells.mask(is_unseen, 0.0) + added)
    for ask in ("marginals", "complete", "interval"):
        found, known = getattr(model, ask)(frame), getattr(model, ask)(as_missing(frame))
        if ask == "marginals":
            for one, other in zip(found, known):
                pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
        elif ask == "complete":
            pd.testing.assert_frame_equal(found, known.where(~is_unseen, frame))
        else:
            assert_array_equal(found[0]["size"], known[0]["size"])


@unseen_is_expected
@every_density
def test_a_row_with_an_unseen_category_is_less_normal_than_one_with_a_missing_cell(density):
    frame = table()
    model = of_table(density)
    unseen, missing = frame.assign(note="new"), frame.assign(note=None)
    assert (model.score_samples(unseen) < model.score_samples(missing) - 3.0).all()


@unseen_is_expected
@every_density
def test_probabilities_of_known_and_unseen_categories_sum_to_one(density):
    model = of_table(density)
    notes = ["once", "x", "y", "z", "new"]
    alone = pd.DataFrame({"kind": None, "size": np.nan, "note": notes}).astype({"kind": object})
    assert np.exp(model.score_samples(alone)).sum() == pytest.approx(1.0)
    given = alone.assign(kind="top", size=3.5)
    found = model.score_samples(given, given=["kind", "size"])
    assert np.exp(found).sum() == pytest.approx(1.0)


@every_density
@pytest.mark.parametrize(
    "ask", ["score", "score_samples", "score_cells", "complete", "marginals", "interval"]
)
def test_one_warning_a_call_names_the_column_and_its_first_value(density, ask):
    model = of_table(density)
    with pytest.warns(
        UserWarning, match="3 of 6 rows, the first 'new' in column 'kind', row 0"
    ) as w:
        getattr(model, ask)(some_unseen())
    assert len(w) == 1


@every_density
def test_missing_takes_unknown_categories_as_missing_without_a_word(density):
    model = clone(density).set_params(handle_unknown="missing").fit(table())
    frame = some_unseen()
    assert_allclose(model.score_samples(frame), model.score_samples(as_missing(frame)))
    assert_array_equal(model.score_cells(frame), model.score_cells(as_missing(frame)))


@unseen_is_expected
@every_density
def test_unknown_numbers_count_as_missing_as_ever(density):
    X = np.tile([[0.0, 0.5], [1.0, 1.5], [1.0, 2.5]], (20, 1))
    model = clone(density).fit(X)
    assert_allclose(model.score_samples([[7.0, 1.0]]), model.score_samples([[np.nan, 1.0]]))


@every_density
@pytest.mark.parametrize("ask", ["score", "score_samples", "complete", "marginals"])
def test_a_number_that_no_training_row_holds_is_warned_of_once_a_call(density, ask):
    X = np.column_stack([np.tile([0.0, 1.0], 30), np.ones(60)])
    model, new = clone(density).fit(X), np.array([[1.0, 1.0], [0.0, np.nan], [1.0, 0.0]])
    call = getattr(model, ask)
    match = "in 1 of . rows, the first 0.0 in column 1, row .*as if it were certain.*in categories"
    with pytest.warns(UserWarning, match=match) as w:
        call(new)
    assert len(w) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(X)
        declared = clone(density).set_params(categories=[[0, 1]] * 2).fit(X)
        assert (declared.score_samples(new[2:]) < declared.score_samples(new[:1])).all()
        clone(density).set_params(handle_unknown="missing").fit(X).score_samples(new)


def test_blocks_of_rows_warn_once_of_numbers_that_were_not_seen(monkeypatch):
    X = np.column_stack([np.tile([0.0, 1.0], 30), np.ones(60)])
    model = CutsetNetworkBD().fit(X)
    X[[25, 45], 1] = 0.0
    monkeypatch.setattr(_answers, "_ANSWERED_CELLS", 40)
    for n_jobs in (1, 2):
        match = "in 1 of 20 rows, .* row 5.*Rows are counted from row 20 of X"
        with (
            joblib.parallel_config(n_jobs=n_jobs),
            pytest.warns(UserWarning, match=match) as caught,
        ):
            model.score_samples(X)
        assert len(caught) == 1
        assert caught[0].filename == __file__


@every_density
def test_an_unseen_category_that_is_given_is_refused(density):
    model = of_table(density)
    with pytest.raises(ValueError, match=r"\['low', 'mid', 'top'\] in column 'kind', .*'new'"):
        model.sample(50, random_state=0, given=pd.Series({"kind": "new"}))
    numbers = clone(density).fit(np.column_stack([np.tile([0.0, 1.0], 30), np.ones(60)]))
    assert numbers.sample(3, random_state=0, given={1: 1.0})[:, 1].tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=r"\[1.0\] in column 1, .* found 0.0"):
        numbers.sample(3, random_state=0, given={1: 0.0})


CLASSIFIERS = [
    DensityClassifier(CutsetNetworkBD(random_state=0), cv=2, random_state=0),
    DensityClassifier(CutsetNetworkBD(random_state=0), joint=True, classifiers=None),
]


@unseen_is_expected
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_an_unseen_category_tells_a_classifier_nothing_of_the_class(classifier):
    frame, y = table(), np.arange(160) % 2
    model = clone(classifier).fit(frame, y)
    density = clone(classifier.density or SoftLearnSPN(random_state=0))
    old = clone(classifier).set_params(density=density.set_params(handle_unknown="missing"))
    old.fit(frame, y)
    rows = some_unseen()
    assert_array_equal(model.predict_log_proba(rows), old.predict_log_proba(as_missing(rows)))
    assert_array_equal(model.predict_log_proba(frame), old.predict_log_proba(frame))
    expected = old.score_samples(as_missing(rows)) + expected_constants(model, rows).sum(axis=1)
    assert_allclose(model.score_samples(rows), expected)
    for ask in (model.predict, model.predict_proba, model.score_samples):
        with pytest.warns(UserWarning, match="the first 'new' in column 'kind'") as caught:
            ask(rows)
        assert len(caught) == 1


# ---------------------------------------------------------------- columns that no learner sees


@every_density
def test_names_and_empty_columns_are_warned_of_once_each(density):
    with pytest.warns(UserWarning, match="Some columns") as caught:
        clone(density).fit(with_hidden_columns())
    said = sorted(str(warning.message) for warning in caught)
    assert len(said) == 2
    assert "Found column 'void'." in said[0]
    assert "Found column 'id'." in said[1]


@hidden_is_expected
@every_density
def test_missing_cells_of_columns_without_a_learner_stay_missing(density):
    frame = with_hidden_columns()
    model = of_hidden_columns(density)
    holes = frame[:20].mask(np.random.default_rng(0).random((20, 5)) < 0.3)
    for strategy in ("mean", "mpe", "sample"):
        full = model.complete(holes, strategy, random_state=0)
        assert full[["kind", "size", "note"]].notna().all().all()
        pd.testing.assert_frame_equal(full[["id", "void"]], holes[["id", "void"]])
    lower, upper = model.interval(holes)
    assert lower["void"].isna().all()
    assert upper["id"].isna().equals(holes["id"].isna())
    assert model.predict_column(holes, "void").isna().all()
    assert [cells.probabilities.shape for cells in model.marginals(holes)[::4]] == [(20, 1)] * 2


@hidden_is_expected
@every_density
def test_samples_have_names_of_training_rows_and_empty_columns_stay_empty(density):
    frame = with_hidden_columns()
    model = of_hidden_columns(density)
    drawn = model.sample(300, random_state=0)
    assert drawn["void"].isna().all()
    assert set(drawn["id"]) <= set(frame["id"])
    assert drawn["id"].nunique() > 100
    assert drawn.dtypes.equals(frame.dtypes)
    given = model.sample(5, random_state=0, given=pd.Series({"id": "row 3", "kind": "top"}))
    assert set(given["id"]) == {"row 3"}
    assert set(given["kind"]) == {"top"}


@hidden_is_expected
@every_density
def test_names_are_uniform_and_independent_of_the_rest(density):
    frame = with_hidden_columns()
    model = of_hidden_columns(density)
    unnamed = model.score_samples(frame.assign(id=None))
    assert_allclose(model.score_samples(frame), unnamed - np.log(2 * 160))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # new names are no surprise
        assert_allclose(model.score_samples(frame.assign(id="new")), unnamed + np.log(0.5))
    assert_allclose(model.score_samples(frame, given="id"), unnamed)
    cells = model.score_cells(frame[:3])
    assert_allclose(cells["id"], -np.log(320))
    assert cells["void"].isna().all()


@hidden_is_expected
@every_density
def test_a_learner_makes_the_same_of_the_other_columns(density):
    frame = with_hidden_columns()
    is_certain = density is DENSITIES[0]
    if is_certain:
        # Rows that choose how much is smoothed are drawn at random.
        density = clone(density).set_params(param_ess=1.0)
    model, other = clone(density).fit(frame), clone(density).fit(table())
    assert model.domain_.n_states[[0, 4]].tolist() == [1, 1]
    found, expected = model.score_samples(frame.assign(id=None)), other.score_samples(table())
    # What is drawn at random depends on the rows as a whole.
    assert abs(found.mean() - expected.mean()) < 0.05
    if is_certain:
        assert_allclose(found, expected, atol=1e-9)


@hidden_is_expected
@every_density
def test_rows_that_show_nothing_but_a_name_add_nothing(density):
    frame = with_hidden_columns()
    alone = frame.assign(kind=None, size=np.nan, note=None)
    alone["id"] = [f"alone {i}" for i in range(160)]
    model = clone(density).fit(frame)
    other = clone(density).fit(pd.concat([frame, alone.astype(frame.dtypes)], ignore_index=True))
    unnamed = frame.assign(id=None)
    assert_allclose(model.score_samples(unnamed), other.score_samples(unnamed), atol=1e-9)


@hidden_is_expected
@every_density
def test_a_table_of_names_alone_can_be_learned(density):
    frame = with_hidden_columns()[["id"]]
    model = clone(density).fit(frame)
    assert_allclose(model.score_samples(frame), -np.log(320))
    assert set(model.sample(5, random_state=0)["id"]) <= set(frame["id"])


@hidden_is_expected
def test_thousands_of_names_are_no_obstacle():
    frame = with_hidden_columns(3000)
    model = CutsetNetworkBD().fit(frame)
    assert_allclose(model.score_cells(frame[:2])["id"], -np.log(6000))


@every_density
def test_a_table_without_any_value_is_refused(density):
    with pytest.raises(ValueError, match="Every value of X is missing"):
        clone(density).fit(np.full((20, 2), np.nan))


@hidden_is_expected
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_classifiers_take_names_and_empty_columns(classifier):
    frame, y = with_hidden_columns(), np.arange(160) % 2
    with pytest.warns(UserWarning, match="Some columns") as caught:
        model = clone(classifier).fit(frame, y)
    assert len(caught) == 2
    unnamed = model.score_samples(frame.assign(id=None))
    assert_allclose(model.score_samples(frame), unnamed - np.log(320))
    assert_array_equal(model.predict_proba(frame), model.predict_proba(frame.assign(id="new")))
    drawn, _ = model.sample(50, random_state=0)
    assert set(drawn["id"]) <= set(frame["id"])
    assert drawn["void"].isna().all()


@hidden_is_expected
@pytest.mark.parametrize("machine", [ExpectedKernelSVR(), ExpectedKernelSVC()], ids=repr)
def test_kernel_machines_take_names_and_empty_columns(machine):
    frame = with_hidden_columns(60)
    model = clone(machine).fit(frame, np.arange(60) % 2)
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    assert np.isfinite(model.predict(holes)).all()
    assert_allclose(model.predict(frame.assign(id="new")), model.predict(frame))


# ---------------------------------------------------------------- blocks


@hidden_is_expected
def test_blocks_of_numbers_with_an_empty_column_answer_as_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 90), np.full(90, np.nan), rng.normal(size=90)])
    model = CutsetNetworkBD().fit(X)
    whole = [model.score_samples(X), model.score_cells(X), model.complete(X)]
    monkeypatch.setattr(_answers, "_ANSWERED_CELLS", 30)
    for found, expected in zip(
        [model.score_samples(X), model.score_cells(X), model.complete(X)], whole
    ):
        assert_array_equal(found, expected)
    assert np.isnan(whole[2][:, 1]).all()


@hidden_is_expected
def test_blocks_tell_what_is_unseen_together():
    frame = with_hidden_columns()
    model = CutsetNetworkBD().fit(iter([frame[:100], frame[100:]]))
    whole = CutsetNetworkBD().fit(frame)
    assert [c.unseen for c in model.domain_] == [c.unseen for c in whole.domain_]
    assert_array_equal(model.score_cells(frame[:1]), whole.score_cells(frame[:1]))


@hidden_is_expected
def test_steps_through_a_stream_pass_over_columns_without_a_learner():
    frame = with_hidden_columns()
    model = MixtureOfAllTrees(random_state=0).partial_fit(frame[:80])
    model.partial_fit(frame[80:].assign(void=1.5))
    assert_allclose(model.score_cells(frame[:1])["id"], -np.log(160))
    assert model.complete(frame[:5])["void"].isna().all()


# ---------------------------------------------------------------- the imputer


def test_strings_of_polars_become_an_array_of_objects():
    frame = pl.DataFrame({"kind": ["a", "b", "a"] * 20, "size": [1.5, None, 2.5] * 20})
    filled = CircuitImputer().fit(frame).transform(frame)
    assert filled.dtype == object
    assert filled[:3, 0].tolist() == ["a", "b", "a"]


@hidden_is_expected
@pytest.mark.parametrize("library", [None, "pandas", "polars"])
@pytest.mark.parametrize("add_indicator", [False, True])
def test_the_imputer_drops_columns_without_values_unless_told_to_keep_them(library, add_indicator):
    frame = with_hidden_columns().drop(columns="id")
    frame.loc[:9, "size"] = np.nan
    source = frame
    if library == "polars":
        source = pl.DataFrame({name: frame[name].tolist() for name in frame}, nan_to_null=True)
    dropping = CircuitImputer(CutsetNetworkBD(), add_indicator=add_indicator).set_output(
        transform=library or "default"
    )
    keeping = clone(dropping).set_params(keep_empty_features=True)
    marks = ["missingindicator_size", "missingindicator_void"] if add_indicator else []
    for imputer, kept in ((dropping, []), (keeping, ["void"])):
        filled = imputer.fit(source).transform(source)
        names = ["kind", "size", "note", *kept, *marks]
        assert imputer.get_feature_names_out().tolist() == names
        assert filled.shape == (160, len(names))
        cells = np.asarray(filled, dtype=object)
        assert not pd.isna(cells).any()
        if kept:
            assert set(cells[:, 3].tolist()) == {0.0}
        if library is not None:
            assert list(filled.columns) == names


@hidden_is_expected
def test_kept_columns_without_values_keep_what_comes_later():
    X = np.column_stack([np.random.default_rng(0).normal(size=50), np.full(50, np.nan)])
    imputer = CircuitImputer(keep_empty_features=True).fit(X)
    assert_array_equal(imputer.transform([[1.0, 7.0], [2.0, np.nan]]), [[1.0, 7.0], [2.0, 0.0]])
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    imputer.set_output(transform="pandas").fit(frame)
    later = pd.DataFrame({"a": [1.0, 2.0], "b": ["text", None]})
    assert imputer.transform(later)["b"].tolist() == ["text", 0.0]
