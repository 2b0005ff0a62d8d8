"""What every density promises, and what every estimator owes to scikit-learn."""

import pickle
from functools import cache

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skpc.circuit import load_circuit, save_circuit
from skpc.queries import log_likelihood
from tests.estimators.cheap import DENSITIES, EACH_CLASS, WITH_CIRCUIT
from tests.scikit_checks import parametrize_with_checks

every_density = pytest.mark.parametrize("name", DENSITIES)


@parametrize_with_checks(EACH_CLASS)
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


def new(name: str):
    return clone(DENSITIES[name])


@cache
def of_numbers(name: str):
    """A density of numbers, learned once; no test changes it."""
    return new(name).fit(numbers())


@cache
def of_table(name: str):
    """A density of the mixed table, learned once; no test changes it."""
    return new(name).fit(table())


@every_density
def test_score_is_the_mean_of_score_samples_by_the_weights_of_the_rows(name):
    X, density = numbers(), of_numbers(name)
    assert density.score_samples(X).shape == (200,)
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = density.score(np.repeat(X, weight, axis=0))
    assert density.score(X, sample_weight=weight) == pytest.approx(repeated)
    for call in (density.score, new(name).fit):
        with pytest.raises(ValueError, match=r"(?i)weights.*zero"):
            call(X, sample_weight=np.zeros(len(X)))


@every_density
def test_samples_have_the_shape_asked_for_and_depend_on_the_call_alone(name):
    density = of_numbers(name)
    assert density.sample().shape == (1, 3)
    first = density.sample(50, random_state=3)
    assert first.shape == (50, 3)
    assert_array_equal(density.sample(50, random_state=3), first)
    assert not np.array_equal(density.sample(50, random_state=4), first)
    assert not np.array_equal(density.sample(50), density.sample(50))
    drawn = density.sample(2000, random_state=0)
    assert abs(density.score(drawn) - density.score(numbers(600))) < 0.35


@every_density
def test_missing_cells_are_integrated_out_when_scoring(name):
    X, density = numbers(), of_numbers(name)
    parts = np.repeat(X[:5], 3, axis=0)
    parts[:, 0] = np.tile([0.0, 1.0, 2.0], 5)
    total = np.exp(density.score_samples(parts)).reshape(5, 3).sum(axis=1)
    # The rest is that of whole numbers that were not seen.
    total /= 1.0 - density.domain_.laws[0].unseen
    incomplete = X[:5].copy()
    incomplete[:, 0] = np.nan
    assert_allclose(np.exp(density.score_samples(incomplete)), total, rtol=1e-9)
    assert_allclose(density.score_samples(np.full((2, 3), np.nan)), 0.0, atol=1e-9)


@every_density
def test_the_density_of_a_number_integrates_to_one(name):
    grid = np.linspace(-30, 40, 200_001)
    rows = np.full((len(grid), 3), np.nan)
    rows[:, 2] = grid
    total = np.exp(of_numbers(name).score_samples(rows)).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=1e-3)


@every_density
def test_completions_keep_observed_cells_and_beat_a_guess(name):
    frame, others = table(600)[:400], table(600)[400:]
    density = new(name).fit(frame)
    incomplete = with_missing_cells(frame)
    observed = incomplete.notna()
    for strategy in ("mean", "mpe", "sample"):
        full = density.complete(incomplete, strategy=strategy, random_state=0)
        assert list(full.columns) == list(frame.columns)
        assert not full.isna().any().any()
        kept = full[observed].astype(object).where(observed)
        assert kept.equals(incomplete.astype(object).where(observed))
    with pytest.raises(ValueError, match="strategy must be one of .* got 'median'"):
        density.complete(incomplete, strategy="median")
    unknown = others.assign(kind=pd.Categorical([None] * 200, categories=["low", "mid", "top"]))
    kind = density.complete(unknown)["kind"]
    assert (kind.to_numpy() == others["kind"].to_numpy()).mean() > 0.8


@every_density
def test_marginals_are_distributions_and_observed_cells_are_certain(name):
    frame, density = table(), of_table(name)
    marginals = density.marginals(with_missing_cells(frame))
    assert len(marginals) == frame.shape[1]
    observed = with_missing_cells(frame).notna().to_numpy()
    for column, cells in enumerate(marginals):
        prob = cells.probabilities
        assert (prob is None) == (density.domain_.n_states[column] == 0)
        if prob is None:  # numbers without bins
            middle = cells.quantile(0.5)
            below = cells.cdf(middle)[~observed[:, column]]
            step = density.domain_[column].law.step
            if step == 0.0:
                assert_allclose(below, 0.5, atol=1e-9)
            else:  # the distribution function jumps on the points of a lattice
                assert np.all(below >= 0.5)
                assert np.all(cells.cdf(middle - step)[~observed[:, column]] < 0.5)
            continue
        # A bin may lie on both sides of an atom.
        edges = cells.edges
        n_parts = density.domain_.n_states[column] if edges is None else len(edges) + 1
        assert prob.shape == (len(frame), n_parts)
        assert n_parts >= density.domain_.n_states[column]
        assert_allclose(prob.sum(axis=1), 1.0)
        assert_allclose(prob[observed[:, column]].max(axis=1), 1.0)


@every_density
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(name):
    X = numbers(80)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    a = new(name).fit(X, sample_weight=weight)
    b = new(name).fit(np.repeat(X, weight, axis=0)[::-1])
    rows = numbers(50, seed=5)
    assert_allclose(a.score_samples(rows), b.score_samples(rows), rtol=0, atol=1e-12)
    share = np.random.default_rng(1).uniform(0.1, 1.0, 80)
    a = new(name).fit(X, sample_weight=share)
    b = new(name).fit(np.vstack([X, X]), sample_weight=np.append(share, share) / 2)
    assert_allclose(a.score_samples(X), b.score_samples(X), rtol=0, atol=1e-9)


@every_density
def test_threads_change_nothing(name):
    density, X = of_numbers(name), numbers(9000)
    X[::3, 1] = np.nan
    alone = density.score_samples(X), density.sample(9000, random_state=0)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(density.score_samples(X), alone[0])
        assert_array_equal(density.sample(9000, random_state=0), alone[1])


@every_density
def test_pandas_tables_come_back_with_names_and_dtypes(name):
    frame, density = table(), of_table(name)
    drawn = density.sample(40, random_state=0)
    assert isinstance(drawn, pd.DataFrame)
    assert drawn.dtypes.equals(frame.dtypes)
    assert density.feature_names_in_.tolist() == list(frame.columns)
    assert set(drawn["note"]) <= {"a", "b"}
    assert np.all(np.isfinite(density.score_samples(drawn)))
    with pytest.raises(ValueError, match="feature names"):
        density.score_samples(frame[frame.columns[::-1]])


@every_density
def test_polars_tables_come_back_with_names_and_dtypes_and_give_the_same_density(name):
    frame = polars_table()
    density = new(name).fit(frame)
    drawn = density.sample(40, random_state=0)
    assert isinstance(drawn, pl.DataFrame)
    assert drawn.schema == frame.schema
    incomplete = frame.with_columns(
        pl.when(pl.col("flag")).then(None).otherwise(pl.col("size")).alias("size")
    )
    full = density.complete(incomplete)
    assert full["size"].null_count() == 0
    others = ("kind", "flag", "note", "age")
    assert full.select(others).equals(frame.select(others))
    of_pandas = of_table(name).score_samples(table())
    assert_allclose(density.score_samples(frame), of_pandas, rtol=1e-12)


@every_density
def test_pickles_score_alike(name):
    again = pickle.loads(pickle.dumps(of_table(name)))
    assert_array_equal(again.score_samples(table()), of_table(name).score_samples(table()))


@pytest.mark.parametrize("name", WITH_CIRCUIT)
def test_the_circuit_can_be_saved_and_loaded(name, tmp_path):
    X, density = numbers(), of_numbers(name)
    save_circuit(density.circuit_, tmp_path / "circuit.npz")
    again = load_circuit(tmp_path / "circuit.npz")
    rows = density.domain_.encode(X)
    mass = density.domain_.encode_with_mass(X)[1]
    log_density = log_likelihood(again, rows)
    assert_array_equal(log_density, log_likelihood(density.circuit_, rows))
    assert_allclose(mass.with_rows(log_density), density.score_samples(X), rtol=1e-12)


@every_density
def test_grid_search_over_a_pipeline_uses_score(name):
    X = load_wine().data[::2, :3]
    pipeline = make_pipeline(FunctionTransformer(np.log1p), new(name))
    step, density = pipeline.steps[-1]
    candidates = {"alpha": [0.01, 1.0], "n_components": [1, 2], "n_hidden": [1, 2], "cv": [2, 3]}
    candidates["bootstrap"] = [False, True]
    parameter = next(p for p in candidates if hasattr(density, p))
    grid = {f"{step}__{parameter}": candidates[parameter]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


@every_density
def test_tags_tell_what_the_estimator_takes(name):
    tags = get_tags(new(name))
    assert tags.estimator_type == "density_estimator"
    assert tags.input_tags.allow_nan
    assert tags.input_tags.categorical
    assert not is_outlier_detector(new(name))


@every_density
def test_missing_cells_and_whole_missing_rows_are_allowed_in_training(name):
    frame = with_missing_cells(table())
    frame.iloc[3] = None
    assert np.all(np.isfinite(new(name).fit(frame).score_samples(frame)))


@every_density
def test_a_column_without_any_value_is_warned_of_by_name_and_stays_missing(name):
    frame = table().assign(size=np.nan)
    with pytest.warns(UserWarning, match="no value in the rows of fit.* Found column 'size'"):
        density = new(name).fit(frame)
    assert density.complete(frame)["size"].isna().all()
    assert density.sample(3)["size"].isna().all()
    assert np.all(np.isfinite(density.score_samples(frame)))


@every_density
def test_constant_columns_are_fine(name):
    X = numbers()
    X[:, 1] = 7.5
    density = new(name).fit(X)
    assert np.all(np.isfinite(density.score_samples(X)))
    assert np.all(np.isfinite(density.score_samples([[0.0, 1e6, 0.0]])))


@every_density
def test_infinity_is_refused_in_fit_and_in_score(name):
    X = numbers()
    for value in (np.inf, -np.inf):
        X[4, 2] = value
        for call in (new(name).fit, of_numbers(name).score_samples):
            with pytest.raises(ValueError, match="inf"):
                call(X)


@every_density
def test_unknown_categories_are_missing_or_refused(name):
    frame = table()
    other = frame[:5].assign(note="zzz")
    lenient = new(name).set_params(handle_unknown="missing").fit(frame)
    hidden = frame[:5].assign(note=None)
    assert_allclose(lenient.score_samples(other), lenient.score_samples(hidden))
    assert lenient.complete(other)["note"].tolist() == ["zzz"] * 5
    strict = new(name).set_params(handle_unknown="error").fit(frame)
    with pytest.raises(ValueError, match="zzz"):
        strict.score_samples(other)


@every_density
def test_declared_categories_are_states_even_when_unseen(name):
    X = np.column_stack([np.tile([0.0, 1.0], 50), np.tile([2.0, 3.0], 50)])
    declared = new(name).set_params(categories=[[0, 1, 2], [1, 2, 3]]).fit(X)
    assert declared.domain_.n_states.tolist() == [3, 3]
    assert np.all(np.isfinite(declared.score_samples([[2.0, 1.0]])))


@every_density
def test_a_fit_that_fails_or_is_interrupted_leaves_the_estimator_as_it_was(name, monkeypatch):
    X = numbers()
    fitted, density = pickle.loads(pickle.dumps(of_numbers(name))), new(name)
    before = fitted.score(X)
    wider = np.column_stack([X, np.full(200, 1e200)])
    for one in (fitted, density):
        with pytest.raises(ValueError, match="column 3"):
            one.fit(wider)
    assert fitted.score(X) == before
    assert not hasattr(density, "n_features_in_")

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skpc.estimators._learner.merge_rows", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:, :2])
    monkeypatch.undo()
    assert fitted.score(X) == before
