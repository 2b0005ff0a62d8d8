"""What every estimator promises; run for all of them."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpc import (
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.circuit import load_circuit, save_circuit
from skpc.queries import log_likelihood

#: Every estimator, in the settings that take different paths.
WITH_CIRCUIT = [
    CutsetNetworkBD(),
    CutsetNetworkBD(criterion="bic"),
    CutsetNetworkBD(param_ess=1.0, max_depth=1, n_bins=4),
    CutsetNetworkBD(n_components=3, random_state=0),
    CutsetNetworkBD(structured=True, random_state=0),
    SoftLearnSPN(random_state=0),
    SoftLearnSPN(assignment="hard", n_refine=0, random_state=0),
    SoftLearnSPN(clusterer="em", n_clusters=3, significance=0.01, random_state=0),
    TableMixture(random_state=0),
    TableMixture(n_components=4, random_state=0),
    HiddenChowLiuTree(random_state=0),
    HiddenChowLiuTree(n_hidden=4, n_bins=4, random_state=0),
]
ESTIMATORS = [
    *WITH_CIRCUIT,
    StackedDensity(
        [("cutset", CutsetNetworkBD()), ("soft", SoftLearnSPN(random_state=0))],
        cv=2,
        random_state=0,
    ),
    MixtureOfAllTrees(random_state=0),
    MixtureOfAllTrees(orientation="undirected", n_components=2, max_iter=20, random_state=0),
    MixtureOfAllTrees(solver="lbfgs", early_stopping=False, max_iter=20, random_state=0),
]
every_density = pytest.mark.parametrize("density", ESTIMATORS, ids=repr)


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def table(n_rows: int = 150, seed: int = 0) -> pd.DataFrame:
    """A mixed table whose columns depend on each other."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "kind": pd.Categorical(np.array(["low", "mid", "top"])[kind]),
            "size": np.round(kind * 2.0 + rng.normal(size=n_rows), 3),
            "flag": (kind > 0) ^ (rng.random(n_rows) < 0.1),
            "note": np.where(rng.random(n_rows) < 0.5, "a", "b"),
            "age": 20 + 10 * kind + rng.integers(0, 9, n_rows),
        }
    )


def polars_table() -> pl.DataFrame:
    """The same table in polars."""
    frame = table()
    columns = {name: frame[name].tolist() for name in frame}
    return pl.DataFrame(columns).with_columns(
        pl.col("kind").cast(pl.Enum(["low", "mid", "top"])), pl.col("age").cast(pl.Int32)
    )


def with_missing_cells(frame: pd.DataFrame, proportion: float = 0.3, seed: int = 1) -> pd.DataFrame:
    mask = np.random.default_rng(seed).random(frame.shape) < proportion
    return frame.astype({"flag": object, "age": float}).mask(mask)


def numbers(n_rows: int = 200, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, n_rows)
    return np.column_stack(
        [base, (base + rng.integers(0, 2, n_rows)) % 3, base + rng.normal(size=n_rows)]
    )


@every_density
def test_score_is_the_mean_of_score_samples(density):
    X = numbers()
    density = clone(density).fit(X)
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    assert density.score_samples(X).shape == (200,)


@every_density
def test_the_score_of_weighted_rows_is_that_of_rows_which_stand_there_as_often(density):
    X = numbers()
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    density = clone(density).fit(X)
    repeated = density.score(np.repeat(X, weight, axis=0))
    assert density.score(X, sample_weight=weight) == pytest.approx(repeated)
    with pytest.raises(ValueError, match="weights are zero"):
        density.score(X, sample_weight=np.zeros(len(X)))


@every_density
def test_samples_have_the_shape_asked_for_and_depend_on_the_call_alone(density):
    density = clone(density).fit(numbers())
    assert density.sample().shape == (1, 3)
    first = density.sample(50, random_state=3)
    assert first.shape == (50, 3)
    assert_array_equal(density.sample(50, random_state=3), first)
    assert not np.array_equal(density.sample(50, random_state=4), first)
    assert not np.array_equal(density.sample(50), density.sample(50))


@every_density
def test_samples_score_like_training_rows(density):
    X = numbers(600)
    density = clone(density).fit(X)
    drawn = density.sample(4000, random_state=0)
    assert abs(density.score(drawn) - density.score(X)) < 0.35


@every_density
def test_missing_cells_are_integrated_out_when_scoring(density):
    X = numbers()
    density = clone(density).fit(X)
    parts = np.repeat(X[:5], 3, axis=0)
    parts[:, 0] = np.tile([0.0, 1.0, 2.0], 5)
    total = np.exp(density.score_samples(parts)).reshape(5, 3).sum(axis=1)
    incomplete = X[:5].copy()
    incomplete[:, 0] = np.nan
    assert_allclose(np.exp(density.score_samples(incomplete)), total, rtol=1e-9)
    assert_allclose(density.score_samples(np.full((2, 3), np.nan)), 0.0, atol=1e-9)


@every_density
def test_the_density_of_a_number_integrates_to_one(density):
    X = numbers()
    density = clone(density).fit(X)
    grid = np.linspace(-30, 40, 200_001)
    rows = np.full((len(grid), 3), np.nan)
    rows[:, 2] = grid
    total = np.exp(density.score_samples(rows)).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=1e-3)


@every_density
@pytest.mark.parametrize("strategy", ["mean", "mpe", "sample"])
def test_completions_keep_observed_cells(density, strategy):
    frame = table()
    density = clone(density).fit(frame)
    incomplete = with_missing_cells(frame)
    full = density.complete(incomplete, strategy=strategy, random_state=0)
    assert list(full.columns) == list(frame.columns)
    assert not full.isna().any().any()
    seen = incomplete.notna()
    assert full[seen].astype(object).where(seen).equals(incomplete.astype(object).where(seen))


@every_density
def test_completions_beat_a_guess(density):
    frame = table(600)
    density = clone(density).fit(frame[:400])
    incomplete = frame[400:].copy()
    incomplete["kind"] = pd.Categorical([None] * 200, categories=["low", "mid", "top"])
    found = density.complete(incomplete)["kind"]
    assert (found.to_numpy() == frame[400:]["kind"].to_numpy()).mean() > 0.8


@every_density
def test_an_unknown_strategy_is_refused(density):
    density = clone(density).fit(numbers())
    with pytest.raises(ValueError, match="strategy must be one of .* got 'median'"):
        density.complete(numbers(), strategy="median")


@every_density
def test_marginals_are_distributions_and_observed_cells_are_certain(density):
    frame = table()
    density = clone(density).fit(frame)
    found = density.marginals(with_missing_cells(frame))
    assert len(found) == frame.shape[1]
    seen = with_missing_cells(frame).notna().to_numpy()
    for column, cells in enumerate(found):
        prob = cells.probabilities
        assert (prob is None) == (density.domain_.n_states[column] == 0)
        if prob is None:  # numbers without bins
            middle = cells.quantile(0.5)
            below = cells.cdf(middle)[~seen[:, column]]
            step = density.domain_.number_of(column).step
            if step == 0.0:
                assert_allclose(below, 0.5, atol=1e-9)
            else:  # the distribution function jumps on the points of a lattice
                assert np.all(below >= 0.5)
                assert np.all(cells.cdf(middle - step)[~seen[:, column]] < 0.5)
            continue
        assert prob.shape == (len(frame), density.domain_.n_states[column])
        assert_allclose(prob.sum(axis=1), 1.0)
        assert_allclose(prob[seen[:, column]].max(axis=1), 1.0)


@every_density
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(density):
    X = numbers(80)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    a = clone(density).fit(X, sample_weight=weight)
    b = clone(density).fit(np.repeat(X, weight, axis=0))
    c = clone(density).fit(X[::-1], sample_weight=weight[::-1])
    rows = numbers(50, seed=5)
    assert_allclose(a.score_samples(rows), b.score_samples(rows), rtol=0, atol=1e-12)
    assert_allclose(a.score_samples(rows), c.score_samples(rows), rtol=0, atol=1e-12)


@every_density
def test_scaling_fractional_weights_of_merged_rows_changes_nothing_when_split(density):
    X = numbers(60)
    weight = np.random.default_rng(1).uniform(0.1, 1.0, 60)
    a = clone(density).fit(X, sample_weight=weight)
    b = clone(density).fit(np.vstack([X, X]), sample_weight=np.append(weight, weight) / 2)
    assert_allclose(a.score_samples(X), b.score_samples(X), rtol=0, atol=1e-9)


@every_density
def test_all_zero_weights_are_refused(density):
    with pytest.raises(ValueError, match=r"(?i)weights.*zero"):
        clone(density).fit(numbers(), sample_weight=np.zeros(200))


@every_density
def test_threads_change_nothing(density):
    X = numbers(20_000)
    density = clone(density).fit(X)
    X[::3, 1] = np.nan
    alone = density.score_samples(X), density.sample(9000, random_state=0)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(density.score_samples(X), alone[0])
        assert_array_equal(density.sample(9000, random_state=0), alone[1])


@every_density
def test_pandas_tables_come_back_with_names_and_dtypes(density):
    frame = table()
    density = clone(density).fit(frame)
    drawn = density.sample(40, random_state=0)
    assert isinstance(drawn, pd.DataFrame)
    assert drawn.dtypes.equals(frame.dtypes)
    assert density.feature_names_in_.tolist() == list(frame.columns)
    assert set(drawn["note"]) <= {"a", "b"}
    assert np.all(np.isfinite(density.score_samples(drawn)))


@every_density
def test_polars_tables_come_back_with_names_and_dtypes(density):
    frame = polars_table()
    density = clone(density).fit(frame)
    drawn = density.sample(40, random_state=0)
    assert isinstance(drawn, pl.DataFrame)
    assert drawn.schema == frame.schema
    incomplete = frame.with_columns(
        pl.when(pl.col("flag")).then(None).otherwise(pl.col("size")).alias("size")
    )
    full = density.complete(incomplete)
    assert full["size"].null_count() == 0
    assert full.select("kind", "flag", "note", "age").equals(
        frame.select("kind", "flag", "note", "age")
    )


@every_density
def test_pandas_and_polars_give_the_same_density(density):
    frame = table()
    a = clone(density).fit(frame).score_samples(frame)
    b = clone(density).fit(polars_table()).score_samples(polars_table())
    assert_allclose(a, b, rtol=1e-12)


@every_density
def test_columns_in_another_order_are_refused(density):
    frame = table()
    density = clone(density).fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        density.score_samples(frame[frame.columns[::-1]])


@every_density
def test_pickles_score_alike(density):
    frame = table()
    density = clone(density).fit(frame)
    again = pickle.loads(pickle.dumps(density))
    assert_array_equal(again.score_samples(frame), density.score_samples(frame))


@pytest.mark.parametrize("density", WITH_CIRCUIT, ids=repr)
def test_the_circuit_can_be_saved_and_loaded(density, tmp_path):
    X = numbers()
    density = clone(density).fit(X)
    save_circuit(density.circuit_, tmp_path / "circuit.npz")
    again = load_circuit(tmp_path / "circuit.npz")
    rows = density.domain_.encode(X)
    assert_array_equal(log_likelihood(again, rows), density.score_samples(X))


@every_density
def test_grid_search_over_a_pipeline_uses_score(density):
    X = load_iris().data
    pipeline = make_pipeline(FunctionTransformer(np.log1p), clone(density))
    name = pipeline.steps[-1][0]
    tried = {"alpha": [0.01, 1.0], "n_components": [1, 2], "n_hidden": [1, 2], "cv": [2, 3]}
    grid = {p: tried[p] for p in [next(p for p in tried if hasattr(density, p))]}
    search = GridSearchCV(pipeline, {f"{name}__{p}": v for p, v in grid.items()}, cv=3).fit(X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


@every_density
def test_held_out_rows_of_real_numbers_have_finite_scores(density):
    scores = cross_val_score(clone(density), load_wine().data, cv=3)
    assert np.all(np.isfinite(scores))


@every_density
def test_tags_tell_what_the_estimator_takes(density):
    tags = get_tags(density)
    assert tags.estimator_type == "density_estimator"
    assert tags.input_tags.allow_nan
    assert tags.input_tags.categorical
    assert not is_outlier_detector(density)


@every_density
def test_missing_cells_and_whole_missing_rows_are_allowed_in_training(density):
    frame = with_missing_cells(table())
    frame.iloc[3] = None
    density = clone(density).fit(frame)
    assert np.all(np.isfinite(density.score_samples(frame)))


@every_density
def test_a_column_without_any_value_is_warned_of_by_name_and_stays_missing(density):
    frame = table().assign(size=np.nan)
    with pytest.warns(UserWarning, match="no value in the rows of fit.* Found column 'size'"):
        model = clone(density).fit(frame)
    assert model.complete(frame)["size"].isna().all()
    assert model.sample(3)["size"].isna().all()
    assert np.all(np.isfinite(model.score_samples(frame)))


@every_density
def test_constant_columns_are_fine(density):
    X = numbers()
    X[:, 1] = 7.5
    density = clone(density).fit(X)
    assert np.all(np.isfinite(density.score_samples(X)))
    assert np.all(np.isfinite(density.score_samples([[0.0, 1e6, 0.0]])))


@every_density
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_in_fit_and_in_score(density, value):
    X = numbers()
    fitted = clone(density).fit(X)
    X[4, 2] = value
    with pytest.raises(ValueError, match="inf"):
        clone(density).fit(X)
    with pytest.raises(ValueError, match="inf"):
        fitted.score_samples(X)


@every_density
def test_unknown_categories_are_missing_or_refused(density):
    frame = table()
    other = frame[:5].assign(note="zzz")
    lenient = clone(density).set_params(handle_unknown="missing").fit(frame)
    hidden = frame[:5].assign(note=None)
    assert_allclose(lenient.score_samples(other), lenient.score_samples(hidden))
    assert lenient.complete(other)["note"].tolist() == ["zzz"] * 5
    strict = clone(density).set_params(handle_unknown="error").fit(frame)
    with pytest.raises(ValueError, match="zzz"):
        strict.score_samples(other)


@every_density
def test_declared_categories_are_states_even_when_unseen(density):
    X = np.column_stack([np.tile([0.0, 1.0], 50), np.tile([2.0, 3.0], 50)])
    declared = clone(density).set_params(categories=[[0, 1, 2], [1, 2, 3]]).fit(X)
    assert declared.domain_.n_states.tolist() == [3, 3]
    assert np.all(np.isfinite(declared.score_samples([[2.0, 1.0]])))


@every_density
def test_a_failed_fit_leaves_the_estimator_as_it_was(density):
    fitted = clone(density).fit(numbers())
    before = fitted.score(numbers())
    wider = np.column_stack([numbers(), np.full(200, 1e200)])
    with pytest.raises(ValueError, match="column 3"):
        fitted.fit(wider)
    assert fitted.score(numbers()) == before
    new = clone(density)
    with pytest.raises(ValueError, match="column 3"):
        new.fit(wider)
    assert not hasattr(new, "n_features_in_")


@every_density
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(density, monkeypatch):
    fitted = clone(density).fit(numbers())
    before = fitted.score(numbers())

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skpc.estimators._base.merge_rows", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(numbers()[:, :2])
    monkeypatch.undo()
    assert fitted.score(numbers()) == before
